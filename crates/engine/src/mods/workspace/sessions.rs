//! Sessions: channels named `session-…`, with what they say of themselves (OpenAgents sheet, section 6.1).
//!
//! Invariant: a title somebody chose is never replaced by one that was made up.

use super::active;
use crate::channels::{self, DecidedChannel};
use crate::emit::{self, EmitDraft};
use crate::input::{Accepted, Clock, Effects, Stop};
use crate::membership::find_named;
use crate::mods::persistence;
use crate::presence::VolatileState;
use crate::record::Change;
use crate::route::StreamKey;
use crate::server_events::mod_event;
use crate::shares::Maker;
use crate::state::{Channel, ChannelId, Member, MemberId, State};
use rialto_model::channel::ChannelStatus;
use rialto_model::payload::{ChannelChanges, NewChannel, SessionUpdate};
use rialto_model::view::AdminOutcome;
use rialto_model::{ErrorCode, EventType, Fault, Millis, limits};
use serde_json::{Map, Value, json};

/// Characters of a title made from a message.
const AUTO_TITLE_CHARS_MAX: usize = 60;
/// Days a session may rest before it is archived, unless the mod says otherwise.
const ARCHIVE_DAYS: u64 = 30;
/// Sessions that rest are looked for this often.
const ARCHIVE_EVERY_MS: Millis = 3_600_000;
/// Sessions archived at once.
const ARCHIVED_AT_ONCE_MAX: usize = 1000;

/// Whether a channel of this name is a session.
pub(crate) fn is_session(name: &str) -> bool {
    session_id(name).is_some()
}

fn session_id(name: &str) -> Option<&str> {
    name.strip_prefix("session-").filter(|id| !id.is_empty())
}

fn says(
    state: &State,
    kind: EventType<'_>,
    channel: ChannelId,
    name: &str,
    payload: &Value,
    now: Clock,
    fx: &mut Effects,
) {
    if active(state, kind).is_some() && is_session(name) {
        mod_event(state, "workspace", kind, (channel, name), payload, now, fx);
    }
}

/// A channel was made: a session is told of.
pub(crate) fn began(state: &State, made: &DecidedChannel, titled: bool, now: Clock, fx: &mut Effects) {
    if titled && is_session(&made.name) {
        fx.change(Change::ChannelSet {
            channel: made.id,
            title: None,
            title_manual: Some(true),
            starred: None,
            no_resume_from: false,
        });
    }
    says(state, EventType::SessionCreated, made.id, &made.name, &told(state, made), now, fx);
}

/// The payload of `workspace.session.created`.
fn told(state: &State, made: &DecidedChannel) -> Value {
    let address = |id: MemberId| state.member(id).map(|m| m.address.clone());
    let mut told = json!({
        "session_id": session_id(&made.name), "channel": format!("channel/{}", made.name), "title": made.title,
        "participants": channels::addresses(state, &made.seats),
        "created_by": made.created_by.and_then(address).unwrap_or_else(|| "core".into()),
    });
    if let (Some(master), Some(map)) = (made.master.and_then(address), told.as_object_mut()) {
        map.insert("master".into(), json!(master));
    }
    told
}

/// `workspace.session.created` of a client, for a channel that is not there: it is made.
pub(super) fn create(
    state: &State,
    live: &mut VolatileState,
    mut draft: EmitDraft<'_, '_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let wish: NewChannel = draft.said()?;
    let name = channels::channel_name(&draft.target)?;
    let made = channels::make(state, name, &wish, (Some(draft.member), draft.maker), now, fx)?;
    if wish.title.is_some() {
        fx.change(Change::ChannelSet {
            channel: made.id,
            title: None,
            title_manual: Some(true),
            starred: None,
            no_resume_from: false,
        });
    }
    draft.retarget(&made.name, made.id);
    draft.admitted = true;
    // What the sender left out is filled in; what it says besides is kept.
    let mut whole: Map<String, Value> = draft.said()?;
    whole.extend(told(state, &made).as_object().cloned().unwrap_or_default());
    draft.payload = Some(Value::Object(whole).to_string());
    let mut accepted = emit::commit(state, live, draft, now, fx)?;
    accepted.says(json!({ "channel": format!("channel/{}", made.name), "name": made.name }));
    Ok(accepted)
}

/// What is to change about a channel.
#[derive(Debug, Default)]
struct ChannelChange {
    title: Option<String>,
    starred: Option<bool>,
    status: Option<ChannelStatus>,
    master: Option<Option<MemberId>>,
}

