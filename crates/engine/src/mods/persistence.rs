//! mod/persistence: which events history keeps, and for how long.

use crate::glob;
use crate::state::State;
use rialto_model::Millis;

/// Whether history keeps an event of this type.
pub(crate) fn keeps(state: &State, kind: &str) -> bool {
    state
        .book
        .mods
        .iter()
        .find(|m| m.enabled && m.name.as_ref() == "persistence")
        .is_some_and(|m| m.intercepts(kind) && !m.list("skip").any(|p| glob::matches(p, kind)))
}

/// Age after which history forgets, and how many events it keeps; none means for ever.
pub(crate) fn retention(state: &State) -> (Option<Millis>, Option<u64>) {
    let Some(config) = state.book.mods.iter().find(|m| m.enabled && m.name.as_ref() == "persistence") else {
        return (None, None);
    };
    if state.book.settings.keep_for_ever {
        return (None, None);
    }
    let days = config.number("retention_days").unwrap_or(30.0);
    let count = config.number("max_events").unwrap_or(0.0);
    let age = (days > 0.0).then_some((days * 86_400_000.0) as Millis);
    (age, (count >= 1.0).then_some(count as u64))
}

/// Time between purges.
pub(crate) fn purge_interval(state: &State) -> Millis {
    let config = state.book.mods.iter().find(|m| m.enabled && m.name.as_ref() == "persistence");
    let seconds = config.and_then(|m| m.number("purge_interval_s")).filter(|s| *s >= 0.0).unwrap_or(3600.0);
    (seconds * 1000.0) as Millis
}
