//! The text that is signed to prove a key (OpenAgents sheet, sections 3.2 and 3.6). One line each, ended by LF; nothing in it can hold an
//! LF, so that two different challenges never have the same text.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

/// Random bytes in a nonce.
pub const NONCE_BYTES: usize = 32;
/// A challenge is good for so long.
pub const CHALLENGE_SECONDS: u64 = 300;

/// What is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChallengeText(String);

impl ChallengeText {
    /// Of a join: `expires_at` is in milliseconds.
    pub fn of_join(network: &str, address: &str, nonce: &str, expires_at: u64) -> ChallengeText {
        ChallengeText(format!("rialto-join-v1\n{network}\n{address}\n{nonce}\n{expires_at}\n"))
    }

    /// Of a request to the registrar of this prefix.
    pub fn of_registrar(prefix: &str, name: &str, nonce: &str, expires_at: u64) -> ChallengeText {
        ChallengeText(format!("rialto-agentid-v1\n{prefix}\n{name}\n{nonce}\n{expires_at}\n"))
    }

    /// The bytes to sign.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// As `challenge` has it: standard base64 with padding.
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.bytes())
    }
}

/// The nonce of so much randomness.
pub fn nonce(bytes: &[u8; NONCE_BYTES]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
