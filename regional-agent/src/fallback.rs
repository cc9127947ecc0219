//! What is answered while the region's store cannot be asked: as each policy says, and never silently.

use crate::decide::{DecideError, PolicyDecision, Request, STORE_RETRY, Verdict, policy_decision, uncharged};
use crate::region::Region;
use quorate_limiter::matching::Matched;
use quorate_shared::api::{DecisionMode, FallbackStatus};
use quorate_shared::names::PolicyName;
use quorate_shared::policy::OnStoreFailure;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long policies that are open let everything pass, if neither they nor the agent's configuration say so.
pub const OPEN_FOR: Duration = Duration::from_secs(60);

/// How a policy answers without the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// Everything passes, at most for so long from now; `None`: refusals are not enforced anyway.
    Open(Option<Duration>),
    /// What fits in what is set aside for this agent passes.
    Emergency,
    /// Nothing passes.
    Closed,
}

impl Fallback {
    /// As metrics and people name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open(_) => "open",
            Self::Emergency => "emergency",
            Self::Closed => "closed",
        }
    }
}

/// The rule of a region for answers without its store.
#[derive(Debug)]
pub struct Fallbacks {
    open_for: Duration,
    /// True once it was told that nothing is let pass any more.
    told: AtomicBool,
}

impl Fallbacks {
    /// Policies that are open, and do not say for how long, let pass for so long.
    pub const fn new(open_for: Duration) -> Self {
        Self { open_for, told: AtomicBool::new(false) }
    }

    /// How a policy answers by now, of a store that has failed for so long.
    ///
    /// Where it is closed because it asks for emergency, or is open no longer, what is set aside may decide.
    pub fn of(&self, asked: OnStoreFailure, enforced: bool, failing_for: Duration) -> Fallback {
        let span = match asked {
            _ if !enforced => return Fallback::Open(None),
            OnStoreFailure::Open => self.open_for,
            OnStoreFailure::OpenFor(span) => span,
            OnStoreFailure::Emergency | OnStoreFailure::Closed => Duration::ZERO,
        };
        let left = span.saturating_sub(failing_for);
        if left.is_zero() { Fallback::Closed } else { Fallback::Open(Some(left)) }
    }

    /// The store answers: the next failure begins anew.
    pub fn over(&self) {
        if self.told.load(Ordering::Relaxed) {
            self.told.store(false, Ordering::Relaxed);
        }
    }

    /// True the first time that a policy which is open lets nothing pass any more.
    fn has_closed(&self, asked: OnStoreFailure, answer: Fallback) -> bool {
        asked.opens() && answer == Fallback::Closed && !self.told.swap(true, Ordering::Relaxed)
    }
}

impl Region {
    /// The answer to a request that met these policies while the store cannot be asked, for a `reason`.
    pub(crate) fn without_store(&self, request: &Request, matched: Vec<Matched>, reason: String) -> Result<Verdict, DecideError> {
        let failing_for = self.store.failing_for().unwrap_or_default();
        let answer = |m: &Matched| self.fallbacks.of(m.on_store_failure, m.charge.enforced, failing_for);
        if let Some(verdict) = self.by_itself(request, &matched, |m| matches!(answer(m), Fallback::Open(_))) {
            for met in &matched {
                let given = answer(met);
                self.metrics.fallback(&met.policy, if given == Fallback::Closed { Fallback::Emergency } else { given });
            }
            return Ok(verdict);
        }
        let mut closed: Vec<PolicyName> = Vec::new();
        let mut open: Vec<PolicyDecision> = Vec::new();
        let none_matched = matched.is_empty();
        for met in matched {
            let answer = self.fallbacks.of(met.on_store_failure, met.charge.enforced, failing_for);
            self.metrics.fallback(&met.policy, answer);
            if self.fallbacks.has_closed(met.on_store_failure, answer) {
                let failing_s = failing_for.as_secs();
                tracing::warn!(region = %self.name, failing_s, "policies that are open without the store let nothing pass any more");
            }
            match answer {
                Fallback::Open(_) => open.push(policy_decision(met, DecisionMode::Open, None)),
                Fallback::Closed | Fallback::Emergency => closed.push(met.policy),
            }
        }
        if none_matched || !closed.is_empty() {
            return Err(DecideError::StoreUnavailable { policies: closed, retry_after: STORE_RETRY, reason });
        }
        Ok(uncharged(request, open))
    }
}

