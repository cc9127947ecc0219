//! Who wants how much here: what a heartbeat reports of the budgets in use, and when one is due
//! before its time.

mod estimate;

use crate::bucket::{Fill, Period};
use crate::decision::{Charge, LimitDecision};
use crate::pace::Hurry;
use estimate::Estimate;
use quorate_shared::heartbeat::{MOST_REPORTS, Report};
use quorate_shared::names::BudgetId;
use quorate_shared::policy::{Limit, Shape};
use quorate_shared::time::LocalTime;
use quorate_shared::units::MicroTokens;
use std::collections::BTreeMap;
use std::time::Duration;

/// Demand below this is as good as none.
const NEGLIGIBLE: MicroTokens = MicroTokens(1_000);

/// A budget of which less than this part of the burst was asked for in a second is not pressed.
const PRESSED: u64 = 20;

/// A region that refused asks for this part more than it saw, and one whose bucket stayed above
/// half for this part less: what is saved up makes good for that, and serves somebody meanwhile.
const LEAN: u64 = 8;

/// Demand is reported anew when it differs by this part, and by more than chance: a plan follows
/// each change, so noise should make none.
const DEAD_BAND: u64 = 32;

/// A heartbeat is due when demand has fallen by this part, and by more than chance.
const FALLEN: u64 = 16;

/// How long capacity may take to arrive from another region: its next heartbeat, and ours.
const ARRIVES: Duration = Duration::from_secs(2);

/// How long a client may take, beyond what it was told to wait, until it asks again for something
/// that was too large.
const RETURNS: Duration = Duration::from_secs(10);

/// Budgets that are followed at once at most. Of more, those that nobody presses are forgotten first.
pub const MOST_FOLLOWED: usize = 50_000;

/// Demand and use of every budget that was asked for of late.
///
/// [`count`](Self::count) each decision; [`reports`](Self::reports) once for each heartbeat;
/// [`hurry`](Self::hurry) now and then.
#[derive(Debug, Default)]
pub struct DemandTracker {
    budgets: BTreeMap<BudgetId, Use>,
    /// True if those that nobody presses were forgotten since the last reports.
    thinned: bool,
}

#[derive(Clone, Debug, Default)]
struct Use {
    estimate: Estimate,
    admitted: MicroTokens,
    refused: MicroTokens,
    /// Of what was admitted.
    estimated: MicroTokens,
    /// Demand as last reported.
    told: MicroTokens,
    /// Demand as it was seen when that was said.
    seen: MicroTokens,
    /// What the region may save up of it.
    burst: MicroTokens,
    /// True if it refused since the last report.
    refuses: bool,
    /// True if it refused, or soon would have, since the last report.
    runs_out: bool,
    /// True if it refused, or less than half the burst remained, since the last report.
    scarce: bool,
    /// What the region could not hold without what others lend it.
    large: Option<Large>,
}

/// Costs that a region could not hold by itself.
#[derive(Clone, Debug)]
struct Large {
    /// What the region held of its own when the first of them was asked for.
    own: MicroTokens,
    /// Each with until when somebody may ask for it again; the larger of two is forgotten first.
    costs: Vec<(MicroTokens, LocalTime)>,
}

impl Large {
    /// Remembers a cost, unless one as large is remembered for as long.
    fn note(&mut self, cost: MicroTokens, until: LocalTime) {
        if self.costs.iter().any(|(other, longer)| *other >= cost && *longer >= until) {
            return;
        }
        self.costs.retain(|(other, longer)| *other > cost || *longer > until);
        self.costs.push((cost, until));
        self.costs.sort_unstable_by(|a, b| b.cmp(a));
        if self.costs.len() > MOST_LARGE
            && let Some((_, until)) = self.costs.pop()
            && let Some((_, longest)) = self.costs.last_mut()
        {
            *longest = until.max(*longest);
        }
    }

    fn largest(&self) -> MicroTokens {
        self.costs.first().map(|(cost, _)| *cost).unwrap_or_default()
    }
}

/// How long to wait for something that the region's present share cannot hold: until capacity
/// has moved here, and until the limit as a whole, if it were empty, would hold it again.
/// What a window has not granted yet comes with a grant, if there is any left; what else does not
/// refill is back after a period.
pub fn wait_for_large(limit: Limit, cost: MicroTokens) -> Duration {
    let (rate, period) = (limit.capacity().rate.0, limit.period());
    let refills = match rate {
        0 if limit.shape() == Shape::Allowance => Duration::ZERO,
        0 => period,
        rate => {
            let micros = u128::from(cost.0).saturating_mul(period.as_micros()).div_ceil(u128::from(rate));
            Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
        }
    };
    ARRIVES.saturating_add(refills)
}

