//! The log: its newest entries in memory, all of it on disk.
//!
//! Openraft reads an entry as soon as `append` returns, long before it is on disk. So what is
//! appended goes to the tail at once, and stays there at least until the writer has it on disk.

use super::disk::{Disk, meta};
use super::format;
use super::types::{Entry, LogId, TypeConfig, Vote};
use super::writer::{Change, key};
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use openraft::{OptionalSend, entry::RaftEntry};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

/// Entries that stay in memory though they are on disk, for followers that lag a little.
const TAIL_ENTRIES: usize = 1_024;
/// And their bytes, at most.
const TAIL_BYTES: usize = 8 << 20;
/// Entries are read in portions of this many bytes, so that one message to a peer stays bounded.
const PORTION_BYTES: usize = 4 << 20;

/// The log of this node. Clones are the same log.
#[derive(Clone, Debug)]
pub struct LogStore {
    disk: Arc<Disk>,
    log: Arc<RwLock<Log>>,
}

#[derive(Debug)]
struct Log {
    /// The index of the first entry there is, or would be.
    first: u64,
    purged: Option<LogId>,
    last: Option<LogId>,
    vote: Option<Vote>,
    committed: Option<LogId>,
    tail: Tail,
}

/// The newest entries, without a hole. All before its first are on disk.
#[derive(Debug, Default)]
struct Tail {
    entries: BTreeMap<u64, (Entry, usize)>,
    bytes: usize,
    /// The index after the last that is on disk.
    flushed: u64,
}

impl LogStore {
    /// The log that is stored on `disk`.
    pub fn open(disk: Arc<Disk>) -> io::Result<Self> {
        let view = disk.view()?;
        let purged = view.meta::<LogId>(key::PURGED)?;
        let (first, last) = view.ends::<Entry>()?.unzip();
        let last = last.map(|entry| entry.log_id()).max(purged);
        let log = Log {
            first: first.unwrap_or(0).max(purged.map_or(0, after)),
            purged,
            last,
            vote: view.meta(key::VOTE)?,
            committed: view.meta(key::COMMITTED)?,
            tail: Tail { flushed: last.map_or(0, after), ..Tail::default() },
        };
        Ok(Self { disk, log: Arc::new(RwLock::new(log)) })
    }

    /// True if this node never voted and has no entry: it was never part of a cluster.
    pub fn is_pristine(&self) -> bool {
        let log = self.log.read();
        log.last.is_none() && log.vote.is_none()
    }

    /// The entries of `range`: all of them, or with a limit the first and as many more as fit
    /// into so many bytes. What is purged or not yet appended is left out.
    fn read(&self, range: impl RangeBounds<u64>, limit: Option<usize>) -> io::Result<Vec<Entry>> {
        let log = self.log.read();
        let first = start(&range).max(log.first);
        let end = end(&range).min(log.last.map_or(0, after));
        let tail = log.tail.first().unwrap_or(end).min(end);
        if first >= end {
            return Ok(Vec::new());
        }
        if first >= tail {
            return gapless(first, log.tail.portion(first..end, limit));
        }
        let newest = if limit.is_none() { log.tail.portion(tail..end, None) } else { Vec::new() };
        let view = self.disk.view()?;
        drop(log);
        let mut entries = view.entries::<Entry>(first..tail, limit)?;
        if limit.is_none() && entries.len() as u64 != tail - first {
            return Err(hole(first.saturating_add(entries.len() as u64)));
        }
        entries.extend(newest);
        gapless(first, entries)
    }
}

/// The entries, if their indexes are `first` and those that follow it.
fn gapless(first: u64, entries: Vec<Entry>) -> io::Result<Vec<Entry>> {
    match entries.iter().zip(first..).find(|(entry, index)| entry.index() != *index) {
        Some((_, index)) => Err(hole(index)),
        None if entries.is_empty() => Err(hole(first)),
        None => Ok(entries),
    }
}

impl Log {
    /// Takes entries into the tail and returns them as they are to be stored.
    fn append(&mut self, entries: impl IntoIterator<Item = Entry>) -> io::Result<Vec<(u64, Vec<u8>)>> {
        let mut stored = Vec::new();
        for entry in entries {
            let id = entry.log_id();
            match self.last {
                Some(last) if after(last) != id.index => return Err(hole(after(last))),
                Some(_) => {}
                None => self.first = id.index,
            }
            let bytes = format::encode(&entry)?;
            self.tail.push(id.index, entry, bytes.len());
            self.last = Some(id);
            stored.push((id.index, bytes));
        }
        Ok(stored)
    }

    fn truncate(&mut self, last: Option<LogId>) -> u64 {
        let from = last.map_or(0, after);
        self.tail.truncate(from);
        self.last = self.last.min(last).max(self.purged);
        from
    }

    fn purge(&mut self, upto: LogId) {
        self.tail.drop_before(after(upto));
        self.first = self.first.max(after(upto));
        self.purged = self.purged.max(Some(upto));
        self.last = self.last.max(Some(upto));
    }
}

