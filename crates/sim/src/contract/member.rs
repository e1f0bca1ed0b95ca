//! A member of the network behind one carrier of the OpenAgents face: sends, receives, acks, loses its connection and comes back.

use super::conversation::Conversation;
use super::driver::{Answer, Driver, Receipt, accepted};
use super::event::{Draft, Got, Refused};
use super::place::Place;
use crate::harness::{Http, Line, Network, PATIENCE, Sse, join};
use rialto_openagents::grpc::pb;
use rialto_openagents::grpc::pb::network_client::NetworkClient;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;
use tonic::transport::Channel;

/// A way to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// Calls, and polls of the inbox.
    HttpInbox,
    /// Calls, and polls of the log.
    HttpLog,
    /// A stream of the inbox, and calls to send.
    SseInbox,
    /// A stream of the log, and calls to send.
    SseLog,
    /// One WebSocket.
    WebSocket,
    /// gRPC calls.
    GrpcUnary,
    /// One gRPC stream.
    GrpcConnect,
    /// `rialto stdio`.
    Stdio,
}

use Carrier::{GrpcConnect, GrpcUnary, HttpInbox, HttpLog, SseInbox, SseLog, Stdio, WebSocket};

/// How long one poll waits.
const POLL: Duration = Duration::from_secs(5);

/// One connection.
#[derive(Debug)]
enum Link {
    /// Each call for itself; the position up to which this connection has read.
    Http {
        http: Http,
        read: Option<String>,
    },
    Grpc {
        client: NetworkClient<Channel>,
        read: String,
    },
    /// Pushed; what is sent goes by HTTP, as far as SSE is concerned.
    Sse {
        http: Http,
        stream: Conversation,
    },
    Stream(Conversation),
}

/// A member.
#[derive(Debug)]
pub struct Member {
    /// Its address.
    pub address: String,
    /// How it is there.
    pub carrier: Carrier,
    place: Place,
    role: &'static str,
    session: String,
    link: Option<Link>,
    /// Read but not asked for yet.
    waiting: VecDeque<Got>,
    /// Where a reader by cursor goes on after a new connection.
    cursor: Option<String>,
    /// Requests so far: their ids are numbered.
    asked: u32,
}

type Sent = Answer<u64>;

impl Member {
    /// A member that has not joined yet.
    pub fn new(carrier: Carrier, name: &str, role: &'static str) -> Member {
        Member {
            address: format!("agent:{name}"),
            carrier,
            place: Place::default(),
            role,
            session: String::new(),
            link: None,
            waiting: VecDeque::new(),
            cursor: None,
            asked: 0,
        }
    }

    /// Joins as `name`.
    pub async fn join(place: &Place, carrier: Carrier, name: &str) -> Result<Member, String> {
        Member::join_as(place, carrier, name, "member").await
    }

    /// Joins as `name` with this role.
    pub async fn join_as(place: &Place, carrier: Carrier, name: &str, role: &'static str) -> Result<Member, String> {
        let mut member = Member::new(carrier, name, role);
        let joined = member.connect(place).await.map_err(|e| format!("{name} cannot join: {e}"))?;
        joined.map_err(|refused| format!("{name} may not join: {refused:?}"))?;
        Ok(member)
    }

    fn join_options(&self) -> Value {
        let mut options = json!({ "role": self.role });
        if matches!(self.carrier, HttpLog | SseLog) {
            options["receive"] = json!("log");
        }
        options
    }

