//! Estimates of one bucket that are not settled yet, in constant memory.
//!
//! Tokens that are given back must not be more than were taken: a bucket that refilled meanwhile would hold
//! them twice. So estimates take room in the bucket while they are out: what it holds and what is out add up
//! to at most its burst, always. Settling moves room back, and whatever cannot be told apart any more is not
//! given back.
//!
//! Which estimates are out is not written down one by one, only their sum, by generations of
//! [`GENERATION`]: no hold lives longer, so two sums are enough. A sum that is given up as a whole (the
//! bucket shrank below it, its lease had lapsed, its state was lost, its clock stepped back) takes its *era*
//! with it: holds of another era get nothing back.

use crate::bucket::{LONGEST_LIFE, Period};
use crate::hold::HoldId;
use quorate_shared::time::StoreTime;
use quorate_shared::units::{MAX_EXACT, MicroTokens};
use std::time::Duration;

/// No hold lives longer than a generation.
pub const GENERATION: Duration = Duration::from_secs(600);

/// A bucket with estimates out is kept at least until none of them can be settled any more.
pub const LIFE_WITH_ESTIMATES: Duration = Duration::from_secs(2 * GENERATION.as_secs());

/// Sums of the estimates that are out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimates {
    /// Taken in the generation of the bucket's last access.
    pub now: MicroTokens,
    /// Taken in the one before.
    pub before: MicroTokens,
    /// The hold with which the sums began; [`HoldId::NOTHING`] of nothing.
    pub era: HoldId,
}

/// What a hold needs to know of its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// In which generation it was taken.
    pub generation: u64,
    /// Of the sums that it was added to.
    pub era: HoldId,
    /// The bucket's burst then: no more than this is ever owed.
    pub burst: MicroTokens,
    /// The span that the bucket's rate speaks of.
    pub period: Period,
}

/// The generation of an instant.
pub const fn generation(at: StoreTime) -> u64 {
    at.as_micros() / GENERATION.as_micros() as u64
}

/// Until the generation of an instant ends.
pub fn left_of_generation(at: StoreTime) -> Duration {
    let micros = GENERATION.as_micros() as u64;
    Duration::from_micros(micros - at.as_micros() % micros)
}

impl Estimates {
    /// None out.
    pub const NONE: Self = Self { now: MicroTokens::ZERO, before: MicroTokens::ZERO, era: HoldId::NOTHING };

    /// All that is out.
    pub const fn total(&self) -> MicroTokens {
        self.now.saturating_add(self.before)
    }

    /// True of nothing.
    pub const fn is_none(&self) -> bool {
        self.total().0 == 0
    }

    /// At `now`, as of `last` before: what no hold can settle any more is not out any more.
    #[must_use]
    pub fn aged(self, last: StoreTime, now: StoreTime) -> Self {
        let aged = match generation(now).checked_sub(generation(last)) {
            Some(0) => self,
            Some(1) => Self { now: MicroTokens::ZERO, before: self.now, ..self },
            _ => Self::NONE,
        };
        aged.or_none()
    }

    /// Within a burst: all of it, or given up.
    #[must_use]
    pub fn within(self, burst: MicroTokens) -> Self {
        if self.total() > burst { Self::NONE } else { self }
    }

    /// Adds an estimate of the present generation.
    pub fn add(&mut self, id: HoldId, estimate: MicroTokens) {
        if self.is_none() {
            self.era = id;
        }
        self.now = self.now.saturating_add(estimate);
    }

    /// Removes an estimate that was taken with `ticket`, as of `last`. What of it is still known.
    pub fn remove(&mut self, last: StoreTime, ticket: &Ticket, estimate: MicroTokens) -> MicroTokens {
        if ticket.era != self.era {
            return MicroTokens::ZERO;
        }
        let sum = match generation(last).checked_sub(ticket.generation) {
            Some(0) => &mut self.now,
            Some(1) => &mut self.before,
            _ => return MicroTokens::ZERO,
        };
        let known = estimate.min(*sum);
        *sum = sum.saturating_sub(known);
        *self = self.or_none();
        known
    }

    fn or_none(self) -> Self {
        if self.is_none() { Self::NONE } else { self }
    }
}

/// What is left of a refill at half its rate.
pub const fn half(rate: MicroTokens) -> MicroTokens {
    MicroTokens(rate.0 / 2)
}

/// For how long a refill at half its rate repays `owed`, rounded up; at most [`LONGEST_LIFE`]. A bucket
/// that does not refill repays nothing.
///
/// In floating point, so that a script computes the same; a microsecond covers its error.
pub fn slow_for(owed: MicroTokens, rate: MicroTokens, period: Period) -> Duration {
    if owed == MicroTokens::ZERO || rate == MicroTokens::ZERO {
        return Duration::ZERO;
    }
    let repaid = rate.0 - half(rate).0;
    let micros = owed.0.min(MAX_EXACT) as f64 / repaid as f64 * period.as_micros() as f64;
    let most = LONGEST_LIFE.as_micros() as f64;
    Duration::from_micros((micros.min(most)).floor() as u64 + 1)
}
