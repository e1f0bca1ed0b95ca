//! A join: what it wishes for, and what its member is from then on (OpenAgents sheet, sections 1.3 and 5).
//!
//! Invariant: the checks run in the sheet's order and the first failure decides.

use super::admission::{Admission, admit, kept_session, shown_token, shows_session};
use super::{DEFAULT_CHANNEL, check_profile, may_be_joined, remove};
use crate::channels;
use crate::credential::{Invited, NameHold, Session};
use crate::input::{Accepted, Clock, Effect, Effects, Emit, Joined, Resume, SessionRef, Stop};
use crate::invites;
use crate::mods::external::CheckStage;
use crate::mods::external::shape::{ChangeableMembers, Fixed};
use crate::mods::{self, external};
use crate::presence::VolatileState;
use crate::record::Change;
use crate::server_events;
use crate::state::{Member, MemberId, State};
use rialto_model::address::{Address, Entity};
use rialto_model::member::{Profile, Receive};
use rialto_model::metadata::Metadata;
use rialto_model::network::{Preset, Status};
use rialto_model::{ErrorCode, Fault, Role, Seq, Visibility, limits};
use serde::Deserialize;
use serde_json::{Value, json};

/// The join payload of sheet section 5; unknown members are ignored, credentials were read by the node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct JoinWish {
    agent_id: Option<String>,
    role: Option<String>,
    agent_type: Option<String>,
    description: Option<String>,
    capabilities: Option<Vec<String>>,
    channels: Option<Vec<String>>,
    replay: bool,
    window: Option<i64>,
    acks: Option<String>,
    receive: Option<Receive>,
    server_host: Option<String>,
    working_dir: Option<String>,
    /// A person's session opens another one instead of going on.
    new_session: bool,
    /// Whether a live session of the name may be ended; so it is unless it says no.
    takeover: Option<bool>,
}

impl JoinWish {
    /// Of somebody who says no more than what kind of agent it is.
    pub(super) fn of_kind(agent_type: Option<&str>) -> JoinWish {
        JoinWish { agent_type: agent_type.map(str::to_owned), ..JoinWish::default() }
    }
}

