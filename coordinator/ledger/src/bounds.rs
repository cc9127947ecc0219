//! Promise and measurement of each policy, as people see them.

use crate::Ledger;
use crate::allowance::Floors;
use crate::budget::Share;
use crate::departed::Exceeded;
use crate::recent::Together;
use crate::session::Session;
use crate::terms::Terms;
use crate::view::{Now, millis};
use quorate_shared::api::{Bounds, BudgetAlarm, PendingChange, PolicyBound};
use quorate_shared::bound::{Circumstances, Held, Steps, bound};
use quorate_shared::names::{BudgetId, PolicyName, RegionName};
use quorate_shared::policy::floors::RegionShare;
use quorate_shared::policy::{Limit, Policy};
use quorate_shared::time::LeaderTime;
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::BTreeSet;
use std::time::Duration;

impl Ledger {
    /// Promise and measurement of each policy in force. Without the leader's clock nobody can say
    /// until when a change waits.
    pub fn bounds(&self, now: Now) -> Bounds {
        let change = self.pending_change(self.date(now));
        let policies = if self.is_restoring() { &self.policies.newest().policies } else { &self.policies.active.set.policies };
        Bounds { policies: policies.iter().map(|p| self.policy_bound(p, change.clone())).collect() }
    }

    fn policy_bound(&self, policy: &Policy, change: Option<PendingChange>) -> PolicyBound {
        let (now, measured) = (self.circumstances(policy), self.measured.get(&policy.name));
        PolicyBound {
            policy: policy.name.to_string(),
            limit: now.limit.into(),
            limit_in_words: match policy.overrides.len() {
                0 => policy.limit.to_string(),
                n => format!("{}, {n} overridden", policy.limit),
            },
            period_ms: millis(now.period),
            mode: policy.mode.to_string(),
            bound: bound(policy, &now),
            measured_overshoot: measured.map_or(0.0, |m| m.worst.tokens()),
            measured_overshoot_last_hour: measured.map_or(0.0, |m| m.last_hour.total(self.clock.at).tokens()),
            measured_beyond_bound: measured.map_or(0.0, |m| m.beyond_bound.tokens()),
            utilisation: self.utilisation(&policy.name),
            change,
            alarms: self.alarms_of(&policy.name).collect(),
        }
    }

    /// What the bound of a policy depends on, by the set in force.
    pub(crate) fn circumstances(&self, policy: &Policy) -> Circumstances {
        let limits = || std::iter::once(policy.limit).chain(policy.overrides.iter().map(|o| o.limit));
        let beyond = limits().map(|limit| self.floors_beyond(policy, limit)).fold(Capacity::ZERO, Capacity::max);
        let pending = self.policies.next.as_ref().map(|next| format!("version {}", next.set.version));
        let alarm = self.alarms_of(&policy.name).next().map(|alarm| alarm.what);
        let at = self.clock.at;
        let steps = self.regions.values().map(|session| session.steps.total(at)).fold(self.departed.steps.total(at), Steps::and);
        let passed_by = self.passed_by(policy);
        let former_units = self.policies.former_units(policy);
        let Exceeded { settled, outlived, parts } = self.exceeded(policy);
        let quiet = Circumstances::quiet(limits(), beyond);
        let held = quiet.held.map(|held| Held { outlived, ..held });
        Circumstances { steps, pending, passed_by, alarm, former_units, settled, parts, held, ..quiet }
    }

    /// What one budget may have used beyond its limit, all regions together, those that have left too.
    fn exceeded(&self, policy: &Policy) -> Exceeded {
        let reported = self.regions.values().flat_map(|session| &session.store.excesses);
        let of = reported.filter(|excess| excess.policy == policy.name).map(Exceeded::from);
        let parts = self.regions.values().filter_map(|session| session.parts.get(&policy.name));
        let parts = parts.map(|hour| Exceeded { parts: hour.total(self.clock.at), ..Exceeded::default() });
        of.chain(parts).fold(self.departed.exceeded(&policy.name, self.clock.at), Exceeded::together)
    }

