//! Reserve and settle, as HTTP says it.

use crate::scripted::{Scripted, allowed, before, post, refused, tokens, write_api};
use quorate_agent::decide::{DecideError, Verdict};
use quorate_limiter::hold::{HoldId, Settled};
use quorate_shared::units::MicroTokens;
use serde_json::json;
use std::time::Duration;

const RESERVE: &str = r#"{"attributes":{"tenant":"acme"},"cost":7}"#;

fn reserved(bits: u128) -> Verdict {
    Verdict { reservation: Some(HoldId::from_bits(bits)), ..allowed(vec![write_api(41)]) }
}

#[tokio::test]
async fn a_reservation_is_a_check_with_its_name() {
    let decider = Scripted::saying(Ok(reserved(10)));
    let reply = post(before(&decider), "/v1/reserve", RESERVE).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["reservation"]), (200, &json!("0000000000000000000000000000000a")));
    assert_eq!((&reply.json()["decision"], &reply.json()["limits"][0]["remaining"]), (&json!("allow"), &json!(41)));
    assert_eq!(reply.header("ratelimit"), Some("\"write-api\";r=41;t=2"));
    let asked = decider.asked.lock().unwrap()[0].clone();
    assert_eq!((asked.cost, asked.reserve), (Some(tokens(7)), Some(Duration::from_secs(60))));
}

