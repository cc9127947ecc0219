//! The policy sets: the active one, the one about to be, and those that were (R9).

use crate::command::Author;
use crate::terms::{SetWithOverrides, Terms};
use crate::windows::{Kind, Windows, kind};
use quorate_shared::heartbeat::{FormerSet, PoliciesInForce};
use quorate_shared::names::{BudgetId, PolicyName, RegionName, SubjectHash, SubjectKey};
use quorate_shared::policy::{Limit, Policy, PolicySet, Shape};
use quorate_shared::time::WindowLabel;
use quorate_shared::units::MicroTokens;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How many versions of the policy set are kept.
const KEPT_VERSIONS: usize = 100;

/// One accepted policy set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyVersion {
    /// The set.
    pub set: Arc<PolicySet>,
    /// Who wanted it, when and why.
    pub by: Author,
    /// True of a set that another took the place of before it was in force.
    #[serde(default)]
    pub withdrawn: bool,
}

/// The policy sets of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PolicyBook {
    pub active: SetWithOverrides,
    pub next: Option<SetWithOverrides>,
    /// Sets that were active, and that some region may still act on or some window began under;
    /// oldest first.
    pub former: Vec<Former>,
    pub history: Vec<PolicyVersion>,
}

/// A set that was active.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Former {
    pub set: SetWithOverrides,
    /// The last window of each kind of allowance that began under it.
    pub up_to: Windows,
}

impl PolicyBook {
    /// The newest accepted set.
    pub fn newest(&self) -> &Arc<PolicySet> {
        self.next.as_ref().map_or(&self.active.set, |next| &next.set)
    }

    /// What a response says of the sets.
    pub fn in_force(&self) -> PoliciesInForce {
        PoliciesInForce { active: self.active.set.version, next: self.next.as_ref().map(|n| n.set.version), also: None }
    }

    /// The sets that an agent lacks which has read up to version `known`.
    pub fn newer_than(&self, known: Option<u64>) -> Vec<Arc<PolicySet>> {
        let bearing = self.former.iter().filter(|former| !former.up_to.is_empty()).map(|former| &former.set);
        let sets = bearing.chain([&self.active]).chain(&self.next).map(|s| &s.set);
        sets.filter(|set| set.version > 0 && known.is_none_or(|k| set.version > k)).cloned().collect()
    }

    /// Takes a set as the successor of the newest, to become active when confirmed; gives its version. One that was pending
    /// is withdrawn: nobody had any budget of its, nor more than the active set gives.
    pub fn propose(&mut self, set: PolicySet, by: Author, key: &SubjectKey) -> u64 {
        let set = Arc::new(set.succeed(&self.active.set, self.newest().version));
        let version = set.version;
        if let Some(replaced) = self.history.last_mut().filter(|_| self.next.is_some()) {
            replaced.withdrawn = true;
        }
        self.history.push(PolicyVersion { set: set.clone(), by, withdrawn: false });
        let surplus = self.history.len().saturating_sub(KEPT_VERSIONS);
        self.history.drain(..surplus);
        self.next = Some(SetWithOverrides::new(set, key));
        version
    }

    /// Takes a set from a backup under this version, to become active when confirmed. Its budgets go on.
    pub fn restore(&mut self, set: &PolicySet, version: u64, by: &Author, key: &SubjectKey) {
        let set = Arc::new(PolicySet { version, ..set.clone() });
        self.history.push(PolicyVersion { set: set.clone(), by: by.clone(), withdrawn: false });
        self.next = Some(SetWithOverrides::new(set, key));
    }

    /// The pending set once more, as another version, above `beyond`, by which no budget goes on. False if none is pending.
    pub fn begin_all_anew(&mut self, beyond: u64, key: &SubjectKey) -> bool {
        let (Some(next), Some(last)) = (&mut self.next, self.history.last_mut()) else { return false };
        let mut set = PolicySet::clone(&next.set);
        set.version = set.version.max(beyond).saturating_add(1);
        set.policies.iter_mut().for_each(|policy| policy.generation = set.version);
        last.set = Arc::new(set);
        *next = SetWithOverrides::new(last.set.clone(), key);
        true
    }

