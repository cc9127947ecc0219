//! All coordinators are killed, and come back much later.

use crate::load::Load;
use crate::records::{Record, Records};
use crate::system::{FLOOR, FLOOR_BURST, Floors, LEASE, NODES, PATIENCE, REGIONS, System};
use quorate_faults::pulse::Pulse;
use quorate_faults::wait::until;
use quorate_shared::api::DecisionMode;
use std::ops::Range;
use std::time::Duration;

/// Of its share, so much is to be served in each region: the rest is for a busy machine.
const ENOUGH: f64 = 0.8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_region_serves_its_floor_until_the_coordinators_are_back() {
    let mut system = System::start(Floors::WithPool).await;
    let load = Load::on(&system);
    load.lean_on("us", &system).await;

    NODES.into_iter().for_each(|node| system.kill_coordinator(node));
    let killed = load.now();
    load.save_up_and_rush("us").await;
    for region in REGIONS {
        until(&format!("{region} has its whole floor"), PATIENCE, async || {
            system.status(region).await.filter(|status| status.mode == "floor" && status.floor_horizon_ms == 0)
        })
        .await;
    }
    println!("all have their whole floors {:?} after the coordinators were killed", load.now() - killed);
    let first = load.measure(LEASE).await;
    for region in REGIONS {
        load.served(&[region], ENOUGH * FLOOR, LEASE).await;
    }
    system.kill_agent("ap");
    system.start_agent("ap");
    let status = system.wait_for_mode("ap", "floor").await;
    assert!(status.floor_horizon_ms > 0, "it cannot know until when it promised to leave alone what it lent: {status:?}");
    let lent: f64 = status.budgets.iter().map(|budget| budget.lent.rate).sum();
    println!("of ap's floor of {FLOOR} a second {lent} are lent");
    let second = load.measure(2 * LEASE).await;
    for (region, share) in [("us", FLOOR), ("eu", FLOOR), ("ap", FLOOR - lent)] {
        load.served(&[region], ENOUGH * share, LEASE).await;
    }

    let pulse = Pulse::begin();
    let started = load.now();
    NODES.into_iter().for_each(|node| system.start_coordinator(node));
    system.wait_until_leased().await;
    let back = load.now() - started;
    println!("all leased again {back:?} after the coordinators were started");
    assert!(back <= pulse.allows(LEASE), "leased again only after {back:?}");
    load.measure(Duration::from_secs(1)).await;
    let records = load.stop().await;

    records.expect_no_overshoot();
    assert_eq!(records.failures().count(), 0, "{:?}", records.failures().next());
    let late = records.0.iter().find(|record| is_leased_between(record, &(killed + LEASE..started)));
    assert!(late.is_none(), "a lease that had ended: {late:?}");
    for region in REGIONS {
        expect_share(&records, region, &first, FLOOR);
    }
    assert!(lent > 0.0, "it had no part in this test otherwise");
    for (region, share) in [("us", FLOOR), ("eu", FLOOR), ("ap", FLOOR - lent)] {
        expect_share(&records, region, &second, share);
    }
}

fn is_leased_between(record: &Record, span: &Range<Duration>) -> bool {
    record.mode() == Some(DecisionMode::Leased) && record.sent > span.start && record.answered < span.end
}

fn expect_share(records: &Records, region: &str, during: &Range<Duration>, share: f64) {
    let span = (during.end - during.start).as_secs_f64();
    let admitted = records.admitted(region, during) as f64;
    assert!(admitted <= share * span + FLOOR_BURST, "{region}: {admitted} in {span} s: more than {share} a second and what it may save up");
}
