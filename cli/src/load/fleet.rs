//! The agents that a run sends to, and which region each of them serves.

use quorate_shared::names::RegionName;

/// One agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// The region it serves.
    pub region: RegionName,
    /// Where it is reached, without a slash at the end.
    pub url: String,
}

/// All agents of a run, in the order they were named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    agents: Vec<Agent>,
}

impl Fleet {
    /// These agents.
    pub fn new(agents: Vec<Agent>) -> Self {
        Self { agents }
    }

    /// All of them.
    pub fn agents(&self) -> &[Agent] {
        &self.agents
    }

    /// Their regions, each once, in the order of their first agents.
    pub fn regions(&self) -> Vec<RegionName> {
        let mut regions: Vec<RegionName> = Vec::new();
        for agent in &self.agents {
            if !regions.contains(&agent.region) {
                regions.push(agent.region.clone());
            }
        }
        regions
    }

    /// Indices of the agents of one region.
    pub fn agents_of(&self, region: &RegionName) -> Vec<usize> {
        let serving = self.agents.iter().enumerate().filter(|(_, a)| a.region == *region);
        serving.map(|(i, _)| i).collect()
    }
}
