//! The operator's calls on a network's mods (sheet sections 9.2 and 14).

use crate::request::OperatorRequest;
use axum::response::Response;
use bytes::Bytes;
use rialto_carrier::Refusal;
use rialto_carrier::answer::{self, invalid_field, json_object};
use rialto_model::{ErrorCode, Fault};
use rialto_node::AdminOp;
use rialto_node::mods::manage::Patch;
use rialto_node::mods::{ModConfig, Mode, OnError};
use serde_json::{Map, Value};

fn config(body: &Value) -> Result<Option<Map<String, Value>>, Fault> {
    body.get("config")
        .map(|map| map.as_object().cloned().ok_or_else(|| invalid_field("config", "is an object")))
        .transpose()
}

/// What a body says of a mod.
fn patch(body: &Value) -> Result<Patch, Fault> {
    let intercepts = |list: &Value| {
        serde_json::from_value(list.clone()).map_err(|_| invalid_field("intercepts", "is a list of patterns"))
    };
    let priority = |number: &Value| {
        number.as_i64().and_then(|n| i32::try_from(n).ok()).ok_or_else(|| invalid_field("priority", "is a number"))
    };
    let enabled = |flag: &Value| flag.as_bool().ok_or_else(|| invalid_field("enabled", "is true or false"));
    let on_error = |value: &Value| {
        value
            .as_str()
            .and_then(OnError::from_wire)
            .ok_or_else(|| invalid_field("on_error", "is \"skip\" or \"reject\""))
    };
    let deadline =
        |value: &Value| value.as_u64().ok_or_else(|| invalid_field("deadline_ms", "is a number of milliseconds"));
    Ok(Patch {
        config: config(body)?.unwrap_or_default(),
        intercepts: body.get("intercepts").map(intercepts).transpose()?,
        priority: body.get("priority").map(priority).transpose()?,
        enabled: body.get("enabled").map(enabled).transpose()?,
        on_error: body.get("on_error").map(on_error).transpose()?,
        deadline_ms: body.get("deadline_ms").map(deadline).transpose()?,
    })
}

fn whole(name: &str, body: &Value) -> Result<ModConfig, Fault> {
    Ok(patch(body)?.apply(rialto_node::standard_mod(name)?))
}

/// `GET …/mods`: the pipeline in its order, and what this build could load.
pub(crate) async fn list(request: OperatorRequest) -> Result<Response, Refusal> {
    Ok(answer::ok(&request.session()?.mods().await?))
}

/// `GET …/mods/{name}`: a loaded mod with every setting it knows.
pub(crate) async fn show(request: OperatorRequest) -> Result<Response, Refusal> {
    let name = request.named("name");
    let all = request.session()?.mods().await?;
    let found = all.mods.iter().find(|shown| shown.name.as_ref() == name);
    let missing = || Fault::new(ErrorCode::ModNotFound, format!("mod/{name} is not loaded"));
    Ok(answer::ok(found.ok_or_else(missing)?))
}

/// `POST …/mods` {name, …}: loads a mod that is not loaded.
pub(crate) async fn load(request: OperatorRequest, body: Bytes) -> Result<Response, Refusal> {
    let body = json_object(&body)?;
    let name = body.get("name").and_then(Value::as_str).ok_or_else(|| invalid_field("name", "is required"))?;
    request.act(AdminOp::LoadMod(whole(name, &body)?)).await
}

/// `PUT …/mods/{name}`: loads a mod or replaces it whole; what the body does not say has its default.
pub(crate) async fn set(request: OperatorRequest, body: Bytes) -> Result<Response, Refusal> {
    let config = whole(request.named("name"), &json_object(&body)?)?;
    request.act(AdminOp::SetMod(config)).await
}

/// `PATCH …/mods/{name}`: changes what the body says; a setting of null goes back to its default.
pub(crate) async fn change(request: OperatorRequest, body: Bytes) -> Result<Response, Refusal> {
    let patch = patch(&json_object(&body)?)?;
    request.act(AdminOp::ChangeMod(request.named("name").to_owned(), patch)).await
}

/// `DELETE …/mods/{name}`.
pub(crate) async fn unload(request: OperatorRequest) -> Result<Response, Refusal> {
    request.act(AdminOp::RemoveMod(request.named("name").to_owned())).await
}

/// `POST …/mods/{name}/approve` {address, approved?}: lets a member serve a mod, or no longer.
pub(crate) async fn approve(request: OperatorRequest, body: Bytes) -> Result<Response, Refusal> {
    let body = json_object(&body)?;
    let address = body.get("address").and_then(Value::as_str).ok_or_else(|| invalid_field("address", "is required"))?;
    let on = match body.get("approved") {
        None => true,
        Some(on) => on.as_bool().ok_or_else(|| invalid_field("approved", "is true or false"))?,
    };
    request.act(AdminOp::ApproveMod(request.named("name").to_owned(), address.to_owned(), on)).await
}

/// `POST …/mods/order` {names, mode?}: rewrites the priorities inside one mode, all at once.
pub(crate) async fn order(request: OperatorRequest, body: Bytes) -> Result<Response, Refusal> {
    let body = json_object(&body)?;
    let mode = |value: &Value| {
        value.as_str().and_then(Mode::from_wire).ok_or_else(|| invalid_field("mode", "is guard, transform or observe"))
    };
    let mode = body.get("mode").map(mode).transpose()?;
    let names = body
        .get("names")
        .and_then(|list| serde_json::from_value(list.clone()).ok())
        .ok_or_else(|| invalid_field("names", "is a list of names"))?;
    request.act(AdminOp::OrderMods(mode, names)).await
}
