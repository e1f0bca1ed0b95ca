//! Secrets: session ids, network tokens and the per-run admin secret, all 32 random bytes in base64url.
//! Kept and compared as plain SHA-256 of the text: 256 bits of randomness need neither salt nor a slow hash, and a
//! hash made by any other tool (`printf %s TOKEN | sha256sum`) is the same one.

use std::fmt;
use std::hint::black_box;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::bearer;

/// Random bytes in a secret made here.
pub(crate) const SECRET_BYTES: usize = 32;
/// Shortest token an operator may choose instead of a made one.
pub const TOKEN_CHARS_MIN: usize = 16;

/// A secret in clear. It prints as `[secret]`, cannot be compared by `==` and is in no serialised form; its text
/// leaves only by [`Secret::expose`].
#[derive(Clone)]
pub struct Secret(Box<str>);

/// The operating system gave no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gives no random bytes")]
pub struct NoEntropy;

/// Why a token chosen by an operator is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChosenTokenError {
    /// Fewer than [`TOKEN_CHARS_MIN`] characters.
    #[error("a token has at least {TOKEN_CHARS_MIN} characters")]
    TooShort,
    /// More than [`bearer::BEARER_BYTES_MAX`] bytes could never be presented.
    #[error("a token has at most {} bytes", bearer::BEARER_BYTES_MAX)]
    TooLong,
    /// White space and other characters that do not survive an HTTP header.
    #[error("a token is made of visible ASCII characters")]
    BadCharacter,
    /// It would be taken for a JWT wherever it is presented.
    #[error("a token must not look like a JWT (three parts of base64url with dots between)")]
    LooksLikeJwt,
}

impl Secret {
    /// A new secret: 32 random bytes, 43 characters.
    pub fn generate() -> Result<Self, NoEntropy> {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes).map_err(|_| NoEntropy)?;
        Ok(Self(URL_SAFE_NO_PAD.encode(bytes).into()))
    }

    /// Holds a secret that somebody presented, whatever it looks like.
    pub fn presented(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// Holds a network token that an operator chose, if it can work as one.
    pub fn chosen_token(text: &str) -> Result<Self, ChosenTokenError> {
        if text.len() > bearer::BEARER_BYTES_MAX {
            return Err(ChosenTokenError::TooLong);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ChosenTokenError::BadCharacter);
        }
        if text.len() < TOKEN_CHARS_MIN {
            return Err(ChosenTokenError::TooShort);
        }
        if bearer::is_jwt(text) {
            return Err(ChosenTokenError::LooksLikeJwt);
        }
        Ok(Self::presented(text))
    }

    /// The text, for the one place that hands it to its owner.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What is kept of it.
    pub fn sha256(&self) -> [u8; 32] {
        sha256(&self.0)
    }

    /// Whether this is the secret with that hash, in constant time.
    pub fn matches(&self, hash: &[u8; 32]) -> bool {
        same(&self.sha256(), hash)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// SHA-256 of the text of a secret.
pub fn sha256(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// Compares two hashes in a time that does not depend on where they differ.
pub fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    let difference = a.iter().zip(b).fold(0, |seen, (a, b)| black_box(seen | (a ^ b)));
    black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn made_secrets_are_32_bytes_and_differ() {
        let made: BTreeSet<String> = (0..100).map(|_| Secret::generate().unwrap().expose().to_owned()).collect();
        assert_eq!(made.len(), 100);
        for text in &made {
            assert_eq!(URL_SAFE_NO_PAD.decode(text).unwrap().len(), SECRET_BYTES);
        }
    }

    #[test]
    fn a_secret_never_prints_itself() {
        let secret = Secret::presented("hunter2hunter2hunter2");
        let printed = format!("{secret} {secret:?} {:?}", Some(&secret));
        assert_eq!(printed, "[secret] [secret] Some([secret])");
    }

    #[test]
    fn the_hash_is_plain_sha256_of_the_text() {
        let hex: String = sha256("abc").iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let secret = Secret::generate().unwrap();
        assert_eq!(secret.sha256(), sha256(secret.expose()));
    }

    #[test]
    fn a_secret_matches_its_own_hash_only() {
        let secret = Secret::generate().unwrap();
        let hash = secret.sha256();
        assert!(secret.matches(&hash));
        assert!(!Secret::generate().unwrap().matches(&hash));
        for at in 0..32 {
            let mut other = hash;
            other[at] ^= 1;
            assert!(!same(&hash, &other), "byte {at}");
        }
    }

    #[test]
    fn chosen_tokens_must_be_able_to_work() {
        let check = |text: &str| Secret::chosen_token(text).map(|secret| secret.0);
        assert!(check(&"a".repeat(TOKEN_CHARS_MIN)).is_ok());
        assert!(check("correct-horse-battery").is_ok());
        assert!(check(Secret::generate().unwrap().expose()).is_ok());
        let short = "a".repeat(TOKEN_CHARS_MIN - 1);
        assert_eq!(check(&short), Err(ChosenTokenError::TooShort));
        let long = "a".repeat(bearer::BEARER_BYTES_MAX + 1);
        assert_eq!(check(&long), Err(ChosenTokenError::TooLong));
        let jwt = "aaaaaa.bbbbbb.cccccc";
        assert_eq!(check(jwt), Err(ChosenTokenError::LooksLikeJwt));
        for bad in ["correct horse battery", "correct-horse-büttery", "correct-horse-\n"] {
            assert_eq!(check(bad), Err(ChosenTokenError::BadCharacter));
        }
    }
}
