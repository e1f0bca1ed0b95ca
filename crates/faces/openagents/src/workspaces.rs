//! Networks as workspaces, in the words of workspace clients (OpenAgents sheet, section 15): camelCase, ISO times.
//!
//! Not here: files (`files`), and the other routes of workspace servers that this node does not have (`ops` answers those).

use crate::api::requests::{ChangeWorkspaceMemberBody, ResolveTokenBody, SkillStatusBody};
use crate::auth::{self, CallRequest};
use crate::elsewhere;
use crate::request::{ApiRequest, take_caller};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use jiff::Timestamp;
use rialto_carrier::answer::{self, fields, invalid_field, json_object};
use rialto_carrier::{FaceState, Refusal, credentials};
use rialto_model::channel::ChannelStatus;
use rialto_model::network::Preset;
use rialto_model::payload::{ChannelChanges, NewChannel, SessionUpdate};
use rialto_model::view::{AdminOutcome, ChannelView, MemberView, WorkspaceView, bare_name};
use rialto_model::{ErrorCode, Fault, limits, read};
use rialto_node::identity::{Secret, sha256};
use rialto_node::{AdminOp, Caller, CreateNetwork, Session};
use serde_json::{Value, json};
use std::sync::Arc;

/// A stamp as ISO 8601 in UTC, to the millisecond. One beyond the year 9999 is the last moment of that year.
pub(crate) fn iso(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.unwrap_or(Timestamp::MAX).strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// A workspace in the words of its clients.
fn workspace_json(seen: &WorkspaceView) -> Value {
    let agents: Vec<Value> = seen.agents.iter().map(agent_json).collect();
    let mut out = json!({
        "workspaceId": seen.id, "slug": seen.id, "name": seen.name, "creatorEmail": seen.metadata.get("creator_email"),
        "settings": seen.metadata.get("settings").cloned().unwrap_or_else(|| json!({})), "status": seen.status,
        "createdAt": iso(seen.created_at), "lastActivityAt": iso(seen.last_activity_at), "browserEnabled": false,
        "agents": agents,
    });
    if let (true, Some(map)) = (seen.has_more, out.as_object_mut()) {
        map.insert("hasMore".into(), true.into());
    }
    out
}

fn agent_json(agent: &MemberView) -> Value {
    json!({
        "agentName": agent.name(), "role": agent.role, "agentType": agent.profile.agent_type, "status": agent.status,
        "description": agent.profile.description, "workingDir": agent.profile.working_dir,
        "lastHeartbeatAt": agent.last_seen_at.map(iso), "joinedAt": iso(agent.joined_at),
    })
}

fn channel_json(workspace: &str, channel: &ChannelView) -> Value {
    let participants: Vec<&str> = channel.participants.iter().map(|address| bare_name(address)).collect();
    json!({
        "channelId": channel.name, "workspaceId": workspace, "name": channel.name, "title": channel.title,
        "titleManuallySet": channel.title_manual, "createdBy": channel.created_by.as_deref().map(bare_name),
        "masterAgent": channel.master.as_deref().map(bare_name), "resumeFrom": channel.resume_from,
        "status": channel.status, "starred": channel.starred, "participants": participants,
        "createdAt": iso(channel.created_at),
    })
}

/// A call on one workspace, and what its caller sees of it.
struct WorkspaceRequest {
    call: auth::Call,
    seen: WorkspaceView,
    /// Where the caller calls from.
    from: Option<String>,
}

impl WorkspaceRequest {
    /// Reads who calls, and what the caller sees of the workspace that the path names.
    async fn load(request: &ApiRequest) -> Result<WorkspaceRequest, Refusal> {
        let id = request.path.get("id").map(String::as_str);
        let call = CallRequest::new(&request.state, &request.headers).path(id).call()?;
        let seen = call.session.workspace(false).await?;
        Ok(WorkspaceRequest { call, seen, from: request.client.place() })
    }

    /// Like [`WorkspaceRequest::load`]; refuses whoever does not manage the workspace.
    async fn load_to_manage(request: &ApiRequest) -> Result<WorkspaceRequest, Refusal> {
        let text =
            "this takes the operator or a master, whom the operator makes (or the token where `token_manages` is set)";
        let loaded = WorkspaceRequest::load(request).await?;
        if loaded.seen.manages { Ok(loaded) } else { Err(Fault::new(ErrorCode::Forbidden, text).into()) }
    }

    /// Like [`WorkspaceRequest::load`]; refuses whoever may not arrange its conversations.
    async fn load_to_arrange(request: &ApiRequest) -> Result<WorkspaceRequest, Refusal> {
        let text = "this takes a master, a person, the workspace's token or the operator";
        let loaded = WorkspaceRequest::load(request).await?;
        if loaded.seen.arranges { Ok(loaded) } else { Err(Fault::new(ErrorCode::Forbidden, text).into()) }
    }

    async fn act(&self, op: AdminOp) -> Result<AdminOutcome, Refusal> {
        Ok(self.call.session.act(self.from.clone(), op).await?)
    }

    /// The workspace as it is now, with its agents.
    async fn workspace(&self) -> Result<Value, Refusal> {
        Ok(workspace(&self.call.session).await?)
    }

    async fn channel(&self, name: &str) -> Result<Value, Refusal> {
        Ok(channel_json(&self.seen.id, &self.call.session.channel(name).await?))
    }
}

/// A workspace with its agents, as clients see it.
async fn workspace(session: &Session) -> Result<Value, Fault> {
    Ok(workspace_json(&session.workspace(true).await?))
}

/// `POST /v1/workspaces` {name, agent_name?, agent_type?, creator_email?}.
pub(crate) async fn create(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let (state, headers) = (request.state, request.headers);
    let operator = match credentials::operator(&state.node, &headers) {
        Ok(operator) => Some(operator),
        Err(_) if state.settings.creates_openly(&request.client) => None,
        Err(refusal) => return Err(refusal),
    };
    let body = json_object(&body)?;
    let text = |key: &str| match body.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(Some(text.trim().to_owned())),
        Some(_) => Err(invalid_field(key, "is text")),
    };
    let name = text("name")?.ok_or_else(|| invalid_field("name", "is required"))?;
    let agent = text("agent_name")?.map(|name| auth::compat_address(&name));
    let email = text("creator_email")?;
    for address in agent.iter().cloned().chain(email.iter().map(|email| format!("human:{email}"))) {
        let parsed = rialto_model::Address::parse(&address).ok().filter(|a| a.is_principal() && !a.is_broadcast());
        parsed.ok_or_else(|| Fault::new(ErrorCode::InvalidAddress, format!("nobody can join as {address}")))?;
    }
    let wish = CreateNetwork {
        created_by: email.as_ref().map(|email| format!("human:{email}")),
        token_manages: true,
        made_openly: operator.is_none(),
        ..CreateNetwork::named(&name, Preset::Workspace)
    };
    let (network, token) = state.node.create_network(wish).await?;
    // Whoever makes it without a credential is known by the token it gets.
    let holder = || Arc::new(Caller { bearer: token.as_ref().map(Secret::sha256), ..Caller::default() });
    let by = operator.unwrap_or_else(holder);
    network.session(&by).act(request.client.place(), AdminOp::Noted("workspace.create", Some(name.clone()))).await?;
    if let Some(email) = &email {
        network.admin(AdminOp::Settings(json!({ "metadata": { "creator_email": email } }))).await?;
    }
    if let Some(agent) = &agent {
        network.admin(AdminOp::Enroll(agent.clone(), text("agent_type")?)).await?;
    }
    let session = NewChannel { title: Some("Session 1".to_owned()), master: agent.clone(), ..NewChannel::default() };
    let made = network.admin(AdminOp::OpenSession(session, agent)).await?;
    let channel = network.session(&by).channel(&name_of(made)?).await?;
    Ok(answer::ok(&json!({
        "workspaceId": network.id(), "slug": network.id(), "name": network.settings().name,
        "token": token.map(|t| t.expose().to_owned()), "channel": channel_json(network.id(), &channel),
    })))
}

