//! The token bucket of one budget in one region: exact, and never in favour of the client.
//!
//! The same arithmetic stands in `store/scripts/bucket.lua` of the agent; a test plays both.

mod change;

pub use self::change::{Change, Slowed};

use crate::decision::{LeaseView, LimitDecision};
use crate::estimates::{Estimates, Ticket, half, slow_for};
use crate::hold::NewHold;
use quorate_shared::heartbeat::Holding;
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::policy::Limit;
use quorate_shared::time::{Drift, StoreTime};
use quorate_shared::units::{Capacity, MAX_EXACT, MicroTokens};
use std::time::Duration;

/// How much longer a bucket is kept than it takes to fill: what is absent has been full for
/// this long. A change of limits that is no older says nothing of an absent bucket's past.
pub const GRACE: Duration = Duration::from_secs(60);

/// A bucket of a region that owns nothing of its own refill is kept at least this long.
pub const LIFE_WITHOUT_REFILL: Duration = Duration::from_secs(24 * 3600);

/// The longest that a bucket is kept: ten years. One that takes longer to fill counts as full then.
pub const LONGEST_LIFE: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// What a bucket holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// Tokens there to be taken.
    pub level: MicroTokens,
    /// What has refilled of the next micro-token: a numerator over the period in microseconds.
    pub fraction: u64,
}

impl Fill {
    /// So much, to the micro-token.
    pub const fn at(level: MicroTokens) -> Self {
        Self { level, fraction: 0 }
    }

    /// At most `cap`; a full bucket keeps no fraction.
    #[must_use]
    pub fn capped(self, cap: MicroTokens) -> Self {
        if self.level >= cap { Self::at(cap) } else { self }
    }

    /// After `elapsed` at `rate` in each `period`, at most `cap`. Exact: what is less than a
    /// micro-token stays in the fraction, so any number of steps gives what one step gives.
    #[must_use]
    pub fn refilled(self, cap: MicroTokens, elapsed: Duration, rate: MicroTokens, period: Period) -> Self {
        let period = u128::from(period.0);
        // below 2^64 · 2^64 + 2^64: Duration::as_micros of a StoreTime span fits a u64
        let gained = elapsed.as_micros().saturating_mul(u128::from(rate.0)).saturating_add(u128::from(self.fraction));
        let level = u128::from(self.level.0).saturating_add(gained / period);
        match u64::try_from(level) {
            Ok(level) if level < cap.0 => Self { level: MicroTokens(level), fraction: (gained % period) as u64 },
            _ => Self::at(cap),
        }
    }

    /// The same, for `slow` of it at half the rate.
    #[must_use]
    pub fn refilled_slowly(self, cap: MicroTokens, elapsed: Duration, slow: Duration, rate: MicroTokens, period: Period) -> Self {
        let slow = slow.min(elapsed);
        let fill = if slow.is_zero() { self } else { self.refilled(cap, slow, half(rate), period) };
        fill.refilled(cap, elapsed.saturating_sub(slow), rate, period)
    }

    /// Until `goal` is there, for `slow` of it at half the rate; else as [`Self::time_until`].
    pub fn time_until_slowly(self, goal: MicroTokens, slow: Duration, rate: MicroTokens, period: Period) -> Option<Duration> {
        match self.time_until(goal, half(rate), period).filter(|wait| *wait <= slow) {
            Some(wait) => Some(wait),
            None => Some(slow.saturating_add(self.refilled(goal, slow, half(rate), period).time_until(goal, rate, period)?)),
        }
    }

    /// Until `goal` is there at `rate` in each `period`, rounded up to a microsecond: waiting
    /// exactly that long is enough. `None` if it never will be.
    pub fn time_until(self, goal: MicroTokens, rate: MicroTokens, period: Period) -> Option<Duration> {
        if goal <= self.level {
            return Some(Duration::ZERO);
        }
        if rate == MicroTokens::ZERO {
            return None;
        }
        let missing = u128::from(goal.0 - self.level.0) * u128::from(period.0);
        let wait = missing.saturating_sub(u128::from(self.fraction)).div_ceil(u128::from(rate.0));
        Some(Duration::from_micros(u64::try_from(wait).unwrap_or(u64::MAX)))
    }
}

/// The span that a rate speaks of, in microseconds; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period(u64);

impl Period {
    /// Of so many microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(if micros == 0 { 1 } else { micros })
    }

    /// Of a limit.
    pub fn of(limit: Limit) -> Self {
        Self(u64::try_from(limit.period().as_micros()).unwrap_or(u64::MAX).max(1))
    }

    /// Microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0
    }
}

