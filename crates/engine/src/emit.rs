//! The walk of one client event: principal, envelope, routing, mods, commit (OpenAgents sheet, section 4.5).
//!
//! Invariant: a refusal leaves nothing behind; an accepted event comes out as records in order.
//! Not here: what each `network.*` type does (`core_events`, `membership`, `channels`).

use crate::Engine;
use crate::channels;
use crate::core_events;
use crate::input::{Accepted, Clock, Effect, Effects, Emit, Seen};
use crate::membership;
use crate::mods::{self, persistence};
use crate::presence::Live;
use crate::principal::Principal;
use crate::record::{Change, EventRecord, Record};
use crate::route::{self, Route, StreamKey};
use crate::state::{ChannelId, MemberId, State};
use rialto_model::address::{Address, Entity};
use rialto_model::metadata::Metadata;
use rialto_model::network::Status;
use rialto_model::{
    Envelope, ErrorCode, Event, EventId, EventParts, Fault, Millis, Role, Seq, Visibility, json, limits,
};
use serde_json::json;
use std::sync::Arc;

/// Mail lives at most this long whatever the sender says.
const TTL_MS_MAX: Millis = 30 * 24 * 3600 * 1000;

/// An event on its way: sender known, envelope valid.
#[derive(Debug)]
pub(crate) struct Draft<'d, 'a> {
    pub(crate) envelope: &'d Envelope<'a>,
    pub(crate) member: MemberId,
    pub(crate) address: Box<str>,
    pub(crate) metadata: Metadata<'a>,
    pub(crate) target: Box<str>,
    pub(crate) visibility: Visibility,
    pub(crate) route: Route,
    pub(crate) received: Option<u128>,
}

impl Draft<'_, '_> {
    /// Channel acts are stored and delivered under the channel's own address.
    pub(crate) fn retarget(&mut self, channel: &str, id: ChannelId) {
        self.target = format!("channel/{channel}").into();
        self.visibility = Visibility::Channel;
        self.route.stream = Some(StreamKey::Channel(id));
    }
}

/// Who sends an event.
enum Sender {
    Member(MemberId),
    /// Not (or no longer) a member: its first event joins it.
    Guest(membership::Guest),
}

pub(crate) fn decide(engine: &mut Engine, input: &Emit<'_>, now: Clock, fx: &mut Effects) -> Result<Accepted, Fault> {
    let (state, live) = (&engine.state, &mut engine.live);
    let envelope = input.envelope;
    if envelope.network.as_deref().is_some_and(|n| n != state.book.id.as_ref() && n != state.book.settings.name) {
        return Err(
            Fault::new(ErrorCode::NetworkMismatch, format!("this is network {}", state.book.id)).field("network")
        );
    }
    let metadata = Metadata::parse(envelope.metadata)?;
    if envelope.kind == "network.agent.join" {
        core_events::check_target(state, &envelope.kind, &envelope.target)?;
        return membership::join(state, live, input, now, fx);
    }
    let (sender, address) = sender(state, input, &metadata, now)?;
    if let Seen::Known(record) = &input.seen {
        return duplicate(state, input, &address, &metadata, record);
    }
    let (member, accepted) = match sender {
        Sender::Member(member) => {
            live.touch(member, now);
            (member, emitted(state, live, input, member, address, metadata, now, fx)?)
        }
        Sender::Guest(guest) => {
            guest.records.iter().for_each(|record| fx.commit(record.clone()));
            // The event is decided on the state as it will be; the records themselves are applied with all others.
            let before = guest.enter(&mut engine.state);
            let result = emitted(&engine.state, &mut engine.live, input, guest.member, address, metadata, now, fx);
            before.restore(&mut engine.state);
            (guest.member, result?)
        }
    };
    let (state, live) = (&engine.state, &mut engine.live);
    if !accepted.left && live.came(member, now) {
        let shown = accepted.event.as_ref().map(|e| e.event.source().to_owned());
        let known = state.member(member);
        let address = known.map(|m| m.address.to_string()).or(shown).unwrap_or_default();
        presence_signal(state, live, &address, known.map_or(Role::Member, |m| m.role), true, now, fx);
    }
    Ok(accepted)
}