/// Decides a `network.agent.join`.
pub(crate) fn join(
    state: &State,
    live: &mut VolatileState,
    input: &Emit<'_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let wish: JoinWish = serde_json::from_str(&input.envelope.payload)
        .map_err(|e| Fault::new(ErrorCode::InvalidPayload, format!("join payload: {e}")).field("payload"))?;
    match state.book.settings.status {
        Status::Active => {}
        Status::Paused => return Err(ErrorCode::NetworkPaused.into()),
        Status::Archived => return Err(ErrorCode::NetworkArchived.into()),
    }
    let address = renamed_since(state, input, joining_address(state, input, &wish)?);
    let mut known = state.member_id(address.as_str());
    let Admission { level, freed, invite, brings } = admit(state, input, &address, known, now)?;
    if let Some((id, name)) = known.filter(|id| spares(state, live, input, &wish, *id, now)).zip(Some(&address)) {
        let since = state.member(id).and_then(|m| m.sessions.last()).map(|s| s.created_at);
        let text = format!(
            "{name} is connected already, and this join may not take its session over: close that one first, or join under another name"
        );
        return Err(Fault::new(ErrorCode::AddressTaken, text).details(json!({ "session_since": since })).into());
    }
    guard(state, live, input, &address, known, level, now)?;
    let window = match wish.window {
        None => limits::WINDOW_DEFAULT,
        Some(n) => usize::try_from(n).ok().filter(|n| (1..=limits::WINDOW_MAX).contains(n)).ok_or_else(|| {
            Fault::new(ErrorCode::InvalidArgument, format!("window is 1 to {}", limits::WINDOW_MAX)).field("window")
        })?,
    };
    let batch_acks = match wish.acks.as_deref() {
        None | Some("each") => false,
        Some("batch") => true,
        Some(_) => {
            return Err(Fault::new(ErrorCode::InvalidArgument, "acks is \"each\" or \"batch\"").field("acks").into());
        }
    };
    let resume_after = match input.resume {
        Resume::None => None,
        Resume::After(seq) => Some(seq),
        Resume::Unknown if input.caller.capabilities.resumes_anywhere => Some(0),
        Resume::Unknown => return Err(ErrorCode::CursorUnknown.into()),
    };
    let token = shown_token(state, input, address.as_str(), now);
    let receive = wish.receive.unwrap_or(if input.caller.capabilities.reads_history && state.has_mod("persistence") {
        Receive::Log
    } else {
        Receive::Queue
    });
    if let (true, Some(id)) = (freed, known) {
        let carried = state.member(id).is_some_and(|m| m.via.is_some());
        remove(state, id, if carried { "recipient_left" } else { "expired" }, now, fx);
        known = None;
    }
    let head = state.book.head + fx.events();
    let id = known.unwrap_or_else(|| u32::try_from(state.book.members.len()).unwrap_or(u32::MAX));
    let old = known.and_then(|id| state.member(id));
    let invited = invite.as_ref().and_then(|id| Some((id, state.book.invites.get(id)?)));
    let human = matches!(address.entity(), Entity::Human(_));
    let shown = kept_session(state, input, known, now);
    let kept = shown.filter(|_| !(human && wish.new_session));
    let from = shown.and_then(|number| old?.session(number));
    let asked = wish.role.as_deref().and_then(Role::from_wire).filter(|role| *role == Role::Observer);
    // Roles are ordered from the most to the least powerful. A session that goes on, or one that it opened, may not become
    // more than it was.
    let current = from.and_then(|session| session.cap);
    let brought = if from.is_some() { current } else { token.and_then(|t| t.role).max(invited.map(|(_, i)| i.role)) };
    let cap = brought.max(asked);
    let record = member_record(old, &address, &wish, level, receive, head, state.stamp(now.wall));
    check_profile(&record.profile)?;
    let record = Member {
        lax: input.caller.capabilities.shares_name,
        token: token.map(|t| t.label.clone()),
        cap: if human { least_capped(old, kept, cap) } else { cap },
        hold: if input.caller.via.is_some() { NameHold::Nothing } else { state.held(old, &address, brings) },
        used_at: now.steady.max(1),
        ..record
    };
    let lowered = crate::bugs::on("role lowered by a join") && asked.is_some();
    let via = input.caller.via.as_ref().map(|via| via.face.clone());
    let record = Member { granted: if lowered { Role::Observer } else { record.granted }, via, ..record };
    let role = cap.map_or(record.granted, |cap| record.granted.max(cap));
    let (session, issued) = match kept {
        Some(number) => (SessionRef { member: id, number }, false),
        // A face speaks for who it carries; there is no session that anybody else could show.
        None if record.via.is_some() => (SessionRef { member: id, number: 0 }, false),
        None => (SessionRef { member: id, number: state.book.next_session }, true),
    };
    let full = issued && human && old.is_some_and(|m| m.sessions.len() >= limits::HUMAN_SESSIONS_MAX);
    if full && !input.caller.operator {
        return Err(ErrorCode::TooManySessions.into());
    }
    if let Some(oldest) = old.filter(|_| full).and_then(|m| m.sessions.first()).map(|s| s.number) {
        fx.change(Change::SessionEnded { member: id, numbers: vec![oldest], expired: false, voided: false });
        let code = ErrorCode::SessionRevoked;
        fx.after.push(Effect::Revoked { member: id, numbers: vec![oldest], code });
    }
    let address_text: Box<str> = address.as_str().into();
    fx.change(Change::Joined { member: id, record: Box::new(record) });
    if issued {
        let fresh = Session {
            sha256: input.fresh_session,
            number: session.number,
            created_at: state.stamp(now.wall),
            began: Some(now.steady),
            // What a session opens ends with what that session ends with.
            token: from.map_or_else(|| token.map(|t| t.label.as_str().into()), |from| from.token.clone()),
            invited: match from {
                Some(from) => from.invited.clone(),
                None => invited.map(|(id, invite)| Invited {
                    by: id.clone(),
                    inviter: invite.inviter,
                    token: invite.token.clone(),
                }),
            },
            cap,
        };
        fx.change(Change::SessionIssued { member: id, session: fresh, keep_others: human });
        let taken: Vec<u64> =
            old.filter(|_| !human).map(|m| m.sessions.iter().map(|s| s.number).collect()).unwrap_or_default();
        if !taken.is_empty() {
            fx.after.push(Effect::Revoked { member: id, numbers: taken, code: ErrorCode::SessionRevoked });
        }
    } else if let Some(cap) = cap.filter(|cap| current != Some(*cap)) {
        fx.change(Change::SessionCapped { member: id, number: session.number, cap });
    }
    let mut seats: Vec<String> = wish.channels.unwrap_or_default();
    if state.book.settings.profile == Preset::Workspace
        && old.is_none()
        && input.caller.via.is_none()
        && state.channel_id(DEFAULT_CHANNEL).is_some()
    {
        seats.insert(0, DEFAULT_CHANNEL.to_owned());
    }
    for name in &seats {
        channels::seat_on_join(state, id, old, name, fx)?;
    }
    let event =
        server_events::system_copy(state, input, &address_text, id, join_payload(&input.envelope.payload), now, fx)?;
    if let Some(invite) = &invite {
        invites::accepted(state, invite, id, &address_text, now, fx);
    }
    let pending =
        if receive == Receive::Queue { state.pending(id, resume_after.unwrap_or(0), Seq::MAX).count() } else { 0 };
    let ended = old.filter(|m| issued && !human && live.is_online(id, now) && !m.sessions.is_empty());
    let took_over = ended.and_then(|m| m.sessions.last()).map(|s| json!({ "since": s.created_at, "token": s.token }));
    if live.came(id, now) {
        server_events::presence_signal(state, live, &address_text, role, true, now, fx);
    }
    let (since, replay) = (event.event.seq, wish.replay);
    let mut accepted = Accepted {
        seq: Some(since),
        event: Some(event),
        joined: input
            .caller
            .via
            .is_none()
            .then(|| Box::new(Joined { session, issued, window, resume_after, replay, batch_acks, since })),
        ..Accepted::default()
    };
    accepted.says(json!({
        "network_id": state.book.id, "address": address_text, "agent_name": address.bare_name(), "role": role.as_str(),
        "status": "online", "verification": level, "heartbeat_ms": 30_000, "offline_after_ms": crate::presence::OFFLINE_AFTER_MS,
        "window": window, "head_id": Value::Null, "pending": pending, "took_over": took_over,
    }));
    Ok(accepted)
}

