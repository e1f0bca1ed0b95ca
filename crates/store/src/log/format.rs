//! The bytes of a segment: segment header, batch header, record. Little-endian, 8-byte aligned.
//!
//! ```text
//! segment  0 magic(8) 8 version(4) 12 crc(4) 16 generation(8) 24 number(8) 32 first lsn(8) 40 previous number(8)
//!          48 previous end(8) 56 class(16) 72 .. zero up to 512; batches follow
//! batch    0 magic(4) 4 crc(4) 8 count(4) 12 bytes of records(4) 16 first lsn(8) 24 last durable lsn(8) 32 epoch(8)
//!          40 network(4) 44 zero(4); records follow
//! record   0 crc(4) 4 body length(4) 8 lsn(8) 16 seq(8) 24 key(8) 32 network(4) 36 kind(1) 37 version(1) 38 mark(2)
//!          40 body, zeros up to a multiple of 8
//! ```
//! Every CRC-32C but the segment header's starts from the segment's generation, so bytes left in a recycled file never validate.
//! Not here: which segment follows which, and what an invalid record means (`recover`).

use crate::class::{CLASS_BYTES, Class};
use crate::record::{BATCH_BYTES_MAX, BODY_BYTES_MAX, Lsn, RecordRef};

pub(crate) const FORMAT_VERSION: u32 = 1;
/// Version of the header of a segment whose records were freed: nothing follows it.
const EMPTIED_VERSION: u32 = 2;
pub(crate) const SEGMENT_HEAD: usize = 512;
pub(crate) const BATCH_HEAD: usize = 48;
pub(crate) const RECORD_HEAD: usize = 40;
pub(crate) const ALIGN: usize = 8;

const SEGMENT_MAGIC: u64 = u64::from_le_bytes(*b"RIALTOLG");
pub(crate) const BATCH_MAGIC: u32 = u32::from_le_bytes(*b"RBT1");
const RECORD_MARK: u16 = 0xA55A;

/// The start value of every CRC in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seed(pub(crate) u32);

impl Seed {
    pub(crate) fn of(generation: u64) -> Self {
        let generation = if crate::bugs::on("stale record of a recycled segment") { 7 } else { generation };
        Self(crc32c::crc32c(&generation.to_le_bytes()))
    }

    fn crc(self, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(self.0, bytes)
    }
}

/// Header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHead {
    pub(crate) generation: u64,
    pub(crate) number: u64,
    pub(crate) first_lsn: Lsn,
    /// Number of the segment before, 0 = none.
    pub(crate) previous: u64,
    /// Where the records of the segment before end.
    pub(crate) previous_end: u64,
    pub(crate) class: Class,
    /// Its records were freed while those before it are still needed.
    pub(crate) emptied: bool,
}

impl SegmentHead {
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEAD] {
        let mut out = [0; SEGMENT_HEAD];
        put(&mut out, 0, &SEGMENT_MAGIC.to_le_bytes());
        let version = if self.emptied { EMPTIED_VERSION } else { FORMAT_VERSION };
        put(&mut out, 8, &version.to_le_bytes());
        put(&mut out, 16, &self.generation.to_le_bytes());
        put(&mut out, 24, &self.number.to_le_bytes());
        put(&mut out, 32, &self.first_lsn.to_le_bytes());
        put(&mut out, 40, &self.previous.to_le_bytes());
        put(&mut out, 48, &self.previous_end.to_le_bytes());
        put(&mut out, 56, &self.class.to_bytes());
        let crc = head_crc(&out);
        put(&mut out, 12, &crc.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.len() < SEGMENT_HEAD {
            return Err("segment header is cut short");
        }
        if u64_at(bytes, 0) != SEGMENT_MAGIC {
            return Err("segment header has no magic");
        }
        if u32_at(bytes, 12) != head_crc(bytes) {
            return Err("segment header has a bad checksum");
        }
        let emptied = match u32_at(bytes, 8) {
            FORMAT_VERSION => false,
            EMPTIED_VERSION => true,
            _ => return Err("segment header has an unknown version"),
        };
        let class =
            bytes.get(56..56 + CLASS_BYTES).and_then(Class::from_bytes).ok_or("segment header has a bad class")?;
        Ok(Self {
            generation: u64_at(bytes, 16),
            number: u64_at(bytes, 24),
            first_lsn: u64_at(bytes, 32),
            previous: u64_at(bytes, 40),
            previous_end: u64_at(bytes, 48),
            class,
            emptied,
        })
    }
}

