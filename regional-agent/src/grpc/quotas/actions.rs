//! What a gateway is told of a bucket.
//!
//! Envoy 1.40 knows token buckets and blanket rules. A part is a token bucket that holds as many tokens as there are
//! requests in it, and never refills to speak of; Envoy begins it anew only if it differs from the one before, and of the
//! span between two fills it compares the nanoseconds.

use envoy_types::pb::envoy::service::rate_limit_quota::v3::BucketId;
use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::BucketAction;
use envoy_types::pb::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::bucket_action::{
    AbandonAction, BucketAction as Action, QuotaAssignmentAction,
};
use envoy_types::pb::envoy::r#type::v3::rate_limit_strategy::{BlanketRule, Strategy};
use envoy_types::pb::envoy::r#type::v3::{RateLimitStrategy, TokenBucket};
use envoy_types::pb::google::protobuf::{Duration, UInt32Value};
use quorate_limiter::quota::{TIME_TO_LIVE, Told};

/// Thirty years: within the life of a part that is less than a millionth of a token.
const NEVER: i64 = 30 * 365 * 86_400;

/// Serials are told as nanoseconds, of which there are fewer.
const SERIALS: u32 = 999_999_937;

/// What becomes of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// It has this new part.
    Part(Told),
    /// It has this part still.
    Again(Told),
    /// Nothing limits it.
    Everything,
    /// Nothing is left, or can be drawn.
    None,
    /// Nobody asks for it any more: the gateway forgets it too.
    Forget,
}

impl Said {
    /// As it is counted.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Part(_) => "part",
            Self::Again(_) => "again",
            Self::Everything => "everything",
            Self::None => "nothing",
            Self::Forget => "forget",
        }
    }

    /// As an action on this bucket.
    pub fn of(self, id: BucketId) -> BucketAction {
        let strategy = match self {
            Self::Forget => return BucketAction { bucket_id: Some(id), bucket_action: Some(Action::AbandonAction(AbandonAction {})) },
            Self::Part(told) | Self::Again(told) => Strategy::TokenBucket(part(told)),
            Self::Everything => Strategy::BlanketRule(BlanketRule::AllowAll.into()),
            Self::None => Strategy::BlanketRule(BlanketRule::DenyAll.into()),
        };
        let assignment = QuotaAssignmentAction {
            assignment_time_to_live: Some(Duration { seconds: i64::try_from(TIME_TO_LIVE.as_secs()).unwrap_or(1), nanos: 0 }),
            rate_limit_strategy: Some(RateLimitStrategy { strategy: Some(strategy) }),
        };
        BucketAction { bucket_id: Some(id), bucket_action: Some(Action::QuotaAssignmentAction(assignment)) }
    }
}

fn part(told: Told) -> TokenBucket {
    let nanos = i32::try_from(told.serial % SERIALS).unwrap_or_default();
    TokenBucket {
        max_tokens: u32::try_from(told.requests).unwrap_or(u32::MAX),
        tokens_per_fill: Some(UInt32Value { value: 1 }),
        fill_interval: Some(Duration { seconds: NEVER, nanos }),
    }
}
