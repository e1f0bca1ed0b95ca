//! The stream conversation over WebSocket (sheet section 12.2).

mod codec;
mod handshake;

use crate::app::App;
use crate::auth::{self, Params};
use crate::error::{Refusal, close_code};
use crate::stream::{Conversation, Frame, JOIN_WITHIN, Renderer, converse};
use axum::extract::{Path, Query, Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use codec::{Decoder, Item};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rialto_model::{ErrorCode, limits};
use rialto_node::{Caller, Dialect, Out};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
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
/// A shared block of at least this size is written from where it lies.
const DIRECT_BYTES: usize = 16 << 10;
/// Bytes gathered before they are written, about.
const WRITE_BYTES: usize = 64 << 10;
/// Pings and goodbyes on their way from the reader to the writer.
const SAYS_MAX: usize = 8;

type Socket = TokioIo<Upgraded>;

/// `GET /ws/{network}`.
pub(crate) async fn upgrade(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(params): Query<Params>,
    headers: HeaderMap,
    mut request: Request,
) -> Result<Response, Refusal> {
    let call = auth::call(&app, &headers, &params, Some(&name), &Value::Null, true)?;
    let caller = Caller { dialect: Some(Dialect::Stream), ..call.caller.as_ref().clone() };
    let (response, upgrade) = handshake::accept(&mut request)?;
    let stop = app.stop.clone();
    // An upgraded connection is nobody's but ours: a stop waits for its goodbye.
    let running = app.streams.token();
    tokio::spawn(async move {
        let _running = running;
        match upgrade.await {
            Ok(socket) => {
                let (conversation, renderer, inbox) = converse(&call.network, caller);
                run(TokioIo::new(socket), conversation, renderer, inbox, stop).await;
            }
            Err(error) => tracing::debug!(%error, "a connection was not upgraded"),
        }
    });
    Ok(response)
}

/// What the reader has the writer say.
#[derive(Debug)]
enum Say {
    Pong(Bytes),
    Close(u16, &'static str),
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
    socket: Socket,
    mut conversation: Conversation,
    renderer: Renderer,
    inbox: mpsc::Receiver<Vec<Out>>,
    stop: CancellationToken,
) {
    let (mut input, output) = tokio::io::split(socket);
    let gauge = Arc::new(Gauge::default());
    let (say, said) = mpsc::channel(SAYS_MAX);
    let sink = Sink { output, buf: Vec::new() };
    let writer = tokio::spawn(write(sink, renderer, inbox, said, gauge.clone(), stop));
    let ended = read(&mut input, &mut conversation, &gauge, &say).await;
    if let Some((code, reason)) = ended {
        let _ = say.send(Say::Close(code, reason)).await;
    }
    drop(say);
    conversation.end().await;
    let _ = tokio::time::timeout(STALLED_AFTER, writer).await;
}

/// Reads until the end; gives the close code to send, if one is due.
async fn read(
    input: &mut ReadHalf<Socket>,
    conversation: &mut Conversation,
    gauge: &Gauge,
    say: &mpsc::Sender<Say>,
) -> Option<(u16, &'static str)> {
    let join_by = tokio::time::Instant::now() + JOIN_WITHIN;
    let mut decoder = Decoder::new(limits::BATCH_BYTES_MAX);
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
        let came = tokio::select! {
            came = input.read_buf(decoder.room()) => came,
            () = tokio::time::sleep_until(until) => {
                if gauge.joined.load(Ordering::Acquire) != joined { continue }
                return Some(if joined { (1011, "silent") } else { (4408, "join_required") });
            }
            () = gauge.ended.cancelled() => return None,
        };
        let came = came.ok().filter(|came| *came > 0)?;
        let (items, broken) = decoder.take(came);
        for item in items {
            match item {
                Item::Texts(texts) => match conversation.receive(texts).await {
                    Ok(count) => {
                        gauge.unanswered.fetch_add(isize::try_from(count).unwrap_or(0), Ordering::AcqRel);
                    }
                    Err(code) => return Some((close_code(code), code.as_str())),
                },
                // Under a flood of pings only some are answered.
                Item::Ping(data) => drop(say.try_send(Say::Pong(data))),
                Item::Close => return None,
            }
        }
        if let Some(broken) = broken {
            return Some(broken.close());
        }
    }
}

/// The half of the socket that is written: small things gather, large shared blocks go out from where they lie.
#[derive(Debug)]
struct Sink {
    output: WriteHalf<Socket>,
    buf: Vec<u8>,
}

impl Sink {
    /// Writes events in order and flushes; false when the peer does not take them in time.
    async fn send(&mut self, frames: Vec<Frame>) -> bool {
        if frames.is_empty() {
            return true;
        }
        let all = async {
            for frame in frames {
                match frame {
                    Frame::Text(text) => {
                        codec::text_head(text.len(), &mut self.buf);
                        self.buf.extend_from_slice(&text);
                    }
                    Frame::Shared(part) => {
                        let block = part.framed(codec::text_head);
                        if block.len() < DIRECT_BYTES {
                            self.buf.extend_from_slice(&block);
                        } else {
                            self.write_gathered().await?;
                            self.output.write_all(&block).await?;
                        }
                    }
                }
                if self.buf.len() >= WRITE_BYTES {
                    self.write_gathered().await?;
                }
            }
            self.write_gathered().await?;
            self.output.flush().await
        };
        matches!(tokio::time::timeout(STALLED_AFTER, all).await, Ok(Ok(())))
    }

    /// Writes one control frame.
    async fn control(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> bool {
        put(&mut self.buf);
        let all = async {
            self.write_gathered().await?;
            self.output.flush().await
        };
        matches!(tokio::time::timeout(STALLED_AFTER, all).await, Ok(Ok(())))
    }

    async fn write_gathered(&mut self) -> std::io::Result<()> {
        if !self.buf.is_empty() {
            self.output.write_all(&self.buf).await?;
            self.buf.clear();
        }
        Ok(())
    }
}

/// Writes what the outbox brings: one flush per commit. Owns the sink until the end.
async fn write(
    mut sink: Sink,
    mut renderer: Renderer,
    mut inbox: mpsc::Receiver<Vec<Out>>,
    mut said: mpsc::Receiver<Say>,
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
                    close = Some(goodbye(&mut said).await);
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
                    if !sink.send(rendered.frames).await {
                        close = close.or(Some((4429, "stalled")));
                    }
                    gauge.unanswered.fetch_sub(isize::try_from(rendered.answered).unwrap_or(0), Ordering::AcqRel);
                    gauge.changed.notify_one();
                }
            }
            heard = said.recv() => match heard {
                Some(Say::Pong(data)) => {
                    if !sink.control(|out| codec::pong(&data, out)).await { close = Some((4429, "stalled")) }
                }
                heard => {
                    close = Some(if let Some(Say::Close(code, reason)) = heard { (code, reason) } else { (1000, "") });
                    // Answers that are still on their way are worth more than a quick goodbye.
                    while let Ok(Some(outs)) = tokio::time::timeout(Duration::from_millis(200), inbox.recv()).await {
                        if !pass(&mut sink, &mut renderer, outs).await { break }
                    }
                    tell_why(&mut sink, &renderer, close).await;
                }
            },
            _ = ping.tick() => {
                // A quiet connection holds no buffer.
                sink.buf = Vec::new();
                if !sink.control(codec::ping).await { close = Some((4429, "stalled")) }
            }
            () = stop.cancelled() => {
                // The network's task says goodbye through the outbox; this is for streams that never joined.
                tokio::time::sleep(Duration::from_millis(100)).await;
                while let Ok(outs) = inbox.try_recv() {
                    if !pass(&mut sink, &mut renderer, outs).await { break }
                }
                sink.send(vec![Frame::Text(renderer.refusal(ErrorCode::ShuttingDown))]).await;
                close = Some((1001, ErrorCode::ShuttingDown.as_str()));
            }
        }
    }
    let (code, reason) = close.unwrap_or((1000, ""));
    let _ = sink.control(|out| codec::close(code, reason, out)).await;
    let _ = sink.output.shutdown().await;
}

/// Waits for what the reader says at its end.
async fn goodbye(said: &mut mpsc::Receiver<Say>) -> (u16, &'static str) {
    while let Some(heard) = said.recv().await {
        if let Say::Close(code, reason) = heard {
            return (code, reason);
        }
    }
    (1000, "")
}

/// Renders and sends all of it; false when the peer does not take it or the stream ends by it.
async fn pass(sink: &mut Sink, renderer: &mut Renderer, outs: Vec<Out>) -> bool {
    let mut outs = VecDeque::from(outs);
    while !outs.is_empty() {
        let rendered = renderer.render(&mut outs).await;
        if !sink.send(rendered.frames).await || rendered.close.is_some() {
            return false;
        }
    }
    true
}

/// A close that is about an error is preceded by that error.
async fn tell_why(sink: &mut Sink, renderer: &Renderer, close: Option<(u16, &'static str)>) {
    if let Some(code) = close.and_then(|(_, reason)| ErrorCode::from_wire(reason)) {
        sink.send(vec![Frame::Text(renderer.refusal(code))]).await;
    }
}
