//! `/v1/authz`: what a gateway asks before it lets a request pass (nginx `auth_request`, Caddy `forward_auth`,
//! Traefik ForwardAuth, HAProxy).
//!
//! The request itself is not there, only what the gateway writes of it into header fields. Which of them become
//! attributes, and whose are believed, is configured ([`Forwarding`]): fields of a peer that is no trusted proxy are
//! as good as absent, and the client is that peer itself.
//!
//! | attribute | read from |
//! |---|---|
//! | [`Source::Header`] | that field; written twice it is a mistake, for nobody knows which of them the gateway wrote |
//! | [`Source::Path`] | `X-Forwarded-Uri`, normalised ([`path`]) |
//! | [`Source::Method`] | `X-Forwarded-Method` |
//! | [`Source::Host`] | `X-Forwarded-Host`, in lower case and without its port |
//! | [`Source::ClientAddress`] | the peer, and what trusted proxies say of whom they speak for ([`client`]) |
//!
//! What is absent or empty is no attribute. What is longer than [`LONGEST_VALUE`] is cut there.

pub mod client;
pub mod path;

use super::answer::Answer;
use super::callers::Caller;
use super::openapi::Decided;
use super::read::{Check, LONGEST_VALUE};
use super::{Decider, Door, problems};
use crate::decide;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{FORWARDED, HeaderName};
use axum::http::{HeaderMap, HeaderValue};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use quorate_shared::api::CheckAnswer;
use quorate_shared::problem::{InputError, Problem};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU8;
use std::sync::Arc;

/// `X-Forwarded-For`.
pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const X_FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Leading bits of an IPv6 address that one client has, if nothing else is said: what a provider gives at least.
pub const IPV6_PREFIX: u8 = 64;

/// How the header fields of gateways are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarding {
    /// Which attribute is read from where.
    pub attributes: BTreeMap<String, Source>,
    /// Addresses of those whose fields are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// The field in which they say for whom they speak: `X-Forwarded-For`, `Forwarded`, or one of their own.
    pub address_header: HeaderName,
    /// So many addresses at the end of that field were written by trusted proxies. None: as many as follow each
    /// other in `trusted_proxies`, and one more.
    pub hops: Option<NonZeroU8>,
    /// Leading bits of an IPv6 address that stand for one client; at most 128.
    pub ipv6_prefix: u8,
}

/// Where one attribute is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// This field.
    Header(HeaderName),
    /// The address of the client; of IPv6 its network.
    ClientAddress,
    /// The path that the client asked for, normalised.
    Path,
    /// The method that it used.
    Method,
    /// The host that it named.
    Host,
}

impl Default for Forwarding {
    /// Address, path, method and host, as proxies of this machine say.
    fn default() -> Self {
        let attributes = [("ip", Source::ClientAddress), ("path", Source::Path), ("method", Source::Method), ("host", Source::Host)];
        Self {
            attributes: attributes.map(|(name, source)| (name.to_owned(), source)).into(),
            trusted_proxies: vec![
                Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8).into(),
                Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128).into(),
            ],
            address_header: X_FORWARDED_FOR,
            hops: None,
            ipv6_prefix: IPV6_PREFIX,
        }
    }
}

impl Forwarding {
    /// Whether what this peer writes is believed.
    pub fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted_proxies.iter().any(|net| net.contains(&address))
    }

    /// The attributes of the request that `peer` asks about.
    ///
    /// # Errors
    /// Every field that is written twice and may be once.
    pub fn attributes(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Result<BTreeMap<String, String>, Vec<InputError>> {
        let nothing = HeaderMap::new();
        let believed = if peer.is_some_and(|peer| self.trusts(peer)) { headers } else { &nothing };
        let (mut attributes, mut mistakes) = (BTreeMap::new(), Vec::new());
        for (name, source) in &self.attributes {
            match self.read(source, peer, believed) {
                Ok(Some(value)) if !value.is_empty() => _ = attributes.insert(name.clone(), cut(value)),
                Ok(_) => {}
                Err(twice) => mistakes.push(InputError { pointer: format!("/attributes/{name}"), detail: twice, line: None }),
            }
        }
        if mistakes.is_empty() { Ok(attributes) } else { Err(mistakes) }
    }

    fn read(&self, source: &Source, peer: Option<IpAddr>, headers: &HeaderMap) -> Result<Option<String>, String> {
        match source {
            Source::Header(name) => one(headers, name),
            Source::Path => Ok(one(headers, &X_FORWARDED_URI)?.map(|uri| path::normalised(uri.as_bytes()))),
            Source::Method => one(headers, &X_FORWARDED_METHOD),
            Source::Host => Ok(one(headers, &X_FORWARDED_HOST)?.map(|host| host_alone(&host))),
            Source::ClientAddress => Ok(peer.map(|peer| self.client_of(peer, headers))),
        }
    }

    fn client_of(&self, peer: IpAddr, headers: &HeaderMap) -> String {
        let lines = headers.get_all(&self.address_header).iter().rev().map(HeaderValue::as_bytes);
        let named = client::entries(lines, self.address_header == FORWARDED);
        client::as_subject(client::address(peer, named, self.hops, |address| self.trusts(address)), self.ipv6_prefix)
    }
}

