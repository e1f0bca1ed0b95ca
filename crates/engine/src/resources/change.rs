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
use rialto_model::access::{Operation, Permissions};
use rialto_model::address::{Address, Entity, ResourceKind};
use rialto_model::view::{AdminOutcome, Done};
use rialto_model::{ErrorCode, EventType, Fault, hex, limits};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Characters of a description.
const DESCRIPTION_CHARS_MAX: usize = 4096;
/// Characters of a content type.
const CONTENT_TYPE_CHARS_MAX: usize = 128;

fn bad(field: &str, what: impl Into<String>) -> Fault {
    let field = format!("payload.{field}");
    Fault::new(ErrorCode::InvalidArgument, format!("{field}: {}", what.into())).field(&field)
}

/// A payload of a resource event, with what it may say of a resource.
struct ResourcePayload(Map<String, Value>);

impl ResourcePayload {
    fn read(draft: &EmitDraft<'_, '_>) -> Result<ResourcePayload, Fault> {
        serde_json::from_str(&draft.envelope.payload)
            .map(ResourcePayload)
            .map_err(|e| Fault::new(ErrorCode::InvalidPayload, e.to_string()).field("payload"))
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn text(&self, key: &str, max: usize) -> Result<Option<&str>, Fault> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) if text.chars().count() <= max => Ok(Some(text)),
            Some(Value::String(_)) => Err(bad(key, format!("at most {max} characters"))),
            Some(_) => Err(bad(key, "text")),
        }
    }

    /// The bytes of inline content.
    fn bytes(&self) -> Result<Option<Vec<u8>>, Fault> {
        let Some(content) = self.get("content") else { return Ok(None) };
        let Some(text) = content.as_str() else { return Err(bad("content", "text, in the encoding that is said")) };
        match self.text("encoding", 16)? {
            None | Some("utf8" | "utf-8") => Ok(Some(text.as_bytes().to_vec())),
            Some("base64") => {
                use base64::Engine as _;
                let bytes = base64::engine::general_purpose::STANDARD.decode(text);
                Ok(Some(bytes.map_err(|_| bad("content", "not base64"))?))
            }
            Some(_) => Err(bad("encoding", "utf8 or base64")),
        }
    }

    /// The hash of content that was uploaded before.
    fn blob(&self) -> Result<Option<[u8; 32]>, Fault> {
        let Some(blob) = self.get("blob") else { return Ok(None) };
        let hash = blob.get("sha256").and_then(Value::as_str).and_then(hex::hash);
        Ok(Some(hash.ok_or_else(|| bad("blob", "{\"sha256\": 64 hex digits}"))?))
    }

    fn metadata(&self) -> Result<Option<Map<String, Value>>, Fault> {
        match self.get("metadata") {
            None => Ok(None),
            Some(Value::Object(map)) if Value::Object(map.clone()).to_string().len() <= limits::METADATA_BYTES_MAX => {
                Ok(Some(map.clone()))
            }
            Some(_) => Err(bad("metadata", format!("an object of at most {} bytes", limits::METADATA_BYTES_MAX))),
        }
    }

    /// {input, output} of a tool; asks whether they are schemas that may be used.
    fn schema(&self, kind: ResourceKind, answers: &Answers) -> Result<Option<Value>, Stop> {
        let Some(said) = self.get("schema") else { return Ok(None) };
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
        Ok(Some(said.clone()))
    }
}

