//! How long one measurement lasts: until the server has used enough CPU time to be measured well.

use crate::cpu::Usage;
use crate::error::BenchError;
use std::time::{Duration, Instant};

/// Looks at the server's CPU time are this far apart.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How much one measurement may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Length {
    /// CPU time of the server that is enough.
    pub(crate) cpu: Duration,
    /// Ends here in any case.
    pub(crate) wall: Duration,
}

/// A running measurement.
#[derive(Debug)]
pub(crate) struct Budget {
    pid: u32,
    before: Usage,
    began: Instant,
    looked: Instant,
    length: Length,
    spent: bool,
}

impl Budget {
    /// Begins now.
    pub(crate) fn begin(pid: u32, length: Length) -> Result<Budget, BenchError> {
        let now = Instant::now();
        Ok(Budget { pid, before: Usage::of(pid)?, began: now, looked: now, length, spent: false })
    }

    /// Whether it is time to stop.
    pub(crate) fn spent(&mut self) -> Result<bool, BenchError> {
        if !self.spent && self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            let used = Usage::of(self.pid)?.serving_since(&self.before);
            self.spent = used >= self.length.cpu || self.began.elapsed() >= self.length.wall;
        }
        Ok(self.spent)
    }

    /// Ends now, with what was done.
    pub(crate) fn end(&self, count: u64) -> Result<Sample, BenchError> {
        let wall = self.began.elapsed();
        Ok(Sample { count, cpu: Usage::of(self.pid)?.serving_since(&self.before), wall })
    }

    /// Ends now, with the CPU time of every thread.
    pub(crate) fn end_with_everything(&self, count: u64) -> Result<Sample, BenchError> {
        let wall = self.began.elapsed();
        Ok(Sample { count, cpu: Usage::of(self.pid)?.everything_since(&self.before), wall })
    }
}

/// What one measurement gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Things done.
    pub(crate) count: u64,
    /// CPU time of the server.
    pub(crate) cpu: Duration,
    /// Time that passed.
    pub(crate) wall: Duration,
}

impl Sample {
    /// Things per second of the server's CPU time.
    pub(crate) fn per_cpu_second(&self) -> f64 {
        self.count as f64 / self.cpu.as_secs_f64().max(1e-9)
    }

    /// Things per second that passed.
    pub(crate) fn per_second(&self) -> f64 {
        self.count as f64 / self.wall.as_secs_f64().max(1e-9)
    }

    /// Microseconds of CPU time for each.
    pub(crate) fn cpu_micros(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / (self.count as f64).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        let sample = Sample { count: 1000, cpu: Duration::from_millis(500), wall: Duration::from_secs(2) };
        assert_eq!(sample.per_cpu_second(), 2000.0);
        assert_eq!(sample.per_second(), 500.0);
        assert_eq!(sample.cpu_micros(), 500.0);
    }

    #[test]
    fn a_measurement_ends_by_itself() {
        let length = Length { cpu: Duration::from_secs(1000), wall: Duration::from_millis(30) };
        let mut budget = Budget::begin(std::process::id(), length).unwrap();
        assert!(!budget.spent().unwrap());
        while !budget.spent().unwrap() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(budget.end(1).unwrap().wall >= length.wall);
    }
}
