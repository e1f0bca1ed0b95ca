//! Server-sent events: an inbox or history followed by cursor, so there is no gap and no duplicate between backlog
//! and live (sheet section 12.6).

use crate::auth::Call;
use crate::compat;
use crate::events::{ack_before, is_member, query_of};
use crate::request::ApiRequest;
use crate::wire;
use axum::response::Response;
use bytes::Bytes;
use rialto_carrier::unread::{self, StreamAccount};
use rialto_carrier::{Refusal, sse};
use rialto_model::{ErrorCode, Fault, limits};
use rialto_node::budget::Charge;
use rialto_node::{EventRecord, Follow, Inbox, Out, Query, View, outbox};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Interval;
use tokio_util::sync::CancellationToken;

/// Bytes that an event's frame adds to it, about: its id, its name, marks of the delivery.
const FRAME_BYTES: usize = 256;
/// Signals waiting for a reader; more are dropped.
const SIGNALS: usize = 256;

/// `GET /v1/events/stream`.
pub(crate) async fn stream(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call_by_url(&Value::Null)?;
    let mut query = query_of(&request.params, &call)?;
    call.session.prepare(&mut query).await?;
    query.limit = Some(i64::try_from(limits::PAGE_EVENTS_MAX).unwrap_or(500));
    query.filter.descending = false;
    query.pushed = query.view == Some(View::Inbox);
    query.after = sse::last_event_id(&request.headers).or(query.after);
    // Refusals come before the first byte: unknown cursors, missing rights, no history.
    let start = *call.session.network().head().borrow();
    let cursor = match &query.after {
        Some(after) => call.session.cursor(after, query.lenient_cursor).await?.unwrap_or(0),
        None if query.view == Some(View::Inbox) => 0,
        None => start,
    };
    ack_before(&call, &query, &request.params).await?;
    let view = query.view.unwrap_or(View::Log);
    let viewer = call.session.page(view, &query.filter, None, 0).await?.viewer;
    if query.view == Some(View::Inbox) && !is_member(viewer) {
        return Err(Fault::new(ErrorCode::NotAMember, "an inbox belongs to a member").into());
    }
    let typed = request.params.get("events").is_some_and(|v| v == "typed");
    let (tx, rx) = mpsc::channel(sse::CHUNKS);
    let connection = call.session.network().connection();
    let (outbox, signals) = outbox(SIGNALS);
    call.session.watch(connection, &outbox).await;
    let (stop, account) = (request.state.stop.clone(), unread::stream());
    tokio::spawn(async move {
        let network = call.session.network().clone();
        query.after = Some(format!("seq:{cursor}"));
        let mut follow = call.session.follow(query.clone());
        let reader = Reader { call, query, typed, tx, stop, member: is_member(viewer), account };
        reader.follow(&mut follow, signals).await;
        network.close_stream(connection).await;
    });
    Ok(sse::response(rx))
}

/// One reader's stream.
struct Reader {
    call: Call,
    query: Query,
    typed: bool,
    tx: mpsc::Sender<Bytes>,
    stop: CancellationToken,
    /// An open stream keeps a member online.
    member: bool,
    /// What its pieces are charged to.
    account: StreamAccount,
}

impl Reader {
    async fn send(&self, chunk: String) -> bool {
        self.tx.send(Bytes::from(chunk)).await.is_ok()
    }

    /// Waits for room for a page; nothing when the reader is gone.
    async fn room(&self) -> Option<Option<Charge>> {
        tokio::select! {
            charge = self.account.room() => Some(charge),
            () = self.tx.closed() => None,
            () = self.stop.cancelled() => Some(None),
        }
    }

    fn name<'e>(&self, kind: &'e str) -> &'e str {
        if self.typed { kind } else { "message" }
    }

    /// Reads on from the cursor whenever something was committed. Ends when the reader is gone or the node stops.
    async fn follow(&self, follow: &mut Follow, mut signals: Inbox) {
        if !self.send(sse::RETRY.to_owned()).await {
            return;
        }
        // Kept over commits that are not for this reader: it hears of the stream every so often whatever others do.
        let mut quiet = tokio::time::interval_at(tokio::time::Instant::now() + sse::KEEPALIVE, sse::KEEPALIVE);
        loop {
            let Some(charge) = self.room().await else { return };
            let result = match follow.read().await {
                Ok(result) => result,
                Err(fault) => {
                    self.refused(&fault).await;
                    return;
                }
            };
            let marks = self.query.view == Some(View::Inbox) && result.tracked;
            let (has_more, mut events) = (result.has_more, result.events);
            if self.call.compat
                && let Err(fault) = compat::native_names(&self.call, &mut events).await
            {
                self.refused(&fault).await;
                return;
            }
            let bytes = events.iter().map(|record| record.event.json_len() + FRAME_BYTES);
            let mut chunk = String::with_capacity(bytes.sum());
            for record in &events {
                let (id, name) = (record.event.id(), self.name(record.event.kind()));
                sse::push_event(&mut chunk, Some(&id), name, &wire::event_json(record, marks));
            }
            // Only the text waits for a reader that is slow.
            drop(events);
            if !chunk.is_empty() {
                if self.tx.send(unread::piece(chunk, charge)).await.is_err() {
                    return;
                }
                quiet.reset();
            } else {
                drop(charge);
            }
            if has_more {
                continue;
            }
            if !self.wait(follow, &mut signals, &mut quiet).await {
                return;
            }
        }
    }

    /// Passes signals on until something was committed; false when it is over.
    async fn wait(&self, follow: &mut Follow, signals: &mut Inbox, quiet: &mut Interval) -> bool {
        loop {
            tokio::select! {
                committed = follow.wait() => {
                    if let Err(fault) = &committed {
                        self.refused(fault).await;
                    }
                    return committed.is_ok();
                }
                () = self.tx.closed() => return false,
                Some(outs) = signals.recv() => {
                    for out in outs {
                        if let Out::Signal(signal) = out && self.wants(signal.event()) {
                            let name = self.name(signal.event().kind());
                            if !self.send(sse::event(None, name, &signal.text())).await {
                                return false;
                            }
                        }
                    }
                }
                () = self.stop.cancelled() => {
                    self.refused(&ErrorCode::ShuttingDown.into()).await;
                    return false;
                }
                _ = quiet.tick() => if !self.keep_alive().await { return false },
            }
        }
    }

    /// After a while of silence: the reader hears that the stream lives, the network that the member does.
    async fn keep_alive(&self) -> bool {
        if self.member
            && let Err(fault) = self.call.session.heartbeat().await
        {
            self.refused(&fault).await;
            return false;
        }
        self.send(sse::SILENCE.to_owned()).await
    }

    async fn refused(&self, fault: &Fault) -> bool {
        self.send(sse::control(fault)).await
    }

    /// Signals obey the same filters as events.
    fn wants(&self, event: &rialto_model::Event) -> bool {
        let record = EventRecord {
            event: event.clone(),
            route: Default::default(),
            received: None,
            receipt: false,
            stored: false,
            dies_at: None,
            verdicts: Vec::new(),
            more: None,
        };
        self.query.filter.passes(&record)
    }
}
