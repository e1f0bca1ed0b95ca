//! Why an event is where it is: the receipt ladder of each recipient (stored, delivered, acked, then the states of
//! work), refusals, dead letters.

use crate::history::Viewer;
use crate::presence::Live;
use crate::record::EventRecord;
use crate::state::{DeadLetter, MemberId, State};
use crate::tick::was_recipient;
use crate::work::Unit;
use rialto_model::trace::TRACEPARENT;
use rialto_model::{Seq, WorkState, limits};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The JSON of `explain`, without what only the node knows (attempts).
    pub json: Value,
    /// Recipients still pending: the node adds whether each was delivered.
    pub pending: Vec<MemberId>,
}

impl State {
    /// Explains a committed event to its source, to a recipient (own rung only) or to the operator.
    pub fn explain(&self, viewer: Viewer, record: &EventRecord) -> Option<Explanation> {
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
        let mut recipients = Vec::new();
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
            let dead = dead_to.get(member.address.as_ref());
            let mut rung = json!({ "recipient": member.address });
            let map = rung.as_object_mut()?;
            if let Some(letter) = dead {
                map.insert("rung".into(), "dead".into());
                map.insert("reason".into(), json!(letter.reason));
                map.insert("at".into(), json!(letter.at));
                if let Some(seq) = letter.retried_as {
                    map.insert("retried_as".into(), json!(format!("seq:{seq}")));
                }
            } else if let Some(state) = unit.and_then(|unit| self.work_rung(unit, id, seq)) {
                map.insert("rung".into(), state.as_str().into());
            } else if self.is_pending(id, seq) {
                map.insert("rung".into(), "stored".into());
                pending.push(id);
            } else {
                let tracked = self.book.at_most_once_after.is_none_or(|after| seq <= after);
                map.insert("rung".into(), if tracked { "acked" } else { "stored" }.into());
            }
            recipients.push(rung);
        }
        // Recipients that were removed since are known by their dead letters alone.
        let listed: BTreeSet<&str> =
            recipients.iter().filter_map(|r: &Value| r.get("recipient").and_then(Value::as_str)).collect();
        let room = limits::LIST_ROWS_MAX - recipients.len();
        let gone: Vec<Value> = letters
            .iter()
            .filter(|d| (me.is_none() || is_source) && !listed.contains(d.recipient.as_ref()))
            .take(if has_more { 0 } else { room })
            .map(|d| json!({ "recipient": d.recipient, "rung": "dead", "reason": d.reason, "at": d.at }))
            .collect();
        recipients.extend(gone);
        if me.is_some() && !is_source && recipients.is_empty() {
            return None;
        }
        let trace = event.metadata_text(TRACEPARENT);
        let mut json = json!({
            "event_id": event.id(), "status": "stored", "seq": seq, "type": event.kind(), "source": event.source(), "target": event.target(),
            "visibility": event.visibility.as_str(), "timestamp": event.timestamp, "durability": self.book.settings.durability.as_str(),
            "kept": self.lists.kept().contains(seq), "redacted": self.book.redacted.contains(&seq),
            "mods": { "revision": self.book.mods_revision, "verdicts": record.verdicts },
            "recipients": recipients,
        });
        if let (Some(trace), Some(map)) = (trace, json.as_object_mut()) {
            map.insert(TRACEPARENT.into(), json!(trace));
        }
        if let (true, Some(map)) = (has_more, json.as_object_mut()) {
            map.insert("has_more".into(), json!(true));
        }
        let seen = unit.filter(|unit| me.is_none_or(|me| self.sees_unit(unit, me)));
        if let (Some(unit), Some(map)) = (seen, json.as_object_mut()) {
            map.insert("work".into(), json!({ "id": unit.id, "state": unit.state, "since": unit.since }));
        }
        Some(Explanation { json, pending })
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
    pub fn explain_refusal(&self, live: &Live, viewer: Viewer, event_id: &str) -> Option<Value> {
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
        Some(json!({
            "event_id": event_id, "status": "refused", "type": refusal.kind, "source": refusal.source, "target": refusal.target,
            "timestamp": refusal.at, "error": refusal.fault.payload(Some(event_id)), "recipients": [],
        }))
    }
}
