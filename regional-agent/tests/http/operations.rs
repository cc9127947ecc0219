//! Everything but decisions: status, health, metrics, tokens, and what is not there.

use crate::scripted::{Scripted, allowed, before, get, over, policy, post, refused, send, tokens};
use axum::body::Body;
use axum::http::Request;
use quorate_agent::decide::{DecideError, PolicyDecision};
use quorate_agent::http::callers::Callers;
use quorate_agent::http::{Decider, FrontDoor, router};
use quorate_agent::metrics::Metrics;
use quorate_agent::renewal::BeatError;
use quorate_agent::store::StoreError;
use quorate_shared::api::{AgentStatus, DecisionMode, HotSubject};
use quorate_shared::settings::TokenHash;
use sha2::{Digest, Sha256};
use std::time::Duration;

#[tokio::test]
async fn status_is_what_the_region_says() {
    let decider = Scripted::allowing();
    let reply = get(before(&decider), "/v1/status").await;
    assert_eq!((reply.status.as_u16(), reply.header("cache-control")), (200, Some("no-store")));
    let status: AgentStatus = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(status, decider.status());
}

#[tokio::test]
async fn health_and_readiness_are_two_things() {
    let decider = Scripted::allowing();
    assert_eq!(get(before(&decider), "/readyz").await.status, 200);
    *decider.ready.lock().unwrap() = Err("no policies have reached this agent yet".into());
    assert_eq!(get(before(&decider), "/healthz").await.status, 200);
    let reply = get(before(&decider), "/readyz").await;
    assert_eq!((reply.status.as_u16(), reply.kind().as_str()), (503, "not-ready"));
    assert_eq!(reply.problem().detail.as_deref(), Some("no policies have reached this agent yet"));
}

#[tokio::test]
async fn what_is_not_there_is_a_problem_too() {
    let decider = Scripted::allowing();
    let reply = get(before(&decider), "/v2/check").await;
    assert_eq!((reply.status.as_u16(), reply.kind().as_str()), (404, "not-found"));
    for (method, path, allow) in [("GET", "/v1/check", "POST"), ("DELETE", "/v1/status", "GET,HEAD"), ("POST", "/metrics", "GET,HEAD")] {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        let reply = send(before(&decider), request).await;
        assert_eq!((reply.status.as_u16(), reply.kind().as_str()), (405, "method-not-allowed"), "{method} {path}");
        assert_eq!(reply.header("allow"), Some(allow), "{method} {path}");
    }
}

