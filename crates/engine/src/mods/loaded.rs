//! What every event asks of the loaded mods, looked up once when they change.

use super::{ModConfig, persistence, workspace};
use crate::state::State;

/// Where the mods stand that every event asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Loaded {
    /// Some mod runs elsewhere.
    pub(crate) external: bool,
    /// History takes so many bytes only.
    pub(crate) bounded_by_size: bool,
    persistence: Option<usize>,
    workspace: Option<usize>,
}

impl Loaded {
    /// Looks the mods of a network up.
    pub(crate) fn of(mods: &[ModConfig]) -> Loaded {
        let enabled = |name: &str| mods.iter().position(|m| m.enabled && m.name.as_ref() == name);
        let persistence = enabled(persistence::NAME);
        Loaded {
            external: mods.iter().any(|m| !m.runs.is_builtin()),
            bounded_by_size: persistence.and_then(|at| mods.get(at)).is_some_and(persistence::has_size),
            persistence,
            workspace: enabled(workspace::NAME),
        }
    }
}

impl State {
    /// Takes note of other mods.
    pub(crate) fn mods_changed(&mut self) {
        self.loaded = Loaded::of(&self.book.mods);
    }

    /// The enabled `mod/persistence`.
    pub(crate) fn persistence(&self) -> Option<&ModConfig> {
        self.loaded.persistence.and_then(|at| self.book.mods.get(at))
    }

    /// The enabled `mod/workspace`.
    pub(crate) fn workspace(&self) -> Option<&ModConfig> {
        self.loaded.workspace.and_then(|at| self.book.mods.get(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_enabled_mods_are_found() {
        let mut mods: Vec<ModConfig> =
            ["auth", "workspace", "persistence"].iter().map(|name| ModConfig::standard(name).unwrap()).collect();
        let found = Loaded::of(&mods);
        assert_eq!((found.workspace, found.persistence, found.bounded_by_size), (Some(1), Some(2), false));
        mods[1].enabled = false;
        mods[2].config.insert("max_bytes".into(), 5.into());
        let found = Loaded::of(&mods);
        assert_eq!((found.workspace, found.persistence, found.bounded_by_size), (None, Some(2), true));
        mods.push(ModConfig::process("lint", super::super::Mode::Guard));
        assert!(Loaded::of(&mods).external);
    }
}