    async fn open(&mut self) -> Answer<()> {
        let place = self.place.clone();
        let address = place.address()?;
        let link = match self.carrier {
            HttpInbox | HttpLog | SseInbox | SseLog => {
                let mut http = Http::new(address);
                if let Err(refused) = self.http_join(&mut http).await? {
                    return Ok(Err(refused));
                }
                self.reading(http).await?
            }
            GrpcUnary => {
                let mut client = place.grpc().await?;
                self.grpc_join(&mut client).await?;
                Link::Grpc { client, read: String::new() }
            }
            WebSocket | GrpcConnect | Stdio => {
                let network = Network { id: place.network.clone(), token: place.token.clone() };
                let mut first = join(&self.address, &place.token, &self.join_options());
                first["id"] = json!("join");
                let line = match self.carrier {
                    WebSocket => Line::websocket(address, &network, &first).await,
                    GrpcConnect => Line::connect(address, &network, &first).await,
                    HttpInbox | HttpLog | SseInbox | SseLog | GrpcUnary | Stdio => {
                        Line::stdio(&place.program, address, &network, &first, &place.sessions).await
                    }
                };
                Link::Stream(Conversation::over(line?))
            }
        };
        self.link = Some(link);
        match self.link {
            Some(Link::Stream(_)) => Ok(self.answer("join").await?.map(drop)),
            Some(Link::Http { .. } | Link::Grpc { .. } | Link::Sse { .. }) | None => Ok(Ok(())),
        }
    }

    /// What an HTTP client reads by.
    async fn reading(&self, http: Http) -> Result<Link, String> {
        if matches!(self.carrier, HttpInbox | HttpLog) {
            return Ok(Link::Http { http, read: self.cursor.clone() });
        }
        let view = if self.carrier == SseLog { "log" } else { "inbox" };
        let path = format!("/v1/ws/{}/events/stream?view={view}", self.place.network);
        let opened = Sse::try_open(self.place.address()?, &path, &self.session, self.cursor.as_deref()).await;
        let sse = opened.map_err(|e| format!("{path}: {e}"))?.map_err(|answer| format!("{path}: {answer:?}"))?;
        Ok(Link::Sse { http, stream: Conversation::listening(sse) })
    }

    /// Joins once; a new connection goes on with the same session, as HTTP clients do.
    async fn http_join(&mut self, http: &mut Http) -> Answer<()> {
        if !self.session.is_empty() {
            return Ok(Ok(()));
        }
        let mut body = self.join_options();
        body["agent_id"] = json!(self.address);
        let path = format!("/v1/ws/{}/join", self.place.network);
        let joined = match call(http, "POST", &path, &self.place.token, &body.to_string()).await? {
            Ok(joined) => joined,
            Err(refused) => return Ok(Err(refused)),
        };
        self.session = joined.0["session_id"].as_str().ok_or("no session")?.to_owned();
        if matches!(self.carrier, HttpLog | SseLog) {
            let path = format!("/v1/ws/{}/events?view=log&sort=desc&limit=1", self.place.network);
            let newest = accepted(call(http, "GET", &path, &self.session, "").await)?;
            self.cursor = newest.0["newest_id"].as_str().map(str::to_owned);
        }
        Ok(Ok(()))
    }

    async fn grpc_join(&mut self, client: &mut NetworkClient<Channel>) -> Result<(), String> {
        if !self.session.is_empty() {
            return Ok(());
        }
        let request = pb::JoinRequest {
            network: self.place.network.clone(),
            agent_id: self.address.clone(),
            role: self.role.to_owned(),
            ..Default::default()
        };
        let reply = client.join(bearing(request, &self.place.token)).await.map_err(|s| format!("{s:?}"))?;
        self.session = reply.into_inner().session_id;
        Ok(())
    }

    /// The connection breaks and is made again.
    pub async fn reconnect(&mut self) -> Result<(), String> {
        let place = self.place.clone();
        accepted(self.connect(&place).await).map_err(|e| format!("{} does not come back: {e}", self.address))
    }

