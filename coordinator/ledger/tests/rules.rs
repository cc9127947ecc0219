//! The rules of docs/protocol.md as a region and an operator meet them, one entry after another.
#![allow(clippy::expect_used, clippy::panic, reason = "a test")]

use quorate_ledger::{Author, Command, Ledger, Outcome, StampedHeartbeat};
use quorate_shared::heartbeat::{Answer, Heartbeat, Number, Office, Report, Response, Stamp, StoreReport};
use quorate_shared::names::{BudgetId, SubjectKey};
use quorate_shared::policy::{Limit, Mode, OnStoreFailure, Policy, PolicySet};
use quorate_shared::testing;
use quorate_shared::time::{Drift, LeaderTime};
use quorate_shared::units::{Capacity, MicroTokens, PartsPerMillion};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(4);
const FIRST: Office = Office { term: 1, process: 1 };

fn tokens(n: u64) -> MicroTokens {
    MicroTokens::from_tokens(n).expect("few")
}

fn set(rate: u64, floor: u32, regions: &[&str]) -> PolicySet {
    let limit = Limit::TokenBucket { rate: tokens(rate), period: Duration::from_secs(1), burst: tokens(rate) };
    let policy = testing::policy("p".parse().expect("a name"), limit, PartsPerMillion(floor));
    testing::policy_set(
        regions.iter().map(|region| region.parse().expect("a name")),
        Policy { lendable: PartsPerMillion(900_000), ..policy },
    )
}

/// A ledger and what the regions know of it.
struct World {
    ledger: Ledger,
    office: Office,
}

/// An agent that applies every response at once.
struct Agent {
    region: &'static str,
    number: Number,
    nonce: u64,
    echo: Option<Stamp>,
}

impl Agent {
    fn new(region: &'static str, session: u64) -> Self {
        Self { region, number: Number { session, seq: 0 }, nonce: session, echo: None }
    }

    fn beat(&mut self, demand: u64) -> Heartbeat {
        self.number.seq += 1;
        let report = Report {
            budget: budget(),
            demand: tokens(demand),
            admitted: MicroTokens::ZERO,
            refused: MicroTokens::ZERO,
            estimated: MicroTokens::ZERO,
            largest: MicroTokens::ZERO,
        };
        Heartbeat {
            echo: self.echo,
            floors_drained: self.echo,
            reports: if demand > 0 { vec![report] } else { vec![] },
            ..Heartbeat::silent(self.region.parse().expect("a name"), "a".into(), self.number, self.nonce, StoreReport::new("memory", true))
        }
    }
}

fn budget() -> BudgetId {
    testing::budget("p".parse().expect("a name"))
}

impl World {
    fn new(floor: u32) -> Self {
        let mut ledger = Ledger::default();
        ledger.apply(1, &Command::Found { subject_key: SubjectKey::new([0; 32]), lease: LEASE, drift: Drift::default() });
        let mut world = Self { ledger, office: FIRST };
        world.change(0, set(100, floor, &["eu", "us"]));
        world
    }

    fn change(&mut self, replaces: u64, set: PolicySet) -> Outcome {
        let by = Author { who: "test".into(), when_ms: 0, why: None };
        self.ledger.apply(self.office.term, &Command::Policies { replaces, set: Box::new(set), by })
    }

    fn change_lease(&mut self, secs: u64) -> Outcome {
        let by = Author { who: "test".into(), when_ms: 0, why: None };
        self.ledger.apply(self.office.term, &Command::Lease { lease: Duration::from_secs(secs), by })
    }

    fn send(&mut self, beat: Heartbeat, at_ms: u64) -> Outcome {
        let entry = self.ledger.stamp(beat, self.office, LeaderTime::from_micros(at_ms * 1_000));
        let outcome = self.ledger.apply(self.office.term, &Command::Heartbeat(Box::new(entry)));
        assert_eq!(self.ledger.check(), Ok(()));
        assert_eq!(self.ledger.alarm(), None);
        outcome
    }

    /// One heartbeat, renewed and applied.
    fn renew(&mut self, agent: &mut Agent, demand: u64, at_ms: u64) -> Response {
        let beat = agent.beat(demand);
        match self.send(beat, at_ms) {
            Outcome::Heartbeat(Answer::Renewed(response)) => {
                agent.echo = Some(response.stamp);
                *response
            }
            other => panic!("not renewed: {other:?}"),
        }
    }

