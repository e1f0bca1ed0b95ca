//! Conversations: threads inside channels, direct rooms between two members (design, section 8; ids of rooms from the
//! AGH sheet, section 5).

use super::{Channel, Input, Oracle, Place, Row, Who, Wrong, wrong};
use rialto_model::ErrorCode;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The channel that scopes a room if nobody says which.
const DEFAULT_SCOPE: &str = "general";

/// The room of two members.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    scope: String,
    pair: [Who; 2],
    id: String,
    events: Vec<u64>,
}

/// A conversation as somebody is listed it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// The room's id, or the thread's channel and name.
    pub name: String,
    /// Events in it.
    pub messages: u64,
    /// Those the viewer has pending.
    pub unread: u64,
    /// The position of the last.
    pub last: u64,
}

/// `thread_`, then 3 to 96 lower-case letters, digits, `_` and `-`, the first a letter or digit.
fn is_thread(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("thread_") else { return false };
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (3..=96).contains(&rest.chars().count())
        && rest.chars().next().is_some_and(plain)
        && rest.chars().all(|c| plain(c) || c == '_' || c == '-')
}

/// What a member is called in the id of a room.
fn peer(address: &str) -> &str {
    address.strip_prefix("agent:").unwrap_or(address)
}

/// The id of a room, recomputed from the words of the sheet.
fn room_id(network: &str, scope: &str, a: &str, b: &str) -> String {
    let mut peers = [peer(a), peer(b)];
    peers.sort_unstable_by_key(|peer| peer.as_bytes());
    let text = ["agh-network/direct-room/v0", network, scope, peers[0], peers[1]].join("\0");
    let hex: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("direct_{}", hex.chars().take(32).collect::<String>())
}

impl Oracle {
    fn scope(input: &Input) -> Option<&str> {
        let said = input.metadata.get("room_channel").and_then(Value::as_str)?;
        Some(said.strip_prefix("channel/").unwrap_or(said))
    }

    fn knows_channel(&self, name: &str, who: Who) -> bool {
        let master = self.members.get(who).is_some_and(|m| m.is_master());
        let seen = |c: &Channel| !c.private || master || c.seats.contains(&who);
        self.channel(name).and_then(|c| self.channels.get(c)).is_some_and(seen)
    }

    /// What speaks against where an event says it belongs.
    pub(crate) fn talk_refusals(&self, input: &Input, place: Place, source: Who) -> Option<ErrorCode> {
        let in_channel = matches!(place, Place::Channel(_));
        match input.metadata.get("thread").and_then(Value::as_str) {
            Some(thread) if !in_channel || !is_thread(thread) => return Some(ErrorCode::InvalidEvent),
            Some(_) | None => {}
        }
        let scope = Oracle::scope(input)?;
        if !self.knows_channel(scope, source) {
            return Some(ErrorCode::UnknownTarget);
        }
        (!matches!(place, Place::Inbox(_) | Place::Nowhere)).then_some(ErrorCode::InvalidEvent)
    }

    /// A committed message belongs to its thread, or to the room of its two members.
    pub(crate) fn talked(&mut self, input: &Input, source: Who, place: Place, seq: u64) {
        let thread = input.metadata.get("thread").and_then(Value::as_str);
        match (place, thread) {
            (Place::Channel(c), Some(thread)) => {
                self.threads.entry((c, thread.to_owned())).or_default().push(seq);
            }
            (Place::Inbox(to), _) if to != source => {
                let scope = Oracle::scope(input).unwrap_or(DEFAULT_SCOPE).to_owned();
                let room = self.room(source, to, &scope);
                if let Some(room) = self.rooms.get_mut(room) {
                    room.events.push(seq);
                }
            }
            _ => {}
        }
    }

    /// The room of two, made if it is not there.
    fn room(&mut self, a: Who, b: Who, scope: &str) -> usize {
        let pair = [a.min(b), a.max(b)];
        if let Some(known) = self.rooms.iter().position(|r| r.pair == pair && r.scope == scope) {
            return known;
        }
        let address = |who: Who| self.address(who).unwrap_or_default().to_owned();
        let id = room_id(&self.rules.network, scope, &address(a), &address(b));
        self.rooms.push(Room { scope: scope.to_owned(), pair, id, events: Vec::new() });
        self.rooms.len() - 1
    }

