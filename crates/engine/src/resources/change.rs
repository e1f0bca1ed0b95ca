//! Registering, changing and unregistering resources.

use super::{Resource, ResourceNo, access, files, shorthand};
use crate::emit::{self, EmitDraft};
use crate::input::{Accepted, Answers, Clock, Content, Effect, Effects, Question, Stop};
use crate::presence::VolatileState;
use crate::record::Change;
use crate::route::{Route, StreamKey};
use crate::server_events::server_signal;
use crate::shares::ShareKind;
use crate::state::{MemberId, State};
use crate::work;
use rialto_model::access::Operation;
use rialto_model::address::{Address, Entity, ResourceKind};
use rialto_model::payload::{
    ContentName, ContentTypeText, DescriptionText, Encoding, NewResource, ResourceChanges, ResourceName,
};
use rialto_model::view::{AdminOutcome, Done};
use rialto_model::{ErrorCode, EventType, Fault, hex, limits, read};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

fn bad(field: &str, what: impl Into<String>) -> Fault {
    let field = format!("payload.{field}");
    Fault::new(ErrorCode::InvalidArgument, format!("{field}: {}", what.into())).field(&field)
}

fn said<T: for<'t> Deserialize<'t>>(draft: &EmitDraft<'_, '_>) -> Result<T, Fault> {
    read::text(&draft.envelope.payload, read::RESOURCE_PAYLOAD)
}

/// What an event says that brings content: inline, or uploaded before.
struct Brought {
    bytes: Option<Vec<u8>>,
    blob: Option<[u8; 32]>,
}

impl Brought {
    fn of(content: Option<&str>, encoding: Option<Encoding>, blob: Option<ContentName>) -> Result<Brought, Fault> {
        use base64::Engine as _;
        let bytes = match (content, encoding) {
            (None, _) => None,
            (Some(text), None | Some(Encoding::Utf8)) => Some(text.as_bytes().to_vec()),
            (Some(text), Some(Encoding::Base64)) => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(text);
                Some(bytes.map_err(|_| bad("content", "not base64"))?)
            }
        };
        Ok(Brought { bytes, blob: blob.map(|name| name.sha256.bytes()) })
    }

    fn is_something(&self) -> bool {
        self.bytes.is_some() || self.blob.is_some()
    }
}

/// What else is to be known of a resource, if it is not too much.
fn metadata(said: Option<Map<String, Value>>) -> Result<Option<Map<String, Value>>, Fault> {
    let bytes = |map: &Map<String, Value>| serde_json::to_string(map).map_or(usize::MAX, |text| text.len());
    if said.as_ref().is_some_and(|map| bytes(map) > limits::METADATA_BYTES_MAX) {
        return Err(bad("metadata", format!("an object of at most {} bytes", limits::METADATA_BYTES_MAX)));
    }
    Ok(said)
}

/// {input, output} of a tool; asks whether they are schemas that may be used.
fn schema(said: Option<Value>, kind: ResourceKind, answers: &Answers) -> Result<Option<Value>, Stop> {
    let Some(said) = said else { return Ok(None) };
    if kind != ResourceKind::Tool {
        return Err(bad("schema", "only tools have one").into());
    }
    if said.to_string().len() > limits::SCHEMA_BYTES_MAX {
        return Err(bad("schema", format!("at most {} bytes", limits::SCHEMA_BYTES_MAX)).into());
    }
    let parts = said.as_object().filter(|m| m.keys().all(|k| matches!(k.as_str(), "input" | "output")));
    let Some(parts) = parts else { return Err(bad("schema", "an object of input and output").into()) };
    if !answers.schema {
        // One question for both: each must hold by itself, and they do not see each other.
        let all: Vec<Value> = parts.values().map(shorthand::expanded).collect();
        let text = match all.as_slice() {
            [one] => one.to_string(),
            many => json!({ "prefixItems": many }).to_string(),
        };
        return Err(Stop::Ask(Box::new(Question::Schema { text })));
    }
    Ok(Some(said))
}

