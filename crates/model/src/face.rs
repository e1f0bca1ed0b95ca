//! Names of faces: the protocols of a node, as its settings, its members' `via` and its facts name them.

use crate::{ErrorCode, Fault, limits};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The name of a face, such as `agh`: `[a-z][a-z0-9_]*`. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FaceName(Arc<str>);

impl FaceName {
    /// Reads a name.
    pub fn parse(text: &str) -> Result<FaceName, Fault> {
        let fits = text.len() <= limits::FACE_NAME_CHARS_MAX
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if fits {
            return Ok(FaceName(text.into()));
        }
        let limit = limits::FACE_NAME_CHARS_MAX;
        let text = format!("{text:?} is no name of a face: it is [a-z][a-z0-9_]*, at most {limit} characters");
        Err(Fault::new(ErrorCode::InvalidArgument, text))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for FaceName {
    type Error = Fault;

    fn try_from(text: String) -> Result<FaceName, Fault> {
        FaceName::parse(&text)
    }
}

impl From<FaceName> for String {
    fn from(name: FaceName) -> String {
        name.0.as_ref().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_faces() {
        for (text, good) in [
            ("agh", true),
            ("agent_channel", true),
            ("a2a", true),
            ("", false),
            ("2a", false),
            ("A", false),
            ("a-b", false),
        ] {
            assert_eq!(FaceName::parse(text).is_ok(), good, "{text}");
        }
        let longest = "a".repeat(limits::FACE_NAME_CHARS_MAX);
        assert!(FaceName::parse(&longest).is_ok());
        assert_eq!(FaceName::parse(&(longest + "a")).unwrap_err().code, ErrorCode::InvalidArgument);
    }

    proptest! {
        #[test]
        fn never_panics_and_round_trips(text in ".{0,40}") {
            if let Ok(name) = FaceName::parse(&text) {
                let json = serde_json::to_string(&name).unwrap();
                prop_assert_eq!(serde_json::from_str::<FaceName>(&json).unwrap(), name);
            }
        }
    }
}