    /// Somebody asked for its room with another.
    pub fn room_opened(
        &mut self,
        me: &str,
        with: &str,
        scope: Option<&str>,
        got: Result<&str, ErrorCode>,
    ) -> Result<(), Wrong> {
        let there = |o: &Oracle, address: &str| o.who(address).filter(|_| o.is_present(address));
        let (a, b) = (there(self, me), there(self, with));
        let scoped = a.is_some_and(|a| scope.is_none_or(|scope| self.knows_channel(scope, a)));
        match (a, b, got) {
            (Some(a), Some(b), Ok(id)) if a != b && scoped => {
                let room = self.room(a, b, scope.unwrap_or(DEFAULT_SCOPE));
                let expected = self.rooms.get(room).map(|r| r.id.clone()).unwrap_or_default();
                if id != expected {
                    return wrong("conversations", format!("the room of {me} and {with} is {id}, not {expected}"));
                }
                Ok(())
            }
            (_, _, Ok(id)) => wrong("rules", format!("{me} got room {id} with {with} in {scope:?}")),
            (Some(a), Some(b), Err(code)) if a != b && scoped && self.rules.status == "active" => {
                wrong("rules", format!("{me} got no room with {with} in {scope:?}: {}", code.as_str()))
            }
            (_, _, Err(_)) => Ok(()),
        }
    }

    /// Whether there is any conversation.
    pub fn has_talk(&self) -> bool {
        !self.threads.is_empty() || !self.rooms.is_empty()
    }

    /// Counted one by one: what of these is pending for a member. Nothing if that is in doubt.
    fn unread(&self, who: Who, events: &[u64]) -> Option<u64> {
        let member = self.members.get(who)?;
        let rows: Vec<Row> = events.iter().filter_map(|seq| member.mail.get(seq)).map(|mail| mail.row).collect();
        let doubt = rows.contains(&Row::Maybe) || !self.rules.at_least_once;
        (!doubt).then(|| rows.iter().filter(|row| **row == Row::Pending).count() as u64)
    }

    /// The conversations a member is listed are its own, with what it has not read.
    pub fn conversations_listed(&self, address: &str, threads: &[Listed], rooms: &[Listed]) -> Result<(), Wrong> {
        let Some(who) = self.who(address) else { return Ok(()) };
        let seated = |c: usize| self.channels.get(c).is_some_and(|c| c.seats.contains(&who));
        let own = self.threads.iter().filter(|((c, _), _)| seated(*c)).map(|((c, thread), events)| {
            (format!("channel/{} {thread}", self.channel_name(*c).unwrap_or_default()), events.as_slice())
        });
        self.listed(who, &own.collect::<Vec<_>>(), threads, false)?;
        let own = self.rooms.iter().filter(|r| r.pair.contains(&who)).map(|r| (r.id.clone(), r.events.as_slice()));
        self.listed(who, &own.collect::<Vec<_>>(), rooms, true)
    }

    fn listed(&self, who: Who, own: &[(String, &[u64])], got: &[Listed], empty_too: bool) -> Result<(), Wrong> {
        let whom = self.address(who).unwrap_or_default();
        if let Some(entry) = got.iter().find(|entry| !own.iter().any(|(name, _)| *name == entry.name)) {
            return wrong("borders", format!("{whom} is listed {}, which is not for it", entry.name));
        }
        // What history forgot, and who else still waits for it, is not looked at here.
        let exact = self.rules.persistence && self.purged == 0;
        for (name, events) in own {
            let unread = self.unread(who, events);
            let must = exact || empty_too || unread.is_some_and(|n| n > 0);
            let fits = |entry: &&Listed| {
                let counts = entry.messages == events.len() as u64 && entry.last == events.last().copied().unwrap_or(0);
                entry.name == *name && unread.is_none_or(|n| n == entry.unread) && (!exact || counts)
            };
            let same = got.iter().filter(|entry| entry.name == *name);
            if must && !got.iter().any(|entry| fits(&entry))
                || same.clone().count() > own.iter().filter(|o| o.0 == *name).count()
            {
                let same: Vec<&Listed> = same.collect();
                return wrong(
                    "conversations",
                    format!("{whom} is listed {name} as {same:?}: {events:?}, {unread:?} unread"),
                );
            }
        }
        Ok(())
    }
}
