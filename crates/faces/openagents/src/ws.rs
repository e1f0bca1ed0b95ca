//! The stream conversation over WebSocket (sheet section 12.2).

use crate::app::App;
use crate::auth::{self, Params};
use crate::error::{Refusal, close_code};
use crate::stream::{Conversation, JOIN_WITHIN, Renderer, converse};
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{FutureExt, SinkExt, StreamExt};
use rialto_model::{ErrorCode, limits};
use rialto_node::{Caller, Dialect, Out};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

/// A ping goes out after this long.
const PING_EVERY: Duration = Duration::from_secs(20);
/// Nothing heard for this long: the peer is gone.
const DEAD_AFTER: Duration = Duration::from_secs(60);
/// A write that does not finish in this time: the consumer has stalled.
const STALLED_AFTER: Duration = Duration::from_secs(30);
/// Things rendered into one flush, about.
const RENDER_ITEMS: usize = 4096;
/// Texts taken from the socket in one go.
const READ_TEXTS: usize = 256;

/// `GET /ws/{network}`.
pub(crate) async fn upgrade(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(params): Query<Params>,
    headers: HeaderMap,
    ws: WebSocketUpgrade,
) -> Result<Response, Refusal> {
    let call = auth::call(&app, &headers, &params, Some(&name), &Value::Null, true)?;
    let caller = Caller { dialect: Some(Dialect::Stream), ..call.caller.as_ref().clone() };
    let ws = ws
        .protocols(["openagents.v1"])
        .max_message_size(limits::BATCH_BYTES_MAX)
        .max_frame_size(limits::BATCH_BYTES_MAX)
        .read_buffer_size(4 << 10)
        .write_buffer_size(4 << 10);
    let stop = app.stop.clone();
    // An upgraded connection is nobody's but ours: a stop waits for its goodbye.
    let running = app.streams.token();
    Ok(ws.on_upgrade(move |socket| async move {
        let _running = running;
        let (conversation, renderer, inbox) = converse(&call.network, caller);
        run(socket, conversation, renderer, inbox, stop).await;
    }))
}

/// What reader and writer share.
#[derive(Debug, Default)]
struct Gauge {
    /// May dip below zero: an answer can be written before its event is counted.
    unanswered: AtomicIsize,
    changed: Notify,
    joined: AtomicBool,
    /// The writer is done.
    ended: CancellationToken,
}

/// Runs until the peer leaves, the session ends or the node stops. What was not acked is still pending.
async fn run(
    socket: WebSocket,
    mut conversation: Conversation,
    renderer: Renderer,
    inbox: mpsc::Receiver<Vec<Out>>,
    stop: CancellationToken,
) {
    let (sink, mut stream) = socket.split();
    let gauge = Arc::new(Gauge::default());
    let (close, closing) = mpsc::channel(1);
    let writer = tokio::spawn(write(sink, renderer, inbox, closing, gauge.clone(), stop));
    let ended = read(&mut stream, &mut conversation, &gauge).await;
    if let Some((code, reason)) = ended {
        let _ = close.send((code, reason)).await;
    }
    drop(close);
    conversation.end().await;
    let _ = tokio::time::timeout(STALLED_AFTER, writer).await;
}

