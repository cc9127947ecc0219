//! Decisions by what is set aside for this agent: where the store alone would refuse, and where it cannot be asked.

use crate::decide::{PolicyDecision, Request, Verdict, policy_decision, takes_slots};
use crate::region::{Basis, Region};
use crate::store::keep::{Keep, Said};
use quorate_limiter::decision::{Charge, Decision, LimitDecision, Question, Reply};
use quorate_limiter::matching::Matched;
use quorate_shared::api::DecisionMode;
use quorate_shared::policy::OnStoreFailure;
use quorate_shared::units::Capacity;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A decision of the store, with what was taken of what is set aside.
pub(crate) struct ToppedUp {
    pub decision: Decision,
    /// For each limit, whether it was taken there.
    aside: Vec<bool>,
}

impl ToppedUp {
    /// What the store decided, and nothing else.
    pub fn nothing(decision: Decision) -> Self {
        let aside = vec![false; decision.limits.len()];
        Self { decision, aside }
    }

    /// Says in the answer what was taken where.
    pub fn mark(&self, mut verdict: Verdict) -> Verdict {
        let aside = verdict.limits.iter_mut().zip(&self.aside).filter(|(_, aside)| **aside);
        aside.for_each(|(limit, _)| limit.mode = DecisionMode::Emergency);
        verdict
    }
}

impl Region {
    /// The store refuses: what it lacks is taken of what is set aside, if that holds all of it, and the store is asked for
    /// the rest. Given back if it refuses still.
    pub(crate) async fn top_up(&self, basis: &Basis, question: &Question, refused: Decision, keep: &Keep, until: Instant) -> ToppedUp {
        let lacking: Vec<bool> =
            question.charges.iter().zip(&refused.limits).map(|(charge, limit)| charge.enforced && !limit.fits).collect();
        // the store remembers what it said to an attempt, and would not know of a part of an estimate
        if refused.allowed || keep.attempt.is_some() || keep.beside.hold.is_some() {
            return self.with_aside(question, ToppedUp::nothing(refused));
        }
        let chosen =
            |of: bool| question.charges.iter().zip(&lacking).filter(move |(_, lacks)| **lacks == of).map(|(charge, _)| charge.clone());
        let Some((aside, taken)) = self.decide_aside(&chosen(true).collect::<Vec<Charge>>(), true) else {
            return self.with_aside(question, ToppedUp::nothing(refused));
        };
        let rest = Question { charges: chosen(false).collect(), ..question.clone() };
        let decided = if aside.allowed { self.decide_rest(basis, &rest, keep, until).await } else { None };
        let Some(decided) = decided else {
            if aside.allowed {
                self.give_back_aside(taken);
            }
            let soonest = soonest(refused, &lacking, &aside);
            return self.with_aside(question, ToppedUp::nothing(soonest));
        };
        self.keep_aside(taken);
        let (mut of_aside, mut of_store) = (aside.limits.into_iter(), decided.limits.into_iter());
        let both = refused.limits.iter().zip(&lacking).filter_map(|(before, lacks)| match lacks {
            true => of_aside.next().map(|limit| together(*before, limit)),
            false => of_store.next(),
        });
        let decision = Decision { allowed: true, limits: both.collect() };
        let ToppedUp { decision, .. } = self.with_aside_but(question, ToppedUp::nothing(decision), &lacking);
        ToppedUp { decision, aside: lacking }
    }

    /// `None` if the store does not admit the rest, or does not say so.
    async fn decide_rest(&self, basis: &Basis, rest: &Question, keep: &Keep, until: Instant) -> Option<Decision> {
        if rest.charges.is_empty() {
            return Some(Decision { allowed: true, limits: Vec::new() });
        }
        match self.store.decide(rest, keep, until).await {
            // what used a lease that has ended meanwhile does not count, and stays charged
            Ok((Said::First { reply: Reply::Decided(decision), .. }, _)) => {
                (decision.allowed && self.counts(basis, rest, &decision)).then_some(decision)
            }
            _ => None,
        }
    }

    /// What remains, here and in the store.
    fn with_aside(&self, question: &Question, topped_up: ToppedUp) -> ToppedUp {
        let none = vec![false; question.charges.len()];
        self.with_aside_but(question, topped_up, &none)
    }

    fn with_aside_but(&self, question: &Question, mut topped_up: ToppedUp, known: &[bool]) -> ToppedUp {
        for ((charge, limit), known) in question.charges.iter().zip(&mut topped_up.decision.limits).zip(known) {
            if let (false, Some(aside)) = (known, self.look_aside(charge)) {
                *limit = LimitDecision { fits: limit.fits, retry_after: limit.retry_after, ..together(*limit, aside) };
            }
        }
        topped_up
    }

