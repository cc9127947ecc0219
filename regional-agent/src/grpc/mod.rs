//! The gRPC front door: what Envoy asks, in its own words.
//!
//! | service | what |
//! |---|---|
//! | `envoy.service.ratelimit.v3.RateLimitService` | one decision over the descriptors of a request ([`rls`]) |
//! | `envoy.service.rate_limit_quota.v3.RateLimitQuotaService` | parts of the region's budget that gateways spend by themselves ([`quotas`]) |
//! | `grpc.health.v1.Health` | as `GET /readyz` ([`health`]) |
//! | `grpc.reflection.v1.ServerReflection` | the messages of the services above ([`reflection`]) |
//!
//! Callers show the same tokens as over HTTP, as `authorization: Bearer TOKEN` in the metadata; health and reflection ask
//! for none. This module is the only one that knows Envoy's messages.

pub mod descriptors;
pub mod health;
mod quotas;
pub mod reflection;
mod rls;
pub mod statuses;

use crate::http::callers::Callers;
use crate::http::waiting::Waiting;
use crate::http::{Decider, FrontDoor};
use axum::Router;
use axum::body::Body;
use axum::http::Response as HttpResponse;
use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_service_server::RateLimitQuotaServiceServer;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::RateLimitServiceServer;
use quorate_traces::TracedLayer;
use quotas::Quotas;
use rls::Rls;
use std::any::Any;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::service::interceptor::InterceptedService;
use tonic::{Request, Status};
use tower_http::catch_panic::CatchPanicLayer;

/// The services that limit, by their names.
pub const SERVICES: [&str; 2] = ["envoy.service.ratelimit.v3.RateLimitService", "envoy.service.rate_limit_quota.v3.RateLimitQuotaService"];

/// Bytes of a request at most: a dozen descriptors with the longest value each.
const MOST_ASKED: usize = 1024 * 1024;

/// Bytes of a report at most: a gateway reports all of its buckets at once.
const MOST_REPORTED: usize = quotas::MOST_BUCKETS * 2 * quotas::LONGEST_ID;

/// The front door, as routes. Streams end when `closing` is cancelled; a panic is `INTERNAL`.
pub fn router<D: Decider>(decider: Arc<D>, settings: &FrontDoor, closing: CancellationToken) -> Router {
    let waiting = Waiting { unknown: settings.heartbeat, spread: settings.spread };
    let rls = RateLimitServiceServer::new(Rls { decider: decider.clone(), waiting }).max_decoding_message_size(MOST_ASKED);
    let quotas = RateLimitQuotaServiceServer::new(Quotas::new(decider.clone(), settings.metrics.gateways().clone(), closing.clone()))
        .max_decoding_message_size(MOST_REPORTED);
    let mut routes = Routes::new(InterceptedService::new(rls, authorized(settings.callers.clone())))
        .add_service(InterceptedService::new(quotas, authorized(settings.callers.clone())));
    routes = routes.add_service(health::service(decider, closing));
    if let Some(reflection) = reflection::service() {
        routes = routes.add_service(reflection);
    }
    routes.into_axum_router().layer(CatchPanicLayer::custom(panicked)).layer(TracedLayer)
}

fn authorized(callers: Callers) -> impl FnMut(Request<()>) -> Result<Request<()>, Status> + Clone {
    move |request| match callers.identify(request.metadata().as_ref()) {
        Some(_) => Ok(request),
        None => Err(Status::unauthenticated("send `authorization: Bearer TOKEN` with a token that this agent knows")),
    }
}

fn panicked(_: Box<dyn Any + Send>) -> HttpResponse<Body> {
    tracing::error!("a handler panicked");
    Status::internal("a fault inside the limiter").into_http()
}
