//! The durable state of one network: what replaying its log gives.
//!
//! Invariant: changed by `apply` alone. Maps are ordered or keep insertion order, so iteration is stable.
//! Not here: presence, rate buckets and other volatile things (`presence`).

use crate::audit::AuditRecord;
use crate::conversations::NOWHERE;
use crate::credential::{Ended, NameHold, Session, Strangers};
use crate::directory::Directory;
use crate::facts::Facts;
use crate::invites::Invite;
use crate::membership::newcomer::Newcomer;
use crate::mods::external::owed::OwedEmit;
use crate::mods::{Loaded, ModConfig};
use crate::monotonic::{Monotonic, Reading};
use crate::recency::Recency;
use crate::resources::{Resource, ResourceIndex, ResourceNo};
use crate::route::StreamKey;
use crate::shares::Shares;
use crate::streams::Lists;
use crate::work::{Unit, UnitNo, WorkIndex};
use indexmap::IndexMap;
use rialto_model::channel::ChannelStatus;
use rialto_model::member::{Profile, Receive};
use rialto_model::network::{Delivery, Settings, Token};
use rialto_model::{FaceName, Millis, NetworkId, Role, Seq};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A member by its number in this network; numbers are never used again.
pub type MemberId = u32;
/// A channel by its number in this network.
pub type ChannelId = u32;

/// Index maps with a hasher seeded per engine: stable for a given seed, safe against crafted names.
pub type Index<K, V> = IndexMap<K, V, foldhash::fast::FixedState>;

/// A stretch of seqs: after `from`, up to and including `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// Exclusive start.
    pub from: Seq,
    /// Inclusive end; the maximum while it is open.
    pub to: Seq,
}

impl Interval {
    /// Open from just after `seq` on.
    pub fn after(seq: Seq) -> Interval {
        Interval { from: seq, to: Seq::MAX }
    }

    /// Whether it holds `seq`.
    pub fn contains(&self, seq: Seq) -> bool {
        self.from < seq && seq <= self.to
    }
}

/// Closed stretches kept although no pending mail lies in them, so that `explain` can still tell who was a recipient.
const STRETCHES_KEPT: usize = 32;

/// The first seq at or after `seq` that lies in one of the ascending stretches.
pub(crate) fn next_inside(intervals: &[Interval], seq: Seq) -> Option<Seq> {
    let at = intervals.partition_point(|i| i.to < seq);
    intervals.get(at).map(|i| seq.max(i.from.saturating_add(1)))
}

/// The last seq at or before `seq` that lies in one of the ascending stretches.
pub(crate) fn last_inside(intervals: &[Interval], seq: Seq) -> Option<Seq> {
    let at = intervals.partition_point(|i| i.from < seq);
    at.checked_sub(1).and_then(|at| intervals.get(at)).map(|i| seq.min(i.to))
}

/// Whether one of the ascending stretches holds `seq`.
pub(crate) fn holds(intervals: &[Interval], seq: Seq) -> bool {
    next_inside(intervals, seq) == Some(seq)
}

/// Whether the last stretch is still open.
pub(crate) fn is_open(intervals: &[Interval]) -> bool {
    intervals.last().is_some_and(|i| i.to == Seq::MAX)
}

/// Drops the oldest stretches that end at or below `floor`, beyond a few.
pub(crate) fn trim(intervals: &mut Vec<Interval>, floor: Seq) {
    let past = intervals.partition_point(|i| i.to <= floor);
    let surplus = intervals.len().saturating_sub(STRETCHES_KEPT);
    intervals.drain(..surplus.min(past));
}

/// Opens a stretch after `seq` unless one is open.
pub(crate) fn open(intervals: &mut Vec<Interval>, seq: Seq) {
    if !is_open(intervals) {
        intervals.push(Interval::after(seq));
    }
}