/// What a region may use of one budget at one instant, by its record and its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// All of it.
    pub entitlement: Capacity,
    /// The floor less what is lent: what stays when the lease ends. Never the whole floor.
    pub own: Capacity,
    /// Refill in one period: the entitlement's rate, shortened by ρ and rounded down.
    pub rate: MicroTokens,
    /// The own part's rate, likewise.
    pub own_rate: MicroTokens,
    /// What the entitlement is while every leased part stands; its rate shortened.
    pub utmost: Capacity,
    /// ρ.
    pub drift: Drift,
    /// See [`Period`].
    pub period: Period,
    /// Of the floor, lent.
    pub lent: Capacity,
    /// True if the entitlement counts the whole floor in spite of that.
    pub whole: bool,
    /// True if a leased part is in it.
    pub leased: bool,
}

impl Terms {
    /// The terms of a budget with this floor and holding. Amounts stop at [`MAX_EXACT`].
    pub fn new(holding: &Holding, floor: Capacity, period: Period, view: &LeaseView, drift: Drift) -> Self {
        let promised = |lender: &_| view.standing_lenders.contains(lender);
        let part = |whole, leased| exact(holding.entitlement(exact(floor), whole, leased, promised));
        let utmost = exact(holding.entitlement(exact(floor), view.whole_floor, true, |_| true));
        let entitlement = part(view.whole_floor, view.leased);
        let own = part(false, false);
        Self {
            entitlement,
            own,
            rate: shortened(entitlement.rate, drift),
            own_rate: shortened(own.rate, drift),
            utmost: Capacity { rate: shortened(utmost.rate, drift), ..utmost },
            drift,
            period,
            lent: exact(holding.lent),
            whole: view.whole_floor,
            leased: entitlement != part(view.whole_floor, false),
        }
    }

    /// How long a bucket under these terms must be kept after a write: until it is full for
    /// certain, whichever leased parts end or come back meanwhile. Each mixture of parts has at
    /// least the own rate and at most the utmost burst.
    pub fn life(&self) -> Duration {
        let fill = match self.own_rate {
            MicroTokens::ZERO => fill_time(self.utmost.burst, self.utmost.rate, self.period).max(LIFE_WITHOUT_REFILL),
            rate => fill_time(self.utmost.burst, rate, self.period),
        };
        fill.saturating_add(GRACE)
    }
}

/// `capacity`, each part at most what a script can hold.
pub fn exact(capacity: Capacity) -> Capacity {
    capacity.min(Capacity::new(MicroTokens(MAX_EXACT), MicroTokens(MAX_EXACT)))
}

/// `rate · (1 − ρ)`, rounded down.
fn shortened(rate: MicroTokens, drift: Drift) -> MicroTokens {
    rate.scale_floor(1_000_000 - u64::from(drift.ppm()), 1_000_000)
}

/// Time to fill `burst` at `rate`, in whole seconds, rounded up; at most [`LONGEST_LIFE`].
///
/// In floating point, so that a script computes the same: its error is below a microsecond, and
/// [`GRACE`] is sixty seconds.
fn fill_time(burst: MicroTokens, rate: MicroTokens, period: Period) -> Duration {
    if burst == MicroTokens::ZERO {
        return Duration::ZERO;
    }
    let seconds = burst.0 as f64 / rate.0 as f64 * period.0 as f64 / 1e6;
    // a rate of zero makes this infinite, and a cast stops at the greatest integer
    Duration::from_secs((seconds.floor() as u64).saturating_add(1)).min(LONGEST_LIFE)
}

/// What happened to all buckets of a region at once; each takes it into account at its next access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Another number each time that something of the kind happened.
    pub epoch: u64,
    /// When the lease came back after its last lapse: until then only the own part counted.
    pub renewed_at: Option<StoreTime>,
    /// When the state was last lost: from then on buckets count as empty (R7).
    pub emptied_at: Option<StoreTime>,
    /// The last change of the policy's limits.
    pub changed: Option<Change>,
}

/// One budget's bucket as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// What it holds.
    pub fill: Fill,
    /// As of when.
    pub last: StoreTime,
    /// [`Terms::rate`] in force since then.
    pub rate: MicroTokens,
    /// [`Terms::whole`] at that access.
    pub whole: bool,
    /// [`History::epoch`] at that access.
    pub epoch: u64,
    /// Estimates that take room in it.
    pub estimates: Estimates,
    /// For so long from then on it refills at half its rate: that repays what was owed.
    pub slow: Duration,
}

