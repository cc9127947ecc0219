//! `[authz]` of `agent.toml`: how the header fields of gateways are read.
//!
//! | field | default | what |
//! |---|---|---|
//! | `attributes` | `ip`, `path`, `method`, `host` | by name: `"client-address"`, `"path"`, `"method"`, `"host"` or `{header = "X-Tenant"}` |
//! | `trusted-proxies` | loopback | addresses and networks whose fields are believed |
//! | `address-header` | `X-Forwarded-For` | where they name the client; `Forwarded` (RFC 7239) or a field of their own |
//! | `hops` | by address | so many addresses at the end of it were written by trusted proxies; 1 to 255 |
//! | `ipv6-prefix` | 64 | leading bits of an IPv6 address that stand for one client; 32 to 128 |

use crate::http::authz::{Forwarding, Source};
use crate::http::read::{LONGEST_NAME, MOST_ATTRIBUTES};
use axum::http::HeaderName;
use ipnet::IpNet;
use quorate_shared::located::{Located, Value};
use quorate_shared::text::cut;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU8;

/// Reads `[authz]`.
pub fn read(at: &Located<'_>) -> Option<Forwarding> {
    let default = Forwarding::default();
    let fields = at.fields(&["attributes", "trusted-proxies", "address-header", "hops", "ipv6-prefix"])?;
    let attributes = fields.or("attributes", default.attributes, attributes);
    let trusted_proxies = fields.or("trusted-proxies", default.trusted_proxies, networks);
    let address_header = fields.or("address-header", default.address_header, header_name);
    let hops = fields.or("hops", None, |at| NonZeroU8::new(u8::try_from(at.whole(1..=255)?).ok()?).map(Some));
    let ipv6_prefix = fields.or("ipv6-prefix", default.ipv6_prefix, |at| u8::try_from(at.whole(32..=128)?).ok());
    Some(Forwarding {
        attributes: attributes?,
        trusted_proxies: trusted_proxies?,
        address_header: address_header?,
        hops: hops?,
        ipv6_prefix: ipv6_prefix?,
    })
}

fn attributes(at: &Located<'_>) -> Option<BTreeMap<String, Source>> {
    let entries = at.entries("a map of attributes, such as { tenant = { header = \"X-Tenant\" }, ip = \"client-address\" }")?;
    if entries.is_empty() || entries.len() > MOST_ATTRIBUTES {
        at.refuse(format!("{} attributes; 1 to {MOST_ATTRIBUTES} are allowed", entries.len()));
        return None;
    }
    let read: BTreeMap<String, Source> = entries.iter().filter_map(|(name, at)| attribute(name, at)).collect();
    (read.len() == entries.len()).then_some(read)
}

fn attribute(name: &str, at: &Located<'_>) -> Option<(String, Source)> {
    let source = source(at);
    if name.is_empty() || name.len() > LONGEST_NAME {
        at.refuse(format!("the name `{}` has {} bytes; 1 to {LONGEST_NAME} are allowed", cut(name), name.len()));
        return None;
    }
    Some((name.to_owned(), source?))
}

fn source(at: &Located<'_>) -> Option<Source> {
    match at.value() {
        Value::Map(_) => header_name(at.fields(&["header"])?.required("header")?).map(Source::Header),
        Value::Text(word) if word == "client-address" => Some(Source::ClientAddress),
        Value::Text(word) if word == "path" => Some(Source::Path),
        Value::Text(word) if word == "method" => Some(Source::Method),
        Value::Text(word) if word == "host" => Some(Source::Host),
        _ => {
            at.refuse_kind("`client-address`, `path`, `method`, `host` or { header = \"X-Tenant\" }");
            None
        }
    }
}

fn header_name(at: &Located<'_>) -> Option<HeaderName> {
    let text = at.text("the name of a header field")?;
    match HeaderName::try_from(text) {
        Ok(name) => Some(name),
        Err(_) => {
            at.refuse(format!("`{}` is not the name of a header field", cut(text)));
            None
        }
    }
}

fn networks(at: &Located<'_>) -> Option<Vec<IpNet>> {
    let items = at.list("a list of addresses and networks, such as [\"10.0.0.0/8\", \"2001:db8::1\"]")?;
    let networks: Vec<IpNet> = items.iter().filter_map(network).collect();
    (networks.len() == items.len()).then_some(networks)
}

fn network(at: &Located<'_>) -> Option<IpNet> {
    let text = at.text("an address or a network")?;
    let address = || text.parse::<IpAddr>().map(|address| IpNet::from(address.to_canonical()));
    let read = text.parse::<IpNet>().or_else(|_| address()).ok();
    let Some(net) = read else {
        at.refuse(format!("`{}` is neither an address nor a network such as `10.0.0.0/8`", cut(text)));
        return None;
    };
    if net != net.trunc() {
        at.refuse(format!("`{net}` has bits beyond its prefix; did you mean `{}`?", net.trunc()));
        return None;
    }
    Some(net)
}
