//! The shapes `share` and `allowance` of docs/protocol.md, one entry of the log after another.
#![allow(clippy::expect_used, clippy::panic, reason = "a test")]

use quorate_ledger::{Author, Command, Ledger, Outcome};
use quorate_shared::heartbeat::{Answer, Heartbeat, Number, Office, OpenWindow, Report, Response, Spent, Stamp, StoreReport};
use quorate_shared::names::{BudgetId, SubjectKey};
use quorate_shared::policy::{Limit, OnStoreFailure, PolicySet, Window};
use quorate_shared::testing;
use quorate_shared::time::{Drift, LeaderTime, StoreTime, WindowLabel};
use quorate_shared::units::{MicroTokens, PartsPerMillion};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(4);
const OFFICE: Office = Office { term: 1, process: 1 };

fn tokens(n: u64) -> MicroTokens {
    MicroTokens::from_tokens(n).expect("few")
}

fn window(n: u64) -> WindowLabel {
    WindowLabel::beginning_at(StoreTime::from_micros(n * 10_000_000))
}

fn log(units: u64) -> Limit {
    Limit::SlidingLog { units: tokens(units), window: Duration::from_secs(10) }
}

fn fixed(units: u64) -> Limit {
    Limit::FixedWindow { units: tokens(units), window: Window::Every(Duration::from_secs(10)) }
}

fn set(limit: Limit, floor: u32) -> PolicySet {
    let policy = testing::policy("p".parse().expect("a name"), limit, PartsPerMillion(floor));
    testing::policy_set(["eu", "us"].map(|region| region.parse().expect("a name")), policy)
}

fn budget() -> BudgetId {
    testing::budget("p".parse().expect("a name"))
}

fn bucket(rate: u64) -> Limit {
    Limit::TokenBucket { rate: tokens(rate), period: Duration::from_secs(1), burst: tokens(rate) }
}

/// An agent that applies every response at once.
struct Agent {
    region: &'static str,
    number: Number,
    echo: Option<Stamp>,
    drained: Option<Stamp>,
    floors_drained: Option<Stamp>,
    window: u64,
    spent: u64,
}

impl Agent {
    fn new(region: &'static str) -> Self {
        let number = Number { session: 1, seq: 0 };
        Self { region, number, echo: None, drained: None, floors_drained: None, window: 0, spent: 0 }
    }

    fn beat(&mut self, demand: u64, label: Option<WindowLabel>) -> Heartbeat {
        self.number.seq += 1;
        let report = Report {
            budget: budget(),
            demand: tokens(demand),
            admitted: MicroTokens::ZERO,
            refused: MicroTokens::ZERO,
            estimated: MicroTokens::ZERO,
            largest: MicroTokens::ZERO,
        };
        let open = label.map(|label| OpenWindow { policy: budget().policy, generation: 1, label, last: label });
        Heartbeat {
            echo: self.echo,
            drained: self.drained.map(|stamp| (budget(), stamp)).into_iter().collect(),
            floors_drained: self.floors_drained,
            windows: open.into_iter().collect(),
            reports: if demand > 0 { vec![report] } else { vec![] },
            spent: label.map(|label| Spent { budget: budget(), label, units: tokens(self.spent) }).into_iter().collect(),
            ..Heartbeat::silent(self.region.parse().expect("a name"), "a".into(), self.number, 1, StoreReport::new("memory", true))
        }
    }
}

struct World {
    ledger: Ledger,
    now_ms: u64,
}

impl World {
    fn new(limit: Limit, floor: u32) -> Self {
        let mut ledger = Ledger::default();
        ledger.apply(1, &Command::Found { subject_key: SubjectKey::new([0; 32]), lease: LEASE, drift: Drift::default() });
        let mut world = Self { ledger, now_ms: 0 };
        world.change(set(limit, floor));
        world
    }

    fn change(&mut self, set: PolicySet) -> Outcome {
        let by = Author { who: "test".into(), when_ms: 0, why: None };
        let replaces = self.ledger.newest_policies().version;
        self.ledger.apply(1, &Command::Policies { replaces, set: Box::new(set), by })
    }

