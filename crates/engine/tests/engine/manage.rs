//! Loading, changing and ordering mods at run time (sheet section 9.2).

use crate::world::{World, outcome, signals};
use rialto_engine::AdminOp;
use rialto_engine::mods::manage::ModPatch;
use rialto_engine::mods::{ModConfig, Mode};
use serde_json::{Value, json};

fn pipeline(world: &World) -> String {
    let mods = world.state().book.mods.iter();
    mods.map(|m| format!("{}:{}", m.name, m.priority)).collect::<Vec<_>>().join(" ")
}

fn order(world: &mut World, mode: Option<Mode>, names: &[&str]) -> Result<Value, rialto_model::Fault> {
    world.admin(AdminOp::OrderMods(mode, names.iter().map(ToString::to_string).collect()))
}

fn all() -> World {
    let mut world = World::bare();
    for name in ["auth", "rate-limiter", "enrichment", "persistence", "analytics"] {
        world.admin(AdminOp::LoadMod(ModConfig::standard(name).unwrap())).unwrap();
    }
    world
}

#[test]
fn order_rewrites_the_priorities_of_one_mode_at_once() {
    let mut world = all();
    assert_eq!(pipeline(&world), "auth:0 rate-limiter:10 enrichment:30 persistence:90 analytics:100");
    let records = world.records.len();
    let answer = order(&mut world, Some(Mode::Guard), &["rate-limiter", "auth"]).unwrap();
    assert_eq!(answer, json!({ "mode": "guard", "mods": ["mod/rate-limiter", "mod/auth"] }));
    assert_eq!(pipeline(&world), "rate-limiter:0 auth:10 enrichment:30 persistence:90 analytics:100");
    assert_eq!(world.records.len(), records + 1, "one record: nobody sees half an order");
    let told = signals(&world, "rialto.mod.changed");
    assert_eq!(told.len(), 1);
    // The mode follows from the names; those that are not named come after, as they were.
    order(&mut world, None, &["analytics"]).unwrap();
    assert_eq!(pipeline(&world), "rate-limiter:0 auth:10 enrichment:30 analytics:0 persistence:10");
    let (records, revision) = (world.records.len(), world.state().book.mods_revision);
    order(&mut world, None, &["analytics", "persistence"]).unwrap();
    assert_eq!((world.records.len(), world.state().book.mods_revision), (records, revision), "nothing new, no record");
}

#[test]
fn an_order_that_makes_no_sense_changes_nothing() {
    let mut world = all();
    let before = pipeline(&world);
    for (mode, names, code) in [
        (None, &[][..], "invalid_argument"),
        (None, &["mystery"][..], "mod_not_found"),
        (None, &["auth", "mystery"][..], "mod_not_found"),
        (None, &["auth", "enrichment"][..], "invalid_argument"),
        (Some(Mode::Observe), &["auth"][..], "invalid_argument"),
        (None, &["auth", "auth"][..], "invalid_argument"),
    ] {
        assert_eq!(outcome(&order(&mut world, mode, names)), code, "{names:?}");
    }
    assert_eq!(pipeline(&world), before);
}

#[test]
fn guards_run_in_their_new_order() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    world.load("auth", json!({ "deny": ["agent:a"] }));
    world.load("rate-limiter", json!({ "rate": 0.001, "burst": 1 }));
    let say = |world: &mut World| {
        let fault = world.emit("agent:a", json!({ "type": "x.y", "target": "agent:b" })).unwrap_err();
        fault.by_mod.unwrap().to_string()
    };
    assert_eq!([say(&mut world), say(&mut world)], ["mod/auth", "mod/auth"]);
    order(&mut world, None, &["rate-limiter", "auth"]).unwrap();
    assert_eq!([say(&mut world), say(&mut world)], ["mod/auth", "mod/rate-limiter"]);
}

#[test]
fn loading_refuses_what_is_loaded_and_a_change_merges() {
    let mut world = World::bare();
    let mut config = ModConfig::standard("persistence").unwrap();
    config.config = json!({ "retention_days": 0, "skip": ["a.*"] }).as_object().cloned().unwrap();
    world.admin(AdminOp::LoadMod(config.clone())).unwrap();
    let again = ModConfig::standard("persistence").unwrap();
    assert_eq!(outcome(&world.admin(AdminOp::LoadMod(again))), "already_exists");
    assert_eq!(world.state().book.mods[0], config, "its settings are as they were");
    let patch = |config: Value| ModPatch { config: config.as_object().cloned().unwrap(), ..ModPatch::default() };
    let change = |world: &mut World, patch: ModPatch| world.admin(AdminOp::ChangeMod("persistence".into(), patch));
    let shown = change(&mut world, patch(json!({ "max_events": 5, "skip": null }))).unwrap();
    assert_eq!(shown["config"], json!({ "retention_days": 0, "max_events": 5 }));
    change(&mut world, ModPatch { enabled: Some(false), priority: Some(7), ..ModPatch::default() }).unwrap();
    let now = &world.state().book.mods[0];
    assert_eq!((now.enabled, now.priority, now.config.len()), (false, 7, 2));
    let records = world.records.len();
    change(&mut world, ModPatch { enabled: Some(false), ..ModPatch::default() }).unwrap();
    assert_eq!(world.records.len(), records, "nothing new, no record");
    for wrong in [json!({ "retention": 1 }), json!({ "retention_days": "x" })] {
        assert_eq!(outcome(&change(&mut world, patch(wrong))), "invalid_argument");
    }
    let absent = world.admin(AdminOp::ChangeMod("auth".into(), ModPatch::default()));
    assert_eq!(outcome(&absent), "mod_not_found");
}
