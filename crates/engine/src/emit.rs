//! The walk of one client event: principal, envelope, routing, mods, commit (OpenAgents sheet, section 4.5).
//!
//! Invariant: a refusal leaves nothing behind; an accepted event comes out as records in order.
//! Not here: what each `network.*` type does (`core_events`, `membership`, `channels`).

use crate::Engine;
use crate::channels;
use crate::conversations;
use crate::core_events;
use crate::duplicate::{duplicate, sent_body};
use crate::input::{Accepted, Clock, Effect, Effects, Emit, KnownId, Stop};
use crate::membership::{self, newcomer::Newcomer};
use crate::mods::external::shape::{ChangeableMembers, Fixed};
use crate::mods::external::{self, TransformProgress, Walked};
use crate::mods::{self, persistence, workspace};
use crate::presence::VolatileState;
use crate::principal::Principal;
use crate::record::{Change, EventRecord, More, Record};
use crate::resources;
use crate::route::{self, Route, StreamKey};
use crate::server_events::{presence_signal, signal_id};
use crate::shares::Maker;
use crate::state::{ChannelId, Member, MemberId, State};
use crate::visibility::{self, Reach};
use crate::work;
use rialto_model::address::Address;
use rialto_model::channel::ChannelStatus;
use rialto_model::event_type::Namespace;
use rialto_model::metadata::Metadata;
use rialto_model::network::Status;
use rialto_model::read;
use rialto_model::{
    Envelope, ErrorCode, Event, EventId, EventParts, EventType, Fault, Millis, Role, Visibility, limits,
};
use serde::Deserialize;
use std::borrow::Cow;
use std::sync::Arc;

/// Ids that the node makes from a key and its sender begin so: others would answer to somebody else's key.
pub(crate) const KEYED_PREFIX: &str = "http:";
/// Mail lives at most this long whatever the sender says.
pub(crate) const TTL_MS_MAX: Millis = 30 * 24 * 3600 * 1000;

/// An event on its way: sender known, envelope valid.
#[derive(Debug)]
pub(crate) struct EmitDraft<'d, 'a> {
    pub(crate) envelope: &'d Envelope<'a>,
    /// The type of the envelope.
    pub(crate) kind: EventType<'d>,
    pub(crate) member: MemberId,
    /// In whose share it is what it makes.
    pub(crate) maker: Maker,
    /// What the sender may do by the session it shows.
    pub(crate) role: Role,
    pub(crate) address: Cow<'d, str>,
    pub(crate) metadata: Metadata<'a>,
    pub(crate) target: Cow<'d, str>,
    pub(crate) visibility: Visibility,
    pub(crate) route: Route,
    pub(crate) received: Option<u128>,
    pub(crate) more: Option<Box<More>>,
    /// The payload as it is stored, where that is not what was sent.
    pub(crate) payload: Option<String>,
    /// What the event is known by again, where its stored form may differ from what was sent.
    pub(crate) sent_body: Option<[u8; 16]>,
    /// Whether it may go to its channel was looked at already.
    pub(crate) admitted: bool,
    /// Events that were looked up for this one.
    pub(crate) found: &'d [(String, Option<Arc<EventRecord>>)],
    /// What mods that run elsewhere made of it.
    pub(crate) walked: Option<Box<Walked>>,
}

impl EmitDraft<'_, '_> {
    /// What it says, read into a type.
    pub(crate) fn said<T: for<'t> Deserialize<'t>>(&self) -> Result<T, Fault> {
        read::text(&self.envelope.payload, read::PAYLOAD)
    }

    /// Channel acts are stored and delivered under the channel's own address.
    pub(crate) fn retarget(&mut self, channel: &str, id: ChannelId) {
        self.target = Cow::Owned(format!("channel/{channel}"));
        self.visibility = Visibility::Channel;
        self.route.stream = Some(StreamKey::Channel(id));
    }

    /// The payload, if it is not the one that was sent.
    pub(crate) fn rewritten(&self) -> Option<Arc<str>> {
        self.walked.as_ref().filter(|walked| walked.changed).map(|_| self.envelope.payload.as_ref().into())
    }
}

