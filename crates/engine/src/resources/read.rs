//! Finding resources and reading them.

use super::{Resource, access};
use crate::core_events::{response, transient};
use crate::emit::{self, Draft};
use crate::input::{Accepted, Answers, Clock, Content, Effects, Question, Stop};
use crate::listing::{Budget, Piece};
use crate::presence::Live;
use crate::state::{MemberId, State};
use crate::work::UnitKind;
use rialto_model::access::Operation;
use rialto_model::address::ResourceKind;
use rialto_model::{ErrorCode, EventType, Fault, limits};
use serde_json::{Map, Value, json};

/// Bytes of content in one response: with base64 and the rest it stays below an event's limit.
const RESPONSE_BYTES_MAX: u64 = 512 << 10;

fn bad(field: &str, what: &str) -> Fault {
    Fault::new(ErrorCode::InvalidArgument, format!("payload.{field}: {what}")).field(&format!("payload.{field}"))
}

/// `network.resource.discover`.
pub(crate) fn discover(state: &State, live: &mut Live, draft: &Draft<'_, '_>, now: Clock) -> Result<Accepted, Stop> {
    emit::guard_request(state, live, &draft.envelope.kind, draft.member, now)?;
    let filter: Value = serde_json::from_str(&draft.envelope.payload).unwrap_or_default();
    let found = state.resources(live, Some(draft.member), &filter, now)?;
    let event = response(state, live, draft, EventType::ResourceDiscoverResponse, &found, now);
    Ok(transient(draft, event))
}

impl State {
    /// Resources a member may read (all for the operator), by address, after a cursor.
    pub fn resources(&self, live: &Live, viewer: Option<MemberId>, filter: &Value, now: Clock) -> Result<Value, Fault> {
        let text = |key: &str| filter.get(key).and_then(Value::as_str).filter(|t| !t.is_empty());
        let limit = match filter.get("limit").filter(|v| !v.is_null()) {
            None => limits::PAGE_EVENTS_DEFAULT,
            Some(n) => n
                .as_u64()
                .and_then(|n| usize::try_from(n).ok())
                .filter(|n| (1..=limits::PAGE_EVENTS_MAX).contains(n))
                .ok_or_else(|| bad("limit", &format!("1 to {}", limits::PAGE_EVENTS_MAX)))?,
        };
        let owner = text("owner").map(|name| crate::membership::find_named(self, name));
        let prefix = text("prefix").map(|p| p.trim_start_matches("resource/"));
        let passes = |r: &Resource| {
            text("type").is_none_or(|t| r.kind.as_str() == t)
                && owner.is_none_or(|o| o.is_some() && r.owner == o)
                && prefix.is_none_or(|p| r.address.trim_start_matches("resource/").starts_with(p))
                && text("query").is_none_or(|q| r.address.contains(q) || r.description.contains(q))
        };
        let piece = Piece::of(
            self.resources_after(text("after")),
            Budget::rows(limit),
            |r| r.description.len(),
            |r| r.address.to_string(),
            |r| {
                let shown = passes(r) && self.allows(r, viewer, Operation::Read);
                shown.then(|| (self.resource_entry(live, r, viewer, now), r.said_bytes()))
            },
        );
        let mut out = json!({ "resources": piece.rows });
        if let (Some(next), Some(map)) = (piece.next, out.as_object_mut()) {
            map.insert("next".into(), json!(next));
        }
        Ok(out)
    }

