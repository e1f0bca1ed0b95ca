//! `StreamEvents`: events of one agent both ways. The first one shows its secret; each is answered by `system.event_response`.
//!
//! Deliveries are acked when they were written, or by `system.ack_events` {ids} from an agent that has sent one.

use super::{AgentEvents, AgentService, payload, pb, proved};
use crate::sdk::map;
use crate::sdk::wire::{SdkEvent, SdkSent};
use crate::stream::JOIN_WITHIN;
use rialto_carrier::grpc::{foreign_refusal, refused};
use rialto_carrier::{Client, Stranger};
use rialto_model::{ErrorCode, Event, Fault, Seq};
use rialto_node::identity::Secret;
use rialto_node::{Arrival, Credentials, Hello, InboxOptions, Mailbox, NetworkRef, Session};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};

/// AgentEvents on their way to a slow reader.
const WAITING: usize = 16;
/// What an event that was sent comes to.
const RESPONSE: &str = "system.event_response";
const ACK: &str = "system.ack_events";

/// An event on its way out, and the position that is acked when it was written.
struct OutgoingEvent {
    event: Result<pb::Event, Status>,
    seq: Option<Seq>,
}

/// What both halves of a stream know.
#[derive(Debug)]
struct StreamHalves {
    session: Session,
    /// The agent acks by itself.
    acks: AtomicBool,
}

pub(super) async fn open(
    service: AgentService,
    request: Request<Streaming<pb::Event>>,
) -> Result<Response<AgentEvents>, Status> {
    let stranger = request.extensions().get::<Stranger>().cloned();
    let place = request.extensions().get::<Client>().and_then(|client| client.place());
    let mut incoming = request.into_inner();
    let late = || refused(&Fault::new(ErrorCode::JoinRequired, "the first event shows the secret of its source"), None);
    let first = match tokio::time::timeout(JOIN_WITHIN, incoming.message()).await {
        Ok(Ok(Some(event))) => event,
        Ok(Err(status)) => return Err(foreign_refusal(&status).unwrap_or(status)),
        Ok(Ok(None)) | Err(_) => return Err(late()),
    };
    let session = joined(&service, &first).await.map_err(|fault| refused(&fault, None))?;
    let mail = session.inbox(&InboxOptions::default()).await.map_err(|fault| refused(&fault, None))?;
    proved(stranger.as_ref());
    let shared = Arc::new(StreamHalves { session, acks: AtomicBool::new(false) });
    let (tx, rx) = mpsc::channel(WAITING);
    tokio::spawn(deliver(mail, shared.clone(), tx.clone()));
    tokio::spawn(read(service, incoming, first, (shared.clone(), place), tx));
    let stream = futures_util::stream::unfold((rx, shared, None), |(mut rx, shared, written)| async move {
        // Who asks for the next one has written the last one.
        if let Some(seq) = written.filter(|_| !shared.acks.load(Ordering::Acquire)) {
            let _ = shared.session.ack_seqs(vec![seq]).await;
        }
        let OutgoingEvent { event, seq } = rx.recv().await?;
        Some((event, (rx, shared, seq)))
    });
    Ok(Response::new(Box::pin(stream)))
}

/// The session of the first event's source: it goes on with what registering gave it.
async fn joined(service: &AgentService, first: &pb::Event) -> Result<Session, Fault> {
    // Refused here if the secret is not the source's.
    let known = service.state.session(&first.source_id, Some(&first.secret))?;
    let me = known.me().await?;
    let bearer = Some(Secret::presented(first.secret.as_str()));
    let credentials = Credentials { bearer, ..Credentials::default() };
    let network = NetworkRef::Named(known.network().id().into());
    service.state.face.node.open_session(&network, &credentials, &Hello::agent(&me.member.address), None).await
}

/// Gives the agent what comes for it, until it goes or its session ends.
async fn deliver(mut mail: Mailbox, shared: Arc<StreamHalves>, tx: mpsc::Sender<OutgoingEvent>) {
    let me = shared.session.address().unwrap_or_default().to_owned();
    let name = map::shown(&me);
    loop {
        let arrival = tokio::select! {
            arrival = mail.next() => arrival,
            () = tx.closed() => return,
        };
        let outgoing = match arrival {
            Ok(Arrival::Mail(event, attempt)) => {
                OutgoingEvent { event: message(&event, &name), seq: attempt.map(|_| event.seq) }
            }
            Ok(Arrival::Signal(_)) => continue,
            Err(fault) => OutgoingEvent { event: Err(refused(&fault, None)), seq: None },
        };
        let over = outgoing.event.is_err();
        if tx.send(outgoing).await.is_err() || over {
            return;
        }
    }
}