    /// Makes the pending set the active one. `acted_on` tells whether a region may still act on
    /// a set of this version; windows `up_to` began under the set that is active now.
    pub fn activate(&mut self, acted_on: impl Fn(u64) -> bool, up_to: Windows) {
        if let Some(next) = self.next.take() {
            self.former.push(Former { set: std::mem::replace(&mut self.active, next), up_to });
        }
        let active = &self.active;
        for former in &mut self.former {
            former.up_to.retain(|kind, _| active.has_kind(kind));
        }
        self.former.retain(|former| acted_on(former.set.set.version) || !former.up_to.is_empty());
    }

    /// Windows before `label` are closed.
    pub fn close_windows(&mut self, kind: &Kind, label: WindowLabel) {
        for former in &mut self.former {
            former.up_to.retain(|k, last| k != kind || *last >= label);
        }
    }

    /// True if the active set has allowances of this kind.
    pub fn counts_windows(&self, kind: &Kind) -> bool {
        self.active.set.policy(&kind.0).is_some_and(|p| p.generation == kind.1 && p.limit.shape() == Shape::Allowance)
    }

    /// The terms of one window of an allowance: by the oldest set under which it began (R9).
    pub fn terms_of_window(&self, budget: &BudgetId, label: WindowLabel) -> Option<Terms> {
        let kind = kind(budget);
        let began_under = |former: &&Former| former.up_to.get(&kind).is_some_and(|last| label <= *last);
        match self.former.iter().find(began_under) {
            Some(former) => former.set.terms(budget),
            None => self.active_terms(budget),
        }
    }

    /// The greatest limit of an older set under which windows of this policy of the active set began
    /// that may be open yet.
    pub fn former_units(&self, policy: &Policy) -> MicroTokens {
        let kind = (policy.name.clone(), policy.generation);
        let bearing = self.former.iter().filter(|former| former.up_to.contains_key(&kind));
        let theirs = bearing.filter_map(|former| former.set.set.policy(&policy.name));
        let limits = theirs.flat_map(|theirs| std::iter::once(theirs.limit).chain(theirs.overrides.iter().map(|o| o.limit)));
        limits.map(|limit| limit.capacity().burst).max().unwrap_or_default()
    }

    /// What a response says of the sets that still bear on windows.
    pub fn former_sets(&self) -> Vec<FormerSet> {
        let window = |((policy, generation), label): (&Kind, &WindowLabel)| (policy.clone(), *generation, *label);
        let bearing = self.former.iter().filter(|former| !former.up_to.is_empty());
        bearing.map(|f| FormerSet { version: f.set.set.version, up_to: f.up_to.iter().map(window).collect() }).collect()
    }

    /// Kinds of allowances that the pending set goes on with, and whether it gives any region, or
    /// all of them, less than the active one.
    pub fn continued_allowances(&self) -> Vec<(Kind, bool)> {
        let Some(next) = &self.next else { return Vec::new() };
        let allowances = self.active.set.policies.iter().filter(|p| p.limit.shape() == Shape::Allowance);
        let continued = allowances.filter(|old| next.set.policy(&old.name).is_some_and(|new| new.generation == old.generation));
        let lowered = |old: &Policy| {
            let regions = self.active.set.regions.keys().chain(next.set.regions.keys());
            let floors = regions.into_iter().any(|region| reduces(&self.active, next, old, region));
            floors || reduces_limit(&self.active, next, old)
        };
        continued.map(|old| ((old.name.clone(), old.generation), lowered(old))).collect()
    }

    /// A set that is kept: the active one, the pending one, or one that somebody may act on.
    fn set(&self, version: u64) -> Option<&Arc<PolicySet>> {
        let former = self.former.iter().map(|former| &former.set);
        let mut sets = std::iter::once(&self.active).chain(&self.next).chain(former).map(|s| &s.set);
        sets.find(|set| set.version == version)
    }

    /// True if a region that was told of these sets may let pass what `policy` of the active one limits:
    /// it goes by a set without it, or by one where it charges other requests.
    pub fn pass_by(&self, told: PoliciesInForce, policy: &Policy) -> bool {
        if told.active == 0 || told.active == self.active.set.version {
            return false;
        }
        let Some(old) = self.set(told.active) else { return true };
        let alike = old.policy(&policy.name).is_some_and(|old| old.charges_like(policy));
        !alike || !replaced_alike(old, &self.active.set, policy)
    }

