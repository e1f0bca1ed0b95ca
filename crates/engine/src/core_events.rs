//! The `network.*` types: which exist, whom they go to, and the small ones (OpenAgents sheet, section 5).

use crate::channels;
use crate::emit::{self, EmitDraft};
use crate::history::Viewer;
use crate::input::{Accepted, Answers, Clock, Effects, Stop};
use crate::membership;
use crate::mods::external::serve;
use crate::presence::VolatileState;
use crate::record::Change;
use crate::resources;
use crate::route::StreamKey;
use crate::state::{ChannelId, MemberId, State};
use rialto_model::address::{Address, Entity};
use rialto_model::network::SessionBinding;
use rialto_model::payload::Announcement;
use rialto_model::payload::RosterFilter;
use rialto_model::view::{ChannelView, MemberView, Presence};
use rialto_model::{ErrorCode, Event, EventId, EventParts, EventType, Fault, Millis, Visibility};
use serde_json::{Value, json};
use std::sync::Arc;

/// Types a client may send, and which go to the core.
fn goes_to_core(kind: EventType<'_>) -> bool {
    use EventType::*;
    matches!(
        kind,
        AgentJoin
            | AgentLeave
            | AgentDiscover
            | AgentRemove
            | ChannelCreate
            | ChannelDelete
            | ChannelJoin
            | ChannelLeave
            | ResourceRegister
            | ResourceUnregister
            | ResourceDiscover
            | Ping
            | EventsQuery
            | ModServe
            | ModVerdict
    )
}

/// A listed type goes to the core, whichever way that is written.
pub(crate) fn check_target(state: &State, kind: EventType<'_>, target: &str) -> Result<(), Fault> {
    if goes_to_core(kind) && !local_target(state, target)?.is_core() {
        return Err(Fault::new(ErrorCode::InvalidEvent, format!("{kind} must be sent to core: set target to core"))
            .field("target"));
    }
    Ok(())
}

fn local_target(state: &State, target: &str) -> Result<Address, Fault> {
    let address = Address::parse_in(target, &state.network)
        .map_err(|e| Fault::new(ErrorCode::InvalidAddress, format!("target {target:?}: {e}")).field("target"))?;
    if address.is_foreign() {
        crate::route::resolve(state, &address)?;
    }
    Ok(address)
}

/// Namespaces: `network.*` has a fixed list, `rialto.*` is the server's, the rest is free.
#[allow(clippy::wildcard_enum_match_arm, reason = "whatever is not listed is reserved")]
pub(crate) fn check_type(state: &State, kind: EventType<'_>, target: &str) -> Result<(), Fault> {
    use EventType::*;
    let reserved = || {
        let text = format!(
            "{kind} is not a type that clients may send: network.* has a fixed list, rialto.* is the node's own"
        );
        Fault::new(ErrorCode::ReservedType, text).field("type")
    };
    let elsewhere =
        |to: &str| Fault::new(ErrorCode::InvalidEvent, format!("{kind} must be sent to {to}")).field("target");
    if !kind.is_reserved() {
        return Ok(());
    }
    match kind {
        _ if goes_to_core(kind) => check_target(state, kind, target),
        AgentAnnounce if !local_target(state, target)?.is_broadcast() => Err(elsewhere("agent:broadcast")),
        ResourceInvoke | ResourceRead | ResourceUpdate
            if !matches!(local_target(state, target)?.entity(), Entity::Resource { .. }) =>
        {
            Err(elsewhere("a resource"))
        }
        AgentAnnounce | EventAck | ResourceInvoke | ResourceRead | ResourceUpdate | ResourceInvokeResult
        | ResourceReadResponse => Ok(()),
        _ => Err(reserved()),
    }
}

/// Decides a `network.*` event of a member (all but join, acks and queries).
#[allow(clippy::wildcard_enum_match_arm, reason = "whatever is not listed is not offered")]
pub(crate) fn decide(
    state: &State,
    live: &mut VolatileState,
    draft: EmitDraft<'_, '_>,
    answers: &Answers,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    use EventType::*;
    match draft.kind {
        Ping => Ok(ping(state, live, &draft, now)?),
        AgentLeave => membership::leave(state, live, draft, now, fx),
        AgentRemove => membership::remove_agent(state, live, draft, now, fx),
        AgentDiscover => Ok(discover(state, live, &draft, now)?),
        AgentAnnounce => announce(state, live, draft, now, fx),
        ChannelCreate => channels::create(state, live, draft, now, fx),
        ChannelDelete => channels::delete(state, live, draft, now, fx),
        ChannelJoin => channels::join(state, live, draft, now, fx),
        ChannelLeave => channels::leave(state, live, draft, now, fx),
        ResourceRegister => resources::register(state, live, draft, answers, now, fx),
        ResourceUnregister => resources::unregister(state, live, draft, now, fx),
        ResourceDiscover => resources::discover(state, live, &draft, now),
        ResourceUpdate => resources::update(state, live, draft, answers, now, fx),
        ResourceRead => resources::read(state, live, draft, answers, now, fx),
        ResourceInvoke => resources::invoke(state, live, draft, answers, now, fx),
        ResourceInvokeResult | ResourceReadResponse => resources::result(state, live, draft, answers, now, fx),
        ModServe => serve::serve(state, live, draft, now, fx),
        kind => Err(Fault::new(ErrorCode::Unsupported, format!("{kind} is not offered here")).into()),
    }
}

