//! One request, decided: attributes → matched policies → the region's store → verdict.
//!
//! Nothing on this way waits for the coordinator. Front doors translate; this decides.

use crate::http::Decider;
use crate::region::{Basis, Region};
use quorate_limiter::decision::{Decision, LimitDecision, Question, Reply};
use quorate_limiter::demand::wait_for_large;
use quorate_limiter::matching::Matched;
use quorate_shared::api::{AgentStatus, DecisionMode};
use quorate_shared::heartbeat::{Number, PoliciesInForce};
use quorate_shared::names::PolicyName;
use quorate_shared::policy::{Limit, OnStoreFailure};
use quorate_shared::units::MicroTokens;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// What is known of the request.
    pub attributes: BTreeMap<String, String>,
    /// What it takes of every matching policy; `None`: as each policy says; zero only looks.
    pub cost: Option<MicroTokens>,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// True if the request may go on.
    pub allowed: bool,
    /// One for each policy that matched, in the order of the policy set.
    pub limits: Vec<PolicyDecision>,
}

/// One policy's part of a verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyDecision {
    /// Its name.
    pub policy: PolicyName,
    /// The whole limit, over all regions.
    pub limit: Limit,
    /// What the request takes of it.
    pub cost: MicroTokens,
    /// The largest cost that this region could ever hold, with all that others may lend.
    pub reach: MicroTokens,
    /// False: the policy only observes this subject.
    pub enforced: bool,
    /// On what the decision rests.
    pub mode: DecisionMode,
    /// What the region's bucket said; `None` if it could not be asked ([`DecisionMode::Open`]).
    pub decision: Option<LimitDecision>,
}

impl PolicyDecision {
    /// True if this policy is a reason to refuse.
    pub fn refuses(&self) -> bool {
        self.enforced && self.decision.is_some_and(|d| !d.fits)
    }

    /// True if the request costs more than could ever be held here, so that there is nothing to wait for.
    pub fn never_fits(&self) -> bool {
        self.cost > self.reach
    }

    /// Until the same request would fit. Where the region's present share cannot hold it, capacity
    /// has to come from elsewhere, and at least `heartbeat` has to pass.
    pub fn wait(&self, heartbeat: Duration) -> Duration {
        let known = self.decision.and_then(|d| d.retry_after);
        known.unwrap_or_else(|| wait_for_large(self.limit, self.cost).max(heartbeat))
    }
}

/// Why there is no verdict.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// No policy set has reached this agent yet, so nobody can say what is limited: a region
    /// without policies has a floor of nothing (R7).
    #[error("no policies have reached this agent yet")]
    NoPolicies,
    /// The region's store could not be asked, and these policies are closed then.
    #[error("the region's store cannot be asked: {reason}")]
    StoreUnavailable {
        /// The policies that refuse without a store.
        policies: Vec<PolicyName>,
        /// When to try again.
        retry_after: Duration,
        /// What the store client said.
        reason: String,
    },
}

/// How often a question is put anew because the lease or the policies changed under it.
const ATTEMPTS: usize = 4;

/// How much later than the store this agent may know that a response is in force.
const HEARS: Duration = Duration::from_millis(50);

/// When to try again after the store could not be asked.
const STORE_RETRY: Duration = Duration::from_secs(1);

impl Decider for Region {
    async fn decide(&self, request: &Request) -> Result<Verdict, DecideError> {
        let begun = Instant::now();
        let outcome = Region::decide(self, request).await;
        self.metrics.decision(&outcome, begun.elapsed());
        outcome
    }

    fn status(&self) -> AgentStatus {
        Region::status(self)
    }

    fn ready(&self) -> Result<(), String> {
        Region::ready(self)
    }
}