    /// True if a region that was told of these sets can admit nothing: it is in none of them, or about to leave
    /// with every policy that it goes by, and refusals of all of these are enforced.
    pub fn leave_nothing_to(&self, region: &RegionName, told: PoliciesInForce) -> bool {
        let find = |version: u64| self.set(version);
        if told.active == 0 {
            // beside whichever set it knows it obeys the one that was restored
            return told.next.and_then(find).is_none_or(|next| !next.regions.contains_key(region));
        }
        let Some(acting) = find(told.active) else { return false };
        let strict = |name| told.next.and_then(find).and_then(|next| next.policy(name)).is_some_and(|next| !next.lets_pass());
        if acting.policies.iter().any(|policy| policy.lets_pass() && !strict(&policy.name)) {
            return false;
        }
        let leaves = |next: &Arc<PolicySet>| {
            !next.regions.contains_key(region) && acting.policies.iter().all(|policy| next.policy(&policy.name).is_some())
        };
        !acting.regions.contains_key(region) || told.next.and_then(find).is_some_and(leaves)
    }

    /// The terms of a budget under the active set.
    pub fn active_terms(&self, budget: &BudgetId) -> Option<Terms> {
        self.active.terms(budget)
    }

    /// The terms of a budget under the pending set.
    pub fn next_terms(&self, budget: &BudgetId) -> Option<Terms> {
        self.next.as_ref()?.terms(budget)
    }

    /// The terms by which offers are made: the active set's, or while another is pending the
    /// smaller of both. `None`: there is no such budget, or it is about to end.
    pub fn offer_terms(&self, budget: &BudgetId) -> Option<Terms> {
        let terms = self.active_terms(budget)?;
        match &self.next {
            None => Some(terms),
            Some(next) => Some(terms.smaller(&next.terms(budget)?)),
        }
    }

    /// The longest `d` of any budget that a region may act on.
    pub fn longest_drain(&self) -> Duration {
        let former = self.former.iter().map(|former| &former.set);
        let sets = std::iter::once(&self.active).chain(&self.next).chain(former);
        sets.flat_map(|s| &s.set.policies).map(|p| p.limit.drain()).max().unwrap_or_default()
    }

    /// True if the policy of this budget lives on in the pending set with budgets of another kind.
    pub fn goes_on_elsewhere(&self, budget: &BudgetId) -> bool {
        let successor = self.next.as_ref().and_then(|next| next.set.policy(&budget.policy));
        successor.is_some_and(|p| p.generation != budget.generation)
    }

    /// What a region that goes by the sets that it was `told` of may use or let pass, policy by policy, and the pending set
    /// does not allow. The active one of those need not be the active one here: a region that has not been heard of may
    /// act on an older one, with a policy that was taken out meanwhile and is now to come back.
    pub fn restrictions(&self, region: &RegionName, told: PoliciesInForce) -> Vec<Restriction> {
        let Some(next) = &self.next else { return Vec::new() };
        let Some(acting) = self.acting(told.active) else { return vec![Restriction::unknown(self.longest_drain())] };
        let of = |old: &Policy| {
            let new = next.set.policy(&old.name)?;
            let (looser, reduced) = (old.is_looser_than(new), reduces(acting, next, old, region));
            let seats = looser || reduced && acting.has_seats(old, region);
            let drain = self.restricted_drain(region, acting, old, new);
            let ttl = self.floor_ttl(told, &old.name).filter(|_| !looser);
            let goes_on = old.limit.shape() == Shape::Allowance && old.generation == new.generation;
            let windows = goes_on.then(|| ((old.name.clone(), old.generation), old.limit));
            (looser || reduced || !drain.is_zero()).then_some(Restriction { floor: looser || reduced, seats, drain, ttl, windows })
        };
        acting.set.policies.iter().filter_map(of).collect()
    }

    /// How long a region that was told of these sets uses its floors of a policy without being heard of; `None`: as long as
    /// it likes.
    pub fn floor_ttl(&self, told: PoliciesInForce, policy: &PolicyName) -> Option<Duration> {
        let of = |version| self.set(version).and_then(|set| set.policy(policy));
        of(told.active)?.floor_ttl_beside(told.next.and_then(of))
    }