/// The same, by what is known of that share. With capacity no tokens come: a bucket must refill what it lacks, at the
/// present rate at least. Of what counts past use others give what they do not use at once, as far as what counts here
/// leaves room within the `reach` of the region.
pub fn wait_for_more(limit: Limit, cost: MicroTokens, reach: MicroTokens, decision: &LimitDecision) -> Duration {
    let longest = wait_for_large(limit, cost);
    match limit.shape() {
        Shape::Allowance => longest,
        Shape::Share => {
            let counted = decision.capacity.burst.saturating_sub(decision.remaining);
            if counted.saturating_add(cost) <= reach { ARRIVES } else { longest }
        }
        Shape::Flow => {
            let lacks = Fill::at(decision.remaining).time_until(cost, decision.capacity.rate, Period::of(limit));
            lacks.map_or(longest, |span| longest.min(ARRIVES.saturating_add(span)))
        }
    }
}

/// So many large costs of a budget are told apart.
const MOST_LARGE: usize = 4;

impl DemandTracker {
    /// Counts one decision on one charge. True if a heartbeat should not wait for its time: the
    /// charge did not fit, or at this pace others soon will not. A cost that the whole limit cannot
    /// hold is no demand: no capacity would serve it.
    pub fn count(&mut self, now: LocalTime, charge: &Charge, admitted: bool, decision: &LimitDecision) -> bool {
        if charge.cost == MicroTokens::ZERO || charge.cost > charge.limit.capacity().burst {
            return false;
        }
        if !self.budgets.contains_key(&charge.budget) {
            if self.budgets.len() >= MOST_FOLLOWED && !self.make_room() {
                return !decision.fits;
            }
            self.budgets.insert(charge.budget.clone(), Use { estimate: Estimate::new(now), ..Use::default() });
        }
        let Some(entry) = self.budgets.get_mut(&charge.budget) else { return false };
        entry.estimate.add(now, charge.cost, charge.limit.period());
        let total = if admitted { &mut entry.admitted } else { &mut entry.refused };
        *total = total.saturating_add(charge.cost);
        entry.burst = decision.capacity.burst;
        entry.refuses |= !decision.fits;
        entry.scarce |= !decision.fits || decision.remaining.0 < decision.capacity.burst.0 / 2;
        entry.note_large(now, charge, decision);
        let runs_out = !decision.fits || entry.estimate.empties(now, charge.limit.period(), decision);
        entry.runs_out |= runs_out;
        runs_out
    }

    /// Forgets budgets that nobody presses, once between two reports. True if there is room for another.
    fn make_room(&mut self) -> bool {
        if !std::mem::replace(&mut self.thinned, true) {
            self.budgets.retain(|_, entry| entry.runs_out || entry.large.is_some());
        }
        self.budgets.len() < MOST_FOLLOWED
    }

    /// Budgets that are followed now.
    pub fn followed(&self) -> usize {
        self.budgets.len()
    }

    /// What was admitted of a charge, as counted, is an estimate.
    pub fn note_estimate(&mut self, charge: &Charge) {
        if let Some(entry) = self.budgets.get_mut(&charge.budget) {
            entry.estimated = entry.estimated.saturating_add(charge.cost).min(entry.admitted);
        }
    }

    /// What to report at `now`: budgets under pressure whose demand is at least `worth(budget)` in
    /// one period, and those of which it is `None`, to be reported in any case. `period` gives a
    /// budget's period; a budget without one has ended and is forgotten.
    pub fn reports(
        &mut self,
        now: LocalTime,
        period: impl Fn(&BudgetId) -> Option<Duration>,
        worth: impl Fn(&BudgetId) -> Option<MicroTokens>,
    ) -> Vec<Report> {
        self.thinned = false;
        let mut reports = Vec::new();
        self.budgets.retain(|budget, entry| {
            let Some(period) = period(budget) else { return false };
            entry.settle(now, period);
            entry.keep_large(|_, until| now < until);
            let pressed = entry.scarce || entry.estimate.asked_of_late().0 >= entry.burst.0 / PRESSED;
            if worth(budget).is_none_or(|least| pressed && entry.told >= least.max(NEGLIGIBLE) || entry.large.is_some()) {
                reports.push(entry.report(budget));
            }
            (entry.refuses, entry.runs_out, entry.scarce) = (false, false, false);
            entry.told >= NEGLIGIBLE || entry.large.is_some() || entry.estimate.asked_of_late() > MicroTokens::ZERO
        });
        if reports.len() > MOST_REPORTS {
            // heartbeats so large that they are late would put the lease at the mercy of whoever asks for many subjects
            reports.sort_by(|a, b| b.demand.cmp(&a.demand).then_with(|| a.budget.cmp(&b.budget)));
            reports.truncate(MOST_REPORTS);
        }
        reports
    }

