//! Dead letters for the operator: listed with what is left of their events, sent again, put away.

use crate::network::Network;
use crate::session::Session;
use crate::task::Task;
use crate::task::read::ReadContext;
use rialto_engine::{AdminOp, EventRecord};
use rialto_model::view::{
    AdminOutcome, DeadLetterList, DeadLetterView, DroppedLetters, LetterEvent, LettersRetried, OpenLetter, RefusedRetry,
};
use rialto_model::{ErrorCode, Fault, Seq, limits};
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
    pub async fn dead_letters(&self, which: &DeadLetters) -> Result<DeadLetterList, Fault> {
        let (mut page, events) = self.chosen_letters(&self.network.choose(which).await?).await?;
        for letter in &mut page.dead_letters {
            let Some(record) = events.get(&letter.letter.seq) else { continue };
            letter.event = LetterEvent {
                event_id: Some(record.event.id().to_owned()),
                kind: Some(record.event.kind().to_owned()),
                source: Some(record.event.source().to_owned()),
                target: Some(record.event.target().to_owned()),
            };
        }
        Ok(page)
    }

    /// Sends dead letters again, each for itself: what cannot be sent again is named with the reason. A choice of nothing is refused.
    pub async fn retry_dead_letters(&self, which: &DeadLetters) -> Result<LettersRetried, Fault> {
        let chosen = self.network.choose(which).await?;
        let (page, events) = self.chosen_letters(&chosen).await?;
        if page.dead_letters.is_empty() && (chosen.seq.is_some() || chosen.recipient.is_some()) {
            let text = "there is no such dead letter; `rialto dead list` shows those there are";
            return Err(Fault::new(ErrorCode::UnknownTarget, text));
        }
        let mut done = LettersRetried { has_more: page.has_more, ..LettersRetried::default() };
        // The oldest first, so that they come in the order they were meant to.
        for OpenLetter { letter: DeadLetterView { seq, recipient, .. }, .. } in page.dead_letters.into_iter().rev() {
            let event = events.get(&seq).cloned();
            let event_id = event.as_ref().map(|record| record.event.id().to_owned());
            match self.network.admin(AdminOp::RetryDead(seq, recipient.to_string(), event)).await {
                Ok(AdminOutcome::Retried(letter)) => done.retried.push(letter),
                Ok(_) => return Err(ErrorCode::Internal.into()),
                Err(fault) => {
                    let error = fault.view(event_id.as_deref());
                    done.refused.push(RefusedRetry { event_id, seq, recipient, error });
                }
            }
        }
        Ok(done)
    }

    async fn chosen_letters(
        &self,
        chosen: &Chosen,
    ) -> Result<(DeadLetterList, BTreeMap<Seq, Arc<EventRecord>>), Fault> {
        let (seq, recipient, limit) = (chosen.seq, chosen.recipient.clone(), chosen.limit);
        let read = move |task: &mut Task, by: &ReadContext<'_>| {
            by.operator_only()?;
            Ok(task.engine.state.dead_letter_list(seq, recipient.as_deref(), limit))
        };
        let page = self.view(read).await?;
        let mut seqs: Vec<Seq> = page.dead_letters.iter().filter(|l| l.kept).map(|l| l.letter.seq).collect();
        seqs.sort_unstable();
        seqs.dedup();
        let events = self.network.read(seqs).await?.into_iter().map(|record| (record.event.seq, record)).collect();
        Ok((page, events))
    }
}

impl Network {
    /// Puts dead letters away.
    pub async fn drop_dead_letters(&self, which: &DeadLetters) -> Result<DroppedLetters, Fault> {
        let Chosen { seq, recipient, limit } = self.choose(which).await?;
        let outcome = self.admin(AdminOp::DropDead(seq, recipient, limit)).await?;
        let AdminOutcome::Dropped(dropped) = outcome else { return Err(ErrorCode::Internal.into()) };
        Ok(dropped)
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
