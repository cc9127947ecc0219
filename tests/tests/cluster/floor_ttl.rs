//! A region whose floor of a policy ends by itself is out of reach while that policy is changed.

use crate::records::Outcome;
use crate::relay::Way;
use crate::system::{Floors, NODES, PATIENCE, System};
use quorate_faults::wait::until;
use std::time::{Duration, Instant};

/// The `floor-ttl` of the policy, which is the shortest that there may be.
const TTL: Duration = Duration::from_secs(60);

/// For that, the margins of drift, and a busy machine.
const ENDED: Duration = Duration::from_secs(150);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_floor_that_ends_by_itself_is_others_once_nothing_is_admitted_by_it() {
    let system = System::start(Floors::WithPool).await;
    let ask = async || matches!(system.ask("eu", "ending").await, Outcome::Admitted(_));
    until("eu admits", PATIENCE, async || ask().await.then_some(())).await;
    system.set_way("eu", Way::Refused).await;
    // no heartbeat that was sent later has an answer
    let cut = Instant::now();
    let (version, waits_for) = system.change_policies(|policies| policies.replace("rate: 30/s", "rate: 15/s")).await;
    assert!(waits_for.iter().any(|region| region == "eu"), "it uses more than it is to have: {waits_for:?}");
    system.wait_for_mode("eu", "floor").await;
    until("eu admits by its floor alone", PATIENCE, async || ask().await.then_some(())).await;

    let mut admitted = 0_u32;
    until("the change is in force", ENDED, async || {
        let mut in_force = false;
        for node in NODES {
            in_force |= system.active_policies(node).await? == version;
        }
        let sent = cut.elapsed();
        if ask().await {
            admitted += 1;
            assert!(!in_force, "others have what it goes on with");
            assert!(sent < TTL, "{sent:?} after the cut");
        }
        in_force.then_some(())
    })
    .await;
    println!("{admitted} admitted by a floor that ends; its change in force {:?} after the cut", cut.elapsed());
    let floors = system.status("eu").await.expect("it answers").floors;
    assert!(floors.iter().any(|floor| floor.policy == "ending" && floor.ended), "{floors:?}");
    assert!(!ask().await, "nothing brings it back but a coordinator");

    system.set_way("eu", Way::Open).await;
    until("eu admits by what it has now", PATIENCE, async || ask().await.then_some(())).await;
}
