//! What a member decides about itself: channels it mutes, when its mail waits, what it is called.
//!
//! Invariant: everything else is by number, so a rename leaves sessions, mail, seats, work and rooms where they are.
//! Not here: leaving (`membership`, `channels`), and holding mail back (`rialto-node`).

use crate::channels;
use crate::credential::NameHold;
use crate::emit;
use crate::input::{Clock, Effects};
use crate::membership;
use crate::presence::VolatileState;
use crate::record::Change;
use crate::rights::Brings;
use crate::server_events;
use crate::state::{ChannelId, Member, MemberId, State, close, open};
use rialto_model::address::Address;
use rialto_model::network::Status;
use rialto_model::view::{MeView, MemberView};
use rialto_model::{ErrorCode, EventType, Fault, Millis, limits};
use serde_json::{Value, json};

/// How long a member's mail waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dnd {
    /// Not at all.
    Off,
    /// Until it says otherwise.
    On,
    /// This long.
    For(Millis),
}

/// What is to change; nothing by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Channels to mute.
    pub mute: Vec<String>,
    /// Channels to hear again.
    pub unmute: Vec<String>,
    /// Whether mail waits.
    pub dnd: Option<Dnd>,
    /// The new name or address.
    pub name: Option<String>,
}

impl Wishes {
    /// Members of the JSON that it reads.
    pub const KEYS: [&'static str; 4] = ["mute", "unmute", "dnd", "name"];

    /// Reads the members of an object that are known; others are not looked at.
    pub fn from_json(object: &Value) -> Result<Wishes, Fault> {
        let bad = |key: &str, what: &str| Fault::new(ErrorCode::InvalidArgument, format!("{key} {what}")).field(key);
        let channels = |key: &str| match object.get(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::String(one)) => Ok(vec![one.clone()]),
            Some(Value::Array(many)) => many
                .iter()
                .map(|v| v.as_str().map(str::to_owned).ok_or_else(|| bad(key, "holds names of channels")))
                .collect(),
            Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
                Err(bad(key, "is a channel or a list of channels"))
            }
        };
        let dnd = match object.get("dnd") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(true)) => Some(Dnd::On),
            Some(Value::Bool(false)) => Some(Dnd::Off),
            Some(other) => {
                let ms = other.as_u64().filter(|ms| (1..=limits::QUIET_MS_MAX).contains(ms));
                let what = format!("is true, false, or 1 to {} milliseconds", limits::QUIET_MS_MAX);
                Some(Dnd::For(ms.ok_or_else(|| bad("dnd", &what))?))
            }
        };
        let name = match object.get("name") {
            None | Some(Value::Null) => None,
            Some(name) => Some(name.as_str().ok_or_else(|| bad("name", "is a text"))?.to_owned()),
        };
        Ok(Wishes { mute: channels("mute")?, unmute: channels("unmute")?, dnd, name })
    }
}

/// Decides a member's own wishes.
pub(crate) fn decide(
    state: &State,
    live: &mut VolatileState,
    by: MemberId,
    wishes: &Wishes,
    now: Clock,
    fx: &mut Effects,
) -> Result<(), Fault> {
    match state.book.settings.status {
        Status::Active => {}
        Status::Paused => return Err(ErrorCode::NetworkPaused.into()),
        Status::Archived => return Err(ErrorCode::NetworkArchived.into()),
    }
    let Some(member) = state.member(by).filter(|m| m.is_present()) else { return Err(ErrorCode::NotAMember.into()) };
    emit::guard_request(state, live, EventType::MemberUpdate.as_str(), by, now)?;
    let token = member.token.as_ref().and_then(|label| state.book.tokens.iter().find(|t| &t.label == label));
    if let Some(name) = &wishes.name {
        may_be_called(state, by, member, name)?;
    }
    if wishes.name.is_some() && token.is_some_and(|t| t.agent.is_some()) {
        let text = "the operator gave this name with its token: only the operator changes it";
        return Err(Fault::new(ErrorCode::Forbidden, text).field("name"));
    }
    change(state, live, by, wishes, now, fx).map(drop)
}