impl Bucket {
    /// The bucket at `now`: refilled from what was `stored`, or by default full.
    ///
    /// A clock that stepped back refills nothing, and counts from where it is now.
    pub fn settled(stored: Option<&Self>, terms: &Terms, history: &History, now: StoreTime) -> Self {
        let (fill, estimates, slow) = match stored {
            None => (ceiling(None, terms, history, now), Estimates::NONE, Duration::ZERO),
            Some(bucket) => {
                let (fill, estimates) = bucket.refilled(terms, history, now);
                (fill, estimates, bucket.slow.saturating_sub(now.since(bucket.last)))
            }
        };
        Self { fill, last: now, rate: terms.rate, whole: terms.whole, epoch: history.epoch, estimates, slow }
    }

    /// What a stored bucket holds at `now`, and which of its estimates still take room.
    fn refilled(&self, terms: &Terms, history: &History, now: StoreTime) -> (Fill, Estimates) {
        let (cap, elapsed) = (terms.entitlement.burst, now.since(self.last));
        let rate = self.rate.min(terms.rate);
        if self.epoch == history.epoch && self.whole == terms.whole {
            let estimates = self.estimates.aged(self.last, now).within(cap);
            let out = if mistake::made(Mistake::EstimatesWithoutRoom) { MicroTokens::ZERO } else { estimates.total() };
            let room = cap.saturating_sub(out);
            return (self.fill.capped(room).refilled_slowly(room, elapsed, self.slow, rate, terms.period), estimates);
        }
        let start = self.fill.capped(terms.own.burst.min(cap));
        let rate = rate.min(slowest_own(self, terms, history));
        let refilled = start.refilled_slowly(cap, elapsed, self.slow, rate, terms.period);
        (least(refilled, ceiling(Some(self), terms, history, now)), Estimates::NONE)
    }

    /// Puts the bucket under other terms: a smaller capacity clamps it at once, a greater one
    /// leaves the level.
    pub fn put_under(&mut self, terms: &Terms) {
        self.estimates = std::mem::take(&mut self.estimates).within(terms.entitlement.burst);
        self.fill = self.fill.capped(terms.entitlement.burst.saturating_sub(self.estimates.total()));
        self.rate = terms.rate;
        self.whole = terms.whole;
    }

    /// True if `cost` is there.
    pub fn holds(&self, cost: MicroTokens) -> bool {
        self.fill.level >= cost
    }

    /// Takes `cost`, or all there is.
    pub fn take(&mut self, cost: MicroTokens) {
        self.fill.level = self.fill.level.saturating_sub(cost);
    }

    /// What was taken is an estimate, to be settled by `hold`: its room stays taken.
    pub fn reserve(&mut self, hold: NewHold, estimate: MicroTokens, terms: &Terms) -> Ticket {
        let ends = self.estimates.add(self.last, hold, estimate);
        Ticket { ends, era: self.estimates.era(), burst: terms.entitlement.burst, period: terms.period }
    }

    /// Puts the true `cost` in the place of an estimate, as of the last access. What is given back, and what
    /// was not there to be taken: it slows the refill, but no more of it than the burst.
    pub fn settle(&mut self, ticket: &Ticket, estimate: MicroTokens, cost: MicroTokens) -> (MicroTokens, MicroTokens) {
        let returned = self.estimates.remove(ticket, estimate).saturating_sub(cost);
        let excess = cost.saturating_sub(estimate);
        let there = self.fill.level.saturating_add(returned).min(MicroTokens(MAX_EXACT));
        self.fill.level = there.saturating_sub(excess);
        let owed = excess.saturating_sub(there);
        let most = slow_for(ticket.burst, self.rate, ticket.period);
        self.slow = self.slow.saturating_add(slow_for(owed, self.rate, ticket.period)).min(most.max(self.slow));
        (returned, owed)
    }

    /// How long it is kept after a write.
    pub fn life(&self, terms: &Terms) -> Duration {
        let least = self.estimates.last_end().map(|end| end.since(self.last)).unwrap_or_default();
        terms.life().max(least).saturating_add(self.slow)
    }
}

/// The least own rate since `bucket` was accessed.
fn slowest_own(bucket: &Bucket, terms: &Terms, history: &History) -> MicroTokens {
    let former = history.changed.filter(|change| change.at >= bucket.last);
    former.map_or(terms.own_rate, |change| change.slowest(terms))
}

