//! The short form of the faults: each is a run under load, and the checker judges it. The whole is
//! `cargo run -p quorate-faults --release -- --seeds 50`.

#![allow(clippy::expect_used, clippy::panic, clippy::disallowed_macros, reason = "each run prints what it came to")]

use quorate_faults::configuration::{AGENTS, LEASE};
use quorate_faults::fault::Fault;
use quorate_faults::run::run;
use quorate_faults::scenario::{ROUND_TRIPS, Scenario, Step};
use std::time::Duration;

/// On a busy machine all takes longer, so times are judged where the whole runs.
async fn expect_unbroken(scenario: Scenario) {
    let report = run(&scenario, AGENTS).await;
    println!("{report}");
    assert!(report.broken.is_empty(), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_isolated_grants_nothing_that_another_grants() {
    expect_unbroken(Scenario::single(Fault::LeaderIsolated, ROUND_TRIPS[0], 1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coordinators_that_were_far_apart_for_a_while_go_on() {
    expect_unbroken(Scenario::single(Fault::CoordinatorsFar, ROUND_TRIPS[0], 2)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_that_hears_nothing_a_store_that_loses_all_and_a_disk_that_fails() {
    let step = |at: u64, lasts: Duration, fault| Step { at: Duration::from_millis(at), lasts, fault };
    let steps = vec![
        step(1_500, LEASE * 3 / 2, Fault::RegionDeaf("us")),
        step(2_500, Duration::from_millis(500), Fault::StoreKilled("eu")),
        step(3_500, LEASE / 2, Fault::DiskFails),
    ];
    expect_unbroken(Scenario { name: "several at once".to_owned(), seed: 3, round_trip: ROUND_TRIPS[0], steps }).await;
}
