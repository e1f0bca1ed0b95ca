//! Proof in, level out: secrets and their hashes, what a bearer is, and what a proof is worth.
//!
//! Invariant: a secret in clear lives in a [`Secret`] only, which never prints itself; what is kept is its SHA-256.
//! Not here: sockets, clocks, who is a member (`rialto-engine`) and where hashes are stored (`rialto-store`).

pub mod bearer;
pub mod proof;
pub mod secret;

pub use bearer::{BEARER_BYTES_MAX, Bearer, BearerError};
pub use proof::{Level, Proof, ProofError, verify};
pub use secret::{ChosenTokenError, NoEntropy, Secret, TOKEN_CHARS_MIN, same, sha256};
