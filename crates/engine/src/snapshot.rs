//! Snapshots: the whole durable state as bytes, and back. Their hash, but for how late it is, is the state hash.
//!
//! Layout: magic, version, length and JSON of the book, then the lists as Roaring bitmaps in key order, then the reading
//! of the monotonic clock, which older releases did not have.

use crate::monotonic::Reading;
use crate::record::Change;
use crate::route::StreamKey;
use crate::state::{Book, State};
use crate::streams::{AckState, Lists};
use crate::weights::PLANES_MAX;
use rialto_model::NetworkId;
use roaring::RoaringTreemap;
use sha2::Digest;
use std::io::{Cursor, Read};

const MAGIC: &[u8; 8] = b"RIALSNP1";
/// Tags from here on are parts of the weights of streams: sixteen for each kind of stream, one per plane.
const WEIGHTS: u8 = 64;
const PLANES: u8 = 16;
const _: () = assert!(PLANES_MAX <= PLANES as usize);

/// A snapshot that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("snapshot is not readable: {0}")]
pub struct BadSnapshot(pub String);

impl State {
    /// The state a network begins with; `None` if the record is not its creation.
    pub fn created(change: &Change, seed: u64) -> Option<State> {
        let Change::Created { id, number, salt, id_key, created_at, created_by, settings, mods } = change else {
            return None;
        };
        let network = NetworkId::parse(id).ok()?;
        let book = Book {
            id: id.as_str().into(),
            number: *number,
            salt: *salt,
            id_key: *id_key,
            created_at: *created_at,
            created_by: created_by.clone(),
            settings: settings.clone(),
            tokens: Vec::new(),
            audit: Default::default(),
            mods: mods.clone(),
            mods_revision: 1,
            members: Vec::new(),
            channels: Vec::new(),
            groups: Default::default(),
            next_session: 1,
            next_group: 0,
            head: 0,
            last_stamp: 0,
            purged: 0,
            at_most_once_after: (settings.delivery == rialto_model::network::Delivery::AtMostOnce).then_some(0),
            dead_letters: Vec::new(),
            types: Vec::new(),
            threads: Vec::new(),
            thread_makers: Default::default(),
            unstored: Default::default(),
            fleeting: Default::default(),
            invites: Default::default(),
            narrowed: Default::default(),
            short_lived: Default::default(),
            times: Vec::new(),
            seconds_from: 0,
            minutes_from: 0,
            leaps: Vec::new(),
            monotonic: None,
            verdicts: Default::default(),
            receipts: Default::default(),
            redacted: Default::default(),
            sizes: Default::default(),
            units: Default::default(),
            next_unit: 0,
            resources: Default::default(),
            next_resource: 0,
            rooms: Vec::new(),
            former: Default::default(),
            approved: Default::default(),
            profile_revision: 0,
            owed: Default::default(),
            next_owed: 0,
            facts: Default::default(),
        };
        Some(State::from_parts(book, Lists::default(), network, seed))
    }

    /// The whole state as bytes: the same state gives the same bytes.
    pub fn to_snapshot(&self) -> Vec<u8> {
        let mut out = self.timeless();
        if self.book.monotonic.is_some() {
            let Reading { latest, at, stamp } = self.reading;
            [latest, at, stamp].iter().for_each(|time| out.extend_from_slice(&time.to_le_bytes()));
        }
        out
    }

    /// The snapshot without the reading of the clock.
    fn timeless(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        // Writing plain data into memory cannot fail.
        let book = serde_json::to_vec(&self.book).unwrap_or_default();
        put_block(&mut out, &book);
        let mut streams: Vec<_> = self.lists.streams.iter().collect();
        streams.sort_unstable_by_key(|(key, _)| **key);
        let streams = streams.into_iter().map(|(key, list)| (key_parts(*key), list));
        let weights = self.lists.weights.iter().flat_map(|(key, weights)| {
            let (tag, number) = key_parts(*key);
            weights.planes().map(move |(bit, plane)| ((WEIGHTS + tag * PLANES + bit as u8, number), plane))
        });
        let lists: Vec<_> = streams.chain(weights).collect();
        out.extend_from_slice(&(lists.len() as u64).to_le_bytes());
        for ((tag, number), list) in lists {
            out.push(tag);
            out.extend_from_slice(&number.to_le_bytes());
            put_bitmap(&mut out, list);
        }
        out.extend_from_slice(&(self.lists.acked.len() as u64).to_le_bytes());
        for (member, acked) in &self.lists.acked {
            out.extend_from_slice(&member.to_le_bytes());
            out.extend_from_slice(&acked.floor.to_le_bytes());
            put_bitmap(&mut out, &acked.above);
        }
        put_bitmap(&mut out, &self.lists.kept);
        out
    }

    /// SHA-256 of the snapshot without the reading of the clock: equal states have equal hashes, whatever time it is.
    pub fn hash(&self) -> [u8; 32] {
        sha2::Sha256::digest(self.timeless()).into()
    }

