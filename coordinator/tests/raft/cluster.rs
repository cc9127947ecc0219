//! Three nodes in one process: they elect, replicate, restart, and catch up.

use crate::harness::{Cluster, PATIENCE, Served, author, entry, eventually, found, unheard};
use quorate_coordinator::raft::{ProposeError, RaftNode, Wanted};
use quorate_ledger::level::LEVEL;
use quorate_ledger::{Command, Outcome};
use quorate_shared::audit::AuditKind;
use quorate_shared::heartbeat::Office;
use quorate_shared::policy::PolicySet;
use quorate_shared::time::LeaderTime;
use std::time::{Duration, Instant};

/// Takes a policy set with one region more than the `replaces`th had.
fn policies(replaces: u64) -> Command {
    let regions = (0..=replaces).map(|n| (format!("r{n}").parse().expect("a name"), quorate_shared::policy::Region::default()));
    let set = PolicySet { regions: regions.collect(), ..PolicySet::default() };
    Command::Policies { replaces, set: Box::new(set), by: author("a test") }
}

fn version(node: &RaftNode) -> u64 {
    node.read(|ledger| ledger.newest_policies().version)
}

/// Waits until all that run have applied what the leader has, and compares their ledgers.
async fn converge(cluster: &Cluster) -> u64 {
    let leader = cluster.leader().await;
    let index = leader.status().applied;
    for served in cluster.nodes.values() {
        eventually(&served.node, |node| node.status().applied >= index).await;
        assert_eq!(served.node.read(Clone::clone), leader.read(Clone::clone));
    }
    index
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_that_start_at_once_form_one_cluster_and_replicate() {
    let cluster = Cluster::start(3, |_| {}).await;
    assert_eq!(cluster.propose(found()).await, Outcome::Done);
    for n in 0..20 {
        cluster.propose(policies(n)).await;
    }
    converge(&cluster).await;
    let leader = cluster.leader().await.status();
    for served in cluster.nodes.values() {
        assert_eq!(version(&served.node), 20);
        let status = served.node.status();
        assert_eq!((status.leader, status.term), (leader.leader.clone(), leader.term));
        assert_eq!(status.members.iter().map(|m| (m.id, m.voter)).collect::<Vec<_>>(), [(1, true), (2, true), (3, true)]);
        served.node.initialize().await.expect("a second time changes nothing");
    }
    assert!(leader.members.iter().all(|m| m.lag.is_some()), "{leader:?}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_restarts_from_its_disk_one_by_one_and_all_at_once() {
    let mut cluster = Cluster::start(3, |_| {}).await;
    cluster.propose(found()).await;
    for id in 1..=3 {
        cluster.stop_node(id).await;
        cluster.propose(policies(id - 1)).await;
        cluster.start_node(id).await;
        cluster.node(id).initialize().await.expect("the cluster exists");
        converge(&cluster).await;
    }
    for id in 1..=3 {
        cluster.stop_node(id).await;
    }
    for id in 1..=3 {
        cluster.start_node(id).await;
    }
    cluster.propose(entry("after the night")).await;
    converge(&cluster).await;
    assert!(cluster.nodes.values().all(|served| version(&served.node) == 3));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lags_behind_the_log_gets_a_snapshot() {
    let mut cluster = Cluster::start(3, |settings| (settings.snapshot_every, settings.keep_entries) = (50, 10)).await;
    cluster.propose(found()).await;
    cluster.propose(policies(0)).await;
    let away = cluster.nodes.keys().copied().find(|id| cluster.node(*id).office().is_none()).expect("a follower");
    let has = cluster.node(away).status().last_log;
    cluster.stop_node(away).await;
    // snapshots are written, and entries purged, beside the log's own work
    while cluster.leader().await.status().purged <= Some(has) {
        cluster.propose(entry("one more")).await;
    }
    cluster.start_node(away).await;
    let index = converge(&cluster).await;
    eventually(cluster.node(away), |node| node.status().snapshot.is_some_and(|snapshot| snapshot + 60 > index)).await;
    assert_eq!(version(cluster.node(away)), 1);

    cluster.stop_node(away).await;
    cluster.start_node(away).await;
    assert_eq!(version(cluster.node(away)), 1, "it starts from the snapshot that it was sent");
    assert!(acts(cluster.node(away)).await.contains(&AuditKind::Gap), "and says so");
    let leader = cluster.leader().await;
    assert!(!acts(&leader).await.contains(&AuditKind::Gap));
    cluster.stop().await;
}

/// The kinds of all that a node's account tells.
async fn acts(node: &RaftNode) -> Vec<AuditKind> {
    let (events, _) = node.audit(Wanted { limit: 1_000, ..Wanted::default() }).await.expect("readable");
    events.iter().map(|event| event.kind).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_the_account_is_what_it_was() {
    let mut cluster = Cluster::start(1, |_| {}).await;
    cluster.propose(found()).await;
    cluster.propose(policies(0)).await;
    let before = acts(cluster.node(1)).await;
    assert_eq!(before, [AuditKind::PoliciesActive, AuditKind::PoliciesChanged, AuditKind::Founded, AuditKind::MembersChanged]);
    cluster.stop_node(1).await;
    cluster.start_node(1).await;
    converge(&cluster).await;
    assert_eq!(acts(cluster.node(1)).await, before, "entries that are applied again are not told again");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_proposals_share_flushes() {
    let cluster = Cluster::start(1, |_| {}).await;
    let leader = cluster.leader().await;
    let before = leader.status();
    let proposals = (0..2_000).map(|n| {
        let leader = leader.clone();
        async move { leader.propose(entry(&n.to_string())).await }
    });
    let outcomes = futures_util::future::join_all(proposals).await;
    assert!(outcomes.iter().all(|outcome| *outcome == Ok(Outcome::UnknownRegion)));
    let after = leader.status();
    let commits = after.disk_commits - before.disk_commits;
    println!("2000 proposals in {commits} commits");
    assert!(commits < 1_000, "{commits} commits");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_without_a_majority_takes_nothing_and_says_so_in_time() {
    let mut cluster = Cluster::start(3, |settings| settings.propose_timeout = Duration::from_millis(500)).await;
    let leader = cluster.leader().await;
    let id = leader.status().node;
    let others: Vec<u64> = cluster.nodes.keys().copied().filter(|other| *other != id).collect();
    for other in &others {
        cluster.stop_node(*other).await;
    }
    let begun = Instant::now();
    let first = leader.propose(entry("to nobody")).await.expect_err("no majority");
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(matches!(first, ProposeError::Unavailable { .. } | ProposeError::NotLeader { leader: None }), "{first}");
    unheard(&leader).await;
    for other in others {
        cluster.start_node(other).await;
    }
    cluster.propose(entry("to all")).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_alone_is_in_office_and_a_new_one_has_another_clock() {
    let cluster = Cluster::start(3, |_| {}).await;
    let leader = cluster.leader().await;
    let (office, first) = leader.office().expect("it leads");
    assert_eq!(office.term, leader.status().term);
    let (same, second) = leader.office().expect("it leads");
    assert_eq!(same, office);
    assert!(second >= first);
    let followers: Vec<_> = cluster.nodes.values().filter(|served| served.node.office().is_none()).collect();
    assert_eq!(followers.len(), 2);
    assert_eq!(followers[0].node.wait_for_leader().await, leader.status().leader);
    match followers[0].node.propose(entry("to the wrong one")).await {
        Err(ProposeError::NotLeader { leader: Some((id, address)) }) => {
            assert_eq!((Some(id), Some(address)), leader.status().leader.unzip());
        }
        other => panic!("{other:?}"),
    }
    let heir = followers[0].node.clone();
    leader.transfer_leader(heir.status().node).await.expect("runs");
    let (later, at) = in_office(&heir).await;
    assert!(later.term > office.term && later.process != office.process);
    assert!(at < second.after(Duration::from_secs(1)), "the clock began with the office");
    eventually(&leader, |leader| leader.office().is_none()).await;
    cluster.stop().await;
}

async fn in_office(node: &RaftNode) -> (Office, LeaderTime) {
    let mut leadership = node.leadership();
    let here = leadership.wait_for(|now| now.here);
    tokio::time::timeout(PATIENCE, here).await.expect("in time").expect("lives");
    node.office().expect("it leads")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_shut_down_says_that_it_has_stopped() {
    let mut cluster = Cluster::start(1, |_| {}).await;
    let Served { node, .. } = cluster.nodes.remove(&1).expect("runs");
    let failed = node.failed();
    node.shutdown().await;
    assert!(!tokio::time::timeout(PATIENCE, failed).await.expect("in time").is_empty());
    assert!(matches!(node.propose(entry("too late")).await, Err(ProposeError::Fatal(_))));
    assert_eq!((node.office(), node.wait_for_leader().await), (None, None));
    assert_eq!(node.status().state, "shutdown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_ends_in_good_order_hands_over_before_anybody_misses_it() {
    let mut cluster = Cluster::start(3, |settings| {
        settings.election_timeout = (Duration::from_secs(60), Duration::from_secs(80));
    })
    .await;
    cluster.propose(entry("heard by one of the others")).await;
    let id = cluster.leader().await.status().node;
    let begun = Instant::now();
    cluster.stop_node(id).await;
    cluster.leader().await;
    assert!(begun.elapsed() < Duration::from_secs(30), "an election would begin after {:?}", begun.elapsed());
    cluster.propose(entry("to the heir")).await;
    cluster.stop().await;
}

/// What a program that is older than the log does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_stops_at_a_level_that_it_does_not_know_and_keeps_what_it_has() {
    let mut cluster = Cluster::start(3, |_| {}).await;
    cluster.propose(found()).await;
    cluster.propose(policies(0)).await;
    let before = converge(&cluster).await;
    assert_eq!(cluster.leader().await.level_of_all_members().await, Some(vec![LEVEL; 3]));
    let leader = cluster.leader().await;
    let proposed = leader.propose(Command::Level { to: LEVEL + 1 }).await;
    assert!(matches!(proposed, Err(ProposeError::Fatal(_))), "{proposed:?}");
    let why = tokio::time::timeout(PATIENCE, leader.failed()).await.expect("it says so");
    assert!(why.contains(&format!("level {}", LEVEL + 1)) && why.contains("later version"), "{why}");
    assert_eq!((version(&leader), leader.read(quorate_ledger::Ledger::level)), (1, 0), "nothing was guessed");
    let id = leader.status().node;
    drop(leader);
    cluster.stop_node(id).await;

    // the entry is in the log as it was, so the same program stops again
    match RaftNode::start(cluster.settings(id)).await {
        Err(error) => assert!(error.to_string().contains("later version"), "{error}"),
        Ok(again) => {
            let why = tokio::time::timeout(PATIENCE, again.failed()).await.expect("it says so");
            assert!(why.contains("later version"), "{why}");
            assert_eq!((version(&again), again.status().last_log > before), (1, true));
            again.shutdown().await;
        }
    }
    cluster.stop().await;
}
