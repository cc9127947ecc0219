//! The kept versions of the policy set, and the way back to one.

use crate::cluster::{Agent, Answered, Cluster, POLICIES, answered};
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE, IF_MATCH};
use serde_json::{Value, json};

fn with_rate(rate: &str) -> String {
    POLICIES.replace("300/s", rate)
}

async fn roll_back(cluster: &Cluster, node: usize, query: &str, if_match: Option<u64>, body: &str) -> Answered {
    let mut request =
        cluster.request(node, Method::POST, &format!("/v1/policies/rollback{query}")).header(CONTENT_TYPE, "application/json");
    if let Some(version) = if_match {
        request = request.header(IF_MATCH, format!("\"{version}\""));
    }
    answered(request.body(body.to_owned())).await
}

async fn versions(cluster: &Cluster, node: usize) -> Vec<u64> {
    let history = cluster.get(node, "/v1/policies/history").await.json();
    history["history"].as_array().expect("versions").iter().map(|v| v["version"].as_u64().expect("a number")).collect()
}

#[tokio::test]
async fn every_version_says_who_when_why_and_what_it_changed() {
    let cluster = Cluster::three().await;
    let follower = (cluster.leader().await + 1) % 3;
    assert_eq!(cluster.put_policies(follower, "?why=more%20traffic", Some(1), with_rate("400/s")).await.status, 200);
    let shown = cluster.get(follower, "/v1/policies/history").await.json();
    assert_eq!((&shown["version"], &shown["active"], &shown["pending"]), (&json!(2), &json!(2), &Value::Null));
    let [second, first] = shown["history"].as_array().expect("versions").as_slice() else { panic!("{shown}") };
    assert_eq!((&second["version"], &second["who"], &second["why"]), (&json!(2), &json!("anonymous"), &json!("more traffic")));
    assert_eq!((&first["version"], &first["who"], &first["state"]), (&json!(1), &json!("founding"), &json!("former")));
    assert_eq!(second["state"], "active");
    assert_eq!(second["diff"], json!([{"policy": "write-api", "field": "limit.rate", "from": "300/s", "to": "400/s"}]));
    let came: Vec<_> = first["diff"].as_array().expect("changes").iter().map(|c| (c["field"].as_str(), c["from"].is_null())).collect();
    assert_eq!(came, ["regions.eu", "regions.us", "policy"].map(|field| (Some(field), true)));
    let when = second["when"].as_str().expect("a date");
    assert!(when.len() == 24 && when.starts_with("20") && when.ends_with('Z'), "{when}");
}

#[tokio::test]
async fn the_whole_set_of_a_kept_version_is_served_and_can_be_sent_back() {
    let cluster = Cluster::one().await;
    cluster.put_policies(0, "", Some(1), with_rate("400/s")).await;
    let old = cluster.get(0, "/v1/policies/history?version=1").await;
    assert_eq!((old.etag(), &old.json()["policies"][0]["limit"]["rate"]), ("\"1\"", &json!("300/s")));
    for request in [
        cluster.request(0, Method::GET, "/v1/policies/history?version=1&format=yaml"),
        cluster.request(0, Method::GET, "/v1/policies/history?version=1").header(ACCEPT, "application/yaml"),
    ] {
        let yaml = answered(request).await;
        assert!(yaml.text.contains("rate: 300/s"), "{}", yaml.text);
        let back = cluster.put_policies(0, "?dry_run=true", Some(2), yaml.text).await.json();
        assert_eq!(back["diff"][0]["to"], "300/s");
    }
    let back = cluster.put_policies(0, "", Some(2), old.text).await.json();
    assert_eq!(back["version"], 3);
    for bad in [0, 4, u64::MAX] {
        let problem = cluster.get(0, &format!("/v1/policies/history?version={bad}")).await.is_problem(404, "version-not-kept");
        assert_eq!((&problem["oldest"], &problem["version"]), (&json!(1), &json!(3)));
    }
    for bad in ["?version=x", "?versions=1", "?format=yaml", "?version=1&format=toml"] {
        cluster.get(0, &format!("/v1/policies/history{bad}")).await.is_problem(400, "invalid-request");
    }
}

