//! What a mod may do, and what becomes of an event when one fails (OpenAgents sheet, section 9).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a mod may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// May refuse.
    Guard,
    /// May change.
    Transform,
    /// May look.
    Observe,
}

impl Mode {
    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Guard => "guard",
            Mode::Transform => "transform",
            Mode::Observe => "observe",
        }
    }

    /// The mode of this name.
    pub fn from_wire(text: &str) -> Option<Mode> {
        [Mode::Guard, Mode::Transform, Mode::Observe].into_iter().find(|mode| mode.as_str() == text)
    }
}

/// What becomes of an event when a transform fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// It goes on as it was before that mod.
    #[default]
    Skip,
    /// It is refused.
    Reject,
}

impl OnError {
    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            OnError::Skip => "skip",
            OnError::Reject => "reject",
        }
    }

    /// The policy of this name.
    pub fn from_wire(text: &str) -> Option<OnError> {
        [OnError::Skip, OnError::Reject].into_iter().find(|policy| policy.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for mode in [Mode::Guard, Mode::Transform, Mode::Observe] {
            assert_eq!(Mode::from_wire(mode.as_str()), Some(mode));
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.as_str());
        }
        for policy in [OnError::Skip, OnError::Reject] {
            assert_eq!(OnError::from_wire(policy.as_str()), Some(policy));
            assert_eq!(serde_json::to_value(policy).unwrap(), policy.as_str());
        }
        assert_eq!((Mode::from_wire("watch"), OnError::from_wire("retry")), (None, None));
    }
}
