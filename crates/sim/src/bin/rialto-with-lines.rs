//! A node with one more face: the example of `docs/faces.md`, beside the two that `rialto` mounts. For the face contract, which starts it
//! as it starts `rialto up`.
//!
//! Where the lines are spoken stands in the file `lines` of the data directory.

use rialto_carrier::{Face, FaceState, HttpService, ListenerSettings};
use rialto_model::network::Preset;
use rialto_node::identity::Secret;
use rialto_node::{CreateNetwork, Network, Node, NodeConfig};
use rialto_openagents::OpenAgents;
use rialto_operator::Operator;
use rialto_serve::Listener;
use serde_json::json;
use std::error::Error;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

const CONNECTIONS_MAX: usize = 1000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let after = |name: &str| words.iter().skip_while(|word| *word != name).nth(1).cloned();
    let data = PathBuf::from(after("--data").ok_or("--data is missing")?);
    let token = Secret::chosen_token(&after("--token").ok_or("--token is missing")?)?;
    std::fs::create_dir_all(&data)?;

    let node = Node::open(NodeConfig { data: Some(data.clone()), ..NodeConfig::default() }).await?;
    let network = default_network(&node, token).await?;
    let listener = Listener::bind("127.0.0.1:0".parse()?, None, CONNECTIONS_MAX).await?;
    let listen = listener.local_addr()?;
    let stop = CancellationToken::new();
    let settings = ListenerSettings { listen: listen.to_string(), ..ListenerSettings::default() };
    let state = FaceState::new(node.clone(), settings, stop.clone());
    let faces: Vec<Box<dyn Face>> =
        vec![Box::new(OpenAgents::new(state.clone())), Box::new(Operator::new(state.clone()))];
    let serving = tokio::spawn(listener.serve(HttpService::new(state, faces), stop.clone()));

    let lines = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    std::fs::write(data.join("lines"), lines.local_addr()?.to_string())?;
    let speaking = tokio::spawn(rialto_line_face::serve(lines, node.clone(), stop.clone()));

    let run = json!({
        "pid": std::process::id(), "url": format!("http://{listen}"), "listen": listen.to_string(),
        "admin_secret": node.admin_secret().expose(), "network": { "id": network.id() },
    });
    write_whole(&data.join("run.json"), &run.to_string())?;
    tokio::signal::ctrl_c().await?;
    node.stop().await;
    stop.cancel();
    serving.await?;
    speaking.await?;
    Ok(())
}

async fn default_network(node: &Node, token: Secret) -> Result<Network, String> {
    if let Some(network) = node.default_network() {
        return Ok(network);
    }
    let wish = CreateNetwork { token: Some(token), ..CreateNetwork::named("main", Preset::Workspace) };
    node.create_network(wish).await.map(|(network, _)| network).map_err(|fault| fault.to_string())
}

/// Whoever reads it sees all of it or none.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let draft = path.with_extension("draft");
    std::fs::write(&draft, text)?;
    std::fs::rename(draft, path)
}
