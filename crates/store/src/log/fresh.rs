//! The end of the open segment in memory: what was written last is read without asking the disk, which a direct write does not leave
//! in the page cache. It is the very memory it was written from.
//! Not here: what is read further back (`walk` reads the file).

use std::collections::VecDeque;
use std::sync::Arc;

/// Memory kept at most; more only if one group is larger.
const BYTES_MAX: usize = 16 << 20;
/// Groups kept at most.
const PIECES_MAX: usize = 32;

/// The records of one group, where they lie in the segment, and the memory they are in.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) memory: Vec<u8>,
    /// Where in the memory they begin.
    pub(crate) from: usize,
    pub(crate) len: usize,
    /// Where in the segment.
    pub(crate) at: u64,
}

impl Piece {
    pub(crate) fn records(&self) -> &[u8] {
        self.memory.get(self.from..self.from + self.len).unwrap_or_default()
    }

    fn end(&self) -> u64 {
        self.at + self.len as u64
    }
}

/// The last groups of the open segment, without a hole between them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fresh {
    pieces: VecDeque<Arc<Piece>>,
    bytes: usize,
}

impl Fresh {
    /// Adds the newest group; gives memory that nobody needs any more, to be used again.
    pub(crate) fn push(&mut self, piece: Piece) -> Option<Vec<u8>> {
        if self.pieces.back().is_some_and(|last| last.end() != piece.at) {
            self.clear();
        }
        self.bytes += piece.memory.len();
        self.pieces.push_back(Arc::new(piece));
        let mut spare = None;
        while self.pieces.len() > 1 && (self.bytes > BYTES_MAX || self.pieces.len() > PIECES_MAX) {
            let Some(oldest) = self.pieces.pop_front() else { break };
            self.bytes -= oldest.memory.len();
            spare = Arc::try_unwrap(oldest).ok().map(|piece| piece.memory).or(spare);
        }
        spare
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Fresh::default();
    }

    /// What is here from a position on; nothing if that is further back.
    pub(crate) fn from(&self, at: u64) -> Fresh {
        if self.pieces.front().is_none_or(|first| first.at > at) {
            return Fresh::default();
        }
        let pieces = self.pieces.iter().filter(|piece| piece.end() > at).cloned().collect();
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

    fn piece(at: u64, bytes: &[u8]) -> Piece {
        Piece { memory: [b"tail", bytes, b"zeros"].concat(), from: 4, len: bytes.len(), at }
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
        assert_eq!(read(&fresh.from(105), 105, 9), "fgh");
        assert_eq!(read(&fresh.from(99), 104, 9), "", "what is further back is the file's");
        // Behind a hole nothing is known.
        fresh.push(piece(200, b"xy"));
        assert_eq!([read(&fresh, 104, 4), read(&fresh, 200, 4)], ["", "xy"]);
        fresh.clear();
        assert_eq!(read(&fresh, 200, 4), "");
    }

    #[test]
    fn is_bounded_and_gives_memory_back() {
        let (mut fresh, mut given) = (Fresh::default(), 0);
        for n in 0..1000_u64 {
            given += usize::from(fresh.push(piece(n * 4, b"abcd")).is_some());
        }
        assert_eq!((fresh.pieces.len(), given), (PIECES_MAX, 1000 - PIECES_MAX));
        let large = vec![7; BYTES_MAX + 1];
        fresh.push(piece(4000, &large));
        assert_eq!(fresh.pieces.len(), 1);
        assert_eq!(fresh.bytes, large.len() + 9);
        // Memory that somebody reads from is not used again.
        let mut fresh = Fresh::default();
        fresh.push(piece(0, b"abcd"));
        let reader = fresh.from(0);
        assert!(fresh.push(piece(4, &large)).is_none());
        assert_eq!(reader.read_at(&mut [0; 4], 0), 4);
    }
}
