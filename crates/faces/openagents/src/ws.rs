//! The stream conversation over WebSocket (sheet section 12.2).
//!
//! One task per connection reads, keeps time and says goodbye; what the outbox brings is written by whoever has news
//! for it, and only what has to wait comes back to the task (`line`). An idle connection holds no buffer.

mod line;

use crate::auth::{CallRequest, unknown_network};
use crate::stream::{Conversation, JOIN_WITHIN, Looked, Peer, converse_through};
use axum::extract::{Path, Query, Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use line::{CloseReason, Line, Progress};
use rialto_carrier::standing::Standing;
use rialto_carrier::status::close_code;
use rialto_carrier::websocket::codec::{self, Broken, Decoder, WsItem};
use rialto_carrier::websocket::socket::{Input, RawConnection};
use rialto_carrier::websocket::{handshake, socket};
use rialto_carrier::{FaceState, Params, Refusal};
use rialto_model::{ErrorCode, limits};
use rialto_node::outbox::Outlet;
use rialto_node::{Caller, Capabilities};
use std::any::Any;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The subprotocol that clients may name.
const PROTOCOL: &str = "openagents.v1";
/// A ping goes out after this long.
const PING_EVERY: Duration = Duration::from_secs(20);
/// Nothing heard for this long: the peer is gone.
const DEAD_AFTER: Duration = Duration::from_secs(60);
/// A write that does not finish in this time: the consumer has stalled.
const STALLED_AFTER: Duration = Duration::from_secs(30);
/// Answers to what the peer said last come within this time of one another.
const LAST_ANSWERS: Duration = Duration::from_millis(200);
/// The network's own goodbye comes within this time of a stop.
const LAST_WORD: Duration = Duration::from_millis(100);

/// `GET /ws/{network}`.
pub(crate) async fn upgrade(
    State(state): State<FaceState>,
    Path(name): Path<String>,
    Query(params): Query<Params>,
    headers: HeaderMap,
    mut request: Request,
) -> Result<Response, Refusal> {
    // Credentials come with the join, which is the first event of the conversation. Until then a network that is not there and
    // one that must not be known look alike.
    let asked = CallRequest::new(&state, &headers).params(&params).path(Some(&name)).query_token();
    let (peer, caller) = match asked.call_to_join() {
        Ok(call) => (Peer::new(&call), call.session.caller().as_ref().clone()),
        Err(refusal) if refusal.fault.code == ErrorCode::NetworkNotFound => (Peer::Nobody, Caller::default()),
        Err(refusal) => return Err(refusal),
    };
    let caller = Caller { capabilities: Capabilities::default(), ..caller };
    let (response, upgrade) = handshake::accept(&mut request, PROTOCOL)
        .map_err(|refusal| if peer.is_known() { refusal } else { unknown_network().into() })?;
    let (unwrap, place, standing) = match request.extensions_mut().remove::<RawConnection>() {
        Some(RawConnection { unwrap, place, standing }) => (unwrap, Some(place), standing),
        None => (None, None, Standing::default()),
    };
    let stop = state.stop.clone();
    // An upgraded connection is nobody's but ours: a stop waits for its goodbye.
    let running = state.streams.token();
    tokio::spawn(async move {
        match upgrade.await {
            Ok(upgraded) => {
                let (input, output, read) = socket::halves(upgraded, unwrap);
                let (conversation, outlet) =
                    converse_through(peer, caller, |renderer| Line::new(output, renderer, standing.clone()));
                // A task of its own: what the upgrade needed is not kept for as long as the connection lives.
                tokio::spawn(run(input, read, conversation, outlet, stop, (running, place, standing)));
            }
            Err(error) => tracing::debug!(%error, "a connection was not upgraded"),
        }
    });
    Ok(response)
}

/// Runs until the peer leaves, the session ends or the node stops. What was not acked is still pending.
async fn run(
    input: Input,
    read: Bytes,
    conversation: Conversation,
    outlet: Arc<Outlet<Line>>,
    stop: CancellationToken,
    (_running, _place, standing): (TaskTrackerToken, Option<Arc<dyn Any + Send + Sync>>, Standing),
) {
    let now = Instant::now();
    let connection = Connection {
        input,
        decoder: Decoder::new(limits::BATCH_BYTES_MAX),
        outlet,
        lookup: None,
        began: now,
        heard: now,
        ping_at: now + PING_EVERY,
    };
    tokio::select! {
        () = connection.run(read, conversation, stop) => {}
        () = standing.dismissed() => {}
    }
}

/// What the connection's own task holds.
struct Connection {
    input: Input,
    decoder: Decoder,
    outlet: Arc<Outlet<Line>>,
    /// What the writing end waits for.
    lookup: Option<Pin<Box<dyn Future<Output = Looked> + Send>>>,
    began: Instant,
    /// When something came last.
    heard: Instant,
    ping_at: Instant,
}

/// What happens next.
enum Turn {
    /// Bytes came; none is the end.
    Came(std::io::Result<usize>),
    /// It is time for something.
    Time,
    /// The stream's last word is written.
    Close(CloseReason),
    /// The node stops.
    Stop,
}

/// How a connection ends.
enum End {
    /// The peer left or made a mistake: answers on their way come first.
    Answered(Option<CloseReason>),
    /// The last word is written, or would not be read.
    Now(CloseReason),
    /// The node stops.
    Stop,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.outlet.queue.close();
    }
}

