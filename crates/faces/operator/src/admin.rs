//! The operator's calls on networks, tokens, groups, members and dead letters (sheet sections 14 and 18).

use crate::api::requests::{CreateNetworkBody, DeadLettersBody, NewTokenBody, RedactBody, SetGroupBody};
use crate::request::OperatorRequest;
use axum::response::Response;
use bytes::Bytes;
use rialto_carrier::Refusal;
use rialto_carrier::answer::{self, fields, invalid_field, json_object};
use rialto_model::network::{Delivery, Durability, Policy, Preset};
use rialto_model::{Address, ErrorCode, Fault, Role};
use rialto_node::{AdminOp, CreateNetwork, DeadLetters, Wishes};
use serde_json::{Value, json};

pub(crate) async fn list(request: OperatorRequest) -> Result<Response, Refusal> {
    let mut out = Vec::new();
    for network in request.state.node.networks() {
        out.push(network.session(&request.caller).network_view().await?);
    }
    Ok(answer::ok(&json!({ "networks": out })))
}

/// How long a network keeps its events.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Retention {
    Ever,
    Days(f64),
}

impl Retention {
    fn days(self) -> Option<f64> {
        match self {
            Retention::Ever => None,
            Retention::Days(days) => Some(days),
        }
    }
}

fn retention(text: &str) -> Result<Retention, Fault> {
    if text == "ever" {
        return Ok(Retention::Ever);
    }
    let days = |unit: &str| match unit {
        "s" => Some(1.0 / 86_400.0),
        "m" => Some(1.0 / 1440.0),
        "h" => Some(1.0 / 24.0),
        "d" => Some(1.0),
        "w" => Some(7.0),
        _ => None,
    };
    let span = text.split_at_checked(text.len().saturating_sub(1)).filter(|(number, _)| number.len() <= 6);
    let span = span.and_then(|(number, unit)| Some((number.parse::<u32>().ok()?, days(unit)?)));
    let span = span.map(|(number, unit)| f64::from(number) * unit).filter(|days| *days > 0.0);
    span.map(Retention::Days).ok_or_else(|| invalid_field("retention", "is \"ever\", or a span such as 30d or 12h"))
}

pub(crate) async fn create(request: OperatorRequest, body: Bytes) -> Result<Response, Refusal> {
    let body: CreateNetworkBody = fields(&json_object(&body)?)?;
    for name in body.mods.iter().flatten() {
        rialto_node::standard_mod(name)?;
    }
    let retention = body.retention.as_deref().map(retention).transpose()?;
    let keeps_none = body.mods.as_ref().is_some_and(|mods| !mods.iter().any(|name| name == "persistence"));
    if keeps_none && retention.is_some() {
        return Err(invalid_field("retention", "without mod/persistence among the mods nothing is kept").into());
    }
    let wish = CreateNetwork {
        policy: body.policy.unwrap_or(Policy::Token),
        delivery: body.delivery.unwrap_or(Delivery::AtLeastOnce),
        durability: body.durability.unwrap_or(Durability::Sync),
        min_verification: body.min_verification.unwrap_or(0),
        keep_for_ever: retention == Some(Retention::Ever),
        keep_days: retention.and_then(Retention::days),
        mods: body.mods,
        created_by: Some("operator".to_owned()),
        ..CreateNetwork::named(&body.name, body.profile.unwrap_or(Preset::Plain))
    };
    let (network, token) = request.state.node.create_network(wish).await?;
    let settings = network.settings();
    let mut data = json!({ "id": network.id(), "name": settings.name, "policy": settings.policy.as_str() });
    if let (Some(token), Some(map)) = (token, data.as_object_mut()) {
        map.insert("token".into(), json!(token.expose()));
    }
    network
        .session(&request.caller)
        .act(request.client.place(), AdminOp::Noted("network.create", Some(settings.name)))
        .await?;
    Ok(answer::ok(&data))
}

pub(crate) async fn show(request: OperatorRequest) -> Result<Response, Refusal> {
    Ok(answer::ok(&request.session()?.network_view().await?))
}

pub(crate) async fn change(request: OperatorRequest, body: Bytes) -> Result<Response, Refusal> {
    let patch = json_object(&body)?;
    if let (Some(name), Ok(this)) = (patch.get("name").and_then(Value::as_str), request.network())
        && request.state.node.network(name).is_some_and(|other| other.id() != this.id())
    {
        return Err(Fault::new(ErrorCode::AlreadyExists, format!("a network {name:?} exists")).into());
    }
    request.act(AdminOp::Settings(patch)).await
}

