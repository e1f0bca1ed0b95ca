//! Index of one segment in memory: per network its span and every ~16th event's place, and the keys of events.
//! Built while a segment is written (or scanned); its sorted form is the sidecar.
//! Not here: the sidecar's bytes (`sidecar`).

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use crate::record::{EVENT_KIND, Lsn, RecordRef};

/// An event gets an entry when so many events of its network came since the last entry ...
const EVERY_EVENTS: u32 = 16;
/// ... or so many bytes of whatever network.
const EVERY_BYTES: u32 = 16 << 10;

/// What a segment holds of one network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NetworkSpan {
    /// First event's seq; 0 with `events == 0`.
    pub(crate) first_seq: u64,
    /// Last event's seq.
    pub(crate) last_seq: u64,
    /// Number of events.
    pub(crate) events: u64,
    /// Highest seq in records of any kind.
    pub(crate) max_seq: u64,
    /// First record's LSN.
    pub(crate) first_lsn: Lsn,
    /// Last record's LSN.
    pub(crate) last_lsn: Lsn,
}

impl NetworkSpan {
    pub(crate) fn has(&self, seq: u64) -> bool {
        self.events > 0 && (self.first_seq..=self.last_seq).contains(&seq)
    }
}

/// What a segment holds of each network, by number.
pub(crate) type Spans = Vec<(u32, NetworkSpan)>;

/// A key of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventKey {
    pub(crate) key: u64,
    pub(crate) network: u32,
    pub(crate) seq: u64,
}

/// Place of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventLocation {
    pub(crate) network: u32,
    pub(crate) seq: u64,
    pub(crate) offset: u32,
}

#[derive(Debug)]
struct Entry {
    span: NetworkSpan,
    places: Vec<(u64, u32)>,
    since: u32,
}

/// Index of one segment.
#[derive(Debug, Default)]
pub(crate) struct MemIndex {
    networks: BTreeMap<u32, Entry>,
    keys: HashMap<u64, (u32, u64), BuildHasherDefault<KeyHasher>>,
    /// Keys met more than once.
    again: Vec<EventKey>,
}

impl MemIndex {
    /// Takes in a record that lies at `offset`.
    pub(crate) fn add(&mut self, record: &RecordRef<'_>, offset: u32) {
        let &RecordRef { lsn, network, seq, kind, key, .. } = record;
        let entry = self.networks.entry(network).or_insert_with(|| Entry {
            span: NetworkSpan { first_seq: 0, last_seq: 0, events: 0, max_seq: 0, first_lsn: lsn, last_lsn: lsn },
            places: Vec::new(),
            since: 0,
        });
        let span = &mut entry.span;
        span.last_lsn = lsn;
        span.max_seq = span.max_seq.max(seq);
        if kind != EVENT_KIND {
            return;
        }
        if span.events == 0 {
            span.first_seq = seq;
        }
        span.last_seq = seq;
        span.events += 1;
        entry.since += 1;
        let due = match entry.places.last() {
            None => true,
            Some((_, last)) => entry.since >= EVERY_EVENTS || offset.saturating_sub(*last) >= EVERY_BYTES,
        };
        if due {
            entry.since = 0;
            entry.places.push((seq, offset));
        }
        if key != 0
            && let Some((network, seq)) = self.keys.insert(key, (network, seq))
        {
            self.again.push(EventKey { key, network, seq });
        }
    }

    /// Takes in that records of a network are lost, so that nobody takes their absence for an end.
    pub(crate) fn lose(&mut self, network: u32, first_lsn: Lsn, last_lsn: Lsn) {
        let entry = self.networks.entry(network).or_insert_with(|| Entry {
            span: NetworkSpan { first_seq: 0, last_seq: 0, events: 0, max_seq: 0, first_lsn, last_lsn },
            places: Vec::new(),
            since: 0,
        });
        entry.span.last_lsn = last_lsn;
    }

    /// Span of one network.
    pub(crate) fn span(&self, network: u32) -> Option<NetworkSpan> {
        self.networks.get(&network).map(|entry| entry.span)
    }

    /// Spans of all networks, by number.
    pub(crate) fn spans(&self) -> impl Iterator<Item = (u32, NetworkSpan)> + '_ {
        self.networks.iter().map(|(network, entry)| (*network, entry.span))
    }

    /// Offset of the nearest indexed event at or before `seq`.
    pub(crate) fn place(&self, network: u32, seq: u64) -> Option<u32> {
        let places = &self.networks.get(&network)?.places;
        let after = places.partition_point(|(at, _)| *at <= seq);
        places.get(after.checked_sub(1)?).map(|(_, offset)| *offset)
    }

    /// Seqs of events with this key, in no order.
    pub(crate) fn find(&self, network: u32, key: u64, out: &mut Vec<u64>) {
        if let Some((owner, seq)) = self.keys.get(&key) {
            if *owner == network {
                out.push(*seq);
            }
            out.extend(self.again.iter().filter(|k| k.key == key && k.network == network).map(|k| k.seq));
        }
    }

    /// All places, sorted.
    pub(crate) fn sorted_places(&self) -> Vec<EventLocation> {
        let of = |(network, entry): (&u32, &Entry)| {
            let network = *network;
            entry
                .places
                .iter()
                .map(move |(seq, offset)| EventLocation { network, seq: *seq, offset: *offset })
                .collect::<Vec<_>>()
        };
        self.networks.iter().flat_map(of).collect()
    }

    /// All keys, sorted.
    pub(crate) fn sorted_keys(&self) -> Vec<EventKey> {
        let newest = self.keys.iter().map(|(key, (network, seq))| EventKey { key: *key, network: *network, seq: *seq });
        let mut keys: Vec<EventKey> = newest.chain(self.again.iter().copied()).collect();
        keys.sort_unstable();
        keys
    }
}

/// Keys are hashes already; one multiplication spreads them over the table.
#[derive(Debug, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte) ^ self.0);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = mix(key);
    }
}

/// A bijective scramble of 64 bits (the finaliser of splitmix64).
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(network: u32, seq: u64, key: u64) -> RecordRef<'static> {
        RecordRef { lsn: seq, network, seq, kind: EVENT_KIND, version: 0, key, body: b"" }
    }

    #[test]
    fn places_are_sparse_but_near() {
        let mut index = MemIndex::default();
        for seq in 1..=100 {
            index.add(&event(1, seq, 0), u32::try_from(seq).unwrap() * 100);
        }
        assert_eq!(index.sorted_places().len(), 7);
        assert_eq!(index.place(1, 1), Some(100));
        assert_eq!(index.place(1, 16), Some(100));
        assert_eq!(index.place(1, 17), Some(1700));
        assert_eq!(index.place(1, 0), None);
        assert_eq!(index.place(2, 5), None);
    }

    #[test]
    fn far_events_all_get_a_place() {
        let mut index = MemIndex::default();
        for seq in 1..=10 {
            index.add(&event(1, seq, 0), u32::try_from(seq).unwrap() * EVERY_BYTES);
        }
        assert_eq!(index.sorted_places().len(), 10);
    }

    #[test]
    fn a_key_met_again_gives_all_its_seqs() {
        let mut index = MemIndex::default();
        for (network, seq) in [(1, 1), (2, 1), (1, 2)] {
            index.add(&event(network, seq, 9), 0);
        }
        let mut got = Vec::new();
        index.find(1, 9, &mut got);
        got.sort_unstable();
        assert_eq!(got, vec![1, 2]);
        assert_eq!(index.sorted_keys().len(), 3);
    }
}