/// What content an event brings: inline or uploaded before. Asks for it to be kept, or how large it is.
fn content(brought: Brought, by: MemberId, base: Option<Content>, answers: &Answers) -> Result<Option<Content>, Stop> {
    match (brought.bytes, brought.blob) {
        (Some(_), Some(_)) => Err(bad("blob", "give content or a blob, not both").into()),
        (None, None) => Ok(None),
        (None, Some(hash)) => match answers.blobs.iter().find(|c| c.blob == hash) {
            Some(content) => Ok(Some(*content)),
            None => Err(Stop::Ask(Box::new(Question::Blob { by, sha256: hash }))),
        },
        (Some(bytes), None) => match answers.content {
            // What it was appended to may have changed meanwhile: then it is asked again.
            Some((kept, content)) if kept == base => Ok(Some(content)),
            _ => Err(Stop::Ask(Box::new(Question::Content { by, base, bytes: bytes.into() }))),
        },
    }
}

fn named(state: &State, text: &str) -> Result<(Address, ResourceKind), Fault> {
    let address = Address::parse_in(text, &state.network)
        .map_err(|e| Fault::new(ErrorCode::InvalidAddress, format!("{text:?}: {e}")).field("payload.address"))?;
    let Entity::Resource { kind, .. } = address.entity() else {
        return Err(bad("address", "resource/tool/name, resource/file/path or resource/context/name"));
    };
    if address.is_foreign() {
        return Err(bad("address", "a resource of this network"));
    }
    Ok((address.clone(), kind))
}

/// The stored form of an event that brings content: it names the content, it does not repeat it.
fn without_content(draft: &EmitDraft<'_, '_>, content: Option<Content>) -> Result<String, Fault> {
    let mut said: Map<String, Value> = said(draft)?;
    if said.remove("content").is_some_and(|content| !content.is_null()) {
        said.remove("encoding");
        said.insert("blob".into(), json!(content.map(|c| json!({ "sha256": hex::text(&c.blob), "size": c.size }))));
    }
    Ok(Value::Object(said).to_string())
}

/// `network.resource.register`.
pub(crate) fn register(
    state: &State,
    live: &mut VolatileState,
    mut draft: EmitDraft<'_, '_>,
    answers: &Answers,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let said: NewResource = said(&draft)?;
    let (address, kind) = named(state, &said.address)?;
    let by = draft.member;
    if said.kind.is_some_and(|named| named != kind) {
        return Err(bad("type", format!("{address} is a {}", kind.as_str())).into());
    }
    let known = state.resource_named(address.as_str());
    if known.is_some_and(|(_, r)| r.owner != Some(by)) {
        return Err(Fault::new(
            ErrorCode::AlreadyExists,
            format!("{address} belongs to another member: choose another address"),
        )
        .into());
    }
    if known.is_none() {
        state.has_room(ShareKind::Resources, draft.maker)?;
    }
    let permissions = match &said.permissions {
        Some(rules) => {
            Some(state.default_permissions().merged(rules, Some(kind), &state.network, "payload.permissions")?)
        }
        None => None,
    };
    let schema = schema(said.schema, kind, answers)?;
    let brought = Brought::of(said.content.as_deref(), said.encoding, said.blob)?;
    if kind == ResourceKind::Tool && brought.is_something() {
        return Err(bad("content", "a tool has none").into());
    }
    let content = content(brought, by, None, answers)?;
    let old = known.map(|(_, r)| r.clone());
    let fresh = Resource {
        address: address.as_str().into(),
        kind,
        owner: Some(by),
        description: said.description.map(DescriptionText::into_string).unwrap_or_default(),
        schema,
        content_type: said.content_type.map(ContentTypeText::into_string),
        permissions,
        version: old.as_ref().map_or(1, |r| r.version + 1),
        content: None,
        content_since: 1,
        older: Vec::new(),
        metadata: metadata(said.metadata)?.unwrap_or_default(),
        updated_at: state.stamp(now.wall),
        created_at: old.as_ref().map_or_else(|| state.stamp(now.wall), |r| r.created_at),
    };
    let mut resource = match old.map(|old| old.with_content(content)) {
        Some(old) => Resource { content, content_since: old.content_since, older: old.older, ..fresh },
        None => Resource { content, ..fresh },
    };
    let ruled = resource.permissions.is_some();
    let placed = files::place(state, &mut resource, by, ruled)?;
    let no = known.map_or(state.book.next_resource, |(no, _)| no);
    draft.payload = Some(without_content(&draft, content)?);
    let mut accepted = emit::commit(state, live, draft, now, fx)?;
    let change = if resource.version == 1 { "registered" } else { "updated" };
    accepted.says(json!({ "address": resource.address, "version": resource.version }));
    tell(state, live, &resource, change, now, fx);
    if let Some(placed) = placed.filter(|_| resource.content.is_some()) {
        files::uploaded(state, &placed, &resource, by, now, fx);
    }
    fx.change(Change::ResourceSet { resource: no, record: Box::new(resource) });
    Ok(accepted)
}

