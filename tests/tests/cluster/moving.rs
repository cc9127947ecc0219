//! Demand moves from one region to another, and capacity follows.

use crate::load::Load;
use crate::system::{Floors, PATIENCE, RATE, REGIONS, System, may_use};
use quorate_faults::pulse::Pulse;
use quorate_faults::wait::until;
use quorate_shared::api::DecisionMode;
use std::time::Duration;

/// Per second, all of it in one region at a time: more than the whole limit.
const DEMAND: u32 = 150;

/// Of the limit. A tenth of each idle region's floor is never lent, so no region ever has all.
const NEARLY_ALL: f64 = 0.9;

/// Capacity must have followed by then.
const SOON: Duration = Duration::from_secs(3);

/// How long a region is watched once it has it.
const STAY: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_region_gets_nearly_the_whole_limit_and_then_another_does() {
    let system = System::start(Floors::Everything).await;
    let load = Load::on(&system);
    for region in REGIONS {
        let pulse = Pulse::begin();
        load.set_all(0);
        load.set(region, DEMAND);
        let jumped = load.now();
        until(&format!("{region} may use nearly all"), PATIENCE, async || {
            system.status(region).await.filter(|status| may_use(status) >= NEARLY_ALL * f64::from(RATE))
        })
        .await;
        let took = load.now() - jumped;
        println!("{region} may use {NEARLY_ALL} of the limit {took:?} after demand moved there");
        assert!(took <= pulse.allows(SOON), "{region} may use it only after {took:?}");
        load.served(&[region], NEARLY_ALL * f64::from(RATE), STAY).await;
    }
    let records = load.stop().await;
    records.expect_no_overshoot();
    let without_lease = records.0.iter().find(|r| r.mode().is_some_and(|mode| mode != DecisionMode::Leased));
    assert!(without_lease.is_none(), "{without_lease:?}");
}