    /// One heartbeat after `ms`, whose response is applied.
    fn renew(&mut self, agent: &mut Agent, demand: u64, ms: u64) -> Response {
        let windows = self.ledger.active_policies().policies[0].limit.window_at(StoreTime::ZERO).is_some();
        self.now_ms += ms;
        let beat = agent.beat(demand, windows.then(|| window(agent.window)));
        let entry = self.ledger.stamp(beat, OFFICE, LeaderTime::from_micros(self.now_ms * 1_000));
        let outcome = self.ledger.apply(1, &Command::Heartbeat(Box::new(entry)));
        assert_eq!(self.ledger.check(), Ok(()));
        match outcome {
            Outcome::Heartbeat(Answer::Renewed(response)) => {
                agent.echo = Some(response.stamp);
                *response
            }
            other => panic!("not renewed: {other:?}"),
        }
    }
}

fn pool(response: &Response) -> u64 {
    response.offers.first().map_or(0, |offer| offer.holding.pool.burst.tokens_floor())
}

fn granted(response: &Response) -> Option<u64> {
    response.grants.first().map(|grant| grant.granted.tokens_floor()).filter(|units| *units > 0)
}

#[test]
fn a_part_given_up_is_free_only_once_its_use_has_drained() {
    let mut world = World::new(log(10), 0);
    let (mut eu, mut us) = (Agent::new("eu"), Agent::new("us"));
    world.renew(&mut eu, 0, 1);
    assert_eq!(pool(&world.renew(&mut us, 10, 1)), 10);
    let held = world.renew(&mut us, 10, 1).stamp;
    // the demand is in eu now: us is told to give up, echoes that, and has it counting yet
    world.renew(&mut eu, 10, 1);
    us.drained = Some(held);
    assert_eq!(pool(&world.renew(&mut us, 0, 1)), 0, "offered nothing");
    let reduced = us.echo;
    world.renew(&mut us, 0, 1);
    assert_eq!(pool(&world.renew(&mut eu, 10, 1)), 0, "us has not drained");
    us.drained = reduced;
    world.renew(&mut us, 0, 1);
    assert_eq!(pool(&world.renew(&mut eu, 10, 1)), 10);
}

#[test]
fn what_an_ended_session_held_is_free_a_drain_later() {
    let mut world = World::new(log(10), 0);
    let (mut eu, mut us) = (Agent::new("eu"), Agent::new("us"));
    assert_eq!(pool(&world.renew(&mut us, 10, 1)), 10);
    // L(1+ρ) is 4.004 s, D_b 10.01 s
    assert_eq!(pool(&world.renew(&mut eu, 10, 4_100)), 0);
    assert_eq!(pool(&world.renew(&mut eu, 10, 3_900)), 0);
    assert_eq!(pool(&world.renew(&mut eu, 10, 3_900)), 0);
    assert_eq!(pool(&world.renew(&mut eu, 10, 2_300)), 10, "14.2 s after the last heartbeat");
}

#[test]
fn a_promise_of_a_lender_follows_what_has_drained() {
    let mut world = World::new(log(10), 1_000_000);
    let (mut eu, mut us) = (Agent::new("eu"), Agent::new("us"));
    world.renew(&mut eu, 0, 1);
    world.renew(&mut us, 9, 1);
    let lends = world.renew(&mut eu, 0, 1);
    assert_eq!(lends.offers.first().map(|o| (o.holding.lent.burst, o.drains)), Some((tokens(4), true)));
    world.renew(&mut eu, 0, 1);
    let borrows = |world: &mut World, us: &mut Agent| {
        let response = world.renew(us, 9, 1);
        response.drained_lenders.first().map(|(_, lenders)| lenders.len())
    };
    assert_eq!(borrows(&mut world, &mut us), None, "echoed, not drained: nothing to borrow");
    eu.drained = Some(lends.stamp);
    world.renew(&mut eu, 0, 1);
    assert_eq!(borrows(&mut world, &mut us), Some(1));
    assert!(world.renew(&mut us, 9, 1).lenders.contains_key(&"eu".parse().expect("a name")), "the echo's promise stands beside it");
}