    fn state_of(&self, region: &str, at_ms: u64) -> String {
        let regions = self.ledger.regions(Some((self.office, LeaderTime::from_micros(at_ms * 1_000)))).regions;
        regions.into_iter().find(|r| r.region == region).expect("named").state
    }
}

fn offered(response: &Response) -> quorate_shared::heartbeat::Holding {
    response.offers.first().map(|offer| offer.holding.clone()).unwrap_or_default()
}

#[test]
fn r1_only_a_greater_number_renews() {
    let mut world = World::new(500_000);
    let mut us = Agent::new("us", 1);
    let first = us.beat(0);
    assert!(matches!(world.send(first.clone(), 1), Outcome::Heartbeat(Answer::Renewed(_))));
    for again in [first.clone(), Heartbeat { number: Number { session: 0, seq: 9 }, ..first.clone() }] {
        let outcome = world.send(again, 2);
        assert_eq!(outcome, Outcome::Heartbeat(Answer::Stale { newest: Number { session: 1, seq: 1 } }));
    }
    let reused = Heartbeat { number: Number { session: 1, seq: 7 }, nonce: 99, ..first };
    assert!(matches!(world.send(reused, 3), Outcome::Heartbeat(Answer::Stale { .. })), "another session of the same number");
}

#[test]
fn a_session_ends_by_the_longest_lease_that_it_was_told_since_its_echo() {
    let mut world = World::new(500_000);
    let lease = |world: &mut World, secs| world.change_lease(secs);
    let mut us = Agent::new("us", 1);
    assert_eq!(world.renew(&mut us, 0, 0).lease, LEASE);
    assert_eq!(lease(&mut world, 2), Outcome::Done);
    let response = world.renew(&mut us, 0, 1_000);
    assert_eq!((response.lease, response.longest_lease), (Duration::from_secs(2), LEASE));
    // it has not echoed the shorter lease, so it may count on the longer
    let mut eu = Agent::new("eu", 1);
    world.renew(&mut eu, 0, 4_500);
    assert_eq!(world.state_of("us", 4_500), "live");
    world.renew(&mut us, 0, 4_600);
    world.renew(&mut us, 0, 4_700);
    world.renew(&mut eu, 0, 6_800);
    assert_eq!(world.state_of("us", 6_800), "expired");
    assert_eq!([0, 61].map(|secs| lease(&mut world, secs)), [Outcome::NoSuchLease, Outcome::NoSuchLease]);
}

#[test]
fn a_shorter_lease_takes_nothing_of_a_longer_one_that_was_said_before() {
    let mut world = World::new(500_000);
    let (mut us, mut eu) = (Agent::new("us", 1), Agent::new("eu", 1));
    world.renew(&mut us, 0, 0);
    world.change_lease(2);
    world.renew(&mut us, 0, 500);
    // it echoes the shorter one, and goes on counting from the longer: no horizon ever moves back
    world.renew(&mut us, 0, 600);
    world.renew(&mut eu, 0, 3_900);
    assert_eq!(world.state_of("us", 3_900), "live");
    world.renew(&mut eu, 0, 4_100);
    assert_eq!(world.state_of("us", 4_100), "expired");
}

#[test]
fn a_new_leader_reckons_with_a_longer_lease_that_was_said_before() {
    let mut world = World::new(500_000);
    let (mut us, mut eu) = (Agent::new("us", 1), Agent::new("eu", 1));
    world.renew(&mut us, 0, 0);
    world.change_lease(2);
    world.renew(&mut us, 0, 500);
    world.renew(&mut us, 0, 600);
    world.office = Office { term: 2, process: 2 };
    world.renew(&mut eu, 0, 3_900);
    assert_eq!(world.state_of("us", 3_900), "live");
    world.renew(&mut eu, 0, 4_100);
    assert_eq!(world.state_of("us", 4_100), "expired");
}

