//! How long to wait before trying again: doubling, capped, with jitter so that many clients do not come back at once.

use std::time::Duration;

/// Doubling waits between `first` and `cap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first wait.
    pub first: Duration,
    /// No wait is longer than this (before jitter).
    pub cap: Duration,
    failures: u32,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::new(Duration::from_millis(250), Duration::from_secs(15))
    }
}

impl Backoff {
    /// Waits that double from `first` to `cap`.
    pub fn new(first: Duration, cap: Duration) -> Backoff {
        Backoff { first, cap, failures: 0 }
    }

    /// The next wait, with ±20 % of jitter.
    pub fn next_wait(&mut self) -> Duration {
        let plain = self.plain_wait();
        self.failures = self.failures.saturating_add(1);
        let jitter = f64::from(random_u32() % 401) / 1000.0; // 0.0 to 0.4
        plain.mul_f64(0.8 + jitter)
    }

    /// A connection was made: begin again with the first wait.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    fn plain_wait(&self) -> Duration {
        let factor = 1u32.checked_shl(self.failures.min(20)).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.cap)
    }
}

fn random_u32() -> u32 {
    // Jitter needs no secret: without a source of randomness the middle value serves.
    getrandom::u32().unwrap_or(200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_start_over() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        for plain_ms in [100, 200, 400, 800, 1000, 1000] {
            let wait = backoff.next_wait();
            let plain = Duration::from_millis(plain_ms);
            assert!(wait >= plain.mul_f64(0.79) && wait <= plain.mul_f64(1.21), "{wait:?}");
        }
        backoff.reset();
        assert!(backoff.next_wait() <= Duration::from_millis(121));
        backoff.failures = u32::MAX;
        assert!(backoff.next_wait() <= Duration::from_millis(1200));
    }
}
