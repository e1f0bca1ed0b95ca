//! What an external mod says of an event: pass, reject or modified, and what it sends itself.

use rialto_model::payload::{EventChanges, ModAnswer};
use rialto_model::{ErrorCode, Fault, limits, read};
use serde_json::value::RawValue;

/// A mod's word.
#[derive(Debug, Clone)]
pub struct ModVerdict {
    /// About the event.
    pub said: Judgement,
    /// Events of its own, as JSON objects.
    pub emit: Vec<Box<RawValue>>,
}

/// What it says of the event.
#[derive(Debug, Clone)]
pub enum Judgement {
    /// It may go on as it is.
    Pass,
    /// It may not.
    Reject {
        /// The guard's own dotted code.
        code: Option<Box<str>>,
        /// Why, for people.
        message: Option<String>,
    },
    /// It goes on like this.
    Modified(Box<EventChanges>),
}

/// Characters of a guard's own code.
const CODE_CHARS_MAX: usize = 64;
/// Characters of its message; what is beyond is cut.
const MESSAGE_CHARS_MAX: usize = 1000;

impl ModVerdict {
    /// Reads a verdict; a member it has not is no harm, one of the wrong kind is.
    pub fn parse(text: &str) -> Result<ModVerdict, Fault> {
        let bad = |what: String| Fault::new(ErrorCode::InvalidPayload, what).field("payload");
        let wire: ModAnswer = read::text(text, read::PAYLOAD)?;
        let said = match wire.verdict.as_str() {
            "pass" => Judgement::Pass,
            "reject" => Judgement::Reject {
                // A refusal stands whatever it is called.
                code: wire.code.filter(|code| is_code(code)).map(String::into_boxed_str),
                message: wire.message.map(|text| text.chars().take(MESSAGE_CHARS_MAX).collect()),
            },
            "modified" => match wire.event {
                Some(event) => Judgement::Modified(event),
                None => return Err(bad("the verdict \"modified\" needs the changed event in \"event\"".to_owned())),
            },
            other => return Err(bad(format!("verdict is pass, reject or modified, not {other:?}"))),
        };
        let emit = wire.emit.unwrap_or_default();
        if emit.len() > limits::MOD_EMITS_MAX {
            return Err(bad(format!("a verdict emits at most {} events", limits::MOD_EMITS_MAX)));
        }
        Ok(ModVerdict { said, emit })
    }
}

/// Dotted lower-case words.
fn is_code(text: &str) -> bool {
    text.len() <= CODE_CHARS_MAX && rialto_model::event_type::is_event_type(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read() {
        assert!(matches!(ModVerdict::parse(r#"{"verdict":"pass","ticket":"x"}"#).unwrap().said, Judgement::Pass));
        let said = |text: &str| match ModVerdict::parse(text).unwrap().said {
            Judgement::Reject { code, message } => (code.map(String::from), message),
            Judgement::Pass | Judgement::Modified(_) => panic!("{text}"),
        };
        let full = said(r#"{"verdict":"reject","code":"acme.profanity","message":"no"}"#);
        assert_eq!(full, (Some("acme.profanity".to_owned()), Some("no".to_owned())));
        assert_eq!(said(r#"{"verdict":"reject","code":"Not A Code"}"#), (None, None));
        let long = format!(r#"{{"verdict":"reject","message":"{}"}}"#, "é".repeat(5000));
        assert_eq!(said(&long).1.map(|m| m.chars().count()), Some(MESSAGE_CHARS_MAX));
    }

    #[test]
    fn what_is_no_verdict_is_refused() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"verdict":"maybe"}"#,
            r#"{"verdict":"modified"}"#,
            r#"{"verdict":"modified","event":[]}"#,
            r#"{"verdict":"pass","emit":{}}"#,
            r#"{"verdict":1}"#,
        ] {
            assert_eq!(ModVerdict::parse(text).map(|_| ()).unwrap_err().code, ErrorCode::InvalidPayload, "{text}");
        }
    }

    #[test]
    fn emits_are_bounded() {
        let of = |n: usize| format!(r#"{{"verdict":"pass","emit":[{}]}}"#, vec!["{}"; n].join(","));
        assert_eq!(ModVerdict::parse(&of(limits::MOD_EMITS_MAX)).unwrap().emit.len(), limits::MOD_EMITS_MAX);
        assert!(ModVerdict::parse(&of(limits::MOD_EMITS_MAX + 1)).is_err());
    }
}