#[test]
fn the_pool_goes_to_one_region_only_after_the_other_has_echoed_its_loss() {
    let mut world = World::new(0);
    let (mut eu, mut us) = (Agent::new("eu", 1), Agent::new("us", 1));
    let all = offered(&world.renew(&mut eu, 100, 0)).pool;
    world.renew(&mut eu, 100, 100);
    assert_eq!(all, Capacity::new(tokens(100), tokens(100)));
    // us wants all of it too: eu is offered less, but may hold all until it has echoed
    assert_eq!(offered(&world.renew(&mut us, 100, 200)).pool, Capacity::ZERO);
    let less = offered(&world.renew(&mut eu, 100, 300)).pool;
    assert!(less.rate < all.rate);
    assert_eq!(offered(&world.renew(&mut us, 100, 400)).pool, Capacity::ZERO, "not echoed yet");
    world.renew(&mut eu, 100, 500);
    let rest = offered(&world.renew(&mut us, 100, 600)).pool;
    assert_eq!(rest, all.minus(less));
}

#[test]
fn a_floor_is_lent_once_its_region_has_promised_to_leave_it_alone() {
    let mut world = World::new(1_000_000);
    let (mut eu, mut us) = (Agent::new("eu", 1), Agent::new("us", 1));
    world.renew(&mut eu, 0, 0);
    let wants = world.renew(&mut us, 100, 10);
    assert!(offered(&wants).borrowed.is_empty());
    let lends = world.renew(&mut eu, 0, 20);
    assert_eq!(offered(&lends).lent, Capacity::new(tokens(45), MicroTokens::ZERO));
    assert!(offered(&world.renew(&mut us, 100, 30)).borrowed.is_empty(), "not echoed yet");
    world.renew(&mut eu, 0, 40);
    let borrows = world.renew(&mut us, 100, 50);
    let eu_name = "eu".parse().expect("a name");
    assert_eq!(offered(&borrows).borrowed_from(&eu_name), Capacity::new(tokens(45), MicroTokens::ZERO));
    // the promise runs from the echoed response (at 20 ms), not from the echo (at 40 ms)
    assert_eq!(borrows.lenders.get(&eu_name), Some(&(LEASE - Duration::from_millis(30))));
}

#[test]
fn a_region_that_is_not_heard_of_loses_all_and_comes_back_in_full() {
    let mut world = World::new(0);
    let (mut eu, mut us) = (Agent::new("eu", 1), Agent::new("us", 1));
    world.renew(&mut eu, 100, 0);
    world.renew(&mut eu, 100, 100);
    world.renew(&mut us, 100, 4_000);
    assert_eq!(offered(&world.renew(&mut us, 100, 4_104)).pool, Capacity::ZERO, "L(1+ρ) is not over");
    assert_eq!(world.state_of("eu", 4_104), "expired", "but over by the clock that people read");
    assert_ne!(offered(&world.renew(&mut us, 100, 4_105)).pool, Capacity::ZERO);
    // planned by a leader that knows of the end
    assert_eq!(offered(&world.renew(&mut us, 100, 4_110)).pool, Capacity::new(tokens(100), tokens(100)));
    let back = world.renew(&mut eu, 100, 4_200);
    assert!(back.full);
    assert!(back.offers.is_empty());
}

#[test]
fn a_new_office_forgets_every_date() {
    let mut world = World::new(0);
    let (mut eu, mut us) = (Agent::new("eu", 1), Agent::new("us", 1));
    world.renew(&mut eu, 100, 3_000);
    world.renew(&mut eu, 100, 3_100);
    world.office = Office { term: 2, process: 2 };
    // 0 on the new clock: eu keeps what it holds for L(1+ρ) from there
    world.renew(&mut us, 100, 50);
    assert_eq!(offered(&world.renew(&mut us, 100, 4_000)).pool, Capacity::ZERO);
    assert_ne!(offered(&world.renew(&mut us, 100, 4_010)).pool, Capacity::ZERO);
}

