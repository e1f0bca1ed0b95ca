//! Which events a bridge takes over.

use rialto_model::glob;

/// Patterns on types and on targets. An event is chosen if one pattern on types fits (or there is none) and one on targets fits
/// (or there is none).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BridgeChoice {
    types: Vec<String>,
    targets: Vec<String>,
}

/// A pattern that is neither on types nor on targets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no pattern: write a type such as `workspace.*`, or a target such as `channel/general`")]
pub struct BadPattern(String);

impl BridgeChoice {
    /// Reads patterns: with a `/` or `:` they are on targets, else on types.
    pub fn parse<T: AsRef<str>>(patterns: &[T]) -> Result<BridgeChoice, BadPattern> {
        let mut choice = BridgeChoice::default();
        for pattern in patterns.iter().map(AsRef::as_ref) {
            let fine = !pattern.is_empty()
                && pattern.len() <= 256
                && !pattern.chars().any(|c| c.is_whitespace() || c.is_control());
            if fine && pattern.contains(['/', ':']) {
                choice.targets.push(pattern.to_owned());
            } else if fine && pattern.contains(['.', '*']) {
                choice.types.push(pattern.to_owned());
            } else {
                return Err(BadPattern(pattern.to_owned()));
            }
        }
        Ok(choice)
    }

    /// Whether an event of this type to this target is chosen.
    pub fn takes(&self, kind: &str, target: &str) -> bool {
        let fits = |patterns: &[String], text: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| glob::matches(pattern, text))
        };
        fits(&self.types, kind) && fits(&self.targets, target)
    }

    /// Channels that were named in full: the bridge takes a seat there.
    pub fn channels(&self) -> Vec<String> {
        let names = self.targets.iter().filter_map(|target| target.strip_prefix("channel/"));
        names.filter(|name| !name.contains(['*', '?', '['])).map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_targets_both_have_to_fit() {
        let choice = BridgeChoice::parse(&["workspace.*", "channel/general", "channel/ops-*"]).unwrap();
        assert!(choice.takes("workspace.message.posted", "channel/general"));
        assert!(choice.takes("workspace.message.posted", "channel/ops-eu"));
        assert!(!choice.takes("myapp.task.done", "channel/general"));
        assert!(!choice.takes("workspace.message.posted", "channel/private"));
        assert_eq!(choice.channels(), ["general"]);
        assert!(BridgeChoice::default().takes("a.b", "agent:broadcast"));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for bad in ["", "general", "a b", "channel/a\nb", &"a.".repeat(200)] {
            assert!(BridgeChoice::parse(&[bad]).is_err(), "{bad:?}");
        }
    }
}
