//! Proofs and the verification level they are worth (OpenAgents sheet, section 3).
//!
//! Invariant: a proof that cannot be read is an error, never nothing: it must not turn into a join at a lower level.
//! Not here: network tokens and session ids, which are looked up by hash and prove no name; and looking up what a proof is held against.

use crate::bearer::is_jwt;
use crate::secret::Secret;
use serde::Deserialize;
use serde_json::Value;

/// How well an identity is proved. A property of the membership, so it may differ between networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// The name was claimed, nothing more.
    Claimed = 0,
    /// A signature verified against the registrar's record of the key.
    Key = 1,
    /// A token of the registrar verified.
    Jwt = 2,
    /// A DID was resolved and possession of its key proved.
    Did = 3,
}

impl Level {
    /// The number on the wire.
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// Something presented to prove a name. It may hold secrets, which do not print.
#[derive(Debug, Clone)]
pub enum Proof {
    /// A signed challenge (level 1).
    Key {
        /// The challenge that was answered.
        nonce: String,
        /// Base64 or base64url.
        signature: String,
    },
    /// A registrar's token (level 2).
    Jwt(Secret),
    /// A DID with a signed challenge (level 3).
    Did {
        /// The DID to resolve.
        did: String,
        /// Which of its keys signed, when the client says so.
        verification_method: Option<String>,
        /// The challenge that was answered.
        nonce: String,
        /// Base64 or base64url.
        signature: String,
    },
}

impl Proof {
    /// The word for this kind, as in `credentials`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Key { .. } => "key",
            Self::Jwt(_) => "jwt",
            Self::Did { .. } => "did",
        }
    }

    /// The most that it can be worth.
    pub fn level(&self) -> Level {
        match self {
            Self::Key { .. } => Level::Key,
            Self::Jwt(_) => Level::Jwt,
            Self::Did { .. } => Level::Did,
        }
    }
}

/// The `credentials` of a join.
#[derive(Debug, Clone, Default)]
pub struct JoinCredentials {
    /// The network's token.
    pub token: Option<Secret>,
    /// The secret of an invitation.
    pub invite: Option<Secret>,
    /// Proofs of the name, at most one of each kind.
    pub proofs: Vec<Proof>,
}

/// A member of `credentials` that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("credentials.{0} cannot be read: {1}")]
pub struct UnreadableCredentials(pub &'static str, pub &'static str);

#[derive(Deserialize)]
struct KeyProof {
    nonce: String,
    signature: String,
}

#[derive(Deserialize)]
struct DidProof {
    did: String,
    #[serde(default)]
    verification_method: Option<String>,
    nonce: String,
    signature: String,
}

impl JoinCredentials {
    /// Reads `credentials`: an object, or a text, which is a JWT if it looks like one and the network's token otherwise.
    pub fn read(credentials: Option<&Value>) -> Result<JoinCredentials, UnreadableCredentials> {
        let mut out = JoinCredentials::default();
        let map = match credentials {
            None | Some(Value::Null) => return Ok(out),
            Some(Value::String(text)) if is_jwt(text) => {
                out.proofs.push(Proof::Jwt(Secret::presented(text.as_str())));
                return Ok(out);
            }
            Some(Value::String(text)) => {
                out.token = Some(Secret::presented(text.as_str()));
                return Ok(out);
            }
            Some(Value::Object(map)) => map,
            Some(Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
                return Err(UnreadableCredentials("*", "credentials are an object or a text"));
            }
        };
        let said = |name: &str| map.get(name).filter(|value| !value.is_null());
        let text = |name: &'static str| match said(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(Secret::presented(text.as_str()))),
            Some(_) => Err(UnreadableCredentials(name, "it is a text")),
        };
        out.token = text("token")?;
        out.invite = text("invite")?;
        if let Some(value) = said("key") {
            let KeyProof { nonce, signature } = serde_json::from_value(value.clone())
                .map_err(|_| UnreadableCredentials("key", "it is an object {nonce, signature}"))?;
            out.proofs.push(Proof::Key { nonce, signature });
        }
        if let Some(jwt) = text("jwt")? {
            out.proofs.push(Proof::Jwt(jwt));
        }
        if let Some(value) = said("did") {
            let DidProof { did, verification_method, nonce, signature } = serde_json::from_value(value.clone())
                .map_err(|_| {
                    UnreadableCredentials("did", "it is an object {did, nonce, signature, verification_method?}")
                })?;
            out.proofs.push(Proof::Did { did, verification_method, nonce, signature });
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn credentials_are_read_in_every_form() {
        let kinds = |value: Value| {
            let read = JoinCredentials::read(Some(&value)).unwrap();
            let kinds: Vec<_> = read.proofs.iter().map(Proof::kind).collect();
            (read.token.is_some(), read.invite.is_some(), kinds)
        };
        assert_eq!(kinds(json!("a-token-of-mine")), (true, false, vec![]));
        assert_eq!(kinds(json!("aa.bb.cc")), (false, false, vec!["jwt"]));
        assert_eq!(kinds(json!(null)), (false, false, vec![]));
        let all = json!({ "token": "t", "invite": "i", "jwt": "j", "key": { "nonce": "n", "signature": "s" },
            "did": { "did": "did:key:z", "nonce": "n", "signature": "s" } });
        assert_eq!(kinds(all), (true, true, vec!["key", "jwt", "did"]));
        assert_eq!(kinds(json!({ "key": null, "jwt": null })), (false, false, vec![]));
    }

    #[test]
    fn what_cannot_be_read_is_never_nothing() {
        for bad in [
            json!(5),
            json!([]),
            json!({ "key": "x" }),
            json!({ "key": { "nonce": "n" } }),
            json!({ "jwt": 5 }),
            json!({ "did": "did:key:z" }),
            json!({ "did": { "did": "did:key:z" } }),
            json!({ "token": 5 }),
            json!({ "invite": {} }),
        ] {
            assert!(JoinCredentials::read(Some(&bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn levels_are_ordered() {
        assert!(Level::Claimed < Level::Key && Level::Key < Level::Jwt && Level::Jwt < Level::Did);
        assert_eq!(Level::Did.number(), 3);
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in any::<String>()) {
            let _ = JoinCredentials::read(Some(&json!(text.clone())));
            let _ = JoinCredentials::read(Some(&json!({ "jwt": text })));
        }
    }
}