#[test]
fn an_entry_of_an_office_that_is_over_changes_nothing() {
    let mut world = World::new(0);
    let mut us = Agent::new("us", 1);
    world.renew(&mut us, 0, 100);
    world.office = Office { term: 1, process: 2 };
    world.renew(&mut us, 0, 10);
    let before = world.ledger.clone();
    let late = StampedHeartbeat {
        heartbeat: us.beat(0),
        office: FIRST,
        at: LeaderTime::from_micros(9_000_000),
        plans: vec![],
        unit_plans: vec![],
    };
    assert_eq!(world.ledger.apply(1, &Command::Heartbeat(Box::new(late.clone()))), Outcome::WrongOffice);
    assert_eq!(world.ledger.apply(2, &Command::Heartbeat(Box::new(late))), Outcome::WrongOffice, "another term than the log's");
    assert_eq!(world.ledger, before);
}

#[test]
fn r9_a_smaller_limit_waits_for_every_region_and_a_larger_one_for_none() {
    let mut world = World::new(1_000_000);
    let (mut eu, mut us) = (Agent::new("eu", 1), Agent::new("us", 1));
    for at in [0, 100] {
        world.renew(&mut eu, 0, at);
        world.renew(&mut us, 0, at);
    }
    assert_eq!(world.change(1, set(200, 1_000_000, &["eu", "us"])), Outcome::Policies { version: 2, waits_for: vec![] });
    world.renew(&mut eu, 0, 200);
    world.renew(&mut us, 0, 200);
    world.renew(&mut eu, 0, 250);
    world.renew(&mut us, 0, 250);
    let both = vec!["eu".parse().expect("a name"), "us".parse().expect("a name")];
    assert_eq!(world.change(2, set(50, 1_000_000, &["eu", "us"])), Outcome::Policies { version: 3, waits_for: both });
    for at in [300, 400] {
        world.renew(&mut eu, 0, at);
    }
    assert_eq!(world.ledger.active_policies().version, 2, "us has not confirmed");
    for at in [500, 600] {
        world.renew(&mut us, 0, at);
    }
    assert_eq!(world.ledger.active_policies().version, 3);
    assert_eq!(world.change(2, set(50, 1_000_000, &["eu", "us"])), Outcome::VersionConflict { newest: 3 });
}

#[test]
fn r9_a_change_that_takes_the_place_of_a_pending_one_is_confirmed_anew() {
    let mut world = World::new(1_000_000);
    let (mut eu, mut us) = (Agent::new("eu", 1), Agent::new("us", 1));
    let mut both = |world: &mut World, at| [&mut eu, &mut us].map(|agent| world.renew(agent, 0, at).policies);
    both(&mut world, 0);
    both(&mut world, 100);
    let waits_for: Vec<quorate_shared::names::RegionName> = ["eu", "us"].map(|name| name.parse().expect("a name")).into();
    let of = |rate| set(rate, 1_000_000, &["eu", "us"]);
    assert_eq!(world.change(1, of(50)), Outcome::Policies { version: 2, waits_for: waits_for.clone() });
    let told = both(&mut world, 200);
    assert!(told.iter().all(|sets| (sets.active, sets.next) == (1, Some(2))));
    assert_eq!(world.change(1, of(60)), Outcome::VersionConflict { newest: 2 });
    assert_eq!(world.change(2, of(60)), Outcome::Policies { version: 3, waits_for: waits_for.clone() });
    let told = both(&mut world, 300);
    assert!(told.iter().all(|sets| (sets.active, sets.next) == (1, Some(3))), "what they echoed was the change before");
    both(&mut world, 400);
    assert_eq!((world.ledger.active_policies().version, world.ledger.pending_policies()), (3, None));
}

#[test]
fn r9_a_stricter_set_waits_for_every_region_and_a_looser_one_for_none() {
    let mut world = World::new(1_000_000);
    let mut eu = Agent::new("eu", 1);
    for at in [0, 100] {
        world.renew(&mut eu, 0, at);
    }
    let with = |mode, on_store_failure| {
        let mut set = set(100, 1_000_000, &["eu", "us"]);
        (set.policies[0].mode, set.policies[0].on_store_failure) = (mode, on_store_failure);
        set
    };
    let (none, eu_alone) = (vec![], vec!["eu".parse().expect("a name")]);
    let observe = with(Mode::Observe, OnStoreFailure::Closed);
    assert_eq!(world.change(1, observe), Outcome::Policies { version: 2, waits_for: none.clone() });
    for at in [200, 300] {
        world.renew(&mut eu, 0, at);
    }
    let enforce = with(Mode::Enforce, OnStoreFailure::Closed);
    assert_eq!(world.change(2, enforce), Outcome::Policies { version: 3, waits_for: eu_alone.clone() });
    for at in [400, 450, 500, 550] {
        world.renew(&mut eu, 0, at);
    }
    assert_eq!(world.ledger.active_policies().version, 3);
    let open = with(Mode::Enforce, OnStoreFailure::Open);
    assert_eq!(world.change(3, open), Outcome::Policies { version: 4, waits_for: none });
    for at in [600, 700] {
        world.renew(&mut eu, 0, at);
    }
    let closed = with(Mode::Enforce, OnStoreFailure::Closed);
    assert_eq!(world.change(4, closed), Outcome::Policies { version: 5, waits_for: eu_alone });
}

