//! What a change of the policy set does to budgets that are in use.

use super::*;
use crate::testing::{World, budget, by, set, set_of, tokens};
use crate::{Command, Ledger, Outcome};
use quorate_shared::policy::Mode;
use quorate_shared::policy::OnStoreFailure;
use quorate_shared::policy::Region;
use quorate_shared::policy::Window;
use quorate_shared::policy::render::diff;
use quorate_shared::units::{Capacity, MicroTokens, PartsPerMillion};

/// Two regions that use all they have, of which `us` holds the pool and a part of eu's floor.
fn in_use() -> World {
    let mut world = World::new(100, 500_000);
    for ms in [1_000, 1_500, 2_000, 2_500] {
        world.beat("eu", ms, 0);
        world.report("us", ms + 100, tokens(10), 0);
    }
    world
}

fn and_another(set: PolicySet) -> PolicySet {
    let other = Policy { name: "other".parse().expect("a name"), ..set.policies[0].clone() };
    PolicySet { policies: vec![other, set.policies[0].clone()], ..set }
}

/// All that people see of the budgets of `p`.
fn seen(ledger: &Ledger) -> Vec<quorate_shared::api::BudgetState> {
    ledger.budgets(Some(&budget().policy)).collect()
}

#[test]
fn an_unrelated_change_takes_nothing_and_loses_no_count() {
    let mut world = in_use();
    let before = seen(&world.ledger);
    let us = &before[0].regions["us"];
    assert!(us.admitted >= 30.0 && us.held.rate > 50.0 && before[0].regions["eu"].lent.rate > 0.0, "{before:?}");
    let measured = world.bound(2_700).measured_overshoot;

    world.change(1, and_another(set(100, 500_000)));
    assert_eq!(world.ledger.pending_policies(), None, "it takes nothing, so nobody is waited for");
    assert_eq!(seen(&world.ledger), before);
    let bounds = world.ledger.bounds(None).policies;
    assert_eq!(bounds.iter().find(|b| b.policy == "p").map(|b| b.measured_overshoot), Some(measured));
    let generations: Vec<u64> = world.ledger.active_policies().policies.iter().map(|p| p.generation).collect();
    assert_eq!(generations, [2, 1], "p goes on with its budgets");

    world.report("us", 2_800, tokens(10), 0);
    let after = seen(&world.ledger);
    assert_eq!(after[0].regions["us"].admitted, us.admitted + 10.0, "the count goes on where it was");
}

#[test]
fn a_policy_that_only_observes_from_now_on_keeps_its_budgets() {
    let mut world = in_use();
    let mut before = seen(&world.ledger);
    assert_eq!((before[0].mode.as_str(), before[0].enforced), ("enforce", true));
    let observing = |mut set: PolicySet| {
        set.policies[0].mode = Mode::Observe;
        set
    };
    world.change(1, observing(set(100, 500_000)));
    assert_eq!(world.ledger.pending_policies(), None);
    (before[0].mode, before[0].enforced) = ("observe".into(), false);
    assert_eq!(seen(&world.ledger), before, "nothing else has changed");
    let bound = world.bound(2_700);
    assert_eq!((bound.mode.as_str(), bound.bound.unbounded), ("observe", true));
}

#[test]
fn a_raised_limit_is_in_the_next_answer_to_each_region() {
    let mut world = World::new(100, 1_000_000);
    for ms in [1_000, 2_000] {
        world.beat("eu", ms, 0);
        world.beat("us", ms, 0);
    }
    world.change(1, set(300, 1_000_000));
    for region in ["eu", "us"] {
        let heartbeat = world.heartbeat(region, 0, MicroTokens::ZERO);
        let response = world.send(region, 2_100, heartbeat);
        assert_eq!((response.policies.active, response.policies.next), (2, None));
        assert_eq!(response.sets.last().map(|set| set.policies[0].limit.capacity()), Some(Capacity::new(tokens(300), tokens(300))));
    }
    assert_eq!(world.bound(2_100).limit.rate, 300.0);
}

