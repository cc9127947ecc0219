//! What a region may have counting at once of a budget with a drain (shape `share`).

use crate::bucket::exact;
use crate::decision::{Charge, LeaseView, LimitDecision};
use crate::sliding::Weighed;
use crate::slots::Slots;
use crate::use_log::UseLog;
use quorate_shared::heartbeat::Holding;
use quorate_shared::time::{Drift, StoreTime};
use quorate_shared::units::{Capacity, MAX_EXACT, MicroTokens};
use std::time::Duration;

/// One budget's terms at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShareTerms {
    /// What may count at once.
    pub entitlement: MicroTokens,
    /// See [`ShareStanding::quarantine`].
    pub quarantine: Duration,
    /// See [`ShareStanding::used_lease`].
    pub leased: bool,
}

impl ShareTerms {
    /// By what is held. What was taken up to `unknown_until` is not known.
    pub fn new(
        charge: &Charge,
        holding: &Holding,
        view: &LeaseView,
        drift: Drift,
        unknown_until: Option<StoreTime>,
        now: StoreTime,
    ) -> Self {
        let drain = charge.limit.drain();
        let whole = view.allows_whole_floor(drain, drift);
        let promised = |lender: &_| view.promises(&charge.budget, drain, lender);
        let floor = exact(Capacity::new(MicroTokens::ZERO, charge.floor.burst));
        let part = |leased| exact(holding.entitlement(floor, whole, leased, promised));
        let quarantine = unknown_until.map(|until| quarantine(until, drift.stretch(drain), now)).unwrap_or_default();
        let entitlement = part(view.leased);
        Self { entitlement: entitlement.burst, quarantine, leased: entitlement != part(false) }
    }

    /// How the budget stands with nothing counted.
    pub fn standing(&self, fits: bool) -> ShareStanding {
        ShareStanding {
            fits,
            entitlement: self.entitlement,
            quarantine: self.quarantine,
            used_lease: self.leased,
            counted: MicroTokens::ZERO,
            admits_in: Duration::ZERO,
            empty_in: Duration::ZERO,
        }
    }

    /// True if `cost` more may be taken while so much is `counted`. Who only looks takes nothing, however much that is.
    pub fn fits(&self, counted: MicroTokens, cost: MicroTokens) -> bool {
        cost == MicroTokens::ZERO || self.quarantine.is_zero() && counted.saturating_add(cost) <= self.entitlement
    }
}

/// Until what was taken before `unknown_until` counts no more; stops at [`MAX_EXACT`].
fn quarantine(unknown_until: StoreTime, keep: Duration, now: StoreTime) -> Duration {
    let left = unknown_until.after(keep).after(Duration::from_micros(1)).since(now);
    left.min(Duration::from_micros(MAX_EXACT))
}

/// How one budget with a drain stands after a question: what a store answers for each charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareStanding {
    /// True if the charge fitted by itself.
    pub fits: bool,
    /// What may count at once.
    pub entitlement: MicroTokens,
    /// Until anything is admitted, after a loss of state: what was lost with it may count yet (R7).
    pub quarantine: Duration,
    /// True if a leased part is in the entitlement.
    pub used_lease: bool,
    /// What counts after the decision.
    pub counted: MicroTokens,
    /// If the charge did not fit, and could: until so little counts that it does, if nothing more is taken.
    pub admits_in: Duration,
    /// Until nothing counts, if nothing more is taken.
    pub empty_in: Duration,
}

impl ShareStanding {
    /// With what counts by a sliding-window counter, of a charge of `cost`.
    #[must_use]
    pub fn weighed(self, count: &Weighed, cost: MicroTokens) -> Self {
        let admits_in = count.time_until(self.entitlement.saturating_sub(cost));
        Self { counted: count.estimate(), admits_in, empty_in: count.time_until(MicroTokens::ZERO), ..self }
    }

    /// With what counts at `now` by a log of which units count for `keep`, of a charge of `cost`.
    #[must_use]
    pub fn logged(self, log: &UseLog, now: StoreTime, keep: Duration, cost: MicroTokens) -> Self {
        let goal = self.entitlement.saturating_sub(cost);
        let admits_in = if self.fits { Duration::ZERO } else { log.time_until(now, keep, goal) };
        Self { counted: log.counted(now, keep), admits_in, empty_in: log.time_until(now, keep, MicroTokens::ZERO), ..self }
    }

    /// With the slots that count at `now`, each of which lasts for `keep`, of a charge of `cost`.
    #[must_use]
    pub fn held(self, slots: &Slots, now: StoreTime, keep: Duration, cost: MicroTokens) -> Self {
        let goal = self.entitlement.saturating_sub(cost);
        let room = if slots.has_room(now, keep) { Duration::ZERO } else { slots.time_until_room(now, keep) };
        let admits_in = if self.fits { Duration::ZERO } else { slots.time_until(now, keep, goal).max(room) };
        Self { counted: slots.counted(now, keep), admits_in, empty_in: slots.time_until(now, keep, MicroTokens::ZERO), ..self }
    }

    /// In the words of the answer.
    pub fn decision(&self, cost: MicroTokens) -> LimitDecision {
        let can_fit = !self.fits && cost <= self.entitlement;
        let remaining = match self.quarantine.is_zero() {
            true => self.entitlement.saturating_sub(self.counted),
            false => MicroTokens::ZERO,
        };
        LimitDecision {
            fits: self.fits,
            capacity: Capacity::new(MicroTokens::ZERO, self.entitlement),
            remaining,
            retry_after: can_fit.then(|| self.admits_in.max(self.quarantine)),
            reset_after: Some(self.empty_in.max(self.quarantine)),
            used_lease: self.used_lease,
        }
    }
}
