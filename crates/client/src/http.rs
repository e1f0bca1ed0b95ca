//! Single calls over HTTP: the wrapper, the errors, and the calls every member may make (sheet section 12.5).

use crate::dialer::Dialer;
use crate::endpoint::{Endpoint, encode};
use crate::error::{ApiError, ClientError};
use crate::event::{Draft, Event, Page};
use crate::join::{JoinOptions, Joined};
use crate::query::{EventQuery, query_string};
use crate::secret::Secret;
use bytes::{Bytes, BytesMut};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use rialto_outbound::{Outbound, OutboundError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::time::Duration;

/// A JSON answer is at most this long; streams are not counted.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;
/// The same where we follow what others said of themselves.
const GUARDED_ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A line of a streamed answer is at most this long.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// A request's body: at once, or as it is read from somewhere.
pub(crate) type Payload = UnsyncBoxBody<Bytes, std::io::Error>;

/// A node's HTTP door. Cloning shares the connections.
#[derive(Debug, Clone)]
pub struct Http {
    client: Client<Dialer, Payload>,
    answer_bytes_max: usize,
    endpoint: Endpoint,
    network: Option<String>,
    bearer: Option<Secret>,
    /// As whom to speak, where the credential speaks for more than one.
    agent: Option<String>,
}

/// The answer to one sent event: the event as committed, and what the node says about it.
#[derive(Debug, Clone)]
pub struct Emitted {
    /// The event's id.
    pub id: String,
    /// The event after mods; absent for what is answered without being kept.
    pub event: Option<Event>,
    /// Its position; absent for what is never stored.
    pub seq: Option<u64>,
    /// Whether the node had it already.
    pub duplicate: bool,
    /// What the promise is worth.
    pub durability: Option<String>,
    /// The result of a request to `core`.
    pub result: Option<Value>,
    /// The first event in reply, when we waited for one.
    pub response: Option<Event>,
    /// The whole answer as it came.
    pub raw: Box<RawValue>,
}

/// One line of the answer to several sent events.
#[derive(Debug, Clone, Deserialize)]
pub struct BatchResult {
    /// The event's id.
    #[serde(default)]
    pub id: Option<String>,
    /// Whether it was accepted.
    pub ok: bool,
    /// Why not.
    #[serde(default)]
    pub error: Option<Value>,
}

/// Which deliveries to ack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AckSelection {
    /// Exactly these.
    Ids(Vec<String>),
    /// All of mine up to and including this one.
    UpTo(String),
}

#[derive(Deserialize)]
struct Wrapper<T> {
    data: T,
}

#[derive(Deserialize)]
struct EmittedMore {
    id: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    seq: Option<u64>,
    #[serde(default)]
    duplicate: bool,
    durability: Option<String>,
    result: Option<Value>,
    response: Option<Event>,
}

impl Emitted {
    fn read(raw: Box<RawValue>) -> Result<Emitted, ClientError> {
        let more: EmittedMore = from_json(raw.get())?;
        let event = if more.kind.is_some() { Some(from_json(raw.get())?) } else { None };
        Ok(Emitted {
            id: more.id,
            event,
            seq: more.seq,
            duplicate: more.duplicate,
            durability: more.durability,
            result: more.result,
            response: more.response,
            raw,
        })
    }
}

/// Puts the rows of one answer behind those of another.
fn append(all: &mut Value, more: &mut Value, name: &str) {
    if let (Some(Value::Array(all)), Some(Value::Array(more))) = (all.get_mut(name), more.get_mut(name)) {
        all.append(more);
    }
}

impl Http {
    /// A client of the node at `url`; nothing is connected yet.
    pub fn new(url: &str) -> Result<Http, ClientError> {
        let endpoint = Endpoint::parse(url)?;
        let dialer = Dialer::direct(&endpoint)?;
        Ok(Http::over(dialer, endpoint, ANSWER_BYTES_MAX))
    }

    /// The same through the guarded client: for a URL that somebody else named.
    pub fn guarded(url: &str, outbound: &Outbound) -> Result<Http, ClientError> {
        let endpoint = Endpoint::parse(url)?;
        outbound.target(&endpoint.base()).map_err(|error| refused(&endpoint, &error))?;
        Ok(Http::over(Dialer::Guarded(outbound.clone()), endpoint, GUARDED_ANSWER_BYTES_MAX))
    }

