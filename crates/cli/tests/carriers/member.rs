//! A member of the network behind one carrier: sends, receives, acks, loses its connection and comes back.

use super::event::{Draft, Got, Refused};
use super::line::Line;
use crate::support::http::Http;
use crate::support::sse::Sse;
use crate::support::{Node, PATIENCE, rialto};
use rialto_openagents::grpc::pb;
use rialto_openagents::grpc::pb::network_client::NetworkClient;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::PathBuf;
use tonic::transport::Channel;

/// A way to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    HttpInbox,
    HttpLog,
    SseInbox,
    SseLog,
    WebSocket,
    GrpcUnary,
    GrpcConnect,
    Stdio,
}

use Carrier::{GrpcConnect, GrpcUnary, HttpInbox, HttpLog, SseInbox, SseLog, Stdio, WebSocket};

/// Carriers that send, each in its own way, and their names as senders.
pub const SENDING: [(Carrier, &str); 5] = [
    (HttpInbox, "HTTP"),
    (WebSocket, "WebSocket"),
    (GrpcUnary, "gRPC Send"),
    (GrpcConnect, "gRPC Connect"),
    (Stdio, "stdio"),
];

/// Carriers that receive, and their names as receivers.
pub const RECEIVING: [(Carrier, &str); 8] = [
    (HttpInbox, "HTTP inbox"),
    (HttpLog, "HTTP log"),
    (SseInbox, "SSE inbox"),
    (SseLog, "SSE log"),
    (WebSocket, "WebSocket"),
    (GrpcUnary, "gRPC Poll"),
    (GrpcConnect, "gRPC Connect"),
    (Stdio, "stdio"),
];

/// Where the node is and what opens it.
#[derive(Debug, Clone)]
pub struct Place {
    pub url: String,
    pub network: String,
    pub token: String,
    /// A directory for the sessions of `rialto stdio`.
    pub clients: PathBuf,
}

impl Place {
    pub fn of(node: &Node) -> Place {
        let (url, network) = (node.url().to_owned(), node.network().to_owned());
        Place { url, network, token: node.token.clone(), clients: node.path("clients") }
    }

    pub async fn grpc(&self) -> Result<NetworkClient<Channel>, String> {
        let endpoint = tonic::transport::Endpoint::new(self.url.clone()).map_err(|e| e.to_string())?;
        Ok(NetworkClient::new(endpoint.connect().await.map_err(|e| e.to_string())?))
    }
}

/// One connection.
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
        line: Line,
    },
    Stream(Line),
}

/// A member.
pub struct Member {
    pub address: String,
    pub carrier: Carrier,
    place: Place,
    role: &'static str,
    session: String,
    link: Option<Link>,
    /// Read but not asked for yet.
    waiting: VecDeque<Got>,
    /// Where a reader by cursor goes on after a new connection.
    cursor: Option<String>,
}

type Sent = Result<Result<u64, Refused>, String>;

impl Member {
    /// Joins as `name`.
    pub async fn join(place: &Place, carrier: Carrier, name: &str) -> Result<Member, String> {
        Member::join_as(place, carrier, name, "member").await
    }

    pub async fn join_as(place: &Place, carrier: Carrier, name: &str, role: &'static str) -> Result<Member, String> {
        let mut member = Member {
            address: format!("agent:{name}"),
            carrier,
            place: place.clone(),
            role,
            session: String::new(),
            link: None,
            waiting: VecDeque::new(),
            cursor: None,
        };
        member.open().await.map_err(|e| format!("{name} cannot join: {e}"))?;
        Ok(member)
    }

    fn join_options(&self) -> Value {
        let mut options = json!({ "role": self.role });
        if matches!(self.carrier, HttpLog | SseLog) {
            options["receive"] = json!("log");
        }
        options
    }

