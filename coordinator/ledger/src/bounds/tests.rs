use super::*;
use crate::testing::{World, budget, by, set, set_of, tokens};
use crate::{Command, Outcome};
use quorate_shared::api::CapacityTokens;
use quorate_shared::heartbeat::{Holding, Number};
use quorate_shared::policy::{CostRule, PolicySet};

#[test]
fn floors_beyond_the_limit_are_in_the_bound() {
    let within = World::new(100, 1_000_000).bound(0);
    assert_eq!((within.bound.overshoot_bound, within.bound.overshoot_per_period), (Some(0.0), Some(0.0)));
    let beyond = World::new(100, 1_500_000).bound(0);
    assert_eq!((beyond.bound.overshoot_bound, beyond.bound.overshoot_per_period), (Some(50.0), Some(50.0)));
}

#[test]
fn a_change_shows_the_old_bound_until_live_regions_have_confirmed_it() {
    let mut world = World::new(100, 1_500_000);
    for ms in [1_000, 2_000] {
        world.beat("eu", ms, 0);
        world.beat("us", ms + 500, 0);
    }
    assert_eq!(world.bound(2_500).change, None);
    world.change(1, set(100, 500_000));
    let pending = world.bound(3_000);
    assert_eq!(pending.bound.overshoot_bound, Some(50.0), "of the old floors");
    let change = pending.change.expect("pending");
    assert_eq!(
        (change.version, change.waits_for.as_slice(), change.out_of_reach.as_slice()),
        (2, &["eu".into(), "us".into()][..], &[][..])
    );
    // us was heard at 2.5 s: its lease, stretched by 1000 millionths, ends last
    assert_eq!(change.until_ms, Some(3_504));
    assert_eq!(world.ledger.bounds(None).policies[0].change.as_ref().map(|c| c.until_ms), Some(None), "a follower cannot date it");

    for ms in [3_100, 3_200] {
        world.beat("eu", ms, 0);
    }
    let change = world.bound(3_200).change.expect("still pending");
    assert_eq!((change.waits_for.as_slice(), change.until_ms), (&["us".to_owned()][..], Some(3_304)));
    for ms in [3_300, 3_400] {
        world.beat("us", ms, 0);
    }
    let active = world.bound(3_400);
    assert_eq!((active.change, active.bound.overshoot_bound), (None, Some(0.0)));
}

#[test]
fn a_region_out_of_reach_makes_the_end_of_a_change_unknown_and_says_why() {
    let mut world = World::new(100, 1_000_000);
    for ms in [1_000, 2_000] {
        world.beat("eu", ms, 0);
        world.beat("us", ms, 0);
    }
    world.change(1, set(100, 500_000));
    for ms in [7_000, 8_000] {
        world.beat("eu", ms, 0);
    }
    let change = world.bound(8_000).change.expect("pending");
    assert_eq!((change.waits_for.as_slice(), change.out_of_reach.as_slice()), (&["us".to_owned()][..], &["us".to_owned()][..]));
    assert_eq!(change.until_ms, None);
    assert!(change.why.contains("us cannot be reached") && change.why.contains("fenced"), "{}", change.why);
    world.ledger.apply(1, &Command::Fence { region: "us".parse().expect("a name"), by: by() });
    assert_eq!(world.bound(8_000).change, None);
}

/// The set with a second policy like the first, but for `change`.
fn with(change: fn(&mut Policy)) -> PolicySet {
    let mut set = set(100, 1_000_000);
    let mut second = Policy { name: "q".parse().expect("a name"), ..set.policies[0].clone() };
    change(&mut second);
    set.policies.push(second);
    set
}

fn unbounded(world: &World) -> Vec<bool> {
    world.ledger.bounds(None).policies.iter().map(|policy| policy.bound.unbounded).collect()
}

#[test]
fn what_a_region_does_not_know_to_be_limited_leaves_no_number_until_it_does() {
    let mut world = World::new(100, 1_000_000);
    for ms in [1_000, 1_500] {
        world.beat("eu", ms, 0);
        world.beat("us", ms, 0);
    }
    let changes: [fn(&mut Policy); 3] = [|_| {}, |p| p.no_other_attributes = true, |p| p.cost = CostRule::Fixed(tokens(2))];
    for (version, change) in (1..).zip(changes) {
        let ms = 1_000 + version * 1_000;
        world.change(version, with(change));
        assert_eq!(world.ledger.active_policies().version, version + 1, "it waits for nobody");
        assert_eq!(unbounded(&world), [false, true]);
        for after in [100, 200] {
            world.beat("eu", ms + after, 0);
        }
        assert_eq!(unbounded(&world), [false, true], "us may not have it");
        world.beat("us", ms + 300, 0);
        assert_eq!(unbounded(&world), [false, true], "us may not have applied it");
        world.beat("us", ms + 400, 0);
        assert_eq!(unbounded(&world), [false, false]);
    }
}

