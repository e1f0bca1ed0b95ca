//! Where a node is and what opens it.

use rialto_openagents::grpc::pb::network_client::NetworkClient;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;
use tonic::transport::Channel;

/// A network of a running node, as clients need to know it. A node that starts again has another place.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// `http://` and the address.
    pub url: String,
    /// The network's id.
    pub network: String,
    /// The network's token.
    pub token: String,
    /// The operator's secret.
    pub admin: String,
    /// The binary, for clients that are programs.
    pub program: PathBuf,
    /// A directory for the sessions of `rialto stdio`.
    pub sessions: PathBuf,
    /// The node's data directory, for doors whose address is told there.
    pub data: PathBuf,
}

impl Place {
    /// Where to connect to.
    pub fn address(&self) -> Result<SocketAddr, String> {
        let address = self.url.strip_prefix("http://").unwrap_or(&self.url);
        address.parse().map_err(|e| format!("{}: {e}", self.url))
    }

    /// A gRPC client.
    pub async fn grpc(&self) -> Result<NetworkClient<Channel>, String> {
        let endpoint = tonic::transport::Endpoint::new(self.url.clone()).map_err(|e| e.to_string())?;
        Ok(NetworkClient::new(endpoint.connect().await.map_err(|e| e.to_string())?))
    }

    /// Everything in the log, as the operator reads it.
    pub async fn stored(&self) -> Result<Vec<Value>, String> {
        let mut http = crate::harness::Http::new(self.address()?);
        let (mut after, mut events) = ("seq:0".to_owned(), Vec::new());
        loop {
            let path = format!("/v1/ws/{}/events?view=log&limit=500&after={after}", self.network);
            let mut page = http.get(&path, &self.admin).await.data();
            let Value::Array(found) = page["events"].take() else { return Err(format!("{path}: no events")) };
            events.extend(found);
            if page["has_more"] != true {
                return Ok(events);
            }
            after = page["next_cursor"].as_str().ok_or("no cursor")?.to_owned();
        }
    }
}