/// A member calls itself what is nobody's: no former name of another, no name that is the same as an owned one.
fn may_be_called(state: &State, by: MemberId, member: &Member, name: &str) -> Result<(), Fault> {
    let prefix = member.address.split_once(':').map_or("agent", |(prefix, _)| prefix);
    let full = if name.contains(':') { name.to_owned() } else { format!("{prefix}:{name}") };
    let Ok(address) = Address::parse_in(&full, &state.network) else { return Ok(()) };
    if address.as_str() == member.address.as_ref() || state.book.former.get(address.as_str()) == Some(&by) {
        return Ok(());
    }
    state.may_take(&address, None, Brings { hold: NameHold::Token, proves: false, operator: false })
}

/// The changes themselves, whoever wants them. Gives the address from here on.
pub(crate) fn change(
    state: &State,
    live: &mut VolatileState,
    id: MemberId,
    wishes: &Wishes,
    now: Clock,
    fx: &mut Effects,
) -> Result<Box<str>, Fault> {
    let Some(member) = state.member(id).filter(|m| !m.removed) else { return Err(ErrorCode::NotAMember.into()) };
    let address = match &wishes.name {
        Some(name) => rename(state, live, id, member, name, now, fx)?,
        None => member.address.clone(),
    };
    for (names, on) in [(&wishes.mute, true), (&wishes.unmute, false)] {
        for name in names {
            mute(state, id, member, name, on, fx)?;
        }
    }
    let until = match wishes.dnd {
        None => member.quiet_until,
        Some(Dnd::Off) => None,
        Some(Dnd::On) => Some(Millis::MAX),
        Some(Dnd::For(ms)) => Some(now.steady.saturating_add(ms)),
    };
    if until != member.quiet_until {
        fx.change(Change::Quiet { member: id, until });
    }
    Ok(address)
}

fn mute(state: &State, id: MemberId, member: &Member, name: &str, on: bool, fx: &mut Effects) -> Result<(), Fault> {
    let (channel, known) = channels::visible(state, &channels::channel_name(name)?, id)?;
    if !member.sits_in(channel) {
        let text = format!("{} does not sit in channel/{}", member.address, known.name);
        return Err(Fault::new(ErrorCode::NotAChannelMember, text));
    }
    if member.muted.contains(&channel) != on {
        fx.change(Change::Muted { member: id, channel, on });
    }
    Ok(())
}

fn rename(
    state: &State,
    live: &mut VolatileState,
    id: MemberId,
    member: &Member,
    name: &str,
    now: Clock,
    fx: &mut Effects,
) -> Result<Box<str>, Fault> {
    let forbidden = |text: &str| Err(Fault::new(ErrorCode::Forbidden, text.to_owned()).field("name"));
    let (prefix, _) = member.address.split_once(':').unwrap_or(("agent", &member.address));
    if !matches!(prefix, "agent" | "openagents") {
        return forbidden("only agents are renamed");
    }
    if let Some(face) = &member.via {
        return forbidden(&format!("{face} carries this member under the name it has elsewhere"));
    }
    if member.verification > 0 {
        return forbidden("a proven address stays");
    }
    let full = if name.contains(':') { name.to_owned() } else { format!("{prefix}:{name}") };
    let bad = |what: String| Fault::new(ErrorCode::InvalidAddress, what).field("name");
    let address = Address::parse_in(&full, &state.network).map_err(|e| bad(format!("{name:?}: {e}")))?;
    if !membership::may_be_joined(&address) || address.as_str().split_once(':').map(|(p, _)| p) != Some(prefix) {
        return Err(bad(format!("{} cannot become {address}", member.address)));
    }
    if address.as_str() == member.address.as_ref() {
        return Ok(member.address.clone());
    }
    if state.member_id(address.as_str()).is_some() {
        return Err(
            Fault::new(ErrorCode::AddressTaken, format!("{address} is in use: choose another name")).field("name")
        );
    }
    fx.change(Change::Renamed { member: id, address: address.as_str().into() });
    let payload = json!({ "from": member.address, "to": address.as_str() });
    fx.after.push(server_events::server_signal(state, live, EventType::MemberRenamed, &payload, now));
    Ok(address.as_str().into())
}

