//! Which hosts and origins may ask: names that are not ours are refused before anything is looked at (DNS rebinding), and
//! pages of the allowed origins may read the answers (CORS).

use crate::answer::Refusal;
use crate::state::ListenerSettings;
use axum::http::{HeaderValue, Method, Request, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use rialto_model::{ErrorCode, Fault};

/// DNS rebinding: a Host or Origin that is not ours is refused before anything is looked at. Gives the origin to be
/// named in the answer, if it is one of the configured ones.
pub fn admit<B>(config: &ListenerSettings, request: &mut Request<B>) -> Result<Option<HeaderValue>, Refusal> {
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
    let named_or_near = |text: &str| {
        let near = || is_local_origin(text) && listens_here(config) && host.is_some_and(is_local);
        config.allowed_origins.iter().any(|allowed| allowed == text) || near()
    };
    let cors = origin.filter(|_| origin_text.is_some_and(named_or_near)).cloned();
    // HTTP/2 says the host elsewhere; handlers look in one place.
    if named.is_none()
        && let Some(host) = host.and_then(|h| h.parse().ok())
    {
        request.headers_mut().insert(header::HOST, host);
    }
    Ok(cors)
}

pub fn is_preflight<B>(request: &Request<B>) -> bool {
    request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Names the origin that may read the answer.
pub fn marked(mut response: Response, cors: Option<HeaderValue>) -> Response {
    if let Some(origin) = cors {
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        response.headers_mut().append(header::VARY, HeaderValue::from_static("origin"));
    }
    response
}

/// Request headers that pages of allowed origins may send, whatever the protocol.
const REQUEST_HEADERS: [&str; 7] = [
    "authorization",
    "content-type",
    "last-event-id",
    "traceparent",
    "tracestate",
    "x-session-id",
    "x-workspace-token",
];

/// The request headers that pages of allowed origins may send, as a preflight is told: those of every protocol, and `own`.
pub fn request_headers<'h>(own: impl Iterator<Item = &'h str>) -> String {
    let mut all: Vec<&str> = own.chain(REQUEST_HEADERS).collect();
    all.sort_unstable();
    all.dedup();
    all.join(", ")
}

/// The answer to a preflight: what a page of an allowed origin may send.
pub fn preflight_answer(request_headers: &str) -> Response {
    const METHODS: &str = "GET, POST, PUT, PATCH, DELETE";
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, request_headers),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
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

/// Whether a host and its port are this machine.
fn is_local(text: &str) -> bool {
    Host::parse(text).is_some_and(|host| is_loopback(host.name))
}

/// Whether a page comes from this machine.
fn is_local_origin(origin: &str) -> bool {
    origin.split_once("://").is_some_and(|(_, rest)| is_local(rest))
}

/// Whether nobody but this machine reaches the listener by itself.
fn listens_here(config: &ListenerSettings) -> bool {
    config.listen.parse::<std::net::SocketAddr>().is_ok_and(|at| at.ip().to_canonical().is_loopback())
}

fn host_allowed(config: &ListenerSettings, text: &str) -> bool {
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

fn origin_allowed(config: &ListenerSettings, origin: &str, host: Option<&str>) -> bool {
    if config.allowed_origins.iter().any(|a| a == origin) {
        return true;
    }
    let Some((_, rest)) = origin.split_once("://") else { return false };
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

    #[test]
    fn headers_of_a_protocol_join_those_of_all() {
        let all = request_headers(["x-network", "accept"].into_iter());
        assert!(all.starts_with("accept, authorization, ") && all.contains(", x-network, "), "{all}");
    }

    fn settings(origins: &[&str], hosts: &[&str]) -> ListenerSettings {
        ListenerSettings {
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
    fn pages_of_this_machine_may_read_a_listener_of_this_machine() {
        let answered = |listen: &str, host: &str, origin: &str| {
            let config = ListenerSettings { listen: listen.to_owned(), ..settings(&["https://ui.example"], &[]) };
            let mut request = Request::builder().header("host", host).header("origin", origin).body(()).unwrap();
            admit(&config, &mut request).map(|cors| cors.is_some()).ok()
        };
        assert_eq!(answered("127.0.0.1:8700", "127.0.0.1:8700", "http://localhost:3000"), Some(true));
        assert_eq!(answered("127.0.0.1:8700", "localhost:8700", "https://ui.example"), Some(true));
        // Reached from elsewhere, a page of this machine may call, as before, and not read.
        assert_eq!(answered("10.0.0.7:8700", "127.0.0.1:8700", "http://localhost:3000"), Some(false));
        assert_eq!(answered("127.0.0.1:8700", "hub.example", "http://localhost:3000"), None);
        assert_eq!(answered("127.0.0.1:8700", "127.0.0.1:8700", "http://localhost.evil.example"), None);
    }

    #[test]
    fn hosts_and_origins() {
        let config = settings(&["https://ui.example"], &["node.lan", "other.lan:99"]);
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
