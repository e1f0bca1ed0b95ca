//! Mods that members serve: who may, under which name, and what becomes of them when their server goes.

use super::{DEADLINE_MS, Runs};
use crate::emit::{self, EmitDraft};
use crate::input::{Accepted, Clock, Effects, Stop};
use crate::mods::{ModConfig, Mode, STANDARD, manage, sort};
use crate::presence::VolatileState;
use crate::record::Change;
use crate::state::{MemberId, State};
use rialto_model::payload::ServedMod;
use rialto_model::view::AdminOutcome;
use rialto_model::{Address, ErrorCode, Fault, limits};
use serde_json::json;

fn bad(field: &str, text: impl Into<String>) -> Fault {
    Fault::new(ErrorCode::InvalidPayload, text.into()).field(&format!("payload.{field}"))
}

/// `network.mod.serve`: from here on the sender is asked.
pub(crate) fn serve(
    state: &State,
    live: &mut VolatileState,
    draft: EmitDraft<'_, '_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let wish: ServedMod = draft.said()?;
    check_name(state, &wish.name)?;
    let id = draft.member;
    let known = state.book.mods.iter().find(|m| m.name.as_ref() == wish.name);
    let own = known.is_some_and(|m| m.runs == Runs::Served(id));
    if known.is_some() && !own || STANDARD.contains(&wish.name.as_str()) {
        return Err(Fault::new(
            ErrorCode::AlreadyExists,
            format!("mod/{} exists already: serve one under another name", wish.name),
        )
        .field("payload.name")
        .into());
    }
    if wish.unload == Some(true) {
        if !own {
            return Err(Fault::new(ErrorCode::ModNotFound, format!("mod/{} is not served by you", wish.name)).into());
        }
        let mut accepted = emit::commit(state, live, draft, now, fx)?;
        accepted.says(json!(manage::remove(state, live, &wish.name, now, fx)?));
        return Ok(accepted);
    }
    may_serve(state, id, &wish.name)?;
    let config = config(&wish, id, known)?;
    if known.is_none() {
        room_for_one(state)?;
    }
    let mut accepted = emit::commit(state, live, draft, now, fx)?;
    accepted.says(json!(manage::put(state, live, &config, now, fx)));
    Ok(accepted)
}

/// The network has a place for another mod from elsewhere.
pub(crate) fn room_for_one(state: &State) -> Result<(), Fault> {
    if state.book.mods.iter().filter(|m| !m.runs.is_builtin()).count() < limits::MODS_OUTSIDE_MAX {
        return Ok(());
    }
    let text = format!("a network has at most {} mods that run elsewhere", limits::MODS_OUTSIDE_MAX);
    Err(Fault::new(ErrorCode::NetworkFull, text))
}

/// A mod's name is what can stand in `mod/{name}`.
pub(crate) fn check_name(state: &State, name: &str) -> Result<(), Fault> {
    let address = Address::parse_in(&format!("mod/{name}"), &state.network);
    match address {
        Ok(address) if address.as_str() == format!("mod/{name}") => Ok(()),
        Ok(_) | Err(_) => Err(bad("name", format!("{name:?} cannot be the name of a mod"))),
    }
}

fn may_serve(state: &State, id: MemberId, name: &str) -> Result<(), Fault> {
    // Whoever serves a mod sees everybody's mail: no role is enough.
    let approved = state.book.approved.get(name).is_some_and(|who| who.contains(&id));
    if approved || crate::bugs::on("unapproved mod asked") {
        return Ok(());
    }
    let text =
        format!("the operator has not approved you to serve this mod; it may do so: rialto mod approve {name} AGENT");
    Err(Fault::new(ErrorCode::Forbidden, text))
}

