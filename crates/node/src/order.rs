//! Asking for work: explicit, and once by the requester's own name for the unit.
//!
//! A message with `metadata.work` may mean a new unit or a word inside one, which its sender finds out by looking first. An order never is
//! a word inside a unit, and the same order again is the same unit.

use crate::command::Answered;
use crate::session::Session;
use rialto_model::{ErrorCode, Fault, Millis, Seq, WorkState};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Work that somebody asks for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkOrder {
    /// Who is asked: a member, a channel (whoever takes it first), or `core` with a skill.
    pub target: String,
    /// What the requester calls the unit. The same name again is the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What is to be done.
    pub content: String,
    /// The thread of the channel it is said in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// What whoever does it can do; for `core`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// The unit that this is a part of, which the requester is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// What it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// It fails when nothing is heard for this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<Millis>,
}

/// The unit of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedWork {
    /// Its id.
    pub id: String,
    /// Its state.
    pub state: WorkState,
    /// The position of the request.
    pub seq: Seq,
    /// It was opened before.
    pub duplicate: bool,
}

impl WorkOrder {
    /// The message that asks for it.
    fn frame(&self) -> String {
        let WorkOrder { target, name, content, thread, skill, parent, context, deadline_ms } = self;
        let texts = [("id", name), ("skill", skill), ("parent", parent), ("context", context)];
        let mut work = Map::from_iter([("open".to_owned(), Value::from(true))]);
        work.extend(texts.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text.as_deref()?.into()))));
        work.extend(deadline_ms.map(|ms| ("deadline_ms".to_owned(), ms.into())));
        let mut metadata = Map::from_iter([("work".to_owned(), Value::Object(work))]);
        metadata.extend(thread.as_deref().map(|thread| ("thread".to_owned(), thread.into())));
        let payload = json!({ "content": content });
        json!({ "type": "workspace.message.posted", "target": target, "payload": payload, "metadata": metadata })
            .to_string()
    }
}

impl Session {
    /// Opens the unit that is ordered, or gives the one that the caller opened by the same name before.
    pub async fn open_work(&self, order: &WorkOrder) -> Result<OpenedWork, Fault> {
        let answers = self.emit(order.frame().into()).await?;
        let Answered { result, .. } = answers.into_iter().next().ok_or(ErrorCode::Internal)?;
        let accepted = result?;
        let work = accepted.result.as_ref().and_then(|result| result.get("work"));
        let text = |key: &str| work.and_then(|work| work.get(key)).and_then(Value::as_str);
        let opened = text("id").zip(text("state").and_then(WorkState::from_wire)).zip(accepted.seq);
        // A message that asks for work and was accepted names its unit.
        let ((id, state), seq) = opened.ok_or(ErrorCode::Internal)?;
        Ok(OpenedWork { id: id.to_owned(), state, seq, duplicate: accepted.duplicate })
    }
}
