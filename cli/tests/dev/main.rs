//! The commands against a whole system: `quorate dev` with one coordinator and one region.
#![allow(clippy::expect_used, clippy::panic, reason = "tests say what they expect")]

mod collector;
mod prometheus;
mod secrecy;
#[path = "../stub/mod.rs"]
mod stub;
mod system;
mod traces;

use serde_json::{Value, json};
use stub::File;
use system::Dev;

/// Nothing refills within a test.
const SET: &str = "\
regions: {us: {}}
policies:
- name: shadow
  match: {route: shadow}
  limit: {algorithm: token-bucket, rate: 1/h, burst: 10}
  on-store-failure: closed
  mode: observe
- name: firm
  match: {route: shadow}
  limit: {algorithm: token-bucket, rate: 1/h, burst: 100}
  on-store-failure: closed
- name: trial
  match: {route: trial}
  per: [tenant]
  limit: {algorithm: token-bucket, rate: 1/h, burst: 1}
  on-store-failure: closed
  mode: {canary: 10%}
- name: once
  match: {route: once}
  per: [kind, id]
  limit: {algorithm: token-bucket, rate: 1/h, burst: 1}
  on-store-failure: closed
";

#[tokio::test]
async fn a_shadow_limit_of_10_admits_15_and_counts_5() {
    let dev = Dev::start(SET).await;
    let mut observed = Vec::new();
    for _ in 0..15 {
        let (status, answer) = dev.check(json!({"route": "shadow"})).await;
        assert_eq!((status, answer["limits"][0]["policy"].as_str()), (200, Some("shadow")), "{answer}");
        observed.push(answer["limits"][0]["observed"] == true);
    }
    assert_eq!(observed, [vec![false; 10], vec![true; 5]].concat());
    let metrics = dev.get(format!("{}/metrics", dev.agent())).await;
    let count = |policy: &str, result: &str| -> u64 {
        let series = format!("quorate_decisions_total{{region=\"us\",policy=\"{policy}\",result=\"{result}\"");
        let of = metrics.lines().filter(|line| line.starts_with(&series));
        of.map(|line| line.rsplit(' ').next().and_then(|n| n.parse::<u64>().ok()).expect("a count")).sum()
    };
    assert_eq!((count("shadow", "allowed"), count("shadow", "observed"), count("shadow", "refused")), (10, 5, 0), "{metrics}");
    assert_eq!(count("firm", "allowed"), 15, "what is only observed takes nothing from the others");

    let bound: Value = serde_json::from_str(&dev.get(format!("{}/v1/bound", dev.coordinator())).await).expect("JSON");
    let shadow = &bound["policies"][0];
    assert_eq!((&shadow["unbounded"], &shadow["overshoot_bound"]), (&json!(true), &Value::Null));
    let why = shadow["terms"].as_array().expect("terms").iter().find(|term| term["name"] == "observe").expect("a term");
    assert_eq!((&why["amount"], &why["why"]), (&Value::Null, &json!("the policy only observes: refusals are not enforced")));
    assert_eq!(bound["policies"][1]["unbounded"], false);
    dev.stop().await;
}

#[tokio::test]
async fn a_canary_refuses_the_same_tenth_each_time() {
    let dev = Dev::start(SET).await;
    let round = async || {
        let mut refused = Vec::new();
        for tenant in 0..200 {
            let (status, _) = dev.check(json!({"route": "trial", "tenant": format!("t{tenant}")})).await;
            refused.push(status == 429);
        }
        refused
    };
    let first = round().await;
    assert!(first.iter().all(|refused| !refused), "each has one token");
    let (second, third) = (round().await, round().await);
    assert_eq!(second, third);
    let refused = second.iter().filter(|refused| **refused).count();
    // each cluster has a key of its own: 20 are expected, and 4 is the standard deviation
    assert!((1..=45).contains(&refused), "{refused} of 200");
    dev.stop().await;
}

