//! `Connect`: the stream conversation as protobuf events both ways.

use super::map::{Gathered, events_of};
use super::{Events, pb};
use crate::auth::CallRequest;
use crate::stream::{Conversation, Frame, JOIN_WITHIN, Renderer, converse};
use axum::http::HeaderMap;
use futures_util::Stream;
use rialto_carrier::FaceState;
use rialto_carrier::grpc::{foreign_refusal, refused};
use rialto_carrier::standing::{Standing, Stranger};
use rialto_model::{ErrorCode, Fault, limits};
use rialto_node::budget::Charge;
use rialto_node::{Caller, Capabilities, Inbox};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::task::Poll;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

/// Rendered batches waiting for a slow reader.
const BATCHES: usize = 2;
/// Things rendered into one message stream turn, about.
const RENDER_ITEMS: usize = 4096;
/// Events taken from the stream in one go.
const READ_EVENTS: usize = 256;

#[derive(Debug, Default)]
struct Gauge {
    unanswered: AtomicIsize,
    changed: Notify,
    joined: AtomicBool,
    /// The writer has said its last word.
    over: CancellationToken,
    /// Who came without a credential in its metadata: told of the join.
    stranger: Option<Stranger>,
}

pub(super) async fn connect(
    state: &FaceState,
    request: Request<Streaming<pb::Event>>,
) -> Result<Response<Events>, Status> {
    let headers: HeaderMap = request.metadata().clone().into_headers();
    let stranger = request.extensions().get::<Stranger>().cloned();
    let standing = request.extensions().get::<Standing>().cloned();
    let mut incoming = request.into_inner();
    let first = match tokio::time::timeout(JOIN_WITHIN, incoming.message()).await {
        Ok(Ok(Some(event))) => event,
        Ok(Ok(None)) => return Err(refused(&ErrorCode::JoinRequired.into(), None)),
        Ok(Err(status)) => return Err(foreign_refusal(&status).unwrap_or(status)),
        Err(_) => return Err(refused(&ErrorCode::JoinRequired.into(), None)),
    };
    let named = std::str::from_utf8(&first.network).map_err(|_| {
        refused(&Fault::new(ErrorCode::InvalidArgument, "network is not UTF-8 text").field("network"), None)
    })?;
    let named = Some(named).filter(|n| !n.is_empty());
    let call = CallRequest::new(state, &headers).path(named).call().map_err(|r| refused(&r.fault, None))?;
    let caller = Caller { capabilities: Capabilities::default(), ..call.session.caller().as_ref().clone() };
    let (conversation, renderer, inbox) = converse(call.session.network(), caller);
    let renderer = match standing {
        Some(standing) => renderer.on(standing),
        None => renderer,
    };
    let (tx, rx) = mpsc::channel(BATCHES);
    let gauge = Arc::new(Gauge { stranger, ..Gauge::default() });
    tokio::spawn(write(renderer, inbox, tx.clone(), gauge.clone()));
    tokio::spawn(read(incoming, first, conversation, tx, gauge));
    let begin = (rx, Vec::new().into_iter(), Held::default());
    let stream = futures_util::stream::unfold(begin, |(mut rx, mut events, mut held)| async move {
        loop {
            if let Some(item) = events.next() {
                return Some((item, (rx, events, held)));
            }
            drop(held);
            let batch: Batch = rx.recv().await?;
            (events, held) = (batch.events.into_iter(), batch.held);
        }
    });
    Ok(Response::new(Box::pin(stream)))
}

/// What events of a batch are charged to until the last of them is taken.
type Held = [Option<Charge>; 2];

/// Events that were rendered together.
#[derive(Debug, Default)]
struct Batch {
    events: Vec<Result<pb::Event, Status>>,
    held: Held,
}

