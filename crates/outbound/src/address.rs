//! What an address is: only public ones are reached by themselves, private ones where the operator allows it, and some never.
//!
//! IPv6 addresses that carry an IPv4 address are judged by what they carry, because that is where the packets go.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What kind of place an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressClass {
    /// An address of the internet.
    Public,
    /// This machine.
    Loopback,
    /// A private network: 10/8, 172.16/12, 192.168/16, fc00::/7.
    Private,
    /// This link: 169.254/16, fe80::/10.
    LinkLocal,
    /// Shared address space of a provider: 100.64/10.
    Shared,
    /// Where clouds hand out credentials of the machine.
    Metadata,
    /// No address: 0/8, ::.
    Unspecified,
    /// Many at once: 224/4, ff00::/8, and the broadcast address.
    Multicast,
    /// For documentation or measurements; nobody is there.
    Documentation,
    /// Reserved, deprecated, or a form that hides where the packets go.
    Reserved,
}

impl AddressClass {
    /// Whether it is reached where private hosts are allowed. Public ones always are; of the others only those where a
    /// service of one's own can be.
    pub fn allowed(self, private_hosts: bool) -> bool {
        match self {
            Self::Public => true,
            Self::Loopback | Self::Private | Self::LinkLocal | Self::Shared => private_hosts,
            Self::Metadata | Self::Unspecified | Self::Multicast | Self::Documentation | Self::Reserved => false,
        }
    }

    /// For people: "a … address".
    pub fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::LinkLocal => "link-local",
            Self::Shared => "shared (carrier-grade NAT)",
            Self::Metadata => "cloud metadata",
            Self::Unspecified => "unspecified",
            Self::Multicast => "multicast",
            Self::Documentation => "documentation or benchmark",
            Self::Reserved => "reserved",
        }
    }
}

/// Where clouds answer about the machine itself, inside and outside of link-local ranges.
const METADATA_V4: [Ipv4Addr; 5] = [
    Ipv4Addr::new(169, 254, 169, 254), // most clouds
    Ipv4Addr::new(169, 254, 170, 2),   // containers of AWS
    Ipv4Addr::new(100, 100, 100, 200), // Alibaba
    Ipv4Addr::new(192, 0, 0, 192),     // Oracle
    Ipv4Addr::new(168, 63, 129, 16),   // Azure
];
const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),   // AWS
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),    // Google
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe), // mapped habits of 169.254.169.254
];

/// Judges one address.
pub fn class_of(address: IpAddr) -> AddressClass {
    match address {
        IpAddr::V4(address) => class_of_v4(address),
        IpAddr::V6(address) => class_of_v6(address),
    }
}

fn class_of_v4(address: Ipv4Addr) -> AddressClass {
    if METADATA_V4.contains(&address) {
        return AddressClass::Metadata;
    }
    match address.octets() {
        [0, ..] => AddressClass::Unspecified,
        [127, ..] => AddressClass::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressClass::Private,
        [100, 64..=127, ..] => AddressClass::Shared,
        [169, 254, ..] => AddressClass::LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] | [198, 18..=19, ..] => AddressClass::Documentation,
        [192, 0, 0, _] | [192, 88, 99, _] => AddressClass::Reserved,
        [224..=239, ..] | [255, 255, 255, 255] => AddressClass::Multicast,
        [240..=255, ..] => AddressClass::Reserved,
        _ => AddressClass::Public,
    }
}

