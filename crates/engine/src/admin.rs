//! What an operator may do to a network: settings, tokens, roles, groups, mods, redaction. Every act is a record.

use crate::channels;
use crate::dead;
use crate::input::{Clock, Content, Effect, Effects};
use crate::invites;
use crate::membership;
use crate::mods::external::serve;
use crate::mods::manage::{self, ModPatch};
use crate::mods::workspace::sessions;
use crate::mods::{ModConfig, Mode};
use crate::own;
use crate::presence::VolatileState;
use crate::profile;
use crate::record::{Change, EventRecord};
use crate::redaction::{self, Copies};
use crate::resources;
use crate::rights;
use crate::route::StreamKey;
use crate::server_events::{self, ServerEvent};
use crate::shares::{Maker, ShareKind};
use crate::state::State;
use crate::tick;
use rialto_model::address::Address;
use rialto_model::error::Scope;
use rialto_model::network::{Delivery, Durability, Names, Policy, SessionBinding, Settings, Status, Takeover, Token};
use rialto_model::payload::{NewChannel, NewInvitation, SessionUpdate};
use rialto_model::view::{AdminOutcome, Done, ModView};
use rialto_model::{ErrorCode, EventType, Fault, Role, Seq, limits};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// One act.
#[derive(Debug, Clone)]
pub enum AdminOp {
    /// Changes settings: the members of the object that are known.
    Settings(Value),
    /// Adds a token; only its hash is known here.
    AddToken(Token),
    /// Adds a token that takes the place of all that are not narrowed: those are revoked.
    RotateToken(Token),
    /// Revokes a token by label.
    RevokeToken(String),
    /// Sets a member's role.
    Role(String, Role),
    /// Changes what a member may change about itself.
    Member(String, crate::Wishes),
    /// Deletes a member.
    Remove(String),
    /// Frees a name: nobody owns it any more.
    Release(String),
    /// Ends a member's sessions, or the one with this number.
    EndSessions(String, Option<u64>),
    /// Sets a group's members.
    SetGroup(String, Vec<String>),
    /// Deletes a group.
    DeleteGroup(String),
    /// Loads a mod; one that is loaded already is refused.
    LoadMod(ModConfig),
    /// Loads a mod or replaces it whole.
    SetMod(ModConfig),
    /// Changes a loaded mod.
    ChangeMod(String, ModPatch),
    /// Unloads a mod.
    RemoveMod(String),
    /// Lets a member serve a mod, or no longer: mod, address.
    ApproveMod(String, String, bool),
    /// Puts mods of one mode in order.
    OrderMods(Option<Mode>, Vec<String>),
    /// Marks an event as redacted and clears what was copied from it; the node overwrites the bytes.
    Redact(Seq, Option<Box<Copies>>),
    /// Sends a dead letter again: position of its event, recipient, and the event if history has it.
    RetryDead(Seq, String, Option<Arc<EventRecord>>),
    /// Puts dead letters away: of one event, of one recipient, or all; at most so many.
    DropDead(Option<Seq>, Option<String>, usize),
    /// Makes somebody a member that has not joined yet: address, and what kind of agent it is.
    Enroll(String, Option<String>),
    /// Makes a session, in the name of somebody.
    OpenSession(NewChannel, Option<String>),
    /// Changes what a channel says of itself.
    SetChannel(String, SessionUpdate),
    /// Invites somebody; the second is the SHA-256 of the secret.
    Invite(NewInvitation, [u8; 32]),
    /// Ends an invitation; only who knows its secret, if that is given.
    EndInvite(String, Option<[u8; 32]>),
    /// Something was done that is no record of its own: only that it was is recorded. What, and to what.
    Noted(&'static str, Option<String>),
    /// Makes a channel that belongs to nobody.
    CreateChannel(String),
    /// Takes a resource away, by its address.
    Unregister(String),
    /// Gives a workspace what of its profile it never had: the content of its `skill-md`, and mods unless they were chosen.
    ReviseProfile {
        /// Of `resource/context/skill-md`.
        skill: Content,
        /// Its mods are what somebody asked for: none are added.
        mods_chosen: bool,
    },
}

pub(crate) fn decide(
    state: &State,
    live: &mut VolatileState,
    op: &AdminOp,
    now: Clock,
    fx: &mut Effects,
) -> Result<AdminOutcome, Fault> {
    match op {
        AdminOp::Settings(patch) => settings(state, patch, now, fx),
        AdminOp::AddToken(token) => {
            if state.book.tokens.len() >= limits::TOKENS_MAX {
                let text = format!("this network has reached its limit of {} tokens: revoke some", limits::TOKENS_MAX);
                return Err(Fault::full(Scope::Network, limits::TOKENS_MAX, text));
            }
            add_token(state, token, fx)
        }
        AdminOp::RotateToken(token) => {
            let old = state.book.tokens.iter().filter(|t| t.agent.is_none() && t.role.is_none());
            old.for_each(|old| revoke_token(state, &old.label, fx));
            add_token(state, token, fx)
        }
        AdminOp::RevokeToken(label) => {
            if !state.book.tokens.iter().any(|t| &t.label == label) {
                return Err(Fault::new(
                    ErrorCode::UnknownTarget,
                    format!("no token has the label {label:?}: list the tokens to see their labels"),
                ));
            }
            revoke_token(state, label, fx);
            Ok(AdminOutcome::TokenRevoked { label: label.clone(), status: Done::Revoked })
        }
        AdminOp::Role(name, role) => {
            let id = membership::find_named(state, name).ok_or_else(|| not_member(name))?;
            fx.change(Change::Role { member: id, role: *role });
            Ok(AdminOutcome::Role { address: state.member(id).map(|m| m.address.clone()), role: *role })
        }
        AdminOp::Member(name, wishes) => {
            let id = membership::find_named(state, name).ok_or_else(|| not_member(name))?;
            let address = own::change(state, live, id, wishes, now, fx)?;
            Ok(AdminOutcome::Member { address, status: Done::Changed })
        }
        AdminOp::Remove(name) => {
            let id = membership::find_named(state, name).ok_or_else(|| not_member(name))?;
            let new_master = membership::remove(state, id, "recipient_left", now, fx)
                .and_then(|m| state.member(m))
                .map(|m| m.address.clone());
            live.presence.remove(id);
            Ok(AdminOutcome::Removed { status: Done::Removed, new_master })
        }
        AdminOp::Release(name) => release(state, name, fx),
        AdminOp::EndSessions(name, number) => end_sessions(state, name, *number, fx),
        AdminOp::SetGroup(name, members) => set_group(state, name, members, fx),
        AdminOp::DeleteGroup(name) => {
            if !state.book.groups.contains_key(name.as_str()) {
                return Err(Fault::new(
                    ErrorCode::UnknownTarget,
                    format!("there is no group {name:?}: list the groups to see their names"),
                ));
            }
            fx.change(Change::GroupDeleted { name: name.clone() });
            Ok(AdminOutcome::GroupDeleted { group: format!("group/{name}"), status: Done::Deleted })
        }
        AdminOp::ApproveMod(name, address, on) => serve::approve(state, name, address, *on, fx),
        AdminOp::LoadMod(config) => manage::load(state, live, config, now, fx).map(shown),
        AdminOp::SetMod(config) => manage::set(state, live, config, now, fx).map(shown),
        AdminOp::ChangeMod(name, patch) => manage::change(state, live, name, patch, now, fx).map(shown),
        AdminOp::RemoveMod(name) => manage::remove(state, live, name, now, fx),
        AdminOp::OrderMods(mode, names) => manage::order(state, live, *mode, names, now, fx),
        AdminOp::Redact(seq, copies) => {
            redaction::redact(state, *seq, copies.as_deref(), now, fx).map(AdminOutcome::Redacted)
        }
        AdminOp::RetryDead(seq, recipient, original) => {
            dead::retry(state, *seq, recipient, original.as_deref(), now, fx).map(AdminOutcome::Retried)
        }
        AdminOp::DropDead(seq, recipient, max) => {
            dead::put_away(state, *seq, recipient.as_deref(), *max, fx).map(AdminOutcome::Dropped)
        }
        AdminOp::Enroll(address, kind) => membership::enroll(state, address, kind.as_deref(), now, fx),
        AdminOp::OpenSession(wish, by) => sessions::open(state, wish, by.as_deref(), now, fx),
        AdminOp::SetChannel(name, update) => sessions::set(state, name, update, now, fx),
        AdminOp::Invite(wish, secret) => invites::by_operator(state, wish, *secret, now, fx),
        AdminOp::EndInvite(id, secret) => invites::end(state, id, *secret, now, fx),
        AdminOp::Unregister(address) => resources::withdraw(state, live, address, now, fx),
        AdminOp::ReviseProfile { skill, mods_chosen } => profile::revise(state, *skill, *mods_chosen, now, fx),
        AdminOp::Noted(..) => Ok(AdminOutcome::Noted),
        AdminOp::CreateChannel(name) => {
            let name = &channels::channel_name(name)?;
            channels::may_create(state, name, Maker::Operator)?;
            fx.change(Change::ChannelCreated {
                channel: u32::try_from(state.book.channels.len()).unwrap_or(u32::MAX),
                name: name.clone(),
                title: name.clone(),
                private: false,
                master: None,
                created_by: None,
                at: state.stamp(now.wall),
                resume_from: None,
            });
            Ok(AdminOutcome::Channel { channel: format!("channel/{name}"), name: None })
        }
    }
}

fn shown(loaded: ModView) -> AdminOutcome {
    AdminOutcome::Mod(Box::new(loaded))
}

fn not_member(name: &str) -> Fault {
    Fault::new(ErrorCode::UnknownTarget, format!("{name} is not a member"))
}

fn add_token(state: &State, token: &Token, fx: &mut Effects) -> Result<AdminOutcome, Fault> {
    if state.book.tokens.iter().any(|t| t.label == token.label) {
        return Err(Fault::new(
            ErrorCode::AlreadyExists,
            format!("a token with the label {:?} exists: choose another label, or revoke that one", token.label),
        ));
    }
    fx.change(Change::Token { token: token.clone() });
    Ok(AdminOutcome::TokenAdded { label: token.label.clone() })
}

fn revoke_token(state: &State, label: &str, fx: &mut Effects) {
    rights::token_revoked(state, label, fx);
    fx.change(Change::TokenRevoked { label: label.to_owned() });
}

/// Frees an owned name, or a former one. Its member stays one; whoever joins with the network's token next takes it over.
fn release(state: &State, name: &str, fx: &mut Effects) -> Result<AdminOutcome, Fault> {
    let address = Address::parse_in(name, &state.network)
        .map_err(|e| Fault::new(ErrorCode::InvalidAddress, format!("{name:?}: {e}")))?;
    let known = membership::find_named(state, name).and_then(|id| state.member(id)).map(|m| m.address.clone());
    let former = state.book.former.contains_key(address.as_str());
    let name: Box<str> = if former { address.as_str().into() } else { known.ok_or_else(|| not_member(name))? };
    fx.change(Change::Released { name: name.clone() });
    Ok(AdminOutcome::Member { address: name, status: Done::Released })
}

fn end_sessions(state: &State, name: &str, number: Option<u64>, fx: &mut Effects) -> Result<AdminOutcome, Fault> {
    let id = membership::find_named(state, name).ok_or_else(|| not_member(name))?;
    let all = state.member(id).into_iter().flat_map(|m| &m.sessions).map(|s| s.number);
    let numbers: Vec<u64> = all.filter(|n| number.is_none_or(|only| only == *n)).collect();
    if let (Some(number), true) = (number, numbers.is_empty()) {
        return Err(Fault::new(
            ErrorCode::UnknownTarget,
            format!("{name} has no session with the number {number}: list its sessions to see the numbers"),
        ));
    }
    rights::void(id, numbers.clone(), fx);
    Ok(AdminOutcome::SessionsEnded { address: state.member(id).map(|m| m.address.clone()), ended: numbers })
}

fn set_group(state: &State, name: &str, members: &[String], fx: &mut Effects) -> Result<AdminOutcome, Fault> {
    let group =
        Address::group(name).map_err(|e| Fault::new(ErrorCode::InvalidAddress, format!("group {name:?}: {e}")))?;
    if !state.book.groups.contains_key(name) {
        state.has_room(ShareKind::Groups, Maker::Operator)?;
    }
    let (mut list, mut listed): (Vec<Box<str>>, BTreeSet<Box<str>>) = Default::default();
    for text in members {
        let address = Address::parse_in(text, &state.network)
            .map_err(|e| Fault::new(ErrorCode::InvalidAddress, format!("{text:?}: {e}")))?;
        if !address.is_principal() {
            return Err(Fault::new(
                ErrorCode::InvalidAddress,
                format!("{address} cannot be in a group: groups hold agents and people"),
            ));
        }
        // A bare name that only exists under the other prefix means that member.
        let known = membership::find_named(state, text).and_then(|id| state.member(id)).map(|m| m.address.clone());
        let address = known.unwrap_or_else(|| address.as_str().into());
        if listed.insert(address.clone()) {
            list.push(address);
        }
    }
    fx.change(Change::Group { name: name.to_owned(), members: list.clone() });
    Ok(AdminOutcome::Group { group: group.as_str().to_owned(), members: list })
}

fn settings(state: &State, patch: &Value, now: Clock, fx: &mut Effects) -> Result<AdminOutcome, Fault> {
    let mut new = state.book.settings.clone();
    let Some(map) = patch.as_object() else {
        return Err(Fault::new(ErrorCode::InvalidArgument, "settings must be a JSON object of names and values"));
    };
    for (key, value) in map {
        if key == "metadata" && value.to_string().len() > limits::NETWORK_METADATA_BYTES_MAX {
            let text = format!("network metadata is at most {} bytes", limits::NETWORK_METADATA_BYTES_MAX);
            return Err(Fault::new(ErrorCode::TooLarge, text).field(key));
        }
        set(&mut new, key, value).ok_or_else(|| {
            Fault::new(ErrorCode::InvalidArgument, format!("{key}: there is no such setting, or it cannot be {value}"))
                .field(key)
        })?;
    }
    if new.durability == Durability::Memory && new.delivery != Delivery::AtMostOnce {
        return Err(Fault::new(ErrorCode::InvalidArgument, "durability memory needs delivery at-most-once, because nothing survives a crash: set both, or choose durability os or sync")
            .field("durability"));
    }
    let (from, to) = (state.book.settings.status, new.status);
    if from != to {
        if from == Status::Archived && to == Status::Paused {
            return Err(Fault::new(
                ErrorCode::InvalidArgument,
                "an archived network cannot be paused: make it active first",
            )
            .field("status"));
        }
        let payload = json!({ "from": from.as_str(), "to": to.as_str() });
        let news = ServerEvent {
            kind: EventType::NetworkStatus,
            target: "agent:broadcast",
            stream: Some(StreamKey::Broadcast),
            payload: &payload,
            metadata: None,
            more: None,
        };
        server_events::server_event(state, news, now, fx);
        if to == Status::Archived {
            for (id, _) in state.roster() {
                tick::archive_letters(state, id, now, fx);
            }
            fx.after.push(Effect::CloseAll { code: ErrorCode::NetworkArchived });
        }
    }
    fx.change(Change::Settings { settings: new.clone() });
    Ok(AdminOutcome::Settings(Box::new(new)))
}

fn set(s: &mut Settings, key: &str, value: &Value) -> Option<()> {
    let text = value.as_str();
    match key {
        "name" => {
            let name = text.filter(|n| {
                !n.trim().is_empty()
                    && n.chars().count() <= limits::NETWORK_NAME_CHARS_MAX
                    && !n.contains(char::is_control)
            })?;
            name.clone_into(&mut s.name);
        }
        "policy" => s.policy = Policy::from_wire(text?)?,
        "status" => s.status = Status::from_wire(text?)?,
        "delivery" => s.delivery = Delivery::from_wire(text?)?,
        "durability" => s.durability = Durability::from_wire(text?)?,
        "session_binding" => s.session_binding = SessionBinding::from_wire(text?)?,
        "takeover" => s.takeover = Takeover::from_wire(text?)?,
        "min_verification" => {
            s.min_verification = value.as_u64().and_then(|n| u8::try_from(n).ok()).filter(|n| *n <= 3)?
        }
        "max_members" => s.max_members = value.as_u64().and_then(|n| usize::try_from(n).ok())?,
        "max_attempts" if value.is_null() => s.max_attempts = None,
        "max_attempts" => s.max_attempts = Some(value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0)?),
        "max_pending" => s.max_pending = value.as_u64().filter(|n| (1..=limits::PENDING_EVENTS_MAX).contains(n))?,
        "max_pending_bytes" => {
            s.max_pending_bytes = value.as_u64().filter(|n| (1..=limits::PENDING_BYTES_MAX).contains(n))?;
        }
        "blob_bytes_max" => s.blob_bytes_max = value.as_u64()?,
        "ttl_ms" => s.ttl_ms = value.as_u64().filter(|n| *n > 0 && *n <= 30 * 24 * 3600 * 1000)?,
        "member_share_percent" => {
            s.member_share_percent =
                value.as_u64().and_then(|n| u8::try_from(n).ok()).filter(|n| (1..=100).contains(n))?;
        }
        "token_manages" => s.token_manages = value.as_bool()?,
        "names" => s.names = Names::from_wire(text?)?,
        "require_audience" => s.require_audience = value.as_bool()?,
        "channel_post_open" => s.channel_post_open = value.as_bool()?,
        "unverified_openagents" => s.unverified_openagents = value.as_bool()?,
        "bare_reads" => s.bare_reads = value.as_bool()?,
        "implicit_join" => s.implicit_join = value.as_bool()?,
        "metadata" => {
            s.metadata = value.as_object()?.clone();
        }
        _ => return None,
    }
    Some(())
}
