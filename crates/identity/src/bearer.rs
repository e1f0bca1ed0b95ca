//! What a bearer credential is, judged by its shape alone (OpenAgents Network Model, principals and sessions).
//! Not here: looking it up. The shape only says where to look.

use crate::secret::{SECRET_BYTES, Secret};

/// Longest credential that is looked at: a JWT with many claims, and some room.
pub const BEARER_BYTES_MAX: usize = 8 << 10;

/// A presented credential and where to look for it.
#[derive(Debug, Clone)]
pub enum Bearer {
    /// Shaped like a secret made by a node: a session id or a network token, which look alike on purpose. Look among
    /// the sessions first, then among the tokens.
    Issued(Secret),
    /// Three parts of base64url with dots between: a [`crate::Proof::Jwt`].
    Jwt(Secret),
    /// Anything else: only a network token that an operator chose can look like this.
    Opaque(Secret),
}

/// Why a credential is not even looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BearerError {
    /// Nothing there.
    #[error("the credential is empty")]
    Empty,
    /// More than [`BEARER_BYTES_MAX`].
    #[error("the credential is longer than {BEARER_BYTES_MAX} bytes")]
    TooLong,
}

impl Bearer {
    /// Judges a credential as it stood after `Bearer `, in `X-Workspace-Token` or in `?token=`.
    pub fn classify(text: &str) -> Result<Self, BearerError> {
        if text.is_empty() {
            return Err(BearerError::Empty);
        }
        if text.len() > BEARER_BYTES_MAX {
            return Err(BearerError::TooLong);
        }
        let secret = Secret::presented(text);
        Ok(if is_issued(text) {
            Self::Issued(secret)
        } else if is_jwt(text) {
            Self::Jwt(secret)
        } else {
            Self::Opaque(secret)
        })
    }

    /// Reads the value of an `Authorization` header; `None` when it is of another scheme.
    pub fn from_authorization(value: &str) -> Option<Result<Self, BearerError>> {
        let (scheme, credential) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| Self::classify(credential.trim_matches(' ')))
    }

    /// The secret, whatever its shape.
    pub fn secret(&self) -> &Secret {
        match self {
            Self::Issued(secret) | Self::Jwt(secret) | Self::Opaque(secret) => secret,
        }
    }
}

fn is_issued(text: &str) -> bool {
    text.len() == (SECRET_BYTES * 4).div_ceil(3) && is_base64url(text)
}

/// Three parts of base64url. The last may be empty, as in an unsigned JWT: that is a JWT to refuse, not a token.
pub(crate) fn is_jwt(text: &str) -> bool {
    let mut parts = text.split('.');
    let (header, claims, signature) = (parts.next(), parts.next(), parts.next());
    let full = |part: Option<&str>| part.is_some_and(|part| !part.is_empty() && is_base64url(part));
    full(header) && full(claims) && signature.is_some_and(is_base64url) && parts.next().is_none()
}

/// The alphabet, and a length that whole bytes can have.
fn is_base64url(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    text.len() % 4 != 1 && text.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kind(text: &str) -> &'static str {
        match Bearer::classify(text) {
            Ok(Bearer::Issued(_)) => "issued",
            Ok(Bearer::Jwt(_)) => "jwt",
            Ok(Bearer::Opaque(_)) => "opaque",
            Err(BearerError::Empty) => "empty",
            Err(BearerError::TooLong) => "too long",
        }
    }

    #[test]
    fn the_shape_says_where_to_look() {
        assert_eq!(kind(Secret::generate().unwrap().expose()), "issued");
        assert_eq!(kind("eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.XLpFHrZRClV1SP-3"), "jwt");
        assert_eq!(kind("eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0."), "jwt");
        assert_eq!(kind("correct-horse-battery"), "opaque");
        assert_eq!(kind("a.b"), "opaque");
        assert_eq!(kind("aa.bb.cc.dd"), "opaque");
        assert_eq!(kind(".bb.cc"), "opaque");
        assert_eq!(kind("aa.b+.cc"), "opaque");
        assert_eq!(kind(""), "empty");
        assert_eq!(kind(&"a".repeat(BEARER_BYTES_MAX)), "opaque");
        assert_eq!(kind(&"a".repeat(BEARER_BYTES_MAX + 1)), "too long");
    }

    #[test]
    fn authorization_headers() {
        let secret = |value: &str| {
            Bearer::from_authorization(value).map(|bearer| bearer.map(|bearer| bearer.secret().expose().to_owned()))
        };
        assert_eq!(secret("Bearer abc"), Some(Ok("abc".to_owned())));
        assert_eq!(secret("bearer  abc "), Some(Ok("abc".to_owned())));
        assert_eq!(secret("Bearer "), Some(Err(BearerError::Empty)));
        assert_eq!(secret("Bearer"), None);
        assert_eq!(secret("Basic YTpi"), None);
    }

    #[test]
    fn a_bearer_never_prints_its_secret() {
        let bearer = Bearer::classify("correct-horse-battery").unwrap();
        assert_eq!(format!("{bearer:?}"), "Opaque([secret])");
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in any::<String>()) {
            let _ = Bearer::from_authorization(&text);
            if let Ok(bearer) = Bearer::classify(&text) {
                prop_assert_eq!(bearer.secret().expose(), text);
            }
        }
    }
}
