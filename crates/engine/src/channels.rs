//! Channels: creating, deleting, seating (OpenAgents sheet, sections 1.5 and 5).

use crate::emit::{self, EmitDraft};
use crate::input::{Accepted, Clock, Effects, Stop};
use crate::membership::find_named;
use crate::mods::workspace::sessions;
use crate::presence::VolatileState;
use crate::record::Change;
use crate::route::StreamKey;
use crate::shares::{Maker, ShareKind};
use crate::state::{Channel, ChannelId, Member, MemberId, State};
use rialto_model::address::{Address, Entity};
use rialto_model::channel::ChannelStatus;
use rialto_model::payload::{ChannelSeat, NewChannel};
use rialto_model::{ErrorCode, EventType, Fault, Role, limits};
use serde_json::{Value, json};

/// A channel name from a bare name or an address.
pub(crate) fn channel_name(text: &str) -> Result<String, Fault> {
    let full = if text.starts_with("channel/") { text.to_owned() } else { format!("channel/{text}") };
    let address = Address::parse(&full)
        .map_err(|e| Fault::new(ErrorCode::InvalidAddress, format!("{text:?}: {e}")).field("channel"))?;
    let Entity::Channel(name) = address.entity() else {
        return Err(Fault::new(ErrorCode::InvalidAddress, format!("{text:?} is not a channel")).field("channel"));
    };
    Ok(name.to_owned())
}

fn unknown(name: &str) -> Fault {
    Fault::new(ErrorCode::UnknownTarget, format!("channel/{name}: no such channel"))
}

/// The channel, if the member may know of it.
pub(crate) fn visible<'a>(state: &'a State, name: &str, member: MemberId) -> Result<(ChannelId, &'a Channel), Fault> {
    let id = state.channel_id(name).ok_or_else(|| unknown(name))?;
    let channel = state.channel(id).ok_or_else(|| unknown(name))?;
    let sits = state.member(member).is_some_and(|m| m.sits_in(id));
    if channel.private && !sits && !is_master(state, member) { Err(unknown(name)) } else { Ok((id, channel)) }
}

fn is_master(state: &State, member: MemberId) -> bool {
    state.member(member).is_some_and(|m| m.role() == Role::Master)
}

pub(crate) fn manages(state: &State, member: MemberId, channel: &Channel) -> bool {
    is_master(state, member) || channel.master == Some(member) || channel.created_by == Some(member)
}

/// Seats a joining member in a channel it asked for, or the default one.
pub(crate) fn seat_on_join(
    state: &State,
    id: MemberId,
    old: Option<&Member>,
    name: &str,
    fx: &mut Effects,
) -> Result<(), Fault> {
    let name = channel_name(name)?;
    let channel = state.channel_id(&name).ok_or_else(|| unknown(&name))?;
    if old.is_some_and(|m| m.sits_in(channel)) {
        return Ok(());
    }
    match state.channel(channel) {
        Some(c) if c.private => return Err(unknown(&name)),
        Some(c) if c.status == ChannelStatus::Archived => {
            return Err(Fault::new(
                ErrorCode::Forbidden,
                format!(
                    "channel/{name} is archived: it can be read, but not joined or sent to, until it is active again"
                ),
            ));
        }
        _ => {}
    }
    fx.change(Change::Seated { channel, member: id });
    Ok(())
}

fn no_channel() -> Fault {
    Fault::new(ErrorCode::InvalidEvent, "payload.channel is required").field("payload.channel")
}

fn wanted_channel<'s>(state: &'s State, seat: &ChannelSeat, by: MemberId) -> Result<(ChannelId, &'s Channel), Fault> {
    let name = seat.channel.as_deref().or(seat.name.as_deref()).ok_or_else(no_channel)?;
    visible(state, &channel_name(name)?, by)
}

pub(crate) fn addresses(state: &State, ids: &[MemberId]) -> Vec<Box<str>> {
    ids.iter().filter_map(|id| state.member(*id)).map(|m| m.address.clone()).collect()
}

/// Whether a channel of this name may be made.
pub(crate) fn may_create(state: &State, name: &str, by: Maker) -> Result<(), Fault> {
    if state.channel_id(name).is_some() {
        return Err(Fault::new(
            ErrorCode::AlreadyExists,
            format!("channel/{name} exists already: choose another name, or join it"),
        ));
    }
    state.has_room(ShareKind::Channels, by)
}

