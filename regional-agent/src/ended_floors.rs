//! Floors that end by themselves (`floor-ttl`): when they do, and that it is never silent.

use crate::region::{Region, State};
use quorate_limiter::contact::Contact;
use quorate_limiter::lease_book::LeaseBook;
use quorate_shared::api::FloorStatus;
use quorate_shared::time::LocalTime;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl State {
    /// When a coordinator was last heard, as far as this agent knows.
    pub fn contact_with_coordinators(&self) -> Contact {
        let followed = || self.followed.as_ref().map(|followed| followed.follower.contact());
        self.book.as_ref().map(LeaseBook::contact).or_else(followed).unwrap_or_default()
    }

    /// The policies whose floors end by themselves, and until when at `now`.
    pub fn floors(&self, now: LocalTime) -> Vec<FloorStatus> {
        let unheard_for = self.contact_with_coordinators().unheard_for(self.table.in_force(), now);
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let status = |(policy, ttl): (&quorate_shared::names::PolicyName, Duration)| {
            let left = self.drift.shrink(ttl).saturating_sub(unheard_for);
            FloorStatus { policy: policy.to_string(), ended: left.is_zero(), left_ms: millis(left) }
        };
        self.table.floors_that_end().map(status).collect()
    }
}

impl Region {
    /// Tells when floors end, and when they are back.
    pub(crate) fn note_floors(&self) {
        let (floors, starting) = {
            let state = self.state.lock();
            (state.floors(self.clock.now()), state.contact.last_renewal.is_none() && state.followed.is_none())
        };
        let ended: Vec<&str> = floors.iter().filter(|floor| floor.ended).map(|floor| floor.policy.as_str()).collect();
        let before = self.floors_ended.swap(!ended.is_empty(), Ordering::Relaxed);
        match (before, ended.is_empty()) {
            (false, false) if starting => {
                tracing::info!(region = %self.name, policies = ended.join(", "), "nothing is admitted of these policies before a coordinator answers (floor-ttl)");
            }
            (false, false) => {
                tracing::warn!(region = %self.name, policies = ended.join(", "), "no coordinator was heard for the floor-ttl of these policies: nothing of them is admitted until one answers");
            }
            (true, true) => tracing::info!(region = %self.name, "floors that had ended hold again"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::Request;
    use crate::identity::Identity;
    use crate::metrics::Metrics;
    use crate::policy_shelf::PolicyShelf;
    use crate::store::Store;
    use quorate_shared::api::DecisionMode;
    use quorate_shared::heartbeat::{PoliciesInForce, Response, Stamp};
    use quorate_shared::names::SubjectKey;
    use quorate_shared::policy::Limit;
    use quorate_shared::testing;
    use quorate_shared::time::Drift;
    use quorate_shared::units::{MicroTokens, PartsPerMillion};
    use std::sync::Arc;

    const TTL: Duration = Duration::from_secs(600);

    /// An agent that starts with policies that its disk remembers.
    async fn started() -> (Region, Metrics) {
        let limit = Limit::TokenBucket { rate: MicroTokens::TOKEN, period: Duration::from_secs(3_600), burst: MicroTokens::TOKEN };
        let mut set = testing::policy_set(
            ["eu".parse().expect("a name")],
            testing::policy("p".parse().expect("a name"), limit, PartsPerMillion::WHOLE),
        );
        (set.version, set.policies[0].floor_ttl, set.policies[0].lendable) = (1, Some(TTL), PartsPerMillion(0));
        let response = Response {
            stamp: Stamp { number: Default::default(), office: Default::default(), at: Default::default() },
            nonce: 0,
            lease: Duration::from_secs(5),
            longest_lease: Duration::from_secs(5),
            drift: Drift::DEFAULT,
            full: true,
            genesis: false,
            offers: vec![],
            lenders: Default::default(),
            drained_lenders: vec![],
            grants: vec![],
            former: vec![],
            clock_at_least: Default::default(),
            policies: PoliciesInForce { active: 1, next: None, also: None },
            sets: vec![Arc::new(set)],
            subject_key: SubjectKey::new([1; 32]),
        };
        let mut shelf = PolicyShelf::open(None).expect("nothing to read");
        shelf.add(&response).expect("taken");
        let metrics = Metrics::new();
        let region =
            Region::new("eu".parse().expect("a name"), "eu-1".into(), Identity::begin(None), Store::embedded(), shelf, metrics.clone());
        region.join().await.expect("its store is in this process");
        (region, metrics)
    }

    #[tokio::test]
    async fn a_floor_that_has_ended_is_refused_and_shown_until_a_coordinator_answers() {
        let (region, metrics) = started().await;
        let ask = async || region.decide(&Request::default()).await.expect("its store answers");
        let refused = ask().await;
        assert!(!refused.allowed && refused.limits[0].refuses() && refused.limits[0].mode == DecisionMode::Floor);
        region.note_floors();
        let status = region.status();
        assert_eq!(status.floors, [FloorStatus { policy: "p".into(), ended: true, left_ms: 0 }]);
        assert!(region.floors_ended.load(Ordering::Relaxed));
        assert!(metrics.render(&status).expect("text").contains("quorate_floor_end_seconds{policy=\"p\"} 0.0\n"));
        {
            let mut state = region.state.lock();
            let mut heard = Contact::default();
            heard.renew(PoliciesInForce { active: 1, next: None, also: None }, region.clock.now());
            let book = state.book.take().expect("it has a session").with_contact(heard);
            state.book = Some(book);
        }
        // the state of its store was lost with the process before: its bucket begins empty
        let empty = ask().await;
        assert!(!empty.allowed && empty.limits[0].decision.is_some_and(|limit| limit.capacity.burst == MicroTokens::TOKEN));
        region.note_floors();
        let floor = &region.status().floors[0];
        assert!(!floor.ended && floor.left_ms > 500_000 && !region.floors_ended.load(Ordering::Relaxed), "{floor:?}");
    }
}