#[test]
fn what_another_policy_replaces_is_charged_otherwise_as_soon_as_that_one_is() {
    let mut world = World::new(100, 1_000_000);
    let beats = |world: &mut World, ms: u64| {
        for step in 0..3 {
            world.beat("eu", ms + step * 100, 0);
            world.beat("us", ms + step * 100, 0);
        }
    };
    beats(&mut world, 1_000);
    world.change(1, with(|q| q.replaces = vec!["p".parse().expect("a name")]));
    beats(&mut world, 2_000);
    assert_eq!(unbounded(&world), [false, false]);
    world.change(2, with(|q| (q.replaces, q.cost) = (vec!["p".parse().expect("a name")], CostRule::Fixed(tokens(2)))));
    assert_eq!(unbounded(&world), [true, true], "who goes by the set before may charge q for what p is charged for now");
    beats(&mut world, 3_000);
    world.change(3, with(|_| {}));
    assert_eq!(unbounded(&world), [true, true]);
    beats(&mut world, 4_000);
    assert_eq!(unbounded(&world), [false, false]);
}

#[test]
fn a_change_waits_for_those_who_hold_more_than_it_allows() {
    let mut world = World::new(100, 500_000);
    for ms in [1_000, 1_500, 2_000, 2_500] {
        world.beat("eu", ms, 0);
        world.beat("us", ms + 100, 90);
    }
    assert!(!world.ledger.budgets[&budget()].shares.values().all(crate::budget::Share::holds_nothing), "us has a part of the pool");
    // floors stay as they are, the pool goes
    world.change(1, set(50, 1_000_000));
    let change = world.bound(2_700).change.expect("pending");
    // us has of the pool and of what eu lent; eu lent
    assert_eq!((change.waits_for, change.out_of_reach, change.until_ms), (vec!["eu".into(), "us".into()], vec![], Some(3_904)));
    for ms in [2_800, 2_900, 3_000] {
        world.beat("us", ms, 90);
    }
    assert_eq!(world.bound(3_000).change, None);
}

/// Breaks R4: more of the pool is held than there is.
fn break_it(world: &mut World) {
    let share = world.ledger.budgets.get_mut(&budget()).expect("an entry").share(&"eu".parse().expect("a name"));
    share.say(Number { session: 1, seq: 2 }, Holding { pool: Capacity::new(tokens(60), tokens(60)), ..Default::default() });
}

fn clear(world: &mut World, policy: &str) -> (usize, Vec<String>) {
    let command = Command::ClearAlarm { policy: Some(policy.parse().expect("a name")), subject: None, by: by() };
    match world.ledger.apply(1, &command) {
        Outcome::AlarmsCleared { cleared, standing } => (cleared.len(), standing.into_iter().map(|(_, what)| what).collect()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_failed_check_stops_its_budget_alone_until_it_passes_and_is_cleared() {
    let mut world = World::new(100, 500_000);
    for ms in [1_000, 2_000] {
        world.beat("eu", ms, 0);
        world.beat("us", ms, 90);
    }
    break_it(&mut world);
    world.beat("us", 2_500, 90);
    let broken = world.bound(2_500);
    assert_eq!((broken.bound.overshoot_bound, broken.bound.unbounded), (None, true), "no number is promised");
    assert_eq!((broken.alarms[0].policy.as_str(), broken.alarms[0].subject.clone()), ("p", budget().subject.to_string()));
    assert!(broken.alarms[0].what.contains("pool held by all regions"), "{}", broken.alarms[0].what);
    let shown = world.ledger.budgets(None).next().expect("shown");
    assert_eq!(shown.alarm.as_deref(), Some(broken.alarms[0].what.as_str()));
    assert_eq!(shown.regions["us"].offered, CapacityTokens { rate: 25.0, burst: 25.0 }, "us is told to give up all but its floor");

    let (cleared, standing) = clear(&mut world, "p");
    assert_eq!((cleared, standing.len()), (0, 1), "eu may hold too much still");
    assert_eq!(clear(&mut world, "other"), (0, vec![]));
    for ms in [2_600, 2_700, 2_800] {
        world.beat("eu", ms, 0);
        world.beat("us", ms, 90);
    }
    assert!(world.ledger.alarm().is_some(), "nothing clears it but an operator");
    assert_eq!(clear(&mut world, "p"), (1, vec![]));
    world.beat("us", 3_000, 90);
    let again = world.bound(3_000);
    assert_eq!((again.bound.overshoot_bound, again.alarms.len()), (Some(0.0), 0));
    let offered = world.ledger.budgets(None).next().expect("shown").regions["us"].offered;
    assert!(offered.rate > 25.0, "grants go on: {offered:?}");
}

#[test]
fn a_change_of_what_keeps_counting_waits_for_past_use_as_well() {
    let log = |units| Limit::SlidingLog { units: tokens(units), window: Duration::from_secs(20) };
    let mut world = World::under(set_of(log(100), 1_000_000));
    for ms in [1_000, 2_000] {
        world.beat("eu", ms, 0);
        world.beat("us", ms, 0);
    }
    world.change(1, set_of(log(50), 1_000_000));
    let change = world.bound(3_000).change.expect("pending");
    assert_eq!((change.waits_for.len(), change.out_of_reach.len()), (2, 0));
    // the lease from 2 s on, the window, and a lease for the heartbeat that says so
    assert_eq!(change.until_ms, Some(2_000 + 4_004 + 20_020 + 4_004 - 3_000));
    world.still_counts = true;
    for ms in [3_100, 3_200, 9_000, 15_000] {
        world.beat("eu", ms, 0);
        world.beat("us", ms, 0);
    }
    let change = world.bound(16_000).change.expect("pending");
    assert_eq!(change.until_ms, Some(3_200 + 20_020 + 4_004 - 16_000), "from the echo on, whatever is heard since");
}
