//! The layer before services, with an agent that says what the test wants.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test says what it expects by unwrapping, in its helpers too")]
#![allow(dead_code, reason = "the example has a main function of its own")]

#[path = "../examples/service.rs"]
mod example;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use http::{HeaderMap, Request, StatusCode};
use quorate_tower::{Agent, CheckRequest, LimitLayer, WithoutAgent};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tower::ServiceExt;

const ALLOWED: &str = r#"{"decision":"allow","limits":[],"slot":null}"#;
const REFUSED: &str = r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"x","status":429}"#;

/// An agent that always says the same, and tells what it was asked.
struct Fake {
    url: String,
    asked: mpsc::UnboundedReceiver<(HeaderMap, String)>,
    released: mpsc::UnboundedReceiver<String>,
}

async fn agent(status: u16, fields: &'static [(&str, &str)], body: &'static str) -> Fake {
    let (tell, asked) = mpsc::unbounded_channel();
    let (tell_release, released) = mpsc::unbounded_channel();
    let check = move |headers: HeaderMap, question: String| async move {
        tell.send((headers, question)).unwrap();
        let fields: HeaderMap = fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        (StatusCode::from_u16(status).unwrap(), fields, body)
    };
    let release = move |body: String| async move { tell_release.send(body).unwrap() };
    let routes = Router::new().route("/v1/check", post(check)).route("/v1/release", post(release));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    Fake { url, asked, released }
}

fn tenant(request: &http::request::Parts) -> Option<CheckRequest> {
    let tenant = request.headers.get("x-tenant")?.to_str().ok()?.to_owned();
    Some(CheckRequest { attributes: [("tenant".to_owned(), tenant)].into(), ..CheckRequest::default() })
}

/// A service that counts its requests and speaks of a limit of its own.
fn service(agent: Agent, without_agent: WithoutAgent) -> (Router, Arc<Mutex<usize>>) {
    let count = Arc::new(Mutex::new(0));
    let counted = count.clone();
    let answer = move || async move {
        *counted.lock().unwrap() += 1;
        ([("ratelimit", "\"own\";r=1")], "served").into_response()
    };
    let routes = Router::new().route("/", get(answer.clone()).post(answer));
    (routes.layer(LimitLayer::new(agent, tenant).without_agent(without_agent)), count)
}

async fn send(routes: &Router, request: Request<Body>) -> (StatusCode, HeaderMap, String) {
    let (parts, body) = routes.clone().oneshot(request).await.unwrap().into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    (parts.status, parts.headers, String::from_utf8(body.to_vec()).unwrap())
}

fn of_acme() -> Request<Body> {
    Request::get("/").header("x-tenant", "acme").body(Body::empty()).unwrap()
}

const FIELDS: &[(&str, &str)] = &[("ratelimit", "\"a\";r=4;t=1"), ("ratelimit-policy", "\"a\";q=5;w=1"), ("x-secret", "1")];