/// The rest of the walk, once it is known who sends.
#[allow(clippy::too_many_arguments, reason = "what the walk has gathered so far")]
fn emitted<'a>(
    state: &State,
    live: &mut Live,
    input: &Emit<'a>,
    member: MemberId,
    address: Box<str>,
    metadata: Metadata<'a>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Fault> {
    let envelope = input.envelope;
    core_events::check_type(state, &envelope.kind, &envelope.target)?;
    may_emit(state, member, envelope)?;
    let draft = draft(state, input, member, address, metadata)?;
    if envelope.kind.starts_with("network.") {
        return core_events::decide(state, live, draft, now, fx);
    }
    commit(state, live, draft, now, fx)
}

/// Runs the guards on a request that is answered without being committed.
pub(crate) fn guard_request(
    state: &State,
    live: &mut Live,
    kind: &str,
    member: MemberId,
    now: Clock,
) -> Result<(), Fault> {
    let Some(m) = state.member(member) else { return Err(ErrorCode::NotAMember.into()) };
    let mut metadata = Metadata::default();
    let draft = mods::Draft {
        kind,
        source: Some(member),
        address: &m.address,
        verification: m.verification,
        broadcast: false,
        metadata: &mut metadata,
        stamp: state.stamp(now.wall),
    };
    mods::guard(state, live, &draft, now)
}

/// Binds the source to the credential.
fn sender(state: &State, input: &Emit<'_>, metadata: &Metadata<'_>, now: Clock) -> Result<(Sender, Box<str>), Fault> {
    let said = match input.envelope.source.as_deref() {
        None => None,
        Some(text) => Some(
            Address::parse_in(text, &state.network)
                .map_err(|e| Fault::new(ErrorCode::InvalidAddress, format!("source {text:?}: {e}")).field("source"))?,
        ),
    };
    let said = said.as_ref().map(Address::as_str);
    let mut caller = input.caller;
    let with_session;
    if let (None, Some(session)) = (caller.session, &metadata.session_id) {
        use sha2::Digest;
        with_session =
            crate::Caller { session: Some(sha2::Sha256::digest(session.as_bytes()).into()), ..caller.clone() };
        caller = &with_session;
    }
    let guest = |who: &str, known: Option<MemberId>, token: Option<String>| {
        if !(caller.is_compat() && state.book.settings.implicit_join) {
            return Err(Fault::new(ErrorCode::NotAMember, format!("{who} is not a member: join first")));
        }
        is_active(state)?;
        Ok((Sender::Guest(membership::guest(state, who, known, token, input, now)?), who.into()))
    };
    let mut principal = state.principal(caller, None, now)?;
    let mut label = None;
    if let Principal::Holder { claimed, token } = principal {
        let Some(who) = said.or(claimed.as_deref()) else {
            return Err(Fault::new(
                ErrorCode::Unauthenticated,
                "say who sends this: source, and its session id as Bearer",
            ));
        };
        principal = state.principal(caller, Some(who), now)?;
        if !matches!(principal, Principal::Member(_)) {
            return guest(who, None, token);
        }
        label = token;
    }
    match principal {
        Principal::Member(id) => {
            let address = bound(state, id, said)?;
            if state.member(id).is_some_and(|m| m.left) {
                return guest(&address, Some(id), label);
            }
            Ok((Sender::Member(id), address))
        }
        Principal::Operator | Principal::Holder { .. } => {
            Err(Fault::new(ErrorCode::NotAMember, "the operator speaks as a member: join first"))
        }
    }
}

fn is_active(state: &State) -> Result<(), Fault> {
    match state.book.settings.status {
        Status::Active => Ok(()),
        Status::Paused => Err(ErrorCode::NetworkPaused.into()),
        Status::Archived => Err(ErrorCode::NetworkArchived.into()),
    }
}

