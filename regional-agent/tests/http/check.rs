//! Every case of a decision and its answer.

use crate::scripted::{Scripted, allowed, before, check, over, policy, post, refused, tokens, write_api};
use quorate_agent::decide::{DecideError, PolicyDecision, Verdict};
use quorate_limiter::decision::LimitDecision;
use quorate_shared::api::DecisionMode;
use quorate_shared::units::{Capacity, MicroTokens};
use serde_json::json;
use std::time::Duration;

const ANY: &str = r#"{"attributes":{"tenant":"acme"}}"#;

async fn answer(verdict: Verdict) -> crate::scripted::Reply {
    check(&Scripted::saying(Ok(verdict)), ANY).await
}

#[tokio::test]
async fn an_allowed_request_is_answered_word_for_word() {
    let decider = Scripted::allowing();
    let reply = check(&decider, r#"{"attributes":{"tenant":"acme","route":"write"},"cost":3,"request_id":"r1"}"#).await;
    assert_eq!(reply.status, 200);
    assert_eq!(
        std::str::from_utf8(&reply.body).unwrap(),
        concat!(
            r#"{"decision":"allow","limits":[{"policy":"write-api","limit":200,"remaining":41,"#,
            r#""reset_after_ms":1590,"mode":"leased","observed":false}],"slot":null}"#
        )
    );
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.header("retry-after"), None);
    assert_eq!(reply.header("ratelimit-policy"), Some("\"write-api\";q=200;w=2"));
    assert_eq!(reply.header("ratelimit"), Some("\"write-api\";r=41;t=2"));
    let asked = decider.asked.lock().unwrap()[0].clone();
    assert_eq!(asked.cost, Some(tokens(3)));
    assert_eq!(
        asked.attributes.into_iter().collect::<Vec<_>>(),
        [("route".to_owned(), "write".to_owned()), ("tenant".to_owned(), "acme".to_owned())]
    );
}