#[tokio::test]
async fn what_is_allowed_is_served_and_says_how_the_limits_stand() {
    let mut fake = agent(200, FIELDS, ALLOWED).await;
    let (routes, served) = service(Agent::new(&fake.url).unwrap().with_token("secret"), WithoutAgent::Closed);
    let (status, headers, body) = send(&routes, of_acme()).await;
    assert_eq!((status, body.as_str(), *served.lock().unwrap()), (StatusCode::OK, "served", 1));
    let fields = |name: &str| headers.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(fields("ratelimit"), ["\"a\";r=4;t=1"], "once, though the service says one too");
    assert_eq!(fields("ratelimit-policy"), ["\"a\";q=5;w=1"]);
    assert_eq!(fields("x-secret"), [""; 0], "nothing else of the agent's answer");
    let (headers, question) = fake.asked.recv().await.unwrap();
    assert_eq!(question, r#"{"attributes":{"tenant":"acme"}}"#);
    assert_eq!(headers["authorization"], "Bearer secret");
}

#[tokio::test]
async fn the_agent_is_asked_in_the_trace_of_the_request_and_told_nothing_else_of_it() {
    let mut fake = agent(200, &[], ALLOWED).await;
    let (routes, _) = service(Agent::new(&fake.url).unwrap(), WithoutAgent::Closed);
    let traced = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut request = of_acme();
    for (name, value) in [("traceparent", traced), ("tracestate", "a=1"), ("cookie", "mine")] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    send(&routes, request).await;
    let (headers, _) = fake.asked.recv().await.unwrap();
    assert_eq!((&headers["traceparent"], &headers["tracestate"]), (&traced.parse().unwrap(), &"a=1".parse().unwrap()));
    assert!(!headers.contains_key("cookie") && !headers.contains_key("x-tenant"));
}

#[tokio::test]
async fn nothing_is_asked_about_what_is_no_question() {
    let mut fake = agent(429, &[], REFUSED).await;
    let (routes, _) = service(Agent::new(&fake.url).unwrap(), WithoutAgent::Closed);
    let (status, ..) = send(&routes, Request::get("/").body(Body::empty()).unwrap()).await;
    assert_eq!(status, StatusCode::OK);
    assert!(fake.asked.try_recv().is_err());
}

#[tokio::test]
async fn a_refusal_reaches_the_client_and_not_the_service() {
    let fields = &[
        ("content-type", "application/problem+json"),
        ("retry-after", "7"),
        ("ratelimit", "\"a\";r=0;t=7"),
        ("cache-control", "no-store"),
    ];
    for code in [429, 422, 503] {
        let fake = agent(code, fields, REFUSED).await;
        let (routes, served) = service(Agent::new(&fake.url).unwrap(), WithoutAgent::Open);
        let (status, headers, body) = send(&routes, of_acme()).await;
        assert_eq!((status.as_u16(), body.as_str(), *served.lock().unwrap()), (code, REFUSED, 0));
        for (name, value) in fields {
            assert_eq!(headers[*name], value);
        }
    }
}

#[tokio::test]
async fn over_grpc_a_refusal_is_a_status_of_grpc() {
    for (code, expected) in [(429, "8"), (422, "8"), (503, "14")] {
        let fake = agent(code, &[("retry-after", "7"), ("ratelimit", "\"a\";r=0;t=7")], REFUSED).await;
        let (routes, _) = service(Agent::new(&fake.url).unwrap(), WithoutAgent::Closed);
        let request = Request::post("/").header("content-type", "application/grpc+proto").header("x-tenant", "acme");
        let (status, headers, body) = send(&routes, request.body(Body::empty()).unwrap()).await;
        assert_eq!((status, headers["grpc-status"].to_str().unwrap(), body.as_str()), (StatusCode::OK, expected, ""));
        assert_eq!([&headers["content-type"], &headers["retry-after"]], ["application/grpc", "7"]);
    }
}

#[tokio::test]
async fn without_an_answer_in_time_it_does_as_it_is_told() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refusing = agent(401, &[], "").await.url;
    let gone = "http://127.0.0.1:1".to_owned();
    for url in [format!("http://{}", silent.local_addr().unwrap()), gone, refusing] {
        let agent = || Agent::new(&url).unwrap().within(Duration::from_millis(50));
        let (routes, served) = service(agent(), WithoutAgent::Closed);
        let (status, headers, body) = send(&routes, of_acme()).await;
        assert_eq!((status, *served.lock().unwrap()), (StatusCode::SERVICE_UNAVAILABLE, 0), "{url}");
        assert_eq!([&headers["content-type"], &headers["retry-after"]], ["application/problem+json", "1"]);
        assert!(body.contains("/limiter-unavailable"), "{body}");
        let (routes, served) = service(agent(), WithoutAgent::Open);
        let (status, headers, _) = send(&routes, of_acme()).await;
        assert_eq!((status, *served.lock().unwrap()), (StatusCode::OK, 1), "{url}");
        assert_eq!(headers["ratelimit"], "\"own\";r=1");
    }
}

#[tokio::test]
async fn a_slot_is_given_back_when_the_body_has_been_sent() {
    let body = r#"{"decision":"allow","limits":[],"slot":"00000000000000010000000000000002"}"#;
    let mut fake = agent(200, &[], body).await;
    let (routes, _) = service(Agent::new(&fake.url).unwrap(), WithoutAgent::Closed);
    let response = routes.clone().oneshot(of_acme()).await.unwrap();
    assert!(fake.released.try_recv().is_err(), "its body is not read yet");
    to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let released = fake.released.recv().await.unwrap();
    assert_eq!(released, r#"{"slot":"00000000000000010000000000000002"}"#);
    drop(routes.oneshot(of_acme()).await.unwrap());
    assert_eq!(fake.released.recv().await.unwrap(), released, "also if nobody reads it");
}

#[tokio::test]
async fn the_example_knows_tenants_by_their_keys() {
    let mut fake = agent(200, FIELDS, ALLOWED).await;
    let routes = example::service(&fake.url).unwrap();
    let request = Request::get("/write").header("x-api-key", "key-of-acme").header("x-tenant", "victim").body(Body::empty()).unwrap();
    let (status, headers, body) = send(&routes, request).await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, "written\n"));
    assert_eq!(headers["ratelimit"], "\"a\";r=4;t=1");
    assert_eq!(fake.asked.recv().await.unwrap().1, r#"{"attributes":{"route":"write","tenant":"acme"}}"#);
}

#[test]
fn only_a_base_url_is_the_url_of_an_agent() {
    for bad in ["127.0.0.1:7201", "ftp://a", "http://a/v1/check", ""] {
        assert!(Agent::new(bad).is_err(), "{bad}");
    }
    assert!(Agent::new("https://agent.internal:7201/").is_ok());
}
