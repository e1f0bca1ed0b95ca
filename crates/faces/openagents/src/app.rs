//! What every handler is given: the node, and what the face was told about its place in the world.

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
    /// Whether anybody may make workspaces.
    pub open_creation: bool,
    /// Whether the listener speaks TLS.
    pub tls: bool,
    /// The address listened on.
    pub listen: String,
}

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
    pub codes: Arc<std::sync::Mutex<Vec<[u8; 32]>>>,
    /// Open WebSockets: whoever stops the node waits for their goodbyes.
    pub streams: TaskTracker,
}

impl App {
    /// The base URL, as configured or as the caller asked for it.
    pub fn base_url(&self, host: Option<&str>) -> String {
        match (&self.config.public_url, host) {
            (Some(url), _) => url.clone(),
            (None, Some(host)) => format!("{}://{host}", if self.config.tls { "https" } else { "http" }),
            (None, None) => format!("http://{}", self.config.listen),
        }
    }
}
