//! Asking for work: explicit, and once by the requester's own name for the unit.
//!
//! A message with `metadata.work` may mean a new unit or a word inside one, which its sender finds out by looking first. An order never is
//! a word inside a unit, and the same order again is the same unit, whatever mods made of its message.

use crate::command::Answered;
use crate::draft::Draft;
use crate::session::Session;
use crate::texts::Texts;
use rialto_model::work::{OpenedWork, WorkOrder};
use rialto_model::{ErrorCode, Fault, Seq, WorkState, limits};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value};

/// The member of `metadata.work` that tells one order from another: mods may change what else is stored of the message.
const ORDER: &str = "order";

/// What tells this order from others by the same name.
fn digest(order: &WorkOrder) -> Result<String, Fault> {
    let text = serde_json::to_string(order).map_err(|_| Fault::from(ErrorCode::Internal))?;
    let hash = rialto_model::hex::text(&rialto_identity::sha256(&text));
    Ok(hash.get(..16).unwrap_or_default().to_owned())
}

/// The message that asks for it.
fn message(order: &WorkOrder, digest: &str) -> Result<Draft, Fault> {
    let WorkOrder { target, name, content, thread, skill, parent, context, deadline_ms } = order;
    let texts = [("id", name), ("skill", skill), ("parent", parent), ("context", context)];
    let mut work = Map::from_iter([("open".to_owned(), Value::from(true))]);
    work.extend(texts.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text.as_deref()?.into()))));
    work.extend(deadline_ms.map(|ms| ("deadline_ms".to_owned(), ms.into())));
    if name.is_some() {
        work.insert(ORDER.to_owned(), digest.into());
    }
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
    /// Opens the unit that is ordered, or gives the one that the caller opened before by the same order. Another order by the same name is
    /// refused.
    pub async fn open_work(&self, order: &WorkOrder) -> Result<OpenedWork, Fault> {
        let digest = digest(order)?;
        let answers = self.emit(Texts::one(message(order, &digest)?.frame()?)).await?;
        let Answered { result, .. } = answers.into_iter().next().ok_or(ErrorCode::Internal)?;
        let accepted = result.map_err(in_words_of_the_order)?;
        let work = accepted.result.as_ref().and_then(|result| result.get("work"));
        let text = |key: &str| work.and_then(|work| work.get(key)).and_then(Value::as_str);
        let opened = text("id").zip(text("state").and_then(WorkState::from_wire)).zip(accepted.seq);
        // A message that asks for work and was accepted names its unit.
        let ((id, state), seq) = opened.ok_or(ErrorCode::Internal)?;
        if accepted.duplicate && self.is_another_order(&digest, seq).await? {
            let name = order.name.as_deref().unwrap_or_default();
            let text = format!("you already call another work unit {name:?}: take another name for this one, or none");
            return Err(Fault::new(ErrorCode::AlreadyExists, text).field("name"));
        }
        Ok(OpenedWork { id: id.to_owned(), state, seq, duplicate: accepted.duplicate })
    }

    /// Whether the request at this position was another order. One that is gone, or was made in another way, is not compared.
    async fn is_another_order(&self, digest: &str, seq: Seq) -> Result<bool, Fault> {
        let (records, _) = self.network.read_some(vec![seq], limits::PAGE_BYTES_MAX).await?;
        let Some(record) = records.first() else { return Ok(false) };
        let metadata: Value = serde_json::from_str(record.event.metadata()).unwrap_or_default();
        let stored = metadata.get("work").and_then(|work| work.get(ORDER)).and_then(Value::as_str);
        Ok(stored.is_some_and(|stored| stored != digest))
    }
}
