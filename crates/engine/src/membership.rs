//! Joining and leaving (OpenAgents sheet, sections 1.3 and 1.5).
//!
//! Invariant: the checks run in the sheet's order and the first failure decides.

use crate::audit;
use crate::channels;
use crate::emit::{self, Draft};
use crate::input::{Accepted, Clock, Effect, Effects, Emit, Joined, Resume, SessionRef, Stop};
use crate::invites::{self, Invite};
use crate::mods::external::shape::{Fixed, Shape};
use crate::mods::external::{Step, serve};
use crate::mods::{self, external};
use crate::presence::{Live, SESSION_IDLE_MS};
use crate::record::{Change, Record};
use crate::rights::{self, Brings};
use crate::server_events;
use crate::state::{ChannelId, Hold, Invited, Member, MemberId, Session, State};
use rialto_model::address::{Address, Entity};
use rialto_model::member::{Profile, Receive};
use rialto_model::metadata::Metadata;
use rialto_model::network::{Policy, Preset, Status, Takeover, Token};
use rialto_model::{ErrorCode, Fault, Role, Seq, Visibility, limits};
use serde::Deserialize;
use serde_json::{Value, json};

/// Names nobody may join under.
const RESERVED: &[&str] = &["broadcast", "core", "local", "system"];
/// The channel every member of a workspace network is seated in.
pub(crate) const DEFAULT_CHANNEL: &str = "general";

/// The join payload of sheet section 5; unknown members are ignored, credentials were read by the node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wish {
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