impl Connection {
    async fn run(mut self, read: Bytes, mut conversation: Conversation, stop: CancellationToken) {
        let end = self.talk(read, &mut conversation, &stop).await;
        // What is rare is not part of what every idle connection holds.
        Box::pin(self.end(conversation, end)).await;
    }

    async fn talk(&mut self, read: Bytes, conversation: &mut Conversation, stop: &CancellationToken) -> End {
        let sleep = sleep_until(self.began + JOIN_WITHIN);
        let stopped = stop.cancelled();
        tokio::pin!(sleep, stopped);
        let mut came = read.len();
        self.decoder.room().extend_from_slice(&read);
        drop(read);
        loop {
            if came > 0 {
                let (items, broken) = self.decoder.take(came);
                if !items.is_empty() || broken.is_some() {
                    // Boxed for the same reason: it holds what came.
                    if let Some(end) = Box::pin(self.receive(items, broken, conversation)).await {
                        return End::Answered(end);
                    }
                }
            }
            came = match poll_fn(|cx| self.poll(sleep.as_mut(), stopped.as_mut(), cx)).await {
                Turn::Came(Ok(came)) if came > 0 => {
                    self.heard = Instant::now();
                    came
                }
                Turn::Came(_) => return End::Answered(None),
                Turn::Close(goodbye) => return End::Now(goodbye),
                Turn::Stop => return End::Stop,
                Turn::Time => {
                    match self.time() {
                        Ok(next) => sleep.as_mut().reset(next),
                        Err(end) => return end,
                    }
                    0
                }
            };
        }
    }

    /// Takes what came; gives how the connection ends, if it does.
    async fn receive(
        &mut self,
        items: Vec<WsItem>,
        broken: Option<Broken>,
        conversation: &mut Conversation,
    ) -> Option<Option<CloseReason>> {
        let line = &self.outlet.port;
        // Control frames come before the texts of the same read; what was said before a goodbye counts.
        let mut closing = None;
        for item in items {
            match item {
                WsItem::Texts(texts) => match conversation.receive(texts).await {
                    Ok(count) => line.expect(count),
                    Err(code) => return Some(Some((close_code(code), code.as_str()))),
                },
                WsItem::Ping(data) => line.control(&self.outlet.queue, |out| codec::pong(&data, out)),
                WsItem::Close => closing = Some(None),
            }
        }
        closing.or(broken.map(|broken| Some(broken.close())))
    }

    /// Waits for the next thing, and writes meanwhile what was left to this task. Loses nothing when it is dropped.
    fn poll(
        &mut self,
        mut sleep: Pin<&mut Sleep>,
        stopped: Pin<&mut impl Future<Output = ()>>,
        cx: &mut Context<'_>,
    ) -> Poll<Turn> {
        self.outlet.port.bell.wait(cx);
        match self.poll_write(false, cx) {
            Progress::Close(goodbye) => return Poll::Ready(Turn::Close(goodbye)),
            Progress::Gone => return Poll::Ready(Turn::Came(Ok(0))),
            Progress::Blocked(since) if since + STALLED_AFTER < sleep.deadline() => {
                sleep.as_mut().reset(since + STALLED_AFTER);
            }
            Progress::More => cx.waker().wake_by_ref(),
            Progress::Done | Progress::Blocked(_) | Progress::Looking => {}
        }
        if !self.outlet.port.is_behind()
            && let Poll::Ready(came) = self.input.poll_read(&mut self.decoder, cx)
        {
            return Poll::Ready(Turn::Came(came));
        }
        if sleep.poll(cx).is_ready() {
            return Poll::Ready(Turn::Time);
        }
        stopped.poll(cx).map(|()| Turn::Stop)
    }

