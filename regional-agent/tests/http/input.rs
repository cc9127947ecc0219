//! Bodies with mistakes, hostile ones among them.

use crate::scripted::{Reply, Scripted, before, check, post, send};
use axum::body::{Body, Bytes};
use axum::http::Request;
use futures_util::stream;
use proptest::prelude::*;
use quorate_agent::http::{FrontDoor, read, router};
use quorate_shared::units::MicroTokens;
use serde_json::json;
use std::convert::Infallible;

/// Pointers of the mistakes, in order.
fn pointers(reply: &Reply) -> Vec<String> {
    assert_eq!((reply.status.as_u16(), reply.kind().as_str()), (400, "invalid-request"));
    reply.problem().errors.into_iter().map(|e| e.pointer).collect()
}

/// With a limit on bodies that lets megabytes through.
async fn check_large(body: Vec<u8>) -> Reply {
    let settings = FrontDoor { max_body: 16 << 20, ..FrontDoor::default() };
    post(router(Scripted::allowing(), settings), "/v1/check", body).await
}

#[tokio::test]
async fn every_mistake_has_a_place_and_a_word() {
    let long_name = format!(r#"{{"attributes":{{"{}":"x"}}}}"#, "n".repeat(129));
    let long_value = format!(r#"{{"attributes":{{"a":"{}"}}}}"#, "v".repeat(8193));
    let long_id = format!(r#"{{"attributes":{{}},"request_id":"{}"}}"#, "i".repeat(129));
    let table = [
        ("[]", "", "must be an object with `attributes`, not an array"),
        ("null", "", "not null"),
        ("7", "", "not a number"),
        ("{}", "/attributes", "missing"),
        (r#"{"attributes":null}"#, "/attributes", "must be an object of strings, not null"),
        (r#"{"attributes":["a"]}"#, "/attributes", "not an array"),
        (r#"{"attributes":{"a":1}}"#, "/attributes/a", "must be a string, not a number"),
        (r#"{"attributes":{"a":{"b":[1]}}}"#, "/attributes/a", "not an object"),
        (r#"{"attributes":{"a/b~c":true}}"#, "/attributes/a~1b~0c", "not a boolean"),
        (r#"{"attributes":{"":"x"}}"#, "/attributes", "0 bytes; 1 to 128"),
        (&long_name, "/attributes", "129 bytes; 1 to 128"),
        (&long_value, "/attributes/a", "8193 bytes; at most 8192"),
        (r#"{"attributes":{"a":"1","\u0061":"2"}}"#, "/attributes/a", "written twice"),
        (r#"{"attributes":{},"attributes":{}}"#, "/attributes", "written twice"),
        (r#"{"attributes":{},"cost":1,"cost":1}"#, "/cost", "written twice"),
        (r#"{"attributes":{},"Cost":1}"#, "/Cost", "unknown field"),
        (r#"{"attributes":{},"cost":-1}"#, "/cost", "from 0 to 9007199254, not a negative number"),
        (r#"{"attributes":{},"cost":-0}"#, "/cost", "not a negative number"),
        (r#"{"attributes":{},"cost":0.5}"#, "/cost", "not a number with a fraction"),
        (r#"{"attributes":{},"cost":9007199255}"#, "/cost", "not 9007199255"),
        (r#"{"attributes":{},"cost":18446744073709551616}"#, "/cost", "not a number that large"),
        (r#"{"attributes":{},"cost":"1"}"#, "/cost", "not a string"),
        (r#"{"attributes":{},"request_id":""}"#, "/request_id", "0 bytes; 1 to 128"),
        (&long_id, "/request_id", "129 bytes; 1 to 128"),
        (r#"{"attributes":{},"request_id":7}"#, "/request_id", "must be a string, not a number"),
    ];
    let decider = Scripted::allowing();
    for (body, pointer, word) in table {
        let reply = check(&decider, body.to_owned()).await;
        assert_eq!(pointers(&reply), [pointer], "{body}");
        let detail = &reply.problem().errors[0].detail;
        assert!(detail.contains(word), "{body}: {detail}");
    }
    assert_eq!(decider.count(), 0, "nothing was asked");
}

#[tokio::test]
async fn all_mistakes_are_named_together() {
    let body = r#"{"cost":-1,"extra":[[{}]],"request_id":"","attributes":{"a":1,"b":"ok","c":null},"cost":2}"#;
    let reply = check(&Scripted::allowing(), body).await;
    assert_eq!(pointers(&reply), ["/cost", "/extra", "/request_id", "/attributes/a", "/attributes/c", "/cost"]);
    let body = r#"[{"attributes":{}},{"attributes":{},"cost":0.5},7]"#;
    let decider = Scripted::allowing();
    let reply = post(before(&decider), "/v1/checks", body).await;
    assert_eq!(pointers(&reply), ["/1/cost", "/2"]);
    assert_eq!(decider.count(), 0, "a mistake anywhere refuses all");
}

#[tokio::test]
async fn an_answer_to_mistakes_is_not_endless() {
    let body = format!("{{{}}}", (0..5_000).map(|n| format!("\"x{n}\":0")).collect::<Vec<_>>().join(","));
    let reply = check(&Scripted::allowing(), body).await;
    let errors = reply.problem().errors;
    assert_eq!(errors.len(), read::MOST_MISTAKES + 1);
    assert_eq!(errors.last().unwrap().detail, "and 4969 more mistakes");
}

#[tokio::test]
async fn what_is_no_json_is_named_by_line_and_column() {
    let table = [
        ("", "line 1 column 0", 1),
        ("{\n \"attributes\": {},\n nonsense}", "line 3 column 2", 3),
        ("{\"attributes\":{}} x", "line 1 column 19", 1),
        ("{\"attributes\":{},\"cost\":1e400}", "number out of range", 1),
        ("{\"attributes\":{\"a\":\"\\ud800\"}}", "line 1", 1),
        ("{\"attributes\":{\"a\":\"\u{1}\"}}", "control character", 1),
        ("\u{feff}{}", "line 1", 1),
    ];
    for (body, word, line) in table {
        let reply = check(&Scripted::allowing(), body).await;
        assert_eq!(pointers(&reply), [""], "{body}");
        let error = &reply.problem().errors[0];
        assert!(error.detail.starts_with("the body is not JSON: ") && error.detail.contains(word), "{body}: {}", error.detail);
        assert_eq!(error.line, Some(line), "{body}");
    }
    let reply = check(&Scripted::allowing(), &b"{\"attributes\":{\"a\":\"\xff\"}}"[..]).await;
    assert_eq!(pointers(&reply), [""]);
}

#[tokio::test]
async fn limits_of_input_are_inclusive() {
    let attributes: Vec<String> = (0..64).map(|n| format!("\"{n:0128}\":\"\"")).collect();
    let ok = format!(r#"{{"attributes":{{{}}},"cost":9007199254,"request_id":"{}"}}"#, attributes.join(","), "i".repeat(128));
    assert_eq!(check(&Scripted::allowing(), ok).await.status, 200);
    let value = format!(r#"{{"attributes":{{"a":"{}"}}}}"#, "v".repeat(8192));
    assert_eq!(check(&Scripted::allowing(), value).await.status, 200);
    let many = format!(r#"{{"attributes":{{{},"b":"","c":""}}}}"#, attributes.join(","));
    let reply = check(&Scripted::allowing(), many).await;
    assert_eq!(pointers(&reply), ["/attributes"]);
    assert_eq!(reply.problem().errors[0].detail, "66 attributes; at most 64");

    let array = |n: usize| format!("[{}]", vec![r#"{"attributes":{}}"#; n].join(","));
    let decider = Scripted::allowing();
    assert_eq!(post(before(&decider), "/v1/checks", array(100)).await.json().as_array().unwrap().len(), 100);
    let reply = post(before(&decider), "/v1/checks", array(103)).await;
    assert_eq!(pointers(&reply), [""]);
    assert_eq!(reply.problem().errors[0].detail, "103 checks; at most 100");
}

#[tokio::test]
async fn a_whole_number_may_be_written_as_a_float() {
    for (written, tokens) in [("1.0", 1), ("1e2", 100), ("9007199254.0", 9_007_199_254)] {
        let decider = Scripted::allowing();
        let reply = check(&decider, format!(r#"{{"attributes":{{}},"cost":{written}}}"#)).await;
        assert_eq!(reply.status, 200, "{written}");
        assert_eq!(decider.asked.lock().unwrap()[0].cost, MicroTokens::from_tokens(tokens));
    }
    for written in ["1.5", "-1.0", "1e19", "9007199254740993.0"] {
        let reply = check(&Scripted::allowing(), format!(r#"{{"attributes":{{}},"cost":{written}}}"#)).await;
        assert_eq!(pointers(&reply), ["/cost"], "{written}");
    }
}

#[tokio::test]
async fn null_is_absent_and_nul_is_a_character() {
    let decider = Scripted::allowing();
    let reply = check(&decider, r#"{"attributes":{"a":"x\u0000\n"},"cost":null,"request_id":null}"#).await;
    assert_eq!(reply.status, 200);
    let asked = decider.asked.lock().unwrap()[0].clone();
    assert_eq!((asked.attributes["a"].as_str(), asked.cost), ("x\0\n", None));
}

#[tokio::test]
async fn a_body_has_a_largest_size() {
    let exact = |bytes: usize| format!("{}{}", r#"{"attributes":{}}"#, " ".repeat(bytes - 17));
    let decider = Scripted::allowing();
    assert_eq!(check(&decider, exact(65_536)).await.status, 200);
    let announced = Request::post("/v1/check").header("content-type", "application/json").header("content-length", "65537");
    let reply = send(before(&decider), announced.body(Body::from(exact(65_537))).unwrap()).await;
    assert_eq!((reply.status.as_u16(), reply.kind().as_str()), (413, "body-too-large"));

    let parts = stream::iter((0..70).map(|_| Ok::<_, Infallible>(Bytes::from(" ".repeat(1_000)))));
    let reply = check(&decider, Body::from_stream(parts)).await;
    assert_eq!(reply.status, 413, "announced or not");
    let broken = stream::iter([Ok(Bytes::from_static(b"{")), Err("cut off")]);
    let reply = check(&decider, Body::from_stream(broken)).await;
    assert_eq!((reply.status.as_u16(), reply.kind().as_str()), (400, "invalid-request"));
    assert_eq!(decider.count(), 1);
}

#[tokio::test]
async fn only_json_in_utf8_is_read() {
    let table = [
        (Some("application/json"), 200),
        (Some("application/json; charset=utf-8"), 200),
        (Some("Application/JSON;charset=\"UTF-8\""), 200),
        (Some("application/json;"), 200),
        (Some("application/json; charset=latin1"), 415),
        (Some("application/json; charset"), 415),
        (Some("application/jsonp"), 415),
        (Some("text/plain"), 415),
        (Some(""), 415),
        (None, 415),
    ];
    for (media_type, status) in table {
        let mut request = Request::post("/v1/check");
        if let Some(media_type) = media_type {
            request = request.header("content-type", media_type);
        }
        let reply = send(before(&Scripted::allowing()), request.body(Body::from(r#"{"attributes":{}}"#)).unwrap()).await;
        assert_eq!(reply.status, status, "{media_type:?}");
        if status == 415 {
            assert_eq!(reply.kind(), "unsupported-media-type");
        }
    }
}

#[tokio::test]
async fn hostile_bodies_are_mistakes_like_others() {
    let deep = 100_000;
    let nested = |open: &str, close: &str| open.repeat(deep) + &close.repeat(deep);
    let bodies = [
        nested("[", "]"),
        nested("{\"a\":", "}").replace(":}", ":0}"),
        "[".repeat(deep),
        format!(r#"{{"attributes":{{"a":{}}}}}"#, nested("[", "]")),
        format!(r#"{{"attributes":{},"x":{}}}"#, nested("[", "]"), nested("[", "]")),
        format!(r#"{{"attributes":{{"a":"{}"}}}}"#, "x".repeat(1 << 20)),
        format!(r#"{{"attributes":{{"{}":""}}}}"#, "x".repeat(1 << 20)),
        format!(r#"{{"{}":"","attributes":{{}}}}"#, "x".repeat(1 << 20)),
        format!(r#"{{"attributes":{{}},"request_id":"{}"}}"#, "\\u0000".repeat(1 << 17)),
        format!(r#"{{"attributes":{{}},"cost":{}}}"#, "9".repeat(1 << 20)),
        format!(r#"{{"attributes":{{{}}}}}"#, vec![r#""a":"b""#; 100_000].join(",")),
    ];
    for body in bodies {
        let start: String = body.chars().take(30).collect();
        let reply = check_large(body.into_bytes()).await;
        assert!(!pointers(&reply).is_empty(), "{start}");
        assert!(reply.body.len() < 16 * 1024, "{start}: {} bytes", reply.body.len());
    }
}

/// JSON that is often nearly a check.
fn values() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|b| json!(b)),
        any::<i64>().prop_map(|n| json!(n)),
        any::<f64>().prop_map(|n| json!(n)),
        ".{0,20}".prop_map(|s| json!(s)),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let name = prop_oneof![Just("attributes".to_owned()), Just("cost".to_owned()), Just("request_id".to_owned()), ".{0,8}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|v| json!(v)),
            prop::collection::btree_map(name, inner, 0..6).prop_map(|m| json!(m)),
        ]
    })
}

/// Bytes of any kind, or JSON with some bytes changed.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let changed = (values(), prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3));
    let changed = changed.prop_map(|(value, changes)| {
        let mut bytes = serde_json::to_vec(&value).unwrap();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes
    });
    prop_oneof![prop::collection::vec(any::<u8>(), 0..200), changed]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_body_is_answered_with_a_decision_or_a_problem(body in bodies(), path in prop_oneof![Just("/v1/check"), Just("/v1/checks")]) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let decider = Scripted::allowing();
        let reply = runtime.block_on(post(before(&decider), path, body));
        match reply.status.as_u16() {
            200 => prop_assert_eq!(reply.header("content-type"), Some("application/json")),
            status => {
                prop_assert_eq!(status, 400);
                prop_assert!(!reply.problem().errors.is_empty());
                prop_assert_eq!(decider.count(), 0);
            }
        }
    }

    #[test]
    fn a_valid_check_is_read_as_it_was_written(
        attributes in prop::collection::btree_map("\\PC{1,20}", ".{0,40}", 0..10),
        cost in proptest::option::of(0..=read::MOST_COST),
        request_id in proptest::option::of("[ -~]{1,64}"),
    ) {
        let request = quorate_shared::api::CheckRequest { attributes, cost, request_id };
        let check = read::check(&serde_json::to_vec(&request).unwrap()).unwrap();
        prop_assert_eq!(check.request.attributes, request.attributes);
        prop_assert_eq!(check.request.cost.map(|c| c.0), request.cost.map(|c| c * 1_000_000));
        prop_assert_eq!(check.request_id, request.request_id);
    }
}
