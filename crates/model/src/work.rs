//! Asking for work; the states of a work unit and who may move it: one table for every door (A2A tasks, AGH work, tool calls).

use crate::{Millis, Seq};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a work unit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkState {
    /// Asked for; nobody has begun.
    Submitted,
    /// Under way.
    Working,
    /// The executor waits for an answer of the requester.
    InputRequired,
    /// The executor waits for a credential.
    AuthRequired,
    /// Done.
    Completed,
    /// Not done.
    Failed,
    /// Called off.
    Canceled,
    /// Refused by the executor.
    Rejected,
}

/// What a work unit is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnitKind {
    /// A request in words.
    #[default]
    Work,
    /// A tool that is invoked.
    Tool,
    /// A resource its owner is asked for.
    Read,
    /// A resource its owner is asked to change.
    Update,
}

/// Work that somebody asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkOrder {
    /// Who is asked: a member, a channel (whoever takes it first), or `core` with a skill.
    pub target: String,
    /// What the requester calls the unit. The same order by the same name again is the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What is to be done.
    pub content: String,
    /// The thread of the channel it is said in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// What whoever does it can do; for `core`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// The unit that this is a part of, which the requester is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// What it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// It fails when nothing is heard for this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<Millis>,
}

/// The unit of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenedWork {
    /// Its id.
    pub id: String,
    /// Its state.
    pub state: WorkState,
    /// The position of the request.
    pub seq: Seq,
    /// It was opened before.
    pub duplicate: bool,
}

/// Who moves a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// Who does the work.
    Executor,
    /// Who asked for it.
    Requester,
    /// The network itself: time-outs, removals.
    Server,
}

impl WorkState {
    /// Every state, in the order of the design.
    pub const ALL: &[WorkState] = &[
        WorkState::Submitted,
        WorkState::Working,
        WorkState::InputRequired,
        WorkState::AuthRequired,
        WorkState::Completed,
        WorkState::Failed,
        WorkState::Canceled,
        WorkState::Rejected,
    ];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            WorkState::Submitted => "submitted",
            WorkState::Working => "working",
            WorkState::InputRequired => "input_required",
            WorkState::AuthRequired => "auth_required",
            WorkState::Completed => "completed",
            WorkState::Failed => "failed",
            WorkState::Canceled => "canceled",
            WorkState::Rejected => "rejected",
        }
    }

    /// The state of this name.
    pub fn from_wire(text: &str) -> Option<WorkState> {
        WorkState::ALL.iter().copied().find(|s| s.as_str() == text)
    }

    /// Whether nothing follows.
    pub fn is_terminal(self) -> bool {
        matches!(self, WorkState::Completed | WorkState::Failed | WorkState::Canceled | WorkState::Rejected)
    }

    /// Whether the executor waits for the requester.
    pub fn waits(self) -> bool {
        matches!(self, WorkState::InputRequired | WorkState::AuthRequired)
    }

    /// Whether this move is legal. The same state again is progress.
    pub fn may_become(self, to: WorkState, by: Actor) -> bool {
        if self.is_terminal() || to == WorkState::Submitted {
            return false;
        }
        match by {
            Actor::Executor => true,
            Actor::Requester => to == WorkState::Canceled || self.waits() && to == WorkState::Working,
            Actor::Server => matches!(to, WorkState::Failed | WorkState::Canceled),
        }
    }
}

impl std::fmt::Display for WorkState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: from; columns: to, in the order of `ALL`. Letters: who may (E, R, S).
    const TABLE: &[(&str, [&str; 8])] = &[
        ("submitted", ["", "E", "E", "E", "E", "ES", "ERS", "E"]),
        ("working", ["", "E", "E", "E", "E", "ES", "ERS", "E"]),
        ("input_required", ["", "ER", "E", "E", "E", "ES", "ERS", "E"]),
        ("auth_required", ["", "ER", "E", "E", "E", "ES", "ERS", "E"]),
        ("completed", [""; 8]),
        ("failed", [""; 8]),
        ("canceled", [""; 8]),
        ("rejected", [""; 8]),
    ];

    #[test]
    fn every_move_is_as_the_table_says() {
        for (from, row) in TABLE {
            let from = WorkState::from_wire(from).unwrap();
            for (to, who) in WorkState::ALL.iter().zip(row) {
                for (actor, letter) in [(Actor::Executor, 'E'), (Actor::Requester, 'R'), (Actor::Server, 'S')] {
                    assert_eq!(from.may_become(*to, actor), who.contains(letter), "{from} to {to} by {actor:?}");
                }
            }
        }
    }

    #[test]
    fn names_read_back() {
        for state in WorkState::ALL {
            assert_eq!(WorkState::from_wire(state.as_str()), Some(*state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
        assert_eq!(WorkState::from_wire("done"), None);
    }
}
