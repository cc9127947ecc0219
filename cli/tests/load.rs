//! `quorate load` against agents whose faults are known.
#![allow(clippy::expect_used, reason = "tests say what they expect")]

mod stub;

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use stub::{File, nowhere, quorate, serve};
use tokio::sync::Barrier;

/// One budget of 5 for each route, which does not refill while a test runs.
const SET: &str = "regions: {us: {}, eu: {}}\npolicies:\n- name: pages\n  match: {route: '*'}\n  per: [route]\n  limit: {algorithm: token-bucket, rate: 1/h, burst: 5}\n";

fn allow() -> Response {
    let limit = json!({"policy": "pages", "limit": 5, "remaining": 0, "reset_after_ms": 1, "mode": "leased", "observed": false});
    axum::Json(json!({"decision": "allow", "limits": [limit], "slot": null})).into_response()
}

fn refuse() -> Response {
    let body = json!({"type": "https://quorate.dev/problems/quota-exceeded", "title": "Quota exceeded", "status": 429,
        "policy": "pages", "retry_after_ms": 5, "violated-policies": ["pages"]});
    (StatusCode::TOO_MANY_REQUESTS, axum::Json(body)).into_response()
}

/// Agents that admit `tokens` requests, all together.
fn bucket(tokens: usize) -> Router {
    let left = Arc::new(AtomicUsize::new(tokens));
    let take = async move || match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)) {
        Ok(_) => allow(),
        Err(_) => refuse(),
    };
    Router::new().route("/v1/check", post(take))
}

/// A trace with this many requests for `/blog` from each region, all at once.
fn trace(us: usize, eu: usize) -> File {
    let line = |region: &str| format!("0\t{region}\tc1\tGET\tblog\t200\t10\n");
    let text = format!("offset_s\tregion\tclient\tmethod\troute\tstatus\tbytes\n{}{}", line("us").repeat(us), line("eu").repeat(eu));
    File::new("trace.tsv", &text)
}

