//! mod/workspace: who is meant by a message in a channel, and how long a status lives (OpenAgents sheet, section 6).
//!
//! Invariant: without the mod its types are plain extension events.
//! Not here: which names a text mentions (`mentions`), who of them is meant (`route`).

pub mod mentions;
mod route;
pub(crate) mod sessions;

use super::ModConfig;
use crate::emit::EmitDraft;
use crate::input::{Accepted, Clock, Effects, Emit, Question, Stop};
use crate::invites;
use crate::presence::VolatileState;
use crate::record::{EventRecord, More};
use crate::route::StreamKey;
use crate::state::{ChannelId, Member, MemberId, State};
use rialto_model::address::{Address, Entity};
use rialto_model::event_type::Namespace;
use rialto_model::metadata::Metadata;
use rialto_model::{ErrorCode, EventType, Fault, Millis, limits};
use serde_json::{Value, json};
use std::sync::Arc;

/// Its name.
pub(crate) const NAME: &str = "workspace";
/// Nobody is meant: an empty list would wake everybody in older clients.
pub(crate) const NO_RESPONSE: &str = "__no_response__";
/// Agent messages in a row after which nobody is asked to answer, unless the mod says otherwise.
const LOOP_LIMIT: u64 = 20;
/// How long a status is kept, unless the mod says otherwise.
const STATUS_TTL_S: u64 = 86_400;

/// The mod, if it is loaded and looks at events of this type.
pub(crate) fn active<'s>(state: &'s State, kind: EventType<'_>) -> Option<&'s ModConfig> {
    let is_ours = kind.namespace() == Namespace::Workspace;
    state.workspace().filter(|m| is_ours && m.intercepts(kind.as_str()))
}

/// Whether the event goes to who is there and is forgotten, although it does not say so.
pub(crate) fn is_ephemeral(state: &State, kind: EventType<'_>) -> bool {
    kind == EventType::MessageStatus && active(state, kind).is_some()
}

/// Whether the mod writes into the metadata of this event.
pub(crate) fn rewrites(state: &State, draft: &EmitDraft<'_, '_>) -> bool {
    let kind = draft.kind;
    let posted = kind == EventType::MessagePosted && matches!(draft.route.stream, Some(StreamKey::Channel(_)));
    posted && active(state, kind).is_some() || acts(state, draft)
}

/// Where an event of the mod goes that a plain one could not go to.
pub(crate) fn resolve(state: &State, kind: EventType<'_>, target: &Address) -> Option<Option<StreamKey>> {
    if kind.namespace() != Namespace::Workspace || target.is_foreign() {
        return None;
    }
    if let Entity::Channel(name) = target.entity() {
        let session = sessions::is_session(name) && active(state, kind).is_some();
        return session.then(|| sessions::resolve(state, kind, name)).flatten();
    }
    invites::resolve(state, kind, target)
}

/// Whether the event does something to sessions or invitations.
pub(crate) fn acts(state: &State, draft: &EmitDraft<'_, '_>) -> bool {
    act_of(state, draft).is_some()
}

/// An event that does something.
enum WorkspaceAct {
    Create,
    Update(ChannelId),
    Invite,
}

fn act_of(state: &State, draft: &EmitDraft<'_, '_>) -> Option<WorkspaceAct> {
    let kind = draft.kind;
    if invites::is_about(state, kind) {
        return Some(WorkspaceAct::Invite);
    }
    if !matches!(kind, EventType::SessionCreated | EventType::SessionUpdated)
        || !draft.target.starts_with("channel/session-")
    {
        return None;
    }
    active(state, kind)?;
    match (kind, draft.route.stream) {
        (EventType::SessionCreated, None) => Some(WorkspaceAct::Create),
        (EventType::SessionUpdated, Some(StreamKey::Channel(id))) => Some(WorkspaceAct::Update(id)),
        _ => None,
    }
}

