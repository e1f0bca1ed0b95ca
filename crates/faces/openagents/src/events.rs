//! Sending, reading and acking over HTTP (sheet section 12.5).

use crate::api::requests::AckPayload;
use crate::auth::{Call, CallRequest, is_compat};
use crate::compat;
use crate::request::ApiRequest;
use crate::wire;
use axum::http::{HeaderMap, HeaderName, Method, Request, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::FutureExt as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body;
use rialto_carrier::answer::{self, fields, json_object};
use rialto_carrier::body::BodyRefusal;
use rialto_carrier::long_poll::wait_seconds;
use rialto_carrier::{FaceState, Params, Refusal, unread};
use rialto_model::channel::ChannelStatus;
use rialto_model::payload::{ChannelChanges, SessionUpdate};
use rialto_model::{Envelope, ErrorCode, Fault, limits};
use rialto_node::{AdminOp, Answered, Filter, Query, QueryResult, Texts, View, Viewer, Woken};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// Bodies up to this size are copied out of the buffer they were read into.
const SMALL_BODY_BYTES: usize = 4 << 10;
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// `POST /v1/events`: one event, an array, or NDJSON.
pub(crate) async fn post(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    send(&request.state, request.scope(), &request.params, &request.headers, body).await
}

/// The network named by the path of a request that sends events, if it is one.
fn post_network<B>(request: &Request<B>) -> Option<Option<&str>> {
    if request.method() != Method::POST {
        return None;
    }
    match request.uri().path().strip_prefix("/v1/")? {
        "events" => Some(None),
        below => {
            let name = below.strip_prefix("ws/")?.strip_suffix("/events")?;
            (!name.is_empty() && !name.contains(['/', '%'])).then_some(Some(name))
        }
    }
}

/// Whether a request is a `POST /v1/events` with nothing in its address to be decoded.
pub(crate) fn is_plain_post<B>(request: &Request<B>) -> bool {
    request.uri().query().is_none() && post_network(request).is_some()
}

/// The same as [`post`], for a request that did not come through the router. Futures are kept small: allocators
/// are quick up to about a kilobyte.
pub(crate) fn post_plain<B>(
    state: Arc<FaceState>,
    request: Request<B>,
) -> impl Future<Output = Result<Response, Refusal>>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let named = post_network(&request).flatten().map(Box::<str>::from);
    let (head, body) = request.into_parts();
    let headers = head.headers;
    Limited::new(body, limits::BATCH_BYTES_MAX).collect().then(async move |body| {
        let body = match body {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => return Ok(BodyRefusal::TooLarge.answer()),
            Err(error) => {
                let broken = || Fault::new(ErrorCode::InvalidArgument, "the body breaks off").into();
                return error.downcast_ref::<BodyRefusal>().map(|why| why.answer()).ok_or_else(broken);
            }
        };
        // What is left of the read buffer goes back to the connection, which else would need a new one per request.
        let body = if body.len() <= SMALL_BODY_BYTES { Bytes::copy_from_slice(&body) } else { body };
        send(&state, named.as_deref(), &Params::new(), &headers, body).await
    })
}

/// Takes what a body holds: one event, an array, or NDJSON.
async fn send(
    state: &FaceState,
    path: Option<&str>,
    params: &Params,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let text = std::str::from_utf8(&body).map_err(|_| Fault::new(ErrorCode::InvalidJson, "the body is not UTF-8"))?;
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|c| c.to_str().ok());
    if content_type.is_some_and(|c| c != "application/json" && c.contains("ndjson")) {
        let mut texts = Texts::of(body.clone());
        text.lines().map(str::trim).filter(|l| !l.is_empty()).for_each(|l| texts.mark_slice(l.as_bytes()));
        return Box::pin(batch(state, path, params, headers, texts)).await;
    }
    if text.trim_start().starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(text)
            .map_err(|e| Fault::new(ErrorCode::InvalidJson, format!("not valid JSON: {e}")))?;
        let mut texts = Texts::of(body.clone());
        items.iter().for_each(|raw| texts.mark_slice(raw.get().as_bytes()));
        return Box::pin(batch(state, path, params, headers, texts)).await;
    }
    Box::pin(single(state, path, params, headers, body)).await
}

