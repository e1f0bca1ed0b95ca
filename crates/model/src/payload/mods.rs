//! What members that serve mods say: `network.mod.serve` and `network.mod.verdict`.

use crate::Millis;
use crate::mods::{Mode, OnError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// `network.mod.serve`: a mod that the sender serves from now on, or no longer. What is absent stays, or has its default.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct ServedMod {
    /// Its name.
    pub name: String,
    /// What it may do; required for a new one.
    pub mode: Option<Mode>,
    /// Patterns on the types that it sees; none means all.
    pub intercepts: Option<Vec<String>>,
    /// Its place within its mode.
    pub priority: Option<i32>,
    /// How long it may take.
    pub deadline_ms: Option<Millis>,
    /// What becomes of an event when it fails.
    pub on_error: Option<OnError>,
    /// It is served no longer.
    pub unload: Option<bool>,
}

/// What a mod says of an event that it was asked about: `network.mod.verdict`, and what a process answers.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct ModAnswer {
    /// The ticket of the check that is answered; a process answers in turn and needs none.
    pub ticket: Option<Value>,
    /// `pass`, `reject` or `modified`.
    pub verdict: String,
    /// The guard's own code of a refusal.
    pub code: Option<String>,
    /// Why it is refused.
    pub message: Option<String>,
    /// What the event is from now on.
    pub event: Option<Box<EventChanges>>,
    /// Events that are sent because of it.
    #[schemars(with = "Option<Vec<Map<String, Value>>>")]
    pub emit: Option<Vec<Box<RawValue>>>,
}

/// The members of an event that a transform may change; others are not looked at.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct EventChanges {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Where it goes.
    pub target: Option<String>,
    /// What it says.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub payload: Option<Box<RawValue>>,
    /// What is said about it.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub metadata: Option<Box<RawValue>>,
    /// Who may see it.
    pub visibility: Option<String>,
}
