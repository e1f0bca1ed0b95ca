//! Redaction: which copies of what an event said other records hold, and the changes that clear them.
//!
//! An event may set the title of a channel, the profile of a member, what a resource says of itself, the message of an
//! invitation, or the name of an artifact. The book keeps these, and later records repeat them. A value counts as copied while
//! the thing the event was about still has exactly what the event said; what somebody said since stays.
//!
//! What a mod sent because of the event and is not decided yet (`mods::external::owed`) counts as a copy, too: it does not come. The
//! record that such an emit was owed is blanked with its cause, and with the event that it became.
//!
//! Invariant: the changes of `clear` come before the tombstone, so that the state behind it holds no copy. Records before
//! it may then be overwritten ([`Copies::blank`]) and replay still ends in the same state.
//! Not here: names and ids (of members, channels, resources, threads, work), which stay as long as what they name.

mod blank;

use crate::dead;
use crate::input::{Clock, Content, Effects};
use crate::invites;
use crate::mods::external::owed::OwedMark;
use crate::mods::workspace::sessions;
use crate::record::{Change, EventRecord};
use crate::route::StreamKey;
use crate::state::{ChannelId, MemberId, State};
use crate::work::{UnitNo, WorkAct};
use rialto_model::hex;
use rialto_model::member::Profile;
use rialto_model::view::{Done, RedactionView};
use rialto_model::{ErrorCode, EventType, Fault, Seq};
use serde_json::{Map, Value};

/// What other records may have copied from one event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Copies {
    seq: Seq,
    channel: Option<ChannelTexts>,
    member: Option<MemberTexts>,
    resource: Option<ResourceTexts>,
    invitation: Option<InvitationTexts>,
    work: Option<WorkTexts>,
    cleared: Vec<Content>,
    replacement: Option<Content>,
    /// The owed emit that became the event.
    owed: Option<OwedMark>,
    /// Emits that followed from the event may have been recorded.
    caused: bool,
}

/// Titles that the event may have given to a channel.
#[derive(Debug, Clone, PartialEq)]
struct ChannelTexts {
    channel: ChannelId,
    title: Option<String>,
    resume_from: Option<String>,
}

/// What the event said of its sender.
#[derive(Debug, Clone, PartialEq)]
struct MemberTexts {
    member: MemberId,
    said: Profile,
}

/// What the event said of a resource.
#[derive(Debug, Clone, PartialEq)]
struct ResourceTexts {
    address: String,
    description: Option<String>,
    content_type: Option<String>,
    schema: Option<Value>,
    metadata: Option<Map<String, Value>>,
    content: Option<Content>,
}

/// The message of an invitation.
#[derive(Debug, Clone, PartialEq)]
struct InvitationTexts {
    id: String,
    message: String,
}

/// What the event said of a work unit.
#[derive(Debug, Clone, PartialEq)]
struct WorkTexts {
    unit: UnitNo,
    error: Option<String>,
    /// Id of the artifact it brought.
    artifact: Option<Box<str>>,
    name: Option<String>,
    content_type: Option<String>,
}

impl Copies {
    /// Reads from an event what may have been copied from it.
    pub fn of(record: &EventRecord) -> Copies {
        let said: Value = serde_json::from_str(record.event.payload()).unwrap_or_default();
        Copies {
            seq: record.event.seq,
            channel: ChannelTexts::of(record, &said),
            member: MemberTexts::of(record, &said),
            resource: ResourceTexts::of(record, &said),
            invitation: InvitationTexts::of(record, &said),
            work: WorkTexts::of(record, &said),
            cleared: Vec::new(),
            replacement: None,
            owed: record.more.as_ref().and_then(|more| more.owed),
            caused: false,
        }
    }

    /// The same copies, and emits that followed from the event: the network has had emits that waited.
    #[must_use]
    pub fn with_emits(self) -> Copies {
        Copies { caused: true, ..self }
    }

