//! Joining, leaving, presence, discovery, profile (sheet section 12.5).

use crate::request::ApiRequest;
use crate::workspaces::iso;
use crate::{auth, compat, elsewhere};
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use rialto_carrier::answer::{self, invalid_field, json_object};
use rialto_carrier::{FaceState, Refusal};
use rialto_model::view::{ChannelSection, ChannelView, MemberView, Presence, ProfileView, Roster, bare_name};
use rialto_model::{ErrorCode, Fault, Role, limits};
use rialto_node::{RosterFilter, Wishes};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// `POST /v1/join`: the join payload itself, or compat's {agent_name, token, …}.
pub(crate) async fn join(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let mut payload = json_object(&body)?;
    let call = request.call_to_join(&payload)?;
    let source = call.session.caller().claimed.clone();
    if let Some(map) = payload.as_object_mut() {
        map.remove("network");
        if let Some(name) = map.remove("agent_name") {
            map.insert("agent_id".into(), json!(auth::compat_address(name.as_str().unwrap_or_default())));
        }
    }
    let event = json!({ "type": "network.agent.join", "source": source, "target": "core", "payload": payload });
    let answered = one(&call, &event).await.map_err(|refusal| call.refusal(refusal))?;
    let result = answered.result.map_err(|fault| call.refusal(fault))?;
    request.prove();
    Ok(answer::ok(&result.result.unwrap_or_default()))
}

async fn one(call: &auth::Call, event: &Value) -> Result<rialto_node::Answered, Refusal> {
    let answers = call.session.emit(event.to_string().into()).await?;
    answers.into_iter().next().ok_or_else(|| ErrorCode::Internal.into())
}

/// `POST /v1/leave`.
pub(crate) async fn leave(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let payload = json_object(&body)?;
    let call = request.call_with(&payload)?;
    let kept = json!({ "forget": payload.get("forget").and_then(Value::as_bool).unwrap_or(false), "reason": payload.get("reason") });
    let event = json!({ "type": "network.agent.leave", "target": "core", "payload": kept });
    let answered = one(&call, &event).await?;
    match answered.result {
        Ok(accepted) => {
            let mut data = accepted.result.unwrap_or_default();
            let name =
                data.get("address").and_then(Value::as_str).and_then(|a| a.split_once(':')).map(|(_, n)| n.to_owned());
            if let Some(map) = data.as_object_mut() {
                map.insert("agent_name".into(), json!(name));
            }
            Ok(answer::ok(&data))
        }
        // Compat clients leave without looking whether they are there.
        Err(fault) if call.compat && matches!(fault.code, ErrorCode::NotAMember) => Ok(answer::ok(
            &json!({ "agent_name": payload.get("agent_name"), "address": call.session.caller().claimed, "status": "offline" }),
        )),
        Err(fault) => Err(fault.into()),
    }
}

/// `POST /v1/heartbeat`.
pub(crate) async fn heartbeat(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let payload = json_object(&body)?;
    let call = request.call_with(&payload)?;
    let address = match call.session.heartbeat().await {
        Ok(address) => address,
        // Nothing is made of it: clients of workspace servers beat without looking whether they are there.
        Err(fault) if call.compat && fault.code == ErrorCode::NotAMember => {
            call.session.caller().claimed.clone().ok_or(fault)?
        }
        Err(fault) => return Err(fault.into()),
    };
    Ok(answer::ok(&json!({ "agent_name": bare_name(&address), "address": address, "status": Presence::Online })))
}

/// `POST /v1/remove` {agent_name, network}.
pub(crate) async fn remove(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let payload = json_object(&body)?;
    // Here `agent_name` names who goes, not who asks.
    let whom = payload.get("address").or(payload.get("agent_name")).cloned().unwrap_or_default();
    let mut asker = payload.clone();
    if let Some(map) = asker.as_object_mut() {
        map.remove("agent_name");
        map.remove("address");
    }
    let call = request.call_with(&asker)?;
    let itself = call.session.caller().session.is_none() && call.session.caller().claimed.is_none();
    let remove = rialto_node::AdminOp::Remove(whom.as_str().unwrap_or_default().to_owned());
    let mut data = if itself && (call.session.caller().operator || call.session.network().settings().token_manages) {
        json!(call.session.act(request.client.place(), remove).await?)
    } else {
        let event = json!({ "type": "network.agent.remove", "target": "core", "payload": { "agent_name": whom } });
        *one(&call, &event).await?.result.map_err(Refusal::from)?.result.unwrap_or_default()
    };
    if let Some(map) = data.as_object_mut() {
        map.insert("agent_name".into(), whom);
    }
    Ok(answer::ok(&data))
}

/// `GET /v1/discover`.
pub(crate) async fn discover(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    let text = |key: &str| request.params.get(key).cloned();
    let filter = RosterFilter {
        include: text("include").map(|names| names.split(',').map(|name| name.trim().to_owned()).collect()),
        after: text("after").filter(|cursor| !cursor.is_empty()),
        limit: text("limit").map(|limit| limit.parse().unwrap_or(0)),
        role: text("role"),
        status: text("status"),
        capability: text("capability"),
        query: text("query"),
        full_channels: call.compat,
    };
    let mut roster = call.session.discover(filter).await?;
    if !call.compat {
        return Ok(answer::ok(&roster));
    }
    let kept = elsewhere::members(&call.session).await?;
    let agents = roster.agents.take().map(|agents| {
        let names: BTreeSet<&str> = agents.iter().map(|member| member.address.as_ref()).collect();
        let shown = |member: &MemberView| compat::native_name(&member.address, |name| names.contains(name));
        let people = |member: &&MemberView| !member.address.starts_with("human:");
        agents.iter().filter(people).map(|member| CompatAgent::new(member, shown(member), &kept)).collect()
    });
    let channels = roster.channels.take().map(|channels| match channels {
        ChannelSection::Entries(entries) => entries.into_iter().map(CompatChannel::new).collect(),
        ChannelSection::Addresses(_) => Vec::new(),
    });
    Ok(answer::ok(&CompatRoster { roster, agents, channels }))
}

