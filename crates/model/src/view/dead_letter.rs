//! Dead letters: deliveries that were given up, for the operator.

use crate::error::ErrorView;
use crate::{Millis, Seq};
use schemars::JsonSchema;
use serde::Serialize;

/// A delivery that was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeadLetterView {
    /// Position of its event.
    pub seq: Seq,
    /// Address of who did not get it.
    pub recipient: Box<str>,
    /// Why.
    pub reason: Box<str>,
    /// When it was given up.
    pub at: Millis,
}

/// What is left of the event of a letter; nothing if history no longer has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LetterEvent {
    /// Its id.
    pub event_id: Option<String>,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Who sent it.
    pub source: Option<String>,
    /// Where it went.
    pub target: Option<String>,
}

/// A dead letter nobody has dealt with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OpenLetter {
    /// The delivery.
    #[serde(flatten)]
    pub letter: DeadLetterView,
    /// Whether history has its event.
    pub kept: bool,
    /// Its event.
    #[serde(flatten)]
    pub event: LetterEvent,
}

/// Dead letters nobody has dealt with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeadLetterList {
    /// The newest first.
    pub dead_letters: Vec<OpenLetter>,
    /// There are more.
    pub has_more: bool,
}

/// Every dead letter, dealt with or not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeadLetterLedger {
    /// The oldest first.
    pub dead_letters: Vec<DeadLetterView>,
}

/// A letter that was sent again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RetriedLetter {
    /// Id of the event.
    pub event_id: String,
    /// To whom.
    pub recipient: String,
    /// Id of the event it was sent again as.
    pub retried_as: String,
    /// Position of that event.
    pub seq: Seq,
}

/// A letter that could not be sent again.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RefusedRetry {
    /// Id of the event, if history has it.
    pub event_id: Option<String>,
    /// Its position.
    pub seq: Seq,
    /// To whom.
    pub recipient: Box<str>,
    /// Why not.
    pub error: ErrorView,
}

/// What became of letters that were to be sent again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct LettersRetried {
    /// Those that were sent again.
    pub retried: Vec<RetriedLetter>,
    /// Those that could not be.
    pub refused: Vec<RefusedRetry>,
    /// There are more to send.
    pub has_more: bool,
}

/// Letters that were put away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DroppedLetters {
    /// How many.
    pub dropped: usize,
    /// There are more to put away.
    pub has_more: bool,
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;
    use crate::{ErrorCode, Fault};

    fn letter() -> DeadLetterView {
        DeadLetterView { seq: 4, recipient: "agent:bob".into(), reason: "ttl".into(), at: 9 }
    }

    #[test]
    fn letters_in_full() {
        let event = LetterEvent {
            event_id: Some("e4".to_owned()),
            kind: Some("a.b".to_owned()),
            source: Some("agent:ann".to_owned()),
            target: Some("agent:bob".to_owned()),
        };
        let open = OpenLetter { letter: letter(), kept: true, event };
        let lost = OpenLetter { letter: letter(), kept: false, event: LetterEvent::default() };
        let json = r#"{"dead_letters":[
            {"seq":4,"recipient":"agent:bob","reason":"ttl","at":9,"kept":true,"event_id":"e4","type":"a.b",
             "source":"agent:ann","target":"agent:bob"},
            {"seq":4,"recipient":"agent:bob","reason":"ttl","at":9,"kept":false,"event_id":null,"type":null,
             "source":null,"target":null}],"has_more":false}"#;
        check(&open, &serde_json::from_str::<serde_json::Value>(json).unwrap()["dead_letters"][0].to_string());
        check(&DeadLetterList { dead_letters: vec![open, lost], has_more: false }, json);
        let ledger = DeadLetterLedger { dead_letters: vec![letter()] };
        check(&ledger, r#"{"dead_letters":[{"seq":4,"recipient":"agent:bob","reason":"ttl","at":9}]}"#);
    }

    #[test]
    fn what_became_of_letters() {
        let retried = RetriedLetter {
            event_id: "e4".to_owned(),
            recipient: "agent:bob".to_owned(),
            retried_as: "e9".to_owned(),
            seq: 9,
        };
        let fault = Fault::new(ErrorCode::CursorUnknown, "gone");
        let refused = RefusedRetry { event_id: None, seq: 5, recipient: "agent:eve".into(), error: fault.view(None) };
        let json = r#"{
            "retried":[{"event_id":"e4","recipient":"agent:bob","retried_as":"e9","seq":9}],
            "refused":[{"event_id":null,"seq":5,"recipient":"agent:eve",
                "error":{"code":"cursor_unknown","message":"gone","event_id":null,"retryable":false}}],
            "has_more":true}"#;
        check(&LettersRetried { retried: vec![retried], refused: vec![refused], has_more: true }, json);
        check(&DroppedLetters { dropped: 2, has_more: false }, r#"{"dropped":2,"has_more":false}"#);
    }
}