#[test]
fn lower_floors_are_in_force_once_past_use_has_drained() {
    let mut world = World::new(log(10), 1_000_000);
    let (mut eu, mut us) = (Agent::new("eu"), Agent::new("us"));
    let both = |world: &mut World, eu: &mut Agent, us: &mut Agent| {
        world.renew(eu, 0, 1);
        world.renew(us, 0, 1);
    };
    both(&mut world, &mut eu, &mut us);
    (eu.floors_drained, us.floors_drained) = (eu.echo, us.echo);
    both(&mut world, &mut eu, &mut us);
    world.change(set(log(6), 1_000_000));
    both(&mut world, &mut eu, &mut us);
    let told = (eu.echo, us.echo);
    both(&mut world, &mut eu, &mut us);
    assert!(world.ledger.pending_policies().is_some(), "echoed, and floors of 5 may be used up yet");
    (eu.floors_drained, us.floors_drained) = told;
    both(&mut world, &mut eu, &mut us);
    assert_eq!(world.ledger.pending_policies(), None);
}

#[test]
fn units_that_were_granted_count_as_spent_until_the_region_says_otherwise() {
    let mut world = World::new(fixed(100), 200_000);
    let (mut eu, mut us) = (Agent::new("eu"), Agent::new("us"));
    assert_eq!(granted(&world.renew(&mut us, 200, 1)), Some(80), "a lease's worth, which leaves eu its floor");
    us.spent = 80;
    assert_eq!(granted(&world.renew(&mut us, 200, 1)), Some(90), "all that there is");
    // nothing returns by the end of the session
    assert_eq!(granted(&world.renew(&mut eu, 100, 20_000)), None);
    // us comes back with 85 spent and no more demand: the rest is eu's, once us says what it spent
    (us.spent, us.number, us.echo) = (85, Number { session: 2, seq: 0 }, None);
    world.renew(&mut us, 0, 1);
    assert_eq!(granted(&world.renew(&mut eu, 100, 1)), None);
    world.renew(&mut us, 0, 1);
    world.renew(&mut us, 0, 1);
    assert_eq!(granted(&world.renew(&mut eu, 100, 1)), Some(15));
}

#[test]
fn units_of_an_algorithm_that_ends_are_given_up_before_the_next_one_begins() {
    let mut world = World::new(fixed(100), 200_000);
    let (mut eu, mut us) = (Agent::new("eu"), Agent::new("us"));
    world.renew(&mut eu, 0, 1);
    assert_eq!(granted(&world.renew(&mut us, 200, 1)), Some(80));
    us.spent = 40;
    world.change(set(bucket(100), 200_000));
    let waits_for = |world: &World| world.ledger.pending_policies().map(|(_, regions)| regions.len());
    world.renew(&mut eu, 0, 1);
    let ended = world.renew(&mut us, 200, 1);
    assert_eq!(ended.grants.first().map(|grant| grant.granted), Some(MicroTokens::ZERO), "however much it wants");
    world.renew(&mut eu, 0, 1);
    assert_eq!(waits_for(&world), Some(1), "that it has nothing more the next heartbeat will say");
    world.renew(&mut us, 200, 1);
    assert_eq!(waits_for(&world), None);
    assert_eq!(world.ledger.check(), Ok(()));
}

#[test]
fn a_view_shows_demand_and_use_of_what_counts_units() {
    let mut world = World::new(fixed(100), 200_000);
    let mut us = Agent::new("us");
    world.renew(&mut us, 200, 1);
    us.spent = 40;
    world.renew(&mut us, 200, 1);
    let shown = world.ledger.budgets(None).next().expect("a budget");
    assert_eq!((shown.regions["us"].demand, shown.regions["us"].admitted, shown.regions["eu"].demand), (200.0, 40.0, 0.0));
    let utilisation = |world: &World| world.ledger.bounds(None).policies[0].utilisation;
    assert_eq!(utilisation(&world), Some(0.8), "80 of the 100 that could be served are granted");
    let mut world = World::new(log(10), 0);
    world.renew(&mut us, 8, 1);
    assert_eq!(utilisation(&world), Some(1.0), "all that is wanted is offered");
}

#[test]
fn a_region_has_confirmed_what_it_echoed_whatever_counts_yet() {
    let mut world = World::new(log(10), 1_000_000);
    let mut us = Agent::new("us");
    let confirmed = |world: &World| world.ledger.regions(None).regions.iter().map(|r| r.policies).max();
    world.renew(&mut us, 0, 1);
    assert_eq!(confirmed(&world), Some(0));
    world.renew(&mut us, 0, 1);
    assert_eq!((confirmed(&world), us.floors_drained), (Some(1), None));
}

