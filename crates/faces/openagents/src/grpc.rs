//! gRPC: package `rialto.v1`, service `Network` (sheet section 12.4).
//!
//! Every call goes through the same credentials, node and answers as HTTP; `Connect` is the stream conversation.

mod connect;
pub mod event;
mod map;

use crate::auth::{Call, CallRequest};
use crate::events;
use axum::http::HeaderMap;
use event::Event;
use rialto_carrier::grpc::{GrpcServices, refused};
use rialto_carrier::{FaceState, Params, Refusal, unread};
use rialto_model::{ErrorCode, Fault, limits, read};
use rialto_node::{Answered, Caller, Query, View};
use serde::Serialize;
use serde_json::{Value, json};
use std::pin::Pin;
use std::time::Duration;
use tonic::{Request, Response, Status, Streaming};

/// Types made from `proto/rialto/v1/network.proto`.
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    missing_debug_implementations,
    unreachable_pub,
    missing_docs,
    reason = "generated code"
)]
pub mod pb {
    tonic::include_proto!("rialto.v1");

    pub use super::event::Event;
    pub use rialto_carrier::grpc::Error;
}

const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rialto.bin"));

/// The service.
#[derive(Debug, Clone)]
struct Service {
    state: FaceState,
}

/// Adds the service to those of the listener.
pub(crate) fn add(state: &FaceState, services: &mut GrpcServices) {
    let service = pb::network_server::NetworkServer::new(Service { state: state.clone() })
        .max_decoding_message_size(limits::BATCH_BYTES_MAX)
        .max_encoding_message_size(usize::MAX);
    services.add(service);
    services.describe(DESCRIPTORS);
    services.converse("/rialto.v1.Network/Connect");
}

impl Service {
    fn call<T>(&self, request: &Request<T>, network: &str, agent_id: &str) -> Result<Call, Status> {
        let headers: HeaderMap = request.metadata().clone().into_headers();
        let body = if agent_id.is_empty() { Value::Null } else { json!({ "agent_id": agent_id }) };
        let named = Some(network).filter(|n| !n.is_empty());
        CallRequest::new(&self.state, &headers).path(named).body(&body).call().map_err(|r| refused(&r.fault, None))
    }

    /// The same for a call whose credential is in its message. Its refusals go through [`Call::refusal`].
    fn call_to_join<T>(&self, request: &Request<T>, network: &str, agent_id: &str) -> Result<Call, Status> {
        let headers: HeaderMap = request.metadata().clone().into_headers();
        let body = if agent_id.is_empty() { Value::Null } else { json!({ "agent_id": agent_id }) };
        let named = Some(network).filter(|n| !n.is_empty());
        CallRequest::new(&self.state, &headers).path(named).body(&body).call_to_join().map_err(status_of)
    }

    async fn one(&self, call: &Call, event: &Value) -> Result<Answered, Status> {
        let answers = call.session.emit(event.to_string().into()).await.map_err(|f| refused(&f, None))?;
        answers.into_iter().next().ok_or_else(|| refused(&ErrorCode::Internal.into(), None))
    }
}

fn object(bytes: &[u8], field: &str) -> Result<Value, Status> {
    if bytes.is_empty() {
        return Ok(json!({}));
    }
    let bad = |what: String| refused(&Fault::new(ErrorCode::InvalidJson, what).field(field), None);
    serde_json::from_slice(bytes).map_err(|e| bad(format!("{field} is not valid JSON: {e}")))
}

fn status_of(refusal: Refusal) -> Status {
    refused(&refusal.fault, refusal.event_id.as_deref())
}

type Events = Pin<Box<dyn futures_util::Stream<Item = Result<pb::Event, Status>> + Send>>;

#[tonic::async_trait]
impl pb::network_server::Network for Service {
    type ConnectStream = Events;

