//! How an operator changes the pipeline: load, change, unload, order. Each act is one record with the whole new list.

use super::analytics;
use super::external::serve;
use super::{ModConfig, Mode, OnError, Runs, options, sort};
use crate::input::{Clock, Effects};
use crate::presence::VolatileState;
use crate::record::Change;
use crate::server_events;
use crate::state::{MemberId, State};
use rialto_model::view::{AdminOutcome, ApprovedMod, Done, ModKind, ModList, ModSetting, ModView};
use rialto_model::{ErrorCode, EventType, Fault, Millis};
use serde_json::{Map, Value, json};

/// A change of a loaded mod; what is absent stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModPatch {
    /// Settings by name; null takes one back to its default.
    pub config: Map<String, Value>,
    /// Patterns on types.
    pub intercepts: Option<Vec<String>>,
    /// Place within its mode.
    pub priority: Option<i32>,
    /// On or off.
    pub enabled: Option<bool>,
    /// What becomes of an event when it fails.
    pub on_error: Option<OnError>,
    /// How long it may take.
    pub deadline_ms: Option<Millis>,
}

impl ModPatch {
    /// The mod after the change.
    pub fn apply(&self, mut config: ModConfig) -> ModConfig {
        for (key, value) in &self.config {
            if value.is_null() {
                config.config.remove(key);
            } else {
                config.config.insert(key.clone(), value.clone());
            }
        }
        config.intercepts = self.intercepts.clone().unwrap_or(config.intercepts);
        config.priority = self.priority.unwrap_or(config.priority);
        config.enabled = self.enabled.unwrap_or(config.enabled);
        config.on_error = self.on_error.unwrap_or(config.on_error);
        config.deadline_ms = self.deadline_ms.or(config.deadline_ms);
        config
    }
}

fn not_loaded(name: &str) -> Fault {
    Fault::new(ErrorCode::ModNotFound, format!("mod/{name} is not loaded"))
}

fn find<'s>(state: &'s State, name: &str) -> Result<&'s ModConfig, Fault> {
    state.book.mods.iter().find(|m| m.name.as_ref() == name).ok_or_else(|| not_loaded(name))
}

/// Loads a mod that is not loaded: one that is keeps its settings, which may guard history.
pub(crate) fn load(
    state: &State,
    live: &mut VolatileState,
    config: &ModConfig,
    now: Clock,
    fx: &mut Effects,
) -> Result<ModView, Fault> {
    if find(state, &config.name).is_ok() {
        return Err(Fault::new(ErrorCode::AlreadyExists, format!("mod/{} is loaded", config.name)));
    }
    set(state, live, config, now, fx)
}

/// Loads a mod, or replaces it whole.
pub(crate) fn set(
    state: &State,
    live: &mut VolatileState,
    config: &ModConfig,
    now: Clock,
    fx: &mut Effects,
) -> Result<ModView, Fault> {
    match config.runs {
        Runs::Builtin => {
            // A mod this build does not have would fail closed on every event.
            if ModConfig::standard(&config.name)?.mode != config.mode {
                let text = format!("mod/{} has another mode", config.name);
                return Err(Fault::new(ErrorCode::InvalidArgument, text).field("mode"));
            }
            options::check(&config.name, &config.config)?;
        }
        Runs::Process | Runs::Served(_) => {
            serve::check_name(state, &config.name)?;
            if super::STANDARD.contains(&config.name.as_ref()) {
                return Err(Fault::new(ErrorCode::AlreadyExists, format!("mod/{} is a standard mod", config.name)));
            }
            serve::check(config)?;
            if find(state, &config.name).is_err() {
                serve::room_for_one(state)?;
            }
        }
    }
    Ok(put(state, live, config, now, fx))
}

/// Puts a mod that was looked at into its place.
pub(crate) fn put(
    state: &State,
    live: &mut VolatileState,
    config: &ModConfig,
    now: Clock,
    fx: &mut Effects,
) -> ModView {
    if find(state, &config.name).is_ok_and(|known| known == config) {
        return shown(state, config);
    }
    let change = if find(state, &config.name).is_ok() { "changed" } else { "loaded" };
    let mut list: Vec<ModConfig> = state.book.mods.iter().filter(|m| m.name != config.name).cloned().collect();
    list.push(config.clone());
    sort(&mut list);
    fx.change(Change::Mods { mods: list });
    told(state, live, &json!({ "mod": format!("mod/{}", config.name), "change": change }), now, fx);
    shown(state, config)
}

/// Changes a loaded mod.
pub(crate) fn change(
    state: &State,
    live: &mut VolatileState,
    name: &str,
    patch: &ModPatch,
    now: Clock,
    fx: &mut Effects,
) -> Result<ModView, Fault> {
    let changed = patch.apply(find(state, name)?.clone());
    set(state, live, &changed, now, fx)
}

