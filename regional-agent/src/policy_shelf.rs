//! The policy sets that an agent has read, kept on its disk so that a restart without any
//! coordinator still knows the floors.

use quorate_limiter::matching::{Holder, PolicyTable};
use quorate_shared::heartbeat::{FormerSet, PoliciesInForce, Response};
use quorate_shared::names::{RegionName, SubjectKey};
use quorate_shared::policy::PolicySet;
use quorate_shared::time::Drift;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many sets are kept beside the active one: the next one, before and after a change, and some more.
const KEPT: usize = 4;

/// Characters of a name of content.
const TAG: usize = 32;

const FILE: &str = "policies.json";
const LOCK: &str = "quorate-agent.lock";

/// The policy sets that an agent has read.
#[derive(Debug, Default)]
pub struct PolicyShelf {
    directory: Option<PathBuf>,
    content: Content,
    /// What names the content, once it was asked for.
    tag: Option<String>,
    /// Held as long as the directory is in use.
    _lock: Option<File>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Content {
    in_force: PoliciesInForce,
    /// Sets that bear on windows which began under them.
    #[serde(default)]
    former: Vec<FormerSet>,
    sets: BTreeMap<u64, Arc<PolicySet>>,
    subject_key: Option<SubjectKey>,
    drift: Option<Drift>,
    /// True if the region has other agents, so that one of them may know more by now.
    #[serde(default)]
    shared: bool,
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
    /// Another process uses the directory.
    #[error("{} is in use by another agent; give each its own `data-dir`", _0.display())]
    Locked(PathBuf),
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
        let lock = lock(dir)?;
        let content = match std::fs::read(dir.join(FILE)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|source| ShelfError::Unreadable { path: dir.join(FILE), source })?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => Content::default(),
            Err(e) => return Err(io(e)),
        };
        Ok(Self { directory, content, tag: None, _lock: Some(lock) })
    }

    /// Takes what a response brought, and remembers it before anything is built on it: were it
    /// applied first and then forgotten, a region that lost its store too might go by floors that
    /// it has confirmed to have given up (R9).
    ///
    /// # Errors
    /// If the disk does not take it; then it is not taken here either.
    pub fn add(&mut self, response: &Response) -> Result<(), ShelfError> {
        let mut content = self.content.clone();
        content.sets.extend(response.sets.iter().map(|set| (set.version, set.clone())));
        content.former.clone_from(&response.former);
        let newest: Vec<u64> = content.sets.keys().rev().take(KEPT).copied().collect();
        // changes may take each other's place while the active set stays
        let active = [content.in_force.active, response.policies.active];
        let bears = |version: &u64| active.contains(version) || response.former.iter().any(|f| f.version == *version);
        content.sets.retain(|version, _| newest.contains(version) || bears(version));
        content.in_force = response.policies;
        content.subject_key = Some(response.subject_key.clone());
        content.drift = Some(response.drift);
        self.replace(content)
    }

    /// True if what is remembered is of another cluster than the response: the subject key is
    /// made when a cluster is founded.
    pub fn is_foreign_to(&self, response: &Response) -> bool {
        self.content.subject_key.as_ref().is_some_and(|key| *key != response.subject_key)
    }

    /// What the region's other agents are to know, and its name: another one for other content.
    ///
    /// # Errors
    /// None is known: what was read can be written.
    pub fn exported(&mut self) -> Result<(String, String), serde_json::Error> {
        let text = serde_json::to_string(&Content { shared: true, ..self.content.clone() })?;
        let tag = blake3::hash(text.as_bytes()).to_hex()[..TAG].to_owned();
        self.tag = Some(tag.clone());
        Ok((tag, text))
    }

    /// The name of what is here, if it was exported or adopted since it changed.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Takes what another agent of the region exported. False if that goes by other sets than those that
    /// are `in_force`: it is about to be in force, or no longer.
    ///
    /// # Errors
    /// If the disk does not take it; then it is not taken here either.
    pub fn adopt(&mut self, exported: &str, in_force: PoliciesInForce) -> Result<bool, ShelfError> {
        let Ok(content) = serde_json::from_str::<Content>(exported) else { return Ok(false) };
        if content.in_force != in_force {
            return Ok(false);
        }
        self.replace(Content { shared: true, ..content })?;
        self.tag = Some(blake3::hash(exported.as_bytes()).to_hex()[..TAG].to_owned());
        Ok(true)
    }

    /// The region has other agents from now on.
    ///
    /// # Errors
    /// If the disk does not take it.
    pub fn note_shared(&mut self) -> Result<(), ShelfError> {
        let tag = self.tag.take();
        self.replace(Content { shared: true, ..self.content.clone() })?;
        self.tag = tag;
        Ok(())
    }

    /// True if another agent of the region may know of newer sets, and may have confirmed them.
    pub fn is_shared(&self) -> bool {
        self.content.shared
    }

    /// Forgets everything.
    ///
    /// # Errors
    /// If the disk does not take it; then nothing is forgotten.
    pub fn clear(&mut self) -> Result<(), ShelfError> {
        self.replace(Content::default())
    }

    fn replace(&mut self, content: Content) -> Result<(), ShelfError> {
        if content == self.content {
            return Ok(());
        }
        if let Some(directory) = &self.directory {
            write(directory, &content)?;
        }
        (self.content, self.tag) = (content, None);
        Ok(())
    }

    /// ρ; the largest that there may be until a response has told it.
    pub fn drift(&self) -> Drift {
        self.content.drift.unwrap_or(Drift::MAX)
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
        self.table_of(Holder::Region(region), in_force)
    }

    /// The same, of what is set aside for an agent of the region.
    pub fn seat_table(&self, region: &RegionName, seat: u32, in_force: PoliciesInForce) -> Option<PolicyTable> {
        self.table_of(Holder::Seat(region, seat), in_force)
    }

    /// How many agents of the region may have a seat by these sets.
    pub fn seats(&self, region: &RegionName, in_force: PoliciesInForce) -> u32 {
        let active = self.content.sets.get(&in_force.active);
        active.and_then(|set| set.regions.get(region)).map_or(0, |region| region.agents)
    }

    /// True if former sets bear on windows that began under them.
    pub fn has_former(&self) -> bool {
        !self.content.former.is_empty()
    }

    fn table_of(&self, holder: Holder<'_>, in_force: PoliciesInForce) -> Option<PolicyTable> {
        let none = Arc::default();
        let active = if in_force.active == 0 { &none } else { self.content.sets.get(&in_force.active)? };
        let read = |version: Option<u64>| version.map_or(Some(None), |version| self.content.sets.get(&version).map(Some));
        let (next, also) = (read(in_force.next)?, read(in_force.also)?);
        let former = self.content.former.iter().map(|former| (former.clone(), self.content.sets.get(&former.version).cloned()));
        let table = PolicyTable::obeying(holder, active, next, also, self.content.subject_key.clone()?);
        Some(table.with_former(holder, &former.collect::<Vec<_>>()))
    }
}

