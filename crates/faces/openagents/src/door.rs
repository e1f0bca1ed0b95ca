//! The door every request passes. Host and Origin are checked here on every path, and the busiest operation, sending
//! events, goes straight to its handler: the layers of the router would cost more than the event.
//!
//! Not here: what the operations do (`ops` has the table).

use crate::app::{App, FaceConfig};
use crate::auth::{Call, CallRequest};
use crate::events;
use axum::Router;
use axum::body::Body;
use axum::extract::Query;
use axum::http::{HeaderValue, Method, Request, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use hyper::body::{Body as _, Incoming};
use rialto_carrier::answer::too_large;
use rialto_carrier::body::{Arriving, Bodies, Payer, Unread, Use};
use rialto_carrier::proxy::{self, Client};
use rialto_carrier::standing::{Standing, Stranger};
use rialto_carrier::unread::UnreadAnswers;
use rialto_carrier::{Params, Refusal, credentials};
use rialto_model::{ErrorCode, Fault, limits};
use rialto_node::Caller;
use std::collections::HashSet;
use std::convert::Infallible;
use std::future::{Future, ready};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use tower::Service as _;

/// Sessions that are remembered as proved.
const PROVED_MAX: usize = 65_536;

/// Serves all requests of a listener. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Door {
    app: Arc<App>,
    router: Router,
    /// Who is at the other end of the connection.
    peer: Option<IpAddr>,
    standing: Option<Standing>,
    bodies: Arc<Bodies>,
    proved: Arc<Proved>,
    /// What the connection's answers are charged to.
    unread: Arc<UnreadAnswers>,
}

/// An answer on its way.
type Answer = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

impl Door {
    /// The door of a node.
    pub fn new(app: App) -> Door {
        let unread = Arc::new(UnreadAnswers::new(app.node.accounts().clone(), None));
        Door {
            router: crate::ops::router(app.clone()),
            app: Arc::new(app),
            peer: None,
            standing: None,
            bodies: Arc::default(),
            proved: Arc::default(),
            unread,
        }
    }

    /// The same door for one connection.
    pub fn for_peer(&self, peer: IpAddr, standing: Standing) -> Door {
        let unread = Arc::new(UnreadAnswers::new(self.app.node.accounts().clone(), Some(standing.clone())));
        Door { peer: Some(peer), standing: Some(standing), unread, ..self.clone() }
    }

    /// The hash of the credential a request shows, if somebody here has given it out.
    fn holder(&self, request: &Request<Incoming>) -> Option<[u8; 32]> {
        let headers = request.headers();
        if let (Some(standing), Some(shown)) = (&self.standing, credentials::bearer_header(headers))
            && let Some(hash) = standing.holder(shown)
        {
            return Some(hash);
        }
        let good = |hash: &[u8; 32]| self.app.node.knows(hash) || self.proved.contains(hash);
        let (hash, shown) = credentials::shown(headers, request.uri(), good)?;
        if let Some(standing) = &self.standing {
            standing.prove_holder(shown, hash);
        }
        Some(hash)
    }

    /// The session a request shows, if it is one that has to be asked for: its network knows it, and is asked once.
    fn session_to_ask(&self, request: &Request<Incoming>) -> Option<Call> {
        let headers = request.headers();
        credentials::shown(headers, request.uri(), |_| true)?;
        let Query(params) = Query::<Params>::try_from_uri(request.uri()).ok()?;
        CallRequest::new(&self.app, headers).params(&params).path(scope(request)).query_token().call().ok()
    }

    /// Asks a network whether it knows the session of a call; gives the hash if it does.
    async fn ask_session(&self, call: Call) -> Option<[u8; 32]> {
        // Only what is shown counts here, whatever name comes with it.
        let caller = Caller { bearer: call.caller.bearer, session: call.caller.session, ..Caller::default() };
        let hash = caller.session.or(caller.bearer)?;
        call.network.me(&Arc::new(caller)).await.ok()?;
        self.proved.insert(hash);
        if let Some(standing) = &self.standing {
            standing.prove();
        }
        Some(hash)
    }

    /// Decides before a body is read who pays for it, and whether it is read at all.
    fn payer(&self, request: &Request<Incoming>, holder: Option<[u8; 32]>, purpose: Use) -> Result<Payer, Unread> {
        let size = request.body().size_hint();
        let declared = size.exact().unwrap_or(0);
        if purpose == Use::Whole && declared > limits::BATCH_BYTES_MAX as u64 {
            return Err(Unread::TooLarge);
        }
        if let Some(hash) = holder {
            return Ok(Payer::Holder(hash));
        }
        // Where a credential is not needed nobody has one: all who come share what one of them would have.
        if !request.body().is_end_stream() && self.is_open(request) {
            return Ok(Payer::Holder([0; 32]));
        }
        if declared > limits::UNPROVED_BODY_BYTES_MAX as u64 {
            return Err(Unread::NoCredential);
        }
        Ok(Payer::Stranger(Stranger::new(self.standing.clone())))
    }