/// Who sends an event.
enum CheckSender {
    Member(MemberId),
    /// Not (or no longer) a member: its first event joins it.
    Guest(membership::Guest),
}

pub(crate) fn decide(engine: &mut Engine, input: &Emit<'_>, now: Clock, fx: &mut Effects) -> Result<Accepted, Stop> {
    let (state, live) = (&engine.state, &mut engine.live);
    let envelope = input.envelope;
    if envelope.network.as_deref().is_some_and(|n| n != state.book.id.as_ref() && n != state.book.settings.name) {
        return Err(Fault::new(
            ErrorCode::NetworkMismatch,
            format!(
                "the event names another network than {}, which it was sent to: leave network out, or send it there",
                state.book.id
            ),
        )
        .field("network")
        .into());
    }
    let mut metadata = Metadata::parse(envelope.metadata)?;
    let kind = envelope.event_type();
    if kind == EventType::AgentJoin {
        core_events::check_target(state, kind, &envelope.target)?;
        return membership::join(state, live, input, now, fx);
    }
    let (sender, address) = sender(state, input, &metadata, now)?;
    if let KnownId::Known(record) = &input.seen {
        return Ok(duplicate(state, input, &address, &metadata, record)?);
    }
    if let Some(trace) = &input.caller.trace {
        trace.fill(&mut metadata);
    }
    let (member, accepted) = match sender {
        CheckSender::Member(member) => {
            live.touch(member, now);
            (member, emitted(state, live, input, member, address, metadata, None, now, fx)?)
        }
        CheckSender::Guest(guest) => {
            guest.records.iter().for_each(|record| fx.commit(record.clone()));
            let address = address.into_owned().into();
            let newcomer = Newcomer::of(&engine.state, &guest.records);
            let live = &mut engine.live;
            let accepted = engine.state.with_newcomer(newcomer, |state| {
                emitted(state, live, input, guest.member, address, metadata, None, now, fx)
            })?;
            (guest.member, accepted)
        }
    };
    let (state, live) = (&engine.state, &mut engine.live);
    if !accepted.left && live.came(member, now) {
        let shown = accepted.event.as_ref().map(|e| e.event.source().to_owned());
        let known = state.member(member);
        let address = known.map(|m| m.address.to_string()).or(shown).unwrap_or_default();
        presence_signal(state, live, &address, known.map_or(Role::Member, Member::role), true, now, fx);
    }
    Ok(accepted)
}

/// The rest of the walk, once it is known who sends.
#[allow(clippy::too_many_arguments, reason = "what the walk has gathered so far")]
fn emitted<'d, 'a>(
    state: &'d State,
    live: &mut VolatileState,
    input: &'d Emit<'a>,
    member: MemberId,
    address: Cow<'d, str>,
    metadata: Metadata<'a>,
    progress: Option<Box<TransformProgress>>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let envelope = input.envelope;
    let kind = envelope.event_type();
    core_events::check_type(state, kind, &envelope.target)?;
    let role = state.role_of(input.caller, member, now);
    may_emit(state, member, role, envelope, input.caller.keyed)?;
    let mut draft = EmitDraft { role, ..draft(state, input, member, address, metadata)? };
    let rewritten = || {
        kind.namespace() == Namespace::Work
            || kind.is_about_resources()
            || draft.metadata.get("work").is_some()
            || workspace::rewrites(state, &draft)
    };
    if envelope.id.is_some() && rewritten() {
        draft.sent_body = Some(sent_body(envelope, &draft.address, &draft.target, &draft.metadata, draft.visibility)?);
    }
    if external::concerns(state, &input.answers) && !external::is_exempt(kind) {
        let goes = |text: &str| may_go(state, input, member, &draft.address, text);
        let progress = progress.unwrap_or_default();
        match external::walk(state, live, &draft, &input.answers, *progress, &goes, now)? {
            external::Next::Through(walked) => {
                draft.sent_body = walked.sent_body.or(draft.sent_body);
                draft.walked = Some(walked);
            }
            external::Next::Changed(text, progress) => {
                let envelope = Envelope::parse(&text).map_err(|unreadable| unreadable.fault)?;
                let metadata = Metadata::parse(envelope.metadata)?;
                let again = input.again(&envelope);
                let progress = Some(Box::new(progress));
                return emitted(state, live, &again, member, draft.address, metadata, progress, now, fx);
            }
        }
    }
    if kind.is_network() {
        return core_events::decide(state, live, draft, &input.answers, now, fx);
    }
    if workspace::acts(state, &draft) {
        return workspace::act(state, live, draft, input, now, fx);
    }
    if let Some(before) = work::opened_before(state, &draft)? {
        return Ok(before);
    }
    let involved = work::involve(state, live, &mut draft, &input.answers, now, fx)?;
    let mut accepted = commit_in_place(state, live, &mut draft, now, fx)?;
    if let Some(involved) = involved {
        involved.finish(state, &mut accepted, now, fx);
    }
    Ok(accepted)
}