/// The roster as clients of workspace servers know it.
#[derive(Debug, Serialize)]
struct CompatRoster {
    /// All but its agents and its channels.
    #[serde(flatten)]
    roster: Roster,
    #[serde(skip_serializing_if = "Option::is_none")]
    agents: Option<Vec<CompatAgent>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channels: Option<Vec<CompatChannel>>,
}

/// What clients of workspace servers know an agent by.
#[derive(Debug, Serialize)]
struct CompatAgent {
    address: String,
    agent_name: String,
    role: Role,
    status: Presence,
    verification: u8,
    agent_type: Option<String>,
    server_host: Option<String>,
    working_dir: Option<String>,
    description: Option<String>,
    capabilities: Vec<String>,
    /// What a client keeps with it: null or an object.
    enabled_skills: Option<Value>,
    last_heartbeat_at: Option<String>,
    joined_at: String,
}

impl CompatAgent {
    fn new(member: &MemberView, address: String, kept: &elsewhere::KeptMembers) -> CompatAgent {
        let profile = member.profile.clone();
        let said = kept.get(member.address.as_ref());
        CompatAgent {
            address,
            agent_name: member.name().to_owned(),
            role: member.role,
            status: member.status,
            verification: member.verification,
            agent_type: profile.agent_type,
            server_host: profile.server_host,
            working_dir: profile.working_dir,
            description: said.and_then(|said| said.description.clone()).or(profile.description),
            capabilities: profile.capabilities,
            enabled_skills: said.and_then(|said| said.enabled_skills.clone()),
            last_heartbeat_at: member.last_seen_at.map(iso),
            joined_at: iso(member.joined_at),
        }
    }
}

/// A channel as clients of workspace servers know it: with bare names.
#[derive(Debug, Serialize)]
struct CompatChannel {
    #[serde(flatten)]
    channel: ChannelView,
}

impl CompatChannel {
    fn new(channel: ChannelView) -> CompatChannel {
        let bare = |address: &str| -> Box<str> { bare_name(address).into() };
        let participants = channel.participants.iter().map(|address| bare(address)).collect();
        let master = channel.master.as_deref().map(bare);
        CompatChannel { channel: ChannelView { participants, master, ..channel } }
    }
}

/// `GET /v1/me`.
pub(crate) async fn me(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    Ok(answer::ok(&call.session.me().await?))
}

/// `PATCH /v1/me` {mute?, unmute?, dnd?, name?}.
pub(crate) async fn change_me(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let body = json_object(&body)?;
    let call = request.call_with(&body)?;
    let wishes = Wishes::from_json(&body)?;
    if wishes == Wishes::default() {
        let text = format!("nothing is to change: give one of {}", Wishes::KEYS.join(", "));
        return Err(Fault::new(ErrorCode::InvalidArgument, text).into());
    }
    Ok(answer::ok(&call.session.change_me(wishes).await?))
}

/// `GET /v1/channels`.
pub(crate) async fn channels(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    let limit = match request.params.get("limit") {
        None => limits::LIST_ROWS_MAX,
        Some(text) => {
            let rows = text.parse().ok().filter(|rows| (1..=limits::LIST_ROWS_MAX).contains(rows));
            rows.ok_or_else(|| invalid_field("limit", &format!("1 to {}", limits::LIST_ROWS_MAX)))?
        }
    };
    let after = request.params.get("after").filter(|text| !text.is_empty());
    let after = after
        .map(|text| text.parse().map_err(|_| invalid_field("after", "a cursor that an answer gave")))
        .transpose()?;
    Ok(answer::ok(&call.session.channels(after, limit).await?))
}

/// `GET /v1/analytics`.
pub(crate) async fn analytics(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    Ok(answer::ok(&call.session.analytics().await?))
}

/// `GET /v1/profile`: public, unless the network is not listed.
pub(crate) async fn profile(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    Ok(answer::ok(&reachable_profile(&request.state, &call, &request.headers).await?))
}

/// `GET /v1/ws/{network}`: the profile again.
pub(crate) async fn network_profile(request: ApiRequest) -> Result<Response, Refusal> {
    profile(request).await
}

/// The profile of a network, with the ways to reach it.
#[derive(Debug, Serialize)]
pub(crate) struct ReachableProfile {
    #[serde(flatten)]
    profile: ProfileView,
    transports: Value,
}

pub(crate) async fn reachable_profile(
    state: &FaceState,
    call: &auth::Call,
    headers: &HeaderMap,
) -> Result<ReachableProfile, Refusal> {
    let network = call.session.network();
    let transports = crate::docs::transports(&state.base_url(headers), network.id());
    Ok(ReachableProfile { profile: call.session.profile().await?, transports })
}
