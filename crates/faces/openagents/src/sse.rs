//! Server-sent events: an inbox or history followed by cursor, so there is no gap and no duplicate between backlog
//! and live (sheet section 12.6).

use crate::app::App;
use crate::auth::{self, Call, Params};
use crate::error::Refusal;
use crate::events::{ack_before, is_member, query_of};
use crate::members::{Scope, scope};
use crate::wire;
use axum::body::Body;
use axum::extract::{Query as UrlQuery, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use rialto_model::{ErrorCode, Fault, limits};
use rialto_node::{Query, View};
use serde_json::Value;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// A comment is sent after this long without an event.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// Chunks waiting for a slow reader; it is then parked on its cursor.
const CHUNKS: usize = 4;

/// `GET /v1/events/stream`.
pub(crate) async fn stream(
    State(app): State<App>,
    path: Scope,
    UrlQuery(params): UrlQuery<Params>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let call = auth::call(&app, &headers, &params, scope(&path), &Value::Null, true)?;
    let mut query = query_of(&params, &call)?;
    query.limit = Some(i64::try_from(limits::PAGE_EVENTS_MAX).unwrap_or(500));
    query.filter.descending = false;
    let last = headers.get("last-event-id").and_then(|v| v.to_str().ok()).filter(|v| !v.is_empty()).map(str::to_owned);
    query.after = last.or(query.after);
    // Refusals come before the first byte: unknown cursors, missing rights, no history.
    let head = call.network.head();
    let start = *head.borrow();
    let cursor = match &query.after {
        Some(after) => call.network.cursor(after, query.lenient_cursor).await?.unwrap_or(0),
        None if query.view == Some(View::Inbox) => 0,
        None => start,
    };
    ack_before(&call, &query, &params).await?;
    let probe = Query { after: Some(format!("seq:{cursor}")), limit: Some(1), ..query.clone() };
    let viewer = call.network.query(&call.caller, &probe).await?.viewer;
    if query.view == Some(View::Inbox) && !is_member(viewer) {
        return Err(Fault::new(ErrorCode::NotAMember, "an inbox belongs to a member").into());
    }
    let typed = params.get("events").is_some_and(|v| v == "typed");
    let (tx, rx) = mpsc::channel(CHUNKS);
    tokio::spawn(follow(call, query, cursor, head, typed, tx, app.stop.clone()));
    let body = Body::from_stream(futures_util::stream::unfold(rx, |mut rx| async move {
        rx.recv().await.map(|chunk| (Ok::<Bytes, std::convert::Infallible>(chunk), rx))
    }));
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, body).into_response())
}

/// Reads on from the cursor whenever something was committed. Ends when the reader is gone or the node stops.
async fn follow(
    call: Call,
    query: Query,
    cursor: u64,
    mut head: watch::Receiver<u64>,
    typed: bool,
    tx: mpsc::Sender<Bytes>,
    stop: CancellationToken,
) {
    let view = query.view.unwrap_or(View::Log);
    let mut cursor = cursor;
    if tx.send(Bytes::from_static(b"retry: 2000\n\n")).await.is_err() {
        return;
    }
    loop {
        head.borrow_and_update();
        let next = Query { after: Some(format!("seq:{cursor}")), ..query.clone() };
        let result = match call.network.query(&call.caller, &next).await {
            Ok(result) => result,
            Err(fault) => {
                let data = serde_json::json!({ "code": fault.wire_code(), "message": fault.message });
                let _ = tx.send(Bytes::from(format!("event: control\ndata: {data}\n\n"))).await;
                return;
            }
        };
        cursor = result.next.max(cursor);
        let mut chunk = String::new();
        for record in &result.events {
            let name = if typed { record.event.kind() } else { "message" };
            chunk.push_str(&format!(
                "id: {}\nevent: {name}\ndata: {}\n\n",
                record.event.id(),
                wire::event_json(record, view)
            ));
        }
        if !chunk.is_empty() && tx.send(Bytes::from(chunk)).await.is_err() {
            return;
        }
        if result.has_more {
            continue;
        }
        tokio::select! {
            changed = head.changed() => if changed.is_err() { return },
            () = tx.closed() => return,
            () = stop.cancelled() => {
                let _ = tx.send(Bytes::from_static(b"event: control\ndata: {\"code\":\"shutting_down\"}\n\n")).await;
                return;
            }
            () = tokio::time::sleep(KEEPALIVE) => if tx.send(Bytes::from_static(b": keepalive\n\n")).await.is_err() { return },
        }
    }
}