fn bound(state: &State, id: MemberId, said: Option<&str>) -> Result<Box<str>, Fault> {
    let Some(member) = state.member(id).filter(|m| !m.removed) else { return Err(ErrorCode::NotAMember.into()) };
    match said {
        Some(said) if said != member.address.as_ref() => {
            Err(Fault::new(ErrorCode::SourceMismatch, format!("this session is {}'s", member.address)).field("source"))
        }
        _ => Ok(member.address.clone()),
    }
}

/// The id is taken: by the same event (the first answer again) or by another (a conflict).
fn duplicate(
    state: &State,
    input: &Emit<'_>,
    address: &str,
    metadata: &Metadata<'_>,
    record: &Arc<EventRecord>,
) -> Result<Accepted, Fault> {
    let first = &record.event;
    let conflict =
        || Fault::new(ErrorCode::IdConflict, format!("id {} was used for another event", first.id())).field("id");
    if first.source() != address {
        return Err(conflict());
    }
    if record.received != Some(input.received) {
        let target = Address::parse_in(&input.envelope.target, &state.network).map_err(|_| conflict())?;
        let visibility = checked_visibility(&target, &input.envelope.kind, input.envelope.visibility)?;
        // Keys that mod/enrichment has put into the stored event and this copy does not have.
        let enriched: Vec<&str> = enriched_keys(state).into_iter().filter(|k| metadata.get(k).is_none()).collect();
        let again = body_hash(
            &input.envelope.kind,
            address,
            target.as_str(),
            &input.envelope.payload,
            metadata.entries(),
            visibility,
            &enriched,
        )?;
        let stored = Metadata::parse(first.metadata())?;
        let original_target = if is_channel_act(first.kind()) { "core" } else { first.target() };
        let original_visibility = if is_channel_act(first.kind()) { visibility } else { first.visibility };
        let before = body_hash(
            first.kind(),
            first.source(),
            original_target,
            first.payload(),
            stored.entries(),
            original_visibility,
            &enriched,
        )?;
        if again != before {
            return Err(conflict());
        }
    }
    Ok(Accepted {
        event_id: first.id().to_owned(),
        seq: Some(first.seq),
        duplicate: true,
        result: channels::result_again(state, first.kind(), first.target()),
        event: Some(record.clone()),
        ..Accepted::default()
    })
}

fn is_channel_act(kind: &str) -> bool {
    matches!(
        kind,
        "network.channel.create" | "network.channel.delete" | "network.channel.join" | "network.channel.leave"
    )
}

fn enriched_keys(state: &State) -> Vec<&str> {
    let config = state.book.mods.iter().find(|m| m.enabled && m.name.as_ref() == "enrichment");
    config
        .and_then(|m| m.config.get("static"))
        .and_then(|v| v.as_object())
        .map(|m| m.keys().map(String::as_str).collect())
        .unwrap_or_default()
}

/// SHA-256 of the canonical body (sheet section 4.2): sorted keys, compact, numbers as received, before mods.
pub(crate) fn body_hash<'m>(
    kind: &str,
    source: &str,
    target: &str,
    payload: &str,
    metadata: impl Iterator<Item = (&'m str, &'m str)>,
    visibility: Visibility,
    added_by_mods: &[&str],
) -> Result<[u8; 32], Fault> {
    use sha2::Digest;
    let ignored = ["session_id", "traceparent", "tracestate", "client_timestamp"];
    let mut meta = String::from("{");
    for (key, value) in metadata.filter(|(k, _)| !ignored.contains(k) && !added_by_mods.contains(k)) {
        if meta.len() > 1 {
            meta.push(',');
        }
        json::push_string(&mut meta, key);
        meta.push(':');
        meta.push_str(value);
    }
    meta.push('}');
    let mut text = String::from("{\"metadata\":");
    json::canonical(&meta, &mut text)?;
    text.push_str(",\"payload\":");
    json::canonical(payload, &mut text)?;
    for (name, value) in [("source", source), ("target", target), ("type", kind), ("visibility", visibility.as_str())] {
        text.push_str(",\"");
        text.push_str(name);
        text.push_str("\":");
        json::push_string(&mut text, value);
    }
    text.push('}');
    Ok(sha2::Sha256::digest(text.as_bytes()).into())
}

