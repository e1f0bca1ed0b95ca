//! Joining: what a client says of itself, and what it gets (sheet sections 1.3 and 5).

use crate::backoff::Backoff;
use crate::identity::KeyProof;
use crate::secret::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;

/// How to join a network.
#[derive(Debug, Clone, Default)]
pub struct JoinOptions {
    /// The address to speak as, such as `agent:alice`.
    pub address: String,
    /// Network id or name; the node's default network when absent.
    pub network: Option<String>,
    /// Sent as `Authorization: Bearer`: a network token, an admin secret or a JWT.
    pub bearer: Option<Secret>,
    /// Sent inside the join as `credentials.token`.
    pub token: Option<Secret>,
    /// The code of an invitation, sent inside the join as `credentials.invite`.
    pub invite: Option<Secret>,
    /// A challenge that was signed ([`crate::Http::challenge`]), sent inside the join as `credentials.key`.
    pub key: Option<KeyProof>,
    /// A token of the name's registrar, sent inside the join as `credentials.jwt`.
    pub jwt: Option<Secret>,
    /// Whether a live session of this name may be ended; the node's rule when absent.
    pub takeover: Option<bool>,
    /// The session of an earlier join; presenting it keeps it.
    pub session_id: Option<Secret>,
    /// `observer` or `master`; `member` when absent.
    pub role: Option<String>,
    /// What kind of agent this is.
    pub agent_type: Option<String>,
    /// A line for the roster.
    pub description: Option<String>,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// Channels to be seated in.
    pub channels: Vec<String>,
    /// `queue` or `log`; the node's choice when absent.
    pub receive: Option<String>,
    /// Acks everything up to this id, then delivers what follows.
    pub resume_after: Option<String>,
    /// Delivers also what was acked before.
    pub replay: bool,
    /// At most this many unacked deliveries at a time (1 to 4096).
    pub window: Option<u16>,
    /// One ack per commit instead of one per event.
    pub batch_acks: bool,
    /// Waits between attempts to reconnect a stream.
    pub backoff: Backoff,
    /// A stream that cannot reconnect for this long gives up; never when absent.
    pub give_up_after: Option<Duration>,
}

impl JoinOptions {
    /// Joins as this address, with the node's defaults for everything else.
    pub fn new(address: impl Into<String>) -> JoinOptions {
        JoinOptions { address: address.into(), ..JoinOptions::default() }
    }

    /// The join payload, for the body of `POST /v1/join` and for the join frame alike.
    pub fn payload(&self) -> Value {
        let mut out = json!({ "agent_id": self.address });
        let Some(map) = out.as_object_mut() else {
            return out;
        };
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                map.insert(key.to_owned(), value);
            }
        };
        let text = |t: &Option<String>| t.clone().map(Value::from);
        let list = |l: &Vec<String>| (!l.is_empty()).then(|| json!(l));
        let secrets = [("token", &self.token), ("invite", &self.invite), ("jwt", &self.jwt)];
        let mut secrets: serde_json::Map<String, Value> = secrets
            .into_iter()
            .filter_map(|(name, secret)| Some((name.to_owned(), json!(secret.as_ref()?.expose()))))
            .collect();
        if let Some(proof) = &self.key {
            secrets.insert("key".to_owned(), json!(proof));
        }
        put("credentials", (!secrets.is_empty()).then_some(Value::Object(secrets)));
        put("takeover", self.takeover.map(Value::Bool));
        put("session_id", self.session_id.as_ref().map(|s| json!(s.expose())));
        put("role", text(&self.role));
        put("agent_type", text(&self.agent_type));
        put("description", text(&self.description));
        put("capabilities", list(&self.capabilities));
        put("channels", list(&self.channels));
        put("receive", text(&self.receive));
        put("resume_after", text(&self.resume_after));
        put("replay", self.replay.then_some(Value::Bool(true)));
        put("window", self.window.map(Value::from));
        put("acks", self.batch_acks.then(|| json!("batch")));
        out
    }
}

/// What a join gives.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Joined {
    /// The network's id.
    pub network_id: String,
    /// The canonical address we now speak as.
    pub address: String,
    /// The session that this join ended, if somebody was there.
    #[serde(default)]
    pub took_over: Option<Value>,
    /// The role that was granted.
    #[serde(default)]
    pub role: String,
    /// Verification level.
    #[serde(default)]
    pub verification: u8,
    /// The secret of this membership.
    pub session_id: Secret,
    /// When the session ends by itself.
    #[serde(default)]
    pub expires_at: Option<u64>,
    /// How often to show a sign of life.
    #[serde(default)]
    pub heartbeat_ms: Option<u64>,
    /// Unacked deliveries at a time.
    #[serde(default)]
    pub window: Option<u16>,
    /// The newest event of the network.
    #[serde(default)]
    pub head_id: Option<String>,
    /// Deliveries waiting.
    #[serde(default)]
    pub pending: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_says_only_what_was_asked_for() {
        assert_eq!(JoinOptions::new("agent:a").payload(), json!({"agent_id": "agent:a"}));
        let options = JoinOptions {
            token: Some("T".into()),
            session_id: Some("S".into()),
            resume_after: Some("e9".into()),
            window: Some(16),
            batch_acks: true,
            ..JoinOptions::new("agent:a")
        };
        assert_eq!(
            options.payload(),
            json!({"agent_id":"agent:a","credentials":{"token":"T"},"session_id":"S","resume_after":"e9","window":16,"acks":"batch"})
        );
        assert!(!format!("{options:?}").contains("\"T\""));
    }
}