/// Decides a `network.agent.join`.
pub(crate) fn join(
    state: &State,
    live: &mut Live,
    input: &Emit<'_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let wish: Wish = serde_json::from_str(&input.envelope.payload)
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
        let text = format!("{name} is connected, and this join does not take over");
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
        Resume::Unknown if input.caller.is_compat() => Some(0),
        Resume::Unknown => return Err(ErrorCode::CursorUnknown.into()),
    };
    let token = shown_token(state, input, address.as_str(), now);
    let receive = wish.receive.unwrap_or(if input.caller.is_compat() && state.has_mod("persistence") {
        Receive::Log
    } else {
        Receive::Queue
    });
    if let (true, Some(id)) = (freed, known) {
        remove(state, id, "expired", now, fx);
        known = None;
    }
    let head = state.book.head + fx.events();
    let id = known.unwrap_or_else(|| u32::try_from(state.book.members.len()).unwrap_or(u32::MAX));
    let old = known.and_then(|id| state.member(id));
    let invited = invite.as_ref().and_then(|id| Some((id, state.book.invites.get(id)?)));
    let human = matches!(address.entity(), Entity::Human(_));
    let shown = kept_session(state, input, known, now);
    let kept = shown.filter(|_| !(human && wish.new_session));
    let from = shown.and_then(|number| state.session(known?, number));
    let asked = wish.role.as_deref().and_then(Role::from_wire).filter(|role| *role == Role::Observer);
    // Roles are ordered from the most to the least powerful. A session that goes on, or one that it opened, may not become
    // more than it was.
    let current = from.and_then(|session| session.cap);
    let brought = if from.is_some() { current } else { token.and_then(|t| t.role).max(invited.map(|(_, i)| i.role)) };
    let cap = brought.max(asked);
    let record = member_record(old, &address, &wish, level, receive, head, state.stamp(now.wall));
    check_profile(&record.profile)?;
    let record = Member {
        lax: input.caller.is_compat(),
        token: token.map(|t| t.label.clone()),
        cap: if human && cap.is_some() { weakest(old, kept, cap) } else { cap },
        hold: state.held(old, &address, brings),
        used_at: now.steady.max(1),
        ..record
    };
    let lowered = crate::bugs::on("role lowered by a join") && asked.is_some();
    let record = Member { granted: if lowered { Role::Observer } else { record.granted }, ..record };
    let role = cap.map_or(record.granted, |cap| record.granted.max(cap));
    let (session, issued) = match kept {
        Some(number) => (SessionRef { member: id, number }, false),
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
                None => invited.map(|(id, invite)| Invited { by: id.clone(), inviter: invite.inviter }),
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
    if state.book.settings.profile == Preset::Workspace && old.is_none() && state.channel_id(DEFAULT_CHANNEL).is_some()
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
    let mut accepted = Accepted {
        seq: Some(event.event.seq),
        event: Some(event),
        joined: Some(Box::new(Joined { session, issued, window, resume_after, replay: wish.replay, batch_acks })),
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
fn spares(state: &State, live: &Live, input: &Emit<'_>, wish: &Wish, id: MemberId, now: Clock) -> bool {
    let Some(member) = state.member(id).filter(|m| !m.is_human() && !m.sessions.is_empty()) else { return false };
    let there = member.is_present() && live.is_online(id, now);
    wish.takeover == Some(false) && there && kept_session(state, input, Some(id), now).is_none()
}

/// The least that the sessions of a person are capped to: one of them that is not capped may do all.
fn weakest(old: Option<&Member>, kept: Option<u64>, cap: Option<Role>) -> Option<Role> {
    let others = old.into_iter().flat_map(|m| &m.sessions).filter(|s| Some(s.number) != kept);
    others.map(|s| s.cap).fold(cap, Option::min)
}

/// The token that a join shows and that speaks for its address: the one for that name, if there is one.
fn shown_token<'s>(state: &'s State, input: &Emit<'_>, address: &str, now: Clock) -> Option<&'s Token> {
    let shown = || input.proofs.tokens.iter().chain(&input.caller.bearer).filter_map(|t| state.token(t, now));
    let speaks = || shown().filter(|t| t.speaks_for(address));
    speaks().find(|t| t.agent.is_some()).or_else(|| speaks().next())
}

/// Step 2: the address parses and may be joined under.
fn joining_address(state: &State, input: &Emit<'_>, wish: &Wish) -> Result<Address, Fault> {
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

pub(crate) fn may_be_joined(address: &Address) -> bool {
    let fits = match address.entity() {
        Entity::Agent(name) => !RESERVED.contains(&name),
        Entity::Human(_) => true,
        Entity::Registered { prefix, .. } => prefix != "system",
        Entity::Core | Entity::Channel(_) | Entity::Mod(_) | Entity::Group(_) | Entity::Resource { .. } => false,
    };
    fits && !address.is_foreign()
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
    live: &mut Live,
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
        let sender = external::Sender {
            address: address.as_str(),
            member: known,
            role,
            verification: level,
            emitter: None,
            chain: external::Chain::default(),
        };
        let shape = Shape {
            kind: kind.into(),
            target: "core".into(),
            payload: join_payload(&input.envelope.payload).into(),
            metadata: "{}".into(),
            visibility: Some(Visibility::Public),
        };
        let id = input.envelope.id.as_deref();
        let fixed = Fixed { id, source: address.as_str(), network: &state.book.id, stamp, sent_at: None };
        external::guards(state, live, &input.answers, Step::Guard, &shape, sender, fixed, now)?;
    }
    let mut metadata = Metadata::default();
    let draft = mods::Draft {
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

/// What a member says of itself is kept with the state, so it is bounded.
pub(crate) fn check_profile(profile: &Profile) -> Result<(), Fault> {
    let bytes = serde_json::to_vec(profile).map_or(0, |json| json.len());
    if bytes <= limits::PROFILE_BYTES_MAX {
        return Ok(());
    }
    let text = format!("what a member says of itself is at most {} bytes", limits::PROFILE_BYTES_MAX);
    Err(Fault::new(ErrorCode::TooLarge, text).field("payload"))
}

/// What the checks of a join give.
struct Admission {
    /// Verification level.
    level: u8,
    /// The name's last owner was away too long: its membership goes first.
    freed: bool,
    /// The invitation that is used.
    invite: Option<Box<str>>,
    /// What the name is taken with.
    brings: Brings,
}

/// Steps 3 to 9.
fn admit(
    state: &State,
    input: &Emit<'_>,
    address: &Address,
    known: Option<MemberId>,
    now: Clock,
) -> Result<Admission, Fault> {
    let settings = &state.book.settings;
    let proofs = &input.proofs;
    if let Entity::Registered { prefix, .. } = address.entity()
        && !matches!(prefix, "openagents" | "key" | "web")
    {
        return Err(Fault::new(ErrorCode::UnknownRegistrar, format!("no registrar is configured for {prefix}:")));
    }
    if let Some(fault) = &proofs.failed {
        return Err(fault.clone());
    }
    let unproved_ok = |prefix: &str| prefix == "openagents" && settings.unverified_openagents;
    if let Entity::Registered { prefix, .. } = address.entity()
        && proofs.level == 0
        && !unproved_ok(prefix)
    {
        return Err(level_fault(1, 0));
    }
    let member = known.and_then(|id| state.member(id));
    let shown: Vec<&[u8; 32]> = proofs.tokens.iter().chain(&input.caller.bearer).collect();
    let owns_session = kept_session(state, input, known, now).is_some();
    let invite = proofs.invite.as_ref().and_then(|hash| invites::usable(state, hash, address.as_str(), now));
    let member_now = member.is_some_and(|m| !m.left);
    let missing = |invites_only: bool| match (proofs.invite.is_some(), invites_only) {
        (true, _) => Fault::new(ErrorCode::InviteInvalid, "the invitation is not valid here"),
        (false, true) => Fault::new(ErrorCode::InviteRequired, "this network admits invited addresses only"),
        (false, false) => Fault::new(ErrorCode::TokenRequired, "this network wants its token"),
    };
    match settings.policy {
        _ if state.is_open() => {}
        _ if input.caller.operator => {}
        Policy::Token | Policy::Open => {
            let token = shown.iter().find_map(|t| state.token(t, now));
            match token {
                Some(_) if shown_token(state, input, address.as_str(), now).is_some() => {}
                Some(_) => return Err(Fault::new(ErrorCode::InvalidToken, "this token speaks for another agent")),
                None if owns_session => {}
                // An invitation stands in for the token.
                None if invite.is_some() => {}
                None if shown.is_empty() => return Err(missing(false)),
                None => return Err(Fault::new(ErrorCode::InvalidToken, "the token is not valid here")),
            }
        }
        Policy::Invite if member_now && owns_session || invite.is_some() => {}
        Policy::Invite => return Err(missing(true)),
        Policy::DidVerify if proofs.level == 3 => {}
        Policy::DidVerify => return Err(Fault::new(ErrorCode::DidRequired, "this network admits proven DIDs only")),
    }
    // Its own session speaks for a member at the level it joined with.
    let level = member.filter(|_| owns_session).map_or(0, |m| m.verification).max(proofs.level);
    if level < settings.min_verification {
        return Err(level_fault(settings.min_verification, level));
    }
    if known.is_none() && state.members.len() >= settings.max_members.min(limits::MEMBERS_MAX) {
        return Err(Fault::new(ErrorCode::NetworkFull, "the network has all the members it may have"));
    }
    let brings = brings(state, input, address, invite.as_deref(), now);
    if !owns_session {
        state.may_take(address, member, brings)?;
    }
    let freed = match member {
        Some(member) if !owns_session => frees_name(state, member, input, brings, now)?,
        _ => false,
    };
    // A member that is there needs no invitation; one into a channel still seats it.
    let seats = |id: &str| state.book.invites.get(id).is_some_and(|i| i.channel.is_some());
    let invite = invite.filter(|id| !member_now || seats(id));
    Ok(Admission { level, freed, invite, brings })
}

/// What a join shows for the name it wants. An invitation makes a new name its guest's own; over a name that somebody has it
/// counts only if the operator made it for that name: any member invites.
fn brings(state: &State, input: &Emit<'_>, address: &Address, invite: Option<&str>, now: Clock) -> Brings {
    let token = shown_token(state, input, address.as_str(), now);
    let invite = invite.and_then(|id| state.book.invites.get(id));
    let bound = token.is_some_and(|t| t.agent.is_some());
    let by_operator = |i: &Invite| i.inviter.is_none() && i.invitee.as_deref() == Some(address.as_str());
    let proves = input.proofs.level > 0 || bound || invite.is_some_and(by_operator);
    let twin = rights::twin(address.as_str()).and_then(|twin| state.member_id(&twin));
    let fresh = state.known_as(address.as_str()).is_none() && twin.is_none();
    let hold = match token {
        _ if proves || invite.is_some() && fresh => Hold::Owned,
        Some(token) if token.role.is_some_and(|role| role > Role::Member) => Hold::Narrowed,
        Some(_) => Hold::Token,
        None if input.caller.operator || invite.is_some() => Hold::Token,
        None => Hold::Nothing,
    };
    Brings { hold, proves, operator: input.caller.operator }
}

/// Step 9: whether somebody who does not show the current session may have the name; true if its owner was away too long.
fn frees_name(state: &State, member: &Member, input: &Emit<'_>, brings: Brings, now: Clock) -> Result<bool, Fault> {
    let taken = |how: &str| Fault::new(ErrorCode::AddressTaken, format!("{} is in use: {how}", member.address));
    if brings.operator || brings.proves {
        return Ok(false);
    }
    if member.verification > 0 {
        return Err(taken("prove that it is yours"));
    }
    let secret = state.book.settings.takeover == Takeover::Secret || state.book.settings.policy == Policy::Invite;
    if !secret || member.lax && member.sessions.is_empty() && member.revoked.is_empty() && member.expired.is_empty() {
        return Ok(false);
    }
    let last = [member.revoked.last(), member.expired.last()];
    let shows_last = [input.caller.session.as_ref(), input.caller.bearer.as_ref()]
        .into_iter()
        .flatten()
        .any(|hash| last.contains(&Some(hash)));
    if !member.sessions.is_empty() {
        return Err(taken("show its session id"));
    }
    if shows_last {
        return Ok(false);
    }
    // A session that ended by time was idle for as long as a name is kept.
    if member.left && now.steady < member.left_at.saturating_add(SESSION_IDLE_MS) {
        return Err(taken("show its last session id"));
    }
    Ok(true)
}

fn level_fault(required: u8, presented: u8) -> Fault {
    let methods = match required {
        0 => json!([]),
        1 => json!(["key", "jwt", "did"]),
        2 => json!(["jwt", "did"]),
        _ => json!(["did"]),
    };
    let details = json!({ "required": required, "presented": presented, "methods": methods });
    Fault::new(ErrorCode::VerificationRequired, format!("verification level {required} is needed")).details(details)
}

/// The current session, if the join presents it and what it was made with still holds: then nothing rotates.
fn kept_session(state: &State, input: &Emit<'_>, known: Option<MemberId>, now: Clock) -> Option<u64> {
    let number = shows_session(state, input, known)?;
    let session = state.session(known?, number)?;
    state.expired_credential(session, now).is_none().then_some(number)
}

/// The session of this member that the join presents.
fn shows_session(state: &State, input: &Emit<'_>, known: Option<MemberId>) -> Option<u64> {
    let shown = [input.caller.session.as_ref(), input.caller.bearer.as_ref()];
    shown.into_iter().flatten().find_map(|hash| {
        state.sessions.get(hash).filter(|(member, _)| Some(*member) == known).map(|(_, number)| *number)
    })
}

#[allow(clippy::too_many_arguments, reason = "the fields of one record")]
fn member_record(
    old: Option<&Member>,
    address: &Address,
    wish: &Wish,
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
        hold: old.map_or(Hold::Token, |m| m.hold),
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
    }
}

/// What is stored of a join: no credentials, no session.
fn join_payload(payload: &str) -> String {
    let Ok(Value::Object(mut map)) = serde_json::from_str(payload) else { return "{}".to_owned() };
    for secret in
        ["credentials", "session_id", "token", "resume_after", "replay", "window", "acks", "new_session", "takeover"]
    {
        map.remove(secret);
    }
    Value::Object(map).to_string()
}

/// `network.agent.leave`: offline, nothing new is queued; with `forget` the membership is deleted.
pub(crate) fn leave(
    state: &State,
    live: &mut Live,
    draft: Draft<'_, '_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let id = draft.member;
    let Some(member) = state.member(id) else { return Err(ErrorCode::NotAMember.into()) };
    let payload: Value = serde_json::from_str(&draft.envelope.payload).unwrap_or_default();
    let forget = payload.get("forget").and_then(Value::as_bool).unwrap_or(false);
    let (address, role) = (member.address.clone(), member.role());
    let numbers: Vec<u64> = member.sessions.iter().map(|s| s.number).collect();
    let mut accepted = emit::commit(state, live, draft, now, fx)?;
    serve::left(state, live, id, now, fx);
    fx.change(Change::Queueing { member: id, on: false, left: true, receive: member.receive });
    fx.change(Change::SessionEnded { member: id, numbers: numbers.clone(), expired: false, voided: false });
    if !forget {
        crate::work::owner_left(state, id, now, fx);
    }
    if forget {
        remove(state, id, "recipient_left", now, fx);
    }
    live.presence.remove(id);
    server_events::presence_signal(state, live, &address, role, false, now, fx);
    fx.after.push(Effect::Revoked { member: id, numbers, code: ErrorCode::SessionRevoked });
    accepted.left = true;
    accepted.says(json!({ "address": address, "status": "offline" }));
    Ok(accepted)
}

/// Deletes a membership: its pending mail becomes dead letters first. Gives who follows a removed master.
pub(crate) fn remove(state: &State, id: MemberId, reason: &str, now: Clock, fx: &mut Effects) -> Option<MemberId> {
    let member = state.member(id)?;
    // Work ends because its executor is gone, not because a request in its mail dies with it.
    crate::work::without_member(state, id, now, fx);
    let seqs: Vec<Seq> = state.pending(id, 0, Seq::MAX).collect();
    crate::tick::dead_letters(state, id, &seqs, reason, now, fx);
    crate::resources::orphaned(state, id, fx);
    rights::member_removed(state, id, fx);
    fx.change(Change::Removed { member: id });
    // Where the network's token manages, some agent always does; elsewhere the operator makes masters.
    let others = || state.roster().filter(|(other, m)| *other != id && !m.is_human());
    let succeeded = state.book.settings.token_manages && member.granted == Role::Master;
    if !succeeded || others().any(|(_, m)| m.granted == Role::Master) {
        return None;
    }
    let members = || others().filter(|(_, m)| m.role() == Role::Member);
    let (successor, _) = members().find(|(_, m)| m.is_present()).or_else(|| members().next())?;
    fx.change(Change::Role { member: successor, role: Role::Master });
    Some(successor)
}

/// `network.agent.remove` by a master, a human or the operator.
pub(crate) fn remove_agent(
    state: &State,
    live: &mut Live,
    draft: Draft<'_, '_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let payload: Value = serde_json::from_str(&draft.envelope.payload).unwrap_or_default();
    if !state.manages(draft.member, draft.role) {
        return Err(Fault::new(
            ErrorCode::Forbidden,
            "only the operator and masters, whom the operator makes, remove members",
        )
        .into());
    }
    let name =
        ["address", "agent_name"].iter().find_map(|k| payload.get(*k)).and_then(Value::as_str).unwrap_or_default();
    let id = find_named(state, name)
        .ok_or_else(|| Fault::new(ErrorCode::UnknownTarget, format!("{name:?} is not a member")))?;
    let entry = audit::entry(state, &crate::AdminOp::Remove(name.to_owned()), draft.address.as_ref().into(), None, now);
    let mut accepted = emit::commit(state, live, draft, now, fx)?;
    fx.change(entry);
    serve::left(state, live, id, now, fx);
    let new_master =
        remove(state, id, "recipient_left", now, fx).and_then(|m| state.member(m)).map(|m| m.address.clone());
    live.presence.remove(id);
    let mut result = json!({ "status": "removed" });
    if let (Some(address), Some(map)) = (new_master, result.as_object_mut()) {
        map.insert("new_master".into(), json!(address));
    }
    accepted.says(result);
    Ok(accepted)
}

/// A member by address or bare name, in either dialect.
pub(crate) fn find_named(state: &State, name: &str) -> Option<MemberId> {
    let address = Address::parse_in(name, &state.network).ok()?;
    let twin = || {
        let Entity::Agent(name) = address.entity() else { return None };
        state.member_id(&format!("openagents:{name}"))
    };
    state.member_id(address.as_str()).or_else(twin).or_else(|| state.known_as(address.as_str()))
}

/// Somebody whose first event joins it.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) member: MemberId,
    pub(crate) records: Vec<Record>,
}

/// What the state was before a guest entered.
#[derive(Debug)]
pub(crate) struct BeforeGuest {
    id: MemberId,
    member: Option<Member>,
    seat: Option<ChannelId>,
    /// Whom its address led to.
    former: Option<(Box<str>, MemberId)>,
}

impl Guest {
    /// Lets the guest in for the time its event is decided.
    pub(crate) fn enter(&self, state: &mut State) -> BeforeGuest {
        let seat = self.records.iter().filter_map(Record::change).find_map(|change| {
            let Change::Seated { channel, .. } = change else { return None };
            Some(*channel)
        });
        let former = self.records.iter().filter_map(Record::change).find_map(|change| {
            let Change::Joined { record, .. } = change else { return None };
            state.book.former.get_key_value(&record.address).map(|(name, id)| (name.clone(), *id))
        });
        let before = BeforeGuest { id: self.member, member: state.member(self.member).cloned(), seat, former };
        self.records.iter().for_each(|record| crate::apply::apply(state, record));
        before
    }
}

impl BeforeGuest {
    /// Makes the state what it was.
    pub(crate) fn restore(self, state: &mut State) {
        if let Some(channel) = self.seat.and_then(|c| state.book.channels.get_mut(c as usize)) {
            channel.seated.retain(|m| *m != self.id);
        }
        state.book.former.extend(self.former);
        match self.member {
            Some(member) => {
                if let Some(slot) = state.book.members.get_mut(self.id as usize) {
                    *slot = member;
                }
            }
            None => {
                if let Some(member) = state.book.members.pop() {
                    state.members.shift_remove(&member.address);
                }
                state.lists.acked.remove(&self.id);
            }
        }
    }
}

/// A join that was never sent: a compat client's first event under the network token, ever or since it left.
pub(crate) fn guest(
    state: &State,
    address: &str,
    known: Option<MemberId>,
    token: Option<String>,
    input: &Emit<'_>,
    now: Clock,
) -> Result<Guest, Fault> {
    let parsed =
        Address::parse_in(address, &state.network).map_err(|e| Fault::new(ErrorCode::InvalidAddress, e.to_string()))?;
    if !may_be_joined(&parsed) {
        return Err(Fault::new(ErrorCode::InvalidAddress, format!("nobody can join as {parsed}")));
    }
    let Admission { level, freed: false, brings, .. } = admit(state, input, &parsed, known, now)? else {
        return Err(Fault::new(ErrorCode::NotAMember, format!("{parsed} is not a member: join first")));
    };
    let old = known.and_then(|id| state.member(id));
    let id = known.unwrap_or_else(|| u32::try_from(state.book.members.len()).unwrap_or(u32::MAX));
    let cap =
        token.as_ref().and_then(|label| state.book.tokens.iter().find(|t| &t.label == label)).and_then(|t| t.role);
    let wish = Wish::default();
    let (head, stamp) = (state.book.head, state.stamp(now.wall));
    let receive = if state.has_mod("persistence") { Receive::Log } else { Receive::Queue };
    let record = member_record(old, &parsed, &wish, level, receive, head, stamp);
    // Whoever only ever names itself has no session that a name could belong to.
    let hold = old.map_or(brings.hold, |old| old.hold.max(brings.hold));
    let record = Box::new(Member { lax: true, token, cap, hold, ..record });
    let mut records = vec![Record::from(Change::Joined { member: id, record })];
    if let Some(channel) = state.channel_id(DEFAULT_CHANNEL).filter(|_| old.is_none()) {
        records.push(Record::from(Change::Seated { channel, member: id }));
    }
    Ok(Guest { member: id, records })
}

/// The operator makes somebody a member: who it is has to be shown when it joins.
pub(crate) fn enroll(
    state: &State,
    address: &str,
    agent_type: Option<&str>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Value, Fault> {
    let parsed = Address::parse_in(address, &state.network)
        .map_err(|e| Fault::new(ErrorCode::InvalidAddress, format!("{address:?}: {e}")))?;
    if !may_be_joined(&parsed) {
        return Err(Fault::new(ErrorCode::InvalidAddress, format!("nobody can join as {parsed}")));
    }
    if state.member_id(parsed.as_str()).is_some() {
        return Err(Fault::new(ErrorCode::AlreadyExists, format!("{parsed} is a member")));
    }
    if state.members.len() >= state.book.settings.max_members.min(limits::MEMBERS_MAX) {
        return Err(Fault::new(ErrorCode::NetworkFull, "the network has all the members it may have"));
    }
    let id = u32::try_from(state.book.members.len()).unwrap_or(u32::MAX);
    let wish = Wish { agent_type: agent_type.map(str::to_owned), ..Wish::default() };
    let first = !state.roster().any(|(_, m)| !m.is_human()) && !matches!(parsed.entity(), Entity::Human(_));
    let granted = if state.book.settings.token_manages && first { Role::Master } else { Role::Member };
    let receive = if state.has_mod("persistence") { Receive::Log } else { Receive::Queue };
    let record = member_record(None, &parsed, &wish, 0, receive, state.book.head, state.stamp(now.wall));
    check_profile(&record.profile)?;
    fx.change(Change::Joined { member: id, record: Box::new(Member { granted, lax: true, ..record }) });
    if let Some(channel) = state.channel_id(DEFAULT_CHANNEL) {
        fx.change(Change::Seated { channel, member: id });
    }
    Ok(json!({ "address": parsed.as_str(), "role": granted.as_str() }))
}