/// What is not said stays as it was, or has its default.
fn config(wish: &ServedMod, id: MemberId, known: Option<&ModConfig>) -> Result<ModConfig, Fault> {
    let mode = match wish.mode {
        Some(mode) => mode,
        None => known.map(|m| m.mode).ok_or_else(|| bad("mode", "say the mode: guard, transform or observe"))?,
    };
    let mut config = known.cloned().unwrap_or_else(|| ModConfig::new(&wish.name, mode, default_priority(mode)));
    config.mode = mode;
    config.runs = Runs::Served(id);
    config.priority = wish.priority.unwrap_or(config.priority);
    config.intercepts = wish.intercepts.clone().unwrap_or(config.intercepts);
    config.on_error = wish.on_error.unwrap_or(config.on_error);
    if let Some(ms) = wish.deadline_ms {
        config.deadline_ms = Some(ms).filter(|ms| *ms != DEADLINE_MS);
    }
    check(&config)?;
    Ok(config)
}

/// Between the standard mods and those that should come last.
pub(crate) fn default_priority(mode: Mode) -> i32 {
    match mode {
        Mode::Guard => 50,
        Mode::Transform => 60,
        Mode::Observe => 110,
    }
}

/// What every mod from elsewhere has to keep to.
pub(crate) fn check(config: &ModConfig) -> Result<(), Fault> {
    if config.deadline_ms.is_some_and(|ms| !(1..=limits::MOD_DEADLINE_MS_MAX).contains(&ms)) {
        return Err(bad("deadline_ms", format!("deadline_ms is 1 to {}", limits::MOD_DEADLINE_MS_MAX)));
    }
    if config.intercepts.len() > limits::MOD_PATTERNS_MAX
        || config.intercepts.iter().any(|p| p.is_empty() || p.len() > limits::EVENT_TYPE_CHARS_MAX)
    {
        let text = format!("intercepts holds at most {} patterns on types", limits::MOD_PATTERNS_MAX);
        return Err(bad("intercepts", text));
    }
    if !config.config.is_empty() {
        return Err(bad("config", "a mod that runs elsewhere has its settings there"));
    }
    Ok(())
}

/// The operator lets a member serve a mod, or no longer.
pub(crate) fn approve(
    state: &State,
    name: &str,
    address: &str,
    on: bool,
    fx: &mut Effects,
) -> Result<AdminOutcome, Fault> {
    check_name(state, name)?;
    let member = crate::membership::find_named(state, address)
        .ok_or_else(|| Fault::new(ErrorCode::UnknownTarget, format!("{address:?} is not a member")))?;
    let known = state.book.approved.get(name).is_some_and(|who| who.contains(&member));
    let all: usize = state.book.approved.values().map(std::collections::BTreeSet::len).sum();
    if on && !known && all >= limits::MOD_APPROVALS_MAX {
        return Err(Fault::new(
            ErrorCode::NetworkFull,
            format!(
                "this network has reached its limit of {} approvals of mods: withdraw some",
                limits::MOD_APPROVALS_MAX
            ),
        ));
    }
    if known != on {
        fx.change(Change::ModApproved { name: name.into(), member, on });
    }
    let address = state.member(member).map(|m| m.address.clone());
    Ok(AdminOutcome::ModApproved { served: format!("mod/{name}"), address, approved: on })
}

/// The member leaves for good or is removed: what it serves is unloaded.
pub(crate) fn left(state: &State, live: &mut VolatileState, id: MemberId, now: Clock, fx: &mut Effects) {
    let gone: Vec<Box<str>> = served(state, id).map(|m| m.name.clone()).collect();
    if gone.is_empty() {
        return;
    }
    let mut list: Vec<ModConfig> = state.book.mods.iter().filter(|m| !gone.contains(&m.name)).cloned().collect();
    sort(&mut list);
    fx.change(Change::Mods { mods: list });
    for name in gone {
        let payload = json!({ "mod": format!("mod/{name}"), "change": "unloaded", "reason": "its server left" });
        manage::told(state, live, &payload, now, fx);
    }
}

fn served(state: &State, id: MemberId) -> impl Iterator<Item = &ModConfig> {
    state.book.mods.iter().filter(move |m| m.runs == Runs::Served(id))
}