pub(crate) async fn tokens(request: OperatorRequest) -> Result<Response, Refusal> {
    Ok(answer::ok(&request.session()?.tokens().await?))
}

/// The member a token is made for, given as a bare name or an address: an agent's bare name, else the address.
fn speaker(text: &str) -> Result<String, Refusal> {
    let address = Address::parse(text).map_err(|e| invalid_field("agent", &e.to_string()))?;
    if !address.is_principal() || address.is_foreign() {
        return Err(invalid_field("agent", "nobody can speak as this").into());
    }
    let name = address.as_str().strip_prefix("agent:").unwrap_or(address.as_str());
    Ok(name.to_owned())
}

pub(crate) async fn new_token(request: OperatorRequest, body: Bytes) -> Result<Response, Refusal> {
    let network = request.network()?;
    let NewTokenBody { label, role, agent, expires_at } = fields(&json_object(&body)?)?;
    let agent = agent.map(|agent| speaker(&agent)).transpose()?;
    let (secret, token) = request.state.node.make_token(label, role, agent, expires_at)?;
    let label = token.label.clone();
    network.session(&request.caller).act(request.client.place(), AdminOp::AddToken(token)).await?;
    Ok(answer::ok(&json!({ "token": secret.expose(), "label": label })))
}

pub(crate) async fn revoke_token(request: OperatorRequest) -> Result<Response, Refusal> {
    let label = request.named("label").to_owned();
    request.act(AdminOp::RevokeToken(label)).await
}

pub(crate) async fn groups(request: OperatorRequest) -> Result<Response, Refusal> {
    Ok(answer::ok(&request.session()?.groups().await?))
}

pub(crate) async fn group(request: OperatorRequest) -> Result<Response, Refusal> {
    let name = request.named("name");
    let all = request.session()?.groups().await?;
    let missing = || Fault::new(ErrorCode::UnknownTarget, format!("no group {name:?}"));
    Ok(answer::ok(all.groups.iter().find(|group| group.name == name).ok_or_else(missing)?))
}

pub(crate) async fn set_group(request: OperatorRequest, body: Bytes) -> Result<Response, Refusal> {
    let SetGroupBody { members } = fields(&json_object(&body)?)?;
    let name = request.named("name").to_owned();
    request.act(AdminOp::SetGroup(name, members)).await
}

pub(crate) async fn delete_group(request: OperatorRequest) -> Result<Response, Refusal> {
    let name = request.named("name").to_owned();
    request.act(AdminOp::DeleteGroup(name)).await
}

/// `PATCH …/members/{address}` {role?, mute?, unmute?, dnd?, name?}.
pub(crate) async fn change_member(request: OperatorRequest, body: Bytes) -> Result<Response, Refusal> {
    let body = json_object(&body)?;
    let address = request.named("address").to_owned();
    let wishes = Wishes::from_json(&body)?;
    let wanted = wishes != Wishes::default();
    let role = match body.get("role") {
        None | Some(Value::Null) if wanted => None,
        role => {
            let role = role.and_then(Value::as_str).and_then(Role::from_wire);
            Some(role.ok_or_else(|| invalid_field("role", "master, member or observer"))?)
        }
    };
    match (role, wanted) {
        (Some(role), false) => request.act(AdminOp::Role(address, role)).await,
        (None, _) => request.act(AdminOp::Member(address, wishes)).await,
        (Some(role), true) => {
            // What may be refused goes first; whoever was renamed is still found under the old name.
            let done = request.act(AdminOp::Member(address.clone(), wishes)).await?;
            request.act(AdminOp::Role(address, role)).await.map(|_| done)
        }
    }
}

pub(crate) async fn remove_member(request: OperatorRequest) -> Result<Response, Refusal> {
    let address = request.named("address").to_owned();
    request.act(AdminOp::Remove(address)).await
}

/// `GET …/dead-letters?event_id=&recipient=&limit=`.
pub(crate) async fn dead_letters(request: OperatorRequest) -> Result<Response, Refusal> {
    let params = &request.params;
    let limit =
        params.get("limit").map(|text| text.parse().map_err(|_| invalid_field("limit", "is a number"))).transpose()?;
    let (event_id, recipient) = (params.get("event_id").cloned(), params.get("recipient").cloned());
    let which = DeadLetters { event_id, recipient, limit };
    Ok(answer::ok(&request.network()?.session(&request.caller).dead_letters(&which).await?))
}

