//! One heartbeat, applied: expire, order, echo, reports, offers — in this order.

use crate::Ledger;
use crate::budget::{BudgetEntry, ReportedTotals, Share};
use crate::command::{Outcome, Plan, StampedHeartbeat};
use crate::journal::Note;
use crate::ledger::Founding;
use crate::level::SECOND;
use crate::measured::Overshoot;
use crate::session::{LeftAt, Session};
use quorate_shared::heartbeat::{Answer, Heartbeat, Number, Offer, Office, Report, Response, Stamp};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::{BudgetId, PolicyName, RegionName};
use quorate_shared::policy::Shape;
use quorate_shared::time::LeaderTime;
use quorate_shared::units::MicroTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl Ledger {
    pub(crate) fn apply_heartbeat(&mut self, log_term: u64, stamped: &StampedHeartbeat) -> Outcome {
        if stamped.office.term != log_term || self.clock.is_over(stamped.office) {
            return Outcome::WrongOffice;
        }
        let beat = &stamped.heartbeat;
        if self.founding.is_none() || !self.knows(&beat.region) {
            return Outcome::Heartbeat(Answer::UnknownRegion);
        }
        let at = self.advance_clock(stamped.office, stamped.at);
        if let Some(answer) = self.quiet_answer(at) {
            return Outcome::Heartbeat(answer);
        }
        let beat = &*self.heard(beat);
        self.note_before(beat);
        self.expire(at);
        if let Err(newest) = self.accept(beat, at) {
            return Outcome::Heartbeat(Answer::Stale { newest });
        }
        self.take_windows(beat);
        self.take_echo(beat, at);
        self.take_spent(beat);
        self.take_reports(beat, at);
        self.activate_if_confirmed();
        self.take_plans(&stamped.plans);
        self.take_unit_plans(&stamped.unit_plans);
        Outcome::Heartbeat(self.respond(beat, stamped.office, at))
    }

    /// A heartbeat as the leader puts it into the log: dated, and with what the allocator would like.
    pub fn stamp(&self, heartbeat: Heartbeat, office: Office, at: LeaderTime) -> StampedHeartbeat {
        let (plans, unit_plans) = (self.plans_for(&heartbeat), self.unit_plans_for(&heartbeat));
        StampedHeartbeat { heartbeat, office, at, plans, unit_plans }
    }

    /// The newest accepted number, if a heartbeat does not come after it (R1). A reader of the
    /// applied state may spare the log an entry that would change nothing.
    pub fn overtaken(&self, beat: &Heartbeat) -> Option<Number> {
        let session = self.regions.get(&beat.region)?;
        (!session.comes_after(beat.number, beat.nonce)).then_some(session.newest)
    }

    fn knows(&self, region: &RegionName) -> bool {
        let named = self.policies.active.set.regions.contains_key(region) || self.policies.newest().regions.contains_key(region);
        // one that may still use a floor of former times is to hear that it has none
        named || self.regions.contains_key(region) || self.is_restoring()
    }

    /// The entry's date, not before any earlier one of its office. The first entry of an office
    /// makes every earlier date meaningless.
    fn advance_clock(&mut self, office: Office, at: LeaderTime) -> LeaderTime {
        if self.clock.advance(office, at) {
            let (first, drift) = (self.clock.at, self.founding.as_ref().map(|f| f.drift).unwrap_or_default());
            self.regions.values_mut().for_each(|session| session.forget_dates(first, drift));
            self.budgets.values_mut().for_each(BudgetEntry::forget_dates);
            self.measured.values_mut().for_each(|measured| measured.last_hour.forget_dates(first));
            self.departed.forget_dates(first);
            self.note_office();
            if mistake::made(Mistake::NewOfficeEndsSessions) {
                let all: Vec<RegionName> = self.regions.keys().cloned().collect();
                all.iter().for_each(|region| self.end_session(region));
            }
        }
        self.clock.at
    }

    /// R1. Refuses with the newest number if this one is not newer.
    fn accept(&mut self, beat: &Heartbeat, at: LeaderTime) -> Result<(), Number> {
        let left = self.is_restoring().then(LeftAt::unknown);
        let begun = || {
            let new = Session::new(beat.agent.clone(), beat.store.clone());
            left.into_iter().fold(new, Session::returning)
        };
        let book = &self.policies;
        let exists = |policy: &PolicyName| book.active.set.policy(policy).is_some() || book.newest().policy(policy).is_some();
        let session = self.regions.entry(beat.region.clone()).or_insert_with(begun);
        let returns = session.expired || session.newest == Number::default();
        let begins = beat.number.session > session.newest.session;
        if !session.accept(beat.number, beat.nonce, at) {
            return Err(session.newest);
        }
        if returns {
            // its floor can be lent again
            self.budgets.values_mut().for_each(|entry| entry.memory.changed = Some(self.clock.at));
        }
        if begins {
            self.journal.note(Note::SessionBegan { region: beat.region.clone(), session: beat.number.session });
        }
        session.agent.clone_from(&beat.agent);
        session.others.clone_from(&beat.others);
        session.store.clone_from(&beat.store);
        session.shown = beat.clock.shown.map(|shown| (shown, at));
        session.take_steps(beat.clock.steps, at);
        if self.level >= SECOND {
            session.take_parts(&beat.parts, exists, at);
        }
        Ok(())
    }

    fn take_echo(&mut self, beat: &Heartbeat, at: LeaderTime) {
        let (Some(echo), Some(session)) = (beat.echo, self.regions.get_mut(&beat.region)) else { return };
        let office = self.clock.office;
        let least_lease = self.founding.as_ref().map(Founding::least_lease).unwrap_or_default();
        let dated = if mistake::made(Mistake::PromiseOfThisHeartbeat) { at } else { echo.at.min(at) };
        session.take_echo(Stamp { at: dated, ..echo }, beat.floors_drained, office);
        let echo = session.echo;
        let mut drained: BTreeMap<&BudgetId, Number> = BTreeMap::new();
        for (id, stamp) in beat.drained.iter().filter(|(_, stamp)| session.has_echoed(stamp.number)) {
            let Some(share) = self.budgets.get_mut(id).and_then(|entry| entry.shares.get_mut(&beat.region)) else { continue };
            drained.insert(id, stamp.number);
            let stamp = match beat.echo {
                Some(echo) if mistake::made(Mistake::PromiseOfUndrained) => &echo.clone(),
                _ => stamp,
            };
            if stamp.office == office {
                // a promise is at least as long as L ever was
                let lease = session.lease_said_by(stamp.number).unwrap_or(least_lease);
                share.lend_horizon = Some(stamp.at.min(at).after(lease));
            }
        }
        let mut settled = Vec::new();
        for id in &session.open {
            let Some(entry) = self.budgets.get_mut(id) else {
                settled.push(id.clone());
                continue;
            };
            let over = if entry.drains() { drained.get(id).copied() } else { Some(echo) };
            let share = entry.share(&beat.region);
            if let Some(number) = over {
                share.take_echo(number);
            }
            if !share.is_open() {
                settled.push(id.clone());
            }
        }
        for id in settled {
            session.open.remove(&id);
            if self.budgets.get(&id).is_some_and(BudgetEntry::is_idle) {
                self.budgets.remove(&id);
            }
        }
    }

    fn take_reports(&mut self, beat: &Heartbeat, at: LeaderTime) {
        let Some(Founding { drift, lease, .. }) = self.founding else { return };
        let (read, mut named, mut overshoots) = (self.reports_read(beat, at), BTreeSet::new(), Vec::new());
        for report in &beat.reports {
            let Some(terms) = self.policies.active_terms(&report.budget) else { continue };
            if terms.limit.shape() == Shape::Allowance {
                self.take_unit_report(report, beat);
                named.insert(report.budget.clone());
                continue;
            }
            if !self.budgets.contains_key(&report.budget) && !terms.is_outgrown_by(report, &beat.region) {
                continue;
            }
            let entry = self.budgets.entry(report.budget.clone()).or_insert_with(|| BudgetEntry::new(terms.limit.drain()));
            let share = entry.share(&beat.region);
            let changed = (share.demand, share.largest) != (report.demand, report.largest);
            let (admitted, from) = share.take_report(report, beat.number.session, read);
            if changed {
                entry.memory.changed = Some(at);
            }
            // of what a longer span covers nearly nothing could be told
            if let Some(from) = from.filter(|from| at.since(*from) <= lease) {
                let amount = entry.measure(admitted, from, at, &terms, drift);
                overshoots.push((&report.budget.policy, Overshoot { amount, ..Overshoot::default() }));
            }
            named.insert(report.budget.clone());
        }
        overshoots.extend(self.unit_overshoots(beat));
        for (policy, overshoot) in overshoots.into_iter().filter(|(_, overshoot)| overshoot.amount > MicroTokens::ZERO) {
            self.note_overshoot(policy, overshoot, at);
        }
        let Some(session) = self.regions.get_mut(&beat.region) else { return };
        let silent: Vec<BudgetId> = session.reported.difference(&named).cloned().collect();
        session.reported = named;
        for id in &silent {
            self.forget_unit_demand(&beat.region, id);
        }
        self.drop_idle_windows(silent.iter().cloned());
        for id in silent {
            let Some(entry) = self.budgets.get_mut(&id) else { continue };
            entry.share(&beat.region).forget_wants();
            entry.memory.changed = Some(at);
            if entry.is_idle() {
                self.budgets.remove(&id);
            }
        }
    }

    fn take_plans(&mut self, plans: &[Plan]) {
        for plan in plans {
            if self.policies.offer_terms(&plan.budget).is_none() {
                continue;
            }
            let Some(entry) = self.budgets.get_mut(&plan.budget) else { continue };
            let had_extra = entry.shares.values().any(Share::is_to_have_extra);
            for (region, target) in &plan.targets {
                if self.regions.get(region).is_some_and(|s| !s.expired) {
                    entry.share(region).target = target.clone();
                }
            }
            for (region, share) in &mut entry.shares {
                if !plan.targets.contains_key(region) {
                    share.target = Default::default();
                }
            }
            let extra = had_extra || entry.shares.values().any(Share::is_to_have_extra);
            entry.memory.planned(extra, self.clock.at);
            entry.mark_open(&plan.budget, &mut self.regions);
        }
    }

    /// R9: budgets that end with the active set are to be given up before it ends.
    pub(crate) fn wind_down_ending_budgets(&mut self) {
        for (id, entry) in &mut self.budgets {
            entry.memory.changed = Some(self.clock.at);
            if self.policies.offer_terms(id).is_none() {
                entry.shares.values_mut().for_each(|share| share.target = Default::default());
            }
            // the pending set may allow less than was offered
            for share in entry.shares.values_mut().filter(|s| !s.offered().is_zero()) {
                share.restate = true;
            }
            entry.mark_open(id, &mut self.regions);
        }
    }

    fn respond(&mut self, beat: &Heartbeat, office: Office, at: LeaderTime) -> Answer {
        let in_force = self.policies.in_force();
        let lenders = self.promises(&beat.region, at);
        let (Some(founding), Some(session)) = (&self.founding, self.regions.get_mut(&beat.region)) else {
            return Answer::UnknownRegion;
        };
        session.say(founding.lease, in_force, at, founding.drift);
        let first_set = *self.first_set.get_or_insert(in_force.active);
        let genesis = session.is_genesis() && first_set == in_force.active;
        let (full, echo, open) = (session.wants_full(), session.echo, session.open.clone());
        let response = Response {
            stamp: Stamp { number: beat.number, office, at },
            nonce: beat.nonce,
            lease: founding.lease,
            longest_lease: founding.longest_lease(),
            drift: founding.drift,
            full,
            genesis,
            lenders,
            drained_lenders: Vec::new(),
            grants: Vec::new(),
            clock_at_least: self.closed.values().map(|label| label.start()).max().unwrap_or_default(),
            former: self.policies.former_sets(),
            policies: in_force,
            sets: self.policies.newer_than(beat.policies),
            subject_key: founding.subject_key.clone(),
            offers: Vec::new(),
        };
        for id in &open {
            self.offer(id, &beat.region, beat.number);
        }
        let offers = match full {
            true => self.all_offers(&beat.region),
            false => self.offers_since(&beat.region, &open, echo),
        };
        let drained_lenders = self.drained_promises(&beat.region, at);
        let grants = self.grants(&beat.region, beat.number, full);
        Answer::Renewed(Box::new(Response { offers, drained_lenders, grants, ..response }))
    }

    /// Makes the region the offer that R4 leaves room for.
    fn offer(&mut self, id: &BudgetId, region: &RegionName, number: Number) {
        let (Some(limits), Some(entry)) = (self.policies.active_terms(id), self.budgets.get_mut(id)) else { return };
        let terms = self.policies.offer_terms(id).unwrap_or_else(|| limits.clone());
        let holding = match self.alarms.stop(id) {
            false => entry.offer_to(region, &terms),
            true => entry.offer_nothing_to(region),
        };
        let borrows = entry.drains() && !holding.borrowed.is_empty();
        entry.share(region).say(number, holding);
        if let Some(session) = self.regions.get_mut(region) {
            match borrows {
                true => session.borrows.insert(id.clone()),
                false => session.borrows.remove(id),
            };
        }
        if let Err(violation) = entry.check(id, &limits) {
            let nothing = entry.offer_nothing_to(region);
            entry.share(region).unsay(number, nothing);
            self.raise_alarm(&violation);
        }
        self.note_offer(id, region, number);
    }

    /// Notes what the response of this number is the first to say.
    fn note_offer(&mut self, id: &BudgetId, region: &RegionName, number: Number) {
        let share = self.budgets.get(id).and_then(|entry| entry.shares.get(region));
        if let Some(share) = share.filter(|share| share.newer_than(number.before())) {
            self.journal.note(Note::Granted { region: region.clone(), budget: id.clone(), holding: share.offered() });
        }
    }

    fn all_offers(&self, region: &RegionName) -> Vec<Offer> {
        let shares = self.budgets.iter().filter_map(|(id, entry)| Some((id, entry, entry.shares.get(region)?)));
        let told = shares.filter(|(_, entry, share)| !share.offered().is_zero() || entry.drains() && share.in_flight());
        told.map(|(id, entry, share)| offer_of(id, entry, share)).collect()
    }

    /// R4: every offer since the echo.
    fn offers_since(&self, region: &RegionName, open: &BTreeSet<BudgetId>, echo: Number) -> Vec<Offer> {
        let entries = open.iter().filter_map(|id| Some((id, self.budgets.get(id)?)));
        let shares = entries.filter_map(|(id, entry)| Some((id, entry, entry.shares.get(region)?)));
        let newer = shares.filter(|(_, _, share)| share.newer_than(echo));
        newer.map(|(id, entry, share)| offer_of(id, entry, share)).collect()
    }

    /// `remaining_j` of every lender of each budget with a drain of which the region was offered a loan.
    fn drained_promises(&self, region: &RegionName, at: LeaderTime) -> Vec<(BudgetId, BTreeMap<RegionName, Duration>)> {
        let borrows = self.regions.get(region).into_iter().flat_map(|s| &s.borrows);
        let promises = |entry: &BudgetEntry| -> BTreeMap<RegionName, Duration> {
            let others = entry.shares.iter().filter(|(name, _)| *name != region);
            let standing = others.filter_map(|(name, share)| Some((name.clone(), share.lend_horizon?.since(at))));
            standing.filter(|(_, left)| !left.is_zero()).collect()
        };
        borrows.filter_map(|id| Some((id.clone(), promises(self.budgets.get(id)?)))).collect()
    }

    /// `remaining_j` of every other region whose promise stands at `at`.
    fn promises(&self, region: &RegionName, at: LeaderTime) -> BTreeMap<RegionName, Duration> {
        let others = self.regions.iter().filter(|(name, _)| *name != region);
        let standing = others.filter_map(|(name, s)| Some((name.clone(), s.lend_horizon?.since(at))));
        standing.filter(|(_, left)| !left.is_zero()).collect()
    }
}

