//! What gateways ask, and what those ask who would like to be one.

use crate::scripted::{Reply, Scripted, allowed, over, policy, refused, send, tokens, write_api};
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderName, Method, Request as HttpRequest};
use quorate_agent::decide::{DecideError, PolicyDecision};
use quorate_agent::http::authz::{Forwarding, Source};
use quorate_agent::http::{FrontDoor, router};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const GATEWAY: &str = "10.0.0.1:4711";

/// Trusts 10.0.0.0/8, and reads the tenant besides what it reads anyway.
fn forwarding() -> Forwarding {
    let mut forwarding = Forwarding { trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()], ..Forwarding::default() };
    forwarding.attributes.insert("tenant".to_owned(), Source::Header(HeaderName::from_static("x-tenant")));
    forwarding
}

fn door(decider: &Arc<Scripted>) -> Router {
    router(decider.clone(), FrontDoor { forwarding: forwarding(), ..FrontDoor::default() })
}

fn question(peer: &str, path: &str, fields: &[(&str, &str)]) -> HttpRequest<Body> {
    let request = HttpRequest::get(path).extension(ConnectInfo(peer.parse::<SocketAddr>().unwrap()));
    fields.iter().fold(request, |request, (name, value)| request.header(*name, *value)).body(Body::empty()).unwrap()
}

async fn ask(decider: &Arc<Scripted>, peer: &str, fields: &[(&str, &str)]) -> Reply {
    send(door(decider), question(peer, "/v1/authz", fields)).await
}