/// Closes the open stretch at `seq`; an empty one vanishes.
pub(crate) fn close(intervals: &mut Vec<Interval>, seq: Seq) {
    if let Some(last) = intervals.last_mut().filter(|i| i.to == Seq::MAX) {
        last.to = seq;
        if last.from >= seq {
            intervals.pop();
        }
    }
}

/// One member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Canonical address.
    pub address: Box<str>,
    /// What the network lets it do.
    #[serde(rename = "role")]
    pub granted: Role,
    /// Its last join brought, or asked for, no more than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<Role>,
    /// What its name was taken with.
    #[serde(default, skip_serializing_if = "NameHold::is_token")]
    pub hold: NameHold,
    /// 0–3.
    pub verification: u8,
    /// What it says of itself.
    pub profile: Profile,
    /// First join.
    pub joined_at: Millis,
    /// Its last join came by a session that shares its name, so the network token may speak for it where the network is lax.
    pub lax: bool,
    /// Label of the token its last join used.
    pub token: Option<String>,
    /// That token was revoked since.
    #[serde(default)]
    pub token_revoked: bool,
    /// How it receives.
    pub receive: Receive,
    /// It left: nothing new is queued.
    pub left: bool,
    /// When it left, monotonic time.
    #[serde(default)]
    pub left_at: Millis,
    /// Deleted; the number stays as a tombstone.
    pub removed: bool,
    /// Current sessions: one for an agent, several for a human.
    pub sessions: Vec<Session>,
    /// Hashes of the last sessions that were taken over, to tell `session_revoked` from an unknown bearer.
    pub revoked: Vec<[u8; 32]>,
    /// Hashes of the last sessions that ended by time.
    #[serde(default)]
    pub expired: Vec<[u8; 32]>,
    /// Hashes of the last sessions whose credential ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub voided: Vec<[u8; 32]>,
    /// When its sessions were last used, monotonic time, to the hour; 0 is not known.
    #[serde(default, skip_serializing_if = "is_never")]
    pub used_at: Millis,
    /// When mail is queued for it.
    pub queueing: Vec<Interval>,
    /// Channels it sits in, each with the stretches it did.
    #[serde(with = "pairs")]
    pub seats: BTreeMap<ChannelId, Vec<Interval>>,
    /// Groups it is in.
    #[serde(with = "pairs")]
    pub groups: BTreeMap<u32, Vec<Interval>>,
    /// Channels it keeps its seat in but wants no mail from.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub muted: BTreeSet<ChannelId>,
    /// Its mail waits until this monotonic time; the maximum is until it says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet_until: Option<Millis>,
    /// Addresses it had before, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<Box<str>>,
    /// The face that carries it: it lives elsewhere, and has no session here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<FaceName>,
}

/// Maps by number as lists of pairs: inside a tagged record, JSON's text keys do not read back as numbers.
mod pairs {
    use super::{BTreeMap, Interval};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(map: &BTreeMap<u32, Vec<Interval>>, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(map)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<BTreeMap<u32, Vec<Interval>>, D::Error> {
        Ok(Vec::<(u32, Vec<Interval>)>::deserialize(d)?.into_iter().collect())
    }
}

fn is_never(at: &Millis) -> bool {
    *at == 0
}

impl Member {
    /// What it may do now. Roles are ordered from the most to the least powerful.
    pub fn role(&self) -> Role {
        self.cap.map_or(self.granted, |cap| self.granted.max(cap))
    }

    /// Its session with this number.
    pub(crate) fn session(&self, number: u64) -> Option<&Session> {
        self.sessions.iter().find(|s| s.number == number)
    }

    /// What it may do by this session.
    pub fn role_in(&self, session: u64) -> Role {
        let cap = self.session(session).and_then(|s| s.cap);
        cap.map_or(self.role(), |cap| self.granted.max(cap))
    }

    /// Whether it takes part now.
    pub fn is_present(&self) -> bool {
        !self.removed && !self.left
    }

    /// Whether it sits in the channel now, muted or not.
    pub fn sits_in(&self, channel: ChannelId) -> bool {
        self.hears(channel) || self.muted.contains(&channel)
    }

