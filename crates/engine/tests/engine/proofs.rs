//! Names that are proved: levels, whose name it is then, and the end of a proof (OpenAgents sheet, sections 1.2, 1.3 and 3).

use super::world::{Join, START, TOKEN, World, outcome, sha, token};
use rialto_engine::credential::ProvedBy;
use rialto_engine::input::ProvedName;
use rialto_engine::{AdminOp, Caller, Effect, Principal};
use rialto_model::ErrorCode;
use serde_json::json;
use std::sync::Arc;

fn proving(level: u8) -> Join {
    Join { level, ..Join::token() }
}

fn bearer(address: &str, serial: u64) -> Caller {
    let proved = ProvedName {
        address: address.into(),
        level: 2,
        by: ProvedBy { method: "jwt".into(), key: "key-1".into() },
        ends_at: Some(START + 3_600_000),
        for_anybody: true,
        serial,
    };
    Caller { proved: Some(Arc::new(proved)), ..Caller::default() }
}

#[test]
fn every_minimum_against_every_level() {
    let mut rows = Vec::new();
    for minimum in 0..=3u8 {
        let mut world = World::workspace();
        world.set(json!({ "min_verification": minimum }));
        for level in 0..=3u8 {
            let refused = world.try_join(&format!("openagents:a{level}"), proving(level)).err();
            let fine = refused.is_none();
            assert_eq!(fine, level >= minimum, "minimum {minimum}, level {level}");
            if let Some(fault) = refused {
                assert_eq!(fault.code, ErrorCode::VerificationRequired);
                let details = fault.details.unwrap();
                let methods = [json!([]), json!(["key", "jwt", "did"]), json!(["jwt", "did"]), json!(["did"])];
                let said = (&details["required"], &details["presented"], &details["methods"]);
                assert_eq!(said, (&json!(minimum), &json!(level), &methods[usize::from(minimum)]));
            }
        }
        rows.push(minimum);
    }
    assert_eq!(rows.len(), 4);
}

#[test]
fn a_registered_name_is_not_claimed_unproved() {
    let mut world = World::workspace();
    world.registered = vec!["openagents:ann"];
    assert_eq!(outcome(&world.try_join("openagents:ann", Join::token())), "verification_required");
    assert_eq!(outcome(&world.try_join("openagents:ben", Join::token())), "ok");
    assert_eq!(outcome(&world.try_join("openagents:ann", proving(1))), "ok");
    assert_eq!(world.state().member(1).unwrap().verification, 1);
    // Nor by an event that would join it.
    world.registered = vec!["openagents:eve"];
    let capabilities = rialto_engine::Capabilities::ALL;
    let caller = Caller { bearer: Some(sha(TOKEN)), capabilities, ..Caller::default() };
    let event = json!({ "type": "app.note.made", "source": "openagents:eve", "target": "core", "payload": {} });
    assert_eq!(outcome(&world.emit_as(&caller, event.clone())), "verification_required");
    world.registered.clear();
    assert_eq!(outcome(&world.emit_as(&caller, event)), "ok");
}

#[test]
fn a_proof_takes_what_it_proved_and_not_what_was_given_to_others() {
    let mut world = World::workspace();
    world.try_join("openagents:ann", Join::token()).unwrap();
    assert_eq!(outcome(&world.try_join("openagents:ann", proving(1))), "ok", "nobody had proved it");
    assert_eq!(outcome(&world.try_join("openagents:ann", Join::token())), "address_taken");
    assert_eq!(outcome(&world.try_join("agent:ann", Join::token())), "address_taken", "it is the same name");
    assert_eq!(outcome(&world.try_join("openagents:ann", proving(3))), "ok");
    // A name that the operator gave to somebody is not taken by registering it.
    let mut bound = token("bens", "bens-token");
    bound.agent = Some("ben".into());
    world.admin(AdminOp::AddToken(bound)).unwrap();
    let own = Join { tokens: vec!["bens-token"], payload: json!({}), ..Join::default() };
    world.try_join("agent:ben", own.clone()).unwrap();
    assert_eq!(outcome(&world.try_join("openagents:ben", proving(1))), "address_taken");
    world.admin(AdminOp::Release("ben".into())).unwrap();
    assert_eq!(outcome(&world.try_join("openagents:ben", proving(1))), "ok");
}

