//! Past use that keeps counting: a sliding log, exact over any interval (shape `share`).

use crate::decision::{Charge, LeaseView, LimitDecision};
use quorate_shared::heartbeat::Holding;
use quorate_shared::time::{Drift, StoreTime};
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::VecDeque;
use std::time::Duration;

/// What was taken when; oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UseLog {
    taken: VecDeque<(StoreTime, MicroTokens)>,
}

impl UseLog {
    /// What counts at `now` of that which counts for `keep`.
    pub fn counted(&self, now: StoreTime, keep: Duration) -> MicroTokens {
        let counting = self.taken.iter().filter(|(at, _)| now.since(*at) <= keep);
        counting.map(|(_, units)| *units).fold(MicroTokens::ZERO, MicroTokens::saturating_add)
    }

    /// Takes `units` at `now`, and forgets what does not count any more.
    pub fn take(&mut self, now: StoreTime, keep: Duration, units: MicroTokens) {
        self.taken.retain(|(at, _)| now.since(*at) <= keep);
        self.taken.push_back((now, units));
    }

    /// Until at most `goal` counts, if nothing more is taken; rounded up to a microsecond.
    fn time_until(&self, now: StoreTime, keep: Duration, goal: MicroTokens) -> Duration {
        let mut left = self.counted(now, keep);
        for (at, units) in self.taken.iter().filter(|(at, _)| now.since(*at) <= keep) {
            if left <= goal {
                break;
            }
            left = left.saturating_sub(*units);
            if left <= goal {
                return at.after(keep).after(Duration::from_micros(1)).since(now);
            }
        }
        Duration::ZERO
    }
}

/// How one budget with a drain stands at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// What the region may have counting at once.
    entitlement: MicroTokens,
    /// `D_b` by the store's clock.
    pub keep: Duration,
    counted: MicroTokens,
    /// After a loss of state nothing is admitted for so long yet (R7).
    quarantine: Duration,
    leased: bool,
}

impl Counted {
    /// By the record's `holding` and when its state was `lost_at`.
    pub fn new(
        charge: &Charge,
        holding: &Holding,
        view: &LeaseView,
        drift: Drift,
        log: &UseLog,
        lost_at: Option<StoreTime>,
        now: StoreTime,
    ) -> Self {
        let keep = drift.stretch(charge.limit.drain());
        let entitlement = share_of(charge, holding, view, drift, view.allows_whole_floor(charge.limit.drain(), drift));
        let unleased = share_of(charge, holding, &LeaseView { leased: false, ..view.clone() }, drift, false);
        let quarantine = lost_at.map(|lost| lost.after(keep).after(Duration::from_micros(1)).since(now)).unwrap_or_default();
        Self { entitlement, keep, counted: log.counted(now, keep), quarantine, leased: entitlement > unleased }
    }

    /// True if `cost` more may be taken.
    pub fn fits(&self, cost: MicroTokens) -> bool {
        self.quarantine.is_zero() && self.counted.saturating_add(cost) <= self.entitlement
    }

    /// In the words of the answer; `log` is as it stands after the decision.
    pub fn decision(&self, fits: bool, cost: MicroTokens, log: &UseLog, now: StoreTime) -> LimitDecision {
        let counted = log.counted(now, self.keep);
        let can_fit = !fits && cost <= self.entitlement;
        let wait = || log.time_until(now, self.keep, self.entitlement.saturating_sub(cost)).max(self.quarantine);
        let remaining = match self.quarantine.is_zero() {
            true => self.entitlement.saturating_sub(counted),
            false => MicroTokens::ZERO,
        };
        LimitDecision {
            fits,
            capacity: Capacity::new(MicroTokens::ZERO, self.entitlement),
            remaining,
            retry_after: can_fit.then(wait),
            reset_after: Some(log.time_until(now, self.keep, MicroTokens::ZERO).max(self.quarantine)),
            used_lease: self.leased,
        }
    }
}

/// What may count at once of a budget with a drain, with the whole floor or without what is lent.
pub fn share_of(charge: &Charge, holding: &Holding, view: &LeaseView, drift: Drift, whole_floor: bool) -> MicroTokens {
    let drain = charge.limit.drain();
    let promised = |lender: &_| view.promises(&charge.budget, drain, lender);
    debug_assert!(!whole_floor || view.allows_whole_floor(drain, drift), "the whole floor before U + D_b");
    holding.entitlement(charge.floor, whole_floor, view.leased, promised).burst
}