#[tokio::test]
async fn a_panic_is_a_problem() {
    let reply = post(before(&Scripted::allowing()), "/v1/check", r#"{"attributes":{"panic":""}}"#).await;
    assert_eq!((reply.status.as_u16(), reply.kind().as_str()), (500, "internal-error"));
    assert!(reply.problem().detail.is_none(), "its words stay inside");
}

#[tokio::test]
async fn a_token_is_asked_for_if_there_are_any() {
    let decider = Scripted::allowing();
    let settings = FrontDoor { callers: Callers::with_tokens([hash_of(b"bob"), hash_of(b"alice")]), ..FrontDoor::default() };
    let routes = router(decider.clone(), settings);
    let ask = |method: &str, path: &str, authorization: Option<&str>| {
        let mut request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        send(routes.clone(), request.body(Body::from(r#"{"attributes":{}}"#)).unwrap())
    };
    for bad in [None, Some("alice"), Some("Basic alice"), Some("Bearer mallory"), Some("Bearer "), Some("Bearer alice x")] {
        for (method, path) in [("POST", "/v1/check"), ("POST", "/v1/checks"), ("GET", "/v1/status")] {
            let reply = ask(method, path, bad).await;
            assert_eq!((reply.status.as_u16(), reply.kind().as_str()), (401, "unauthorized"), "{bad:?} {path}");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        }
    }
    assert_eq!(decider.count(), 0);
    for good in ["Bearer alice", "bearer  alice", "Bearer bob"] {
        assert_eq!(ask("POST", "/v1/check", Some(good)).await.status, 200, "{good}");
    }
    for open in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(ask("GET", open, None).await.status, 200, "{open}");
    }
}

#[test]
fn series_do_not_grow_with_subjects() {
    let metrics = Metrics::new();
    let mut status = Scripted::allowing().status();
    let mut series = std::collections::BTreeSet::new();
    for n in 0..1_000_000_u64 {
        metrics.decision(&Ok(allowed(vec![policy("a", tokens(1), None)])), Duration::from_micros(n % 10_000));
        if n % 10_000 == 0 {
            let hot = |rank: u64| HotSubject { policy: "a".into(), subject: format!("{:032x}", n + rank), share: 0.1 };
            status.hot_subjects = (0..5).map(hot).collect();
            series.insert(metrics.render(&status).unwrap().lines().count());
        }
    }
    assert_eq!(series.len(), 1, "{series:?}");
    assert!(metrics.render(&status).unwrap().contains(r#"quorate_hottest_subject_share{policy="a"} 0.1"#));
}

#[tokio::test]
async fn metrics_count_by_policy_and_never_by_subject() {
    let metrics = Metrics::new();
    let took = Duration::from_micros(700);
    let watched = PolicyDecision { enforced: false, mode: DecisionMode::Floor, ..over("watched", Duration::from_secs(1)) };
    metrics.decision(&Ok(allowed(vec![policy("a", tokens(1), None), watched])), took);
    metrics.decision(&Ok(refused(vec![policy("a", tokens(1), None), over("b", Duration::from_secs(1))])), took);
    let closed = DecideError::StoreUnavailable { policies: vec!["c".parse().unwrap()], retry_after: took, reason: String::new() };
    metrics.decision(&Err(closed), took);
    metrics.store_error(&StoreError::Timeout);
    metrics.heartbeat(&Ok(true));
    metrics.heartbeat::<bool>(&Err(BeatError::UnknownRegion));

    let routes = router(Scripted::allowing(), FrontDoor { metrics, ..FrontDoor::default() });
    let reply = get(routes, "/metrics").await;
    assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = String::from_utf8(reply.body.to_vec()).unwrap();
    let expected = [
        r#"quorate_decisions_total{policy="a",result="allowed",mode="leased"} 1"#,
        r#"quorate_decisions_total{policy="watched",result="observed",mode="floor"} 1"#,
        r#"quorate_decisions_total{policy="a",result="not_charged",mode="leased"} 1"#,
        r#"quorate_decisions_total{policy="b",result="refused",mode="leased"} 1"#,
        r#"quorate_decisions_total{policy="c",result="unavailable",mode="closed"} 1"#,
        "quorate_decision_duration_seconds_count 3",
        r#"quorate_decision_duration_seconds_bucket{le="0.001"} 3"#,
        r#"quorate_store_errors_total{kind="timeout"} 1"#,
        r#"quorate_heartbeats_total{result="renewed"} 1"#,
        r#"quorate_heartbeats_total{result="refused"} 1"#,
        "quorate_lease_horizon_seconds 2.5",
        "quorate_session 7",
        "quorate_store_up 1",
        concat!("quorate_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
    ];
    for line in expected {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
}

#[test]
fn the_number_of_series_does_not_grow_with_requests() {
    let metrics = Metrics::new();
    let status = Scripted::allowing().status();
    let lines = |metrics: &Metrics| metrics.render(&status).unwrap().lines().count();
    let verdict = Ok(allowed(vec![policy("a", tokens(1), None)]));
    metrics.decision(&verdict, Duration::ZERO);
    let before = lines(&metrics);
    for n in 0..1_000 {
        metrics.decision(&verdict, Duration::from_micros(n));
    }
    assert_eq!(lines(&metrics), before);
}

fn hash_of(token: &[u8]) -> TokenHash {
    TokenHash::new(Sha256::digest(token).into())
}
