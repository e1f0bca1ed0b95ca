//! DIDs and their documents (OpenAgents sheet, section 3.4): which key may prove a DID.
//!
//! Invariant: only keys under `authentication` whose controller is the DID itself come out of a document.
//! Not here: fetching documents.

pub mod document;

use crate::key::{KeyError, PublicKey};
pub use document::{DidDocument, DocumentError, Method};

/// A DID whose method is resolved here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Did {
    /// `did:key`: it is the key.
    Key(PublicKey),
    /// `did:web`: the URL of its document.
    Web(String),
    /// Of a registrar: method and name.
    Registered(String, String),
}

/// Why a DID is not resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DidError {
    /// Not a DID.
    #[error("this is no DID: did:, a method, and a name")]
    Unreadable,
    /// The key in it is none.
    #[error("its key cannot be read: {0}")]
    Key(#[from] KeyError),
    /// The host or path in it is none.
    #[error("a did:web is a host and a path, its port written as %3A and the number")]
    Web,
}

impl Did {
    /// Reads a DID.
    pub fn parse(did: &str) -> Result<Did, DidError> {
        let rest = did.strip_prefix("did:").ok_or(DidError::Unreadable)?;
        let (method, name) = rest.split_once(':').ok_or(DidError::Unreadable)?;
        match method {
            "key" => Ok(Self::Key(PublicKey::from_multikey(name)?)),
            "web" => web_url(name).map(Self::Web).ok_or(DidError::Web),
            method => {
                let fine = |text: &str| {
                    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-@".contains(&b))
                };
                (fine(method) && fine(name))
                    .then(|| Self::Registered(method.to_owned(), name.to_owned()))
                    .ok_or(DidError::Unreadable)
            }
        }
    }
}

/// `example.com%3A8443:a:b` is `https://example.com:8443/a/b/did.json`.
fn web_url(name: &str) -> Option<String> {
    let mut parts = name.split(':');
    let host = parts.next()?;
    let (host, port) = match host.split_once("%3A").or_else(|| host.split_once("%3a")) {
        Some((host, port)) => (host, Some(port.parse::<u16>().ok().filter(|port| *port > 0)?)),
        None => (host, None),
    };
    let label = |label: &str| {
        let ends = |end: Option<u8>| end.is_some_and(|b| b.is_ascii_alphanumeric());
        !label.is_empty()
            && label.len() <= 63
            && ends(label.bytes().next())
            && ends(label.bytes().last())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    if host.len() > 253 || !host.split('.').all(label) {
        return None;
    }
    let path: Vec<&str> = parts.collect();
    let segment = |segment: &&str| {
        let legal = |b: u8| b.is_ascii_alphanumeric() || b"._-%".contains(&b);
        let lower = segment.to_ascii_lowercase();
        !segment.is_empty()
            && segment.bytes().all(legal)
            && !matches!(*segment, "." | "..")
            // Written otherwise they would lead elsewhere, too.
            && !["%2e", "%2f", "%5c", "%00"].iter().any(|bad| lower.contains(bad))
    };
    if !path.iter().all(segment) {
        return None;
    }
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let path = if path.is_empty() { ".well-known".to_owned() } else { path.join("/") };
    Some(format!("https://{}{port}/{path}/did.json", host.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_did_web_is_a_url() {
        let url = |did: &str| match Did::parse(did) {
            Ok(Did::Web(url)) => Some(url),
            Ok(_) | Err(_) => None,
        };
        for (did, expected) in [
            ("did:web:example.com", Some("https://example.com/.well-known/did.json")),
            ("did:web:Example.com", Some("https://example.com/.well-known/did.json")),
            ("did:web:example.com%3A8443", Some("https://example.com:8443/.well-known/did.json")),
            ("did:web:example.com%3A8443:a:b", Some("https://example.com:8443/a/b/did.json")),
            ("did:web:example.com:user%20x", Some("https://example.com/user%20x/did.json")),
            ("did:web:", None),
            ("did:web:example.com%3A0", None),
            ("did:web:example.com%3A99999", None),
            ("did:web:example.com%3Aabc", None),
            ("did:web:user@example.com", None),
            ("did:web:example.com::a", None),
            ("did:web:example.com:..", None),
            ("did:web:example.com:%2e%2e", None),
            ("did:web:example.com:a%2Fb", None),
            ("did:web:example.com/a", None),
            ("did:web:example..com", None),
            ("did:web:-example.com", None),
            ("did:web:example.com\r\nx", None),
        ] {
            assert_eq!(url(did).as_deref(), expected, "{did}");
        }
    }

    #[test]
    fn a_did_key_is_its_key() {
        let did = "did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw";
        let Ok(Did::Key(key)) = Did::parse(did) else { panic!("{did}") };
        assert_eq!(key.to_jwk().x.as_deref(), Some("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"));
        assert_eq!(key.to_multikey().unwrap(), did.trim_start_matches("did:key:"));
        // From the did:key specification's own test vectors.
        let p256 = "zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169";
        let Ok(Did::Key(key)) = Did::parse(&format!("did:key:{p256}")) else { panic!("{p256}") };
        assert_eq!(key.to_jwk().x.as_deref(), Some("fyNYMN0976ci7xqiSdag3buk-ZCwgXU4kz9XNkBlNUI"));
        assert_eq!(key.to_jwk().y.as_deref(), Some("hW2ojTNfH7Jbi8--CJUo3OCbH3y5n91g-IMA9MLMbTU"));
        assert_eq!(key.to_multikey().as_deref(), Some(p256));
        for bad in ["did:key:", "did:key:z", "did:key:z6Mk", "did:key:Q3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme"]
        {
            assert!(Did::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in any::<String>()) {
            let _ = Did::parse(&text);
            let _ = Did::parse(&format!("did:web:{text}"));
            let _ = Did::parse(&format!("did:key:z{text}"));
        }
    }
}
