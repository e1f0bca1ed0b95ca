//! The binary form of events and acks.

use super::{Acks, EventRecord, More};
use crate::route::{Route, StreamKey};
use rialto_model::event::TextLengths;
use rialto_model::{Event, Seq, Visibility};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

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

/// Seven bits to a byte, the lowest first; each but the last has its top bit set.
fn put_length(out: &mut Vec<u8>, mut len: u32) {
    while len >= 0x80 {
        out.push(len as u8 | 0x80);
        len >>= 7;
    }
    out.push(len as u8);
}

/// Bytes of the lengths of an event's texts at most.
const LENGTHS_MAX: usize = 5 * 6;
const HAS_RECEIVED: u8 = 1;
const RECEIPT: u8 = 2;
const STORED: u8 = 4;
const HAS_DEATH: u8 = 8;
const HAS_TO: u8 = 16;
const HAS_THREAD: u8 = 32;
const HAS_VERDICTS: u8 = 64;
/// Blocks follow, each with a tag and a length: what few events have.
const HAS_MORE: u8 = 128;
/// Tag of the block that holds the number of the direct room.
const ROOM: u8 = 1;
/// Tag of the block that holds [`More`], which can grow members.
const MORE: u8 = 2;

/// Metadata that redaction leaves: names of other events and of conversations.
const TIES: [&str; 3] = ["in_reply_to", "room_channel", "thread"];

/// Bytes that every event begins with.
const HEAD: usize = 1 + 1 + 8 + 1 + 4 + 4;
/// The version whose texts each have their length before them; today's has all lengths before all texts.
const LENGTH_BY_LENGTH: u8 = 1;

pub(super) fn encode_event(record: &EventRecord, out: &mut Vec<u8>) {
    let event = &record.event;
    let mut flags = 0;
    flags |= if record.received.is_some() { HAS_RECEIVED } else { 0 };
    flags |= if record.receipt { RECEIPT } else { 0 };
    flags |= if record.stored { STORED } else { 0 };
    flags |= if record.dies_at.is_some() { HAS_DEATH } else { 0 };
    flags |= if record.route.to.is_some() { HAS_TO } else { 0 };
    flags |= if record.route.thread.is_some() { HAS_THREAD } else { 0 };
    flags |= if record.verdicts.is_empty() { 0 } else { HAS_VERDICTS };
    flags |= if record.route.room.is_some() || record.more.is_some() { HAS_MORE } else { 0 };
    let (tag, number): (u8, u32) = match record.route.stream {
        None => (0, 0),
        Some(StreamKey::Inbox(n)) => (1, n),
        Some(StreamKey::Channel(n)) => (2, n),
        Some(StreamKey::Group(n)) => (3, n),
        Some(StreamKey::Broadcast) => (4, 0),
        // Not delivery streams: a route never holds them.
        Some(
            StreamKey::Thread(_)
            | StreamKey::Source(_)
            | StreamKey::Type(_)
            | StreamKey::Room(_)
            | StreamKey::Work(_)
            | StreamKey::Mention(_),
        ) => (0, 0),
    };
    let (lengths, texts) = event.texts();
    out.reserve(HEAD + LENGTHS_MAX + texts.len());
    // Flags, visibility, time and stream at once: fifteen bytes, and the last of the sixteen is written over.
    let head = u128::from(flags)
        | u128::from(event.visibility as u8) << 8
        | u128::from(event.timestamp) << 16
        | u128::from(tag) << 80
        | u128::from(number) << 88;
    out.extend_from_slice(&head.to_le_bytes());
    out.pop();
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
    if flags & HAS_MORE != 0 {
        put_blocks(record, out);
    }
    lengths.iter().for_each(|len| put_length(out, *len));
    out.extend_from_slice(texts.as_bytes());
}

/// How many blocks, then each.
fn put_blocks(record: &EventRecord, out: &mut Vec<u8>) {
    out.push(u8::from(record.route.room.is_some()) + u8::from(record.more.is_some()));
    if let Some(room) = record.route.room {
        out.push(ROOM);
        put_u32(out, 4);
        put_u32(out, room);
    }
    if let Some(more) = &record.more {
        out.push(MORE);
        // Serialising our own plain data into memory cannot fail.
        put_text(out, &serde_json::to_string(more).unwrap_or_default());
    }
}

