//! Dead letters for the operator: listed with what is left of their events, sent again, put away.

use crate::command::Look;
use crate::network::Network;
use crate::session::Session;
use rialto_engine::{AdminOp, EventRecord};
use rialto_model::{ErrorCode, Fault, Seq, limits};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which dead letters: of an event, of a recipient, of both, or all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadLetters {
    /// Of the event with this id.
    pub event_id: Option<String>,
    /// For this member.
    pub recipient: Option<String>,
    /// At most so many; the most that one call takes if none.
    pub limit: Option<usize>,
}

/// A choice with its names resolved.
struct Chosen {
    seq: Option<Seq>,
    recipient: Option<String>,
    limit: usize,
}

impl Session {
    /// Dead letters that nobody has dealt with, the newest first.
    pub async fn dead_letters(&self, which: &DeadLetters) -> Result<Value, Fault> {
        let (mut page, events) = self.chosen_letters(&self.network.choose(which).await?).await?;
        for letter in page.get_mut("dead_letters").and_then(Value::as_array_mut).into_iter().flatten() {
            let event = letter.get("seq").and_then(Value::as_u64).and_then(|seq| events.get(&seq)).map(|r| &r.event);
            if let Some(map) = letter.as_object_mut() {
                map.insert("event_id".into(), json!(event.map(|e| e.id())));
                map.insert("type".into(), json!(event.map(|e| e.kind())));
                map.insert("source".into(), json!(event.map(|e| e.source())));
                map.insert("target".into(), json!(event.map(|e| e.target())));
            }
        }
        Ok(page)
    }

    /// Sends dead letters again, each for itself: what cannot be sent again is named with the reason. A choice of nothing is refused.
    pub async fn retry_dead_letters(&self, which: &DeadLetters) -> Result<Value, Fault> {
        let chosen = self.network.choose(which).await?;
        let (page, events) = self.chosen_letters(&chosen).await?;
        let letters = page.get("dead_letters").and_then(Value::as_array).cloned().unwrap_or_default();
        if letters.is_empty() && (chosen.seq.is_some() || chosen.recipient.is_some()) {
            let text = "there is no such dead letter; `rialto dead list` shows those there are";
            return Err(Fault::new(ErrorCode::UnknownTarget, text));
        }
        let (mut retried, mut refused) = (Vec::new(), Vec::new());
        // The oldest first, so that they come in the order they were meant to.
        for letter in letters.iter().rev() {
            let seq = letter.get("seq").and_then(Value::as_u64).unwrap_or(0);
            let recipient = letter.get("recipient").and_then(Value::as_str).unwrap_or_default().to_owned();
            let event = events.get(&seq).cloned();
            let event_id = event.as_ref().map(|e| e.event.id().to_owned());
            match self.network.admin(AdminOp::RetryDead(seq, recipient.clone(), event)).await {
                Ok(done) => retried.push(done),
                Err(fault) => {
                    let error = fault.payload(event_id.as_deref());
                    refused.push(json!({ "event_id": event_id, "seq": seq, "recipient": recipient, "error": error }));
                }
            }
        }
        Ok(json!({ "retried": retried, "refused": refused, "has_more": page.get("has_more") }))
    }

    async fn chosen_letters(&self, chosen: &Chosen) -> Result<(Value, BTreeMap<Seq, Arc<EventRecord>>), Fault> {
        let (seq, recipient, limit) = (chosen.seq, chosen.recipient.clone(), chosen.limit);
        let page = self.look(Look::DeadLetters { seq, recipient, limit }).await?;
        let letters = page.get("dead_letters").and_then(Value::as_array).into_iter().flatten();
        let kept = letters.filter(|letter| letter.get("kept") == Some(&Value::Bool(true)));
        let mut seqs: Vec<Seq> = kept.filter_map(|letter| letter.get("seq")?.as_u64()).collect();
        seqs.sort_unstable();
        seqs.dedup();
        let events = self.network.read(seqs).await?.into_iter().map(|record| (record.event.seq, record)).collect();
        Ok((page, events))
    }
}

impl Network {
    /// Puts dead letters away.
    pub async fn drop_dead_letters(&self, which: &DeadLetters) -> Result<Value, Fault> {
        let Chosen { seq, recipient, limit } = self.choose(which).await?;
        self.admin(AdminOp::DropDead(seq, recipient, limit)).await
    }

    async fn choose(&self, which: &DeadLetters) -> Result<Chosen, Fault> {
        let max = limits::DEAD_LETTERS_PER_CALL_MAX;
        let limit = which.limit.unwrap_or(max);
        if !(1..=max).contains(&limit) {
            return Err(Fault::new(ErrorCode::InvalidArgument, format!("limit is 1 to {max}")).field("limit"));
        }
        let address = |text: &String| {
            rialto_model::address::Address::parse(text)
                .map(|address| address.to_string())
                .map_err(|e| Fault::new(ErrorCode::InvalidAddress, format!("{text}: {e}")).field("recipient"))
        };
        let recipient = which.recipient.as_ref().map(address).transpose()?;
        let seq = match &which.event_id {
            None => None,
            Some(id) => {
                let unknown = || Fault::new(ErrorCode::UnknownTarget, format!("no event {id:?} is known here"));
                Some(self.position(id).await?.ok_or_else(unknown)?)
            }
        };
        Ok(Chosen { seq, recipient, limit })
    }
}
