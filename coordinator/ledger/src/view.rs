//! The ledger as people see it.

use crate::Ledger;
use crate::allowance::{Allowance, UnitShare, Window};
use crate::budget::Share;
use crate::session::Session;
use crate::terms::{FloorTerms, Terms};
use quorate_shared::api::{BudgetShare, BudgetState, BudgetWindow, CapacityTokens, RegionState, Regions, StoreStatus, WindowUnits};
use quorate_shared::heartbeat::{Holding, Office};
use quorate_shared::names::{BudgetId, PolicyName, RegionName, SubjectHash};
use quorate_shared::policy::Policy;
use quorate_shared::time::{LeaderTime, StoreTime};
use quorate_shared::units::MicroTokens;
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
            agents: session.map(Session::agents).unwrap_or_default(),
            renewed_by: session.map(|s| s.agent.clone()).filter(|agent| !agent.is_empty()),
            store: session
                .map(|s| StoreStatus { kind: s.store.kind.clone(), healthy: s.store.healthy, ..StoreStatus::default() })
                .unwrap_or_default(),
            mode: if state == "live" { "leased" } else { "floor" }.to_owned(),
            weight: self.policies.active.set.regions.get(name).map_or(0, |r| r.weight),
            policies: session.map_or(0, Session::confirmed_policies),
            clock_ahead_ms: self.clock_ahead_ms(name),
        }
    }

    /// How far a region's store clock is ahead of that of the live region whose clock is nearest. Heartbeats are under way
    /// for a while, so what is less than a second says nothing.
    fn clock_ahead_ms(&self, name: &RegionName) -> Option<i64> {
        let live = self.regions.iter().filter(|(_, session)| !session.expired);
        let offset = |(shown, at): (StoreTime, LeaderTime)| i128::from(shown.as_micros()) - i128::from(at.as_micros());
        let (own, others): (Vec<_>, Vec<_>) = live.filter_map(|(r, s)| Some((r, offset(s.shown?)))).partition(|(r, _)| *r == name);
        let (_, own) = own.first()?;
        let nearest = others.iter().map(|(_, other)| own - other).min_by_key(|ahead| ahead.abs())?;
        i64::try_from(nearest / 1_000).ok()
    }

    /// Until the leader takes everything back.
    pub(crate) fn horizon(&self, session: &Session, at: LeaderTime) -> Duration {
        let drift = self.founding.as_ref().map(|f| f.drift).unwrap_or_default();
        match session.expired {
            true => Duration::ZERO,
            false => session.end(drift).since(at),
        }
    }

    /// The budgets that somebody pushed beyond a floor, in order, of one policy if named.
    pub fn budgets<'a>(&'a self, policy: Option<&'a PolicyName>) -> impl Iterator<Item = BudgetState> + 'a {
        let wanted = move |id: &&BudgetId| policy.is_none_or(|p| id.policy == *p);
        let known: BTreeSet<&BudgetId> = self.budgets.keys().chain(self.allowances.keys()).filter(wanted).collect();
        known.into_iter().filter_map(|id| self.budget_state(id))
    }

    /// The budget of each policy in force that a request with these attributes meets; all in floors if no
    /// region has outgrown one.
    pub fn budgets_of(&self, attributes: &BTreeMap<String, String>) -> Vec<BudgetState> {
        let Some(founding) = &self.founding else { return Vec::new() };
        let subject = |policy: &'_ Policy| {
            let attribute = |name: &str| attributes.get(name).map(String::as_str);
            policy.subject(&founding.subject_key, attribute, attributes.len())
        };
        let policies = self.policies.active.set.policies.iter();
        let met: Vec<(&Policy, SubjectHash)> = policies.filter_map(|policy| Some((policy, subject(policy)?))).collect();
        let charged = met.iter().filter(|(policy, _)| !met.iter().any(|(by, _)| by.replaces(policy)));
        charged.filter_map(|(policy, subject)| self.budget_state(&policy.budget(*subject))).collect()
    }

    /// What a region may be acting on of a budget, at worst: the most of pool and of each loan, the
    /// least of its own floor lent. R4 sums these.
    pub fn held(&self, budget: &BudgetId, region: &RegionName) -> Holding {
        self.budgets.get(budget).and_then(|entry| entry.shares.get(region)).map(Share::held).unwrap_or_default()
    }

    /// The newest window of an allowance of which somebody wanted more than a floor.
    pub(crate) fn newest_window(&self, id: &BudgetId) -> Option<&Window> {
        self.allowances.get(id)?.windows.last_key_value().map(|(_, window)| window)
    }

    fn budget_state(&self, id: &BudgetId) -> Option<BudgetState> {
        let (terms, policy) = (self.policies.active_terms(id)?, self.policies.active.set.policy(&id.policy)?);
        let mode = policy.mode;
        let (none, no_units, entry) = (Share::default(), UnitShare::default(), self.budgets.get(id));
        let windows = self.allowances.get(id).map(|allowance| open_windows(allowance, &terms)).unwrap_or_default();
        let share = |name: &RegionName| {
            let share = budget_share(entry.and_then(|e| e.shares.get(name)).unwrap_or(&none), terms.of(name));
            let newest = self.newest_window(id).map(|window| window.shares.get(name).unwrap_or(&no_units));
            match windows.first().and_then(|newest| newest.regions.get(name.as_str())).zip(newest) {
                Some((units, known)) => in_window(share, units, known),
                None => share,
            }
        };
        Some(BudgetState {
            policy: id.policy.to_string(),
            subject: id.subject.to_string(),
            limit: terms.limit.capacity().into(),
            limit_in_words: terms.limit.to_string(),
            period_ms: millis(terms.limit.period()),
            mode: mode.to_string(),
            enforced: mode.enforces(id.subject),
            floor_ttl_ms: policy.floor_ttl.map(millis),
            regions: terms.floors.keys().map(|name| (name.to_string(), share(name))).collect(),
            windows,
            alarm: self.alarms().find(|(alarmed, _)| *alarmed == id).map(|(_, what)| what.to_owned()),
        })
    }
}

