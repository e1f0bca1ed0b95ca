//! What is true only while the process lives: who is there, rate buckets, refusals. Outside the state hash.

use crate::input::{Clock, Emit};
use crate::mods::analytics::Analytics;
use crate::mods::rate_limiter::Buckets;
use crate::state::{ChannelId, MemberId};
use crate::work::UnitNo;
use rialto_model::network::Token;
use rialto_model::{Fault, Millis, Role, limits};
use std::collections::{BTreeMap, VecDeque};

/// A call within this time counts as being there.
pub(crate) const OFFLINE_AFTER_MS: Millis = 60_000;
/// A session without any call for this long ends.
pub(crate) const SESSION_IDLE_MS: Millis = DAY_MS;
/// A session of a person without any call for this long ends.
pub(crate) const PERSON_SESSION_IDLE_MS: Millis = 30 * DAY_MS;
/// A session ends this long after it began.
pub(crate) const SESSION_AGE_MS: Millis = 30 * DAY_MS;
/// A session of a person ends this long after it began.
pub(crate) const PERSON_SESSION_AGE_MS: Millis = 90 * DAY_MS;
/// That sessions are used is recorded this often.
pub(crate) const USED_EVERY_MS: Millis = 3600 * 1000;
const DAY_MS: Millis = 24 * 3600 * 1000;

/// Whether one member is there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Presence {
    /// Open streams.
    pub streams: u32,
    /// Last call, steady clock.
    pub last_call: Millis,
    /// What the roster was last told.
    pub online: bool,
    /// Its last stream closed and no call came since, or it was not seen since the start.
    pub gone: bool,
}

impl Presence {
    pub(crate) fn is_there(&self, now: Clock) -> bool {
        self.streams > 0 || !self.gone && now.steady < self.last_call.saturating_add(OFFLINE_AFTER_MS)
    }
}

/// Presences by member. Numbers of members are dense and every event of a member looks here.
#[derive(Debug, Default)]
pub struct Roll(Vec<Option<Presence>>);

impl Roll {
    fn at(id: MemberId) -> usize {
        usize::try_from(id).unwrap_or(usize::MAX)
    }

    /// What is known of a member.
    pub fn get(&self, id: MemberId) -> Option<&Presence> {
        self.0.get(Roll::at(id))?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: MemberId) -> Option<&mut Presence> {
        self.0.get_mut(Roll::at(id))?.as_mut()
    }

    /// What is known of a member; `new` if that was nothing.
    pub(crate) fn or_insert(&mut self, id: MemberId, new: Presence) -> Option<&mut Presence> {
        let at = Roll::at(id);
        if self.0.len() <= at {
            self.0.resize(at.saturating_add(1), None);
        }
        Some(self.0.get_mut(at)?.get_or_insert(new))
    }

    pub(crate) fn remove(&mut self, id: MemberId) {
        if let Some(place) = self.0.get_mut(Roll::at(id)) {
            *place = None;
        }
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(MemberId) -> bool) {
        for (id, place) in (0..).zip(&mut self.0) {
            if place.is_some() && !keep(id) {
                *place = None;
            }
        }
    }

    /// Everybody something is known of.
    pub fn iter(&self) -> impl Iterator<Item = (MemberId, &Presence)> {
        (0..).zip(&self.0).filter_map(|(id, place)| Some((id, place.as_ref()?)))
    }
}

/// A refusal, kept for `explain`.
#[derive(Debug, Clone)]
pub struct RecentRefusal {
    /// Id the client gave.
    pub event_id: String,
    /// Who sent it, if that was proved.
    pub source: Option<String>,
    /// Type and target as sent.
    pub kind: String,
    /// Target as sent.
    pub target: String,
    /// Why it was refused.
    pub fault: Fault,
    /// When.
    pub at: Millis,
}