/// Types an observer may send: those that read or manage itself.
fn observer_may(kind: &str) -> bool {
    matches!(
        kind,
        "network.agent.leave"
            | "network.agent.discover"
            | "network.channel.join"
            | "network.channel.leave"
            | "network.resource.discover"
            | "network.resource.read"
            | "network.events.query"
            | "network.ping"
            | "network.event.ack"
    )
}

/// Status of the network and role of the sender.
fn may_emit(state: &State, member: MemberId, envelope: &Envelope<'_>) -> Result<(), Fault> {
    let kind = envelope.kind.as_ref();
    let reads = matches!(
        kind,
        "network.agent.discover" | "network.events.query" | "network.resource.discover" | "network.resource.read"
    );
    match state.book.settings.status {
        Status::Active => {}
        Status::Paused if reads || matches!(kind, "network.agent.leave" | "network.ping" | "network.event.ack") => {}
        Status::Paused => return Err(ErrorCode::NetworkPaused.into()),
        Status::Archived if reads => {}
        Status::Archived => return Err(ErrorCode::NetworkArchived.into()),
    }
    let observer = state.member(member).is_some_and(|m| m.role == Role::Observer);
    if observer && !observer_may(kind) {
        return Err(Fault::new(ErrorCode::ObserverReadOnly, "observers do not emit"));
    }
    let for_others = || {
        let payload: serde_json::Value = serde_json::from_str(&envelope.payload).unwrap_or_default();
        let named = ["agent", "agent_name"].iter().find_map(|k| payload.get(*k)).and_then(|v| v.as_str());
        named.is_some_and(|name| membership::find_named(state, name) != Some(member))
    };
    if observer && matches!(kind, "network.channel.join" | "network.channel.leave") && for_others() {
        return Err(Fault::new(ErrorCode::ObserverReadOnly, "observers seat only themselves"));
    }
    if envelope
        .id
        .as_deref()
        .and_then(EventId::from_text)
        .is_some_and(|id| id.salt == state.book.salt && (1..1 << 32).contains(&id.seq.wrapping_sub(state.book.head)))
    {
        return Err(Fault::new(ErrorCode::InvalidEvent, "this id is one the server may make soon").field("id"));
    }
    Ok(())
}

/// Default visibility by target (sheet section 4.3).
pub(crate) fn default_visibility(target: &Address, kind: &str) -> Visibility {
    match target.entity() {
        Entity::Mod(_) => Visibility::ModOnly,
        // Control events are polled for without an identity.
        _ if kind.starts_with("workspace.agent.") => Visibility::Public,
        Entity::Agent(_) if target.is_broadcast() => Visibility::Public,
        Entity::Agent(_) | Entity::Human(_) | Entity::Registered { .. } | Entity::Core | Entity::Resource { .. } => {
            Visibility::Direct
        }
        Entity::Channel(_) | Entity::Group(_) => Visibility::Channel,
    }
}

fn checked_visibility(target: &Address, kind: &str, said: Option<Visibility>) -> Result<Visibility, Fault> {
    use Visibility::{Channel, Direct, ModOnly, Public};
    let default = default_visibility(target, kind);
    let Some(said) = said.filter(|v| *v != default) else { return Ok(default) };
    match (target.entity(), said) {
        (Entity::Agent(_), Channel | Direct | ModOnly) if target.is_broadcast() => Err(bad_visibility(target, said)),
        (Entity::Agent(_) | Entity::Human(_) | Entity::Registered { .. }, Public | Direct) => Ok(said),
        // The flat default of compat clients counts as direct.
        (Entity::Agent(_) | Entity::Human(_) | Entity::Registered { .. }, Channel) => Ok(Direct),
        (Entity::Channel(_) | Entity::Group(_), Public | Channel) => Ok(said),
        (Entity::Core, ModOnly | Direct) | (Entity::Resource { .. }, Direct) => Ok(said),
        _ => Err(bad_visibility(target, said)),
    }
}