    fn over(dialer: Dialer, endpoint: Endpoint, answer_bytes_max: usize) -> Http {
        let client = Client::builder(TokioExecutor::new()).build(dialer);
        Http { client, answer_bytes_max, endpoint, network: None, bearer: None, agent: None }
    }

    /// The same client presenting this credential.
    pub fn with_bearer(mut self, bearer: impl Into<Secret>) -> Http {
        self.bearer = Some(bearer.into());
        self
    }

    /// The same client speaking as this member, where its credential speaks for more than one.
    pub fn with_agent(mut self, agent: Option<String>) -> Http {
        self.agent = agent;
        self
    }

    /// The same client speaking to this network (id or name) instead of the node's default one.
    pub fn with_network(mut self, network: Option<String>) -> Http {
        self.network = network;
        self
    }

    /// Where the node is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The network spoken to, if one was chosen.
    pub fn network(&self) -> Option<&str> {
        self.network.as_deref().or(self.endpoint.network())
    }

    /// The credential this client presents.
    pub fn bearer(&self) -> Option<&Secret> {
        self.bearer.as_ref()
    }

    /// `POST /v1/join`.
    pub async fn join(&self, options: &JoinOptions) -> Result<Joined, ClientError> {
        self.post("join", &options.payload()).await
    }

    /// `POST /v1/leave`; with `forget` the membership itself ends.
    pub async fn leave(&self, address: &str, forget: bool) -> Result<Value, ClientError> {
        self.post("leave", &json!({ "agent_id": address, "forget": forget })).await
    }

    /// `POST /v1/heartbeat`.
    pub async fn heartbeat(&self, address: &str) -> Result<Value, ClientError> {
        self.post("heartbeat", &json!({ "agent_id": address })).await
    }

    /// `POST /v1/events` with one event; waits up to `wait` (at most 60 s) for the first reply to it.
    pub async fn emit(&self, draft: &Draft, wait: Option<Duration>) -> Result<Emitted, ClientError> {
        let seconds = wait.map(|w| w.as_secs().clamp(1, 60));
        let path = format!("events{}", query_string([("wait", seconds.map(|s| s.to_string()))]));
        let limit = ANSWER_WAIT + Duration::from_secs(seconds.unwrap_or(0));
        let body = to_json(draft)?;
        let raw: Box<RawValue> =
            self.call(Method::POST, self.endpoint.call(self.network(), &path), Some(body), limit).await?;
        Emitted::read(raw)
    }

    /// `POST /v1/events` with one event under an `Idempotency-Key`: the same key again is the same event.
    pub async fn emit_keyed(&self, draft: &Draft, key: &str) -> Result<Emitted, ClientError> {
        let headers = [("content-type", "application/json".to_owned()), ("idempotency-key", key.to_owned())];
        let payload = Full::from(to_json(draft)?).map_err(|never| match never {}).boxed_unsync();
        let url = self.endpoint.call(self.network(), "events");
        let raw: Box<RawValue> = self.upload(Method::POST, url, payload, &headers, ANSWER_WAIT).await?;
        Emitted::read(raw)
    }

    /// `POST /v1/events` with several events: processed in order, answered one by one, not atomic.
    pub async fn emit_batch(&self, drafts: &[Draft]) -> Result<Vec<BatchResult>, ClientError> {
        #[derive(Deserialize)]
        struct Results {
            results: Vec<BatchResult>,
        }
        let answer: Results = self.post("events", &drafts).await?;
        Ok(answer.results)
    }

    /// `GET /v1/events`.
    pub async fn events(&self, query: &EventQuery) -> Result<Page, ClientError> {
        let path = format!("events{}", query.to_query());
        let limit = ANSWER_WAIT + Duration::from_secs(query.wait_s.unwrap_or(0));
        self.call(Method::GET, self.endpoint.call(self.network(), &path), None, limit).await
    }

    /// `POST /v1/ack`: how many deliveries that settled.
    pub async fn ack(&self, acked: &AckSelection) -> Result<u64, ClientError> {
        #[derive(Deserialize)]
        struct Count {
            acked: u64,
        }
        let body = match acked {
            AckSelection::Ids(ids) => json!({ "ids": ids }),
            AckSelection::UpTo(id) => json!({ "up_to": id }),
        };
        let count: Count = self.post("ack", &body).await?;
        Ok(count.acked)
    }