    /// The answer to a request that met these policies while the store cannot be asked, if what is set aside for
    /// this agent decides it: each policy asks for that, but those that let pass.
    pub(crate) fn by_itself(&self, request: &Request, matched: &[Matched], lets_pass: impl Fn(&Matched) -> bool) -> Option<Verdict> {
        let charged = |m: &&Matched| !lets_pass(m);
        let closed = matched.iter().filter(charged).any(|m| m.on_store_failure == OnStoreFailure::Closed || takes_slots(&m.charge));
        let charges: Vec<Charge> = matched.iter().filter(charged).map(|m| m.charge.clone()).collect();
        if closed || charges.is_empty() || request.reserve.is_some() {
            return None;
        }
        let (decision, _) = self.decide_aside(&charges, false)?;
        // what a seat can never hold the store might admit
        if !decision.allowed && decision.limits.iter().any(|limit| !limit.fits && limit.retry_after.is_none()) {
            return None;
        }
        self.note_by_itself(&charges, &decision);
        let mut limits = decision.limits.into_iter();
        let answer = |m: &Matched| match lets_pass(m) {
            true => policy_decision(m.clone(), DecisionMode::Open, None),
            false => policy_decision(m.clone(), DecisionMode::Emergency, limits.next()),
        };
        let limits: Vec<PolicyDecision> = matched.iter().map(answer).collect();
        Some(Verdict { allowed: decision.allowed, limits, reservation: None, slot: None })
    }

    pub(crate) fn note_by_itself(&self, charges: &[Charge], decision: &Decision) {
        if !self.spends_by_itself.swap(true, Ordering::Relaxed) {
            self.metrics.spends_by_itself();
            tracing::warn!(region = %self.name, "the store cannot be asked: this agent spends what was set aside for it");
        }
        let now = self.clock.now();
        let mut state = self.state.lock();
        for (charge, limit) in charges.iter().zip(&decision.limits).filter(|_| decision.allowed) {
            state.demand.count(now, charge, true, limit);
        }
    }

    /// The store decides.
    pub(crate) fn note_by_store(&self) {
        if self.spends_by_itself.load(Ordering::Relaxed) && self.spends_by_itself.swap(false, Ordering::Relaxed) {
            tracing::info!(region = %self.name, "the store decides again");
        }
    }
}

/// What a limit that the store refused comes to with what was set aside. No request takes of both, so what one may take is
/// the greater of them.
fn together(store: LimitDecision, aside: LimitDecision) -> LimitDecision {
    let rate = store.capacity.plus(aside.capacity).rate;
    LimitDecision {
        fits: aside.fits,
        capacity: Capacity::new(rate, store.capacity.burst.max(aside.capacity.burst)),
        remaining: store.remaining.max(aside.remaining),
        retry_after: aside.retry_after,
        reset_after: longest(store.reset_after, aside.reset_after),
        used_lease: store.used_lease,
    }
}

/// `None` is never.
fn longest(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    a.zip(b).map(|(a, b)| a.max(b))
}

/// The refusal, with a wait that ends as soon as either would admit it.
fn soonest(mut refused: Decision, lacking: &[bool], aside: &Decision) -> Decision {
    let lacking = refused.limits.iter_mut().zip(lacking).filter(|(_, lacks)| **lacks);
    for ((limit, _), aside) in lacking.zip(&aside.limits) {
        limit.retry_after = match (limit.retry_after, aside.retry_after.filter(|_| !aside.fits)) {
            (Some(store), Some(aside)) => Some(store.min(aside)),
            (store, aside) => store.or(aside),
        };
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::units::MicroTokens;

    fn limit(fits: bool, tokens: u64, retry: Option<u64>) -> LimitDecision {
        let amount = MicroTokens(tokens * 1_000_000);
        let retry_after = retry.map(Duration::from_secs);
        let reset_after = Some(Duration::from_secs(tokens));
        LimitDecision { fits, capacity: Capacity::new(amount, amount), remaining: amount, retry_after, reset_after, used_lease: false }
    }

    fn tokens(n: u64) -> MicroTokens {
        MicroTokens(n * 1_000_000)
    }

    #[test]
    fn what_one_request_may_take_is_here_or_in_the_store() {
        let both = together(limit(false, 30, Some(2)), limit(true, 5, None));
        assert_eq!((both.fits, both.remaining.tokens_floor(), both.capacity), (true, 30, Capacity::new(tokens(35), tokens(30))));
        assert_eq!((both.retry_after, both.reset_after), (None, Some(Duration::from_secs(30))));
    }

    #[test]
    fn a_refusal_is_over_as_soon_as_either_admits() {
        let waits = |store, aside| {
            let refused = Decision { allowed: false, limits: vec![limit(true, 9, None), limit(false, 0, store)] };
            let aside = Decision { allowed: false, limits: vec![limit(false, 0, aside)] };
            soonest(refused, &[false, true], &aside).limits.into_iter().map(|l| l.retry_after.map(|r| r.as_secs())).collect::<Vec<_>>()
        };
        assert_eq!([waits(Some(9), Some(2)), waits(Some(1), Some(2))], [[None, Some(2)], [None, Some(1)]]);
        assert_eq!([waits(None, Some(2)), waits(Some(9), None)], [[None, Some(2)], [None, Some(9)]]);
    }
}
