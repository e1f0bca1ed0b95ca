//! Posting lists: per stream one compressed list of seqs, and per member an ack floor with what is acked above it.
//!
//! Invariant: appending an event touches one list per stream whatever the audience; a list that empties goes away.

use crate::route::StreamKey;
use crate::state::MemberId;
use crate::weights::Weights;
use indexmap::IndexMap;
use rialto_model::Seq;
use roaring::RoaringTreemap;
use std::collections::BTreeMap;

/// What one member has acked: everything of its mail up to `floor`, and `above` besides.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AckState {
    /// Nothing at or below is pending.
    pub floor: Seq,
    /// Acked above the floor.
    pub above: RoaringTreemap,
}

/// The lists of one network.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lists {
    /// Looked up with every event, so by hash. The order is chance: whoever walks them sorts what comes out.
    pub(crate) streams: IndexMap<StreamKey, RoaringTreemap, foldhash::fast::FixedState>,
    pub(crate) acked: BTreeMap<MemberId, AckState>,
    /// Events that history keeps.
    pub(crate) kept: RoaringTreemap,
    /// Of the streams mail comes from: how large events of more than a KiB are.
    pub(crate) weights: BTreeMap<StreamKey, Weights>,
    /// The sum of all weights.
    further_kib: u64,
}

impl Lists {
    /// The list of a stream; nothing if it has no event.
    pub fn stream(&self, key: StreamKey) -> Option<&RoaringTreemap> {
        self.streams.get(&key)
    }

    /// The last event of a stream.
    pub(crate) fn last(&self, key: StreamKey) -> Option<Seq> {
        self.streams.get(&key).and_then(RoaringTreemap::max)
    }

    pub(crate) fn post(&mut self, key: StreamKey, seq: Seq) {
        // Not `push`: that looks for the highest position first, which walks the container.
        self.streams.entry(key).or_default().insert(seq);
    }

    /// Notes how large an event of a stream is.
    pub(crate) fn weigh(&mut self, key: StreamKey, seq: Seq, kib: u64) {
        if kib > 1 {
            self.weights.entry(key).or_default().add(seq, kib);
            self.further_kib += kib - 1;
        }
    }

    /// Puts a part of a stream's weights in that was read from a snapshot; [`Lists::sum_weights`] ends this.
    pub(crate) fn set_weights(&mut self, key: StreamKey, bit: usize, plane: RoaringTreemap) {
        self.weights.entry(key).or_default().set_plane(bit, plane);
    }

    /// The weights of a stream; nothing if none of its events has more than a KiB.
    pub(crate) fn weights(&self, key: StreamKey) -> Option<&Weights> {
        self.weights.get(&key)
    }

    /// KiB beyond the first of all events of all streams.
    pub(crate) fn further_kib(&self) -> u64 {
        self.further_kib
    }

    pub(crate) fn sum_weights(&mut self) {
        self.weights.retain(|_, weights| !weights.is_empty());
        self.further_kib = self.weights.values().map(|weights| weights.further_in(..)).sum();
    }

    /// What a member has acked.
    pub fn acked(&self, member: MemberId) -> Option<&AckState> {
        self.acked.get(&member)
    }

    /// Nothing of the member's mail at or below this is pending.
    pub fn floor(&self, member: MemberId) -> Seq {
        self.acked.get(&member).map_or(0, |a| a.floor)
    }

    /// Whether the stream holds the seq.
    pub fn contains(&self, key: StreamKey, seq: Seq) -> bool {
        self.streams.get(&key).is_some_and(|list| list.contains(seq))
    }

    /// Events that history keeps.
    pub fn kept(&self) -> &RoaringTreemap {
        &self.kept
    }

    /// Who sent each of these events; those of the server are left out.
    pub(crate) fn sources(&self, seqs: &RoaringTreemap) -> BTreeMap<Seq, MemberId> {
        let mut out = BTreeMap::new();
        for (key, list) in &self.streams {
            if let StreamKey::Source(member) = key
                && !list.is_disjoint(seqs)
            {
                out.extend((list & seqs).into_iter().map(|seq| (seq, *member)));
            }
        }
        out
    }

    /// Takes an event out of the lists that hold it.
    pub(crate) fn forget(&mut self, keys: &[StreamKey], seq: Seq) {
        self.kept.remove(seq);
        for key in keys {
            let empty = self.streams.get_mut(key).is_some_and(|list| {
                list.remove(seq);
                list.is_empty()
            });
            if empty {
                self.streams.swap_remove(key);
            }
            if let Some(weights) = self.weights.get_mut(key) {
                self.further_kib -= weights.further_of(seq);
                weights.remove(seq);
                if weights.is_empty() {
                    self.weights.remove(key);
                }
            }
        }
    }

    /// Takes every event up to and including `through` out of the lists, but for those in `keep`; history has none of
    /// them any more. Gives the lists that still hold each kept event.
    pub(crate) fn purge(&mut self, through: Seq, keep: &RoaringTreemap) -> BTreeMap<Seq, Vec<StreamKey>> {
        let mut held: BTreeMap<Seq, Vec<StreamKey>> = BTreeMap::new();
        self.kept.remove_range(..=through);
        self.streams.retain(|key, list| {
            let kept: RoaringTreemap = keep & &*list;
            kept.iter().for_each(|seq| held.entry(seq).or_default().push(*key));
            list.remove_range(..=through);
            *list |= kept;
            !list.is_empty()
        });
        held.values_mut().for_each(|keys| keys.sort_unstable());
        self.weights.values_mut().for_each(|weights| weights.purge(through, keep));
        self.sum_weights();
        held
    }
}