    async fn join(&self, request: Request<pb::JoinRequest>) -> Result<Response<pb::JoinReply>, Status> {
        let r = request.get_ref();
        let call = self.call_to_join(&request, &r.network, &r.agent_id)?;
        let hidden = call.hidden;
        let seen = |status: Status| if hidden { status_of(call.refusal(ErrorCode::NetworkNotFound)) } else { status };
        let mut payload = object(&r.options, "options").map_err(seen)?;
        let Some(map) = payload.as_object_mut() else {
            let fault = Fault::new(ErrorCode::InvalidArgument, "options is an object").field("options");
            return Err(seen(refused(&fault, None)));
        };
        if !r.credentials.is_empty() {
            map.insert("credentials".into(), object(&r.credentials, "credentials").map_err(seen)?);
        }
        for (key, value) in [
            ("agent_id", &r.agent_id),
            ("role", &r.role),
            ("resume_after", &r.resume_after),
            ("session_id", &r.session_id),
        ] {
            if !value.is_empty() {
                map.insert(key.into(), json!(value));
            }
        }
        let event = json!({ "type": "network.agent.join", "source": call.session.caller().claimed, "target": "core", "payload": payload });
        let answered = self.one(&call, &event).await.map_err(seen)?;
        let accepted = answered.result.map_err(|f| seen(refused(&f, None)))?;
        let result = accepted.result.unwrap_or_default();
        let text = |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let number = |key: &str| result.get(key).and_then(Value::as_i64).unwrap_or(0);
        Ok(Response::new(pb::JoinReply {
            network_id: text("network_id"),
            address: text("address"),
            role: text("role"),
            status: text("status"),
            verification: i32::try_from(number("verification")).unwrap_or(0),
            session_id: text("session_id"),
            heartbeat_ms: number("heartbeat_ms"),
            offline_after_ms: number("offline_after_ms"),
            window: i32::try_from(number("window")).unwrap_or(0),
            head_id: text("head_id"),
            pending: number("pending"),
            expires_at: number("expires_at"),
        }))
    }

    async fn leave(&self, request: Request<pb::LeaveRequest>) -> Result<Response<pb::LeaveReply>, Status> {
        let r = request.get_ref();
        let call = self.call(&request, &r.network, &r.agent_id)?;
        let event = json!({ "type": "network.agent.leave", "target": "core", "payload": { "reason": r.reason, "forget": r.forget } });
        let accepted = self.one(&call, &event).await?.result.map_err(|f| refused(&f, None))?;
        let result = accepted.result.unwrap_or_default();
        let text = |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Response::new(pb::LeaveReply { address: text("address"), status: text("status") }))
    }

    async fn heartbeat(&self, request: Request<pb::HeartbeatRequest>) -> Result<Response<pb::HeartbeatReply>, Status> {
        let r = request.get_ref();
        let call = self.call(&request, &r.network, &r.agent_id)?;
        let mut session = call.session;
        if !r.session_id.is_empty() {
            let shown = Some(rialto_node::identity::sha256(&r.session_id));
            session = session.showing(Caller { session: shown, ..session.caller().as_ref().clone() });
        }
        session.heartbeat().await.map_err(|f| refused(&f, None))?;
        let server_time = i64::try_from(crate::wire::now_ms()).unwrap_or(i64::MAX);
        Ok(Response::new(pb::HeartbeatReply { status: "online".to_owned(), server_time }))
    }

    async fn send(&self, request: Request<pb::SendRequest>) -> Result<Response<pb::SendReply>, Status> {
        let r = request.get_ref();
        if r.events.len() > limits::BATCH_EVENTS_MAX {
            let what = format!("a batch is at most {} events", limits::BATCH_EVENTS_MAX);
            return Err(refused(&Fault::new(ErrorCode::TooLarge, what), None));
        }
        let call = self.call(&request, &r.network, "")?;
        let texts = map::texts_of(&r.events);
        let answers = if texts.is_empty() {
            Vec::new()
        } else {
            call.session.emit(texts).await.map_err(|f| refused(&f, None))?
        };
        let mut results = Vec::with_capacity(answers.len());
        let mut room = limits::BATCH_RESPONSE_BYTES_MAX;
        for answered in answers {
            let result = self.result(&call, &answered, room).await;
            let size = result.response.as_ref().map_or(0, prost::Message::encoded_len);
            room = room.saturating_sub(size);
            results.push(result);
        }
        Ok(Response::new(pb::SendReply { results }))
    }

    async fn poll(&self, request: Request<pb::PollRequest>) -> Result<Response<pb::PollReply>, Status> {
        let r = request.get_ref();
        let call = self.call(&request, &r.network, "")?;
        if !r.ack_ids.is_empty() {
            call.session.ack(r.ack_ids.clone(), None).await.map_err(|f| refused(&f, None))?;
        }
        let mut params = Params::new();
        let mut put = |key: &str, value: &str| {
            if !value.is_empty() {
                params.insert(key.to_owned(), value.to_owned());
            }
        };
        for (key, value) in [
            ("after", &r.after),
            ("view", &r.view),
            ("type", &r.r#type),
            ("channel", &r.channel),
            ("target", &r.target),
        ] {
            put(key, value);
        }
        for (key, value) in [("target_agents", &r.target_agents), ("before", &r.before), ("sort", &r.sort)] {
            put(key, value);
        }
        for (key, value) in [
            ("thread", &r.thread),
            ("room", &r.room),
            ("search", &r.search),
            ("source", &r.source),
            ("conversation", &r.conversation),
            ("in_reply_to", &r.in_reply_to),
        ] {
            put(key, value);
        }
        put("ack", if r.no_ack { "false" } else { "" });
        if r.limit != 0 {
            params.insert("limit".to_owned(), r.limit.to_string());
        }
        let query: Query = Query { asks: true, ..events::query_of(&params, &call).map_err(status_of)? };
        query.checked_limit().map_err(|f| refused(&f, None))?;
        let wait_max = i32::try_from(limits::WAIT_SECONDS_MAX * 1000).unwrap_or(i32::MAX);
        if !(0..=wait_max).contains(&r.wait_ms) {
            return Err(refused(
                &Fault::new(ErrorCode::InvalidArgument, format!("wait_ms is 0 to {wait_max}")).field("wait_ms"),
                None,
            ));
        }
        let wait = (r.wait_ms > 0).then(|| Duration::from_millis(u64::try_from(r.wait_ms).unwrap_or(0)));
        events::ack_before(&call, &query, &params).await.map_err(status_of)?;
        let page = events::read(&call, &query, wait).await.map_err(status_of)?;
        let marks = query.view == Some(View::Inbox) && page.tracked;
        let ids: Vec<(u64, &str)> = page.events.iter().map(|e| (e.event.seq, e.event.id())).collect();
        let id = |found: Option<&(u64, &str)>| found.map(|(_, id)| (*id).to_owned()).unwrap_or_default();
        Ok(Response::new(pb::PollReply {
            has_more: page.has_more,
            oldest_id: id(ids.iter().min()),
            newest_id: id(ids.iter().max()),
            next_cursor: format!("seq:{}", page.next),
            indexed_through: page.searched.map(|s| s.indexed_through),
            head: page.searched.map(|s| s.head),
            events: (page.events.iter().map(|e| Event::of(&e.event, marks.then_some(1))))
                .chain(page.checks.iter().map(|check| Event::of(check, None)))
                .collect(),
        }))
    }

    async fn discover(&self, request: Request<pb::DiscoverRequest>) -> Result<Response<pb::DiscoverReply>, Status> {
        let r = request.get_ref();
        let call = self.call(&request, &r.network, "")?;
        let filter = object(&r.filter, "filter")?;
        let filter = read::value(&filter, read::Place::member("filter")).map_err(|f| refused(&f, None))?;
        let roster = call.session.discover(filter).await.map_err(|f| refused(&f, None))?;
        Ok(Response::new(pb::DiscoverReply { roster: json_bytes(&roster)? }))
    }

    async fn profile(&self, request: Request<pb::ProfileRequest>) -> Result<Response<pb::ProfileReply>, Status> {
        let call = self.call(&request, &request.get_ref().network, "")?;
        let headers = request.metadata().clone().into_headers();
        let profile = crate::members::reachable_profile(&self.state, &call, &headers).await.map_err(status_of)?;
        Ok(Response::new(pb::ProfileReply { profile: json_bytes(&profile)? }))
    }

    async fn connect(&self, request: Request<Streaming<pb::Event>>) -> Result<Response<Events>, Status> {
        connect::connect(&self.state, request).await
    }
}

