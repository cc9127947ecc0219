//! The one thread that writes: it drains its queue and commits once for all that it found
//! (group commit), durably, in the order of the queue.

use super::audit::{MOST_ACTS, MOST_ROUTINE, Row};
use redb::{Database, Durability, ReadableTable, ReadableTableMetadata, Table, TableDefinition, WriteTransaction};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvError, Sender, TryRecvError, channel};
use tokio::sync::watch;

/// Entries by index.
pub const LOG: TableDefinition<u64, &[u8]> = TableDefinition::new("log");
/// Everything else, by name.
pub const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");

/// A table of the account of what the log did: events by index and part.
pub type Account = TableDefinition<'static, (u64, u32), &'static [u8]>;
/// What people ordered, and what happens once in a while.
pub const ACTS: Account = TableDefinition::new("audit-acts");
/// What happens all the time.
pub const ROUTINE: Account = TableDefinition::new("audit-routine");

/// Names in [`META`].
pub mod key {
    /// The format version of the whole store.
    pub const FORMAT: &str = "format";
    /// Whose store this is.
    pub const NODE: &str = "node";
    /// Tells this store from a later one of the same node.
    pub const IDENTITY: &str = "identity";
    /// The vote.
    pub const VOTE: &str = "vote";
    /// The last committed entry's place.
    pub const COMMITTED: &str = "committed";
    /// The last purged entry's place.
    pub const PURGED: &str = "purged";
    /// What the snapshot covers.
    pub const SNAPSHOT_META: &str = "snapshot-meta";
    /// The snapshot.
    pub const SNAPSHOT_DATA: &str = "snapshot-data";
}

/// A group ends when it holds this much, so that memory and the first one's wait stay bounded.
const GROUP_BYTES: usize = 8 << 20;
const GROUP_JOBS: usize = 4_096;

/// What is to be written.
pub enum Change {
    /// Entries, by index.
    Append(Vec<(u64, Vec<u8>)>),
    /// Entries from this index on are to go.
    Truncate(u64),
    /// Entries up to this index are to go; the place of the last of them.
    Purge(u64, Vec<u8>),
    /// A value of [`META`]; absent: it is to go.
    Meta(&'static str, Option<Vec<u8>>),
    /// A snapshot. One that covers less than the one in place changes nothing.
    Snapshot(Stored),
    /// What is not in the account yet; of the oldest there, as many go as are too many.
    Account(Vec<Row>),
}

/// A snapshot as it is stored.
pub struct Stored {
    /// The index after the last that it covers, so that "nothing" is 0.
    pub next: u64,
    /// What it covers.
    pub covers: Vec<u8>,
    /// The ledger.
    pub data: bytes::Bytes,
    /// What the account says of it: on disk whenever the snapshot is.
    pub account: Vec<Row>,
}

impl Change {
    fn bytes(&self) -> usize {
        match self {
            Self::Append(entries) => entries.iter().map(|(_, bytes)| bytes.len()).sum(),
            Self::Snapshot(stored) => stored.data.len(),
            Self::Account(rows) => rows.iter().map(|row| row.bytes.len()).sum(),
            Self::Truncate(_) | Self::Purge(..) | Self::Meta(..) => 0,
        }
    }
}

/// Told once the change is on disk, or cannot be.
pub type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

/// A change, and who waits for it. One that nobody waits for is written with the next that
/// somebody does.
pub struct Job {
    /// What.
    pub change: Change,
    /// For whom.
    pub done: Option<Done>,
}

/// How much was written since the start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Changes.
    pub changes: AtomicU64,
    /// Commits, each one a flush to the disk.
    pub commits: AtomicU64,
}

/// The writer's other end.
pub struct Writer {
    /// The queue. Once it is dropped, the thread writes what is left in it and ends.
    pub queue: Sender<Job>,
    /// The thread.
    pub thread: std::thread::JoinHandle<()>,
    /// Why nothing is written any more; `None` as long as all is well.
    pub failure: watch::Receiver<Option<String>>,
}

