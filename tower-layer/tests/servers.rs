//! The layer in servers that are not axum's: of tonic, and of hyper alone.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping, in its helpers too")]

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use quorate_shared::api::CheckRequest;
use quorate_tower::{Agent, LimitLayer};
use std::convert::Infallible;
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tonic::Code;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::{ServiceBuilder, service_fn};

const ALLOWED: &str = r#"{"decision":"allow","limits":[],"slot":null}"#;
const REFUSED: &str = r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"x","status":429}"#;

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// An agent that allows the tenant `acme` and no other.
async fn agent() -> Agent {
    let check = |question: String| async move {
        let allowed = question.contains("acme");
        let fields = [("ratelimit", "\"a\";r=4;t=1"), ("retry-after", "3"), ("content-type", "application/problem+json")];
        let status = if allowed { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
        (status, fields, if allowed { ALLOWED } else { REFUSED })
    };
    let (listener, address) = listen().await;
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/v1/check", post(check))).await });
    Agent::new(&format!("http://{address}")).unwrap().within(std::time::Duration::from_secs(60))
}

fn tenant(request: &Parts) -> Option<CheckRequest> {
    let tenant = request.headers.get("x-tenant")?.to_str().ok()?.to_owned();
    Some(CheckRequest { attributes: [("tenant".to_owned(), tenant)].into(), ..CheckRequest::default() })
}

async fn health(channel: &Channel, tenant: &'static str) -> Result<HeaderMap, tonic::Status> {
    let mut request = tonic::Request::new(HealthCheckRequest::default());
    request.metadata_mut().insert("x-tenant", tenant.parse().unwrap());
    let answer = HealthClient::new(channel.clone()).check(request).await?;
    Ok(answer.metadata().clone().into_headers())
}

#[tokio::test]
async fn a_server_of_tonic_answers_in_the_words_of_grpc() {
    let (listener, address) = listen().await;
    let (_, service) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(LimitLayer::new(agent().await, tenant)).add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let told = health(&channel, "acme").await.unwrap();
    assert_eq!(told["ratelimit"], "\"a\";r=4;t=1");
    let refused = health(&channel, "umbrella").await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::ResourceExhausted, "over a limit"));
    assert_eq!(refused.metadata().get("retry-after").unwrap(), "3");
    health(&channel, "acme").await.unwrap();
}

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello")))
}

#[tokio::test]
async fn a_server_of_hyper_is_limited_without_a_framework() {
    let (listener, address) = listen().await;
    let service = ServiceBuilder::new().layer(LimitLayer::new(agent().await, tenant)).service(service_fn(hello));
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(
                async move { Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(connection), service).await.is_ok() },
            );
        }
    });
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let ask = |tenant| client.get(format!("http://{address}")).header("x-tenant", tenant).send();
    let (allowed, refused) = (ask("acme").await.unwrap(), ask("umbrella").await.unwrap());
    assert_eq!((allowed.status().as_u16(), &allowed.headers()["ratelimit"]), (200, &"\"a\";r=4;t=1".parse().unwrap()));
    assert_eq!(allowed.text().await.unwrap(), "hello");
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"3".parse().unwrap()));
    assert!(refused.text().await.unwrap().contains("quota-exceeded"));
}
