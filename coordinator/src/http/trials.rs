//! `GET /v1/policies/trials`: what the policies that do not refuse yet would refuse, by the demand of now.

use super::App;
use axum::Json;
use axum::extract::State;
use quorate_ledger::Ledger;
use quorate_shared::api::{BudgetShare, BudgetState, CapacityTokens};
use quorate_shared::policy::{Mode, Policy};
use quorate_shared::problem::Problem;
use serde::Serialize;
use std::sync::Arc;

/// All policies that observe, wholly or partly.
#[derive(Debug, Serialize)]
pub struct Trials {
    trials: Vec<Trial>,
}

/// One policy: its budgets that are only observed. What stays within its region's floor is not reported, and would not be
/// refused.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Trial {
    policy: String,
    /// `observe` or `canary 10%`.
    mode: String,
    /// The span that rates speak of.
    period_ms: u64,
    /// Budgets that somebody pushed beyond a floor.
    budgets: usize,
    /// Those of them of which something would be refused.
    would_refuse_of: usize,
    /// Tokens wanted of them in one period; of windows, of the newest one.
    wanted: f64,
    /// Tokens of those that no region may use.
    would_refuse: f64,
}

/// Sums over the budgets of each policy on trial.
#[utoipa::path(get, path = "/v1/policies/trials", tag = "policies", responses((status = 200, body = Object, description = "Of each policy that observes, what it would refuse."), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn show(State(app): State<Arc<App>>) -> Json<Trials> {
    Json(app.node.read(|ledger| {
        let policies = &ledger.active_policies().policies;
        let on_trial = policies.iter().filter(|policy| policy.mode != Mode::Enforce);
        Trials { trials: on_trial.map(|policy| trial(ledger, policy)).collect() }
    }))
}

fn trial(ledger: &Ledger, policy: &Policy) -> Trial {
    let observed = ledger.budgets(Some(&policy.name)).filter(|budget| !budget.enforced);
    let period_ms = u64::try_from(policy.limit.period().as_millis()).unwrap_or(u64::MAX);
    let begun = Trial { policy: policy.name.to_string(), mode: policy.mode.to_string(), period_ms, ..Trial::default() };
    observed.fold(begun, |trial, budget| trial.with(&budget))
}

impl Trial {
    fn with(self, budget: &BudgetState) -> Self {
        let flows = budget.limit.rate > 0.0;
        let usable = |CapacityTokens { rate, burst }| if flows { rate } else { burst };
        let beyond = |share: &BudgetShare| (share.demand - usable(share.offered)).max(0.0);
        let would_refuse: f64 = budget.regions.values().map(beyond).sum();
        Self {
            budgets: self.budgets + 1,
            would_refuse_of: self.would_refuse_of + usize::from(would_refuse > 0.0),
            wanted: self.wanted + budget.regions.values().map(|share| share.demand).sum::<f64>(),
            would_refuse: self.would_refuse + would_refuse,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_beyond_what_a_region_may_use_would_be_refused() {
        let capacity = |rate, burst| CapacityTokens { rate, burst };
        let share = |offered, demand| BudgetShare { offered, demand, ..BudgetShare::default() };
        let budget = |limit, shares: [BudgetShare; 2]| BudgetState {
            policy: "a".into(),
            subject: "0".into(),
            limit,
            limit_in_words: String::new(),
            period_ms: 1_000,
            mode: "observe".into(),
            enforced: false,
            floor_ttl_ms: None,
            regions: ["eu".to_owned(), "us".to_owned()].into_iter().zip(shares).collect(),
            windows: Vec::new(),
            alarm: None,
        };
        let flow = budget(capacity(100.0, 500.0), [share(capacity(60.0, 300.0), 90.0), share(capacity(40.0, 200.0), 30.0)]);
        let units = budget(capacity(0.0, 10.0), [share(capacity(0.0, 5.0), 5.0), share(capacity(0.0, 5.0), 0.0)]);
        let sum = Trial::default().with(&flow).with(&units);
        assert_eq!(sum, Trial { budgets: 2, would_refuse_of: 1, wanted: 125.0, would_refuse: 30.0, ..Trial::default() });
    }
}
