//! The leader is killed, several times over.

use crate::load::Load;
use crate::system::{DEMAND, ELECTION_TIMEOUT, Floors, PATIENCE, REGIONS, System};
use quorate_faults::pulse::Pulse;
use quorate_faults::wait::until;
use quorate_shared::api::DecisionMode;
use std::collections::BTreeMap;
use std::time::Duration;

/// The median of so many is what counts.
const ROUNDS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_region_leaves_its_lease_while_another_leader_is_elected() {
    let mut system = System::start(Floors::WithPool).await;
    let load = Load::on(&system);
    load.set_all(DEMAND);
    system.wait_until_they_hold_the_pool(&REGIONS).await;
    let (mut outages, pulse) = (Vec::new(), Pulse::begin());
    for _ in 0..ROUNDS {
        let leader = system.leader().await;
        let killed = load.now();
        system.kill_coordinator(leader);
        let outage = next_renewal(&system, &load, killed).await;
        println!("next successful heartbeat of every region {outage:?} after leader {leader} was killed");
        outages.push(outage);
        system.start_coordinator(leader);
        wait_until_it_caught_up(&system, leader).await;
    }
    load.measure(Duration::from_secs(1)).await;
    let records = load.stop().await;
    records.expect_no_overshoot();
    let without_lease = records.0.iter().find(|r| r.mode().is_some_and(|mode| mode != DecisionMode::Leased));
    assert!(without_lease.is_none(), "{without_lease:?}");
    assert_eq!(records.failures().count(), 0, "{:?}", records.failures().next());
    outages.sort();
    let median = outages[ROUNDS / 2];
    println!("median {median:?}, {:.2} of the election timeout", median.as_secs_f64() / ELECTION_TIMEOUT.as_secs_f64());
    assert!(median <= pulse.allows(2 * ELECTION_TIMEOUT), "{outages:?}");
}

/// From the kill to the first heartbeat that another leader answered, of the region where that
/// took longest. Every region stays leased meanwhile.
async fn next_renewal(system: &System, load: &Load, killed: Duration) -> Duration {
    // Nobody is elected sooner. What is answered before was on its way when the leader died.
    let of_another = killed + ELECTION_TIMEOUT / 2;
    let mut renewed: BTreeMap<&str, Duration> = BTreeMap::new();
    until("a heartbeat of each region succeeds", PATIENCE, async || {
        for region in REGIONS {
            let status = system.status(region).await.expect("it answers");
            assert_eq!(status.mode, "leased", "{region}: {status:?}");
            let age = Duration::from_millis(status.last_renewal_ms.expect("it was leased"));
            let at = load.now().saturating_sub(age);
            if at > of_another {
                renewed.entry(region).or_insert(at - killed);
            }
        }
        (renewed.len() == REGIONS.len()).then(|| renewed.values().max().copied()).flatten()
    })
    .await
}

/// Waits until a coordinator that was started again has all that its leader had by then.
async fn wait_until_it_caught_up(system: &System, node: u64) {
    until(&format!("coordinator {node} is back"), PATIENCE, async || system.cluster(node).await).await;
    let leader = system.leader().await;
    let applied = system.cluster(leader).await.expect("it answers").applied;
    until(&format!("coordinator {node} has caught up"), PATIENCE, async || {
        system.cluster(node).await.filter(|cluster| cluster.applied >= applied)
    })
    .await;
}
