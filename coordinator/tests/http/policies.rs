//! `GET` and `PUT /v1/policies`.

use crate::cluster::{Agent, Cluster, POLICIES, answered};
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE, IF_MATCH};
use serde_json::{Value, json};

fn with_rate(rate: &str) -> String {
    POLICIES.replace("300/s", rate)
}

#[tokio::test]
async fn the_set_is_served_as_json_and_yaml_and_can_be_sent_back() {
    let cluster = Cluster::one().await;
    let answer = cluster.get(0, "/v1/policies").await;
    assert_eq!((answer.status.as_u16(), answer.etag()), (200, "\"1\""));
    assert_eq!(answer.headers["cache-control"], "no-store");
    let set = answer.json();
    assert_eq!((&set["version"], &set["active"], &set["pending"]), (&json!(1), &json!(1), &json!(null)));
    assert_eq!(set["policies"][0]["on_store_failure"], "closed");

    for request in [
        cluster.request(0, Method::GET, "/v1/policies").header(ACCEPT, "application/yaml"),
        cluster.request(0, Method::GET, "/v1/policies?format=yaml"),
    ] {
        let yaml = answered(request).await;
        assert_eq!((&yaml.headers[CONTENT_TYPE], yaml.etag()), (&"application/yaml".parse().expect("ASCII"), "\"1\""));
        assert!(yaml.text.contains("on-store-failure: closed"), "{}", yaml.text);
        let same = cluster.put_policies(0, "?dry_run=true", Some(1), yaml.text).await.json();
        assert_eq!((&same["diff"], &same["dry_run"]), (&json!([]), &json!(true)));
    }
    let back = cluster.request(0, Method::PUT, "/v1/policies").header(CONTENT_TYPE, "application/json").header(IF_MATCH, "\"1\"");
    let back = answered(back.body(answer.text)).await;
    assert_eq!((back.status.as_u16(), back.json()["version"].as_u64(), back.etag()), (200, Some(2), "\"2\""));
}

#[tokio::test]
async fn a_change_names_what_it_replaces_on_any_node() {
    let cluster = Cluster::three().await;
    let follower = (cluster.leader().await + 1) % 3;
    let problem = cluster.put_policies(follower, "", None, POLICIES).await.is_problem(428, "precondition-required");
    assert_eq!(problem["version"], 1);
    let dry = cluster.put_policies(follower, "?dry_run=true", None, with_rate("400/s")).await;
    assert_eq!(dry.status, 200, "{}", dry.text);
    let dry = dry.json();
    assert_eq!((&dry["version"], &dry["waits_for"]), (&json!(1), &json!([])));
    assert_eq!(dry["diff"], json!([{"policy": "write-api", "field": "limit.rate", "from": "300/s", "to": "400/s"}]));
    assert_eq!(cluster.get(follower, "/v1/policies").await.etag(), "\"1\"", "a dry run changes nothing");

    let put = cluster.put_policies(follower, "?why=more%20traffic", Some(1), with_rate("400/s")).await;
    assert_eq!((put.status.as_u16(), put.json()["version"].as_u64()), (200, Some(2)), "{}", put.text);
    for node in 0..3 {
        let read = cluster.get(node, "/v1/policies").await;
        assert_eq!((read.etag(), read.json()["policies"][0]["limit"]["rate"].as_str()), ("\"2\"", Some("400/s")), "node {node}");
    }
    let by = cluster.node(cluster.leader().await).node().read(|l| l.policy_history().last().map(|v| v.by.clone())).expect("a version");
    assert_eq!((by.who.as_str(), by.why.as_deref()), ("anonymous", Some("more traffic")));
    for query in ["", "?dry_run=true"] {
        let problem = cluster.put_policies(follower, query, Some(1), with_rate("500/s")).await.is_problem(412, "precondition-failed");
        assert_eq!(problem["version"], 2);
    }
}