fn bad_visibility(target: &Address, said: Visibility) -> Fault {
    Fault::new(ErrorCode::InvalidVisibility, format!("an event to {target} cannot be {}", said.as_str()))
        .field("visibility")
}

/// `thread_` and 3 to 96 characters of `[a-z0-9_-]`, the first not a mark.
fn is_thread(text: &str) -> bool {
    text.strip_prefix("thread_").is_some_and(|rest| {
        (3..=96).contains(&rest.len())
            && rest.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
    })
}

fn draft<'d, 'a>(
    state: &State,
    input: &'d Emit<'a>,
    member: MemberId,
    address: Box<str>,
    mut metadata: Metadata<'a>,
) -> Result<Draft<'d, 'a>, Fault> {
    let envelope = input.envelope;
    let target = Address::parse_in(&envelope.target, &state.network).map_err(|e| {
        Fault::new(ErrorCode::InvalidAddress, format!("target {:?}: {e}", envelope.target)).field("target")
    })?;
    let stream = route::resolve(state, &target)?;
    let visibility = checked_visibility(&target, &envelope.kind, envelope.visibility)?;
    let in_channel = matches!(stream, Some(StreamKey::Channel(_)));
    let thread = match metadata.text("thread") {
        None => None,
        Some(thread) if in_channel && is_thread(&thread) => Some(thread.as_ref().into()),
        Some(_) if in_channel => {
            return Err(Fault::new(ErrorCode::InvalidEvent, "metadata.thread must look like thread_abc")
                .field("metadata.thread"));
        }
        Some(_) => {
            return Err(Fault::new(ErrorCode::InvalidEvent, "a thread is inside a channel").field("metadata.thread"));
        }
    };
    if let Some(room) = metadata.text("room_channel") {
        if !matches!(stream, Some(StreamKey::Inbox(_))) {
            return Err(Fault::new(ErrorCode::InvalidEvent, "room_channel goes with an agent target")
                .field("metadata.room_channel"));
        }
        channels::visible(state, &channels::channel_name(&room)?, member)?;
    }
    let fans_out = matches!(stream, Some(StreamKey::Channel(_) | StreamKey::Group(_) | StreamKey::Broadcast));
    let to = narrowed(state, &metadata)?.filter(|_| fans_out);
    if let Some(at) = envelope.timestamp {
        metadata.set("client_timestamp", at.to_owned());
    }
    Ok(Draft {
        envelope,
        member,
        address,
        metadata,
        target: target.as_str().into(),
        visibility,
        route: Route { stream, source: Some(member), thread, to },
        received: envelope.id.is_some().then_some(input.received),
    })
}

/// `metadata.to`: an address or a list that narrows the recipients.
fn narrowed(state: &State, metadata: &Metadata<'_>) -> Result<Option<Vec<MemberId>>, Fault> {
    let Some(raw) = metadata.get("to") else { return Ok(None) };
    let bad = |text: &str| Fault::new(ErrorCode::InvalidEvent, text.to_owned()).field("metadata.to");
    let names: Vec<String> = match serde_json::from_str(raw) {
        Ok(serde_json::Value::String(one)) => vec![one],
        Ok(serde_json::Value::Array(many)) => many
            .into_iter()
            .map(|v| v.as_str().map(str::to_owned).ok_or_else(|| bad("metadata.to holds addresses")))
            .collect::<Result<_, _>>()?,
        _ => return Err(bad("metadata.to is an address or a list of addresses")),
    };
    if names.len() > limits::TO_ADDRESSES_MAX {
        return Err(bad(&format!("metadata.to holds at most {} addresses", limits::TO_ADDRESSES_MAX)));
    }
    let mut ids = Vec::new();
    for name in &names {
        Address::parse_in(name, &state.network).map_err(|e| bad(&format!("{name:?}: {e}")))?;
        ids.extend(membership::find_named(state, name).filter(|id| !ids.contains(id)));
    }
    Ok(Some(ids))
}

