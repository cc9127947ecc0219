//! What the page asks beside the state: what if, what differs, what would be refused, what has changed.

use crate::agents::report;
use crate::cluster::{Agent, Cluster, POLICIES, answered};
use quorate_coordinator::config::CoordinatorConfig;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, IF_MATCH};
use serde_json::json;

#[tokio::test]
async fn every_node_tells_what_regions_could_admit_without_others() {
    let cluster = Cluster::three().await;
    for node in 0..3 {
        let told = cluster.get(node, "/v1/what-if?regions=us&policy=write-api").await.json();
        assert_eq!(
            (&told["leader"], &told["voters_left"], &told["voters_needed"], &told["total"]),
            (&json!(true), &json!(3), &json!(2), &json!(1))
        );
        let policy = &told["policies"][0];
        let rates = ["together", "leased", "cut_off", "idle"].map(|field| policy[field]["rate"].as_f64());
        assert_eq!(rates, [300.0, 100.0, 200.0, 0.0].map(Some));
        assert_eq!((&policy["regions"]["us"]["leased"], &policy["regions"]["us"]["at_most"]["rate"]), (&json!(false), &json!(200.0)));
        assert_eq!(policy["regions"]["eu"]["at_most"], json!({"rate": 100.0, "burst": 100.0}), "us lends nothing");
        let bound = &cluster.get(node, "/v1/bound").await.json()["policies"][0];
        assert_eq!((&policy["overshoot_bound"], &policy["terms"]), (&bound["overshoot_bound"], &bound["terms"]), "one formula");

        let told = cluster.get(node, "/v1/what-if?coordinators=1,3").await.json();
        assert_eq!((&told["leader"], &told["voters_left"]), (&json!(false), &json!(1)));
        assert_eq!(told["policies"][0]["leased"]["rate"], json!(0.0));
    }
    for bad in ["regions=xx", "regions=B%20d", "coordinators=4", "coordinators=x", "policy=none", "surprise=1"] {
        cluster.get(0, &format!("/v1/what-if?{bad}")).await.is_problem(400, "invalid-request");
    }
}

#[tokio::test]
async fn any_two_kept_versions_are_compared() {
    let cluster = Cluster::one().await;
    let put = async |version: u64, text: String| {
        let request = cluster.request(0, Method::PUT, "/v1/policies").header(CONTENT_TYPE, "application/yaml");
        answered(request.header(IF_MATCH, format!("\"{version}\"")).body(text)).await
    };
    assert_eq!(put(1, POLICIES.replace("rate: 300/s", "rate: 400/s")).await.status, 200);
    assert_eq!(put(2, POLICIES.replace("burst: 300", "burst: 500")).await.status, 200);
    let fields = async |from: u64, to: u64| {
        let compared = cluster.get(0, &format!("/v1/policies/diff?from={from}&to={to}")).await.json();
        let changes = compared["diff"].as_array().expect("changes").iter();
        changes.map(|change| change["field"].as_str().expect("a field").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(fields(1, 3).await, ["limit.burst"]);
    assert_eq!(fields(3, 1).await, ["limit.burst"]);
    assert_eq!(fields(2, 2).await, [""; 0]);
    cluster.get(0, "/v1/policies/diff?from=1&to=9").await.is_problem(404, "version-not-kept");
    cluster.get(0, "/v1/policies/diff?from=1").await.is_problem(400, "invalid-request");
}

#[tokio::test]
async fn a_policy_that_observes_tells_what_it_would_refuse() {
    let observes = |config: &mut CoordinatorConfig| {
        let path = config.policies.as_ref().expect("a set");
        std::fs::write(path, format!("{POLICIES}    mode: observe\n")).expect("written");
    };
    let cluster = Cluster::start(1, observes).await;
    cluster.is_ready(0).await;
    let mut eu = Agent::new("eu");
    let trial = async || cluster.get(0, "/v1/policies/trials").await.json()["trials"][0].clone();
    assert_eq!(trial().await["budgets"], json!(0), "nobody wants anything");
    eu.renew(&cluster, 0, vec![]).await;
    eu.renew(&cluster, 0, vec![report("1", 250), report("2", 90)]).await;
    let trial = trial().await;
    // us has not been heard of, so eu has its floor of 100 of each
    assert_eq!((&trial["policy"], &trial["mode"], &trial["period_ms"]), (&json!("write-api"), &json!("observe"), &json!(1_000)));
    assert_eq!(
        (&trial["would_refuse"], &trial["would_refuse_of"], &trial["wanted"]),
        (&json!(150.0), &json!(1), &json!(250.0)),
        "the other one is within its floor"
    );
    assert_eq!(Cluster::one().await.get(0, "/v1/policies/trials").await.json(), json!({"trials": []}), "one that enforces");
}

#[tokio::test]
async fn what_has_changed_is_told_by_every_node() {
    let cluster = Cluster::three().await;
    let told = async |node, kind: &str| {
        let told = cluster.get(node, "/v1/changes").await.json();
        let changes = told["changes"].as_array().expect("changes").clone();
        changes.into_iter().find(|change| change["kind"] == kind && change["what"] != "named by the policy set")
    };
    cluster.until(|| told(0, "leader")).await;
    Agent::new("eu").renew(&cluster, 0, vec![]).await;
    for node in 0..3 {
        let change = cluster.until(|| told(node, "session")).await;
        assert_eq!(
            (&change["region"], &change["what"], &change["bad"]),
            (&json!("eu"), &json!("reached: it has a lease"), &json!(false)),
            "node {node}"
        );
    }
}