    /// Whether what is said in the channel now is its mail.
    pub fn hears(&self, channel: ChannelId) -> bool {
        self.seats.get(&channel).is_some_and(|s| is_open(s))
    }

    /// Whether its mail waits.
    pub fn is_quiet(&self) -> bool {
        self.quiet_until.is_some()
    }

    /// Whether this is a person.
    pub fn is_human(&self) -> bool {
        self.address.starts_with("human:")
    }

    /// The name without its prefix.
    pub fn name(&self) -> &str {
        self.address.split_once(':').map_or(&self.address, |(_, name)| name)
    }
}

/// One channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sheet's own names, section 1.5")]
pub struct Channel {
    pub name: Box<str>,
    pub title: String,
    pub private: bool,
    pub master: Option<MemberId>,
    pub created_by: Option<MemberId>,
    pub created_at: Millis,
    pub status: ChannelStatus,
    pub starred: bool,
    pub resume_from: Option<String>,
    /// Somebody gave it its title.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub title_manual: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_at: Option<Millis>,
    /// Who sits here now, in the order of seating.
    pub seated: Vec<MemberId>,
}

/// One group; its members may be addresses that have not joined yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Number of its stream.
    pub number: u32,
    /// Addresses, in order.
    pub members: Vec<Box<str>>,
}

/// A direct room of two members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Derived when it was opened, never again: a peer may be renamed.
    pub id: Box<str>,
    /// Name of the channel that scopes it.
    pub channel: Box<str>,
    /// The member with the lower number.
    pub a: MemberId,
    /// The other.
    pub b: MemberId,
    /// When it was opened.
    pub opened_at: Millis,
    /// Who opened it, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<MemberId>,
}

/// A wish for receipts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReceiptRequest {
    /// Id of the event.
    pub id: Box<str>,
    /// Who asked.
    pub source: MemberId,
    /// Recipients that have not acked.
    pub waiting: u32,
}

/// An event that history does not keep, while somebody has not acked it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unstored {
    /// Recipients that have not acked.
    pub waiting: u32,
    /// Lists that hold it.
    pub streams: Vec<StreamKey>,
}

/// A delivery that ended undelivered, as the operator sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names of the dead-letter payload")]
pub struct DeadLetter {
    pub seq: Seq,
    pub recipient: Box<str>,
    pub reason: Box<str>,
    pub at: Millis,
    /// The event it was sent again as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retried_as: Option<Seq>,
    /// The operator put it away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
}

