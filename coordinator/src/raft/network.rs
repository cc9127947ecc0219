//! Talking to the other nodes: MessagePack over HTTP/2 without TLS.

use super::format;
use super::settings::RaftSettings;
use super::types::{Member, Snapshot, TypeConfig, Vote};
use super::wire::{self, SnapshotHead};
use bytes::{Bytes, BytesMut};
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, RPCTypes};
use reqwest::{Client, RequestBuilder, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::time::Duration;

/// Makes connections to peers.
#[derive(Clone, Debug)]
pub struct Network {
    node: u64,
    token: Option<String>,
    /// Heartbeats and votes have connections of their own, so that no entries delay them.
    urgent: Client,
    bulk: Client,
    /// How long a peer may take to write entries down. Openraft would allow one heartbeat, less
    /// than a slow disk needs; it does not insist where entries are streamed.
    append_timeout: Duration,
}

impl Network {
    /// The network of a node with these settings.
    pub fn new(settings: &RaftSettings) -> reqwest::Result<Self> {
        let patience = settings.election_timeout.1;
        Ok(Self {
            node: settings.node,
            token: settings.peer_token.clone(),
            urgent: client(patience)?,
            bulk: client(patience)?,
            append_timeout: patience,
        })
    }

    /// Whoever has the number `target` and is at `address`.
    pub fn peer(&self, target: u64, address: &str) -> Peer {
        Peer { network: self.clone(), target, identity: None, address: address.to_owned(), heartbeats: false }
    }
}

/// A connection that no longer answers is given up after `patience`, so that a healed network
/// does not wait for TCP's own, ever longer repetitions.
fn client(patience: Duration) -> reqwest::Result<Client> {
    Client::builder()
        .no_proxy()
        .http2_prior_knowledge()
        .http2_adaptive_window(true)
        .http2_keep_alive_interval(patience)
        .http2_keep_alive_timeout(patience)
        .connect_timeout(patience)
        .tcp_nodelay(true)
        .build()
}

/// One other node.
#[derive(Clone, Debug)]
pub struct Peer {
    network: Network,
    target: u64,
    identity: Option<u64>,
    address: String,
    heartbeats: bool,
}

/// Why a peer did not answer.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// Nothing listens there, or the connection broke.
    #[error("cannot reach node {node} at {address}: {source}")]
    Unreachable {
        /// Which.
        node: u64,
        /// Where.
        address: String,
        /// The client's word.
        source: reqwest::Error,
    },
    /// It took too long.
    #[error("no answer from node {node} at {address} within {waited:?}")]
    Late {
        /// Which.
        node: u64,
        /// Where.
        address: String,
        /// So long was waited.
        waited: Duration,
    },
    /// It answered, but not to the question.
    #[error("node {node} at {address} answered {detail}")]
    Answer {
        /// Which.
        node: u64,
        /// Where.
        address: String,
        /// What.
        detail: String,
    },
}

impl Peer {
    /// Asks it whether it has ever been part of a cluster.
    pub async fn formation(&self, timeout: Duration) -> Result<wire::FormationState, PeerError> {
        let request = self.network.urgent.get(self.url(wire::FORMATION));
        self.exchange(request, timeout).await
    }

    /// Its number.
    pub fn target(&self) -> u64 {
        self.target
    }

    /// Where it is.
    pub fn address(&self) -> &str {
        &self.address
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn lane(&self) -> (&Client, fn(&RPCOption, &Self) -> Duration) {
        if self.heartbeats {
            // three quarters of a heartbeat, the soft limit, may be less than a round trip
            (&self.network.urgent, |option, _| option.hard_ttl())
        } else {
            (&self.network.bulk, |option, peer| option.soft_ttl().max(peer.network.append_timeout))
        }
    }

    async fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        client: &Client,
        path: &str,
        question: &Q,
        timeout: Duration,
    ) -> Result<A, PeerError> {
        let body = format::encode(question).map_err(|error| self.answer(error.to_string()))?;
        self.exchange(client.post(self.url(path)).body(body), timeout).await
    }

