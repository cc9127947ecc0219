//! What is refused, and how: always as a problem.

use crate::cluster::{Agent, Cluster, POLICIES, answered};
use quorate_coordinator::config::CoordinatorConfig;
use quorate_coordinator::server::{Coordinator, StartError};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use std::collections::BTreeMap;

#[tokio::test]
async fn unknown_paths_methods_and_queries_are_problems() {
    let cluster = Cluster::one().await;
    for path in ["/no-such", "/v1/no-such", "/v1/regions/eu", "/v1/cluster/grow", "/../Cargo.toml", "/%2e%2e/Cargo.toml", "/V1/regions"] {
        cluster.get(0, path).await.is_problem(404, "not-found");
    }
    for path in ["/", "/v1/policies", "/v1/regions", "/v1/cluster", "/metrics", "/healthz", "/v1/regions/eu/heartbeat"] {
        let answer = answered(cluster.request(0, Method::DELETE, path)).await;
        answer.is_problem(405, "method-not-allowed");
        assert!(answer.headers.contains_key("allow"), "{path}");
    }
    for query in ["sort=colour", "limit=0", "limit=many", "policy=No%20Name", "subject=12", "cursor=x", "colour=red"] {
        cluster.get(0, &format!("/v1/budgets?{query}")).await.is_problem(400, "invalid-request");
    }
    cluster.get(0, "/v1/policies?format=toml").await.is_problem(400, "invalid-request");
    let beat = serde_json::to_string(&Agent::new("eu").beat(vec![])).expect("JSON");
    let request = cluster.request(0, Method::POST, "/v1/regions/eu/heartbeat").header(CONTENT_TYPE, "text/plain");
    answered(request.body(beat)).await.is_problem(415, "unsupported-content-type");
}

#[tokio::test]
async fn without_a_majority_nothing_is_decided_and_everything_is_said() {
    let cluster = Cluster::start_some(3, 1, |_| {}).await;
    assert_eq!(cluster.get(0, "/healthz").await.status, 200);
    let answer = cluster.get(0, "/readyz").await;
    answer.is_problem(503, "not-ready");
    let beat = serde_json::to_string(&Agent::new("eu").beat(vec![])).expect("JSON");
    let answer = cluster.post_heartbeat(0, "eu", beat).await;
    answer.is_problem(503, "no-leader");
    assert_eq!(answer.headers["retry-after"], "1");
    cluster.put_policies(0, "", Some(0), POLICIES).await.is_problem(503, "no-leader");
    let set = cluster.get(0, "/v1/policies").await;
    assert_eq!((set.etag(), set.json()["policies"].as_array().map(Vec::len)), ("\"0\"", Some(0)));
    assert_eq!(cluster.get(0, "/v1/regions").await.json(), serde_json::json!({"regions": []}));
}

#[tokio::test]
async fn a_forwarded_request_is_not_forwarded_again() {
    let cluster = Cluster::three().await;
    let follower = (cluster.leader().await + 1) % 3;
    let beat = serde_json::to_string(&Agent::new("eu").beat(vec![])).expect("JSON");
    let request = cluster.request(follower, Method::POST, "/v1/regions/eu/heartbeat");
    let request = request.header(CONTENT_TYPE, "application/json").header("quorate-forwarded-by", "9");
    answered(request.body(beat)).await.is_problem(503, "no-leader");
}

#[tokio::test]
async fn a_node_that_stopped_says_so() {
    let cluster = Cluster::one().await;
    cluster.node(0).node().shutdown().await;
    cluster.get(0, "/healthz").await.is_problem(503, "node-stopped");
    let beat = serde_json::to_string(&Agent::new("eu").beat(vec![])).expect("JSON");
    assert_eq!(cluster.post_heartbeat(0, "eu", beat).await.status, 503);
    assert!(!cluster.node(0).failed().await.is_empty());
}

#[tokio::test]
async fn two_lists_of_members_make_no_cluster() {
    let other = |config: &mut CoordinatorConfig| {
        if config.node == 2 {
            config.members.insert(3, "127.0.0.1:1".to_owned());
        }
    };
    let cluster = Cluster::start(2, other).await;
    let told = cluster.node(0).failed().await;
    assert!(told.contains("node 2") && told.contains("make the lists equal"), "{told}");
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let cluster = Cluster::one().await;
    let taken = cluster.node(0).local_addr();
    let dir = tempfile::tempdir().expect("a folder");
    let config = CoordinatorConfig::new(1, taken, BTreeMap::from([(1, taken.to_string())]), dir.path());
    match Coordinator::start(config).await {
        Err(error @ StartError::Listen { .. }) => {
            let told = error.to_string();
            assert_eq!(
                told,
                format!("cannot listen on {taken}: another process listens there; end it, or choose another port in `listen`")
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_data_directory_in_use_and_a_bad_first_set_are_named() {
    let cluster = Cluster::one().await;
    let dir = tempfile::tempdir().expect("a folder");
    let address = "127.0.0.1:0".parse().expect("an address");
    let config = || CoordinatorConfig::new(1, address, BTreeMap::from([(1, "127.0.0.1:1".to_owned())]), dir.path());
    let first = Coordinator::start(config()).await.expect("started");
    let told = Coordinator::start(config()).await.expect_err("in use").to_string();
    assert!(told.contains("held by process"), "{told}");
    first.shutdown().await;

    let policies = dir.path().join("bad.yaml");
    std::fs::write(&policies, "regions: [us]\npolicies: 7\n").expect("written");
    let told = Coordinator::start(CoordinatorConfig { policies: Some(policies), ..config() }).await.expect_err("bad").to_string();
    assert!(told.contains("bad.yaml:2:11: /policies:") && told.contains('^'), "{told}");
    let absent = dir.path().join("absent");
    let told = Coordinator::start(CoordinatorConfig { peer_token_file: Some(absent), ..config() }).await.expect_err("absent").to_string();
    assert!(told.starts_with("cannot read ") && told.contains("absent"), "{told}");
    drop(cluster);
}

#[tokio::test]
async fn a_node_restarts_from_its_disk() {
    let dir = tempfile::tempdir().expect("a folder");
    let policies = dir.path().join("policies.yaml");
    std::fs::write(&policies, POLICIES).expect("written");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let config = || CoordinatorConfig {
        policies: Some(policies.clone()),
        ..CoordinatorConfig::new(1, address, BTreeMap::from([(1, address.to_string())]), dir.path().join("1"))
    };
    let key = |node: &Coordinator| node.node().read(|l| (l.founding().map(|f| f.subject_key.clone()), l.newest_policies().version));
    let founded = |node: &Coordinator| matches!(key(node), (Some(_), 1));
    let first = Coordinator::start_on(listener, config()).await.expect("started");
    while !founded(&first) {
        tokio::task::yield_now().await;
    }
    let before = key(&first);
    first.shutdown().await;
    drop(first);
    let again = Coordinator::start(config()).await.expect("started on the same port");
    while !founded(&again) {
        tokio::task::yield_now().await;
    }
    assert_eq!(key(&again), before);
    again.shutdown().await;
    assert!(!again.failed().await.is_empty());
}
