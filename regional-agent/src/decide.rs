//! One request, decided: attributes → matched policies → the region's store → verdict.
//!
//! Nothing on this way waits for the coordinator. Front doors translate; this decides.

use crate::holds::new_id;
use crate::http::Decider;
use crate::region::{Basis, Region};
use crate::store::StoreError;
use crate::store::keep::{Again, Attempt, Keep, Said};
use quorate_limiter::decision::{Charge, Decision, LimitDecision, Question, Reply};
use quorate_limiter::demand::{wait_for_large, wait_for_more};
use quorate_limiter::hold::{Beside, HoldId, NewHold, Settled};
use quorate_limiter::matching::descriptors::{Descriptor, MetBy, OtherUnit};
use quorate_limiter::matching::{Matched, PolicyTable};
use quorate_limiter::quota;
use quorate_shared::api::{AgentStatus, DecisionMode};
use quorate_shared::heartbeat::{Number, PoliciesInForce};
use quorate_shared::names::PolicyName;
use quorate_shared::policy::{Limit, Shape};
use quorate_shared::units::MicroTokens;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tracing::field::Empty;
use tracing::{Instrument, info_span};

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// What is known of the request.
    pub attributes: BTreeMap<String, String>,
    /// What it takes of every matching policy; `None`: as each policy says; zero only looks.
    pub cost: Option<MicroTokens>,
    /// The cost is an estimate, to be settled within this time.
    pub reserve: Option<Duration>,
    /// Names the attempt, so that it is charged once in the region, however often it is made.
    pub attempt: Option<Attempt>,
    /// Of a request that is several things at once. Where there are any, they take the place of `attributes` and
    /// `cost`: each meets policies by itself, and all of them are charged or none.
    pub descriptors: Vec<Descriptor>,
}

impl Request {
    /// True if nothing is to be taken.
    fn only_looks(&self) -> bool {
        let looks = |cost| cost == Some(MicroTokens::ZERO);
        match self.descriptors.as_slice() {
            [] => looks(self.cost),
            descriptors => descriptors.iter().all(|descriptor| looks(descriptor.cost)),
        }
    }

    /// The policies that it meets.
    fn meets(&self, table: &PolicyTable) -> Result<Vec<Matched>, OtherUnit> {
        match self.descriptors.as_slice() {
            [] => Ok(table.matches(|name| self.attributes.get(name).map(String::as_str), self.attributes.len(), self.cost)),
            descriptors => table.met_by(descriptors),
        }
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// True if the request may go on.
    pub allowed: bool,
    /// One for each policy that matched, in the order of the policy set.
    pub limits: Vec<PolicyDecision>,
    /// By what an estimate is settled, if one was to be reserved and the request may go on.
    pub reservation: Option<HoldId>,
    /// By what the slots that were taken are given back, if any were.
    pub slot: Option<HoldId>,
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
    /// Which descriptors of the request met it.
    pub met_by: MetBy,
}

/// The limit that a request which is refused has to wait for longest, and how long; of equal ones the first.
pub fn longest_wait(limits: &[PolicyDecision], heartbeat: Duration) -> Option<(&PolicyDecision, Duration)> {
    let waits = limits.iter().filter(|limit| limit.refuses()).map(|limit| (limit, limit.wait(heartbeat)));
    // of equal ones the last is taken
    waits.rev().max_by_key(|(_, wait)| *wait)
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
        let known = self.decision.filter(|d| !self.may_be_granted_more(d)).and_then(|d| d.retry_after);
        let more = || match &self.decision {
            Some(decision) => wait_for_more(self.limit, self.cost, self.reach, decision),
            None => wait_for_large(self.limit, self.cost),
        };
        known.unwrap_or_else(|| more().max(heartbeat))
    }

