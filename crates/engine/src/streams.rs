//! Posting lists: per stream one compressed list of seqs, and per member an ack floor with what is acked above it.
//!
//! Invariant: appending an event touches one list per stream whatever the audience.

use crate::route::StreamKey;
use crate::state::MemberId;
use rialto_model::Seq;
use roaring::RoaringTreemap;
use std::collections::BTreeMap;

/// What one member has acked: everything of its mail up to `floor`, and `above` besides.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Acked {
    /// Nothing at or below is pending.
    pub floor: Seq,
    /// Acked above the floor.
    pub above: RoaringTreemap,
}

/// The lists of one network.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lists {
    pub(crate) streams: BTreeMap<StreamKey, RoaringTreemap>,
    pub(crate) acked: BTreeMap<MemberId, Acked>,
}

impl Lists {
    /// The list of a stream; nothing if it never had an event.
    pub fn stream(&self, key: StreamKey) -> Option<&RoaringTreemap> {
        self.streams.get(&key)
    }

    pub(crate) fn post(&mut self, key: StreamKey, seq: Seq) {
        self.streams.entry(key).or_default().insert(seq);
    }

    /// What a member has acked.
    pub fn acked(&self, member: MemberId) -> Option<&Acked> {
        self.acked.get(&member)
    }

    /// Whether the stream holds the seq.
    pub fn contains(&self, key: StreamKey, seq: Seq) -> bool {
        self.streams.get(&key).is_some_and(|list| list.contains(seq))
    }

    /// Takes an event out of every list.
    pub(crate) fn forget(&mut self, seq: Seq) {
        for list in self.streams.values_mut() {
            list.remove(seq);
        }
    }

    /// Takes every event up to and including `seq` out of the lists, but for those in `keep`.
    pub(crate) fn purge(&mut self, through: Seq, keep: &RoaringTreemap) {
        for list in self.streams.values_mut() {
            let kept: RoaringTreemap = keep & &*list;
            list.remove_range(..=through);
            *list |= kept;
        }
    }
}