/// Takes what the agent sends, the first event too, and answers each.
async fn read(
    service: AgentService,
    mut incoming: Streaming<pb::Event>,
    first: pb::Event,
    (shared, place): (Arc<StreamHalves>, Option<String>),
    tx: mpsc::Sender<OutgoingEvent>,
) {
    let (source, secret) = (first.source_id.clone(), first.secret.clone());
    let mut next = Some(first);
    loop {
        let event = match next.take() {
            Some(event) => event,
            None => tokio::select! {
                came = incoming.message() => match came {
                    Ok(Some(event)) => event,
                    Ok(None) | Err(_) => return,
                },
                () = tx.closed() => return,
            },
        };
        // Later ones may leave out who sends them: the stream knows.
        let event = pb::Event {
            source_id: if event.source_id.is_empty() { source.clone() } else { event.source_id },
            secret: if event.secret.is_empty() { secret.clone() } else { event.secret },
            ..event
        };
        let sent = if event.event_name == ACK {
            shared.acks.store(true, Ordering::Release);
            acked(&shared.session, event).await
        } else {
            service.take(event, place.as_deref()).await.0
        };
        if tx.send(OutgoingEvent { event: Ok(response(&sent)), seq: None }).await.is_err() {
            return;
        }
    }
}

async fn acked(session: &Session, event: pb::Event) -> SdkSent {
    let (event_id, event_name) = (Some(event.event_id.clone()), event.event_name.clone());
    let ack = async {
        let said = SdkEvent::of(event)?.payload();
        let ids = said.get("ids").and_then(Value::as_array).into_iter().flatten();
        let ids: Vec<String> = ids.filter_map(|id| id.as_str().map(str::to_owned)).collect();
        if ids.is_empty() {
            return Err(Fault::new(ErrorCode::InvalidPayload, "payload.ids holds ids of events").field("payload.ids"));
        }
        session.ack(ids, None).await
    };
    match ack.await {
        Ok(count) => {
            let data = Some(json!({ "type": "system_response", "command": "ack_events", "acked": count }));
            SdkSent { success: true, message: "acked".to_owned(), event_id, data, event_name }
        }
        Err(fault) => {
            SdkSent { success: false, message: crate::sdk::wire::told(&fault), event_id, data: None, event_name }
        }
    }
}

/// What an event came to, as an event.
fn response(sent: &SdkSent) -> pb::Event {
    let said = json!({
        "success": sent.success, "message": sent.message, "data": sent.data, "response_to": sent.event_id,
        "event_name": sent.event_name,
    });
    let metadata = sent.event_id.iter().map(|id| ("response_to".to_owned(), id.clone())).collect();
    pb::Event {
        event_name: RESPONSE.to_owned(),
        source_id: "system:system".to_owned(),
        payload: said.as_object().map(payload::any),
        timestamp: i64::try_from(crate::wire::now_ms() / 1000).unwrap_or(i64::MAX),
        visibility: "direct".to_owned(),
        metadata,
        ..pb::Event::default()
    }
}

/// An event of the network, as the SDK reads it.
fn message(event: &Event, me: &str) -> Result<pb::Event, Status> {
    let shown = map::outward(event, me).map_err(|fault| refused(&fault, None))?;
    let shown: Map<String, Value> = serde_json::from_str(shown.get()).unwrap_or_default();
    let text = |name: &str| shown.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata: HashMap<String, String> = shown
        .get("metadata")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .chain(shown.get("response_to").and_then(Value::as_str).map(|id| ("response_to".to_owned(), id.to_owned())))
        .collect();
    Ok(pb::Event {
        event_id: text("event_id"),
        event_name: text("event_name"),
        source_id: text("source_id"),
        target_agent_id: text("target_agent_id"),
        payload: shown.get("payload").and_then(Value::as_object).map(payload::any),
        timestamp: shown.get("timestamp").and_then(Value::as_i64).unwrap_or_default(),
        metadata,
        visibility: text("visibility"),
        ..pb::Event::default()
    })
}