#[test]
fn a_view_shows_what_each_region_was_granted_of_the_newest_window() {
    let mut world = World::new(fixed(100), 200_000);
    let mut us = Agent::new("us");
    world.renew(&mut us, 200, 1);
    us.spent = 40;
    assert_eq!(granted(&world.renew(&mut us, 200, 1)), None, "as before");
    let state = world.ledger.budgets(None).next().expect("the budget is beyond its floors");
    let [window] = &state.windows[..] else { panic!("one window: {:?}", state.windows) };
    let units = window.regions["us"];
    assert_eq!((units.granted, units.held, units.spent), (80.0, 80.0, 40.0));
    assert_eq!((state.regions["us"].held.burst, state.regions["us"].offered.burst), (80.0, 80.0));
    assert_eq!((window.regions["eu"].granted, state.regions["eu"].held.burst), (10.0, 10.0), "its floor");
}

#[test]
fn a_region_that_lost_count_is_told_what_it_used_at_most() {
    let mut world = World::new(fixed(100), 200_000);
    let mut us = Agent::new("us");
    world.renew(&mut us, 100, 1);
    us.spent = 33;
    world.renew(&mut us, 100, 1);
    (us.spent, us.number, us.echo) = (0, Number { session: 2, seq: 0 }, None);
    let response = world.renew(&mut us, 0, 1);
    assert!(response.full);
    let told = response.grants.first().map(|g| g.used_at_most);
    assert!(told.is_some_and(|used| used >= tokens(40)), "{:?}", response.grants);
    // what it is granted beyond that may be spent, and does not count as used itself
    us.spent = told.unwrap_or_default().tokens_floor();
    let next = world.renew(&mut us, 300, 1);
    let grant = next.grants.first().expect("a grant");
    assert!(Some(grant.used_at_most) == told && grant.granted > grant.used_at_most, "{:?}", next.grants);
}

#[test]
fn one_clock_that_is_far_ahead_takes_nobody_along() {
    let mut world = World::new(fixed(100), 200_000);
    let (mut eu, mut us) = (Agent::new("eu"), Agent::new("us"));
    world.renew(&mut eu, 0, 1);
    world.renew(&mut us, 0, 1);
    us.window = 100;
    assert_eq!(granted(&world.renew(&mut us, 200, 1)), None, "it has its floor there");
    assert_eq!(granted(&world.renew(&mut eu, 200, 1)), Some(80), "and the others go on where they are");
    // the others are cut off, and it alone is live
    world.now_ms += 10_000;
    let alone = world.renew(&mut us, 0, 1);
    assert_eq!(alone.clock_at_least, StoreTime::ZERO, "nothing was closed");
    let back = world.renew(&mut eu, 200, 1);
    assert_eq!((back.clock_at_least, granted(&back)), (StoreTime::ZERO, Some(80)));
    // once the others are there too
    eu.window = 100;
    world.renew(&mut eu, 0, 1);
    assert_eq!(granted(&world.renew(&mut us, 200, 1)), Some(80));
    assert_eq!(world.renew(&mut us, 200, 1).clock_at_least, window(100).start());
}

#[test]
fn a_closed_window_stays_closed() {
    let mut world = World::new(fixed(100), 200_000);
    let (mut eu, mut us) = (Agent::new("eu"), Agent::new("us"));
    world.renew(&mut eu, 0, 1);
    (eu.window, us.window) = (3, 3);
    world.renew(&mut eu, 0, 1);
    assert!(granted(&world.renew(&mut us, 100, 1)).is_some());
    us.window = 4;
    us.spent = 0;
    world.renew(&mut us, 0, 1);
    // eu is in window 3 yet, so that is open
    assert!(granted(&world.renew(&mut eu, 100, 1)).is_some());
    eu.window = 4;
    world.renew(&mut eu, 0, 1);
    let mut late = Agent::new("eu");
    (late.number, late.window) = (Number { session: 2, seq: 0 }, 3);
    let response = world.renew(&mut late, 100, 1);
    assert!(response.grants.iter().all(|g| g.label != window(3)), "{:?}", response.grants);
}