/// Whether a changed event could be sent like this.
fn may_go(state: &State, input: &Emit<'_>, member: MemberId, address: &str, text: &str) -> Result<(), Fault> {
    let envelope = Envelope::parse(text).map_err(|unreadable| unreadable.fault)?;
    let metadata = Metadata::parse(envelope.metadata)?;
    core_events::check_type(state, envelope.event_type(), &envelope.target)?;
    draft(state, &input.again(&envelope), member, address.into(), metadata).map(drop)
}

/// Asks the mods about a request that is answered without being committed, and that no event of its own decides.
pub(crate) fn request(engine: &mut Engine, input: &Emit<'_>, member: MemberId, now: Clock) -> Result<(), Stop> {
    let (state, live) = (&engine.state, &mut engine.live);
    if external::concerns(state, &input.answers) {
        let Some(m) = state.member(member) else { return Err(ErrorCode::NotAMember.into()) };
        let sender = external::CheckSender::member(state, member, &m.address);
        let shape = ChangeableMembers {
            kind: input.envelope.kind.as_ref().into(),
            target: "core".into(),
            payload: input.envelope.payload.as_ref().into(),
            metadata: Metadata::parse(input.envelope.metadata)?.to_json(),
            visibility: Some(Visibility::Direct),
        };
        let stamp = state.stamp(now.wall);
        let id = input.envelope.id.as_deref();
        let fixed = Fixed { id, source: &m.address, network: &state.book.id, stamp, sent_at: None };
        external::guards(state, live, &input.answers, external::CheckStage::Guard, &shape, sender, fixed, now)?;
    }
    Ok(guard_request(state, live, &input.envelope.kind, member, now)?)
}