/// The volatile part of an engine.
#[derive(Debug, Default)]
pub struct VolatileState {
    /// Who is there.
    pub presence: Roll,
    /// Rate limiter's buckets.
    pub buckets: Buckets,
    /// What mod/analytics counted.
    pub analytics: Option<Box<Analytics>>,
    /// The last refusals.
    pub refusals: VecDeque<RecentRefusal>,
    /// Who came or went since everybody was last told, in a network that tells all changes together.
    pub(crate) presence_changes: BTreeMap<Box<str>, (Role, bool)>,
    /// Makes ids of signals unique.
    pub signals: u64,
    /// When history was last purged, steady time.
    pub purged_at: Option<Millis>,
    /// The next tick looks at floors from this member on.
    pub floors_from: MemberId,
    /// When the network was last seen at rest, steady time.
    pub(crate) rested_until: Option<Millis>,
    /// When sessions that rest were last looked for, steady time.
    pub(crate) archived_at: Option<Millis>,
    /// Tokens whose time was over at the last tick.
    pub(crate) expired_tokens: usize,
    /// When tokens were last shown, by the hash of their text.
    pub(crate) tokens_shown: BTreeMap<[u8; 32], Millis>,
    /// Messages of agents in a row, by channel.
    pub(crate) streaks: BTreeMap<ChannelId, u64>,
    /// When open work was last heard of by progress that is never stored, steady time.
    pub(crate) progress: BTreeMap<UnitNo, Millis>,
}

impl VolatileState {
    /// When a token was last used, as far as anybody knows.
    pub fn last_use(&self, token: &Token) -> Option<Millis> {
        self.tokens_shown.get(&token.sha256).copied().max(token.last_used_at)
    }

    /// Notes a call of a member; true if the roster still shows it offline, which the next tick puts right.
    pub fn touch(&mut self, member: MemberId, now: Clock) -> bool {
        let Some(p) = self.presence.or_insert(member, Presence::default()) else { return false };
        p.last_call = now.steady;
        p.gone = false;
        !p.online
    }

    /// Notes a call of a member; true if the caller has to tell everybody that it is there now.
    pub(crate) fn came(&mut self, member: MemberId, now: Clock) -> bool {
        let news = self.touch(member, now);
        if let Some(p) = self.presence.get_mut(member).filter(|_| news) {
            p.online = true;
        }
        news
    }

    /// Notes a stream opening or closing.
    pub fn stream(&mut self, member: MemberId, open: bool, now: Clock) {
        let Some(p) = self.presence.or_insert(member, Presence::default()) else { return };
        p.streams = if open { p.streams + 1 } else { p.streams.saturating_sub(1) };
        p.last_call = now.steady;
        // A closed stream is an absence at once; other calls bring it back.
        p.gone = p.streams == 0;
    }

    /// Whether the member is there.
    pub fn is_online(&self, member: MemberId, now: Clock) -> bool {
        self.presence.get(member).is_some_and(|p| p.is_there(now))
    }

    /// When the member was last heard of, wall clock; nothing if it was not since the start.
    pub fn last_seen(&self, member: MemberId, now: Clock) -> Option<Millis> {
        let age = now.steady.saturating_sub(self.presence.get(member)?.last_call);
        Some(now.wall.saturating_sub(age))
    }

    /// Whether the member has a stream open: what is never stored reaches it.
    pub(crate) fn has_stream(&self, member: MemberId) -> bool {
        self.presence.get(member).is_some_and(|p| p.streams > 0)
    }

    /// How many members are there.
    pub fn online(&self, now: Clock) -> usize {
        self.presence.iter().filter(|(_, p)| p.is_there(now)).count()
    }

    /// Remembers a refusal; `source` is who it was if that was proved, so that nobody else hears of it.
    pub(crate) fn refused(&mut self, input: &Emit<'_>, source: Option<String>, fault: &Fault, now: Clock) {
        let Some(id) = &input.envelope.id else { return };
        if self.refusals.len() >= limits::REFUSALS_KEPT_MAX {
            self.refusals.pop_front();
        }
        self.refusals.push_back(RecentRefusal {
            event_id: id.to_string(),
            source,
            kind: input.envelope.kind.to_string(),
            target: input.envelope.target.to_string(),
            fault: fault.clone(),
            at: now.wall,
        });
    }
}