/// `network.resource.unregister`.
pub(crate) fn unregister(
    state: &State,
    live: &mut VolatileState,
    draft: EmitDraft<'_, '_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let ResourceName { address } = said(&draft)?;
    let (address, _) = named(state, &address)?;
    let (no, resource) = access::admit(state, address.as_str(), Some(draft.member), Operation::Admin)?;
    let by = Some(draft.member);
    let mut accepted = emit::commit(state, live, draft, now, fx)?;
    accepted.says(json!({ "address": resource.address }));
    end(state, live, no, resource, by, now, fx);
    Ok(accepted)
}

/// Takes a resource away for the operator, or for whoever manages the network without being a member.
pub(crate) fn withdraw(
    state: &State,
    live: &mut VolatileState,
    address: &str,
    now: Clock,
    fx: &mut Effects,
) -> Result<AdminOutcome, Fault> {
    let (no, resource) = access::admit(state, address, None, Operation::Admin)?;
    end(state, live, no, resource, None, now, fx);
    Ok(AdminOutcome::Unregistered { address: resource.address.clone(), status: Done::Unregistered })
}

/// Takes a resource away: calls that wait for it end.
fn end(
    state: &State,
    live: &mut VolatileState,
    no: ResourceNo,
    resource: &Resource,
    by: Option<MemberId>,
    now: Clock,
    fx: &mut Effects,
) {
    work::without_resource(state, no, now, fx);
    files::deleted(state, resource, by, now, fx);
    tell(state, live, resource, "unregistered", now, fx);
    fx.change(Change::ResourceGone { resource: no });
}

/// A member is deleted: what it owned goes with it.
pub(crate) fn orphaned(state: &State, owner: MemberId, fx: &mut Effects) {
    for no in state.resource_index.owned.get(&owner).into_iter().flatten() {
        fx.change(Change::ResourceGone { resource: *no });
    }
}

/// Tells those who may read a resource that it changed.
fn tell(state: &State, live: &mut VolatileState, resource: &Resource, change: &str, now: Clock, fx: &mut Effects) {
    let payload = json!({ "address": resource.address, "change": change, "version": resource.version });
    let signal = server_signal(state, live, EventType::ResourceChanged, &payload, now);
    let all = state.permissions(resource).read.is_network();
    let readers = || state.roster().map(|(id, _)| id).filter(|id| state.allows(resource, Some(*id), Operation::Read));
    let to = (!all).then(|| readers().collect());
    if let Effect::Signal { event, .. } = signal {
        fx.after.push(Effect::Signal {
            event,
            route: Route { stream: Some(StreamKey::Broadcast), to, ..Route::default() },
            after: None,
        });
    }
}

