//! The places for connections, and whose they are: a part of them is all that those who have proved no credential can take.
//!
//! Whoever comes takes a place at once, because nobody can prove anything before it has one. When those without proof have their part, the
//! one of them that came first leaves for the one that comes: a crowd that only holds places loses them to whoever wants one, and who shows
//! a credential keeps its own.

use rialto_carrier::Standing;
use rialto_model::limits;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Connections that are on their way out may take so many places more.
const LEAVING_MAX: usize = 16;

/// Whoever is on its way out is gone after this long, or a connection is refused.
const LEAVES_WITHIN: Duration = Duration::from_secs(1);

/// All places of a listener.
#[derive(Debug)]
pub(crate) struct Places {
    max: usize,
    unproved_max: usize,
    taken: Mutex<Taken>,
    /// Somebody has left.
    left: Notify,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// All are taken by those who have proved a credential.
    Taken,
    /// Too many are on their way out.
    Leaving,
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
pub(crate) struct ConnectionPlace {
    places: Arc<Places>,
    number: u64,
}

impl Places {
    pub(crate) fn new(max: usize) -> Arc<Places> {
        let unproved_max = (max * limits::UNPROVED_CONNECTIONS_PERCENT_MAX / 100).max(1);
        Arc::new(Places { max, unproved_max, taken: Mutex::default(), left: Notify::new() })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a connection; none if all are taken by those who have proved a credential. While a crowd is on its way out,
    /// whoever comes waits until one of it is gone.
    pub(crate) async fn take(self: &Arc<Self>) -> Option<(ConnectionPlace, Standing)> {
        let begun = Instant::now();
        loop {
            let left = self.left.notified();
            match self.try_take() {
                Ok(taken) => return Some(taken),
                Err(Why::Taken) => return None,
                Err(Why::Leaving) => {
                    let time_left = LEAVES_WITHIN.saturating_sub(begun.elapsed());
                    tokio::time::timeout(time_left, left).await.ok()?;
                }
            }
        }
    }

    fn try_take(self: &Arc<Self>) -> Result<(ConnectionPlace, Standing), Why> {
        let mut taken = self.taken();
        if taken.count >= self.max + LEAVING_MAX {
            return Err(if taken.unproved.is_empty() { Why::Taken } else { Why::Leaving });
        }
        if taken.unproved.len() >= self.unproved_max || taken.count >= self.max {
            match taken.unproved.pop_first() {
                Some((_, standing)) => standing.dismiss(),
                None if taken.count >= self.max => return Err(Why::Taken),
                None => {}
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
        Ok((ConnectionPlace { places: Arc::clone(self), number }, standing))
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.count = taken.count.saturating_sub(1);
        taken.unproved.remove(&self.number);
        drop(taken);
        self.places.left.notify_one();
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
        let held: Vec<(ConnectionPlace, Standing)> = (0..=most).map(|_| places.try_take().unwrap()).collect();
        assert!(is_dismissed(&held[0].1), "the first one leaves");
        assert!(!held.iter().skip(1).any(|(_, standing)| is_dismissed(standing)), "there is room for a part of them");
        held[1].1.prove();
        let more = [places.try_take().unwrap(), places.try_take().unwrap()];
        assert!(!is_dismissed(&held[1].1), "it has proved a credential, and its place is its own");
        assert!(is_dismissed(&held[2].1) && !is_dismissed(&held[3].1), "the oldest of the others leaves");
        drop((held, more));
        let taken = places.taken();
        assert_eq!((taken.count, taken.unproved.len()), (0, 0));
    }

    #[test]
    fn all_places_can_be_taken_by_those_who_proved_a_credential_and_by_nobody_else() {
        let places = Places::new(10);
        let members: Vec<(ConnectionPlace, Standing)> =
            (0..10).map(|_| places.try_take().unwrap()).inspect(|m| m.1.prove()).collect();
        assert_eq!(places.try_take().unwrap_err(), Why::Taken, "all are taken");
        assert!(!members.iter().any(|(_, standing)| is_dismissed(standing)));
        drop(members);
        // A crowd that is slow to leave is bounded too.
        let crowd: Vec<_> = (0..100).map(|_| places.try_take()).collect();
        assert!(crowd.iter().flatten().count() <= 10 + LEAVING_MAX);
    }

    #[tokio::test]
    async fn whoever_comes_behind_a_crowd_waits_until_it_leaves() {
        let places = Places::new(10);
        let mut crowd: Vec<_> = (0..100).map_while(|_| places.try_take().ok()).collect();
        assert_eq!(places.try_take().unwrap_err(), Why::Leaving);
        let coming = tokio::spawn({
            let places = places.clone();
            async move { places.take().await.is_some() }
        });
        tokio::task::yield_now().await;
        assert!(!coming.is_finished());
        crowd.pop();
        assert!(coming.await.unwrap(), "one has left");
    }
}