#[tokio::test]
async fn a_rollback_is_a_new_version_equal_to_an_old_one() {
    let cluster = Cluster::three().await;
    let follower = (cluster.leader().await + 1) % 3;
    cluster.put_policies(follower, "", Some(1), with_rate("400/s")).await;
    let change = json!([{"policy": "write-api", "field": "limit.rate", "from": "400/s", "to": "300/s"}]);

    let dry = roll_back(&cluster, follower, "?dry_run=true", None, r#"{"to": 1}"#).await.json();
    assert_eq!((&dry["version"], &dry["dry_run"], &dry["diff"]), (&json!(2), &json!(true), &change));
    assert_eq!(versions(&cluster, follower).await, [2, 1], "a dry run changes nothing");

    let done = roll_back(&cluster, follower, "", Some(2), r#"{"to": 1}"#).await;
    assert_eq!((done.status.as_u16(), done.etag()), (200, "\"3\""), "{}", done.text);
    let done = done.json();
    assert_eq!((&done["version"], &done["waits_for"], &done["diff"]), (&json!(3), &json!([]), &change));
    let again = roll_back(&cluster, follower, "?why=better%20so", None, r#"{"to": 2}"#).await.json();
    assert_eq!(again["version"], 4);

    let history = cluster.get(follower, "/v1/policies/history").await.json();
    let whys: Vec<&Value> = history["history"].as_array().expect("versions").iter().map(|v| &v["why"]).collect();
    assert_eq!(whys, [&json!("better so"), &json!("rollback to version 1"), &Value::Null, &Value::Null]);
    let set = async |version: u64| {
        let mut set = cluster.get(follower, &format!("/v1/policies/history?version={version}")).await.json();
        set["version"].take();
        set
    };
    assert_eq!((set(3).await, set(4).await), (set(1).await, set(2).await));
}

#[tokio::test]
async fn a_lost_answer_and_a_retry_make_one_version() {
    let cluster = Cluster::one().await;
    let put = async || cluster.put_policies(0, "", Some(1), with_rate("400/s")).await;
    // both are under way before either is answered, as when a client gave the first up
    let (first, second) = tokio::join!(put(), put());
    let mut statuses = [first.status.as_u16(), second.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412]);
    let back = async || roll_back(&cluster, 0, "", Some(2), r#"{"to": 1}"#).await;
    let answers = tokio::join!(back(), back(), back());
    let mut statuses = [answers.0, answers.1, answers.2].map(|answer| answer.status.as_u16());
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412, 412]);
    back().await.is_problem(412, "precondition-failed");
    assert_eq!(versions(&cluster, 0).await, [3, 2, 1]);
}

#[tokio::test]
async fn a_rollback_waits_for_the_regions_that_it_takes_from() {
    let cluster = Cluster::one().await;
    let mut eu = Agent::new("eu");
    cluster.put_policies(0, "", Some(1), with_rate("3000/s")).await;
    eu.renew(&cluster, 0, vec![]).await;
    let back = roll_back(&cluster, 0, "", Some(2), r#"{"to": 1}"#).await.json();
    assert_eq!((&back["version"], &back["waits_for"]), (&json!(3), &json!(["eu"])), "{back}");

    let history = cluster.get(0, "/v1/policies/history").await.json();
    let states: Vec<&Value> = history["history"].as_array().expect("versions").iter().map(|v| &v["state"]).collect();
    assert_eq!(states, ["pending", "active", "former"]);
    assert_eq!((&history["active"], &history["pending"]), (&json!(2), &json!({"version": 3, "waits_for": ["eu"]})));
    let bound = &cluster.get(0, "/v1/bound").await.json()["policies"][0];
    assert_eq!((&bound["limit"]["rate"], &bound["change"]["version"]), (&json!(3_000.0), &json!(3)), "the old limit's bound holds");

    for _ in 0..3 {
        eu.renew(&cluster, 0, vec![]).await;
    }
    let bound = &cluster.get(0, "/v1/bound").await.json()["policies"][0];
    assert_eq!((&bound["limit"]["rate"], &bound["change"]), (&json!(300.0), &Value::Null));
}

#[tokio::test]
async fn a_rollback_to_the_version_in_force_withdraws_what_is_pending() {
    let cluster = Cluster::one().await;
    let mut eu = Agent::new("eu");
    eu.renew(&cluster, 0, vec![]).await;
    let put = cluster.put_policies(0, "", Some(1), with_rate("30/s")).await.json();
    assert_eq!((&put["version"], &put["waits_for"]), (&json!(2), &json!(["eu"])), "{put}");
    eu.renew(&cluster, 0, vec![]).await;
    let back = roll_back(&cluster, 0, "", None, r#"{"to": 1}"#).await.json();
    assert_eq!((&back["version"], &back["waits_for"]), (&json!(3), &json!([])), "{back}");
    let history = cluster.get(0, "/v1/policies/history").await.json();
    let states: Vec<&Value> = history["history"].as_array().expect("versions").iter().map(|v| &v["state"]).collect();
    assert_eq!(states, ["active", "withdrawn", "former"]);
    let bound = &cluster.get(0, "/v1/bound").await.json()["policies"][0];
    assert_eq!((&bound["limit"]["rate"], &bound["change"]), (&json!(300.0), &Value::Null));
}

#[tokio::test]
async fn what_is_no_rollback_is_refused() {
    let cluster = Cluster::one().await;
    for (body, pointer) in [
        ("", ""),
        ("{}", ""),
        (r#"{"to": "1"}"#, "/to"),
        (r#"{"to": -1}"#, "/to"),
        (r#"{"to": 1.5}"#, "/to"),
        (r#"{"to": 1, "force": true}"#, "/force"),
    ] {
        let problem = roll_back(&cluster, 0, "", None, body).await.is_problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}: {problem}");
    }
    let text = cluster.request(0, Method::POST, "/v1/policies/rollback").header(CONTENT_TYPE, "text/plain").body(r#"{"to": 1}"#);
    answered(text).await.is_problem(415, "unsupported-content-type");
    let large = format!("{{\"to\": 1{}}}", " ".repeat(1_024));
    roll_back(&cluster, 0, "", None, &large).await.is_problem(413, "body-too-large");
    roll_back(&cluster, 0, "?force=true", None, r#"{"to": 1}"#).await.is_problem(400, "invalid-request");
    for (to, if_match) in [(0, None), (2, None), (2, Some(1))] {
        let problem = roll_back(&cluster, 0, "", if_match, &format!("{{\"to\": {to}}}")).await.is_problem(404, "version-not-kept");
        assert!(problem["detail"].as_str().expect("words").contains("versions 1 to 1 are"), "{problem}");
    }
    assert_eq!(versions(&cluster, 0).await, [1]);
}
