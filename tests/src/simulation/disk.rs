//! What an agent's disk remembers: the policy sets that it has read, those in force, and whose life it was.

use quorate_limiter::election::AgentId;
use quorate_limiter::matching::{Holder, PolicyTable};
use quorate_shared::heartbeat::{FormerSet, PoliciesInForce, Response};
use quorate_shared::names::{RegionName, SubjectKey};
use quorate_shared::policy::PolicySet;
use std::collections::BTreeMap;
use std::sync::Arc;

/// As many sets as a real agent keeps.
const KEPT: usize = 4;

/// One agent's disk.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    in_force: PoliciesInForce,
    former: Vec<FormerSet>,
    sets: BTreeMap<u64, Arc<PolicySet>>,
    key: Option<SubjectKey>,
    life: Option<AgentId>,
}

impl Disk {
    /// A life of the agent begins. Gives the one before, which is over.
    pub fn begin(&mut self, life: AgentId) -> Option<AgentId> {
        self.life.replace(life)
    }

    /// Takes what a response brought.
    pub fn add(&mut self, response: &Response) {
        self.sets.extend(response.sets.iter().map(|set| (set.version, set.clone())));
        self.former.clone_from(&response.former);
        let newest: Vec<u64> = self.sets.keys().rev().take(KEPT).copied().collect();
        let active = [self.in_force.active, response.policies.active];
        let bears = |version: &u64| active.contains(version) || response.former.iter().any(|f| f.version == *version);
        self.sets.retain(|version, _| newest.contains(version) || bears(version));
        self.in_force = response.policies;
        if self.key.is_none() {
            self.key = Some(response.subject_key.clone());
        }
    }

    /// The sets that bear on windows which began under them.
    pub fn former(&self) -> &[FormerSet] {
        &self.former
    }

    /// The sets in force by the newest response taken.
    pub fn in_force(&self) -> PoliciesInForce {
        self.in_force
    }

    /// How many agents of a region may have a seat, by the sets in force.
    pub fn seats(&self, region: &RegionName) -> u32 {
        let active = self.sets.get(&self.in_force.active);
        active.and_then(|set| set.regions.get(region)).map_or(0, |region| region.agents)
    }

    /// The newest version read.
    pub fn newest(&self) -> Option<u64> {
        self.sets.keys().next_back().copied()
    }

    /// The table of these sets, if they have been read.
    pub fn table(&self, region: &RegionName, in_force: PoliciesInForce) -> Option<PolicyTable> {
        self.table_of(Holder::Region(region), in_force)
    }

    /// The same of a region or of a seat.
    pub fn table_of(&self, holder: Holder<'_>, in_force: PoliciesInForce) -> Option<PolicyTable> {
        let none = Arc::default();
        let active = if in_force.active == 0 { &none } else { self.sets.get(&in_force.active)? };
        let read = |version: Option<u64>| version.map_or(Some(None), |version| self.sets.get(&version).map(Some));
        let (next, also) = (read(in_force.next)?, read(in_force.also)?);
        let former: Vec<_> = self.former.iter().map(|former| (former.clone(), self.sets.get(&former.version).cloned())).collect();
        Some(PolicyTable::obeying(holder, active, next, also, self.key.clone()?).with_former(holder, &former))
    }
}
