//! The replicated ledger: applied in memory, kept on disk as a snapshot now and then.

use super::disk::{Disk, end_of};
use super::format;
use super::types::{LogId, Member, Membership, Proposal, Snapshot, SnapshotMeta, TypeConfig};
use super::writer::{Change, key};
use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend};
use parking_lot::RwLock;
use quorate_ledger::{Ledger, Outcome};
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
        Ok(Self::from_snapshot(&meta, format::decode(&snapshot)?))
    }

    fn from_snapshot(meta: &SnapshotMeta, ledger: Ledger) -> Self {
        Self { ledger, last: meta.last_log_id, membership: meta.last_membership.clone() }
    }

    fn apply(&mut self, id: LogId, payload: EntryPayload<Proposal, u64, Member>) -> Outcome {
        self.last = Some(id);
        match payload {
            EntryPayload::Blank => Outcome::Done,
            EntryPayload::Membership(members) => {
                self.membership = Membership::new(Some(id), members);
                Outcome::Done
            }
            EntryPayload::Normal(Proposal(command)) => self.ledger.apply(id.leader_id.term, &command),
        }
    }
}

/// The state machine. Clones are the same one.
#[derive(Clone, Debug)]
pub struct StateMachine {
    disk: Arc<Disk>,
    applied: Arc<RwLock<Applied>>,
}

impl StateMachine {
    /// The state machine as the snapshot on `disk` has it; what the log holds beyond that,
    /// openraft applies.
    pub fn open(disk: Arc<Disk>) -> io::Result<Self> {
        let applied = Arc::new(RwLock::new(Applied::load(&disk)?));
        Ok(Self { disk, applied })
    }

    /// The applied state, for reading.
    pub fn applied(&self) -> &RwLock<Applied> {
        &self.applied
    }

    async fn keep(&self, meta: &SnapshotMeta, data: Bytes) -> io::Result<()> {
        self.disk.write(Change::Snapshot(end_of(Some(meta)), format::encode(meta)?, data)).await
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
            let outcome = self.applied.write().apply(entry.log_id, entry.payload);
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
        let ledger = format::decode(&snapshot)?;
        self.keep(meta, snapshot).await?;
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
        self.keep(&meta, snapshot.clone()).await?;
        Ok(Snapshot { meta, snapshot })
    }
}

fn stored(disk: &Disk) -> io::Result<Option<Snapshot>> {
    let view = disk.view()?;
    let Some(meta) = view.meta(key::SNAPSHOT_META)? else { return Ok(None) };
    let data = view.bytes(key::SNAPSHOT_DATA)?;
    let data = data.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the snapshot has no data"))?;
    Ok(Some(Snapshot { meta, snapshot: Bytes::from(data) }))
}