/// Whether the join would end a session of somebody who is there, and does not want to.
fn spares(state: &State, live: &VolatileState, input: &Emit<'_>, wish: &JoinWish, id: MemberId, now: Clock) -> bool {
    let Some(member) = state.member(id).filter(|m| !m.is_human() && !m.sessions.is_empty()) else { return false };
    let there = member.is_present() && live.is_online(id, now);
    wish.takeover == Some(false) && there && kept_session(state, input, Some(id), now).is_none()
}

/// What a person may do is what the session that may most does.
fn least_capped(old: Option<&Member>, kept: Option<u64>, cap: Option<Role>) -> Option<Role> {
    let others = old.into_iter().flat_map(|m| &m.sessions).filter(|s| Some(s.number) != kept);
    others.map(|s| s.cap).fold(cap, Option::min)
}

/// Step 2: the address parses and may be joined under.
fn joining_address(state: &State, input: &Emit<'_>, wish: &JoinWish) -> Result<Address, Fault> {
    let text = match (&input.envelope.source, &wish.agent_id) {
        (Some(source), Some(agent)) if !same_address(state, source, agent) => {
            return Err(Fault::new(ErrorCode::SourceMismatch, "source and agent_id name different addresses"));
        }
        (Some(source), _) => source.to_string(),
        (None, Some(agent)) => agent.clone(),
        (None, None) => input.caller.claimed.as_deref().map(str::to_owned).ok_or_else(|| {
            Fault::new(ErrorCode::InvalidAddress, "say who joins: agent_id or source").field("agent_id")
        })?,
    };
    let address = Address::parse_in(&text, &state.network)
        .map_err(|e| Fault::new(ErrorCode::InvalidAddress, format!("{text:?}: {e}")).field("agent_id"))?;
    if !may_be_joined(&address) {
        return Err(Fault::new(ErrorCode::InvalidAddress, format!("nobody can join as {address}")).field("agent_id"));
    }
    // The operator's word is good for the address it was given for.
    match input.caller.claimed.as_deref().filter(|only| input.caller.operator && *only != address.as_str()) {
        Some(only) => {
            Err(Fault::new(ErrorCode::SourceMismatch, format!("this connection joins as {only} only")).field("source"))
        }
        None => Ok(address),
    }
}

fn same_address(state: &State, a: &str, b: &str) -> bool {
    let parse = |t: &str| Address::parse_in(t, &state.network).ok();
    parse(a).is_some() && parse(a).map(|a| a.as_str().to_owned()) == parse(b).map(|b| b.as_str().to_owned())
}

/// Whoever was renamed and comes back under its old name, with its session, joins as who it is now.
fn renamed_since(state: &State, input: &Emit<'_>, address: Address) -> Address {
    let Some(id) = state.book.former.get(address.as_str()).copied() else { return address };
    let current = state.member(id).filter(|_| shows_session(state, input, Some(id)).is_some());
    current.and_then(|m| Address::parse_in(&m.address, &state.network).ok()).unwrap_or(address)
}

