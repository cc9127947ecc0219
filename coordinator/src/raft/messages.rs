//! Bytes read as every kind of message between peers, and as what the log and a snapshot hold. For tests.

use super::format::{self, FormatError};
use super::state_machine::ledger_of;
use super::types::{Proposal, TypeConfig};
use super::wire::{self, FormationState};
use bytes::Bytes;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest, VoteRequest, VoteResponse};
use quorate_ledger::Outcome;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What was read is not what comes back once it has been written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} is read as something else once written")]
pub struct Unfaithful {
    /// The kind of message.
    pub kind: &'static str,
}

/// The kinds that these bytes can be read as.
///
/// # Errors
/// What was read of one kind is written as bytes that are read as something else.
pub fn kinds(body: &Bytes) -> Result<Vec<&'static str>, Unfaithful> {
    let tried = [
        faithful::<AppendEntriesRequest<TypeConfig>>("append", body)?,
        faithful::<VoteRequest<TypeConfig>>("vote", body)?,
        faithful::<TransferLeaderRequest<TypeConfig>>("transfer", body)?,
        faithful::<AppendEntriesResponse<TypeConfig>>("appended", body)?,
        faithful::<VoteResponse<TypeConfig>>("voted", body)?,
        faithful::<SnapshotResponse<TypeConfig>>("installed", body)?,
        faithful::<FormationState>("formation", body)?,
        faithful::<Proposal>("command", body)?,
        faithful::<Outcome>("outcome", body)?,
        snapshot(body)?,
        ledger(body)?,
    ];
    Ok(tried.into_iter().flatten().collect())
}

fn faithful<T: Serialize + DeserializeOwned>(kind: &'static str, body: &[u8]) -> Result<Option<&'static str>, Unfaithful> {
    let Ok(read) = format::decode::<T>(body) else { return Ok(None) };
    let again = || {
        let written = format::encode(&read)?;
        let same = format::encode(&format::decode::<T>(&written)?)? == written;
        Ok::<_, FormatError>(same)
    };
    if again() == Ok(true) { Ok(Some(kind)) } else { Err(Unfaithful { kind }) }
}

fn snapshot(body: &Bytes) -> Result<Option<&'static str>, Unfaithful> {
    let Ok((head, data)) = wire::split(body) else { return Ok(None) };
    ledger(&data)?;
    let again = wire::join(&head, &data).map(Bytes::from).and_then(|written| wire::split(&written));
    if again == Ok((head, data)) { Ok(Some("snapshot")) } else { Err(Unfaithful { kind: "snapshot" }) }
}

fn ledger(body: &[u8]) -> Result<Option<&'static str>, Unfaithful> {
    let Ok(ledger) = ledger_of(body) else { return Ok(None) };
    let again = format::encode(&ledger).ok().and_then(|written| ledger_of(&written).ok());
    if again.as_ref() == Some(&ledger) { Ok(Some("ledger")) } else { Err(Unfaithful { kind: "ledger" }) }
}
