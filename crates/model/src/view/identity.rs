//! What is shown of proofs: challenges to answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A challenge that proves a key when it is signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChallengeView {
    /// Names the challenge; it works once.
    pub nonce: String,
    /// What is signed, in base64.
    pub challenge: String,
    /// How it is signed: `Ed25519`, `RS256` or `ES256`, as the key does.
    pub algorithm: String,
    /// Seconds that it is good for.
    pub expires_in: u64,
    /// When that ends, milliseconds.
    pub expires_at: u64,
}
