//! Records: what was decided, as the log keeps it. Outcomes, never questions: replay never re-decides.
//!
//! Events and acks have a binary form (they are many); everything else is JSON that can grow members.

use crate::route::{Route, StreamKey};
use crate::state::{ChannelId, Member, MemberId, Session};
use rialto_model::channel::ChannelStatus;
use rialto_model::network::{Settings, Token};
use rialto_model::{Event, EventParts, Millis, Seq, Visibility};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Record kind of an event in the log.
pub const KIND_EVENT: u8 = 1;
/// Record kind of acks.
pub const KIND_ACKS: u8 = 2;
/// Record kind of a change of the book.
pub const KIND_CHANGE: u8 = 3;
/// Type of the notice that deliveries ended undelivered.
pub const DEAD_NOTICE: &str = "rialto.delivery.dead";
/// Version of the record forms written today.
pub const VERSION: u8 = 1;

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
    /// End of its life in queues, if shorter than the network's.
    pub dies_at: Option<Millis>,
    /// Non-pass verdicts of mods.
    pub verdicts: Vec<String>,
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
    /// Deliveries of a member ended undelivered: inclusive ranges of their seqs.
    Dead {
        member: MemberId,
        reason: Box<str>,
        at: Millis,
        seqs: Vec<(Seq, Seq)>,
    },
    /// Short lives that ended by then have been dealt with.
    Lapsed {
        through: Millis,
    },
    /// The wall clock leapt ahead by this much: what is committed is younger than its stamps say.
    Leapt {
        by: Millis,
    },
    Purged {
        through: Seq,
    },
    Redacted {
        seq: Seq,
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
            Record::Event(record) => encode_event(record, out),
            Record::Acks(acks) => {
                put_u32(out, acks.member);
                put_u64(out, acks.floor);
                for (from, to) in &acks.above {
                    put_u64(out, *from);
                    put_u64(out, *to);
                }
            }
            Record::Change(change) => {
                // Serialising our own plain data into memory cannot fail.
                let _ = serde_json::to_writer(&mut *out, change);
            }
        }
    }

    /// Reads a body back.
    pub fn decode(kind: u8, version: u8, seq: Seq, network: &str, body: &[u8]) -> Result<Record, Unreadable> {
        let bad = |what: &str| Unreadable { kind, version, what: what.to_owned() };
        if version != VERSION {
            return Err(bad("written by another version"));
        }
        match kind {
            KIND_EVENT => decode_event(seq, network, body)
                .map(|r| Record::Event(Arc::new(r)))
                .ok_or_else(|| bad("truncated event")),
            KIND_ACKS => decode_acks(body).map(Record::Acks).ok_or_else(|| bad("truncated acks")),
            KIND_CHANGE => serde_json::from_slice(body).map(Record::Change).map_err(|e| bad(&e.to_string())),
            _ => Err(bad("unknown kind")),
        }
    }
}