/// `GET /v1/workspaces`: all for the operator, else the one the credential is for.
pub(crate) async fn list(State(state): State<FaceState>, headers: HeaderMap) -> Result<Response, Refusal> {
    let call = CallRequest::new(&state, &headers).call()?;
    let networks =
        if call.session.caller().operator { state.node.networks() } else { vec![call.session.network().clone()] };
    let mut out = Vec::new();
    for network in networks.iter().filter(|n| n.settings().profile == Preset::Workspace) {
        out.push(workspace(&network.session(call.session.caller())).await?);
    }
    Ok(answer::ok(&json!({ "workspaces": out })))
}

/// `GET /v1/workspaces/{id}`.
pub(crate) async fn show(request: ApiRequest) -> Result<Response, Refusal> {
    Ok(answer::ok(&WorkspaceRequest::load(&request).await?.workspace().await?))
}

/// `PATCH /v1/workspaces/{id}` {name?, status?, settings?}.
pub(crate) async fn change(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let loaded = WorkspaceRequest::load_to_manage(&request).await?;
    let mut patch = serde_json::Map::new();
    for (key, value) in json_object(&body)?.as_object().into_iter().flatten() {
        match key.as_str() {
            "name" => {
                let name = value.as_str().ok_or_else(|| invalid_field("name", "is text"))?;
                let own = loaded.call.session.network();
                let other = request.state.node.network(name).filter(|other| other.id() != own.id());
                if other.is_some() && !own.settings().token_manages {
                    return Err(Fault::new(ErrorCode::AlreadyExists, format!("a workspace {name:?} exists")).into());
                }
                patch.insert("name".into(), value.clone());
            }
            "status" => {
                patch.insert("status".into(), value.clone());
            }
            "settings" if value.is_object() => {
                let mut metadata = loaded.seen.metadata.clone();
                metadata.insert("settings".into(), value.clone());
                patch.insert("metadata".into(), metadata.into());
            }
            _ => return Err(invalid_field(key, "a workspace has name, status and settings").into()),
        }
    }
    loaded.act(AdminOp::Settings(Value::Object(patch))).await?;
    Ok(answer::ok(&loaded.workspace().await?))
}

