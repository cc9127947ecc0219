//! A request id makes a retry get the first answer and charge nothing.

use crate::scripted::{Scripted, allowed, before, over, post, refused, send, write_api};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use quorate_agent::decide::{DecideError, Verdict};
use quorate_agent::http::callers::Callers;
use quorate_agent::http::{FrontDoor, router};
use quorate_limiter::hold::HoldId;
use quorate_shared::settings::TokenHash;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tower::ServiceExt;

const R1: &str = r#"{"attributes":{"tenant":"acme"},"cost":2,"request_id":"r1"}"#;

#[tokio::test]
async fn a_retry_gets_the_first_answer() {
    let first_says = [Ok(allowed(vec![write_api(41)])), Ok(refused(vec![over("a", Duration::from_millis(1_900))]))];
    for says in first_says {
        let decider = Scripted::saying(says);
        let routes = before(&decider);
        let first = post(routes.clone(), "/v1/check", R1).await;
        decider.says(Ok(allowed(vec![])));
        let again = post(routes.clone(), "/v1/check", R1).await;
        assert_eq!((first.status, &first.headers, &first.body), (again.status, &again.headers, &again.body));
        assert_eq!(decider.count(), 1, "the second was not decided");
        let other = post(routes, "/v1/check", R1.replace("r1", "r2")).await;
        assert_eq!((other.json()["limits"].clone(), decider.count()), (json!([]), 2));
    }
}

#[tokio::test]
async fn an_answer_is_repeated_as_long_as_its_slots_are_held() {
    let told = |bits| Ok(Verdict { slot: Some(HoldId::from_bits(bits)), ..allowed(vec![write_api(41)]) });
    let decider = Scripted::saying(told(1));
    let routes = before(&decider);
    let slot = async || post(routes.clone(), "/v1/check", R1).await.json()["slot"].clone();
    let first = slot().await;
    decider.says(told(2));
    assert_eq!((slot().await, decider.count()), (first.clone(), 1));
    decider.holds.store(false, Ordering::SeqCst);
    let second = slot().await;
    assert_eq!((second != first, decider.count()), (true, 2), "it stands for another request");
    decider.holds.store(true, Ordering::SeqCst);
    decider.says(told(3));
    assert_eq!((slot().await, decider.count()), (second, 2));
}

