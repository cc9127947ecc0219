//! Who the client is, by what proxies say.
//!
//! Each proxy adds the address of its own peer at the end of a list: of `X-Forwarded-For`, or of the elements of
//! `Forwarded` (RFC 7239). So the end is written by the proxy that asks, and everything before the first address that
//! is no proxy of ours may be made up. The list is read from its end, never from its beginning.

use ipnet::{IpNet, Ipv6Net};
use std::net::IpAddr;
use std::num::NonZeroU8;

/// The addresses of a list, from its end; `None` for one that cannot be read. `lines` are the field's, the last first.
///
/// A comma in a quoted string parts elements here too: proxies write none, and if one that a client opens were to hide
/// what a proxy adds behind it, the client could choose its own address.
pub fn entries<'a>(lines: impl Iterator<Item = &'a [u8]>, forwarded: bool) -> impl Iterator<Item = Option<IpAddr>> {
    let entries = lines.flat_map(|line| line.rsplit(|byte| *byte == b','));
    entries.map(move |entry| {
        let text = std::str::from_utf8(entry).ok()?.trim();
        if forwarded { node(for_of(text)?) } else { node(text) }
    })
}

/// The value of `for` in one element of `Forwarded`.
fn for_of(element: &str) -> Option<&str> {
    let mut pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for")).map(|(_, value)| value.trim())
}

/// An address as proxies write it: with a port or without, IPv6 in brackets or not, in quotes or not.
fn node(text: &str) -> Option<IpAddr> {
    let text = text.trim_matches('"');
    let host = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        // a single colon is before the port of an IPv4 address
        None => text.split_once(':').filter(|(_, rest)| !rest.contains(':')).map_or(text, |(host, _)| host),
    };
    let address = host.split_once('%').map_or(host, |(address, _zone)| address);
    address.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

/// The client for whom `peer` asks. `named` says for whom each proxy spoke, the last one first. One that cannot be
/// read ends the way: who is behind it, nobody knows, so the proxy that wrote it stands for all of them.
pub fn address(
    peer: IpAddr,
    named: impl Iterator<Item = Option<IpAddr>>,
    hops: Option<NonZeroU8>,
    trusts: impl Fn(IpAddr) -> bool,
) -> IpAddr {
    let mut client = peer.to_canonical();
    for (before, entry) in named.enumerate() {
        let is_proxy = match hops {
            Some(hops) => before < usize::from(hops.get()),
            None => trusts(client),
        };
        let Some(address) = entry.filter(|_| is_proxy) else { break };
        client = address;
    }
    client
}

/// One name for all addresses that one client has: the network of an IPv6 address, and an IPv4 address itself.
pub fn as_subject(address: IpAddr, ipv6_prefix: u8) -> String {
    match address {
        IpAddr::V6(v6) if ipv6_prefix < 128 => match Ipv6Net::new(v6, ipv6_prefix) {
            Ok(net) => IpNet::V6(net.trunc()).to_string(),
            Err(_) => v6.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: &str = "10.0.0.1";

    /// The client where 10.0.0.0/8 and fd00::/8 are ours.
    fn client(lines: &[&str], forwarded: bool, hops: Option<u8>) -> String {
        let ours = |address: IpAddr| ["10.0.0.0/8", "fd00::/8"].iter().any(|net| net.parse::<IpNet>().unwrap().contains(&address));
        let lines = lines.iter().rev().map(|line| line.as_bytes());
        let peer = PEER.parse().unwrap();
        if !ours(peer) {
            return PEER.to_owned();
        }
        address(peer, entries(lines, forwarded), hops.and_then(NonZeroU8::new), ours).to_string()
    }

    #[test]
    fn the_client_is_the_last_who_is_no_proxy_of_ours() {
        let table: [(&[&str], &str); 9] = [
            (&[], PEER),
            (&["203.0.113.9"], "203.0.113.9"),
            (&["1.1.1.1, 203.0.113.9"], "203.0.113.9"),
            (&["1.1.1.1, 203.0.113.9, 10.0.0.2"], "203.0.113.9"),
            (&["1.1.1.1", "203.0.113.9, 10.0.0.3", "10.0.0.2"], "203.0.113.9"),
            (&["10.0.0.9, 203.0.113.9, 10.0.0.2"], "203.0.113.9"),
            (&["10.0.0.9, 10.0.0.2"], "10.0.0.9"),
            (&["1.1.1.1, unknown"], PEER),
            (&["1.1.1.1, , 10.0.0.2"], "10.0.0.2"),
        ];
        for (lines, expected) in table {
            assert_eq!(client(lines, false, None), expected, "{lines:?}");
        }
    }

    #[test]
    fn a_number_of_hops_counts_from_the_end_whatever_the_addresses() {
        let line: &[&str] = &["1.1.1.1, 203.0.113.9, 198.51.100.1, 10.0.0.2"];
        for (hops, expected) in [(1, "10.0.0.2"), (2, "198.51.100.1"), (3, "203.0.113.9"), (9, "1.1.1.1")] {
            assert_eq!(client(line, false, Some(hops)), expected, "{hops}");
        }
    }

    #[test]
    fn addresses_are_read_as_proxies_write_them() {
        let table = [
            ("203.0.113.9:80", "203.0.113.9"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("fe80::1%eth0", "fe80::1"),
            ("::ffff:203.0.113.9", "203.0.113.9"),
            ("\"203.0.113.9:1\"", "203.0.113.9"),
            ("  203.0.113.9  ", "203.0.113.9"),
        ];
        for (written, expected) in table {
            assert_eq!(client(&[written], false, None), expected, "{written}");
        }
        for bad in ["", "_hidden", "203.0.113", "203.0.113.9.1", "[2001:db8::1", "example.org", "1.2.3.4 5"] {
            assert_eq!(client(&[bad], false, None), PEER, "{bad}");
        }
    }

    #[test]
    fn forwarded_is_read_from_its_end_though_a_client_opens_a_quote() {
        let table: [(&[&str], &str); 6] = [
            (&["for=203.0.113.9;proto=https;by=10.0.0.1"], "203.0.113.9"),
            (&["proto=https; For=\"[2001:db8:cafe::17]:4711\""], "2001:db8:cafe::17"),
            (&["for=1.1.1.1, for=203.0.113.9, for=10.0.0.2"], "203.0.113.9"),
            (&["for=\"1.1.1.1, for=203.0.113.9"], "203.0.113.9"),
            (&["for=1.1.1.1, for=_hidden"], PEER),
            (&["for=1.1.1.1, proto=http"], PEER),
        ];
        for (lines, expected) in table {
            assert_eq!(client(lines, true, None), expected, "{lines:?}");
        }
    }

    #[test]
    fn a_network_stands_for_an_ipv6_client() {
        let subject = |address: &str, prefix| as_subject(address.parse().unwrap(), prefix);
        assert_eq!(subject("2001:db8:1:2:3:4:5:6", 64), "2001:db8:1:2::/64");
        assert_eq!(subject("2001:db8:1:2ff:3:4:5:6", 56), "2001:db8:1:200::/56");
        assert_eq!(subject("2001:db8::6", 128), "2001:db8::6");
        assert_eq!(subject("203.0.113.9", 64), "203.0.113.9");
    }
}
