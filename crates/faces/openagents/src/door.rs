//! The door every request passes. Host and Origin are checked here on every path, and the busiest operation, sending
//! events, goes straight to its handler: the layers of the router would cost more than the event.
//!
//! Not here: what the operations do (`ops` has the table).

use crate::app::{App, FaceConfig};
use crate::error::Refusal;
use crate::events;
use crate::proxy;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use hyper::body::Incoming;
use rialto_model::{ErrorCode, Fault, limits};
use std::convert::Infallible;
use std::future::{Future, ready};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use tower::Service as _;

/// Serves all requests of a listener. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Door {
    app: Arc<App>,
    router: Router,
    /// Who is at the other end of the connection.
    peer: Option<IpAddr>,
}

/// An answer on its way.
type Answer = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

impl Door {
    /// The door of a node.
    pub fn new(app: App) -> Door {
        Door { router: crate::ops::router(app.clone()), app: Arc::new(app), peer: None }
    }

    /// The same door for one connection.
    pub fn for_peer(&self, peer: IpAddr) -> Door {
        Door { peer: Some(peer), ..self.clone() }
    }
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
        if events::is_plain_post(&request) {
            let answer = events::post_plain(self.app.clone(), request);
            return Box::pin(answer.map(move |answer| Ok(marked(answer.into_response(), cors))));
        }
        request.extensions_mut().insert(client);
        let mut router = self.router.clone();
        Box::pin(async move { Ok(marked(in_our_words(router.call(request.map(Body::new)).await?), cors)) })
    }
}

/// DNS rebinding: a Host or Origin that is not ours is refused before anything is looked at. Gives the origin to be
/// named in the answer, if it is one of the configured ones.
fn admit(config: &FaceConfig, request: &mut Request<Incoming>) -> Result<Option<HeaderValue>, Refusal> {
    let headers = request.headers();
    let named = headers.get(header::HOST);
    let host = request.uri().authority().map(|a| a.as_str()).or_else(|| named.and_then(|h| h.to_str().ok()));
    let refuse = |what: String| Refusal::from(Fault::new(ErrorCode::OriginForbidden, what));
    // A proxy may say which host it was asked for besides the one it asks for.
    let both = [host, named.map(|h| h.to_str().unwrap_or("invalid"))];
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

/// The refusal of a body that is too large.
pub(crate) fn too_large() -> Refusal {
    Fault::new(ErrorCode::TooLarge, format!("a body is at most {} bytes", limits::BATCH_BYTES_MAX)).into()
}

/// The name without its port.
fn host_name(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').map_or(host, |(name, _)| name);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

fn is_loopback(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn host_allowed(config: &FaceConfig, host: &str) -> bool {
    let name = host_name(host);
    let listen = host_name(&config.listen);
    let public = config
        .public_url
        .as_deref()
        .and_then(|u| u.split_once("://"))
        .map(|(_, rest)| rest.split('/').next().unwrap_or(rest));
    is_loopback(name)
        || name == listen
        || public.is_some_and(|p| host_name(p).eq_ignore_ascii_case(name))
        || config.allowed_hosts.iter().any(|h| h.eq_ignore_ascii_case(name) || h.eq_ignore_ascii_case(host))
}

fn origin_allowed(config: &FaceConfig, origin: &str, host: Option<&str>) -> bool {
    if config.allowed_origins.iter().any(|a| a == origin) {
        return true;
    }
    let Some((_, rest)) = origin.split_once("://") else { return false };
    // One's own pages: same host, or both on loopback.
    host.is_some_and(|h| h.eq_ignore_ascii_case(rest))
        || config.public_url.as_deref() == Some(origin)
        || is_loopback(host_name(rest)) && host.is_some_and(|h| is_loopback(host_name(h)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_lose_their_ports() {
        assert_eq!(host_name("localhost:8700"), "localhost");
        assert_eq!(host_name("[::1]:8700"), "::1");
        assert_eq!(host_name("example.org"), "example.org");
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