#[test]
fn r9_a_region_that_is_taken_out_while_it_lets_pass_is_waited_for_when_refusals_are_enforced() {
    let mut world = World::new(1_000_000);
    let (mut eu, mut us) = (Agent::new("eu", 1), Agent::new("us", 1));
    let with = |mode, regions: &[&str]| {
        let mut set = set(100, 1_000_000, regions);
        set.policies[0].mode = mode;
        set
    };
    world.change(1, with(Mode::Observe, &["eu", "us"]));
    for at in [0, 100] {
        world.renew(&mut eu, 0, at);
        world.renew(&mut us, 0, at);
    }
    world.change(2, with(Mode::Observe, &["us"]));
    for at in [200, 300] {
        world.renew(&mut eu, 0, at);
        world.renew(&mut us, 0, at);
    }
    assert_eq!(world.ledger.active_policies().version, 3);
    world.renew(&mut us, 0, 400);
    let eu_alone = vec!["eu".parse().expect("a name")];
    assert_eq!(
        world.change(3, with(Mode::Enforce, &["us"])),
        Outcome::Policies { version: 4, waits_for: vec!["eu".parse().expect("a name"), "us".parse().expect("a name")] }
    );
    for at in [500, 600] {
        world.renew(&mut us, 0, at);
    }
    assert_eq!(world.ledger.pending_policies(), Some((4, eu_alone)), "it lets pass until it is told");
    world.renew(&mut eu, 0, 700);
    let echo = eu.beat(0);
    assert_eq!(world.send(echo, 800), Outcome::Heartbeat(Answer::UnknownRegion), "it refuses everything, and is forgotten");
    assert_eq!(world.ledger.active_policies().version, 4);
}

#[test]
fn r9_a_region_that_is_taken_out_gives_up_what_it_holds_first() {
    let mut world = World::new(0);
    let (mut eu, mut us) = (Agent::new("eu", 1), Agent::new("us", 1));
    world.renew(&mut eu, 100, 0);
    world.renew(&mut eu, 100, 100);
    world.renew(&mut us, 0, 100);
    world.change(1, set(100, 0, &["us"]));
    assert_eq!(world.ledger.active_policies().version, 1, "eu holds the pool");
    assert_eq!(offered(&world.renew(&mut eu, 100, 200)).pool, Capacity::ZERO);
    let echo = eu.beat(100);
    assert_eq!(world.send(echo, 300), Outcome::Heartbeat(Answer::UnknownRegion), "it is out as soon as it has echoed");
    assert_eq!(world.ledger.active_policies().version, 2);
    assert_eq!(offered(&world.renew(&mut us, 100, 500)).pool, Capacity::new(tokens(100), tokens(100)));
}

#[test]
fn genesis_is_said_until_the_first_echo_and_never_again() {
    let mut world = World::new(500_000);
    let mut us = Agent::new("us", 1);
    assert!(world.renew(&mut us, 0, 0).genesis);
    us.echo = None;
    assert!(world.renew(&mut us, 0, 10).genesis, "the first response may have been lost");
    assert!(!world.renew(&mut us, 0, 20).genesis);
    assert!(!world.renew(&mut Agent::new("us", 2), 0, 30).genesis);
}