/// Decides such an event.
pub(crate) fn act(
    state: &State,
    live: &mut VolatileState,
    draft: EmitDraft<'_, '_>,
    input: &Emit<'_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    match act_of(state, &draft) {
        Some(WorkspaceAct::Create) => sessions::create(state, live, draft, now, fx),
        Some(WorkspaceAct::Update(channel)) => sessions::update(state, live, draft, channel, now, fx),
        Some(WorkspaceAct::Invite) => invites::decide(state, live, draft, input, now, fx),
        None => Err(ErrorCode::Internal.into()),
    }
}

/// What a message is, by its `message_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageKind {
    /// Somebody may be meant by it.
    Talk,
    /// Wakes nobody.
    Quiet,
    /// Wakes nobody, and is gone after a while.
    Fleeting,
}

/// A message the mod looks at.
#[derive(Debug)]
pub(crate) struct Message<'s> {
    config: &'s ModConfig,
    sort: MessageKind,
    said: Value,
    /// The event it answers, as far as it is known.
    answers: Option<Arc<EventRecord>>,
}

/// Reads a message before anything is decided about it; what it answers may have to be looked up first.
pub(crate) fn message<'s>(state: &'s State, draft: &EmitDraft<'_, '_>) -> Result<Option<Message<'s>>, Stop> {
    let kind = draft.kind;
    let Some(config) = (kind == EventType::MessagePosted).then(|| active(state, kind)).flatten() else {
        return Ok(None);
    };
    // A short message to one member is none of the mod's concern unless it says what sort it is: it is not parsed.
    let payload = draft.envelope.payload.as_ref();
    let in_channel = matches!(draft.route.stream, Some(StreamKey::Channel(_)));
    if !in_channel && payload.len() <= limits::MESSAGE_BYTES_MAX && !payload.contains("message_type") {
        return Ok(None);
    }
    let said: Value = serde_json::from_str(&draft.envelope.payload)
        .map_err(|e| Fault::new(ErrorCode::InvalidPayload, e.to_string()).field("payload"))?;
    if said.get("content").and_then(Value::as_str).is_some_and(|text| text.len() > limits::MESSAGE_BYTES_MAX) {
        let text = format!("a message is at most {} bytes", limits::MESSAGE_BYTES_MAX);
        return Err(Fault::new(ErrorCode::TooLarge, text).field("payload.content").into());
    }
    let sort = match said.get("message_type").and_then(Value::as_str) {
        Some("status" | "thinking") => MessageKind::Fleeting,
        Some("todos") => MessageKind::Quiet,
        _ => MessageKind::Talk,
    };
    let mut message = Message { config, sort, said, answers: None };
    if message.is_routed()
        && let (Some(StreamKey::Channel(channel)), Some(id)) = (draft.route.stream, draft.metadata.text("in_reply_to"))
        && !id.is_empty()
        && route::mentioned(state, channel, draft.member, &message.said).is_empty()
    {
        match draft.found.iter().find(|(known, _)| *known == id) {
            Some((_, record)) => message.answers.clone_from(record),
            None => return Err(Stop::Ask(Box::new(Question::Find { id: id.into_owned() }))),
        }
    }
    Ok(Some(message))
}

/// What the mod makes of a message besides its metadata.
#[derive(Debug, Default)]
pub(crate) struct Meant {
    /// Seated with the message, so that they receive it.
    pub(crate) seats: Vec<MemberId>,
    /// How long it is kept.
    pub(crate) life_ms: Option<Millis>,
    title: Option<String>,
    mentions: Vec<MemberId>,
}