#[test]
fn a_smaller_limit_holds_from_the_window_after_every_window_in_use() {
    let mut world = World::new(fixed(100), 200_000);
    let (mut eu, mut us) = (Agent::new("eu"), Agent::new("us"));
    (eu.window, us.window) = (3, 4);
    let both = |world: &mut World, eu: &mut Agent, us: &mut Agent| {
        (eu.floors_drained, us.floors_drained) = (eu.echo, us.echo);
        (world.renew(eu, 0, 1), world.renew(us, 0, 1))
    };
    both(&mut world, &mut eu, &mut us);
    world.change(set(fixed(50), 200_000));
    for _ in 0..3 {
        both(&mut world, &mut eu, &mut us);
    }
    assert_eq!(world.ledger.pending_policies(), None);
    let (response, _) = both(&mut world, &mut eu, &mut us);
    let up_to: Vec<WindowLabel> = response.former.iter().flat_map(|f| &f.up_to).map(|(_, _, label)| *label).collect();
    assert_eq!(up_to, [window(4)], "us was in window 4 already");
    let bound = |world: &World| world.ledger.bounds(None).policies[0].bound.overshoot_bound;
    assert_eq!(bound(&world), Some(50.0), "window 4 goes on by the limit of 100");
    (eu.window, us.window) = (5, 5);
    both(&mut world, &mut eu, &mut us);
    let (response, _) = both(&mut world, &mut eu, &mut us);
    assert_eq!(bound(&world), Some(0.0));
    assert!(response.former.is_empty(), "nobody is in those windows any more");
}

#[test]
fn a_raised_limit_holds_in_the_present_window() {
    let mut world = World::new(fixed(50), 200_000);
    let (mut eu, mut us) = (Agent::new("eu"), Agent::new("us"));
    let both = |world: &mut World, eu: &mut Agent, us: &mut Agent, demand| {
        (eu.floors_drained, us.floors_drained) = (eu.echo, us.echo);
        (world.renew(eu, 0, 1), world.renew(us, demand, 1))
    };
    us.spent = 45;
    both(&mut world, &mut eu, &mut us, 200);
    world.change(set(fixed(100), 200_000));
    for _ in 0..3 {
        both(&mut world, &mut eu, &mut us, 200);
    }
    let (response, _) = both(&mut world, &mut eu, &mut us, 200);
    assert!(response.former.is_empty());
    us.spent = 60;
    both(&mut world, &mut eu, &mut us, 200);
    let number = us.number;
    (us.number, us.echo) = (Number { session: number.session + 1, seq: 0 }, None);
    let (_, full) = both(&mut world, &mut eu, &mut us, 200);
    assert_eq!(granted(&full), Some(90));
}

#[test]
fn a_floor_that_has_ended_is_free_from_the_window_after_those_that_its_region_can_have_used() {
    let ending = |floor| {
        let mut set = set(fixed(50), floor);
        set.policies[0].floor_ttl = Some(Duration::from_secs(60));
        set
    };
    let mut world = World::new(fixed(50), 0);
    world.change(ending(1_000_000));
    let (mut eu, mut us) = (Agent::new("eu"), Agent::new("us"));
    let us_in = |world: &mut World, us: &mut Agent, window, ms| {
        us.floors_drained = us.echo;
        us.window = window;
        granted(&world.renew(us, 200, ms))
    };
    for _ in 0..3 {
        eu.floors_drained = eu.echo;
        world.renew(&mut eu, 0, 1);
        us_in(&mut world, &mut us, 0, 1);
    }
    assert_eq!(world.ledger.active_policies().version, 2);
    // eu is in the window from 0 s to 10 s, and is not heard of from then on
    world.change(ending(200_000));
    for window in 1..=6 {
        us_in(&mut world, &mut us, window, 9_990);
        assert_eq!(world.ledger.active_policies().version, 2, "window {window}");
    }
    us_in(&mut world, &mut us, 6, 200);
    assert_eq!(world.ledger.active_policies().version, 3);
    // it can have used windows until 10 s + 60.06 s, and a minute more if its clock was put forward
    for (window, units) in [(7, None), (12, None), (13, None), (14, Some(45))] {
        let granted = (0..4).filter_map(|_| us_in(&mut world, &mut us, window, 100)).max();
        assert_eq!(granted, units, "window {window}");
    }
}

/// Smaller floors that eu and us, heard of just now, have not confirmed.
fn a_change_that_waits_for_both() -> (World, Agent, Agent) {
    let mut world = World::new(log(10), 1_000_000);
    let (mut eu, mut us) = (Agent::new("eu"), Agent::new("us"));
    for _ in 0..2 {
        for agent in [&mut eu, &mut us] {
            agent.floors_drained = agent.echo;
            world.renew(agent, 0, 1);
        }
    }
    world.change(set(log(6), 1_000_000));
    (world, eu, us)
}