#[tokio::test]
async fn subjects_that_look_alike_have_budgets_of_their_own() {
    let dev = Dev::start(SET).await;
    let longest = "x".repeat(8_192);
    let alike = [
        ("user", "a:b"),
        ("user:a", "b"),
        ("usera", ":b"),
        ("User", "a:b"),
        ("user", "a:b "),
        ("user", "a:B"),
        ("user", "\u{e9}"),
        ("user", "e\u{301}"),
        ("user", "a\0"),
        ("user", "a\0\0"),
        ("user", "a"),
        ("user", ""),
        ("", "user"),
        ("user", &longest),
        ("user", &longest[1..]),
    ];
    for round in ["first", "second"] {
        for (kind, id) in alike {
            let (status, answer) = dev.check(json!({"route": "once", "kind": kind, "id": id})).await;
            assert_eq!(status, if round == "first" { 200 } else { 429 }, "{round}, {kind:?} {:.20}: {answer}", id.escape_debug());
        }
    }
    let (status, answer) = dev.check(json!({"route": "once", "kind": "user", "id": format!("{longest}x")})).await;
    assert_eq!((status, &answer["errors"][0]["pointer"]), (400, &json!("/attributes/id")), "{answer}");
    dev.stop().await;
}

#[tokio::test]
async fn a_request_is_explained() {
    let dev = Dev::start(SET).await;
    let shown = dev.run(&["explain", "--attributes", "route=shadow"]).await;
    assert_eq!((shown.status, shown.err.as_str()), (0, ""), "{shown:?}");
    for part in [
        "shadow: 1/h +10, only observed; subject ",
        "firm: 1/h +100, enforced; subject ",
        "100 of 100 left",
        "can be exceeded by: 0 tokens",
    ] {
        assert!(shown.out.contains(part), "`{part}` is not in\n{}", shown.out);
    }
    assert!(shown.out.contains("can be exceeded by: unbounded\n  shadow, observe: unbounded; the policy only observes"), "{}", shown.out);
    assert!(shown.out.contains(" without a word\n"), "it has a lease: {}", shown.out);
    let json: Value = serde_json::from_str(&dev.run(&["explain", "--attributes", "route=shadow", "--json"]).await.out).expect("JSON");
    assert_eq!((&json["agent"]["limits"][0]["remaining"], &json["budgets"][1]["policy"]), (&json!(10), &json!("firm")));
    assert_eq!(json["bounds"].as_array().map(Vec::len), Some(2));
    let other = dev.run(&["explain", "--attributes", "route=other"]).await;
    assert_eq!(other.out, "no policy matches: the request is not limited\n");
    dev.stop().await;
}

#[tokio::test]
async fn a_set_is_applied_listed_and_rolled_back() {
    let dev = Dev::start(SET).await;
    let lower = File::new("lower.yaml", &SET.replace("burst: 100", "burst: 90"));
    let applied = dev.run(&["policy", "apply", &lower.text(), "--why", "a try"]).await;
    assert!(applied.status == 0 && applied.out.contains("firm    limit.burst  100   90"), "{applied:?}");
    dev.goes_by(2).await;
    let stale = dev.run(&["policy", "apply", &lower.text(), "--if-version", "1"]).await;
    assert!(stale.status == 1 && stale.err.contains("status 412"), "{stale:?}");

    let history = dev.run(&["policy", "history"]).await.out;
    let lines: Vec<&str> = history.lines().collect();
    assert_eq!(lines.len(), 3, "{history}");
    assert!(lines[1].contains("2  active") && lines[1].contains("firm limit.burst: 100 > 90") && lines[1].ends_with(" a try"), "{history}");
    assert!(lines[2].contains("1  former") && lines[2].contains("founding"), "{history}");
    let old = dev.run(&["policy", "history", "1"]).await.out;
    assert!(old.contains("mode: observe") && old.contains("burst: 100"), "{old}");

    let back = dev.run(&["policy", "rollback", "1", "--why", "enough"]).await;
    assert!(back.status == 0 && back.out.contains("version 3 is in force"), "{back:?}");
    dev.goes_by(3).await;
    let (_, answer) = dev.check(json!({"route": "shadow"})).await;
    assert_eq!(answer["limits"][1]["limit"], 100, "{answer}");
    let gone = dev.run(&["policy", "rollback", "9"]).await;
    assert!(gone.status == 1 && gone.err.contains("versions 1 to 3 are"), "{gone:?}");
    dev.stop().await;
}
