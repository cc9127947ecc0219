//! The policy sets that an agent has read, kept on its disk so that a restart without any
//! coordinator still knows the floors.

use quorate_limiter::matching::PolicyTable;
use quorate_shared::heartbeat::PoliciesInForce;
use quorate_shared::names::{RegionName, SubjectKey};
use quorate_shared::policy::PolicySet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many sets are kept: the active and the next one, before and after a change.
const KEPT: usize = 4;

const FILE: &str = "policies.json";

/// The policy sets that an agent has read.
#[derive(Debug, Default)]
pub struct PolicyShelf {
    directory: Option<PathBuf>,
    content: Content,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    in_force: PoliciesInForce,
    sets: BTreeMap<u64, Arc<PolicySet>>,
    subject_key: Option<SubjectKey>,
}

/// Why the sets on disk cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// Reading, writing or locking failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Not what an agent writes.
    #[error("{}: {source}; remove the file to start without remembered policies", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
}

impl PolicyShelf {
    /// What is remembered in `directory`; nothing is, without one.
    ///
    /// # Errors
    /// If the directory cannot be made or its file not be read.
    pub fn open(directory: Option<PathBuf>) -> Result<Self, ShelfError> {
        let Some(dir) = &directory else { return Ok(Self::default()) };
        let io = |source| ShelfError::Io { path: dir.join(FILE), source };
        std::fs::create_dir_all(dir).map_err(io)?;
        let content = match std::fs::read(dir.join(FILE)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|source| ShelfError::Unreadable { path: dir.join(FILE), source })?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => Content::default(),
            Err(e) => return Err(io(e)),
        };
        Ok(Self { directory, content })
    }

    /// Takes what a response brought, and remembers it before anything is built on it: were it
    /// applied first and then forgotten, a region that lost its store too might go by floors that
    /// it has confirmed to have given up (R9).
    ///
    /// # Errors
    /// If the disk does not take it.
    pub fn add(&mut self, in_force: PoliciesInForce, sets: &[Arc<PolicySet>], key: &SubjectKey) -> Result<(), ShelfError> {
        if sets.is_empty() && self.content.in_force == in_force && self.content.subject_key.as_ref() == Some(key) {
            return Ok(());
        }
        self.content.sets.extend(sets.iter().map(|set| (set.version, set.clone())));
        while self.content.sets.len() > KEPT {
            self.content.sets.pop_first();
        }
        self.content.in_force = in_force;
        self.content.subject_key = Some(key.clone());
        match &self.directory {
            Some(dir) => write(dir, &self.content),
            None => Ok(()),
        }
    }

    /// The sets in force by the newest response taken. Not simply the newest set: that one may
    /// not be active yet, and give this region more than it may have.
    pub fn in_force(&self) -> PoliciesInForce {
        self.content.in_force
    }

    /// The newest version read.
    pub fn newest(&self) -> Option<u64> {
        self.content.sets.keys().next_back().copied()
    }

    /// The table of the sets in force, if they have been read.
    pub fn table(&self, region: &RegionName, in_force: PoliciesInForce) -> Option<PolicyTable> {
        let active = self.content.sets.get(&in_force.active)?;
        let next = match in_force.next {
            Some(version) => Some(self.content.sets.get(&version)?),
            None => None,
        };
        Some(PolicyTable::new(region, active, next, self.content.subject_key.clone()?))
    }
}

/// Replaces the file atomically. It holds the subject key, so nobody else may read it.
fn write(directory: &Path, content: &Content) -> Result<(), ShelfError> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let (path, temporary) = (directory.join(FILE), directory.join(format!("{FILE}.new")));
    let replace = || -> io::Result<()> {
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(&serde_json::to_vec(content)?)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &path)?;
        std::fs::File::open(directory)?.sync_all()
    };
    replace().map_err(|source| ShelfError::Io { path: path.clone(), source })
}