#[tokio::test]
async fn how_long_a_reservation_lasts_may_be_said() {
    let ttl = async |text: &str| {
        let decider = Scripted::saying(Ok(reserved(1)));
        let reply = post(before(&decider), "/v1/reserve", format!(r#"{{"attributes":{{}},"ttl":{text}}}"#)).await;
        let asked = decider.asked.lock().unwrap().first().and_then(|request| request.reserve);
        (reply.status.as_u16(), asked, reply)
    };
    for (text, millis) in [("\"1ms\"", 1), ("\"5s\"", 5_000), ("\"10min\"", 600_000), ("null", 60_000)] {
        let (status, asked, _) = ttl(text).await;
        assert_eq!((status, asked), (200, Some(Duration::from_millis(millis))), "{text}");
    }
    for text in ["\"0s\"", "\"11min\"", "\"5\"", "\"\"", "5", "true"] {
        let (status, asked, reply) = ttl(text).await;
        assert_eq!((status, asked), (400, None), "{text}");
        assert_eq!(reply.problem().errors[0].pointer, "/ttl", "{text}");
    }
}

#[tokio::test]
async fn a_check_reserves_nothing() {
    let decider = Scripted::allowing();
    let reply = post(before(&decider), "/v1/check", RESERVE).await;
    assert_eq!((reply.json().get("reservation"), decider.asked.lock().unwrap()[0].reserve), (None, None));
    let reply = post(before(&decider), "/v1/check", r#"{"attributes":{},"ttl":"5s"}"#).await;
    assert_eq!(reply.problem().errors[0].pointer, "/ttl");
}

#[tokio::test]
async fn a_refused_reservation_is_a_refusal() {
    let decider = Scripted::saying(Ok(refused(vec![crate::scripted::over("a", Duration::from_secs(3))])));
    let reply = post(before(&decider), "/v1/reserve", RESERVE).await;
    assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (429, Some("3")));
}

#[tokio::test]
async fn a_retried_reservation_is_the_first_one() {
    let decider = Scripted::saying(Ok(reserved(1)));
    let routes = before(&decider);
    let body = r#"{"attributes":{},"request_id":"r1"}"#;
    let first = post(routes.clone(), "/v1/reserve", body).await;
    decider.says(Ok(reserved(2)));
    assert_eq!(post(routes.clone(), "/v1/reserve", body).await.body, first.body);
    let as_check = post(routes.clone(), "/v1/check", body).await;
    assert_eq!(as_check.problem().errors[0].pointer, "/request_id", "a check is another request");
    let longer = post(routes, "/v1/reserve", r#"{"attributes":{},"ttl":"61s","request_id":"r1"}"#).await;
    assert_eq!((longer.status.as_u16(), decider.count()), (400, 1));
}

async fn settle(decider: &std::sync::Arc<Scripted>, body: &str) -> crate::scripted::Reply {
    post(before(decider), "/v1/settle", body.to_owned()).await
}

#[tokio::test]
async fn a_settlement_is_answered_word_for_word() {
    let decider = Scripted::allowing();
    let settled = Settled { cost: tokens(9), returned: MicroTokens(1_999_999), owed: MicroTokens(1) };
    *decider.settles.lock().unwrap() = Ok(Some(settled));
    let reply = settle(&decider, r#"{"reservation":"0000000000000000000000000000000a","cost":9}"#).await;
    assert_eq!((reply.status.as_u16(), &*reply.body), (200, br#"{"settled":true,"cost":9,"returned":1,"owed":1}"#.as_slice()));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(*decider.settled.lock().unwrap(), [(HoldId::from_bits(10), tokens(9))]);
}

#[tokio::test]
async fn what_cannot_be_settled_says_why() {
    let decider = Scripted::allowing();
    let body = r#"{"reservation":"0000000000000000000000000000000a","cost":0}"#;
    let ended = settle(&decider, body).await;
    assert_eq!((ended.status.as_u16(), ended.kind().as_str()), (410, "reservation-ended"));
    let error = DecideError::StoreUnavailable { policies: vec![], retry_after: Duration::from_secs(1), reason: String::new() };
    *decider.settles.lock().unwrap() = Err(error);
    let away = settle(&decider, body).await;
    assert_eq!((away.status.as_u16(), away.kind().as_str(), away.header("retry-after")), (503, "limiter-unavailable", Some("1")));
}

#[tokio::test]
async fn a_true_cost_that_no_limit_holds_is_refused_and_the_most_is_named() {
    let decider = Scripted::allowing();
    *decider.settles.lock().unwrap() = Err(DecideError::BeyondSettlement { most: tokens(200) });
    let reply = settle(&decider, r#"{"reservation":"0000000000000000000000000000000a","cost":201}"#).await;
    assert_eq!((reply.status.as_u16(), reply.kind().as_str(), reply.header("retry-after")), (422, "cost-exceeds-limit", None));
    assert!(reply.json()["detail"].as_str().expect("words").contains("At most 200"), "{}", reply.json());
}

#[tokio::test]
async fn every_mistake_of_a_settlement_is_named() {
    let id = "0".repeat(31) + "a";
    let table = [
        ("[]".to_owned(), vec![""]),
        ("{}".to_owned(), vec!["/reservation", "/cost"]),
        (format!(r#"{{"reservation":"{id}"}}"#), vec!["/cost"]),
        (format!(r#"{{"reservation":"{id}","cost":null}}"#), vec!["/cost"]),
        (format!(r#"{{"reservation":"{id}","cost":-1}}"#), vec!["/cost"]),
        (format!(r#"{{"reservation":"{id}","cost":9007199255}}"#), vec!["/cost"]),
        (r#"{"reservation":"x","cost":1}"#.to_owned(), vec!["/reservation"]),
        (r#"{"reservation":7,"cost":"1"}"#.to_owned(), vec!["/reservation", "/cost"]),
        (format!(r#"{{"reservation":"{id}","cost":1,"cost":1,"a/b":1}}"#), vec!["/cost", "/a~1b"]),
    ];
    for (body, pointers) in table {
        let decider = Scripted::allowing();
        let reply = settle(&decider, &body).await;
        let problem = reply.problem();
        assert_eq!(problem.errors.iter().map(|e| e.pointer.as_str()).collect::<Vec<_>>(), pointers, "{body}");
        assert_eq!((problem.status, reply.kind().as_str()), (400, "invalid-request"));
        assert!(decider.settled.lock().unwrap().is_empty());
    }
    let not_json = settle(&Scripted::allowing(), "{").await;
    assert_eq!(not_json.problem().errors[0].line, Some(1));
}

#[tokio::test]
async fn a_slot_is_shown_and_given_back() {
    let verdict = Verdict { slot: Some(HoldId::from_bits(10)), ..allowed(vec![write_api(41)]) };
    let decider = Scripted::saying(Ok(verdict));
    let slot = post(before(&decider), "/v1/check", RESERVE).await.json()["slot"].clone();
    assert_eq!(slot, json!("0000000000000000000000000000000a"));
    let many = post(before(&decider), "/v1/checks", format!("[{RESERVE}]")).await.json();
    assert_eq!(many[0]["body"]["slot"], slot);
    let release = async |body: String| post(before(&decider), "/v1/release", body).await;
    assert_eq!(release(json!({ "slot": slot }).to_string()).await.json(), json!({"released": true}));
    let other = release(json!({ "slot": "0".repeat(32) }).to_string()).await;
    assert_eq!((other.status.as_u16(), other.json()), (200, json!({"released": false})));
    for (body, pointer) in [("{}", "/slot"), (r#"{"slot":"x"}"#, "/slot"), (r#"{"slot":1}"#, "/slot"), ("7", "")] {
        let wrong = release(body.to_owned()).await;
        assert_eq!((wrong.status.as_u16(), wrong.kind().as_str()), (400, "invalid-request"), "{body}");
        assert_eq!(wrong.problem().errors[0].pointer, pointer, "{body}");
    }
}
