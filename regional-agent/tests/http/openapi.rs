//! The document of the interface, against the routes and against what they answer.

use crate::scripted::{Reply, Scripted, allowed, before, get, over, policy, post, refused, tokens, write_api};
use quorate_agent::decide::{DecideError, PolicyDecision};
use quorate_limiter::hold::Settled;
use quorate_shared::units::MicroTokens;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Where the routes are.
const ROUTES: &str = include_str!("../../src/http/mod.rs");

async fn document() -> Value {
    let reply = get(before(&Scripted::allowing()), "/openapi.json").await;
    assert_eq!((reply.status.as_u16(), reply.header("content-type")), (200, Some("application/json")));
    reply.json()
}

/// What is wrong with `value` by the schema at `place`, a JSON pointer into the document.
fn mistakes(document: &Value, place: &str, value: &Value) -> Vec<String> {
    assert!(document.pointer(place).is_some(), "the document has no {place}");
    let mut schema = document.clone();
    schema["$ref"] = json!(format!("#{place}"));
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

fn operation(path: &str, method: &str) -> String {
    format!("/paths/{}/{method}", path.replace('/', "~1"))
}

/// Asserts that an answer is one that the document has.
fn is_documented(document: &Value, path: &str, method: &str, reply: &Reply) {
    let media = reply.header("content-type").expect("a media type").split(';').next().unwrap().replace('/', "~1");
    let place = format!("{}/responses/{}/content/{media}/schema", operation(path, method), reply.status.as_u16());
    assert_eq!(mistakes(document, &place, &reply.json()), [""; 0], "{path} {}: {}", reply.status, reply.json());
}

#[tokio::test]
async fn every_route_is_in_the_document_and_the_other_way_round() {
    let document = document().await;
    let mut documented = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            documented.insert((path.clone(), method.clone()));
        }
    }
    let mut routed = BTreeSet::new();
    for route in ROUTES.split(".route(\"").skip(1) {
        let (path, handler) = route.split_once("\", ").unwrap();
        let method = handler.split('(').next().unwrap();
        // a gateway may use any
        routed.insert((path.to_owned(), if method == "any" { "get" } else { method }.to_owned()));
    }
    assert!(routed.len() > 9, "{routed:?}");
    assert_eq!(documented, routed);
}

#[tokio::test]
async fn every_answer_to_a_check_is_in_the_document() {
    let document = document().await;
    let check = r#"{"attributes":{"tenant":"acme"},"cost":3,"request_id":null}"#;
    let closed = DecideError::StoreUnavailable {
        policies: vec!["login".parse().unwrap()],
        retry_after: Duration::from_secs(1),
        reason: "gone".into(),
    };
    let costly = PolicyDecision { cost: tokens(500), ..over("write-api", Duration::from_secs(1)) };
    let without_store = PolicyDecision { decision: None, ..policy("open", MicroTokens::ZERO, None) };
    let says = [
        Ok(allowed(vec![])),
        Ok(allowed(vec![write_api(41), without_store])),
        Ok(refused(vec![over("write-api", Duration::from_secs(3))])),
        Ok(refused(vec![costly])),
        Err(closed),
        Err(DecideError::NoPolicies),
    ];
    for said in says {
        let decider = Scripted::saying(said);
        is_documented(&document, "/v1/check", "post", &post(before(&decider), "/v1/check", check).await);
        is_documented(&document, "/v1/reserve", "post", &post(before(&decider), "/v1/reserve", check).await);
        is_documented(&document, "/v1/authz", "get", &get(before(&decider), "/v1/authz").await);
        is_documented(&document, "/v1/checks", "post", &post(before(&decider), "/v1/checks", format!("[{check},{check}]")).await);
    }
}

#[tokio::test]
async fn every_other_answer_is_in_the_document() {
    let document = document().await;
    let decider = Scripted::allowing();
    let routes = || before(&decider);
    let settle = r#"{"reservation":"00000000000000000000000000000001","cost":3}"#;
    is_documented(&document, "/v1/settle", "post", &post(routes(), "/v1/settle", settle).await);
    *decider.settles.lock().unwrap() = Ok(Some(Settled { cost: tokens(3), returned: tokens(1), owed: MicroTokens(1) }));
    is_documented(&document, "/v1/settle", "post", &post(routes(), "/v1/settle", settle).await);
    let release = r#"{"slot":"0000000000000000000000000000000a"}"#;
    is_documented(&document, "/v1/release", "post", &post(routes(), "/v1/release", release).await);
    is_documented(&document, "/v1/status", "get", &get(routes(), "/v1/status").await);
    *decider.ready.lock().unwrap() = Err("no policies yet".into());
    is_documented(&document, "/readyz", "get", &get(routes(), "/readyz").await);
    for path in ["/v1/check", "/v1/checks", "/v1/reserve", "/v1/settle", "/v1/release"] {
        is_documented(&document, path, "post", &post(routes(), path, "{\"nothing\":1}").await);
        is_documented(&document, path, "post", &post(routes(), path, "x".repeat(70_000)).await);
    }
}