/// A prefix, `-` and 8 hex digits: a name that no channel has.
pub(crate) fn free_name(state: &State, prefix: &str) -> String {
    let name = |n: u32| {
        let seed = format!("{}/{}/{n}", state.book.id, state.next_seq());
        format!("{prefix}-{:08x}", xxhash_rust::xxh3::xxh3_64(seed.as_bytes()) & 0xFFFF_FFFF)
    };
    (0..).map(name).find(|name| state.channel_id(name).is_none()).unwrap_or_default()
}

/// The result of a channel act once more, for a sender that repeats it.
#[allow(clippy::wildcard_enum_match_arm, reason = "other types have no such result")]
pub(crate) fn result_again(state: &State, kind: EventType<'_>, target: &str) -> Option<Value> {
    let name = target.trim_start_matches("channel/");
    match kind {
        EventType::ChannelCreate => Some(json!({ "channel": target, "name": name })),
        EventType::ChannelJoin => {
            let seated = state.channel_id(name).and_then(|id| state.channel(id)).map(|c| addresses(state, &c.seated));
            Some(json!({ "channel": target, "participants": seated.unwrap_or_default() }))
        }
        EventType::ChannelDelete | EventType::ChannelLeave => Some(json!({ "channel": target })),
        _ => None,
    }
}

/// A channel that was decided on.
pub(crate) struct DecidedChannel {
    pub(crate) id: ChannelId,
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) master: Option<MemberId>,
    pub(crate) seats: Vec<MemberId>,
    pub(crate) created_by: Option<MemberId>,
}

/// Decides that there is a channel: its creator and those it names are seated.
pub(crate) fn make(
    state: &State,
    name: String,
    wish: &NewChannel,
    (by, maker): (Option<MemberId>, Maker),
    now: Clock,
    fx: &mut Effects,
) -> Result<DecidedChannel, Fault> {
    may_create(state, &name, maker)?;
    for (key, text) in [("title", &wish.title), ("resume_from", &wish.resume_from)] {
        if text.as_ref().is_some_and(|t| t.chars().count() > limits::CHANNEL_TITLE_CHARS_MAX) {
            let text = format!("{key} has at most {} characters", limits::CHANNEL_TITLE_CHARS_MAX);
            return Err(Fault::new(ErrorCode::InvalidPayload, text).field(&format!("payload.{key}")));
        }
    }
    let known = |name: &str| {
        find_named(state, name).ok_or_else(|| Fault::new(ErrorCode::UnknownTarget, format!("{name} is not a member")))
    };
    let mut seats: Vec<MemberId> = by.into_iter().collect();
    for name in wish.participants.iter().chain(&wish.human_participants).flatten() {
        let id = known(name)?;
        if !seats.contains(&id) {
            seats.push(id);
        }
    }
    let master = match &wish.master {
        Some(name) => Some(known(name)?),
        None => seats.iter().copied().find(|id| state.member(*id).is_some_and(|m| !m.is_human())),
    };
    seats.extend(master.filter(|m| !seats.contains(m)));
    let id = u32::try_from(state.book.channels.len()).unwrap_or(u32::MAX);
    let title = wish.title.as_ref().unwrap_or(&name).to_owned();
    fx.change(Change::ChannelCreated {
        channel: id,
        name: name.clone(),
        title: title.clone(),
        private: wish.private.unwrap_or(false),
        master,
        created_by: by,
        at: state.stamp(now.wall),
        resume_from: wish.resume_from.clone(),
    });
    seats.iter().for_each(|member| fx.change(Change::Seated { channel: id, member: *member }));
    Ok(DecidedChannel { id, name, title, master, seats, created_by: by })
}

/// `network.channel.create`.
pub(crate) fn create(
    state: &State,
    live: &mut VolatileState,
    mut draft: EmitDraft<'_, '_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let wish: NewChannel = draft.said()?;
    let name = match &wish.name {
        Some(name) => channel_name(name)?,
        None => free_name(state, "channel"),
    };
    let made = make(state, name, &wish, (Some(draft.member), draft.maker), now, fx)?;
    draft.retarget(&made.name, made.id);
    let mut accepted = emit::commit(state, live, draft, now, fx)?;
    sessions::began(state, &made, wish.title.is_some(), now, fx);
    accepted.says(json!({ "channel": format!("channel/{}", made.name), "name": made.name }));
    Ok(accepted)
}

/// `network.channel.delete`.
pub(crate) fn delete(
    state: &State,
    live: &mut VolatileState,
    mut draft: EmitDraft<'_, '_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let (id, channel) = wanted_channel(state, &draft.said()?, draft.member)?;
    if !manages(state, draft.member, channel) {
        return Err(Fault::new(
            ErrorCode::Forbidden,
            "you may not delete this channel: its creator, its master and the network's master may",
        )
        .into());
    }
    let name = channel.name.to_string();
    draft.retarget(&name, id);
    let mut accepted = emit::commit(state, live, draft, now, fx)?;
    fx.change(Change::ChannelStatus { channel: id, status: ChannelStatus::Deleted });
    accepted.says(json!({ "channel": format!("channel/{name}") }));
    Ok(accepted)
}