/// Starts the thread. `snapshot` is the index after the last that the stored snapshot covers.
pub fn start(db: Arc<Database>, snapshot: u64, counters: Arc<Counters>) -> io::Result<Writer> {
    let (queue, jobs) = channel();
    let (failed, failure) = watch::channel(None);
    let state = State { db, jobs, pending: Vec::new(), snapshot, counters, failed };
    let thread = std::thread::Builder::new().name("raft-writer".to_owned()).spawn(move || state.run())?;
    Ok(Writer { queue, thread, failure })
}

struct State {
    db: Arc<Database>,
    jobs: Receiver<Job>,
    /// Taken from the queue, not written yet.
    pending: Vec<Job>,
    snapshot: u64,
    counters: Arc<Counters>,
    failed: watch::Sender<Option<String>>,
}

impl State {
    fn run(mut self) {
        loop {
            let open = self.collect();
            if !self.pending.is_empty() {
                self.write_group();
            }
            if !open {
                return;
            }
        }
    }

    /// Waits until somebody waits for something pending, then takes along all that is queued.
    /// False once there will be no more.
    fn collect(&mut self) -> bool {
        let mut bytes = 0;
        let mut awaited = false;
        loop {
            let job = match self.jobs.try_recv() {
                Ok(job) => job,
                Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) if awaited => return true,
                Err(TryRecvError::Empty) => match self.jobs.recv() {
                    Ok(job) => job,
                    Err(RecvError) => return false,
                },
            };
            bytes += job.change.bytes();
            awaited |= job.done.is_some();
            self.pending.push(job);
            if self.pending.len() >= GROUP_JOBS || bytes >= GROUP_BYTES {
                return true;
            }
        }
    }

    fn write_group(&mut self) {
        let group = std::mem::take(&mut self.pending);
        let result = self.commit(&group);
        if let Err(error) = &result {
            tracing::error!(%error, "cannot write to the Raft store; this node stops");
            self.fail(error.to_string());
        }
        for done in group.into_iter().filter_map(|job| job.done) {
            done(result.as_ref().copied().map_err(|error| io::Error::new(error.kind(), error.to_string())));
        }
    }

    /// The first failure is the one that counts.
    fn fail(&self, why: String) {
        self.failed.send_if_modified(|failure| {
            let first = failure.is_none();
            failure.get_or_insert(why);
            first
        });
    }

    /// After one failure nothing is written any more: what a failed flush left behind is unknown.
    fn commit(&mut self, group: &[Job]) -> io::Result<()> {
        if let Some(failure) = &*self.failed.borrow() {
            return Err(io::Error::other(failure.clone()));
        }
        let mut transaction = self.db.begin_write().map_err(io::Error::other)?;
        transaction.set_durability(Durability::Immediate).map_err(io::Error::other)?;
        let mut snapshot = self.snapshot;
        for job in group {
            apply(&transaction, &job.change, &mut snapshot).map_err(io::Error::other)?;
        }
        transaction.commit().map_err(io::Error::other)?;
        self.snapshot = snapshot;
        self.counters.changes.fetch_add(group.len() as u64, Ordering::Relaxed);
        self.counters.commits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn apply(transaction: &WriteTransaction, change: &Change, snapshot: &mut u64) -> Result<(), redb::Error> {
    match change {
        Change::Append(entries) => {
            let mut log = transaction.open_table(LOG)?;
            for (index, bytes) in entries {
                log.insert(index, bytes.as_slice())?;
            }
        }
        Change::Truncate(from) => transaction.open_table(LOG)?.retain_in(*from.., |_, _| false)?,
        Change::Purge(upto, place) => {
            transaction.open_table(LOG)?.retain_in(..=*upto, |_, _| false)?;
            transaction.open_table(META)?.insert(key::PURGED, place.as_slice())?;
        }
        Change::Meta(name, Some(bytes)) => {
            transaction.open_table(META)?.insert(name, bytes.as_slice())?;
        }
        Change::Meta(name, None) => {
            transaction.open_table(META)?.remove(name)?;
        }
        Change::Snapshot(stored) if stored.next >= *snapshot => {
            let mut meta = transaction.open_table(META)?;
            meta.insert(key::SNAPSHOT_META, stored.covers.as_slice())?;
            meta.insert(key::SNAPSHOT_DATA, stored.data.as_ref())?;
            account(transaction, &stored.account)?;
            *snapshot = stored.next;
        }
        Change::Snapshot(_) => {}
        Change::Account(rows) => account(transaction, rows)?,
    }
    Ok(())
}

fn account(transaction: &WriteTransaction, rows: &[Row]) -> Result<(), redb::Error> {
    let (routine, acts): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.routine);
    for (table, rows, most) in [(ACTS, acts, MOST_ACTS), (ROUTINE, routine, MOST_ROUTINE)] {
        if !rows.is_empty() {
            add(&mut transaction.open_table(table)?, &rows, most)?;
        }
    }
    Ok(())
}

