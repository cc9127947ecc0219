//! The replicated ledger: applied in memory, kept on disk as a snapshot now and then.

use super::audit;
use super::awaited::Awaited;
use super::disk::{Disk, end_of};
use super::format;
use super::types::{Entry, LogId, Member, Membership, Proposal, Snapshot, SnapshotMeta, TypeConfig};
use super::writer::{Change, Stored, key};
use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend};
use parking_lot::RwLock;
use quorate_ledger::level::{UnknownLevel, check_level};
use quorate_ledger::{Command, Ledger, Outcome};
use quorate_shared::audit::AuditEvent;
use serde::Deserialize;
use std::io;
use std::sync::Arc;

/// The ledger, and which entries it has applied.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    /// The ledger.
    pub ledger: Ledger,
    /// The last entry.
    pub last: Option<LogId>,
    membership: Membership,
}

impl Applied {
    /// The snapshot on `disk`, or nothing.
    fn load(disk: &Disk) -> io::Result<Self> {
        let Some(Snapshot { meta, snapshot }) = stored(disk)? else { return Ok(Self::default()) };
        Ok(Self::from_snapshot(&meta, ledger_of(&snapshot)?))
    }

    fn from_snapshot(meta: &SnapshotMeta, ledger: Ledger) -> Self {
        Self { ledger, last: meta.last_log_id, membership: meta.last_membership.clone() }
    }

    /// Applies one entry. If this program does not know how, nothing is changed: the entry stays
    /// in the log for one that does.
    fn apply(&mut self, id: LogId, payload: EntryPayload<Proposal, u64, Member>) -> Result<Outcome, UnknownLevel> {
        let outcome = match payload {
            EntryPayload::Blank => Outcome::Done,
            EntryPayload::Membership(members) => {
                self.membership = Membership::new(Some(id), members);
                Outcome::Done
            }
            EntryPayload::Normal(Proposal(command)) => match self.ledger.apply(id.leader_id.term, &command) {
                Outcome::UnknownLevel { found } => return Err(UnknownLevel { found }),
                outcome => outcome,
            },
        };
        self.last = Some(id);
        Ok(outcome)
    }
}

/// The state machine. Clones are the same one.
#[derive(Clone, Debug)]
pub struct StateMachine {
    disk: Arc<Disk>,
    applied: Arc<RwLock<Applied>>,
    awaited: Arc<Awaited>,
}

impl StateMachine {
    /// The state machine as the snapshot on `disk` has it; what the log holds beyond that,
    /// openraft applies.
    pub fn open(disk: Arc<Disk>) -> io::Result<Self> {
        let applied = Arc::new(RwLock::new(Applied::load(&disk)?));
        Ok(Self { disk, applied, awaited: Arc::default() })
    }

    /// The applied state, for reading.
    pub fn applied(&self) -> &RwLock<Applied> {
        &self.applied
    }

    /// Who waits for what is to be applied.
    pub fn awaited(&self) -> &Awaited {
        &self.awaited
    }

    /// Applies one entry, and takes it into the account.
    fn apply_one(&self, entry: Entry) -> io::Result<Outcome> {
        let (id, command) = (entry.log_id, command_of(&entry.payload));
        let _span = self.awaited.applies(command.as_deref()).entered();
        let mut applied = self.applied.write();
        let outcome = applied.apply(id, entry.payload).map_err(unsupported)?;
        let (term, index) = (id.leader_id.term, id.index);
        let events = match command {
            Some(command) => {
                let notes = applied.ledger.notes();
                audit::Applied { term, index, command: &command, outcome: &outcome, notes }.events()
            }
            None if applied.membership.log_id() == &Some(id) => {
                vec![audit::members(term, index, applied.membership.membership().nodes())]
            }
            None => Vec::new(),
        };
        drop(applied);
        self.account(&events)?;
        Ok(outcome)
    }

    /// Takes events into the account; they are on disk before the entries that they tell of are purged.
    fn account(&self, events: &[AuditEvent]) -> io::Result<()> {
        match events.is_empty() {
            true => Ok(()),
            false => self.disk.write_along(Change::Account(audit::rows(events)?)),
        }
    }

    async fn keep(&self, meta: &SnapshotMeta, data: Bytes, tells: &[AuditEvent]) -> io::Result<()> {
        let (covers, account) = (format::encode(meta)?, audit::rows(tells)?);
        self.disk.write(Change::Snapshot(Stored { next: end_of(Some(meta)), covers, data, account })).await
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = Bytes;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, Membership)> {
        let applied = self.applied.read();
        Ok((applied.last, applied.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            let outcome = self.apply_one(entry)?;
            if let Some(responder) = responder {
                responder.send(outcome);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: Bytes) -> io::Result<()> {
        let ledger = ledger_of(&snapshot)?;
        let before = self.applied.read().last.map(|id| id.index);
        let gap = meta.last_log_id.map(|last| audit::gap(last.leader_id.term, last.index, before));
        self.keep(meta, snapshot, gap.as_slice()).await?;
        *self.applied.write() = Applied::from_snapshot(meta, ledger);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        let disk = self.disk.clone();
        tokio::task::spawn_blocking(move || stored(&disk)).await?
    }
}

impl RaftSnapshotBuilder<TypeConfig> for StateMachine {
    type SnapshotData = Bytes;

    /// The ledger is copied under the lock and encoded outside it: entries are applied meanwhile.
    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let Applied { ledger, last, membership } = self.applied.read().clone();
        let meta = SnapshotMeta { last_log_id: last, last_membership: membership };
        let encoded = tokio::task::spawn_blocking(move || format::encode(&ledger)).await?;
        let snapshot = Bytes::from(encoded?);
        self.keep(&meta, snapshot.clone(), &[]).await?;
        Ok(Snapshot { meta, snapshot })
    }
}

fn command_of(payload: &EntryPayload<Proposal, u64, Member>) -> Option<Arc<Command>> {
    match payload {
        EntryPayload::Normal(Proposal(command)) => Some(command.clone()),
        EntryPayload::Blank | EntryPayload::Membership(_) => None,
    }
}

/// What can be read of a ledger of any level.
#[derive(Deserialize)]
struct Levelled {
    #[serde(default)]
    level: u32,
}

/// The ledger in a snapshot, unless it is of a level that this program does not know.
pub(super) fn ledger_of(snapshot: &[u8]) -> io::Result<Ledger> {
    let Levelled { level } = format::decode(snapshot)?;
    check_level(level).map_err(unsupported)?;
    Ok(format::decode(snapshot)?)
}

fn unsupported(unknown: UnknownLevel) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, unknown)
}

fn stored(disk: &Disk) -> io::Result<Option<Snapshot>> {
    let view = disk.view()?;
    let Some(meta) = view.meta(key::SNAPSHOT_META)? else { return Ok(None) };
    let data = view.bytes(key::SNAPSHOT_DATA)?;
    let data = data.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the snapshot has no data"))?;
    Ok(Some(Snapshot { meta, snapshot: Bytes::from(data) }))
}
