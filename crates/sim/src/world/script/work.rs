//! Steps about work units.

use super::{ADDRESSES, FixedWord, Step, Target, one_in, optional_word, pick, word};
use crate::harness::Chance;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Who does something about a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum By {
    /// Who asked for it.
    Requester,
    /// Who does it; somebody, while nobody does.
    Executor,
    /// This one, whatever it is to the unit.
    Member(usize),
}

/// What is done about a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// A new one, perhaps as part of the one that is meant.
    Open {
        /// Whom or where it is asked for; `core` asks for a skill.
        to: Target,
        /// How long the executor may be silent.
        deadline_ms: Option<u64>,
        /// As a part of the unit meant.
        part: bool,
    },
    /// `work.update` to this state.
    Update(#[serde(deserialize_with = "word")] FixedWord),
    /// `work.artifact`, whole or a chunk.
    Artifact {
        /// To one that is there.
        append: bool,
        /// Nothing follows.
        last: bool,
    },
    /// `work.answer`.
    Answer,
    /// `work.cancel`.
    Cancel,
    /// A message in reply to the request, or to the last question or answer.
    Reply {
        /// What the reply says of the work.
        #[serde(deserialize_with = "optional_word")]
        state: Option<FixedWord>,
        /// It says that the work failed.
        fails: bool,
        /// To what was said last, not to the request.
        latest: bool,
    },
    /// A message inside the unit.
    Note {
        /// What it says of the work.
        #[serde(deserialize_with = "optional_word")]
        state: Option<FixedWord>,
    },
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            By::Requester => write!(f, "the requester"),
            By::Executor => write!(f, "the executor"),
            By::Member(who) => write!(f, "{}", ADDRESSES.get(who % ADDRESSES.len()).copied().unwrap_or_default()),
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Open { to, deadline_ms, part } => {
                write!(f, "asks {to:?} for work")?;
                deadline_ms.map_or(Ok(()), |ms| write!(f, " due in {ms} ms"))?;
                if *part { write!(f, ", as a part") } else { Ok(()) }
            }
            Work::Update(state) => write!(f, "says {state}"),
            Work::Artifact { append, last } => write!(f, "makes an artifact, append {append}, last {last}"),
            Work::Answer => write!(f, "answers"),
            Work::Cancel => write!(f, "cancels"),
            Work::Reply { state, fails, latest } => {
                write!(f, "replies, state {state:?}, fails {fails}, to what was said last {latest}")
            }
            Work::Note { state } => write!(f, "says something inside, state {state:?}"),
        }
    }
}

/// Deadlines that are likely to be met or missed within a script.
const DEADLINES_MS: [u64; 4] = [15_000, 20_000, 60_000, 120_000];

const MOVES: [&str; 12] = [
    "working",
    "working",
    "working",
    "working",
    "input_required",
    "input_required",
    "auth_required",
    "completed",
    "failed",
    "rejected",
    "canceled",
    "submitted",
];

/// Steps about work in a network.
pub(super) fn steps(c: &mut Chance, net: usize, out: &mut Vec<Step>) {
    match c.below(12) {
        0 => race(c, net, out),
        1 if one_in(c, 3) => leap(c, net, out),
        1 => sign_of_life(c, net, out),
        _ => out.push(step(c, net)),
    }
}

/// Two want to do the same.
fn race(c: &mut Chance, net: usize, out: &mut Vec<Step>) {
    let (first, second) = (pick(c, 3), pick(c, 3));
    let open = Work::Open { to: Target::Channel(0), deadline_ms: None, part: false };
    out.push(Step::Work { net, by: By::Member(first), act: open, nth: 0, calm: true });
    for by in [By::Member(first + 1), By::Member(second), By::Member(first + 2)] {
        let reply = Work::Reply { state: Some("working"), fails: false, latest: false };
        let act = if one_in(c, 3) { reply } else { Work::Update("working") };
        out.push(Step::Work { net, by, act, nth: 0, calm: false });
    }
}

/// The clock is set, which is not time that passed.
fn leap(c: &mut Chance, net: usize, out: &mut Vec<Step>) {
    let open = Work::Open { to: Target::Member(pick(c, 3)), deadline_ms: Some(120_000), part: false };
    out.push(Step::Work { net, by: By::Member(pick(c, 3)), act: open, nth: 0, calm: true });
    out.extend([Step::Pass { ms: 12_000 }, Step::Leap { ms: 3_600_000 }, Step::Look]);
}

/// Half the time, a word of the executor, and half the time again.
fn sign_of_life(c: &mut Chance, net: usize, out: &mut Vec<Step>) {
    let open = Work::Open { to: Target::Member(pick(c, 3)), deadline_ms: Some(20_000), part: false };
    out.push(Step::Work { net, by: By::Member(pick(c, 3)), act: open, nth: 0, calm: true });
    out.push(Step::Pass { ms: 12_000 });
    let act = [Work::Update("working"), Work::Artifact { append: false, last: true }][pick(c, 2)];
    out.push(Step::Work { net, by: By::Executor, act, nth: 0, calm: true });
    out.push(Step::Pass { ms: 12_000 });
    out.push(Step::Look);
}

fn step(c: &mut Chance, net: usize) -> Step {
    let nth = pick(c, 3);
    let anybody = By::Member(pick(c, 6));
    let usual = |c: &mut Chance, by: By| if one_in(c, 6) { anybody } else { by };
    let (by, act) = match c.below(32) {
        0..7 => (By::Member(pick(c, 4)), open(c)),
        7..13 => (usual(c, By::Executor), Work::Update(MOVES[pick(c, 12)])),
        // Whoever comes first.
        13..16 => (anybody, Work::Update("working")),
        16 | 17 => (usual(c, By::Executor), Work::Artifact { append: one_in(c, 2), last: one_in(c, 2) }),
        18 | 19 => (usual(c, By::Requester), Work::Answer),
        20 => (usual(c, By::Requester), Work::Cancel),
        21..24 => {
            let state = [None, None, Some("input_required"), Some("working")][pick(c, 4)];
            let by = if one_in(c, 4) { By::Requester } else { By::Executor };
            (usual(c, by), Work::Reply { state, fails: one_in(c, 4), latest: one_in(c, 3) })
        }
        24 => {
            let by = if one_in(c, 2) { By::Requester } else { By::Executor };
            (usual(c, by), Work::Note { state: [None, None, Some("working"), Some("completed")][pick(c, 4)] })
        }
        25..29 => return Step::Pass { ms: [6_000, 12_000, 17_000, 62_000][pick(c, 4)] },
        29 => return Step::Settle,
        _ => return Step::Look,
    };
    Step::Work { net, by, act, nth, calm: one_in(c, 2) }
}

fn open(c: &mut Chance) -> Work {
    let to = match c.below(10) {
        0..5 => Target::Member(pick(c, 4)),
        5..8 => Target::Channel(pick(c, 2)),
        8 => Target::Core,
        _ => [Target::Broadcast, Target::Group(0)][pick(c, 2)],
    };
    let deadline_ms = (!one_in(c, 3)).then(|| DEADLINES_MS[pick(c, 4)]);
    Work::Open { to, deadline_ms, part: one_in(c, 4) }
}