/// Members whose quiet time is over.
pub(crate) fn end_quiet(state: &State, now: Clock, fx: &mut Effects) {
    for (id, _) in state.roster().filter(|(_, m)| m.quiet_until.is_some_and(|until| until <= now.steady)) {
        fx.change(Change::Quiet { member: id, until: None });
    }
}

/// The seat stays; the stretch in which its mail is queued ends, or another begins.
pub(crate) fn muted(state: &mut State, member: MemberId, channel: ChannelId, on: bool) {
    let head = state.book.head;
    let Some(m) = state.book.members.get_mut(member as usize) else { return };
    let stretches = m.seats.entry(channel).or_default();
    state.directory.seat(member, channel, true);
    if on {
        m.muted.insert(channel);
        close(stretches, head);
    } else {
        m.muted.remove(&channel);
        open(stretches, head);
    }
}

/// Whatever names a member by its address follows it.
pub(crate) fn renamed(state: &mut State, member: MemberId, address: &str) {
    let Some(m) = state.book.members.get_mut(member as usize) else { return };
    let old = std::mem::replace(&mut m.address, address.into());
    m.former.retain(|name| name.as_ref() != address && *name != old);
    m.former.push(old.clone());
    let surplus = m.former.len().saturating_sub(limits::FORMER_NAMES_MAX);
    let forgotten: Vec<Box<str>> = m.former.drain(..surplus).collect();
    let book = &mut state.book;
    book.former.retain(|name, id| *id != member || !forgotten.contains(name));
    book.former.remove(address);
    if !crate::bugs::on("old name leads nowhere") {
        book.former.insert(old.clone(), member);
    }
    state.members.swap_remove(&old);
    state.members.insert(address.into(), member);
    forgotten.iter().for_each(|name| state.directory.forget_name(member, name));
    if let Some(m) = book.members.get(member as usize) {
        state.directory.enter_member(member, m);
    }
    for group in book.groups.values_mut().filter(|g| g.members.contains(&old)) {
        group.members.retain(|name| name.as_ref() != address);
        group.members.iter_mut().filter(|name| **name == old).for_each(|name| *name = address.into());
    }
    for token in book.tokens.iter_mut().filter(|t| t.agent.is_some() && t.speaks_for(&old)) {
        token.agent = Some(address.to_owned());
    }
    let parse = |text: &str| Address::parse_in(text, &state.network).ok();
    if let (Some(from), Some(to)) = (parse(&old), parse(address)) {
        for permissions in book.resources.values_mut().filter_map(|r| r.permissions.as_mut()) {
            if let Some(renamed) = permissions.renamed(&from, &to) {
                *permissions = renamed;
            }
        }
    }
    if crate::bugs::on("renamed without its mail") {
        state.lists.acked.entry(member).or_default().floor = book.head;
        state.settle(member);
    }
    let book = &mut state.book;
    book.dead_letters.iter_mut().filter(|d| d.recipient == old).for_each(|d| d.recipient = address.into());
}

/// Of an older release, whose deadlines were stamps: the wall clock leapt ahead.
pub(crate) fn leapt(state: &mut State, by: Millis) {
    for until in state.book.members.iter_mut().filter_map(|m| m.quiet_until.as_mut()) {
        *until = until.saturating_add(by);
    }
}

impl State {
    /// A member as it sees itself: the roster's entry, and what it decided.
    pub fn me_view(&self, live: &VolatileState, id: MemberId, now: Clock) -> Option<MeView> {
        let m = self.member(id)?;
        let names = |ids: &mut dyn Iterator<Item = &ChannelId>| -> Vec<String> {
            ids.filter_map(|c| self.channel(*c)).map(|c| format!("channel/{}", c.name)).collect()
        };
        let member = self.member_view(live, id, now)?;
        Some(MeView {
            member: MemberView { dnd: Some(m.quiet_until.is_some()), ..member },
            name: m.name().into(),
            former: m.former.clone(),
            channels: names(&mut m.seats.keys().filter(|c| m.sits_in(**c))),
            muted: names(&mut m.muted.iter()),
            left: m.left,
            pending: self.pending_count(id),
        })
    }
}
