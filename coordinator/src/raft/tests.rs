//! The store against openraft's own suite, and what the suite does not ask: group commit,
//! reading ahead of the disk, restarts, and files that are not what they should be.

use super::data_dir::DataDir;
use super::disk::Disk;
use super::errors::StartError;
use super::log_store::LogStore;
use super::state_machine::StateMachine;
use super::types::{Entry, LogId, Proposal, SnapshotMeta, TypeConfig, Vote};
use super::writer::{Change, Stored, key};
use super::{disk, format};
use openraft::StorageError;
use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, RaftLogReader, RaftLogStorage, RaftLogStorageExt, RaftSnapshotBuilder, RaftStateMachine};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::testing::log_id;
use openraft::type_config::TypeConfigExt;
use quorate_ledger::level::LEVEL;
use quorate_ledger::{Author, Command, Ledger};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use tempfile::TempDir;

struct Builder;

impl StoreBuilder<TypeConfig, LogStore, StateMachine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, LogStore, StateMachine), StorageError<TypeConfig>> {
        let dir = folder();
        let (_, log, state) = open(dir.path());
        Ok((dir, log, state))
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn try_open(dir: &Path) -> Result<Arc<Disk>, StartError> {
    Disk::open(DataDir::lock(dir)?, 1)
}

fn open(dir: &Path) -> (Arc<Disk>, LogStore, StateMachine) {
    let disk = try_open(dir).expect("opens");
    (disk.clone(), LogStore::open(disk.clone()).expect("a log"), StateMachine::open(disk).expect("a ledger"))
}

fn id(index: u64) -> LogId {
    log_id::<TypeConfig>(1, 1, index)
}

/// An entry that says where it is.
pub fn entry(index: u64) -> Entry {
    let by = Author { who: "test".to_owned(), when_ms: index, why: Some(format!("{index} ").repeat(20)) };
    let command = Command::Fence { region: "nowhere".parse().expect("a name"), by };
    Entry::new(id(index), openraft::EntryPayload::Normal(Proposal(Arc::new(command))))
}

/// Keeps the writer busy until the returned sender is used or dropped.
fn hold(disk: &Disk) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel();
    let (busy, is_busy) = mpsc::channel();
    let done = move |_| {
        busy.send(()).expect("awaited");
        // An error means that the sender is dropped, which releases as well.
        let _ = released.recv();
    };
    disk.write_then(Change::Truncate(u64::MAX), Box::new(done));
    is_busy.recv().expect("comes to it");
    release
}

#[test]
fn the_suite_of_openraft_passes() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(Suite::test_all(Builder)).expect("passes");
}

#[tokio::test]
async fn what_queues_up_behind_a_flush_shares_the_next_one() {
    let dir = folder();
    let (disk, mut log, _) = open(dir.path());
    let release = hold(&disk);
    let before = disk.counts();
    let mut flushed = Vec::new();
    for index in 0..1_000 {
        let (tell, told) = TypeConfig::oneshot();
        log.append([entry(index)], IOFlushed::signal(tell)).await.expect("taken");
        flushed.push(told);
    }
    drop(release);
    for told in flushed {
        told.await.expect("told").expect("flushed");
    }
    let (changes, commits) = disk.counts();
    assert_eq!((changes - before.0, commits - before.1), (1_000, 1));
}

#[tokio::test]
async fn an_entry_is_readable_before_it_is_on_disk() {
    let dir = folder();
    let (disk, mut log, _) = open(dir.path());
    log.blocking_append((0..10).map(entry)).await.expect("flushed");
    let release = hold(&disk);
    let (tell, told) = TypeConfig::oneshot();
    log.append((10..20).map(entry), IOFlushed::signal(tell)).await.expect("taken");
    assert_eq!(log.try_get_log_entries(..).await.expect("read"), (0..20).map(entry).collect::<Vec<_>>());
    assert_eq!(disk.view().expect("a view").entries::<Entry>(0..100, None).expect("read").len(), 10);
    drop(release);
    told.await.expect("told").expect("flushed");
    assert_eq!(disk.view().expect("a view").entries::<Entry>(0..100, None).expect("read").len(), 20);
}

