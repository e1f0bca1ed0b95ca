//! Work units: lists, one unit, its events, and following it to its end. What changes a unit is an event
//! (`POST /v1/events`), so nothing here does.

use crate::auth::Call;
use crate::conversations::listing;
use crate::request::{ApiRequest, take_caller};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use rialto_carrier::answer::{self, fields, invalid_field, json_object};
use rialto_carrier::long_poll::wait_seconds;
use rialto_carrier::ranges::{self, KeptContent};
use rialto_carrier::{Params, Refusal, sse};
use rialto_model::{ErrorCode, Fault, Seq, WorkState};
use rialto_node::{Commits, EventRecord, Query, UnitFilter, Woken, WorkPage, WorkSight, WorkWatch, work_state};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Which units are asked for.
fn filter(params: &Params) -> Result<UnitFilter, Fault> {
    let text = |key: &str| params.get(key).filter(|text| !text.is_empty()).cloned();
    let mut filter = UnitFilter {
        channel: text("channel"),
        thread: text("thread"),
        context: text("context"),
        parent: text("parent"),
        ..UnitFilter::default()
    };
    for role in text("role").iter().flat_map(|roles| roles.split(',')) {
        match role {
            "requester" => filter.asked = true,
            "executor" => filter.to_do = true,
            "untaken" => filter.untaken = true,
            _ => return Err(invalid_field("role", "requester, executor or untaken")),
        }
    }
    for name in text("state").iter().flat_map(|states| states.split(',')) {
        let known = || WorkState::ALL.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(", ");
        filter
            .states
            .push(WorkState::from_wire(name).ok_or_else(|| invalid_field("state", &format!("some of {}", known())))?);
    }
    let number = |text: String| text.parse().map_err(|_| invalid_field("before", "what next of the page before says"));
    filter.before = text("before").map(number).transpose()?;
    Ok(filter)
}

/// `GET /v1/work`.
pub(crate) async fn list(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    let (_, limit) = listing(&request.params)?;
    Ok(answer::ok(&call.session.works(filter(&request.params)?, limit).await?))
}

/// `POST /v1/work`: asks for work, once by the caller's own name for it.
pub(crate) async fn open(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let mut said = json_object(&body)?;
    let call = request.call_with(&said)?;
    take_caller(&mut said);
    let order = fields(&said)?;
    Ok(answer::ok(&call.session.open_work(&order).await?))
}

/// `GET /v1/work/{id}`.
pub(crate) async fn show(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    Ok(answer::ok(&call.session.work(request.named("id")).await?))
}

/// `GET /v1/work/{id}/artifacts/{artifact}`: the chunks of an artifact one after the other, whole or a range.
pub(crate) async fn artifact(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    let found = call.session.artifact(request.named("id"), request.named("artifact")).await?;
    let sent = KeptContent {
        contents: found.contents,
        tag: found.seq,
        content_type: found.content_type.as_deref(),
        filename: found.name.as_deref(),
    };
    ranges::answer(call.session.network(), &sent, &request.headers).await
}

/// One event of a unit, with the state in which it leaves the unit.
fn entry(record: &EventRecord) -> String {
    let state = work_state(record).map_or("null".to_owned(), |state| format!("\"{state}\""));
    format!("{{\"state\":{state},\"event\":{}}}", record.event.json())
}

/// `GET /v1/work/{id}/events?after&limit&wait`: from the first event on, unless a cursor says otherwise.
pub(crate) async fn events(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    let (_, limit) = listing(&request.params)?;
    let limit = Query { limit, ..Query::default() }.checked_limit()?;
    let wait = wait_seconds(&request.params)?;
    let after = match request.params.get("after").filter(|text| !text.is_empty()) {
        Some(cursor) => call.session.cursor(cursor, false).await?.unwrap_or(0),
        None => 0,
    };
    let mut commits = Commits::of(call.session.network()).within(wait.unwrap_or_default());
    let page = loop {
        commits.begin_read();
        let page = call.session.work_page(request.named("id"), after, limit).await?;
        if !page.events.is_empty() || page.ended || wait.is_none() || commits.wait().await? == Woken::TimeIsOver {
            break page;
        }
    };
    Ok(answer::ok_raw(&page_json(&page, after)))
}