/// Unloads a mod.
pub(crate) fn remove(
    state: &State,
    live: &mut VolatileState,
    name: &str,
    now: Clock,
    fx: &mut Effects,
) -> Result<AdminOutcome, Fault> {
    find(state, name)?;
    let list = state.book.mods.iter().filter(|m| m.name.as_ref() != name).cloned().collect();
    fx.change(Change::Mods { mods: list });
    if name == analytics::NAME {
        live.analytics = None;
    }
    told(state, live, &json!({ "mod": format!("mod/{name}"), "change": "unloaded" }), now, fx);
    Ok(AdminOutcome::ModUnloaded { address: format!("mod/{name}"), status: Done::Unloaded })
}

/// Priorities of an ordered mode are this far apart, so that one more finds a place between two.
const STEP: i32 = 10;

/// Puts the mods of one mode in order: the named ones first, then the others as they were.
pub(crate) fn order(
    state: &State,
    live: &mut VolatileState,
    mode: Option<Mode>,
    names: &[String],
    now: Clock,
    fx: &mut Effects,
) -> Result<AdminOutcome, Fault> {
    let bad = |text: String| Fault::new(ErrorCode::InvalidArgument, format!("names: {text}")).field("names");
    let Some(first) = names.first() else { return Err(bad("name at least one mod".to_owned())) };
    let mode = mode.map_or_else(|| find(state, first).map(|m| m.mode), Ok)?;
    let mut place = std::collections::BTreeMap::new();
    for (at, name) in names.iter().enumerate() {
        let known = find(state, name)?;
        if known.mode != mode {
            return Err(bad(format!("mod/{name} is a {}, not a {}", known.mode.as_str(), mode.as_str())));
        }
        if place.insert(name.as_str(), at).is_some() {
            return Err(bad(format!("mod/{name} is named twice")));
        }
    }
    let mut ordered: Vec<&ModConfig> = state.book.mods.iter().filter(|m| m.mode == mode).collect();
    // Stable: those that are not named keep their order.
    ordered.sort_by_key(|m| place.get(m.name.as_ref()).copied().unwrap_or(usize::MAX));
    let priorities: std::collections::BTreeMap<&str, i32> =
        ordered.iter().zip(0..).map(|(m, at)| (m.name.as_ref(), STEP.saturating_mul(at))).collect();
    let addresses: Vec<String> = ordered.iter().map(|m| format!("mod/{}", m.name)).collect();
    let mut list = state.book.mods.clone();
    for config in &mut list {
        config.priority = priorities.get(config.name.as_ref()).copied().unwrap_or(config.priority);
    }
    sort(&mut list);
    if list != state.book.mods {
        fx.change(Change::Mods { mods: list });
        told(state, live, &json!({ "mods": addresses, "change": "ordered" }), now, fx);
    }
    Ok(AdminOutcome::ModsOrdered { mode, mods: addresses })
}

/// The pipeline as the operator sees it, with every setting its mods know, and what this build could load.
pub fn listed(state: &State) -> ModList {
    let book = &state.book;
    let described = |config: &ModConfig| {
        let known = options::of(&config.name).unwrap_or_default().iter();
        let settings = known.map(|setting| {
            let default: Value = serde_json::from_str(setting.default).unwrap_or_default();
            let value = config.config.get(setting.name).unwrap_or(&default).clone();
            ModSetting { name: setting.name.to_owned(), value, default, does: setting.doc.to_owned() }
        });
        ModView { settings: Some(settings.collect()), ..shown(state, config) }
    };
    let name = |id: &MemberId| state.member(*id).map(|m| m.address.clone());
    let approved = book.approved.iter().map(|(mod_name, who)| ApprovedMod {
        address: format!("mod/{mod_name}"),
        agents: who.iter().filter_map(name).collect(),
    });
    ModList {
        mods: book.mods.iter().map(described).collect(),
        revision: book.mods_revision,
        available: super::STANDARD.iter().map(ToString::to_string).collect(),
        approved: approved.collect(),
    }
}

/// A mod as the operator sees it.
fn shown(state: &State, config: &ModConfig) -> ModView {
    let kind = match config.runs {
        Runs::Builtin => ModKind::Builtin,
        Runs::Process => ModKind::Process,
        Runs::Served(_) => ModKind::Served,
    };
    let outside = kind != ModKind::Builtin;
    let served_by = match config.runs {
        Runs::Served(id) => Some(state.member(id).map(|m| m.address.clone())),
        Runs::Builtin | Runs::Process => None,
    };
    ModView {
        address: format!("mod/{}", config.name),
        name: config.name.clone(),
        kind,
        mode: config.mode,
        priority: config.priority,
        intercepts: config.intercepts.clone(),
        config: config.config.clone(),
        enabled: config.enabled,
        on_error: (outside || config.on_error != OnError::default()).then_some(config.on_error),
        deadline_ms: if outside { Some(config.deadline()) } else { config.deadline_ms },
        served_by,
        settings: None,
    }
}

/// Tells everybody that the pipeline is another one now.
pub(crate) fn told(state: &State, live: &mut VolatileState, payload: &Value, now: Clock, fx: &mut Effects) {
    fx.after.push(server_events::server_signal(state, live, EventType::ModChanged, payload, now));
}
