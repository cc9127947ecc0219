//! A short form of the simulation; the long one is
//! `cargo run -p quorate-tests --release --bin simulate -- --seeds N`.
#![allow(clippy::panic, reason = "a test")]

use quorate_shared::mistake::Mistake;
use quorate_tests::simulation::fault::{Fault, Faults};
use quorate_tests::simulation::invariants::healing;
use quorate_tests::simulation::teeth::{RARELY_CAUGHT, TEETH, first_to_catch};
use quorate_tests::simulation::{World, trace};
use std::time::Duration;

/// Schedules of each kind.
const EACH: u64 = 2_500;
/// Kinds of schedules; the seed's remainder says which.
const KINDS: u64 = 11;

/// Runs schedules of one kind.
fn run(kind: u64) {
    let mut leased = 0;
    for seed in (0..EACH).map(|n| n * KINDS + kind) {
        match World::new(seed).run() {
            Ok(report) => leased += report.leased_instants,
            Err(violation) => panic!("seed {seed}, at {} µs: {}: {}", violation.at, violation.rule, violation.what),
        }
    }
    // units of windows are not leased
    assert!(leased > 0 || kind == 9, "no region ever held more than its floor, so nothing was tested");
}

#[test]
fn no_promise_is_broken_by_everything_at_once() {
    run(0);
}

#[test]
fn no_promise_is_broken_by_partitions() {
    run(1);
}

#[test]
fn no_promise_is_broken_by_stores_that_fail() {
    run(2);
}

#[test]
fn no_promise_is_broken_by_lapses() {
    run(3);
}

#[test]
fn no_promise_is_broken_by_leaders_that_go() {
    run(4);
}

#[test]
fn no_promise_is_broken_by_policies_that_change() {
    run(5);
}

#[test]
fn no_promise_is_broken_by_stores_that_forget() {
    run(6);
}

#[test]
fn no_promise_is_broken_by_clocks_that_jump() {
    run(7);
}

#[test]
fn no_promise_is_broken_where_past_use_counts() {
    run(8);
}

#[test]
fn no_promise_is_broken_by_windows_with_labels() {
    run(9);
}

#[test]
fn no_promise_is_broken_by_several_agents() {
    run(10);
}

#[test]
fn every_kind_of_fault_happens_and_all_heals_in_time() {
    let mut faults = Faults::default();
    for seed in 0..800 {
        let report = World::new(seed).run().unwrap_or_else(|violation| panic!("seed {seed}: {violation:?}"));
        faults.add(&report.faults);
        assert!(report.healing <= healing::heartbeats(Duration::from_secs(4)), "seed {seed}");
    }
    let missing: Vec<String> = Fault::ALL.iter().filter(|fault| faults.of(**fault) == 0).map(ToString::to_string).collect();
    assert!(missing.is_empty(), "never happened: {missing:?}");
}

#[test]
fn a_seed_is_always_the_same_schedule() {
    for seed in 0..2 * KINDS {
        let text = || trace::last_lines(seed, usize::MAX).0.iter().map(|line| format!("{line}\n")).collect::<String>();
        assert_eq!(text(), text(), "seed {seed}");
        assert_eq!(World::new(seed).run(), World::new(seed).run(), "seed {seed}");
    }
}

#[test]
fn every_mistake_is_caught() {
    for mistake in Mistake::ALL.iter().filter(|mistake| !RARELY_CAUGHT.contains(mistake)) {
        let Some(tooth) = TEETH.iter().find(|tooth| tooth.mistake == *mistake) else { panic!("no tooth for: {}", mistake.text()) };
        let seeds = std::iter::once(tooth.seed).chain(0..tooth.within);
        assert!(first_to_catch(*mistake, seeds).is_some(), "not caught by {} schedules: {}", tooth.within, mistake.text());
    }
}
