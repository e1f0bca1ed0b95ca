//! The end of the log in memory: what was written last is read without asking the disk, which a direct write does not leave in
//! the page cache. It is the very memory it was written from.
//! Not here: what is read further back (`walk` reads the file).

use std::collections::VecDeque;
use std::sync::Arc;

/// Memory kept at most; more only if one group is larger.
const BYTES_MAX: usize = 16 << 20;
/// Groups kept at most.
const PIECES_MAX: usize = 32;

/// The records of one group, where they lie in the segment, and the memory they are in.
#[derive(Debug)]
pub(crate) struct FreshGroup {
    pub(crate) memory: Vec<u8>,
    /// Where in the memory they begin.
    pub(crate) from: usize,
    pub(crate) len: usize,
    /// Number of the segment.
    pub(crate) segment: u64,
    /// Where in the segment.
    pub(crate) at: u64,
}

impl FreshGroup {
    pub(crate) fn records(&self) -> &[u8] {
        self.memory.get(self.from..self.from + self.len).unwrap_or_default()
    }

    fn end(&self) -> u64 {
        self.at + self.len as u64
    }
}

/// The last groups of the log, without a hole between those of one segment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fresh {
    pieces: VecDeque<Arc<FreshGroup>>,
    bytes: usize,
}

impl Fresh {
    /// Adds the newest group; gives memory that nobody needs any more, to be used again.
    pub(crate) fn push(&mut self, piece: FreshGroup) -> Vec<Vec<u8>> {
        if self.pieces.back().is_some_and(|last| last.segment == piece.segment && last.end() != piece.at) {
            self.clear();
        }
        self.bytes += piece.memory.len();
        self.pieces.push_back(Arc::new(piece));
        self.shorten(BYTES_MAX)
    }

    /// Forgets the oldest groups until the others are at most so many bytes, or one; gives their memory if nobody reads from it.
    pub(crate) fn shorten(&mut self, bytes_max: usize) -> Vec<Vec<u8>> {
        let mut spare = Vec::new();
        while self.pieces.len() > 1 && (self.bytes > bytes_max || self.pieces.len() > PIECES_MAX) {
            let Some(oldest) = self.pieces.pop_front() else { break };
            self.bytes -= oldest.memory.len();
            spare.extend(Arc::try_unwrap(oldest).ok().map(|piece| piece.memory));
        }
        spare
    }

    /// Memory it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Fresh::default();
    }

    /// What is here of a segment from a position on; nothing if that is further back.
    pub(crate) fn from(&self, segment: u64, at: u64) -> Fresh {
        let mut of_segment = self.pieces.iter().filter(|piece| piece.segment == segment).peekable();
        if of_segment.peek().is_none_or(|first| first.at > at) {
            return Fresh::default();
        }
        Fresh { pieces: of_segment.filter(|piece| piece.end() > at).cloned().collect(), bytes: 0 }
    }

    /// All that is here of a segment.
    pub(crate) fn of(&self, segment: u64) -> Fresh {
        let pieces = self.pieces.iter().filter(|piece| piece.segment == segment).cloned().collect();
        Fresh { pieces, bytes: 0 }
    }

    /// Reads from a position on; how many bytes of it are here.
    pub(crate) fn read_at(&self, buf: &mut [u8], at: u64) -> usize {
        let mut got = 0;
        for piece in self.pieces.iter().skip_while(|piece| piece.end() <= at) {
            let position = at + got as u64;
            let Some(skip) = position.checked_sub(piece.at).and_then(|skip| usize::try_from(skip).ok()) else { break };
            let here = piece.records().get(skip..).unwrap_or_default();
            let place = buf.get_mut(got..).unwrap_or_default();
            let n = here.len().min(place.len());
            if n == 0 {
                break;
            }
            place.get_mut(..n).unwrap_or_default().copy_from_slice(here.get(..n).unwrap_or_default());
            got += n;
        }
        got
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(at: u64, bytes: &[u8]) -> FreshGroup {
        piece_of(1, at, bytes)
    }

    fn piece_of(segment: u64, at: u64, bytes: &[u8]) -> FreshGroup {
        FreshGroup { memory: [b"tail", bytes, b"zeros"].concat(), from: 4, len: bytes.len(), segment, at }
    }

    #[test]
    fn reads_what_is_here_and_says_how_much() {
        let mut fresh = Fresh::default();
        fresh.push(piece(100, b"abcd"));
        fresh.push(piece(104, b"efgh"));
        let read = |fresh: &Fresh, at: u64, n: usize| {
            let mut buf = vec![0; n];
            let got = fresh.read_at(&mut buf, at);
            buf.truncate(got);
            String::from_utf8(buf).unwrap()
        };
        assert_eq!([read(&fresh, 100, 8), read(&fresh, 102, 4), read(&fresh, 107, 9)], ["abcdefgh", "cdef", "h"]);
        assert_eq!([read(&fresh, 99, 3), read(&fresh, 108, 3)], ["", ""]);
        assert_eq!(read(&fresh.from(1, 105), 105, 9), "fgh");
        assert_eq!(read(&fresh.from(1, 99), 104, 9), "", "what is further back is the file's");
        // Behind a hole nothing is known.
        fresh.push(piece(200, b"xy"));
        assert_eq!([read(&fresh, 104, 4), read(&fresh, 200, 4)], ["", "xy"]);
        // The next segment begins where it likes, and the one before stays.
        fresh.push(piece_of(2, 64, b"next"));
        assert_eq!(
            [read(&fresh.of(1), 200, 4), read(&fresh.of(2), 64, 9), read(&fresh.from(2, 66), 66, 9)],
            ["xy", "next", "xt"]
        );
        assert_eq!([read(&fresh.from(1, 201), 201, 9), read(&fresh.from(3, 64), 64, 9)], ["y", ""]);
        fresh.clear();
        assert_eq!(read(&fresh, 200, 4), "");
    }

    #[test]
    fn is_bounded_and_gives_memory_back() {
        let (mut fresh, mut given) = (Fresh::default(), 0);
        for n in 0..1000_u64 {
            given += fresh.push(piece(n * 4, b"abcd")).len();
        }
        assert_eq!((fresh.pieces.len(), given), (PIECES_MAX, 1000 - PIECES_MAX));
        let large = vec![7; BYTES_MAX + 1];
        fresh.push(piece(4000, &large));
        assert_eq!((fresh.pieces.len(), fresh.bytes()), (1, large.len() + 9));
        // Memory that somebody reads from is not used again.
        let mut fresh = Fresh::default();
        fresh.push(piece(0, b"abcd"));
        let reader = fresh.from(1, 0);
        assert!(fresh.push(piece(4, &large)).is_empty());
        assert_eq!(reader.read_at(&mut [0; 4], 0), 4);
    }
}
