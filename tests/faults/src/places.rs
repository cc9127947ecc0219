//! Where processes run, and how far apart.

use std::fmt;

/// The regions. Coordinator 1 is in the first, and so on.
pub const REGIONS: [&str; 3] = ["us", "eu", "ap"];

/// The coordinators.
pub const NODES: [u64; 3] = [1, 2, 3];

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Coordinator of this number.
    Coordinator(u64),
    /// Agent of a region, counted from 1.
    Agent(&'static str, usize),
    /// The Redis of a region.
    Store(&'static str),
}

impl Place {
    /// In which region it is.
    pub fn region(self) -> &'static str {
        match self {
            Self::Coordinator(node) => NODES.iter().position(|n| *n == node).map_or("nowhere", |at| REGIONS[at]),
            Self::Agent(region, _) | Self::Store(region) => region,
        }
    }

    /// All coordinators.
    pub fn coordinators() -> Vec<Self> {
        NODES.map(Self::Coordinator).into()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Coordinator(node) => write!(f, "coordinator-{node}"),
            Self::Agent(region, n) => write!(f, "agent-{region}-{n}"),
            Self::Store(region) => write!(f, "redis-{region}"),
        }
    }
}