/// Runs the guards on a request that is answered without being committed.
pub(crate) fn guard_request(
    state: &State,
    live: &mut VolatileState,
    kind: &str,
    member: MemberId,
    now: Clock,
) -> Result<(), Fault> {
    let Some(m) = state.member(member) else { return Err(ErrorCode::NotAMember.into()) };
    let mut metadata = Metadata::default();
    let draft = mods::PipelineInput {
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
fn sender<'s>(
    state: &'s State,
    input: &Emit<'_>,
    metadata: &Metadata<'_>,
    now: Clock,
) -> Result<(CheckSender, Cow<'s, str>), Fault> {
    if let Some(known) = on_stream(state, input, now)? {
        return Ok(known);
    }
    let said = input.envelope.source.as_deref();
    // An address written as the network writes it needs no parsing.
    let parsed = match said.filter(|text| state.member_id(text).is_none()) {
        None => None,
        Some(text) => Some(
            Address::parse_in(text, &state.network)
                .map_err(|e| Fault::new(ErrorCode::InvalidAddress, format!("source {text:?}: {e}")).field("source"))?,
        ),
    };
    let said = parsed.as_ref().map(Address::as_str).or(said);
    let mut caller = input.caller;
    let with_session;
    if let (None, Some(session)) = (caller.session, &metadata.session_id) {
        use sha2::Digest;
        with_session =
            crate::Caller { session: Some(sha2::Sha256::digest(session.as_bytes()).into()), ..caller.clone() };
        caller = &with_session;
    }
    let guest = |who: &str, known: Option<MemberId>, token: Option<String>| {
        if !(caller.capabilities.joins_by_speaking && state.book.settings.implicit_join) {
            return Err(Fault::new(ErrorCode::NotAMember, format!("{who} is not a member: join first")));
        }
        is_active(state)?;
        Ok((CheckSender::Guest(membership::guest(state, who, known, token, input, now)?), Cow::Owned(who.to_owned())))
    };
    let mut principal = state.principal(caller, None, now)?;
    if principal == Principal::Operator && said.is_some() {
        principal = state.principal(caller, said, now)?;
    }
    let mut label = None;
    if let Principal::Holder { claimed, token } = principal {
        let Some(who) = said.or(claimed.as_deref()) else {
            return Err(Fault::new(
                ErrorCode::Unauthenticated,
                "the sender of this event is not known: give its source, and show its session id as Bearer",
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
            Ok((CheckSender::Member(id), address))
        }
        Principal::Operator | Principal::Holder { .. } => {
            Err(Fault::new(ErrorCode::NotAMember, "the operator has no address to send from: join as a member first"))
        }
    }
}

/// A stream that joined, which names itself as the network does or not at all: nothing has to be parsed.
fn on_stream<'s>(state: &'s State, input: &Emit<'_>, now: Clock) -> Result<Option<(CheckSender, Cow<'s, str>)>, Fault> {
    if input.caller.stream.is_none() {
        return Ok(None);
    }
    let Principal::Member(id) = state.principal(input.caller, None, now)? else { return Ok(None) };
    let said = input.envelope.source.as_deref();
    let known = state
        .member(id)
        .filter(|m| m.is_present() && said.is_none_or(|s| s == m.address.as_ref() || state.known_as(s) == Some(id)));
    Ok(known.map(|m| (CheckSender::Member(id), Cow::Borrowed(m.address.as_ref()))))
}

pub(crate) fn is_active(state: &State) -> Result<(), Fault> {
    match state.book.settings.status {
        Status::Active => Ok(()),
        Status::Paused => Err(ErrorCode::NetworkPaused.into()),
        Status::Archived => Err(ErrorCode::NetworkArchived.into()),
    }
}

fn bound<'s>(state: &'s State, id: MemberId, said: Option<&str>) -> Result<Cow<'s, str>, Fault> {
    let Some(member) = state.member(id).filter(|m| !m.removed) else { return Err(ErrorCode::NotAMember.into()) };
    match said {
        Some(said) if state.known_as(said) != Some(id) => Err(Fault::new(
            ErrorCode::SourceMismatch,
            format!(
                "this session belongs to {}, not to the source given: leave source out, or show the other's session",
                member.address
            ),
        )
        .field("source")),
        _ => Ok(Cow::Borrowed(member.address.as_ref())),
    }
}

/// Types an observer may send: those that read or manage itself.
fn observer_may(kind: EventType<'_>) -> bool {
    use EventType::*;
    matches!(
        kind,
        AgentLeave
            | AgentDiscover
            | ChannelJoin
            | ChannelLeave
            | ResourceDiscover
            | ResourceRead
            | EventsQuery
            | Ping
            | EventAck
    )
}