/// What is shown, as the JSON that the messages carry.
fn json_bytes<T: Serialize>(shown: &T) -> Result<Vec<u8>, Status> {
    serde_json::to_vec(shown).map_err(|_| refused(&ErrorCode::Internal.into(), None))
}

impl Service {
    /// Every event has its own result: what is refused after others were taken must not hide that they were.
    async fn result(&self, call: &Call, answered: &Answered, room: usize) -> pb::SendResult {
        let event_id = answered.event_id().unwrap_or_default().to_owned();
        let failed = |fault: &Fault| {
            let named = Some(event_id.as_str()).filter(|id| !id.is_empty());
            let error = Some(pb::Error::of(fault, named));
            pb::SendResult { error, event_id: event_id.clone(), ..Default::default() }
        };
        let accepted = match &answered.result {
            Err(fault) => return failed(fault),
            Ok(accepted) => accepted,
        };
        let mut response = accepted.response.as_ref().map(|e| Event::of(e, None));
        if answered.query.is_some() && room == 0 {
            return failed(&rialto_node::too_much_at_once());
        }
        if let Some(query) = &answered.query {
            let page = match unread::page(call.session.query(query)).await {
                Ok(page) => page,
                Err(fault) => return failed(&fault),
            };
            let payload = crate::wire::page_json(&page, false);
            let kind = "network.events.response";
            let event = crate::wire::server_event(kind, "core", call.session.network().id(), &payload, Some(&event_id));
            response = Some(Event::of(&event, None));
        }
        pb::SendResult {
            seq: accepted.seq.unwrap_or(0),
            duplicate: accepted.duplicate,
            event: accepted.event.as_ref().map(|r| Event::of(&r.event, None)),
            response,
            error: None,
            event_id,
        }
    }
}
