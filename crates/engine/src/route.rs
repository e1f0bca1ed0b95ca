//! Routing: a target address to the stream that carries the event, and the members behind a stream.
//!
//! Invariant: recipients are fixed at commit by (stream, membership intervals); the source never receives its own event.

use crate::state::{ChannelId, Member, MemberId, State};
use rialto_model::address::{Address, Entity};
use rialto_model::channel::ChannelStatus;
use rialto_model::{ErrorCode, Fault, Seq};
use serde::{Deserialize, Serialize};

/// A list of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StreamKey {
    /// To one member.
    Inbox(MemberId),
    /// To the seats of a channel.
    Channel(ChannelId),
    /// To a group.
    Group(u32),
    /// To everybody.
    Broadcast,
    /// In a thread of a channel (not a delivery stream).
    Thread(u32),
    /// From a member (not a delivery stream).
    Source(MemberId),
    /// Of a type (not a delivery stream).
    Type(u32),
    /// In a direct room (not a delivery stream).
    Room(u32),
    /// Of a work unit (not a delivery stream).
    Work(u32),
    /// Mentioning a member (not a delivery stream).
    Mention(MemberId),
}

/// Where an event goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The delivery stream; none for core, mods and resources without an owner.
    pub stream: Option<StreamKey>,
    /// The member that sent it; none for the server.
    pub source: Option<MemberId>,
    /// Thread inside the channel.
    pub thread: Option<Box<str>>,
    /// Recipients are narrowed to these.
    pub to: Option<Vec<MemberId>>,
    /// The direct room it is in.
    #[serde(default)]
    pub room: Option<u32>,
}

/// Finds the stream of a target.
pub(crate) fn resolve(state: &State, target: &Address) -> Result<Option<StreamKey>, Fault> {
    if let Some(network) = target.network() {
        let details = serde_json::json!({ "network": network, "entity": target.entity_text() });
        let text =
            format!("{network} is another network, and nothing is passed on between networks: join it and send there");
        return Err(Fault::new(ErrorCode::CrossNetwork, text).details(details));
    }
    match target.entity() {
        Entity::Core => Ok(None),
        Entity::Agent(_) if target.is_broadcast() => Ok(Some(StreamKey::Broadcast)),
        Entity::Agent(name) => {
            let direct = present(state, target.as_str());
            let found = direct.or_else(|| {
                state
                    .book
                    .settings
                    .unverified_openagents
                    .then(|| present(state, &format!("openagents:{name}")))
                    .flatten()
            });
            found.map(|id| Some(StreamKey::Inbox(id))).ok_or_else(|| unknown(target))
        }
        Entity::Human(_) | Entity::Registered { .. } => {
            present(state, target.as_str()).map(|id| Some(StreamKey::Inbox(id))).ok_or_else(|| unknown(target))
        }
        Entity::Channel(name) => {
            let id = state.channel_id(name).ok_or_else(|| unknown(target))?;
            match state.channel(id).map(|c| c.status) {
                Some(ChannelStatus::Active) => Ok(Some(StreamKey::Channel(id))),
                Some(ChannelStatus::Archived) => Err(Fault::new(
                    ErrorCode::Forbidden,
                    format!(
                        "{target} is archived: it can be read, but not joined or sent to, until it is active again"
                    ),
                )),
                Some(ChannelStatus::Deleted) | None => Err(unknown(target)),
            }
        }
        Entity::Group(name) => {
            let group = state.book.groups.get(name).ok_or_else(|| unknown(target))?;
            Ok(Some(StreamKey::Group(group.number)))
        }
        Entity::Mod(name) => {
            if state.has_mod(name) {
                Ok(None)
            } else {
                Err(Fault::new(ErrorCode::ModNotFound, format!("{target} is not loaded")))
            }
        }
        Entity::Resource { .. } => match state.resource_named(target.as_str()) {
            None => Err(Fault::new(ErrorCode::ResourceNotFound, format!("{target} does not exist"))),
            Some((_, resource)) => Ok(resource.owner.map(StreamKey::Inbox)),
        },
    }
}

