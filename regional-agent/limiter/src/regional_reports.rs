//! The reports of all agents of a region, as one: what a heartbeat says is the region's, whoever sends it.
//!
//! Each agent counts what it admitted since the session began, and forgets budgets that are idle. So that
//! nothing is counted twice, and nothing that was counted is taken back, the sums are made of differences.

use crate::election::AgentId;
use quorate_shared::heartbeat::{MOST_REPORTS, Parts, Report};
use quorate_shared::names::BudgetId;
use quorate_shared::units::MicroTokens;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How many agents that have gone are remembered, should they come back with what they counted.
const MOST_GONE: usize = 64;

/// What one agent has to report, as it writes it down for the one that renews.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Since when it counts.
    pub session: u64,
    /// What it saw.
    pub reports: Vec<Report>,
    /// What gateways spend by themselves of what it drew.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Parts>,
}

/// Counts since a session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    admitted: MicroTokens,
    refused: MicroTokens,
    estimated: MicroTokens,
}

impl Totals {
    fn of(report: &Report) -> Self {
        Self { admitted: report.admitted, refused: report.refused, estimated: report.estimated }
    }

    /// What was counted since `before`; all of it, if the agent has begun anew in between.
    fn since(self, before: Self) -> Self {
        if self.admitted < before.admitted || self.refused < before.refused {
            return self;
        }
        Self {
            admitted: self.admitted.saturating_sub(before.admitted),
            refused: self.refused.saturating_sub(before.refused),
            estimated: self.estimated.saturating_sub(before.estimated),
        }
    }

    fn and(self, more: Self) -> Self {
        let admitted = self.admitted.saturating_add(more.admitted);
        let estimated = self.estimated.saturating_add(more.estimated).min(admitted);
        Self { admitted, refused: self.refused.saturating_add(more.refused), estimated }
    }
}

/// One agent's part of a heartbeat.
#[derive(Clone, Debug)]
pub struct Part {
    /// Whose.
    pub agent: AgentId,
    /// False of one that has gone: it wants nothing any more.
    pub lives: bool,
    /// What it counted in the session.
    pub reports: Vec<Report>,
}

/// The sums of one session.
#[derive(Clone, Debug, Default)]
pub struct RegionalReports {
    session: u64,
    counted: BTreeMap<AgentId, BTreeMap<BudgetId, Totals>>,
    sums: BTreeMap<BudgetId, Totals>,
}

impl RegionalReports {
    /// True if nothing was summed up in this session, so that an agent that is alone speaks for itself.
    pub fn is_empty(&self, session: u64) -> bool {
        self.session != session || self.counted.is_empty()
    }

    /// What the region reports in `session`, of these parts.
    pub fn merge(&mut self, session: u64, parts: Vec<Part>) -> Vec<Report> {
        if self.session != session {
            *self = Self { session, ..Self::default() };
        }
        let mut wanted: BTreeMap<BudgetId, Report> = BTreeMap::new();
        let present: BTreeSet<AgentId> = parts.iter().map(|part| part.agent).collect();
        for part in parts {
            for report in &part.reports {
                self.count(part.agent, report);
                let sum = wanted.entry(report.budget.clone()).or_insert_with(|| Report {
                    demand: MicroTokens::ZERO,
                    largest: MicroTokens::ZERO,
                    ..report.clone()
                });
                if part.lives {
                    sum.demand = sum.demand.saturating_add(report.demand);
                    sum.largest = sum.largest.max(report.largest);
                }
            }
            let reported: BTreeSet<&BudgetId> = part.reports.iter().map(|report| &report.budget).collect();
            if let Some(counted) = self.counted.get_mut(&part.agent) {
                counted.retain(|budget, _| reported.contains(budget));
            }
        }
        self.sums.retain(|budget, _| wanted.contains_key(budget));
        self.forget_gone(&present);
        let mut reports: Vec<Report> = wanted.into_values().map(|report| self.summed(report)).collect();
        if reports.len() > MOST_REPORTS {
            reports.sort_by(|a, b| b.demand.cmp(&a.demand).then_with(|| a.budget.cmp(&b.budget)));
            reports.truncate(MOST_REPORTS);
        }
        reports
    }

    fn count(&mut self, agent: AgentId, report: &Report) {
        let now = Totals::of(report);
        let before = self.counted.entry(agent).or_default().insert(report.budget.clone(), now).unwrap_or_default();
        let sum = self.sums.entry(report.budget.clone()).or_default();
        *sum = sum.and(now.since(before));
    }

