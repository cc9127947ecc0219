//! A coordinator is replaced by a new one while the regions work.

use crate::load::Load;
use crate::system::{DEMAND, Floors, NODES, PATIENCE, REGIONS, System};
use quorate_faults::wait::until;
use quorate_ledger::level::SECOND;
use quorate_shared::api::DecisionMode;

const NEW: u64 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_region_leaves_its_lease_while_a_coordinator_is_replaced() {
    let mut system = System::start(Floors::WithPool).await;
    let load = Load::on(&system);
    load.set_all(DEMAND);
    system.wait_until_they_hold_the_pool(&REGIONS).await;

    until("the account can say who changes the members", PATIENCE, async || {
        let leader = system.leader().await;
        system.cluster(leader).await.filter(|cluster| cluster.level >= SECOND)
    })
    .await;
    let address = system.start_joining(NEW);
    let added = system.quorate(&["cluster", "add", "4", &address, "--why", "a new machine"]).await;
    assert!(added.contains("node 4 at") && added.contains("is a member"), "{added}");
    assert!(system.quorate(&["cluster", "transfer-leader", "4"]).await.contains("node 4 leads"));
    assert_eq!(system.leader().await, NEW);
    let old = NODES[0];
    assert!(system.quorate(&["cluster", "remove", "1", "--why", "the old machine"]).await.contains("node 1 is no member"));
    system.kill_coordinator(old);
    assert_eq!(system.leader().await, NEW);
    let cluster = system.cluster(NEW).await.expect("it answers");
    assert_eq!(cluster.members.iter().filter(|member| member.voter).map(|member| member.id).collect::<Vec<_>>(), [2, 3, NEW]);

    let records = load.stop().await;
    records.expect_no_overshoot();
    let without_lease = records.0.iter().find(|r| r.mode().is_some_and(|mode| mode != DecisionMode::Leased));
    assert!(without_lease.is_none(), "{without_lease:?}");
    let audit = system.quorate(&["audit", "--json", "--kind", "members-ordered"]).await;
    for told in ["add node 4 at", "let node 4 lead", "remove node 1", "a new machine", "the old machine"] {
        assert!(audit.contains(told), "{told}: {audit}");
    }
}
