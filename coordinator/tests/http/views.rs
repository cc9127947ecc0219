//! Bound, cluster, metrics and the event stream.

use crate::cluster::{Agent, Cluster, answered};
use futures_util::{Stream, StreamExt};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use std::pin::Pin;
use std::time::Duration;

#[tokio::test]
async fn bound_and_cluster_are_shown_by_every_node() {
    let cluster = Cluster::three().await;
    let leader = cluster.leader().await;
    for node in 0..3 {
        let bound = cluster.get(node, "/v1/bound").await.json();
        let policy = &bound["policies"][0];
        assert_eq!(
            (&policy["policy"], &policy["overshoot_bound"], &policy["unbounded"]),
            (&json!("write-api"), &json!(0.0), &json!(false))
        );
        assert_eq!((&policy["overshoot_per_period"], &policy["change"]), (&json!(0.0), &Value::Null));
        assert_eq!((&policy["limit"], &policy["period_ms"]), (&json!({"rate": 300.0, "burst": 300.0}), &json!(1_000)));
        assert_eq!((&policy["measured_overshoot"], &policy["utilisation"]), (&json!(0.0), &Value::Null));
        assert!(policy["terms"].as_array().is_some_and(|terms| terms.len() > 5));

        let shown = cluster.get(node, "/v1/cluster").await.json();
        assert_eq!((&shown["node"], &shown["leader"]), (&json!(node + 1), &json!(leader + 1)));
        assert_eq!(shown["state"], if node == leader { "leader" } else { "follower" });
        assert_eq!(shown["members"].as_array().map(Vec::len), Some(3));
    }
}