impl Message<'_> {
    fn is_routed(&self) -> bool {
        self.sort == MessageKind::Talk && self.config.flag("mention_routing", true)
    }

    fn whole(&self, key: &str, default: u64) -> u64 {
        self.config.config.get(key).and_then(Value::as_u64).unwrap_or(default)
    }

    /// Writes who is meant into the metadata, and counts how long agents have been among themselves.
    pub(crate) fn transform(
        &self,
        state: &State,
        live: &mut VolatileState,
        draft: &EmitDraft<'_, '_>,
        metadata: &mut Metadata<'_>,
    ) -> Meant {
        let mut meant = Meant::default();
        if self.sort == MessageKind::Fleeting {
            meant.life_ms = Some(self.whole("status_ttl_s", STATUS_TTL_S).saturating_mul(1000));
        }
        let Some(StreamKey::Channel(channel)) = draft.route.stream else { return meant };
        let by_human = state.member(draft.member).is_some_and(Member::is_human);
        if by_human && self.sort == MessageKind::Talk && self.config.flag("auto_title", true) {
            let content = self.said.get("content").and_then(Value::as_str).unwrap_or_default();
            meant.title = sessions::title_for(state, channel, content);
        }
        if !self.is_routed() {
            return meant;
        }
        let streak = self.streak(live, channel, by_human);
        let routed = self.routed(state, channel, draft, streak);
        meant.mentions.clone_from(&routed.mentions);
        meant.seats.clone_from(&routed.seats);
        // A transform behind this mod has the last word.
        if !draft.walked.as_ref().is_some_and(|walked| walked.routed) {
            routed.write(&draft.address, metadata);
        }
        meant
    }

    /// Writes what [`Message::transform`] will write, and counts nothing.
    pub(crate) fn preview(
        &self,
        state: &State,
        live: &VolatileState,
        draft: &EmitDraft<'_, '_>,
        metadata: &mut Metadata<'_>,
    ) {
        let Some(StreamKey::Channel(channel)) = draft.route.stream.filter(|_| self.is_routed()) else { return };
        let by_human = state.member(draft.member).is_some_and(Member::is_human);
        let streak = if by_human { 0 } else { live.streaks.get(&channel).copied().unwrap_or(0) + 1 };
        self.routed(state, channel, draft, streak).write(&draft.address, metadata);
    }

    /// Who is meant.
    fn routed(&self, state: &State, channel: ChannelId, draft: &EmitDraft<'_, '_>, streak: u64) -> Routed {
        let by_human = state.member(draft.member).is_some_and(Member::is_human);
        let found = route::mentioned(state, channel, draft.member, &self.said);
        let (mentions, seats) = route::allowed(state, channel, draft.member, &found);
        let delegates = !by_human && mentions.iter().any(|id| state.member(*id).is_some_and(|m| !m.is_human()));
        let targets = if found.is_empty() {
            let master_answers = self.config.config.get("agent_default").and_then(Value::as_str) != Some("none");
            let answers = self.answers.as_deref();
            route::default(state, channel, draft.member, answers, master_answers).into_iter().collect()
        } else {
            mentions.clone()
        };
        let mut names: Vec<String> = targets.iter().filter_map(|id| route::shown(state, *id)).collect();
        if names.is_empty() || streak > self.whole("loop_limit", LOOP_LIMIT) {
            names = vec![NO_RESPONSE.to_owned()];
        }
        Routed { names, mentions, seats, delegates }
    }

    /// Messages of agents in a row in this channel, this one among them.
    fn streak(&self, live: &mut VolatileState, channel: ChannelId, by_human: bool) -> u64 {
        if by_human {
            live.streaks.remove(&channel);
            return 0;
        }
        let streak = live.streaks.entry(channel).or_default();
        *streak += 1;
        *streak
    }
}

/// Who is meant by a message.
struct Routed {
    names: Vec<String>,
    mentions: Vec<MemberId>,
    seats: Vec<MemberId>,
    /// An agent hands something on to another.
    delegates: bool,
}

impl Routed {
    fn write(&self, sender: &str, metadata: &mut Metadata<'_>) {
        metadata.set("target_agents", json!(self.names).to_string());
        if self.delegates {
            metadata.set("delegated_by", json!(sender).to_string());
        }
    }
}

impl Meant {
    /// Notes in the record what the metadata does not say. Gives the title the session has from here on.
    pub(crate) fn note(self, more: &mut Option<Box<More>>) -> Option<String> {
        if self.mentions.is_empty() && self.life_ms.is_none() {
            return self.title;
        }
        let more = more.get_or_insert_default();
        more.mentions = self.mentions;
        // What moves a work unit is kept as long as the unit is.
        more.fleeting = self.life_ms.is_some() && more.work.is_none();
        self.title
    }
}
