//! Where a node is: its base URL, and how calls and streams are addressed under it.

use crate::error::ClientError;

/// The base URL of a node, optionally with the network that the URL itself named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    tls: bool,
    authority: String,
    prefix: String,
    network: Option<String>,
}

impl Endpoint {
    /// Reads `http(s)://host[:port][/prefix]`, or a network's own endpoint as its profile lists it:
    /// `http(s)://…/v1/ws/{network}` and `ws(s)://…/ws/{network}`.
    pub fn parse(url: &str) -> Result<Endpoint, ClientError> {
        let bad = |reason| ClientError::BadUrl { url: shown(url), reason };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("it must begin with http:// or https://"))?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" | "ws" => false,
            "https" | "wss" => true,
            _ => return Err(bad("only http, https, ws and wss are spoken here")),
        };
        if rest.contains(['?', '#']) || rest.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(bad("query, fragment and white space are not allowed"));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err(bad("give the token by RIALTO_TOKEN, not inside the URL"));
        }
        if authority.is_empty() || authority.parse::<hyper::http::uri::Authority>().is_err() {
            return Err(bad("the host is missing or malformed"));
        }
        let (prefix, network) = split_network(path.trim_end_matches('/'));
        Ok(Endpoint {
            tls,
            authority: authority.to_owned(),
            prefix: prefix.to_owned(),
            network: network.map(str::to_owned),
        })
    }

    /// The network named by the URL itself.
    pub fn network(&self) -> Option<&str> {
        self.network.as_deref()
    }

    /// Whether the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// The host, without its port.
    pub fn host(&self) -> &str {
        let port = self.authority.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        port.map_or(self.authority.as_str(), |(host, _)| host)
    }

    /// Whether both are the same host and port, reached the same way.
    pub fn same_host(&self, other: &Endpoint) -> bool {
        self.tls == other.tls && self.authority.eq_ignore_ascii_case(&other.authority)
    }

    /// Whether the host is this machine.
    pub fn is_loopback(&self) -> bool {
        let host = self.host().trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// The base URL, without a trailing slash.
    pub fn base(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.slashed_prefix())
    }

    /// The WebSocket of a network.
    pub fn websocket(&self, network: &str) -> String {
        let scheme = if self.tls { "wss" } else { "ws" };
        let network = encode(network);
        format!("{scheme}://{}{}/ws/{network}", self.authority, self.slashed_prefix())
    }

    /// A call of a network (`/v1/ws/{network}/{path}`), or of the node's default network (`/v1/{path}`).
    pub fn call(&self, network: Option<&str>, path: &str) -> String {
        match network.or(self.network()) {
            Some(network) => format!("{}/v1/ws/{}/{path}", self.base(), encode(network)),
            None => self.node(path),
        }
    }

    /// A call of the node itself: `/v1/{path}`.
    pub fn node(&self, path: &str) -> String {
        format!("{}/v1/{path}", self.base())
    }

    fn slashed_prefix(&self) -> String {
        if self.prefix.is_empty() { String::new() } else { format!("/{}", self.prefix) }
    }
}

/// A URL as it may be shown: without what may be a secret in it.
fn shown(url: &str) -> String {
    let plain = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = plain.split_once("://").unwrap_or(("", plain));
    let start = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    match rest.rsplit_once('@') {
        Some((_, after)) => format!("{start}…@{after}"),
        None => plain.to_owned(),
    }
}

/// Takes `[v1/]ws/{network}` off the end of a path.
fn split_network(path: &str) -> (&str, Option<&str>) {
    let Some((before, network)) = path.rsplit_once('/') else {
        return (path, None);
    };
    let whole = |suffix: &str| -> Option<&str> {
        let head = before.strip_suffix(suffix)?;
        (head.is_empty() || head.ends_with('/')).then(|| head.trim_end_matches('/'))
    };
    match whole("v1/ws").or_else(|| whole("ws")) {
        Some(prefix) => (prefix, Some(network)),
        None => (path, None),
    }
}

/// Percent-encodes one path segment or query value: only unreserved characters stay.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_what_they_name() {
        let cases = [
            ("http://127.0.0.1:8700", "http://127.0.0.1:8700", None),
            ("http://127.0.0.1:8700/", "http://127.0.0.1:8700", None),
            ("HTTPS://node.example/rialto/", "https://node.example/rialto", None),
            ("https://node.example/v1/ws/a1b2", "https://node.example", Some("a1b2")),
            ("wss://node.example/x/ws/a1b2", "https://node.example/x", Some("a1b2")),
            ("http://[::1]:8700/ws/main", "http://[::1]:8700", Some("main")),
            ("http://node/laws/x", "http://node/laws/x", None),
        ];
        for (url, base, network) in cases {
            let endpoint = Endpoint::parse(url).unwrap();
            assert_eq!((endpoint.base().as_str(), endpoint.network()), (base, network), "{url}");
        }
    }

    #[test]
    fn calls_go_under_the_network_when_there_is_one() {
        let node = Endpoint::parse("https://n.example/p").unwrap();
        assert_eq!(node.call(None, "events"), "https://n.example/p/v1/events");
        assert_eq!(node.call(Some("my net"), "events"), "https://n.example/p/v1/ws/my%20net/events");
        assert_eq!(node.websocket("a1"), "wss://n.example/p/ws/a1");
    }

    #[test]
    fn unusable_urls_are_refused() {
        for url in ["", "node:8700", "ftp://x", "http://", "http://u:p@h", "http://h?x=1", "http://h /x"] {
            assert!(matches!(Endpoint::parse(url), Err(ClientError::BadUrl { .. })), "{url}");
        }
    }

    #[test]
    fn what_may_be_a_secret_is_not_repeated() {
        for url in ["http://u:hush@h", "u:hush@h", "ftp://x?token=hush", "http://a@b:hush@c/d", "http://h?x=hush"] {
            let told = Endpoint::parse(url).unwrap_err();
            assert!(!format!("{told} {told:?}").contains("hush"), "{told}");
        }
    }

    #[test]
    fn loopback_is_recognised() {
        let here = |url| Endpoint::parse(url).unwrap().is_loopback();
        assert!(here("http://127.0.0.1:1") && here("http://[::1]:1") && here("http://localhost"));
        assert!(!here("http://10.0.0.1:1") && !here("http://localhost.example"));
    }
}