/// How each of these policies answers at present, of a store that has failed for so long; of those in `aside` something is
/// set aside for this agent.
pub(crate) fn present<'a>(
    fallbacks: &Fallbacks,
    policies: impl Iterator<Item = (&'a PolicyName, OnStoreFailure, bool)>,
    failing_for: Duration,
    aside: &BTreeSet<PolicyName>,
) -> Vec<FallbackStatus> {
    let status = |(policy, asked, enforced): (&PolicyName, OnStoreFailure, bool)| {
        let answer = match fallbacks.of(asked, enforced, failing_for) {
            Fallback::Closed if asked != OnStoreFailure::Closed && aside.contains(policy) => Fallback::Emergency,
            answer => answer,
        };
        let left = match answer {
            Fallback::Open(left) => left,
            Fallback::Closed | Fallback::Emergency => None,
        };
        let left_ms = left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        FallbackStatus { policy: policy.to_string(), answer: answer.name().to_owned(), left_ms }
    };
    policies.map(status).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use crate::metrics::Metrics;
    use crate::policy_shelf::PolicyShelf;
    use crate::store::Store;
    use quorate_limiter::decision::Charge;
    use quorate_limiter::matching::descriptors::MetBy;
    use quorate_shared::names::{BudgetId, SubjectHash, SubjectKey};
    use quorate_shared::policy::Limit;
    use quorate_shared::units::MicroTokens;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn open_is_for_a_time_and_whoever_only_observes_refuses_nobody() {
        let fallbacks = Fallbacks::new(10 * SECOND);
        let of = |asked, enforced, seconds| fallbacks.of(asked, enforced, seconds * SECOND);
        assert_eq!(of(OnStoreFailure::Open, true, 0), Fallback::Open(Some(10 * SECOND)));
        assert_eq!(of(OnStoreFailure::Open, true, 9), Fallback::Open(Some(SECOND)));
        assert_eq!(of(OnStoreFailure::Open, true, 10), Fallback::Closed);
        assert_eq!(of(OnStoreFailure::OpenFor(30 * SECOND), true, 29), Fallback::Open(Some(SECOND)), "as the policy says");
        assert_eq!(of(OnStoreFailure::OpenFor(3 * SECOND), true, 3), Fallback::Closed);
        for asked in [OnStoreFailure::Open, OnStoreFailure::Emergency, OnStoreFailure::Closed] {
            assert_eq!(of(asked, false, 3_600), Fallback::Open(None));
        }
        assert_eq!(of(OnStoreFailure::Emergency, true, 0), Fallback::Closed);
        assert_eq!(of(OnStoreFailure::Closed, true, 0), Fallback::Closed);
        assert_eq!(Fallbacks::new(Duration::ZERO).of(OnStoreFailure::Open, true, Duration::ZERO), Fallback::Closed);
    }

    fn met(policy: &str, asked: OnStoreFailure) -> Matched {
        let policy: PolicyName = policy.parse().expect("a name");
        let subject = SubjectHash::of(&SubjectKey::new([1; 32]), &policy, ["a"]);
        let limit = Limit::TokenBucket { rate: MicroTokens::TOKEN, period: SECOND, burst: MicroTokens::TOKEN };
        let charge = Charge {
            budget: BudgetId { policy: policy.clone(), generation: 1, subject },
            limit,
            floor: limit.capacity(),
            lendable: limit.capacity(),
            former_floors: vec![],
            floor_ttl: None,
            cost: MicroTokens::TOKEN,
            enforced: true,
        };
        Matched { policy, charge, reach: MicroTokens::TOKEN, on_store_failure: asked, met_by: MetBy::FIRST }
    }

    #[test]
    fn a_request_without_the_store_is_answered_as_its_policies_say_and_counted() {
        let (metrics, shelf) = (Metrics::new(), PolicyShelf::open(None).expect("nothing to read"));
        let region =
            Region::new("eu".parse().expect("a name"), "eu-1".into(), Identity::begin(None), Store::embedded(), shelf, metrics.clone());
        let (open, closed) = (met("reads", OnStoreFailure::Open), met("writes", OnStoreFailure::Closed));
        let ask = |policies: &[&Matched]| {
            let matched = policies.iter().map(|met| (*met).clone()).collect();
            region.without_store(&Request::default(), matched, "gone".into())
        };
        let passed = ask(&[&open]).expect("open");
        assert!(passed.allowed && passed.limits[0].mode == DecisionMode::Open && passed.limits[0].decision.is_none());
        for policies in [&[&closed][..], &[&open, &closed], &[]] {
            let refused = ask(policies).expect_err("closed");
            let named: Vec<PolicyName> = policies.iter().filter(|met| ***met == closed).map(|met| met.policy.clone()).collect();
            assert_eq!(refused, DecideError::StoreUnavailable { policies: named, retry_after: STORE_RETRY, reason: "gone".into() });
        }
        let counted = metrics.render(&region.status()).expect("text");
        for line in [r#"{policy="reads",answer="open"} 2"#, r#"{policy="writes",answer="closed"} 2"#] {
            assert!(counted.contains(&format!("quorate_store_fallbacks_total{line}\n")), "{counted}");
        }
    }

    #[test]
    fn what_is_told_of_each_policy_is_what_it_answers() {
        let names = ["aside", "none", "closed", "open", "observed"].map(|name| name.parse::<PolicyName>().expect("a name"));
        let [aside, none, closed, open, observed] = &names;
        let policies = [
            (aside, OnStoreFailure::Emergency, true),
            (none, OnStoreFailure::Emergency, true),
            (closed, OnStoreFailure::Closed, true),
            (open, OnStoreFailure::Open, true),
            (observed, OnStoreFailure::Emergency, false),
        ];
        let told = |aside: &[&PolicyName]| -> Vec<String> {
            let aside = aside.iter().map(|name| (*name).clone()).collect();
            present(&Fallbacks::new(10 * SECOND), policies.into_iter(), SECOND, &aside).into_iter().map(|status| status.answer).collect()
        };
        assert_eq!(told(&[aside, closed]), ["emergency", "closed", "closed", "open", "open"]);
        assert_eq!(told(&[]), ["closed", "closed", "closed", "open", "open"]);
    }

    #[test]
    fn that_open_is_over_is_told_once_in_each_outage() {
        let fallbacks = Fallbacks::new(SECOND);
        let told = |asked, seconds: u32| fallbacks.has_closed(asked, fallbacks.of(asked, true, seconds * SECOND));
        assert!(!told(OnStoreFailure::Open, 0) && !told(OnStoreFailure::Closed, 2));
        assert!(told(OnStoreFailure::Open, 2) && !told(OnStoreFailure::Open, 3));
        fallbacks.over();
        assert!(told(OnStoreFailure::Open, 2));
    }
}