async fn single(
    state: &FaceState,
    path: Option<&str>,
    params: &Params,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let key = headers.get(IDEMPOTENCY_KEY);
    // Before anything is read of it: clients of workspace servers have words that nobody else has.
    let body = if is_compat(headers, params) { compat::event(body) } else { body };
    // The network's task reads the event; it is looked into here only where the answer decides who gets it.
    let (network, unnamed) = match (path, key) {
        (Some(_), None) => (None, false),
        _ => {
            let text = std::str::from_utf8(&body).unwrap_or_default();
            let envelope = Envelope::parse(text).map_err(|u| Refusal { fault: u.fault, event_id: u.id })?;
            (envelope.network.map(Cow::into_owned), envelope.id.is_none())
        }
    };
    let wait = wait_seconds(params)?;
    let call = CallRequest::new(state, headers).params(params).path(path.or(network.as_deref())).call()?;
    let key = key.filter(|_| unnamed).map(|key| idempotency_key(key.to_str().unwrap_or_default())).transpose()?;
    let answered =
        if call.compat { Box::pin(emit_compat(&call, body, key)).await? } else { emit_one(&call, body, key).await? };
    match answered.result {
        Err(fault) => Err(Refusal { fault, event_id: answered.refused }),
        Ok(_) if wait.is_some() || answered.query.is_some() => Box::pin(with_response(call, answered, wait)).await,
        Ok(ref accepted) => {
            let response = accepted.response.as_ref().map(|e| e.json());
            Ok(wire::accepted(&answered, response.as_deref()))
        }
    }
}

async fn emit_one(call: &Call, body: Bytes, key: Option<String>) -> Result<Answered, Fault> {
    let answers = match key {
        Some(key) => Box::pin(call.session.emit_keyed(body, key)).await?,
        None => call.session.emit(Texts::one(body)).await?,
    };
    answers.into_iter().next().ok_or_else(|| ErrorCode::Internal.into())
}

/// The same for clients of workspace servers: an agent that answers in a session which was put away meanwhile brings it back, where its
/// caller may arrange sessions.
async fn emit_compat(call: &Call, body: Bytes, key: Option<String>) -> Result<Answered, Fault> {
    let mut answered = emit_one(call, body.clone(), key.clone()).await?;
    let refused = answered.result.as_ref().err().is_some_and(|fault| fault.code == ErrorCode::Forbidden);
    if let Some(channel) = compat::message_channel(&body).filter(|_| refused)
        && call.session.channel(&channel).await.is_ok_and(|channel| channel.status == ChannelStatus::Archived)
    {
        let changes = ChannelChanges { status: Some(ChannelStatus::Active), ..ChannelChanges::default() };
        call.session.act(None, AdminOp::SetChannel(channel, SessionUpdate { changes, auto_title: None })).await?;
        answered = emit_one(call, body, key).await?;
    }
    if let Ok(accepted) = &mut answered.result
        && let Some(shown) = accepted.event.as_deref().and_then(compat::made_channel)
    {
        accepted.event = Some(shown);
    }
    Ok(answered)
}

/// The answer to an event that is a question: with the response to it.
async fn with_response(call: Call, answered: Answered, wait: Option<Duration>) -> Result<Response, Refusal> {
    let Ok(accepted) = &answered.result else { return Err(ErrorCode::Internal.into()) };
    let mut response = accepted.response.as_ref().map(|e| e.json());
    if let Some(query) = &answered.query {
        let result = unread::page(call.session.query(query)).await?;
        let page = wire::page_json(&result, false);
        let id = answered.event_id();
        let event = wire::server_event("network.events.response", "core", call.session.network().id(), &page, id);
        response = Some(event.json());
    }
    if let (Some(wait), Some(seq), None) = (wait, accepted.seq, &response) {
        response = reply_to(&call, accepted.event_id(), seq, wait).await?;
    }
    Ok(wire::accepted(&answered, response.as_deref()))
}