    /// The regions that may not know yet that the policy limits something, in words.
    fn passed_by(&self, policy: &Policy) -> Option<String> {
        let by_known = |session: &Session| session.decides_by().any(|told| self.policies.pass_by(told, policy));
        let pass_by = |session: &Session| session.may_go_by_forgotten() || session.goes_by_unknown() || by_known(session);
        let names: Vec<&str> = self.regions.iter().filter(|(_, session)| pass_by(session)).map(|(name, _)| name.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    fn alarms_of<'a>(&'a self, policy: &'a PolicyName) -> impl Iterator<Item = BudgetAlarm> + 'a {
        let of_policy = self.alarms().filter(move |(id, _)| id.policy == *policy);
        of_policy.map(|(id, what)| BudgetAlarm { policy: id.policy.to_string(), subject: id.subject.to_string(), what: what.to_owned() })
    }

    fn floors_beyond(&self, policy: &Policy, limit: Limit) -> Capacity {
        let wholes: Capacity = self.policies.active.set.shares(policy, limit).values().map(RegionShare::whole).sum();
        wholes.minus(limit.capacity())
    }

    /// The change that is not active yet: for whom it waits, and until when at the latest.
    fn pending_change(&self, at: Option<LeaderTime>) -> Option<PendingChange> {
        let version = self.policies.next.as_ref()?.set.version;
        let unconfirmed: BTreeSet<RegionName> = self.unconfirmed_regions().into_iter().collect();
        let holders: BTreeSet<RegionName> = self.holders_beyond_next().cloned().collect();
        let waits_for: BTreeSet<&RegionName> = unconfirmed.union(&holders).collect();
        let out_of_reach: Vec<&RegionName> = unconfirmed.iter().filter(|name| !self.is_live(name, at)).collect();
        let horizons = waits_for.iter().filter(|name| !out_of_reach.contains(name));
        let horizons = horizons.filter_map(|name| Some(self.settled_in(name, self.regions.get(*name)?, at?)));
        let let_go = |name: &&RegionName| Some(self.lets_go_at(name, self.regions.get(*name)?)?.since(at?));
        let ends: Option<Vec<Duration>> = out_of_reach.iter().map(let_go).collect();
        let until = at.and(ends.as_ref()).map(|ends| horizons.chain(ends.iter().copied()).max().unwrap_or_default());
        let names = |names: &[&RegionName]| names.iter().map(|n| n.as_str()).collect::<Vec<_>>().join(", ");
        let why = match (at, out_of_reach.as_slice()) {
            (Some(_), far @ [_, ..]) if until.is_some() => {
                format!(
                    "{} cannot be reached and may go by an older set, but by then its floors of that have ended (`floor-ttl`)",
                    names(far)
                )
            }
            (_, far @ [_, ..]) => format!(
                "{} cannot be reached and may go by an older set, which needs no lease: until it is heard of, or fenced by an operator",
                names(far)
            ),
            (None, []) => "how old leases are only the leader knows".to_owned(),
            (Some(_), []) if waits_for.is_empty() => "it is being put into force".to_owned(),
            (Some(_), []) => format!(
                "{} confirm it with their next heartbeats, and give up what it does not allow; one that is silent is out of reach by then",
                names(&waits_for.iter().copied().collect::<Vec<_>>())
            ),
        };
        Some(PendingChange {
            version,
            waits_for: waits_for.iter().map(|name| name.to_string()).collect(),
            out_of_reach: out_of_reach.iter().map(|name| name.to_string()).collect(),
            until_ms: until.map(millis),
            why,
        })
    }

    /// Until the region has confirmed and given up, or is out of reach. Past use that counts holds that up: it must drain
    /// from when the region was known to go by less, which no later heartbeat puts off, and then be reported.
    fn settled_in(&self, region: &RegionName, session: &Session, at: LeaderTime) -> Duration {
        let (Some(next), Some(founding)) = (&self.policies.next, &self.founding) else { return Duration::ZERO };
        let (drift, end) = (founding.drift, session.end(founding.drift));
        let told = if session.expired { Duration::ZERO } else { drift.stretch(session.lease()) };
        let taken = session.acted_on(next.set.version).map(|(said, until)| (until.unwrap_or(end), self.counts_for(region, said)));
        let drains = taken.chain(self.unfit_drains().map(|drain| (end, drain))).filter(|(_, drain)| !drain.is_zero());
        let drained = drains.map(|(from, drain)| from.after(drift.stretch(drain)).after(told)).max();
        let confirms = session.acts_on(next.set.version).next().map(|_| end);
        drained.max(confirms).unwrap_or(end).since(at)
    }

    /// True unless the lease has ended, by the log or by the leader's clock.
    fn is_live(&self, region: &RegionName, at: Option<LeaderTime>) -> bool {
        let Some(session) = self.regions.get(region) else { return false };
        !session.expired && at.is_none_or(|at| !self.horizon(session, at).is_zero())
    }

    /// Demand that is served by what its region may use, against the demand that the limit could
    /// serve: 1 if no capacity is idle where another region lacks it. Of windows, the newest counts.
    fn utilisation(&self, policy: &PolicyName) -> Option<f64> {
        let budgets = self.budgets.keys().chain(self.allowances.keys()).filter(|id| id.policy == *policy);
        let parts = budgets.filter_map(|id| self.served_of(id, &self.policies.active_terms(id)?));
        let (served, servable) = parts.fold((0, 0), |(a, b), (served, servable)| (a + served, b + servable));
        (servable > 0).then(|| served.min(servable) as f64 / servable as f64)
    }

    /// Of one budget: the demand that is served, and what the limit could serve.
    fn served_of(&self, id: &BudgetId, terms: &Terms) -> Option<(u128, u128)> {
        let each: Vec<(MicroTokens, MicroTokens)> = match self.budgets.get(id) {
            Some(entry) => entry.shares.iter().map(|(name, s)| (s.demand, terms.amount(usable(s, name, terms)))).collect(),
            None => {
                let floors: Floors = terms.floors.iter().map(|(name, floor)| (name.clone(), floor.floor.burst)).collect();
                let window = self.newest_window(id)?;
                window.shares.iter().map(|(name, share)| (share.demand, window.usable(name, &floors))).collect()
            }
        };
        let demand: u128 = each.iter().map(|(demand, _)| u128::from(demand.0)).sum();
        let served = each.iter().map(|(demand, usable)| u128::from((*demand).min(*usable).0)).sum();
        Some((served, demand.min(u128::from(terms.amount(terms.divided()).0))))
    }
}

fn usable(share: &Share, name: &RegionName, terms: &Terms) -> Capacity {
    share.offered().entitlement(terms.of(name).floor, false, true, |_| true)
}

#[cfg(test)]
mod tests;