#[tokio::test]
async fn a_refusal_is_answered_word_for_word() {
    let reply = answer(refused(vec![over("write-api", Duration::from_micros(590_001))])).await;
    assert_eq!(reply.status, 429);
    let body = json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Request cannot be satisfied as assigned quota has been exceeded",
        "status": 429, "policy": "write-api", "retry_after_ms": 591, "violated-policies": ["write-api"],
    });
    assert_eq!(reply.json(), body, "and nothing more");
    assert_eq!(reply.header("content-type"), Some("application/problem+json"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(reply.header("ratelimit-policy"), Some("\"write-api\";q=200;w=2"));
    assert_eq!(reply.header("ratelimit"), Some("\"write-api\";r=0;t=1"), "never later than Retry-After");
}

#[tokio::test]
async fn no_policy_no_limits() {
    let reply = answer(allowed(vec![])).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json(), json!({"decision": "allow", "limits": [], "slot": null}));
    assert_eq!((reply.header("ratelimit"), reply.header("ratelimit-policy")), (None, None));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn waits_are_rounded_up() {
    let table = [
        (Duration::from_millis(200), "1", 200),
        (Duration::from_millis(1_900), "2", 1_900),
        (Duration::from_secs(2), "2", 2_000),
        (Duration::from_nanos(2_000_000_001), "3", 2_001),
        (Duration::from_micros(1), "1", 1),
        (Duration::ZERO, "1", 1),
        (Duration::from_secs(86_400), "86400", 86_400_000),
        (Duration::MAX, "18446744073709551615", (1 << 53) - 1),
    ];
    for (wait, seconds, millis) in table {
        let reply = answer(refused(vec![over("a", wait)])).await;
        assert_eq!(reply.header("retry-after"), Some(seconds), "{wait:?}");
        assert_eq!(reply.problem().retry_after_ms, Some(millis), "{wait:?}");
    }
}

#[tokio::test]
async fn tokens_are_rounded_down() {
    let mut limit = policy("a", MicroTokens(41_999_999), None);
    limit.decision.as_mut().unwrap().capacity.burst = MicroTokens(66_666_667);
    let reply = answer(allowed(vec![limit])).await;
    let state = &reply.json()["limits"][0];
    assert_eq!((&state["limit"], &state["remaining"]), (&json!(66), &json!(41)));
    assert_eq!(reply.header("ratelimit-policy"), Some("\"a\";q=66;w=2"));
    assert_eq!(reply.header("ratelimit").unwrap().split(";t").next(), Some("\"a\";r=41"));
}

#[tokio::test]
async fn the_longest_wait_of_those_that_refuse_counts() {
    let short = over("short", Duration::from_millis(300));
    let long = over("long", Duration::from_millis(4_100));
    let equal = over("equal", Duration::from_millis(4_100));
    let mut idle = policy("idle", tokens(199), None);
    idle.decision.as_mut().unwrap().reset_after = Some(Duration::from_secs(60));
    let watched = PolicyDecision { enforced: false, ..over("watched", Duration::from_secs(99)) };
    let reply = answer(refused(vec![short, idle, long, equal, watched])).await;
    let problem = reply.problem();
    assert_eq!(problem.policy.as_deref(), Some("long"), "the first of the longest");
    assert_eq!(problem.violated_policies, ["short", "long", "equal"]);
    assert_eq!(problem.retry_after_ms, Some(4_100));
    assert_eq!(reply.header("retry-after"), Some("5"));
    let fields = "\"short\";r=0;t=2, \"idle\";r=199;t=5, \"long\";r=0;t=2, \"equal\";r=0;t=2, \"watched\";r=0;t=2";
    assert_eq!(reply.header("ratelimit"), Some(fields));
}

#[tokio::test]
async fn a_window_is_waited_for_to_its_end_only_where_nothing_more_can_be_granted() {
    let refusal = |capacity: u64| {
        let decision = over("a", Duration::from_hours(20))
            .decision
            .map(|decision| LimitDecision { capacity: Capacity::new(MicroTokens::ZERO, tokens(capacity)), ..decision });
        let window = quorate_shared::policy::Window::Every(Duration::from_hours(24));
        let limit = quorate_shared::policy::Limit::FixedWindow { units: tokens(200), window };
        PolicyDecision { limit, reach: tokens(150), decision, ..over("a", Duration::ZERO) }
    };
    for (capacity, millis) in [(149, 2_000), (150, 20 * 3_600_000), (151, 20 * 3_600_000)] {
        let reply = answer(refused(vec![refusal(capacity)])).await;
        assert_eq!((reply.status.as_u16(), reply.problem().retry_after_ms), (429, Some(millis)), "{capacity} of 150");
    }
}

#[tokio::test]
async fn what_a_share_cannot_hold_waits_for_capacity_to_move_and_refill() {
    let unknown = |name| {
        let capacity = Capacity::new(MicroTokens::ZERO, tokens(5));
        let decision =
            LimitDecision { fits: false, capacity, remaining: tokens(3), retry_after: None, reset_after: None, used_lease: false };
        PolicyDecision { cost: tokens(10), decision: Some(decision), ..write_api(0) }.named(name)
    };
    let decider = Scripted::saying(Ok(refused(vec![unknown("a")])));
    for (heartbeat, seconds, millis) in [(Duration::from_millis(250), "3", 2_100), (Duration::from_millis(2_500), "3", 2_500)] {
        let settings = quorate_agent::http::FrontDoor { heartbeat, ..Default::default() };
        let reply = post(quorate_agent::http::router(decider.clone(), settings), "/v1/check", ANY).await;
        assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (429, Some(seconds)));
        assert_eq!(reply.problem().retry_after_ms, Some(millis));
        assert_eq!(reply.header("ratelimit"), Some("\"a\";r=3"), "no t: nothing refills it");
    }
    let known = over("b", Duration::from_secs(9));
    let reply = answer(refused(vec![unknown("a"), known])).await;
    assert_eq!((reply.header("retry-after"), reply.problem().policy.as_deref()), (Some("9"), Some("b")));
}

trait Named {
    fn named(self, name: &str) -> Self;
}

impl Named for PolicyDecision {
    fn named(self, name: &str) -> Self {
        Self { policy: name.parse().unwrap(), ..self }
    }
}

#[tokio::test]
async fn a_cost_beyond_the_whole_limit_is_no_matter_of_waiting() {
    let never = |enforced| PolicyDecision { cost: tokens(201), enforced, ..over("big", Duration::from_secs(1)) };
    let reply = answer(refused(vec![over("a", Duration::from_secs(5)), never(true)])).await;
    assert_eq!((reply.status.as_u16(), reply.kind().as_str()), (422, "cost-exceeds-limit"));
    assert_eq!(reply.header("retry-after"), None);
    let problem = reply.problem();
    assert_eq!((problem.policy.as_deref(), problem.retry_after_ms), (Some("big"), None));
    assert_eq!(problem.detail.as_deref(), Some("The cost is 201; policy big never holds more than 200."));

    let reply = answer(refused(vec![over("a", Duration::from_secs(5)), never(false)])).await;
    assert_eq!(reply.status, 429, "one that only observes decides nothing");
    let fits = PolicyDecision { cost: tokens(200), ..over("big", Duration::from_secs(1)) };
    assert_eq!(answer(refused(vec![fits])).await.status, 429, "the whole limit can be had");
    let too_far = PolicyDecision { cost: tokens(200), reach: tokens(186), ..over("big", Duration::from_secs(1)) };
    assert_eq!(answer(refused(vec![too_far])).await.status, 422, "others keep some of it");
}

