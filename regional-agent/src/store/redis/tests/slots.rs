//! Redis in cluster mode: it refuses a script whose keys lie in different hash slots.

use super::*;
use crate::store::redis::wire::Keys;
use quorate_limiter::record::{HoldingsChange, Settlement};
use quorate_shared::heartbeat::Holding;

/// A Redis of a cluster of one shard, which has all slots and checks them as any other shard does.
fn shard() -> Server {
    let server = Server::on_port(server::free_port(), "", &["--cluster-enabled", "yes"]);
    let mut connection = server.connect();
    redis::cmd("CLUSTER").arg(&["ADDSLOTSRANGE", "0", "16383"]).exec(&mut connection).expect("assigned");
    loop {
        let info: String = redis::cmd("CLUSTER").arg("INFO").query(&mut connection).expect("it answers");
        if info.contains("cluster_state:ok") {
            return server;
        }
    }
}

fn slot(connection: &mut redis::Connection, key: &str) -> u64 {
    redis::cmd("CLUSTER").arg("KEYSLOT").arg(key).query(connection).expect("it answers")
}

#[tokio::test]
async fn a_request_over_many_budgets_is_decided_whole_in_a_cluster() {
    let server = shard();
    let store = store(&server);
    begin(&store).await.expect("begun");
    let of = |name: &str, burst| charge(name, tokens(1), Duration::from_secs(3_600), tokens(burst));
    let together = [of("{}", 3), of("}{", 1), of("b", 2)];
    assert!(decide(&store, &together).await.allowed);
    assert!(!decide(&store, &together).await.allowed, "the second budget is used up");
    let left: Vec<u64> = decide(&store, &together).await.limits.iter().map(|l| l.remaining.tokens_floor()).collect();
    assert_eq!(left, [2, 0, 1], "a refusal by one charges none");
}

#[tokio::test]
async fn what_a_response_changes_is_written_whole_in_a_cluster() {
    let server = shard();
    let store = store(&server);
    begin(&store).await.expect("begun");
    let number = Number { session: 1, seq: 2 };
    store.take(number).await.expect("newer");
    let nothing = |name| Settlement { budget: subject(name), holding: Holding::default(), standing: None };
    let settlements = ["a", "b", "{c}"].map(nothing).to_vec();
    let change = HoldingsChange { number, view: LeaseView::default(), drift: NO_DRIFT, settlements, grants: vec![] };
    assert_eq!(store.write(&change).await, Ok(()));
}

#[tokio::test]
async fn the_keys_of_a_region_share_a_slot_and_those_of_regions_need_not() {
    let server = shard();
    let mut connection = server.connect();
    let mut slots = |region: &str| {
        let keys = Keys::new(&region.parse().expect("a name"));
        let budgets: Vec<BudgetId> = (0..100).map(|n| subject(&format!("{{{n}}}"))).collect();
        let all = keys.lease_and(budgets.iter());
        let slots: std::collections::BTreeSet<u64> = all.iter().map(|key| slot(&mut connection, key)).collect();
        assert_eq!(slots.len(), 1, "{region}");
        slots
    };
    assert_ne!(slots("eu"), slots("us"));
}