    /// Sends an event; gives its position, or why it was refused.
    pub async fn send(&mut self, draft: &Draft) -> Sent {
        let path = format!("/v1/ws/{}/events", self.place.network);
        match self.link.as_mut().ok_or("not connected")? {
            Link::Http { http, .. } | Link::Sse { http, .. } => {
                let answer = match call(http, "POST", &path, &self.session, &draft.json()).await? {
                    Ok((data, _)) => data,
                    Err(refused) => return Ok(Err(refused)),
                };
                // Verdicts and reads are answered and not kept.
                let unkept = ["network.mod.verdict", "network.resource.read"].contains(&draft.kind).then_some(0);
                Ok(Ok(answer["seq"].as_u64().or(unkept).ok_or("no seq")?))
            }
            Link::Grpc { client, .. } => {
                let request = pb::SendRequest { network: self.place.network.clone(), events: vec![draft.protobuf()] };
                let reply = client.send(bearing(request, &self.session)).await.map_err(|s| format!("{s:?}"))?;
                let result = reply.into_inner().results.into_iter().next().ok_or("no result")?;
                Ok(match result.error {
                    None => Ok(result.seq),
                    Some(e) => Err(Refused { code: e.code, event_id: e.event_id, retryable: e.retryable }),
                })
            }
            Link::Stream(line) => {
                line.send(draft)?;
                self.answer(&draft.id).await
            }
        }
    }

    /// Asks for history; gives the ids of what came, or the code of the refusal.
    pub async fn query(&mut self, id: &str, filters: &Value) -> Result<Result<Vec<String>, String>, String> {
        Ok(self.query_page(id, filters).await?.map(|page| ids_of(&page)))
    }

    /// Asks for history; gives the page, or the code of the refusal.
    pub async fn query_page(&mut self, id: &str, filters: &Value) -> Result<Result<Value, String>, String> {
        Ok(self.ask("network.events.query", id, filters).await?.map_err(|refused| refused.code))
    }

    /// Asks the network something; gives the payload of the response.
    async fn ask(&mut self, kind: &'static str, id: &str, payload: &Value) -> Answer<Value> {
        let draft = Draft { kind, ..Draft::note(id, "core", &payload.to_string()) };
        let path = format!("/v1/ws/{}/events", self.place.network);
        match self.link.as_mut().ok_or("not connected")? {
            Link::Http { http, .. } | Link::Sse { http, .. } => {
                let answer = call(http, "POST", &path, &self.session, &draft.json()).await?;
                Ok(answer.map(|(data, _)| data["response"]["payload"].clone()))
            }
            Link::Grpc { client, .. } => {
                let request = pb::SendRequest { network: self.place.network.clone(), events: vec![draft.protobuf()] };
                let reply = client.send(bearing(request, &self.session)).await.map_err(|s| format!("{s:?}"))?;
                let result = reply.into_inner().results.into_iter().next().ok_or("no result")?;
                if let Some(e) = result.error {
                    return Ok(Err(Refused { code: e.code, event_id: e.event_id, retryable: e.retryable }));
                }
                let got = Got::of_protobuf(result.response.ok_or("no response")?)?;
                Ok(Ok(got.payload()))
            }
            Link::Stream(line) => {
                line.send(&draft)?;
                loop {
                    let got = self.pushed().await?;
                    match (got.kind.as_str(), got.in_reply_to() == Some(id)) {
                        ("network.event.error", true) => return Ok(Err(Refused::of(&got.payload()))),
                        ("network.event.ack", true) => {}
                        (_, true) => return Ok(Ok(got.payload())),
                        _ => self.waiting.push_back(got),
                    }
                }
            }
        }
    }

    /// An id for a request.
    fn request_id(&mut self) -> String {
        self.asked += 1;
        format!("{}-asks-{}", self.address.replace(':', "-"), self.asked)
    }

    /// The answer of a stream to one of our events; what else comes is kept.
    async fn answer(&mut self, id: &str) -> Sent {
        loop {
            let got = self.pushed().await?;
            match (got.kind.as_str(), got.in_reply_to() == Some(id)) {
                ("network.event.ack", true) => return Ok(Ok(got.payload()["seq"].as_u64().unwrap_or(0))),
                ("network.event.error", true) => return Ok(Err(Refused::of(&got.payload()))),
                _ => self.waiting.push_back(got),
            }
        }
    }

    async fn pushed(&mut self) -> Result<Got, String> {
        let (Some(Link::Stream(stream)) | Some(Link::Sse { stream, .. })) = self.link.as_mut() else {
            return Err("nothing is pushed here".to_owned());
        };
        let got = tokio::time::timeout(PATIENCE, stream.next()).await;
        got.map_err(|_| format!("nothing came after {:#?}", self.waiting))?
    }

