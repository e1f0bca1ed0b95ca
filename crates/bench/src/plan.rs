//! What is measured, and for how long.

use crate::budget::Length;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The goals' numbers go up to here.
pub(crate) const LAST_GOAL: u32 = 16;

/// A part of a run that can be asked for by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// One goal, with the rows beside it.
    Goal(u32),
    /// What loopback and the disk can do at most.
    Limits,
    /// Events per CPU second with the search index caught up.
    Search,
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Part, String> {
        match text {
            "limits" => Ok(Part::Limits),
            "search" => Ok(Part::Search),
            _ => match text.parse() {
                Ok(number @ 1..=LAST_GOAL) => Ok(Part::Goal(number)),
                _ => Err(format!("{text:?} is no goal from 1 to {LAST_GOAL}, and neither `limits` nor `search`")),
            },
        }
    }
}

/// How thorough a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// At least seven passes; sizes, members and logs as the goals say.
    Full,
    /// About a minute.
    Quick,
    /// As little as possible: whether it works at all, not how well.
    Trial,
}

/// What to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// Our own executable.
    pub program: PathBuf,
    /// Our version, for the report.
    pub version: String,
    /// Where the data of the measured servers goes; a folder in it is made and removed.
    pub folder: PathBuf,
    /// Where to look for the peer, as PATH writes it.
    pub path: Option<String>,
    /// How thorough.
    pub effort: Effort,
    /// How many passes, if not the usual number.
    pub passes: Option<usize>,
    /// Only these parts.
    pub only: Option<Vec<Part>>,
    /// Gates decide how the command ends.
    pub enforce: bool,
    /// Also measure how the cost of an event grows, and draw it into this file.
    pub curves: Option<PathBuf>,
}

impl Options {
    pub(crate) fn wants(&self, part: Part) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&part))
    }

    /// Interleaved passes of what is compared.
    pub(crate) fn passes(&self) -> usize {
        let usual = match self.effort {
            // Short ones differ by a quarter on a shared machine: with five, two bad moments turned a verdict.
            Effort::Full | Effort::Quick => 7,
            Effort::Trial => 1,
        };
        self.passes.unwrap_or(usual).max(1)
    }

    /// Bytes of one event.
    pub(crate) fn sizes(&self) -> &'static [usize] {
        match self.effort {
            Effort::Full => &[256, 1024, 16_384],
            Effort::Quick | Effort::Trial => &[256],
        }
    }

    /// One measurement: long enough that its CPU time is known to about a per cent.
    pub(crate) fn length(&self) -> Length {
        let (cpu, wall) = match self.effort {
            Effort::Full => (1000, 10_000),
            Effort::Quick => (500, 4000),
            Effort::Trial => (10, 1000),
        };
        Length { cpu: Duration::from_millis(cpu), wall: Duration::from_millis(wall) }
    }

    /// Chooses by effort.
    pub(crate) fn scaled(&self, full: u64, quick: u64, trial: u64) -> u64 {
        match self.effort {
            Effort::Full => full,
            Effort::Quick => quick,
            Effort::Trial => trial,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_names() {
        assert_eq!("3".parse(), Ok(Part::Goal(3)));
        assert_eq!("16".parse(), Ok(Part::Goal(16)));
        assert_eq!("limits".parse(), Ok(Part::Limits));
        for wrong in ["0", "17", "-1", "x", ""] {
            assert!(wrong.parse::<Part>().is_err(), "{wrong:?}");
        }
    }
}