/// The part of the state that is small and readable: saved as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each name is documented at its type")]
pub struct Book {
    pub id: Box<str>,
    pub number: u32,
    /// Goes into server-made ids.
    pub salt: u16,
    /// A secret that ids made from a client's idempotency key depend on; networks of older releases have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_key: Option<[u8; 16]>,
    pub created_at: Millis,
    pub created_by: Option<String>,
    pub settings: Settings,
    pub tokens: Vec<Token>,
    /// Loaded mods, in pipeline order.
    pub mods: Vec<ModConfig>,
    pub mods_revision: u64,
    pub members: Vec<Member>,
    pub channels: Vec<Channel>,
    pub groups: BTreeMap<Box<str>, Group>,
    pub next_session: u64,
    pub next_group: u32,
    /// Last assigned position.
    pub head: Seq,
    /// Stamp of the last event: stamps never go back.
    pub last_stamp: Millis,
    /// Events at or below are purged.
    pub purged: Seq,
    /// While the network is at-most-once: events after this are not queued.
    pub at_most_once_after: Option<Seq>,
    /// The newest dead letters, for the operator.
    pub dead_letters: Vec<DeadLetter>,
    /// Types by number; the order of first use.
    pub types: Vec<Box<str>>,
    /// Threads by number: (channel, thread id).
    pub threads: Vec<(ChannelId, Box<str>)>,
    /// Who began a thread, by its number, if that is known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub thread_makers: BTreeMap<u32, MemberId>,
    /// Events that history does not keep and somebody still waits for.
    pub unstored: BTreeMap<Seq, Unstored>,
    /// Events narrowed by `metadata.to`: who of the audience gets them.
    pub narrowed: BTreeMap<Seq, Vec<MemberId>>,
    /// Events with a shorter life than the network's: when each ends, monotonic time.
    pub short_lived: BTreeMap<Seq, Millis>,
    /// A time index: the first seq of each second that has events; of each minute or hour where it was thinned.
    pub times: Vec<(Millis, Seq)>,
    /// The time index is to the second from here on.
    #[serde(default)]
    pub seconds_from: Millis,
    /// The time index is to the minute from here on, and to the hour before.
    #[serde(default)]
    pub minutes_from: Millis,
    /// Of an older release, until the first record of the monotonic clock: leaps of the wall clock. Events up to this seq
    /// are younger than their stamps say, by this much.
    #[serde(default)]
    pub leaps: Vec<(Seq, Millis)>,
    /// When events were committed, by the monotonic clock; none until that was first recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monotonic: Option<Box<Monotonic>>,
    /// Non-pass verdicts of mods on committed events, for `explain`.
    pub verdicts: BTreeMap<Seq, Vec<String>>,
    /// Events whose sender wants to hear of acks, while somebody has not acked.
    pub receipts: BTreeMap<Seq, ReceiptRequest>,
    /// Events whose payload was redacted.
    pub redacted: BTreeSet<Seq>,
    /// Who managed the network, the newest last.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub audit: VecDeque<AuditRecord>,
    /// Work units: open ones, and ended ones for a while.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<UnitNo, Unit>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next_unit: UnitNo,
    /// Tools, files and contexts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<ResourceNo, Resource>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next_resource: ResourceNo,
    /// Events that leave history at the end of their life, with the lists that hold each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fleeting: BTreeMap<Seq, Vec<StreamKey>>,
    /// Invitations that can still be used.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub invites: BTreeMap<Box<str>, Invite>,
    /// Direct rooms by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rooms: Vec<Room>,
    /// Addresses that were given up by a rename: whom they lead to until somebody joins under them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub former: BTreeMap<Box<str>, MemberId>,
    /// Who may serve a mod without being a master, by the mod's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub approved: BTreeMap<Box<str>, BTreeSet<MemberId>>,
    /// How much the events of history take, while history is bounded by size.
    #[serde(default, skip_serializing_if = "Sizes::is_empty")]
    pub sizes: Sizes,
    /// What of its profile the network has been given (`profile`).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub profile_revision: u32,
    /// Emits of mods that wait for other mods, in the order in which they are to be decided.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub owed: BTreeMap<u64, OwedEmit>,
    /// Small durable facts, by the face they are of.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<FaceName, Facts>,
    /// Number of the next owed emit; 0 as long as there never was one.
    #[serde(default, skip_serializing_if = "is_zero_u64")]
    pub next_owed: u64,
}

/// How many bytes of events there were up to some positions: enough to say through which one history must forget to
/// keep about as many bytes as it may.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sizes {
    /// Bytes of all events counted so far.
    total: u64,
    /// Bytes of those that are purged, at least.
    purged: u64,
    /// A position and the bytes of everything counted up to it, in rising order.
    marks: Vec<(Seq, u64)>,
    /// Bytes between two marks.
    step: u64,
}

impl Sizes {
    /// Marks kept; with more of them every second one goes.
    const MARKS_MAX: usize = 4096;
    const STEP_MIN: u64 = 4096;

    pub(crate) fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Counts an event.
    pub(crate) fn add(&mut self, seq: Seq, bytes: u64) {
        self.total += bytes;
        self.step = self.step.max(Self::STEP_MIN);
        let last = self.marks.last().map_or(0, |(_, sum)| *sum);
        if self.total - last < self.step {
            return;
        }
        self.marks.push((seq, self.total));
        if self.marks.len() > Self::MARKS_MAX {
            let mut nth = 0;
            self.marks.retain(|_| {
                nth += 1;
                nth % 2 == 0
            });
            self.step *= 2;
        }
    }

