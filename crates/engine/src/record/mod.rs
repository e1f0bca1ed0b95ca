//! Records: what was decided, as the log keeps it. Outcomes, never questions: replay never re-decides.
//!
//! Events and acks have a binary form (they are many); everything else is JSON that can grow members.

mod form;
mod more;

pub use form::redacted;
pub(crate) use form::{blank, more_of};
pub use more::More;

use crate::audit::AuditRecord;
use crate::credential::Session;
use crate::route::Route;
use crate::state::{ChannelId, Member, MemberId};
use rialto_model::channel::ChannelStatus;
use rialto_model::network::{Settings, Token};
use rialto_model::{Event, EventParts, EventType, FaceName, Millis, Role, Seq};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Record kind of an event in the log.
pub const KIND_EVENT: u8 = 1;
/// Record kind of acks.
pub const KIND_ACKS: u8 = 2;
/// Record kind of a change of the book.
pub const KIND_CHANGE: u8 = 3;
/// Record kind of a piece of a whole state, which an imported network begins with instead of its creation.
pub const KIND_STATE: u8 = 4;
/// Version of the record forms written today. Those before it are read too.
pub const VERSION: u8 = 2;

/// What a record of [`KIND_STATE`] holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatePiece {
    /// Nothing: from here on events come that the state, which follows them, knows already.
    Begin,
    /// A piece; more follow.
    Middle,
    /// The last piece: the network is what the pieces say from here on.
    Last,
}

impl StatePiece {
    /// Appends the body of such a record.
    pub fn encode(self, piece: &[u8], out: &mut Vec<u8>) {
        out.push(self as u8);
        out.extend_from_slice(piece);
    }

    /// Reads a body back.
    pub fn decode(body: &[u8]) -> Option<(StatePiece, &[u8])> {
        let (kind, piece) = body.split_first()?;
        let all = [StatePiece::Begin, StatePiece::Middle, StatePiece::Last];
        Some((*all.iter().find(|known| **known as u8 == *kind)?, piece))
    }
}

/// One decided thing.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// An event was committed.
    Event(Arc<EventRecord>),
    /// A member acked deliveries.
    Acks(Acks),
    /// The book changed. Boxed: it is rare and large, and the others are moved often.
    Change(Box<Change>),
}

impl From<Change> for Record {
    fn from(change: Change) -> Record {
        Record::Change(Box::new(change))
    }
}

impl Record {
    /// The change of the book, if it is one.
    pub fn change(&self) -> Option<&Change> {
        match self {
            Record::Change(change) => Some(change),
            Record::Event(_) | Record::Acks(_) => None,
        }
    }
}

/// An event with where it goes.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRecord {
    /// The event itself.
    pub event: Event,
    /// Its resolved route.
    pub route: Route,
    /// 128-bit hash of the bytes received, when the client chose the id.
    pub received: Option<u128>,
    /// The sender wants receipts.
    pub receipt: bool,
    /// History keeps it.
    pub stored: bool,
    /// End of its life in queues, monotonic time, if shorter than the network's.
    pub dies_at: Option<Millis>,
    /// Non-pass verdicts of mods.
    pub verdicts: Vec<String>,
    /// What few events have besides.
    pub more: Option<Box<More>>,
}

/// Acked seqs of one member: inclusive ranges, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acks {
    /// Whose.
    pub member: MemberId,
    /// New floor, never lower than the old one.
    pub floor: Seq,
    /// Acked above it.
    pub above: Vec<(Seq, Seq)>,
}

