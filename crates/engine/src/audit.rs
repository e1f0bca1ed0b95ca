//! What was done to the network by whom: every act of the operator, and of who else manages it, as a record beside the act.
//!
//! Invariant: an act that is a record and its entry are one batch of the log, so none is without the other; what is no record
//! itself is noted before it is done. No secret and no text of a conversation is ever in an entry.

use crate::admin::AdminOp;
use crate::input::{Caller, Clock};
use crate::principal::Principal;
use crate::record::Change;
use crate::state::State;
use rialto_model::Millis;
use rialto_model::network::Token;
use rialto_model::view::{AuditEntry, AuditList};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Entries that are kept, the newest.
pub const ENTRIES_MAX: usize = 5000;
/// What was before and after is left out if it is longer.
const VALUE_BYTES_MAX: usize = 4096;

/// One act.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// When, wall clock.
    pub at: Millis,
    /// Who: `operator`, `operator as` a member, a member's address, or `token:` and a label.
    pub actor: Box<str>,
    /// From where, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Box<str>>,
    /// What was done.
    pub act: Box<str>,
    /// To whom or what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<Box<str>>,
    /// What it was before.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub before: Value,
    /// What it is now.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub after: Value,
}

impl AuditRecord {
    fn view(&self) -> AuditEntry {
        let AuditRecord { at, actor, from, act, about, before, after } = self.clone();
        AuditEntry { at, actor, from, act, about, before, after }
    }
}

/// Who acts, and from where.
#[derive(Debug, Clone, Copy)]
pub struct AuditActor<'a> {
    /// The caller.
    pub caller: &'a Caller,
    /// Where it calls from.
    pub from: Option<&'a str>,
}

/// Who the caller is, in a word.
pub(crate) fn actor(state: &State, caller: &Caller, now: Clock) -> Box<str> {
    match state.principal(caller, None, now) {
        Ok(Principal::Operator) => "operator".into(),
        Ok(Principal::Member(id)) => match state.member(id) {
            Some(member) if caller.operator => format!("operator as {}", member.address).into(),
            Some(member) => member.address.clone(),
            None => "nobody".into(),
        },
        Ok(Principal::Holder { token, .. }) => format!("token:{}", token.as_deref().unwrap_or("none")).into(),
        Err(_) => "nobody".into(),
    }
}

fn shown(token: &Token) -> Value {
    json!({ "role": token.role.map(rialto_model::Role::as_str), "agent": token.agent, "expires_at": token.expires_at })
}

