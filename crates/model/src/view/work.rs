//! Work units and what they made, as their sides see them.

use super::is_off;
use crate::work::UnitKind;
use crate::{Millis, Seq, WorkState};
use schemars::JsonSchema;
use serde::Serialize;

/// Whether who does the work is there: what pending work depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecutorStatus {
    /// It is there.
    Online,
    /// It is away; the request waits.
    Offline,
    /// It left the network.
    Left,
    /// It was removed from the network.
    Removed,
}

/// An artifact: what it is, not where it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArtifactView {
    /// Its id within the unit.
    pub id: Box<str>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// What kind of content it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<Box<str>>,
    /// Events that carry it.
    pub chunks: u32,
    /// Bytes of its parts.
    pub bytes: u64,
    /// Nothing follows.
    pub last: bool,
    /// All of it is kept as content, so that it can be read as one.
    #[serde(skip_serializing_if = "is_off")]
    pub content: bool,
}

/// A work unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkView {
    /// Its id.
    pub id: Box<str>,
    /// What it is about.
    pub kind: UnitKind,
    /// Where it is.
    pub state: WorkState,
    /// Address of who asked for it.
    pub requester: Option<Box<str>>,
    /// Address of who does it, once that is known.
    pub executor: Option<Box<str>>,
    /// Whether the executor is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor_status: Option<ExecutorStatus>,
    /// Where the request went: an agent, a channel or a resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The thread it lives in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<Box<str>>,
    /// What is to be done, in a word of the requester's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill: Option<Box<str>>,
    /// What holds several units together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<str>>,
    /// The unit it is a part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Box<str>>,
    /// The unit above all its parents; itself if it has none.
    pub root: Option<Box<str>>,
    /// How many parents are above it.
    pub depth: u8,
    /// How long the executor may be silent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<Millis>,
    /// When it fails unless something happens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Millis>,
    /// When it was asked for.
    pub opened_at: Millis,
    /// When something last happened.
    pub updated_at: Millis,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal_at: Option<Millis>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<str>>,
    /// Id of the event that asked for it.
    pub request_id: Box<str>,
    /// Position of its last event.
    pub last_seq: Seq,
    /// Names it has at its requester's or in other protocols.
    pub aliases: Vec<Box<str>>,
    /// What it made so far.
    pub artifacts: Vec<ArtifactView>,
}

/// A page of work units.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkList {
    /// The newest first.
    pub works: Vec<WorkView>,
    /// There are more.
    pub has_more: bool,
    /// What `before` of the next page is, if there is one.
    pub next: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    fn unit() -> WorkView {
        let artifact = ArtifactView {
            id: "report".into(),
            name: Some("report.md".into()),
            content_type: Some("text/markdown".into()),
            chunks: 2,
            bytes: 10,
            last: true,
            content: true,
        };
        WorkView {
            id: "w1".into(),
            kind: UnitKind::Work,
            state: WorkState::InputRequired,
            requester: Some("agent:ann".into()),
            executor: Some("agent:bob".into()),
            executor_status: Some(ExecutorStatus::Left),
            target: Some("channel/general".to_owned()),
            thread: Some("thread_plan".into()),
            skill: Some("write".into()),
            context: Some("c".into()),
            parent: Some("w0".into()),
            root: Some("w0".into()),
            depth: 1,
            deadline_ms: Some(1000),
            due_at: Some(1001),
            opened_at: 1,
            updated_at: 2,
            terminal_at: Some(3),
            error: Some("timeout".into()),
            request_id: "e1".into(),
            last_seq: 4,
            aliases: vec!["mine".into()],
            artifacts: vec![artifact],
        }
    }

    #[test]
    fn a_unit_in_full() {
        let json = r#"{
            "id":"w1","kind":"work","state":"input_required","requester":"agent:ann","executor":"agent:bob",
            "executor_status":"left","target":"channel/general","thread":"thread_plan","skill":"write","context":"c",
            "parent":"w0","root":"w0","depth":1,"deadline_ms":1000,"due_at":1001,"opened_at":1,"updated_at":2,
            "terminal_at":3,"error":"timeout","request_id":"e1","last_seq":4,"aliases":["mine"],
            "artifacts":[{"id":"report","name":"report.md","content_type":"text/markdown","chunks":2,"bytes":10,
                "last":true,"content":true}]}"#;
        check(&unit(), json);
        check(
            &WorkList { works: vec![unit()], has_more: true, next: Some(3) },
            &format!(r#"{{"works":[{json}],"has_more":true,"next":3}}"#),
        );
        check(&WorkList::default(), r#"{"works":[],"has_more":false,"next":null}"#);
    }

    #[test]
    fn what_a_young_unit_has_not_is_left_out() {
        let young = WorkView {
            kind: UnitKind::Tool,
            state: WorkState::Submitted,
            executor: None,
            executor_status: None,
            target: None,
            thread: None,
            skill: None,
            context: None,
            parent: None,
            root: Some("w1".into()),
            depth: 0,
            deadline_ms: None,
            due_at: None,
            terminal_at: None,
            error: None,
            aliases: Vec::new(),
            artifacts: vec![ArtifactView {
                id: "a".into(),
                name: None,
                content_type: None,
                chunks: 1,
                bytes: 1,
                last: false,
                content: false,
            }],
            ..unit()
        };
        let json = r#"{
            "id":"w1","kind":"tool","state":"submitted","requester":"agent:ann","executor":null,"root":"w1","depth":0,
            "opened_at":1,"updated_at":2,"request_id":"e1","last_seq":4,"aliases":[],
            "artifacts":[{"id":"a","chunks":1,"bytes":1,"last":false}]}"#;
        check(&young, json);
    }
}