/// The windows of which somebody wanted more than a floor, newest first.
fn open_windows(allowance: &Allowance, terms: &Terms) -> Vec<BudgetWindow> {
    let none = UnitShare::default();
    let units = |share: &UnitShare, floor: MicroTokens| WindowUnits {
        granted: share.granted().max(floor).tokens(),
        held: share.held().max(floor).tokens(),
        spent: share.spent.tokens(),
    };
    let newest_first = allowance.windows.iter().rev();
    let shown = newest_first.map(|(label, window)| BudgetWindow {
        begins_at_ms: label.start().as_micros() / 1_000,
        regions: terms
            .floors
            .keys()
            .map(|name| (name.to_string(), units(window.shares.get(name).unwrap_or(&none), terms.of(name).floor.burst)))
            .collect(),
    });
    shown.collect()
}

fn budget_share(share: &Share, FloorTerms { floor, set_aside, .. }: FloorTerms) -> BudgetShare {
    let offered = share.offered();
    let tokens = CapacityTokens::from;
    BudgetShare {
        floor: tokens(floor),
        set_aside: tokens(set_aside),
        held: tokens(floor.minus(share.lent_held()).plus(share.extra_held())),
        offered: tokens(offered.entitlement(floor, false, true, |_| true)),
        lent: tokens(offered.lent),
        borrowed: tokens(offered.borrowed_total()),
        demand: MicroTokens::tokens(share.demand),
        admitted: share.admitted.tokens(),
        refused: share.refused.tokens(),
    }
}

/// Of an allowance nothing is lent: what a region has beyond its floor it was granted for one window. What it admitted
/// there it has spent; what it refused nobody tells.
fn in_window(share: BudgetShare, units: &WindowUnits, known: &UnitShare) -> BudgetShare {
    let capacity = |burst| CapacityTokens { rate: 0.0, burst };
    let (held, offered) = (capacity(units.held), capacity(units.granted));
    BudgetShare { held, offered, demand: known.demand.tokens(), admitted: units.spent, ..share }
}

pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;

    #[test]
    fn a_clock_is_compared_with_the_nearest_of_the_others() {
        let mut world = World::new(100, 1_000_000);
        let beat = |world: &mut World, region, ms: u64, shown: u64| {
            let mut heartbeat = world.heartbeat(region, 0, MicroTokens::ZERO);
            heartbeat.clock.shown = Some(StoreTime::from_micros(shown * 1_000));
            world.send(region, ms, heartbeat);
        };
        beat(&mut world, "eu", 1_000, 50_000);
        let ahead = |world: &World| world.ledger.regions(None).regions.iter().map(|r| r.clock_ahead_ms).collect::<Vec<_>>();
        assert_eq!(ahead(&world), [None, None], "nobody to compare it with");
        beat(&mut world, "us", 1_500, 50_480);
        assert_eq!(ahead(&world), [Some(20), Some(-20)]);
        beat(&mut world, "us", 2_000, 3_650_000);
        assert_eq!(ahead(&world), [Some(-3_599_000), Some(3_599_000)]);
        let alarms = world.ledger.regions(None).regions.iter().map(|r| r.clock_alarm()).collect::<Vec<_>>();
        assert!(alarms[1].as_ref().is_some_and(|alarm| alarm.contains("3599 s ahead")), "{alarms:?}");
    }
}
