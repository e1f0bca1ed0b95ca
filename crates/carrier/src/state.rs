//! What all faces of a listener share: the node, what is known of the node's place in the world, and the signal to stop.

use crate::paces::Paces;
use crate::proxy::{Client, PROTO, Subnet};
use axum::http::{HeaderMap, HeaderName, header};
use rialto_node::{Network, Node};
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Settings of a listener, as far as its faces are concerned.
#[derive(Debug, Clone, Default)]
pub struct ListenerSettings {
    /// Base URL others reach this node by, without a trailing slash.
    pub public_url: Option<String>,
    /// Origins that may call besides the node's own and loopback ones.
    pub allowed_origins: Vec<String>,
    /// Host names that may be asked for besides the public URL's and loopback ones.
    pub allowed_hosts: Vec<String>,
    /// Whether anybody may make networks of their own; who is on this machine may where nobody else reaches the node, unless it says no.
    pub open_creation: Option<bool>,
    /// Proxies whose word on who the client is counts.
    pub trusted_proxies: Vec<Subnet>,
    /// Peers are not slowed down, whatever they ask for.
    pub unpaced: bool,
    /// Whether the listener speaks TLS.
    pub tls: bool,
    /// The address listened on.
    pub listen: String,
}

impl ListenerSettings {
    /// Whether this client may make networks without a credential: unless the settings say so or not, who is on this machine
    /// may where nobody else reaches the node.
    pub fn creates_openly(&self, client: &Client) -> bool {
        let here = self.listen.parse::<std::net::SocketAddr>().is_ok_and(|addr| addr.ip().is_loopback());
        let others = self.public_url.is_some() || !self.trusted_proxies.is_empty();
        self.open_creation.unwrap_or(here && !others && client.is_local())
    }
}

/// What every handler of every face is given. Cheap to clone.
#[derive(Debug, Clone)]
pub struct FaceState {
    /// The node.
    pub node: Node,
    /// Settings of the listener.
    pub settings: Arc<ListenerSettings>,
    /// Fires when the node stops: streams say goodbye.
    pub stop: CancellationToken,
    /// How often one peer may ask for what costs others something.
    pub paces: Arc<Paces>,
    /// Upgraded connections: whoever stops the node waits for their goodbyes.
    pub streams: TaskTracker,
}

impl FaceState {
    /// The state of the faces of one listener.
    pub fn new(node: Node, settings: ListenerSettings, stop: CancellationToken) -> FaceState {
        let paces = if settings.unpaced { Paces::unbounded() } else { Paces::default() };
        FaceState { node, settings: Arc::new(settings), stop, paces: Arc::new(paces), streams: TaskTracker::new() }
    }

    /// The base URL, as configured or as the caller asked for it.
    pub fn base_url(&self, headers: &HeaderMap) -> String {
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let own = if self.settings.tls { "https" } else { "http" };
        match (&self.settings.public_url, text(&header::HOST)) {
            (Some(url), _) => url.clone(),
            (None, Some(host)) => format!("{}://{host}", text(&PROTO).unwrap_or(own)),
            (None, None) => format!("{own}://{}", self.settings.listen),
        }
    }
}

/// Whether strangers may know of a network.
pub fn is_listed(network: &Network) -> bool {
    network.settings().metadata.get("listed").and_then(Value::as_bool).unwrap_or(true)
}

/// Whether a listener is reached from other machines and does not encrypt.
pub fn listen_is_plain(listen: &str, tls: bool) -> bool {
    !tls && !listen.parse::<std::net::SocketAddr>().is_ok_and(|at| at.ip().to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reached_from_outside_without_tls() {
        for (listen, tls, plain) in [
            ("127.0.0.1:8700", false, false),
            ("[::1]:8700", false, false),
            ("0.0.0.0:8700", false, true),
            ("[::]:8700", false, true),
            ("192.0.2.1:8700", false, true),
            ("0.0.0.0:8700", true, false),
        ] {
            assert_eq!(listen_is_plain(listen, tls), plain, "{listen}");
        }
    }
}
