//! R9: floors that end by themselves. A region that is not heard of uses the floors of a policy with a `floor-ttl`
//! for so long after the last response that told it of the set, and then nothing of them. So a change waits for it no
//! longer than that.
//!
//! The region counts from before it sent the heartbeat, the ledger from the date of the response: the newest that said
//! just these sets, since one that says others renews the floors of those. As with leases, dates of another office
//! mean nothing: a new one counts from its beginning.

use crate::Ledger;
use crate::policies::Restriction;
use crate::session::{Said, Session};
use crate::windows::Kind;
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::{PolicyName, RegionName};
use quorate_shared::time::{LeaderTime, WindowLabel};
use std::time::Duration;

/// How far a store's clock may be put forward while nobody hears of its region: windows up to there may have been used.
const STEPS_UNHEARD: Duration = Duration::from_secs(60);

impl Ledger {
    /// Regions that may still be using a floor greater than the next set's, or let pass what that refuses.
    pub(crate) fn unconfirmed_regions(&self) -> Vec<RegionName> {
        let Some(next) = &self.policies.next else { return Vec::new() };
        let waited_for = |name: &RegionName, session: &Session| {
            session.acts_on(next.set.version).any(|said| self.restricts(name, session, said))
                || self.waits_for_past_use(name, session)
                || self.may_spend_ending_units(name, session)
                || self.may_go_by_unknown(session)
                || session.counts_by_unknown(next.set.version)
        };
        let waiting = |(name, session): &(&RegionName, &Session)| waited_for(name, session);
        let forgotten = usize::from(mistake::made(Mistake::RegionNotWaitedFor));
        self.regions.iter().skip(forgotten).filter(waiting).map(|(name, _)| name.clone()).collect()
    }

    fn restricts(&self, region: &RegionName, session: &Session, said: &Said) -> bool {
        let all = self.policies.restrictions(region, said.policies);
        all.iter().any(|one| one.floor && !self.has_ended(session, said, one, Duration::ZERO))
    }

    /// True if past use of the region may be more than the next set allows of what keeps counting, or what its agents
    /// spend by themselves.
    fn waits_for_past_use(&self, region: &RegionName, session: &Session) -> bool {
        let (Some(next), Some(founding)) = (&self.policies.next, &self.founding) else { return false };
        let longest = self.policies.longest_drain();
        session.acted_on(next.set.version).any(|(said, until)| {
            let all = self.policies.restrictions(region, said.policies);
            if all.iter().any(|one| one.seats && !self.has_ended(session, said, one, longest)) {
                return true;
            }
            let counting = all.iter().filter(|one| !self.has_ended(session, said, one, one.drain));
            let drain = counting.map(|one| one.drain).max().unwrap_or_default();
            let drained = |until: LeaderTime| self.clock.at > until.after(founding.drift.stretch(drain));
            !drain.is_zero() && !until.is_some_and(drained) && !mistake::made(Mistake::PastUseNotWaitedFor)
        })
    }

    /// For how long what a region took under the sets that it was told of counts of what the next one allows less of.
    pub(crate) fn counts_for(&self, region: &RegionName, said: &Said) -> Duration {
        let all = self.policies.restrictions(region, said.policies);
        all.iter().map(|one| self.drain_of(one)).max().unwrap_or_default()
    }

    /// For how long that of one policy does.
    fn drain_of(&self, restriction: &Restriction) -> Duration {
        if restriction.seats { self.policies.longest_drain() } else { restriction.drain }
    }

    /// When the region can have nothing any more that the next set does not allow, if it is not heard of until then, and
    /// nothing counts that it took; `None`: nobody can know.
    pub(crate) fn lets_go_at(&self, region: &RegionName, session: &Session) -> Option<LeaderTime> {
        let (next, founding) = (self.policies.next.as_ref()?, self.founding.as_ref()?);
        let ends = session.acted_on(next.set.version).flat_map(|(said, until)| {
            let end = move |one: Restriction| match until {
                Some(until) if !one.seats => Some(until.after(founding.drift.stretch(one.drain))),
                _ => self.end(session, said, &one, self.drain_of(&one)),
            };
            self.policies.restrictions(region, said.policies).into_iter().map(end)
        });
        ends.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// True if the region was not told of these sets for so long that it uses nothing more of a policy's floors and units.
    pub(crate) fn uses_no_more(&self, said: &Said, policy: &PolicyName) -> bool {
        let end = |ttl| Some(said.last.after(self.founding.as_ref()?.drift.stretch(ttl)));
        self.policies.floor_ttl(said.policies, policy).and_then(end).is_some_and(|end| self.clock.at > end)
    }

    /// The last window of a kind that a region can have used which was waited for no longer, since its floors have ended.
    pub(crate) fn last_window_unheard(&self, kind: &Kind) -> Option<WindowLabel> {
        let (next, drift) = (self.policies.next.as_ref()?, self.founding.as_ref()?.drift);
        let last = |(region, session): (&RegionName, &Session)| {
            let all = session.acts_on(next.set.version).flat_map(|said| self.policies.restrictions(region, said.policies));
            let of_kind = all.filter_map(|one| one.windows.filter(|(its, _)| its == kind).map(|(_, limit)| (limit, one.ttl)));
            let opened = *session.windows.get(kind)?;
            let used = |limit: quorate_shared::policy::Limit, ttl: Duration| {
                limit.window_at(limit.end_of(opened).after(drift.stretch(ttl)).after(STEPS_UNHEARD))
            };
            of_kind.filter_map(|(limit, ttl)| used(limit, ttl?)).max()
        };
        self.regions.iter().filter_map(last).max()
    }

    /// True if a restriction has ended by itself, and so long ago.
    fn has_ended(&self, session: &Session, said: &Said, restriction: &Restriction, ago: Duration) -> bool {
        self.end(session, said, restriction, ago).is_some_and(|end| self.clock.at > end)
    }

    /// When that is so. Of windows nobody can know it of which the region has opened none: its clock is unknown.
    fn end(&self, session: &Session, said: &Said, restriction: &Restriction, ago: Duration) -> Option<LeaderTime> {
        let (ttl, drift) = (restriction.ttl?, self.founding.as_ref()?.drift);
        if restriction.windows.as_ref().is_some_and(|(kind, _)| !session.windows.contains_key(kind)) {
            return None;
        }
        let end = match mistake::made(Mistake::FloorEndsWithSession) {
            true => session.end(drift),
            false => said.last.after(drift.stretch(ttl)),
        };
        Some(end.after(drift.stretch(ago)))
    }
}

#[cfg(test)]
mod tests;