/// A change of the book.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
#[allow(missing_docs, reason = "each field is the one of the same name in the state")]
pub enum Change {
    Created {
        id: String,
        number: u32,
        salt: u16,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id_key: Option<[u8; 16]>,
        created_at: Millis,
        created_by: Option<String>,
        settings: Settings,
        mods: Vec<crate::mods::ModConfig>,
    },
    Settings {
        settings: Settings,
    },
    Token {
        token: Token,
    },
    TokenRevoked {
        label: String,
    },
    /// A token was shown, not long before.
    TokenUsed {
        label: String,
        at: Millis,
    },
    Joined {
        member: MemberId,
        record: Box<Member>,
    },
    SessionIssued {
        member: MemberId,
        session: Session,
        keep_others: bool,
    },
    SessionEnded {
        member: MemberId,
        numbers: Vec<u64>,
        /// They ended by time.
        #[serde(default)]
        expired: bool,
        /// What they were made with, or the membership, was taken away.
        #[serde(default, skip_serializing_if = "is_false")]
        voided: bool,
    },
    /// A session may do no more than this from here on.
    SessionCapped {
        member: MemberId,
        number: u64,
        cap: Role,
    },
    /// Sessions of these members were used, monotonic time.
    SessionsUsed {
        members: Vec<MemberId>,
        at: Millis,
    },
    /// Somebody managed the network.
    Audited {
        entry: Box<AuditRecord>,
    },
    /// A name belongs to nobody any more: whoever joins with the network's token may have it.
    Released {
        name: Box<str>,
    },
    Role {
        member: MemberId,
        role: rialto_model::Role,
    },
    Profile {
        member: MemberId,
        profile: rialto_model::member::Profile,
    },
    /// Mail is queued from here on, or no longer.
    Queueing {
        member: MemberId,
        on: bool,
        left: bool,
        receive: rialto_model::member::Receive,
    },
    Removed {
        member: MemberId,
    },
    ChannelCreated {
        channel: ChannelId,
        name: String,
        title: String,
        private: bool,
        master: Option<MemberId>,
        created_by: Option<MemberId>,
        at: Millis,
        resume_from: Option<String>,
    },
    ChannelStatus {
        channel: ChannelId,
        status: ChannelStatus,
    },
    ChannelMaster {
        channel: ChannelId,
        master: Option<MemberId>,
    },
    /// What a channel says of itself, as far as it changed.
    ChannelSet {
        channel: ChannelId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title_manual: Option<bool>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        starred: Option<bool>,
        /// It no longer says what it resumes from.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        no_resume_from: bool,
    },
    Seated {
        channel: ChannelId,
        member: MemberId,
    },
    Unseated {
        channel: ChannelId,
        member: MemberId,
    },
    Group {
        name: String,
        members: Vec<Box<str>>,
    },
    GroupDeleted {
        name: String,
    },
    Mods {
        mods: Vec<crate::mods::ModConfig>,
    },
    /// A member may serve a mod, or no longer.
    ModApproved {
        name: Box<str>,
        member: MemberId,
        on: bool,
    },
    /// Deliveries of a member ended undelivered: inclusive ranges of their seqs.
    Dead {
        member: MemberId,
        reason: Box<str>,
        at: Millis,
        seqs: Vec<(Seq, Seq)>,
    },
    /// The operator dealt with dead letters: sent one again as an event, or put them away.
    DeadSettled {
        letters: Vec<(Seq, Box<str>)>,
        retried_as: Option<Seq>,
    },
    /// Short lives that ended by then have been dealt with.
    Lapsed {
        through: Millis,
    },
    /// The network's monotonic clock showed `monotonic` when the stamp of an event would have been `stamp`. From here
    /// on the monotonic time of an event is counted from this pair.
    Clock {
        monotonic: Millis,
        stamp: Millis,
    },
    /// Written by older releases, whose deadlines were stamps: the wall clock leapt ahead by this much.
    Leapt {
        by: Millis,
    },
    Purged {
        through: Seq,
    },
    Redacted {
        seq: Seq,
    },
    /// A resource is as given.
    ResourceSet {
        resource: crate::resources::ResourceNo,
        record: Box<crate::resources::Resource>,
    },
    /// A resource is no more.
    ResourceGone {
        resource: crate::resources::ResourceNo,
    },
    /// Somebody may join, or be seated, with the secret of this hash.
    Invited {
        invitation: Box<str>,
        record: crate::invites::Invite,
    },
    /// An invitation was used once more, or ended.
    InviteUsed {
        invitation: Box<str>,
        #[serde(default)]
        ended: bool,
    },
    /// Invitations whose time is over.
    InvitesLapsed {
        through: Millis,
    },
    /// Two members have a room.
    RoomOpened {
        room: u32,
        record: crate::state::Room,
    },
    /// Nothing is left of these threads: their numbers and names are free.
    ThreadsFreed {
        threads: Vec<u32>,
    },
    /// A member mutes a channel it sits in, or hears it again.
    Muted {
        member: MemberId,
        channel: ChannelId,
        on: bool,
    },
    /// A member's mail waits until this stamp, or no longer.
    Quiet {
        member: MemberId,
        until: Option<Millis>,
    },
    /// A member has another address.
    Renamed {
        member: MemberId,
        address: Box<str>,
    },
    /// A work unit is as given.
    UnitSet {
        unit: crate::work::UnitNo,
        record: Box<crate::work::Unit>,
    },
    /// Ended work units are no longer known: inclusive ranges of their numbers.
    WorkForgotten {
        units: Vec<(crate::work::UnitNo, crate::work::UnitNo)>,
    },
    /// An emit of a mod waits for other mods: it is decided in a later batch, or after the next start.
    EmitOwed {
        number: u64,
        record: Box<crate::mods::external::owed::OwedEmit>,
    },
    /// An owed emit was accepted, refused, dropped or redacted.
    EmitSettled {
        number: u64,
    },
    /// A fact of a face is as given, or no more.
    Fact {
        face: FaceName,
        key: Box<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Box<str>>,
    },
    /// The network has what this revision of its profile brings.
    ProfileRevised {
        revision: u32,
    },
}