#[tokio::test]
async fn all_mistakes_are_told_with_their_lines() {
    let cluster = Cluster::one().await;
    let bad = "regions: {us: {}}\npolicies:\n  - name: Bad Name\n    limit: {algorithm: token-bucket, rate: 5}\n    surprise: 1\n";
    for query in ["", "?dry_run=true"] {
        let problem = cluster.put_policies(0, query, Some(1), bad).await.is_problem(400, "invalid-policies");
        let places: Vec<(&str, u64)> = problem["errors"]
            .as_array()
            .expect("errors")
            .iter()
            .map(|e| (e["pointer"].as_str().expect("a pointer"), e["line"].as_u64().expect("a line")))
            .collect();
        assert_eq!(places, [("/policies/0/name", 3), ("/policies/0/limit/rate", 4), ("/policies/0/surprise", 5)], "{problem}");
    }
    cluster.put_policies(0, "", Some(1), "{").await.is_problem(400, "invalid-policies");
    let warned = POLICIES.replace("closed", "emergency\n    emergency: 0%");
    let warned = cluster.put_policies(0, "", Some(1), warned).await.json();
    assert_eq!((warned["warnings"][0]["line"].as_u64().is_some(), &warned["version"]), (true, &json!(2)), "{warned}");
}

#[tokio::test]
async fn what_cannot_be_a_policy_set_is_refused() {
    let cluster = Cluster::one().await;
    for content_type in ["application/octet-stream", "application/x-www-form-urlencoded"] {
        let request = cluster.request(0, Method::PUT, "/v1/policies").header(IF_MATCH, "\"1\"").header(CONTENT_TYPE, content_type);
        answered(request.body(POLICIES)).await.is_problem(415, "unsupported-content-type");
    }
    answered(cluster.request(0, Method::PUT, "/v1/policies").body(POLICIES)).await.is_problem(415, "unsupported-content-type");
    let large = format!("{POLICIES}#{}", "x".repeat(1 << 20));
    cluster.put_policies(0, "", Some(1), large).await.is_problem(413, "body-too-large");
    cluster.put_policies(0, "?dryrun=true", Some(1), POLICIES).await.is_problem(400, "invalid-request");
    let long = format!("?why={}", "x".repeat(1_001));
    cluster.put_policies(0, &long, Some(1), POLICIES).await.is_problem(400, "invalid-request");
    assert_eq!(cluster.get(0, "/v1/policies").await.etag(), "\"1\"");
}

#[tokio::test]
async fn a_live_region_is_not_fenced() {
    let cluster = Cluster::one().await;
    let mut eu = Agent::new("eu");
    eu.renew(&cluster, 0, vec![]).await;
    let fence = |region: &str| cluster.request(0, Method::POST, &format!("/v1/regions/{region}/fence?why=gone"));
    answered(fence("nowhere")).await.is_problem(404, "not-found");
    // it was heard a moment ago: its lease must end before anybody may say that it is gone
    answered(fence("eu")).await.is_problem(409, "region-live");
}

#[tokio::test]
async fn a_change_waits_for_the_regions_that_it_takes_from() {
    let cluster = Cluster::one().await;
    let mut eu = Agent::new("eu");
    eu.renew(&cluster, 0, vec![]).await;
    let put = cluster.put_policies(0, "", Some(1), with_rate("30/s")).await.json();
    assert_eq!((&put["version"], &put["waits_for"]), (&json!(2), &json!(["eu"])), "{put}");
    let shown = cluster.get(0, "/v1/policies").await.json();
    assert_eq!((&shown["active"], &shown["pending"]), (&json!(1), &json!({"version": 2, "waits_for": ["eu"]})));

    cluster.put_policies(0, "", Some(1), POLICIES).await.is_problem(412, "precondition-failed");
    for _ in 0..3 {
        eu.renew(&cluster, 0, vec![]).await;
    }
    let shown = cluster.get(0, "/v1/policies").await.json();
    assert_eq!((&shown["active"], &shown["pending"]), (&json!(2), &Value::Null));
}