/// Whom a seating concerns: the sender, or the member it names.
fn seat_for(state: &State, seat: &ChannelSeat, by: MemberId) -> Result<MemberId, Fault> {
    match seat.agent.as_ref().or(seat.agent_name.as_ref()) {
        None => Ok(by),
        Some(name) => find_named(state, name)
            .ok_or_else(|| Fault::new(ErrorCode::UnknownTarget, format!("{name} is not a member"))),
    }
}

/// `network.channel.join`: oneself, or others with the right to.
pub(crate) fn join(
    state: &State,
    live: &mut VolatileState,
    mut draft: EmitDraft<'_, '_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let seat: ChannelSeat = draft.said()?;
    let by = draft.member;
    let who = seat_for(state, &seat, by)?;
    let name = seat.channel.as_deref().ok_or_else(no_channel)?;
    let (id, channel) = visible(state, &channel_name(name)?, by)?;
    let sits = |m: MemberId| state.member(m).is_some_and(|m| m.sits_in(id));
    if who != by {
        let human = state.member(by).is_some_and(Member::is_human);
        if !(human || manages(state, by, channel) || channel.private && sits(by)) {
            return Err(Fault::new(
                ErrorCode::Forbidden,
                "you may not seat others in this channel: ask its creator or its master",
            )
            .into());
        }
    }
    if channel.status == ChannelStatus::Archived {
        return Err(Fault::new(
            ErrorCode::Forbidden,
            format!(
                "channel/{} is archived: it can be read, but not joined or sent to, until it is active again",
                channel.name
            ),
        )
        .into());
    }
    let mut participants = addresses(state, &channel.seated);
    let channel_name = channel.name.to_string();
    draft.retarget(&channel_name, id);
    if !sits(who) {
        fx.change(Change::Seated { channel: id, member: who });
        participants.extend(addresses(state, &[who]));
        let agent = state.member(who).is_some_and(|m| !m.is_human());
        if channel.master.is_none() && agent {
            fx.change(Change::ChannelMaster { channel: id, master: Some(who) });
        }
    }
    let mut accepted = emit::commit(state, live, draft, now, fx)?;
    accepted.says(json!({ "channel": format!("channel/{channel_name}"), "participants": participants }));
    Ok(accepted)
}

/// `network.channel.leave`: oneself, or others by those who may delete the channel.
pub(crate) fn leave(
    state: &State,
    live: &mut VolatileState,
    mut draft: EmitDraft<'_, '_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let seat: ChannelSeat = draft.said()?;
    let by = draft.member;
    let who = seat_for(state, &seat, by)?;
    let (id, channel) = wanted_channel(state, &seat, by)?;
    if who != by && !manages(state, by, channel) {
        return Err(Fault::new(
            ErrorCode::Forbidden,
            "you may not unseat others from this channel: ask its creator or its master",
        )
        .into());
    }
    let name = channel.name.to_string();
    draft.retarget(&name, id);
    let sits = state.member(who).is_some_and(|m| m.sits_in(id));
    if !sits {
        // Nothing changes, so nobody is told: otherwise this would be a way to post without a seat.
        draft.route.stream = None;
    }
    let mut accepted = emit::commit(state, live, draft, now, fx)?;
    if sits {
        fx.change(Change::Unseated { channel: id, member: who });
    }
    accepted.says(json!({ "channel": format!("channel/{name}") }));
    Ok(accepted)
}

/// What a send to a channel needs: a seat, or a network where posting seats. Gives whether to seat.
pub(crate) fn may_post(state: &State, id: ChannelId, member: MemberId) -> Result<bool, Fault> {
    let Some(channel) = state.channel(id) else { return Err(ErrorCode::UnknownTarget.into()) };
    if state.member(member).is_some_and(|m| m.sits_in(id)) {
        return Ok(false);
    }
    if channel.private {
        return Err(unknown(&channel.name));
    }
    if state.book.settings.channel_post_open {
        return Ok(true);
    }
    Err(Fault::new(ErrorCode::NotAChannelMember, format!("join channel/{} before sending to it", channel.name)))
}

/// Last event of a channel, for listings.
pub(crate) fn last_seq(state: &State, id: ChannelId) -> Option<u64> {
    state.lists.stream(StreamKey::Channel(id)).and_then(roaring::RoaringTreemap::max)
}
