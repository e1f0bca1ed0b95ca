//! The dialect over gRPC: `openagents.AgentService`. The same operations in protobuf; what an event comes to is said in the answer, as
//! clients of the SDK expect it, and never as a status.

mod payload;
mod stream;

use super::SdkState;
use super::wire::{SdkAgent, SdkEvent, SdkRegisterBody, SdkSent, told};
use axum::body::Body;
use axum::http::{HeaderMap, Request as HttpRequest};
use futures_util::Stream;
use rialto_carrier::grpc::{GrpcServices, refused};
use rialto_carrier::handover::Handover;
use rialto_carrier::{Client, Stranger};
use rialto_model::{Fault, limits};
use serde_json::{Map, Value, json};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tonic::body::Body as GrpcBody;
use tonic::codegen::Service as TowerService;
use tonic::server::NamedService;
use tonic::{Request, Response, Status, Streaming};

/// Types made from `proto/openagents/agent_service.proto`.
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
    tonic::include_proto!("openagents");
}

const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agent_service.bin"));

/// What the bytes of an answer's data are.
const DATA_TYPE: &str = "type.googleapis.com/openagents.EventResponseData";

/// Adds the service to those of the listener.
pub(crate) fn add(state: &SdkState, services: &mut GrpcServices) {
    let service = pb::agent_service_server::AgentServiceServer::new(AgentService { state: state.clone() })
        .max_decoding_message_size(limits::BATCH_BYTES_MAX)
        .max_encoding_message_size(usize::MAX);
    services.add(Handing(service));
    services.describe(DESCRIPTORS);
    services.converse("/openagents.AgentService/StreamEvents");
}

/// The generated service, with what its handlers say of their answers kept where the carrier looks for it.
#[derive(Debug, Clone)]
struct Handing<S>(S);

impl<S: NamedService> NamedService for Handing<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> TowerService<HttpRequest<GrpcBody>> for Handing<S>
where
    S: TowerService<HttpRequest<GrpcBody>, Response = axum::http::Response<GrpcBody>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = axum::response::Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: HttpRequest<GrpcBody>) -> Self::Future {
        let answer = self.0.call(request);
        Box::pin(async move { Ok(answer.await?.map(Body::new)) })
    }
}

/// The service.
#[derive(Debug, Clone)]
struct AgentService {
    state: SdkState,
}

type AgentEvents = Pin<Box<dyn Stream<Item = Result<pb::Event, Status>> + Send>>;

/// Metadata of protobuf: texts only.
fn texts(metadata: &std::collections::HashMap<String, String>) -> Map<String, Value> {
    metadata.iter().map(|(name, text)| (name.clone(), text.as_str().into())).collect()
}

/// A good credential came in a message: the connection is no stranger's.
fn proved(stranger: Option<&Stranger>) {
    if let Some(stranger) = stranger {
        stranger.prove();
    }
}

impl SdkEvent {
    /// What a protobuf event says.
    fn of(event: pb::Event) -> Result<SdkEvent, Fault> {
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let mut metadata = texts(&event.metadata);
        let mut own = |name: &str| metadata.remove(name).and_then(|text| text.as_str().map(str::to_owned));
        let (response_to, thread_name) = (own("response_to"), own("thread_name"));
        Ok(SdkEvent {
            event_id: some(event.event_id),
            event_name: event.event_name,
            source_id: some(event.source_id),
            target_agent_id: some(event.target_agent_id),
            payload: event.payload.as_ref().map(payload::json).transpose()?,
            metadata: Some(metadata),
            visibility: some(event.visibility),
            #[allow(clippy::cast_precision_loss, reason = "seconds")]
            timestamp: Some(event.timestamp as f64),
            secret: some(event.secret),
            response_to,
            thread_name,
            ..SdkEvent::default()
        })
    }
}

/// JSON as the data of an answer.
fn data(value: Option<&Value>) -> Option<prost_types::Any> {
    let value = value?.to_string().into_bytes();
    Some(prost_types::Any { type_url: DATA_TYPE.to_owned(), value })
}

fn answer(sent: &SdkSent) -> pb::EventResponse {
    pb::EventResponse {
        success: sent.success,
        message: sent.message.clone(),
        data: data(sent.data.as_ref()),
        event_name: sent.event_name.clone(),
    }
}

fn info(agent: SdkAgent) -> pb::AgentInfo {
    let description = agent.description.map(|text| ("description".to_owned(), text));
    pb::AgentInfo {
        agent_id: agent.agent_id,
        metadata: description.into_iter().collect(),
        capabilities: agent.capabilities,
        last_seen: i64::try_from(agent.last_seen).unwrap_or(i64::MAX),
        transport_type: agent.transport_type.to_owned(),
        address: agent.address,
    }
}

impl AgentService {
    /// The agents that a call may know of: its messages have no room for a secret, so that stands in `authorization`.
    async fn agents<T>(&self, request: &Request<T>) -> Result<Vec<SdkAgent>, Status> {
        let headers: HeaderMap = request.metadata().clone().into_headers();
        self.state.agents(&headers).await.map_err(|fault| refused(&fault, None))
    }

    /// Takes an event that came as protobuf.
    async fn take(&self, event: pb::Event, place: Option<&str>) -> (SdkSent, Option<Handover>) {
        let (event_id, event_name) = (Some(event.event_id.clone()), event.event_name.clone());
        match SdkEvent::of(event) {
            Ok(event) => self.state.sent(&event, place).await,
            Err(fault) => (SdkSent { success: false, message: told(&fault), event_id, data: None, event_name }, None),
        }
    }
}