    /// Records of emits that repeat the event, or may quote it, lie behind this event; none if there are no such records.
    pub fn emits_after(&self) -> Option<Seq> {
        let caused = self.caused.then(|| self.seq.saturating_sub(1));
        self.owed.map(|mark| mark.after).into_iter().chain(caused).min()
    }

    /// Whether nothing is ever copied from such an event.
    pub fn is_empty(&self) -> bool {
        let Copies { seq: _, channel, member, resource, invitation, work, cleared: _, replacement: _, owed, caused } =
            self;
        let texts =
            channel.is_some() || member.is_some() || resource.is_some() || invitation.is_some() || work.is_some();
        !texts && owed.is_none() && !caused
    }

    /// Whether copies can only lie near the event: in records after the event before it, and before the second one behind it.
    /// The titles of channels and the messages of invitations are not repeated later. Records of emits are not meant here.
    pub fn are_near(&self) -> bool {
        self.member.is_none() && self.resource.is_none() && self.work.is_none()
    }

    /// The resource whose content the event brought, and that content.
    pub fn content(&self) -> Option<(&str, Content)> {
        let resource = self.resource.as_ref()?;
        Some((&resource.address, resource.content?))
    }

    /// The same copies, to be cleared together with contents of the resource that hold what the event brought. Each is
    /// replaced by `replacement`.
    pub fn with_contents(self, cleared: Vec<Content>, replacement: Content) -> Copies {
        Copies { cleared, replacement: Some(replacement), ..self }
    }

    /// Whether the network itself said in another event what this one brought.
    #[allow(clippy::wildcard_enum_match_arm, reason = "other types copy nothing")]
    pub fn are_in(&self, other: &EventRecord) -> bool {
        let event = &other.event;
        let said = || serde_json::from_str::<Value>(event.payload()).unwrap_or_default();
        match event.event_type() {
            EventType::SessionCreated | EventType::SessionUpdated => {
                let copied = ChannelTexts::of(other, &said()).and_then(|texts| texts.title);
                let here = |texts: &ChannelTexts| other.route.stream == Some(StreamKey::Channel(texts.channel));
                event.source().starts_with("mod/")
                    && copied.is_some()
                    && self.channel.as_ref().is_some_and(|texts| here(texts) && texts.title == copied)
            }
            EventType::FileUploaded | EventType::FileDeleted => {
                let said = said();
                let address = text(&said, "address");
                self.resource.as_ref().is_some_and(|texts| address.as_ref() == Some(&texts.address))
            }
            _ => false,
        }
    }
}

