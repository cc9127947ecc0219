//! Starts that are refused, and clusters that are not formed.

use crate::harness::{Cluster, PATIENCE, Served, alone, entry, members, unheard};
use quorate_coordinator::raft::{FormationError, ProposeError, RaftNode, RaftSettings, StartError};
use quorate_ledger::Outcome;
use reqwest::StatusCode;
use std::collections::BTreeMap;
use std::time::Duration;

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
    let mut forming = tokio::spawn({
        let node = first.node.clone();
        async move { node.initialize().await }
    });
    let without_the_second = tokio::time::timeout(Duration::from_millis(300), &mut forming).await;
    assert!(without_the_second.is_err() && first.node.status().members.is_empty(), "{without_the_second:?}");
    let second = Served::start(settings(2)).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lost_its_disk_takes_no_part_under_its_old_number() {
    let mut cluster = Cluster::start(3, |_| {}).await;
    cluster.propose(entry("before")).await;
    let lost = cluster.nodes.keys().copied().find(|id| cluster.node(*id).office().is_none()).expect("a follower");
    cluster.stop_node(lost).await;
    std::fs::remove_dir_all(cluster.data_dir(lost)).expect("lost");
    cluster.start_node(lost).await;
    match cluster.node(lost).initialize().await {
        Err(error @ FormationError::LostDisk { node }) if node == lost => assert!(error.to_string().contains("another data directory")),
        other => panic!("{other:?}"),
    }
    let other = cluster.nodes.keys().copied().find(|id| *id != lost && cluster.node(*id).office().is_none()).expect("a follower");
    cluster.stop_node(other).await;
    let leader = cluster.leader().await;
    unheard(&leader).await;
    let status = cluster.node(lost).status();
    assert_eq!((status.last_log, status.term), (0, 0), "{status:?}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_for_another_node_or_another_disk_is_not_answered() {
    let dir = tempfile::tempdir().expect("a folder");
    let settings = alone(dir.path());
    let address = settings.address.clone();
    let served = Served::start(settings).await;
    let client = reqwest::Client::builder().http2_prior_knowledge().build().expect("a client");
    for (headers, want) in [
        (vec![], StatusCode::MISDIRECTED_REQUEST),
        (vec![("quorate-raft-to", "2")], StatusCode::MISDIRECTED_REQUEST),
        (vec![("quorate-raft-to", "1")], StatusCode::MISDIRECTED_REQUEST),
        (vec![("quorate-raft-to", "1"), ("quorate-raft-identity", "1")], StatusCode::MISDIRECTED_REQUEST),
    ] {
        let request = client.post(format!("http://{address}/raft/vote")).body("?");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        assert_eq!(request.send().await.expect("answered").status(), want, "{headers:?}");
    }
    served.stop().await;
}

/// As a follower that is older than its leader would be sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_stops_at_entries_that_it_cannot_read() {
    #[derive(serde::Deserialize)]
    struct Known {
        identity: u64,
    }
    let dir = tempfile::tempdir().expect("a folder");
    let settings = alone(dir.path());
    let address = settings.address.clone();
    let served = Served::start(settings).await;
    let client = reqwest::Client::builder().http2_prior_knowledge().build().expect("a client");
    let formation = client.get(format!("http://{address}/raft/formation")).header("quorate-raft-to", "1").send().await.expect("answered");
    let known: Known = rmp_serde::from_slice(&formation.bytes().await.expect("a body")[1..]).expect("read");
    let append = |body: &'static [u8]| {
        let request = client.post(format!("http://{address}/raft/append")).header("quorate-raft-to", "1");
        request.header("quorate-raft-identity", known.identity).body(body).send()
    };
    // cut off: the next attempt may be whole
    assert_eq!(append(&[1, 0x81]).await.expect("answered").status(), StatusCode::BAD_REQUEST);
    let goes_on = tokio::time::timeout(Duration::from_millis(100), served.node.failed()).await;
    assert!(goes_on.is_err(), "{goes_on:?}");
    // whole, and of fields that are not known here
    assert_eq!(append(&[1, 0x80]).await.expect("answered").status(), StatusCode::BAD_REQUEST);
    let why = tokio::time::timeout(PATIENCE, served.node.failed()).await.expect("it says so");
    assert!(why.contains("cannot read") && why.contains("older than what wrote it"), "{why}");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_no_follower_would_take_is_refused() {
    let cluster = Cluster::start(1, |_| {}).await;
    let leader = cluster.leader().await;
    match leader.propose(entry(&"x".repeat(17 << 20))).await {
        Err(ProposeError::TooLarge { bytes, most }) => assert!(bytes > most),
        other => panic!("{other:?}"),
    }
    assert_eq!(leader.propose(entry(&"x".repeat(1 << 20))).await, Ok(Outcome::UnknownRegion));
    cluster.stop().await;
}
