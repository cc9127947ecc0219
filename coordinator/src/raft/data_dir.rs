//! The folder that a node keeps everything in, held by one process at a time.

use super::errors::StartError;
use std::fs::DirBuilder;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Held with an exclusive lock for a process's life; says by whom.
const LOCK: &str = "quorate.lock";
/// Log, vote and snapshot.
const STORE: &str = "raft.redb";

/// How much room there is where a data directory is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRoom {
    /// What the store takes.
    pub taken: u64,
    /// What is free for it.
    pub free: u64,
}

impl DiskRoom {
    /// Of the data directory at `path`; `None` if the system does not tell.
    pub fn of(path: &Path) -> Option<Self> {
        let disk = rustix::fs::statvfs(path).ok()?;
        let taken = std::fs::metadata(path.join(STORE)).ok()?.len();
        Some(Self { taken, free: disk.f_bavail.saturating_mul(disk.f_frsize) })
    }
}

/// A data directory that is ours until this is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Makes the folder if it is absent and takes its lock.
    pub fn lock(path: &Path) -> Result<Self, StartError> {
        let unusable = |source| StartError::DataDir { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
        let lock_path = path.join(LOCK);
        let unlockable = |source| StartError::DataDir { path: lock_path.clone(), source };
        let mut lock = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&lock_path).map_err(unlockable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StartError::Locked { path: lock_path, holder: holder(&mut lock) }),
            Err(TryLockError::Error(source)) => return Err(unlockable(source)),
        }
        sign(&mut lock).map_err(unlockable)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Where the store is.
    pub fn store(&self) -> PathBuf {
        self.path.join(STORE)
    }

    /// Puts a complete store in place: whatever happens in between, the store is there or it is not.
    pub fn publish(&self, prepared: &Path) -> io::Result<()> {
        std::fs::rename(prepared, self.store())?;
        File::open(&self.path)?.sync_all()
    }
}

/// The process that wrote its number into the lock; `None` if it has not done so yet.
fn holder(lock: &mut File) -> Option<u32> {
    let mut text = String::new();
    lock.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn sign(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_refused_and_told_who_is_the_first() {
        let dir = tempfile::tempdir().expect("a folder");
        let first = DataDir::lock(dir.path()).expect("free");
        match DataDir::lock(dir.path()) {
            Err(StartError::Locked { holder, path }) => {
                assert_eq!(holder, Some(std::process::id()));
                assert_eq!(path, dir.path().join(LOCK));
            }
            other => panic!("{other:?}"),
        }
        drop(first);
        DataDir::lock(dir.path()).expect("free again");
    }

    #[test]
    fn a_folder_that_cannot_be_is_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("written");
        let error = DataDir::lock(&file.join("below")).expect_err("not a folder").to_string();
        assert!(error.contains("file/below"), "{error}");
    }
}
