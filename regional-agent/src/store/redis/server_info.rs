//! What a Redis says of itself: who it is, whether it will do, and what to warn of.

use crate::store::{StoreError, Unusable};
use std::fmt;

/// The oldest Redis that will do: scripts that read `TIME` and write need effects replication
/// (5.0); 6.2 is the oldest that Redis itself still mends.
const OLDEST: (u64, u64) = (6, 2);

/// What a Redis says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    version: String,
    run_id: String,
    replication_id: String,
    role: String,
    clustered: bool,
    appends: bool,
    saves: Option<bool>,
    max_memory: u64,
    eviction: String,
}

/// What may go wrong by how a Redis is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// It may evict keys: all state counts as lost each time it does.
    Eviction(String),
    /// It keeps nothing over a restart.
    Persistence,
}

impl Warning {
    /// All that [`Self::kind`] may say.
    pub const KINDS: [&'static str; 2] = ["eviction", "persistence"];

    /// As metrics name it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Eviction(_) => "eviction",
            Self::Persistence => "persistence",
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Eviction(policy) => {
                write!(f, "maxmemory-policy is {policy}: once it evicts a key, all its state counts as lost; set noeviction")
            }
            Self::Persistence => {
                f.write_str("it saves nothing: policies and holds are gone after its restart, as all counts are in any case")
            }
        }
    }
}

impl ServerInfo {
    /// Reads the answer to `INFO`.
    pub fn read(info: &str) -> Result<Self, StoreError> {
        let field = |name: &str| {
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.map(|value| value.trim().to_owned())
        };
        let needed = |name: &str| field(name).ok_or_else(|| StoreError::Refused(format!("INFO does not name its {name}")));
        let is_set = |name: &str| field(name).is_some_and(|value| value == "1");
        Ok(Self {
            version: needed("redis_version")?,
            run_id: needed("run_id")?,
            replication_id: needed("master_replid")?,
            role: field("role").unwrap_or_default(),
            clustered: is_set("cluster_enabled"),
            appends: is_set("aof_enabled"),
            saves: None,
            max_memory: field("maxmemory").and_then(|value| value.parse().ok()).unwrap_or(0),
            eviction: field("maxmemory_policy").unwrap_or_default(),
        })
    }

    /// Takes in the answer to `CONFIG GET save`; not every Redis gives one.
    pub fn read_save(&mut self, answer: Option<Vec<String>>) {
        self.saves = answer.and_then(|pair| pair.get(1).map(|points| !points.is_empty()));
    }

    /// Another text after a restart, a failover or a restore.
    pub fn identity(&self) -> String {
        format!("{}/{}", self.run_id, self.replication_id)
    }

    /// True of a node of a cluster.
    pub const fn is_clustered(&self) -> bool {
        self.clustered
    }

    /// True if it may evict keys that are in use.
    pub fn evicts(&self) -> bool {
        self.max_memory > 0 && self.may_evict()
    }

    fn may_evict(&self) -> bool {
        !matches!(self.eviction.as_str(), "" | "noeviction")
    }

    /// What to warn of.
    pub fn warnings(&self) -> Vec<Warning> {
        let eviction = self.may_evict().then(|| Warning::Eviction(self.eviction.clone()));
        let persistence = (!self.appends && self.saves == Some(false)).then_some(Warning::Persistence);
        eviction.into_iter().chain(persistence).collect()
    }

    /// Whether it will do.
    pub fn check(&self) -> Result<(), StoreError> {
        let mut numbers = self.version.split('.').map(|part| part.parse().unwrap_or(0));
        let version: (u64, u64) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if version < OLDEST {
            let ((major, minor), version) = (OLDEST, &self.version);
            let said = format!("this is Redis {version}; scripts that read TIME and write need {major}.{minor} or newer");
            return Err(StoreError::Unusable { why: Unusable::TooOld, said });
        }
        if self.role == "slave" {
            return Err(StoreError::Unusable { why: Unusable::ReadOnly, said: "INFO says role:slave".to_owned() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(version: &str, more: &str) -> String {
        format!(
            "# Server\r\nredis_version:{version}\r\nrun_id:abc\r\n\r\n# Replication\r\nmaster_replid:def\r\nmaster_replid2:000\r\n{more}\r\n"
        )
    }

    fn read(more: &str) -> ServerInfo {
        ServerInfo::read(&info("7.0.0", more)).expect("it names what is needed")
    }

    #[test]
    fn a_redis_that_is_too_old_is_named_with_what_is_needed() {
        for (version, good) in [("7.0.15", true), ("6.2.0", true), ("10.0.1", true), ("6.0.16", false), ("5.0.14", false), ("?", false)] {
            let checked = ServerInfo::read(&info(version, "")).and_then(|server| server.check());
            assert_eq!(checked.is_ok(), good, "{version}");
            if let Err(error) = checked {
                let text = error.to_string();
                assert!(error.kind() == "too_old" && text.contains(version) && text.contains("6.2"), "{text}");
            }
        }
    }

    #[test]
    fn a_redis_is_known_by_its_process_and_its_history() {
        assert_eq!(read("").identity(), "abc/def");
        assert!(matches!(ServerInfo::read("redis_version:7.0.0\r\n"), Err(StoreError::Refused(text)) if text.contains("run_id")));
    }

    #[test]
    fn a_replica_is_not_asked() {
        assert_eq!(read("role:master").check(), Ok(()));
        assert_eq!(read("role:slave").check().map_err(|error| error.kind()), Err("read_only"));
    }

    #[test]
    fn what_may_evict_or_saves_nothing_is_warned_of() {
        let kinds = |server: &ServerInfo| server.warnings().iter().map(Warning::kind).collect::<Vec<_>>();
        let mut server = read("maxmemory:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:0");
        server.read_save(Some(vec!["save".to_owned(), "3600 1".to_owned()]));
        assert!(kinds(&server).is_empty());
        server.read_save(Some(vec!["save".to_owned(), String::new()]));
        assert_eq!(kinds(&server), ["persistence"]);
        server.read_save(None);
        assert!(kinds(&server).is_empty(), "nobody knows");
        assert!(kinds(&read("aof_enabled:1")).is_empty());
        let unlimited = read("maxmemory:0\r\nmaxmemory_policy:allkeys-lru");
        assert!(kinds(&unlimited) == ["eviction"] && !unlimited.evicts());
        assert!(read("maxmemory:1048576\r\nmaxmemory_policy:volatile-ttl").evicts());
        assert!(!read("maxmemory:1048576\r\nmaxmemory_policy:noeviction").evicts());
    }
}
