//! Proof in, level out: secrets and their hashes, what a bearer is, keys, challenges, JWTs and DIDs, and what each proves.
//!
//! Invariants: a secret in clear lives in a [`Secret`] only, which never prints itself; what is kept is its SHA-256. Signatures and JWTs are
//! judged by the crates of this tree's cryptography, and nothing here knows the time: it comes in.
//! Not here: sockets, clocks, who is a member (`rialto-engine`) and where hashes are stored (`rialto-store`).

pub mod algorithm;
pub mod bearer;
pub mod challenge;
pub mod did;
mod jose;
pub mod jwks;
pub mod jwt;
pub mod key;
pub mod proof;
pub mod secret;
pub mod signing;

pub use algorithm::Algorithm;
pub use bearer::{BEARER_BYTES_MAX, Bearer, BearerError};
pub use challenge::ChallengeText;
pub use did::{Did, DidDocument};
pub use jwks::KeySet;
pub use key::{Jwk, KeyError, PublicKey};
pub use proof::{JoinCredentials, Level, Proof, UnreadableCredentials};
pub use secret::{ChosenTokenError, NoEntropy, Secret, TOKEN_CHARS_MIN, same, sha256};
pub use signing::{KeyPair, KeyPairError};