fn get_blocks(r: &mut RecordReader<'_>) -> Option<(Option<u32>, Option<Box<More>>)> {
    let (mut room, mut more) = (None, None);
    for _ in 0..r.u8()? {
        let tag = r.u8()?;
        let len = r.u32()? as usize;
        let block = r.take(len)?;
        match tag {
            ROOM => room = Some(u32::from_le_bytes(block.try_into().ok()?)),
            MORE => more = Some(Box::new(serde_json::from_slice(block).ok()?)),
            // Written by a later version: its meaning is not ours to guess.
            _ => return None,
        }
    }
    Some((room, more))
}

/// The body of an event record without what was said: its payload is blank, and of its metadata only what ties events
/// together is left. The same length, and both are still JSON objects. `None` if it is no event.
pub fn redacted(version: u8, body: &[u8]) -> Option<Vec<u8>> {
    let mut r = RecordReader(body);
    skip_to_texts(&mut r)?;
    let (payload, metadata) = if version == LENGTH_BY_LENGTH {
        for _ in 0..4 {
            r.text()?;
        }
        (r.spanned(body)?, r.spanned(body)?)
    } else {
        let [before @ .., payload, metadata] = r.lengths()?;
        r.take(before.iter().try_fold(0, |sum: usize, len| sum.checked_add(*len as usize))?)?;
        let start = body.len() - r.0.len();
        let middle = start.checked_add(payload as usize)?;
        (start..middle, middle..middle.checked_add(metadata as usize)?)
    };
    let kept = kept_metadata(body.get(metadata.clone())?);
    let mut out = body.to_vec();
    blank(out.get_mut(payload)?, b"{}")?;
    blank(out.get_mut(metadata)?, kept.as_bytes())?;
    Some(out)
}

/// Overwrites a JSON value with another one that is not longer, filled up with spaces before its last byte.
pub(crate) fn blank(place: &mut [u8], object: &[u8]) -> Option<()> {
    // Metadata that is not there has no bytes at all.
    if place.is_empty() {
        return Some(());
    }
    place.fill(b' ');
    let (last, most) = object.split_last()?;
    place.get_mut(..most.len())?.copy_from_slice(most);
    *place.last_mut()? = *last;
    Some(())
}

/// Where in the body of an event its [`More`] lies, if it has any.
pub(crate) fn more_of(body: &[u8]) -> Option<std::ops::Range<usize>> {
    let mut r = RecordReader(body);
    if r.u8()? & HAS_MORE == 0 {
        return None;
    }
    r = RecordReader(body);
    skip_to_blocks(&mut r)?;
    for _ in 0..r.u8()? {
        let tag = r.u8()?;
        let block = r.spanned(body)?;
        if tag == MORE {
            return Some(block);
        }
    }
    None
}

/// Metadata of an event whose words are taken away: only what says to which other events it belongs.
fn kept_metadata(text: &[u8]) -> String {
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(text).unwrap_or_default();
    let kept: Vec<String> = members
        .iter()
        .filter(|(name, _)| TIES.contains(&name.as_str()))
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    format!("{{{}}}", kept.join(","))
}

/// Passes over everything before an event's texts.
fn skip_to_texts(r: &mut RecordReader<'_>) -> Option<()> {
    if skip_to_blocks(r)? & HAS_MORE != 0 {
        for _ in 0..r.u8()? {
            r.take(1)?;
            let len = r.u32()? as usize;
            r.take(len)?;
        }
    }
    Some(())
}

/// Passes over everything before an event's blocks, or its texts if it has no blocks. Gives its flags.
fn skip_to_blocks(r: &mut RecordReader<'_>) -> Option<u8> {
    let flags = r.u8()?;
    r.take(HEAD - 1)?;
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
    Some(flags)
}

struct RecordReader<'a>(&'a [u8]);

