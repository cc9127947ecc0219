//! SIGKILL in mid-write: what was acknowledged is on disk, and the store opens.

use super::data_dir::DataDir;
use super::disk::Disk;
use super::log_store::LogStore;
use super::state_machine::StateMachine;
use super::tests::{entry, next};
use super::types::{Entry, TypeConfig, Vote};
use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, RaftLogReader, RaftLogStorage, RaftSnapshotBuilder, RaftStateMachine};
use openraft::type_config::TypeConfigExt;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Tells the child where to write.
const DIR: &str = "QUORATE_TEST_KILL_DIR";

#[tokio::test]
async fn what_was_acknowledged_survives_sigkill() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut random = 5u64;
    let mut before = 0;
    for _ in 0..8 {
        let acknowledged = write_and_kill(dir.path(), 20 + next(&mut random) % 150);
        assert!(acknowledged.last > before, "nothing was written");
        before = acknowledged.last;
        check(dir.path(), &acknowledged).await;
    }
}

/// What a child said that it had written.
#[derive(Debug, Default)]
struct Acknowledged {
    last: u64,
    vote: u64,
    snapshot: u64,
}

/// Kills a child at once after its so-manieth word, so amid whatever it does then.
fn write_and_kill(dir: &Path, words: u64) -> Acknowledged {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "raft::kill_tests::child", "--ignored", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let mut acknowledged = Acknowledged::default();
    let mut heard = 0;
    for line in output.lines() {
        let line = line.expect("text");
        let Some((what, number)) = line.split_once(' ').and_then(|(what, number)| Some((what, number.parse().ok()?))) else { continue };
        match what {
            "entry" => acknowledged.last = number,
            "vote" => acknowledged.vote = number,
            "snapshot" => acknowledged.snapshot = number,
            _ => continue,
        }
        heard += 1;
        if heard == words {
            child.kill().expect("killed");
        }
    }
    assert!(!child.wait().expect("ended").success(), "it ended by itself");
    acknowledged
}

async fn check(dir: &Path, acknowledged: &Acknowledged) {
    let disk = Disk::open(DataDir::lock(dir).expect("free"), 1).expect("opens");
    let mut log = LogStore::open(disk.clone()).expect("a log");
    let ends = log.get_log_state().await.expect("read");
    let last = ends.last_log_id.map_or(0, |last| last.index);
    assert!(last >= acknowledged.last, "{last} {acknowledged:?}");
    let first = ends.last_purged_log_id.map_or(0, |purged| purged.index + 1);
    assert_eq!(log.try_get_log_entries(..).await.expect("read"), (first..=last).map(entry).collect::<Vec<_>>());
    let vote = log.read_vote().await.expect("read").map_or(0, |vote| vote.leader_id.term);
    assert!(vote >= acknowledged.vote, "{vote} {acknowledged:?}");
    let applied = StateMachine::open(disk).expect("a ledger").applied_state().await.expect("read").0;
    let applied = applied.map_or(0, |applied| applied.index);
    assert!(applied >= acknowledged.snapshot, "{applied} {acknowledged:?}");
    assert!(first <= applied + 1, "entries {applied} to {first} are neither in the snapshot nor in the log");
}

#[test]
#[ignore = "the process that the test above kills"]
fn child() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(write_until_killed(Disk::open(DataDir::lock(Path::new(&dir)).expect("free"), 1).expect("opens")));
}

async fn write_until_killed(disk: Arc<Disk>) {
    let mut log = LogStore::open(disk.clone()).expect("a log");
    let mut state = StateMachine::open(disk).expect("a ledger");
    let last = log.get_log_state().await.expect("read").last_log_id;
    let applied = state.applied_state().await.expect("read").0;
    apply(&mut state, applied.map_or(0, |id| id.index + 1)..last.map_or(0, |id| id.index + 1)).await;
    let mut index = last.map_or(0, |id| id.index + 1);
    loop {
        let from = index;
        let flushed: Vec<_> = futures_util::future::join_all((0..7).map(|n| append(log.clone(), from + 3 * n))).await;
        for (last, told) in flushed {
            told.await.expect("told").expect("flushed");
            println!("entry {last}");
            index = last + 1;
        }
        apply(&mut state, from..index).await;
        log.save_committed(Some(entry(index - 1).log_id())).await.expect("queued");
        log.save_vote(&Vote::new_committed(index, 1)).await.expect("saved");
        println!("vote {index}");
        if index % 5 == 0 {
            let last = state.build_snapshot().await.expect("built").meta.last_log_id.expect("not empty");
            println!("snapshot {}", last.index);
            log.purge(entry(last.index - 10).log_id()).await.expect("queued");
        }
    }
}

/// Three entries from `index` on, in flight.
async fn append(mut log: LogStore, index: u64) -> (u64, impl Future<Output = Result<std::io::Result<()>, impl std::fmt::Debug>>) {
    let (tell, told) = TypeConfig::oneshot();
    log.append((index..index + 3).map(entry), IOFlushed::signal(tell)).await.expect("taken");
    (index + 2, told)
}

async fn apply(state: &mut StateMachine, range: std::ops::Range<u64>) {
    let entries: Vec<Entry> = range.map(entry).collect();
    state.apply(futures_util::stream::iter(entries.into_iter().map(|entry| Ok((entry, None))))).await.expect("applied");
}
