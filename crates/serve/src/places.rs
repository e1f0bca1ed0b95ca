//! The places for connections, and whose they are: a part of them is all that those who have proved no credential can take.
//!
//! Whoever comes takes a place at once, because nobody can prove anything before it has one. When those without proof have their part, the
//! one of them that came first leaves for the one that comes: a crowd that only holds places loses them to whoever wants one, and who shows
//! a credential keeps its own.

use rialto_model::limits;
use rialto_openagents::Standing;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections that are on their way out may take so many places more.
const LEAVING_MAX: usize = 16;

/// All places of a listener.
#[derive(Debug)]
pub(crate) struct Places {
    max: usize,
    unproved_max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    count: usize,
    /// Those that have proved no credential, by number, and so by age.
    unproved: BTreeMap<u64, Standing>,
    next: u64,
}

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
}

impl Places {
    pub(crate) fn new(max: usize) -> Arc<Places> {
        let unproved_max = (max * limits::UNPROVED_CONNECTIONS_PERCENT_MAX / 100).max(1);
        Arc::new(Places { max, unproved_max, taken: Mutex::default() })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a connection; none if all are taken by those who have proved a credential.
    pub(crate) fn take(self: &Arc<Self>) -> Option<(Place, Standing)> {
        let mut taken = self.taken();
        if taken.unproved.len() >= self.unproved_max || taken.count >= self.max {
            let first = taken.unproved.pop_first();
            let room = if first.is_some() { self.max + LEAVING_MAX } else { self.max };
            if let Some((_, standing)) = first {
                standing.dismiss();
            }
            if taken.count >= room {
                return None;
            }
        }
        let number = taken.next;
        taken.next += 1;
        taken.count += 1;
        let places = Arc::downgrade(self);
        let standing = Standing::counted_by(move || {
            if let Some(places) = places.upgrade() {
                places.taken().unproved.remove(&number);
            }
        });
        taken.unproved.insert(number, standing.clone());
        Some((Place { places: Arc::clone(self), number }, standing))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.count = taken.count.saturating_sub(1);
        taken.unproved.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    fn is_dismissed(standing: &Standing) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        std::pin::pin!(standing.dismissed()).poll(&mut cx) == Poll::Ready(())
    }

    #[test]
    fn whoever_came_first_and_proved_nothing_leaves_for_whoever_comes() {
        let places = Places::new(20);
        let most = 20 * limits::UNPROVED_CONNECTIONS_PERCENT_MAX / 100;
        let held: Vec<(Place, Standing)> = (0..=most).map(|_| places.take().unwrap()).collect();
        assert!(is_dismissed(&held[0].1), "the first one leaves");
        assert!(!held.iter().skip(1).any(|(_, standing)| is_dismissed(standing)), "there is room for a part of them");
        held[1].1.prove();
        let more = [places.take().unwrap(), places.take().unwrap()];
        assert!(!is_dismissed(&held[1].1), "it has proved a credential, and its place is its own");
        assert!(is_dismissed(&held[2].1) && !is_dismissed(&held[3].1), "the oldest of the others leaves");
        drop((held, more));
        let taken = places.taken();
        assert_eq!((taken.count, taken.unproved.len()), (0, 0));
    }

    #[test]
    fn all_places_can_be_taken_by_those_who_proved_a_credential_and_by_nobody_else() {
        let places = Places::new(10);
        let members: Vec<(Place, Standing)> =
            (0..10).map(|_| places.take().unwrap()).inspect(|m| m.1.prove()).collect();
        assert!(places.take().is_none(), "all are taken");
        assert!(!members.iter().any(|(_, standing)| is_dismissed(standing)));
        drop(members);
        // A crowd that is slow to leave is bounded too.
        let crowd: Vec<_> = (0..100).map(|_| places.take()).collect();
        assert!(crowd.iter().flatten().count() <= 10 + LEAVING_MAX);
    }
}