    async fn open(&mut self) -> Result<(), String> {
        let place = self.place.clone();
        let link = match self.carrier {
            HttpInbox | HttpLog => {
                let http = Http::new(&place.url);
                self.http_join(&http).await?;
                Link::Http { http, read: self.cursor.clone() }
            }
            SseInbox | SseLog => {
                let http = Http::new(&place.url);
                self.http_join(&http).await?;
                let view = if self.carrier == SseLog { "log" } else { "inbox" };
                let path = format!("/v1/ws/{}/events/stream?view={view}", place.network);
                let sse = Sse::open(&http, &path, &self.session, self.cursor.as_deref()).await?;
                Link::Sse { http, line: Line::sse(sse) }
            }
            GrpcUnary => {
                let mut client = place.grpc().await?;
                self.grpc_join(&mut client).await?;
                Link::Grpc { client, read: String::new() }
            }
            WebSocket => Link::Stream(Line::websocket(&place.url, &place.network, &place.token).await?),
            GrpcConnect => Link::Stream(Line::connect(&place.url, &place.token, self.join_frame()).await?),
            Stdio => {
                let mut command = rialto();
                command.args(["stdio", "--url", &place.url, "--network", &place.network]);
                command.env("RIALTO_TOKEN", &place.token).env("RIALTO_DATA", &place.clients);
                Link::Stream(Line::stdio(command)?)
            }
        };
        self.link = Some(link);
        if let Some(Link::Stream(line)) = &self.link {
            if self.carrier != GrpcConnect {
                line.send(&self.join_frame())?;
            }
            self.answer("join").await?.map_err(|r| format!("{r:?}"))?;
        }
        Ok(())
    }

    fn join_frame(&self) -> Draft {
        let join = Draft::note("join", "core", &self.join_options().to_string());
        Draft { kind: "network.agent.join", source: Some(self.address.clone()), ..join }
    }

    /// Joins once; a new connection goes on with the same session, as HTTP clients do.
    async fn http_join(&mut self, http: &Http) -> Result<(), String> {
        if !self.session.is_empty() {
            return Ok(());
        }
        let mut body = self.join_options();
        body["agent_id"] = json!(self.address);
        let path = format!("/v1/ws/{}/join", self.place.network);
        let data = http.post(&path, &self.place.token, &body).await.data();
        self.session = data["session_id"].as_str().ok_or("no session")?.to_owned();
        if matches!(self.carrier, HttpLog | SseLog) {
            let path = format!("/v1/ws/{}/events?view=log&sort=desc&limit=1", self.place.network);
            let newest = http.get(&path, &self.session).await.data()["newest_id"].clone();
            self.cursor = newest.as_str().map(str::to_owned);
        }
        Ok(())
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
        self.link = None;
        self.waiting.clear();
        self.open().await.map_err(|e| format!("{} does not come back: {e}", self.address))
    }