#[test]
fn an_idle_budget_leaves_the_ledger() {
    let mut world = World::new(0);
    let mut us = Agent::new("us", 1);
    for at in [0, 100, 200] {
        world.renew(&mut us, 100, at);
    }
    assert_eq!(world.ledger.budgets(None).count(), 1);
    for at in [300, 400, 500] {
        world.renew(&mut us, 0, at);
    }
    assert_eq!(world.ledger.budgets(None).count(), 0);
}

#[test]
fn r9_a_policy_that_comes_back_waits_for_a_region_that_still_serves_the_old_one() {
    let mut world = World::new(1_000_000);
    let mut us = Agent::new("us", 1);
    let mut eu = Agent::new("eu", 1);
    for at in [0, 100] {
        world.renew(&mut eu, 0, at);
        world.renew(&mut us, 0, at);
    }
    // eu is cut off; the policy is taken out, and comes back smaller
    let without = PolicySet { policies: vec![], ..set(100, 0, &["eu", "us"]) };
    assert_eq!(world.change(1, without), Outcome::Policies { version: 2, waits_for: vec![] });
    for at in [200, 300] {
        world.renew(&mut us, 0, at);
    }
    let eu_name = "eu".parse().expect("a name");
    assert_eq!(
        world.change(2, set(50, 1_000_000, &["eu", "us"])),
        Outcome::Policies { version: 3, waits_for: vec![eu_name] },
        "us has left the old set behind, eu has not"
    );
    for at in [400, 500] {
        world.renew(&mut eu, 0, at);
    }
    assert_eq!(world.ledger.active_policies().version, 3);
}

#[test]
fn only_a_region_whose_lease_has_ended_is_fenced() {
    let mut world = World::new(1_000_000);
    let (mut eu, mut us) = (Agent::new("eu", 1), Agent::new("us", 1));
    for at in [0, 100] {
        world.renew(&mut eu, 0, at);
        world.renew(&mut us, 0, at);
    }
    world.change(1, set(50, 1_000_000, &["eu", "us"]));
    let fence = |world: &mut World, region: &str| {
        let by = Author { who: "test".into(), when_ms: 0, why: None };
        world.ledger.apply(1, &Command::Fence { region: region.parse().expect("a name"), by })
    };
    assert_eq!(fence(&mut world, "eu"), Outcome::StillLive);
    assert_eq!(fence(&mut world, "nowhere"), Outcome::UnknownRegion);
    for at in [4_500, 4_600] {
        world.renew(&mut us, 0, at);
    }
    assert_eq!(world.ledger.active_policies().version, 1);
    assert_eq!(fence(&mut world, "eu"), Outcome::Done);
    assert_eq!(world.ledger.active_policies().version, 2);
}

#[test]
fn what_was_said_to_a_region_that_does_not_answer_stays_bounded() {
    let mut world = World::new(0);
    let (mut eu, mut us) = (Agent::new("eu", 1), Agent::new("us", 1));
    let echo = world.renew(&mut eu, 100, 0).stamp;
    for n in 1..200 {
        // its demand moves, its answers are lost
        eu.echo = Some(echo);
        world.renew(&mut eu, n % 90 + 1, n * 10);
        world.renew(&mut us, 50, n * 10 + 5);
    }
    let size = rmp_serde::to_vec_named(&world.ledger).expect("it has a form").len();
    assert!(size < 20_000, "{size} bytes");
}

#[test]
fn a_region_that_is_taken_out_is_remembered_while_it_may_use_a_floor() {
    let mut world = World::new(500_000);
    let (mut eu, mut us) = (Agent::new("eu", 1), Agent::new("us", 1));
    for at in [0, 100] {
        world.renew(&mut eu, 0, at);
        world.renew(&mut us, 0, at);
    }
    // eu is cut off; first the policy goes, then eu, which thereby gives up nothing that it has not
    assert_eq!(
        world.change(1, PolicySet { policies: vec![], ..set(100, 0, &["eu", "us"]) }),
        Outcome::Policies { version: 2, waits_for: vec![] }
    );
    assert_eq!(
        world.change(2, PolicySet { policies: vec![], ..set(100, 0, &["us"]) }),
        Outcome::Policies { version: 3, waits_for: vec![] }
    );
    for at in [200, 250] {
        world.renew(&mut us, 0, at);
    }
    let eu_name = "eu".parse().expect("a name");
    assert_eq!(
        world.change(3, set(100, 1_000_000, &["us"])),
        Outcome::Policies { version: 4, waits_for: vec![eu_name] },
        "eu goes by the first set still, and uses a floor of it"
    );
    world.renew(&mut eu, 0, 300);
    assert_eq!(world.send(eu.beat(0), 400), Outcome::Heartbeat(Answer::UnknownRegion), "it has given up its floor");
    assert_eq!(world.ledger.active_policies().version, 4);
}