/// Reads until the end; gives the close code to send, if one is due.
async fn read(
    stream: &mut SplitStream<WebSocket>,
    conversation: &mut Conversation,
    gauge: &Gauge,
) -> Option<(u16, &'static str)> {
    let join_by = tokio::time::Instant::now() + JOIN_WITHIN;
    loop {
        while gauge.unanswered.load(Ordering::Acquire)
            >= isize::try_from(limits::UNANSWERED_EVENTS_MAX).unwrap_or(isize::MAX)
        {
            tokio::select! {
                () = gauge.changed.notified() => {}
                () = gauge.ended.cancelled() => return None,
            }
        }
        let joined = gauge.joined.load(Ordering::Acquire);
        let until = if joined { tokio::time::Instant::now() + DEAD_AFTER } else { join_by };
        let first = tokio::select! {
            message = stream.next() => message,
            () = tokio::time::sleep_until(until) => {
                if gauge.joined.load(Ordering::Acquire) != joined { continue }
                return Some(if joined { (1011, "silent") } else { (4408, "join_required") });
            }
            () = gauge.ended.cancelled() => return None,
        };
        let mut texts: Vec<Bytes> = Vec::new();
        let mut bytes = 0;
        let mut next = first;
        let ended = loop {
            match next {
                None | Some(Ok(Message::Close(_))) => break Some(None),
                Some(Err(error)) => {
                    let told = error.to_string().to_ascii_lowercase();
                    let why = [("too l", (1009, "too_large")), ("utf", (1007, "text frames are UTF-8"))];
                    break Some(why.into_iter().find(|(word, _)| told.contains(word)).map(|(_, close)| close));
                }
                Some(Ok(Message::Binary(_))) => break Some(Some((1003, "text frames only"))),
                Some(Ok(Message::Text(text))) => {
                    bytes += text.len();
                    texts.push(text.into());
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            }
            if texts.len() >= READ_TEXTS || bytes >= limits::BATCH_BYTES_MAX {
                break None;
            }
            match stream.next().now_or_never() {
                Some(message) => next = message,
                None => break None,
            }
        };
        if !texts.is_empty() {
            match conversation.receive_all(texts).await {
                Ok(count) => {
                    gauge.unanswered.fetch_add(isize::try_from(count).unwrap_or(0), Ordering::AcqRel);
                }
                Err(code) => return Some((close_code(code), code.as_str())),
            }
        }
        if let Some(ended) = ended {
            return ended;
        }
    }
}

type Sink = SplitSink<WebSocket, Message>;

/// Writes what the outbox brings: one flush per commit. Owns the sink until the end.
async fn write(
    mut sink: Sink,
    mut renderer: Renderer,
    mut inbox: mpsc::Receiver<Vec<Out>>,
    mut closing: mpsc::Receiver<(u16, &'static str)>,
    gauge: Arc<Gauge>,
    stop: CancellationToken,
) {
    // However this ends, the reader hears of it.
    let _ended = gauge.ended.clone().drop_guard();
    let mut ping = tokio::time::interval_at(tokio::time::Instant::now() + PING_EVERY, PING_EVERY);
    let mut close = None;
    while close.is_none() {
        tokio::select! {
            biased;
            outs = inbox.recv() => {
                // The session ended with its connection; the reader may have said why.
                let Some(mut outs) = outs else {
                    close = Some(closing.recv().await.unwrap_or((1000, "")));
                    tell_why(&mut sink, &renderer, close).await;
                    break;
                };
                while outs.len() < RENDER_ITEMS && let Ok(more) = inbox.try_recv() {
                    outs.extend(more);
                }
                let mut outs = VecDeque::from(outs);
                while close.is_none() && !outs.is_empty() {
                    let rendered = renderer.render(&mut outs).await;
                    if rendered.joined {
                        gauge.joined.store(true, Ordering::Release);
                    }
                    close = rendered.close.map(|c| (c.code, c.reason));
                    if !send(&mut sink, rendered.frames).await {
                        close = close.or(Some((4429, "stalled")));
                    }
                    gauge.unanswered.fetch_sub(isize::try_from(rendered.answered).unwrap_or(0), Ordering::AcqRel);
                    gauge.changed.notify_one();
                }
            }
            reason = closing.recv() => {
                close = Some(reason.unwrap_or((1000, "")));
                // Answers that are still on their way are worth more than a quick goodbye.
                while let Ok(Some(outs)) = tokio::time::timeout(Duration::from_millis(200), inbox.recv()).await {
                    if !pass(&mut sink, &mut renderer, outs).await { break }
                }
                tell_why(&mut sink, &renderer, close).await;
            }
            _ = ping.tick() => if !send_one(&mut sink, Message::Ping(Bytes::new())).await { close = Some((4429, "stalled")) },
            () = stop.cancelled() => {
                // The network's task says goodbye through the outbox; this is for streams that never joined.
                tokio::time::sleep(Duration::from_millis(100)).await;
                while let Ok(outs) = inbox.try_recv() {
                    if !pass(&mut sink, &mut renderer, outs).await { break }
                }
                send(&mut sink, vec![renderer.refusal(ErrorCode::ShuttingDown)]).await;
                close = Some((1001, ErrorCode::ShuttingDown.as_str()));
            }
        }
    }
    let (code, reason) = close.unwrap_or((1000, ""));
    let _ = send_one(&mut sink, Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
}

/// Renders and sends all of it; false when the peer does not take it or the stream ends by it.
async fn pass(sink: &mut Sink, renderer: &mut Renderer, outs: Vec<Out>) -> bool {
    let mut outs = VecDeque::from(outs);
    while !outs.is_empty() {
        let rendered = renderer.render(&mut outs).await;
        if !send(sink, rendered.frames).await || rendered.close.is_some() {
            return false;
        }
    }
    true
}

/// A close that is about an error is preceded by that error.
async fn tell_why(sink: &mut Sink, renderer: &Renderer, close: Option<(u16, &'static str)>) {
    if let Some(code) = close.and_then(|(_, reason)| ErrorCode::from_wire(reason)) {
        send(sink, vec![renderer.refusal(code)]).await;
    }
}

async fn send(sink: &mut Sink, frames: Vec<Bytes>) -> bool {
    if frames.is_empty() {
        return true;
    }
    let all = async {
        for frame in frames {
            // Frames are our own canonical JSON, so they are UTF-8.
            let Ok(text) = axum::extract::ws::Utf8Bytes::try_from(frame) else { continue };
            sink.feed(Message::Text(text)).await?;
        }
        sink.flush().await
    };
    matches!(tokio::time::timeout(STALLED_AFTER, all).await, Ok(Ok(())))
}

async fn send_one(sink: &mut Sink, message: Message) -> bool {
    matches!(tokio::time::timeout(STALLED_AFTER, sink.send(message)).await, Ok(Ok(())))
}
