//! What a receiver remembers: which ids it has seen, and up to where everything is acked.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// How many ids a receiver remembers for dropping repeats (sheet section 8).
pub(crate) const SEEN_IDS_MAX: usize = 4096;

/// The last ids received.
#[derive(Debug, Default)]
pub struct ReceivedIds {
    order: VecDeque<String>,
    ids: HashSet<String>,
}

impl ReceivedIds {
    /// Remembers `id`; false when it was already known.
    pub fn insert(&mut self, id: &str) -> bool {
        if !self.ids.insert(id.to_owned()) {
            return false;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > SEEN_IDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }
}

/// Where to resume: the last event before which nothing is unacked.
///
/// `resume_after` is a cumulative ack, so naming an id above an unacked delivery would lose it. First deliveries
/// arrive in ascending seq, so everything below the lowest outstanding seq is done.
#[derive(Debug, Default)]
pub struct AckFloor {
    outstanding: BTreeMap<u64, String>,
    seqs: HashMap<String, u64>,
    acked: BTreeMap<u64, String>,
    floor: Option<String>,
}

impl AckFloor {
    /// Starts from a known cursor.
    pub fn starting_at(cursor: Option<String>) -> AckFloor {
        AckFloor { floor: cursor, ..AckFloor::default() }
    }

    /// A tracked delivery arrived.
    pub fn delivered(&mut self, seq: u64, id: &str) {
        if !self.acked.contains_key(&seq) {
            self.outstanding.insert(seq, id.to_owned());
            self.seqs.insert(id.to_owned(), seq);
        }
    }

    /// One delivery was acked; unknown ids change nothing.
    pub fn ack(&mut self, id: &str) {
        if let Some(seq) = self.seqs.remove(id)
            && let Some(id) = self.outstanding.remove(&seq)
        {
            self.acked.insert(seq, id);
            self.settle();
        }
    }

    /// Everything up to and including `id` was acked.
    pub fn ack_up_to(&mut self, id: &str) {
        if let Some(seq) = self.seqs.get(id).copied() {
            let above = self.outstanding.split_off(&seq.saturating_add(1));
            self.acked.append(&mut self.outstanding);
            self.outstanding = above;
            self.seqs.retain(|_, known| *known > seq);
            self.settle();
        }
    }

    /// Whether `id` was delivered and not yet acked.
    pub fn is_outstanding(&self, id: &str) -> bool {
        self.seqs.contains_key(id)
    }

    /// The id to resume after, if anything was acked.
    pub fn resume_after(&self) -> Option<&str> {
        self.floor.as_deref()
    }

    fn settle(&mut self) {
        let lowest = self.outstanding.keys().next().copied();
        while let Some(entry) = self.acked.first_entry() {
            if lowest.is_some_and(|lowest| *entry.key() > lowest) {
                break;
            }
            self.floor = Some(entry.remove());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_never_passes_an_unacked_delivery() {
        let mut floor = AckFloor::default();
        for (seq, id) in [(3, "c"), (5, "e"), (6, "f")] {
            floor.delivered(seq, id);
        }
        floor.ack("e");
        assert_eq!(floor.resume_after(), None);
        floor.ack("c");
        assert_eq!(floor.resume_after(), Some("e"));
        floor.ack("nobody");
        floor.ack("f");
        assert_eq!(floor.resume_after(), Some("f"));
    }

    #[test]
    fn up_to_takes_everything_below() {
        let mut floor = AckFloor::starting_at(Some("a".into()));
        for (seq, id) in [(2, "b"), (3, "c"), (4, "d")] {
            floor.delivered(seq, id);
        }
        floor.ack_up_to("c");
        assert_eq!(floor.resume_after(), Some("c"));
        assert!(floor.is_outstanding("d") && !floor.is_outstanding("b"));
        floor.delivered(3, "c"); // sent again after a reconnect, and acked again
        floor.ack("c");
        floor.ack("d");
        assert_eq!(floor.resume_after(), Some("d"));
    }

    #[test]
    fn seen_forgets_the_oldest_after_seen_ids_max() {
        let mut seen = ReceivedIds::default();
        for n in 0..=SEEN_IDS_MAX {
            assert!(seen.insert(&n.to_string()));
        }
        assert!(!seen.insert("1"));
        assert!(seen.insert("0"));
    }
}
