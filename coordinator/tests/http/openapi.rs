//! The document of the interface, against the routes and against what they answer.

use crate::cluster::{Agent, Cluster};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Where the routes are.
const ROUTES: &str = include_str!("../../src/http/mod.rs");

/// What is wrong with `value` by the schema at `place`, a JSON pointer into the document.
fn mistakes(document: &Value, place: &str, value: &Value) -> Vec<String> {
    assert!(document.pointer(place).is_some(), "the document has no {place}");
    let mut schema = document.clone();
    schema["$ref"] = json!(format!("#{place}"));
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[tokio::test]
async fn every_route_is_in_the_document_and_the_other_way_round() {
    let cluster = Cluster::three().await;
    let document = cluster.get(0, "/openapi.json").await.json();
    let mut documented = BTreeSet::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        documented.extend(item.as_object().expect("operations").keys().map(|method| (path.clone(), method.clone())));
    }
    let mut routed = BTreeSet::new();
    for route in ROUTES.split(".route(\"").skip(1) {
        let (path, handler) = route.split_once("\", ").expect("a handler");
        routed.insert((path.to_owned(), handler.split('(').next().expect("a method").to_owned()));
    }
    assert!(routed.len() > 15, "{routed:?}");
    assert_eq!(documented, routed);
}

#[tokio::test]
async fn what_is_answered_is_in_the_document() {
    let cluster = Cluster::three().await;
    let leader = cluster.leader().await;
    let document = cluster.get(0, "/openapi.json").await.json();
    let mut agent = Agent::new("us");
    agent.renew(&cluster, leader, vec![]).await;
    let paths = [
        "/v1/regions",
        "/v1/bound",
        "/v1/budgets",
        "/v1/cluster",
        "/v1/policies",
        "/v1/policies/history",
        "/v1/policies/diff?from=1&to=1",
        "/v1/policies/trials",
        "/v1/what-if?regions=us",
        "/v1/changes",
        "/v1/audit",
        "/healthz",
        "/readyz",
    ];
    for path in paths {
        let answer = cluster.get(0, path).await;
        let (documented, _) = path.split_once('?').unwrap_or((path, ""));
        let place = format!("/paths/{}/get/responses/200/content/application~1json/schema", documented.replace('/', "~1"));
        assert_eq!(mistakes(&document, &place, &answer.json()), [""; 0], "{path}: {}", answer.json());
    }
    for (path, asked) in [("/v1/budgets", "/v1/budgets?sort=nothing"), ("/v1/policies", "/v1/policies?format=toml")] {
        let answer = cluster.get(0, asked).await;
        let place = format!("/paths/{}/get/responses/default/content/application~1problem+json/schema", path.replace('/', "~1"));
        assert_eq!(mistakes(&document, &place, &answer.json()), [""; 0], "{asked}: {}", answer.json());
    }
}