impl Record {
    /// The same record with event ids where a dead-letter notice names events by position: the engine does not know
    /// the ids clients chose. The caller asks for this before it applies and appends the record.
    #[must_use]
    pub fn with_ids(self, network: &str, id_of: &dyn Fn(Seq) -> Option<String>) -> Record {
        let Record::Event(record) = &self else { return self };
        if record.event.kind() != DEAD_NOTICE || record.route.source.is_some() {
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
        let parts = EventParts { payload: &payload, ..record.event.parts(network) };
        let event = Event::new(record.event.seq, &parts);
        Record::Event(Arc::new(EventRecord { event, ..record.as_ref().clone() }))
    }
}

fn put_u32(out: &mut Vec<u8>, v: u32) {
    out.extend_from_slice(&v.to_le_bytes());
}
fn put_u64(out: &mut Vec<u8>, v: u64) {
    out.extend_from_slice(&v.to_le_bytes());
}
fn put_text(out: &mut Vec<u8>, text: &str) {
    put_u32(out, u32::try_from(text.len()).unwrap_or(u32::MAX));
    out.extend_from_slice(text.as_bytes());
}

const HAS_RECEIVED: u8 = 1;
const RECEIPT: u8 = 2;
const STORED: u8 = 4;
const HAS_DEATH: u8 = 8;
const HAS_TO: u8 = 16;
const HAS_THREAD: u8 = 32;
const HAS_VERDICTS: u8 = 64;

fn encode_event(record: &EventRecord, out: &mut Vec<u8>) {
    let event = &record.event;
    let mut flags = 0;
    flags |= if record.received.is_some() { HAS_RECEIVED } else { 0 };
    flags |= if record.receipt { RECEIPT } else { 0 };
    flags |= if record.stored { STORED } else { 0 };
    flags |= if record.dies_at.is_some() { HAS_DEATH } else { 0 };
    flags |= if record.route.to.is_some() { HAS_TO } else { 0 };
    flags |= if record.route.thread.is_some() { HAS_THREAD } else { 0 };
    flags |= if record.verdicts.is_empty() { 0 } else { HAS_VERDICTS };
    out.push(flags);
    out.push(event.visibility as u8);
    put_u64(out, event.timestamp);
    let (tag, number) = match record.route.stream {
        None => (0, 0),
        Some(StreamKey::Inbox(n)) => (1, n),
        Some(StreamKey::Channel(n)) => (2, n),
        Some(StreamKey::Group(n)) => (3, n),
        Some(StreamKey::Broadcast) => (4, 0),
        // Not delivery streams: a route never holds them.
        Some(StreamKey::Thread(_) | StreamKey::Source(_) | StreamKey::Type(_)) => (0, 0),
    };
    out.push(tag);
    put_u32(out, number);
    put_u32(out, record.route.source.map_or(0, |s| s + 1));
    if let Some(hash) = record.received {
        out.extend_from_slice(&hash.to_le_bytes());
    }
    if let Some(at) = record.dies_at {
        put_u64(out, at);
    }
    if let Some(to) = &record.route.to {
        put_u32(out, u32::try_from(to.len()).unwrap_or(0));
        to.iter().for_each(|id| put_u32(out, *id));
    }
    if let Some(thread) = &record.route.thread {
        put_text(out, thread);
    }
    if !record.verdicts.is_empty() {
        put_u32(out, u32::try_from(record.verdicts.len()).unwrap_or(0));
        record.verdicts.iter().for_each(|v| put_text(out, v));
    }
    for text in [event.id(), event.kind(), event.source(), event.target(), event.payload(), event.metadata()] {
        put_text(out, text);
    }
}

/// The body of an event record with its payload blanked: the same length, still a JSON object. `None` if it is no event.
pub fn redacted(body: &[u8]) -> Option<Vec<u8>> {
    let mut r = Reader(body);
    skip_to_texts(&mut r)?;
    for _ in 0..4 {
        r.text()?;
    }
    let len = r.u32()? as usize;
    let start = body.len() - r.0.len();
    let mut out = body.to_vec();
    let payload = out.get_mut(start..start + len)?;
    payload.fill(b' ');
    *payload.first_mut()? = b'{';
    *payload.last_mut()? = b'}';
    Some(out)
}

/// Passes over everything before an event's texts.
fn skip_to_texts(r: &mut Reader<'_>) -> Option<()> {
    let flags = r.u8()?;
    r.take(1 + 8 + 1 + 4 + 4)?;
    let has = |bit: u8| flags & bit != 0;
    if has(HAS_RECEIVED) {
        r.take(16)?;
    }
    if has(HAS_DEATH) {
        r.take(8)?;
    }
    if has(HAS_TO) {
        let count = r.u32()? as usize;
        r.take(count.checked_mul(4)?)?;
    }
    if has(HAS_THREAD) {
        r.text()?;
    }
    if has(HAS_VERDICTS) {
        for _ in 0..r.u32()? {
            r.text()?;
        }
    }
    Some(())
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }
    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }
    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
    fn text(&mut self) -> Option<&'a str> {
        let len = self.u32()? as usize;
        std::str::from_utf8(self.take(len)?).ok()
    }
}

fn decode_acks(body: &[u8]) -> Option<Acks> {
    let mut r = Reader(body);
    let mut acks = Acks { member: r.u32()?, floor: r.u64()?, above: Vec::new() };
    while !r.0.is_empty() {
        acks.above.push((r.u64()?, r.u64()?));
    }
    Some(acks)
}