/// `POST …/dead-letters/retry` {event_id?, recipient?, all?, limit?}.
pub(crate) async fn retry_dead_letters(request: OperatorRequest, body: Bytes) -> Result<Response, Refusal> {
    let (network, which) = (request.network()?, chosen_letters(&body)?);
    note_letters(&request, "dead.retry", &which).await?;
    Ok(answer::ok(&network.session(&request.caller).retry_dead_letters(&which).await?))
}

/// `POST …/dead-letters/drop` {event_id?, recipient?, all?, limit?}.
pub(crate) async fn drop_dead_letters(request: OperatorRequest, body: Bytes) -> Result<Response, Refusal> {
    let (network, which) = (request.network()?, chosen_letters(&body)?);
    note_letters(&request, "dead.drop", &which).await?;
    Ok(answer::ok(&network.drop_dead_letters(&which).await?))
}

async fn note_letters(request: &OperatorRequest, act: &'static str, which: &DeadLetters) -> Result<(), Refusal> {
    let named = [which.event_id.as_deref(), which.recipient.as_deref()];
    let about: Vec<&str> = named.into_iter().flatten().collect();
    request.note(act, Some(about.join(" to ")).filter(|text| !text.is_empty())).await
}

/// Which dead letters to act on; all of them only when that is said.
fn chosen_letters(body: &Bytes) -> Result<DeadLetters, Refusal> {
    let DeadLettersBody { event_id, recipient, all, limit } = fields(&json_object(body)?)?;
    let limit = limit.map(|rows| usize::try_from(rows).unwrap_or(usize::MAX));
    let which = DeadLetters { event_id, recipient, limit };
    if which.event_id.is_none() && which.recipient.is_none() && all != Some(true) {
        return Err(invalid_field("event_id", "or recipient is required; `all: true` means every dead letter").into());
    }
    Ok(which)
}

pub(crate) async fn redact(request: OperatorRequest, body: Bytes) -> Result<Response, Refusal> {
    let network = request.network()?;
    let RedactBody { event_id } = fields(&json_object(&body)?)?;
    request.note("event.redact", Some(event_id.clone())).await?;
    Ok(answer::ok(&network.redact(&event_id).await?))
}

/// `GET …/members`: everybody with what holds the name and its sessions; never a secret.
pub(crate) async fn members(request: OperatorRequest) -> Result<Response, Refusal> {
    Ok(answer::ok(&request.session()?.member_sessions().await?))
}

/// `POST …/members/{address}/release`: the name belongs to nobody any more.
pub(crate) async fn release_member(request: OperatorRequest) -> Result<Response, Refusal> {
    let address = request.named("address").to_owned();
    request.act(AdminOp::Release(address)).await
}

/// `DELETE …/members/{address}/sessions?session=`: one, or all of them.
pub(crate) async fn end_sessions(request: OperatorRequest) -> Result<Response, Refusal> {
    let number =
        request.params.get("session").map(|text| text.parse().map_err(|_| invalid_field("session", "is a number")));
    let (address, number) = (request.named("address").to_owned(), number.transpose()?);
    request.act(AdminOp::EndSessions(address, number)).await
}

/// `GET …/audit?since=&actor=`.
pub(crate) async fn audit(request: OperatorRequest) -> Result<Response, Refusal> {
    let since = request
        .params
        .get("since")
        .map(|text| text.parse().map_err(|_| invalid_field("since", "is a time in milliseconds")));
    let (since, actor) = (since.transpose()?.unwrap_or(0), request.params.get("actor").cloned());
    Ok(answer::ok(&request.session()?.audit(since, actor).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_kept_for_ever_or_for_a_span() {
        assert_eq!(retention("ever"), Ok(Retention::Ever));
        for (text, days) in [("30d", 30.0), ("12h", 0.5), ("2w", 14.0), ("86400s", 1.0), ("1440m", 1.0)] {
            assert_eq!(retention(text), Ok(Retention::Days(days)), "{text}");
        }
        for text in ["", "d", "0d", "30", "30x", "-1d", "1.5d", "9999999d", "für", "3 d"] {
            assert_eq!(retention(text).unwrap_err().details.unwrap()["field"], "retention", "{text}");
        }
    }
}