/// What content an event brings: inline or uploaded before. Asks for it to be kept, or how large it is.
fn content(
    said: &ResourcePayload,
    by: MemberId,
    base: Option<Content>,
    answers: &Answers,
) -> Result<Option<Content>, Stop> {
    match (said.bytes()?, said.blob()?) {
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

fn named(state: &State, said: &ResourcePayload) -> Result<(Address, ResourceKind), Fault> {
    let text = said.text("address", 1024)?.ok_or_else(|| bad("address", "resource/tool/name, resource/file/path …"))?;
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
fn without_content(mut said: ResourcePayload, content: Option<Content>) -> String {
    if said.0.remove("content").is_some() {
        said.0.remove("encoding");
        said.0.insert("blob".into(), json!(content.map(|c| json!({ "sha256": hex::text(&c.blob), "size": c.size }))));
    }
    Value::Object(said.0).to_string()
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
    let said = ResourcePayload::read(&draft)?;
    let (address, kind) = named(state, &said)?;
    let by = draft.member;
    if said.text("type", 16)?.is_some_and(|text| text != kind.as_str()) {
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
    let permissions = match said.get("permissions") {
        Some(value) => {
            Some(state.default_permissions().merged(value, Some(kind), &state.network, "payload.permissions")?)
        }
        None => None,
    };
    let schema = said.schema(kind, answers)?;
    if kind == ResourceKind::Tool && (said.get("content").is_some() || said.get("blob").is_some()) {
        return Err(bad("content", "a tool has none").into());
    }
    let content = content(&said, by, None, answers)?;
    let old = known.map(|(_, r)| r.clone());
    let fresh = Resource {
        address: address.as_str().into(),
        kind,
        owner: Some(by),
        description: said.text("description", DESCRIPTION_CHARS_MAX)?.unwrap_or_default().to_owned(),
        schema,
        content_type: said.text("content_type", CONTENT_TYPE_CHARS_MAX)?.map(str::to_owned),
        permissions,
        version: old.as_ref().map_or(1, |r| r.version + 1),
        content: None,
        content_since: 1,
        older: Vec::new(),
        metadata: said.metadata()?.unwrap_or_default(),
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
    draft.payload = Some(without_content(said, content));
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
    let (address, _) = named(state, &ResourcePayload::read(&draft)?)?;
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
    let said = ResourcePayload::read(&draft)?;
    let by = Some(draft.member);
    let administers = ["description", "schema", "permissions", "metadata"].iter().any(|key| said.get(key).is_some());
    let writes = ["content", "blob", "content_type", "append"].iter().any(|key| said.get(key).is_some());
    let operation = if administers { Operation::Admin } else { Operation::Write };
    let (no, resource) = access::admit(state, &draft.target, by, operation)?;
    if writes {
        access::admit(state, &draft.target, by, Operation::Write)?;
    }
    if !administers && !writes {
        return Err(bad("content", "nothing is to change: give what is to be different").into());
    }
    if let Some(expected) = said.get("if_version") {
        let expected = expected.as_u64().ok_or_else(|| bad("if_version", "a version"))?;
        if expected != resource.version {
            let text =
                format!("{} is at version {} by now: read it, and change that", resource.address, resource.version);
            let details = json!({ "version": resource.version });
            return Err(Fault::new(ErrorCode::VersionConflict, text).details(details).into());
        }
    }
    if resource.kind != ResourceKind::Tool && resource.content.is_none() && writes && resource.owner != by {
        return super::call::forward(state, live, draft, no, resource, work::UnitKind::Update, now, fx);
    }
    if resource.kind == ResourceKind::Tool && writes {
        return Err(bad("content", "a tool has none").into());
    }
    let append = match said.get("append") {
        None => false,
        Some(Value::Bool(on)) => *on,
        Some(_) => return Err(bad("append", "true or false").into()),
    };
    let schema = said.schema(resource.kind, answers)?;
    let permissions = match said.get("permissions") {
        Some(value) => {
            let now = resource.permissions.clone().unwrap_or_else(|| state.default_permissions());
            Some(now.merged(value, Some(resource.kind), &state.network, "payload.permissions")?)
        }
        None => None,
    };
    let base = resource.content.filter(|_| append && said.get("content").is_some());
    let content = content(&said, draft.member, base, answers)?;
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
    apply_said(&mut next, &said, schema, permissions)?;
    next.version += 1;
    next.updated_at = state.stamp(now.wall);
    draft.payload = Some(without_content(said, content));
    draft.route.stream = None;
    let mut accepted = emit::commit(state, live, draft, now, fx)?;
    accepted.says(json!({ "address": next.address, "version": next.version }));
    tell(state, live, &next, "updated", now, fx);
    fx.change(Change::ResourceSet { resource: no, record: Box::new(next) });
    Ok(accepted)
}

fn apply_said(
    next: &mut Resource,
    said: &ResourcePayload,
    schema: Option<Value>,
    permissions: Option<Permissions>,
) -> Result<(), Fault> {
    if let Some(text) = said.text("description", DESCRIPTION_CHARS_MAX)? {
        next.description = text.to_owned();
    }
    if let Some(text) = said.text("content_type", CONTENT_TYPE_CHARS_MAX)? {
        next.content_type = Some(text.to_owned());
    }
    if let Some(metadata) = said.metadata()? {
        next.metadata = metadata;
    }
    next.schema = schema.or(next.schema.take());
    next.permissions = permissions.or(next.permissions.take());
    Ok(())
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
