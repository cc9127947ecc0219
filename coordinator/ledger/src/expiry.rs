//! The end of a lease: what a region held returns, what it lent is its own again.

use crate::Ledger;
use crate::journal::Note;
use crate::session::Session;
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::RegionName;
use quorate_shared::time::{Drift, LeaderTime};

impl Ledger {
    /// Ends the session of every region that was not heard of for `L(1+ρ)` by the clock of this
    /// office, `L` being the longest that it may count on; of budgets whose past use counts, `D_b` later. Units of allowances stay with the
    /// region: they count as spent.
    pub(crate) fn expire(&mut self, at: LeaderTime) {
        let Some(drift) = self.founding.as_ref().map(|f| f.drift) else { return };
        let end = |s: &Session| s.end(drift);
        let over = |s: &Session| !s.expired && at > end(s);
        let ended: Vec<RegionName> = self.regions.iter().filter(|(_, s)| over(s)).map(|(name, _)| name.clone()).collect();
        for region in &ended {
            self.end_session(region);
            self.journal.note(Note::LeaseEnded { region: region.clone() });
        }
        let draining = self.regions.iter().filter(|(_, s)| s.draining).map(|(name, s)| (name.clone(), end(s)));
        for (region, ended) in draining.collect::<Vec<_>>() {
            self.expire_drained(&region, ended, at, drift);
        }
        let drain = drift.stretch(self.policies.longest_drain());
        for (region, session) in self.regions.iter_mut().filter(|(_, session)| session.fencing.is_some()) {
            if session.fence_once_drained(at, drain) {
                self.journal.note(Note::Fenced { region: region.clone() });
            }
        }
    }

    /// Takes back what past use of a region does not bear on any more, `ended` being the end of
    /// its session.
    fn expire_drained(&mut self, region: &RegionName, ended: LeaderTime, at: LeaderTime, drift: Drift) {
        let at_once = mistake::made(Mistake::NoDrainAtSessionEnd);
        let drained = |drain| at_once || at > ended.after(drift.stretch(drain));
        for (id, entry) in self.budgets.iter_mut().filter(|(_, entry)| entry.drains() && drained(entry.drain)) {
            if entry.shares.get(region).is_some_and(|share| !share.expired) {
                entry.expire(region);
                entry.memory.changed = Some(at);
                entry.mark_open(id, &mut self.regions);
            }
        }
        if let Some(session) = self.regions.get_mut(region) {
            session.draining = !drained(self.policies.longest_drain());
        }
        self.drop_idle_budgets();
    }

    /// Takes back everything that a region holds and whose past use does not count, and returns
    /// to it what it lent of that.
    pub(crate) fn end_session(&mut self, region: &RegionName) {
        if let Some(session) = self.regions.get_mut(region) {
            (session.expired, session.draining) = (true, true);
            session.lend_horizon = None;
            session.open.clear();
            session.reported.clear();
        }
        for (id, entry) in &mut self.budgets {
            if !entry.drains() {
                entry.expire(region);
            }
            entry.memory.changed = Some(self.clock.at);
            if let Some(share) = entry.shares.get_mut(region) {
                share.forget_wants();
                share.target = Default::default();
            }
            entry.mark_open(id, &mut self.regions);
        }
        self.drop_idle_budgets();
        for allowance in self.allowances.values_mut() {
            allowance.forget_targets_of(|name| name == region);
        }
    }

    /// Forgets budgets of which nothing is held, offered or wanted.
    pub(crate) fn drop_idle_budgets(&mut self) {
        self.budgets.retain(|_, entry| !entry.is_idle());
    }
}
