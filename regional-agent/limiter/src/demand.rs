//! Who wants how much here: what a heartbeat reports of the budgets in use.

use crate::decision::LimitDecision;
use quorate_shared::heartbeat::Report;
use quorate_shared::names::BudgetId;
use quorate_shared::time::LocalTime;
use quorate_shared::units::MicroTokens;
use std::collections::BTreeMap;
use std::time::Duration;

/// Demand below this is as good as none.
const NEGLIGIBLE: MicroTokens = MicroTokens(1_000);

/// Demand is measured over at least this span. Over a shorter one, as between two heartbeats of
/// which the second reports a reduction, a single request would look like hundreds a second.
const WINDOW: Duration = Duration::from_millis(500);

/// Over so much of a budget's period at least is demand spread, and never less than a second: one
/// request is no demand for sixty a minute.
const PART_OF_PERIOD: u32 = 16;

/// A budget of which less than this part of the burst was asked for in a window is not pressed.
const PRESSED: u64 = 20;

/// Reports in one heartbeat, those with the greatest demand first. More would make heartbeats so
/// large that the lease were at the mercy of whoever asks for many subjects.
const MOST_REPORTS: usize = quorate_shared::heartbeat::MOST_REPORTS;

/// Demand and use of every budget that was asked for of late.
///
/// [`count`](Self::count) each decision; [`reports`](Self::reports) once for each heartbeat.
#[derive(Debug, Default)]
pub struct DemandTracker {
    budgets: BTreeMap<BudgetId, Use>,
    /// Since when `asked` is counted.
    since: LocalTime,
}

#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// Asked for in the present window, admitted or not.
    asked: MicroTokens,
    admitted: MicroTokens,
    refused: MicroTokens,
    largest_refused: MicroTokens,
    /// Wanted in one period, smoothed.
    demand: MicroTokens,
    /// How long nothing was asked for.
    quiet: Duration,
    /// What the region may save up of it.
    burst: MicroTokens,
    /// True if it was refused or ran low in the window.
    scarce: bool,
    /// True if it was scarce, or a good part of it was asked for, in the window before.
    pressed: bool,
}

impl DemandTracker {
    /// Counts one decision on one budget.
    pub fn count(&mut self, budget: &BudgetId, cost: MicroTokens, admitted: bool, decision: &LimitDecision) {
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
        entry.burst = decision.capacity.burst;
        entry.scarce |= !decision.fits || decision.remaining.0 < decision.capacity.burst.0 / 2;
        if !admitted {
            entry.largest_refused = entry.largest_refused.max(cost);
        }
    }