#[tokio::test]
async fn without_an_id_every_request_is_decided() {
    let decider = Scripted::allowing();
    let routes = before(&decider);
    for _ in 0..3 {
        post(routes.clone(), "/v1/check", r#"{"attributes":{}}"#).await;
    }
    assert_eq!(decider.count(), 3);
}

#[tokio::test]
async fn an_id_belongs_to_one_request() {
    let decider = Scripted::allowing();
    let routes = before(&decider);
    post(routes.clone(), "/v1/check", R1).await;
    let others = [
        r#"{"attributes":{"tenant":"acme"},"cost":3,"request_id":"r1"}"#,
        r#"{"attributes":{"tenant":"acme"},"request_id":"r1"}"#,
        r#"{"attributes":{"tenant":"acme2"},"cost":2,"request_id":"r1"}"#,
        r#"{"attributes":{"tenanta":"cme"},"cost":2,"request_id":"r1"}"#,
        r#"{"attributes":{},"cost":2,"request_id":"r1"}"#,
    ];
    for other in others {
        let reply = post(routes.clone(), "/v1/check", other).await;
        assert_eq!((reply.status.as_u16(), reply.kind().as_str()), (400, "invalid-request"), "{other}");
        assert_eq!(reply.problem().errors[0].pointer, "/request_id");
    }
    let array = format!("[{R1},{}]", others[0]);
    let answers = post(routes.clone(), "/v1/checks", array).await.json();
    assert_eq!((&answers[0]["status"], &answers[1]["status"]), (&json!(200), &json!(400)));
    assert_eq!(answers[1]["body"]["errors"][0]["pointer"], json!("/1/request_id"));
    assert_eq!(decider.count(), 1);
}

/// Lets every task that can go on do so: this runtime has one thread and a queue.
async fn let_others_run() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn concurrent_requests_with_one_id_wait_for_the_first() {
    let decider = Scripted::held(Ok(allowed(vec![write_api(41)])));
    let routes = before(&decider);
    let requests: Vec<_> = (0..8).map(|_| tokio::spawn(post(routes.clone(), "/v1/check", R1))).collect();
    decider.has_begun.acquire().await.unwrap().forget();
    let_others_run().await;
    assert_eq!(decider.count(), 1);
    assert!(requests.iter().all(|r| !r.is_finished()), "nobody is answered before the first");
    decider.may_finish.add_permits(1);
    for request in requests {
        let reply = request.await.unwrap();
        assert_eq!((reply.status.as_u16(), &reply.json()["limits"][0]["remaining"]), (200, &json!(41)));
    }
    assert_eq!(decider.count(), 1);
}

#[tokio::test]
async fn a_client_that_hangs_up_does_not_undo_what_it_asked_for() {
    let decider = Scripted::held(Ok(allowed(vec![write_api(41)])));
    let routes = before(&decider);
    let client = tokio::spawn(post(routes.clone(), "/v1/check", R1));
    decider.has_begun.acquire().await.unwrap().forget();
    client.abort();
    assert!(client.await.unwrap_err().is_cancelled());
    decider.may_finish.add_permits(1);
    let retry = post(routes, "/v1/check", R1).await;
    assert_eq!((retry.status.as_u16(), decider.count()), (200, 1), "the retry finds the first decision");
}

#[tokio::test]
async fn what_was_not_decided_is_not_kept() {
    let error = DecideError::StoreUnavailable { policies: vec![], retry_after: Duration::from_secs(1), reason: String::new() };
    let decider = Scripted::saying(Err(error));
    let routes = before(&decider);
    assert_eq!(post(routes.clone(), "/v1/check", R1).await.status, 503);
    let_others_run().await;
    decider.says(Ok(allowed(vec![])));
    assert_eq!(post(routes.clone(), "/v1/check", R1).await.status, 200);
    assert_eq!(post(routes, "/v1/check", R1).await.status, 200);
    assert_eq!(decider.count(), 2);
}

#[tokio::test]
async fn a_decision_that_panicked_is_a_fault_of_ours_and_not_kept() {
    let decider = Scripted::allowing();
    let routes = before(&decider);
    let body = r#"{"attributes":{"panic":""},"request_id":"r1"}"#;
    for count in 1..=2 {
        let reply = post(routes.clone(), "/v1/check", body).await;
        assert_eq!((reply.status.as_u16(), reply.kind().as_str()), (500, "internal-error"));
        assert_eq!(decider.count(), count);
    }
}

#[tokio::test]
async fn callers_do_not_share_ids() {
    let decider = Scripted::allowing();
    let callers = Callers::with_tokens([hash_of(b"one"), hash_of(b"two")]);
    let routes = router(decider.clone(), FrontDoor { callers, ..FrontDoor::default() });
    let ask = |token: &str, body: &'static str| {
        let request = Request::post("/v1/check").header("content-type", "application/json");
        send(routes.clone(), request.header("authorization", format!("Bearer {token}")).body(Body::from(body)).unwrap())
    };
    assert_eq!(ask("one", R1).await.status, 200);
    let other = r#"{"attributes":{"tenant":"other"},"request_id":"r1"}"#;
    assert_eq!(ask("two", other).await.status, 200, "not the id of the first caller");
    assert_eq!(ask("one", R1).await.status, 200);
    assert_eq!(decider.count(), 2);
}

#[tokio::test]
async fn within_an_array_an_id_is_decided_once() {
    let decider = Scripted::allowing();
    let answers = post(before(&decider), "/v1/checks", format!("[{R1},{R1}]")).await.json();
    assert_eq!((&answers[0], decider.count()), (&answers[1], 1));
}

#[tokio::test]
async fn routes_can_be_called_by_many_at_once() {
    let decider = Scripted::allowing();
    let routes: Router = before(&decider);
    let body = |n: usize| format!(r#"{{"attributes":{{}},"request_id":"{n}"}}"#);
    let request = |n| Request::post("/v1/check").header("content-type", "application/json").body(Body::from(body(n))).unwrap();
    let calls: Vec<_> = (0..200).map(|n| tokio::spawn(routes.clone().oneshot(request(n % 50)))).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().status(), 200);
    }
    assert_eq!(decider.count(), 50);
}

fn hash_of(token: &[u8]) -> TokenHash {
    TokenHash::new(Sha256::digest(token).into())
}