/// Guards see joins too, once it is sure who joins.
fn guard(
    state: &State,
    live: &mut VolatileState,
    input: &Emit<'_>,
    address: &Address,
    known: Option<MemberId>,
    level: u8,
    now: Clock,
) -> Result<(), Stop> {
    let stamp = state.stamp(now.wall);
    let kind = input.envelope.kind.as_ref();
    if external::concerns(state, &input.answers) {
        let role = known.and_then(|id| state.member(id)).map(Member::role);
        let sender = external::CheckSender {
            address: address.as_str(),
            member: known,
            role,
            verification: level,
            emitter: None,
            chain: external::EmitChain::default(),
        };
        let shape = ChangeableMembers {
            kind: kind.into(),
            target: "core".into(),
            payload: join_payload(&input.envelope.payload).into(),
            metadata: "{}".into(),
            visibility: Some(Visibility::Public),
        };
        let id = input.envelope.id.as_deref();
        let fixed = Fixed { id, source: address.as_str(), network: &state.book.id, stamp, sent_at: None };
        external::guards(state, live, &input.answers, CheckStage::Guard, &shape, sender, fixed, now)?;
    }
    let mut metadata = Metadata::default();
    let draft = mods::PipelineInput {
        kind,
        source: None,
        address: address.as_str(),
        verification: level,
        broadcast: false,
        metadata: &mut metadata,
        stamp,
    };
    Ok(mods::guard(state, live, &draft, now)?)
}

#[allow(clippy::too_many_arguments, reason = "the fields of one record")]
pub(super) fn member_record(
    old: Option<&Member>,
    address: &Address,
    wish: &JoinWish,
    level: u8,
    receive: Receive,
    head: Seq,
    at: u64,
) -> Member {
    let before = old.map(|m| m.profile.clone()).unwrap_or_default();
    let profile = Profile {
        agent_type: wish.agent_type.clone().or(before.agent_type),
        description: wish.description.clone().or(before.description),
        capabilities: wish.capabilities.clone().unwrap_or(before.capabilities),
        server_host: wish.server_host.clone().or(before.server_host),
        working_dir: wish.working_dir.clone().or(before.working_dir),
    };
    let mut queueing = old.map(|m| m.queueing.clone()).unwrap_or_default();
    match receive {
        Receive::Queue => crate::state::open(&mut queueing, head),
        Receive::Log => crate::state::close(&mut queueing, head),
    }
    Member {
        address: address.as_str().into(),
        granted: old.map_or(Role::Member, |m| m.granted),
        cap: None,
        hold: old.map_or(NameHold::Token, |m| m.hold),
        verification: level,
        profile,
        joined_at: old.map_or(at, |m| m.joined_at),
        lax: false,
        token: None,
        token_revoked: false,
        receive,
        left: false,
        left_at: 0,
        removed: false,
        sessions: old.map(|m| m.sessions.clone()).unwrap_or_default(),
        revoked: old.map(|m| m.revoked.clone()).unwrap_or_default(),
        expired: old.map(|m| m.expired.clone()).unwrap_or_default(),
        voided: old.map(|m| m.voided.clone()).unwrap_or_default(),
        used_at: old.map_or(0, |m| m.used_at),
        queueing,
        seats: old.map(|m| m.seats.clone()).unwrap_or_default(),
        groups: old.map(|m| m.groups.clone()).unwrap_or_default(),
        muted: old.map(|m| m.muted.clone()).unwrap_or_default(),
        quiet_until: old.and_then(|m| m.quiet_until),
        former: old.map(|m| m.former.clone()).unwrap_or_default(),
        via: None,
    }
}

/// What others may know of a join. Everything else it says is for this moment, or a secret under a name that nobody here knows.
const TOLD: [&str; 12] = [
    "agent_id",
    "agent_name",
    "role",
    "agent_type",
    "description",
    "capabilities",
    "skills",
    "channels",
    "receive",
    "publish",
    "server_host",
    "working_dir",
];

/// What is stored of a join: no credentials, no session, nothing unknown.
fn join_payload(payload: &str) -> String {
    let Ok(Value::Object(mut map)) = serde_json::from_str(payload) else { return "{}".to_owned() };
    map.retain(|name, _| TOLD.contains(&name.as_str()));
    Value::Object(map).to_string()
}
