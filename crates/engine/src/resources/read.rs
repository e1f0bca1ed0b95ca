//! Finding resources and reading them.

use super::{Resource, access};
use crate::core_events::{response, transient};
use crate::emit::{self, EmitDraft};
use crate::input::{Accepted, Answers, Clock, Content, Effects, Question, Stop};
use crate::listing::{ListBudget, ListPiece};
use crate::presence::VolatileState;
use crate::state::{MemberId, State};
use crate::work::UnitKind;
use rialto_model::access::Operation;
use rialto_model::address::ResourceKind;
use rialto_model::payload::{Encoding, ResourceFilter, ResourceRange};
use rialto_model::view::{Backing, Presence, ResourceList, ResourceView};
use rialto_model::{ErrorCode, EventType, Fault, limits, read};
use serde_json::json;

/// Bytes of content in one response: with base64 and the rest it stays below an event's limit.
const RESPONSE_BYTES_MAX: u64 = 512 << 10;

fn bad(field: &str, what: &str) -> Fault {
    Fault::new(ErrorCode::InvalidArgument, format!("payload.{field}: {what}")).field(&format!("payload.{field}"))
}

/// `network.resource.discover`.
pub(crate) fn discover(
    state: &State,
    live: &mut VolatileState,
    draft: &EmitDraft<'_, '_>,
    now: Clock,
) -> Result<Accepted, Stop> {
    emit::guard_request(state, live, &draft.envelope.kind, draft.member, now)?;
    let found = state.resources(live, Some(draft.member), &draft.said()?, now)?;
    let event = response(state, live, draft, EventType::ResourceDiscoverResponse, &json!(found), now);
    Ok(transient(draft, event))
}

fn said(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

fn bad_limit() -> Fault {
    bad("limit", &format!("1 to {}", limits::PAGE_EVENTS_MAX))
}

impl State {
    /// Resources a member may read (all for the operator), by address, after a cursor.
    pub fn resources(
        &self,
        live: &VolatileState,
        viewer: Option<MemberId>,
        filter: &ResourceFilter,
        now: Clock,
    ) -> Result<ResourceList, Fault> {
        let limit = match filter.limit {
            None => limits::PAGE_EVENTS_DEFAULT,
            Some(limit) => {
                let rows = usize::try_from(limit).ok().filter(|rows| (1..=limits::PAGE_EVENTS_MAX).contains(rows));
                rows.ok_or_else(bad_limit)?
            }
        };
        let owner = said(&filter.owner).map(|name| crate::membership::find_named(self, name));
        let prefix = said(&filter.prefix).map(|p| p.trim_start_matches("resource/"));
        let passes = |r: &Resource| {
            said(&filter.kind).is_none_or(|kind| r.kind.as_str() == kind)
                && owner.is_none_or(|o| o.is_some() && r.owner == o)
                && prefix.is_none_or(|p| r.address.trim_start_matches("resource/").starts_with(p))
                && said(&filter.query).is_none_or(|q| r.address.contains(q) || r.description.contains(q))
        };
        let piece = ListPiece::of(
            self.resources_after(said(&filter.after)),
            ListBudget::rows(limit),
            |r| r.description.len(),
            |r| r.address.to_string(),
            |r| {
                let shown = passes(r) && self.allows(r, viewer, Operation::Read);
                shown.then(|| (self.resource_view(live, r, viewer, now), r.said_bytes()))
            },
        );
        Ok(ResourceList { resources: piece.rows, next: piece.next })
    }

    /// A resource as listings show it.
    pub fn resource_view(
        &self,
        live: &VolatileState,
        r: &Resource,
        viewer: Option<MemberId>,
        now: Clock,
    ) -> ResourceView {
        let owner = r.owner.and_then(|id| self.member(id));
        let there =
            r.owner.is_none_or(|id| live.is_online(id, now)) && owner.is_none_or(crate::state::Member::is_present);
        let yours = self.your_permissions(r, viewer);
        let permissions = yours.contains(&Operation::Admin).then(|| self.permissions(r).view(r.kind));
        ResourceView {
            address: r.address.clone(),
            kind: r.kind,
            owner: owner.map_or_else(|| "core".into(), |m| m.address.clone()),
            owner_status: Presence::of(there),
            description: r.description.clone(),
            version: r.version,
            backing: if r.content.is_some() { Backing::Network } else { Backing::Owner },
            updated_at: r.updated_at,
            your_permissions: yours,
            schema: r.schema.clone(),
            content_type: r.content_type.clone(),
            size: r.content.map(|c| c.size),
            metadata: r.metadata.clone(),
            permissions,
        }
    }

    /// A resource a viewer may read, and the content of the version asked for.
    pub fn readable(
        &self,
        live: &VolatileState,
        viewer: Option<MemberId>,
        address: &str,
        version: Option<u64>,
        now: Clock,
    ) -> Result<(ResourceView, Option<Content>), Fault> {
        let (_, resource) = access::admit(self, address, viewer, Operation::Read)?;
        let content = content_of(resource, version)?;
        Ok((self.resource_view(live, resource, viewer, now), content))
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
    live: &mut VolatileState,
    draft: EmitDraft<'_, '_>,
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
    let ResourceRange { encoding, offset, length, version } =
        read::text(&draft.envelope.payload, read::RESOURCE_PAYLOAD)?;
    let offset = offset.unwrap_or(0);
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
    let (text, encoding) = encoded(bytes, encoding)?;
    let payload = json!({
        "address": resource.address, "content": text, "encoding": encoding, "content_type": resource.content_type,
        "version": version.unwrap_or(resource.version), "size": content.size, "offset": offset,
    });
    Ok(transient(&draft, response(state, live, &draft, EventType::ResourceReadResponse, &payload, now)))
}

/// Content as text: as it is where that is asked for or possible, else in base64.
fn encoded(bytes: &[u8], wanted: Option<Encoding>) -> Result<(String, &'static str), Fault> {
    use base64::Engine as _;
    let text = std::str::from_utf8(bytes);
    match (wanted, text) {
        (None | Some(Encoding::Utf8), Ok(text)) => Ok((text.to_owned(), Encoding::Utf8.as_str())),
        (Some(Encoding::Utf8), Err(_)) => Err(bad("encoding", "this is not text: ask for base64")),
        (None | Some(Encoding::Base64), _) => {
            Ok((base64::engine::general_purpose::STANDARD.encode(bytes), Encoding::Base64.as_str()))
        }
    }
}