impl ChannelChange {
    fn of(state: &State, changes: &ChannelChanges) -> Result<ChannelChange, Fault> {
        let ChannelChanges { title, starred, status, master_agent } = changes.clone();
        if title.as_ref().is_some_and(|t| t.trim().is_empty() || t.chars().count() > limits::CHANNEL_TITLE_CHARS_MAX) {
            let text = format!("title: expected text of 1 to {} characters", limits::CHANNEL_TITLE_CHARS_MAX);
            return Err(Fault::new(ErrorCode::InvalidPayload, text).field("changes.title"));
        }
        let agent = |name: String| {
            let id = find_named(state, &name).filter(|id| state.member(*id).is_some_and(|m| !m.is_human()));
            id.ok_or_else(|| Fault::new(ErrorCode::UnknownTarget, format!("{name} is no agent here")))
        };
        let master = master_agent.map(|name| name.map(agent).transpose()).transpose()?;
        Ok(ChannelChange { title, starred, status, master })
    }

    fn apply(self, channel: ChannelId, here: &Channel, auto: bool, fx: &mut Effects) {
        let title = self.title.filter(|_| !(auto && here.title_manual));
        if title.is_some() || self.starred.is_some() {
            let title_manual = title.as_ref().map(|_| !auto);
            fx.change(Change::ChannelSet {
                channel,
                title,
                title_manual,
                starred: self.starred,
                no_resume_from: false,
            });
        }
        if let Some(master) = self.master {
            if let Some(member) = master.filter(|id| !here.seated.contains(id)) {
                fx.change(Change::Seated { channel, member });
            }
            fx.change(Change::ChannelMaster { channel, master });
        }
        if let Some(status) = self.status.filter(|status| *status != here.status) {
            fx.change(Change::ChannelStatus { channel, status });
        }
    }
}

/// `workspace.session.updated` of a member: it applies to the channel.
pub(super) fn update(
    state: &State,
    live: &mut VolatileState,
    mut draft: EmitDraft<'_, '_>,
    channel: ChannelId,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let SessionUpdate { changes, auto_title } = draft.said()?;
    let name = channels::channel_name(&draft.target)?;
    let (_, here) = channels::visible(state, &name, draft.member)?;
    let by = state.member(draft.member);
    let manages = channels::manages(state, draft.member, here) || by.is_some_and(Member::is_human);
    if !manages && !by.is_some_and(|m| m.sits_in(channel)) {
        let text = format!("join channel/{name}, or be its master, to change it");
        return Err(Fault::new(ErrorCode::NotAChannelMember, text).into());
    }
    let wish = ChannelChange::of(state, &changes)?;
    if wish.status == Some(ChannelStatus::Deleted) && !manages {
        return Err(Fault::new(ErrorCode::Forbidden, "only its creator, a master or a human deletes a session").into());
    }
    let auto = auto_title.unwrap_or(false);
    draft.admitted = true;
    let mut accepted = emit::commit(state, live, draft, now, fx)?;
    wish.apply(channel, here, auto, fx);
    accepted.says(json!({ "channel": format!("channel/{name}") }));
    Ok(accepted)
}

/// The operator's way to change any channel.
pub(crate) fn set(
    state: &State,
    name: &str,
    update: &SessionUpdate,
    now: Clock,
    fx: &mut Effects,
) -> Result<AdminOutcome, Fault> {
    crate::emit::is_active(state)?;
    let name = channels::channel_name(name)?;
    let unknown = || Fault::new(ErrorCode::UnknownTarget, format!("channel/{name}: no such channel"));
    let id = state.channel_id(&name).ok_or_else(unknown)?;
    let here = state.channel(id).ok_or_else(unknown)?;
    let SessionUpdate { changes, auto_title } = update;
    let auto = auto_title.unwrap_or(false);
    let wish = ChannelChange::of(state, changes)?;
    let mut payload = json!({ "session_id": session_id(&name), "changes": changes });
    if let (true, Some(map)) = (auto, payload.as_object_mut()) {
        map.insert("auto_title".into(), json!(true));
    }
    says(state, EventType::SessionUpdated, id, &name, &payload, now, fx);
    wish.apply(id, here, auto, fx);
    Ok(AdminOutcome::Channel { channel: format!("channel/{name}"), name: None })
}

