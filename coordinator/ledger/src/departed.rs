//! What is remembered of regions that no policy set names any more: the numbers of their heartbeats,
//! so that a late one counts for nothing if the region is named again; and whether an agent of
//! theirs may still decide by the sets that it was told of.

use crate::Ledger;
use crate::recent::{LastHour, Together};
use crate::session::{LeftAt, Session};
use quorate_shared::bound::Steps;
use quorate_shared::heartbeat::Excess;
use quorate_shared::names::{PolicyName, RegionName};
use quorate_shared::time::LeaderTime;
use quorate_shared::units::MicroTokens;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// So many regions are told apart. Of more the worst of all is remembered, and taken for what is known of
/// any region that is not known otherwise.
const MOST: usize = 10_000;

/// What those that are not told apart have left behind, in bounded memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Departed {
    pub rest: Option<LeftAt>,
    /// Steps of their stores' clocks.
    pub steps: LastHour<Steps>,
    /// What they used beyond limits, of policies that are in force.
    #[serde(default)]
    excesses: BTreeMap<PolicyName, LastHour<Exceeded>>,
}

/// What one budget was used beyond its limit: settled beyond estimates, and slots that ended. Of two regions both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exceeded {
    pub settled: MicroTokens,
    pub outlived: MicroTokens,
    /// Of parts that gateways spend each region says what all regions may exceed together.
    #[serde(default)]
    pub parts: MicroTokens,
}

impl Together for Exceeded {
    fn together(self, other: Self) -> Self {
        Self {
            settled: self.settled.saturating_add(other.settled),
            outlived: self.outlived.saturating_add(other.outlived),
            parts: self.parts.max(other.parts),
        }
    }
}

impl From<&Excess> for Exceeded {
    fn from(excess: &Excess) -> Self {
        Self { settled: excess.settled, outlived: excess.outlived, parts: MicroTokens::ZERO }
    }
}

impl Departed {
    /// Of one policy, within the last hour.
    pub fn exceeded(&self, policy: &PolicyName, at: LeaderTime) -> Exceeded {
        self.excesses.get(policy).map(|hour| hour.total(at)).unwrap_or_default()
    }

    /// A new office: see [`LastHour::forget_dates`].
    pub fn forget_dates(&mut self, first: LeaderTime) {
        self.steps.forget_dates(first);
        self.excesses.values_mut().for_each(|hour| hour.forget_dates(first));
    }
}

impl Ledger {
    /// Forgets regions that the active set does not name, once they can admit nothing any more.
    pub(crate) fn let_regions_go(&mut self) {
        let book = &self.policies;
        let floorless = |name: &RegionName, session: &Session| session.told_policies().all(|told| book.leave_nothing_to(name, told));
        let leaves = |name: &RegionName, session: &Session| !book.active.set.regions.contains_key(name) && floorless(name, session);
        let at = self.clock.at;
        let gone: Vec<(RegionName, Session)> = self.regions.extract_if(.., |name, session| leaves(name, session)).collect();
        for (name, session) in gone {
            self.remember(name, session, at);
        }
    }

    fn remember(&mut self, name: RegionName, session: Session, at: LeaderTime) {
        let steps = session.steps.total(at);
        if steps.count > 0 {
            self.departed.steps.note(steps, at);
        }
        let active = &self.policies.active.set;
        self.departed.excesses.retain(|policy, _| active.policy(policy).is_some());
        for excess in session.store.excesses.iter().filter(|excess| active.policy(&excess.policy).is_some()) {
            self.departed.excesses.entry(excess.policy.clone()).or_default().note(excess.into(), at);
        }
        for (policy, parts) in session.parts.iter().filter(|(policy, _)| active.policy(policy).is_some()) {
            let parts = Exceeded { parts: parts.total(at), ..Exceeded::default() };
            self.departed.excesses.entry(policy.clone()).or_default().note(parts, at);
        }
        self.left.insert(name, session.left_at());
        while self.left.len() > MOST {
            let folded = self.left.pop_first().map(|(_, left)| left);
            self.departed.rest = self.departed.rest.into_iter().chain(folded).reduce(LeftAt::worse);
        }
    }