async fn report(trace: &File, agents: &str, more: &[&str]) -> Value {
    let set = File::new("set.yaml", SET);
    let (trace, set) = (trace.text(), set.text());
    let ran = quorate(&[&["load", "--json", "--trace", &trace, "--policies", &set, "--agents", agents], more].concat()).await;
    assert_eq!(ran.status, 0, "{ran:?}");
    serde_json::from_str(&ran.out).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bucket_for_both_regions_is_used_in_full_and_never_exceeded() {
    let agent = serve(bucket(5)).await;
    let report = report(&trace(6, 6), &format!("us={agent},eu={agent}"), &[]).await;
    assert_eq!((&report["offered"], &report["admitted"], &report["refused"]), (&json!(12), &json!(5), &json!(7)), "{report:#}");
    assert_eq!(report["measured_overshoot"], 0.0);
    assert_eq!(report["utilisation"], 1.0);
    assert_eq!((&report["regions"]["us"]["offered"], &report["regions"]["eu"]["offered"]), (&json!(6), &json!(6)));
    assert_eq!((&report["policies"][0]["refused"], &report["policies"][0]["budgets"]), (&json!(7), &json!(1)));
    assert_eq!(report["answers_by_other_policies"], 0);
    assert!(report["latency_ms"]["p99"].as_f64() > Some(0.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_in_each_region_is_found_out() {
    let (us, eu) = (serve(bucket(5)).await, serve(bucket(5)).await);
    let report = report(&trace(6, 6), &format!("us={us},eu={eu}"), &[]).await;
    assert_eq!(report["admitted"], 10);
    // 10 − 5, less what refilled in the seconds of the run.
    let overshoot = report["measured_overshoot"].as_f64().expect("a number");
    assert!(overshoot > 4.9 && overshoot <= 5.0, "{report:#}");
    assert_eq!(report["policies"][0]["worst_interval"]["subject"], "route=blog");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_waits_for_the_answer_of_another() {
    // Nobody is answered before all have arrived.
    let all = Arc::new(Barrier::new(12));
    let answer = async move || {
        all.wait().await;
        allow()
    };
    let agent = serve(Router::new().route("/v1/check", post(answer))).await;
    let report = report(&trace(6, 6), &format!("us={agent},eu={agent}"), &["--timeout", "30s"]).await;
    assert_eq!((&report["admitted"], &report["unknown"]["timed_out"]), (&json!(12), &json!(0)), "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_than_the_given_number_are_under_way() {
    let (now, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let most = peak.clone();
    // Answers leave in pairs, so two must be under way at once, and more would show.
    let pair = Arc::new(Barrier::new(2));
    let answer = async move || {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        pair.wait().await;
        now.fetch_sub(1, Ordering::SeqCst);
        allow()
    };
    let agent = serve(Router::new().route("/v1/check", post(answer))).await;
    let report = report(&trace(20, 0), &format!("us={agent}"), &["--connections", "2", "--timeout", "30s"]).await;
    assert_eq!((&report["admitted"], peak.load(Ordering::SeqCst)), (&json!(20), 2), "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_an_answer_is_unknown_and_one_that_reached_nobody_is_not() {
    let silent = serve(Router::new().route("/v1/check", post(async || std::future::pending::<Response>().await))).await;
    let dead = nowhere().await;
    let report = report(&trace(3, 4), &format!("us={silent},eu={dead}"), &["--timeout", "300ms"]).await;
    assert_eq!(report["unknown"], json!({"timed_out": 3, "broken": 0}), "{report:#}");
    assert_eq!((&report["admitted"], &report["measured_overshoot"]), (&json!(0), &json!(0.0)));
    assert_eq!(report["regions"]["eu"]["errors"], json!({"connection: connection refused: nothing listens there": 4}));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_counted_by_kind() {
    let body = json!({"type": "https://quorate.dev/problems/limiter-unavailable", "title": "t", "status": 503});
    let agent = serve(Router::new().route("/v1/check", post(async || (StatusCode::SERVICE_UNAVAILABLE, axum::Json(body))))).await;
    let report = report(&trace(2, 0), &format!("us={agent}"), &[]).await;
    assert_eq!(report["errors"], json!({"503 limiter-unavailable": 2}));
    assert_eq!(report["latency_ms"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn built_in_load_asks_for_the_regions_and_the_policies() {
    let status = |region: &'static str| {
        async move || {
            let store = json!({"kind": "embedded", "healthy": true});
            axum::Json(
                json!({"region": region, "agent": "a", "mode": "leased", "session": 1, "seq": 1, "horizon_ms": 1, "floor_horizon_ms": 0,
            "last_renewal_ms": 1, "last_error": null, "coordinator": null, "store": store, "policies": 4, "budgets": []}),
            )
        }
    };
    let routes = async |body: Bytes| {
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(body, json!({"attributes": {"route": "blog"}, "cost": 2}));
        allow()
    };
    let agent = |region| Router::new().route("/v1/status", get(status(region))).route("/v1/check", post(routes));
    let (us, eu) = (serve(agent("us")).await, serve(agent("eu")).await);
    let pages = json!({"name": "pages", "per": ["route"], "limit": {"algorithm": "token-bucket", "rate": "1000/s", "burst": 1000}});
    let set = json!({"version": 4, "regions": {"us": {}, "eu": {}}, "policies": [pages]});
    let coordinator = serve(Router::new().route("/v1/policies", get(async || axum::Json(set)))).await;
    let agents = format!("{us},{eu}");
    let load = ["load", "--rate", "200/s", "--duration", "200ms", "--attributes", "route=blog", "--cost", "2"];
    let ran = quorate(&[&load as &[&str], &["--agents", &agents, "--coordinator", &coordinator, "--json"]].concat()).await;
    let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
    assert_eq!(
        (&report["policy_set"], &report["admitted"], &report["policies"][0]["admitted_tokens"]),
        (&json!(4), &report["offered"], &json!(80.0))
    );
    assert_eq!((&report["regions"]["us"]["offered"], &report["regions"]["eu"]["offered"]), (&json!(20), &json!(20)), "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_with_mistakes_is_not_sent() {
    let bad = File::new(
        "bad.tsv",
        "offset_s\tregion\tclient\tmethod\troute\tstatus\tbytes\n0\tus\tc\tGET\tblog\t200\t1\nsoon\tUS\tc\tGET\tblog\t200\t1\n",
    );
    let set = File::new("set.yaml", SET);
    let ran = quorate(&["load", "--trace", &bad.text(), "--policies", &set.text(), "--agents", "us=http://127.0.0.1:9"]).await;
    assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{ran:?}");
    assert!(ran.err.contains("bad.tsv: line 3, offset_s: `soon`") && ran.err.contains("bad.tsv: line 3, region: `US`"), "{}", ran.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_policies_during_the_run_is_told() {
    let version = Arc::new(AtomicUsize::new(0));
    let set =
        async move || axum::Json(json!({"version": version.fetch_add(1, Ordering::SeqCst) + 1, "regions": {"us": {}}, "policies": []}));
    let coordinator = serve(Router::new().route("/v1/policies", get(set))).await;
    let agents = format!("us={}", serve(bucket(0)).await);
    let ran = quorate(&["load", "--trace", &trace(1, 0).text(), "--agents", &agents, "--coordinator", &coordinator]).await;
    assert!(ran.status == 0 && ran.err.contains("from version 1 to 2"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_cannot_say_its_region_is_named() {
    let (dead, set) = (nowhere().await, File::new("set.yaml", SET));
    let ran = quorate(&["load", "--agents", &dead, "--policies", &set.text()]).await;
    assert!(ran.status == 1 && ran.err.contains(&dead) && ran.err.contains("--agents"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_region_without_an_agent_is_named() {
    let (trace, set) = (trace(1, 1), File::new("set.yaml", SET));
    let ran = quorate(&["load", "--trace", &trace.text(), "--policies", &set.text(), "--agents", "us=http://127.0.0.1:9"]).await;
    assert!(ran.status == 1 && ran.err.contains("no agent for region eu"), "{ran:?}");
}
