//! Networks as workspaces, in the words of workspace clients (OpenAgents sheet, section 15): camelCase, ISO times.
//!
//! Not here: files (`files`), and the other routes of workspace servers that this node does not have (`ops` answers those).

use crate::api::requests::{ChangeRoleBody, ResolveTokenBody};
use crate::auth::{self, CallRequest};
use crate::request::ApiRequest;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use rialto_carrier::answer::{self, fields, invalid_field, json_object};
use rialto_carrier::{FaceState, Refusal, credentials};
use rialto_model::network::Preset;
use rialto_model::{ErrorCode, Fault};
use rialto_node::command::Look;
use rialto_node::identity::{Secret, sha256};
use rialto_node::{AdminOp, Caller, CreateNetwork, Session};
use serde_json::{Value, json};
use std::sync::Arc;

/// A stamp as ISO 8601 in UTC.
pub(crate) fn iso(ms: u64) -> String {
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    // Days since 0000-03-01, in eras of 400 years: leap days come last.
    let z = days + 719_468;
    let (era, day) = (z / 146_097, z % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let (date, month) = (of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    let year = year + era * 400 + u64::from(month <= 2);
    let (h, m, s) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
    format!("{year:04}-{month:02}-{date:02}T{h:02}:{m:02}:{s:02}.{:03}Z", rest % 1000)
}

/// Stamps of an object, and of the objects in it, as ISO 8601.
fn dated(mut value: Value) -> Value {
    match &mut value {
        Value::Object(map) => {
            for (key, inner) in map.iter_mut() {
                *inner = match inner.as_u64() {
                    Some(ms) if key.ends_with("At") => iso(ms).into(),
                    _ if key == "settings" => inner.take(),
                    _ => dated(inner.take()),
                };
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|inner| *inner = dated(inner.take())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    value
}

/// A call on one workspace, and what its caller sees of it.
struct WorkspaceRequest {
    call: auth::Call,
    seen: Value,
    /// Where the caller calls from.
    from: Option<String>,
}

impl WorkspaceRequest {
    /// Reads who calls, and what the caller sees of the workspace that the path names.
    async fn load(request: &ApiRequest) -> Result<WorkspaceRequest, Refusal> {
        let id = request.path.get("id").map(String::as_str);
        let call = CallRequest::new(&request.state, &request.headers).path(id).call()?;
        let seen = call.session.look(Look::Workspace { agents: false }).await?;
        Ok(WorkspaceRequest { call, seen, from: request.client.place() })
    }

    /// Like [`WorkspaceRequest::load`]; refuses whoever does not manage the workspace.
    async fn load_to_manage(request: &ApiRequest) -> Result<WorkspaceRequest, Refusal> {
        let text =
            "this takes the operator or a master, whom the operator makes (or the token where `token_manages` is set)";
        WorkspaceRequest::load(request).await?.require("manages", text)
    }

    /// Like [`WorkspaceRequest::load`]; refuses whoever may not arrange its conversations.
    async fn load_to_arrange(request: &ApiRequest) -> Result<WorkspaceRequest, Refusal> {
        let text = "this takes a master, a person, the workspace's token or the operator";
        WorkspaceRequest::load(request).await?.require("arranges", text)
    }

    fn require(self, may: &str, refusal: &str) -> Result<WorkspaceRequest, Refusal> {
        if self.seen.get(may).and_then(Value::as_bool) == Some(true) {
            return Ok(self);
        }
        Err(Fault::new(ErrorCode::Forbidden, refusal).into())
    }

    async fn act(&self, op: AdminOp) -> Result<Value, Refusal> {
        Ok(self.call.session.act(self.from.clone(), op).await?)
    }

    /// The workspace as it is now, with its agents.
    async fn workspace(&self) -> Result<Value, Refusal> {
        Ok(workspace(&self.call.session).await?)
    }

    async fn channel(&self, name: &str) -> Result<Value, Refusal> {
        let look = Look::WorkspaceChannel(name.to_owned());
        Ok(dated(self.call.session.look(look).await?))
    }
}

/// A workspace with its agents, as clients see it.
async fn workspace(session: &Session) -> Result<Value, Fault> {
    let mut seen = session.look(Look::Workspace { agents: true }).await?;
    Ok(dated(seen.get_mut("workspace").map(Value::take).unwrap_or_default()))
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
    let session = json!({ "title": "Session 1", "master": agent, "created_by": agent });
    let made = network.admin(AdminOp::OpenSession(session)).await?;
    let first = made.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let channel = network.session(&by).look(Look::WorkspaceChannel(first)).await?;
    Ok(answer::ok(&json!({
        "workspaceId": network.id(), "slug": network.id(), "name": network.settings().name,
        "token": token.map(|t| t.expose().to_owned()), "channel": dated(channel),
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
                if request
                    .state
                    .node
                    .network(name)
                    .is_some_and(|other| other.id() != loaded.call.session.network().id())
                {
                    return Err(Fault::new(ErrorCode::AlreadyExists, format!("a workspace {name:?} exists")).into());
                }
                patch.insert("name".into(), value.clone());
            }
            "status" => {
                patch.insert("status".into(), value.clone());
            }
            "settings" if value.is_object() => {
                let mut metadata = loaded.seen.get("metadata").cloned().unwrap_or_else(|| json!({}));
                if let Some(map) = metadata.as_object_mut() {
                    map.insert("settings".into(), value.clone());
                }
                patch.insert("metadata".into(), metadata);
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
    network.session(&Arc::new(caller)).look(Look::Workspace { agents: false }).await.map_err(|_| unknown())?;
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
    Ok(answer::ok(&dated(loaded.call.session.look(Look::WorkspaceChannels { after }).await?)))
}

/// `POST /v1/workspaces/{id}/channels`.
pub(crate) async fn open(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let loaded = WorkspaceRequest::load_to_arrange(&request).await?;
    let mut wish = json_object(&body)?;
    if let Some(map) = wish.as_object_mut() {
        map.remove("created_by");
    }
    let made = loaded.act(AdminOp::OpenSession(wish)).await?;
    let name = made.get("name").and_then(Value::as_str).unwrap_or_default();
    Ok(answer::ok(&loaded.channel(name).await?))
}

/// `GET /v1/workspaces/{id}/channels/{name}`.
pub(crate) async fn channel(request: ApiRequest) -> Result<Response, Refusal> {
    Ok(answer::ok(&WorkspaceRequest::load(&request).await?.channel(request.named("name")).await?))
}

async fn set_channel(request: &ApiRequest, changes: Value) -> Result<Response, Refusal> {
    let loaded = WorkspaceRequest::load_to_arrange(request).await?;
    loaded.channel(request.named("name")).await?;
    loaded.act(AdminOp::SetChannel(request.named("name").to_owned(), changes)).await?;
    Ok(answer::ok(&loaded.channel(request.named("name")).await?))
}

/// `PATCH /v1/workspaces/{id}/channels/{name}`.
pub(crate) async fn change_channel(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    set_channel(&request, json_object(&body)?).await
}

/// `DELETE /v1/workspaces/{id}/channels/{name}`: archives it.
pub(crate) async fn archive_channel(request: ApiRequest) -> Result<Response, Refusal> {
    set_channel(&request, json!({ "status": "archived" })).await
}

/// `PATCH /v1/workspaces/{id}/members/{name}` {role}.
pub(crate) async fn change_member(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let loaded = WorkspaceRequest::load_to_manage(&request).await?;
    let ChangeRoleBody { role } = fields(&json_object(&body)?)?;
    let name = request.named("name").to_owned();
    let set = loaded.act(AdminOp::Role(name, role)).await?;
    let workspace = loaded.workspace().await?;
    let bare = set.get("address").and_then(Value::as_str).map(|a| a.split_once(':').map_or(a, |(_, name)| name));
    let agents = workspace.get("agents").and_then(Value::as_array);
    let found = agents.into_iter().flatten().find(|a| a.get("agentName").and_then(Value::as_str) == bare);
    Ok(answer::ok(&found.cloned().unwrap_or_else(|| dated(set.clone()))))
}

/// `POST /v1/composing` {network, channel}: whoever is there sees that the caller writes.
pub(crate) async fn composing(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let body = json_object(&body)?;
    let call = request.call_with(&body)?;
    let channel = body.get("channel").and_then(Value::as_str).ok_or_else(|| invalid_field("channel", "is required"))?;
    let target = format!("channel/{}", channel.trim_start_matches("channel/"));
    let event = json!({
        "type": "workspace.message.status", "source": call.session.caller().claimed, "target": target,
        "payload": { "status": "composing" }, "metadata": { "ephemeral": true },
    });
    let answers = call.session.emit(event.to_string().into()).await?;
    answers.into_iter().next().ok_or(ErrorCode::Internal)?.result.map_err(Refusal::from)?;
    Ok(answer::ok(&json!({ "status": "ok" })))
}

/// `GET /v1/invitations?agent=`.
pub(crate) async fn invitations(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    let look = Look::Invitations(request.params.get("agent").cloned());
    Ok(answer::ok(&call.session.look(look).await?))
}

/// `POST /v1/invitations`: the operator's, or an event of the member that calls.
pub(crate) async fn invite(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let mut wish = json_object(&body)?;
    let call = request.call_with(&wish)?;
    if call.session.caller().operator && call.session.caller().session.is_none() {
        call.session.act(request.client.place(), AdminOp::Noted("invite.add", None)).await?;
        return Ok(answer::ok(&call.session.network().invite(wish).await?));
    }
    if let Some(map) = wish.as_object_mut() {
        ["network", "agent_name", "agent_id", "session_id", "token"].iter().for_each(|key| drop(map.remove(*key)));
    }
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
        let object = json!({ "createdAt": 0, "n": 5, "settings": { "xAt": 1 }, "list": [{ "joinedAt": null }] });
        let want = json!({ "createdAt": iso(0), "n": 5, "settings": { "xAt": 1 }, "list": [{ "joinedAt": null }] });
        assert_eq!(dated(object), want);
    }
}