/// The most that a bucket may hold by what happened to all of them: each happening fixes the
/// most it held at one instant, and from there it refilled at the own rate at least.
fn ceiling(stored: Option<&Bucket>, terms: &Terms, history: &History, now: StoreTime) -> Fill {
    let cap = terms.entitlement.burst;
    let since = |level, then| since(Fill::at(level), then, terms, now);
    // nobody can tell since when what was lent is back: as if since now
    let regained = terms.whole && !terms.lent.is_zero() || stored.is_some_and(|bucket| bucket.whole != terms.whole);
    let candidates = [
        history.emptied_at.map(|then| since(MicroTokens::ZERO, then)),
        history.renewed_at.map(|then| since(terms.own.burst, then)),
        history.changed.map(|change| change.ceiling(stored, terms, history, now)),
        regained.then(|| since(terms.own.burst, now)),
    ];
    candidates.into_iter().flatten().fold(Fill::at(cap), least)
}

/// What a bucket that held `start` then holds now.
fn since(start: Fill, then: StoreTime, terms: &Terms, now: StoreTime) -> Fill {
    let cap = terms.entitlement.burst;
    start.capped(cap).refilled(cap, now.since(then), terms.own_rate, terms.period)
}

/// The one that holds less; of two levels that are the same, without a fraction.
fn least(a: Fill, b: Fill) -> Fill {
    match a.level.cmp(&b.level) {
        std::cmp::Ordering::Less => a,
        std::cmp::Ordering::Greater => b,
        std::cmp::Ordering::Equal => Fill { level: a.level, fraction: a.fraction.min(b.fraction) },
    }
}

/// The one that holds more; of two levels that are the same, without a fraction.
fn greatest(a: Fill, b: Fill) -> Fill {
    if a.level == b.level { least(a, b) } else { std::cmp::max_by_key(a, b, |fill| fill.level) }
}

/// How one budget stands after a question: what a store answers for each charge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// True if the charge fitted by itself.
    pub fits: bool,
    /// The entitlement.
    pub capacity: Capacity,
    /// [`Terms::rate`].
    pub rate: MicroTokens,
    /// Left after the decision.
    pub fill: Fill,
    /// [`Terms::leased`].
    pub used_lease: bool,
    /// All estimates that are out after the decision.
    pub out: MicroTokens,
    /// Until they leave room for the cost, though none is settled.
    pub room_in: Duration,
    /// Until none is out any more, though none is settled.
    pub settled_in: Duration,
    /// [`Bucket::slow`].
    pub slow: Duration,
}

impl Standing {
    /// Of a bucket as it is after the decision on a `cost`.
    pub fn of(bucket: &Bucket, terms: &Terms, fits: bool, cost: MicroTokens) -> Self {
        let room = terms.entitlement.burst.saturating_sub(cost);
        Self {
            fits,
            capacity: terms.entitlement,
            rate: terms.rate,
            fill: bucket.fill,
            used_lease: terms.leased,
            out: bucket.estimates.total(),
            room_in: bucket.estimates.time_until(bucket.last, room),
            settled_in: bucket.estimates.time_until(bucket.last, MicroTokens::ZERO),
            slow: bucket.slow,
        }
    }

    /// In the words of the answer: when the same cost would fit, and when the bucket is full, at the latest: an estimate
    /// takes room until it is settled, or ends.
    pub fn decision(&self, cost: MicroTokens, period: Period) -> LimitDecision {
        let can_fit = !self.fits && cost <= self.capacity.burst;
        LimitDecision {
            fits: self.fits,
            capacity: self.capacity,
            remaining: self.fill.level,
            retry_after: can_fit.then(|| self.time_until_there(self.room_in, cost, period)).flatten(),
            reset_after: self.time_until_there(self.settled_in, self.capacity.burst, period),
            used_lease: self.used_lease,
        }
    }

    /// The most that the bucket fills to while the estimates are out.
    fn stop(&self) -> MicroTokens {
        self.capacity.burst.saturating_sub(self.out)
    }

    /// Until there is room for so much, which is `room_in` that time, and then until it is there: whoever asks meanwhile,
    /// the bucket fills no further than to [`Self::stop`] before.
    fn time_until_there(&self, room_in: Duration, amount: MicroTokens, period: Period) -> Option<Duration> {
        let then = self.fill.refilled_slowly(self.stop(), room_in, self.slow, self.rate, period);
        let slow = self.slow.saturating_sub(room_in);
        Some(room_in.saturating_add(then.time_until_slowly(amount, slow, self.rate, period)?))
    }
}
