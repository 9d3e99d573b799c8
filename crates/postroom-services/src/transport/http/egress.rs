//! Restricts where connections may go. It checks the address that is really connected to, not its name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses that a destination may have.
///
/// Destinations that an operator configured may be anywhere. Destinations that come from data, such as a customer's
/// webhook, must not lead into your own network: use [`PublicOnly`](Self::PublicOnly) for them.
///
/// ```
/// use postroom::services::{Egress, Peer, Service};
///
/// // The address comes from a customer: it must not lead into our own network.
/// let address = "https://customer.example.com/hook";
/// let customer = Service::new("customer", address).peer(Peer::Webhook).egress(Egress::PublicOnly);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Egress {
    /// Every address is allowed.
    #[default]
    Anywhere,
    /// Only addresses of the public Internet are allowed: no loopback, no private network, no metadata service.
    PublicOnly,
}

impl Egress {
    pub(crate) fn allows(self, address: IpAddr) -> bool {
        self == Self::Anywhere || is_public(address)
    }
}

fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_shared = a == 100 && b & 0b1100_0000 == 64;
    let is_protocol = a == 192 && b == 0 && c == 0;
    let is_benchmark = a == 198 && b & 0b1111_1110 == 18;
    !(a == 0
        || a >= 224
        || is_shared
        || is_protocol
        || is_benchmark
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_broadcast())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    // An address with an embedded IPv4 address leads to that one.
    let inside = match segments {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some((high, low)),
        [0x2002, high, low, ..] => Some((high, low)),
        _ => None,
    };
    if let Some((high, low)) = inside {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        return is_public_v4(Ipv4Addr::new(a, b, c, d));
    }
    // Only global unicast addresses are public, except those for documentation, benchmarks and Teredo.
    let is_global = segments[0] & 0xe000 == 0x2000;
    let is_documentation = segments[0] == 0x2001 && segments[1] == 0xdb8 || segments[0] == 0x3fff;
    let is_special = segments[0] == 0x2001 && segments[1] < 0x200;
    is_global && !is_documentation && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_inside_is_public() {
        for inside in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.127.255.255",
            "192.0.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "192.0.2.1",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "fd00:ec2::254",
            "fc00::1",
            "fe80::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "::7f00:1",
            "fec0::1",
        ] {
            assert!(!Egress::PublicOnly.allows(inside.parse().unwrap()), "{inside}");
            assert!(Egress::Anywhere.allows(inside.parse().unwrap()));
        }
    }

    #[test]
    fn the_internet_is() {
        for outside in ["1.1.1.1", "93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::101:101"]
        {
            assert!(Egress::PublicOnly.allows(outside.parse().unwrap()), "{outside}");
        }
    }
}
