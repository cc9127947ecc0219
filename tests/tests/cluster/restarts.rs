//! An agent, or a region's Redis, is killed and started again.

use crate::load::Load;
use crate::system::{DEMAND, Floors, LEASE, PATIENCE, RATE, REGIONS, System};
use quorate_faults::wait::until;
use std::time::{Duration, Instant};

/// Matches the policy `deep`, of which a region's floor holds 1000 and refills 1 in a second.
const DEEP: [(&str, &str); 2] = [("route", "deep"), ("tenant", "acme")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_was_killed_opens_a_new_session_and_is_leased_again() {
    let mut system = System::start(Floors::WithPool).await;
    let load = Load::on(&system);
    load.set_all(DEMAND);
    system.wait_until_they_hold_the_pool(&REGIONS).await;
    load.measure(Duration::from_secs(1)).await;
    let before = system.status("us").await.expect("it answers");

    system.kill_agent("us");
    let killed = load.now();
    system.start_agent("us");
    let after = until("us is leased in a new session", PATIENCE, async || {
        system.status("us").await.filter(|status| status.mode == "leased" && status.session > before.session)
    })
    .await;
    println!("session {} after {}, leased {:?} after the kill", after.session, before.session, load.now() - killed);
    load.served(&REGIONS, 0.9 * f64::from(RATE), LEASE).await;
    let records = load.stop().await;

    records.expect_no_overshoot();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_lost_everything_begins_empty_and_the_region_is_leased_again() {
    let mut system = System::start(Floors::WithPool).await;
    let load = Load::on(&system);
    load.set_all(DEMAND);
    system.wait_until_they_hold_the_pool(&REGIONS).await;
    load.measure(Duration::from_secs(1)).await;
    let full = remaining(&system).await.expect("it answers");
    assert_eq!(full, 1000, "a region that was never asked has its whole floor");
    let before = system.status("us").await.expect("it answers");

    system.kill_store("us");
    let (killed, lost) = (load.now(), Instant::now());
    system.start_store("us");
    let left = until("us answers again", PATIENCE, async || remaining(&system).await).await;
    assert!(left <= lost.elapsed().as_secs() + 1, "{left} tokens in a bucket of a store that lost its state");
    let after = until("us is leased in a new session", PATIENCE, async || {
        system.status("us").await.filter(|status| status.mode == "leased" && status.session > before.session)
    })
    .await;
    println!("session {} after {}, leased {:?} after the store was killed", after.session, before.session, load.now() - killed);
    let left = remaining(&system).await.expect("it answers");
    assert!(left <= lost.elapsed().as_secs() + 1, "{left} tokens in a bucket of a store that lost its state");
    load.served(&REGIONS, 0.9 * f64::from(RATE), LEASE).await;
    let records = load.stop().await;

    records.expect_no_overshoot();
    let elsewhere = records.failures().find(|r| r.region != "us");
    assert!(elsewhere.is_none(), "another region's store was lost: {elsewhere:?}");
}

/// What `us` has left of `deep`.
async fn remaining(system: &System) -> Option<u64> {
    let answer = system.look("us", &DEEP).await?;
    assert_eq!(answer.limits.len(), 1);
    Some(answer.limits[0].remaining)
}
