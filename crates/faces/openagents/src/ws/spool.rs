//! Bytes that wait for a socket, in order and made of whole frames: small things gather, large shared blocks stay where
//! they lie. Holds no memory while nothing waits.

use super::codec;
use crate::stream::Frame;
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io::IoSlice;

/// A shared block of at least this size is written from where it lies.
const DIRECT_BYTES: usize = 16 << 10;
/// Blocks given to the socket at once.
pub(super) const SLICES: usize = 16;

/// See above.
#[derive(Debug, Default)]
pub(super) struct Spool {
    /// Mostly there is one block: it needs no list.
    first: Bytes,
    rest: VecDeque<Bytes>,
    /// What gathers, behind all blocks.
    open: Vec<u8>,
}

impl Spool {
    /// Nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.open.is_empty()
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.first.len() + self.rest.iter().map(Bytes::len).sum::<usize>() + self.open.len()
    }

    /// Appends events.
    pub(super) fn put(&mut self, frame: Frame) {
        match frame {
            Frame::One(event, attempt) => {
                codec::text_head(event.json_len_as(attempt), &mut self.open);
                event.push_json(attempt, &mut self.open);
            }
            Frame::Signal(signal) => {
                codec::text_head(signal.text().len(), &mut self.open);
                self.open.extend_from_slice(signal.text().as_bytes());
            }
            Frame::Shared(part) => {
                let block = part.framed::<codec::TextFrames>();
                if self.is_empty() || block.len() >= DIRECT_BYTES {
                    self.seal();
                    self.push(block);
                } else {
                    self.open.extend_from_slice(&block);
                }
            }
        }
    }

    /// Appends a frame of control.
    pub(super) fn control(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        put(&mut self.open);
    }

    /// What to write next.
    pub(super) fn slices(&mut self) -> ([IoSlice<'_>; SLICES], usize) {
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
    pub(super) fn advance(&mut self, mut written: usize) {
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

    /// An event with a payload of so many bytes, and its frame.
    fn event(bytes: usize) -> (rialto_model::Event, Vec<u8>) {
        let payload = format!("{{\"p\":\"{}\"}}", "x".repeat(bytes));
        let event = crate::wire::server_event("a.b", "agent:a", "n1", &payload, None);
        let mut frame = Vec::new();
        codec::text_head(event.json().len(), &mut frame);
        frame.extend_from_slice(event.json().as_bytes());
        (event, frame)
    }

    #[test]
    fn bytes_leave_in_order_in_any_steps_and_leave_no_memory_behind() {
        let block = |n: usize| Bytes::from(vec![b'a'; n]);
        for step in [1, 3, 1000, usize::MAX] {
            let (mut spool, mut expected) = (Spool::default(), Vec::new());
            for n in [1, 200, 70_000] {
                let (event, frame) = event(n);
                expected.extend(frame);
                codec::ping(&mut expected);
                expected.extend_from_slice(&block(n));
                spool.put(Frame::One(event, None));
                spool.control(codec::ping);
                spool.seal();
                spool.push(block(n));
            }
            assert_eq!(drain(&mut spool, step), expected, "in steps of {step}");
            assert_eq!((spool.rest.capacity(), spool.open.capacity()), (0, 0));
        }
    }

    #[test]
    fn a_delivery_again_says_which_it_is() {
        let (event, _) = event(3);
        let text = event.json_as(Some(4));
        let mut spool = Spool::default();
        spool.put(Frame::One(event, Some(4)));
        let mut expected = Vec::new();
        codec::text_head(text.len(), &mut expected);
        expected.extend_from_slice(text.as_bytes());
        assert_eq!(drain(&mut spool, 1000), expected);
    }
}
