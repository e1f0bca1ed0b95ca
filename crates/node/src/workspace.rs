//! What a workspace needs of the outside: secrets of invitations.

use crate::Network;
use rialto_engine::AdminOp;
use rialto_model::payload::NewInvitation;
use rialto_model::{ErrorCode, Fault};
use serde_json::Value;

impl Network {
    /// The operator invites somebody. The answer holds the code, which is known nowhere else.
    pub async fn invite(&self, wish: NewInvitation) -> Result<Value, Fault> {
        let secret = self.handle.host.secret().map_err(|_| Fault::from(ErrorCode::Internal))?;
        let mut result = self.admin(AdminOp::Invite(wish, secret.sha256())).await?;
        if let Some(map) = result.as_object_mut() {
            map.insert("code".into(), secret.expose().into());
            map.insert("url".into(), crate::workspace::url(self.id(), secret.expose()).into());
        }
        Ok(result)
    }
}

/// Where an invitation is taken, below the node's address.
pub(crate) fn url(network: &str, code: &str) -> String {
    format!("/?network={network}&invite={code}")
}
