//! `envoy.service.rate_limit_quota.v3.RateLimitQuotaService`: gateways that spend a part of the region's budget by
//! themselves, and report.
//!
//! | file | one thing |
//! |---|---|
//! | `mod.rs` | a stream: reports in, actions out |
//! | `buckets.rs` | which bucket is shared by whom |
//! | `group.rs` | one bucket: what is drawn from the region's budgets, and who gets it |
//! | `actions.rs` | what a gateway is told |
//!
//! A bucket's id is a set of attributes, to which the stream's domain is added. What a part is, and why nothing is spent
//! twice, is in [`quorate_limiter::quota`].

mod actions;
mod buckets;
mod group;

use crate::http::Decider;
use crate::metrics::GatewayMetrics;
use buckets::{Buckets, Gateway};
pub(super) use buckets::{LONGEST_ID, MOST_BUCKETS};
use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_service_server::RateLimitQuotaService;
use envoy_types::pb::envoy::service::rate_limit_quota::v3::{RateLimitQuotaResponse, RateLimitQuotaUsageReports};
use futures_util::stream::{self, BoxStream};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

/// Reads reports and answers with assignments.
pub(super) struct Quotas<D: Decider> {
    buckets: Arc<Buckets<D>>,
    closing: CancellationToken,
}

impl<D: Decider> Quotas<D> {
    /// For gateways that spend what `decider` lets them draw; their streams end when `closing` is cancelled.
    pub fn new(decider: Arc<D>, metrics: GatewayMetrics, closing: CancellationToken) -> Self {
        Self { buckets: Arc::new(Buckets::new(decider, metrics)), closing }
    }
}

#[tonic::async_trait]
impl<D: Decider> RateLimitQuotaService for Quotas<D> {
    type StreamRateLimitQuotasStream = BoxStream<'static, Result<RateLimitQuotaResponse, Status>>;

    async fn stream_rate_limit_quotas(
        &self,
        request: Request<Streaming<RateLimitQuotaUsageReports>>,
    ) -> Result<Response<Self::StreamRateLimitQuotasStream>, Status> {
        let session = Session { reports: request.into_inner(), gateway: self.buckets.gateway(), closing: self.closing.clone() };
        let actions = stream::try_unfold(session, |mut session| async move { Ok(session.next().await?.map(|next| (next, session))) });
        Ok(Response::new(Box::pin(actions)))
    }
}

/// One stream. What its gateway has is given up when it is dropped.
struct Session<D: Decider> {
    reports: Streaming<RateLimitQuotaUsageReports>,
    gateway: Gateway<D>,
    closing: CancellationToken,
}

impl<D: Decider> Session<D> {
    /// What is to be said next; nothing once the stream or the agent ends.
    async fn next(&mut self) -> Result<Option<RateLimitQuotaResponse>, Status> {
        loop {
            let Some(report) = self.closing.run_until_cancelled(self.reports.message()).await else { return Ok(None) };
            let Some(report) = report? else { return Ok(None) };
            let bucket_action = self.gateway.reported(report).await?;
            if !bucket_action.is_empty() {
                return Ok(Some(RateLimitQuotaResponse { bucket_action }));
            }
        }
    }
}
