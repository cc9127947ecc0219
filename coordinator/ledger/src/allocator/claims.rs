//! What the ledger knows, as claims; and which budgets need a new plan.

use super::{Claim, Readiness, Situation, plan, units};
use crate::Ledger;
use crate::budget::{BudgetEntry, Share};
use crate::command::Plan;
use crate::terms::{FloorTerms, Terms};
use quorate_shared::heartbeat::{Heartbeat, Report};
use quorate_shared::names::{BudgetId, RegionName};
use quorate_shared::policy::Shape;
use quorate_shared::time::LeaderTime;
use quorate_shared::units::{Capacity, MicroTokens};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// For so long after a region last outgrew its floor, idle floors are held ready.
const CONTESTED: Duration = Duration::from_secs(60);

/// For so long after a change a budget is planned at each heartbeat.
const SETTLES: Duration = Duration::from_secs(3);

/// How long a region has the burst that others wait for too: at least this, and long enough to
/// fill it twice.
const TURN: Duration = Duration::from_secs(8);

/// What the allocator remembers of one budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memory {
    /// When anything changed that a plan rests on; in the office of the ledger's clock.
    pub changed: Option<LeaderTime>,
    /// When a region last had more than its floor by a plan; in the office of the ledger's clock.
    pub contested: Option<LeaderTime>,
}

impl Memory {
    fn is_contested(self, now: LeaderTime) -> bool {
        self.contested.is_some_and(|last| now.since(last) < CONTESTED)
    }

    /// True if idle floors are to be given back now.
    fn has_cooled(self, now: LeaderTime) -> bool {
        self.contested.is_some() && !self.is_contested(now)
    }

    /// A plan may have been made before an entry that came between it and its own place in the
    /// log, so budgets are planned anew for a while after each change.
    fn is_settled(self, now: LeaderTime) -> bool {
        self.changed.is_none_or(|last| now.since(last) > SETTLES)
    }

    /// A new office dates everything anew.
    pub fn forget_dates(&mut self) {
        self.changed = self.changed.map(|_| LeaderTime::ZERO);
        self.contested = self.contested.map(|_| LeaderTime::ZERO);
    }

    /// Notes that a plan was taken. `extra`: some region had more than its floor by the plan before, or has now.
    pub fn planned(&mut self, extra: bool, now: LeaderTime) {
        if extra {
            self.contested = Some(now);
        } else if self.has_cooled(now) {
            self.contested = None;
        }
    }
}

impl Ledger {
    /// What the allocator would like of the budgets that a heartbeat speaks of, or no longer
    /// speaks of, and of which anything changed; only where that differs from what it liked before.
    pub fn plans_for(&self, beat: &Heartbeat) -> Vec<Plan> {
        let reported: BTreeMap<&BudgetId, &Report> = beat.reports.iter().map(|r| (&r.budget, r)).collect();
        let session = self.regions.get(&beat.region);
        let known = session.into_iter().flat_map(|s| s.reported.iter().chain(&s.open));
        let concerned: BTreeSet<&BudgetId> = reported.keys().copied().chain(known).collect();
        concerned.into_iter().filter_map(|id| self.plan_for(id, &beat.region, reported.get(id).copied())).collect()
    }

    fn plan_for(&self, id: &BudgetId, region: &RegionName, report: Option<&Report>) -> Option<Plan> {
        let terms = self.policies.offer_terms(id)?;
        let entry = self.budgets.get(id);
        if !self.is_news(entry, region, report, &terms) {
            return None;
        }
        let situation = self.situation(region, report, &terms, entry);
        let targets = match terms.limit.shape() {
            Shape::Flow => plan(&situation),
            Shape::Share => units::plan(&situation),
            Shape::Allowance => return None,
        };
        let nothing = Share::default();
        let liked = |region: &RegionName| &entry.and_then(|e| e.shares.get(region)).unwrap_or(&nothing).target;
        let planned = |region: &RegionName| targets.get(region).unwrap_or(&nothing.target);
        let mut known = situation.claims.keys().chain(entry.into_iter().flat_map(|e| e.shares.keys()));
        let differs = known.any(|region| planned(region) != liked(region));
        let settles = entry.is_some_and(|e| e.memory.has_cooled(self.clock.at));
        (differs || settles).then(|| Plan { budget: id.clone(), targets })
    }

    /// False if this report can change no plan: it says what the one before said, and nothing
    /// else has happened for a while.
    fn is_news(&self, entry: Option<&BudgetEntry>, region: &RegionName, report: Option<&Report>, terms: &Terms) -> bool {
        let Some(entry) = entry else { return report.is_some_and(|r| terms.is_outgrown_by(r, region)) };
        let memory = entry.memory;
        let share = entry.shares.get(region);
        let said = share.map(|s| (s.demand, s.largest)).unwrap_or_default();
        let says = report.map(|r| (r.demand, r.largest)).unwrap_or_default();
        let waiting = entry.shares.values().filter(|s| s.largest.0 > 0).count();
        said != says || !memory.is_settled(self.clock.at) || memory.has_cooled(self.clock.at) || waiting > 1
    }

    fn situation(&self, region: &RegionName, report: Option<&Report>, terms: &Terms, entry: Option<&BudgetEntry>) -> Situation {
        let mut claims: BTreeMap<RegionName, Claim> =
            terms.floors.iter().map(|(name, floor)| (name.clone(), self.claim(name, *floor, entry))).collect();
        if let Some(own) = claims.get_mut(region) {
            (own.demand, own.largest) = report.map(|r| (r.demand, r.largest)).unwrap_or_default();
            (own.live, own.lendable) = (true, terms.of(region).lendable);
        }
        let limit = terms.divided();
        let fill = terms.limit.period().saturating_mul(u32::try_from(limit.burst.0 / limit.rate.0.max(1)).unwrap_or(u32::MAX));
        let turn = TURN.max(fill.saturating_mul(2));
        Situation {
            limit,
            pool: terms.pool,
            readiness: match entry {
                _ if terms.limit.shape() != Shape::Flow => Readiness::Never,
                Some(entry) if entry.memory.is_contested(self.clock.at) => Readiness::Always,
                _ => Readiness::WithLoans,
            },
            turn: self.clock.at.as_micros() / u64::try_from(turn.as_micros()).unwrap_or(u64::MAX).max(1),
            claims,
        }
    }

    fn claim(&self, region: &RegionName, terms: FloorTerms, entry: Option<&BudgetEntry>) -> Claim {
        let live = self.regions.get(region).is_some_and(|s| !s.expired);
        let share = entry.and_then(|e| e.shares.get(region));
        let set = self.policies.active.set.regions.get(region);
        Claim {
            floor: terms.floor,
            lendable: if live { terms.lendable } else { Capacity::ZERO },
            demand: share.map(|s| s.demand).unwrap_or_default(),
            largest: share.map(|s| s.largest).unwrap_or_default(),
            returning: MicroTokens::ZERO,
            weight: set.map_or(1, |r| r.weight),
            priority: set.map_or(0, |r| r.priority),
            live,
            before: share.map(|s| s.target.clone()).unwrap_or_default(),
        }
    }
}
