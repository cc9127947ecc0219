//! Estimates of one bucket that are not settled yet, in bounded memory.
//!
//! Tokens that are given back must not be more than were taken: a bucket that refilled meanwhile would hold
//! them twice. So estimates take room in the bucket while they are out: what it holds and what is out add up
//! to at most its burst, always. Settling moves room back, and whatever cannot be told apart any more is not
//! given back.
//!
//! Which estimates are out is not written down one by one, only their sums, by when they end: rounded up to
//! a [grain](grain) that grows with how long they are held, so that few different ends are out at once. A sum
//! is gone at its end, and no end comes twice: if the clock steps back over one, all sums are given up. Sums
//! that are given up as a whole (for that, or because the bucket shrank below them, its lease had lapsed, or its
//! state was lost) take their *era* with them: holds of another era get nothing back.

use crate::bucket::{LONGEST_LIFE, Period};
use crate::hold::{HoldId, NewHold};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::time::StoreTime;
use quorate_shared::units::{MAX_EXACT, MicroTokens};
use std::collections::BTreeMap;
use std::time::Duration;

/// Ends are multiples of this at least: a second.
pub const LEAST_GRAIN: Duration = Duration::from_secs(1);

/// What is held for no longer than so many grains ends at a multiple of that grain: so many different ends are out
/// at most, and one more, of estimates that are held for equally long.
pub const GRAINS: u32 = 16;

/// Sums of the estimates that are out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Estimates {
    /// By when they end; none of nothing.
    sums: BTreeMap<StoreTime, MicroTokens>,
    /// The hold with which the sums began; [`HoldId::NOTHING`] of nothing.
    era: HoldId,
}

/// What a hold needs to know of its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// In which sum.
    pub ends: StoreTime,
    /// Of the sums that it was added to.
    pub era: HoldId,
    /// The bucket's burst then: no more than this is ever owed.
    pub burst: MicroTokens,
    /// The span that the bucket's rate speaks of.
    pub period: Period,
}

/// The rounding of when an estimate ends that is held for `life`: a second, or less than an eighth of that.
pub fn grain(life: Duration) -> Duration {
    let mut grain = LEAST_GRAIN;
    while life > grain.saturating_mul(GRAINS) {
        grain = grain.saturating_mul(2);
    }
    grain
}

/// When an estimate ends that is held for `life` from `now` on: no hold outlives it.
fn end(now: StoreTime, life: Duration) -> StoreTime {
    let grain = u64::try_from(grain(life).as_micros()).unwrap_or(u64::MAX);
    let end = now.after(life).as_micros().min(MAX_EXACT);
    StoreTime::from_micros(end.div_ceil(grain).saturating_mul(grain))
}

/// True if the clock stepped back from `last` to `now` over what may have been an end.
fn stepped_over_an_end(last: StoreTime, now: StoreTime) -> bool {
    let grains = |at: StoreTime| u128::from(at.as_micros()) / LEAST_GRAIN.as_micros();
    grains(now) < grains(last)
}

impl Estimates {
    /// None out.
    pub const NONE: Self = Self { sums: BTreeMap::new(), era: HoldId::NOTHING };

    /// All that is out.
    pub fn total(&self) -> MicroTokens {
        self.sums.values().fold(MicroTokens::ZERO, |total, sum| total.saturating_add(*sum))
    }

    /// True of nothing.
    pub fn is_none(&self) -> bool {
        self.sums.is_empty()
    }

    /// See [`Ticket::era`].
    pub const fn era(&self) -> HoldId {
        self.era
    }

    /// What is out by when it ends, soonest first.
    pub fn sums(&self) -> impl Iterator<Item = (StoreTime, MicroTokens)> {
        self.sums.iter().map(|(ends, sum)| (*ends, *sum))
    }

    /// When the last of them ends.
    pub fn last_end(&self) -> Option<StoreTime> {
        self.sums.keys().next_back().copied()
    }

    /// At `now`, as of `last` before: what no hold can settle any more is not out any more.
    #[must_use]
    pub fn aged(&self, last: StoreTime, now: StoreTime) -> Self {
        if self.is_none() || stepped_over_an_end(last, now) {
            return Self::NONE;
        }
        let sums = self.sums.clone().split_off(&now.after(Duration::from_micros(1)));
        Self { sums, era: self.era }.or_none()
    }

