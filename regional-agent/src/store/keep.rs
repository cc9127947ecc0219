//! What is kept beside a decision: a hold of what was charged, and the answer, for a retry.

use quorate_limiter::decision::{Decision, Reply};
use quorate_limiter::hold::{Beside, HoldId};
use std::time::Duration;

/// How long a region remembers a request id.
pub const ATTEMPT_LIFE: Duration = Duration::from_secs(60);

/// Request ids that a region remembers at most: of more within two minutes, the later ones are not remembered.
pub const MOST_ATTEMPTS: u64 = 1_000_000;

/// 128 bits of a hash.
pub type Hash = [u8; 16];

/// What is to be kept beside a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// A hold of what is charged, and slots.
    pub beside: Beside,
    /// The answer, for whoever makes the same attempt again.
    pub attempt: Option<Attempt>,
}

/// A request that may be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Of who asks, and the id by which they know the request.
    pub key: Hash,
    /// Of all that is asked.
    pub content: Hash,
}

/// What a store says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// To a request that it does not remember.
    First {
        /// What came of it.
        reply: Reply,
        /// False if it was decided, and was to be remembered, but there are too many already.
        remembered: bool,
    },
    /// Again, what it said first; nothing was charged.
    Again(Again),
    /// The id is that of another request; nothing was charged.
    OtherContent,
}

/// What was said to the first attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    /// What was charged then, if it is held.
    pub hold: Option<HoldId>,
    /// By what the slots that were taken then are given back.
    pub slot: Option<HoldId>,
    /// See [`Decision::allowed`].
    pub allowed: bool,
    /// All of it, unless the policies have changed so that it does not tell of the same charges.
    pub decision: Option<Decision>,
}