#[test]
fn a_lowered_limit_shows_its_old_bound_until_the_leases_that_carry_it_end() {
    let mut world = World::new(100, 0);
    for ms in [1_000, 2_000, 2_200] {
        world.beat("eu", ms, 0);
        world.beat("us", ms, 90);
    }
    assert!(world.ledger.held(&budget(), &"us".parse().expect("a name")).pool.rate > tokens(80), "us has the pool");
    world.change(1, set(50, 0));
    // us is silent from here on: what it holds ends with its lease, and needs nobody's word
    let end = 2_200 + 4_004;
    for ms in [2_300, 3_500, 5_000, end - 1] {
        world.beat("eu", ms, 0);
        let pending = world.bound(ms);
        let change = pending.change.expect("pending");
        assert_eq!((pending.limit.rate, change.version, change.until_ms), (100.0, 2, Some(end - ms)), "at {ms} ms");
        assert_eq!((change.waits_for.as_slice(), change.out_of_reach.len()), (&["us".to_owned()][..], 0));
    }
    world.beat("eu", end + 1, 0);
    let active = world.bound(end + 1);
    assert_eq!((active.limit.rate, active.change), (50.0, None));
}

fn log(units: u64, seconds: u64) -> Limit {
    Limit::SlidingLog { units: tokens(units), window: Duration::from_secs(seconds) }
}

fn beats(world: &mut World, from: u64) {
    for ms in [from, from + 100, from + 200, from + 300] {
        world.beat("eu", ms, 0);
        world.beat("us", ms, 0);
    }
}

#[test]
fn a_lowered_limit_does_not_wait_for_past_use_of_another_one() {
    let beside_a_log = |rate, units| {
        let set = and_another(set(rate, 1_000_000));
        let limit = |p: &Policy| if p.name.as_str() == "p" { p.limit } else { log(units, 900) };
        let policies = set.policies.iter().map(|p| Policy { limit: limit(p), ..p.clone() });
        PolicySet { policies: policies.collect(), ..set.clone() }
    };
    let mut world = World::under(beside_a_log(100, 100));
    world.still_counts = true;
    beats(&mut world, 1_000);

    world.change(1, beside_a_log(50, 100));
    assert_eq!(world.ledger.pending_policies().map(|(_, regions)| regions.len()), Some(2));
    assert_eq!(change_of(&world, 1_350).and_then(|change| change.until_ms), Some(1_300 + 4_004 - 1_350), "no longer than a lease");
    beats(&mut world, 1_400);
    assert_eq!(world.ledger.pending_policies(), None, "each has said that it goes by it");
    let confirmed: Vec<u64> = world.ledger.regions(None).regions.iter().map(|region| region.policies).collect();
    assert_eq!(confirmed, [2, 2]);

    world.change(2, beside_a_log(50, 80));
    beats(&mut world, 1_800);
    let until = change_of(&world, 2_200).expect("pending: past use of the log itself counts").until_ms;
    assert_eq!(until, Some(1_900 + 900_900 + 4_004 - 2_200), "from the echo on");
    world.still_counts = false;
    beats(&mut world, 2_300);
    assert_eq!(world.ledger.pending_policies(), None);
}

#[test]
fn a_lowered_limit_waits_for_the_agents_that_spend_by_themselves() {
    let with_seats = |rate| {
        let set = set(rate, 1_000_000);
        let policy = Policy { on_store_failure: OnStoreFailure::Emergency, emergency: PartsPerMillion(100_000), ..set.policies[0].clone() };
        PolicySet { policies: vec![policy], ..set }
    };
    let mut world = World::under(with_seats(100));
    world.still_counts = true;
    beats(&mut world, 1_000);
    world.change(1, with_seats(50));
    beats(&mut world, 1_400);
    assert_eq!(world.ledger.pending_policies().map(|(_, regions)| regions.len()), Some(2), "echoed, and nobody says what agents go by");
    world.still_counts = false;
    beats(&mut world, 1_800);
    assert_eq!(world.ledger.pending_policies(), None);
}

#[test]
fn a_lowered_log_waits_for_as_long_as_its_own_past_use_counts() {
    let beside_a_long_log = |units| {
        let set = and_another(set_of(log(units, 10), 1_000_000));
        let limit = |p: &Policy| if p.name.as_str() == "p" { p.limit } else { log(100, 900) };
        let policies = set.policies.iter().map(|p| Policy { limit: limit(p), ..p.clone() });
        PolicySet { policies: policies.collect(), ..set.clone() }
    };
    let mut world = World::under(beside_a_long_log(100));
    world.still_counts = true;
    beats(&mut world, 1_000);
    world.change(1, beside_a_long_log(50));
    beats(&mut world, 1_400);
    // both have echoed the pending set at 1.5 s: what they took before counts for ten seconds and a hundredth
    for ms in (2_000..=11_500).step_by(500).chain([11_505]) {
        world.beat("eu", ms, 0);
        world.beat("us", ms, 0);
        assert!(world.ledger.pending_policies().is_some(), "at {ms} ms");
    }
    world.beat("eu", 11_511, 0);
    assert_eq!(world.ledger.pending_policies(), None);
}

