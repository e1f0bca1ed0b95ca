//! mod/persistence: which events history keeps, and for how long.

use super::ModConfig;
use crate::glob;
use crate::state::State;
use rialto_model::Millis;

/// Its name.
pub(crate) const NAME: &str = "persistence";

/// Whether history keeps an event of this type.
pub(crate) fn keeps(state: &State, kind: &str) -> bool {
    state.persistence().is_some_and(|m| m.intercepts(kind) && !m.list("skip").any(|p| glob::matches(p, kind)))
}

/// How long, how many and how much history keeps; none means all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Retention {
    pub(crate) age: Option<Millis>,
    pub(crate) events: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

pub(crate) fn retention(state: &State) -> Retention {
    if state.book.settings.keep_for_ever {
        return Retention::default();
    }
    let Some(config) = state.persistence() else { return Retention::default() };
    let days = config.number("retention_days").unwrap_or(30.0);
    let whole = |name: &str| config.number(name).filter(|n| *n >= 1.0).map(|n| n as u64);
    let age = (days > 0.0).then_some((days * 86_400_000.0) as Millis);
    Retention { age, events: whole("max_events"), bytes: whole("max_bytes") }
}

/// Whether history may take so many bytes only.
pub(crate) fn has_size(config: &ModConfig) -> bool {
    config.number("max_bytes").is_some_and(|bytes| bytes >= 1.0)
}

/// Time between purges.
pub(crate) fn purge_interval(state: &State) -> Millis {
    let seconds =
        state.persistence().and_then(|m| m.number("purge_interval_s")).filter(|s| *s >= 0.0).unwrap_or(3600.0);
    (seconds * 1000.0) as Millis
}
