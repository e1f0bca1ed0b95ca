//! Receipts: the end-to-end acks a sender asked for with `metadata.receipt` (OpenAgents sheet, section 8).
//!
//! Invariant: one per event and recipient. A sender that is there gets it as a signal; to one that is away it is mail.

use crate::bugs;
use crate::input::{Clock, Effect, Effects};
use crate::mods::persistence;
use crate::presence::VolatileState;
use crate::record::{EventRecord, Record};
use crate::route::{Route, StreamKey};
use crate::state::{Member, MemberId, ReceiptRequest, State};
use rialto_model::{Event, EventId, EventParts, EventType, Seq, Visibility};
use std::sync::Arc;

/// Tells the sender of the event at `seq` that `by` has acked it.
pub(crate) fn give(
    state: &State,
    live: &VolatileState,
    by: MemberId,
    seq: Seq,
    receipt: &ReceiptRequest,
    now: Clock,
    fx: &mut Effects,
) {
    let Some(sender) = state.member(receipt.source).filter(|m| m.is_present()) else { return };
    if bugs::on("no receipt for who is away") && !live.has_stream(receipt.source) {
        return;
    }
    let route = Route { stream: Some(StreamKey::Inbox(receipt.source)), source: Some(by), ..Route::default() };
    let (at, salt) = (state.stamp(now.wall), state.book.salt);
    if live.has_stream(receipt.source) && !sender.is_quiet() {
        // One id per (event, recipient), so that a receiver that deduplicates sees each receipt once.
        let mark = xxhash_rust::xxh3::xxh3_64(format!("{seq}/{by}").as_bytes()) >> 2;
        let event = event(state, by, sender, receipt, 0, EventId { at, seq: (1 << 62) | mark, salt });
        fx.after.push(Effect::Signal { event: Arc::new(event), route, after: None });
        return;
    }
    let own = state.next_seq() + fx.events();
    fx.commit(Record::Event(Arc::new(EventRecord {
        event: event(state, by, sender, receipt, own, EventId { at, seq: own, salt }),
        route,
        received: None,
        receipt: false,
        stored: persistence::keeps(state, EventType::EventAck.as_str()),
        dies_at: None,
        verdicts: Vec::new(),
        more: None,
    })));
}

fn event(state: &State, by: MemberId, sender: &Member, receipt: &ReceiptRequest, seq: Seq, id: EventId) -> Event {
    Event::new(
        seq,
        &EventParts {
            id: &id.to_text(),
            kind: EventType::EventAck.as_str(),
            source: state.member(by).map_or("core", |m| m.address.as_ref()),
            target: &sender.address,
            payload: "{\"status\":\"acked\"}",
            metadata: &serde_json::json!({ "in_reply_to": receipt.id }).to_string(),
            timestamp: id.at,
            network: &state.book.id,
            visibility: Visibility::Direct,
        },
    )
}
