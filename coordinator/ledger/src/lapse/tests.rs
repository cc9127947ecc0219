use crate::testing::{World, set, set_of, tokens};
use quorate_shared::api::PendingChange;
use quorate_shared::heartbeat::{Heartbeat, Office};
use quorate_shared::policy::{Limit, Mode, OnStoreFailure, Policy, PolicySet};
use quorate_shared::units::{MicroTokens, PartsPerMillion};
use std::time::Duration;

/// The set, with floors that hold for so many seconds without a coordinator.
fn ending(set: PolicySet, seconds: u64) -> PolicySet {
    let policies = set.policies.iter().map(|p| Policy { floor_ttl: Some(Duration::from_secs(seconds)), ..p.clone() });
    PolicySet { policies: policies.collect(), ..set }
}

/// Two regions that were last heard at 2.0 s and 2.1 s.
fn heard(set: PolicySet) -> World {
    let mut world = World::under(set);
    for ms in [1_000, 2_000] {
        world.beat("eu", ms, 0);
        world.beat("us", ms + 100, 0);
    }
    world
}

fn change_at(world: &World, ms: u64) -> Option<PendingChange> {
    world.bound(ms).change
}

/// us alone is heard from then on. The last of these milliseconds at which the change is pending yet.
fn pending_until(world: &mut World, from: u64, end: u64) -> u64 {
    for ms in (from..end - 20).step_by(1_000).chain(end - 20..end + 20) {
        world.beat("us", ms, 0);
        if world.ledger.pending_policies().is_none() {
            return ms - 1;
        }
    }
    panic!("it waits for ever");
}

#[test]
fn a_change_waits_for_a_region_out_of_reach_until_its_floors_have_ended() {
    let mut world = heard(ending(set(100, 1_000_000), 60));
    world.change(1, ending(set(50, 1_000_000), 60));
    world.beat("us", 3_000, 0);
    world.beat("us", 3_100, 0);
    world.beat("us", 7_000, 0);
    let change = change_at(&world, 7_000).expect("pending");
    let end = 2_000 + 60_060;
    assert_eq!((change.out_of_reach, change.until_ms), (vec!["eu".to_owned()], Some(end - 7_000)));
    assert!(change.why.contains("floor-ttl"), "{}", change.why);
    assert_eq!(pending_until(&mut world, 8_000, end), end);
    assert_eq!((world.ledger.active_policies().version, world.ledger.check()), (2, Ok(())));
    // heard again, it goes by the set that is active now, and no other is held up by it
    world.change(2, ending(set(40, 1_000_000), 60));
    world.beat("us", end + 100, 0);
    world.beat("us", end + 200, 0);
    assert_eq!(world.ledger.active_policies().version, 3, "it has nothing of the first set to lose");
    world.beat("eu", end + 300, 0);
    world.change(3, ending(set(30, 1_000_000), 60));
    world.beat("us", end + 400, 0);
    world.beat("us", end + 500, 0);
    assert_eq!(world.ledger.pending_policies().map(|(_, regions)| regions.len()), Some(1), "it may go by the third by now");
    assert_eq!(pending_until(&mut world, end + 1_000, end + 60_360), end + 300 + 60_060);
}

#[test]
fn without_an_end_of_its_own_nobody_knows_when_a_floor_ends() {
    let mut world = heard(set(100, 1_000_000));
    world.change(1, ending(set(50, 1_000_000), 60));
    for ms in [3_000, 7_000, 7_000_000] {
        world.beat("us", ms, 0);
    }
    assert_eq!(change_at(&world, 7_000_000).map(|change| change.until_ms), Some(None), "it was not told of that end");
}

#[test]
fn a_region_that_hears_nothing_holds_nothing_up_by_being_heard() {
    let mut world = heard(ending(set(100, 1_000_000), 60));
    world.change(1, ending(set(50, 1_000_000), 60));
    let end = 2_000 + 60_060;
    let beat_unheard = |world: &mut World, ms| {
        let heartbeat = world.heartbeat("eu", 0, MicroTokens::ZERO);
        world.send("eu", ms, Heartbeat { echo: None, floors_drained: None, ..heartbeat });
    };
    for ms in (3_000..=end).step_by(1_000).chain([end]) {
        beat_unheard(&mut world, ms);
        world.beat("us", ms, 0);
        assert!(world.ledger.pending_policies().is_some(), "at {ms} ms");
    }
    // what renews its floors tells it of the pending set
    world.beat("us", end + 1, 0);
    assert_eq!(world.ledger.active_policies().version, 2);
}

#[test]
fn the_time_of_another_office_counts_from_its_beginning() {
    let mut world = heard(ending(set(100, 1_000_000), 60));
    world.change(1, ending(set(50, 1_000_000), 60));
    world.beat("us", 59_000, 0);
    world.office = Office { term: 2, process: 2 };
    assert_eq!(pending_until(&mut world, 100, 60_060), 60_060);
}

#[test]
fn the_longest_end_counts_until_a_shorter_one_is_echoed() {
    let mut world = heard(ending(set(100, 1_000_000), 600));
    world.change(1, ending(set(100, 1_000_000), 60));
    assert_eq!(world.ledger.pending_policies(), None, "nobody has less by it");
    world.beat("eu", 2_200, 0);
    world.change(2, ending(set(50, 1_000_000), 60));
    // eu was told of the second set, and it is not known whether it has heard that
    assert_eq!(pending_until(&mut world, 3_000, 2_000 + 600_600), 2_000 + 600_600);

    let mut world = heard(ending(set(100, 1_000_000), 600));
    world.change(1, ending(set(100, 1_000_000), 60));
    world.beat("eu", 2_200, 0);
    world.beat("eu", 2_300, 0);
    world.change(2, ending(set(50, 1_000_000), 60));
    assert_eq!(pending_until(&mut world, 3_000, 2_300 + 60_060), 2_300 + 60_060);
}

#[test]
fn past_use_counts_on_after_the_end_of_a_floor() {
    let log = |units| ending(set_of(Limit::SlidingLog { units: tokens(units), window: Duration::from_secs(10) }, 1_000_000), 60);
    let mut world = heard(log(100));
    world.change(1, log(50));
    let end = 2_000 + 60_060 + 10_010;
    assert_eq!(pending_until(&mut world, 3_000, end), end);
}

#[test]
fn what_agents_may_spend_by_themselves_ends_with_the_floor() {
    let with_seats = |rate| {
        let mut set = ending(set(rate, 1_000_000), 60);
        (set.policies[0].on_store_failure, set.policies[0].emergency) = (OnStoreFailure::Emergency, PartsPerMillion(100_000));
        set
    };
    let mut world = heard(with_seats(100));
    world.change(1, with_seats(50));
    assert_eq!(pending_until(&mut world, 3_000, 2_000 + 60_060), 2_000 + 60_060);
}

#[test]
fn what_lets_pass_never_ends_by_itself() {
    let mut observed = ending(set(100, 1_000_000), 60);
    observed.policies[0].mode = Mode::Observe;
    let mut world = heard(observed);
    world.change(1, ending(set(100, 1_000_000), 60));
    for ms in [3_000, 7_000, 7_000_000] {
        world.beat("us", ms, 0);
    }
    assert_eq!(change_at(&world, 7_000_000).map(|change| change.until_ms), Some(None));
}
