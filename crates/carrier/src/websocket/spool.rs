//! Bytes that wait for a socket, in order and made of whole frames: small things gather, large shared blocks stay where
//! they lie. Holds no memory while nothing waits.

use super::codec;
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io::IoSlice;

/// A shared block of at least this size is written from where it lies.
const DIRECT_BYTES: usize = 16 << 10;
/// Blocks given to the socket at once.
pub const SLICES: usize = 16;

/// See above.
#[derive(Debug, Default)]
pub struct Spool {
    /// Mostly there is one block: it needs no list.
    first: Bytes,
    rest: VecDeque<Bytes>,
    /// What gathers, behind all blocks.
    open: Vec<u8>,
}

impl Spool {
    /// Nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_empty() && self.open.is_empty()
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.first.len() + self.rest.iter().map(Bytes::len).sum::<usize>() + self.open.len()
    }

    /// Appends one text. `push` must append exactly `bytes` bytes of it.
    pub fn text(&mut self, bytes: usize, push: impl FnOnce(&mut Vec<u8>)) {
        codec::text_head(bytes, &mut self.open);
        push(&mut self.open);
    }

    /// Appends a block of whole frames that others write too. A large one is written from where it lies.
    pub fn shared(&mut self, frames: Bytes) {
        if self.is_empty() || frames.len() >= DIRECT_BYTES {
            self.seal();
            self.push(frames);
        } else {
            self.open.extend_from_slice(&frames);
        }
    }

    /// Appends a frame of control, which `push` makes.
    pub fn control(&mut self, push: impl FnOnce(&mut Vec<u8>)) {
        push(&mut self.open);
    }

    /// What to write next.
    pub fn slices(&mut self) -> ([IoSlice<'_>; SLICES], usize) {
        self.seal();
        let mut slices = [IoSlice::new(&[]); SLICES];
        let blocks = std::iter::once(&self.first).chain(&self.rest).filter(|block| !block.is_empty());
        let mut count = 0;
        for (slice, block) in slices.iter_mut().zip(blocks) {
            *slice = IoSlice::new(block);
            count += 1;
        }
        (slices, count)
    }

    /// So many bytes were written.
    pub fn advance(&mut self, mut written: usize) {
        while written > 0 && !self.first.is_empty() {
            let here = written.min(self.first.len());
            self.first.advance(here);
            written -= here;
            if self.first.is_empty() {
                self.first = self.rest.pop_front().unwrap_or_default();
            }
        }
        if self.rest.is_empty() {
            self.rest = VecDeque::new();
        }
    }

    fn seal(&mut self) {
        if !self.open.is_empty() {
            let open = std::mem::take(&mut self.open);
            self.push(Bytes::from(open));
        }
    }

    fn push(&mut self, block: Bytes) {
        match self.first.is_empty() {
            true => self.first = block,
            false if block.is_empty() => {}
            false => self.rest.push_back(block),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes everything out, so many bytes at a time.
    fn drain(spool: &mut Spool, step: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while !spool.is_empty() {
            let (slices, count) = spool.slices();
            let mut taken = 0;
            for slice in &slices[..count] {
                let here = slice.len().min(step - taken);
                out.extend_from_slice(&slice[..here]);
                taken += here;
            }
            spool.advance(taken);
        }
        out
    }

    /// A text of so many bytes, and its frame.
    fn text(bytes: usize) -> (Vec<u8>, Vec<u8>) {
        let text = vec![b'x'; bytes];
        let mut frame = Vec::new();
        codec::text_head(text.len(), &mut frame);
        frame.extend_from_slice(&text);
        (text, frame)
    }

    #[test]
    fn bytes_leave_in_order_in_any_steps_and_leave_no_memory_behind() {
        let block = |n: usize| Bytes::from(vec![b'a'; n]);
        for step in [1, 3, 1000, usize::MAX] {
            let (mut spool, mut expected) = (Spool::default(), Vec::new());
            for n in [1, 200, 70_000] {
                let (text, frame) = text(n);
                expected.extend(frame);
                codec::ping(&mut expected);
                expected.extend_from_slice(&block(n));
                spool.text(text.len(), |out| out.extend_from_slice(&text));
                spool.control(codec::ping);
                spool.seal();
                spool.push(block(n));
            }
            assert_eq!(drain(&mut spool, step), expected, "in steps of {step}");
            assert_eq!((spool.rest.capacity(), spool.open.capacity()), (0, 0));
        }
    }
}