#[test]
fn a_fence_waits_until_what_the_region_used_last_counts_no_more() {
    let (mut world, _, mut us) = a_change_that_waits_for_both();
    let us_goes_on = |world: &mut World, us: &mut Agent, ms| {
        us.floors_drained = us.echo;
        world.renew(us, 0, ms);
        world.ledger.pending_policies().map(|(_, waits_for)| waits_for)
    };
    let eu_alone = Some(vec!["eu".parse().expect("a name")]);
    us_goes_on(&mut world, &mut us, 1);
    // L(1+ρ) is 4.004 s: the session of eu is over, and nothing of its floor is free by that
    assert_eq!(us_goes_on(&mut world, &mut us, 4_100), eu_alone);
    let by = Author { who: "test".into(), when_ms: 0, why: None };
    assert_eq!(world.ledger.apply(1, &Command::Fence { region: "eu".parse().expect("a name"), by }), Outcome::Done);
    assert_eq!(us_goes_on(&mut world, &mut us, 1), eu_alone, "the entry that dates the operator's word");
    // D_b is 10.01 s from there
    for ms in [3_900, 3_900, 2_210] {
        assert_eq!(us_goes_on(&mut world, &mut us, ms), eu_alone, "its use of just before the fence may count yet");
    }
    assert_eq!(us_goes_on(&mut world, &mut us, 1), None);
    assert_eq!(world.ledger.active_policies().version, 2);
}

#[test]
fn a_region_that_comes_back_before_the_fence_is_in_force_is_not_fenced() {
    let (mut world, mut eu, mut us) = a_change_that_waits_for_both();
    for ms in [1, 4_100] {
        us.floors_drained = us.echo;
        world.renew(&mut us, 0, ms);
    }
    let by = Author { who: "test".into(), when_ms: 0, why: None };
    assert_eq!(world.ledger.apply(1, &Command::Fence { region: "eu".parse().expect("a name"), by }), Outcome::Done);
    world.renew(&mut eu, 0, 1);
    for ms in [3_900, 3_900, 3_900] {
        us.floors_drained = us.echo;
        world.renew(&mut us, 0, ms);
    }
    let waits_for = world.ledger.pending_policies().map(|(_, waits_for)| waits_for);
    assert_eq!(waits_for, Some(vec!["eu".parse().expect("a name")]), "it acts on the old set, and was heard of since");
}

#[test]
fn what_agents_may_spend_by_themselves_is_given_up_by_the_word_on_floors_and_not_by_the_echo() {
    // nothing of it keeps counting, so that the echo alone says by which floors the store goes
    let bucket = Limit::TokenBucket { rate: tokens(100), period: Duration::from_secs(1), burst: tokens(100) };
    let with_seats = |part| {
        let mut set = set(bucket, 1_000_000);
        (set.policies[0].on_store_failure, set.policies[0].emergency) = (OnStoreFailure::Emergency, PartsPerMillion(part));
        set
    };
    let mut world = World::new(bucket, 1_000_000);
    let (mut eu, mut us) = (Agent::new("eu"), Agent::new("us"));
    let both = |world: &mut World, eu: &mut Agent, us: &mut Agent| {
        for agent in [eu, us] {
            agent.floors_drained = agent.echo;
            world.renew(agent, 0, 1);
        }
    };
    both(&mut world, &mut eu, &mut us);
    world.change(with_seats(100_000));
    (0..4).for_each(|_| both(&mut world, &mut eu, &mut us));
    assert_eq!(world.ledger.pending_policies(), None);
    world.change(with_seats(0));
    both(&mut world, &mut eu, &mut us);
    let told = us.floors_drained;
    for _ in 0..4 {
        eu.floors_drained = eu.echo;
        world.renew(&mut eu, 0, 1);
        // one of us's agents goes by the former set yet
        us.floors_drained = told;
        world.renew(&mut us, 0, 1);
    }
    assert!(world.ledger.pending_policies().is_some(), "what is set aside no more may be spent yet");
    (0..2).for_each(|_| both(&mut world, &mut eu, &mut us));
    assert_eq!(world.ledger.pending_policies(), None);
}