    /// The last position that must go so that what is left takes at most so many bytes; 0 if nothing must.
    pub(crate) fn beyond(&self, keep: u64) -> Seq {
        let surplus = self.total.saturating_sub(keep);
        if surplus <= self.purged {
            return 0;
        }
        let at = self.marks.partition_point(|(_, sum)| *sum < surplus);
        self.marks.get(at).map_or(0, |(seq, _)| *seq)
    }

    /// Forgets marks of what is purged.
    pub(crate) fn forget(&mut self, through: Seq) {
        let gone = self.marks.partition_point(|(seq, _)| *seq <= through);
        self.purged = self.marks.drain(..gone).next_back().map_or(self.purged, |(_, sum)| sum);
    }
}

/// What an older release did not have is left out while there is none of it: its states keep their hashes.
fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn is_zero_u64(n: &u64) -> bool {
    *n == 0
}

/// The durable state: the readable book, the lists, and look-ups derived from them.
#[derive(Debug, Clone)]
pub struct State {
    /// The small part.
    pub book: Book,
    /// Posting lists and ack state.
    pub lists: Lists,
    /// How late it is by the network's monotonic clock.
    pub reading: Reading,
    /// Own id, parsed.
    pub network: NetworkId,
    pub(crate) directory: Directory,
    pub(crate) shares: Shares,
    pub(crate) members: Index<Box<str>, MemberId>,
    pub(crate) channels: Index<Box<str>, ChannelId>,
    pub(crate) sessions: Index<[u8; 32], (MemberId, u64)>,
    pub(crate) types: Index<Box<str>, u32>,
    pub(crate) threads: Index<(ChannelId, Box<str>), u32>,
    /// The same by their ids alone.
    pub(crate) threads_named: Index<Box<str>, BTreeSet<u32>>,
    pub(crate) recency: Recency,
    /// Hashes of ended sessions, whose each was and why it ended.
    pub(crate) ended: Index<[u8; 32], (MemberId, Ended)>,
    /// `short_lived` by time.
    pub(crate) deaths: BTreeSet<(Millis, Seq)>,
    pub(crate) work: WorkIndex,
    pub(crate) resource_index: ResourceIndex,
    pub(crate) room_ids: Index<Box<str>, u32>,
    /// Rooms of two members, the one with the lower number first: one per channel that scopes them.
    pub(crate) room_pairs: Index<(MemberId, MemberId), BTreeMap<Box<str>, u32>>,
    /// Members that faces carry.
    pub(crate) carried: BTreeMap<FaceName, BTreeSet<MemberId>>,
    /// Numbers of threads that nothing is left of.
    pub(crate) free_threads: BTreeSet<u32>,
    pub(crate) loaded: Loaded,
    /// Somebody whose first event is being decided.
    pub(crate) newcomer: Option<Box<Newcomer>>,
    /// Whether who shows nothing is admitted: the run of the node has the last word, not the network.
    pub strangers: Strangers,
}

