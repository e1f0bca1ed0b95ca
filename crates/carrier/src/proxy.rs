//! Who is at the other end when a proxy stands in between. What `Forwarded` and `X-Forwarded-*` say is believed only when the
//! connection comes from a trusted proxy; from anybody else these headers are taken off the request.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
/// `http` or `https`, as the client spoke to the proxy. Handlers may believe it: [`resolve`] takes it off where it is not to be.
pub const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// A range of addresses, such as `10.0.0.0/8` or `::1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    first: IpAddr,
    bits: u8,
}

/// A text that is no range of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadSubnet(String);

impl fmt::Display for BadSubnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no address or range such as 10.0.0.0/8", self.0)
    }
}

impl std::error::Error for BadSubnet {}

impl FromStr for Subnet {
    type Err = BadSubnet;

    fn from_str(text: &str) -> Result<Subnet, BadSubnet> {
        let bad = || BadSubnet(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().map_err(|_| bad())?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse::<u8>().map_err(|_| bad()))?;
        if bits > most { Err(bad()) } else { Ok(Subnet { first, bits }) }
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

impl Subnet {
    /// Whether the address is in the range. An IPv4 address inside an IPv6 one counts as what it is.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let same = |a: u128, b: u128, width: u8| {
            let rest = u32::from(width - self.bits.min(width));
            a.checked_shr(rest).unwrap_or(0) == b.checked_shr(rest).unwrap_or(0)
        };
        match (self.first, ip.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same(u32::from(a).into(), u32::from(b).into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.into(), b.into(), 128),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// The client of a request: who connected, or for whom a trusted proxy did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Client {
    /// Not known where requests do not come from a socket.
    pub ip: Option<IpAddr>,
}

impl Client {
    /// Where it is, in a word, for the record of who did what.
    pub fn place(&self) -> Option<String> {
        self.ip.map(|ip| ip.to_canonical().to_string())
    }

    /// Whether it is on this machine, as far as is known.
    pub fn is_local(&self) -> bool {
        self.ip.is_none_or(|ip| ip.to_canonical().is_loopback())
    }
}

/// Finds out who the client is. From a trusted proxy, the host it was asked for becomes the request's own; from anybody else,
/// what it says of others is taken off.
pub fn resolve(trusted: &[Subnet], peer: Option<IpAddr>, headers: &mut HeaderMap) -> Client {
    let is_trusted = |ip: IpAddr| trusted.iter().any(|subnet| subnet.contains(ip));
    let Some(proxy) = peer.filter(|peer| is_trusted(*peer)) else {
        headers.remove(&PROTO);
        return Client { ip: peer };
    };
    let standard = forwarded_elements(headers);
    let chain: Vec<Option<IpAddr>> = match standard.is_empty() {
        true => listed(headers, &FOR).iter().map(|text| address(text)).collect(),
        false => standard.iter().map(|element| parameter(element, "for").and_then(|text| address(&text))).collect(),
    };
    // A proxy that writes one of the two passes the client's own word for the other through: where they differ, neither holds.
    let other: Vec<Option<IpAddr>> = listed(headers, &FOR).iter().map(|text| address(text)).collect();
    let agrees = standard.is_empty()
        || other.is_empty()
        || first_untrusted(&chain, is_trusted) == first_untrusted(&other, is_trusted);
    let client = if agrees { first_untrusted(&chain, is_trusted).unwrap_or(proxy) } else { proxy };
    let last = standard.last();
    let said = |name: &str, own: &HeaderName| {
        last.and_then(|element| parameter(element, name)).or_else(|| listed(headers, own).pop())
    };
    let (proto, host) = (said("proto", &PROTO), said("host", &HOST));
    headers.remove(&PROTO);
    if let Some(proto) = proto.filter(|proto| ["http", "https"].contains(&proto.as_str())) {
        headers.extend(HeaderValue::from_str(&proto).ok().map(|value| (PROTO, value)));
    }
    if let Some(host) = host.and_then(|host| HeaderValue::from_str(&host).ok()) {
        headers.insert(header::HOST, host);
    }
    Client { ip: Some(client) }
}

/// From the nearest hop on, the first address that is no trusted proxy; the furthest one if all are. None where a hop cannot be read.
fn first_untrusted(chain: &[Option<IpAddr>], is_trusted: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
    let mut furthest = None;
    for hop in chain.iter().rev() {
        let ip = (*hop)?;
        furthest = Some(ip);
        if !is_trusted(ip) {
            break;
        }
    }
    furthest
}

/// The items of a header that is a list, over all its lines.
fn listed(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let lines = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
}

/// The elements of `Forwarded` (RFC 7239), the nearest proxy's last.
fn forwarded_elements(headers: &HeaderMap) -> Vec<String> {
    listed(headers, &header::FORWARDED)
}

/// One parameter of an element of `Forwarded`, without its quotes.
fn parameter(element: &str, name: &str) -> Option<String> {
    let mut pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(key, _)| key.trim().eq_ignore_ascii_case(name))?;
    let value = value.trim();
    Some(value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value).to_owned())
}

