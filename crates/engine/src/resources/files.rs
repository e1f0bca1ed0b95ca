//! Files of a workspace: resources below `resource/file/uploads/{id}/{name}`, told of in their channel (OpenAgents sheet,
//! section 15).
//!
//! Invariant: what is brought for a private channel is not read outside of it, unless its owner says so; a file's event is
//! committed with the file. Of two files with one id the older one has it.
//! Not here: ids and bytes (the node), forms and ranges (the faces).

use super::{Resource, ResourceNo};
use crate::channels;
use crate::history::Viewer;
use crate::input::{Clock, Effects};
use crate::mods::{persistence, workspace};
use crate::record::{EventRecord, Record};
use crate::route::{Route, StreamKey};
use crate::state::{ChannelId, MemberId, State};
use rialto_model::access::{Operation, Permissions, Rule};
use rialto_model::channel::ChannelStatus;
use rialto_model::view::{FileList, FileView};
use rialto_model::{ErrorCode, Event, EventId, EventParts, EventType, Fault, Visibility, limits};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Names below one id that are looked at.
const FILES_PER_ID_MAX: usize = 1024;
const UPLOADS: &str = "resource/file/uploads/";

/// Id and name of a file, from its address.
fn parts(address: &str) -> Option<(&str, &str)> {
    address.strip_prefix(UPLOADS)?.split_once('/').filter(|(_, name)| !name.contains('/'))
}

/// Where a file with this id and name is.
pub fn address(id: &str, name: &str) -> String {
    format!("{UPLOADS}{id}/{name}")
}

/// The channel a file was brought for, if it says one; a member may bring it only where it may also speak.
fn channel_of(state: &State, metadata: &Map<String, Value>, by: MemberId) -> Result<Option<ChannelId>, Fault> {
    let Some(name) = metadata.get("channel_name").filter(|v| !v.is_null()) else { return Ok(None) };
    let field = "payload.metadata.channel_name";
    let bad = || Fault::new(ErrorCode::InvalidArgument, format!("{field}: the name of a channel")).field(field);
    let name = channels::channel_name(name.as_str().ok_or_else(bad)?)?;
    let (id, channel) = channels::visible(state, &name, by)?;
    if channel.status != ChannelStatus::Active {
        return Err(Fault::new(ErrorCode::UnknownTarget, format!("channel/{name} is archived")));
    }
    channels::may_post(state, id, by)?;
    Ok(Some(id))
}

/// A file that is about to be there.
pub(super) struct Placed {
    channel: Option<ChannelId>,
}

/// Looks at a resource that is being registered; a file for a private channel gets the rules of that.
pub(super) fn place(
    state: &State,
    resource: &mut Resource,
    by: MemberId,
    ruled: bool,
) -> Result<Option<Placed>, Fault> {
    if parts(&resource.address).is_none() {
        return Ok(None);
    }
    let channel = channel_of(state, &resource.metadata, by)?;
    let private = channel.and_then(|id| state.channel(id)).filter(|c| c.private && !ruled);
    if let Some(private) = private {
        let seats = channels::addresses(state, &private.seated);
        // More seats than a rule can name: the owner may still say who reads.
        let read = Rule::from_json_in(&json!(seats), &state.network).unwrap_or_else(|_| Rule::owner());
        resource.permissions = Some(Permissions { read, ..state.default_permissions() });
    }
    Ok(Some(Placed { channel }))
}

/// Tells of a new file.
pub(super) fn uploaded(
    state: &State,
    placed: &Placed,
    resource: &Resource,
    by: MemberId,
    now: Clock,
    fx: &mut Effects,
) {
    tell(state, EventType::FileUploaded, placed.channel, resource, Some(by), now, fx);
}

/// Tells that a file is no more, where it was told of before.
pub(super) fn deleted(state: &State, resource: &Resource, by: Option<MemberId>, now: Clock, fx: &mut Effects) {
    let name = resource.metadata.get("channel_name").and_then(Value::as_str);
    let channel = name.and_then(|name| state.channel_id(name.trim_start_matches("channel/")));
    // Its metadata is the owner's to change: it says nothing where it could not speak.
    let may = channel.is_none_or(|id| by.is_none_or(|by| channels::may_post(state, id, by).is_ok()));
    if parts(&resource.address).is_some() && name.is_some() == channel.is_some() && may {
        tell(state, EventType::FileDeleted, channel, resource, by, now, fx);
    }
}

fn tell(
    state: &State,
    kind: EventType<'_>,
    channel: Option<ChannelId>,
    resource: &Resource,
    by: Option<MemberId>,
    now: Clock,
    fx: &mut Effects,
) {
    let (Some((id, name)), Some(_)) = (parts(&resource.address), workspace::active(state, kind)) else { return };
    let stamp = state.stamp(now.wall);
    let seq = state.next_seq() + fx.events();
    let payload = json!({
        "file_id": id, "filename": name, "content_type": content_type(resource), "size": resource.content.map(|c| c.size),
        "address": resource.address,
    });
    let source = by.and_then(|id| state.member(id)).map_or("core", |m| m.address.as_ref());
    let place = channel.and_then(|id| state.channel(id)).map(|c| format!("channel/{}", c.name));
    // To nobody in particular: whoever may read the file may know of it.
    let visibility = match (&place, state.permissions(resource).read.is_network()) {
        (Some(_), _) => Visibility::Channel,
        (None, true) => Visibility::Public,
        (None, false) => Visibility::Direct,
    };
    let event = Event::new(
        seq,
        &EventParts {
            id: &EventId { at: stamp, seq, salt: state.book.salt }.to_text(),
            kind: kind.as_str(),
            source,
            target: place.as_deref().unwrap_or("core"),
            payload: &payload.to_string(),
            metadata: "{}",
            timestamp: stamp,
            network: &state.book.id,
            visibility,
        },
    );
    fx.commit(Record::Event(Arc::new(EventRecord {
        event,
        route: Route { stream: channel.map(StreamKey::Channel), source: by, ..Route::default() },
        received: None,
        receipt: false,
        stored: persistence::keeps(state, kind.as_str()),
        dies_at: None,
        verdicts: Vec::new(),
        more: None,
    })));
}

