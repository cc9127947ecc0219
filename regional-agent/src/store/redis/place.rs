//! Where a region's Redis is: at one address, where a cluster says, or where Sentinels say.
//!
//! All keys of a region lie in one slot (ADR 0012), so in a cluster one node at a time is asked like
//! a single Redis, and a redirection means to connect elsewhere.

use super::session::fault;
use crate::config::RedisConfig;
use crate::store::StoreError;
use parking_lot::Mutex;
use quorate_shared::names::RegionName;
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo};
use std::collections::VecDeque;
use std::fmt;

/// Addresses that are remembered of a cluster at most.
const MOST_NODES: usize = 64;

/// Where a region's Redis is.
pub struct Place {
    info: ConnectionInfo,
    sentinels: Option<tokio::sync::Mutex<SentinelClient>>,
    /// Where to look, the likeliest first.
    nodes: Mutex<VecDeque<ConnectionAddr>>,
    probe_key: String,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("nodes", &*self.nodes.lock()).finish_non_exhaustive()
    }
}

impl Place {
    /// Of the Redis of `region`.
    ///
    /// # Errors
    /// If an address is none.
    pub fn new(config: &RedisConfig, region: &RegionName) -> Result<Self, StoreError> {
        let refused = |error: redis::RedisError| StoreError::Refused(error.to_string());
        let info = config.url.as_str().into_connection_info().map_err(refused)?;
        let sentinels = match config.sentinels.is_empty() {
            true => None,
            false => Some(tokio::sync::Mutex::new(sentinels(config, &info).map_err(refused)?)),
        };
        let nodes = Mutex::new(VecDeque::from([info.addr().clone()]));
        Ok(Self { info, sentinels, nodes, probe_key: format!("quorate:{{{region}}}:probe") })
    }

    /// A key in the region's slot that means nothing.
    pub fn probe_key(&self) -> &str {
        &self.probe_key
    }

    /// Where to connect now.
    pub async fn client(&self) -> Result<Client, StoreError> {
        if let Some(sentinels) = &self.sentinels {
            return sentinels.lock().await.async_get_client().await.map_err(|error| fault(&error));
        }
        let address = self.nodes.lock().front().cloned().unwrap_or_else(|| self.info.addr().clone());
        Client::open(self.info.clone().set_addr(address)).map_err(|error| fault(&error))
    }

    /// The region's slot is there.
    pub fn moved(&self, address: &str) {
        let mut nodes = self.nodes.lock();
        if let Some(address) = parsed(address, nodes.front()) {
            nodes.retain(|known| *known != address);
            nodes.push_front(address);
            nodes.truncate(MOST_NODES);
        }
    }

    /// Nobody serves the region at the likeliest address: the next is tried.
    pub fn failed(&self) {
        let mut nodes = self.nodes.lock();
        let tried = nodes.pop_front();
        nodes.extend(tried);
    }

    /// Takes in the answer to `CLUSTER NODES`: one of them will know where the slot is once this one is gone.
    pub fn learn(&self, nodes: &str) {
        let mut known = self.nodes.lock();
        for line in nodes.lines() {
            let mut words = line.split(' ').skip(1);
            let (Some(address), Some(flags)) = (words.next(), words.next()) else { continue };
            let address = address.split('@').next().unwrap_or_default();
            let is_there = !flags.split(',').any(|flag| matches!(flag, "fail" | "handshake" | "noaddr"));
            if let Some(address) = parsed(address, known.front()).filter(|address| is_there && !known.contains(address))
                && known.len() < MOST_NODES
            {
                known.push_back(address);
            }
        }
    }
}

/// The Sentinels know the Redis by the name that the URL has in the place of a host.
fn sentinels(config: &RedisConfig, info: &ConnectionInfo) -> Result<SentinelClient, redis::RedisError> {
    let name = match info.addr() {
        ConnectionAddr::Tcp(host, _) => host.clone(),
        other => other.to_string(),
    };
    let node = SentinelNodeConnectionInfo::default().set_redis_connection_info(info.redis_settings().clone());
    let urls = config.sentinels.iter().map(|url| url.as_str().to_owned()).collect();
    SentinelClient::build(urls, name, Some(node), SentinelServerType::Master)
}

/// An address as a node of a cluster writes it: without a host it is that of the node that was asked.
fn parsed(address: &str, asked: Option<&ConnectionAddr>) -> Option<ConnectionAddr> {
    let (host, port) = address.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    match (host, asked) {
        ("", Some(ConnectionAddr::Tcp(host, _))) => Some(ConnectionAddr::Tcp(host.clone(), port)),
        ("", _) => None,
        (host, _) => Some(ConnectionAddr::Tcp(host.to_owned(), port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RedisUrl;

    fn place() -> Place {
        let config = RedisConfig { url: RedisUrl::new("redis://:secret@a:7000"), sentinels: Vec::new() };
        Place::new(&config, &"eu".parse().expect("a name")).expect("an address")
    }

    async fn next(place: &Place) -> String {
        place.client().await.expect("an address").get_connection_info().addr().to_string()
    }

    #[tokio::test]
    async fn a_redirection_is_followed_and_the_way_back_is_kept() {
        let place = place();
        assert_eq!(next(&place).await, "a:7000");
        place.moved("b:7001");
        assert_eq!(next(&place).await, "b:7001");
        place.moved(":7002");
        assert_eq!(next(&place).await, "b:7002");
        for expected in ["b:7001", "a:7000", "b:7002"] {
            place.failed();
            assert_eq!(next(&place).await, expected);
        }
        place.moved("nowhere");
        assert_eq!(next(&place).await, "b:7002");
        assert!(!format!("{place:?}").contains("secret"));
    }

    #[tokio::test]
    async fn other_nodes_of_a_cluster_are_tried_once_one_is_gone() {
        let place = place();
        let nodes = "07c3 ::1:30004@31004,host-4 slave e7d1 0 1 4 connected\n67ed a:7000@17000 myself,master - 0 1 2 connected 0-5460\n\
                     2928 c:30003@31003 master,fail - 0 1 3 connected\n6ec2 :0@0 master,noaddr - 0 1 1 disconnected\n";
        place.learn(nodes);
        assert_eq!(next(&place).await, "a:7000");
        place.failed();
        assert_eq!(next(&place).await, "::1:30004");
        place.failed();
        assert_eq!(next(&place).await, "a:7000");
    }
}