    /// A resource as listings show it.
    pub fn resource_entry(&self, live: &Live, r: &Resource, viewer: Option<MemberId>, now: Clock) -> Value {
        let owner = r.owner.and_then(|id| self.member(id));
        let there =
            r.owner.is_none_or(|id| live.is_online(id, now)) && owner.is_none_or(crate::state::Member::is_present);
        let yours: Vec<&str> = self.your_permissions(r, viewer).into_iter().map(Operation::as_str).collect();
        let mut out = json!({
            "address": r.address, "type": r.kind.as_str(), "owner": owner.map_or("core", |m| m.address.as_ref()),
            "owner_status": if there { "online" } else { "offline" }, "description": r.description, "version": r.version,
            "backing": if r.content.is_some() { "network" } else { "owner" }, "updated_at": r.updated_at,
            "your_permissions": yours,
        });
        let Some(map) = out.as_object_mut() else { return out };
        let rules = yours
            .contains(&"admin")
            .then(|| serde_json::to_value(self.permissions(r).view(r.kind)).unwrap_or_default());
        let optional = [
            ("schema", r.schema.clone()),
            ("content_type", r.content_type.as_deref().map(Value::from)),
            ("size", r.content.map(|c| Value::from(c.size))),
            ("metadata", (!r.metadata.is_empty()).then(|| Value::Object(r.metadata.clone()))),
            ("permissions", rules),
        ];
        map.extend(optional.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        out
    }

    /// A resource a viewer may read, as JSON, and the content of the version asked for.
    pub fn readable(
        &self,
        live: &Live,
        viewer: Option<MemberId>,
        address: &str,
        version: Option<u64>,
        now: Clock,
    ) -> Result<(Value, Option<Content>), Fault> {
        let (_, resource) = access::admit(self, address, viewer, Operation::Read)?;
        let content = content_of(resource, version)?;
        Ok((self.resource_entry(live, resource, viewer, now), content))
    }
}

fn content_of(resource: &Resource, version: Option<u64>) -> Result<Option<Content>, Fault> {
    let Some(version) = version.filter(|v| *v != resource.version) else { return Ok(resource.content) };
    let gone = || {
        let text = format!("version {version} of {} is not kept any more", resource.address);
        Fault::new(ErrorCode::ResourceNotFound, text)
    };
    resource.content_at(version).map(Some).ok_or_else(gone)
}

/// `network.resource.read`: what the network keeps is answered at once, the rest by its owner.
pub(crate) fn read(
    state: &State,
    live: &mut Live,
    draft: Draft<'_, '_>,
    answers: &Answers,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let (no, resource) = access::admit(state, &draft.target, Some(draft.member), Operation::Read)?;
    if resource.kind == ResourceKind::Tool {
        emit::guard_request(state, live, &draft.envelope.kind, draft.member, now)?;
        let payload = json!({
            "address": resource.address, "description": resource.description, "schema": resource.schema,
            "version": resource.version,
        });
        return Ok(transient(&draft, response(state, live, &draft, EventType::ResourceReadResponse, &payload, now)));
    }
    let wish: Map<String, Value> = serde_json::from_str(&draft.envelope.payload)
        .map_err(|e| Fault::new(ErrorCode::InvalidPayload, e.to_string()).field("payload"))?;
    let number = |key: &str| match wish.get(key).filter(|v| !v.is_null()) {
        None => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| bad(key, "a number")),
    };
    let (offset, length, version) = (number("offset")?.unwrap_or(0), number("length")?, number("version")?);
    let Some(content) = content_of(resource, version)? else {
        return super::call::forward(state, live, draft, no, resource, UnitKind::Read, now, fx);
    };
    let left = content.size.saturating_sub(offset);
    let length = length.unwrap_or(left).min(left);
    if length > RESPONSE_BYTES_MAX {
        let text = format!("at most {RESPONSE_BYTES_MAX} bytes in one response: say offset and length, or use HTTP");
        return Err(Fault::new(ErrorCode::TooLarge, text).field("payload.length").into());
    }
    let Some((_, _, bytes)) = answers.bytes.as_ref().filter(|(c, at, _)| (*c, *at) == (content, offset)) else {
        return Err(Stop::Ask(Box::new(Question::Bytes { content, offset, length })));
    };
    emit::guard_request(state, live, &draft.envelope.kind, draft.member, now)?;
    let wanted = wish.get("encoding").and_then(Value::as_str);
    let (text, encoding) = encoded(bytes, wanted)?;
    let payload = json!({
        "address": resource.address, "content": text, "encoding": encoding, "content_type": resource.content_type,
        "version": version.unwrap_or(resource.version), "size": content.size, "offset": offset,
    });
    Ok(transient(&draft, response(state, live, &draft, EventType::ResourceReadResponse, &payload, now)))
}

/// Content as text: as it is where that is asked for or possible, else in base64.
fn encoded(bytes: &[u8], wanted: Option<&str>) -> Result<(String, &'static str), Fault> {
    use base64::Engine as _;
    let text = std::str::from_utf8(bytes);
    match (wanted, text) {
        (None | Some("utf8" | "utf-8"), Ok(text)) => Ok((text.to_owned(), "utf8")),
        (Some("utf8" | "utf-8"), Err(_)) => Err(bad("encoding", "this is not text: ask for base64")),
        (None | Some("base64"), _) => Ok((base64::engine::general_purpose::STANDARD.encode(bytes), "base64")),
        (Some(_), _) => Err(bad("encoding", "utf8 or base64")),
    }
}
