//! A disk that fails under a coordinator: it stops, and what it acknowledged before is there.

#![allow(clippy::expect_used, clippy::panic)]

use quorate_faults::alone::Alone;
use quorate_faults::configuration::{RATE, policies};
use quorate_faults::disk::Failure;
use quorate_faults::system::PATIENCE;
use quorate_faults::wait::until;

/// As many changes before the disk fails.
const BEFORE: u64 = 20;

/// As many at most until the node has noticed.
const AFTER: u64 = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_whose_disk_is_full_stops_and_has_all_that_it_acknowledged() {
    acknowledges_only_what_it_has(Failure::Full).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_whose_flush_fails_stops_and_has_all_that_it_acknowledged() {
    acknowledges_only_what_it_has(Failure::Sync).await;
}

async fn acknowledges_only_what_it_has(how: Failure) {
    let mut alone = Alone::start(&policies()).await;
    let mut acknowledged = alone.version().await.expect("a version");
    let first = acknowledged;
    for n in 0..AFTER {
        if n == BEFORE {
            alone.disk().fail(how);
        }
        if !alone.put(acknowledged, set(acknowledged + 1)).await {
            break;
        }
        acknowledged += 1;
    }
    assert_eq!(acknowledged, first + BEFORE, "changes that the disk did not take were acknowledged, or others were not");
    alone.wait_until_it_ends().await;
    alone.disk().mend();
    alone.launch();
    // what is committed is applied once it leads again
    let kept = until("what was acknowledged is there", PATIENCE, async || alone.version().await.filter(|kept| *kept >= acknowledged)).await;
    // what was refused may be there as well: a failed flush leaves that open
    until("it goes on", PATIENCE, async || {
        let newest = alone.version().await?;
        alone.put(newest, set(newest + 1)).await.then_some(())
    })
    .await;
    assert!(kept <= acknowledged + 1, "{acknowledged} were acknowledged, {kept} are kept");
}

/// A set that differs from the one before it.
fn set(version: u64) -> String {
    policies().replace(&format!("rate: {RATE}/s"), &format!("rate: {}/s", u64::from(RATE) + version))
}