    /// Whether a request is for a network that admits who shows nothing.
    fn is_open(&self, request: &Request<Incoming>) -> bool {
        let network = match scope(request) {
            Some(name) => self.app.node.network(name),
            None => self.app.node.default_network(),
        };
        network.is_some_and(|network| network.is_open())
    }
}

/// The network a path is below.
fn scope(request: &Request<Incoming>) -> Option<&str> {
    let path = request.uri().path();
    path.strip_prefix("/v1/ws/").or_else(|| path.strip_prefix("/ws/"))?.split('/').next()
}

/// Sessions that their networks have vouched for, by hash: asked for once each.
#[derive(Debug, Default)]
struct Proved(RwLock<HashSet<[u8; 32]>>);

impl Proved {
    fn contains(&self, hash: &[u8; 32]) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(hash)
    }

    /// Remembers one. When there are too many all are forgotten, and asked for again.
    fn insert(&self, hash: [u8; 32]) {
        let mut proved = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if proved.len() >= PROVED_MAX {
            proved.clear();
        }
        proved.insert(hash);
    }
}

/// Whether the body of a request is a conversation of its own, goes to the disk, or is kept until it is whole.
fn purpose(request: &Request<Incoming>) -> Use {
    let path = request.uri().path();
    if is_grpc(request) {
        return if path.ends_with("/Connect") { Use::Conversation } else { Use::Whole };
    }
    if crate::ops::takes_content(request.method(), path) { Use::Pieces } else { Use::Whole }
}

fn is_grpc(request: &Request<Incoming>) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

impl hyper::service::Service<Request<Incoming>> for Door {
    type Response = Response;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, mut request: Request<Incoming>) -> Answer {
        let client = proxy::resolve(&self.app.config.trusted_proxies, self.peer, request.headers_mut());
        let cors = match admit(&self.app.config, &mut request) {
            Err(refused) => return Box::pin(ready(Ok(refused.into_response()))),
            Ok(cors) => cors,
        };
        if cors.is_some() && is_preflight(&request) {
            return Box::pin(ready(Ok(marked(preflight_answer(), cors))));
        }
        let proved = self.standing.as_ref().is_some_and(Standing::is_proved);
        if request.body().is_end_stream() && proved {
            return self.route(request, Payer::Nobody, client, cors);
        }
        let holder = self.holder(&request);
        match if holder.is_none() { self.session_to_ask(&request) } else { None } {
            None => self.pass(request, holder, client, cors),
            Some(call) => {
                let door = self.clone();
                Box::pin(async move {
                    let holder = door.ask_session(call).await;
                    door.pass(request, holder, client, cors).await
                })
            }
        }
    }
}

impl Door {
    /// Lets a request pass, now that it is known whose it is.
    fn pass(
        &self,
        request: Request<Incoming>,
        holder: Option<[u8; 32]>,
        client: Client,
        cors: Option<HeaderValue>,
    ) -> Answer {
        match self.payer(&request, holder, purpose(&request)) {
            Err(why) => Box::pin(ready(Ok(marked(why.answer(), cors)))),
            Ok(payer) => self.route(request, payer, client, cors),
        }
    }

    fn route(&self, mut request: Request<Incoming>, payer: Payer, client: Client, cors: Option<HeaderValue>) -> Answer {
        let purpose = purpose(&request);
        if events::is_plain_post(&request) {
            let request = request.map(|body| Arriving::new(body, purpose, payer, self.bodies.clone()));
            let answer = events::post_plain(self.app.clone(), request);
            return Box::pin(answer.map(move |answer| Ok(marked(answer.into_response(), cors))));
        }
        request.extensions_mut().insert(client);
        if let Payer::Stranger(stranger) = &payer {
            request.extensions_mut().insert(stranger.clone());
        }
        let (mut router, unread, asked) = (self.router.clone(), self.unread.clone(), self.unread.asked(&request));
        if request.body().is_end_stream() {
            return Box::pin(async move {
                let answer = async {
                    let Ok(answer) = router.call(request.map(Body::new)).await;
                    in_our_words(answer)
                };
                Ok(marked(unread.answered(asked, answer).await, cors))
            });
        }
        let is_grpc = is_grpc(&request);
        if let (true, Some(standing)) = (is_grpc, &self.standing) {
            request.extensions_mut().insert(standing.clone());
        }
        let (head, body) = request.into_parts();
        let (body, why) = Arriving::new(body, purpose, payer, self.bodies.clone()).told();
        Box::pin(async move {
            let answer = async {
                let Ok(answer) = router.call(Request::from_parts(head, body)).await;
                let answer = in_our_words(answer);
                // What a handler makes of a body that it could not read says less than why it could not.
                let why = why.get().filter(|_| !is_grpc && !answer.status().is_success());
                why.map_or(answer, |why| why.answer())
            };
            Ok(marked(unread.answered(asked, answer).await, cors))
        })
    }
}