impl Tail {
    fn first(&self) -> Option<u64> {
        self.entries.first_key_value().map(|(index, _)| *index)
    }

    fn push(&mut self, index: u64, entry: Entry, bytes: usize) {
        self.bytes += bytes;
        self.entries.insert(index, (entry, bytes));
    }

    fn portion(&self, range: Range<u64>, limit: Option<usize>) -> Vec<Entry> {
        let (mut entries, mut total) = (Vec::new(), 0usize);
        for (entry, bytes) in self.entries.range(range).map(|(_, held)| held) {
            total = total.saturating_add(*bytes);
            if limit.is_some_and(|limit| total > limit) && !entries.is_empty() {
                break;
            }
            entries.push(entry.clone());
        }
        entries
    }

    fn truncate(&mut self, from: u64) {
        let dropped = self.entries.split_off(&from);
        self.bytes -= dropped.values().map(|(_, bytes)| bytes).sum::<usize>();
        self.flushed = self.flushed.min(from);
    }

    fn drop_before(&mut self, index: u64) {
        let kept = self.entries.split_off(&index);
        self.bytes -= self.entries.values().map(|(_, bytes)| bytes).sum::<usize>();
        self.entries = kept;
        self.flushed = self.flushed.max(index);
    }

    /// Entries before `end` are on disk: the oldest of them may go.
    fn flushed(&mut self, end: u64) {
        self.flushed = self.flushed.max(end);
        while self.entries.len() > TAIL_ENTRIES || self.bytes > TAIL_BYTES {
            match self.entries.first_entry() {
                Some(oldest) if *oldest.key() < self.flushed => self.bytes -= oldest.remove().1,
                _ => return,
            }
        }
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> io::Result<Vec<Entry>>
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        self.read(range, None)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        self.read(start..end, Some(PORTION_BYTES))
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.log.read().vote)
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        let log = self.log.read();
        Ok(LogState { last_purged_log_id: log.purged, last_log_id: log.last })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        self.disk.write(meta(key::VOTE, vote)?).await?;
        self.log.write().vote = Some(*vote);
        Ok(())
    }

    /// Goes to disk with whatever is written next: a mark that is a little old only means that a
    /// restarted node learns the rest from the leader.
    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        let change = match &committed {
            Some(committed) => meta(key::COMMITTED, committed)?,
            None => Change::Meta(key::COMMITTED, None),
        };
        self.log.write().committed = committed;
        self.disk.write_along(change)
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.log.read().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let (stored, end) = {
            let mut log = self.log.write();
            (log.append(entries)?, log.last.map_or(0, after))
        };
        let log = self.log.clone();
        let flushed = move |result: io::Result<()>| {
            if result.is_ok() {
                log.write().tail.flushed(end);
            }
            callback.io_completed(result);
        };
        self.disk.write_then(Change::Append(stored), Box::new(flushed));
        Ok(())
    }

    /// Waits for the disk: were an entry appended again before the old one is gone, the old
    /// one's flush could be taken for the new one's.
    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let from = self.log.write().truncate(last);
        self.disk.write(Change::Truncate(from)).await
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let place = format::encode(&upto)?;
        self.log.write().purge(upto);
        self.disk.write_along(Change::Purge(upto.index, place))
    }
}

fn after(id: LogId) -> u64 {
    id.index.saturating_add(1)
}

fn start(range: &impl RangeBounds<u64>) -> u64 {
    match range.start_bound() {
        Bound::Included(first) => *first,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    }
}

fn end(range: &impl RangeBounds<u64>) -> u64 {
    match range.end_bound() {
        Bound::Included(last) => last.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    }
}

fn hole(index: u64) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the log has no entry {index}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raft::tests::entry;

    #[test]
    fn what_is_not_on_disk_stays_in_memory() {
        let mut tail = Tail::default();
        let entries = 2 * TAIL_ENTRIES as u64;
        (0..entries).for_each(|index| tail.push(index, entry(index), 1));
        tail.flushed(5);
        assert_eq!(tail.first(), Some(5));
        tail.flushed(entries);
        assert_eq!((tail.entries.len(), tail.bytes), (TAIL_ENTRIES, TAIL_ENTRIES));
        tail.push(entries, entry(entries), TAIL_BYTES);
        tail.flushed(entries);
        assert_eq!((tail.first(), tail.bytes), (Some(entries), TAIL_BYTES));
    }

    #[test]
    fn an_entry_that_comes_again_is_not_taken_for_the_one_on_disk() {
        let mut tail = Tail::default();
        (0..10).for_each(|index| tail.push(index, entry(index), 1));
        tail.flushed(10);
        tail.truncate(4);
        (4..3_000).for_each(|index| tail.push(index, entry(index), 1));
        tail.flushed(4);
        assert_eq!(tail.first(), Some(4));
    }
}