impl Region {
    /// Decides one request.
    ///
    /// # Errors
    /// If the region's store cannot be asked and a matching policy is closed then, or no policies
    /// are known yet.
    pub async fn decide(&self, request: &Request) -> Result<Verdict, DecideError> {
        let mut without_lease = false;
        let mut failure = String::from("the lease kept changing");
        let mut last = Vec::new();
        for attempt in 1..=ATTEMPTS {
            let Some(basis) = self.basis() else {
                failure = "no session with the store yet".into();
                break;
            };
            if basis.table.in_force().active == 0 {
                return Err(DecideError::NoPolicies);
            }
            let matched =
                basis.table.matches(|name| request.attributes.get(name).map(String::as_str), request.attributes.len(), request.cost);
            if matched.is_empty() {
                return Ok(Verdict { allowed: true, limits: Vec::new() });
            }
            let question = question(&basis, &matched, without_lease);
            last = matched;
            match self.store.decide(&question).await {
                Ok(Reply::Decided(decision)) if self.counts(&basis, &question, &decision) => {
                    return Ok(self.conclude(&question, last, decision));
                }
                // the next basis knows what has ended; the last attempt uses nothing that can end
                Ok(Reply::Decided(_)) => without_lease |= attempt + 1 >= ATTEMPTS,
                Ok(Reply::OtherLease(newest)) => without_lease |= !self.hears_of(newest).await,
                Ok(Reply::OtherPolicies(in_force)) => {
                    without_lease = true;
                    self.go_by(in_force);
                }
                Ok(Reply::NoRecord) => match self.open_session(Some(basis.session)).await {
                    Ok(()) => self.eager.notify_one(),
                    Err(e) => {
                        failure = e.to_string();
                        break;
                    }
                },
                Err(e) => {
                    self.metrics.store_error(&e);
                    failure = e.to_string();
                    break;
                }
            }
        }
        without_store(last, failure)
    }

    /// R8: an admission that used a leased part counts only if the answer came before `D` and `D_j`. What
    /// was charged for one that does not count stays charged.
    fn counts(&self, basis: &Basis, question: &Question, decision: &Decision) -> bool {
        let used_lease = question.view.leased && decision.limits.iter().any(|l| l.used_lease);
        !(decision.allowed && used_lease) || self.clock.now() < basis.horizon
    }

    /// The store was ahead of the book. While this agent applies a response that is a matter of
    /// one answer of the store, and no reason to leave the lease. True once the book dates the
    /// lease by that response too; false if another agent applied it.
    async fn hears_of(&self, newest: Number) -> bool {
        let mut dated = self.dated.subscribe();
        let known = tokio::time::timeout(HEARS, dated.wait_for(|number| *number >= newest)).await;
        matches!(known, Ok(Ok(_)))
    }

    /// A response is being applied: its policies are in force in the store already.
    fn go_by(&self, in_force: PoliciesInForce) {
        let mut state = self.state.lock();
        if let Some(upcoming) = state.upcoming.clone()
            && upcoming.in_force() == in_force
        {
            state.table = upcoming;
        }
    }

    fn conclude(&self, question: &Question, matched: Vec<Matched>, decision: Decision) -> Verdict {
        let mode = if question.view.leased { DecisionMode::Leased } else { DecisionMode::Floor };
        let now = self.clock.now();
        let mut hurried = false;
        let mut state = self.state.lock();
        for (charge, limit) in question.charges.iter().zip(&decision.limits) {
            let admitted = decision.allowed && (limit.fits || !charge.enforced);
            hurried |= state.demand.count(now, charge, admitted, limit);
        }
        drop(state);
        if hurried {
            self.eager.notify_one();
        }
        let limits = matched.into_iter().zip(decision.limits).map(|(m, d)| policy_decision(m, mode, Some(d))).collect();
        Verdict { allowed: decision.allowed, limits }
    }
}

fn question(basis: &Basis, matched: &[Matched], without_lease: bool) -> Question {
    let mut view = basis.view.clone();
    if without_lease {
        (view.leased, view.whole_floor) = (false, false);
    }
    view.policies = basis.table.in_force();
    Question { view, drift: basis.drift, charges: matched.iter().map(|m| m.charge.clone()).collect() }
}

fn policy_decision(matched: Matched, mode: DecisionMode, decision: Option<LimitDecision>) -> PolicyDecision {
    let Matched { policy, charge, reach, .. } = matched;
    PolicyDecision { policy, limit: charge.limit, cost: charge.cost, reach, enforced: charge.enforced, mode, decision }
}

/// The answer while the store cannot be asked: open policies let pass, any other does not.
fn without_store(matched: Vec<Matched>, reason: String) -> Result<Verdict, DecideError> {
    let is_open = |m: &Matched| m.on_store_failure == OnStoreFailure::Open || !m.charge.enforced;
    let policies: Vec<PolicyName> = matched.iter().filter(|m| !is_open(m)).map(|m| m.policy.clone()).collect();
    if matched.is_empty() || !policies.is_empty() {
        return Err(DecideError::StoreUnavailable { policies, retry_after: STORE_RETRY, reason });
    }
    let limits = matched.into_iter().map(|m| policy_decision(m, DecisionMode::Open, None)).collect();
    Ok(Verdict { allowed: true, limits })
}