    /// Everything received up to and including the event `id`.
    pub async fn until(&mut self, id: &str) -> Result<Vec<Got>, String> {
        let mut all = Vec::new();
        loop {
            let got = self.received().await.map_err(|e| format!("{} waits for {id}: {e}", self.address))?;
            all.push(got);
            if all.last().is_some_and(|got| got.id == id) {
                return Ok(all);
            }
        }
    }

    /// The next event of this type; what comes before it is passed over.
    pub async fn next_of(&mut self, kind: &str) -> Result<Got, String> {
        loop {
            let got = self.received().await.map_err(|e| format!("{} waits for {kind}: {e}", self.address))?;
            if got.kind == kind {
                return Ok(got);
            }
        }
    }

    async fn received(&mut self) -> Result<Got, String> {
        for _ in 0..8 {
            if let Some(got) = self.waiting.pop_front() {
                return Ok(got);
            }
            let found = match self.link.as_mut().ok_or("not connected")? {
                Link::Stream(_) | Link::Sse { .. } => vec![self.pushed().await?],
                Link::Http { .. } => self.poll_http(POLL).await?,
                Link::Grpc { .. } => self.poll_grpc(POLL, Vec::new()).await?,
            };
            self.waiting.extend(found);
        }
        Err("nothing came".to_owned())
    }

    async fn poll_http(&mut self, wait: Duration) -> Result<Vec<Got>, String> {
        let Some(Link::Http { http, read }) = self.link.as_mut() else { return Err("not HTTP".to_owned()) };
        let view = if self.carrier == HttpLog { "log" } else { "inbox" };
        let after = read.as_ref().map(|c| format!("&after={c}")).unwrap_or_default();
        let wait = wait.as_secs();
        let path = format!("/v1/ws/{}/events?view={view}&ack=false&wait={wait}{after}", self.place.network);
        let (data, text) = accepted(call(http, "GET", &path, &self.session, "").await)?;
        *read = data["next_cursor"].as_str().map(str::to_owned);
        // Read again as text: a value would not keep the payload's bytes.
        let raw: Page<'_> = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        raw.data.events.iter().map(|event| Got::of_json(event.get())).collect()
    }

    async fn poll_grpc(&mut self, wait: Duration, ack_ids: Vec<String>) -> Result<Vec<Got>, String> {
        let Some(Link::Grpc { client, read }) = self.link.as_mut() else { return Err("not gRPC".to_owned()) };
        let request = pb::PollRequest {
            network: self.place.network.clone(),
            after: read.clone(),
            wait_ms: i32::try_from(wait.as_millis()).unwrap_or(i32::MAX),
            no_ack: true,
            ack_ids,
            ..Default::default()
        };
        let page = client.poll(bearing(request, &self.session)).await.map_err(|s| format!("{s:?}"))?.into_inner();
        *read = page.next_cursor;
        page.events.into_iter().map(Got::of_protobuf).collect()
    }

    /// Says that these events were received, as the carrier does it.
    pub async fn ack(&mut self, events: &[Got]) -> Result<(), String> {
        let ids: Vec<&str> = events.iter().map(|e| e.id.as_str()).collect();
        let last = ids.last().map(|id| (*id).to_owned());
        match self.link.as_mut().ok_or("not connected")? {
            Link::Http { .. } if self.carrier == HttpLog => self.cursor = last.or(self.cursor.take()),
            // The id of the last one, at the next connection.
            Link::Sse { .. } => self.cursor = last.or(self.cursor.take()),
            Link::Http { http, .. } => {
                let path = format!("/v1/ws/{}/ack", self.place.network);
                accepted(call(http, "POST", &path, &self.session, &json!({ "ids": ids }).to_string()).await)?;
            }
            Link::Grpc { .. } => {
                let more = self.poll_grpc(Duration::ZERO, ids.iter().map(|id| (*id).to_owned()).collect()).await?;
                self.waiting.extend(more);
            }
            Link::Stream(line) => {
                let ack = Draft::note("ack", "core", &json!({ "ids": ids }).to_string());
                line.send(&Draft { kind: "network.event.ack", ..ack })?;
                // An ack has no answer; a ping after it has one.
                line.send(&Draft { kind: "network.ping", ..Draft::note("ping", "core", "{}") })?;
                loop {
                    let got = self.pushed().await?;
                    if got.kind == "network.pong" {
                        break;
                    }
                    self.waiting.push_back(got);
                }
            }
        }
        Ok(())
    }
}

