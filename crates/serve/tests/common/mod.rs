//! A node in memory behind a real listener.

#[allow(dead_code, reason = "for the tests that speak WebSocket")]
pub(crate) mod client;

use rialto_carrier::{Face, FaceState, HttpService, ListenerSettings};
use rialto_model::network::Preset;
use rialto_node::{CreateNetwork, Host, Node, NodeParts};
use rialto_openagents::OpenAgents;
use rialto_operator::Operator;
use rialto_serve::Listener;
use rialto_store::MemoryStore;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub(crate) struct Server {
    pub(crate) node: Node,
    pub(crate) addr: SocketAddr,
    pub(crate) stop: CancellationToken,
}

/// A server that takes so many connections.
pub(crate) async fn server(connections_max: usize) -> Server {
    serve(Node::over(Arc::new(MemoryStore::new()), None, false).await.unwrap(), connections_max).await
}

/// A server on another machine than this one, such as one whose clock is moved by hand.
#[allow(dead_code, reason = "for the tests that move time")]
pub(crate) async fn server_on(host: Host) -> Server {
    let parts = NodeParts { host, ..NodeParts::over(Arc::new(MemoryStore::new())) };
    serve(Node::open_with(parts).await.unwrap(), 100).await
}

async fn serve(node: Node, connections_max: usize) -> Server {
    node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), None, connections_max).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let settings = ListenerSettings { listen: addr.to_string(), ..ListenerSettings::default() };
    let state = FaceState::new(node.clone(), settings, stop.clone());
    let faces: Vec<Box<dyn Face>> =
        vec![Box::new(OpenAgents::new(state.clone())), Box::new(Operator::new(state.clone()))];
    tokio::spawn(listener.serve(HttpService::new(state, faces), stop.clone()));
    Server { node, addr, stop }
}