fn lock(directory: &Path) -> Result<File, ShelfError> {
    let path = directory.join(LOCK);
    let io = |source| ShelfError::Io { path: path.clone(), source };
    let file = File::options().write(true).create(true).truncate(false).open(&path).map_err(io)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ShelfError::Locked(directory.to_owned())),
        Err(TryLockError::Error(source)) => Err(io(source)),
    }
}

/// Replaces the file atomically. It holds the subject key, so nobody else may read it.
fn write(directory: &Path, content: &Content) -> Result<(), ShelfError> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let (path, temporary) = (directory.join(FILE), directory.join(format!("{FILE}.new")));
    let replace = || -> io::Result<()> {
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(&serde_json::to_vec(content)?)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &path)?;
        File::open(directory)?.sync_all()
    };
    replace().map_err(|source| ShelfError::Io { path: path.clone(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::heartbeat::Stamp;
    use std::time::Duration;

    fn response(active: u64, key: u8) -> Response {
        let stamp = Stamp { number: Default::default(), office: Default::default(), at: Default::default() };
        Response {
            stamp,
            nonce: 0,
            lease: Duration::from_secs(5),
            longest_lease: Duration::from_secs(5),
            drift: Drift::DEFAULT,
            full: true,
            genesis: false,
            offers: vec![],
            lenders: BTreeMap::new(),
            drained_lenders: vec![],
            grants: vec![],
            former: vec![],
            clock_at_least: Default::default(),
            policies: PoliciesInForce { active, next: None, also: None },
            sets: vec![Arc::new(PolicySet { version: active, ..PolicySet::default() })],
            subject_key: SubjectKey::new([key; 32]),
        }
    }

    #[test]
    fn what_was_taken_is_there_after_a_restart() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut shelf = PolicyShelf::open(Some(dir.path().to_owned())).expect("it opens");
        assert_eq!((shelf.drift(), shelf.newest()), (Drift::MAX, None));
        shelf.add(&response(3, 1)).expect("it is written");
        assert!(matches!(PolicyShelf::open(Some(dir.path().to_owned())), Err(ShelfError::Locked(_))));
        drop(shelf);
        let shelf = PolicyShelf::open(Some(dir.path().to_owned())).expect("it opens");
        assert_eq!((shelf.in_force().active, shelf.newest(), shelf.drift()), (3, Some(3), Drift::DEFAULT));
        assert!(!shelf.is_foreign_to(&response(4, 1)) && shelf.is_foreign_to(&response(1, 2)));
    }

    #[test]
    fn what_one_agent_read_another_adopts_if_it_is_in_force() {
        let mut renews = PolicyShelf::open(None).expect("it opens");
        renews.add(&response(3, 1)).expect("taken");
        let (tag, text) = renews.exported().expect("written");
        assert_eq!(renews.tag(), Some(tag.as_str()));
        let dir = tempfile::tempdir().expect("a directory");
        let mut follows = PolicyShelf::open(Some(dir.path().to_owned())).expect("it opens");
        let in_force = |active| PoliciesInForce { active, next: None, also: None };
        assert!(!follows.adopt(&text, in_force(2)).expect("looked at"), "another set is in force");
        assert!(!follows.adopt("{}x", in_force(3)).expect("looked at"));
        assert!(follows.adopt(&text, in_force(3)).expect("taken"));
        assert_eq!((follows.in_force(), follows.tag()), (in_force(3), Some(tag.as_str())));
        assert!(follows.is_shared() && !renews.is_shared());
        drop(follows);
        assert!(PolicyShelf::open(Some(dir.path().to_owned())).expect("it opens").is_shared());
        renews.add(&response(4, 1)).expect("taken");
        assert_eq!(renews.tag(), None, "it is another content");
    }

    #[test]
    fn what_the_disk_did_not_take_is_not_taken() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut shelf = PolicyShelf::open(Some(dir.path().to_owned())).expect("it opens");
        shelf.add(&response(3, 1)).expect("it is written");
        // where the new file would be made there is a directory
        let obstacle = dir.path().join(format!("{FILE}.new"));
        std::fs::create_dir(&obstacle).expect("made");
        assert!(shelf.add(&response(4, 1)).is_err());
        assert_eq!((shelf.in_force().active, shelf.newest()), (3, Some(3)));
        std::fs::remove_dir(&obstacle).expect("removed");
        shelf.add(&response(4, 1)).expect("it is written");
        drop(shelf);
        assert_eq!(PolicyShelf::open(Some(dir.path().to_owned())).expect("it opens").in_force().active, 4);
    }
}
