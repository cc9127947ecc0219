//! Who wants how much here: what a heartbeat reports of the budgets in use.

use quorate_shared::heartbeat::Report;
use quorate_shared::names::BudgetId;
use quorate_shared::time::LocalTime;
use quorate_shared::units::MicroTokens;
use std::collections::BTreeMap;
use std::time::Duration;

/// Demand below this is as good as none.
const NEGLIGIBLE: MicroTokens = MicroTokens(1_000);

/// Demand and use of every budget that was asked for of late.
///
/// [`count`](Self::count) each decision; [`reports`](Self::reports) once for each heartbeat.
#[derive(Debug, Default)]
pub struct DemandTracker {
    budgets: BTreeMap<BudgetId, Use>,
    since: LocalTime,
}

#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// Asked for since the last report, admitted or not.
    asked: MicroTokens,
    admitted: MicroTokens,
    refused: MicroTokens,
    largest_refused: MicroTokens,
    /// Wanted in one period, smoothed.
    demand: MicroTokens,
}

impl DemandTracker {
    /// Counts one decision on one budget.
    pub fn count(&mut self, budget: &BudgetId, cost: MicroTokens, admitted: bool) {
        if cost == MicroTokens::ZERO {
            return;
        }
        if !self.budgets.contains_key(budget) {
            self.budgets.insert(budget.clone(), Use::default());
        }
        let Some(entry) = self.budgets.get_mut(budget) else { return };
        entry.asked = entry.asked.saturating_add(cost);
        let total = if admitted { &mut entry.admitted } else { &mut entry.refused };
        *total = total.saturating_add(cost);
        if !admitted {
            entry.largest_refused = entry.largest_refused.max(cost);
        }
    }

    /// What to report at `now`: budgets whose demand is at least `worth(budget)` in one period,
    /// and those of which it is `None`, to be reported in any case.
    ///
    /// Demand rises at once and falls by half in each heartbeat, so a short gap gives nothing
    /// away. `period` gives a budget's period; a budget without one has ended and is forgotten.
    pub fn reports(
        &mut self,
        now: LocalTime,
        period: impl Fn(&BudgetId) -> Option<Duration>,
        worth: impl Fn(&BudgetId) -> Option<MicroTokens>,
    ) -> Vec<Report> {
        let span = now.since(self.since);
        self.since = now;
        let mut reports = Vec::new();
        self.budgets.retain(|budget, entry| {
            let Some(period) = period(budget) else { return false };
            entry.turn(span, period);
            if worth(budget).is_none_or(|least| entry.demand >= least.max(NEGLIGIBLE)) {
                reports.push(entry.report(budget));
            }
            entry.largest_refused = MicroTokens::ZERO;
            entry.demand >= NEGLIGIBLE
        });
        reports
    }

    /// Wanted in one period, as last reported.
    pub fn demand(&self, budget: &BudgetId) -> MicroTokens {
        self.budgets.get(budget).map(|entry| entry.demand).unwrap_or_default()
    }

    /// A new session counts anew.
    pub fn restart(&mut self, now: LocalTime) {
        self.budgets.clear();
        self.since = now;
    }
}

impl Use {
    fn turn(&mut self, span: Duration, period: Duration) {
        let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
        let present = self.asked.scale_floor(micros(period), micros(span).max(1));
        self.demand = present.max(MicroTokens(self.demand.0 / 2));
        self.asked = MicroTokens::ZERO;
    }

    fn report(&self, budget: &BudgetId) -> Report {
        Report {
            budget: budget.clone(),
            demand: self.demand,
            admitted: self.admitted,
            refused: self.refused,
            largest: self.largest_refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::names::{SubjectHash, SubjectKey};

    fn budget(subject: &str) -> BudgetId {
        let policy: quorate_shared::names::PolicyName = "p".parse().expect("a name");
        let subject = SubjectHash::of(&SubjectKey::new([0; 32]), &policy, [subject]);
        BudgetId { policy, generation: 1, subject }
    }

    fn second(n: u64) -> LocalTime {
        LocalTime::ZERO.after(Duration::from_secs(n))
    }

    #[test]
    fn refused_requests_are_demand_and_demand_falls_slowly() {
        let mut tracker = DemandTracker::default();
        let a = budget("a");
        let period = |_: &BudgetId| Some(Duration::from_secs(60));
        let always = |_: &BudgetId| None;
        tracker.count(&a, MicroTokens(3_000_000), true);
        tracker.count(&a, MicroTokens(1_000_000), false);
        let reports = tracker.reports(second(2), period, always);
        assert_eq!(reports.len(), 1);
        assert_eq!(reports[0].demand, MicroTokens(120_000_000), "4 tokens in 2 s are 120 in a minute");
        assert_eq!((reports[0].admitted, reports[0].refused), (MicroTokens(3_000_000), MicroTokens(1_000_000)));
        assert_eq!(tracker.reports(second(3), period, always)[0].demand, MicroTokens(60_000_000));
    }

    #[test]
    fn small_demand_is_not_reported_and_an_idle_budget_is_forgotten() {
        let mut tracker = DemandTracker::default();
        let a = budget("a");
        let period = |_: &BudgetId| Some(Duration::from_secs(1));
        tracker.count(&a, MicroTokens(1_000_000), true);
        assert!(tracker.reports(second(1), period, |_| Some(MicroTokens(2_000_000))).is_empty());
        for n in 2..20 {
            tracker.reports(second(n), period, |_| Some(MicroTokens(2_000_000)));
        }
        assert!(tracker.budgets.is_empty());
        tracker.count(&a, MicroTokens::ZERO, true);
        assert!(tracker.budgets.is_empty(), "a look is no demand");
    }
}
