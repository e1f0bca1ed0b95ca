//! A URL as it is fetched: one strict reading, so that nobody else reads it differently.
//!
//! Browsers and libraries know many spellings of one host (`0x7f.1`, `127.1`, `2130706433`, `①②⑦.0.0.1`). Here there is
//! one: a lower-case name of ordinary labels, a dotted address of four decimal numbers, or an IPv6 address in brackets.

use rialto_model::limits::OUTBOUND_URL_BYTES_MAX;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where to connect, and what to ask there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebTarget {
    tls: bool,
    host: WebHost,
    port: u16,
    path_and_query: String,
}

/// Who is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WebHost {
    Name(String),
    Address(IpAddr),
}

/// Why a URL is not fetched, before anybody was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadUrl(pub &'static str);

/// Names that lead to one's own machine or network whatever a name server says.
const PRIVATE_SUFFIXES: [&str; 10] =
    ["localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp", "private", "home.arpa"];
/// Ports at and above 1024 where services that are not HTTP are listened for.
const SERVICE_PORTS: [u16; 28] = [
    1433, 1521, 1719, 1720, 1723, 2049, 2375, 2376, 2379, 2380, 3306, 3389, 3659, 4045, 4190, 5060, 5061, 5432, 5900,
    6000, 6379, 6566, 6667, 6697, 10080, 11211, 27017, 50000,
];

impl WebTarget {
    /// Reads a URL. What a private host may look like depends on whether private hosts are allowed.
    pub fn parse(url: &str, private_hosts: bool) -> Result<WebTarget, BadUrl> {
        if url.len() > OUTBOUND_URL_BYTES_MAX {
            return Err(BadUrl("it is longer than 2,048 bytes"));
        }
        if !url.bytes().all(|byte| byte.is_ascii_graphic() && !br#""<>\^`{|}"#.contains(&byte)) {
            return Err(BadUrl("it has characters that no URL has: percent-encode them, and write the host in ASCII"));
        }
        if url.contains('#') {
            return Err(BadUrl("a fragment is not sent to anybody: leave it out"));
        }
        let (scheme, rest) = url.split_once("://").ok_or(BadUrl("it must begin with https://"))?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" if private_hosts => false,
            "http" => return Err(BadUrl("only https is fetched, http only where private hosts are allowed")),
            _ => return Err(BadUrl("only https is fetched")),
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err(BadUrl("credentials have no place in a URL"));
        }
        let (host, port) = split_port(authority)?;
        let host = WebHost::parse(host, private_hosts)?;
        let port = match port {
            Some(text) => port_of(text, private_hosts)?,
            None if tls => 443,
            None => 80,
        };
        let path_and_query = match path.strip_prefix('?') {
            Some(query) => format!("/?{query}"),
            None if path.is_empty() => "/".to_owned(),
            None => path.to_owned(),
        };
        check_escapes(&path_and_query)?;
        Ok(WebTarget { tls, host, port, path_and_query })
    }

    /// Whether the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The host as it is named in a certificate and looked up: no brackets, no port.
    pub fn host(&self) -> String {
        match &self.host {
            WebHost::Name(name) => name.clone(),
            WebHost::Address(address) => address.to_string(),
        }
    }

    /// What stands in `Host`.
    pub fn authority(&self) -> String {
        let host = match &self.host {
            WebHost::Name(name) => name.clone(),
            WebHost::Address(IpAddr::V4(address)) => address.to_string(),
            WebHost::Address(IpAddr::V6(address)) => format!("[{address}]"),
        };
        let usual = if self.tls { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    /// What stands in the first line of the request.
    pub fn path_and_query(&self) -> &str {
        &self.path_and_query
    }

    pub(crate) fn place(&self) -> &WebHost {
        &self.host
    }
}

/// Without path and query: these may hold what is not for a log.
impl fmt::Display for WebTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority())
    }
}

impl WebHost {
    fn parse(text: &str, private_hosts: bool) -> Result<WebHost, BadUrl> {
        if let Some(inside) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let address: Ipv6Addr = inside
                .parse()
                .map_err(|_| BadUrl("the host is no IPv6 address; zones and other versions are not understood"))?;
            return Ok(WebHost::Address(IpAddr::V6(address)));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(WebHost::Address(IpAddr::V4(address)));
        }
        if text.ends_with('.') {
            return Err(BadUrl("the host ends in a dot: leave it out"));
        }
        if text.len() > 253 || text.is_empty() || !text.split('.').all(is_label) {
            return Err(BadUrl("the host is no name of letters, digits and inner hyphens"));
        }
        let name = text.to_ascii_lowercase();
        let last = name.rsplit('.').next().unwrap_or_default();
        if last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x") {
            return Err(BadUrl("the host is an odd spelling of an address: write it as four decimal numbers"));
        }
        let private =
            !name.contains('.') || PRIVATE_SUFFIXES.iter().any(|end| name.strip_suffix(end).is_some_and(ends_label));
        if private && !private_hosts {
            return Err(BadUrl("the host is a name of a private network, and private hosts are not allowed"));
        }
        Ok(WebHost::Name(name))
    }
}