/// Status of the network and role of the sender.
fn may_emit(state: &State, member: MemberId, role: Role, envelope: &Envelope<'_>, keyed: bool) -> Result<(), Fault> {
    use EventType::*;
    let kind = envelope.event_type();
    let reads = matches!(kind, AgentDiscover | EventsQuery | ResourceDiscover | ResourceRead);
    match state.book.settings.status {
        Status::Active => {}
        Status::Paused if reads || matches!(kind, AgentLeave | Ping | EventAck) => {}
        Status::Paused => return Err(ErrorCode::NetworkPaused.into()),
        Status::Archived if reads => {}
        Status::Archived => return Err(ErrorCode::NetworkArchived.into()),
    }
    let observer = role == Role::Observer;
    if observer && !observer_may(kind) {
        return Err(Fault::new(
            ErrorCode::ObserverReadOnly,
            "observers may read but not send: join with the role member to send",
        ));
    }
    let for_others = || {
        let payload: serde_json::Value = serde_json::from_str(&envelope.payload).unwrap_or_default();
        let named = ["agent", "agent_name"].iter().find_map(|k| payload.get(*k)).and_then(|v| v.as_str());
        named.is_some_and(|name| membership::find_named(state, name) != Some(member))
    };
    if observer && matches!(kind, ChannelJoin | ChannelLeave) && for_others() {
        return Err(Fault::new(ErrorCode::ObserverReadOnly, "observers may seat and unseat only themselves"));
    }
    if !keyed && envelope.id.as_deref().is_some_and(|id| id.starts_with(KEYED_PREFIX)) {
        let text = format!("ids that begin with {KEYED_PREFIX} are made from the header Idempotency-Key");
        return Err(Fault::new(ErrorCode::InvalidEvent, text).field("id"));
    }
    if envelope
        .id
        .as_deref()
        .and_then(EventId::from_text)
        .is_some_and(|id| id.salt == state.book.salt && (1..1 << 32).contains(&id.seq.wrapping_sub(state.book.head)))
    {
        return Err(Fault::new(ErrorCode::InvalidEvent, "this id has the form of those the node makes itself, and it may make this one soon: choose another id, or give none").field("id"));
    }
    Ok(())
}

/// `thread_` and 3 to 96 characters of `[a-z0-9_-]`, the first not a mark.
fn is_thread(text: &str) -> bool {
    text.strip_prefix("thread_").is_some_and(|rest| {
        (3..=96).contains(&rest.len())
            && rest.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
    })
}

/// A target and the stream behind it.
struct ResolvedTarget<'d> {
    target: Cow<'d, str>,
    stream: Option<StreamKey>,
    reach: Reach,
}

/// Finds out where a target leads. One that is written as the network itself writes it needs no parsing.
fn aim<'d>(state: &'d State, kind: EventType<'_>, text: &'d str) -> Result<ResolvedTarget<'d>, Fault> {
    if text == "core" {
        return Ok(ResolvedTarget { target: text.into(), stream: None, reach: Reach::Core });
    }
    if let Some(id) = state.member_id(text).filter(|id| state.member(*id).is_some_and(Member::is_present)) {
        return Ok(ResolvedTarget { target: text.into(), stream: Some(StreamKey::Inbox(id)), reach: Reach::Principal });
    }
    let channel = text.strip_prefix("channel/").and_then(|name| state.channel_id(name));
    if let Some(id) = channel.filter(|id| state.channel(*id).is_some_and(|c| c.status == ChannelStatus::Active)) {
        return Ok(ResolvedTarget { target: text.into(), stream: Some(StreamKey::Channel(id)), reach: Reach::Members });
    }
    let target = Address::parse_in(text, &state.network)
        .map_err(|e| Fault::new(ErrorCode::InvalidAddress, format!("target {text:?}: {e}")).field("target"))?;
    let stream = match workspace::resolve(state, kind, &target) {
        Some(stream) => stream,
        None => route::resolve(state, &target)?,
    };
    Ok(ResolvedTarget { target: target.as_str().to_owned().into(), stream, reach: Reach::of(&target) })
}

/// Where an event goes, how far it is seen, and what narrows it.
pub(crate) struct Laid<'d> {
    pub(crate) target: Cow<'d, str>,
    pub(crate) stream: Option<StreamKey>,
    pub(crate) visibility: Visibility,
    pub(crate) thread: Option<Box<str>>,
    pub(crate) to: Option<Vec<MemberId>>,
}