    /// Within a burst: all of it, or given up.
    #[must_use]
    pub fn within(self, burst: MicroTokens) -> Self {
        if self.total() > burst { Self::NONE } else { self }
    }

    /// Adds an estimate at `now`; gives the sum that it is in.
    pub fn add(&mut self, now: StoreTime, hold: NewHold, estimate: MicroTokens) -> StoreTime {
        if self.is_none() {
            self.era = hold.id;
        }
        let ends = end(now, hold.life);
        let sum = self.sums.entry(ends).or_default();
        *sum = sum.saturating_add(estimate);
        ends
    }

    /// Removes an estimate that was taken with `ticket`. What of it is still known.
    pub fn remove(&mut self, ticket: &Ticket, estimate: MicroTokens) -> MicroTokens {
        let same = ticket.era == self.era || mistake::made(Mistake::ReturnedToAnotherEra);
        let Some(sum) = self.sums.get_mut(&ticket.ends).filter(|_| same) else { return MicroTokens::ZERO };
        let known = estimate.min(*sum);
        *sum = sum.saturating_sub(known);
        if *sum == MicroTokens::ZERO {
            self.sums.remove(&ticket.ends);
            *self = std::mem::take(self).or_none();
        }
        known
    }

    /// From `now` on until no more than `most` is out, though none is settled.
    pub fn time_until(&self, now: StoreTime, most: MicroTokens) -> Duration {
        let (mut left, mut wait) = (self.total(), Duration::ZERO);
        for (ends, sum) in self.sums() {
            if left <= most {
                break;
            }
            (left, wait) = (left.saturating_sub(sum), ends.since(now));
        }
        wait
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_end_is_rounded_up_by_less_than_an_eighth_or_a_second() {
        for (life, grains) in [(1, 1), (16, 1), (17, 2), (60, 4), (64, 4), (65, 8), (600, 64)] {
            let life = life * SECOND;
            assert_eq!(grain(life), grains * SECOND, "{life:?}");
            assert!(grain(life) == SECOND || grain(life) * 8 < life);
            for now in [0, 1, 999_999, 1_790_000_000_123_456] {
                let now = StoreTime::from_micros(now);
                let held = end(now, life).since(now);
                assert!(life <= held && held < life + grain(life), "{held:?} for {life:?}");
            }
        }
    }

    #[test]
    fn memory_is_bounded_however_many_are_out_for_however_long() {
        let (mut estimates, mut most) = (Estimates::NONE, 0);
        let mut last = StoreTime::ZERO;
        for n in 0..20_000_u64 {
            let now = StoreTime::from_micros(n * 100_003);
            estimates = estimates.aged(last, now);
            last = now;
            let life = Duration::from_millis(1_000 + n * 7_919 % 599_001);
            estimates.add(now, NewHold { id: HoldId::from_bits(1), life, most: MicroTokens(u64::MAX) }, MicroTokens(1));
            most = most.max(estimates.sums.len());
        }
        assert!((40..=66).contains(&most), "{most} sums at once");
        let equal = (0..6_000_u64).map(|n| end(StoreTime::from_micros(n * 10_007), 60 * SECOND));
        assert!(equal.collect::<std::collections::BTreeSet<_>>().len() <= GRAINS as usize + 1);
    }

    #[test]
    fn no_end_comes_twice_in_one_era() {
        let at = StoreTime::from_micros;
        let mut estimates = Estimates::NONE;
        let first = NewHold { id: HoldId::from_bits(1), life: SECOND, most: MicroTokens(u64::MAX) };
        let ends = estimates.add(at(500_000), first, MicroTokens(5));
        assert_eq!(ends, at(2_000_000));
        let kept = estimates.aged(at(500_000), at(400_000));
        assert_eq!((kept.total(), kept.era()), (MicroTokens(5), first.id), "no end lies in between");
        assert!(estimates.aged(at(500_000), ends).is_none() && !estimates.aged(at(500_000), at(1_999_999)).is_none());
        assert!(estimates.aged(at(1_000_001), at(999_999)).is_none(), "one may");
    }
}