/// `DELETE /v1/workspaces/{id}`: archives it.
pub(crate) async fn archive(request: ApiRequest) -> Result<Response, Refusal> {
    let loaded = WorkspaceRequest::load_to_manage(&request).await?;
    loaded.act(AdminOp::Settings(json!({ "status": "archived" }))).await?;
    Ok(answer::ok(&json!({ "workspaceId": loaded.call.session.network().id(), "status": "deleted" })))
}

/// `POST /v1/workspaces/{id}/rotate-token`.
pub(crate) async fn rotate(request: ApiRequest) -> Result<Response, Refusal> {
    let loaded = WorkspaceRequest::load_to_manage(&request).await?;
    let (secret, token) = request.state.node.make_token(None, None, None, None)?;
    loaded.act(AdminOp::RotateToken(token)).await?;
    Ok(answer::ok(&json!({ "workspace_id": loaded.call.session.network().id(), "token": secret.expose() })))
}

/// `POST /v1/token/resolve` {token}.
pub(crate) async fn resolve(
    State(state): State<FaceState>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let ResolveTokenBody { token } = fields(&json_object(&body)?)?;
    let hash = sha256(&token);
    let unknown = || Refusal::from(Fault::new(ErrorCode::NetworkNotFound, "no workspace has this token"));
    let network = state.node.network_by_token(&hash).ok_or_else(unknown)?;
    let caller = Caller { bearer: Some(hash), ..Caller::default() };
    // One that has expired resolves to nothing.
    network.session(&Arc::new(caller)).workspace(false).await.map_err(|_| unknown())?;
    let base = state.base_url(&headers);
    Ok(answer::ok(&json!({
        "workspace_id": network.id(), "slug": network.id(), "name": network.settings().name, "endpoint": base,
    })))
}

/// `GET /v1/workspaces/{id}/channels`.
pub(crate) async fn channels(request: ApiRequest) -> Result<Response, Refusal> {
    let loaded = WorkspaceRequest::load(&request).await?;
    let bad_cursor = |_| invalid_field("after", "is a cursor that an answer gave");
    let after = request.params.get("after").map(|text| text.parse().map_err(bad_cursor)).transpose()?;
    let list = loaded.call.session.channels(after, limits::LIST_ROWS_MAX).await?;
    let channels: Vec<Value> = list.channels.iter().map(|channel| channel_json(&loaded.seen.id, channel)).collect();
    let mut out = json!({ "channels": channels });
    if let (Some(next), Some(map)) = (list.next, out.as_object_mut()) {
        map.insert("has_more".into(), true.into());
        map.insert("next".into(), next.into());
    }
    Ok(answer::ok(&out))
}