/// An address, with or without a port, IPv6 in brackets or not.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix('[') {
        return rest.split_once(']')?.0.parse().ok();
    }
    text.parse().ok().or_else(|| text.rsplit_once(':')?.0.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut out = HeaderMap::new();
        for (name, value) in pairs {
            out.append(HeaderName::from_str(name).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        out
    }

    fn client(peer: &str, pairs: &[(&str, &str)]) -> IpAddr {
        let trusted = ["10.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()];
        resolve(&trusted, Some(ip(peer)), &mut headers(pairs)).ip.unwrap()
    }

    #[test]
    fn ranges_of_addresses() {
        for (range, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("192.0.2.128/25", "192.0.2.200", "192.0.2.1"),
            ("0.0.0.0/0", "203.0.113.1", "2001:db8::1"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::ffff:11.1.2.3"),
        ] {
            let subnet: Subnet = range.parse().unwrap();
            assert!(subnet.contains(ip(inside)) && !subnet.contains(ip(outside)), "{range}");
        }
        for bad in ["", "10", "10.0.0.0/33", "::1/129", "10.0.0.0/-1", "10.0.0.0/8/8", "example.org"] {
            assert!(bad.parse::<Subnet>().is_err(), "{bad}");
        }
    }

    #[test]
    fn only_a_trusted_proxy_is_believed() {
        let said = [("x-forwarded-for", "198.51.100.7")];
        assert_eq!(client("10.0.0.1", &said), ip("198.51.100.7"));
        assert_eq!(client("::1", &said), ip("198.51.100.7"));
        assert_eq!(client("203.0.113.9", &said), ip("203.0.113.9"), "anybody can write a header");
        assert_eq!(client("10.0.0.1", &[]), ip("10.0.0.1"));
        // Proxies behind each other: the first one from here that is not ours. What is left of it the client wrote itself.
        let chain = [("x-forwarded-for", "1.2.3.4, 198.51.100.7"), ("x-forwarded-for", "10.0.0.2")];
        assert_eq!(client("10.0.0.1", &chain), ip("198.51.100.7"));
        assert_eq!(client("10.0.0.1", &[("x-forwarded-for", "10.0.0.3,10.0.0.2")]), ip("10.0.0.3"));
        assert_eq!(client("10.0.0.1", &[("x-forwarded-for", "198.51.100.7, unknown")]), ip("10.0.0.1"));
    }

    #[test]
    fn the_standard_header_and_disagreement() {
        let forwarded = [("forwarded", r#"for=198.51.100.7;proto=https, For="[2001:db8::7]:4711";host=hub.example"#)];
        assert_eq!(client("10.0.0.1", &forwarded), ip("2001:db8::7"));
        let both = [("forwarded", "for=198.51.100.7"), ("x-forwarded-for", "198.51.100.7")];
        assert_eq!(client("10.0.0.1", &both), ip("198.51.100.7"));
        let spoofed = [("forwarded", "for=127.0.0.1"), ("x-forwarded-for", "198.51.100.7")];
        assert_eq!(client("10.0.0.1", &spoofed), ip("10.0.0.1"), "one of them is the client's own word");
    }

    #[test]
    fn host_and_scheme_of_a_trusted_proxy_become_the_requests_own() {
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        let mut from_proxy =
            headers(&[("host", "127.0.0.1:8700"), ("x-forwarded-host", "hub.example"), ("x-forwarded-proto", "https")]);
        resolve(&trusted, Some(ip("10.0.0.1")), &mut from_proxy);
        assert_eq!(
            (&from_proxy["host"], &from_proxy["x-forwarded-proto"]),
            (&"hub.example".parse().unwrap(), &"https".parse::<HeaderValue>().unwrap())
        );
        let mut odd = headers(&[("host", "h"), ("x-forwarded-proto", "javascript")]);
        resolve(&trusted, Some(ip("10.0.0.1")), &mut odd);
        assert!(!odd.contains_key("x-forwarded-proto"));
        let mut from_stranger =
            headers(&[("host", "h"), ("x-forwarded-host", "hub.example"), ("x-forwarded-proto", "https")]);
        resolve(&trusted, Some(ip("203.0.113.9")), &mut from_stranger);
        assert_eq!(from_stranger["host"], "h");
        assert!(!from_stranger.contains_key("x-forwarded-proto"));
    }

    proptest! {
        #[test]
        fn any_header_is_read(forwarded in "[ -~]{0,60}", xff in "[ -~]{0,60}", range in "[0-9a-f:./]{0,30}") {
            let pairs = [("forwarded", forwarded.as_str()), ("x-forwarded-for", xff.as_str())];
            client("10.0.0.1", &pairs);
            if let Ok(subnet) = range.parse::<Subnet>() {
                prop_assert!(subnet.contains(subnet.first.to_canonical()) || subnet.first.to_canonical() != subnet.first);
                prop_assert_eq!(subnet.to_string().parse::<Subnet>(), Ok(subnet));
            }
        }
    }
}