    /// Reads a snapshot back.
    pub fn from_snapshot(bytes: &[u8], seed: u64) -> Result<State, BadSnapshot> {
        let bad = |what: &str| BadSnapshot(what.to_owned());
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| bad("wrong magic or version"))?;
        let mut r = Cursor::new(rest);
        let book = get_block(&mut r).ok_or_else(|| bad("book is truncated"))?;
        let book: Book = serde_json::from_slice(&book).map_err(|e| bad(&e.to_string()))?;
        let mut lists = Lists::default();
        let truncated = || BadSnapshot("lists are truncated".to_owned());
        for _ in 0..get_u64(&mut r).ok_or_else(truncated)? {
            let [tag] = get::<1>(&mut r).ok_or_else(truncated)?;
            let number = u32::from_le_bytes(get::<4>(&mut r).ok_or_else(truncated)?);
            let (kind, plane) = match tag.checked_sub(WEIGHTS) {
                Some(weights) => (weights / PLANES, Some(usize::from(weights % PLANES))),
                None => (tag, None),
            };
            let key = key_from(kind, number).ok_or_else(|| bad("unknown stream"))?;
            let list = get_bitmap(&mut r).ok_or_else(truncated)?;
            match plane {
                Some(bit) => lists.set_weights(key, bit, list),
                None => drop(lists.streams.insert(key, list)),
            }
        }
        lists.sum_weights();
        for _ in 0..get_u64(&mut r).ok_or_else(truncated)? {
            let member = u32::from_le_bytes(get::<4>(&mut r).ok_or_else(truncated)?);
            let floor = get_u64(&mut r).ok_or_else(truncated)?;
            let above = get_bitmap(&mut r).ok_or_else(truncated)?;
            lists.acked.insert(member, AckState { floor, above });
        }
        lists.kept = get_bitmap(&mut r).ok_or_else(truncated)?;
        let network = NetworkId::parse(&book.id).map_err(|e| bad(&e.to_string()))?;
        let mut state = State::from_parts(book, lists, network, seed);
        if state.book.monotonic.is_some() {
            let [latest, at, stamp] = [(); 3].map(|()| get_u64(&mut r));
            let reading = |latest, at, stamp| Some(Reading { latest: latest?, at: at?, stamp: stamp? });
            state.reading = reading(latest, at, stamp).ok_or_else(|| bad("the reading of the clock is missing"))?;
        }
        Ok(state)
    }
}

fn key_parts(key: StreamKey) -> (u8, u32) {
    match key {
        StreamKey::Inbox(n) => (1, n),
        StreamKey::Channel(n) => (2, n),
        StreamKey::Group(n) => (3, n),
        StreamKey::Broadcast => (4, 0),
        StreamKey::Thread(n) => (5, n),
        StreamKey::Source(n) => (6, n),
        StreamKey::Type(n) => (7, n),
        StreamKey::Room(n) => (8, n),
        StreamKey::Work(n) => (9, n),
        StreamKey::Mention(n) => (10, n),
    }
}

fn key_from(tag: u8, n: u32) -> Option<StreamKey> {
    Some(match tag {
        1 => StreamKey::Inbox(n),
        2 => StreamKey::Channel(n),
        3 => StreamKey::Group(n),
        4 => StreamKey::Broadcast,
        5 => StreamKey::Thread(n),
        6 => StreamKey::Source(n),
        7 => StreamKey::Type(n),
        8 => StreamKey::Room(n),
        9 => StreamKey::Work(n),
        10 => StreamKey::Mention(n),
        _ => return None,
    })
}

fn put_block(out: &mut Vec<u8>, block: &[u8]) {
    out.extend_from_slice(&(block.len() as u64).to_le_bytes());
    out.extend_from_slice(block);
}

fn put_bitmap(out: &mut Vec<u8>, bitmap: &RoaringTreemap) {
    // The same set may be held in several ways, depending on how it came about; this gives it one form.
    let parts = bitmap.bitmaps().filter(|(_, part)| !part.is_empty()).map(|(key, part)| {
        let mut part = part.clone();
        part.remove_run_compression();
        part.optimize();
        (key, part)
    });
    let bitmap = RoaringTreemap::from_bitmaps(parts);
    let mut block = Vec::with_capacity(bitmap.serialized_size());
    // Writing into memory cannot fail.
    let _ = bitmap.serialize_into(&mut block);
    put_block(out, &block);
}

fn get<const N: usize>(r: &mut Cursor<&[u8]>) -> Option<[u8; N]> {
    let mut buf = [0; N];
    r.read_exact(&mut buf).ok()?;
    Some(buf)
}

fn get_u64(r: &mut Cursor<&[u8]>) -> Option<u64> {
    get::<8>(r).map(u64::from_le_bytes)
}

fn get_block(r: &mut Cursor<&[u8]>) -> Option<Vec<u8>> {
    let len = usize::try_from(get_u64(r)?).ok()?;
    let at = usize::try_from(r.position()).ok()?;
    let block = r.get_ref().get(at..at.checked_add(len)?)?.to_vec();
    r.set_position((at + len) as u64);
    Some(block)
}

fn get_bitmap(r: &mut Cursor<&[u8]>) -> Option<RoaringTreemap> {
    RoaringTreemap::deserialize_from(Cursor::new(get_block(r)?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sets_have_equal_bytes_however_they_came_about() {
        let mut one_by_one = RoaringTreemap::new();
        (5..=7).for_each(|n| {
            one_by_one.insert(n);
        });
        let mut at_once = RoaringTreemap::new();
        at_once.insert_range(1..=9000);
        at_once.remove_range(..=4);
        at_once.remove_range(8..);
        assert_eq!(one_by_one, at_once);
        let bytes = |bitmap: &RoaringTreemap| {
            let mut out = Vec::new();
            put_bitmap(&mut out, bitmap);
            out
        };
        assert_eq!(bytes(&one_by_one), bytes(&at_once));
        let back = get_bitmap(&mut Cursor::new(bytes(&at_once).as_slice())).unwrap();
        assert_eq!(bytes(&back), bytes(&at_once));
    }

    #[test]
    fn damaged_snapshots_are_refused() {
        for bytes in [&b""[..], b"RIALSNP1", b"RIALSNP0xxxxxxxxxxx", b"RIALSNP1\x02\0\0\0\0\0\0\0{}"] {
            assert!(State::from_snapshot(bytes, 1).is_err());
        }
    }
}
