//! A short form of the simulation; the long one is
//! `cargo run -p quorate-tests --release --bin simulate -- --seeds N`.
#![allow(clippy::panic, reason = "a test")]

use quorate_tests::simulation::World;

/// Schedules that once found a fault, each of a fault of its own.
const ONCE_FOUND: &[(u64, &str)] = &[
    (139, "an entry of an office that was over dated everything anew"),
    (9388, "a session number used again after the store was lost"),
    (19, "a pending policy set taken for the active one after the store was lost"),
];

fn run(seeds: impl Iterator<Item = u64>) -> u64 {
    let mut leased = 0;
    for seed in seeds {
        match World::new(seed).run() {
            Ok(report) => leased += report.leased_instants,
            Err(violation) => panic!("seed {seed}, at {} µs: {}", violation.at, violation.what),
        }
    }
    leased
}

#[test]
fn no_promise_is_broken() {
    assert!(run(0..400) > 0, "no region ever held more than its floor, so nothing was tested");
}

#[test]
fn what_was_found_once_stays_fixed() {
    run(ONCE_FOUND.iter().map(|(seed, _)| *seed));
}

#[test]
fn a_seed_is_always_the_same_schedule() {
    assert_eq!(World::new(7).run(), World::new(7).run());
}