/// What the decider was asked last, as `name=value …`.
fn asked(decider: &Scripted) -> String {
    let asked = decider.asked.lock().unwrap();
    asked.last().unwrap().attributes.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_gateway_asks_by_fields_and_any_method() {
    let fields = [
        ("x-tenant", "acme"),
        ("x-forwarded-for", "1.1.1.1, 203.0.113.9"),
        ("x-forwarded-uri", "/v2/./items?id=1"),
        ("x-forwarded-method", "POST"),
        ("x-forwarded-host", "api.example:443"),
    ];
    for method in [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS, Method::PATCH] {
        let decider = Scripted::allowing();
        let mut request = question(GATEWAY, "/v1/authz", &fields);
        *request.method_mut() = method.clone();
        let reply = send(door(&decider), request).await;
        assert_eq!(reply.status, 200, "{method}");
        assert_eq!(reply.header("ratelimit"), Some("\"write-api\";r=41;t=2"));
        assert_eq!(reply.header("ratelimit-policy"), Some("\"write-api\";q=200;w=2"));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        assert_eq!(asked(&decider), "host=api.example ip=203.0.113.9 method=POST path=/v2/items tenant=acme");
        assert_eq!(decider.asked.lock().unwrap()[0].cost, None, "as each policy says");
    }
}

#[tokio::test]
async fn an_attacker_beside_the_gateway_is_not_believed() {
    let decider = Scripted::allowing();
    let spoofed = [
        ("x-tenant", "victim"),
        ("x-forwarded-for", "203.0.113.9"),
        ("forwarded", "for=203.0.113.9"),
        ("x-real-ip", "203.0.113.9"),
        ("x-forwarded-uri", "/cheap"),
        ("x-forwarded-method", "GET"),
        ("x-forwarded-host", "other.example"),
    ];
    ask(&decider, "198.51.100.66:4711", &spoofed).await;
    assert_eq!(asked(&decider), "ip=198.51.100.66");
    ask(&decider, "[2001:db8:1:2:aaaa::66]:4711", &spoofed).await;
    assert_eq!(asked(&decider), "ip=2001:db8:1:2::/64");
    send(door(&decider), HttpRequest::get("/v1/authz").header("x-tenant", "victim").body(Body::empty()).unwrap()).await;
    assert_eq!(asked(&decider), "", "nor one whose address nobody knows");
}

#[tokio::test]
async fn an_attacker_behind_the_gateway_does_not_choose_an_address() {
    let decider = Scripted::allowing();
    // the gateway adds the address it sees, whatever the client wrote before it
    for written in ["203.0.113.9", "10.0.0.1", "10.0.0.1, 10.0.0.2", "unknown", "\"", "[", "1.1.1.1,,,", "127.0.0.1"] {
        ask(&decider, GATEWAY, &[("x-forwarded-for", &format!("{written}, 198.51.100.66"))]).await;
        assert_eq!(asked(&decider), "ip=198.51.100.66", "{written}");
        ask(&decider, GATEWAY, &[("x-forwarded-for", written), ("x-forwarded-for", "198.51.100.66")]).await;
        assert_eq!(asked(&decider), "ip=198.51.100.66", "{written}, in a line of its own");
    }
    ask(&decider, GATEWAY, &[("forwarded", "for=203.0.113.9"), ("x-forwarded-for", "198.51.100.66")]).await;
    assert_eq!(asked(&decider), "ip=198.51.100.66", "only one field is read");
}

#[tokio::test]
async fn a_network_of_ipv6_is_one_client() {
    let decider = Scripted::allowing();
    for written in ["2001:db8:1:2::1", "[2001:db8:1:2:ffff::9]:443", "2001:db8:1:2:3:4:5:6"] {
        ask(&decider, GATEWAY, &[("x-forwarded-for", written)]).await;
        assert_eq!(asked(&decider), "ip=2001:db8:1:2::/64");
    }
    ask(&decider, GATEWAY, &[("x-forwarded-for", "::ffff:198.51.100.66")]).await;
    assert_eq!(asked(&decider), "ip=198.51.100.66");
}

#[tokio::test]
async fn a_field_that_is_smuggled_in_beside_the_gateways_own_is_refused() {
    let decider = Scripted::allowing();
    let reply = ask(&decider, GATEWAY, &[("x-tenant", "victim"), ("x-tenant", "acme")]).await;
    assert_eq!((reply.status.as_u16(), reply.kind().as_str()), (400, "invalid-request"));
    assert_eq!(reply.problem().errors[0].pointer, "/attributes/tenant");
    assert_eq!(decider.count(), 0);
}

#[tokio::test]
async fn a_refusal_has_all_that_a_client_needs() {
    let decider = Scripted::saying(Ok(refused(vec![over("write-api", Duration::from_millis(1_500))])));
    let reply = ask(&decider, GATEWAY, &[]).await;
    assert_eq!((reply.status.as_u16(), reply.kind().as_str()), (429, "quota-exceeded"));
    assert_eq!(reply.header("retry-after"), Some("2"));
    assert_eq!(reply.header("ratelimit"), Some("\"write-api\";r=0;t=2"));
    assert_eq!(reply.header("quorate-problem"), None, "only where it is asked for");

    let reply = send(door(&decider), question(GATEWAY, "/v1/authz?a=b&problem=header", &[])).await;
    assert_eq!(reply.header("quorate-problem").map(str::as_bytes), Some(&*reply.body));
    decider.says(Ok(allowed(vec![write_api(1)])));
    let reply = send(door(&decider), question(GATEWAY, "/v1/authz?problem=header", &[])).await;
    assert_eq!((reply.status.as_u16(), reply.header("quorate-problem")), (200, None));
}

#[tokio::test]
async fn a_trace_is_not_asked_about_and_says_what_is() {
    let decider = Scripted::allowing();
    let trace = HttpRequest::builder().method("TRACE").uri("/v1/authz").body(Body::empty()).unwrap();
    let reply = send(door(&decider), trace).await;
    assert_eq!((reply.status.as_u16(), decider.count()), (405, 0));
    assert!(reply.header("allow").is_some_and(|methods| methods.contains("POST") && !methods.contains("TRACE")));
}

#[tokio::test]
async fn a_cost_that_never_fits_and_a_closed_store_are_told_apart() {
    let costly = PolicyDecision { cost: tokens(500), ..over("write-api", Duration::from_secs(1)) };
    let decider = Scripted::saying(Ok(refused(vec![costly])));
    let reply = ask(&decider, GATEWAY, &[]).await;
    assert_eq!((reply.status.as_u16(), reply.kind().as_str()), (422, "cost-exceeds-limit"));
    assert_eq!(reply.header("retry-after"), None);
    let closed = DecideError::StoreUnavailable {
        policies: vec!["login".parse().unwrap()],
        retry_after: Duration::from_secs(1),
        reason: "gone".into(),
    };
    decider.says(Err(closed));
    let reply = ask(&decider, GATEWAY, &[]).await;
    assert_eq!((reply.status.as_u16(), reply.kind().as_str()), (503, "limiter-unavailable"));
    assert_eq!(reply.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn old_clients_get_their_fields_only_if_it_is_said() {
    let names = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
    let watched = PolicyDecision { enforced: false, ..over("watched", Duration::from_secs(99)) };
    let decider = Scripted::saying(Ok(allowed(vec![policy("wide", tokens(150), None), write_api(41), watched])));
    let reply = ask(&decider, GATEWAY, &[]).await;
    assert_eq!(names.map(|name| reply.header(name)), [None; 3]);

    let legacy = || router(decider.clone(), FrontDoor { legacy_headers: true, forwarding: forwarding(), ..FrontDoor::default() });
    let reply = send(legacy(), question(GATEWAY, "/v1/authz", &[])).await;
    assert_eq!(names.map(|name| reply.header(name)), [Some("200"), Some("41"), Some("2")], "of which the least is left");
    assert!(reply.header("ratelimit").is_some(), "beside those of the draft");

    decider.says(Ok(refused(vec![policy("wide", tokens(150), None), over("write-api", Duration::from_millis(3_500))])));
    let reply = send(legacy(), question(GATEWAY, "/v1/authz", &[])).await;
    assert_eq!(names.map(|name| reply.header(name)), [Some("200"), Some("0"), Some("4")]);
    assert_eq!(reply.header("retry-after"), Some("4"));
    decider.says(Ok(allowed(vec![])));
    let reply = send(legacy(), question(GATEWAY, "/v1/authz", &[])).await;
    assert_eq!(names.map(|name| reply.header(name)), [None; 3]);
}
