//! How often one peer may ask for what costs others something: challenges, and looks at credentials that nobody here has given out.
//!
//! Invariant: a credential that is good is never slowed down, whoever else shares its address; so nobody is locked out by a neighbour.

use crate::proxy::Client;
use rialto_model::{ErrorCode, Fault, limits};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What a peer has left of something that comes back with time.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

/// One thing that peers may do so often.
#[derive(Debug)]
struct Pace {
    per_second: f64,
    at_once: f64,
    buckets: Mutex<HashMap<IpAddr, Bucket>>,
}

impl Pace {
    fn new(per_second: u32, at_once: u32) -> Pace {
        Pace { per_second: f64::from(per_second), at_once: f64::from(at_once), buckets: Mutex::default() }
    }

    /// Takes one, or says in how many milliseconds there is one.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small positive number of milliseconds"
    )]
    fn take(&self, peer: IpAddr, now: Instant) -> Result<(), u64> {
        if self.per_second == 0.0 {
            return Ok(());
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= limits::PACED_PEERS_MAX && !buckets.contains_key(&peer) {
            let quiet = buckets.iter().min_by_key(|(_, bucket)| bucket.at).map(|(peer, _)| *peer);
            quiet.map(|peer| buckets.remove(&peer));
        }
        let bucket = buckets.entry(peer).or_insert(Bucket { left: self.at_once, at: now });
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.left = (bucket.left + passed * self.per_second).min(self.at_once);
        bucket.at = now;
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return Ok(());
        }
        Err((((1.0 - bucket.left) / self.per_second) * 1000.0).ceil() as u64)
    }

    fn of(&self, client: &Client, what: &str) -> Result<(), Fault> {
        // Addresses of one IPv6 network are one peer's.
        let peer = client.ip.map(|ip| match ip.to_canonical() {
            IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) >> 64 << 64).into()),
            ip @ IpAddr::V4(_) => ip,
        });
        let Some(peer) = peer else { return Ok(()) };
        self.take(peer, Instant::now()).map_err(|ms| {
            let text = format!("{what}: try again in {ms} ms");
            Fault::new(ErrorCode::RateLimited, text).details(serde_json::json!({ "retry_after_ms": ms }))
        })
    }
}

/// The paces of a listener.
#[derive(Debug)]
pub struct Paces {
    challenges: Pace,
    guesses: Pace,
}

impl Default for Paces {
    fn default() -> Paces {
        Paces {
            challenges: Pace::new(limits::CHALLENGES_PER_SECOND_MAX, limits::CHALLENGES_PER_SECOND_MAX),
            guesses: Pace::new(limits::GUESSES_PER_SECOND_MAX, limits::GUESSES_MAX),
        }
    }
}

impl Paces {
    /// Without any bound.
    pub fn unbounded() -> Paces {
        Paces { challenges: Pace::new(0, 0), guesses: Pace::new(0, 0) }
    }

    /// Counts a wish for a challenge, or for a name.
    pub fn challenge(&self, client: &Client) -> Result<(), Fault> {
        self.challenges.of(client, "too many challenges asked for from this address")
    }

    /// Counts a credential that nobody here has given out.
    pub fn guess(&self, client: &Client) -> Result<(), Fault> {
        self.guesses.of(client, "too many credentials that are not good were shown from this address")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_was_taken_comes_back_with_time() {
        let pace = Pace::new(limits::CHALLENGES_PER_SECOND_MAX, limits::CHALLENGES_PER_SECOND_MAX);
        let (peer, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let now = Instant::now();
        for _ in 0..limits::CHALLENGES_PER_SECOND_MAX {
            assert_eq!(pace.take(peer, now), Ok(()));
        }
        assert_eq!(pace.take(peer, now), Err(100));
        assert_eq!(pace.take(other, now), Ok(()));
        assert_eq!(pace.take(peer, now + Duration::from_millis(100)), Ok(()));
        assert!(pace.take(peer, now + Duration::from_millis(100)).is_err());
        assert_eq!(Pace::new(0, 0).take(peer, now), Ok(()));
    }

    #[test]
    fn only_so_many_peers_are_known() {
        let pace = Pace::new(limits::GUESSES_PER_SECOND_MAX, limits::GUESSES_MAX);
        let now = Instant::now();
        for n in 0..u32::try_from(limits::PACED_PEERS_MAX).unwrap() + 5 {
            assert!(pace.take(IpAddr::V4(n.into()), now + Duration::from_nanos(n.into())).is_ok());
        }
        assert_eq!(pace.buckets.lock().unwrap().len(), limits::PACED_PEERS_MAX);
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_peer() {
        let pace = Pace::new(1, 1);
        let client = |text: &str| Client { ip: Some(text.parse().unwrap()) };
        assert!(pace.of(&client("2001:db8::1"), "x").is_ok());
        assert_eq!(pace.of(&client("2001:db8::2"), "x").unwrap_err().code, ErrorCode::RateLimited);
        assert!(pace.of(&client("2001:db8:0:1::2"), "x").is_ok());
        assert!(pace.of(&Client { ip: None }, "x").is_ok());
    }
}