    /// Sends an event; gives its position, or why it was refused.
    pub async fn send(&mut self, draft: &Draft) -> Sent {
        let path = format!("/v1/ws/{}/events", self.place.network);
        match self.link.as_mut().ok_or("not connected")? {
            Link::Http { http, .. } | Link::Sse { http, .. } => {
                let answer = http.call("POST", &path, &self.session, &draft.json()).await?;
                let json = answer.json();
                Ok(if answer.status == 200 {
                    // Verdicts and reads are answered and not kept.
                    let unkept = ["network.mod.verdict", "network.resource.read"].contains(&draft.kind).then_some(0);
                    Ok(json["data"]["seq"].as_u64().or(unkept).ok_or("no seq")?)
                } else {
                    Err(Refused::of(&json["error"]))
                })
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
        let draft = Draft { kind: "network.events.query", ..Draft::note(id, "core", &filters.to_string()) };
        let path = format!("/v1/ws/{}/events", self.place.network);
        let code = |error: &Value| error["code"].as_str().unwrap_or_default().to_owned();
        match self.link.as_mut().ok_or("not connected")? {
            Link::Http { http, .. } | Link::Sse { http, .. } => {
                let answer = http.call("POST", &path, &self.session, &draft.json()).await?;
                let json = answer.json();
                Ok(if answer.status == 200 {
                    Ok(json["data"]["response"]["payload"].clone())
                } else {
                    Err(code(&json["error"]))
                })
            }
            Link::Grpc { client, .. } => {
                let request = pb::SendRequest { network: self.place.network.clone(), events: vec![draft.protobuf()] };
                let reply = client.send(bearing(request, &self.session)).await.map_err(|s| format!("{s:?}"))?;
                let result = reply.into_inner().results.into_iter().next().ok_or("no result")?;
                if let Some(error) = result.error {
                    return Ok(Err(error.code));
                }
                let got = Got::of_protobuf(result.response.ok_or("no response")?)?;
                Ok(Ok(got.payload()))
            }
            Link::Stream(line) => {
                line.send(&draft)?;
                loop {
                    let got = self.pushed().await?;
                    match (got.kind.as_str(), got.in_reply_to() == Some(id)) {
                        ("network.events.response", true) => return Ok(Ok(got.payload())),
                        ("network.event.error", true) => return Ok(Err(code(&got.payload()))),
                        ("network.event.ack", true) => {}
                        _ => self.waiting.push_back(got),
                    }
                }
            }
        }
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
        let (Some(Link::Stream(line)) | Some(Link::Sse { line, .. })) = self.link.as_mut() else {
            return Err("nothing is pushed here".to_owned());
        };
        let got = tokio::time::timeout(PATIENCE, line.incoming.recv()).await;
        let got = got.map_err(|_| format!("nothing came after {:#?}", self.waiting))?;
        got.ok_or("the connection is gone")?
    }

    /// Everything received up to and including the event `id`.
    pub async fn until(&mut self, id: &str) -> Result<Vec<Got>, String> {
        let mut all = Vec::new();
        loop {
            let got = self.next().await.map_err(|e| format!("{} waits for {id}: {e}", self.address))?;
            all.push(got);
            if all.last().is_some_and(|got| got.id == id) {
                return Ok(all);
            }
        }
    }

    /// The next event of this type; what comes before it is passed over.
    pub async fn next_of(&mut self, kind: &str) -> Result<Got, String> {
        loop {
            let got = self.next().await.map_err(|e| format!("{} waits for {kind}: {e}", self.address))?;
            if got.kind == kind {
                return Ok(got);
            }
        }
    }

    async fn next(&mut self) -> Result<Got, String> {
        for _ in 0..8 {
            if let Some(got) = self.waiting.pop_front() {
                return Ok(got);
            }
            let found = match self.link.as_mut().ok_or("not connected")? {
                Link::Stream(_) | Link::Sse { .. } => vec![self.pushed().await?],
                Link::Http { .. } => self.poll_http(5).await?,
                Link::Grpc { .. } => self.poll_grpc(5000, Vec::new()).await?,
            };
            self.waiting.extend(found);
        }
        Err("nothing came".to_owned())
    }

    async fn poll_http(&mut self, wait: u32) -> Result<Vec<Got>, String> {
        let Some(Link::Http { http, read }) = self.link.as_mut() else { return Err("not HTTP".to_owned()) };
        let view = if self.carrier == HttpLog { "log" } else { "inbox" };
        let after = read.as_ref().map(|c| format!("&after={c}")).unwrap_or_default();
        let path = format!("/v1/ws/{}/events?view={view}&ack=false&wait={wait}{after}", self.place.network);
        let answer = http.call("GET", &path, &self.session, "").await?;
        let data = answer.data();
        *read = data["next_cursor"].as_str().map(str::to_owned);
        // Read again as text: a value would not keep the payload's bytes.
        let raw: Page<'_> = serde_json::from_str(&answer.body).map_err(|e| e.to_string())?;
        raw.data.events.iter().map(|event| Got::of_json(event.get())).collect()
    }

    async fn poll_grpc(&mut self, wait_ms: i32, ack_ids: Vec<String>) -> Result<Vec<Got>, String> {
        let Some(Link::Grpc { client, read }) = self.link.as_mut() else { return Err("not gRPC".to_owned()) };
        let request = pb::PollRequest {
            network: self.place.network.clone(),
            after: read.clone(),
            wait_ms,
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
        match self.link.as_mut().ok_or("not connected")? {
            Link::Http { .. } if self.carrier == HttpLog => self.cursor = ids.last().map(|id| (*id).to_owned()),
            // The id of the last one, at the next connection.
            Link::Sse { .. } => self.cursor = ids.last().map(|id| (*id).to_owned()),
            Link::Http { http, .. } => {
                let path = format!("/v1/ws/{}/ack", self.place.network);
                http.post(&path, &self.session, &json!({ "ids": ids })).await.data();
            }
            Link::Grpc { .. } => {
                let more = self.poll_grpc(0, ids.iter().map(|id| (*id).to_owned()).collect()).await?;
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