    /// Looks whether the coordinators should hear of one of these budgets: demand has fallen, so that
    /// others might have what is held of it here, or has just risen beyond what is there.
    pub fn hurry<'a>(
        &mut self,
        now: LocalTime,
        period: impl Fn(&BudgetId) -> Option<Duration>,
        mut held: impl Iterator<Item = &'a BudgetId>,
    ) -> Hurry {
        let is_news = held.any(|budget| match (self.budgets.get_mut(budget), period(budget)) {
            (Some(entry), Some(period)) => entry.has_fallen(now, period) || entry.runs_out && entry.estimate.is_new(),
            _ => false,
        });
        if is_news { Hurry::News } else { Hurry::None }
    }

    /// Wanted in one period, as last reported.
    pub fn demand(&self, budget: &BudgetId) -> MicroTokens {
        self.budgets.get(budget).map(|entry| entry.told).unwrap_or_default()
    }

    /// A new session counts anew what was admitted and refused; who wants how much is known as before.
    pub fn count_anew(&mut self) {
        for entry in self.budgets.values_mut() {
            (entry.admitted, entry.refused, entry.estimated) = (MicroTokens::ZERO, MicroTokens::ZERO, MicroTokens::ZERO);
        }
    }

    /// A new session of an agent that begins anew.
    pub fn restart(&mut self) {
        self.budgets.clear();
    }
}

impl Use {
    fn note_large(&mut self, now: LocalTime, charge: &Charge, decision: &LimitDecision) {
        let cost = charge.cost;
        // of a limit that was lowered: no capacity would serve it any more
        self.keep_large(|large, _| large <= charge.limit.capacity().burst);
        let until = now.after(wait_for_large(charge.limit, cost).saturating_mul(2).saturating_add(RETURNS));
        // a loan may have come, even before an agent that knows nothing of it began; it is still needed
        let own = self.large.as_ref().map_or(charge.floor.burst.min(decision.capacity.burst), |large| large.own);
        if cost > own {
            self.large.get_or_insert_with(|| Large { own, costs: Vec::new() }).note(cost, until);
        }
    }

    /// Decides what to report.
    fn settle(&mut self, now: LocalTime, period: Duration) {
        let demand = self.estimate.demand(now, period);
        let seen = if self.refuses { demand.max(self.estimate.of_late(now, period)) } else { demand };
        let lean = MicroTokens(seen.0 / LEAN);
        let wanted = match (self.refuses, self.scarce) {
            (true, _) => seen.saturating_add(lean),
            (false, true) => seen,
            (false, false) => seen.saturating_sub(lean),
        };
        let band = self.told.0 / DEAD_BAND + self.estimate.noise(period).0;
        if self.refuses && wanted > self.told || wanted.0.abs_diff(self.told.0) > band || demand == MicroTokens::ZERO {
            (self.told, self.seen) = (wanted, seen);
        }
    }

    /// Forgets large costs for which this is not so.
    fn keep_large(&mut self, is_kept: impl Fn(MicroTokens, LocalTime) -> bool) {
        let Some(large) = &mut self.large else { return };
        large.costs.retain(|(cost, until)| is_kept(*cost, *until));
        if large.costs.is_empty() {
            self.large = None;
        }
    }

    fn has_fallen(&mut self, now: LocalTime, period: Duration) -> bool {
        let demand = self.estimate.demand(now, period);
        let fallen = self.seen.saturating_sub(demand.saturating_add(self.estimate.noise(period)));
        self.told >= NEGLIGIBLE && fallen.0 > self.seen.0 / FALLEN
    }

    fn report(&self, budget: &BudgetId) -> Report {
        Report {
            budget: budget.clone(),
            demand: self.told,
            admitted: self.admitted,
            refused: self.refused,
            estimated: self.estimated,
            largest: self.large.as_ref().map(Large::largest).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests;