/// The change that records an act, made from the state before it.
pub(crate) fn entry(state: &State, op: &AdminOp, actor: Box<str>, from: Option<&str>, now: Clock) -> Change {
    let member = |name: &str| crate::membership::find_named(state, name).and_then(|id| state.member(id));
    let address = |name: &str| Some(member(name).map_or_else(|| name.into(), |m| m.address.clone()));
    let role = |name: &str| member(name).map_or(Value::Null, |m| m.granted.as_str().into());
    let mods = |name: &str| {
        let known = state.book.mods.iter().find(|m| m.name.as_ref() == name);
        known.map_or(Value::Null, |m| serde_json::to_value(m).unwrap_or_default())
    };
    let (act, about, before, after): (&str, Option<Box<str>>, Value, Value) = match op {
        AdminOp::Settings(patch) => {
            let (before, after) = changed_settings(state, patch);
            ("settings", None, before, after)
        }
        AdminOp::AddToken(token) => ("token.add", Some(token.label.as_str().into()), Value::Null, shown(token)),
        AdminOp::RotateToken(token) => ("token.rotate", Some(token.label.as_str().into()), Value::Null, Value::Null),
        AdminOp::RevokeToken(label) => {
            let known = state.book.tokens.iter().find(|t| &t.label == label).map_or(Value::Null, shown);
            ("token.revoke", Some(label.as_str().into()), known, Value::Null)
        }
        AdminOp::Role(name, to) => ("member.role", address(name), role(name), to.as_str().into()),
        AdminOp::Member(name, wishes) => {
            let after = wishes.name.as_deref().map_or(Value::Null, Value::from);
            ("member.change", address(name), Value::Null, after)
        }
        AdminOp::Remove(name) => ("member.remove", address(name), role(name), Value::Null),
        AdminOp::Release(name) => ("member.release", Some(name.as_str().into()), Value::Null, Value::Null),
        AdminOp::EndSessions(name, number) => ("session.end", address(name), json!(number), Value::Null),
        AdminOp::SetGroup(name, members) => {
            let known = state.book.groups.get(name.as_str()).map_or(Value::Null, |g| json!(g.members));
            ("group.set", Some(name.as_str().into()), known, json!(members))
        }
        AdminOp::DeleteGroup(name) => {
            let known = state.book.groups.get(name.as_str()).map_or(Value::Null, |g| json!(g.members));
            ("group.delete", Some(name.as_str().into()), known, Value::Null)
        }
        AdminOp::LoadMod(config) | AdminOp::SetMod(config) => {
            let after = serde_json::to_value(config).unwrap_or_default();
            ("mod.set", Some(config.name.clone()), mods(&config.name), after)
        }
        AdminOp::ChangeMod(name, patch) => {
            let known = state.book.mods.iter().find(|m| m.name.as_ref() == name.as_str());
            let after = known.map(|m| serde_json::to_value(patch.apply(m.clone())).unwrap_or_default());
            ("mod.set", Some(name.as_str().into()), mods(name), after.unwrap_or_default())
        }
        AdminOp::RemoveMod(name) => ("mod.remove", Some(name.as_str().into()), mods(name), Value::Null),
        AdminOp::ApproveMod(name, who, on) => {
            let act = if *on { "mod.approve" } else { "mod.disapprove" };
            (act, Some(name.as_str().into()), Value::Null, json!(address(who)))
        }
        AdminOp::OrderMods(_, names) => ("mod.order", None, Value::Null, json!(names)),
        AdminOp::Redact(seq, _) => ("event.redact", Some(format!("seq:{seq}").into()), Value::Null, Value::Null),
        AdminOp::RetryDead(seq, who, _) => {
            ("dead.retry", Some(format!("seq:{seq}").into()), Value::Null, who.as_str().into())
        }
        AdminOp::DropDead(seq, who, _) => (
            "dead.drop",
            seq.map(|seq| format!("seq:{seq}").into()),
            Value::Null,
            who.as_deref().map_or(Value::Null, Value::from),
        ),
        AdminOp::Enroll(name, _) => ("member.enroll", Some(name.as_str().into()), Value::Null, Value::Null),
        AdminOp::OpenSession(..) => ("channel.open", None, Value::Null, Value::Null),
        AdminOp::SetChannel(name, update) => {
            let changes = serde_json::to_value(&update.changes).unwrap_or_default();
            let said = changes.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
            let keys: Vec<&str> = update.auto_title.map(|_| "auto_title").into_iter().chain(said).collect();
            ("channel.set", Some(name.as_str().into()), Value::Null, json!(keys))
        }
        AdminOp::Invite(..) => ("invite.add", None, Value::Null, Value::Null),
        AdminOp::EndInvite(id, _) => ("invite.end", Some(id.as_str().into()), Value::Null, Value::Null),
        AdminOp::CreateChannel(name) => ("channel.create", Some(name.as_str().into()), Value::Null, Value::Null),
        AdminOp::Unregister(name) => ("resource.remove", Some(name.as_str().into()), Value::Null, Value::Null),
        AdminOp::Noted(act, about) => (act, about.as_deref().map(Into::into), Value::Null, Value::Null),
        AdminOp::ReviseProfile { .. } => ("profile.revise", None, Value::Null, Value::Null),
    };
    let short =
        |value: Value| if value.to_string().len() > VALUE_BYTES_MAX { json!("too long to keep") } else { value };
    Change::Audited {
        entry: Box::new(AuditRecord {
            at: now.wall,
            actor,
            from: from.map(Into::into),
            act: act.into(),
            about,
            before: short(before),
            after: short(after),
        }),
    }
}

/// The settings that a patch names, before and after. What people wrote about the network is not repeated.
fn changed_settings(state: &State, patch: &Value) -> (Value, Value) {
    let known = serde_json::to_value(&state.book.settings).unwrap_or_default();
    let (mut before, mut after) = (Map::new(), Map::new());
    for (key, value) in patch.as_object().into_iter().flatten() {
        if key == "metadata" {
            after.insert(key.clone(), json!("changed"));
            continue;
        }
        before.insert(key.clone(), known.get(key).cloned().unwrap_or_default());
        after.insert(key.clone(), value.clone());
    }
    (Value::Object(before), Value::Object(after))
}

impl State {
    /// The entries since a time, the newest last; of one actor, if that is said.
    pub fn audit(&self, since: Millis, actor: Option<&str>) -> AuditList {
        let wanted = |e: &&AuditRecord| e.at >= since && actor.is_none_or(|actor| e.actor.as_ref() == actor);
        AuditList { entries: self.book.audit.iter().filter(wanted).map(AuditRecord::view).collect() }
    }
}