#[tonic::async_trait]
impl pb::agent_service_server::AgentService for AgentService {
    type StreamEventsStream = AgentEvents;

    async fn send_event(&self, request: Request<pb::Event>) -> Result<Response<pb::EventResponse>, Status> {
        let stranger = request.extensions().get::<Stranger>().cloned();
        let place = request.extensions().get::<Client>().and_then(|client| client.place());
        let (sent, handover) = self.take(request.into_inner(), place.as_deref()).await;
        if sent.success {
            proved(stranger.as_ref());
        }
        let mut response = Response::new(answer(&sent));
        if let Some(handover) = handover {
            response.extensions_mut().insert(handover);
        }
        Ok(response)
    }

    async fn stream_events(&self, request: Request<Streaming<pb::Event>>) -> Result<Response<AgentEvents>, Status> {
        stream::open(self.clone(), request).await
    }

    async fn register_agent(
        &self,
        request: Request<pb::RegisterAgentRequest>,
    ) -> Result<Response<pb::RegisterAgentResponse>, Status> {
        let stranger = request.extensions().get::<Stranger>().cloned();
        let said = request.into_inner();
        let mut metadata = texts(&said.metadata);
        if !said.capabilities.is_empty() {
            metadata.insert("capabilities".into(), json!(said.capabilities));
        }
        let wish = SdkRegisterBody {
            agent_id: said.agent_id,
            metadata: Some(metadata),
            password_hash: Some(said.password_hash),
        };
        Ok(Response::new(match self.state.register(&wish).await {
            Ok(registered) => {
                proved(stranger.as_ref());
                pb::RegisterAgentResponse { success: true, secret: registered.secret, ..Default::default() }
            }
            Err(fault) => pb::RegisterAgentResponse { error_message: told(&fault), ..Default::default() },
        }))
    }

    async fn unregister_agent(
        &self,
        request: Request<pb::UnregisterAgentRequest>,
    ) -> Result<Response<pb::UnregisterAgentResponse>, Status> {
        let pb::UnregisterAgentRequest { agent_id, secret } = request.into_inner();
        Ok(Response::new(match self.state.unregister(&agent_id, Some(&secret)).await {
            Ok(()) => pb::UnregisterAgentResponse { success: true, error_message: String::new() },
            Err(fault) => pb::UnregisterAgentResponse { success: false, error_message: told(&fault) },
        }))
    }

    async fn discover_agents(
        &self,
        request: Request<pb::DiscoverAgentsRequest>,
    ) -> Result<Response<pb::DiscoverAgentsResponse>, Status> {
        let agents = self.agents(&request).await?;
        let wanted = request.into_inner().required_capabilities;
        let can = |agent: &SdkAgent| wanted.iter().all(|wanted| agent.capabilities.contains(wanted));
        let agents = agents.into_iter().filter(can).map(info).collect();
        Ok(Response::new(pb::DiscoverAgentsResponse { agents }))
    }

    async fn get_agent_info(
        &self,
        request: Request<pb::GetAgentInfoRequest>,
    ) -> Result<Response<pb::GetAgentInfoResponse>, Status> {
        let agents = self.agents(&request).await?;
        let name = request.into_inner().agent_id;
        let agent = agents.into_iter().find(|agent| agent.agent_id == name || agent.address == name).map(info);
        Ok(Response::new(pb::GetAgentInfoResponse { found: agent.is_some(), agent }))
    }

    /// Answered before there is any credential; a sign of life of a member only where its credential is shown.
    async fn heartbeat(
        &self,
        request: Request<pb::HeartbeatRequest>,
    ) -> Result<Response<pb::HeartbeatResponse>, Status> {
        let headers: HeaderMap = request.metadata().clone().into_headers();
        if headers.contains_key("authorization") {
            self.state.alive(&headers).await.map_err(|fault| refused(&fault, None))?;
        }
        let now = i64::try_from(crate::wire::now_ms() / 1000).unwrap_or(i64::MAX);
        Ok(Response::new(pb::HeartbeatResponse { success: true, timestamp: now }))
    }

    async fn get_network_info(
        &self,
        request: Request<pb::NetworkInfoRequest>,
    ) -> Result<Response<pb::NetworkInfoResponse>, Status> {
        let headers: HeaderMap = request.metadata().clone().into_headers();
        let health = self.state.health(&headers).await.map_err(|fault| refused(&fault, None))?;
        // Who may not know of anybody is told how many there are.
        let agents = self.state.agents(&headers).await.unwrap_or_default();
        let grpc = health.data.transports.iter().find(|transport| transport.kind == "grpc");
        let config = |name: &str| grpc.and_then(|transport| transport.config.get(name));
        Ok(Response::new(pb::NetworkInfoResponse {
            network_id: health.data.network_id,
            network_name: health.data.network_name,
            is_running: health.data.is_running,
            uptime_seconds: i64::try_from(health.data.uptime_seconds).unwrap_or(i64::MAX),
            agent_count: i32::try_from(health.data.agent_count).unwrap_or(i32::MAX),
            agents: agents.into_iter().map(info).collect(),
            topology_mode: health.data.topology_mode.to_owned(),
            transport_type: "grpc".to_owned(),
            host: config("host").and_then(Value::as_str).unwrap_or_default().to_owned(),
            port: config("port").and_then(Value::as_i64).and_then(|port| i32::try_from(port).ok()).unwrap_or_default(),
        }))
    }
}