    /// True of a window of which the region may get more units before it ends.
    fn may_be_granted_more(&self, decision: &LimitDecision) -> bool {
        self.limit.shape() == Shape::Allowance && decision.capacity.burst < self.reach
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
    /// A descriptor brings a limit along that cannot be that of a policy which it meets.
    #[error(transparent)]
    OtherUnit(#[from] OtherUnit),
    /// The attempt's id is that of another request.
    #[error("the request id was used for another request")]
    OtherContent,
    /// A reservation is not settled at so much.
    #[error("a true cost beyond {most}")]
    BeyondSettlement {
        /// At most.
        most: MicroTokens,
    },
}

/// How often a question is put anew because the lease or the policies changed under it.
const ATTEMPTS: usize = 4;

/// How much later than the store this agent may know that a response is in force.
const HEARS: Duration = Duration::from_millis(50);

/// When to try again after the store could not be asked.
pub(crate) const STORE_RETRY: Duration = Duration::from_secs(1);

impl Decider for Region {
    async fn decide(&self, request: &Request) -> Result<Verdict, DecideError> {
        let begun = Instant::now();
        let span = info_span!(target: quorate_traces::TARGET, "decide", quorate.region = %self.name(), quorate.decision = Empty);
        let outcome = Region::decide(self, request).instrument(span.clone()).await;
        span.record("quorate.decision", word_of(&outcome));
        self.metrics.decision(&outcome, begun.elapsed());
        outcome
    }

    async fn settle(&self, reservation: HoldId, cost: MicroTokens) -> Result<Option<Settled>, DecideError> {
        Region::settle(self, reservation, cost).await
    }

    async fn release(&self, slot: HoldId) -> Result<bool, DecideError> {
        Region::release(self, slot).await
    }

    async fn holds(&self, slot: HoldId, attempt: &Attempt) -> bool {
        // of a store that does not say it is found out by asking it to decide
        self.store.holds(slot, attempt).await.unwrap_or(false)
    }

    fn may_assign(&self, limits: &[PolicyDecision]) -> bool {
        let now = self.clock.now();
        let enforced = limits.iter().filter(|limit| limit.enforced);
        let most = enforced.filter_map(|limit| Some((&limit.policy, quota::refilled_beside(limit.limit)?)));
        let known = {
            let announcements = &mut self.state.lock().announcements;
            most.fold(true, |all, (policy, most)| announcements.may_assign(now, policy, most) && all)
        };
        if !known {
            self.urge();
        }
        known
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
    /// If the region's store cannot be asked and a matching policy is closed then, no policies are known yet,
    /// or the request's id is that of another one.
    pub async fn decide(&self, request: &Request) -> Result<Verdict, DecideError> {
        let until = Instant::now() + self.store.budget();
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
            let matched = request.meets(&basis.table)?;
            if matched.is_empty() {
                return Ok(uncharged(request, Vec::new()));
            }
            let question = question(&basis, &matched, without_lease);
            // drawn anew each time: what was charged for an answer that does not count stays charged
            let keep = keep_of(request, &question)?;
            last = matched;
            let span = info_span!(target: quorate_traces::TARGET, "store", quorate.limits = question.charges.len());
            let answer = self.store.decide(&question, &keep, until).instrument(span).await.map(|(said, sight)| {
                self.saw(sight, basis.asked);
                said
            });
            match answer {
                Ok(Said::First { reply: Reply::Decided(decision), remembered }) if self.counts(&basis, &question, &decision) => {
                    self.metrics.attempt(keep.attempt.is_some(), remembered);
                    self.note_by_store();
                    let topped_up = self.top_up(&basis, &question, decision, &keep, until).await;
                    let verdict = self.conclude(&question, last, topped_up.decision.clone(), &keep);
                    return Ok(topped_up.mark(verdict));
                }
                Ok(Said::Again(again)) if self.counts_again(&basis, &question, &again) => {
                    return Ok(self.repeat(&question, last, again, until).await);
                }
                // the next basis knows what has ended; the last attempt uses nothing that can end
                Ok(Said::First { reply: Reply::Decided(_), .. } | Said::Again(_)) => without_lease |= attempt + 1 >= ATTEMPTS,
                Ok(Said::OtherContent) => return Err(DecideError::OtherContent),
                Ok(Said::First { reply, .. }) => match self.learn(reply, basis.session, until).await {
                    Ok(knows) => without_lease |= !knows,
                    Err(e) => {
                        failure = e;
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
        self.without_store(request, last, failure)
    }

    /// Takes in why the store did not decide. True if it is worth asking again by the lease.
    async fn learn(&self, reply: Reply, session: u64, until: Instant) -> Result<bool, String> {
        match reply {
            Reply::OtherLease(newest) if self.follows() => Ok(self.catch_up(within(until), |state| state.knows_of(newest)).await),
            Reply::OtherLease(newest) => Ok(self.hears_of(newest, until).await),
            Reply::OtherPolicies(in_force) if self.follows() => {
                self.catch_up(within(until), |state| state.table.in_force() == in_force).await;
                Ok(false)
            }
            Reply::OtherPolicies(in_force) => {
                self.go_by(in_force);
                Ok(false)
            }
            // the agent that renews opens a session, or the next look makes this one do it
            Reply::NoRecord if self.follows() => Ok(self.catch_up(within(until), |state| state.book.is_some()).await),
            Reply::NoRecord => {
                self.eager.notify_one();
                // whoever gives up here leaves it to the next heartbeat
                let opened = tokio::time::timeout_at(until.into(), self.open_session(Some(session))).await;
                opened.unwrap_or(Err(StoreError::Timeout.into())).map_err(|e| e.to_string())?;
                Ok(true)
            }
            Reply::Decided(_) => Ok(true),
        }
    }

    /// R8: an admission that used a leased part counts only if the answer came before `D` and `D_j`, and one of a floor
    /// that ends by itself only if it came before that. What was charged for one that does not count stays charged.
    pub(crate) fn counts(&self, basis: &Basis, question: &Question, decision: &Decision) -> bool {
        let used_lease = question.view.leased && decision.limits.iter().any(|l| l.used_lease);
        let now = self.clock.now();
        !decision.allowed || (!used_lease || now < basis.horizon) && question.floors_hold(decision, now.since(basis.asked))
    }

    /// The same of an answer that is repeated: the store knows that its lease still stood when it was asked again.
    fn counts_again(&self, basis: &Basis, question: &Question, again: &Again) -> bool {
        let used_lease = again.decision.as_ref().is_none_or(|d| d.limits.iter().any(|l| l.used_lease));
        let now = self.clock.now();
        let all_hold = question.charges.iter().all(|c| question.view.floor_holds(c.floor_ttl, question.drift, now.since(basis.asked)));
        !again.allowed || all_hold && (!(used_lease && question.view.leased) || now < basis.horizon)
    }

    /// The first answer once more. Nothing was charged, so nothing is counted. If the policies have changed
    /// since, the verdict stands, and how the limits stand is looked up.
    async fn repeat(&self, question: &Question, matched: Vec<Matched>, again: Again, until: Instant) -> Verdict {
        let mode = mode_of(question);
        let limits = match again.decision {
            Some(decision) => decision.limits,
            None => self.look(question, until).await,
        };
        let limits = matched.into_iter().zip(limits).map(|(m, d)| policy_decision(m, mode, Some(d))).collect();
        Verdict { allowed: again.allowed, limits, reservation: again.hold, slot: again.slot }
    }

    /// How the limits of a question stand; nothing if the store does not say.
    async fn look(&self, question: &Question, until: Instant) -> Vec<LimitDecision> {
        let mut look = question.clone();
        for charge in &mut look.charges {
            charge.cost = MicroTokens::ZERO;
        }
        match self.store.decide(&look, &Keep::default(), until).await {
            Ok((Said::First { reply: Reply::Decided(decision), .. }, _)) => decision.limits,
            _ => Vec::new(),
        }
    }

    /// The store was ahead of the book. While this agent applies a response that is a matter of
    /// one answer of the store, and no reason to leave the lease. True once the book dates the
    /// lease by that response too; false if another agent applied it.
    async fn hears_of(&self, newest: Number, until: Instant) -> bool {
        let mut dated = self.dated.subscribe();
        let known = tokio::time::timeout(within(until), dated.wait_for(|number| *number >= newest)).await;
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

    fn conclude(&self, question: &Question, matched: Vec<Matched>, decision: Decision, keep: &Keep) -> Verdict {
        self.fallbacks.over();
        let mode = mode_of(question);
        let now = self.clock.now();
        let mut hurried = false;
        let mut state = self.state.lock();
        for (charge, limit) in question.charges.iter().zip(&decision.limits) {
            let admitted = decision.allowed && (limit.fits || !charge.enforced);
            state.hot.count(now, &charge.budget);
            hurried |= state.demand.count(now, charge, admitted, limit);
            if admitted && keep.beside.hold.is_some() {
                state.demand.note_estimate(charge);
            }
        }
        drop(state);
        let taken = question.charges.iter().zip(&decision.limits).any(|(charge, limit)| takes_slots(charge) && limit.fits);
        let slot = keep.beside.slot.filter(|_| decision.allowed && taken);
        if hurried {
            self.urge();
        }
        let limits = matched.into_iter().zip(decision.limits).map(|(m, d)| policy_decision(m, mode, Some(d))).collect();
        let reservation = keep.beside.hold.filter(|_| decision.allowed).map(|hold| hold.id);
        Verdict { allowed: decision.allowed, limits, reservation, slot }
    }
}

/// As long as an agent may wait until it knows what the store has in force: the other half is for asking once more,
/// by the floor if need be.
fn within(until: Instant) -> Duration {
    HEARS.min(until.saturating_duration_since(Instant::now()) / 2)
}

/// What the store is to keep beside the decision. Looking leaves no trace.
fn keep_of(request: &Request, question: &Question) -> Result<Keep, DecideError> {
    if request.only_looks() {
        return Ok(Keep::default());
    }
    let slot = question.charges.iter().any(takes_slots).then(new_id).transpose()?;
    let most = most_settled(question);
    let hold = request.reserve.map(|life| new_id().map(|id| NewHold { id, life, most })).transpose()?;
    Ok(Keep { beside: Beside { hold, slot }, attempt: request.attempt })
}

/// The greatest true cost of an estimate: what the least of the limits that are enforced can ever hold. More than that is a
/// mistake of whoever says so, more likely than not, and would be in the bound.
fn most_settled(question: &Question) -> MicroTokens {
    let limits = question.charges.iter().filter(|charge| charge.enforced && !takes_slots(charge));
    limits.map(|charge| charge.limit.capacity().burst.max(charge.cost)).min().unwrap_or(MicroTokens(u64::MAX))
}

/// What a span says of an outcome.
const fn word_of(outcome: &Result<Verdict, DecideError>) -> &'static str {
    match outcome {
        Ok(verdict) if verdict.allowed => "allow",
        Ok(_) => "refuse",
        Err(_) => "none",
    }
}

pub(crate) fn takes_slots(charge: &Charge) -> bool {
    matches!(charge.limit, Limit::Concurrency { .. }) && charge.cost > MicroTokens::ZERO
}

fn mode_of(question: &Question) -> DecisionMode {
    if question.view.leased { DecisionMode::Leased } else { DecisionMode::Floor }
}

/// The answer where nothing is charged: there is nothing to settle.
pub(crate) fn uncharged(request: &Request, limits: Vec<PolicyDecision>) -> Verdict {
    Verdict { allowed: true, limits, reservation: request.reserve.map(|_| HoldId::NOTHING), slot: None }
}

fn question(basis: &Basis, matched: &[Matched], without_lease: bool) -> Question {
    let mut view = basis.view.clone();
    if without_lease {
        (view.leased, view.whole_floor) = (false, false);
    }
    view.policies = basis.table.in_force();
    Question { view, drift: basis.drift, charges: matched.iter().map(|m| m.charge.clone()).collect() }
}

pub(crate) fn policy_decision(matched: Matched, mode: DecisionMode, decision: Option<LimitDecision>) -> PolicyDecision {
    let Matched { policy, charge, reach, met_by, .. } = matched;
    PolicyDecision { policy, limit: charge.limit, cost: charge.cost, reach, enforced: charge.enforced, mode, decision, met_by }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_what_the_store_knows_leaves_half_of_the_time_to_ask_it_again() {
        let now = Instant::now();
        let budget = Duration::from_millis(50);
        let longest = within(now + budget);
        assert!(longest <= budget / 2, "{longest:?}");
        assert_eq!((within(now), within(now + Duration::from_secs(3_600))), (Duration::ZERO, HEARS));
    }
}