/// An entry that is applied again after a restart is in the account already, with the time at which it first was.
fn add(table: &mut Table<'_, (u64, u32), &'static [u8]>, rows: &[&Row], most: u64) -> Result<(), redb::Error> {
    for row in rows {
        let key = (row.place.index, row.place.part);
        if table.get(key)?.is_none() {
            table.insert(key, row.bytes.as_slice())?;
        }
    }
    while table.len()? > most {
        table.pop_first()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use redb::StorageBackend;
    use redb::backends::InMemoryBackend;
    use std::sync::atomic::AtomicBool;

    /// A disk that fails to flush while it is told to.
    #[derive(Debug)]
    struct Moody {
        memory: InMemoryBackend,
        fails: Arc<AtomicBool>,
    }

    impl StorageBackend for Moody {
        fn len(&self) -> io::Result<u64> {
            self.memory.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.memory.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.memory.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            if self.fails.load(Ordering::Relaxed) { Err(io::Error::other("the disk is gone")) } else { self.memory.sync_data() }
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.memory.write(offset, data)
        }
    }

    fn write(writer: &Writer, change: Change) -> io::Result<()> {
        let (tell, told) = channel();
        let done = Box::new(move |result| tell.send(result).expect("awaited"));
        writer.queue.send(Job { change, done: Some(done) }).expect("the thread runs");
        told.recv().expect("told")
    }

    fn vote() -> Change {
        Change::Meta(key::VOTE, Some(vec![1]))
    }

    fn writer(disk: impl StorageBackend) -> (Writer, Arc<Database>) {
        let db = Arc::new(Database::builder().create_with_backend(disk).expect("made"));
        (start(db.clone(), 0, Arc::default()).expect("started"), db)
    }

    #[test]
    fn after_a_failed_flush_nothing_is_acknowledged_any_more() {
        let fails = Arc::new(AtomicBool::new(false));
        let (writer, _) = writer(Moody { memory: InMemoryBackend::new(), fails: fails.clone() });
        write(&writer, vote()).expect("written");
        fails.store(true, Ordering::Relaxed);
        let error = write(&writer, vote()).expect_err("not flushed").to_string();
        assert!(error.contains("the disk is gone"), "{error}");
        fails.store(false, Ordering::Relaxed);
        write(&writer, vote()).expect_err("the disk's recovery changes nothing");
        assert!(writer.failure.borrow().as_ref().is_some_and(|why| why.contains("the disk is gone")));
        drop(writer.queue);
        writer.thread.join().expect("ends");
    }

    #[test]
    fn what_follows_a_change_that_failed_is_not_written_either() {
        let (writer, db) = writer(InMemoryBackend::new());
        let transaction = db.begin_write().expect("begun");
        transaction.open_table(TableDefinition::<u64, u64>::new("meta")).expect("a table of another type");
        transaction.commit().expect("committed");
        let append = |index| Change::Append(vec![(index, vec![1])]);
        write(&writer, append(1)).expect("written");
        write(&writer, vote()).expect_err("no such table");
        write(&writer, append(2)).expect_err("it came after a change that is lost");
    }
}
