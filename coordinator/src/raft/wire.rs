//! What peers say to each other: paths, headers, and how large a message may be.

use super::format::{self, FormatError};
use super::types::{SnapshotMeta, Vote};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `POST`: entries, or a heartbeat.
pub const APPEND: &str = "/raft/append";
/// `POST`: a candidate asks for a vote.
pub const VOTE: &str = "/raft/vote";
/// `POST`: would it get one?
pub const PRE_VOTE: &str = "/raft/pre-vote";
/// `POST`: a whole snapshot.
pub const SNAPSHOT: &str = "/raft/snapshot";
/// `POST`: the leader hands over.
pub const TRANSFER_LEADER: &str = "/raft/transfer-leader";
/// `GET`: has this node ever been part of a cluster, and who does it think is to form one?
pub const FORMATION: &str = "/raft/formation";

/// Header: the number of the node that the message is for. An address may have changed hands.
pub const TO: &str = "quorate-raft-to";
/// Header: the identity of the data directory that the message is for.
pub const IDENTITY: &str = "quorate-raft-identity";

/// A command is smaller than this, so that a message with one fits.
pub const COMMAND_BYTES: usize = 16 << 20;
/// A message other than a snapshot, and every answer, is smaller than this.
pub const MESSAGE_BYTES: usize = 64 << 20;
/// A snapshot is smaller than this.
pub const SNAPSHOT_BYTES: usize = 1 << 30;

/// Answer to [`FORMATION`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormationState {
    /// True if it never voted and has no entry.
    pub pristine: bool,
    /// The first members, as it was told.
    pub members: BTreeMap<u64, String>,
    /// The identity of its data directory.
    pub identity: u64,
    /// The identities of all members of its cluster, as far as it knows them.
    pub known: BTreeMap<u64, u64>,
    /// The newest level of the ledger that its program knows.
    #[serde(default)]
    pub level: u32,
}

/// What precedes a snapshot's data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SnapshotHead {
    /// The leader's.
    pub vote: Vote,
    /// What the snapshot covers.
    pub meta: SnapshotMeta,
}

/// Head and data in one body: the head's length in four bytes, the head, the data.
pub fn join(head: &SnapshotHead, data: &Bytes) -> Result<Vec<u8>, FormatError> {
    let head = format::encode(head)?;
    let length = u32::try_from(head.len()).map_err(|_| FormatError::Unwritable("head of a snapshot".to_owned()))?;
    let mut body = Vec::with_capacity(4 + head.len() + data.len());
    body.extend_from_slice(&length.to_be_bytes());
    body.extend_from_slice(&head);
    body.extend_from_slice(data);
    Ok(body)
}

/// The head and the data of a body.
pub fn split(body: &Bytes) -> Result<(SnapshotHead, Bytes), FormatError> {
    let short = || FormatError::Malformed("snapshot cut off in its head".to_owned());
    let (length, rest) = body.split_first_chunk::<4>().ok_or_else(short)?;
    let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| short())?;
    let head = rest.get(..length).ok_or_else(short)?;
    Ok((format::decode(head)?, body.slice(4 + length..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_joined_and_split_and_a_cut_head_is_refused() {
        let head = SnapshotHead { vote: Vote::new(1, 2), meta: SnapshotMeta::default() };
        let body = Bytes::from(join(&head, &Bytes::from_static(b"data")).expect("joined"));
        assert_eq!(split(&body), Ok((head, Bytes::from_static(b"data"))));
        for cut in 0..body.len() - 4 {
            assert!(split(&body.slice(..cut)).is_err(), "{cut}");
        }
    }
}