/// The header that `bytes` were before one bit of them turned, if that is all that is wrong with them. No other header differs from
/// them by one bit: the checksum tells more than three turned bits apart.
pub(crate) fn mend_head(bytes: &[u8]) -> Option<SegmentHead> {
    let mut bytes = bytes.get(..SEGMENT_HEAD)?.to_vec();
    for at in 0..SEGMENT_HEAD {
        for bit in 0..8 {
            turn(&mut bytes, at, bit);
            if let Ok(head) = SegmentHead::decode(&bytes) {
                return Some(head);
            }
            turn(&mut bytes, at, bit);
        }
    }
    None
}

fn turn(bytes: &mut [u8], at: usize, bit: u32) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << bit;
    }
}

/// What follows the header of an emptied segment: the last LSN that each network had in it.
/// Layout: count(4) crc(4), then per network: number(4) lsn(8).
pub(crate) fn encode_freed(freed: &[(u32, Lsn)]) -> Vec<u8> {
    let mut out = u32::try_from(freed.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
    out.extend_from_slice(&[0; 4]);
    for (network, lsn) in freed {
        out.extend_from_slice(&network.to_le_bytes());
        out.extend_from_slice(&lsn.to_le_bytes());
    }
    let crc = crc32c::crc32c(out.get(8..).unwrap_or_default());
    put(&mut out, 4, &crc.to_le_bytes());
    out
}

/// Reads it back; `None` if it is not what was written.
pub(crate) fn decode_freed(bytes: &[u8]) -> Option<Vec<(u32, Lsn)>> {
    let entries = bytes.get(8..)?;
    let right = entries.len() == (u32_at(bytes, 0) as usize).checked_mul(12)?;
    (right && u32_at(bytes, 4) == crc32c::crc32c(entries))
        .then(|| entries.chunks_exact(12).map(|entry| (u32_at(entry, 0), u64_at(entry, 4))).collect())
}

/// Checksum of the whole header sector but the checksum itself.
fn head_crc(bytes: &[u8]) -> u32 {
    let first = crc32c::crc32c(bytes.get(..12).unwrap_or_default());
    crc32c::crc32c_append(first, bytes.get(16..SEGMENT_HEAD).unwrap_or_default())
}

/// Header of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchHead {
    pub(crate) count: u32,
    /// Bytes of its records, padding included.
    pub(crate) bytes: u32,
    pub(crate) first_lsn: Lsn,
    pub(crate) durable: Lsn,
    pub(crate) epoch: u64,
    pub(crate) network: u32,
}

impl BatchHead {
    pub(crate) fn last_lsn(&self) -> Lsn {
        self.first_lsn + u64::from(self.count) - 1
    }

    /// Size of the whole batch.
    pub(crate) fn size(&self) -> u64 {
        BATCH_HEAD as u64 + u64::from(self.bytes)
    }
}

/// Rounds up to the alignment.
pub(crate) const fn padded(len: usize) -> usize {
    len.next_multiple_of(ALIGN)
}

/// Appends a record without LSN and CRC; `body` appends its body. Gives the body's length.
pub(crate) fn put_record(
    buf: &mut Vec<u8>,
    network: u32,
    kind: u8,
    version: u8,
    seq: u64,
    key: u64,
    body: impl FnOnce(&mut Vec<u8>),
) -> usize {
    let mut head = [0_u8; RECORD_HEAD];
    put(&mut head, 16, &seq.to_le_bytes());
    put(&mut head, 24, &key.to_le_bytes());
    put(&mut head, 32, &network.to_le_bytes());
    put(&mut head, 36, &[kind, version]);
    put(&mut head, 38, &RECORD_MARK.to_le_bytes());
    let at = buf.len();
    buf.extend_from_slice(&head);
    body(buf);
    let len = buf.len().saturating_sub(at + RECORD_HEAD);
    put(buf, at + 4, &u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    buf.resize(padded(buf.len()), 0);
    len
}

/// What the log adds to a batch when it takes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    pub(crate) first_lsn: Lsn,
    pub(crate) durable: Lsn,
    pub(crate) epoch: u64,
    pub(crate) seed: Seed,
}

