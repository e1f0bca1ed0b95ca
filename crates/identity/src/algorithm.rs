//! The three ways of signing that this node takes (OpenAgents sheet, sections 3.2 and 3.3). There is no fourth: a name that is not in the
//! table is refused, and `none` and shared secrets have no name here at all.

use std::fmt;

/// How something is signed. Each kind of key has exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// Ed25519.
    Ed25519,
    /// RSASSA-PKCS1-v1_5 with SHA-256, a modulus of 2048 to 8192 bits.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
}

impl Algorithm {
    /// By its name in a request or a record: `Ed25519` (or `EdDSA`), `RS256`, `ES256`.
    pub fn from_name(name: &str) -> Option<Algorithm> {
        match name {
            "Ed25519" | "EdDSA" => Some(Self::Ed25519),
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            _ => None,
        }
    }

    /// Its name in a challenge and in the registrar's record.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ed25519 => "Ed25519",
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
        }
    }

    /// Its name in the header of a JWT.
    pub fn jws_name(self) -> &'static str {
        match self {
            Self::Ed25519 => "EdDSA",
            Self::Rs256 | Self::Es256 => self.name(),
        }
    }

    pub(crate) fn jose(self) -> jsonwebtoken::Algorithm {
        match self {
            Self::Ed25519 => jsonwebtoken::Algorithm::EdDSA,
            Self::Rs256 => jsonwebtoken::Algorithm::RS256,
            Self::Es256 => jsonwebtoken::Algorithm::ES256,
        }
    }

    /// Back from the JOSE crate; what this node does not take has no name here.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the crate's list grows; whatever it adds is not taken")]
    pub(crate) fn from_jose(algorithm: jsonwebtoken::Algorithm) -> Option<Algorithm> {
        match algorithm {
            jsonwebtoken::Algorithm::EdDSA => Some(Self::Ed25519),
            jsonwebtoken::Algorithm::RS256 => Some(Self::Rs256),
            jsonwebtoken::Algorithm::ES256 => Some(Self::Es256),
            _ => None,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