fn decode_event(seq: Seq, network: &str, body: &[u8]) -> Option<EventRecord> {
    let mut r = Reader(body);
    let flags = r.u8()?;
    let visibility = Visibility::from_u8(r.u8()?)?;
    let timestamp = r.u64()?;
    let (tag, number) = (r.u8()?, r.u32()?);
    let stream = match tag {
        0 => None,
        1 => Some(StreamKey::Inbox(number)),
        2 => Some(StreamKey::Channel(number)),
        3 => Some(StreamKey::Group(number)),
        4 => Some(StreamKey::Broadcast),
        _ => return None,
    };
    let source = r.u32()?.checked_sub(1);
    let has = |bit: u8| flags & bit != 0;
    let received = if has(HAS_RECEIVED) { Some(u128::from_le_bytes(r.take(16)?.try_into().ok()?)) } else { None };
    let dies_at = if has(HAS_DEATH) { Some(r.u64()?) } else { None };
    let to = if has(HAS_TO) {
        let count = r.u32()?;
        Some((0..count).map(|_| r.u32()).collect::<Option<Vec<_>>>()?)
    } else {
        None
    };
    let thread = if has(HAS_THREAD) { Some(r.text()?.into()) } else { None };
    let verdicts = if has(HAS_VERDICTS) {
        let count = r.u32()?;
        (0..count).map(|_| r.text().map(str::to_owned)).collect::<Option<Vec<_>>>()?
    } else {
        Vec::new()
    };
    let parts = EventParts {
        id: r.text()?,
        kind: r.text()?,
        source: r.text()?,
        target: r.text()?,
        payload: r.text()?,
        metadata: r.text()?,
        timestamp,
        network,
        visibility,
    };
    Some(EventRecord {
        event: Event::new(seq, &parts),
        route: Route { stream, source, thread, to },
        received,
        receipt: has(RECEIPT),
        stored: has(STORED),
        dies_at,
        verdicts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(stream: Option<StreamKey>, to: Option<Vec<u32>>, thread: Option<Box<str>>) -> EventRecord {
        let parts = EventParts {
            id: "e1",
            kind: "a.b",
            source: "agent:a",
            target: "channel/general",
            payload: r#"{"content":"你好"}"#,
            metadata: "{}",
            timestamp: 1_767_225_600_000,
            network: "a1b2c3d4",
            visibility: Visibility::Channel,
        };
        EventRecord {
            event: Event::new(7, &parts),
            route: Route { stream, source: Some(3), thread, to },
            received: Some(42),
            receipt: true,
            stored: true,
            dies_at: Some(9),
            verdicts: vec!["mod/x: slow".into()],
        }
    }

    #[test]
    fn events_read_back_as_written() {
        for stream in [
            None,
            Some(StreamKey::Inbox(1)),
            Some(StreamKey::Channel(2)),
            Some(StreamKey::Group(3)),
            Some(StreamKey::Broadcast),
        ] {
            let record = Record::Event(Arc::new(sample(stream, Some(vec![1, 2]), Some("thread_abc".into()))));
            let mut body = Vec::new();
            record.encode(&mut body);
            assert_eq!(Record::decode(KIND_EVENT, VERSION, 7, "a1b2c3d4", &body).unwrap(), record);
        }
    }

    #[test]
    fn redacting_blanks_the_payload_and_nothing_else() {
        for (to, thread) in [(None, None), (Some(vec![1, 2]), Some("thread_abc".into()))] {
            let record = sample(Some(StreamKey::Channel(2)), to, thread);
            let mut body = Vec::new();
            encode_event(&record, &mut body);
            let blank = redacted(&body).unwrap();
            assert_eq!(blank.len(), body.len());
            let again = decode_event(7, "a1b2c3d4", &blank).unwrap();
            assert_eq!(again.event.payload().trim_matches(['{', '}', ' ']), "");
            assert_eq!(
                (again.event.id(), &again.route, again.received),
                (record.event.id(), &record.route, record.received)
            );
        }
    }

    #[test]
    fn acks_and_changes_read_back_and_versions_are_checked() {
        for record in [
            Record::Acks(Acks { member: 4, floor: 9, above: vec![(11, 12), (20, 20)] }),
            Record::from(Change::Group { name: "g".into(), members: vec!["agent:a".into()] }),
        ] {
            let mut body = Vec::new();
            record.encode(&mut body);
            assert_eq!(Record::decode(record.kind(), VERSION, 7, "n", &body).unwrap(), record);
            assert!(Record::decode(record.kind(), VERSION + 1, 7, "n", &body).is_err());
        }
    }

    proptest! {
        #[test]
        fn never_panics(kind in 0u8..5, body: Vec<u8>) {
            let _ = Record::decode(kind, VERSION, 1, "n", &body);
            let _ = redacted(&body);
        }
    }
}