/// Finds out where an event goes; what it cannot see is not there for the member that sends it.
pub(crate) fn lay<'d>(
    state: &'d State,
    kind: EventType<'_>,
    target: &'d str,
    visibility: Option<Visibility>,
    metadata: &Metadata<'_>,
    member: Option<(MemberId, Maker)>,
) -> Result<Laid<'d>, Fault> {
    let ResolvedTarget { target, stream, reach } = aim(state, kind, target)?;
    if let (Reach::Resource, Some((member, _))) = (reach, member) {
        resources::visible(state, &target, member, kind)?;
    }
    let visibility = visibility::checked(reach, &target, kind, visibility)?;
    let in_channel = matches!(stream, Some(StreamKey::Channel(_)));
    let thread = match metadata.text("thread") {
        None => None,
        Some(thread) if in_channel && is_thread(&thread) => Some(Box::<str>::from(thread.as_ref())),
        Some(_) if in_channel => {
            return Err(Fault::new(
                ErrorCode::InvalidEvent,
                "metadata.thread is not the id of a thread: thread_ and 3 to 96 small letters, digits, _ and -",
            )
            .field("metadata.thread"));
        }
        Some(_) => {
            return Err(Fault::new(
                ErrorCode::InvalidEvent,
                "metadata.thread needs a channel as target: a thread is inside a channel",
            )
            .field("metadata.thread"));
        }
    };
    if let (Some(StreamKey::Channel(channel)), Some(thread)) = (stream, &thread) {
        let maker = member.map_or(Maker::Nobody, |(_, maker)| maker);
        conversations::may_begin(state, channel, thread, maker)?;
    }
    let fans_out = matches!(stream, Some(StreamKey::Channel(_) | StreamKey::Group(_) | StreamKey::Broadcast));
    let to = narrowed(state, metadata)?.filter(|_| fans_out);
    Ok(Laid { target, stream, visibility, thread, to })
}

