//! Open challenges: each is bound to what it was made for, works once, and for five minutes.
//!
//! Invariant: whatever is asked for, there are never more than the limits; the oldest go first. They live on monotonic time: setting the
//! wall clock neither ends one nor keeps it.

use rialto_engine::Clock;
use rialto_identity::challenge::CHALLENGE_SECONDS;
use rialto_identity::{Algorithm, ChallengeText};
use rialto_model::{ErrorCode, Fault, Millis, limits};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// What a challenge is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// To join a network under an address.
    Join { network: Box<str>, address: Box<str> },
    /// To act at this node's registrar under a name.
    Registrar { prefix: Box<str>, name: Box<str> },
}

/// A challenge that nobody has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Challenge {
    pub(crate) purpose: Purpose,
    pub(crate) algorithm: Algorithm,
    pub(crate) nonce: Box<str>,
    /// As it is published, wall clock.
    pub(crate) expires_at: Millis,
    /// When it is over, monotonic time.
    ends: Millis,
    number: u64,
}

impl Challenge {
    /// What is signed.
    pub(crate) fn text(&self) -> ChallengeText {
        match &self.purpose {
            Purpose::Join { network, address } => {
                ChallengeText::of_join(network, address, &self.nonce, self.expires_at)
            }
            Purpose::Registrar { prefix, name } => {
                ChallengeText::of_registrar(prefix, name, &self.nonce, self.expires_at)
            }
        }
    }
}

/// Those that are open.
#[derive(Debug, Default)]
pub(crate) struct Challenges {
    open: HashMap<Box<str>, Challenge>,
    order: BTreeMap<u64, Box<str>>,
    by_purpose: HashMap<Purpose, VecDeque<u64>>,
    next: u64,
}

impl Challenges {
    /// Makes one with a fresh nonce.
    pub(crate) fn issue(&mut self, purpose: Purpose, algorithm: Algorithm, nonce: &str, now: Clock) -> Challenge {
        let lifetime = CHALLENGE_SECONDS * 1000;
        let challenge = Challenge {
            purpose: purpose.clone(),
            algorithm,
            nonce: nonce.into(),
            expires_at: now.wall.saturating_add(lifetime),
            ends: now.steady.saturating_add(lifetime),
            number: self.next,
        };
        self.next += 1;
        // Over for so long that nobody is told so any more.
        while let Some((_, nonce)) = self.order.first_key_value() {
            let forgotten = self.open.get(nonce).is_none_or(|c| c.ends.saturating_add(lifetime) <= now.steady);
            if !forgotten && self.open.len() < limits::CHALLENGES_MAX {
                break;
            }
            let nonce = nonce.clone();
            self.remove(&nonce);
        }
        let of_purpose = self.by_purpose.get(&purpose).map_or(0, VecDeque::len);
        if of_purpose >= limits::CHALLENGES_PER_ADDRESS_MAX
            && let Some(oldest) = self.by_purpose.get(&purpose).and_then(VecDeque::front)
            && let Some(nonce) = self.order.get(oldest).cloned()
        {
            self.remove(&nonce);
        }
        self.order.insert(challenge.number, challenge.nonce.clone());
        self.by_purpose.entry(purpose).or_default().push_back(challenge.number);
        self.open.insert(challenge.nonce.clone(), challenge.clone());
        challenge
    }

    fn remove(&mut self, nonce: &str) -> Option<Challenge> {
        let challenge = self.open.remove(nonce)?;
        self.order.remove(&challenge.number);
        if let Some(numbers) = self.by_purpose.get_mut(&challenge.purpose) {
            numbers.retain(|number| *number != challenge.number);
            if numbers.is_empty() {
                self.by_purpose.remove(&challenge.purpose);
            }
        }
        Some(challenge)
    }

    /// Takes the challenge of a nonce, right or wrong: it never works again.
    pub(crate) fn take(&mut self, nonce: &str, purpose: &Purpose, now: Clock) -> Result<Challenge, Fault> {
        let unknown = || {
            let text = "the challenge is unknown: it was used before, or is for another network, address or node; ask for a new one";
            Fault::new(ErrorCode::VerificationFailed, text)
        };
        let challenge = self.remove(nonce).ok_or_else(unknown)?;
        if challenge.purpose != *purpose {
            return Err(unknown());
        }
        if challenge.ends <= now.steady {
            let text =
                format!("the challenge has expired: answer within {CHALLENGE_SECONDS} seconds, and ask for a new one");
            return Err(Fault::new(ErrorCode::ChallengeExpired, text));
        }
        Ok(challenge)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        assert_eq!(self.open.len(), self.order.len());
        assert_eq!(self.open.len(), self.by_purpose.values().map(VecDeque::len).sum::<usize>());
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purpose(address: usize) -> Purpose {
        Purpose::Join { network: "a1b2c3d4".into(), address: format!("openagents:a{address}").into() }
    }

    fn at(ms: u64) -> Clock {
        Clock { wall: 1_000_000_000_000, steady: ms }
    }

    #[test]
    fn a_challenge_works_once_and_for_what_it_was_made() {
        let mut challenges = Challenges::default();
        let mut issue = |nonce: &str| challenges.issue(purpose(1), Algorithm::Ed25519, nonce, at(0)).nonce;
        let (first, second) = (issue("one"), issue("two"));
        assert!(challenges.take(&first, &purpose(1), at(0)).is_ok());
        assert_eq!(challenges.take(&first, &purpose(1), at(0)).unwrap_err().code, ErrorCode::VerificationFailed);
        // An attempt for something else takes it away too.
        assert_eq!(challenges.take(&second, &purpose(2), at(0)).unwrap_err().code, ErrorCode::VerificationFailed);
        assert_eq!(challenges.take(&second, &purpose(1), at(0)).unwrap_err().code, ErrorCode::VerificationFailed);
        assert_eq!(challenges.len(), 0);
    }

    #[test]
    fn it_ends_by_monotonic_time_alone() {
        let mut challenges = Challenges::default();
        for (nonce, wall, steady, code) in [
            ("a", 0, 299_999, None),
            ("b", u64::MAX, 299_999, None),
            ("c", 0, 300_000, Some(ErrorCode::ChallengeExpired)),
        ] {
            challenges.issue(purpose(1), Algorithm::Ed25519, nonce, at(0));
            let taken = challenges.take(nonce, &purpose(1), Clock { wall, steady });
            assert_eq!(taken.err().map(|fault| fault.code), code, "{nonce}");
        }
    }

    #[test]
    fn there_are_never_more_than_the_limits() {
        let mut challenges = Challenges::default();
        for n in 0..=limits::CHALLENGES_PER_ADDRESS_MAX {
            challenges.issue(purpose(0), Algorithm::Ed25519, &n.to_string(), at(0));
        }
        assert_eq!(challenges.len(), limits::CHALLENGES_PER_ADDRESS_MAX);
        assert!(challenges.take("0", &purpose(0), at(0)).is_err());
        assert!(challenges.take("1", &purpose(0), at(0)).is_ok());
        for n in 0..limits::CHALLENGES_MAX + 10 {
            challenges.issue(purpose(n), Algorithm::Ed25519, &format!("n{n}"), at(0));
        }
        assert_eq!(challenges.len(), limits::CHALLENGES_MAX);
        // Time brings them away too.
        challenges.issue(purpose(0), Algorithm::Ed25519, "last", at(600_000));
        assert_eq!(challenges.len(), 1);
    }
}