#[tokio::test]
async fn a_policy_that_observes_says_so_and_lets_pass() {
    let watched = PolicyDecision { enforced: false, mode: DecisionMode::Floor, ..over("a", Duration::from_secs(1)) };
    let within = PolicyDecision { enforced: false, ..write_api(5) };
    let reply = answer(allowed(vec![watched, within])).await;
    assert_eq!(reply.status, 200);
    let limits = &reply.json()["limits"];
    assert_eq!((&limits[0]["observed"], &limits[0]["mode"]), (&json!(true), &json!("floor")));
    assert_eq!(limits[1]["observed"], json!(false));
}

#[tokio::test]
async fn an_open_policy_without_a_store_promises_nothing() {
    let open = PolicyDecision { mode: DecisionMode::Open, decision: None, ..write_api(0) };
    let reply = answer(allowed(vec![open, write_api(7).named("b")])).await;
    let open = json!({"policy": "write-api", "limit": 200, "remaining": 0, "reset_after_ms": 0, "mode": "open", "observed": false});
    assert_eq!(reply.json()["limits"][0], open);
    assert_eq!(reply.header("ratelimit"), Some("\"b\";r=7;t=2"), "only those with a bucket");
    assert_eq!(reply.header("ratelimit-policy"), Some("\"b\";q=200;w=2"));
}

#[tokio::test]
async fn without_a_store_a_closed_policy_is_unavailable() {
    let error = DecideError::StoreUnavailable {
        policies: vec!["login".parse().unwrap(), "b".parse().unwrap()],
        retry_after: Duration::from_millis(1_200),
        reason: "redis://10.0.0.7 refused".into(),
    };
    let reply = check(&Scripted::saying(Err(error)), ANY).await;
    assert_eq!((reply.status.as_u16(), reply.kind().as_str()), (503, "limiter-unavailable"));
    assert_eq!(reply.header("retry-after"), Some("2"));
    let problem = reply.problem();
    assert_eq!((problem.policy.as_deref(), problem.retry_after_ms), (Some("login"), Some(1_200)));
    assert!(!String::from_utf8_lossy(&reply.body).contains("10.0.0.7"), "what the store said stays inside");
}

#[tokio::test]
async fn without_policies_nothing_is_decided() {
    let reply = check(&Scripted::saying(Err(DecideError::NoPolicies)), ANY).await;
    assert_eq!((reply.status.as_u16(), reply.kind().as_str()), (503, "limiter-unavailable"));
    assert_eq!(reply.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn an_array_is_answered_in_order() {
    let decider = Scripted::allowing();
    let body = r#"[{"attributes":{"n":"0"}},{"attributes":{"n":"1"},"cost":0},{"attributes":{}}]"#;
    let reply = post(before(&decider), "/v1/checks", body).await;
    assert_eq!((reply.status.as_u16(), reply.header("content-type")), (200, Some("application/json")));
    let answers = reply.json();
    assert_eq!(answers.as_array().unwrap().len(), 3);
    for answer in answers.as_array().unwrap() {
        assert_eq!((&answer["status"], &answer["body"]["decision"]), (&json!(200), &json!("allow")));
        assert_eq!(answer.as_object().unwrap().len(), 2);
    }
    let asked: Vec<_> = decider.asked.lock().unwrap().iter().map(|r| (r.attributes.get("n").cloned(), r.cost)).collect();
    assert_eq!(asked, [(Some("0".into()), None), (Some("1".into()), Some(MicroTokens::ZERO)), (None, None)]);

    decider.says(Ok(refused(vec![over("a", Duration::from_secs(1))])));
    let reply = post(before(&decider), "/v1/checks", r#"[{"attributes":{}}]"#).await;
    assert_eq!((reply.status.as_u16(), &reply.json()[0]["status"]), (200, &json!(429)));
    assert_eq!(reply.json()[0]["body"]["retry_after_ms"], json!(1_000));
    assert_eq!(post(before(&decider), "/v1/checks", "[]").await.body, "[]");
}