impl Share {
    /// Takes a report that was not read before `read`; gives what was admitted since the one before,
    /// and an instant since when, if that is known. Of what was admitted before the first report of
    /// a budget nobody can say when. Estimates are left out: what of them was given back nobody says.
    fn take_report(&mut self, report: &Report, session: u64, read: Option<LeaderTime>) -> (MicroTokens, Option<LeaderTime>) {
        let now = ReportedTotals { session, read, admitted: report.admitted, refused: report.refused, estimated: report.estimated };
        (self.demand, self.largest) = (report.demand, report.largest);
        let Some(before) = self.reported.replace(now) else { return (MicroTokens::ZERO, None) };
        // another session, or an agent that forgot an idle budget, counts anew
        let anew = before.session != session || report.admitted < before.admitted || report.refused < before.refused;
        let base = if anew { ReportedTotals::default() } else { before };
        let admitted = report.admitted.saturating_sub(base.admitted);
        self.admitted = self.admitted.saturating_add(admitted);
        self.refused = self.refused.saturating_add(report.refused.saturating_sub(base.refused));
        (admitted.saturating_sub(report.estimated.saturating_sub(base.estimated)), before.read)
    }
}

fn offer_of(id: &BudgetId, entry: &BudgetEntry, share: &Share) -> Offer {
    Offer { budget: id.clone(), holding: share.offered(), drains: entry.drains() }
}
