//! Asking for work: explicit, and once by the requester's own name for the unit.
//!
//! A message with `metadata.work` may mean a new unit or a word inside one, which its sender finds out by looking first. An order never is
//! a word inside a unit, and the same order again is the same unit.

use crate::command::Answered;
use crate::draft::Draft;
use crate::session::Session;
use crate::texts::Texts;
use rialto_model::work::{OpenedWork, WorkOrder};
use rialto_model::{ErrorCode, Fault, Seq, WorkState, limits};
use serde::Deserialize;
use serde_json::value::to_raw_value;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The message that asks for it.
fn message(order: &WorkOrder) -> Result<Draft, Fault> {
    let WorkOrder { target, name, content, thread, skill, parent, context, deadline_ms } = order;
    let texts = [("id", name), ("skill", skill), ("parent", parent), ("context", context)];
    let mut work = Map::from_iter([("open".to_owned(), Value::from(true))]);
    work.extend(texts.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text.as_deref()?.into()))));
    work.extend(deadline_ms.map(|ms| ("deadline_ms".to_owned(), ms.into())));
    let work = to_raw_value(&work).map_err(|_| Fault::from(ErrorCode::Internal))?;
    let message = Draft::message(target, content)?;
    Ok(Draft { thread: thread.clone(), metadata: vec![("work".to_owned(), work)], ..message })
}

/// What the caller called the member that a refusal of the message names.
fn in_words_of_the_order(mut fault: Fault) -> Fault {
    for (ours, theirs) in
        [("metadata.work.id", "name"), ("metadata.work.", ""), ("metadata.thread", "thread"), ("payload.", "")]
    {
        fault.message = fault.message.replace(ours, theirs);
        if let Some(Value::String(field)) = fault.details.as_deref_mut().and_then(|details| details.get_mut("field")) {
            *field = field.replace(ours, theirs);
        }
    }
    fault
}

impl Session {
    /// Opens the unit that is ordered, or gives the one that the caller opened before by the same name with the same words.
    pub async fn open_work(&self, order: &WorkOrder) -> Result<OpenedWork, Fault> {
        let answers = self.emit(Texts::one(message(order)?.frame()?)).await?;
        let Answered { result, .. } = answers.into_iter().next().ok_or(ErrorCode::Internal)?;
        let accepted = result.map_err(in_words_of_the_order)?;
        let work = accepted.result.as_ref().and_then(|result| result.get("work"));
        let text = |key: &str| work.and_then(|work| work.get(key)).and_then(Value::as_str);
        let opened = text("id").zip(text("state").and_then(WorkState::from_wire)).zip(accepted.seq);
        // A message that asks for work and was accepted names its unit.
        let ((id, state), seq) = opened.ok_or(ErrorCode::Internal)?;
        if accepted.duplicate && self.asked_for_something_else(order, seq).await? {
            let name = order.name.as_deref().unwrap_or_default();
            let text = format!("you already call another work unit {name:?}: take another name for this one, or none");
            return Err(Fault::new(ErrorCode::AlreadyExists, text).field("name"));
        }
        Ok(OpenedWork { id: id.to_owned(), state, seq, duplicate: accepted.duplicate })
    }

    /// Whether the request at this position has other words than the order. One that was redacted or purged has none to compare.
    async fn asked_for_something_else(&self, order: &WorkOrder, seq: Seq) -> Result<bool, Fault> {
        #[derive(Deserialize)]
        struct Words<'t> {
            #[serde(borrow)]
            content: Option<Cow<'t, str>>,
        }
        let (records, _) = self.network.read_some(vec![seq], limits::PAGE_BYTES_MAX).await?;
        let words = records.first().and_then(|record| serde_json::from_str::<Words<'_>>(record.event.payload()).ok());
        Ok(words.and_then(|words| words.content).is_some_and(|content| content != order.content))
    }
}
