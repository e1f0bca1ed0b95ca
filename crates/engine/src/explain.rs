//! Why an event is where it is: the receipt ladder of each recipient (stored, delivered, acked, then the states of
//! work), refusals, dead letters.

use crate::history::Viewer;
use crate::presence::VolatileState;
use crate::record::EventRecord;
use crate::state::{DeadLetter, MemberId, State};
use crate::tick::was_recipient;
use crate::work::Unit;
use rialto_model::trace::TRACEPARENT;
use rialto_model::view::{ExplainedWork, Refused, Rung, Step, Stored, Verdicts};
use rialto_model::{Seq, WorkState, limits};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of a committed event, but for what only the node knows.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainedEvent {
    /// As it is shown.
    pub stored: Stored,
    /// Recipients still pending, each with the place of its rung: the node adds whether it was delivered.
    pub pending: Vec<(usize, MemberId)>,
}

impl State {
    /// Explains a committed event to its source, to a recipient (own rung only) or to the operator.
    pub fn explain(&self, viewer: Viewer, record: &EventRecord) -> Option<ExplainedEvent> {
        let event = &record.event;
        let (seq, me) = (
            event.seq,
            match viewer {
                Viewer::Operator => None,
                Viewer::Member(id) => Some(id),
                Viewer::Reader { .. } => return None,
            },
        );
        let is_source = me.is_some() && record.route.source == me;
        let unit = record.more.as_ref().and_then(|more| self.unit(more.work.as_ref()?.unit));
        let mut pending = Vec::new();
        let mut recipients: Vec<Rung> = Vec::new();
        let mut has_more = false;
        let letters: Vec<&DeadLetter> = self.book.dead_letters.iter().filter(|d| d.seq == seq).collect();
        let dead_to: BTreeMap<&str, &DeadLetter> = letters.iter().rev().map(|d| (d.recipient.as_ref(), *d)).collect();
        let own = me.filter(|_| !is_source).map(|me| me.checked_sub(1));
        let asked: Box<dyn Iterator<Item = _>> = match own {
            // A recipient is told of itself alone.
            Some(before) => Box::new(self.roster_after(before).take(1).filter(|(id, _)| Some(*id) == me)),
            None => Box::new(self.roster()),
        };
        for (id, member) in asked {
            if !was_recipient(self, id, member, record.route.stream, seq) {
                continue;
            }
            if recipients.len() >= limits::LIST_ROWS_MAX {
                has_more = true;
                break;
            }
            let step = if let Some(letter) = dead_to.get(member.address.as_ref()) {
                let retried_as = letter.retried_as.map(|seq| format!("seq:{seq}"));
                recipients.push(Rung { retried_as, ..dead_rung(letter) });
                continue;
            } else if let Some(state) = unit.and_then(|unit| self.work_rung(unit, id, seq)) {
                Step::Work(state)
            } else if self.is_pending(id, seq) {
                pending.push((recipients.len(), id));
                Step::Stored
            } else {
                let tracked = self.book.at_most_once_after.is_none_or(|after| seq <= after);
                if tracked { Step::Acked } else { Step::Stored }
            };
            recipients.push(rung(&member.address, step));
        }
        // Recipients that were removed since are known by their dead letters alone.
        let listed: BTreeSet<&str> = recipients.iter().map(|rung| rung.recipient.as_ref()).collect();
        let room = limits::LIST_ROWS_MAX - recipients.len();
        let gone: Vec<Rung> = letters
            .iter()
            .filter(|d| (me.is_none() || is_source) && !listed.contains(d.recipient.as_ref()))
            .take(if has_more { 0 } else { room })
            .map(|letter| dead_rung(letter))
            .collect();
        recipients.extend(gone);
        if me.is_some() && !is_source && recipients.is_empty() {
            return None;
        }
        let seen = unit.filter(|unit| me.is_none_or(|me| self.sees_unit(unit, me)));
        let stored = Stored {
            event_id: event.id().to_owned(),
            seq,
            kind: event.kind().to_owned(),
            source: event.source().to_owned(),
            target: event.target().to_owned(),
            visibility: event.visibility,
            timestamp: event.timestamp,
            durability: self.book.settings.durability,
            kept: self.lists.kept().contains(seq),
            redacted: self.book.redacted.contains(&seq),
            mods: Verdicts { revision: self.book.mods_revision, verdicts: record.verdicts.clone() },
            recipients,
            has_more,
            traceparent: event.metadata_text(TRACEPARENT),
            work: seen.map(|unit| ExplainedWork { id: unit.id.clone(), state: unit.state, since: unit.since }),
        };
        Some(ExplainedEvent { stored, pending })
    }

    /// The rung above `acked`: how far the recipient came with the work, if it is the one that does it. Its acts on the
    /// request say more than an ack; what others decide (the requester cancels, time runs out) does not.
    fn work_rung(&self, unit: &Unit, recipient: MemberId, seq: Seq) -> Option<WorkState> {
        use WorkState::{AuthRequired, Canceled, Completed, Failed, InputRequired, Rejected, Submitted, Working};
        let acted = match unit.state {
            Submitted => return None,
            Working | InputRequired | AuthRequired | Completed | Rejected => unit.request_seq == seq,
            Failed | Canceled => false,
        };
        let climbs = unit.executor == Some(recipient) && (acted || !self.is_pending(recipient, seq));
        climbs.then_some(unit.state)
    }

    /// Explains a refusal from the ring of the last ones, to its sender or the operator.
    pub fn explain_refusal(&self, live: &VolatileState, viewer: Viewer, event_id: &str) -> Option<Refused> {
        let me = match viewer {
            Viewer::Operator => None,
            Viewer::Member(id) => Some(id),
            Viewer::Reader { .. } => return None,
        };
        let refusal = live.refusals.iter().rev().find(|r| r.event_id == event_id)?;
        let is_own = |me: MemberId| refusal.source.as_deref().is_some_and(|source| self.known_as(source) == Some(me));
        if !me.is_none_or(is_own) {
            return None;
        }
        Some(Refused {
            event_id: event_id.to_owned(),
            kind: refusal.kind.clone(),
            source: refusal.source.clone(),
            target: refusal.target.clone(),
            timestamp: refusal.at,
            error: refusal.fault.view(Some(event_id)),
            recipients: Vec::new(),
        })
    }
}

/// How far an event came with a recipient.
fn rung(recipient: &str, step: Step) -> Rung {
    Rung { recipient: recipient.into(), rung: step, reason: None, at: None, retried_as: None, attempts: None }
}

fn dead_rung(letter: &DeadLetter) -> Rung {
    let (reason, at) = (Some(letter.reason.clone()), Some(letter.at));
    Rung { reason, at, ..rung(&letter.recipient, Step::Dead) }
}