/// The key of `Idempotency-Key`, within its bounds.
fn idempotency_key(key: &str) -> Result<String, Refusal> {
    if key.is_empty() || key.len() > limits::IDEMPOTENCY_KEY_CHARS_MAX {
        let what = format!("Idempotency-Key is 1 to {} characters", limits::IDEMPOTENCY_KEY_CHARS_MAX);
        return Err(Fault::new(ErrorCode::InvalidArgument, what).into());
    }
    Ok(key.to_owned())
}

async fn batch(
    state: &FaceState,
    path: Option<&str>,
    params: &Params,
    headers: &HeaderMap,
    texts: Texts,
) -> Result<Response, Refusal> {
    if texts.len() > limits::BATCH_EVENTS_MAX {
        return Err(
            Fault::new(ErrorCode::TooLarge, format!("a batch is at most {} events", limits::BATCH_EVENTS_MAX)).into()
        );
    }
    let first = texts.iter().next().and_then(|t| std::str::from_utf8(t).ok()).and_then(|t| Envelope::parse(t).ok());
    let named = path.or_else(|| first.as_ref()?.network.as_deref());
    let call = CallRequest::new(state, headers).params(params).path(named).call()?;
    let answers = if texts.is_empty() { Vec::new() } else { call.session.emit(texts).await? };
    let results: Vec<Value> = answers
        .iter()
        .map(|a| match &a.result {
            Ok(accepted) => json!({ "id": accepted.event_id(), "ok": true, "seq": accepted.seq, "duplicate": accepted.duplicate, "durability": a.durability.as_str(), "result": accepted.result }),
            Err(fault) => json!({ "id": a.event_id(), "ok": false, "error": fault.payload(a.event_id()) }),
        })
        .collect();
    Ok(answer::ok(&json!({ "results": results })))
}

/// Waits for the first event that answers `id`; none in time is no error.
async fn reply_to(call: &Call, id: &str, seq: u64, wait: Duration) -> Result<Option<String>, Refusal> {
    let capabilities = call.session.profile().await?.capabilities;
    let has_history = capabilities.iter().any(|capability| capability == "network.events");
    let view = if has_history { View::Log } else { View::Inbox };
    let query = Query {
        after: Some(format!("seq:{seq}")),
        limit: Some(1),
        view: Some(view),
        filter: Filter { in_reply_to: Some(id.to_owned()), ..Filter::default() },
        ..Query::default()
    };
    let mut replies = call.session.follow(query).within(wait);
    loop {
        let page = replies.next().await?;
        // A receipt says that somebody has read it, not what it says to it.
        if let Some(record) = page.events.first().filter(|r| r.event.kind() != "network.event.ack") {
            return Ok(Some(record.event.json()));
        }
        if !page.has_something() {
            return Ok(None);
        }
    }
}

/// Reads the filters of a history read from the query string.
pub(crate) fn query_of(params: &Params, call: &Call) -> Result<Query, Refusal> {
    let query = Query::read(|key| params.get(key).filter(|v| !v.is_empty()).cloned())?;
    let filter = Filter { untargeted: call.compat, ..query.filter };
    Ok(Query { view: query.view.or_else(|| Some(default_view(call))), lenient_cursor: call.compat, filter, ..query })
}

/// A member reads its inbox, everybody else and compat clients the log.
fn default_view(call: &Call) -> View {
    let caller = call.session.caller();
    let holder = caller.session.is_none() && caller.bearer.is_none_or(|b| call.session.network().has_token(&b));
    if call.compat || caller.operator && caller.session.is_none() || holder { View::Log } else { View::Inbox }
}

