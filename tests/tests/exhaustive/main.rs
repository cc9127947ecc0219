//! The ledger, the lease book and the record with two regions and two leaders: not some schedules
//! but all that there are, as far as a setting lets things happen. docs/testing.md says how far.
#![allow(clippy::expect_used, clippy::panic, clippy::disallowed_macros, reason = "a test, which prints how much it explored")]

mod canonical;
mod coordinators;
mod exploration;
mod model;
mod region;
mod setting;
mod state;
mod teeth;

use exploration::Exploration;
use model::{
    BOTH_WINDOWS, CHANGES, ELSEWHERE, ENDS, GIVEN_BACK, GRANT_MOVES, GRANTED, GROWS, LENT_BACK, LENT_TO_FIRST, LENT_TO_SECOND, POOL_MOVES,
    SECOND_LAPSES, SECOND_LEASED, WAITS, WHOLE_AGAIN,
};
use quorate_shared::time::Drift;
use setting::{Left, Setting};
use stateright::{Checker, Expectation, HasDiscoveries, Model};
use std::time::Duration;

/// How much there was to explore, at least. More or less is no fault: rules may change.
struct AtLeast {
    states: usize,
    depth: usize,
}

/// Explores all of a setting: nothing must be broken, and each of `reached` must come to pass.
fn explore(setting: Setting, least: AtLeast, reached: &[&str]) {
    let checker = Exploration::of(setting).checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{states} states, {} transitions, depth {depth}", checker.state_count());
    for property in checker.model().properties() {
        let found = checker.discovery(property.name);
        match property.expectation {
            Expectation::Sometimes => assert!(found.is_some() || !reached.contains(&property.name), "never happens: {}", property.name),
            _ => assert!(found.is_none(), "broken: {}, after {:?}", property.name, found.map(|path| path.into_actions())),
        }
    }
    assert!(checker.is_done(), "states are left over");
    assert!(states >= least.states && depth >= least.depth, "there was less to explore than there should be");
}

/// Clocks all alike and a lease that has just begun, with so many heartbeats and one turn of the demand.
fn setting(beats: [u8; 2]) -> Setting {
    Setting {
        left: Left { beats, elections: 0, swings: 1, restarts: 0, losses: 0, looks: 0, changes: 0, turns: [0; 2] },
        limit: setting::flow(),
        next: setting::less(setting::flow()),
        lent: true,
        one_at_a_time: true,
        stepwise: false,
        tick: Duration::from_secs(60),
        drift: Drift::from_ppm(0).expect("in range"),
        mistake: None,
        agents: [1_000_000; 2],
        leaders: [1_000_000; 2],
    }
}

/// Units of windows, most of which the first region is granted.
fn of_windows(beats: [u8; 2]) -> Setting {
    let setting = with(setting(beats), |left| left.swings = 0);
    Setting { limit: setting::allowance(), next: setting::less(setting::allowance()), ..setting }
}

fn with(setting: Setting, change: impl FnOnce(&mut Left)) -> Setting {
    let mut changed = setting;
    change(&mut changed.left);
    changed
}

/// The first region's clock is as much slower than the second's and the leader's as clocks may be.
fn running_apart(beats: [u8; 2]) -> Setting {
    Setting { drift: Drift::MAX, agents: [953_000, 1_047_000], leaders: [1_047_000, 953_000], ..setting(beats) }
}

/// All that a lease can come to.
const ALL: [&str; 8] = [POOL_MOVES, LENT_TO_FIRST, LENT_TO_SECOND, LENT_BACK, GIVEN_BACK, ENDS, ELSEWHERE, WHOLE_AGAIN];

#[test]
fn heartbeats_of_two_regions() {
    explore(setting([2, 2]), AtLeast { states: 500_000, depth: 25 }, &ALL);
}

#[test]
fn another_leader() {
    let setting = with(setting([2, 1]), |left| left.elections = 1);
    explore(setting, AtLeast { states: 500_000, depth: 20 }, &[POOL_MOVES, LENT_TO_FIRST, ENDS, ELSEWHERE, WHOLE_AGAIN]);
}

#[test]
fn an_agent_that_starts_again() {
    let setting = with(setting([2, 1]), |left| left.restarts = 1);
    explore(setting, AtLeast { states: 300_000, depth: 20 }, &[POOL_MOVES, LENT_TO_FIRST, ENDS, ELSEWHERE, WHOLE_AGAIN]);
}

