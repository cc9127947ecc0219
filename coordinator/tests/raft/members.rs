//! Nodes that are added and removed, and a lead that is handed over, while the cluster works.

use crate::harness::{Cluster, author, entry, eventually, found};
use quorate_coordinator::raft::{MemberError, ProposeError, RaftNode};
use quorate_ledger::level::SECOND;
use quorate_ledger::{Command, MemberOrder, Outcome};

fn voters(node: &RaftNode) -> Vec<u64> {
    node.status().members.iter().filter(|member| member.voter).map(|member| member.id).collect()
}

/// Adds a node as an operator does: until it votes.
async fn add(cluster: &Cluster, id: u64, address: &str) {
    while !cluster.leader().await.add_member(id, address).await.expect("fits").voter {}
}

async fn follower(cluster: &Cluster) -> u64 {
    let leader = cluster.leader().await.status().node;
    cluster.nodes.keys().copied().find(|id| *id != leader).expect("a follower")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_of_one_grows_to_three_and_outlives_its_first_node() {
    let mut cluster = Cluster::start(1, |settings| (settings.snapshot_every, settings.keep_entries) = (20, 5)).await;
    cluster.propose(found()).await;
    for n in 0..50 {
        cluster.propose(entry(&n.to_string())).await;
    }
    for id in [2, 3] {
        let address = cluster.start_joining(id).await;
        assert!(cluster.node(id).status().members.is_empty(), "it forms no cluster");
        add(&cluster, id, &address).await;
    }
    assert_eq!(cluster.leader().await.let_lead(Some(2)).await, Ok(2));
    assert_eq!(cluster.leader().await.remove_member(1).await, Ok(()));
    cluster.stop_node(1).await;
    cluster.propose(entry("without the first")).await;
    for id in [2, 3] {
        cluster.stop_node(id).await;
        cluster.start_node(id).await;
        cluster.node(id).initialize().await.expect("it is a member");
        cluster.propose(entry("again")).await;
    }
    let index = cluster.leader().await.status().applied;
    for id in [2, 3] {
        eventually(cluster.node(id), |node| node.status().applied >= index).await;
        assert_eq!(voters(cluster.node(id)), [2, 3]);
        assert!(cluster.node(id).read(|ledger| ledger.founding().is_some()));
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lost_its_disk_comes_back_under_a_new_number() {
    let mut cluster = Cluster::start(3, |_| {}).await;
    cluster.propose(found()).await;
    let lost = follower(&cluster).await;
    cluster.stop_node(lost).await;
    cluster.wipe(lost);
    cluster.start_node(lost).await;
    let address = cluster.settings(lost).address;
    match cluster.leader().await.add_member(lost, &address).await {
        Err(MemberError::Taken { node, .. }) => assert_eq!(node, lost),
        other => panic!("{other:?}"),
    }
    cluster.stop_node(lost).await;
    let leader = cluster.leader().await;
    assert_eq!(leader.remove_member(lost).await, Ok(()));
    let address = cluster.start_joining(4).await;
    add(&cluster, 4, &address).await;
    cluster.propose(entry("with the new one")).await;
    let mut expected: Vec<u64> = (1..=4).filter(|id| *id != lost).collect();
    expected.sort_unstable();
    assert_eq!(voters(cluster.leader().await.as_ref()), expected);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_that_would_leave_no_majority_is_refused() {
    let mut cluster = Cluster::start(3, |_| {}).await;
    cluster.propose(found()).await;
    let leader = cluster.leader().await;
    let own = leader.status().node;
    let (down, up) = {
        let mut others = cluster.nodes.keys().copied().filter(|id| *id != own);
        (others.next().expect("one"), others.next().expect("another"))
    };
    assert_eq!(leader.remove_member(own).await, Err(MemberError::Leads { node: own }));
    assert_eq!(leader.remove_member(9).await, Err(MemberError::Unknown { node: 9 }));
    cluster.stop_node(down).await;
    // so long it counts as one that answers
    tokio::time::sleep(cluster.settings(own).election_timeout.1).await;
    assert_eq!(leader.let_lead(Some(down)).await, Err(MemberError::Silent { nodes: vec![down] }));
    assert_eq!(leader.remove_member(up).await, Err(MemberError::Silent { nodes: vec![down] }));
    assert_eq!(leader.remove_member(down).await, Ok(()));
    assert_eq!(voters(&leader).len(), 2);
    assert_eq!(leader.remove_member(up).await, Ok(()));
    assert_eq!(voters(&leader), [own]);
    cluster.stop_node(up).await;
    cluster.propose(entry("alone")).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_a_member_is_refused_with_the_reason() {
    let cluster = Cluster::start(1, |_| {}).await;
    cluster.propose(found()).await;
    let mut other = Cluster::start(1, |_| {}).await;
    other.propose(found()).await;
    let leader = cluster.leader().await;
    let refused = |error: Result<_, MemberError>| error.map(|_: quorate_coordinator::raft::Added| ()).expect_err("refused").to_string();
    let nobody = refused(leader.add_member(2, "127.0.0.1:1").await);
    assert!(nobody.contains("cannot reach node 2"), "{nobody}");
    let another = refused(leader.add_member(1, &other.settings(1).address).await);
    assert!(another.contains("another cluster"), "{another}");
    let address = other.start_joining(7).await;
    let misnamed = refused(leader.add_member(8, &address).await);
    assert!(misnamed.contains("this is node 7"), "{misnamed}");
    assert_eq!(voters(&leader), [1]);
    other.stop().await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_member_may_not_know_yet_is_not_proposed() {
    let cluster = Cluster::start(1, |_| {}).await;
    cluster.propose(found()).await;
    let leader = cluster.leader().await;
    let order = Command::Members { order: MemberOrder::Lead { node: None }, by: author("a test") };
    let last = leader.status().last_log;
    assert_eq!(leader.propose(order.clone()).await, Err(ProposeError::Level { needs: SECOND, level: 0 }));
    assert_eq!(leader.status().last_log, last);
    cluster.propose(Command::Level { to: SECOND }).await;
    assert_eq!(leader.propose(order).await, Ok(Outcome::Done));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lead_goes_to_whom_it_is_given() {
    let cluster = Cluster::start(3, |_| {}).await;
    cluster.propose(found()).await;
    for to in [1, 2, 3, 1] {
        let leader = cluster.leader().await;
        assert_eq!(leader.let_lead(Some(to)).await, Ok(to));
        assert_eq!(cluster.leader().await.status().node, to);
    }
    let given = cluster.leader().await.let_lead(None).await;
    assert!(matches!(given, Ok(2 | 3)), "{given:?}");
    cluster.stop().await;
}
