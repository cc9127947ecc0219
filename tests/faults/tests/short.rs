//! The short form of the faults: each is a run under load, and the checker judges it. The whole is
//! `cargo run -p quorate-faults --release -- --seeds 50`.

#![allow(clippy::expect_used, clippy::panic, clippy::disallowed_macros, reason = "each run prints what it came to")]

use quorate_faults::configuration::{AGENTS, LEASE};
use quorate_faults::fault::Fault;
use quorate_faults::run::run;
use quorate_faults::scenario::{ROUND_TRIPS, Scenario, Step};
use std::time::Duration;

/// What is promised holds on any machine, and so does that regions are leased again; how much is served then is judged
/// where the whole runs.
async fn expect_unbroken(scenario: Scenario) {
    let report = run(&scenario, AGENTS).await;
    println!("{report}");
    assert!(report.broken.is_empty(), "{report}");
    assert!(report.leased_after <= report.may_take(), "not within {:?}: {report}", report.may_take());
}

fn step(at_ms: u64, lasts: Duration, fault: Fault) -> Step {
    Step { at: Duration::from_millis(at_ms), lasts, fault }
}

fn composed(name: &str, seed: u64, steps: Vec<Step>) -> Scenario {
    Scenario { name: name.to_owned(), seed, round_trip: ROUND_TRIPS[0], steps }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_isolated_grants_nothing_that_another_grants() {
    expect_unbroken(composed("isolated", 1, vec![step(1_500, LEASE + LEASE / 5, Fault::LeaderIsolated)])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coordinators_that_were_far_apart_for_a_while_go_on() {
    expect_unbroken(composed("far apart", 2, vec![step(1_500, LEASE / 2, Fault::CoordinatorsFar)])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_that_hears_nothing_a_store_that_loses_all_and_a_disk_that_fails() {
    let steps = vec![
        step(1_500, LEASE + LEASE / 5, Fault::RegionDeaf("us")),
        step(2_500, LEASE / 10, Fault::StoreKilled("eu")),
        step(3_500, LEASE / 2, Fault::DiskFails),
    ];
    expect_unbroken(composed("several at once", 3, steps)).await;
}