/// Gives the records of an encoded batch their LSNs and every part its CRC, in place.
pub(crate) fn seal(buf: &mut [u8], network: u32, count: u32, stamp: Stamp) {
    let Stamp { first_lsn, durable, epoch, seed } = stamp;
    let bytes = u32::try_from(buf.len() - BATCH_HEAD).unwrap_or(u32::MAX);
    let mut rest = buf;
    let Some((head, records)) = rest.split_at_mut_checked(BATCH_HEAD) else { return };
    rest = records;
    put(head, 0, &BATCH_MAGIC.to_le_bytes());
    put(head, 8, &count.to_le_bytes());
    put(head, 12, &bytes.to_le_bytes());
    put(head, 16, &first_lsn.to_le_bytes());
    put(head, 24, &durable.to_le_bytes());
    put(head, 32, &epoch.to_le_bytes());
    put(head, 40, &network.to_le_bytes());
    put(head, 44, &[0; 4]);
    let crc = seed.crc(head.get(8..).unwrap_or_default());
    put(head, 4, &crc.to_le_bytes());
    let mut lsn = first_lsn;
    while rest.len() >= RECORD_HEAD {
        let size = padded(RECORD_HEAD + u32_at(rest, 4) as usize);
        let Some((record, after)) = rest.split_at_mut_checked(size) else { return };
        put(record, 8, &lsn.to_le_bytes());
        let crc = seed.crc(record.get(4..).unwrap_or_default());
        put(record, 0, &crc.to_le_bytes());
        lsn += 1;
        rest = after;
    }
}

/// Puts another body of the same length into a whole record and gives it its CRC again; `false` if it does not fit.
pub(crate) fn replace_body(record: &mut [u8], body: &[u8], seed: Seed) -> bool {
    if record.len() < RECORD_HEAD || u32_at(record, 4) as usize != body.len() {
        return false;
    }
    put(record, RECORD_HEAD, body);
    let crc = seed.crc(record.get(4..).unwrap_or_default());
    put(record, 0, &crc.to_le_bytes());
    true
}

/// A batch header at the start of `bytes`, if a valid one is there.
pub(crate) fn batch_head(bytes: &[u8], seed: Seed) -> Option<BatchHead> {
    let head = bytes.get(..BATCH_HEAD)?;
    if u32_at(head, 0) != BATCH_MAGIC || u32_at(head, 4) != seed.crc(head.get(8..)?) {
        return None;
    }
    let found = BatchHead {
        count: u32_at(head, 8),
        bytes: u32_at(head, 12),
        first_lsn: u64_at(head, 16),
        durable: u64_at(head, 24),
        epoch: u64_at(head, 32),
        network: u32_at(head, 40),
    };
    let sane = found.count > 0
        && found.bytes as usize <= BATCH_BYTES_MAX
        && (found.bytes as usize).is_multiple_of(ALIGN)
        && found.first_lsn > 0
        && found.first_lsn.checked_add(u64::from(found.count)).is_some();
    sane.then_some(found)
}

/// Result of looking for a record.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// A valid record and the bytes it takes.
    Record(RecordRef<'a>, usize),
    /// So many bytes are needed to tell.
    Short(usize),
    /// No valid record.
    Bad,
}

/// A record at the start of `bytes`.
pub(crate) fn record(bytes: &[u8], seed: Seed) -> Found<'_> {
    if bytes.len() < RECORD_HEAD {
        return Found::Short(RECORD_HEAD);
    }
    let len = u32_at(bytes, 4) as usize;
    if u16_at(bytes, 38) != RECORD_MARK || len > BODY_BYTES_MAX {
        return Found::Bad;
    }
    let size = padded(RECORD_HEAD + len);
    let Some(whole) = bytes.get(..size) else { return Found::Short(size) };
    if u32_at(whole, 0) != seed.crc(whole.get(4..).unwrap_or_default()) && !crate::bugs::on("torn write accepted") {
        return Found::Bad;
    }
    match peek_record(whole) {
        Some((record, size)) => Found::Record(record, size),
        None => Found::Bad,
    }
}

/// The LSN of what looks like the head of a record at the start of `bytes`, unchecked.
pub(crate) fn peek_head(bytes: &[u8]) -> Option<Lsn> {
    let head = bytes.get(..RECORD_HEAD)?;
    (u16_at(head, 38) == RECORD_MARK).then(|| u64_at(head, 8))
}

