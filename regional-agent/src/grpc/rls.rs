//! `envoy.service.ratelimit.v3.RateLimitService`.
//!
//! | outcome | answer |
//! |---|---|
//! | decided | [`statuses::of_verdict`] |
//! | a mistake in the request | `INVALID_ARGUMENT`; `UNIMPLEMENTED` if it gives hits back |
//! | the store cannot be asked, and a policy refuses then | `OVER_LIMIT`: what that policy says, whatever the gateway does when it hears nothing |
//! | no policies are known yet, or not by which to ask | `UNAVAILABLE`: the gateway does as it is told for that |

use super::descriptors::{self, Mistake};
use super::statuses;
use crate::decide::DecideError;
use crate::http::Decider;
use crate::http::waiting::Waiting;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::RateLimitService;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// Answers one request by one decision over all of its descriptors.
pub(super) struct Rls<D> {
    pub decider: Arc<D>,
    pub waiting: Waiting,
}

#[tonic::async_trait]
impl<D: Decider> RateLimitService for Rls<D> {
    async fn should_rate_limit(&self, request: Request<RateLimitRequest>) -> Result<Response<RateLimitResponse>, Status> {
        let asked = descriptors::read(request.into_inner()).map_err(|mistake| mistaken(&mistake))?;
        let response = match self.decider.decide(&asked).await {
            Ok(verdict) => statuses::of_verdict(&verdict, &asked.descriptors, &self.waiting),
            Err(DecideError::StoreUnavailable { policies, retry_after, .. }) if !policies.is_empty() => {
                statuses::closed(asked.descriptors.len(), retry_after, &self.waiting)
            }
            Err(error) => return Err(undecided(&error)),
        };
        Ok(Response::new(response))
    }
}

fn mistaken(mistake: &Mistake) -> Status {
    match mistake {
        Mistake::Invalid(_) => Status::invalid_argument(mistake.to_string()),
        Mistake::Unsupported(_) => Status::unimplemented(mistake.to_string()),
    }
}

/// What the store's client said stays in the log.
fn undecided(error: &DecideError) -> Status {
    tracing::debug!(%error, "a request was not decided");
    match error {
        DecideError::NoPolicies => Status::unavailable(error.to_string()),
        DecideError::StoreUnavailable { .. } => Status::unavailable("the region's store cannot be asked"),
        DecideError::OtherUnit(_) => Status::invalid_argument(error.to_string()),
        // only of requests with an id, and of settlements
        DecideError::OtherContent | DecideError::BeyondSettlement { .. } => Status::internal(error.to_string()),
    }
}
