//! The sidecar `<n>.idx` of a sealed segment: spans of its networks, a filter over its keys, and two sorted tables
//! (places, keys) in pages with a CRC each, searched with a few small reads. The segment is the truth; a sidecar that is
//! missing or bad is built again from it.
//!
//! ```text
//! 0 magic(8) 8 version(4) 12 crc(4) 16 generation(8) 24 number(8) 32 end(8) 40 last lsn(8) 48 networks(4)
//! 52 crc of spans(4) 56 places(4) 60 keys(4) 64 filter bytes(4) 68 crc of filter(4) .. 96
//! spans (56 each), filter, pages of places (4 KiB each), pages of keys
//! ```
//! Not here: when a sidecar is written or loaded (`segment`).

use std::cmp::Ordering;
use std::io;

use super::format::{put, u32_at, u64_at};
use super::index::{EventKey, EventLocation, MemIndex, NetworkSpan, Spans, mix};
use crate::disk::DiskFile;
use crate::record::Lsn;

const MAGIC: u64 = u64::from_le_bytes(*b"RIALTOIX");
const VERSION: u32 = 1;
const HEAD: usize = 96;
const SPAN: usize = 56;
const PAGE: usize = 4096;
const PAGE_HEAD: usize = 4;
const BLOCK: usize = 64;
const BITS_PER_KEY: usize = 12;
const PROBES: u32 = 6;

/// Which segment a sidecar describes, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SidecarScope {
    pub(crate) generation: u64,
    pub(crate) number: u64,
    pub(crate) end: u64,
    pub(crate) last_lsn: Lsn,
}

/// Why a sidecar cannot be used.
#[derive(Debug)]
pub(crate) enum Unfit {
    Io(io::Error),
    Bad { offset: u64, what: &'static str },
}

impl From<io::Error> for Unfit {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Encodes the index of a segment.
pub(crate) fn encode(about: &SidecarScope, index: &MemIndex) -> Vec<u8> {
    let spans: Vec<u8> = index.spans().flat_map(|(network, span)| encode_span(network, &span)).collect();
    let places = index.sorted_places();
    let keys = index.sorted_keys();
    let BloomFilter(filter) = BloomFilter::build(&keys);
    let mut head = [0; HEAD];
    put(&mut head, 0, &MAGIC.to_le_bytes());
    put(&mut head, 8, &VERSION.to_le_bytes());
    put(&mut head, 16, &about.generation.to_le_bytes());
    put(&mut head, 24, &about.number.to_le_bytes());
    put(&mut head, 32, &about.end.to_le_bytes());
    put(&mut head, 40, &about.last_lsn.to_le_bytes());
    put(&mut head, 48, &narrow(spans.len() / SPAN));
    put(&mut head, 52, &crc32c::crc32c(&spans).to_le_bytes());
    put(&mut head, 56, &narrow(places.len()));
    put(&mut head, 60, &narrow(keys.len()));
    put(&mut head, 64, &narrow(filter.len()));
    put(&mut head, 68, &crc32c::crc32c(&filter).to_le_bytes());
    let crc = head_crc(&head);
    put(&mut head, 12, &crc.to_le_bytes());
    let mut out = head.to_vec();
    out.extend_from_slice(&spans);
    out.extend_from_slice(&filter);
    put_pages(&mut out, &places);
    put_pages(&mut out, &keys);
    out
}

/// An open sidecar; what it holds is read when it is asked for.
#[derive(Debug)]
pub(crate) struct Sidecar<F> {
    file: F,
    filter_at: u64,
    filter_len: usize,
    filter_crc: u32,
    places: Table,
    keys: Table,
}

impl<F: DiskFile> Sidecar<F> {
    /// Reads header and spans (by network), refusing a sidecar that is not about this very segment.
    pub(crate) fn load(file: F, about: &SidecarScope) -> Result<(Self, Spans), Unfit> {
        let mut head = [0; HEAD];
        let bad = |offset, what| Unfit::Bad { offset, what };
        if file.read_at(&mut head, 0)? < HEAD {
            return Err(bad(0, "sidecar header is cut short"));
        }
        if u64_at(&head, 0) != MAGIC || u32_at(&head, 8) != VERSION || u32_at(&head, 12) != head_crc(&head) {
            return Err(bad(0, "sidecar header is bad"));
        }
        let found = SidecarScope {
            generation: u64_at(&head, 16),
            number: u64_at(&head, 24),
            end: u64_at(&head, 32),
            last_lsn: u64_at(&head, 40),
        };
        if found != *about {
            return Err(bad(16, "sidecar is about another segment"));
        }
        let spans_len = u32_at(&head, 48) as usize * SPAN;
        let filter_len = u32_at(&head, 64) as usize;
        let filter_at = (HEAD + spans_len) as u64;
        let places = Table { at: filter_at + filter_len as u64, count: u32_at(&head, 56) };
        let keys = Table { at: places.at + places.bytes::<EventLocation>(), count: u32_at(&head, 60) };
        if file.len()? != keys.at + keys.bytes::<EventKey>() {
            return Err(bad(0, "sidecar has the wrong length"));
        }
        let mut bytes = vec![0; spans_len];
        if file.read_at(&mut bytes, HEAD as u64)? < spans_len || crc32c::crc32c(&bytes) != u32_at(&head, 52) {
            return Err(bad(HEAD as u64, "sidecar spans have a bad checksum"));
        }
        let spans = bytes.chunks_exact(SPAN).map(decode_span).collect();
        let filter_crc = u32_at(&head, 68);
        Ok((Self { file, filter_at, filter_len, filter_crc, places, keys }, spans))
    }