#[tokio::test]
async fn a_request_is_explained_by_every_node() {
    let cluster = Cluster::three().await;
    let explain = async |node, body: &str| {
        let request = cluster.request(node, Method::POST, "/v1/explain").header(CONTENT_TYPE, "application/json");
        answered(request.body(body.to_owned())).await
    };
    let mut subjects = Vec::new();
    for node in 0..3 {
        let met = explain(node, r#"{"attributes": {"route": "write", "tenant": "acme"}}"#).await.json();
        let budget = &met["budgets"][0];
        assert_eq!((&met["total"], &budget["policy"], &budget["enforced"]), (&json!(1), &json!("write-api"), &json!(true)));
        assert_eq!(budget["regions"]["us"]["floor"], json!({"rate": 200.0, "burst": 200.0}));
        subjects.push(budget["subject"].clone());
    }
    assert!(subjects.iter().all(|subject| *subject == subjects[0]), "{subjects:?}");
    for (attributes, total) in [(r#"{"route": "read", "tenant": "acme"}"#, 0), (r#"{"route": "write"}"#, 0), ("{}", 0)] {
        assert_eq!(explain(0, &format!("{{\"attributes\": {attributes}}}")).await.json()["total"], total, "{attributes}");
    }
    for bad in ["{}", r#"{"attributes": {"a": 1}}"#, r#"{"attributes": {}, "cost": 1}"#] {
        explain(0, bad).await.is_problem(400, "invalid-request");
    }
    answered(cluster.request(0, Method::POST, "/v1/explain").body("{}")).await.is_problem(415, "unsupported-content-type");
}

#[tokio::test]
async fn the_ledgers_level_is_raised_once_every_member_is_there_to_know_it() {
    let cluster = Cluster::three().await;
    for node in 0..3 {
        let level = async || cluster.get(node, "/v1/cluster").await.json()["level"].as_u64().filter(|level| *level > 0);
        assert_eq!(cluster.until(level).await, u64::from(quorate_ledger::level::LEVEL), "node {node}");
    }
}

#[tokio::test]
async fn metrics_are_named_by_the_rules() {
    let cluster = Cluster::one().await;
    let mut eu = Agent::new("eu");
    eu.renew(&cluster, 0, vec![]).await;
    eu.renew(&cluster, 0, vec![]).await;
    let answer = cluster.get(0, "/metrics").await;
    assert_eq!(answer.headers[CONTENT_TYPE], "text/plain; version=0.0.4; charset=utf-8");
    for line in [
        "quorate_heartbeats_total{result=\"renewed\"} 2",
        "quorate_raft_state{state=\"leader\"} 1.0",
        "quorate_raft_state{state=\"follower\"} 0.0",
        "quorate_regions{state=\"live\"} 1.0",
        "quorate_regions{state=\"unknown\"} 1.0",
        "quorate_policy_overshoot_bound_tokens{policy=\"write-api\"} 0.0",
        "quorate_policy_overshoot_bound_tokens_per_period{policy=\"write-api\"} 0.0",
        "quorate_policy_change_pending{policy=\"write-api\"} 0.0",
        "quorate_policy_mode{policy=\"write-api\",mode=\"enforce\"} 1.0",
        "quorate_policy_overshoot_measured_tokens{policy=\"write-api\"} 0.0",
        "quorate_policy_overshoot_measured_last_hour_tokens{policy=\"write-api\"} 0.0",
        "quorate_policy_overshoot_beyond_bound_tokens{policy=\"write-api\"} 0.0",
        "quorate_ledger_alarms 0.0",
        "quorate_policy_set_version 1.0",
        concat!("quorate_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1.0"),
    ] {
        assert!(answer.text.lines().any(|l| l == line), "{line}\n{}", answer.text);
    }
    for name in ["quorate_region_heartbeat_age_seconds{region=\"eu\"} ", "quorate_region_lease_remaining_seconds{region=\"eu\"} "] {
        assert!(answer.text.contains(name), "{name}\n{}", answer.text);
    }
}

#[tokio::test]
async fn no_alarm_stands_and_clearing_none_is_no_mistake() {
    let cluster = Cluster::three().await;
    for node in 0..3 {
        assert_eq!(cluster.get(node, "/readyz").await.json(), json!({"status": "ready", "alarms": 0}));
        assert_eq!(cluster.get(node, "/v1/bound").await.json()["policies"][0]["alarms"], json!([]));
        let path = "/v1/budgets/alarm/clear?policy=write-api&why=mended";
        let cleared = answered(cluster.request(node, Method::POST, path)).await;
        assert_eq!((cleared.status.as_u16(), cleared.json()), (200, json!({"cleared": [], "standing": []})), "node {node}");
    }
    for bad in ["policy=Bad%20Name", "subject=x", "surprise=1"] {
        let path = format!("/v1/budgets/alarm/clear?{bad}");
        answered(cluster.request(0, Method::POST, &path)).await.is_problem(400, "invalid-request");
    }
}

#[tokio::test]
async fn another_lease_is_told_in_the_next_response() {
    let cluster = Cluster::three().await;
    let mut eu = Agent::new("eu");
    let before = eu.renew(&cluster, 0, vec![]).await.lease;
    let changed = answered(cluster.request(1, Method::POST, "/v1/cluster/lease?lease=9s&why=quieter")).await;
    assert_eq!((changed.status.as_u16(), changed.json()), (200, json!({"lease": "9s"})));
    let response = eu.renew(&cluster, 2, vec![]).await;
    assert_eq!((response.lease, response.longest_lease), (Duration::from_secs(9), Duration::from_secs(9).max(before)));
    for bad in ["lease=0s", "lease=2min", "lease=soon", ""] {
        let path = format!("/v1/cluster/lease?{bad}");
        answered(cluster.request(0, Method::POST, &path)).await.is_problem(400, "invalid-request");
    }
}

type Chunks = Pin<Box<dyn Stream<Item = reqwest::Result<bytes::Bytes>> + Send>>;

async fn open(cluster: &Cluster, node: usize) -> Chunks {
    let response = cluster.request(node, Method::GET, "/v1/events").send().await.expect("an answer");
    assert_eq!((response.status().as_u16(), &response.headers()[CONTENT_TYPE]), (200, &"text/event-stream".parse().expect("ASCII")));
    Box::pin(response.bytes_stream())
}

async fn next_state(chunks: &mut Chunks, rest: &mut String) -> Option<Value> {
    loop {
        if let Some((event, after)) = rest.split_once("\n\n").map(|(a, b)| (a.to_owned(), b.to_owned())) {
            *rest = after;
            let data = event.strip_prefix("event: state\ndata: ")?;
            return serde_json::from_str(data).ok();
        }
        let chunk = chunks.next().await?.expect("a chunk");
        rest.push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
    }
}

#[tokio::test]
async fn the_stream_shows_a_heartbeat_on_every_node() {
    let cluster = Cluster::three().await;
    Agent::new("eu").renew(&cluster, 0, vec![]).await;
    for node in 0..3 {
        let (mut chunks, mut rest) = (open(&cluster, node).await, String::new());
        let state = next_state(&mut chunks, &mut rest).await.expect("a state");
        assert_eq!((&state["regions"][0]["region"], &state["regions"][0]["state"]), (&json!("eu"), &json!("live")), "node {node}");
        assert_eq!((&state["cluster"]["node"], &state["policy_set"]["version"]), (&json!(node + 1), &json!(1)));
        assert_eq!((&state["policies"][0]["policy"], &state["budgets"]["total"]), (&json!("write-api"), &json!(0)));
        assert!(next_state(&mut chunks, &mut rest).await.is_some(), "a second state follows");
    }
}

#[tokio::test]
async fn streams_are_few_and_end_with_the_node() {
    let mut cluster = Cluster::one().await;
    let mut streams = Vec::new();
    for _ in 0..64 {
        streams.push(open(&cluster, 0).await);
    }
    cluster.get(0, "/v1/events").await.is_problem(503, "too-many-streams");
    let mut last = streams.pop().expect("a stream");
    drop(streams);
    let again = cluster
        .until(|| async { (cluster.request(0, Method::GET, "/v1/events").send().await.expect("an answer").status() == 200).then_some(()) });
    again.await;
    cluster.stop(0).await;
    while let Some(chunk) = last.next().await {
        chunk.expect("the stream ends well");
    }
}