/// Reads until the client's half ends; then the member is offline.
async fn read(
    mut incoming: Streaming<pb::Event>,
    first: pb::Event,
    mut conversation: Conversation,
    tx: mpsc::Sender<Batch>,
    gauge: Arc<Gauge>,
) {
    let join_by = tokio::time::Instant::now() + JOIN_WITHIN;
    let mut events = Gathered::default();
    events.push(&first);
    let mut end = None;
    let ended = loop {
        if !events.is_empty() {
            match conversation.receive(events.take()).await {
                Ok(count) => gauge.unanswered.fetch_add(isize::try_from(count).unwrap_or(0), Ordering::AcqRel),
                Err(code) => break Some(refused(&code.into(), None)),
            };
        }
        if let Some(end) = end.take() {
            break end;
        }
        while gauge.unanswered.load(Ordering::Acquire)
            >= isize::try_from(limits::UNANSWERED_EVENTS_MAX).unwrap_or(isize::MAX)
        {
            tokio::select! {
                () = gauge.changed.notified() => {}
                () = gauge.over.cancelled() => break,
                () = tx.closed() => break,
            }
        }
        let joined = gauge.joined.load(Ordering::Acquire);
        tokio::select! {
            ended = gather(&mut incoming, &mut events) => end = ended,
            () = tokio::time::sleep_until(join_by), if !joined => {
                if !gauge.joined.load(Ordering::Acquire) {
                    break Some(refused(&Fault::new(ErrorCode::JoinRequired, "the first event is network.agent.join"), None));
                }
            }
            () = gauge.over.cancelled() => break None,
            () = tx.closed() => break None,
        }
    };
    if let Some(status) = ended {
        let _ = tx.send(Batch { events: vec![Err(status)], ..Batch::default() }).await;
    }
    conversation.end().await;
}

/// Waits for events and takes those that are there, each as its JSON; gives how the stream ended, if it did.
/// Safe to drop: what it took is in `events`.
async fn gather(incoming: &mut Streaming<pb::Event>, events: &mut Gathered) -> Option<Option<Status>> {
    poll_fn(|cx| {
        loop {
            match Pin::new(&mut *incoming).poll_next(cx) {
                Poll::Ready(Some(Ok(event))) => events.push(&event),
                Poll::Ready(Some(Err(status))) => {
                    return Poll::Ready(Some(Some(foreign_refusal(&status).unwrap_or(status))));
                }
                Poll::Ready(None) => return Poll::Ready(Some(None)),
                Poll::Pending if events.is_empty() => return Poll::Pending,
                Poll::Pending => return Poll::Ready(None),
            }
            if events.len() >= READ_EVENTS {
                return Poll::Ready(None);
            }
        }
    })
    .await
}

/// Renders the outbox into protobuf events.
async fn write(mut renderer: Renderer, mut inbox: Inbox, tx: mpsc::Sender<Batch>, gauge: Arc<Gauge>) {
    // After a goodbye the client's half is of no use: the reader ends, and with it the call.
    let _over = gauge.over.clone().drop_guard();
    while let Some(mut outs) = inbox.recv().await {
        while outs.len() < RENDER_ITEMS
            && let Ok(more) = inbox.try_recv()
        {
            outs.extend(more);
        }
        let mut outs = VecDeque::from(outs);
        while !outs.is_empty() {
            let rendered = renderer.render(&mut outs).await;
            if rendered.joined {
                gauge.joined.store(true, Ordering::Release);
                if let Some(stranger) = &gauge.stranger {
                    stranger.prove();
                }
            }
            let held = [renderer.hold(rendered.frames.iter().map(Frame::bytes).sum()), rendered.charge];
            let mut events: Vec<_> = rendered.frames.iter().flat_map(events_of).map(Ok).collect();
            let close = rendered.close;
            if let Some(error) = close.and_then(|c| c.error) {
                events.push(Err(refused(&error.into(), None)));
            }
            if !events.is_empty() && tx.send(Batch { events, held }).await.is_err() {
                return;
            }
            gauge.unanswered.fetch_sub(isize::try_from(rendered.answered).unwrap_or(0), Ordering::AcqRel);
            gauge.changed.notify_one();
            if close.is_some() {
                return;
            }
        }
    }
}