/// `GET /v1/events`: a page; `after` acks what came before it, `wait` long-polls.
pub(crate) async fn get(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    let mut query = query_of(&request.params, &call)?;
    query.checked_limit()?;
    call.session.prepare(&mut query).await?;
    let wait = wait_seconds(&request.params)?;
    ack_before(&call, &query, &request.params).await?;
    query.asks = true;
    let view = query.view.unwrap_or(View::Log);
    let mut result = read(&call, &query, wait).await?;
    if call.compat {
        compat::native_names(&call, &mut result.events).await?;
    }
    let mut page = wire::page_json(&result, view == View::Inbox && result.tracked);
    let plain = query.search.is_none() && query.filter.conversation.is_none();
    if call.compat && plain && request.composing.is_going_on(call.session.network().id()) {
        page.pop();
        page.push_str(",\"composing\":true}");
    }
    Ok(answer::ok_raw(&page))
}

/// For an identified member `after=X` acks its deliveries up to X that match the same filters.
pub(crate) async fn ack_before(call: &Call, query: &Query, params: &Params) -> Result<(), Refusal> {
    let Some(after) = &query.after else { return Ok(()) };
    if params.get("ack").is_some_and(|v| v == "false" || v == "0") || query.view != Some(View::Inbox) {
        return Ok(());
    }
    if let Some(seq) = call.session.cursor(after, query.lenient_cursor).await? {
        call.session.ack_filtered(seq, query.filter.clone()).await?;
    }
    Ok(())
}

pub(crate) async fn read(call: &Call, query: &Query, wait: Option<Duration>) -> Result<QueryResult, Refusal> {
    let mut follow = call.session.follow(query.clone()).within(wait.unwrap_or_default());
    loop {
        let page = unread::page(follow.read()).await?;
        // While it waits, nothing is held for its answer.
        if page.has_something() || wait.is_none() || follow.wait().await? == Woken::TimeIsOver {
            return Ok(page);
        }
    }
}

/// `POST /v1/ack` {ids | up_to}.
pub(crate) async fn ack(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let payload = json_object(&body)?;
    let call = request.call_with(&payload)?;
    let AckPayload { ids, up_to } = fields(&payload)?;
    let ids = ids.unwrap_or_default();
    if ids.is_empty() && up_to.is_none() {
        return Err(Fault::new(ErrorCode::InvalidArgument, "ids is a list of event ids, up_to is one").into());
    }
    let acked = call.session.ack(ids, up_to).await?;
    Ok(answer::ok(&json!({ "acked": acked })))
}

/// `GET /v1/events/{id}/explain`.
pub(crate) async fn explain(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    Ok(answer::ok(&call.session.explain(request.named("id")).await?))
}

/// `GET /v1/events/latest-per-channel?type=`.
pub(crate) async fn latest_per_channel(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    let asked = request.params.get("type").cloned();
    let kind = asked.or_else(|| call.compat.then(|| "workspace.message".to_owned()));
    let (newest, has_more) = call.session.latest_per_channel(kind).await?;
    let (names, mut records): (Vec<_>, Vec<_>) = newest.into_iter().unzip();
    if call.compat {
        compat::native_names(&call, &mut records).await?;
    }
    let mut channels = serde_json::Map::new();
    for (name, record) in names.into_iter().zip(records) {
        channels.insert(name.into(), serde_json::from_str(&record.event.json()).unwrap_or_default());
    }
    let mut out = json!({ "channels": channels });
    if let (true, Some(map)) = (has_more, out.as_object_mut()) {
        map.insert("has_more".into(), true.into());
    }
    Ok(answer::ok(&out))
}

/// Whether the reader is a member, for acks on resume.
pub(crate) fn is_member(viewer: Viewer) -> bool {
    matches!(viewer, Viewer::Member(_))
}
