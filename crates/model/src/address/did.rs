//! The DID form of an address: `did:` in front of `openagents:`, `key:` and `web:`, and nothing else.
//! Not here: resolving a DID, and registrars that map their prefix to a DID method of another name.

use super::{Address, AddressError, Entity};

/// Whether a prefix is at the same time a DID method.
pub(super) fn is_method(prefix: &str) -> bool {
    matches!(prefix, "openagents" | "key" | "web")
}

impl Address {
    /// `did:openagents:N` of `openagents:N`; likewise for `key:` and `web:`. A DID is the same on every network, so
    /// a network prefix plays no part.
    pub fn to_did(&self) -> Result<String, AddressError> {
        match self.entity() {
            Entity::Registered { prefix, name } if is_method(prefix) => Ok(format!("did:{prefix}:{name}")),
            Entity::Registered { .. }
            | Entity::Core
            | Entity::Agent(_)
            | Entity::Human(_)
            | Entity::Channel(_)
            | Entity::Mod(_)
            | Entity::Group(_)
            | Entity::Resource { .. } => Err(AddressError::NoDidForm),
        }
    }

    /// The address of a DID. Unlike [`Address::parse`], which also reads DIDs, this takes nothing else.
    pub fn from_did(did: &str) -> Result<Self, AddressError> {
        if did.starts_with("did:") { Self::parse(did) } else { Err(AddressError::BadDid) }
    }
}
