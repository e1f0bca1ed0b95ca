//! Deliberate bugs of deciding, for the simulator to find. In a build without the feature `deliberate-bugs` none of them is ever on, and
//! each of these does nothing.

use super::deferred::{DeferralReason, Deferred};
use super::{Deferral, Task};
use crate::command::Answered;
use crate::task::Then;
use crate::texts::Texts;
use rialto_engine::input::Accepted;
use rialto_engine::mods::Runs;
use rialto_engine::{State, bugs};
use rialto_model::Millis;

const REORDERED: &str = "batch reordered";

/// The texts of a batch in the order in which they are decided.
pub(super) fn reordered(texts: Texts) -> Texts {
    if !bugs::on(REORDERED) {
        return texts;
    }
    let mut list: Vec<&[u8]> = texts.iter().collect();
    list.reverse();
    list.into_iter().collect()
}

/// Answers the batch that was just decided in the order in which it was sent.
pub(super) fn reorder_answers(then: &mut [Then]) {
    if let (true, Some(Then::Answers(_, answers, _))) = (bugs::on(REORDERED), then.last_mut()) {
        answers.reverse();
    }
}

/// Whether an event that has to wait is acked at once.
pub(super) fn acks(deferral: &Deferral) -> bool {
    bugs::on("parked event acked") && matches!(deferral, Deferral::Ask(..))
}

/// Whether an event passes others of its source that wait.
pub(super) fn overtakes() -> bool {
    bugs::on("later event overtakes a parked one")
}

/// Whether anybody's verdict counts.
pub(super) fn takes_strangers() -> bool {
    bugs::on("verdict of a stranger")
}

/// Whether what a mod sends is taken up twice.
pub(super) fn sends_twice() -> bool {
    bugs::on("what a mod sends comes twice")
}

/// Whether what is owed is forgotten at a start.
pub(super) fn forgets_owed() -> bool {
    bugs::on("owed emit forgotten at the start")
}

/// How long a mod has for an answer.
pub(super) fn patience(deadline_ms: Millis) -> Millis {
    if bugs::on("late verdict applied") { deadline_ms * 10 } else { deadline_ms }
}

/// Whether a question may be given up.
pub(super) fn may_give_up(state: &State, waiting: &DeferralReason) -> bool {
    let loaded = |name: &str| state.book.mods.iter().any(|m| m.name.as_ref() == name);
    !bugs::on("unloaded mod leaves events waiting")
        || waiting.check.as_ref().is_none_or(|pending| loaded(&pending.check.name))
}

/// Another question that a verdict is taken for than the one it answers.
pub(super) fn other_ticket(deferred: &Deferred, runs: Runs) -> Option<u64> {
    if bugs::on("verdict applied to the wrong event") { deferred.newest_asked(runs) } else { None }
}

/// Takes a verdict that nobody waits for.
pub(super) fn second_verdict() -> Option<()> {
    bugs::on("second verdict acknowledged").then_some(())
}

impl Task {
    /// The answer to an event that was not decided.
    pub(super) fn planted_ack(&self) -> Answered {
        let seq = Some(self.engine.state.book.head + 1);
        self.answered(None, Ok(Accepted { seq, ..Accepted::default() }))
    }
}
