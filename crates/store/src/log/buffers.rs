//! Memory that groups are gathered in, used again: a page of new memory costs more than what is copied into it.
//! Not here: what is in it (`writer`), how long it is read from (`fresh`).

use crate::disk::DIRECT_BLOCK;

/// Memory that waits to be used again at most, all together: of two large groups.
const SPARE_BYTES_MAX: usize = 10 << 20;
/// Pieces of it at most.
const SPARES_MAX: usize = 32;
/// Up to here sizes are whole blocks; above they go in steps of an eighth to a quarter, so that one fits where another was.
const EXACT_MAX: usize = 64 << 10;
/// Small groups are gathered in memory of up to this size.
const SMALL_FIT: usize = 128 << 10;

/// Memory that nobody uses, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    spare: Vec<Vec<u8>>,
    bytes: usize,
}

impl Buffers {
    /// Memory with room for so many bytes behind its first aligned byte, as it was left.
    pub(crate) fn take(&mut self, bytes: usize) -> Vec<u8> {
        let need = bytes + DIRECT_BLOCK;
        let most = (2 * need).max(SMALL_FIT);
        let fits = self.spare.iter().enumerate().filter(|(_, memory)| (need..=most).contains(&memory.len()));
        let Some((at, _)) = fits.min_by_key(|(_, memory)| memory.len()) else {
            // What does not fit makes room for what does.
            self.shorten(SPARE_BYTES_MAX.saturating_sub(need));
            return vec![0; rounded(need)];
        };
        let memory = self.spare.remove(at);
        self.bytes -= memory.len();
        memory
    }

    /// Takes memory back.
    pub(crate) fn give(&mut self, memory: Vec<u8>) {
        if memory.is_empty() || memory.len() > SPARE_BYTES_MAX {
            return;
        }
        self.bytes += memory.len();
        self.spare.push(memory);
        self.shorten(SPARE_BYTES_MAX);
    }

    /// Gives the oldest back to the system until the others are at most so many bytes.
    fn shorten(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max || self.spare.len() > SPARES_MAX {
            self.bytes -= self.spare.remove(0).len();
        }
    }

    /// Gives all of it back to the system.
    pub(crate) fn clear(&mut self) {
        *self = Buffers::default();
    }
}

/// The next larger size that memory is had in.
fn rounded(bytes: usize) -> usize {
    let step = if bytes > EXACT_MAX { bytes.next_power_of_two() / 8 } else { DIRECT_BLOCK };
    bytes.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_is_used_again_if_it_fits() {
        let mut buffers = Buffers::default();
        let memory = buffers.take(3 << 20);
        let at = memory.as_ptr();
        buffers.give(memory);
        let (small, large) = (buffers.take(1000), buffers.take(5 << 20));
        assert!(
            small.as_ptr() != at && large.as_ptr() != at,
            "neither a small group nor a larger one is gathered there"
        );
        let again = buffers.take((3 << 20) - 100_000);
        assert!(again.as_ptr() == at && buffers.spare.is_empty());
        buffers.give(again);
        buffers.clear();
        assert!(buffers.spare.is_empty());
    }

    #[test]
    fn is_bounded() {
        let mut buffers = Buffers::default();
        (0..100).for_each(|_| buffers.give(vec![0; 5000]));
        assert_eq!(buffers.spare.len(), SPARES_MAX);
        (0..100).for_each(|_| buffers.give(vec![0; 3 << 20]));
        assert!(buffers.bytes <= SPARE_BYTES_MAX && buffers.spare.len() == 3);
        buffers.give(vec![0; SPARE_BYTES_MAX + 1]);
        buffers.give(Vec::new());
        assert_eq!(buffers.spare.len(), 3);
        drop(buffers.take(SPARE_BYTES_MAX - (3 << 20)));
        assert!(buffers.spare.is_empty(), "what is large makes room for itself");
    }

    #[test]
    fn sizes_leave_little_over() {
        for bytes in [1, 4096, 65_536, 65_537, 100_000, 1 << 20, (4 << 20) + 8192, 100 << 20] {
            let size = rounded(bytes);
            assert!(size >= bytes && size <= (bytes + bytes / 4).max(bytes + DIRECT_BLOCK), "{bytes}: {size}");
        }
    }
}