    fn summed(&self, report: Report) -> Report {
        let Totals { admitted, refused, estimated } = self.sums.get(&report.budget).copied().unwrap_or_default();
        Report { admitted, refused, estimated, ..report }
    }

    fn forget_gone(&mut self, present: &BTreeSet<AgentId>) {
        let gone: Vec<AgentId> = self.counted.keys().filter(|agent| !present.contains(agent)).copied().collect();
        for agent in gone.iter().take(gone.len().saturating_sub(MOST_GONE)) {
            self.counted.remove(agent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::names::{SubjectHash, SubjectKey};

    fn report(subject: &str, demand: u64, admitted: u64) -> Report {
        let policy = "write".parse().expect("a name");
        let subject = SubjectHash::of(&SubjectKey::new([0; 32]), &policy, [subject]);
        Report {
            budget: BudgetId { policy, generation: 1, subject },
            demand: MicroTokens(demand),
            admitted: MicroTokens(admitted),
            refused: MicroTokens(admitted / 2),
            estimated: MicroTokens::ZERO,
            largest: MicroTokens(demand),
        }
    }

    fn part(agent: u64, lives: bool, reports: &[Report]) -> Part {
        Part { agent: AgentId(agent), lives, reports: reports.to_vec() }
    }

    fn of(reports: &[Report]) -> Vec<(u64, u64)> {
        reports.iter().map(|report| (report.demand.0, report.admitted.0)).collect()
    }

    #[test]
    fn demand_and_counts_of_all_agents_add_up() {
        let mut region = RegionalReports::default();
        let merged = region.merge(1, vec![part(1, true, &[report("a", 10, 100)]), part(2, true, &[report("a", 5, 40)])]);
        assert_eq!(of(&merged), [(15, 140)]);
        assert_eq!((merged[0].refused.0, merged[0].largest.0), (70, 10));
        let merged = region.merge(1, vec![part(1, true, &[report("a", 10, 110)]), part(2, true, &[report("a", 5, 40)])]);
        assert_eq!(of(&merged), [(15, 150)]);
    }

    #[test]
    fn an_agent_that_has_gone_wants_nothing_and_what_it_counted_stays_counted_once() {
        let mut region = RegionalReports::default();
        let own = |admitted| part(1, true, &[report("a", 10, admitted)]);
        region.merge(1, vec![own(100), part(2, true, &[report("a", 5, 40)])]);
        assert_eq!(of(&region.merge(1, vec![own(100), part(2, false, &[report("a", 5, 45)])])), [(10, 145)]);
        assert_eq!(of(&region.merge(1, vec![own(100)])), [(10, 145)]);
        // it was only held up
        assert_eq!(of(&region.merge(1, vec![own(100), part(2, true, &[report("a", 5, 50)])])), [(15, 150)]);
    }

    #[test]
    fn an_agent_that_forgot_an_idle_budget_takes_nothing_back() {
        let mut region = RegionalReports::default();
        let own = |admitted| part(1, true, &[report("a", 10, admitted)]);
        region.merge(1, vec![own(100), part(2, true, &[report("a", 5, 40)])]);
        assert_eq!(of(&region.merge(1, vec![own(110), part(2, true, &[])])), [(10, 150)]);
        assert_eq!(of(&region.merge(1, vec![own(110), part(2, true, &[report("a", 5, 7)])])), [(15, 157)], "it counts anew");
    }

    #[test]
    fn a_session_counts_anew() {
        let mut region = RegionalReports::default();
        region.merge(1, vec![part(1, true, &[report("a", 10, 100)]), part(2, true, &[report("a", 5, 40)])]);
        assert!(!region.is_empty(1) && region.is_empty(2));
        assert_eq!(of(&region.merge(2, vec![part(2, true, &[report("a", 5, 3)])])), [(5, 3)]);
    }

    #[test]
    fn agents_that_come_and_go_leave_no_trace_for_ever() {
        let mut region = RegionalReports::default();
        for agent in 0..10_000 {
            region.merge(1, vec![part(agent, true, &[report(&agent.to_string(), 5, 3)])]);
        }
        assert!(region.counted.len() <= MOST_GONE + 1 && region.sums.len() == 1);
    }
}