    /// `GET /v1/discover`: agents, channels, mods, resources, groups. Every agent; of the rest the first ones, where there are many.
    pub async fn discover(&self) -> Result<Value, ClientError> {
        let mut roster: Value = self.get("discover").await?;
        let cursor = |answer: &Value| Some(answer.get("next")?.get("agents")?.as_str()?.to_owned());
        let mut next = cursor(&roster);
        while let Some(after) = next {
            let mut more: Value = self.get(&format!("discover?include=agents&after={}", encode(&after))).await?;
            next = cursor(&more);
            append(&mut roster, &mut more, "agents");
        }
        Ok(roster)
    }

    /// `GET /v1/channels`: every channel the caller may know of, as objects, page by page.
    pub async fn channels(&self) -> Result<Value, ClientError> {
        let mut all: Value = self.get("channels").await?;
        let cursor = |answer: &Value| Some(answer.get("next")?.as_str()?.to_owned());
        let mut next = cursor(&all);
        while let Some(after) = next {
            let mut more: Value = self.get(&format!("channels?after={}", encode(&after))).await?;
            next = cursor(&more);
            append(&mut all, &mut more, "channels");
        }
        Ok(all)
    }

    /// `GET /v1/profile`: what the network says of itself to anybody.
    pub async fn profile(&self) -> Result<Value, ClientError> {
        self.get("profile").await
    }

    /// `GET /v1/events/{id}/explain`: who got an event, how far it is, and why not further.
    pub async fn explain(&self, event_id: &str) -> Result<Value, ClientError> {
        self.get(&format!("events/{}/explain", encode(event_id))).await
    }

    /// `GET /v1/me`: the caller as it sees itself.
    pub async fn me(&self) -> Result<Value, ClientError> {
        self.get("me").await
    }

    /// `PATCH /v1/me`: what the caller changes about itself.
    pub async fn change_me(&self, change: &Value) -> Result<Value, ClientError> {
        let url = self.endpoint.call(self.network(), "me");
        self.call(Method::PATCH, url, Some(to_json(change)?), ANSWER_WAIT).await
    }

    /// Any `GET` under the chosen network.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let url = self.endpoint.call(self.network(), path);
        self.call(Method::GET, url, None, ANSWER_WAIT).await
    }

    /// Any `POST` under the chosen network.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &(impl serde::Serialize + ?Sized),
    ) -> Result<T, ClientError> {
        let url = self.endpoint.call(self.network(), path);
        self.call(Method::POST, url, Some(to_json(body)?), ANSWER_WAIT).await
    }

    /// A document of this node, by its whole URL.
    pub(crate) async fn get_url(&self, url: &str) -> Result<Bytes, ClientError> {
        let read = async { self.open(Method::GET, url.to_owned(), None, &[]).await?.collect_answer().await };
        within(ANSWER_WAIT, url, read).await
    }

    pub(crate) async fn node_call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, ClientError> {
        let body = body.map(to_json).transpose()?;
        self.call(method, self.endpoint.node(path), body, ANSWER_WAIT).await
    }

    /// A call whose answer is read piece by piece. `what` is the answer's media type.
    pub(crate) async fn open(
        &self,
        method: Method,
        url: String,
        body: Option<String>,
        headers: &[(&str, String)],
    ) -> Result<Body, ClientError> {
        let response = within(ANSWER_WAIT, &url, self.request(method, &url, body, headers)).await?;
        let status = response.status().as_u16();
        let length = header(&response, "content-length").and_then(|text| text.parse().ok());
        let mut body = Body { incoming: response.into_body(), url, length, rest: BytesMut::new() };
        if (200..300).contains(&status) {
            return Ok(body);
        }
        let bytes = body.collect_answer().await?;
        Err(ApiError::from_http(status, &bytes).into())
    }

    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        url: String,
        body: Option<String>,
        limit: Duration,
    ) -> Result<T, ClientError> {
        let headers: Vec<(&str, String)> =
            body.iter().map(|_| ("content-type", "application/json".to_owned())).collect();
        let payload = Full::from(body.unwrap_or_default()).map_err(|never| match never {});
        self.upload(method, url, payload.boxed_unsync(), &headers, limit).await
    }

    /// Sends a body and reads the answer's data.
    pub(crate) async fn upload<T: DeserializeOwned>(
        &self,
        method: Method,
        url: String,
        body: Payload,
        headers: &[(&str, String)],
        limit: Duration,
    ) -> Result<T, ClientError> {
        let exchange = async {
            let response = self.send(method, &url, body, headers).await?;
            let status = response.status().as_u16();
            let bytes = collect(response.into_body(), &url, self.answer_bytes_max).await?;
            Ok((status, bytes))
        };
        let (status, bytes) = within(limit, &url, exchange).await?;
        if !(200..300).contains(&status) {
            return Err(ApiError::from_http(status, &bytes).into());
        }
        let text =
            std::str::from_utf8(&bytes).map_err(|_| ClientError::Protocol("the answer is not UTF-8".to_owned()))?;
        let wrapper: Wrapper<T> = from_json(text)?;
        Ok(wrapper.data)
    }

    async fn request(
        &self,
        method: Method,
        url: &str,
        body: Option<String>,
        headers: &[(&str, String)],
    ) -> Result<Response<Incoming>, ClientError> {
        let payload = Full::from(body.clone().unwrap_or_default()).map_err(|never| match never {}).boxed_unsync();
        let mut all: Vec<(&str, String)> = headers.to_vec();
        if body.is_some() {
            all.push(("content-type", "application/json".to_owned()));
        }
        self.send(method, url, payload, &all).await
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        body: Payload,
        headers: &[(&str, String)],
    ) -> Result<Response<Incoming>, ClientError> {
        let mut request = Request::builder()
            .method(method)
            .uri(url)
            .header("user-agent", concat!("rialto/", env!("CARGO_PKG_VERSION")));
        if let Some(bearer) = &self.bearer {
            request = request.header("authorization", format!("Bearer {}", bearer.expose()));
        }
        if let Some(agent) = &self.agent {
            request = request.header("x-agent-name", agent);
        }
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request =
            request.body(body).map_err(|e| ClientError::Protocol(format!("the request cannot be made: {e}")))?;
        self.client.request(request).await.map_err(|e| unreachable_at(&self.endpoint.base(), &e))
    }
}

