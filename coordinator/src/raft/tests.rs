//! The store against openraft's own suite, and what the suite does not ask: group commit,
//! SIGKILL, and files that are not what they should be.

use super::data_dir::DataDir;
use super::disk::Disk;
use super::errors::StartError;
use super::log_store::LogStore;
use super::state_machine::StateMachine;
use super::types::TypeConfig;
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

struct Builder;

impl StoreBuilder<TypeConfig, LogStore, StateMachine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, LogStore, StateMachine), StorageError<TypeConfig>> {
        let dir = tempfile::tempdir().expect("a folder");
        let (log, state) = open(dir.path());
        Ok((dir, log, state))
    }
}

fn disk(dir: &Path) -> Result<Arc<Disk>, StartError> {
    Disk::open(DataDir::lock(dir)?, 1)
}

fn open(dir: &Path) -> (LogStore, StateMachine) {
    let disk = disk(dir).expect("opens");
    (LogStore::open(disk.clone()).expect("a log"), StateMachine::open(disk).expect("a ledger"))
}

#[test]
fn the_suite_of_openraft_passes() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(Suite::test_all(Builder)).expect("passes");
}
