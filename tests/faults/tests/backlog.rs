//! The heartbeats of many regions on one coordinator whose views are hammered. The whole, with figures, is
//! `cargo run -p quorate-faults --release -- --backlog 200`.

#![allow(clippy::expect_used, clippy::panic, clippy::disallowed_macros, reason = "it prints what became of heartbeats")]

use quorate_faults::alone::Alone;
use quorate_faults::backlog::{PAGES, VIEWERS, Viewers, measure, names, policies};
use quorate_faults::system::PATIENCE;
use quorate_faults::wait::until;
use std::time::Duration;

/// Each of ten agents, one of which sends the heartbeats of all.
const REGIONS: usize = 200;

/// Between two heartbeats of one region.
const PERIOD: Duration = Duration::from_secs(2);

/// How long it is measured.
const SPAN: Duration = Duration::from_secs(6);

/// Of the heartbeats that are answered when nobody asks for views, so many are answered when too many do. Both are
/// measured on the same machine, however slow that is.
const LEFT: f64 = 0.5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_of_two_hundred_regions_come_before_dashboards() {
    let names = names(REGIONS);
    let coordinator = Alone::start(&policies(&names)).await;
    let quiet = measure(&coordinator.url(), &names, 1, PERIOD, SPAN).await;
    let viewers = Viewers::of(&coordinator.url(), PAGES, VIEWERS);
    let counts = until("views are refused, and others answered", PATIENCE, async || {
        let (answered, shed) = viewers.counts();
        (answered > 0 && shed > 0).then_some((answered, shed))
    })
    .await;
    let hammered = measure(&coordinator.url(), &names, 1, PERIOD, SPAN).await;
    let (answered, shed) = viewers.counts();
    println!(
        "renewed {:.2} of all, p99 {:?}; hammered {:.2}, p99 {:?}; views: {answered} answered, {shed} shed",
        quiet.share(),
        quiet.per_mille(990),
        hammered.share(),
        hammered.per_mille(990)
    );
    assert!(!quiet.renewed.is_empty() && hammered.share() >= LEFT * quiet.share(), "{} of {}", hammered.share(), quiet.share());
    assert!(answered > counts.0 && shed > counts.1, "views were asked for all along");
}