/// A streamed answer.
#[derive(Debug)]
pub struct Body {
    incoming: Incoming,
    url: String,
    length: Option<u64>,
    rest: BytesMut,
}

impl Body {
    /// The announced length, if there is one.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// The next bytes; none at the end. A broken connection is an error, never a quiet end.
    /// Safe to drop at any await: nothing read is lost.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ClientError> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.split().freeze()));
        }
        self.more().await
    }

    /// The next line without its end; none at the end. Safe to drop at any await.
    pub async fn line(&mut self) -> Result<Option<String>, ClientError> {
        loop {
            if let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
                let line = self.rest.split_to(end + 1);
                return Ok(Some(text_of(&line)));
            }
            if self.rest.len() > LINE_BYTES_MAX {
                return Err(ClientError::Protocol("a line of the answer is too long".to_owned()));
            }
            match self.more().await? {
                Some(bytes) => self.rest.extend_from_slice(&bytes),
                None if self.rest.is_empty() => return Ok(None),
                None => {
                    let line = self.rest.split();
                    return Ok(Some(text_of(&line)));
                }
            }
        }
    }

    async fn more(&mut self) -> Result<Option<Bytes>, ClientError> {
        while let Some(frame) = self.incoming.frame().await {
            let frame = frame.map_err(|e| unreachable_at(&self.url, &e))?;
            if let Ok(bytes) = frame.into_data()
                && !bytes.is_empty()
            {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    async fn collect_answer(&mut self) -> Result<Bytes, ClientError> {
        let mut all = BytesMut::new();
        while let Some(bytes) = self.more().await? {
            all.extend_from_slice(&bytes);
            if all.len() > LINE_BYTES_MAX {
                break;
            }
        }
        Ok(all.freeze())
    }
}

fn text_of(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim_end_matches(['\r', '\n']).to_owned()
}

async fn collect(incoming: Incoming, url: &str, bytes_max: usize) -> Result<Bytes, ClientError> {
    match Limited::new(incoming, bytes_max).collect().await {
        Ok(all) => Ok(all.to_bytes()),
        Err(e) => Err(ClientError::Unreachable { url: url.to_owned(), reason: e.to_string() }),
    }
}

async fn within<T>(
    limit: Duration,
    url: &str,
    work: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => Err(ClientError::Timeout {
            url: url.split(['?', '#']).next().unwrap_or_default().to_owned(),
            seconds: limit.as_secs(),
        }),
    }
}

pub(crate) fn refused(endpoint: &Endpoint, error: &OutboundError) -> ClientError {
    ClientError::Unreachable { url: endpoint.base(), reason: error.to_string() }
}

/// The innermost cause says what happened (`Connection refused`); the outer ones only where.
fn unreachable_at(url: &str, error: &dyn std::error::Error) -> ClientError {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    ClientError::Unreachable {
        url: url.split(['?', '#']).next().unwrap_or_default().to_owned(),
        reason: cause.to_string(),
    }
}

fn header<'a>(response: &'a Response<Incoming>, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

fn to_json(value: &(impl serde::Serialize + ?Sized)) -> Result<String, ClientError> {
    serde_json::to_string(value).map_err(|e| ClientError::Protocol(format!("the request is not JSON: {e}")))
}

fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, ClientError> {
    serde_json::from_str(text).map_err(|e| ClientError::Protocol(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::HttpServer;
    use rialto_model::ErrorCode;

    fn ok(data: &str) -> String {
        format!(r#"{{"code":0,"message":"ok","data":{data}}}"#)
    }

    #[tokio::test]
    async fn calls_carry_bearer_network_and_body() {
        let server = HttpServer::answering(vec![(
            200,
            ok(r#"{"network_id":"n1","address":"agent:a","session_id":"S","role":"member"}"#),
        )])
        .await;
        let http = Http::new(&server.url).unwrap().with_bearer("T").with_network(Some("n1".into()));
        let joined = http.join(&JoinOptions::new("agent:a")).await.unwrap();
        assert_eq!(joined.session_id.expose(), "S");
        let request = server.requests().await.remove(0);
        assert!(request.starts_with("POST /v1/ws/n1/join HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("authorization: Bearer T\r\n"), "{request}");
        assert!(request.ends_with(r#"{"agent_id":"agent:a"}"#), "{request}");
    }

    #[tokio::test]
    async fn an_emitted_event_keeps_its_raw_answer() {
        let data = r#"{"id":"e1","type":"a.b","source":"agent:a","target":"core","payload":{"n": 1.0},"metadata":{},"timestamp":1,"network":"n","visibility":"direct","seq":4,"duplicate":true,"durability":"sync","response":null}"#;
        let server = HttpServer::answering(vec![(200, ok(data))]).await;
        let http = Http::new(&server.url).unwrap();
        let draft = Draft::new("a.b", "core", json!({}));
        let emitted = http.emit(&draft, Some(Duration::from_secs(90))).await.unwrap();
        assert_eq!((emitted.seq, emitted.duplicate), (Some(4), true));
        assert_eq!(emitted.raw.get(), data);
        assert_eq!(emitted.event.unwrap().id, emitted.id);
        let request = server.requests().await.remove(0);
        assert!(request.starts_with("POST /v1/events?wait=60 "), "{request}");
    }

    #[tokio::test]
    async fn what_is_not_kept_is_answered_by_its_id() {
        let data = r#"{"id":"e1","duplicate":false,"durability":"sync","result":{"x":1}}"#;
        let server = HttpServer::answering(vec![(200, ok(data))]).await;
        let draft = Draft::new("network.ping", "core", json!({}));
        let emitted = Http::new(&server.url).unwrap().emit(&draft, None).await.unwrap();
        assert!(emitted.event.is_none() && emitted.id == "e1" && emitted.result == Some(json!({"x": 1})));
    }

    #[tokio::test]
    async fn refusals_are_typed() {
        let body = r#"{"code":401,"message":"session_revoked: newer join","data":null,"error":{"code":"session_revoked","message":"newer join","event_id":null,"retryable":false}}"#;
        let server = HttpServer::answering(vec![(401, body.to_owned()), (200, "nonsense".to_owned())]).await;
        let http = Http::new(&server.url).unwrap();
        let error = http.heartbeat("agent:a").await.unwrap_err();
        assert!(error.is(ErrorCode::SessionRevoked), "{error}");
        assert!(matches!(http.profile().await, Err(ClientError::Protocol(_))));
    }

    #[tokio::test]
    async fn nobody_there_says_where() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let error = Http::new(&url).unwrap().profile().await.unwrap_err();
        assert!(error.to_string().starts_with(&format!("cannot reach {url}: ")), "{error}");
    }
}