fn draft<'d, 'a>(
    state: &'d State,
    input: &'d Emit<'a>,
    member: MemberId,
    address: Cow<'d, str>,
    mut metadata: Metadata<'a>,
) -> Result<EmitDraft<'d, 'a>, Fault> {
    let envelope = input.envelope;
    let maker = state.maker(member, input.caller);
    let kind = envelope.event_type();
    let laid = lay(state, kind, &envelope.target, envelope.visibility, &metadata, Some((member, maker)))?;
    let Laid { target, stream, visibility, thread, to } = laid;
    let scoped = conversations::room_channel(state, &metadata, member)?.is_some();
    if scoped && !matches!(stream, Some(StreamKey::Inbox(_)) | None) {
        return Err(Fault::new(
            ErrorCode::InvalidEvent,
            "metadata.room_channel needs a member as target: it names the channel that a direct room belongs to",
        )
        .field("metadata.room_channel"));
    }
    if let Some(at) = envelope.timestamp {
        metadata.set("client_timestamp", at.to_owned());
    }
    Ok(EmitDraft {
        envelope,
        kind,
        member,
        maker,
        role: state.member(member).map_or(Role::Observer, Member::role),
        address,
        metadata,
        target,
        visibility,
        route: Route { stream, source: Some(member), thread, to, room: None },
        received: envelope.id.is_some().then_some(input.received),
        more: None,
        payload: None,
        sent_body: None,
        admitted: false,
        found: &input.answers.found,
        walked: None,
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
    live: &mut VolatileState,
    mut draft: EmitDraft<'_, '_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    commit_in_place(state, live, &mut draft, now, fx)
}

/// The same, and uses the draft up where it lies: it is large, and most events come this way.
fn commit_in_place(
    state: &State,
    live: &mut VolatileState,
    draft: &mut EmitDraft<'_, '_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let kind = draft.kind;
    let seat = match draft.route.stream {
        Some(StreamKey::Channel(id)) if !kind.is_network() && !draft.admitted => {
            channels::may_post(state, id, draft.member)?.then_some(id)
        }
        _ => None,
    };
    let message = workspace::message(state, draft)?;
    let stamp = state.stamp(now.wall);
    let mut metadata = std::mem::take(&mut draft.metadata);
    let ephemeral = metadata.ephemeral.unwrap_or_else(|| workspace::is_ephemeral(state, kind));
    let ephemeral = ephemeral && !kind.is_network() && !crate::bugs::on("ephemeral event stored");
    let is_mail = !ephemeral && state.is_tracked();
    let recipient = match draft.route.stream {
        Some(StreamKey::Inbox(to)) if is_mail && to != draft.member => Some(to),
        _ => None,
    };
    recipient.map_or(Ok(()), |to| state.takes_one_more(to))?;
    let mut view = mods::PipelineInput {
        kind: kind.as_str(),
        source: Some(draft.member),
        address: &draft.address,
        verification: state.member(draft.member).map_or(0, |m| m.verification),
        broadcast: draft.route.stream == Some(StreamKey::Broadcast),
        metadata: &mut metadata,
        stamp,
    };
    mods::guard(state, live, &view, now)?;
    mods::transform(state, &mut view);
    // The keys of mod/workspace are its own: its place among the transforms does not matter.
    let meant = message.map(|message| message.transform(state, live, draft, &mut metadata)).unwrap_or_default();
    if ephemeral && metadata.ephemeral.is_none() {
        metadata.set("ephemeral", "true".to_owned());
    }
    let seq = if ephemeral { 0 } else { state.next_seq() + fx.events() };
    let own = match &draft.envelope.id {
        Some(_) => [0; 26],
        None if ephemeral => signal_id(state, live, stamp).to_ascii(),
        None => EventId { at: stamp, seq, salt: state.book.salt }.to_ascii(),
    };
    let id = draft.envelope.id.as_deref().or(std::str::from_utf8(&own).ok()).unwrap_or_default();
    let event = Event::new(
        seq,
        &EventParts {
            id,
            kind: kind.as_str(),
            source: &draft.address,
            target: &draft.target,
            payload: draft.payload.as_deref().unwrap_or(&draft.envelope.payload),
            metadata: &metadata.to_json(),
            timestamp: stamp,
            network: &state.book.id,
            visibility: draft.visibility,
        },
    );
    // How large it is shows when every mod has had its say.
    recipient.map_or(Ok(()), |to| state.takes_bytes_of(to, &event))?;
    draft.route.room = if ephemeral { None } else { conversations::room_of(state, draft, &metadata, now, fx) };
    if let Some(channel) = seat {
        fx.change(Change::Seated { channel, member: draft.member });
    }
    if let Some(StreamKey::Channel(channel)) = draft.route.stream {
        meant.seats.iter().for_each(|member| fx.change(Change::Seated { channel, member: *member }));
    }
    if ephemeral {
        let event = Arc::new(event);
        let after = Some(state.book.head);
        fx.after.push(Effect::Signal { event: event.clone(), route: draft.route.clone(), after });
        let shown = EventRecord {
            event: (*event).clone(),
            route: std::mem::take(&mut draft.route),
            received: None,
            receipt: false,
            stored: false,
            dies_at: None,
            verdicts: Vec::new(),
            more: None,
        };
        return Ok(Accepted { event: Some(Arc::new(shown)), ..Accepted::default() });
    }
    let ttl = metadata.ttl_ms.filter(|ttl| *ttl < state.book.settings.ttl_ms).map(|ttl| ttl.min(TTL_MS_MAX));
    let dies_at = [ttl, meant.life_ms].into_iter().flatten().min().map(|life| now.steady.saturating_add(life));
    let title = meant.note(&mut draft.more);
    let walked = draft.walked.take();
    let changed = draft.more.is_some()
        || draft.payload.is_some()
        || walked.as_ref().is_some_and(|walked| walked.changed)
        || workspace::active(state, kind).is_some();
    if draft.sent_body.is_some() && changed {
        draft.more.get_or_insert_default().sent_body = draft.sent_body;
    }
    if conversations::begins(state, &draft.route) {
        draft.more.get_or_insert_default().begins = true;
    }
    let record = Arc::new(EventRecord {
        event,
        route: std::mem::take(&mut draft.route),
        received: draft.received,
        receipt: metadata.receipt,
        stored: persistence::keeps(state, kind.as_str()),
        dies_at,
        verdicts: walked.map(|walked| walked.notes).unwrap_or_default(),
        more: draft.more.take(),
    });
    fx.commit(Record::Event(record.clone()));
    if let (Some(title), Some(StreamKey::Channel(channel))) = (title, record.route.stream) {
        workspace::sessions::titled(state, channel, title, now, fx);
    }
    Ok(Accepted { seq: Some(seq), event: Some(record), ..Accepted::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_names() {
        for (text, good) in
            [("thread_abc", true), ("thread_a-1_", true), ("thread_ab", false), ("thread_-ab", false), ("x", false)]
        {
            assert_eq!(is_thread(text), good, "{text}");
        }
    }
}