fn text(said: &Value, key: &str) -> Option<String> {
    said.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

impl ChannelTexts {
    #[allow(clippy::wildcard_enum_match_arm, reason = "other types say nothing of channels")]
    fn of(record: &EventRecord, said: &Value) -> Option<ChannelTexts> {
        let Some(StreamKey::Channel(channel)) = record.route.stream else { return None };
        let name = record.event.target().strip_prefix("channel/").unwrap_or_default();
        let (title, resume_from) = match record.event.event_type() {
            EventType::ChannelCreate | EventType::SessionCreated => (text(said, "title"), text(said, "resume_from")),
            EventType::SessionUpdated => (said.get("changes").and_then(|changes| text(changes, "title")), None),
            EventType::MessagePosted if sessions::is_session(name) => {
                (text(said, "content").and_then(|content| sessions::auto_title(&content)), None)
            }
            _ => return None,
        };
        let title = title.filter(|title| title != name);
        (title.is_some() || resume_from.is_some()).then_some(ChannelTexts { channel, title, resume_from })
    }
}

impl MemberTexts {
    #[allow(clippy::wildcard_enum_match_arm, reason = "other types say nothing of members")]
    fn of(record: &EventRecord, said: &Value) -> Option<MemberTexts> {
        let member = record.route.source?;
        let list = said.get("capabilities").and_then(Value::as_array);
        let capabilities = list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let said = match record.event.event_type() {
            EventType::AgentJoin => Profile {
                agent_type: text(said, "agent_type"),
                description: text(said, "description"),
                capabilities,
                server_host: text(said, "server_host"),
                working_dir: text(said, "working_dir"),
            },
            EventType::AgentAnnounce => {
                Profile { description: text(said, "description"), capabilities, ..Profile::default() }
            }
            _ => return None,
        };
        (said != Profile::default()).then_some(MemberTexts { member, said })
    }

    /// The profile without what the event said.
    fn cleared(&self, profile: &Profile) -> Profile {
        let kept = |has: &Option<String>, said: &Option<String>| has.clone().filter(|_| has != said);
        let same = profile.capabilities == self.said.capabilities;
        Profile {
            agent_type: kept(&profile.agent_type, &self.said.agent_type),
            description: kept(&profile.description, &self.said.description),
            capabilities: if same { Vec::new() } else { profile.capabilities.clone() },
            server_host: kept(&profile.server_host, &self.said.server_host),
            working_dir: kept(&profile.working_dir, &self.said.working_dir),
        }
    }
}

impl ResourceTexts {
    #[allow(clippy::wildcard_enum_match_arm, reason = "other types say nothing of resources")]
    fn of(record: &EventRecord, said: &Value) -> Option<ResourceTexts> {
        let address = match record.event.event_type() {
            EventType::ResourceRegister => text(said, "address")?,
            EventType::ResourceUpdate => record.event.target().to_owned(),
            _ => return None,
        };
        let content = said.get("blob").and_then(|blob| {
            let hash = blob.get("sha256").and_then(Value::as_str).and_then(hex::hash)?;
            Some(Content { blob: hash, size: blob.get("size").and_then(Value::as_u64).unwrap_or(0) })
        });
        Some(ResourceTexts {
            address,
            description: text(said, "description"),
            content_type: text(said, "content_type"),
            schema: said.get("schema").filter(|schema| !schema.is_null()).cloned(),
            metadata: said.get("metadata").and_then(Value::as_object).filter(|map| !map.is_empty()).cloned(),
            content,
        })
    }
}

impl InvitationTexts {
    fn of(record: &EventRecord, said: &Value) -> Option<InvitationTexts> {
        let about = record.event.event_type() == EventType::InvitationCreated;
        about.then(|| Some(InvitationTexts { id: text(said, "invitation_id")?, message: text(said, "message")? }))?
    }
}

impl WorkTexts {
    fn of(record: &EventRecord, said: &Value) -> Option<WorkTexts> {
        let mark = record.more.as_ref()?.work.as_ref()?;
        // Of what the network says the code is its own.
        let error = said.get("error").filter(|_| record.event.source() != "core").and_then(|error| text(error, "code"));
        let error = error.filter(|code| mark.error.as_deref() == Some(code));
        let made = said.get("artifact");
        let (artifact, name, content_type) = match (&mark.act, made) {
            (WorkAct::Artifact(artifact), Some(made)) => {
                let content_type = made.get("blob").and_then(|blob| text(blob, "content_type"));
                (Some(artifact.id.clone()), text(made, "name"), content_type)
            }
            _ => (None, None, None),
        };
        let any = error.is_some() || name.is_some() || content_type.is_some();
        any.then_some(WorkTexts { unit: mark.unit, error, artifact, name, content_type })
    }
}

/// Decides that an event is redacted: clears what was copied from it, then marks it and what was sent again from it.
pub(crate) fn redact(
    state: &State,
    seq: Seq,
    copies: Option<&Copies>,
    now: Clock,
    fx: &mut Effects,
) -> Result<RedactionView, Fault> {
    if seq == 0 || seq > state.book.head {
        return Err(ErrorCode::CursorUnknown.into());
    }
    let cleared = copies.is_some_and(|copies| clear(state, copies, now, fx));
    let resent = dead::copies_of(state, seq);
    // Marked once more where something had to be cleared again: what came in between is overwritten too.
    let due = |one: &&Seq| cleared || !state.book.redacted.contains(one);
    for seq in std::iter::once(&seq).chain(&resent).filter(due) {
        fx.change(Change::Redacted { seq: *seq });
    }
    Ok(RedactionView { seq, status: Done::Redacted, copies: resent })
}

/// Clears every copy that the book holds. Returns whether there was one.
fn clear(state: &State, copies: &Copies, now: Clock, fx: &mut Effects) -> bool {
    let before = fx.mark();
    if let Some(texts) = &copies.channel {
        clear_channel(state, texts, now, fx);
    }
    if let Some(texts) = &copies.member
        && let Some(member) = state.book.members.get(texts.member as usize)
    {
        let profile = texts.cleared(&member.profile);
        if profile != member.profile {
            fx.change(Change::Profile { member: texts.member, profile });
        }
    }
    if let Some(texts) = &copies.resource {
        clear_resource(state, texts, copies, fx);
    }
    if let Some(texts) = &copies.invitation
        && let Some(invite) = state.book.invites.get(texts.id.as_str())
        && invite.message.as_ref() == Some(&texts.message)
    {
        let record = invites::Invite { message: None, ..invite.clone() };
        fx.change(Change::Invited { invitation: texts.id.as_str().into(), record });
    }
    if let Some(texts) = &copies.work {
        clear_work(state, texts, fx);
    }
    // What a mod said of the event and nobody has decided yet may quote it: it does not come.
    for (number, _) in state.book.owed.iter().filter(|(_, emit)| emit.cause == Some(copies.seq)) {
        fx.change(Change::EmitSettled { number: *number });
    }
    fx.mark() != before
}

/// A title that goes leaves the channel with its name for one.
fn clear_channel(state: &State, texts: &ChannelTexts, now: Clock, fx: &mut Effects) {
    let Some(here) = state.book.channels.get(texts.channel as usize) else { return };
    let title = (texts.title.as_ref() == Some(&here.title)).then(|| here.name.to_string());
    let no_resume_from = here.resume_from.is_some() && here.resume_from == texts.resume_from;
    if title.is_none() && !no_resume_from {
        return;
    }
    if title.is_some() {
        sessions::untitled(state, texts.channel, now, fx);
    }
    let title_manual = title.as_ref().map(|_| false);
    fx.change(Change::ChannelSet { channel: texts.channel, title, title_manual, starred: None, no_resume_from });
}

fn clear_resource(state: &State, texts: &ResourceTexts, copies: &Copies, fx: &mut Effects) {
    let Some((no, resource)) = state.resource_named(&texts.address) else { return };
    let mut next = resource.clone();
    if texts.description.as_ref() == Some(&next.description) {
        next.description.clear();
    }
    next.content_type = next.content_type.filter(|kind| texts.content_type.as_ref() != Some(kind));
    next.schema = next.schema.filter(|schema| texts.schema.as_ref() != Some(schema));
    if texts.metadata.as_ref() == Some(&next.metadata) {
        // The channel that a file was brought for is a name.
        let is_channel = |name: &Value| {
            name.as_str().is_some_and(|name| state.channel_id(name.trim_start_matches("channel/")).is_some())
        };
        next.metadata.retain(|key, value| key == "channel_name" && is_channel(value));
    }
    if let Some(replacement) = copies.replacement {
        let contents = next.content.iter_mut().chain(next.older.iter_mut().map(|(_, content)| content));
        contents.filter(|content| copies.cleared.contains(content)).for_each(|content| *content = replacement);
    }
    if next != *resource {
        fx.change(Change::ResourceSet { resource: no, record: Box::new(next) });
    }
}

fn clear_work(state: &State, texts: &WorkTexts, fx: &mut Effects) {
    let Some(unit) = state.unit(texts.unit) else { return };
    let mut next = unit.clone();
    next.error = next.error.filter(|code| texts.error.as_deref() != Some(code));
    for artifact in next.artifacts.iter_mut().filter(|a| texts.artifact.as_ref() == Some(&a.id)) {
        artifact.name = artifact.name.take().filter(|name| texts.name.as_deref() != Some(name));
        artifact.content_type = artifact.content_type.take().filter(|kind| texts.content_type.as_deref() != Some(kind));
    }
    if next != *unit {
        fx.change(Change::UnitSet { unit: texts.unit, record: Box::new(next) });
    }
}
