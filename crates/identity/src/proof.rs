//! Proofs and the verification level they are worth (OpenAgents Network Model, verification).
//!
//! This is the seam for invitations, key challenges, JWTs and DIDs. None of them is verified yet, and so presenting
//! one is refused: a proof that cannot be checked never turns into a join at a lower level.
//! Not here: network tokens and session ids, which are looked up by hash and prove no name.

use rialto_model::ErrorCode;

use crate::secret::Secret;

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

/// Something presented beside the name. It may hold secrets, which do not print.
#[derive(Debug, Clone)]
pub enum Proof {
    /// An invitation: proves no name, but opens an invite-only network.
    Invite(Secret),
    /// A signed challenge (level 1).
    Key {
        /// The challenge that was answered.
        nonce: String,
        /// Base64 or base64url.
        signature: String,
        /// The client's idea of the algorithm; the registrar's record decides.
        algorithm: Option<String>,
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

/// Why proofs give no level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// This node does not verify proofs of this kind.
    #[error("this node does not verify {0} proofs")]
    Unsupported(&'static str),
}

impl ProofError {
    /// The code a caller sees.
    pub fn code(self) -> ErrorCode {
        match self {
            Self::Unsupported(_) => ErrorCode::Unsupported,
        }
    }
}

impl Proof {
    /// The word for this kind, as in `credentials`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Invite(_) => "invite",
            Self::Key { .. } => "key",
            Self::Jwt(_) => "jwt",
            Self::Did { .. } => "did",
        }
    }
}

impl Level {
    /// The number on the wire.
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// The level that all presented proofs give together. One that fails, or that nobody here can verify, fails them
/// all; nothing presented is level 0.
pub fn verify(proofs: &[Proof]) -> Result<Level, ProofError> {
    match proofs.first() {
        None => Ok(Level::Claimed),
        Some(proof) => Err(ProofError::Unsupported(proof.kind())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_presented_is_level_zero() {
        assert_eq!(verify(&[]).unwrap().number(), 0);
        assert!(Level::Claimed < Level::Key && Level::Jwt < Level::Did);
    }

    #[test]
    fn no_proof_is_silently_downgraded() {
        let proofs = [
            Proof::Invite(Secret::presented("i")),
            Proof::Key { nonce: "n".to_owned(), signature: "s".to_owned(), algorithm: None },
            Proof::Jwt(Secret::presented("a.b.c")),
            Proof::Did {
                did: "did:key:z6Mk".to_owned(),
                verification_method: None,
                nonce: "n".to_owned(),
                signature: "s".to_owned(),
            },
        ];
        for proof in &proofs {
            let error = verify(std::slice::from_ref(proof)).unwrap_err();
            assert_eq!(error.code(), ErrorCode::Unsupported);
            assert!(error.to_string().contains(proof.kind()), "{error}");
        }
        assert!(verify(&proofs).is_err());
    }
}
