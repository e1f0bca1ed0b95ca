//! Proving names: challenges to join, and the calls of a node's registrar (sheet section 3). Keys and signatures are the caller's.

use crate::endpoint::encode;
use crate::error::ClientError;
use crate::http::Http;
use hyper::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What is to be signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinChallenge {
    /// Names the challenge; it works once.
    pub nonce: String,
    /// The bytes to sign, in base64.
    pub challenge: String,
    /// How to sign them.
    pub algorithm: String,
}

/// A challenge that was signed, sent inside a join as `credentials.key`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyProof {
    /// The challenge.
    pub nonce: String,
    /// Its bytes, signed, in base64.
    pub signature: String,
}

impl Http {
    /// A challenge to join under an address.
    pub async fn challenge(&self, address: &str, algorithm: &str) -> Result<JoinChallenge, ClientError> {
        self.post("challenge", &json!({ "agent_id": address, "algorithm": algorithm })).await
    }

    /// Registers a name at the node's registrar; its API key is shown this once.
    pub async fn register_name(&self, wish: &Value) -> Result<Value, ClientError> {
        self.node_call(Method::POST, "agentid/register", Some(wish)).await
    }

    /// A challenge to act at the node's registrar under a name.
    pub async fn name_challenge(&self, name: &str, algorithm: &str) -> Result<JoinChallenge, ClientError> {
        let wish = json!({ "agentName": name, "algorithm": algorithm });
        self.node_call(Method::POST, "agentid/challenge", Some(&wish)).await
    }

    /// A token for who has answered a challenge of the registrar.
    pub async fn name_token(&self, name: &str, proof: &KeyProof, audience: Option<&str>) -> Result<Value, ClientError> {
        let wish =
            json!({ "agentName": name, "nonce": proof.nonce, "signature": proof.signature, "audience": audience });
        self.node_call(Method::POST, "agentid/token", Some(&wish)).await
    }

    /// Replaces the key of a name, or revokes it (`rotate`, `revoke`).
    pub async fn change_name(
        &self,
        act: &str,
        name: &str,
        key: Option<&str>,
        proof: &KeyProof,
    ) -> Result<Value, ClientError> {
        let wish =
            json!({ "agentName": name, "publicKeyPem": key, "nonce": proof.nonce, "signature": proof.signature });
        self.node_call(Method::POST, &format!("agentid/{act}"), Some(&wish)).await
    }

    /// The DID document of a registered name.
    pub async fn did(&self, did: &str) -> Result<Value, ClientError> {
        self.node_call(Method::GET, &format!("agentid/did/{}", encode(did)), None).await
    }

    /// Accounts that may register names: the operator's call.
    pub async fn registrar_accounts(&self) -> Result<Value, ClientError> {
        self.node_call(Method::GET, "admin/registrar/accounts", None).await
    }

    /// Makes an account; its key is shown this once.
    pub async fn add_registrar_account(&self, name: &str) -> Result<Value, ClientError> {
        self.node_call(Method::POST, "admin/registrar/accounts", Some(&json!({ "name": name }))).await
    }

    /// Takes an account away.
    pub async fn remove_registrar_account(&self, name: &str) -> Result<Value, ClientError> {
        self.node_call(Method::DELETE, &format!("admin/registrar/accounts/{}", encode(name)), None).await
    }
}