impl<'a> RecordReader<'a> {
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
    /// Where in `body`, whose end this reads, the next text is.
    fn spanned(&mut self, body: &[u8]) -> Option<std::ops::Range<usize>> {
        let len = self.u32()? as usize;
        let start = body.len() - self.0.len();
        self.take(len)?;
        Some(start..start + len)
    }
    fn length(&mut self) -> Option<u32> {
        let mut len = 0;
        for shift in (0..u32::BITS).step_by(7) {
            let byte = self.u8()?;
            len |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return u32::try_from(len).ok();
            }
        }
        None
    }
    fn lengths(&mut self) -> Option<TextLengths> {
        let mut lengths = TextLengths::default();
        for len in &mut lengths {
            *len = self.length()?;
        }
        Some(lengths)
    }
    /// An event's texts, to the end of the body.
    fn texts(&mut self) -> Option<(TextLengths, Cow<'a, str>)> {
        Some((self.lengths()?, std::str::from_utf8(self.0).ok()?.into()))
    }
    /// The same as [`LENGTH_BY_LENGTH`] has them.
    fn texts_one_by_one(&mut self) -> Option<(TextLengths, Cow<'a, str>)> {
        let (mut lengths, mut texts) = (TextLengths::default(), String::with_capacity(self.0.len()));
        for len in &mut lengths {
            let text = self.text()?;
            *len = u32::try_from(text.len()).ok()?;
            texts.push_str(text);
        }
        Some((lengths, texts.into()))
    }
}

pub(super) fn encode_acks(acks: &Acks, out: &mut Vec<u8>) {
    put_u32(out, acks.member);
    put_u64(out, acks.floor);
    for (from, to) in &acks.above {
        put_u64(out, *from);
        put_u64(out, *to);
    }
}

pub(super) fn decode_acks(body: &[u8]) -> Option<Acks> {
    let mut r = RecordReader(body);
    let mut acks = Acks { member: r.u32()?, floor: r.u64()?, above: Vec::new() };
    while !r.0.is_empty() {
        acks.above.push((r.u64()?, r.u64()?));
    }
    Some(acks)
}