fn ends_label(before: &str) -> bool {
    before.is_empty() || before.ends_with('.')
}

fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn split_port(authority: &str) -> Result<(&str, Option<&str>), BadUrl> {
    if authority.is_empty() {
        return Err(BadUrl("the host is missing"));
    }
    let bracket = authority.rfind(']').map_or(0, |at| at + 1);
    let (inside, outside) = authority.split_at_checked(bracket).unwrap_or(("", authority));
    match outside.split_once(':') {
        None => Ok((authority, None)),
        Some((host, port)) if inside.is_empty() => Ok((host, Some(port))),
        Some(("", port)) => Ok((inside, Some(port))),
        Some(_) => Err(BadUrl("the host is malformed")),
    }
}

fn port_of(text: &str, private_hosts: bool) -> Result<u16, BadUrl> {
    let plain = (1..=5).contains(&text.len()) && !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
    let port = text.parse::<u16>().ok().filter(|_| plain);
    let port = port.ok_or(BadUrl("the port is not a number from 1 to 65535"))?;
    match port {
        443 => Ok(port),
        80 if private_hosts => Ok(port),
        ..1024 => Err(BadUrl("ports below 1024 are for other services; 443 is fetched from")),
        _ if SERVICE_PORTS.contains(&port) => Err(BadUrl("the port is known for a service that is not HTTP")),
        _ => Ok(port),
    }
}

/// Each `%` is followed by two hexadecimal digits, and no line break or zero byte hides behind one.
fn check_escapes(text: &str) -> Result<(), BadUrl> {
    for part in text.split('%').skip(1) {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match digits.map(str::to_ascii_lowercase).as_deref() {
            None => return Err(BadUrl("a % is not followed by two hexadecimal digits")),
            Some("00" | "0a" | "0d") => return Err(BadUrl("line breaks and zero bytes are not sent, encoded or not")),
            Some(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_fetched() {
        let cases = [
            ("https://id.example", "https://id.example", "/"),
            ("HTTPS://ID.Example/a/b?c=d", "https://id.example", "/a/b?c=d"),
            ("https://id.example?x=1", "https://id.example", "/?x=1"),
            ("https://id.example:8443/.well-known/did.json", "https://id.example:8443", "/.well-known/did.json"),
            ("https://id.example:443/", "https://id.example", "/"),
            ("https://93.184.216.34/x%20y", "https://93.184.216.34", "/x%20y"),
            ("https://[2606:2800:220:1::1]:8443/", "https://[2606:2800:220:1::1]:8443", "/"),
            ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example", "/"),
        ];
        for (url, place, path) in cases {
            let target = WebTarget::parse(url, false).unwrap();
            assert_eq!((target.to_string().as_str(), target.path_and_query()), (place, path), "{url}");
        }
    }

    #[test]
    fn private_names_and_plain_http_take_the_switch() {
        for url in
            ["http://id.example/", "https://localhost/", "https://node/", "https://a.internal/", "http://[::1]:80/"]
        {
            assert!(WebTarget::parse(url, false).is_err(), "{url}");
            assert!(WebTarget::parse(url, true).is_ok(), "{url}");
        }
    }

    #[test]
    fn a_url_is_bounded() {
        let long = format!("https://id.example/{}", "a".repeat(OUTBOUND_URL_BYTES_MAX));
        assert_eq!(WebTarget::parse(&long, false), Err(BadUrl("it is longer than 2,048 bytes")));
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in any::<String>(), private in any::<bool>()) {
            let _ = WebTarget::parse(&text, private);
            let _ = WebTarget::parse(&format!("https://{text}"), private);
        }

        #[test]
        fn what_was_read_reads_the_same_again(host in "[a-z]{1,9}(\\.[a-z][a-z0-9]{1,5}){1,3}", port in 20000u16..40000, path in "(/[a-z0-9%]{0,6}){0,3}") {
            if let Ok(target) = WebTarget::parse(&format!("https://{host}:{port}{path}"), false) {
                let again = WebTarget::parse(&format!("{target}{}", target.path_and_query()), false);
                prop_assert_eq!(again, Ok(target));
            }
        }
    }
}