/// `POST /v1/workspaces/{id}/channels`.
pub(crate) async fn open(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let loaded = WorkspaceRequest::load_to_arrange(&request).await?;
    let made = loaded.act(AdminOp::OpenSession(fields(&json_object(&body)?)?, None)).await?;
    Ok(answer::ok(&loaded.channel(&name_of(made)?).await?))
}

/// The name of a channel that was made for a conversation.
fn name_of(made: AdminOutcome) -> Result<String, Refusal> {
    let AdminOutcome::Channel { name: Some(name), .. } = made else { return Err(ErrorCode::Internal.into()) };
    Ok(name)
}

/// `GET /v1/workspaces/{id}/channels/{name}`.
pub(crate) async fn channel(request: ApiRequest) -> Result<Response, Refusal> {
    Ok(answer::ok(&WorkspaceRequest::load(&request).await?.channel(request.named("name")).await?))
}

async fn set_channel(
    request: &ApiRequest,
    read: impl FnOnce() -> Result<SessionUpdate, Refusal>,
) -> Result<Response, Refusal> {
    let loaded = WorkspaceRequest::load_to_arrange(request).await?;
    let update = read()?;
    loaded.channel(request.named("name")).await?;
    loaded.act(AdminOp::SetChannel(request.named("name").to_owned(), update)).await?;
    Ok(answer::ok(&loaded.channel(request.named("name")).await?))
}

/// `PATCH /v1/workspaces/{id}/channels/{name}`.
pub(crate) async fn change_channel(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let update = || {
        let mut changes = json_object(&body)?;
        let auto_title = changes.as_object_mut().and_then(|changes| changes.remove("auto_title"));
        let auto_title = match auto_title {
            None | Some(Value::Null) => None,
            Some(Value::Bool(auto)) => Some(auto),
            Some(_) => return Err(invalid_field("auto_title", "is true or false").into()),
        };
        Ok(SessionUpdate { changes: read::value(&changes, read::CHANGES)?, auto_title })
    };
    set_channel(&request, update).await
}

/// `DELETE /v1/workspaces/{id}/channels/{name}`: archives it.
pub(crate) async fn archive_channel(request: ApiRequest) -> Result<Response, Refusal> {
    let changes = ChannelChanges { status: Some(ChannelStatus::Archived), ..ChannelChanges::default() };
    set_channel(&request, || Ok(SessionUpdate { changes, auto_title: None })).await
}

/// `PATCH /v1/workspaces/{id}/members/{name}` {role?, description?, enabled_skills?}.
pub(crate) async fn change_member(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let loaded = WorkspaceRequest::load_to_manage(&request).await?;
    let body = json_object(&body)?;
    let wish: ChangeWorkspaceMemberBody = fields(&body)?;
    if wish.role.is_none() && body.get("description").is_none() && body.get("enabled_skills").is_none() {
        return Err(invalid_field("role", "is missing: give role, description or enabled_skills").into());
    }
    let name = request.named("name").to_owned();
    let set = match wish.role {
        Some(role) => Some(loaded.act(AdminOp::Role(name.clone(), role)).await?),
        None => None,
    };
    let workspace = loaded.call.session.workspace(true).await?;
    let bare = bare_name(&name);
    let found = match (workspace.agents.iter().find(|agent| agent.name() == bare), set) {
        (Some(found), _) => found,
        // A person, who is on no list of agents.
        (None, Some(set)) => return Ok(answer::ok(&set)),
        (None, None) => return Err(Fault::new(ErrorCode::UnknownTarget, format!("{name} is no agent here")).into()),
    };
    let kept = elsewhere::keep(&loaded.call.session, &found.address, &body).await?;
    let mut shown = agent_json(found);
    if let Some(shown) = shown.as_object_mut() {
        shown.extend(kept.description.map(|text| ("description".to_owned(), text.into())));
        shown.insert("enabledSkills".into(), kept.enabled_skills.unwrap_or_default());
    }
    Ok(answer::ok(&shown))
}