#[test]
fn what_a_region_sent_before_it_was_taken_out_stays_behind_it() {
    let mut world = World::new(500_000);
    let (mut eu, mut us) = (Agent::new("eu", 1), Agent::new("us", 1));
    world.renew(&mut eu, 0, 0);
    let late = eu.beat(0);
    for at in [100, 200] {
        world.renew(&mut eu, 0, at);
        world.renew(&mut us, 0, at);
    }
    world.change(1, set(100, 500_000, &["us"]));
    world.renew(&mut eu, 0, 300);
    assert_eq!(world.send(eu.beat(0), 400), Outcome::Heartbeat(Answer::UnknownRegion));
    world.change(2, set(100, 500_000, &["eu", "us"]));
    assert!(matches!(world.send(late, 500), Outcome::Heartbeat(Answer::Stale { .. })));
    let back = world.renew(&mut eu, 0, 600);
    assert!(back.full && !back.genesis);
}

#[test]
fn what_a_region_sent_before_it_was_fenced_stays_behind_it() {
    let mut world = World::new(1_000_000);
    let (mut eu, mut us) = (Agent::new("eu", 3), Agent::new("us", 1));
    world.renew(&mut eu, 0, 0);
    let late = eu.beat(0);
    world.renew(&mut eu, 0, 100);
    world.renew(&mut us, 0, 4_500);
    let by = Author { who: "test".into(), when_ms: 0, why: None };
    assert_eq!(world.ledger.apply(1, &Command::Fence { region: "eu".parse().expect("a name"), by }), Outcome::Done);
    let first = world.send(Agent::new("eu", 1).beat(0), 4_600);
    assert!(matches!(first, Outcome::Heartbeat(Answer::Stale { newest }) if newest.session == 3));
    assert!(matches!(world.send(late, 4_700), Outcome::Heartbeat(Answer::Stale { .. })));
}

#[test]
fn a_first_start_after_a_change_is_no_first_start() {
    let mut world = World::new(500_000);
    let (mut eu, mut us) = (Agent::new("eu", 1), Agent::new("us", 1));
    assert!(world.renew(&mut us, 0, 0).genesis);
    world.renew(&mut us, 0, 100);
    // us may have used what is eu's from now on
    world.change(1, set(100, 1_000_000, &["eu", "us"]));
    assert!(!world.renew(&mut eu, 0, 200).genesis);
}

#[test]
fn what_was_admitted_under_the_limit_before_is_no_overshoot_of_the_new_one() {
    let mut world = World::new(1_000_000);
    let (mut eu, mut us) = (Agent::new("eu", 1), Agent::new("us", 1));
    let admit = |world: &mut World, agent: &mut Agent, total: u64, at_ms: u64| {
        let mut beat = agent.beat(90);
        beat.reports[0].admitted = tokens(total);
        let Outcome::Heartbeat(Answer::Renewed(response)) = world.send(beat, at_ms) else { panic!("not renewed") };
        agent.echo = Some(response.stamp);
    };
    for at in [0, 500] {
        admit(&mut world, &mut eu, 50, at);
        world.renew(&mut us, 0, at);
    }
    world.change(1, set(1, 1_000_000, &["eu", "us"]));
    for (total, at) in [(100, 900), (100, 1_000), (100, 1_100)] {
        admit(&mut world, &mut eu, total, at);
        world.renew(&mut us, 0, at);
    }
    assert_eq!(world.ledger.active_policies().version, 2);
    admit(&mut world, &mut eu, 101, 1_500);
    let measured: Vec<f64> = world.ledger.bounds(None).policies.iter().map(|p| p.measured_overshoot).collect();
    assert_eq!(measured, [0.0]);
}