/// DNS rebinding: a Host or Origin that is not ours is refused before anything is looked at. Gives the origin to be
/// named in the answer, if it is one of the configured ones.
fn admit(config: &FaceConfig, request: &mut Request<Incoming>) -> Result<Option<HeaderValue>, Refusal> {
    let headers = request.headers();
    let named = headers.get(header::HOST);
    let host = request.uri().authority().map(|a| a.as_str()).or_else(|| named.and_then(|h| h.to_str().ok()));
    // RFC 9112, section 3.2: HTTP/1.1 names its host, and once. HTTP/2 names it elsewhere.
    let twice = headers.get_all(header::HOST).into_iter().nth(1).is_some();
    let missing = match request.version() {
        Version::HTTP_11 => named.is_none(),
        version => version > Version::HTTP_11 && host.is_none(),
    };
    if twice || missing {
        let what = if twice { "the request has more than one Host" } else { "the request names no Host" };
        return Err(Fault::new(ErrorCode::InvalidArgument, what).field("Host").into());
    }
    let refuse = |what: String| Refusal::from(Fault::new(ErrorCode::OriginForbidden, what));
    // A proxy may say which host it was asked for besides the one it asks for.
    let both = [host, named.map(|h| h.to_str().unwrap_or("?"))];
    if let Some(host) = both.into_iter().flatten().find(|host| !host_allowed(config, host)) {
        return Err(refuse(format!("host {host:?} is not this node's; set server.allowed_hosts")));
    }
    let origin = headers.get(header::ORIGIN);
    let origin_text = origin.map(|o| o.to_str().unwrap_or("invalid"));
    if let Some(origin) = origin_text.filter(|origin| !origin_allowed(config, origin, host)) {
        return Err(refuse(format!("origin {origin:?} is not allowed; set server.allowed_origins")));
    }
    let cors = origin.filter(|_| config.allowed_origins.iter().any(|a| Some(a.as_str()) == origin_text)).cloned();
    // HTTP/2 says the host elsewhere; handlers look in one place.
    if named.is_none()
        && let Some(host) = host.and_then(|h| h.parse().ok())
    {
        request.headers_mut().insert(header::HOST, host);
    }
    Ok(cors)
}

fn is_preflight(request: &Request<Incoming>) -> bool {
    request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Names the origin that may read the answer.
fn marked(mut response: Response, cors: Option<HeaderValue>) -> Response {
    if let Some(origin) = cors {
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        response.headers_mut().append(header::VARY, HeaderValue::from_static("origin"));
    }
    response
}

/// What a page of an allowed origin may send.
fn preflight_answer() -> Response {
    const METHODS: &str = "GET, POST, PUT, PATCH, DELETE";
    const HEADERS: &str = "authorization, content-type, idempotency-key, last-event-id, traceparent, tracestate, x-agent-name, x-network, x-session-id, x-workspace-token";
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Refusals of the web framework (a body too large, a malformed query, no upgrade) in the one form of all errors.
fn in_our_words(response: Response) -> Response {
    let is = |name: &str| {
        response.headers().get(header::CONTENT_TYPE).is_some_and(|v| v.as_bytes().starts_with(name.as_bytes()))
    };
    let plain = is("text/plain") || !response.headers().contains_key(header::CONTENT_TYPE);
    let code = match response.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ErrorCode::TooLarge,
        StatusCode::UPGRADE_REQUIRED | StatusCode::METHOD_NOT_ALLOWED => ErrorCode::Unsupported,
        status if status.is_client_error() => ErrorCode::InvalidArgument,
        _ => return response,
    };
    if !plain {
        return response;
    }
    let what = match response.status() {
        StatusCode::PAYLOAD_TOO_LARGE => return too_large().into_response(),
        _ => "the request is malformed".to_owned(),
    };
    let status = response.status();
    let mut ours = Refusal::from(Fault::new(code, what)).into_response();
    if code == ErrorCode::Unsupported {
        *ours.status_mut() = status;
    }
    ours
}

/// A host and its port, as RFC 3986 has them in a URL: a name, an IPv4 address or an IPv6 one in brackets, and a number. Nothing else is
/// a host, whatever it begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Host<'h> {
    /// Without brackets.
    name: &'h str,
    port: Option<u16>,
}