    /// Offset of the nearest indexed event at or before `seq`.
    pub(crate) fn place(&self, network: u32, seq: u64) -> Result<Option<u32>, Unfit> {
        let wanted = |place: &EventLocation| (place.network, place.seq).cmp(&(network, seq));
        let found = self.places.last_at_or_before(&self.file, None, wanted)?;
        Ok(found.filter(|(_, place)| place.network == network).map(|(_, place)| place.offset))
    }

    /// Seqs of events with this key, in no order. Ask the filter first.
    pub(crate) fn find(&self, network: u32, key: u64, out: &mut Vec<u64>) -> Result<(), Unfit> {
        let wanted = |k: &EventKey| (k.key, k.network).cmp(&(key, network)).then(Ordering::Less);
        // All entries of (key, network) compare below the wanted position, so the last of them is found; walk back.
        // Keys are hashes: their value says about where they are.
        let pages = (self.keys.count as usize).div_ceil(EventKey::PER_PAGE);
        let guess = ((key >> 32).wrapping_mul(pages as u64) >> 32) as usize;
        let Some((mut at, mut found)) = self.keys.last_at_or_before(&self.file, Some(guess), wanted)? else {
            return Ok(());
        };
        while (found.key, found.network) == (key, network) {
            out.push(found.seq);
            let Some(before) = at.checked_sub(1) else { break };
            at = before;
            found = self.keys.entry(&self.file, at)?;
        }
        Ok(())
    }

    /// The filter over its keys.
    pub(crate) fn filter(&self) -> Result<BloomFilter, Unfit> {
        let mut bytes = vec![0; self.filter_len];
        if self.file.read_at(&mut bytes, self.filter_at)? < self.filter_len || crc32c::crc32c(&bytes) != self.filter_crc
        {
            return Err(Unfit::Bad { offset: self.filter_at, what: "sidecar filter has a bad checksum" });
        }
        Ok(BloomFilter(bytes))
    }
}

/// An entry of a paged table.
trait Row: Sized {
    const SIZE: usize;
    const PER_PAGE: usize = (PAGE - PAGE_HEAD) / Self::SIZE;
    fn encode(&self, out: &mut [u8]);
    fn decode(bytes: &[u8]) -> Self;
}

impl Row for EventLocation {
    const SIZE: usize = 16;