#[test]
fn what_a_region_takes_of_a_former_kind_counts_of_the_one_that_has_begun() {
    let mut world = World::under(set_of(log(100, 4), 500_000));
    world.still_counts = true;
    beats(&mut world, 1_000);
    world.change(1, set_of(log(100, 10), 500_000));
    // us has confirmed, and does not hear that it is active
    for (region, ms) in [("us", 1_400), ("us", 1_500), ("eu", 1_600), ("eu", 1_700)] {
        world.beat(region, ms, 0);
    }
    assert_eq!((world.ledger.active_policies().version, world.ledger.pending_policies()), (2, None));
    world.change(2, set_of(log(50, 10), 500_000));
    beats(&mut world, 1_800);
    assert_eq!(world.ledger.pending_policies().map(|(_, regions)| regions.len()), Some(2), "what both took counts");
    world.beat("eu", 11_800, 0);
    world.beat("us", 11_950, 0);
    assert_eq!(world.ledger.pending_policies(), None);
}

#[test]
fn a_log_that_goes_on_as_another_kind_does_not_wait_for_its_past_use() {
    let mut world = World::under(set_of(log(100, 900), 500_000));
    world.still_counts = true;
    for ms in [1_000, 1_500, 2_000, 2_500] {
        world.beat("eu", ms, 0);
        world.report("us", ms + 100, tokens(10), 0);
    }
    assert!(seen(&world.ledger)[0].regions["us"].held.burst > 50.0, "it holds the pool");
    world.change(1, set(100, 500_000));
    assert_eq!(change_of(&world, 2_650).and_then(|change| change.until_ms), Some(2_600 + 4_004 - 2_650), "no longer than a lease");
    beats(&mut world, 2_700);
    assert_eq!(world.ledger.pending_policies(), None, "the new budgets begin with nothing, whatever the old ones counted");
    assert_eq!(world.ledger.check(), Ok(()));
}

fn change_of(world: &World, ms: u64) -> Option<quorate_shared::api::PendingChange> {
    world.ledger.bounds(Some((world.office, crate::testing::at(ms)))).policies.remove(0).change
}

#[test]
fn another_algorithm_begins_with_new_budgets_and_the_diff_says_so() {
    let window = Limit::FixedWindow { units: tokens(100), window: Window::Every(Duration::from_secs(60)) };
    let changes = diff(&set(100, 500_000), &set_of(window, 500_000));
    assert!(
        changes.iter().any(|c| c.field == "kind" && c.to.as_deref().is_some_and(|to| to.starts_with("kind changed: new budgets"))),
        "{changes:?}"
    );

    let mut world = in_use();
    world.change(1, set_of(window, 500_000));
    let waits_for = world.ledger.pending_policies().expect("pending").1;
    assert_eq!(waits_for.len(), 2, "what each counted says nothing of the new budgets");
    for ms in [2_700, 2_800, 2_900, 3_000] {
        world.beat("eu", ms, 0);
        world.beat("us", ms, 0);
        assert_eq!(world.ledger.check(), Ok(()));
    }
    assert_eq!(world.ledger.active_policies().policies[0].generation, 2);
    assert!(seen(&world.ledger).is_empty(), "the old budgets are gone");
}

#[test]
fn a_rollback_gives_back_no_budget_of_former_times() {
    let window = Limit::FixedWindow { units: tokens(100), window: Window::Every(Duration::from_secs(60)) };
    let mut world = in_use();
    let first = world.ledger.policy_history()[0].set.clone();
    world.change(1, set_of(window, 500_000));
    for ms in [2_700, 2_800, 2_900, 3_000] {
        world.beat("eu", ms, 0);
        world.beat("us", ms, 0);
    }
    // as a rollback does: the kept set, with its own version and generations, replaces the newest
    world.change(2, PolicySet::clone(&first));
    for ms in [3_100, 3_200, 3_300, 3_400] {
        world.beat("eu", ms, 0);
        world.beat("us", ms, 0);
        assert_eq!(world.ledger.check(), Ok(()));
    }
    let now = world.ledger.active_policies();
    assert_eq!((now.version, now.policies[0].generation), (3, 3), "what was counted in generation 1 may have been forgotten since");
    assert_eq!(diff(&first, now), vec![]);
}