impl State {
    /// The state around a book and its lists; look-ups are rebuilt with the engine's seed.
    pub fn from_parts(book: Book, lists: Lists, network: NetworkId, seed: u64) -> State {
        let hasher = || foldhash::fast::FixedState::with_seed(seed);
        let mut state = State {
            directory: Directory::new(hasher, &book),
            shares: Shares::new(&book),
            members: Index::with_hasher(hasher()),
            channels: Index::with_hasher(hasher()),
            sessions: Index::with_hasher(hasher()),
            types: Index::with_hasher(hasher()),
            threads: Index::with_hasher(hasher()),
            threads_named: Index::with_hasher(hasher()),
            recency: Recency::default(),
            ended: Index::with_hasher(hasher()),
            work: WorkIndex::new(hasher, &book.units),
            resource_index: ResourceIndex::new(&book.resources),
            room_ids: Index::with_hasher(hasher()),
            room_pairs: Index::with_hasher(hasher()),
            carried: BTreeMap::new(),
            free_threads: BTreeSet::new(),
            deaths: book.short_lived.iter().map(|(seq, at)| (*at, *seq)).collect(),
            strangers: Strangers::default(),
            newcomer: None,
            loaded: Loaded::of(&book.mods),
            book,
            lists,
            reading: Reading::default(),
            network,
        };
        for (id, member) in (0..).zip(&state.book.members) {
            let past =
                [(&member.revoked, Ended::Taken), (&member.expired, Ended::Expired), (&member.voided, Ended::Voided)];
            for (hashes, why) in past {
                state.ended.extend(hashes.iter().map(|hash| (*hash, (id, why))));
            }
            if !member.removed {
                state.members.insert(member.address.clone(), id);
                if let Some(face) = &member.via {
                    state.carried.entry(face.clone()).or_default().insert(id);
                }
                for session in &member.sessions {
                    state.sessions.insert(session.sha256, (id, session.number));
                }
            }
        }
        for (id, channel) in (0..).zip(&state.book.channels) {
            if channel.status != ChannelStatus::Deleted {
                state.channels.insert(channel.name.clone(), id);
            }
        }
        for (id, name) in (0..).zip(&state.book.types) {
            state.types.insert(name.clone(), id);
        }
        for (id, key) in (0..).zip(&state.book.threads) {
            if key.0 == NOWHERE {
                state.free_threads.insert(id);
            } else {
                state.threads.insert(key.clone(), id);
                state.threads_named.entry(key.1.clone()).or_default().insert(id);
            }
        }
        let rooms = std::mem::take(&mut state.book.rooms);
        (0..).zip(&rooms).for_each(|(number, room)| state.enter_room(number, room));
        state.book.rooms = rooms;
        state.rank();
        state
    }

    pub(crate) fn enter_room(&mut self, number: u32, room: &Room) {
        self.room_ids.insert(room.id.clone(), number);
        self.room_pairs.entry((room.a, room.b)).or_default().entry(room.channel.clone()).or_insert(number);
    }

    /// Whether what is derived from the book and the lists is the same in both: it is never saved, so replay and snapshots must give
    /// what the live state has.
    pub fn derives_as(&self, other: &State) -> bool {
        self.directory == other.directory
            && self.recency == other.recency
            && self.shares == other.shares
            && self.threads_named == other.threads_named
            && self.free_threads == other.free_threads
            && self.carried == other.carried
    }

    /// Members that a face carries.
    pub fn carried_by(&self, face: &FaceName) -> Option<&BTreeSet<MemberId>> {
        self.carried.get(face)
    }

    /// How many members faces carry.
    pub(crate) fn carried_count(&self) -> usize {
        self.carried.values().map(BTreeSet::len).sum()
    }

    /// Hashes of all sessions that have not ended.
    pub fn session_hashes(&self) -> impl Iterator<Item = [u8; 32]> {
        self.sessions.keys().copied()
    }

    /// A channel that is not deleted, by name.
    pub fn channel_id(&self, name: &str) -> Option<ChannelId> {
        self.channels.get(name).copied()
    }

    /// The next position.
    pub fn next_seq(&self) -> Seq {
        self.book.head + 1
    }

    /// The stamp of an event committed now.
    pub fn stamp(&self, wall: Millis) -> Millis {
        if crate::bugs::on("stamp follows the wall clock") {
            return wall;
        }
        self.book.last_stamp.max(wall)
    }

    /// Whether the named mod is loaded and enabled.
    pub fn has_mod(&self, name: &str) -> bool {
        self.book.mods.iter().any(|m| m.enabled && m.name.as_ref() == name)
    }

    /// Whether deliveries of new events are tracked.
    pub fn is_tracked(&self) -> bool {
        self.book.settings.delivery == Delivery::AtLeastOnce
    }
}
