//! What other workspace servers have and this one does not: their lists are here and empty, their acts are refused in words; and what
//! clients keep with a member, which means nothing here.
//!
//! What is kept are facts of the face, by the member's address: nothing of a conversation.

use crate::api::empty::{Contexts, Entries, Notifications, Routines, Tabs, Timers, Todos};
use crate::request::ApiRequest;
use axum::response::Response;
use rialto_carrier::Refusal;
use rialto_carrier::answer;
use rialto_model::{ErrorCode, FaceName, Fault, limits};
use rialto_node::Session;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// First parts of paths below `/v1/` that other servers have.
const FAMILIES: [&str; 14] = [
    "account",
    "agent-catalog",
    "browser",
    "cloud-agents",
    "collaborators",
    "devices",
    "knowledge",
    "notifications",
    "presence",
    "routines",
    "shares",
    "skill-catalog",
    "timers",
    "todos",
];
/// The same of paths below a workspace.
const OF_WORKSPACE: [&str; 8] =
    ["claim", "cloud-agents", "collaborators", "devices", "presence", "shares", "skill-catalog", "skills"];

/// Whether a path is one that other servers have.
pub(crate) fn is_below(path: &str) -> bool {
    let mut parts = path.trim_start_matches('/').split('/');
    match (parts.next(), parts.next(), parts.nth(1)) {
        (Some("v1"), Some("workspaces"), Some(part)) => OF_WORKSPACE.contains(&part) || part == "members",
        (Some("v1"), Some(family), _) => FAMILIES.contains(&family),
        _ => false,
    }
}

/// The answer for whoever may know of the network.
async fn empty<T: Serialize>(request: &ApiRequest, list: &T) -> Result<Response, Refusal> {
    let call = request.call()?;
    call.session.workspace(false).await?;
    Ok(answer::ok(list))
}

pub(crate) async fn tabs(request: ApiRequest) -> Result<Response, Refusal> {
    empty(&request, &Tabs::default()).await
}

pub(crate) async fn contexts(request: ApiRequest) -> Result<Response, Refusal> {
    empty(&request, &Contexts::default()).await
}

pub(crate) async fn todos(request: ApiRequest) -> Result<Response, Refusal> {
    empty(&request, &Todos::default()).await
}

pub(crate) async fn timers(request: ApiRequest) -> Result<Response, Refusal> {
    empty(&request, &Timers::default()).await
}

pub(crate) async fn routines(request: ApiRequest) -> Result<Response, Refusal> {
    empty(&request, &Routines::default()).await
}

pub(crate) async fn notifications(request: ApiRequest) -> Result<Response, Refusal> {
    empty(&request, &Notifications::default()).await
}

pub(crate) async fn knowledge(request: ApiRequest) -> Result<Response, Refusal> {
    empty(&request, &Entries::default()).await
}

/// What clients keep with a member.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptMember {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) enabled_skills: Option<Value>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    skill_status: Map<String, Value>,
}

/// By address.
pub(crate) type KeptMembers = BTreeMap<Box<str>, KeptMember>;

/// Before the address, in the key of a fact.
const MEMBER: &str = "member/";

fn face() -> Result<FaceName, Fault> {
    FaceName::parse("workspace")
}

/// What clients keep with all members.
pub(crate) async fn members(session: &Session) -> Result<KeptMembers, Fault> {
    let facts = session.network().facts(face()?);
    let page = facts.list(MEMBER, None, limits::LIST_ROWS_MAX).await?;
    let read =
        |(key, text): &(Box<str>, Box<str>)| Some((key.strip_prefix(MEMBER)?.into(), serde_json::from_str(text).ok()?));
    Ok(page.facts.iter().filter_map(read).collect())
}

async fn member(session: &Session, address: &str) -> Result<KeptMember, Fault> {
    let text = session.network().facts(face()?).get(&format!("{MEMBER}{address}")).await?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

async fn set(session: &Session, address: &str, kept: &KeptMember) -> Result<(), Fault> {
    let text = serde_json::to_string(kept).map_err(|_| Fault::from(ErrorCode::Internal))?;
    if text.len() > limits::PROFILE_BYTES_MAX {
        let text = format!("what is kept with a member is at most {} bytes", limits::PROFILE_BYTES_MAX);
        return Err(Fault::new(ErrorCode::TooLarge, text));
    }
    session.network().facts(face()?).set(&format!("{MEMBER}{address}"), &text).await
}

/// Keeps what a change says of a member; null takes it back.
pub(crate) async fn keep(session: &Session, address: &str, change: &Value) -> Result<KeptMember, Fault> {
    let mut kept = member(session, address).await?;
    let before = kept.clone();
    if let Some(description) = change.get("description") {
        kept.description = description.as_str().map(str::to_owned);
    }
    if let Some(skills) = change.get("enabled_skills") {
        kept.enabled_skills = Some(skills.clone()).filter(|skills| !skills.is_null());
    }
    if kept != before {
        set(session, address, &kept).await?;
    }
    Ok(kept)
}

/// Keeps how a skill gets on, and gives how all of the member's do.
pub(crate) async fn keep_skill(
    session: &Session,
    address: &str,
    id: &str,
    said: &Value,
) -> Result<Map<String, Value>, Fault> {
    let mut kept = member(session, address).await?;
    let mut status = Map::new();
    for name in ["state", "path", "error", "partial"] {
        status.extend(said.get(name).filter(|value| !value.is_null()).map(|value| (name.to_owned(), value.clone())));
    }
    kept.skill_status.insert(id.to_owned(), json!(status));
    set(session, address, &kept).await?;
    Ok(kept.skill_status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_other_servers() {
        for path in [
            "/v1/todos",
            "/v1/browser/tabs/t/click",
            "/v1/workspaces/w/shares",
            "/v1/workspaces/w/members/m/skills/s",
            "/v1/account/me",
        ] {
            assert!(is_below(path), "{path}");
        }
        for path in ["/v1/nothing", "/v1/workspaces/w/nothing", "/v2/todos", "/"] {
            assert!(!is_below(path), "{path}");
        }
    }
}