fn present(state: &State, address: &str) -> Option<MemberId> {
    state.known_as(address).filter(|id| state.member(*id).is_some_and(Member::is_present))
}

fn unknown(target: &Address) -> Fault {
    let what = match target.entity() {
        Entity::Channel(_) => "no such channel",
        Entity::Group(_) => "no such group",
        Entity::Core
        | Entity::Agent(_)
        | Entity::Human(_)
        | Entity::Registered { .. }
        | Entity::Mod(_)
        | Entity::Resource { .. } => "not a member",
    };
    Fault::new(ErrorCode::UnknownTarget, format!("{target}: {what}"))
}

impl State {
    /// Members that receive an event of this stream committed now, but for its source.
    pub fn audience(&self, route: &Route) -> Vec<MemberId> {
        let is_recipient = |id: MemberId| {
            Some(id) != route.source
                && route.to.as_ref().is_none_or(|to| to.contains(&id))
                && self.member(id).is_some_and(Member::is_present)
        };
        match route.stream {
            Some(StreamKey::Inbox(id)) => [id].into_iter().filter(|id| is_recipient(*id)).collect(),
            Some(StreamKey::Channel(c)) => {
                let hears = |id: MemberId| is_recipient(id) && self.member(id).is_some_and(|m| !m.muted.contains(&c));
                self.channel(c).map(|c| c.seated.iter().copied().filter(|id| hears(*id)).collect()).unwrap_or_default()
            }
            Some(StreamKey::Group(_) | StreamKey::Broadcast) => {
                self.roster().map(|(id, _)| id).filter(|id| is_recipient(*id) && self.receives(*id, route)).collect()
            }
            None
            | Some(
                StreamKey::Thread(_)
                | StreamKey::Source(_)
                | StreamKey::Type(_)
                | StreamKey::Room(_)
                | StreamKey::Work(_)
                | StreamKey::Mention(_),
            ) => Vec::new(),
        }
    }

    /// Whether the event at `seq` went to this member: by the intervals it held then, whatever came later.
    pub fn was_sent(&self, member: MemberId, route: &Route, seq: Seq) -> bool {
        // Of an event that history does not keep and nobody waits for, the lists know nothing: the route does.
        Some(member) != route.source
            && (crate::bugs::on("narrowing forgotten") || route.to.as_ref().is_none_or(|to| to.contains(&member)))
            && self.member(member).is_some_and(|m| crate::tick::was_recipient(self, member, m, route.stream, seq))
    }

    /// Whether whoever is behind the route's stream now was behind it when this was the last position.
    pub fn was_let_in(&self, member: MemberId, route: &Route, last: Seq) -> bool {
        let Some(m) = self.member(member) else { return false };
        let since = |intervals: Option<&Vec<crate::state::Interval>>| {
            intervals.and_then(|l| l.last()).is_some_and(|i| i.from <= last)
        };
        match route.stream {
            Some(StreamKey::Channel(c)) => since(m.seats.get(&c)),
            Some(StreamKey::Group(g)) => since(m.groups.get(&g)),
            _ => true,
        }
    }

    /// Whether a present member is behind the route's stream now (its own events excluded).
    pub fn receives(&self, member: MemberId, route: &Route) -> bool {
        if Some(member) == route.source || route.to.as_ref().is_some_and(|to| !to.contains(&member)) {
            return false;
        }
        let Some(m) = self.member(member).filter(|m| m.is_present()) else { return false };
        match route.stream {
            Some(StreamKey::Inbox(id)) => id == member,
            Some(StreamKey::Channel(c)) => m.hears(c),
            Some(StreamKey::Group(g)) => m.groups.get(&g).and_then(|g| g.last()).is_some_and(|i| i.to == Seq::MAX),
            Some(StreamKey::Broadcast) => true,
            None
            | Some(
                StreamKey::Thread(_)
                | StreamKey::Source(_)
                | StreamKey::Type(_)
                | StreamKey::Room(_)
                | StreamKey::Work(_)
                | StreamKey::Mention(_),
            ) => false,
        }
    }
}
