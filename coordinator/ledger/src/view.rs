//! The ledger as people see it.

use crate::Ledger;
use crate::budget::{BudgetEntry, Share};
use crate::session::Session;
use quorate_shared::api::{BudgetShare, BudgetState, CapacityTokens, RegionState, Regions, StoreStatus};
use quorate_shared::heartbeat::{Holding, Office};
use quorate_shared::names::{BudgetId, PolicyName, RegionName};
use quorate_shared::policy::Policy;
use quorate_shared::time::LeaderTime;
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The leader's clock, where the one who asks is the leader.
pub type Now = Option<(Office, LeaderTime)>;

impl Ledger {
    /// Each region's session. Without the leader's clock nobody can say how old they are.
    pub fn regions(&self, now: Now) -> Regions {
        let now = self.date(now);
        let sets = [&self.policies.active.set, self.policies.newest()];
        let mut names: BTreeSet<&RegionName> = sets.iter().flat_map(|s| s.regions.keys()).collect();
        names.extend(self.regions.keys());
        Regions { regions: names.into_iter().map(|name| self.region_state(name, now)).collect() }
    }

    /// The leader's clock, unless the newest entries are of another office.
    pub(crate) fn date(&self, now: Now) -> Option<LeaderTime> {
        now.filter(|(office, _)| *office == self.clock.office).map(|(_, at)| at)
    }

    fn region_state(&self, name: &RegionName, now: Option<LeaderTime>) -> RegionState {
        let session = self.regions.get(name);
        let horizon = session.zip(now).map(|(s, at)| self.horizon(s, at)).unwrap_or_default();
        let state = match (session, now) {
            (Some(s), Some(_)) if !s.expired && !horizon.is_zero() => "live",
            (Some(_), Some(_)) => "expired",
            _ => "unknown",
        };
        let age = |(s, at): (&Session, LeaderTime)| (s.last != LeaderTime::ZERO).then(|| millis(at.since(s.last)));
        RegionState {
            region: name.to_string(),
            state: state.to_owned(),
            session: session.map_or(0, |s| s.newest.session),
            horizon_ms: millis(horizon),
            heartbeat_age_ms: session.zip(now).and_then(age),
            agents: session.map(|s| vec![s.agent.clone()]).unwrap_or_default(),
            store: session.map(|s| StoreStatus { kind: s.store.kind.clone(), healthy: s.store.healthy }).unwrap_or_default(),
            mode: if state == "live" { "leased" } else { "floor" }.to_owned(),
            weight: self.policies.active.set.regions.get(name).map_or(0, |r| r.weight),
            policies: session.map_or(0, Session::confirmed_policies),
        }
    }

    /// Until the leader takes everything back.
    pub(crate) fn horizon(&self, session: &Session, at: LeaderTime) -> Duration {
        let drift = self.founding.as_ref().map(|f| f.drift).unwrap_or_default();
        match session.expired {
            true => Duration::ZERO,
            false => session.end(drift).since(at),
        }
    }

    /// The budgets that have an entry, in order, of one policy and one subject if named.
    pub fn budgets<'a>(&'a self, policy: Option<&'a PolicyName>) -> impl Iterator<Item = BudgetState> + 'a {
        let wanted = move |id: &BudgetId| policy.is_none_or(|p| id.policy == *p);
        self.budgets.iter().filter(move |(id, _)| wanted(id)).filter_map(|(id, entry)| self.budget_state(id, entry))
    }

    /// The budget of each policy in force that a request with these attributes meets; all in floors if no
    /// region has outgrown one.
    pub fn budgets_of(&self, attributes: &BTreeMap<String, String>) -> Vec<BudgetState> {
        let Some(founding) = &self.founding else { return Vec::new() };
        let none = BudgetEntry::default();
        let met = |policy: &Policy| {
            let attribute = |name: &str| attributes.get(name).map(String::as_str);
            let subject = policy.subject(&founding.subject_key, attribute, attributes.len())?;
            let id = policy.budget(subject);
            self.budget_state(&id, self.budgets.get(&id).unwrap_or(&none))
        };
        self.policies.active.set.policies.iter().filter_map(met).collect()
    }

    /// What a region may be acting on of a budget, at worst: the most of pool and of each loan, the
    /// least of its own floor lent. R4 sums these.
    pub fn held(&self, budget: &BudgetId, region: &RegionName) -> Holding {
        self.budgets.get(budget).and_then(|entry| entry.shares.get(region)).map(Share::held).unwrap_or_default()
    }

    fn budget_state(&self, id: &BudgetId, entry: &BudgetEntry) -> Option<BudgetState> {
        let (terms, mode) = (self.policies.active_terms(id)?, self.policies.active.set.policy(&id.policy)?.mode);
        let none = Share::default();
        let share = |name: &RegionName| budget_share(entry.shares.get(name).unwrap_or(&none), terms.of(name).floor);
        Some(BudgetState {
            policy: id.policy.to_string(),
            subject: id.subject.to_string(),
            limit: terms.limit.capacity().into(),
            limit_in_words: terms.limit.to_string(),
            period_ms: millis(terms.limit.period()),
            mode: mode.to_string(),
            enforced: mode.enforces(id.subject),
            regions: terms.floors.keys().map(|name| (name.to_string(), share(name))).collect(),
            alarm: self.alarms().find(|(alarmed, _)| *alarmed == id).map(|(_, what)| what.to_owned()),
        })
    }
}

fn budget_share(share: &Share, floor: Capacity) -> BudgetShare {
    let offered = share.offered();
    let tokens = CapacityTokens::from;
    BudgetShare {
        floor: tokens(floor),
        held: tokens(floor.minus(share.lent_held()).plus(share.extra_held())),
        offered: tokens(offered.entitlement(floor, false, true, |_| true)),
        lent: tokens(offered.lent),
        borrowed: tokens(offered.borrowed_total()),
        demand: MicroTokens::tokens(share.demand),
        admitted: share.admitted.tokens(),
        refused: share.refused.tokens(),
    }
}

pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
