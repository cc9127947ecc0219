//! One decision: what is asked of a region's store, and what it answers.
//!
//! The same question goes to a Redis script and to the embedded store, and the same arithmetic
//! answers it in both.

use quorate_shared::heartbeat::{Number, PoliciesInForce};
use quorate_shared::names::{BudgetId, RegionName};
use quorate_shared::policy::Limit;
use quorate_shared::time::{Drift, WindowLabel};
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the agent knows of its lease at one instant of its own clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseView {
    /// True before `D`: pool and loans may be used.
    pub leased: bool,
    /// True from `U + D_b` on: the whole floor may be used, whatever was lent.
    pub whole_floor: bool,
    /// Lenders whose promise stands (`D_j` has not passed), of budgets without a drain. Of any other
    /// lender nothing may be used, even if the record knows a loan of it that the asker does not.
    pub standing_lenders: BTreeSet<RegionName>,
    /// How long ago `U` was; zero before. The whole floor of a budget with a drain may be used
    /// `D_b` after `U`.
    pub floor_passed: Duration,
    /// Lenders of budgets with a drain whose promise stands.
    pub standing_loans: BTreeMap<BudgetId, BTreeSet<RegionName>>,
    /// How long no coordinator was heard: since before the sending of the last heartbeat whose response is in force;
    /// longer than anything if the asker does not know.
    pub unheard_for: Duration,
    /// The response by which the three fields above are dated: the newest of the session whose
    /// reductions are in force; seq 0 before the first. A store that has applied a newer one, or
    /// serves another session, refuses a question that would use a lease or the whole floor (R8).
    pub number: Number,
    /// Of that response's session.
    pub nonce: u64,
    /// The policy sets by which the floors in the question were computed. The store refuses the
    /// question if it has applied others since (R8).
    pub policies: PoliciesInForce,
}

impl LeaseView {
    /// True if the whole floor of a budget may be used whose past use counts for `drain`.
    pub fn allows_whole_floor(&self, drain: Duration, drift: Drift) -> bool {
        self.whole_floor && self.floor_passed >= drift.stretch(drain)
    }

    /// True if floors that hold for `ttl` without a coordinator may be used yet, and `later` than this too; `None`: for as
    /// long as anybody likes.
    pub fn floor_holds(&self, ttl: Option<Duration>, drift: Drift, later: Duration) -> bool {
        ttl.is_none_or(|ttl| self.unheard_for.saturating_add(later) < drift.shrink(ttl))
    }

    /// True if a loan of a budget may be used.
    pub fn promises(&self, budget: &BudgetId, drain: Duration, lender: &RegionName) -> bool {
        match drain.is_zero() {
            true => self.standing_lenders.contains(lender),
            false => self.standing_loans.get(budget).is_some_and(|lenders| lenders.contains(lender)),
        }
    }
}

/// One budget's part of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Which budget.
    pub budget: BudgetId,
    /// The limit by the policy in force, or the smaller of two while a change is pending; for its period.
    pub limit: Limit,
    /// The region's static share of it.
    pub floor: Capacity,
    /// λ: of the floor, what may be lent. Counts as lent in a store that has no record (R7).
    pub lendable: Capacity,
    /// Of an allowance: the most that the floor may be in windows up to a label, which began
    /// under another policy set (R9).
    pub former_floors: Vec<(WindowLabel, MicroTokens)>,
    /// See [`quorate_shared::policy::Policy::floor_ttl`]. Once the floor has ended, nothing of the budget may be used.
    pub floor_ttl: Option<Duration>,
    /// What the request takes; zero only looks.
    pub cost: MicroTokens,
    /// False: observed only. Such a charge never refuses the request, and is taken if it fits.
    pub enforced: bool,
}

/// A question: all or nothing over its enforced charges.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The lease at the sending of the question.
    pub view: LeaseView,
    /// ρ, by which refill is shortened.
    pub drift: Drift,
    /// At least one; each on another budget.
    pub charges: Vec<Charge>,
}

impl Question {
    /// True if the floor of this charge has ended at the asking.
    pub fn has_ended(&self, charge: &Charge) -> bool {
        !self.view.floor_holds(charge.floor_ttl, self.drift, Duration::ZERO)
    }

    /// True if an admission that is heard of `later` than the asking counts as far as floors go: none that it used had
    /// ended by then.
    pub fn floors_hold(&self, decision: &Decision, later: Duration) -> bool {
        let used = self.charges.iter().zip(&decision.limits).filter(|(_, limit)| limit.fits);
        used.into_iter().all(|(charge, _)| self.view.floor_holds(charge.floor_ttl, self.drift, later))
    }

    /// True if no two charges are on one budget, as it must be: policies give distinct budgets.
    pub fn budgets_differ(&self) -> bool {
        let budgets: BTreeSet<&BudgetId> = self.charges.iter().map(|c| &c.budget).collect();
        budgets.len() == self.charges.len()
    }
}

/// What a store says to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Decided, and if allowed charged.
    Decided(Decision),
    /// The store has applied other policy sets than the question was computed by; nothing was charged.
    OtherPolicies(PoliciesInForce),
    /// The store has applied a newer response than [`LeaseView::number`], or serves another
    /// session; its newest is named, nothing was charged. Ask again by the newer lease, or
    /// without one: `leased` and `whole_floor` false are never refused so.
    OtherLease(Number),
    /// The store has no record of this region's session: it is new or has lost its state (R7);
    /// nothing was charged.
    NoRecord,
}

/// A decision over all charges of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// True if every enforced charge fitted.
    pub allowed: bool,
    /// One for each charge, in its order.
    pub limits: Vec<LimitDecision>,
}

/// One budget's part of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitDecision {
    /// True if the charge fitted by itself.
    pub fits: bool,
    /// What the region may save up at most now (its entitlement).
    pub capacity: Capacity,
    /// Left after the decision.
    pub remaining: MicroTokens,
    /// If it did not fit: until it would, with no other traffic and no change of the lease,
    /// rounded up to a microsecond; `None` if the cost exceeds [`Self::capacity`], so that it
    /// never would.
    pub retry_after: Option<Duration>,
    /// Until the bucket is full, rounded up to a microsecond; `None` if it does not refill.
    pub reset_after: Option<Duration>,
    /// True if a leased part (pool or a loan) was part of the capacity.
    pub used_lease: bool,
}

impl LimitDecision {
    /// Of a budget of which nothing may be used, since its floor has ended. Nobody knows until when.
    pub fn ended(cost: MicroTokens) -> Self {
        Self {
            fits: cost == MicroTokens::ZERO,
            capacity: Capacity::ZERO,
            remaining: MicroTokens::ZERO,
            retry_after: None,
            reset_after: None,
            used_lease: false,
        }
    }
}
