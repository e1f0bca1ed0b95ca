//! What one stream was sent and has not acked: runs of positions without a gap, oldest first.

use rialto_engine::streams::AckState;
use rialto_model::{Millis, Seq};
use std::collections::VecDeque;

/// Deliveries that went out together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SentDeliveries {
    pub(crate) first: Seq,
    pub(crate) last: Seq,
    pub(crate) attempt: u32,
    /// When they go out again, on the steady clock.
    pub(crate) due: Millis,
}

impl SentDeliveries {
    fn len(&self) -> usize {
        usize::try_from(self.last - self.first + 1).unwrap_or(usize::MAX)
    }
}

/// The deliveries in flight to one stream, and how many there may be.
#[derive(Debug, Default)]
pub(crate) struct Window {
    size: usize,
    used: usize,
    sent: VecDeque<SentDeliveries>,
}

impl Window {
    pub(crate) fn new(size: usize) -> Window {
        Window { size, ..Window::default() }
    }

    /// How many more may go out.
    pub(crate) fn room(&self) -> usize {
        self.size.saturating_sub(self.used)
    }

    /// Notes deliveries of all positions from `first` to `last`.
    pub(crate) fn send(&mut self, sent: SentDeliveries) {
        self.used += sent.len();
        match self.sent.back_mut() {
            Some(before)
                if before.last + 1 == sent.first && (before.attempt, before.due) == (sent.attempt, sent.due) =>
            {
                before.last = sent.last;
            }
            _ => self.sent.push_back(sent),
        }
    }

    /// Whether this one is in flight.
    pub(crate) fn holds(&self, seq: Seq) -> bool {
        self.find(seq).is_some()
    }

    /// The delivery of a position.
    pub(crate) fn find(&self, seq: Seq) -> Option<&SentDeliveries> {
        self.sent.iter().find(|s| (s.first..=s.last).contains(&seq))
    }

    /// All positions in flight.
    pub(crate) fn seqs(&self) -> impl Iterator<Item = Seq> {
        self.sent.iter().flat_map(|s| s.first..=s.last)
    }

    /// Forgets what was acked.
    pub(crate) fn settle(&mut self, acked: &AckState) {
        while let Some(front) = self.sent.front_mut() {
            if front.last > acked.floor {
                if front.first <= acked.floor {
                    self.used -= usize::try_from(acked.floor - front.first + 1).unwrap_or(0);
                    front.first = acked.floor + 1;
                }
                break;
            }
            self.used -= front.len();
            self.sent.pop_front();
        }
        if !acked.above.is_empty() {
            self.keep(|_| true, |seq| seq > acked.floor && !acked.above.contains(seq));
        }
    }

    /// Of the deliveries `which` names, keeps the positions that `pass`.
    pub(crate) fn keep(&mut self, which: impl Fn(&SentDeliveries) -> bool, pass: impl Fn(Seq) -> bool) {
        let mut kept = Window::new(self.size);
        for sent in self.sent.drain(..) {
            if !which(&sent) {
                kept.used += sent.len();
                kept.sent.push_back(sent);
                continue;
            }
            for seq in (sent.first..=sent.last).filter(|seq| pass(*seq)) {
                kept.send(SentDeliveries { first: seq, last: seq, ..sent });
            }
        }
        *self = kept;
    }

    /// Whether an ack is overdue.
    pub(crate) fn is_overdue(&self, now: Millis) -> bool {
        self.sent.iter().any(|s| s.due <= now)
    }

    /// The overdue deliveries.
    pub(crate) fn overdue(&mut self, now: Millis) -> impl Iterator<Item = &mut SentDeliveries> {
        self.sent.iter_mut().filter(move |s| s.due <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(first: Seq, last: Seq, due: Millis) -> SentDeliveries {
        SentDeliveries { first, last, attempt: 1, due }
    }

    fn acked(floor: Seq, above: &[Seq]) -> AckState {
        AckState { floor, above: above.iter().copied().collect() }
    }

    #[test]
    fn room_comes_back_with_acks() {
        let mut window = Window::new(10);
        window.send(sent(1, 4, 5));
        window.send(sent(5, 6, 5));
        window.send(sent(9, 9, 5));
        assert_eq!((window.room(), window.sent.len()), (3, 2));
        window.settle(&acked(2, &[]));
        assert_eq!((window.room(), window.seqs().collect::<Vec<_>>()), (5, vec![3, 4, 5, 6, 9]));
        window.settle(&acked(3, &[5, 9]));
        assert_eq!((window.room(), window.seqs().collect::<Vec<_>>()), (8, vec![4, 6]));
        assert!(window.holds(4) && !window.holds(5));
        window.settle(&acked(100, &[]));
        assert_eq!((window.room(), window.sent.len()), (10, 0));
    }

    #[test]
    fn only_what_is_overdue_is_looked_at() {
        let mut window = Window::new(10);
        window.send(sent(1, 3, 5));
        window.send(sent(4, 4, 9));
        assert!(window.is_overdue(5) && !window.is_overdue(4));
        window.keep(|s| s.due <= 5, |seq| seq != 2);
        assert_eq!(window.seqs().collect::<Vec<_>>(), [1, 3, 4]);
        assert_eq!(window.overdue(5).map(|s| s.first).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(window.room(), 7);
    }
}