    /// For how long more may count of what a region took of policy `old` of set `acting` than the pending one
    /// allows. What a policy took that goes on as another kind, nobody counts any more; what a region takes of a
    /// former kind counts as taken of the one that has begun meanwhile.
    fn restricted_drain(&self, region: &RegionName, acting: &SetWithOverrides, old: &Policy, new: &Policy) -> Duration {
        let Some(next) = &self.next else { return Duration::ZERO };
        let mut counted = [acting, &self.active].into_iter().filter_map(|set| Some((set, set.set.policy(&old.name)?)));
        let goes_on = counted.find(|(_, policy)| policy.generation == new.generation);
        let restricted = goes_on.filter(|(set, policy)| reduces(set, next, policy, region));
        restricted.map(|(_, policy)| policy.limit.drain()).unwrap_or_default()
    }

    /// A set that some region may act on.
    fn acting(&self, version: u64) -> Option<&SetWithOverrides> {
        let former = self.former.iter().map(|former| &former.set);
        std::iter::once(&self.active).chain(former).find(|s| s.set.version == version)
    }
}

/// What a region may use or let pass of one policy, and the pending set does not allow.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Restriction {
    /// True of its floor; false of past use alone.
    pub floor: bool,
    /// True if agents may do so without their store: only the region's word that all of them go by another set ends that.
    pub seats: bool,
    /// For how long what was taken may count.
    pub drain: Duration,
    /// For how long, without being heard of. `None`: as long as it likes.
    pub ttl: Option<Duration>,
    /// Of windows that go on: which, and by which limit they are told apart.
    pub windows: Option<(Kind, Limit)>,
}

impl Restriction {
    /// Of a set that nobody remembers.
    fn unknown(drain: Duration) -> Self {
        Self { floor: true, seats: true, drain, ttl: None, windows: None }
    }
}

/// True if `next` gives a region less of policy `old` of set `before` than that did.
fn reduces(before: &SetWithOverrides, next: &SetWithOverrides, old: &Policy, region: &RegionName) -> bool {
    let Some(new) = next.set.policy(&old.name) else { return false };
    if new.generation != old.generation {
        return true; // counted in other units, or on other subjects
    }
    let share = |s: &PolicySet, p, limit| s.shares(p, limit).get(region).copied().unwrap_or_default();
    let fits = |(was, is)| share(&before.set, old, was).fits(&share(&next.set, new, is));
    !limits_of(before, next, old, new).all(fits)
}

/// True if `next` has a smaller limit for some subject of policy `old`.
fn reduces_limit(before: &SetWithOverrides, next: &SetWithOverrides, old: &Policy) -> bool {
    let Some(new) = next.set.policy(&old.name) else { return false };
    !limits_of(before, next, old, new).all(|(was, is)| was.capacity().fits(is.capacity()))
}

/// The limit before and after of every subject that either set names, and of all others.
fn limits_of<'a>(
    before: &'a SetWithOverrides,
    next: &'a SetWithOverrides,
    old: &'a Policy,
    new: &'a Policy,
) -> impl Iterator<Item = (Limit, Limit)> + 'a {
    let (was, is) = (before.overrides.get(&old.name), next.overrides.get(&old.name));
    let overridden = [was, is].into_iter().flatten().flat_map(|o| o.keys());
    let of =
        |overrides: Option<&BTreeMap<SubjectHash, Limit>>, subject, base| overrides.and_then(|o| o.get(subject)).copied().unwrap_or(base);
    let each = overridden.map(move |subject| (of(was, subject, old.limit), of(is, subject, new.limit)));
    std::iter::once((old.limit, new.limit)).chain(each)
}

/// True if by both sets the same requests are charged to others in the place of `policy`.
fn replaced_alike(one: &PolicySet, other: &PolicySet, policy: &Policy) -> bool {
    let of = |set: &PolicySet| set.policies.iter().filter(|by| by.replaces(policy)).cloned().collect::<Vec<_>>();
    let (one, other) = (of(one), of(other));
    one.len() == other.len() && one.iter().all(|by| other.iter().any(|theirs| theirs.name == by.name && theirs.charges_like(by)))
}

#[cfg(test)]
mod tests;