    /// Writes what was left to this task, or everything that waits, and looks up what that needs.
    fn poll_write(&mut self, everything: bool, cx: &mut Context<'_>) -> Progress {
        loop {
            let Outlet { queue, port } = &*self.outlet;
            if let Some(lookup) = &mut self.lookup {
                let Poll::Ready(looked) = lookup.as_mut().poll(cx) else { return Progress::Looking };
                self.lookup = None;
                port.looked(looked);
            }
            let progress = if everything { port.finish(queue, cx) } else { port.resume(queue, cx) };
            if matches!(progress, Progress::Looking)
                && let Some(lookup) = port.look_up()
            {
                self.lookup = Some(Box::pin(lookup));
                continue;
            }
            return progress;
        }
    }

    /// What is due now; gives when something is due next.
    fn time(&mut self) -> Result<Instant, End> {
        let (now, line) = (Instant::now(), &self.outlet.port);
        if line.is_behind() {
            // It was not listened to.
            self.heard = now;
        }
        let silent_at = match line.is_joined() {
            true => self.heard + DEAD_AFTER,
            false => self.began + JOIN_WITHIN,
        };
        if now >= silent_at {
            let why = if line.is_joined() { (1011, "silent") } else { (4408, "join_required") };
            return Err(End::Answered(Some(why)));
        }
        let stalled_at = line.blocked().map(|since| since + STALLED_AFTER);
        if stalled_at.is_some_and(|at| now >= at) {
            return Err(End::Now((4429, "stalled")));
        }
        if now >= self.ping_at {
            self.ping_at = now + PING_EVERY;
            self.decoder.sleep();
            line.control(&self.outlet.queue, codec::ping);
        }
        Ok(silent_at.min(self.ping_at).min(stalled_at.unwrap_or(silent_at)))
    }

    /// Says goodbye and ends the session. Dropped before its end it leaves the session to the network's next write.
    async fn end(mut self, conversation: Conversation, end: End) {
        match end {
            End::Answered(goodbye) => {
                conversation.end().await;
                self.last_answers().await;
                let goodbye = goodbye.unwrap_or((1000, ""));
                // A close that is about an error is preceded by that error.
                self.goodbye(ErrorCode::from_wire(goodbye.1), goodbye).await;
            }
            End::Now(goodbye) => {
                self.goodbye(None, goodbye).await;
                conversation.end().await;
            }
            End::Stop => {
                // The network's task says goodbye through the outbox; the other is for streams that never joined.
                match timeout(LAST_WORD, self.last_word()).await {
                    Ok(goodbye) => self.goodbye(None, goodbye).await,
                    Err(_) => {
                        let why = ErrorCode::ShuttingDown;
                        self.goodbye(Some(why), (1001, why.as_str())).await;
                    }
                }
                conversation.end().await;
            }
        }
    }

    /// Writes answers that are still on their way: they are worth more than a quick goodbye.
    async fn last_answers(&mut self) {
        loop {
            let over = poll_fn(|cx| match self.poll_all(cx) {
                Progress::Close(_) | Progress::Gone => Poll::Ready(()),
                Progress::Done if self.outlet.queue.is_over() => Poll::Ready(()),
                Progress::Done | Progress::More | Progress::Blocked(_) | Progress::Looking => Poll::Pending,
            });
            if timeout(LAST_ANSWERS, over).await.is_ok() {
                return;
            }
            let blocked = self.outlet.port.blocked().is_some_and(|since| since.elapsed() < STALLED_AFTER);
            if !self.outlet.port.take_stirred() && !blocked && self.lookup.is_none() {
                return;
            }
        }
    }

    /// Waits for what ends the stream.
    async fn last_word(&mut self) -> CloseReason {
        poll_fn(|cx| {
            let progress = self.poll_all(cx);
            if let Progress::Close(goodbye) = progress { Poll::Ready(goodbye) } else { Poll::Pending }
        })
        .await
    }

    fn poll_all(&mut self, cx: &mut Context<'_>) -> Progress {
        self.outlet.port.bell.wait(cx);
        let progress = self.poll_write(true, cx);
        if matches!(progress, Progress::More) {
            cx.waker().wake_by_ref();
        }
        progress
    }

    /// Writes the last words, and that they were the last.
    async fn goodbye(&mut self, why: Option<ErrorCode>, goodbye: CloseReason) {
        let Outlet { queue, port } = &*self.outlet;
        self.lookup = None;
        port.say_goodbye(queue, why, goodbye);
        let all = poll_fn(|cx| match port.finish(queue, cx) {
            Progress::Done => port.poll_shutdown(cx),
            Progress::Gone => Poll::Ready(Ok(())),
            Progress::More => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Progress::Blocked(_) | Progress::Looking | Progress::Close(_) => Poll::Pending,
        });
        // A peer that does not read it learns of it from the socket.
        let _ = timeout(STALLED_AFTER, all).await;
    }
}