/// Runs the mods and commits (or signals) the event.
pub(crate) fn commit(
    state: &State,
    live: &mut Live,
    mut draft: Draft<'_, '_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Fault> {
    let kind = draft.envelope.kind.as_ref();
    let seat = match draft.route.stream {
        Some(StreamKey::Channel(id)) if !kind.starts_with("network.") => {
            channels::may_post(state, id, draft.member)?.then_some(id)
        }
        _ => None,
    };
    let stamp = state.stamp(now.wall);
    let mut metadata = std::mem::take(&mut draft.metadata);
    let ephemeral = metadata.ephemeral == Some(true) && !kind.starts_with("network.");
    if let Some(StreamKey::Inbox(to)) = draft.route.stream
        && !ephemeral
        && state.is_tracked()
        && to != draft.member
        && state.queue_is_full(to)
    {
        return Err(Fault::new(ErrorCode::RecipientQueueFull, format!("{} has too much unread mail", draft.target)));
    }
    let mut view = mods::Draft {
        kind,
        source: Some(draft.member),
        address: &draft.address,
        verification: state.member(draft.member).map_or(0, |m| m.verification),
        broadcast: draft.route.stream == Some(StreamKey::Broadcast),
        metadata: &mut metadata,
        stamp,
    };
    mods::guard(state, live, &view, now)?;
    mods::transform(state, &mut view);
    let seq = if ephemeral { 0 } else { state.next_seq() + fx.events() };
    let id = match &draft.envelope.id {
        Some(id) => id.to_string(),
        None if ephemeral => signal_id(state, live, stamp),
        None => EventId { at: stamp, seq, salt: state.book.salt }.to_text(),
    };
    let event = Event::new(
        seq,
        &EventParts {
            id: &id,
            kind,
            source: &draft.address,
            target: &draft.target,
            payload: &draft.envelope.payload,
            metadata: &metadata.to_json(),
            timestamp: stamp,
            network: &state.book.id,
            visibility: draft.visibility,
        },
    );
    if let Some(channel) = seat {
        fx.change(Change::Seated { channel, member: draft.member });
    }
    if ephemeral {
        let event = Arc::new(event);
        fx.after.push(Effect::Signal { event: event.clone(), route: draft.route.clone() });
        let shown = EventRecord {
            event: (*event).clone(),
            route: draft.route,
            received: None,
            receipt: false,
            stored: false,
            dies_at: None,
            verdicts: Vec::new(),
        };
        return Ok(Accepted { event_id: id, event: Some(Arc::new(shown)), ..Accepted::default() });
    }
    let dies_at =
        metadata.ttl_ms.filter(|ttl| *ttl < state.book.settings.ttl_ms).map(|ttl| stamp + ttl.min(TTL_MS_MAX));
    let record = Arc::new(EventRecord {
        event,
        route: draft.route,
        received: draft.received,
        receipt: metadata.receipt,
        stored: persistence::keeps(state, kind),
        dies_at,
        verdicts: Vec::new(),
    });
    fx.commit(Record::Event(record.clone()));
    Ok(Accepted { event_id: id, seq: Some(seq), event: Some(record), ..Accepted::default() })
}

/// Ids of what has no position: unique while the process lives.
fn signal_id(state: &State, live: &mut Live, stamp: Millis) -> String {
    live.signals += 1;
    EventId { at: stamp, seq: (1 << 63) | live.signals, salt: state.book.salt }.to_text()
}

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
        (Some(id), Seen::New) => id.to_string(),
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
    });
    fx.commit(Record::Event(record.clone()));
    Ok(record)
}

