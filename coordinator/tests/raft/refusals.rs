//! Starts that are refused, and clusters that are not formed.

use crate::harness::{PATIENCE, Served, alone, members};
use quorate_coordinator::raft::{FormationError, RaftNode, RaftSettings, StartError};
use std::collections::BTreeMap;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_serves_one_process_and_one_node() {
    let dir = tempfile::tempdir().expect("a folder");
    let settings = alone(dir.path());
    let node = RaftNode::start(settings.clone()).await.expect("starts");
    match RaftNode::start(settings.clone()).await {
        Err(error @ StartError::Locked { .. }) => {
            let words = error.to_string();
            assert!(words.contains("quorate.lock") && words.contains(&format!("process {}", std::process::id())), "{words}");
        }
        other => panic!("{other:?}"),
    }
    node.shutdown().await;
    match RaftNode::start(RaftSettings::new(2, "127.0.0.1:1", BTreeMap::new(), dir.path())).await {
        Err(error @ StartError::OtherNode { found: 1, wanted: 2, .. }) => assert!(error.to_string().contains("belongs to node 1")),
        other => panic!("{other:?}"),
    }
    std::fs::write(dir.path().join("raft.redb"), "not a store").expect("written");
    match RaftNode::start(settings).await {
        Err(error @ StartError::Corrupted { .. }) => assert!(error.to_string().contains("raft.redb is damaged"), "{error}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_formed_once_all_members_are_there() {
    let dir = tempfile::tempdir().expect("a folder");
    let members = members(2);
    let settings = |id: u64| RaftSettings::new(id, members[&id].clone(), members.clone(), dir.path().join(id.to_string()));
    let first = Served::start(settings(1)).await;
    let forming = tokio::spawn({
        let node = first.node.clone();
        async move { node.initialize().await }
    });
    let second = Served::start(settings(2)).await;
    assert_eq!(first.node.status().members, [], "formed without the second");
    let formed = tokio::time::timeout(PATIENCE, forming).await.expect("in time").expect("no panic");
    assert_eq!(formed, Ok(()));
    let (ones, twos) = tokio::join!(first.node.wait_for_leader(), second.node.wait_for_leader());
    assert!(ones.is_some() && ones == twos, "{ones:?} {twos:?}");
    second.stop().await;
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_with_different_lists_form_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let members = members(3);
    let two = BTreeMap::from_iter(members.clone().into_iter().take(2));
    let one = Served::start(RaftSettings::new(1, members[&1].clone(), two.clone(), dir.path().join("1"))).await;
    let other = Served::start(RaftSettings::new(2, members[&2].clone(), members.clone(), dir.path().join("2"))).await;
    match one.node.initialize().await {
        Err(error @ FormationError::MembersDiffer { node: 2, .. }) => assert!(error.to_string().contains("make the lists equal")),
        result => panic!("{result:?}"),
    }
    let stranger = Served::start(RaftSettings::new(3, members[&3].clone(), two, dir.path().join("3"))).await;
    assert_eq!(stranger.node.initialize().await, Err(FormationError::NotAMember(3)));
    for served in [one, other, stranger] {
        assert_eq!(served.node.status().members, []);
        served.stop().await;
    }
}
