//! R9: what a region may use of a policy while a set is pending that goes on with it, perhaps as another kind of limit.
//!
//! Kinds count in units of their own. A log that lets 10 units pass in any second lets 600 pass in a minute, so within a
//! limit of 60 for a minute it may be one of a single unit. A region may go by the old kind for as long as it hears
//! nothing, also when others have begun with the new one.

use crate::record::FloorTerms;
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::policy::{Limit, Window};
use quorate_shared::time::Drift;
use quorate_shared::units::{Capacity, MicroTokens};
use std::time::Duration;

/// The active limit with what both floors allow.
pub(super) fn smaller(now: FloorTerms, next: FloorTerms) -> FloorTerms {
    let floor = now.floor.min(within(now.limit, next.limit, next.floor));
    // what may be lent out already, by either set: a region that lost its record leaves all of it alone (R7)
    let lendable = now.lendable.max(within(now.limit, next.limit, next.lendable)).min(floor);
    FloorTerms { limit: now.limit, floor, lendable }
}

/// The most that a limit like `now` may have, so that what it lets pass is never more than `whole` of one like `next`.
fn within(now: Limit, next: Limit, whole: Capacity) -> Capacity {
    if now.same_kind(next) || mistake::made(Mistake::PendingKindByNumber) {
        return whole;
    }
    match (now, next) {
        (Limit::TokenBucket { period, .. }, Limit::TokenBucket { period: theirs, .. }) => {
            Capacity::new(whole.rate.scale_floor(micros(period), micros(theirs)), whole.burst)
        }
        // what has been saved up, once
        (Limit::TokenBucket { .. }, _) => Capacity::new(MicroTokens::ZERO, whole.burst),
        _ => Capacity::new(MicroTokens::ZERO, units_within(now, next, whole)),
    }
}

/// The same of limits that count units.
fn units_within(now: Limit, next: Limit, whole: Capacity) -> MicroTokens {
    let Some(spread) = Spread::of(now, next) else { return MicroTokens::ZERO };
    match next {
        Limit::TokenBucket { period, .. } => {
            let refilled = whole.rate.scale_floor(micros(Drift::MAX.shrink(spread.each)), micros(period));
            refilled.min(whole.burst.scale_floor(1, spread.at_once))
        }
        Limit::FixedWindow { .. } | Limit::SlidingWindow { .. } | Limit::SlidingLog { .. } | Limit::Concurrency { .. } => {
            whole.burst.scale_floor(1, spread.times_in(next.drain().max(next.period())))
        }
    }
}

/// How often a limit lets all of its units pass: so often at one instant, and once more after each span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spread {
    at_once: u64,
    each: Duration,
}

impl Spread {
    /// Of `now`, for one like `next`. `None`: as often as anybody likes.
    fn of(now: Limit, next: Limit) -> Option<Self> {
        let labelled = |each| Self { at_once: 2, each };
        match (now, next) {
            (Limit::SlidingLog { window, .. }, _) => Some(Self { at_once: 1, each: window }),
            (Limit::SlidingWindow { window, .. } | Limit::FixedWindow { window: Window::Every(window), .. }, _) => Some(labelled(window)),
            // days and months are not all as long
            (Limit::FixedWindow { .. }, _) => Some(labelled(now.period() / 2)),
            // slots that are given back may be taken again, and are slots no more
            (Limit::Concurrency { max_hold, .. }, Limit::Concurrency { .. }) => Some(Self { at_once: 1, each: max_hold }),
            (Limit::Concurrency { .. } | Limit::TokenBucket { .. }, _) => None,
        }
    }

    /// How often within any interval of this length, whatever the drift.
    fn times_in(self, span: Duration) -> u64 {
        let rounds = match self.at_once {
            // it keeps what was taken for a stretched span
            1 => micros(span).div_ceil(micros(self.each).max(1)),
            _ => micros(Drift::MAX.stretch(span)) / micros(self.each).max(1) + self.at_once,
        };
        rounds.max(1)
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(n: u64) -> MicroTokens {
        MicroTokens::from_tokens(n).expect("few")
    }

    fn bucket(rate: u64, seconds: u64, burst: u64) -> Limit {
        Limit::TokenBucket { rate: tokens(rate), period: Duration::from_secs(seconds), burst: tokens(burst) }
    }

    fn log(units: u64, seconds: u64) -> Limit {
        Limit::SlidingLog { units: tokens(units), window: Duration::from_secs(seconds) }
    }

    fn fixed(units: u64, seconds: u64) -> Limit {
        Limit::FixedWindow { units: tokens(units), window: Window::Every(Duration::from_secs(seconds)) }
    }

    fn slots(slots: u64, seconds: u64) -> Limit {
        Limit::Concurrency { slots: tokens(slots), max_hold: Duration::from_secs(seconds) }
    }

    /// Refill and burst, or units, of the whole of `now` while `next` is pending.
    fn while_pending(now: Limit, next: Limit) -> (u64, u64) {
        let all = |limit: Limit| FloorTerms { limit, floor: limit.capacity(), lendable: limit.capacity() };
        let floor = smaller(all(now), all(next)).floor;
        (floor.rate.tokens_floor(), floor.burst.tokens_floor())
    }

    #[test]
    fn of_the_same_kind_it_is_the_smaller_of_both() {
        assert_eq!(while_pending(bucket(10, 1, 30), bucket(20, 1, 20)), (10, 20));
        assert_eq!(while_pending(log(10, 4), log(6, 4)), (0, 6));
    }

    #[test]
    fn a_bucket_within_another_kind_refills_no_more() {
        assert_eq!(while_pending(bucket(10, 1, 30), bucket(20, 4, 20)), (5, 20));
        assert_eq!(while_pending(bucket(10, 1, 30), log(20, 4)), (0, 20));
        assert_eq!(while_pending(bucket(10, 1, 30), fixed(20, 4)), (0, 20));
    }

    #[test]
    fn units_within_another_kind_fit_it_however_often_they_come_back() {
        assert_eq!(while_pending(log(60, 60), log(60, 1)), (0, 60), "less often than before");
        assert_eq!(while_pending(log(60, 1), log(60, 60)), (0, 1), "60 times in each minute");
        assert_eq!(while_pending(log(60, 1), log(90, 3)), (0, 30));
        assert_eq!(while_pending(log(60, 10), fixed(60, 25)), (0, 20));
        assert_eq!(while_pending(log(100, 10), bucket(11, 1, 60)), (0, 60));
        assert_eq!(while_pending(log(100, 10), bucket(1, 1, 60)), (0, 9), "ten are refilled meanwhile, by a fast clock nine");
        assert_eq!(while_pending(fixed(60, 10), log(90, 10)), (0, 30), "an interval touches three windows if one clock is fast");
        assert_eq!(while_pending(fixed(100, 10), bucket(100, 1, 60)), (0, 30), "two windows at their boundary");
    }

    #[test]
    fn slots_that_are_given_back_fit_nothing_else() {
        assert_eq!(while_pending(slots(60, 10), log(60, 10)), (0, 0));
        assert_eq!(while_pending(slots(60, 10), bucket(60, 1, 60)), (0, 0));
        assert_eq!(while_pending(slots(60, 10), slots(60, 30)), (0, 20));
        assert_eq!(while_pending(slots(60, 30), slots(50, 10)), (0, 50));
        assert_eq!(while_pending(log(60, 10), slots(60, 30)), (0, 20));
    }
}
