//! Three nodes: they elect, replicate, restart, and catch up.

use crate::harness::{Cluster, applied, entry};
use quorate_ledger::Outcome;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_that_start_at_once_form_one_cluster_and_replicate() {
    let cluster = Cluster::start(3, |_| {}).await;
    let leader = cluster.leader().await;
    for n in 0..20 {
        assert_eq!(leader.propose(entry(&n.to_string())).await, Ok(Outcome::UnknownRegion));
    }
    let index = leader.status().applied;
    for served in cluster.nodes.values() {
        applied(&served.node, index).await;
        let status = served.node.status();
        assert_eq!(status.leader, leader.status().leader);
        assert_eq!(status.members.iter().map(|m| (m.id, m.voter)).collect::<Vec<_>>(), [(1, true), (2, true), (3, true)]);
    }
    cluster.stop().await;
}