#[test]
fn a_rollback_to_less_waits_like_any_other_change() {
    let mut world = World::new(100, 1_000_000);
    for ms in [1_000, 2_000] {
        world.beat("eu", ms, 0);
        world.beat("us", ms, 0);
    }
    let first = PolicySet::clone(&world.ledger.policy_history()[0].set);
    world.change(1, set(300, 1_000_000));
    for ms in [2_100, 2_200] {
        world.beat("eu", ms, 0);
        world.beat("us", ms, 0);
    }
    world.change(2, first);
    assert_eq!(world.bound(2_300).limit.rate, 300.0, "the bound is that of what regions may act on");
    for (ms, active) in [(2_400, 300.0), (2_500, 100.0)] {
        world.beat("eu", ms, 0);
        world.beat("us", ms, 0);
        assert_eq!(world.bound(ms).limit.rate, active);
    }
    let generations: Vec<u64> = world.ledger.policy_history().iter().map(|v| v.set.policies[0].generation).collect();
    assert_eq!(generations, [1, 1, 1], "one kind of budget throughout");
}

#[test]
fn a_set_like_the_active_one_withdraws_what_is_pending_at_once() {
    let mut world = in_use();
    world.change(1, set_of(log(1, 3_600), 1_000_000));
    world.beat("eu", 3_000, 0);
    assert!(world.ledger.pending_policies().is_some());
    let first = PolicySet::clone(world.ledger.active_policies());
    world.change(2, first);
    assert_eq!(world.ledger.pending_policies(), None);
    let now = world.ledger.active_policies();
    assert_eq!((now.version, now.policies[0].generation), (3, 1), "its budgets go on");
    let withdrawn: Vec<bool> = world.ledger.policy_history().iter().map(|version| version.withdrawn).collect();
    assert_eq!(withdrawn, [false, true, false]);
}

#[test]
fn a_set_that_is_refused_changes_nothing_at_all() {
    let mut world = in_use();
    let refused = |world: &mut World, replaces, set| {
        let before = world.ledger.clone();
        let outcome = world.ledger.apply(1, &Command::Policies { replaces, set: Box::new(set), by: by() });
        assert_eq!(world.ledger, before, "{outcome:?}");
        outcome
    };
    for stale in [0, 2, u64::MAX] {
        assert_eq!(refused(&mut world, stale, set(300, 500_000)), Outcome::VersionConflict { newest: 1 });
    }
    world.change(1, set(50, 500_000));
    assert_eq!(refused(&mut world, 1, set(300, 500_000)), Outcome::VersionConflict { newest: 2 }, "not what is pending");
    assert_eq!(world.ledger.policy_history().len(), 2);
}

#[test]
fn so_many_versions_are_kept_and_the_oldest_go() {
    let mut world = World::new(100, 500_000);
    for version in 1..150 {
        world.change(version, set(100 + version, 500_000));
    }
    let kept: Vec<u64> = world.ledger.policy_history().iter().map(|v| v.set.version).collect();
    assert_eq!(kept, (51..=150).collect::<Vec<_>>());
}

#[test]
fn a_change_that_takes_something_of_a_seat_is_waited_for() {
    let with = |agents, emergency| {
        let mut set = set(100, 1_000_000);
        (set.policies[0].on_store_failure, set.policies[0].emergency) = (OnStoreFailure::Emergency, PartsPerMillion(emergency));
        set.regions.values_mut().for_each(|region| *region = Region { agents, ..*region });
        set
    };
    let waited_for = |before: PolicySet, after: PolicySet| {
        let mut world = World::under(before);
        for ms in [1_000, 2_000] {
            world.beat("eu", ms, 0);
            world.beat("us", ms + 100, 0);
        }
        world.change(1, after);
        world.ledger.pending_policies().is_some()
    };
    assert!(waited_for(with(1, 100_000), with(2, 100_000)), "half of a seat is for another agent");
    assert!(waited_for(with(2, 100_000), with(1, 100_000)), "the other agent has none any more");
    assert!(waited_for(with(1, 100_000), with(1, 0)) && waited_for(with(1, 0), with(1, 100_000)), "from seat to floor, and back");
    assert!(!waited_for(with(1, 100_000), with(1, 100_000)));
}
