//! What is served beside the decisions: tokens, health, reflection.

use crate::told::{Told, request};
use axum::Router;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use quorate_agent::grpc::{SERVICES, router};
use quorate_agent::http::FrontDoor;
use quorate_agent::http::callers::Callers;
use quorate_shared::settings::TokenHash;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

fn with_token(told: &Arc<Told>, token: &str) -> Router {
    let hash = TokenHash::new(Sha256::digest(token).into());
    let settings = FrontDoor { callers: Callers::with_tokens([hash]), ..FrontDoor::default() };
    router(told.clone(), &settings, CancellationToken::new())
}

#[tokio::test]
async fn callers_show_their_token() {
    let told = Told::of(true, vec![]);
    let routes = with_token(&told, "sesame");
    let asking = async |shown: Option<&str>| {
        let mut asked = Request::new(request(&[&[("a", "b")]]));
        if let Some(shown) = shown {
            asked.metadata_mut().insert("authorization", shown.parse().unwrap());
        }
        RateLimitServiceClient::new(routes.clone()).should_rate_limit(asked).await.map_err(|status| status.code())
    };
    assert!(asking(Some("Bearer sesame")).await.is_ok());
    for bad in [None, Some("Bearer open"), Some("sesame")] {
        assert_eq!(asking(bad).await.unwrap_err(), Code::Unauthenticated, "{bad:?}");
    }
    assert_eq!(told.asked.lock().unwrap().len(), 1);
    assert_eq!(check(routes, "").await, Ok(ServingStatus::Serving), "health needs no token");
}

async fn check(routes: Router, service: &str) -> Result<ServingStatus, Code> {
    let answer = HealthClient::new(routes).check(HealthCheckRequest { service: service.to_owned() }).await;
    answer.map(|answer| answer.get_ref().status()).map_err(|status: Status| status.code())
}

#[tokio::test]
async fn health_follows_readiness() {
    let told = Told::of(true, vec![]);
    for service in [&[""], &SERVICES[..]].concat() {
        assert_eq!(check(told.routes(), service).await, Ok(ServingStatus::Serving), "{service}");
    }
    *told.ready.lock().unwrap() = Err("no policies".into());
    assert_eq!(check(told.routes(), "").await, Ok(ServingStatus::NotServing));
    assert_eq!(check(told.routes(), "nobody").await, Err(Code::NotFound));
}

#[tokio::test]
async fn who_watches_is_told_of_changes_until_the_agent_ends() {
    let (told, closing) = (Told::of(true, vec![]), CancellationToken::new());
    let routes = router(told.clone(), &FrontDoor::default(), closing.clone());
    let mut watched = HealthClient::new(routes).watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    let mut next = async || watched.message().await.unwrap().map(|told| told.status());
    assert_eq!(next().await, Some(ServingStatus::Serving));
    *told.ready.lock().unwrap() = Err("no policies".into());
    assert_eq!(next().await, Some(ServingStatus::NotServing));
    *told.ready.lock().unwrap() = Ok(());
    assert_eq!(next().await, Some(ServingStatus::Serving));
    closing.cancel();
    assert_eq!((next().await, next().await), (Some(ServingStatus::NotServing), None));
}

async fn reflect(asked: MessageRequest) -> MessageResponse {
    let asked = ServerReflectionRequest { host: String::new(), message_request: Some(asked) };
    let routes = Told::of(true, vec![]).routes();
    let asking = futures_util::stream::iter([asked]);
    let mut answers = ServerReflectionClient::new(routes).server_reflection_info(asking).await.unwrap().into_inner();
    answers.message().await.unwrap().unwrap().message_response.unwrap()
}

#[tokio::test]
async fn tools_are_told_what_is_served() {
    let MessageResponse::ListServicesResponse(listed) = reflect(MessageRequest::ListServices(String::new())).await else { panic!() };
    let names: Vec<String> = listed.service.into_iter().map(|service| service.name).collect();
    for service in SERVICES.iter().chain(&["grpc.health.v1.Health"]) {
        assert!(names.iter().any(|name| name == service), "{service} in {names:?}");
        let symbol = reflect(MessageRequest::FileContainingSymbol((*service).to_owned())).await;
        assert!(matches!(symbol, MessageResponse::FileDescriptorResponse(_)), "{service}");
    }
}