fn class_of_v6(address: Ipv6Addr) -> AddressClass {
    if METADATA_V6.contains(&address) {
        return AddressClass::Metadata;
    }
    if address.is_unspecified() {
        return AddressClass::Unspecified;
    }
    if address.is_loopback() {
        return AddressClass::Loopback;
    }
    let carried = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        class_of_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        // Mapped: the system connects to the IPv4 address itself. NAT64 and 6to4 lead there by a gateway.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            carried(high, low)
        }
        // A NAT64 of somebody's own, where the length of its prefix is not known.
        [0x64, 0xff9b, 1, ..] => AddressClass::Private,
        // ISATAP carries one in its lower half.
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] if carried(high, low) != AddressClass::Public => carried(high, low),
        [0xff00..=0xffff, ..] => AddressClass::Multicast,
        [0xfe80..=0xfebf, ..] => AddressClass::LinkLocal,
        [0xfec0..=0xfeff, ..] | [0xfc00..=0xfdff, ..] => AddressClass::Private,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] | [0x2001, 2, 0, ..] => AddressClass::Documentation,
        // Protocol assignments, Teredo among them, whose IPv4 address is scrambled.
        [0x2001, 0..=0x1ff, ..] => AddressClass::Reserved,
        [0x2000..=0x3fff, ..] => AddressClass::Public,
        // Compatible forms, discard prefixes, and everything nobody gave out yet.
        _ => AddressClass::Reserved,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AddressClass::{
        Documentation, LinkLocal, Loopback, Metadata, Multicast, Private, Public, Reserved, Shared, Unspecified,
    };

    #[test]
    fn addresses_and_what_they_are() {
        let cases = [
            ("93.184.216.34", Public),
            ("172.15.255.255", Public),
            ("172.32.0.0", Public),
            ("100.63.255.255", Public),
            ("100.128.0.0", Public),
            ("2606:2800:220:1::1", Public),
            ("::ffff:93.184.216.34", Public),
            ("64:ff9b::5db8:d822", Public),
            ("127.0.0.1", Loopback),
            ("127.255.255.254", Loopback),
            ("::1", Loopback),
            ("::ffff:127.0.0.1", Loopback),
            ("64:ff9b::7f00:1", Loopback),
            ("2002:7f00:1::", Loopback),
            ("10.1.2.3", Private),
            ("172.16.0.1", Private),
            ("172.31.255.255", Private),
            ("192.168.1.1", Private),
            ("fc00::1", Private),
            ("fdff::1", Private),
            ("fec0::1", Private),
            ("::ffff:10.0.0.1", Private),
            ("2002:c0a8:101::1", Private),
            ("64:ff9b:1::a00:1", Private),
            ("169.254.0.1", LinkLocal),
            ("fe80::1", LinkLocal),
            ("febf::1", LinkLocal),
            ("100.64.0.1", Shared),
            ("100.127.255.255", Shared),
            ("169.254.169.254", Metadata),
            ("::ffff:169.254.169.254", Metadata),
            ("64:ff9b::a9fe:a9fe", Metadata),
            ("2002:a9fe:a9fe::", Metadata),
            ("169.254.170.2", Metadata),
            ("100.100.100.200", Metadata),
            ("192.0.0.192", Metadata),
            ("168.63.129.16", Metadata),
            ("fd00:ec2::254", Metadata),
            ("fd20:ce::254", Metadata),
            ("fe80::a9fe:a9fe", Metadata),
            ("0.0.0.0", Unspecified),
            ("0.1.2.3", Unspecified),
            ("::", Unspecified),
            ("::ffff:0.0.0.0", Unspecified),
            ("224.0.0.1", Multicast),
            ("239.255.255.250", Multicast),
            ("255.255.255.255", Multicast),
            ("ff02::1", Multicast),
            ("192.0.2.1", Documentation),
            ("198.51.100.1", Documentation),
            ("203.0.113.1", Documentation),
            ("198.18.0.1", Documentation),
            ("198.19.255.255", Documentation),
            ("2001:db8::1", Documentation),
            ("3fff::1", Documentation),
            ("2001:2::1", Documentation),
            ("192.0.0.8", Reserved),
            ("192.88.99.1", Reserved),
            ("240.0.0.1", Reserved),
            ("::127.0.0.1", Reserved),
            ("::5db8:d822", Reserved),
            ("2001:0:53aa:64c:0:fbfe:f5ff:fffe", Reserved),
            ("100::1", Reserved),
            ("4000::1", Reserved),
            ("2606:2800::5efe:7f00:1", Loopback),
        ];
        for (text, class) in cases {
            assert_eq!(class_of(text.parse().unwrap()), class, "{text}");
        }
    }

    #[test]
    fn the_switch_opens_what_can_be_ones_own_and_nothing_else() {
        for class in [Loopback, Private, LinkLocal, Shared] {
            assert!(class.allowed(true) && !class.allowed(false), "{class:?}");
        }
        for class in [Metadata, Unspecified, Multicast, Documentation, Reserved] {
            assert!(!class.allowed(true) && !class.allowed(false), "{class:?}");
        }
        assert!(Public.allowed(false) && Public.allowed(true));
    }
}
