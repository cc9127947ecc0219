//! What clients were told: all that the checker knows.

use quorate_shared::api::DecisionMode;
use std::time::Duration;

/// Which limit a request met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// A token bucket.
    Bucket,
    /// A fixed window.
    Window,
    /// Slots.
    Slots,
}

impl Limit {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Bucket, Self::Window, Self::Slots];

    /// Name of its policy, and the route that it matches.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bucket => "bucket",
            Self::Window => "window",
            Self::Slots => "slots",
        }
    }
}

/// One request. Instants count from the beginning of the run, on one monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// Which limit it met.
    pub limit: Limit,
    /// Where it was sent to.
    pub region: &'static str,
    /// Not after it left.
    pub sent: Duration,
    /// Not before its answer was there, or the failure to get one.
    pub answered: Duration,
    /// Its answer.
    pub outcome: Outcome,
    /// Not after the slot that it got was given back.
    pub released: Option<Duration>,
}

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// 200, with the mode of its limit.
    Admitted(DecisionMode),
    /// 429.
    Refused,
    /// 503: the store cannot be asked.
    Unavailable,
    /// Any other status.
    Failed(u16),
    /// No answer, so nobody knows.
    Unanswered,
}

impl Told {
    /// True if it was let pass.
    pub fn is_admitted(&self) -> bool {
        matches!(self.outcome, Outcome::Admitted(_))
    }
}
