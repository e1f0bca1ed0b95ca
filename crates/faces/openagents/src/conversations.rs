//! Threads inside channels and direct rooms between two members.

use crate::api::requests::OpenRoomBody;
use crate::request::ApiRequest;
use axum::response::Response;
use bytes::Bytes;
use rialto_carrier::answer::{self, fields, invalid_field, json_object};
use rialto_carrier::{Params, Refusal};
use rialto_model::view::ConversationList;
use rialto_model::{ErrorCode, Fault};

/// Cursor and size of a listing.
pub(crate) fn listing(params: &Params) -> Result<(Option<&str>, Option<i64>), Fault> {
    let limit = params.get("limit").map(|text| text.parse().map_err(|_| invalid_field("limit", "a number")));
    Ok((params.get("before").map(String::as_str).filter(|text| !text.is_empty()), limit.transpose()?))
}

/// `GET /v1/threads?channel&before&limit`.
pub(crate) async fn threads(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    let channel = request.params.get("channel").filter(|name| !name.is_empty()).cloned();
    let (before, limit) = listing(&request.params)?;
    Ok(answer::ok(&call.session.threads(channel, before, limit).await?))
}

/// `GET /v1/threads/{channel}/{thread}`.
pub(crate) async fn thread(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    Ok(answer::ok(&call.session.thread(request.named("channel").to_owned(), request.named("thread").to_owned()).await?))
}

/// `GET /v1/rooms?before&limit`.
pub(crate) async fn rooms(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    let (before, limit) = listing(&request.params)?;
    Ok(answer::ok(&call.session.rooms(before, limit).await?))
}

/// `POST /v1/rooms` {peer, channel?}.
pub(crate) async fn open_room(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let payload = json_object(&body)?;
    let call = request.call_with(&payload)?;
    let OpenRoomBody { peer, channel } = fields(&payload)?;
    Ok(answer::ok(&call.session.open_room(peer, channel).await?))
}

/// `GET /v1/rooms/{id}`.
pub(crate) async fn room(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    Ok(answer::ok(&call.session.room(request.named("id").to_owned()).await?))
}

/// `GET /v1/events/conversations`.
pub(crate) async fn direct(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    match call.session.conversations().await {
        // A page that shows the token alone asks as nobody, and nobody has any.
        Err(fault) if call.compat && fault.code == ErrorCode::NotAMember => {
            Ok(answer::ok(&ConversationList::default()))
        }
        conversations => Ok(answer::ok(&conversations?)),
    }
}