    /// What to report at `now`: budgets under pressure whose demand is at least `worth(budget)` in
    /// one period, and those of which it is `None`, to be reported in any case.
    ///
    /// Demand rises at once and falls by half in a second or more, so a short gap gives nothing
    /// away. Where nothing at all is asked for any longer than that, there is none: demand that
    /// moved to another region is to be followed there. `period` gives a budget's period; a budget without one has ended and is forgotten.
    pub fn reports(
        &mut self,
        now: LocalTime,
        period: impl Fn(&BudgetId) -> Option<Duration>,
        worth: impl Fn(&BudgetId) -> Option<MicroTokens>,
    ) -> Vec<Report> {
        let span = now.since(self.since);
        let window_over = span >= WINDOW;
        if window_over {
            self.since = now;
        }
        let mut reports = Vec::new();
        self.budgets.retain(|budget, entry| {
            let Some(period) = period(budget) else { return false };
            if window_over {
                entry.turn(span, period);
            }
            if worth(budget).is_none_or(|least| entry.pressed && entry.demand >= least.max(NEGLIGIBLE)) {
                reports.push(entry.report(budget));
            }
            entry.demand >= NEGLIGIBLE || entry.asked > MicroTokens::ZERO
        });
        if reports.len() > MOST_REPORTS {
            reports.sort_by(|a, b| b.demand.cmp(&a.demand).then_with(|| a.budget.cmp(&b.budget)));
            reports.truncate(MOST_REPORTS);
        }
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
    /// Ends a window of length `span`.
    fn turn(&mut self, span: Duration, period: Duration) {
        let least = (period / PART_OF_PERIOD).max(Duration::from_secs(1));
        self.quiet = if self.asked == MicroTokens::ZERO { self.quiet.saturating_add(span) } else { Duration::ZERO };
        if self.quiet > least {
            self.demand = MicroTokens::ZERO;
        }
        let (span, least, period) = (span.as_micros(), least.as_micros(), period.as_micros());
        let wanted = u128::from(self.asked.0).saturating_mul(period);
        let present = wanted / span.max(least).max(1);
        let smoothed = u128::from(self.demand.0).saturating_mul(least).saturating_add(wanted) / (least + span).max(1);
        self.demand = MicroTokens(u64::try_from(present.max(smoothed)).unwrap_or(u64::MAX));
        self.pressed = self.scarce || self.asked.0 >= self.burst.0 / PRESSED;
        self.asked = MicroTokens::ZERO;
        self.largest_refused = MicroTokens::ZERO;
        self.scarce = false;
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
    use quorate_shared::names::{PolicyName, SubjectHash, SubjectKey};
    use quorate_shared::units::Capacity;

    fn budget(subject: &str) -> BudgetId {
        let policy: PolicyName = "p".parse().expect("a name");
        let subject = SubjectHash::of(&SubjectKey::new([0; 32]), &policy, [subject]);
        BudgetId { policy, generation: 1, subject }
    }

    fn at_ms(ms: u64) -> LocalTime {
        LocalTime::ZERO.after(Duration::from_millis(ms))
    }

    fn tokens(n: u64) -> MicroTokens {
        MicroTokens::from_tokens(n).expect("few")
    }

    /// Of a bucket of 100 tokens.
    fn left(remaining: u64, fits: bool) -> LimitDecision {
        LimitDecision {
            fits,
            capacity: Capacity::new(tokens(100), tokens(100)),
            remaining: tokens(remaining),
            retry_after: None,
            reset_after: None,
            used_lease: false,
        }
    }

    const ALWAYS: fn(&BudgetId) -> Option<MicroTokens> = |_| None;

    #[test]
    fn refused_requests_are_demand_and_demand_falls_slowly() {
        let mut tracker = DemandTracker::default();
        let period = |_: &BudgetId| Some(Duration::from_secs(1));
        tracker.count(&budget("a"), tokens(30), true, &left(0, true));
        tracker.count(&budget("a"), tokens(10), false, &left(0, false));
        let reports = tracker.reports(at_ms(2_000), period, ALWAYS);
        assert_eq!(reports.iter().map(|r| r.demand).collect::<Vec<_>>(), [tokens(20)], "40 tokens in 2 s");
        assert_eq!((reports[0].admitted, reports[0].refused), (tokens(30), tokens(10)));
        assert_eq!(tracker.reports(at_ms(3_000), period, ALWAYS)[0].demand, tokens(10));
    }

    #[test]
    fn demand_that_has_gone_is_none_and_a_gap_is_no_end() {
        let mut tracker = DemandTracker::default();
        let period = |_: &BudgetId| Some(Duration::from_secs(1));
        tracker.count(&budget("a"), tokens(100), true, &left(0, true));
        assert_eq!(tracker.reports(at_ms(600), period, ALWAYS)[0].demand, tokens(100));
        assert!(tracker.reports(at_ms(1_200), period, ALWAYS)[0].demand > tokens(60), "a gap");
        tracker.count(&budget("a"), tokens(60), true, &left(0, true));
        assert!(tracker.reports(at_ms(1_800), period, ALWAYS)[0].demand > tokens(60));
        assert!(tracker.reports(at_ms(2_400), period, ALWAYS)[0].demand > tokens(40), "another gap");
        assert_eq!(tracker.reports(at_ms(3_000), period, ALWAYS)[0].demand, tokens(0));
    }

    #[test]
    fn a_second_heartbeat_within_the_window_says_what_the_first_said() {
        let mut tracker = DemandTracker::default();
        let period = |_: &BudgetId| Some(Duration::from_secs(1));
        tracker.count(&budget("a"), tokens(20), true, &left(0, true));
        assert_eq!(tracker.reports(at_ms(1_000), period, ALWAYS)[0].demand, tokens(20));
        tracker.count(&budget("a"), tokens(1), true, &left(0, true));
        assert_eq!(tracker.reports(at_ms(1_005), period, ALWAYS)[0].demand, tokens(20), "not 200 a second");
    }

    #[test]
    fn one_request_is_no_demand_for_sixty_a_minute() {
        let mut tracker = DemandTracker::default();
        let period = |_: &BudgetId| Some(Duration::from_secs(60));
        tracker.count(&budget("a"), tokens(1), true, &left(99, true));
        assert_eq!(tracker.reports(at_ms(1_000), period, ALWAYS)[0].demand, tokens(16));
        // steadily one in two seconds is thirty a minute, give or take
        for n in 1..200 {
            tracker.count(&budget("a"), tokens(1), true, &left(99, true));
            tracker.reports(at_ms(1_000 + n * 2_000), period, ALWAYS);
        }
        let demand = tracker.demand(&budget("a"));
        assert!(demand > tokens(25) && demand < tokens(40), "{demand}");
    }

    #[test]
    fn what_presses_on_no_floor_is_not_reported_and_an_idle_budget_is_forgotten() {
        let mut tracker = DemandTracker::default();
        let period = |_: &BudgetId| Some(Duration::from_secs(1));
        tracker.count(&budget("a"), tokens(1), true, &left(99, true));
        assert!(tracker.reports(at_ms(1_000), period, |_| Some(MicroTokens(1))).is_empty(), "a hundredth of the burst");
        tracker.count(&budget("a"), tokens(1), true, &left(40, true));
        assert_eq!(tracker.reports(at_ms(2_000), period, |_| Some(MicroTokens(1))).len(), 1, "runs low");
        for n in 3..40 {
            tracker.reports(at_ms(n * 1_000), period, |_| Some(tokens(2)));
        }
        assert!(tracker.budgets.is_empty());
        tracker.count(&budget("a"), MicroTokens::ZERO, true, &left(0, true));
        assert!(tracker.budgets.is_empty(), "a look is no demand");
    }

    #[test]
    fn many_subjects_do_not_make_a_heartbeat_too_large() {
        let mut tracker = DemandTracker::default();
        for n in 0..MOST_REPORTS as u64 + 500 {
            tracker.count(&budget(&n.to_string()), tokens(1 + n % 7), true, &left(0, true));
        }
        let reports = tracker.reports(at_ms(1_000), |_| Some(Duration::from_secs(1)), |_| Some(MicroTokens(1)));
        assert_eq!(reports.len(), MOST_REPORTS);
        assert_eq!(reports[0].demand, tokens(7));
    }
}