/// `network.resource.update` of a resource the network keeps. One that its owner keeps is the owner's to change.
pub(crate) fn update(
    state: &State,
    live: &mut VolatileState,
    mut draft: EmitDraft<'_, '_>,
    answers: &Answers,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let said: ResourceChanges = said(&draft)?;
    let by = Some(draft.member);
    let administers =
        said.description.is_some() || said.schema.is_some() || said.permissions.is_some() || said.metadata.is_some();
    let writes = said.content.is_some() || said.blob.is_some() || said.content_type.is_some() || said.append.is_some();
    let operation = if administers { Operation::Admin } else { Operation::Write };
    let (no, resource) = access::admit(state, &draft.target, by, operation)?;
    if writes {
        access::admit(state, &draft.target, by, Operation::Write)?;
    }
    if !administers && !writes {
        return Err(bad("content", "nothing is to change: give what is to be different").into());
    }
    if said.if_version.is_some_and(|expected| expected != resource.version) {
        let text = format!("{} is at version {} by now: read it, and change that", resource.address, resource.version);
        let details = json!({ "version": resource.version });
        return Err(Fault::new(ErrorCode::VersionConflict, text).details(details).into());
    }
    if resource.kind != ResourceKind::Tool && resource.content.is_none() && writes && resource.owner != by {
        return super::call::forward(state, live, draft, no, resource, work::UnitKind::Update, now, fx);
    }
    if resource.kind == ResourceKind::Tool && writes {
        return Err(bad("content", "a tool has none").into());
    }
    let schema = schema(said.schema, resource.kind, answers)?;
    let permissions = match &said.permissions {
        Some(rules) => {
            let now = resource.permissions.clone().unwrap_or_else(|| state.default_permissions());
            Some(now.merged(rules, Some(resource.kind), &state.network, "payload.permissions")?)
        }
        None => None,
    };
    let base = resource.content.filter(|_| said.append == Some(true) && said.content.is_some());
    let brought = Brought::of(said.content.as_deref(), said.encoding, said.blob)?;
    let content = content(brought, draft.member, base, answers)?;
    let mut next = resource.clone();
    if let Some(content) = content {
        if content.size > limits::FILE_BYTES_MAX {
            return Err(Fault::new(
                ErrorCode::TooLarge,
                format!("the file would be larger than {} bytes (limit)", limits::FILE_BYTES_MAX),
            )
            .field("payload.content")
            .into());
        }
        next = next.with_content(Some(content));
    }
    next.description = said.description.map(DescriptionText::into_string).unwrap_or(next.description);
    next.content_type = said.content_type.map(ContentTypeText::into_string).or(next.content_type);
    next.metadata = metadata(said.metadata)?.unwrap_or(next.metadata);
    next.schema = schema.or(next.schema);
    next.permissions = permissions.or(next.permissions);
    next.version += 1;
    next.updated_at = state.stamp(now.wall);
    draft.payload = Some(without_content(&draft, content)?);
    draft.route.stream = None;
    let mut accepted = emit::commit(state, live, draft, now, fx)?;
    accepted.says(json!({ "address": next.address, "version": next.version }));
    tell(state, live, &next, "updated", now, fx);
    fx.change(Change::ResourceSet { resource: no, record: Box::new(next) });
    Ok(accepted)
}

/// The schema a tool's input is checked against.
pub(super) fn input_schema(resource: &Resource) -> Option<Arc<str>> {
    part(resource, "input")
}

/// The schema a tool's output is held against.
pub(super) fn output_schema(resource: &Resource) -> Option<Arc<str>> {
    part(resource, "output")
}

fn part(resource: &Resource, key: &str) -> Option<Arc<str>> {
    let schema = resource.schema.as_ref()?.get(key)?;
    Some(shorthand::expanded(schema).to_string().into())
}