impl<'h> Host<'h> {
    fn parse(text: &'h str) -> Option<Host<'h>> {
        let (name, port) = if let Some(rest) = text.strip_prefix('[') {
            let (name, behind) = rest.split_once(']')?;
            name.parse::<std::net::Ipv6Addr>().ok()?;
            (name, if behind.is_empty() { None } else { Some(behind.strip_prefix(':')?) })
        } else {
            match text.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (text, None),
            }
        };
        let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
        if name.is_empty() || !text.starts_with('[') && !name.bytes().all(is_name) {
            return None;
        }
        // A colon without a number says nothing.
        let port = match port.filter(|port| !port.is_empty()) {
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => Some(digits.parse().ok()?),
            Some(_) => return None,
            None => None,
        };
        Some(Host { name, port })
    }

    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

fn is_loopback(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn host_allowed(config: &FaceConfig, text: &str) -> bool {
    let Some(host) = Host::parse(text) else { return false };
    let public = config.public_url.as_deref().and_then(|u| u.split_once("://"));
    let public = public.map(|(_, rest)| rest.split('/').next().unwrap_or(rest));
    let is_own = |own: &str| Host::parse(own).is_some_and(|own| host.is(own.name));
    let is_allowed = |allowed: &str| match Host::parse(allowed) {
        Some(Host { name, port: None }) => host.is(name),
        Some(Host { name, port }) => host.is(name) && host.port == port,
        None => host.is(allowed),
    };
    is_loopback(host.name)
        || is_own(&config.listen)
        || public.is_some_and(is_own)
        || config.allowed_hosts.iter().any(|allowed| is_allowed(allowed))
}

fn origin_allowed(config: &FaceConfig, origin: &str, host: Option<&str>) -> bool {
    if config.allowed_origins.iter().any(|a| a == origin) {
        return true;
    }
    let Some((_, rest)) = origin.split_once("://") else { return false };
    let is_local = |text: &str| Host::parse(text).is_some_and(|host| is_loopback(host.name));
    // One's own pages: same host, or both on loopback.
    host.is_some_and(|h| h.eq_ignore_ascii_case(rest))
        || config.public_url.as_deref() == Some(origin)
        || is_local(rest) && host.is_some_and(is_local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_and_a_number() {
        for (text, name, port) in [
            ("localhost:8700", "localhost", Some(8700)),
            ("[::1]:8700", "::1", Some(8700)),
            ("[::1]", "::1", None),
            ("example.org", "example.org", None),
            ("example.org:", "example.org", None),
        ] {
            assert_eq!(Host::parse(text), Some(Host { name, port }), "{text}");
        }
        for bad in [
            "[::1].evil.example",
            "[::1]evil:80",
            "[localhost]",
            "[::1",
            "::1",
            "localhost:evil.example",
            "localhost:80:80",
            "localhost:65536",
            "localhost:+80",
            "localhost@evil.example",
            "evil.example/localhost",
            "l\u{f6}calhost",
            "local host",
            ":80",
            "",
        ] {
            assert_eq!(Host::parse(bad), None, "{bad}");
        }
        assert!(is_loopback("127.0.0.1") && is_loopback("::1") && !is_loopback("127.0.0.1.evil.example"));
    }

    fn app(origins: &[&str], hosts: &[&str]) -> FaceConfig {
        FaceConfig {
            public_url: Some("https://Hub.example/base".to_owned()),
            allowed_origins: origins.iter().map(|o| (*o).to_owned()).collect(),
            allowed_hosts: hosts.iter().map(|h| (*h).to_owned()).collect(),
            open_creation: None,
            trusted_proxies: Vec::new(),
            tls: false,
            listen: "10.0.0.7:8700".to_owned(),
        }
    }

    #[test]
    fn hosts_and_origins() {
        let config = app(&["https://ui.example"], &["node.lan", "other.lan:99"]);
        for host in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:8700",
            "127.9.9.9",
            "[::1]:8700",
            "10.0.0.7:1",
            "hub.EXAMPLE:443",
            "node.lan:7",
            "other.lan:99",
        ] {
            assert!(host_allowed(&config, host), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:8700",
            "[2001:db8::1]",
            "other.lan:98",
            "::1",
            "",
        ] {
            assert!(!host_allowed(&config, host), "{host}");
        }
        let own = Some("hub.example");
        for origin in ["https://ui.example", "https://hub.example", "http://HUB.example"] {
            assert!(origin_allowed(&config, origin, own), "{origin}");
        }
        for origin in ["null", "https://ui.example:8443", "https://evil.example", "http://localhost:3000", ""] {
            assert!(!origin_allowed(&config, origin, own), "{origin}");
        }
        assert!(origin_allowed(&config, "http://[::1]:3000", Some("127.0.0.1:8700")));
        assert!(!origin_allowed(&config, "https://hub.example", None));
    }
}
