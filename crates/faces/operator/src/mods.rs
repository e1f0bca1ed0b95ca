//! The operator's calls on a network's mods (sheet sections 9.2 and 14).

use crate::api::requests::{ApproveModBody, LoadModName, ModBody, OrderModsBody};
use crate::request::OperatorRequest;
use axum::response::Response;
use bytes::Bytes;
use rialto_carrier::Refusal;
use rialto_carrier::answer::{self, fields, json_object};
use rialto_model::{ErrorCode, Fault};
use rialto_node::AdminOp;
use rialto_node::mods::ModConfig;
use rialto_node::mods::manage::ModPatch;

/// What a body says of a mod.
fn patch(body: ModBody) -> ModPatch {
    let ModBody { config, intercepts, priority, enabled, on_error, deadline_ms } = body;
    ModPatch { config: config.unwrap_or_default(), intercepts, priority, enabled, on_error, deadline_ms }
}

fn whole(name: &str, body: ModBody) -> Result<ModConfig, Fault> {
    Ok(patch(body).apply(rialto_node::standard_mod(name)?))
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
    let name: LoadModName = fields(&body)?;
    request.act(AdminOp::LoadMod(whole(&name.name, fields(&body)?)?)).await
}

/// `PUT …/mods/{name}`: loads a mod or replaces it whole; what the body does not say has its default.
pub(crate) async fn set(request: OperatorRequest, body: Bytes) -> Result<Response, Refusal> {
    let config = whole(request.named("name"), fields(&json_object(&body)?)?)?;
    request.act(AdminOp::SetMod(config)).await
}

/// `PATCH …/mods/{name}`: changes what the body says; a setting of null goes back to its default.
pub(crate) async fn change(request: OperatorRequest, body: Bytes) -> Result<Response, Refusal> {
    let patch = patch(fields(&json_object(&body)?)?);
    request.act(AdminOp::ChangeMod(request.named("name").to_owned(), patch)).await
}

/// `DELETE …/mods/{name}`.
pub(crate) async fn unload(request: OperatorRequest) -> Result<Response, Refusal> {
    request.act(AdminOp::RemoveMod(request.named("name").to_owned())).await
}

/// `POST …/mods/{name}/approve` {address, approved?}: lets a member serve a mod, or no longer.
pub(crate) async fn approve(request: OperatorRequest, body: Bytes) -> Result<Response, Refusal> {
    let ApproveModBody { address, approved } = fields(&json_object(&body)?)?;
    request.act(AdminOp::ApproveMod(request.named("name").to_owned(), address, approved)).await
}

/// `POST …/mods/order` {names, mode?}: rewrites the priorities inside one mode, all at once.
pub(crate) async fn order(request: OperatorRequest, body: Bytes) -> Result<Response, Refusal> {
    let OrderModsBody { names, mode } = fields(&json_object(&body)?)?;
    request.act(AdminOp::OrderMods(mode, names)).await
}
