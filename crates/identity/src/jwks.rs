//! Key sets of registrars (RFC 7517).

use crate::algorithm::Algorithm;
use crate::key::{Jwk, PublicKey};
use serde::Deserialize;
use serde_json::Value;

/// Keys looked at in one set; a set with more is refused.
pub const KEYS_MAX: usize = 100;

/// The keys of a set that can verify tokens. Others in it (for encryption, of kinds that are not known) are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeySet(Vec<(Option<String>, PublicKey)>);

/// Not a key set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no JSON Web Key Set: an object with `keys`, at most {KEYS_MAX} of them")]
pub struct NoKeySet;

impl KeySet {
    /// Reads `{"keys": […]}`.
    pub fn parse(text: &[u8]) -> Result<KeySet, NoKeySet> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let set: Set = serde_json::from_slice(text).map_err(|_| NoKeySet)?;
        if set.keys.len() > KEYS_MAX {
            return Err(NoKeySet);
        }
        let keys = set.keys.into_iter().filter_map(|key| {
            let jwk: Jwk = serde_json::from_value(key).ok()?;
            let verifies = jwk.key_use.as_deref().is_none_or(|key_use| key_use == "sig");
            let key = PublicKey::from_jwk(&jwk).ok().filter(|_| verifies)?;
            Some((jwk.kid, key))
        });
        Ok(KeySet(keys.collect()))
    }

    /// A set of one's own keys, each under its thumbprint.
    pub fn of(keys: impl IntoIterator<Item = PublicKey>) -> KeySet {
        KeySet(keys.into_iter().map(|key| (Some(key.thumbprint()), key)).collect())
    }

    /// The key of that name that signs so; without a name the only one that does.
    pub fn choose(&self, kid: Option<&str>, algorithm: Algorithm) -> Option<&PublicKey> {
        let signs = self.0.iter().filter(|(_, key)| key.algorithm() == algorithm);
        let mut fitting = signs.filter(|(name, _)| kid.is_none() || name.as_deref() == kid).map(|(_, key)| key);
        let first = fitting.next()?;
        fitting.next().is_none().then_some(first)
    }

    /// Whether it has a key of that name.
    pub fn has(&self, kid: &str) -> bool {
        self.0.iter().any(|(name, _)| name.as_deref() == Some(kid))
    }

    /// As JSON, with what each key is for.
    pub fn to_json(&self) -> Value {
        let keys = self.0.iter().map(|(kid, key)| {
            let mut jwk = key.to_jwk();
            jwk.alg = Some(key.algorithm().jws_name().to_owned());
            jwk.key_use = Some("sig".to_owned());
            jwk.kid.clone_from(kid);
            jwk
        });
        serde_json::json!({ "keys": keys.collect::<Vec<_>>() })
    }
}