#[test]
fn a_store_that_loses_everything() {
    let setting = with(setting([3, 1]), |left| (left.losses, left.swings) = (1, 0));
    explore(setting, AtLeast { states: 200_000, depth: 20 }, &[LENT_TO_FIRST, ENDS, WHOLE_AGAIN]);
}

#[test]
fn a_cluster_that_begins() {
    let setting = Setting { lent: false, ..setting([2, 2]) };
    explore(setting, AtLeast { states: 500_000, depth: 20 }, &[POOL_MOVES, LENT_TO_FIRST, ENDS]);
}

#[test]
fn answers_that_overlap_and_steps_that_take_long() {
    let setting = Setting { one_at_a_time: false, stepwise: true, ..setting([2, 1]) };
    explore(setting, AtLeast { states: 300_000, depth: 20 }, &[POOL_MOVES, LENT_TO_FIRST, ENDS, ELSEWHERE]);
}

#[test]
fn half_a_lease_at_a_time() {
    let setting = Setting { tick: Duration::from_secs(30), ..setting([1, 1]) };
    explore(setting, AtLeast { states: 50_000, depth: 20 }, &[POOL_MOVES, ENDS]);
}

#[test]
fn clocks_that_run_apart() {
    explore(running_apart([2, 1]), AtLeast { states: 70_000, depth: 20 }, &[POOL_MOVES, LENT_TO_FIRST, ENDS, ELSEWHERE, WHOLE_AGAIN]);
}

#[test]
fn past_use_that_counts() {
    let setting = Setting { limit: setting::share(), ..setting([1, 1]) };
    explore(setting, AtLeast { states: 300_000, depth: 20 }, &[ENDS, ELSEWHERE, WHOLE_AGAIN]);
}

#[test]
fn a_second_agent_in_the_first_region() {
    let setting = with(setting([1, 1]), |left| left.looks = 2);
    explore(setting, AtLeast { states: 100_000, depth: 20 }, &[SECOND_LEASED, SECOND_LAPSES, POOL_MOVES, ENDS, ELSEWHERE]);
}

#[test]
fn policies_that_change() {
    let setting = with(setting([2, 1]), |left| (left.changes, left.swings) = (1, 0));
    explore(setting, AtLeast { states: 300_000, depth: 20 }, &[CHANGES, WAITS, GROWS]);
}

#[test]
fn windows_with_labels() {
    explore(of_windows([1, 1]), AtLeast { states: 1_000, depth: 5 }, &[GRANTED]);
}

#[test]
#[ignore = "takes minutes"]
fn windows_that_are_granted_to_another() {
    let setting = with(of_windows([2, 1]), |left| left.swings = 1);
    explore(setting, AtLeast { states: 500_000, depth: 15 }, &[GRANTED, GRANT_MOVES]);
}

#[test]
#[ignore = "takes minutes"]
fn windows_that_follow_each_other() {
    let setting = with(of_windows([1, 1]), |left| left.turns = [1, 1]);
    explore(setting, AtLeast { states: 100_000, depth: 15 }, &[GRANTED, BOTH_WINDOWS]);
}

#[test]
fn windows_of_policies_that_change() {
    let setting = with(of_windows([2, 0]), |left| (left.changes, left.turns) = (1, [1, 0]));
    explore(setting, AtLeast { states: 400_000, depth: 20 }, &[CHANGES, GRANTED]);
}

#[test]
#[ignore = "takes minutes"]
fn past_use_that_counts_and_is_given_up() {
    let setting = Setting { limit: setting::share(), ..setting([2, 1]) };
    explore(setting, AtLeast { states: 3_000_000, depth: 25 }, &[POOL_MOVES, ENDS, ELSEWHERE, WHOLE_AGAIN]);
}

#[test]
#[ignore = "takes minutes"]
fn another_leader_and_more_heartbeats() {
    let setting = with(setting([2, 2]), |left| left.elections = 1);
    explore(setting, AtLeast { states: 3_000_000, depth: 25 }, &ALL);
}

#[test]
#[ignore = "takes minutes"]
fn more_heartbeats() {
    explore(setting([3, 2]), AtLeast { states: 3_000_000, depth: 25 }, &ALL);
}