#[tokio::test]
async fn old_entries_leave_the_memory_and_are_read_from_the_disk() {
    let dir = folder();
    let (_, mut log, _) = open(dir.path());
    for start in (0..3_000).step_by(100) {
        log.blocking_append((start..start + 100).map(entry)).await.expect("flushed");
    }
    assert_eq!(log.try_get_log_entries(..).await.expect("read"), (0..3_000).map(entry).collect::<Vec<_>>());
    assert_eq!(log.try_get_log_entries(1_970..=1_980).await.expect("read"), (1_970..1_981).map(entry).collect::<Vec<_>>());
    let some = log.limited_get_log_entries(5, 3_000).await.expect("read");
    assert_eq!(some, (5..).take(some.len()).map(entry).collect::<Vec<_>>());
    log.purge(id(99)).await.expect("purged");
    log.truncate_after(Some(id(149))).await.expect("truncated");
    log.blocking_append([entry(150)]).await.expect("flushed");
    assert_eq!(log.try_get_log_entries(..).await.expect("read"), (100..=150).map(entry).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_restart_finds_everything() {
    let dir = folder();
    let (disk, mut log, mut state) = open(dir.path());
    assert!(log.is_pristine());
    log.save_vote(&Vote::new_committed(3, 1)).await.expect("saved");
    log.blocking_append((0..50).map(entry)).await.expect("flushed");
    let applied = futures_util::stream::iter((0..40).map(|index| Ok((entry(index), None))));
    state.apply(applied).await.expect("applied");
    let snapshot = state.build_snapshot().await.expect("built");
    log.purge(id(9)).await.expect("purged");
    log.save_committed(Some(id(44))).await.expect("saved");
    disk.close();
    assert!(log.save_vote(&Vote::new(4, 1)).await.is_err(), "nothing is written after the end");

    let (_, mut log, mut state) = open(dir.path());
    assert!(!log.is_pristine());
    assert_eq!(log.read_vote().await.expect("read"), Some(Vote::new_committed(3, 1)));
    assert_eq!(log.read_committed().await.expect("read"), Some(id(44)));
    let ends = log.get_log_state().await.expect("read");
    assert_eq!((ends.last_purged_log_id, ends.last_log_id), (Some(id(9)), Some(id(49))));
    assert_eq!(log.try_get_log_entries(..).await.expect("read"), (10..50).map(entry).collect::<Vec<_>>());
    assert_eq!(state.applied_state().await.expect("read").0, Some(id(39)));
    let found = state.get_current_snapshot().await.expect("read").expect("kept");
    assert_eq!((found.meta, found.snapshot), (snapshot.meta, snapshot.snapshot));
}

fn stored(meta: &SnapshotMeta, data: &bytes::Bytes) -> Change {
    let covers = format::encode(meta).expect("encodes");
    Change::Snapshot(Stored { next: disk::end_of(Some(meta)), covers, data: data.clone(), account: Vec::new() })
}

#[tokio::test]
async fn an_older_snapshot_does_not_replace_a_newer_one() {
    let dir = folder();
    let (disk, ..) = open(dir.path());
    let data = bytes::Bytes::from(format::encode(&Ledger::default()).expect("encodes"));
    for last in [20, 10] {
        let meta = SnapshotMeta { last_log_id: Some(id(last)), ..SnapshotMeta::default() };
        disk.write(stored(&meta, &data)).await.expect("written");
    }
    drop(disk);
    let (_, _, mut state) = open(dir.path());
    assert_eq!(state.applied_state().await.expect("read").0, Some(id(20)));
}

/// A closed store with entries, a vote and a snapshot; its file.
async fn filled(dir: &Path) -> PathBuf {
    let (disk, mut log, mut state) = open(dir);
    log.save_vote(&Vote::new_committed(3, 1)).await.expect("saved");
    for start in (0..300).step_by(10) {
        log.blocking_append((start..start + 10).map(entry)).await.expect("flushed");
    }
    state.build_snapshot().await.expect("built");
    disk.close();
    disk.path().to_owned()
}

/// True if the store opens with all that [`filled`] put there; false if it is refused as damaged.
async fn is_whole(dir: &Path) -> bool {
    let disk = match try_open(dir) {
        Ok(disk) => disk,
        Err(StartError::Corrupted { path, detail }) => {
            assert!(path.starts_with(dir) && !detail.is_empty());
            return false;
        }
        Err(other) => panic!("{other}"),
    };
    let mut log = LogStore::open(disk.clone()).expect("a log");
    assert_eq!(log.try_get_log_entries(..).await.expect("read"), (0..300).map(entry).collect::<Vec<_>>());
    assert_eq!(log.read_vote().await.expect("read"), Some(Vote::new_committed(3, 1)));
    assert!(StateMachine::open(disk).expect("a ledger").get_current_snapshot().await.expect("read").is_some());
    true
}

#[tokio::test]
async fn a_file_that_is_cut_or_no_store_is_refused_in_words() {
    let dir = folder();
    let file = filled(dir.path()).await;
    let good = std::fs::read(&file).expect("read");
    for length in [0, 1, 9, 100, 4_095, 4_096, good.len() / 3, good.len() / 2, good.len() - 4_096, good.len() - 1] {
        std::fs::write(&file, &good[..length]).expect("written");
        assert!(!is_whole(dir.path()).await, "cut to {length} of {}", good.len());
    }
    let mut random = 7u64;
    let garbage: Vec<u8> = (0..good.len()).map(|_| next(&mut random) as u8).collect();
    std::fs::write(&file, garbage).expect("written");
    assert!(!is_whole(dir.path()).await);
    std::fs::write(&file, &good).expect("written");
    assert!(is_whole(dir.path()).await);
}

#[tokio::test]
async fn a_changed_byte_is_refused_or_does_not_matter() {
    let dir = folder();
    let file = filled(dir.path()).await;
    let good = std::fs::read(&file).expect("read");
    let (mut random, mut refused) = (11u64, 0);
    for _ in 0..150 {
        let mut bad = good.clone();
        let place = next(&mut random) as usize % bad.len();
        bad[place] ^= 1 << (next(&mut random) % 8);
        std::fs::write(&file, &bad).expect("written");
        refused += usize::from(!is_whole(dir.path()).await);
    }
    assert!(refused > 0, "no change was seen");
}

#[tokio::test]
async fn a_store_of_another_node_or_of_a_later_version_is_refused() {
    let dir = folder();
    let (disk, mut log, _) = open(dir.path());
    log.blocking_append([entry(0)]).await.expect("flushed");
    disk.close();
    match Disk::open(DataDir::lock(dir.path()).expect("free"), 2) {
        Err(StartError::OtherNode { found: 1, wanted: 2, .. }) => {}
        other => panic!("{other:?}"),
    }
    let (disk, ..) = open(dir.path());
    let vote = [format::VERSION + 1, 0xc0];
    disk.write(Change::Meta(key::VOTE, Some(vote.to_vec()))).await.expect("written");
    disk.close();
    let error = LogStore::open(try_open(dir.path()).expect("opens")).expect_err("cannot be read");
    assert!(matches!(disk::unreadable(dir.path(), &error), StartError::NewerFormat { found: 2, .. }), "{error}");
    let disk = try_open(dir.path()).expect("opens");
    disk.write(Change::Meta(key::FORMAT, Some(vec![format::VERSION + 1]))).await.expect("written");
    disk.close();
    match try_open(dir.path()) {
        Err(StartError::NewerFormat { found: 2, known: 1, .. }) => {}
        other => panic!("{other:?}"),
    }
}

/// xorshift: the same numbers in every run.
pub fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[tokio::test]
async fn a_snapshot_of_a_later_level_is_refused_with_the_level() {
    #[derive(serde::Serialize)]
    struct Later {
        level: u32,
        news: u8,
    }
    let dir = folder();
    let (disk, _, mut machine) = open(dir.path());
    let data = bytes::Bytes::from(format::encode(&Later { level: LEVEL + 1, news: 1 }).expect("encodes"));
    let error = machine.install_snapshot(&SnapshotMeta::default(), data.clone()).await.expect_err("not known");
    assert!(error.to_string().contains(&format!("level {}", LEVEL + 1)), "{error}");
    let meta = SnapshotMeta { last_log_id: Some(id(7)), ..SnapshotMeta::default() };
    disk.write(stored(&meta, &data)).await.expect("written");
    let error = StateMachine::open(disk).expect_err("not known");
    assert!(error.to_string().contains("later version"), "{error}");
}
