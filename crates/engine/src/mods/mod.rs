//! The mod pipeline: guards, transforms, observers, in that order (OpenAgents sheet, section 9).
//!
//! Invariant: a guard cannot change an event, a transform cannot refuse one, an observer can do neither.

pub mod analytics;
pub mod auth;
pub mod enrichment;
pub mod external;
mod loaded;
pub mod manage;
pub mod options;
pub mod persistence;
pub mod rate_limiter;
pub mod workspace;

pub use external::Runs;
pub(crate) use loaded::Loaded;
pub use rialto_model::mods::{Mode, OnError};

use crate::glob;
use crate::input::Clock;
use crate::presence::VolatileState;
use crate::state::{MemberId, State};
use rialto_model::metadata::Metadata;
use rialto_model::{ErrorCode, Fault, Millis};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The mods of this build.
pub const STANDARD: &[&str] =
    &["auth", "rate-limiter", "access-control", "enrichment", "workspace", "persistence", "analytics"];

/// A loaded mod.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModConfig {
    /// Name; its address is `mod/{name}`.
    pub name: Box<str>,
    /// What it may do.
    pub mode: Mode,
    /// Lower runs earlier within its mode.
    pub priority: i32,
    /// Patterns on types; none means all.
    pub intercepts: Vec<String>,
    /// Its own settings.
    pub config: Map<String, Value>,
    /// Off without being unloaded.
    pub enabled: bool,
    /// Where it runs.
    #[serde(rename = "kind", default, skip_serializing_if = "Runs::is_builtin")]
    pub runs: Runs,
    /// What becomes of an event when it fails; of transforms that run elsewhere.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_error: OnError,
    /// How long it may take, if it runs elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<Millis>,
}

fn is_default(policy: &OnError) -> bool {
    *policy == OnError::default()
}

impl ModConfig {
    /// A standard mod with its defaults.
    pub fn standard(name: &str) -> Result<ModConfig, Fault> {
        let (mode, priority) = match name {
            "auth" => (Mode::Guard, 0),
            "rate-limiter" => (Mode::Guard, 10),
            "access-control" => (Mode::Guard, 20),
            "enrichment" => (Mode::Transform, 30),
            "workspace" => (Mode::Transform, 50),
            "persistence" => (Mode::Observe, 90),
            "analytics" => (Mode::Observe, 100),
            _ => return Err(Fault::new(ErrorCode::ModNotFound, format!("mod/{name} is not one of this build's mods"))),
        };
        Ok(ModConfig::new(name, mode, priority))
    }

    /// A mod of this build, before anything else is known of it.
    pub fn new(name: &str, mode: Mode, priority: i32) -> ModConfig {
        ModConfig {
            name: name.into(),
            mode,
            priority,
            intercepts: Vec::new(),
            config: Map::new(),
            enabled: true,
            runs: Runs::Builtin,
            on_error: OnError::Skip,
            deadline_ms: None,
        }
    }

    /// A mod that runs as a process, with its defaults.
    pub fn process(name: &str, mode: Mode) -> ModConfig {
        ModConfig { runs: Runs::Process, ..ModConfig::new(name, mode, external::serve::default_priority(mode)) }
    }

    /// How long it may take.
    pub fn deadline(&self) -> Millis {
        self.deadline_ms.unwrap_or(external::DEADLINE_MS)
    }

    /// Whether the mod looks at events of this type.
    pub fn intercepts(&self, kind: &str) -> bool {
        self.enabled && (self.intercepts.is_empty() || self.intercepts.iter().any(|p| glob::matches(p, kind)))
    }

    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        self.config.get(key).and_then(Value::as_f64)
    }

    pub(crate) fn flag(&self, key: &str, default: bool) -> bool {
        self.config.get(key).and_then(Value::as_bool).unwrap_or(default)
    }

    pub(crate) fn list(&self, key: &str) -> impl Iterator<Item = &str> {
        self.config.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }
}

/// Pipeline order: mode, priority, name.
pub fn sort(mods: &mut [ModConfig]) {
    mods.sort_by(|a, b| (a.mode, a.priority, &a.name).cmp(&(b.mode, b.priority, &b.name)));
}

/// What the pipeline is asked about.
#[derive(Debug)]
pub struct PipelineInput<'d, 'a> {
    /// Type.
    pub kind: &'d str,
    /// The sender; none before its join.
    pub source: Option<MemberId>,
    /// The sender's address.
    pub address: &'d str,
    /// The sender's verification level.
    pub verification: u8,
    /// It goes to everybody.
    pub broadcast: bool,
    /// Metadata, which transforms may change.
    pub metadata: &'d mut Metadata<'a>,
    /// When it will be stamped.
    pub stamp: u64,
}

/// Runs the guards.
pub(crate) fn guard(
    state: &State,
    live: &mut VolatileState,
    draft: &PipelineInput<'_, '_>,
    now: Clock,
) -> Result<(), Fault> {
    for config in state.book.mods.iter().filter(|m| m.mode == Mode::Guard && m.intercepts(draft.kind)) {
        let verdict = match config.name.as_ref() {
            // Asked before anything was decided (`external::walk`).
            _ if !config.runs.is_builtin() => continue,
            "auth" => auth::check(state, config, draft, now),
            rate_limiter::NAME => rate_limiter::check(&mut live.buckets, config, draft, now),
            // Judged where the resource is known (`resources::access`), before anything else could tell of it.
            "access-control" => Ok(()),
            // Only guards of this build can be loaded; anything else fails closed.
            _ => Err(Fault::from(ErrorCode::ModFailed)),
        };
        verdict.map_err(|fault| fault.by(&format!("mod/{}", config.name)))?;
    }
    Ok(())
}

/// Runs the transforms.
pub(crate) fn transform(state: &State, draft: &mut PipelineInput<'_, '_>) {
    for config in state.book.mods.iter().filter(|m| m.mode == Mode::Transform && m.intercepts(draft.kind)) {
        if config.runs.is_builtin() && config.name.as_ref() == enrichment::NAME {
            enrichment::enrich(state, config, draft);
        }
    }
}
