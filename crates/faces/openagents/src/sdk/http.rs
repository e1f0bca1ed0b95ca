//! The dialect over HTTP, below `/api`. Its answers are the SDK's own: what an event comes to is said with 200, and a registration that is
//! refused with 500, as its clients expect it.

use super::SdkState;
use super::wire::{
    SdkDone, SdkEvent, SdkHealth, SdkPollQuery, SdkPolled, SdkRegisterBody, SdkRegistered, SdkSent, SdkUnregisterBody,
    told,
};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use rialto_carrier::answer::{fields, json_object};
use rialto_carrier::describe::{Json, NoBody, NoQuery, Plain, YesOrFailed};
use rialto_carrier::handover::Handover;
use rialto_carrier::{Refusal, RequestInfo};
use rialto_model::{ErrorCode, Fault};

rialto_carrier::operations! {
    for SdkState;
    get "/api/health" "sdk_health" Public plain (NoQuery, NoBody) -> Plain<SdkHealth>, &[ErrorCode::NetworkNotFound, ErrorCode::Unauthenticated, ErrorCode::Unsupported], health, "The default network, as agents of the SDK look at it before they connect";
    post "/api/register" "sdk_register" Public plain (NoQuery, Json<SdkRegisterBody>) -> YesOrFailed<SdkRegistered>, &[], register, "An agent of the SDK becomes a member";
    post "/api/unregister" "sdk_unregister" Public plain (NoQuery, Json<SdkUnregisterBody>) -> YesOrFailed<SdkDone>, &[], unregister, "An agent of the SDK goes";
    post "/api/send_event" "sdk_send_event" Public plain (NoQuery, Json<SdkEvent>) -> Plain<SdkSent>, &[], send_event, "An agent of the SDK sends an event, or asks for something (`system.*`, `thread.*`)";
    get "/api/poll" "sdk_poll" Public plain (SdkPollQuery, NoBody) -> Plain<SdkPolled>, &[], poll, "What came for an agent of the SDK; a poll acks what the one before gave";
}

async fn health(State(state): State<SdkState>, request: RequestInfo) -> Result<Response, Refusal> {
    Ok(axum::Json(state.health(&request.headers).await?).into_response())
}

/// A good credential came in a body or a URL: the connection is no stranger's.
fn proved(request: &RequestInfo) {
    if let Some(stranger) = &request.stranger {
        stranger.prove();
    }
}

async fn register(State(state): State<SdkState>, request: RequestInfo, body: Bytes) -> Result<Response, Refusal> {
    let wish: SdkRegisterBody = fields(&json_object(&body)?)?;
    Ok(match state.register(&wish).await {
        Ok(registered) => {
            proved(&request);
            let name = registered.network.settings().name;
            axum::Json(SdkRegistered {
                success: true,
                network_name: Some(name),
                network_id: Some(registered.network.id().to_owned()),
                secret: Some(registered.secret),
                assigned_group: Some(super::ops::GUESTS.to_owned()),
                error_message: None,
            })
            .into_response()
        }
        Err(fault) => {
            let failed = SdkRegistered { error_message: Some(told(&fault)), ..SdkRegistered::default() };
            (StatusCode::INTERNAL_SERVER_ERROR, axum::Json(failed)).into_response()
        }
    })
}

async fn unregister(State(state): State<SdkState>, body: Bytes) -> Result<Response, Refusal> {
    let SdkUnregisterBody { agent_id, secret } = fields(&json_object(&body)?)?;
    Ok(match state.unregister(&agent_id, secret.as_deref()).await {
        Ok(()) => axum::Json(SdkDone { success: true, error_message: None }).into_response(),
        Err(fault) => {
            let failed = SdkDone { success: false, error_message: Some(told(&fault)) };
            (StatusCode::INTERNAL_SERVER_ERROR, axum::Json(failed)).into_response()
        }
    })
}

/// The answer; its carrier watches how mail in it gets on.
fn handed(mut response: Response, handover: Option<Handover>) -> Response {
    if let Some(handover) = handover {
        response.extensions_mut().insert(handover);
    }
    response
}

async fn send_event(State(state): State<SdkState>, request: RequestInfo, body: Bytes) -> Result<Response, Refusal> {
    let unreadable = |error: serde_json::Error| {
        let code = if error.is_data() { ErrorCode::InvalidArgument } else { ErrorCode::InvalidJson };
        Refusal::from(Fault::new(code, format!("the event cannot be read: {error}")))
    };
    let event: SdkEvent = serde_json::from_slice(&body).map_err(unreadable)?;
    let (sent, handover) = state.sent(&event, request.client.place().as_deref()).await;
    if sent.success {
        proved(&request);
    }
    Ok(handed(axum::Json(sent).into_response(), handover))
}

async fn poll(State(state): State<SdkState>, request: RequestInfo) -> Response {
    let text = |name: &str| request.params.get(name).map(String::as_str);
    let (polled, handover) = state.polled(text("agent_id").unwrap_or_default(), text("secret")).await;
    if polled.success {
        proved(&request);
    }
    handed(axum::Json(polled).into_response(), handover)
}