fn content_type(resource: &Resource) -> &str {
    resource.content_type.as_deref().unwrap_or("application/octet-stream")
}

/// Which files are listed.
#[derive(Debug, Clone, Default)]
pub struct FileFilter {
    /// Brought for this channel.
    pub channel_name: Option<String>,
    /// Brought by this member.
    pub uploaded_by: Option<String>,
    /// At most so many.
    pub limit: Option<usize>,
    /// After so many of them.
    pub offset: usize,
}

impl State {
    fn files(&self) -> impl Iterator<Item = (ResourceNo, &Resource)> {
        let files = self.book.resources.iter().filter(|(_, r)| r.content.is_some() && parts(&r.address).is_some());
        files.map(|(no, r)| (*no, r))
    }

    fn may_see_file(&self, viewer: Viewer, file: &Resource) -> bool {
        match viewer {
            Viewer::Operator => true,
            Viewer::Member(id) => self.allows(file, Some(id), Operation::Read),
            // A holder of the network's credential reads what everybody in the network may read.
            Viewer::Reader { .. } => self.permissions(file).read.is_network(),
        }
    }

    /// A file that the viewer may read, by its id.
    pub fn file(&self, viewer: Viewer, id: &str) -> Result<&Resource, Fault> {
        // Of two files with one id the older one has it.
        let found = self.with_id(id).filter(|(_, r)| r.content.is_some()).min_by_key(|(no, _)| *no);
        let missing = || Fault::new(ErrorCode::ResourceNotFound, format!("no file {id:?}"));
        found.map(|(_, r)| r).filter(|r| self.may_see_file(viewer, r)).ok_or_else(missing)
    }

    /// Whether an id is taken, also by a file that nobody here may read.
    pub fn has_file(&self, id: &str) -> bool {
        self.with_id(id).next().is_some()
    }

    /// Resources below the place of this id.
    fn with_id(&self, id: &str) -> impl Iterator<Item = (ResourceNo, &Resource)> {
        let place = format!("{UPLOADS}{id}/");
        let from = (std::ops::Bound::Included(place.as_str()), std::ops::Bound::Unbounded);
        let below = self.resource_index.names.range::<str, _>(from);
        let below: Vec<ResourceNo> =
            below.take_while(|(name, _)| name.starts_with(&place)).map(|(_, no)| *no).take(FILES_PER_ID_MAX).collect();
        let named = move |no| Some((no, self.resource(no)?));
        let id = id.to_owned();
        below
            .into_iter()
            .filter_map(named)
            .filter(move |(_, r)| parts(&r.address).is_some_and(|(known, _)| known == id))
    }

    /// Files the viewer may read, the newest first, and how many there are.
    pub fn files_seen(&self, viewer: Viewer, filter: &FileFilter) -> Result<FileList, Fault> {
        let limit = filter.limit.unwrap_or(limits::PAGE_EVENTS_DEFAULT);
        if !(1..=limits::PAGE_EVENTS_MAX).contains(&limit) {
            let text = format!("limit: 1 to {}", limits::PAGE_EVENTS_MAX);
            return Err(Fault::new(ErrorCode::InvalidArgument, text).field("limit"));
        }
        let by = filter.uploaded_by.as_deref().map(|name| crate::membership::find_named(self, name));
        let bare = |name: &str| name.trim_start_matches("channel/").to_owned();
        let channel = filter.channel_name.as_deref().map(bare);
        let passes = |r: &Resource| {
            by.is_none_or(|by| by.is_some() && r.owner == by)
                && channel.as_ref().is_none_or(|name| {
                    r.metadata.get("channel_name").and_then(Value::as_str).map(bare).as_ref() == Some(name)
                })
        };
        let mut found: Vec<&Resource> =
            self.files().map(|(_, r)| r).filter(|r| passes(r) && self.may_see_file(viewer, r)).collect();
        found.reverse();
        let page = found.iter().skip(filter.offset).take(limit).map(|r| self.file_view(r));
        Ok(FileList { files: page.collect(), total: found.len() })
    }

    /// A file as its readers see it.
    pub fn file_view(&self, file: &Resource) -> FileView {
        let (id, name) = parts(&file.address).unwrap_or_default();
        let owner = file.owner.and_then(|id| self.member(id));
        FileView {
            id: id.to_owned(),
            filename: name.to_owned(),
            content_type: content_type(file).to_owned(),
            size: file.content.map(|c| c.size),
            uploaded_by: owner.map_or_else(|| "core".into(), |m| m.address.clone()),
            created_at: if file.created_at == 0 { file.updated_at } else { file.created_at },
            channel_name: file
                .metadata
                .get("channel_name")
                .and_then(Value::as_str)
                .map(|name| name.trim_start_matches("channel/").to_owned()),
        }
    }
}
