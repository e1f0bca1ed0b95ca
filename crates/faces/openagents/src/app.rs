//! What every handler is given: the node, and what the face was told about its place in the world.

use axum::http::{HeaderMap, HeaderName, header};
use rialto_carrier::proxy::{Client, PROTO, Subnet};
use rialto_node::Node;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Settings of the face.
#[derive(Debug, Clone, Default)]
pub struct FaceConfig {
    /// Base URL others reach this node by, without a trailing slash.
    pub public_url: Option<String>,
    /// Origins that may call besides the node's own and loopback ones.
    pub allowed_origins: Vec<String>,
    /// Host names that may be asked for besides the public URL's and loopback ones.
    pub allowed_hosts: Vec<String>,
    /// Whether anybody may make workspaces; who is on this machine may where nobody else reaches the node, unless it says no.
    pub open_creation: Option<bool>,
    /// Proxies whose word on who the client is counts.
    pub trusted_proxies: Vec<Subnet>,
    /// Whether the listener speaks TLS.
    pub tls: bool,
    /// The address listened on.
    pub listen: String,
}

impl FaceConfig {
    /// Whether this client may make workspaces without a credential: unless the settings say so or not, who is on this machine
    /// may where nobody else reaches the node.
    pub(crate) fn creates_openly(&self, client: &Client) -> bool {
        let here = self.listen.parse::<std::net::SocketAddr>().is_ok_and(|addr| addr.ip().is_loopback());
        let others = self.public_url.is_some() || !self.trusted_proxies.is_empty();
        self.open_creation.unwrap_or(here && !others && client.is_local())
    }
}

/// Hashes of codes that were made and not used, and when each was made.
pub type Codes = Arc<std::sync::Mutex<Vec<([u8; 32], std::time::Instant)>>>;

/// State of the router.
#[derive(Debug, Clone)]
pub struct App {
    /// The node.
    pub node: Node,
    /// Settings.
    pub config: Arc<FaceConfig>,
    /// Fires when the node stops: streams say goodbye.
    pub stop: CancellationToken,
    /// One-time codes for the browser link.
    pub codes: Codes,
    /// Open WebSockets: whoever stops the node waits for their goodbyes.
    pub streams: TaskTracker,
}

impl App {
    /// The base URL, as configured or as the caller asked for it.
    pub fn base_url(&self, headers: &HeaderMap) -> String {
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let own = if self.config.tls { "https" } else { "http" };
        match (&self.config.public_url, text(&header::HOST)) {
            (Some(url), _) => url.clone(),
            (None, Some(host)) => format!("{}://{host}", text(&PROTO).unwrap_or(own)),
            (None, None) => format!("{own}://{}", self.config.listen),
        }
    }
}