impl Driver for Member {
    fn address(&self) -> &str {
        &self.address
    }

    async fn connect(&mut self, place: &Place) -> Answer<()> {
        self.disconnect();
        self.place = place.clone();
        self.open().await
    }

    fn disconnect(&mut self) {
        self.link = None;
        self.waiting.clear();
    }

    async fn send(&mut self, draft: &Draft) -> Answer<Receipt> {
        let sent = Member::send(self, draft).await?;
        Ok(sent.map(|seq| Receipt { id: draft.id.clone(), seq }))
    }

    async fn next(&mut self) -> Result<Got, String> {
        self.received().await
    }

    async fn ack(&mut self, events: &[Got]) -> Result<(), String> {
        Member::ack(self, events).await
    }

    async fn history(&mut self, channel: &str) -> Answer<Vec<Got>> {
        let id = self.request_id();
        let page = match self.ask("network.events.query", &id, &json!({ "channel": channel, "limit": 500 })).await? {
            Ok(page) => page,
            Err(refused) => return Ok(Err(refused)),
        };
        let events = page["events"].as_array().ok_or("no events")?.iter();
        Ok(Ok(events.map(|event| Got::of_json(&event.to_string())).collect::<Result<_, _>>()?))
    }

    async fn members(&mut self) -> Answer<Vec<String>> {
        let id = self.request_id();
        let page =
            match self.ask("network.agent.discover", &id, &json!({ "include": ["agents"], "limit": 500 })).await? {
                Ok(page) => page,
                Err(refused) => return Ok(Err(refused)),
            };
        let agents = page["agents"].as_array().ok_or("no agents")?.iter();
        Ok(Ok(agents.filter_map(|agent| Some(agent["address"].as_str()?.to_owned())).collect()))
    }
}

/// A call over HTTP: `data` of the wrapper and the whole text, or why it was refused.
async fn call(http: &mut Http, method: &str, path: &str, bearer: &str, body: &str) -> Answer<(Value, String)> {
    let request = http.request(method, path).bearer(bearer);
    let sent =
        async { if method == "GET" { request.try_send().await } else { request.try_body(body.as_bytes()).await } };
    let answer = tokio::time::timeout(PATIENCE, sent).await.map_err(|_| format!("{path} is not answered"))?;
    let answer = answer.map_err(|e| format!("{method} {path}: {e}"))?;
    let mut json = answer.json();
    Ok(if answer.status == 200 { Ok((json["data"].take(), answer.body)) } else { Err(Refused::of(&json["error"])) })
}

/// Ids of the events of a page.
pub fn ids_of(page: &Value) -> Vec<String> {
    let events = page["events"].as_array().unwrap_or_else(|| panic!("no page: {page}"));
    events.iter().map(|event| event["id"].as_str().unwrap_or_default().to_owned()).collect()
}

#[derive(serde::Deserialize)]
struct Page<'t> {
    #[serde(borrow)]
    data: PageData<'t>,
}

#[derive(serde::Deserialize)]
struct PageData<'t> {
    #[serde(borrow)]
    events: Vec<&'t serde_json::value::RawValue>,
}

/// A gRPC request with its bearer.
pub fn bearing<T>(message: T, bearer: &str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    if let Ok(value) = format!("Bearer {bearer}").parse() {
        request.metadata_mut().insert("authorization", value);
    }
    request
}
