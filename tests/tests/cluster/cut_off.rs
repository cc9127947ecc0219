//! One region is cut off from the coordinators, but not from its store nor from its callers.

use crate::load::Load;
use crate::records::Records;
use crate::relay::Way;
use crate::system::{DEMAND, FLOOR, FLOOR_BURST, Floors, HEARTBEAT, LEASE, PATIENCE, POOL, RATE, REGIONS, System};
use quorate_faults::pulse::Pulse;
use quorate_faults::wait::until;
use quorate_shared::api::DecisionMode;
use std::ops::Range;
use std::time::Duration;

/// For one connection to be made anew, on a busy machine.
const RECONNECT: Duration = Duration::from_millis(500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_whose_connections_are_refused_keeps_its_floor() {
    cut_off(Way::Refused).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_that_hears_nothing_any_more_keeps_its_floor() {
    cut_off(Way::Silent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lender_that_is_cut_off_has_its_floor_back_after_a_lease() {
    let system = System::start(Floors::WithPool).await;
    let load = Load::on(&system);
    load.lean_on("us", &system).await;
    let lenders = system.status("us").await.expect("it answers").budgets;
    let lender = lenders.iter().flat_map(|budget| budget.borrowed.keys()).next().expect("it borrows");
    let lender = *REGIONS.iter().find(|region| *region == lender).expect("one of ours");
    system.set_way(lender, Way::Refused).await;
    let cut = load.now();
    load.save_up_and_rush("us").await;
    until(&format!("{lender} has its whole floor"), PATIENCE, async || {
        system.status(lender).await.filter(|status| status.mode == "floor" && status.floor_horizon_ms == 0)
    })
    .await;
    println!("{lender} has back what it lent {:?} after the cut", load.now() - cut);
    load.served(&[lender], 0.8 * FLOOR, 2 * LEASE).await;
    load.served(&REGIONS, 0.9 * f64::from(RATE), 2 * LEASE).await;
    let records = load.stop().await;

    records.expect_no_overshoot();
    let mut others = REGIONS.iter().filter(|region| **region != lender).flat_map(|region| records.in_region(region));
    let without_lease = others.find(|r| r.mode().is_some_and(|mode| mode != DecisionMode::Leased));
    assert!(without_lease.is_none(), "nobody cut it off: {without_lease:?}");
}

async fn cut_off(way: Way) {
    let system = System::start(Floors::WithPool).await;
    let load = Load::on(&system);
    load.set_all(DEMAND);
    system.wait_until_they_hold_the_pool(&REGIONS).await;
    load.served(&REGIONS, 0.9 * f64::from(RATE), Duration::from_secs(1)).await;

    load.lean_on("us", &system).await;
    let asked = load.now();
    let status = system.status("us").await.expect("it answers");
    let leased_until = asked + Duration::from_millis(status.horizon_ms);
    system.set_way("us", way).await;
    let cut = load.now();
    load.save_up_and_rush("us").await;
    system.wait_for_mode("us", "floor").await;
    println!("on its floor {:?} after the cut", load.now() - cut);
    system.wait_until_they_hold_the_pool(&["eu", "ap"]).await;
    println!("the others hold the pool {:?} after the cut", load.now() - cut);
    let apart = load.measure(3 * LEASE).await;
    load.served(&["us"], 0.8 * FLOOR, LEASE).await;
    load.served(&["eu", "ap"], 0.9 * (2.0 * FLOOR + POOL), LEASE).await;
    let seen = system.regions(1).await.expect("it answers").regions;
    let state = seen.iter().find(|region| region.region == "us").map(|region| region.state.as_str());
    assert_eq!(state, Some("expired"), "in the coordinators' eyes");

    let pulse = Pulse::begin();
    system.set_way("us", Way::Open).await;
    let healed = load.now();
    system.wait_for_mode("us", "leased").await;
    let back = load.now() - healed;
    println!("leased again {back:?} after the cut healed");
    assert!(back <= pulse.allows(2 * HEARTBEAT + RECONNECT), "leased again only after {back:?}");
    // it is given more than its floor again
    load.served(&["us"], 1.2 * FLOOR, LEASE).await;
    let records = load.stop().await;

    records.expect_no_overshoot();
    expect_modes(&records, leased_until, cut + LEASE..healed);
    let span = (apart.end - apart.start).as_secs_f64();
    let own = records.admitted("us", &apart) as f64;
    assert!(own <= FLOOR * span + FLOOR_BURST, "{own} in {span} s: more than its floor and what it may save up");
}

/// `us` uses its lease for as long as it had it, and never after it must have ended. The others
/// never leave theirs.
fn expect_modes(records: &Records, leased_until: Duration, on_floor: Range<Duration>) {
    for record in records.in_region("us").filter(|r| r.mode().is_some()) {
        if record.answered < leased_until {
            assert_eq!(record.mode(), Some(DecisionMode::Leased), "it was leased until {leased_until:?}: {record:?}");
        }
        if record.sent > on_floor.start && record.answered < on_floor.end {
            assert_eq!(record.mode(), Some(DecisionMode::Floor), "its lease ended before {:?}: {record:?}", on_floor.start);
        }
    }
    let mut others = records.in_region("eu").chain(records.in_region("ap"));
    let without_lease = others.find(|r| r.mode().is_some_and(|mode| mode != DecisionMode::Leased));
    assert!(without_lease.is_none(), "nobody cut it off: {without_lease:?}");
}
