//! A cluster that goes on from what was kept of another.

use crate::cluster::{Agent, Answered, Cluster, POLICIES, answered};
use quorate_shared::heartbeat::Answer;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

async fn restore(cluster: &Cluster, node: usize, backup: &str) -> Answered {
    let request = cluster.request(node, Method::POST, "/v1/cluster/restore?why=a%20fire").header(CONTENT_TYPE, "application/json");
    answered(request.body(backup.to_owned())).await
}

async fn backup() -> (Value, String) {
    let lost = Cluster::one().await;
    assert_eq!(lost.put_policies(0, "", Some(1), POLICIES.replace("300/s", "400/s")).await.status, 200);
    let backup = lost.get(0, "/v1/cluster/snapshot").await;
    assert_eq!((backup.status.as_u16(), &backup.headers["cache-control"]), (200, &"no-store".parse().expect("a value")));
    (backup.json(), backup.text)
}

#[tokio::test]
async fn a_new_cluster_goes_on_from_a_backup_and_answers_no_region_for_a_lease() {
    let (_, text) = backup().await;
    let cluster = Cluster::three().await;
    let follower = (cluster.leader().await + 1) % 3;
    let restored = restore(&cluster, follower, &text).await;
    assert_eq!(restored.status, 200, "{}", restored.text);
    let version = restored.json()["version"].as_u64().expect("a number");
    assert!(version > 1_700_000_000, "{version} may have been another set's in the cluster that was lost");
    assert_eq!(restored.json()["waits_for"], json!(["eu", "us"]));

    let history = cluster.get(follower, "/v1/policies/history").await.json();
    let told: Vec<_> = history["history"].as_array().expect("versions").iter().map(|v| (&v["version"], &v["state"], &v["why"])).collect();
    assert_eq!(told[0], (&json!(version), &json!("pending"), &json!("a fire")), "{history}");
    assert_eq!(
        told[1..].iter().map(|(version, state, _)| (*version, *state)).collect::<Vec<_>>(),
        [(&json!(2), &json!("former")), (&json!(1), &json!("former"))]
    );

    let beat = serde_json::to_string(&Agent::new("eu").beat(vec![])).expect("JSON");
    let answer = cluster.post_heartbeat(follower, "eu", beat).await;
    let Ok(Answer::Restoring { remaining }) = serde_json::from_str(&answer.text) else { panic!("{}", answer.text) };
    assert!(remaining.as_secs() >= 59, "the longest lease that there may have been: {remaining:?}");
    let bound = cluster.get(follower, "/v1/bound").await.json();
    assert_eq!((&bound["policies"][0]["policy"], &bound["policies"][0]["unbounded"]), (&json!("write-api"), &json!(true)), "{bound}");
    cluster.put_policies(follower, "", Some(version), POLICIES).await.is_problem(409, "restore-pending");
}

#[tokio::test]
async fn a_cluster_that_is_founded_with_a_backup_answers_no_agent_before() {
    let (json, text) = backup().await;
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("backup.json");
    std::fs::write(&file, &text).expect("written");
    let cluster = Cluster::start(3, |config| config.backup = Some(file.clone())).await;
    let beat = serde_json::to_string(&Agent::new("eu").beat(vec![])).expect("JSON");
    let told = async || cluster.post_heartbeat(0, "eu", beat.clone()).await.text;
    // before there is anything in the log it knows no region, and then it is restored
    let known = |answer: &String| answer.starts_with('{') && !answer.contains("\"status\"");
    let answer = cluster.until(|| async { Some(told().await).filter(known) }).await;
    assert!(answer.starts_with("{\"restoring\""), "{answer}");
    let again = cluster.until(|| async { Some(cluster.get(1, "/v1/cluster/snapshot").await).filter(|answer| answer.status == 200) }).await;
    assert_eq!(again.json()["subject_key"], json["subject_key"]);
    assert_eq!(again.json()["history"].as_array().map(Vec::len), Some(3), "the kept versions, and the restored one");
}

#[tokio::test]
async fn a_backup_that_cannot_be_taken_changes_nothing() {
    let (json, text) = backup().await;
    let cluster = Cluster::one().await;
    let with = |name: &str, value: Value| {
        let mut other = json.clone();
        other[name] = value;
        other.to_string()
    };
    for (wrong, place) in
        [(with("format", json!(2)), "format 2"), (with("history", json!([])), "no policy set"), ("{}".into(), "missing field")]
    {
        let problem = restore(&cluster, 0, &wrong).await.is_problem(400, "invalid-request");
        assert!(problem.to_string().contains(place), "{problem}");
    }
    assert_eq!(cluster.put_policies(0, "", Some(1), POLICIES.replace("300/s", "500/s")).await.status, 200);
    restore(&cluster, 0, &text).await.is_problem(409, "cluster-in-use");
    let policies = cluster.get(0, "/v1/policies").await.json();
    assert_eq!(policies["policies"][0]["limit"]["rate"], "500/s", "{policies}");
}