#[tokio::test]
async fn what_the_document_says_of_questions_is_what_is_read() {
    let document = document().await;
    let decider = Scripted::allowing();
    *decider.settles.lock().unwrap() = Ok(Some(Settled { cost: tokens(3), returned: tokens(1), owed: MicroTokens(1) }));
    let hold = "00000000000000000000000000000001";
    let many = |count: usize| (0..count).map(|n| (n.to_string(), json!("v"))).collect::<serde_json::Map<_, _>>();
    let bounds = [
        ("/v1/check", json!({"attributes": {"": "b"}})),
        ("/v1/check", json!({"attributes": {"n".repeat(128): "v".repeat(8192)}})),
        ("/v1/check", json!({"attributes": {"n".repeat(129): "b"}})),
        ("/v1/check", json!({"attributes": {"a": "v".repeat(8193)}})),
        ("/v1/check", json!({"attributes": many(64)})),
        ("/v1/check", json!({"attributes": many(65)})),
        ("/v1/check", json!({"attributes": {}, "cost": 9_007_199_254_u64})),
        ("/v1/check", json!({"attributes": {}, "cost": 9_007_199_255_u64})),
        ("/v1/check", json!({"attributes": {}, "request_id": ""})),
        ("/v1/check", json!({"attributes": {}, "request_id": "r".repeat(128)})),
        ("/v1/check", json!({"attributes": {}, "request_id": "r".repeat(129)})),
        ("/v1/settle", json!({"reservation": hold, "cost": 9_007_199_255_u64})),
        ("/v1/settle", json!({"reservation": "1", "cost": 1})),
        ("/v1/release", json!({"slot": "A".repeat(32)})),
        ("/v1/release", json!({"slot": "a".repeat(33)})),
    ];
    let spans = [
        "",
        "0s",
        "999us",
        "1000us",
        "600000000us",
        "600000001us",
        "1ms",
        "600000ms",
        "600001ms",
        "1s",
        "600s",
        "601s",
        "10min",
        "11min",
        "1h",
    ];
    let spans = spans.map(|ttl| ("/v1/reserve", json!({"attributes": {}, "ttl": ttl})));
    let table = [
        ("/v1/check", json!({"attributes": {}})),
        ("/v1/check", json!({"attributes": {"a": "b"}, "cost": 0, "request_id": "r"})),
        ("/v1/check", json!({"attributes": {"a": "b"}, "cost": null, "request_id": null})),
        ("/v1/check", json!({})),
        ("/v1/check", json!({"attributes": {"a": 1}})),
        ("/v1/check", json!({"attributes": {}, "cost": -1})),
        ("/v1/check", json!({"attributes": {}, "cost": 1.5})),
        ("/v1/check", json!({"attributes": {}, "ttl": "1s"})),
        ("/v1/check", json!([])),
        ("/v1/checks", json!([])),
        ("/v1/checks", json!([{"attributes": {}}])),
        ("/v1/checks", json!({"attributes": {}})),
        ("/v1/reserve", json!({"attributes": {}, "ttl": "1s"})),
        ("/v1/reserve", json!({"attributes": {}, "ttl": 1})),
        ("/v1/settle", json!({"reservation": hold, "cost": 3})),
        ("/v1/settle", json!({"reservation": hold})),
        ("/v1/settle", json!({"reservation": hold, "cost": 3, "more": 1})),
        ("/v1/release", json!({"slot": hold})),
        ("/v1/release", json!({"slot": null})),
    ];
    for (path, body) in table.into_iter().chain(bounds).chain(spans) {
        let place = format!("{}/requestBody/content/application~1json/schema", operation(path, "post"));
        let valid = mistakes(&document, &place, &body).is_empty();
        let reply = post(before(&decider), path, body.to_string()).await;
        assert_eq!(valid, reply.status != 400, "{path} {body}: {}", reply.json());
    }
}

#[tokio::test]
async fn the_document_knows_tokens_and_the_draft_of_its_fields() {
    let document = document().await;
    assert_eq!(document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
    let allowed: Arc<[&str]> = ["RateLimit", "RateLimit-Policy"].into();
    for name in allowed.iter() {
        assert!(document.pointer(&format!("{}/responses/200/headers/{name}", operation("/v1/check", "post"))).is_some(), "{name}");
    }
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
}