#[test]
fn what_is_revoked_ends_its_sessions_at_once() {
    let mut world = World::workspace();
    world.try_join("openagents:ann", proving(2)).unwrap();
    world.key = "key-2";
    world.try_join("openagents:ben", proving(2)).unwrap();
    let ann = world.caller("openagents:ann");
    let end = |good: Option<&str>| AdminOp::EndProofs {
        address: "openagents:ann".into(),
        good: good.map(Into::into),
        serial: 9,
    };
    world.admin(end(Some("key-1"))).unwrap();
    assert!(world.state().principal(&ann, None, world.now).is_ok(), "its key is still the good one");
    world.admin(end(Some("key-2"))).unwrap();
    assert!(world.after.iter().any(|e| matches!(e, Effect::Revoked { code: ErrorCode::InvalidToken, .. })));
    assert_eq!(world.state().principal(&ann, None, world.now).unwrap_err().code, ErrorCode::InvalidToken);
    assert!(world.state().principal(&world.caller("openagents:ben"), None, world.now).is_ok());
    // Bearers that were verified before are refused, later ones are not.
    let judged = |world: &World, serial| world.state().principal(&bearer("openagents:ann", serial), None, world.now);
    assert_eq!(judged(&world, 9).unwrap_err().code, ErrorCode::InvalidToken);
    assert_eq!(judged(&world, 10), Ok(Principal::Member(0)));
}

#[test]
fn a_session_ends_with_the_token_that_proved_it() {
    let mut world = World::workspace();
    world.proof_ends_at = Some(START + 100_000);
    let joined = world.try_join("openagents:ann", proving(2)).unwrap();
    assert_eq!(joined.result.unwrap()["expires_at"], START + 100_000);
    let ann = world.caller("openagents:ann");
    // Renewed with another token it goes on.
    world.proof_ends_at = Some(START + 200_000);
    let session = world.secrets.get("openagents:ann").cloned();
    world.try_join("openagents:ann", Join { session: session.clone(), ..proving(2) }).unwrap();
    world.pass(150_000);
    assert!(world.state().principal(&ann, None, world.now).is_ok());
    world.pass(60_000);
    assert_eq!(world.state().principal(&ann, None, world.now).unwrap_err().code, ErrorCode::SessionExpired);
    assert!(world.state().member(0).unwrap().sessions.is_empty());
}

#[test]
fn a_bearers_token_speaks_for_who_has_joined_by_proof() {
    let mut world = World::workspace();
    let ann = bearer("openagents:ann", 1);
    let judged = |world: &World, claimed: Option<&str>| world.state().principal(&ann, claimed, world.now);
    assert_eq!(judged(&world, None).unwrap_err().code, ErrorCode::NotAMember);
    world.try_join("openagents:ann", Join::token()).unwrap();
    assert_eq!(judged(&world, None).unwrap_err().code, ErrorCode::NotAMember, "somebody else may have claimed it");
    world.try_join("openagents:ann", proving(1)).unwrap();
    assert_eq!(judged(&world, None), Ok(Principal::Member(0)));
    world.join("agent:ben");
    assert_eq!(judged(&world, Some("agent:ben")).unwrap_err().code, ErrorCode::SourceMismatch);
    world.set(json!({ "require_audience": true }));
    assert_eq!(judged(&world, None).unwrap_err().code, ErrorCode::VerificationFailed);
    world.set(json!({ "require_audience": false }));
    world.pass(3_600_000);
    assert_eq!(judged(&world, None).unwrap_err().code, ErrorCode::SessionExpired);
}

#[test]
fn a_pinned_name_is_proved_with_its_key_or_not_at_all() {
    let mut world = World::workspace().joined(&["agent:ann"]);
    let ann = world.caller("agent:ann");
    world.admin(AdminOp::PinKey("agent:ann".into(), Some("{}".into()))).unwrap();
    assert_eq!(world.state().principal(&ann, None, world.now).unwrap_err().code, ErrorCode::InvalidToken);
    let refused = world.try_join("agent:ann", Join::token()).unwrap_err();
    assert_eq!(
        (refused.code, &refused.details.unwrap()["methods"]),
        (ErrorCode::VerificationRequired, &json!(["key"]))
    );
    assert_eq!(outcome(&world.try_join("agent:ann", proving(1))), "ok");
    world.admin(AdminOp::PinKey("agent:ann".into(), None)).unwrap();
    assert_eq!(outcome(&world.admin(AdminOp::PinKey("agent:ann".into(), None))), "unknown_target");
    assert_eq!(outcome(&world.admin(AdminOp::PinKey("human:ana".into(), Some("{}".into())))), "invalid_address");
    for n in 0..rialto_model::limits::PINS_MAX {
        world.careful = false;
        world.admin(AdminOp::PinKey(format!("agent:p{n}"), Some("{}".into()))).unwrap();
    }
    assert_eq!(outcome(&world.admin(AdminOp::PinKey("agent:more".into(), Some("{}".into())))), "network_full");
}
