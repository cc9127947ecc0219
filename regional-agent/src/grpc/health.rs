//! `grpc.health.v1.Health`: serving while the agent is ready, as `GET /readyz` says.
//!
//! Watchers are told of a change within [`LOOK`], and their streams end when the agent does.

use super::SERVICES;
use crate::http::Decider;
use futures_util::stream::{self, BoxStream};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// How often readiness is looked at for those who watch.
const LOOK: Duration = Duration::from_millis(200);

/// The service, for as long as `closing` is not cancelled.
pub fn service<D: Decider>(decider: Arc<D>, closing: CancellationToken) -> HealthServer<impl Health> {
    HealthServer::new(OfReadiness { decider, closing })
}

struct OfReadiness<D> {
    decider: Arc<D>,
    closing: CancellationToken,
}

impl<D: Decider> OfReadiness<D> {
    fn status(&self) -> ServingStatus {
        match self.closing.is_cancelled() || self.decider.ready().is_err() {
            true => ServingStatus::NotServing,
            false => ServingStatus::Serving,
        }
    }
}

fn said(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

fn known(service: &str) -> bool {
    service.is_empty() || SERVICES.contains(&service)
}

#[tonic::async_trait]
impl<D: Decider> Health for OfReadiness<D> {
    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        match known(&request.get_ref().service) {
            true => Ok(Response::new(said(self.status()))),
            false => Err(Status::not_found("no such service")),
        }
    }

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        if !known(&request.get_ref().service) {
            let unknown = stream::iter([Ok(said(ServingStatus::ServiceUnknown))]);
            return Ok(Response::new(Box::pin(unknown)));
        }
        let watched = Self { decider: self.decider.clone(), closing: self.closing.clone() };
        let changes = stream::unfold((watched, None), |(watched, last)| async move {
            let next = watched.next_after(last).await?;
            Some((Ok(said(next)), (watched, Some(next))))
        });
        Ok(Response::new(Box::pin(changes)))
    }
}

impl<D: Decider> OfReadiness<D> {
    /// The next status that is not `last`; `None` once it is told that the agent ends.
    async fn next_after(&self, last: Option<ServingStatus>) -> Option<ServingStatus> {
        loop {
            let status = self.status();
            if last != Some(status) {
                return Some(status);
            }
            if self.closing.is_cancelled() {
                return None;
            }
            // cancelled: one more round, to say so
            self.closing.run_until_cancelled(tokio::time::sleep(LOOK)).await;
        }
    }
}