    async fn exchange<A: DeserializeOwned>(&self, request: RequestBuilder, timeout: Duration) -> Result<A, PeerError> {
        let mut request = request.header(wire::TO, self.target).timeout(timeout);
        if let Some(identity) = self.identity {
            request = request.header(wire::IDENTITY, identity);
        }
        if let Some(token) = &self.network.token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.map_err(|error| self.failed(error, timeout))?;
        let status = response.status();
        let body = self.body(response, timeout).await?;
        if status != StatusCode::OK {
            return Err(self.answer(format!("{status}: {}", String::from_utf8_lossy(body.get(..200).unwrap_or(&body)))));
        }
        format::decode(&body).map_err(|error| self.answer(error.to_string()))
    }

    async fn body(&self, mut response: reqwest::Response, timeout: Duration) -> Result<Bytes, PeerError> {
        let mut body = BytesMut::new();
        while let Some(part) = response.chunk().await.map_err(|error| self.failed(error, timeout))? {
            if body.len() + part.len() > wire::MESSAGE_BYTES {
                return Err(self.answer(format!("more than {} bytes", wire::MESSAGE_BYTES)));
            }
            body.extend_from_slice(&part);
        }
        Ok(body.freeze())
    }

    fn failed(&self, source: reqwest::Error, waited: Duration) -> PeerError {
        let (node, address) = (self.target, self.address.clone());
        if source.is_timeout() { PeerError::Late { node, address, waited } } else { PeerError::Unreachable { node, address, source } }
    }

    fn answer(&self, detail: String) -> PeerError {
        PeerError::Answer { node: self.target, address: self.address.clone(), detail }
    }

    fn rpc(&self, error: PeerError, action: RPCTypes) -> RPCError<TypeConfig> {
        match &error {
            PeerError::Unreachable { .. } | PeerError::Answer { .. } => Unreachable::new(&error).into(),
            PeerError::Late { waited, .. } => Timeout { action, id: self.network.node, target: self.target, timeout: *waited }.into(),
        }
    }

    async fn send_snapshot(&self, vote: Vote, snapshot: Snapshot, timeout: Duration) -> Result<SnapshotResponse<TypeConfig>, PeerError> {
        let head = SnapshotHead { vote, meta: snapshot.meta };
        let body = wire::join(&head, &snapshot.snapshot).map_err(|error| self.answer(error.to_string()))?;
        if body.len() > wire::SNAPSHOT_BYTES {
            return Err(self.answer(format!("nothing: the snapshot has {} bytes, more than {}", body.len(), wire::SNAPSHOT_BYTES)));
        }
        self.exchange(self.network.bulk.post(self.url(wire::SNAPSHOT)).body(body), timeout).await
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, member: &Member) -> Peer {
        Peer { identity: Some(member.identity), ..self.peer(target, &member.address) }
    }

    async fn new_heartbeat_client(&mut self, target: u64, member: &Member) -> Peer {
        Peer { heartbeats: true, ..self.new_client(target, member).await }
    }
}

impl RaftNetworkV2<TypeConfig> for Peer {
    type SnapshotData = Bytes;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        let (client, timeout) = self.lane();
        let answer = self.call(client, wire::APPEND, &rpc, timeout(&option, self)).await;
        answer.map_err(|error| self.rpc(error, RPCTypes::AppendEntries))
    }

    async fn vote(&mut self, rpc: VoteRequest<TypeConfig>, option: RPCOption) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let answer = self.call(&self.network.urgent, wire::VOTE, &rpc, option.hard_ttl()).await;
        answer.map_err(|error| self.rpc(error, RPCTypes::Vote))
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let answer = self.call(&self.network.urgent, wire::PRE_VOTE, &rpc, option.hard_ttl()).await;
        answer.map_err(|error| self.rpc(error, RPCTypes::Vote))
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        tokio::select! {
            closed = cancel => Err(closed.into()),
            answer = self.send_snapshot(vote, snapshot, option.soft_ttl()) => {
                answer.map_err(|error| self.rpc(error, RPCTypes::InstallSnapshot).into())
            }
        }
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RPCError<TypeConfig>> {
        let answer = self.call(&self.network.urgent, wire::TRANSFER_LEADER, &req, option.soft_ttl()).await;
        answer.map_err(|error| self.rpc(error, RPCTypes::TransferLeader))
    }
}
