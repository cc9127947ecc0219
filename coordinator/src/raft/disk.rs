//! One file that holds log, vote, commit mark and snapshot: opened, read, and queued for writing.

use super::audit::Place;
use super::data_dir::DataDir;
use super::errors::StartError;
use super::format::{self, FormatError};
use super::types::SnapshotMeta;
use super::writer::{self, ACTS, Account, Change, Counters, Done, Job, LOG, META, ROUTINE, Writer, key};
use parking_lot::{Mutex, RwLock};
use redb::{Database, Range as Rows, ReadTransaction, ReadableDatabase, ReadableTable, TableError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::OpenOptions;
use std::io;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::{oneshot, watch};

/// Pages kept in memory; `log_store` keeps the log's tail besides.
const CACHE_BYTES: usize = 8 << 20;

/// The open store.
pub struct Disk {
    path: PathBuf,
    identity: u64,
    open: RwLock<Option<Open>>,
    writer: Mutex<Option<Writer>>,
    failure: watch::Receiver<Option<String>>,
    counters: Arc<Counters>,
}

struct Open {
    db: Arc<Database>,
    _dir: DataDir,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Disk {
    /// Opens the store of node `node` in `dir`, or makes an empty one. Every page is checked
    /// against its checksum.
    pub fn open(dir: DataDir, node: u64) -> Result<Arc<Self>, StartError> {
        let path = dir.store();
        if !path.exists() {
            create(&dir, node).map_err(|error| cannot_open(&path, error))?;
        }
        let db = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .set_check_integrity_on_open(true)
            .open(&path)
            .map_err(|error| cannot_open(&path, error.into()))?;
        let view = View::of(&db).map_err(|error| unreadable(&path, &error))?;
        check_owner(&view, &path, node)?;
        let snapshot = view.meta::<SnapshotMeta>(key::SNAPSHOT_META).map_err(|error| unreadable(&path, &error))?;
        let unstartable = |source| StartError::DataDir { path: path.clone(), source };
        let identity = view.meta(key::IDENTITY).map_err(|error| unreadable(&path, &error))?;
        let identity = identity.ok_or_else(|| damaged(&path, "it has no identity"))?;
        let (db, counters) = (Arc::new(db), Arc::new(Counters::default()));
        let writer = writer::start(db.clone(), end_of(snapshot.as_ref()), counters.clone()).map_err(unstartable)?;
        Ok(Arc::new(Self {
            path,
            identity,
            open: RwLock::new(Some(Open { db, _dir: dir })),
            failure: writer.failure.clone(),
            writer: Mutex::new(Some(writer)),
            counters,
        }))
    }

    /// The store's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Drawn at random when the store was made: tells it from a later one of the same node.
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// What is on disk at this moment, whatever is written later.
    pub fn view(&self) -> io::Result<View> {
        View::of(&self.open.read().as_ref().ok_or_else(closed)?.db)
    }

    /// Queues a change that `done` is told of.
    pub fn write_then(&self, change: Change, done: Done) {
        let job = Job { change, done: Some(done) };
        if let Err(job) = self.queue(job)
            && let Some(done) = job.done
        {
            done(Err(self.why_not()));
        }
    }

    /// Queues a change that goes to disk with the next one that somebody waits for.
    pub fn write_along(&self, change: Change) -> io::Result<()> {
        self.queue(Job { change, done: None }).map_err(|_| self.why_not())
    }

    /// Writes a change and waits until it is on disk.
    pub async fn write(&self, change: Change) -> io::Result<()> {
        let (done, written) = oneshot::channel();
        self.write_then(change, Box::new(|result| drop(done.send(result))));
        written.await.unwrap_or_else(|_| Err(self.why_not()))
    }

    /// Changes and commits since the start.
    pub fn counts(&self) -> (u64, u64) {
        (self.counters.changes.load(Ordering::Relaxed), self.counters.commits.load(Ordering::Relaxed))
    }

    /// Resolves once nothing can be written any more.
    pub async fn failed(&self) -> String {
        let mut failure = self.failure.clone();
        match failure.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => "the Raft store's writer has ended".to_owned(),
        }
    }

    /// Writes what is queued, then gives the file and the data directory back. Blocks.
    pub fn close(&self) {
        let writer = self.writer.lock().take();
        if let Some(Writer { queue, thread, .. }) = writer {
            drop(queue);
            // It failed if it panicked; then `failed` has said so.
            let _ = thread.join();
        }
        self.open.write().take();
    }

    fn queue(&self, job: Job) -> Result<(), Job> {
        let writer = self.writer.lock();
        let Some(writer) = writer.as_ref() else { return Err(job) };
        writer.queue.send(job).map_err(|unsent| unsent.0)
    }

    fn why_not(&self) -> io::Error {
        self.failure.borrow().clone().map_or_else(closed, io::Error::other)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.close();
    }
}

/// The store at one moment.
pub struct View(ReadTransaction);

impl View {
    fn of(db: &Database) -> io::Result<Self> {
        db.begin_read().map(Self).map_err(io::Error::other)
    }

    /// A value of the table of names.
    pub fn meta<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        Ok(self.bytes(name)?.map(|bytes| format::decode(&bytes)).transpose()?)
    }

    /// A value of the table of names as it is stored.
    pub fn bytes(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let table = self.0.open_table(META).map_err(io::Error::other)?;
        Ok(table.get(name).map_err(io::Error::other)?.map(|value| value.value().to_vec()))
    }

    /// The entries of `range`: all of them, or with a limit the first and as many more as fit
    /// into so many bytes.
    pub fn entries<T: DeserializeOwned>(&self, range: Range<u64>, limit: Option<usize>) -> io::Result<Vec<T>> {
        let table = self.0.open_table(LOG).map_err(io::Error::other)?;
        let (mut entries, mut total) = (Vec::new(), 0usize);
        for item in table.range(range).map_err(io::Error::other)? {
            let (_, bytes) = item.map_err(io::Error::other)?;
            total = total.saturating_add(bytes.value().len());
            if limit.is_some_and(|limit| total > limit) && !entries.is_empty() {
                break;
            }
            entries.push(format::decode(bytes.value())?);
        }
        Ok(entries)
    }

    /// The account of what the log did before a place, newest first.
    pub fn account(&self, before: Place) -> io::Result<impl Iterator<Item = io::Result<(Place, Vec<u8>)>>> {
        Ok(NewestFirst { tables: [Newest::of(self.rows(ACTS, before)?)?, Newest::of(self.rows(ROUTINE, before)?)?] })
    }

    fn rows(&self, table: Account, before: Place) -> io::Result<Option<AccountRows>> {
        match self.0.open_table(table) {
            Ok(table) => table.range(..(before.index, before.part)).map(Some).map_err(io::Error::other),
            // made with the first event
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// The index of the first entry, and the last entry.
    pub fn ends<T: DeserializeOwned>(&self) -> io::Result<Option<(u64, T)>> {
        let table = self.0.open_table(LOG).map_err(io::Error::other)?;
        let (first, last) = (table.first().map_err(io::Error::other)?, table.last().map_err(io::Error::other)?);
        let Some((first, last)) = first.zip(last) else { return Ok(None) };
        Ok(Some((first.0.value(), format::decode(last.1.value())?)))
    }
}

/// Rows of one table of the account.
type AccountRows = Rows<'static, (u64, u32), &'static [u8]>;

/// The rows of one table from its end on; the next is read ahead.
struct Newest {
    rows: Option<AccountRows>,
    next: Option<(Place, Vec<u8>)>,
}

impl Newest {
    fn of(rows: Option<AccountRows>) -> io::Result<Self> {
        let mut newest = Self { rows, next: None };
        newest.take()?;
        Ok(newest)
    }

    /// The row that was read ahead; reads the next.
    fn take(&mut self) -> io::Result<Option<(Place, Vec<u8>)>> {
        let row = self.rows.as_mut().and_then(DoubleEndedIterator::next_back).transpose().map_err(io::Error::other)?;
        let read = row.map(|(key, bytes)| {
            let (index, part) = key.value();
            (Place { index, part }, bytes.value().to_vec())
        });
        Ok(std::mem::replace(&mut self.next, read))
    }

    fn place(&self) -> Option<Place> {
        self.next.as_ref().map(|(place, _)| *place)
    }
}

/// Both tables of the account as one.
struct NewestFirst {
    tables: [Newest; 2],
}

impl Iterator for NewestFirst {
    type Item = io::Result<(Place, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let [acts, routine] = &mut self.tables;
        let newer = if acts.place() >= routine.place() { acts } else { routine };
        newer.take().transpose()
    }
}

/// The index after the last that a snapshot covers.
pub fn end_of(snapshot: Option<&SnapshotMeta>) -> u64 {
    snapshot.and_then(|meta| meta.last_log_id).map_or(0, |last| last.index.saturating_add(1))
}

/// A value of the table of names, to be written.
pub fn meta<T: Serialize>(name: &'static str, value: &T) -> io::Result<Change> {
    Ok(Change::Meta(name, Some(format::encode(value)?)))
}

/// Makes an empty store beside its place and then puts it there, so that a crash leaves either
/// none or a whole one.
fn create(dir: &DataDir, node: u64) -> Result<(), redb::Error> {
    let prepared = dir.store().with_extension("new");
    if prepared.exists() {
        std::fs::remove_file(&prepared)?;
    }
    // it holds the key under which subjects are hashed
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&prepared)?;
    let db = Database::create(&prepared)?;
    let transaction = db.begin_write()?;
    transaction.open_table(LOG)?;
    {
        let node = format::encode(&node).map_err(io::Error::from)?;
        let identity = format::encode(&getrandom::u64().map_err(io::Error::other)?).map_err(io::Error::from)?;
        let mut meta = transaction.open_table(META)?;
        meta.insert(key::FORMAT, [format::VERSION].as_slice())?;
        meta.insert(key::NODE, node.as_slice())?;
        meta.insert(key::IDENTITY, identity.as_slice())?;
    }
    transaction.commit()?;
    drop(db);
    Ok(dir.publish(&prepared)?)
}

fn check_owner(view: &View, path: &Path, node: u64) -> Result<(), StartError> {
    match view.bytes(key::FORMAT).map_err(|error| unreadable(path, &error))?.as_deref() {
        Some([format::VERSION]) => {}
        Some([found]) if *found > format::VERSION => {
            return Err(StartError::NewerFormat { path: path.to_owned(), found: *found, known: format::VERSION });
        }
        _ => return Err(damaged(path, "it has no format version")),
    }
    let found = view.meta::<u64>(key::NODE).map_err(|error| unreadable(path, &error))?;
    match found.ok_or_else(|| damaged(path, "it does not say whose it is"))? {
        found if found == node => Ok(()),
        found => Err(StartError::OtherNode { path: path.to_owned(), found, wanted: node }),
    }
}

fn damaged(path: &Path, detail: &str) -> StartError {
    StartError::Corrupted { path: path.to_owned(), detail: detail.to_owned() }
}

/// The error that something in the store cannot be read.
pub fn unreadable(path: &Path, error: &io::Error) -> StartError {
    let path = path.to_owned();
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(FormatError::Newer { found }) => StartError::NewerFormat { path, found: *found, known: format::VERSION },
        _ => StartError::Corrupted { path, detail: error.to_string() },
    }
}

fn cannot_open(path: &Path, error: redb::Error) -> StartError {
    match error {
        redb::Error::Io(source) if !matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => {
            StartError::DataDir { path: path.to_owned(), source }
        }
        other => StartError::Corrupted { path: path.to_owned(), detail: other.to_string() },
    }
}

fn closed() -> io::Error {
    io::Error::other("the Raft store is closed")
}