/// Answers a gateway. With the query `problem=header` a refusal is in the field `Quorate-Problem` too, for nginx,
/// which reads no body of such an answer.
#[utoipa::path(get, path = "/v1/authz", tag = "limits",
    params(("problem" = Option<String>, Query, description = "`header`: the body of a refusal is in `Quorate-Problem` too.")),
    responses(
        (status = 200, body = CheckAnswer, headers(("RateLimit" = String), ("RateLimit-Policy" = String))),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A field is there twice."),
        Decided
    ))]
pub(super) async fn ask<D: Decider>(State(door): State<Arc<Door<D>>>, caller: Caller, request: Request) -> Answer {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(address)| address.ip());
    let forwarding = &door.settings.forwarding;
    if let Some(peer) = peer.filter(|peer| !forwarding.trusts(*peer)) {
        let warn = || tracing::warn!(%peer, "/v1/authz is asked by a peer that is not in `trusted-proxies`: its fields are not believed");
        door.stranger.call_once(warn);
    }
    let answer = match forwarding.attributes(peer, request.headers()) {
        Ok(attributes) => {
            let request = decide::Request { attributes, ..decide::Request::default() };
            door.answer(caller, Check { request, request_id: None }, "").await
        }
        Err(mistakes) => Answer::problem(problems::invalid_request(mistakes)),
    };
    let by_field = request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "problem=header"));
    if by_field { answer.with_problem_in_a_field() } else { answer }
}

/// The value of a field that may be there once.
fn one(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, String> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(format!("the field `{name}` is there more than once"));
    }
    Ok(first.map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned()))
}

/// A host as one name of it: without a port and the last dot, in lower case.
fn host_alone(host: &str) -> String {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// At most what a check may hold.
fn cut(mut value: String) -> String {
    value.truncate(value.floor_char_boundary(LONGEST_VALUE));
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarding(attributes: &[(&str, Source)]) -> Forwarding {
        let attributes = attributes.iter().map(|(name, source)| ((*name).to_owned(), source.clone())).collect();
        Forwarding { attributes, ..Forwarding::default() }
    }

    fn read(forwarding: &Forwarding, peer: &str, fields: &[(&'static str, &str)]) -> Result<Vec<(String, String)>, Vec<InputError>> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        forwarding.attributes(Some(peer.parse().unwrap()), &headers).map(|read| read.into_iter().collect())
    }

    fn all() -> Forwarding {
        let tenant = Source::Header(HeaderName::from_static("x-tenant"));
        forwarding(&[
            ("tenant", tenant),
            ("ip", Source::ClientAddress),
            ("path", Source::Path),
            ("verb", Source::Method),
            ("host", Source::Host),
        ])
    }

    const FIELDS: [(&str, &str); 5] = [
        ("x-tenant", "acme"),
        ("x-forwarded-for", "203.0.113.9:4711"),
        ("x-forwarded-uri", "/API//v1/%61?q=1"),
        ("x-forwarded-method", "PATCH"),
        ("x-forwarded-host", "Shop.Example.:8443"),
    ];

    #[test]
    fn a_trusted_proxy_says_what_was_asked() {
        let expected = [("host", "shop.example"), ("ip", "203.0.113.9"), ("path", "/API/v1/a"), ("tenant", "acme"), ("verb", "PATCH")];
        let expected: Vec<_> = expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(read(&all(), "127.0.0.1", &FIELDS), Ok(expected.clone()));
        assert_eq!(read(&all(), "::ffff:127.0.0.1", &FIELDS), Ok(expected), "an IPv4 address in IPv6 is that address");
    }

    #[test]
    fn nothing_is_believed_of_anybody_else() {
        assert_eq!(read(&all(), "198.51.100.7", &FIELDS), Ok(vec![("ip".to_owned(), "198.51.100.7".to_owned())]));
        let nobody = Forwarding { trusted_proxies: Vec::new(), ..all() };
        assert_eq!(read(&nobody, "127.0.0.1", &FIELDS), Ok(vec![("ip".to_owned(), "127.0.0.1".to_owned())]));
        assert_eq!(all().attributes(None, &HeaderMap::new()), Ok(BTreeMap::new()), "and no address is made up");
    }

    #[test]
    fn a_field_that_is_there_twice_is_refused_and_named() {
        let twice = [("x-tenant", "victim"), ("x-tenant", "acme"), ("x-forwarded-uri", "/a"), ("x-forwarded-uri", "/b")];
        let mistakes = read(&all(), "127.0.0.1", &twice).unwrap_err();
        let told: Vec<&str> = mistakes.iter().map(|mistake| mistake.pointer.as_str()).collect();
        assert_eq!(told, ["/attributes/path", "/attributes/tenant"]);
        assert!(read(&all(), "198.51.100.7", &twice).is_ok(), "of a stranger nothing is read");
    }

    #[test]
    fn what_is_empty_is_absent_and_what_is_long_is_cut() {
        assert_eq!(read(&all(), "127.0.0.1", &[("x-tenant", " ")]), Ok(vec![("ip".to_owned(), "127.0.0.1".to_owned())]));
        let long = "ä".repeat(LONGEST_VALUE);
        let mut headers = HeaderMap::new();
        headers.insert("x-tenant", HeaderValue::from_bytes(long.as_bytes()).unwrap());
        let read = all().attributes(Some(IpAddr::from([127, 0, 0, 1])), &headers).unwrap();
        assert_eq!(read["tenant"], long[..LONGEST_VALUE]);
    }
}