/// The operator's way to make a session: an unnamed one gets a name.
pub(crate) fn open(
    state: &State,
    wish: &NewChannel,
    by: Option<&str>,
    now: Clock,
    fx: &mut Effects,
) -> Result<AdminOutcome, Fault> {
    crate::emit::is_active(state)?;
    let name = match &wish.name {
        Some(name) => channels::channel_name(name)?,
        None => channels::free_name(state, "session"),
    };
    let by = by.and_then(|name| find_named(state, name));
    let titled = wish.title.as_ref().is_some_and(|title| !is_default(&name, title));
    let made = channels::make(state, name, wish, (by, Maker::Operator), now, fx)?;
    began(state, &made, titled, now, fx);
    Ok(AdminOutcome::Channel { channel: format!("channel/{}", made.name), name: Some(made.name) })
}

/// Whether nobody has thought of this title.
fn is_default(name: &str, title: &str) -> bool {
    let numbered = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
    title == name || title.strip_prefix("Session ").is_some_and(numbered)
}

/// The title a message of a human gives to its session, if that has none yet.
pub(super) fn title_for(state: &State, channel: ChannelId, content: &str) -> Option<String> {
    let here = state.channel(channel)?;
    if !is_session(&here.name) || here.title_manual || !is_default(&here.name, &here.title) {
        return None;
    }
    auto_title(content)
}

/// The title that is made from a message.
pub(crate) fn auto_title(content: &str) -> Option<String> {
    let line = content.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(AUTO_TITLE_CHARS_MAX).collect::<String>().trim_end().to_owned())
}

/// Tells that a session is called by its name again.
pub(crate) fn untitled(state: &State, channel: ChannelId, now: Clock, fx: &mut Effects) {
    let Some(here) = state.channel(channel) else { return };
    let payload =
        json!({ "session_id": session_id(&here.name), "changes": { "title": here.name }, "auto_title": true });
    says(state, EventType::SessionUpdated, channel, &here.name, &payload, now, fx);
}

/// A session has the title its first message gave it.
pub(crate) fn titled(state: &State, channel: ChannelId, title: String, now: Clock, fx: &mut Effects) {
    let Some(here) = state.channel(channel) else { return };
    let payload = json!({ "session_id": session_id(&here.name), "changes": { "title": title }, "auto_title": true });
    says(state, EventType::SessionUpdated, channel, &here.name, &payload, now, fx);
    fx.change(Change::ChannelSet {
        channel,
        title: Some(title),
        title_manual: None,
        starred: None,
        no_resume_from: false,
    });
}

/// Archives sessions nobody has written in for long, now and then. Starred ones stay.
pub(crate) fn archive(state: &State, live: &mut VolatileState, now: Clock, fx: &mut Effects) {
    let Some(config) = active(state, EventType::SessionUpdated) else { return };
    let days = config.config.get("auto_archive_days").and_then(Value::as_u64).unwrap_or(ARCHIVE_DAYS);
    // Where history keeps no messages, nobody knows when a session was last used.
    let known = persistence::keeps(state, EventType::MessagePosted.as_str());
    let due = live.archived_at.is_none_or(|at| now.steady >= at.saturating_add(ARCHIVE_EVERY_MS));
    if days == 0 || !known || !due {
        return;
    }
    live.archived_at = Some(now.steady);
    let age = days.saturating_mul(86_400_000);
    let through = state.aged_through(now, age);
    let rests = |id: ChannelId, c: &Channel| match channels::last_seq(state, id) {
        Some(seq) => seq <= through,
        None => state.first_at(c.created_at) < through,
    };
    let resting = (0..)
        .zip(&state.book.channels)
        .filter(|(_, c)| c.status == ChannelStatus::Active && !c.starred && is_session(&c.name))
        .filter(|(id, c)| rests(*id, c));
    for (channel, here) in resting.take(ARCHIVED_AT_ONCE_MAX) {
        let payload = json!({ "session_id": session_id(&here.name), "changes": { "status": "archived" } });
        says(state, EventType::SessionUpdated, channel, &here.name, &payload, now, fx);
        fx.change(Change::ChannelStatus { channel, status: ChannelStatus::Archived });
    }
}

/// Where an event about a session goes that a plain one could not go to: a session to be made, or an archived one.
pub(super) fn resolve(state: &State, kind: EventType<'_>, name: &str) -> Option<Option<StreamKey>> {
    let known = state.channel_id(name);
    let status = known.and_then(|id| state.channel(id)).map(|c| c.status);
    match (kind, status) {
        (EventType::SessionCreated, None) => Some(None),
        (EventType::SessionUpdated, Some(ChannelStatus::Archived)) => Some(known.map(StreamKey::Channel)),
        _ => None,
    }
}