/// A record in the log that this version cannot read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record of kind {kind}, version {version} is not readable: {what}")]
pub struct Unreadable {
    /// Record kind.
    pub kind: u8,
    /// Record version.
    pub version: u8,
    /// What is wrong.
    pub what: String,
}

impl Record {
    /// The record kind in the log.
    pub fn kind(&self) -> u8 {
        match self {
            Record::Event(_) => KIND_EVENT,
            Record::Acks(_) => KIND_ACKS,
            Record::Change(_) => KIND_CHANGE,
        }
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Record::Event(record) => form::encode_event(record, out),
            Record::Acks(acks) => form::encode_acks(acks, out),
            Record::Change(change) => {
                // Serialising our own plain data into memory cannot fail.
                let _ = serde_json::to_writer(&mut *out, change);
            }
        }
    }

    /// Reads a body back.
    pub fn decode(kind: u8, version: u8, seq: Seq, network: &str, body: &[u8]) -> Result<Record, Unreadable> {
        let bad = |what: &str| Unreadable { kind, version, what: what.to_owned() };
        if !(1..=VERSION).contains(&version) {
            return Err(bad("written by another version"));
        }
        match kind {
            KIND_EVENT => form::decode_event(version, seq, network, body)
                .map(|r| Record::Event(Arc::new(r)))
                .ok_or_else(|| bad("truncated event")),
            KIND_ACKS => form::decode_acks(body).map(Record::Acks).ok_or_else(|| bad("truncated acks")),
            KIND_CHANGE => serde_json::from_slice(body).map(Record::Change).map_err(|e| bad(&e.to_string())),
            _ => Err(bad("unknown kind")),
        }
    }
}

impl Record {
    /// The same record with event ids where a dead-letter notice names events by position: the engine does not know
    /// the ids clients chose. The caller asks for this before it applies and appends the record.
    #[must_use]
    pub fn with_ids(self, id_of: &dyn Fn(Seq) -> Option<String>) -> Record {
        let Record::Event(record) = &self else { return self };
        if record.event.event_type() != EventType::DeliveryDead || record.route.source.is_some() {
            return self;
        }
        let Ok(mut payload) = serde_json::from_str::<serde_json::Value>(record.event.payload()) else { return self };
        let name = |value: &mut serde_json::Value| {
            let seq = value.as_str().and_then(|text| text.strip_prefix("seq:")).and_then(|n| n.parse().ok());
            if let Some(id) = seq.and_then(id_of) {
                *value = id.into();
            }
        };
        payload.get_mut("event_id").into_iter().for_each(name);
        payload.get_mut("more").and_then(|m| m.as_array_mut()).into_iter().flatten().for_each(name);
        let payload = payload.to_string();
        let parts = EventParts { payload: &payload, ..record.event.parts() };
        let event = Event::new(record.event.seq, &parts);
        Record::Event(Arc::new(EventRecord { event, ..record.as_ref().clone() }))
    }
}

fn is_false(on: &bool) -> bool {
    !on
}
