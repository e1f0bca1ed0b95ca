//! How large the events of a stream are, so that a queue can be bounded by bytes without a walk.
//!
//! An event counts in whole KiB. The first KiB of each is the count of the posting list; what an event has beyond it is kept
//! here, bit by bit: plane *n* is the list of events whose number of further KiB has bit *n* set. The bytes of any stretch, or
//! of any set of events, are then sums of cardinalities, and events of at most a KiB cost nothing.

use rialto_model::{Seq, limits};
use roaring::RoaringTreemap;
use std::ops::RangeBounds;

/// Bits of the largest number of further KiB.
pub(crate) const PLANES_MAX: usize = limits::PENDING_EVENT_KIB_MAX.ilog2() as usize + 1;

/// KiB beyond the first of a stream's events.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Weights {
    /// None of them is empty but those below a higher one.
    planes: Vec<RoaringTreemap>,
}

impl Weights {
    pub(crate) fn planes(&self) -> impl Iterator<Item = (u32, &RoaringTreemap)> {
        (0..).zip(&self.planes).filter(|(_, plane)| !plane.is_empty())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.planes.is_empty()
    }

    /// Puts a plane in that was read from a snapshot.
    pub(crate) fn set_plane(&mut self, bit: usize, plane: RoaringTreemap) {
        if bit < PLANES_MAX {
            self.planes.resize_with(self.planes.len().max(bit + 1), RoaringTreemap::new);
            self.planes.get_mut(bit).into_iter().for_each(|place| *place |= &plane);
            self.trim();
        }
    }

    /// Notes an event of so many KiB.
    pub(crate) fn add(&mut self, seq: Seq, kib: u64) {
        let further = kib.clamp(1, limits::PENDING_EVENT_KIB_MAX) - 1;
        let bits = (u64::BITS - further.leading_zeros()) as usize;
        self.planes.resize_with(self.planes.len().max(bits), RoaringTreemap::new);
        for (bit, plane) in (0..).zip(&mut self.planes) {
            if further >> bit & 1 == 1 {
                plane.insert(seq);
            }
        }
    }

    pub(crate) fn remove(&mut self, seq: Seq) {
        self.planes.iter_mut().for_each(|plane| {
            plane.remove(seq);
        });
        self.trim();
    }

    /// Forgets everything up to and including `through`, but for what is in `keep`.
    pub(crate) fn purge(&mut self, through: Seq, keep: &RoaringTreemap) {
        for plane in &mut self.planes {
            let kept: RoaringTreemap = keep & &*plane;
            plane.remove_range(..=through);
            *plane |= kept;
        }
        self.trim();
    }

    /// KiB beyond the first of this event.
    pub(crate) fn further_of(&self, seq: Seq) -> u64 {
        self.planes().filter(|(_, plane)| plane.contains(seq)).map(|(bit, _)| 1 << bit).sum()
    }

    /// KiB beyond the first of all events in the range.
    pub(crate) fn further_in(&self, range: impl RangeBounds<Seq> + Clone) -> u64 {
        self.planes().map(|(bit, plane)| plane.range_cardinality(range.clone()) << bit).sum()
    }

    /// The weights of those events that are in the set.
    pub(crate) fn of(&self, set: &RoaringTreemap) -> Weights {
        let mut out = Weights { planes: self.planes.iter().map(|plane| plane & set).collect() };
        out.trim();
        out
    }

    fn trim(&mut self) {
        while self.planes.pop_if(|plane| plane.is_empty()).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_single_events() {
        let sizes = [1u64, 2, 3, 700, 1, 1024, 2047, 9000];
        let mut weights = Weights::default();
        for (seq, kib) in (1..).zip(sizes) {
            weights.add(seq, kib);
        }
        let of = |kib: u64| kib.min(limits::PENDING_EVENT_KIB_MAX) - 1;
        for (seq, kib) in (1..).zip(sizes) {
            assert_eq!(weights.further_of(seq), of(kib));
        }
        let sum = |range: std::ops::RangeInclusive<usize>| sizes[range].iter().map(|kib| of(*kib)).sum::<u64>();
        assert_eq!(weights.further_in(2..=7), sum(1..=6));
        assert_eq!(weights.of(&[4, 6].into_iter().collect()).further_in(..), of(700) + of(1024));
        weights.remove(8);
        weights.purge(6, &[4].into_iter().collect());
        assert_eq!(weights.further_in(..), of(700) + of(2047));
        weights.remove(7);
        weights.remove(4);
        assert!(weights.is_empty());
        assert_eq!(weights, Weights::default());
    }
}
