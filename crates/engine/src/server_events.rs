//! Events the server makes itself: copies of joins, notices, signals.

use crate::input::{Clock, Effect, Effects, Emit, KnownId};
use crate::mods::persistence;
use crate::presence::VolatileState;
use crate::record::{EventRecord, More, Record};
use crate::route::{Route, StreamKey};
use crate::state::{ChannelId, MemberId, State};
use rialto_model::{Event, EventId, EventParts, EventType, Fault, Millis, Role, Seq, Visibility, limits};
use serde_json::json;
use std::sync::Arc;

/// Commits a client's `network.*` event whose stored form differs from what was sent.
pub(crate) fn system_copy(
    state: &State,
    input: &Emit<'_>,
    address: &str,
    member: MemberId,
    payload: String,
    now: Clock,
    fx: &mut Effects,
) -> Result<Arc<EventRecord>, Fault> {
    let stamp = state.stamp(now.wall);
    let seq = state.next_seq() + fx.events();
    let id = match (&input.envelope.id, &input.seen) {
        // A join is never a duplicate: each one is an act. Its id names the first only.
        (Some(id), KnownId::New) => id.to_string(),
        _ => EventId { at: stamp, seq, salt: state.book.salt }.to_text(),
    };
    let event = Event::new(
        seq,
        &EventParts {
            id: &id,
            kind: &input.envelope.kind,
            source: address,
            target: "core",
            payload: &payload,
            metadata: "{}",
            timestamp: stamp,
            network: &state.book.id,
            visibility: Visibility::Public,
        },
    );
    let record = Arc::new(EventRecord {
        event,
        route: Route { source: Some(member), ..Route::default() },
        received: input.envelope.id.is_some().then_some(input.received),
        receipt: false,
        stored: persistence::keeps(state, &input.envelope.kind),
        dies_at: None,
        verdicts: Vec::new(),
        more: None,
    });
    fx.commit(Record::Event(record.clone()));
    Ok(record)
}

/// A server event for whoever is there.
pub(crate) fn server_signal(
    state: &State,
    live: &mut VolatileState,
    kind: EventType<'_>,
    payload: &serde_json::Value,
    now: Clock,
) -> Effect {
    let stamp = state.stamp(now.wall);
    let event = Event::new(
        0,
        &EventParts {
            id: &signal_id(state, live, stamp).to_text(),
            kind: kind.as_str(),
            source: "core",
            target: "agent:broadcast",
            payload: &payload.to_string(),
            metadata: "{\"ephemeral\":true}",
            timestamp: stamp,
            network: &state.book.id,
            visibility: Visibility::Public,
        },
    );
    let route = Route { stream: Some(StreamKey::Broadcast), ..Route::default() };
    Effect::Signal { event: Arc::new(event), route, after: None }
}

/// What the server says, and to whom.
pub(crate) struct ServerEvent<'a> {
    pub(crate) kind: EventType<'a>,
    pub(crate) target: &'a str,
    pub(crate) stream: Option<StreamKey>,
    pub(crate) payload: &'a serde_json::Value,
    pub(crate) metadata: Option<&'a serde_json::Value>,
    pub(crate) more: Option<Box<More>>,
}

/// A committed event of the server.
pub(crate) fn server_event(state: &State, said: ServerEvent<'_>, now: Clock, fx: &mut Effects) {
    let ServerEvent { kind, target, stream, payload, metadata, more } = said;
    let metadata = metadata.map_or_else(|| "{}".to_owned(), serde_json::Value::to_string);
    let stamp = state.stamp(now.wall);
    let seq: Seq = state.next_seq() + fx.events();
    let visibility = if stream == Some(StreamKey::Broadcast) { Visibility::Public } else { Visibility::Direct };
    let event = Event::new(
        seq,
        &EventParts {
            id: &EventId { at: stamp, seq, salt: state.book.salt }.to_text(),
            kind: kind.as_str(),
            source: "core",
            target,
            payload: &payload.to_string(),
            metadata: &metadata,
            timestamp: stamp,
            network: &state.book.id,
            visibility,
        },
    );
    let stored = persistence::keeps(state, kind.as_str());
    fx.commit(Record::Event(Arc::new(EventRecord {
        event,
        route: Route { stream, ..Route::default() },
        received: None,
        receipt: false,
        stored,
        dies_at: None,
        verdicts: Vec::new(),
        more,
    })));
}

/// A committed event of a mod to the seats of a channel.
pub(crate) fn mod_event(
    state: &State,
    name: &str,
    kind: EventType<'_>,
    (channel, to): (ChannelId, &str),
    payload: &serde_json::Value,
    now: Clock,
    fx: &mut Effects,
) {
    let stamp = state.stamp(now.wall);
    let seq: Seq = state.next_seq() + fx.events();
    let event = Event::new(
        seq,
        &EventParts {
            id: &EventId { at: stamp, seq, salt: state.book.salt }.to_text(),
            kind: kind.as_str(),
            source: &format!("mod/{name}"),
            target: &format!("channel/{to}"),
            payload: &payload.to_string(),
            metadata: "{}",
            timestamp: stamp,
            network: &state.book.id,
            visibility: Visibility::Channel,
        },
    );
    fx.commit(Record::Event(Arc::new(EventRecord {
        event,
        route: Route { stream: Some(StreamKey::Channel(channel)), ..Route::default() },
        received: None,
        receipt: false,
        stored: persistence::keeps(state, kind.as_str()),
        dies_at: None,
        verdicts: Vec::new(),
        more: None,
    })));
}

/// Tells everybody that a member came or went: at once in a small network, with the next tick in a large one, where each change told
/// to each member would cost the square of their number.
pub(crate) fn presence_signal(
    state: &State,
    live: &mut VolatileState,
    address: &str,
    role: Role,
    online: bool,
    now: Clock,
    fx: &mut Effects,
) {
    if state.member_count() > limits::PRESENCE_EACH_MEMBERS_MAX {
        live.presence_changes.insert(address.into(), (role, online));
        return;
    }
    fx.after.push(server_signal(state, live, EventType::MemberStatus, &status_of(address, role, online), now));
}

/// Tells everybody of all who came or went since the last time, in one signal: the first as ever, some more by name, the rest by number.
pub(crate) fn presence_changes(state: &State, live: &mut VolatileState, now: Clock, fx: &mut Effects) {
    let changes = std::mem::take(&mut live.presence_changes);
    let mut all = changes.iter().map(|(address, (role, online))| status_of(address, *role, *online));
    let Some(mut payload) = all.next() else { return };
    let others: Vec<serde_json::Value> = all.take(limits::PRESENCE_NAMED_MAX - 1).collect();
    let unnamed = changes.len().saturating_sub(1 + others.len());
    if let Some(map) = payload.as_object_mut().filter(|_| !others.is_empty()) {
        map.insert("others".into(), json!(others));
        map.insert("unnamed".into(), json!(unnamed));
    }
    fx.after.push(server_signal(state, live, EventType::MemberStatus, &payload, now));
}

fn status_of(address: &str, role: Role, online: bool) -> serde_json::Value {
    json!({ "address": address, "status": if online { "online" } else { "offline" }, "role": role.as_str() })
}

/// Ids of what has no position: unique while the process lives.
pub(crate) fn signal_id(state: &State, live: &mut VolatileState, stamp: Millis) -> EventId {
    live.signals += 1;
    EventId { at: stamp, seq: (1 << 63) | live.signals, salt: state.book.salt }
}