/// A record at the start of `bytes`, unchecked.
pub(crate) fn peek_record(bytes: &[u8]) -> Option<(RecordRef<'_>, usize)> {
    let head = bytes.get(..RECORD_HEAD)?;
    let len = u32_at(head, 4) as usize;
    let record = RecordRef {
        lsn: u64_at(head, 8),
        network: u32_at(head, 32),
        seq: u64_at(head, 16),
        kind: *head.get(36)?,
        version: *head.get(37)?,
        key: u64_at(head, 24),
        body: bytes.get(RECORD_HEAD..RECORD_HEAD + len)?,
    };
    Some((record, padded(RECORD_HEAD + len)))
}

pub(crate) fn put(buf: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = buf.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::Batch;

    fn sealed(seed: Seed) -> Vec<u8> {
        let mut batch = Batch::new(3);
        batch.push(1, 0, 10, 77, b"first body").unwrap();
        batch.push(2, 1, 10, 0, b"second").unwrap();
        seal(&mut batch.buf, 3, 2, Stamp { first_lsn: 5, durable: 4, epoch: 1, seed });
        batch.buf
    }

    #[test]
    fn a_sealed_batch_parses_back() {
        let seed = Seed::of(9);
        let buf = sealed(seed);
        let head = batch_head(&buf, seed).unwrap();
        assert_eq!((head.count, head.first_lsn, head.durable, head.network, head.last_lsn()), (2, 5, 4, 3, 6));
        assert_eq!(head.size() as usize, buf.len());
        let Found::Record(first, size) = record(&buf[BATCH_HEAD..], seed) else { panic!() };
        assert_eq!((first.lsn, first.seq, first.key, first.body), (5, 10, 77, &b"first body"[..]));
        let Found::Record(second, _) = record(&buf[BATCH_HEAD + size..], seed) else { panic!() };
        assert_eq!((second.lsn, second.kind, second.body), (6, 2, &b"second"[..]));
    }

    #[test]
    fn another_generation_never_validates() {
        let buf = sealed(Seed::of(9));
        assert!(batch_head(&buf, Seed::of(10)).is_none());
        assert!(matches!(record(&buf[BATCH_HEAD..], Seed::of(10)), Found::Bad));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let seed = Seed::of(9);
        let good = sealed(seed);
        let Found::Record(_, first) = record(&good[BATCH_HEAD..], seed) else { panic!() };
        for bit in 0..(BATCH_HEAD + first) * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            if bit / 8 < BATCH_HEAD {
                assert!(batch_head(&bad, seed).is_none(), "bit {bit}");
            } else {
                assert!(!matches!(record(&bad[BATCH_HEAD..], seed), Found::Record(..)), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_segment_header_round_trips_and_notices_every_flip() {
        let (class, emptied) = (Class::EVER, false);
        let head = SegmentHead { generation: 1, number: 2, first_lsn: 3, previous: 1, previous_end: 4, class, emptied };
        let freed = SegmentHead { emptied: true, ..head };
        assert_eq!(SegmentHead::decode(&freed.encode()), Ok(freed));
        let bytes = head.encode();
        assert_eq!(SegmentHead::decode(&bytes), Ok(head));
        for bit in 0..SEGMENT_HEAD * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHead::decode(&bad).is_err(), "bit {bit}");
            assert_eq!(mend_head(&bad), Some(head), "bit {bit}");
            bad[(bit / 8 + 77) % SEGMENT_HEAD] ^= 4;
            assert_eq!(mend_head(&bad), None, "bit {bit} and another");
        }
    }

    #[test]
    fn what_was_freed_round_trips_and_notices_every_flip() {
        for freed in [vec![], vec![(1, 7), (u32::MAX, u64::MAX)]] {
            let bytes = encode_freed(&freed);
            assert_eq!(decode_freed(&bytes), Some(freed));
            for bit in 0..bytes.len() * 8 {
                let mut bad = bytes.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(decode_freed(&bad), None, "bit {bit}");
            }
        }
    }

    proptest! {
        #[test]
        fn parsers_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..700), generation: u64) {
            let seed = Seed::of(generation);
            let _ = SegmentHead::decode(&bytes);
            let _ = batch_head(&bytes, seed);
            let _ = record(&bytes, seed);
            let _ = (peek_record(&bytes), decode_freed(&bytes));
        }
    }
}