    /// Regions that a new set names again are known from then on, before they are heard of: what they may go
    /// by is reckoned with, and an operator can fence them.
    pub(crate) fn call_back_named(&mut self) {
        let named = self.policies.newest().clone();
        for name in named.regions.keys() {
            if self.regions.contains_key(name) {
                continue;
            }
            if let Some(left) = self.left.remove(name).or(self.departed.rest) {
                self.regions.insert(name.clone(), Session::unheard(left));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, at, by, set};
    use crate::{Command, Outcome};
    use quorate_shared::heartbeat::{Answer, Heartbeat, Number, ObservedSteps, Stamp, StoreReport};
    use quorate_shared::policy::PolicySet;
    use std::time::Duration;

    fn name(name: &str) -> RegionName {
        name.parse().expect("a name")
    }

    fn without_eu() -> PolicySet {
        let mut set = set(100, 1_000_000);
        set.regions.remove(&name("eu"));
        set
    }

    /// Two regions, of which one is taken out, and hears of it. Gives the echo of its last heartbeat.
    fn leave(world: &mut World) -> Stamp {
        world.change(1, without_eu());
        world.beat("eu", 300, 0);
        let last = world.heartbeat("eu", 0, Default::default());
        let echo = last.echo.expect("it has applied a response");
        let stamped = world.ledger.stamp(last, world.office, at(400));
        let answer = world.ledger.apply(1, &Command::Heartbeat(Box::new(stamped)));
        assert_eq!(answer, Outcome::Heartbeat(Answer::UnknownRegion), "it is forgotten");
        echo
    }

    fn world_without_eu() -> (World, Stamp) {
        let mut world = World::new(100, 1_000_000);
        for ms in [100, 200] {
            world.beat("eu", ms, 0);
            world.beat("us", ms, 0);
        }
        let echo = leave(&mut world);
        (world, echo)
    }

    fn fence(world: &mut World) -> Outcome {
        world.ledger.apply(1, &Command::Fence { region: name("eu"), by: by() })
    }

    fn passed_by(world: &World) -> Option<String> {
        let bound = world.bound(0).bound;
        bound.terms.into_iter().find(|term| term.name == "policy-change" && term.amount.is_none()).map(|term| term.why)
    }

    #[test]
    fn a_region_that_is_named_again_may_pass_by_any_policy_until_it_has_echoed_the_present_ones() {
        let (mut world, _) = world_without_eu();
        assert_eq!(passed_by(&world), None, "a region that nobody names is no part of the promise");
        world.change(2, set(100, 1_000_000));
        for ms in [500, 600] {
            world.beat("us", ms, 0);
        }
        assert!(passed_by(&world).is_some_and(|why| why.starts_with("eu may")), "it was not heard of");
        world.beat("eu", 700, 0);
        assert!(passed_by(&world).is_some(), "it may not have applied the response");
        world.beat("eu", 800, 0);
        assert_eq!((passed_by(&world), world.bound(0).bound.overshoot_bound), (None, Some(0.0)));
    }

    #[test]
    fn an_echo_of_a_response_from_before_says_nothing() {
        let (mut world, echo) = world_without_eu();
        let late = world.heartbeat("eu", 0, Default::default());
        world.change(2, set(100, 1_000_000));
        world.send("eu", 500, Heartbeat { echo: Some(echo), ..late });
        assert!(passed_by(&world).is_some());
    }

    #[test]
    fn a_region_that_was_never_answered_admits_nothing_and_is_not_reckoned_with() {
        let mut world = World::under(without_eu());
        for ms in [100, 200] {
            world.beat("us", ms, 0);
        }
        world.change(1, set(100, 1_000_000));
        for ms in [300, 400] {
            world.beat("us", ms, 0);
        }
        assert_eq!(world.ledger.active_policies().version, 2);
        assert_eq!((passed_by(&world), fence(&mut world)), (None, Outcome::UnknownRegion));
    }

    #[test]
    fn a_region_that_is_named_again_can_be_fenced_before_it_is_heard_of() {
        let (mut world, _) = world_without_eu();
        assert_eq!(fence(&mut world), Outcome::UnknownRegion, "nobody names it");
        world.change(2, set(100, 1_000_000));
        assert_eq!((fence(&mut world), passed_by(&world)), (Outcome::Done, None));
        world.change(3, without_eu());
        world.change(4, set(100, 1_000_000));
        assert_eq!(passed_by(&world), None, "the operator's word is kept when it leaves once more");
        let newest = world.ledger.regions[&name("eu")].newest;
        assert_eq!(newest, Number { session: 1, seq: 4 }, "and so are its numbers");
    }

    #[test]
    fn steps_of_a_store_count_though_its_region_leaves() {
        let mut world = World::new(100, 1_000_000);
        world.beat("us", 100, 0);
        world.beat("eu", 100, 0);
        let mut stepped = world.heartbeat("eu", 0, Default::default());
        let steps = Steps { count: 1, total: Duration::from_secs(60) };
        stepped.clock.steps = Some(ObservedSteps { observer: 1, steps });
        world.send("eu", 200, stepped);
        let before = world.bound(0).bound.overshoot_bound;
        assert!(before.is_some_and(|bound| bound > 0.0));
        leave(&mut world);
        assert_eq!(world.bound(0).bound.overshoot_bound, before);
    }

    #[test]
    fn what_was_used_beyond_a_limit_counts_though_its_region_leaves() {
        let mut world = World::new(100, 1_000_000);
        world.beat("us", 100, 0);
        let excess =
            |policy: &str| Excess { policy: policy.parse().expect("a name"), settled: MicroTokens(7_000_000), outlived: MicroTokens::ZERO };
        let store = StoreReport { kind: "memory".into(), healthy: true, excesses: vec![excess("p"), excess("gone")] };
        world.ledger.remember(name("eu"), Session::new(String::new(), store), at(200));
        assert_eq!(world.bound(0).bound.overshoot_bound, Some(7.0));
        assert_eq!(world.ledger.departed.excesses.len(), 1, "of policies that are in force");
    }

    #[test]
    fn what_is_remembered_is_bounded_and_of_more_the_worst_is_kept() {
        let mut ledger = Ledger::default();
        let unheard = || StoreReport::new("", false);
        for n in 0..=MOST as u64 + 1 {
            let mut session = Session::new(String::new(), unheard());
            session.accept(Number { session: n + 1, seq: 9 }, n, LeaderTime::ZERO);
            ledger.remember(name(&format!("r{n:06}")), session, LeaderTime::ZERO);
        }
        assert_eq!(ledger.left.len(), MOST);
        let rest = ledger.departed.rest.expect("two are folded");
        let back = Session::new(String::new(), unheard()).returning(rest);
        assert_eq!(back.newest, Number { session: 2, seq: 9 });
        assert!(!back.comes_after(Number { session: 2, seq: 9 }, 1) && back.comes_after(Number { session: 3, seq: 1 }, 0));
    }
}