pub(crate) fn response(
    state: &State,
    live: &mut VolatileState,
    draft: &EmitDraft<'_, '_>,
    kind: EventType<'_>,
    payload: &Value,
    now: Clock,
) -> Arc<Event> {
    live.signals += 1;
    let stamp = state.stamp(now.wall);
    let reply_to = draft.envelope.id.as_deref().unwrap_or_default();
    let metadata = if reply_to.is_empty() { json!({}) } else { json!({ "in_reply_to": reply_to }) };
    Arc::new(Event::new(
        0,
        &EventParts {
            id: &EventId { at: stamp, seq: (1 << 63) | live.signals, salt: state.book.salt }.to_text(),
            kind: kind.as_str(),
            source: "core",
            target: &draft.address,
            payload: &payload.to_string(),
            metadata: &metadata.to_string(),
            timestamp: stamp,
            network: &state.book.id,
            visibility: Visibility::Direct,
        },
    ))
}

pub(crate) fn transient(draft: &EmitDraft<'_, '_>, response: Arc<Event>) -> Accepted {
    let named = draft.envelope.id.as_deref().unwrap_or_else(|| response.id()).into();
    Accepted { named: Some(named), response: Some(response), ..Accepted::default() }
}

fn ping(state: &State, live: &mut VolatileState, draft: &EmitDraft<'_, '_>, now: Clock) -> Result<Accepted, Fault> {
    emit::guard_request(state, live, &draft.envelope.kind, draft.member, now)?;
    let sent: Value = serde_json::from_str(&draft.envelope.payload).unwrap_or_default();
    let mut payload = json!({ "server_time": now.wall });
    if let (Some(t), Some(map)) = (sent.get("t"), payload.as_object_mut()) {
        map.insert("t".into(), t.clone());
    }
    let pong = response(state, live, draft, EventType::Pong, &payload, now);
    Ok(Accepted { silent: true, ..transient(draft, pong) })
}

fn announce(
    state: &State,
    live: &mut VolatileState,
    draft: EmitDraft<'_, '_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let Announcement { description, capabilities } = draft.said()?;
    let member = draft.member;
    let mut profile = state.member(member).map(|m| m.profile.clone()).unwrap_or_default();
    profile.description = description.or(profile.description);
    profile.capabilities = capabilities.unwrap_or(profile.capabilities);
    membership::check_profile(&profile)?;
    let accepted = emit::commit(state, live, draft, now, fx)?;
    fx.change(Change::Profile { member, profile });
    Ok(accepted)
}

fn discover(state: &State, live: &mut VolatileState, draft: &EmitDraft<'_, '_>, now: Clock) -> Result<Accepted, Fault> {
    emit::guard_request(state, live, &draft.envelope.kind, draft.member, now)?;
    let filter: RosterFilter = draft.said()?;
    let roster = state.discovered(live, Viewer::Member(draft.member), &filter, now)?;
    let event = response(state, live, draft, EventType::AgentDiscoverResponse, &json!(roster), now);
    Ok(transient(draft, event))
}

impl State {
    /// Whether a member is there.
    pub fn presence_of(&self, live: &VolatileState, id: MemberId, now: Clock) -> Presence {
        Presence::of(live.is_online(id, now) && self.member(id).is_some_and(crate::state::Member::is_present))
    }

    /// One member as the roster shows it.
    pub fn member_view(&self, live: &VolatileState, id: MemberId, now: Clock) -> Option<MemberView> {
        let m = self.member(id)?;
        let until = m.quiet_until.filter(|until| *until != Millis::MAX);
        Some(MemberView {
            address: m.address.clone(),
            role: m.role(),
            status: self.presence_of(live, id, now),
            verification: m.verification,
            profile: m.profile.clone(),
            joined_at: m.joined_at,
            via: m.via.as_ref().map(|face| face.as_str().into()),
            binding: if m.lax && m.verification == 0 { SessionBinding::Lax } else { SessionBinding::Strict },
            dnd: m.quiet_until.is_some().then_some(true),
            dnd_until: until.map(|until| self.shown(until, now)),
            last_seen_at: live.last_seen(id, now),
        })
    }

    /// One channel as listings show it.
    pub fn channel_view(&self, id: ChannelId) -> Option<ChannelView> {
        let c = self.channel(id)?;
        let address = |m: MemberId| self.member(m).map(|m| m.address.clone());
        Some(ChannelView {
            address: format!("channel/{}", c.name),
            name: c.name.clone(),
            title: c.title.clone(),
            private: c.private,
            master: c.master.and_then(address),
            participants: c.seated.iter().copied().filter_map(address).collect(),
            created_by: c.created_by.and_then(address),
            created_at: c.created_at,
            status: c.status,
            starred: c.starred,
            resume_from: c.resume_from.clone(),
            last_event_at: channels::last_seq(self, id).and_then(|seq| self.time_of(seq)),
            event_count: self.lists.stream(StreamKey::Channel(id)).map_or(0, roaring::RoaringTreemap::len),
            title_manual: c.title_manual,
        })
    }

    /// When the event was committed, to the second.
    pub fn time_of(&self, seq: u64) -> Option<u64> {
        let at = self.book.times.partition_point(|(_, first)| *first <= seq);
        self.book.times.get(at.checked_sub(1)?).map(|(time, _)| *time)
    }
}