/// A server event for whoever is there.
pub(crate) fn server_signal(
    state: &State,
    live: &mut Live,
    kind: &str,
    payload: &serde_json::Value,
    now: Clock,
) -> Effect {
    let stamp = state.stamp(now.wall);
    let event = Event::new(
        0,
        &EventParts {
            id: &signal_id(state, live, stamp),
            kind,
            source: "core",
            target: "agent:broadcast",
            payload: &payload.to_string(),
            metadata: "{\"ephemeral\":true}",
            timestamp: stamp,
            network: &state.book.id,
            visibility: Visibility::Public,
        },
    );
    Effect::Signal { event: Arc::new(event), route: Route { stream: Some(StreamKey::Broadcast), ..Route::default() } }
}

/// A committed event of the server.
pub(crate) fn server_event(
    state: &State,
    kind: &str,
    target: &str,
    stream: Option<StreamKey>,
    payload: &serde_json::Value,
    now: Clock,
    fx: &mut Effects,
) {
    let stamp = state.stamp(now.wall);
    let seq: Seq = state.next_seq() + fx.events();
    let visibility = if stream == Some(StreamKey::Broadcast) { Visibility::Public } else { Visibility::Direct };
    let event = Event::new(
        seq,
        &EventParts {
            id: &EventId { at: stamp, seq, salt: state.book.salt }.to_text(),
            kind,
            source: "core",
            target,
            payload: &payload.to_string(),
            metadata: "{}",
            timestamp: stamp,
            network: &state.book.id,
            visibility,
        },
    );
    let stored = persistence::keeps(state, kind);
    fx.commit(Record::Event(Arc::new(EventRecord {
        event,
        route: Route { stream, ..Route::default() },
        received: None,
        receipt: false,
        stored,
        dies_at: None,
        verdicts: Vec::new(),
    })));
}

/// Tells everybody that a member came or went.
pub(crate) fn presence_signal(
    state: &State,
    live: &mut Live,
    address: &str,
    role: Role,
    online: bool,
    now: Clock,
    fx: &mut Effects,
) {
    let status = if online { "online" } else { "offline" };
    let payload = json!({ "address": address, "status": status, "role": role.as_str() });
    fx.after.push(server_signal(state, live, "rialto.member.status", &payload, now));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(payload: &str, metadata: &[(&str, &str)]) -> String {
        let hash = body_hash(
            "workspace.message.posted",
            "agent:alice",
            "channel/general",
            payload,
            metadata.iter().copied(),
            Visibility::Channel,
            &[],
        );
        hash.unwrap().iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn the_body_hash_of_the_sheet() {
        let vector = "a6e5a58feeb4d55dc717d448eae2f1e5d0f99656968bb715ee444fc9553e761d";
        assert_eq!(hash(r#"{"content":"hi"}"#, &[]), vector);
        assert_eq!(hash(r#"{ "content" : "\u0068i" }"#, &[("session_id", "\"x\""), ("tracestate", "1")]), vector);
        assert_ne!(hash(r#"{"content":"hi","n":1}"#, &[]), vector);
        assert_ne!(hash(r#"{"content":"hi"}"#, &[("k", "1")]), vector);
    }

    #[test]
    fn numbers_are_hashed_as_received() {
        assert_ne!(hash(r#"{"n":1}"#, &[]), hash(r#"{"n":1.0}"#, &[]));
        assert_eq!(hash(r#"{"a":1,"b":2}"#, &[]), hash(r#"{"b":2,"a":1}"#, &[]));
    }

    #[test]
    fn thread_names() {
        for (text, good) in
            [("thread_abc", true), ("thread_a-1_", true), ("thread_ab", false), ("thread_-ab", false), ("x", false)]
        {
            assert_eq!(is_thread(text), good, "{text}");
        }
    }
}
