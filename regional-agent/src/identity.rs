//! Which life of which agent this is.

use quorate_limiter::election::AgentId;
use std::fs;
use std::path::Path;

const FILE: &str = "agent-id";

/// One life of an agent, and the one before.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Drawn at random.
    pub me: AgentId,
    /// The life before it. It is surely over: the directory that names it was locked by it.
    pub predecessor: Option<AgentId>,
}

impl Identity {
    /// Begins a life of the agent of `directory`, which this process has locked.
    pub fn begin(directory: Option<&Path>) -> Self {
        // without randomness no session is opened either
        let me = AgentId(getrandom::u64().unwrap_or_default());
        let Some(directory) = directory else { return Self { me, predecessor: None } };
        let path = directory.join(FILE);
        let before = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
        match fs::write(&path, me.to_string()) {
            Ok(()) => Self { me, predecessor: before },
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "after a restart this agent will have to wait for its own lock");
                Self { me, predecessor: before }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_knows_its_last_life_by_its_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        let first = Identity::begin(Some(directory.path()));
        assert_eq!(first.predecessor, None);
        let second = Identity::begin(Some(directory.path()));
        assert_eq!(second.predecessor, Some(first.me));
        assert!(second.me != first.me && Identity::begin(None).predecessor.is_none());
    }
}