    fn encode(&self, out: &mut [u8]) {
        put(out, 0, &self.network.to_le_bytes());
        put(out, 4, &self.offset.to_le_bytes());
        put(out, 8, &self.seq.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Self {
        Self { network: u32_at(bytes, 0), offset: u32_at(bytes, 4), seq: u64_at(bytes, 8) }
    }
}

impl Row for EventKey {
    const SIZE: usize = 20;

    fn encode(&self, out: &mut [u8]) {
        put(out, 0, &self.key.to_le_bytes());
        put(out, 8, &self.network.to_le_bytes());
        put(out, 12, &self.seq.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Self {
        Self { key: u64_at(bytes, 0), network: u32_at(bytes, 8), seq: u64_at(bytes, 12) }
    }
}

/// Sorted rows in pages.
#[derive(Debug, Clone, Copy)]
struct Table {
    at: u64,
    count: u32,
}

impl Table {
    fn bytes<R: Row>(&self) -> u64 {
        (self.count as usize).div_ceil(R::PER_PAGE) as u64 * PAGE as u64
    }

    /// The last row that compares at or below the wanted one, and its number. Looks at the guessed page and its neighbour first.
    fn last_at_or_before<R: Row>(
        &self,
        file: &impl DiskFile,
        guess: Option<usize>,
        wanted: impl Fn(&R) -> Ordering,
    ) -> Result<Option<(usize, R)>, Unfit> {
        let (mut low, mut high) = (0, (self.count as usize).div_ceil(R::PER_PAGE));
        let mut best = None;
        let mut guesses = guess.map_or(0, |_| 3);
        let mut next = guess.unwrap_or(0);
        while low < high {
            let middle = if guesses > 0 { next.clamp(low, high - 1) } else { usize::midpoint(low, high) };
            guesses = usize::saturating_sub(guesses, 1);
            let page = self.page(file, middle)?;
            let rows = self.rows_in::<R>(middle);
            let row = |n: usize| page.get(PAGE_HEAD + n * R::SIZE..).map(R::decode);
            let below = partition(rows, |n| row(n).is_some_and(|r| wanted(&r) != Ordering::Greater));
            match below.checked_sub(1) {
                None => {
                    high = middle;
                    next = middle.saturating_sub(1);
                }
                Some(last) => {
                    best = row(last).map(|r| (middle * R::PER_PAGE + last, r));
                    if below < rows {
                        break;
                    }
                    low = middle + 1;
                    next = low;
                }
            }
        }
        Ok(best)
    }

    fn entry<R: Row>(&self, file: &impl DiskFile, number: usize) -> Result<R, Unfit> {
        let page = self.page(file, number / R::PER_PAGE)?;
        Ok(R::decode(page.get(PAGE_HEAD + number % R::PER_PAGE * R::SIZE..).unwrap_or_default()))
    }

    fn rows_in<R: Row>(&self, page: usize) -> usize {
        (self.count as usize).saturating_sub(page * R::PER_PAGE).min(R::PER_PAGE)
    }

    fn page(&self, file: &impl DiskFile, number: usize) -> Result<Vec<u8>, Unfit> {
        let offset = self.at + (number * PAGE) as u64;
        let mut page = vec![0; PAGE];
        if file.read_at(&mut page, offset)? < PAGE || u32_at(&page, 0) != page_crc(&page, number) {
            return Err(Unfit::Bad { offset, what: "sidecar page has a bad checksum" });
        }
        Ok(page)
    }
}

/// Number of leading `n` in `0..len` for which `is` holds.
fn partition(len: usize, is: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = usize::midpoint(low, high);
        if is(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

fn put_pages<R: Row>(out: &mut Vec<u8>, rows: &[R]) {
    for (number, rows) in rows.chunks(R::PER_PAGE).enumerate() {
        let mut page = vec![0; PAGE];
        for (n, row) in rows.iter().enumerate() {
            row.encode(page.get_mut(PAGE_HEAD + n * R::SIZE..).unwrap_or_default());
        }
        let crc = page_crc(&page, number);
        put(&mut page, 0, &crc.to_le_bytes());
        out.extend_from_slice(&page);
    }
}

fn page_crc(page: &[u8], number: usize) -> u32 {
    let seed = crc32c::crc32c(&(number as u64).to_le_bytes());
    crc32c::crc32c_append(seed, page.get(PAGE_HEAD..).unwrap_or_default())
}

fn head_crc(head: &[u8]) -> u32 {
    let first = crc32c::crc32c(head.get(..12).unwrap_or_default());
    crc32c::crc32c_append(first, head.get(16..HEAD).unwrap_or_default())
}

fn encode_span(network: u32, span: &NetworkSpan) -> [u8; SPAN] {
    let mut out = [0; SPAN];
    put(&mut out, 0, &network.to_le_bytes());
    let fields = [span.first_seq, span.last_seq, span.events, span.max_seq, span.first_lsn, span.last_lsn];
    for (n, field) in fields.iter().enumerate() {
        put(&mut out, 8 + n * 8, &field.to_le_bytes());
    }
    out
}

fn decode_span(bytes: &[u8]) -> (u32, NetworkSpan) {
    let field = |n: usize| u64_at(bytes, 8 + n * 8);
    let span = NetworkSpan {
        first_seq: field(0),
        last_seq: field(1),
        events: field(2),
        max_seq: field(3),
        first_lsn: field(4),
        last_lsn: field(5),
    };
    (u32_at(bytes, 0), span)
}

fn narrow(n: usize) -> [u8; 4] {
    u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes()
}

/// A Bloom filter in blocks of one cache line.
#[derive(Debug)]
pub(crate) struct BloomFilter(Vec<u8>);

impl BloomFilter {
    fn build(keys: &[EventKey]) -> Self {
        let blocks = (keys.len() * BITS_PER_KEY).div_ceil(BLOCK * 8);
        let mut filter = vec![0; blocks * BLOCK];
        for key in keys {
            let probe = Probe::of(key.key);
            let block = filter.get_mut(probe.block(blocks)..).unwrap_or_default();
            for (byte, bit) in probe.bits() {
                if let Some(place) = block.get_mut(byte) {
                    *place |= bit;
                }
            }
        }
        Self(filter)
    }

    /// Whether the key may be there; `false` is sure.
    pub(crate) fn may_hold(&self, probe: Probe) -> bool {
        let block = probe.block(self.0.len() / BLOCK);
        let block = self.0.get(block..).and_then(|bytes| bytes.first_chunk::<BLOCK>());
        block.is_some_and(|block| probe.bits().all(|(byte, bit)| block.get(byte).is_some_and(|b| b & bit != 0)))
    }
}

/// A key as filters are asked for it; made once for all of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    spread: u64,
    bits: u64,
}

impl Probe {
    pub(crate) fn of(key: u64) -> Self {
        let spread = mix(key);
        Self { spread, bits: mix(spread) }
    }

    /// Offset of its block.
    fn block(self, blocks: usize) -> usize {
        ((self.spread >> 32).wrapping_mul(blocks as u64) >> 32) as usize * BLOCK
    }

    /// Its bits in the block.
    fn bits(self) -> impl Iterator<Item = (usize, u8)> {
        (0..PROBES).map(move |n| {
            let bit = (self.bits >> (n * 9)) as usize & (BLOCK * 8 - 1);
            (bit / 8, 1 << (bit % 8))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::Disk as _;
    use crate::disk::fault::FaultDisk;
    use crate::record::{EVENT_KIND, RecordRef};

    const ABOUT: SidecarScope = SidecarScope { generation: 5, number: 1, end: 99, last_lsn: 3000 };

    fn index() -> MemIndex {
        let mut index = MemIndex::default();
        for lsn in 1..=3000_u64 {
            let network = if lsn % 3 == 0 { 8 } else { 4 };
            let record =
                RecordRef { lsn, network, seq: lsn, kind: EVENT_KIND, version: 0, key: lsn / 2 + 1, body: b"" };
            index.add(&record, u32::try_from(lsn).unwrap() * 1000);
        }
        index
    }

    fn on_disk(bytes: &[u8]) -> <FaultDisk as crate::disk::Disk>::File {
        let file = FaultDisk::new(1).create(Path::new("/x.idx")).unwrap();
        file.write_at(bytes, 0).unwrap();
        file
    }

    #[test]
    fn answers_as_the_index_in_memory_does() {
        let index = index();
        let (sidecar, spans) = Sidecar::load(on_disk(&encode(&ABOUT, &index)), &ABOUT).unwrap();
        assert_eq!(spans, index.spans().collect::<Vec<_>>());
        let filter = sidecar.filter().unwrap();
        assert!((1..=1501).all(|key| filter.may_hold(Probe::of(key))));
        for network in [3, 4, 8, 9] {
            for seq in (0..3100).step_by(7) {
                assert_eq!(sidecar.place(network, seq).unwrap(), index.place(network, seq), "{network} {seq}");
            }
            for key in 0..1600 {
                let (mut a, mut b) = (Vec::new(), Vec::new());
                sidecar.find(network, key, &mut a).unwrap();
                index.find(network, key, &mut b);
                a.sort_unstable();
                b.sort_unstable();
                assert_eq!(a, b, "{network} {key}");
            }
        }
    }

    #[test]
    fn the_filter_spares_most_reads() {
        let keys: Vec<EventKey> = (0..10_000).map(|n| EventKey { key: mix(n), network: 1, seq: n }).collect();
        let filter = BloomFilter::build(&keys);
        assert!(keys.iter().all(|k| filter.may_hold(Probe::of(k.key))));
        let wrong = (10_000..110_000).filter(|n| filter.may_hold(Probe::of(mix(*n)))).count();
        assert!(wrong < 3_000, "{wrong} false hits of 100000");
    }

    #[test]
    fn a_flipped_byte_is_noticed_before_it_answers_wrongly() {
        let index = index();
        let good = encode(&ABOUT, &index);
        for at in (0..good.len()).step_by(13) {
            let mut bytes = good.clone();
            bytes[at] ^= 4;
            let Ok((sidecar, _)) = Sidecar::load(on_disk(&bytes), &ABOUT) else { continue };
            if let Ok(filter) = sidecar.filter() {
                assert!((1..=1501).all(|key| filter.may_hold(Probe::of(key))), "byte {at}");
            }
            for seq in [1, 1500, 3000] {
                if let Ok(place) = sidecar.place(4, seq) {
                    assert_eq!(place, index.place(4, seq), "byte {at}");
                }
                let mut found = Vec::new();
                if sidecar.find(4, seq / 2 + 1, &mut found).is_ok() {
                    let mut right = Vec::new();
                    index.find(4, seq / 2 + 1, &mut right);
                    found.sort_unstable();
                    right.sort_unstable();
                    assert_eq!(found, right, "byte {at}");
                }
            }
        }
    }
}
