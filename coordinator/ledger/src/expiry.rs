//! The end of a lease: what a region held returns, what it lent is its own again.

use crate::Ledger;
use quorate_shared::names::RegionName;
use quorate_shared::time::LeaderTime;

impl Ledger {
    /// Ends the session of every region that was not heard of for `L(1+ρ)` by the clock of this
    /// office.
    ///
    /// All budgets of this version forget past use at once (`D_b = 0`), so a session ends for all
    /// of them together.
    pub(crate) fn expire(&mut self, at: LeaderTime) {
        let Some(drift) = self.founding.as_ref().map(|f| f.drift) else { return };
        let over = |s: &crate::session::Session| !s.expired && at > s.last.after(drift.stretch(s.lease()));
        let ended: Vec<RegionName> = self.regions.iter().filter(|(_, s)| over(s)).map(|(name, _)| name.clone()).collect();
        for region in &ended {
            self.end_session(region);
        }
    }

    /// Takes back everything that a region holds, and returns to it what it lent.
    pub(crate) fn end_session(&mut self, region: &RegionName) {
        if let Some(session) = self.regions.get_mut(region) {
            session.expired = true;
            session.lend_horizon = None;
            session.open.clear();
            session.reported.clear();
        }
        for (id, entry) in &mut self.budgets {
            entry.expire(region);
            if let Some(share) = entry.shares.get_mut(region) {
                share.demand = quorate_shared::units::MicroTokens::ZERO;
                share.target = Default::default();
            }
            entry.mark_open(id, &mut self.regions);
        }
        self.drop_idle_budgets();
    }

    /// Forgets budgets of which nothing is held, offered or wanted.
    pub(crate) fn drop_idle_budgets(&mut self) {
        self.budgets.retain(|_, entry| !entry.is_idle());
    }
}