pub(super) fn decode_event(version: u8, seq: Seq, network: &str, body: &[u8]) -> Option<EventRecord> {
    let mut r = RecordReader(body);
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
    let (room, more) = if has(HAS_MORE) { get_blocks(&mut r)? } else { (None, None) };
    let (lengths, texts) = if version == LENGTH_BY_LENGTH { r.texts_one_by_one()? } else { r.texts()? };
    Some(EventRecord {
        event: Event::from_texts((seq, timestamp, visibility), lengths, &texts, network)?,
        route: Route { stream, source, thread, to, room },
        received,
        receipt: has(RECEIPT),
        stored: has(STORED),
        dies_at,
        verdicts,
        more,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Change, KIND_EVENT, Record, VERSION};
    use proptest::prelude::*;
    use rialto_model::EventParts;
    use std::sync::Arc;

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
            route: Route { stream, source: Some(3), thread, to, room: Some(5) },
            received: Some(42),
            receipt: true,
            stored: true,
            dies_at: Some(9),
            verdicts: vec!["mod/x: slow".into()],
            more: Some(Box::new(More { mentions: vec![4, 9], ..More::default() })),
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

    /// Where the lengths and texts of an event begin in its body.
    fn texts_at(record: &EventRecord, body: &[u8]) -> usize {
        let (lengths, texts) = record.event.texts();
        let mut written = Vec::new();
        lengths.iter().for_each(|len| put_length(&mut written, *len));
        body.len() - texts.len() - written.len()
    }

    /// The body as version 1 wrote it: each text with its length before it.
    fn of_version_1(record: &EventRecord, body: &[u8]) -> Vec<u8> {
        let (lengths, texts) = record.event.texts();
        let mut out = body[..texts_at(record, body)].to_vec();
        let mut rest = texts;
        for len in lengths {
            let (text, more) = rest.split_at(len as usize);
            put_text(&mut out, text);
            rest = more;
        }
        out
    }

    #[test]
    fn events_of_version_1_are_read_and_redacted() {
        let record = sample(Some(StreamKey::Channel(2)), Some(vec![1, 2]), Some("thread_abc".into()));
        let mut body = Vec::new();
        encode_event(&record, &mut body);
        let old = of_version_1(&record, &body);
        assert_eq!(decode_event(1, 7, "a1b2c3d4", &old), Some(record));
        assert!(
            decode_event(VERSION, 7, "a1b2c3d4", &old).is_none() && decode_event(1, 7, "a1b2c3d4", &body).is_none()
        );
        let blank = decode_event(1, 7, "a1b2c3d4", &redacted(1, &old).unwrap()).unwrap();
        assert_eq!(blank.event.payload().replace(' ', ""), "{}");
    }

    #[test]
    fn lengths_that_do_not_fit_their_texts_are_no_event() {
        let record = sample(None, None, None);
        let mut body = Vec::new();
        encode_event(&record, &mut body);
        let (lengths, texts) = record.event.texts();
        let head = &body[..texts_at(&record, &body)];
        let with = |lengths: TextLengths| {
            let mut body = head.to_vec();
            lengths.iter().for_each(|len| put_length(&mut body, *len));
            body.extend_from_slice(texts.as_bytes());
            decode_event(VERSION, 7, "a1b2c3d4", &body)
        };
        assert_eq!(with(lengths), Some(record.clone()));
        for (which, by) in [(0, 1), (5, 1), (5, u32::MAX), (4, u32::MAX / 2)] {
            let mut wrong = lengths;
            wrong[which] = wrong[which].wrapping_add(by);
            assert_eq!(with(wrong), None, "{which} {by}");
        }
        // The sum fits, and a text ends within a character.
        let [id, kind, source, target, payload, metadata] = lengths;
        assert_eq!(with([id, kind, source, target, payload - 4, metadata + 4]), None);
        // More bytes than a length has.
        let mut long = head.to_vec();
        long.extend_from_slice(&[0xFF; 6]);
        assert_eq!(decode_event(VERSION, 7, "a1b2c3d4", &long), None);
    }

    #[test]
    fn lengths_of_every_size_read_back() {
        for len in [0, 1, 127, 128, 300, 16_383, 16_384, 1 << 21, u32::MAX] {
            let mut out = Vec::new();
            put_length(&mut out, len);
            let mut r = RecordReader(&out);
            assert_eq!((r.length(), r.0), (Some(len), &[][..]), "{len}");
        }
    }

    #[test]
    fn a_block_of_a_later_version_is_not_guessed() {
        let mut record = sample(None, None, None);
        record.more = None;
        let mut body = Vec::new();
        encode_event(&record, &mut body);
        let tag = body.windows(5).position(|w| w == [ROOM, 4, 0, 0, 0]).unwrap();
        body[tag] = 99;
        assert!(Record::decode(KIND_EVENT, VERSION, 7, "a1b2c3d4", &body).is_err());
        assert!(redacted(VERSION, &body).is_some());
    }

    #[test]
    fn redacting_leaves_only_the_metadata_that_ties_events_together() {
        let kept = |text: &str| kept_metadata(text.as_bytes());
        assert_eq!(kept("{}"), "{}");
        assert_eq!(
            kept(r#"{"note":"secret","thread":"t1","in_reply_to": "x" }"#),
            r#"{"in_reply_to":"x","thread":"t1"}"#
        );
        assert_eq!(kept(r#"{"a":1e999,"to":["secret"]}"#), "{}");
        assert_eq!(kept("not json"), "{}");
        let mut place = *br#"{"a":"secret"}"#;
        blank(&mut place, b"{}").unwrap();
        assert_eq!(&place, b"{            }");
    }

    #[test]
    fn redacting_blanks_the_payload_and_nothing_else() {
        for (to, thread) in [(None, None), (Some(vec![1, 2]), Some("thread_abc".into()))] {
            let record = sample(Some(StreamKey::Channel(2)), to, thread);
            let mut body = Vec::new();
            encode_event(&record, &mut body);
            let blank = redacted(VERSION, &body).unwrap();
            assert_eq!(blank.len(), body.len());
            let again = decode_event(VERSION, 7, "a1b2c3d4", &blank).unwrap();
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
        fn never_panics(kind in 0u8..5, version in 0..=VERSION, body: Vec<u8>) {
            let _ = Record::decode(kind, version, 1, "n", &body);
            let _ = (redacted(1, &body), redacted(VERSION, &body));
        }
    }
}