/// `POST /v1/workspaces/{id}/members/{name}/skills/status` {skill_id, state, path?, error?, partial?}.
pub(crate) async fn skill_status(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let loaded = WorkspaceRequest::load_to_arrange(&request).await?;
    let body = json_object(&body)?;
    let SkillStatusBody { skill_id, state, .. } = fields(&body)?;
    let name = request.named("name");
    let workspace = loaded.call.session.workspace(true).await?;
    let found = workspace.agents.iter().find(|agent| agent.name() == bare_name(name));
    let found = found.ok_or_else(|| Fault::new(ErrorCode::UnknownTarget, format!("{name} is not a member")))?;
    let kept = elsewhere::keep_skill(&loaded.call.session, &found.address, &skill_id, &body).await?;
    let installed: Vec<&String> =
        kept.iter().filter(|(_, status)| status.get("state") == Some(&json!("installed"))).map(|(id, _)| id).collect();
    Ok(answer::ok(&json!({
        "agentName": found.name(), "skillId": skill_id, "state": state, "installedSkills": installed, "skillStatus": kept,
    })))
}

/// `POST /v1/composing` {network, channel}: whoever is there sees that the caller writes.
pub(crate) async fn composing(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let body = json_object(&body)?;
    let call = request.call_with(&body)?;
    let channel = body.get("channel").and_then(Value::as_str).ok_or_else(|| invalid_field("channel", "is required"))?;
    let target = format!("channel/{}", channel.trim_start_matches("channel/"));
    let itself = call.session.caller().session.is_none() && call.session.caller().claimed.is_none();
    if call.compat && itself && call.session.workspace(false).await?.arranges {
        // Who writes is not said, and nobody is told more than that somebody does.
        request.composing.note(call.session.network().id());
        return Ok(answer::ok(&json!({ "status": "ok" })));
    }
    let event = json!({
        "type": "workspace.message.status", "source": call.session.caller().claimed, "target": target,
        "payload": { "status": "composing" }, "metadata": { "ephemeral": true },
    });
    let answers = call.session.emit(event.to_string().into()).await?;
    answers.into_iter().next().ok_or(ErrorCode::Internal)?.result.map_err(Refusal::from)?;
    request.composing.note(call.session.network().id());
    Ok(answer::ok(&json!({ "status": "ok" })))
}

/// `GET /v1/invitations?agent=`.
pub(crate) async fn invitations(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    Ok(answer::ok(&call.session.invitations(request.params.get("agent").cloned()).await?))
}

/// `POST /v1/invitations`: the operator's, or an event of the member that calls.
pub(crate) async fn invite(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let mut wish = json_object(&body)?;
    let call = request.call_with(&wish)?;
    if call.session.caller().operator && call.session.caller().session.is_none() {
        call.session.act(request.client.place(), AdminOp::Noted("invite.add", None)).await?;
        return Ok(answer::ok(&call.session.network().invite(read::value(&wish, read::PAYLOAD)?).await?));
    }
    take_caller(&mut wish);
    let event = json!({
        "type": "workspace.invitation.created", "source": call.session.caller().claimed, "target": "core", "payload": wish,
    });
    let answers = call.session.emit(event.to_string().into()).await?;
    let accepted = answers.into_iter().next().ok_or(ErrorCode::Internal)?.result.map_err(Refusal::from)?;
    let plain = || Fault::new(ErrorCode::ModNotFound, "mod/workspace is not loaded, and the policy is not invite");
    Ok(answer::ok(&*accepted.result.ok_or_else(plain)?))
}

/// `POST /v1/invitations/{invitation}/reject` {code}: the code is the credential.
pub(crate) async fn reject(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let body = json_object(&body)?;
    let call = request.call_to_join(&body)?;
    let code = body.get("code").and_then(Value::as_str);
    let code = code.ok_or_else(|| call.refusal(invalid_field("code", "is required")))?;
    let end = AdminOp::EndInvite(request.named("invitation").to_owned(), Some(sha256(code)));
    Ok(answer::ok(&call.session.network().admin(end).await.map_err(|fault| call.refusal(fault))?))
}

/// `DELETE /v1/invitations/{invitation}`.
pub(crate) async fn revoke(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    let end = AdminOp::EndInvite(request.named("invitation").to_owned(), None);
    Ok(answer::ok(&call.session.act(request.client.place(), end).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_iso() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_767_225_600_001, "2026-01-01T00:00:00.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso(ms), text);
        }
    }
}
