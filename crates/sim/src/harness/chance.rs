//! Chance from a seed, so that a failure can be played again.

use std::time::{SystemTime, UNIX_EPOCH};

/// The seed of this run: `RIALTO_SEED`, else the clock; printed either way.
pub fn seed() -> u64 {
    let chosen = std::env::var("RIALTO_SEED").ok().map(|text| text.trim().parse().expect("RIALTO_SEED is a number"));
    let seed = chosen.unwrap_or_else(|| {
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        u64::try_from(nanos & u128::from(u32::MAX)).unwrap_or_default()
    });
    eprintln!("RIALTO_SEED={seed}");
    seed
}

/// A stream of numbers (splitmix64).
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end.max(1)
    }
}