fn page_json(page: &WorkPage, after: Seq) -> String {
    let events: Vec<String> = page.events.iter().map(|record| entry(record)).collect();
    let next = page.events.last().map_or(after, |record| record.event.seq);
    let (has_more, ended) = (page.has_more, page.ended);
    format!(
        "{{\"events\":[{}],\"has_more\":{has_more},\"ended\":{ended},\"next_cursor\":\"seq:{next}\"}}",
        events.join(",")
    )
}

/// `GET /v1/work/{id}/stream`: the unit as it is, then every event of it up to the one that ends it. Whoever comes back
/// with the id of what it saw last gets what followed, and no second snapshot; when there is nothing left to follow,
/// 204 tells readers that reconnect by themselves to stop.
pub(crate) async fn stream(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call_by_url(&Value::Null)?;
    let id = request.named("id");
    let last = sse::last_event_id(&request.headers)
        .or_else(|| request.params.get("after").filter(|text| !text.is_empty()).cloned());
    let watch = match last {
        None => call.session.watch_work(id).await?,
        Some(cursor) => {
            let after = call.session.cursor(&cursor, false).await?.unwrap_or(0);
            let watch = call.session.resume_work(id, after).await?;
            if watch.is_over() {
                return Ok(StatusCode::NO_CONTENT.into_response());
            }
            watch
        }
    };
    // An open stream keeps a member online; the operator is no member.
    let member = call.session.heartbeat().await.is_ok();
    let (tx, rx) = mpsc::channel(sse::CHUNKS);
    let reader = Reader { call, tx, stop: request.state.stop.clone(), member };
    tokio::spawn(async move { reader.follow(watch).await });
    Ok(sse::response(rx))
}

/// Somebody who follows a unit.
struct Reader {
    call: Call,
    tx: mpsc::Sender<Bytes>,
    stop: CancellationToken,
    member: bool,
}

impl Reader {
    async fn send(&self, chunk: String) -> bool {
        self.tx.send(Bytes::from(chunk)).await.is_ok()
    }

    /// Passes on what the watch shows. Ends after the unit's last event, when the reader is gone or the node stops.
    async fn follow(&self, mut watch: WorkWatch) {
        if !self.send(sse::RETRY.to_owned()).await {
            return;
        }
        let mut quiet = tokio::time::interval_at(tokio::time::Instant::now() + sse::KEEPALIVE, sse::KEEPALIVE);
        loop {
            // Nothing is lost when the watch is dropped while it waits: it moves on only with what it gives.
            let seen = tokio::select! {
                seen = watch.next() => seen,
                () = self.tx.closed() => return,
                () = self.stop.cancelled() => Err(ErrorCode::ShuttingDown.into()),
                _ = quiet.tick() => {
                    if !self.keep_alive().await {
                        return;
                    }
                    continue;
                }
            };
            let chunk = match seen {
                Ok(Some(WorkSight::Snapshot(unit))) => {
                    let snapshot = serde_json::to_string(&unit).unwrap_or_default();
                    sse::event(Some(&format_args!("seq:{}", unit.last_seq)), "snapshot", &snapshot)
                }
                Ok(Some(WorkSight::Event(record))) => {
                    sse::event(Some(&format_args!("seq:{}", record.event.seq)), "work", &entry(&record))
                }
                Ok(None) => return,
                Err(fault) => {
                    self.send(sse::control(&fault)).await;
                    return;
                }
            };
            if !self.send(chunk).await {
                return;
            }
        }
    }

    async fn keep_alive(&self) -> bool {
        if self.member
            && let Err(fault) = self.call.session.heartbeat().await
        {
            self.send(sse::control(&fault)).await;
            return false;
        }
        self.send(sse::SILENCE.to_owned()).await
    }
}
