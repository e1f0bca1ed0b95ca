//! Why an event is where it is: the ladder of each recipient, or why it was refused.

use super::is_off;
use crate::error::ErrorView;
use crate::network::Durability;
use crate::{Millis, Seq, Visibility, WorkState};
use schemars::JsonSchema;
use serde::Serialize;

/// How far an event came with a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// It is stored and waits.
    Stored,
    /// It went out and is not acked.
    Delivered,
    /// The recipient acked it.
    Acked,
    /// It was given up.
    Dead,
    /// The recipient does the work that it asks for, and came so far with it.
    #[serde(untagged)]
    Work(WorkState),
}

/// How far an event came with one recipient.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Rung {
    /// Its address.
    pub recipient: Box<str>,
    /// How far.
    pub rung: Step,
    /// Why it was given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
    /// When it was given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Millis>,
    /// The event it was sent again as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retried_as: Option<String>,
    /// How often it went out in this run of the node, while it is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
}

/// What mods said of an event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Verdicts {
    /// The pipeline as it is now.
    pub revision: u64,
    /// Notes of mods that run elsewhere.
    pub verdicts: Vec<String>,
}

/// The work an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExplainedWork {
    /// Id of the unit.
    pub id: Box<str>,
    /// Where it is.
    pub state: WorkState,
    /// When it came there.
    pub since: Millis,
}

/// What is known of a committed event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Stored {
    /// Its id.
    pub event_id: String,
    /// Its position.
    pub seq: Seq,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Who sent it.
    pub source: String,
    /// Where it went.
    pub target: String,
    /// Who may see it.
    pub visibility: Visibility,
    /// When it was committed.
    pub timestamp: Millis,
    /// What its ack promised.
    pub durability: Durability,
    /// Whether history has it.
    pub kept: bool,
    /// Whether its text was taken out.
    pub redacted: bool,
    /// What mods said.
    pub mods: Verdicts,
    /// How far it came with each recipient the viewer may know of.
    pub recipients: Vec<Rung>,
    /// There are more recipients.
    #[serde(skip_serializing_if = "is_off")]
    pub has_more: bool,
    /// The trace it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The work it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<ExplainedWork>,
}

/// What is known of an event that was refused.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Refused {
    /// Its id.
    pub event_id: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Who sent it, if that was known.
    pub source: Option<String>,
    /// Where it was to go.
    pub target: String,
    /// When it was refused.
    pub timestamp: Millis,
    /// Why.
    pub error: ErrorView,
    /// Nobody.
    pub recipients: Vec<Rung>,
}

/// What is known of an event.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Explanation {
    /// It was committed.
    Stored(Box<Stored>),
    /// It was refused.
    Refused(Box<Refused>),
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;
    use crate::{ErrorCode, Fault};

    #[test]
    fn a_stored_event_in_full() {
        let rung = |recipient: &str, rung| Rung {
            recipient: recipient.into(),
            rung,
            reason: None,
            at: None,
            retried_as: None,
            attempts: None,
        };
        let recipients = vec![
            rung("agent:a", Step::Stored),
            Rung { attempts: Some(2), ..rung("agent:b", Step::Delivered) },
            rung("agent:c", Step::Acked),
            rung("agent:d", Step::Work(WorkState::InputRequired)),
            Rung {
                reason: Some("ttl".into()),
                at: Some(9),
                retried_as: Some("seq:8".to_owned()),
                ..rung("agent:e", Step::Dead)
            },
        ];
        let stored = Stored {
            event_id: "e1".to_owned(),
            seq: 1,
            kind: "a.b".to_owned(),
            source: "agent:ann".to_owned(),
            target: "channel/general".to_owned(),
            visibility: Visibility::Channel,
            timestamp: 2,
            durability: Durability::Sync,
            kept: true,
            redacted: false,
            mods: Verdicts { revision: 3, verdicts: vec!["mod/lint passed".to_owned()] },
            recipients,
            has_more: true,
            traceparent: Some("00-1-2-01".to_owned()),
            work: Some(ExplainedWork { id: "w1".into(), state: WorkState::Working, since: 5 }),
        };
        let json = r#"{
            "status":"stored","event_id":"e1","seq":1,"type":"a.b","source":"agent:ann","target":"channel/general",
            "visibility":"channel","timestamp":2,"durability":"sync","kept":true,"redacted":false,
            "mods":{"revision":3,"verdicts":["mod/lint passed"]},"recipients":[
                {"recipient":"agent:a","rung":"stored"},{"recipient":"agent:b","rung":"delivered","attempts":2},
                {"recipient":"agent:c","rung":"acked"},{"recipient":"agent:d","rung":"input_required"},
                {"recipient":"agent:e","rung":"dead","reason":"ttl","at":9,"retried_as":"seq:8"}],
            "has_more":true,"traceparent":"00-1-2-01","work":{"id":"w1","state":"working","since":5}}"#;
        check(&Explanation::Stored(Box::new(stored)), json);
    }

    #[test]
    fn a_refused_event_in_full() {
        let fault = Fault::new(ErrorCode::Forbidden, "no").by("mod/auth").field("target");
        let refused = Refused {
            event_id: "e1".to_owned(),
            kind: "a.b".to_owned(),
            source: None,
            target: "core".to_owned(),
            timestamp: 2,
            error: fault.view(Some("e1")),
            recipients: Vec::new(),
        };
        let json = r#"{
            "status":"refused","event_id":"e1","type":"a.b","source":null,"target":"core","timestamp":2,
            "error":{"code":"forbidden","message":"no","event_id":"e1","retryable":false,"mod":"mod/auth",
                "details":{"field":"target"}},
            "recipients":[]}"#;
        check(&Explanation::Refused(Box::new(refused)), json);
    }
}
