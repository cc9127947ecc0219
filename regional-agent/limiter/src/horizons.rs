//! The horizons of one lease, as instants on one agent's clock: until when each part may be used.
//!
//! What is given up counts from an instant before the heartbeat was sent, and its span is shrunk;
//! what is taken back counts from one after the response arrived, and its span is stretched. Which
//! instants those are is the caller's to say: an agent that renews the lease knows them (R2, R3),
//! any other learns of them from its store's answers (R8).

use crate::decision::LeaseView;
use crate::record::Renewal;
use quorate_shared::heartbeat::LONGEST_LEASE;
use quorate_shared::names::{BudgetId, RegionName};
use quorate_shared::time::{Drift, LocalTime};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// `D_j` by lender.
type Lenders = BTreeMap<RegionName, LocalTime>;

/// `D`, `D_j` and `U` of one region. None of them moves backwards, but for [`Self::set_floor`].
#[derive(Clone, Debug)]
pub(crate) struct Horizons {
    /// `D`.
    lease: LocalTime,
    /// `U`.
    floor: LocalTime,
    /// `D_j`.
    lenders: Lenders,
    /// `D_j` of each budget with a drain.
    loans: BTreeMap<BudgetId, Lenders>,
}

impl Horizons {
    /// Of an agent that starts at `now`. No horizon survives a restart: there is no lease, and the
    /// floor that was lent is left alone for as long as any earlier promise can last (R6).
    pub fn start(now: LocalTime) -> Self {
        let floor = now.after(Drift::MAX.stretch(LONGEST_LEASE));
        Self { lease: LocalTime::ZERO, floor, lenders: BTreeMap::new(), loans: BTreeMap::new() }
    }

    /// `D`: until then pool and loans may be used.
    pub fn lease(&self) -> LocalTime {
        self.lease
    }

    /// `U`: until then what is lent is left alone.
    pub fn floor(&self) -> LocalTime {
        self.floor
    }

    /// `D` moves: the heartbeat was sent after `before`.
    pub fn extend_lease(&mut self, before: LocalTime, renewal: &Renewal) {
        self.lease = self.lease.max(before.after(renewal.drift.shrink(renewal.lease)));
    }

    /// Each `D_j` of the renewal moves: the heartbeat was sent after `before`.
    pub fn extend_promises(&mut self, before: LocalTime, renewal: &Renewal) {
        let until = |remaining: Duration| before.after(renewal.drift.shrink(remaining));
        raise(&mut self.lenders, &renewal.lenders, until);
        for (budget, promises) in &renewal.drained_lenders {
            raise(self.loans.entry(budget.clone()).or_default(), promises, until);
        }
    }

    /// `U` moves: the response arrived before `after`.
    pub fn extend_floor(&mut self, after: LocalTime, renewal: &Renewal) {
        self.floor = self.floor.max(after.after(renewal.drift.stretch(renewal.lease)));
    }

    /// `U`, whatever it was: of a session that has just learnt how long any earlier promise may be.
    pub fn set_floor(&mut self, until: LocalTime) {
        self.floor = until;
    }

    /// Forgets the promises for budgets that are not `held`.
    pub fn keep_loans(&mut self, held: impl Fn(&BudgetId) -> bool) {
        self.loans.retain(|budget, _| held(budget));
    }

    /// True if a lender's promise for budgets without a drain stands at `now`.
    pub fn promises(&self, lender: &RegionName, now: LocalTime) -> bool {
        self.lenders.get(lender).is_some_and(|horizon| now < *horizon)
    }

    /// What holds at `now`. By which response, and by which policies, the caller adds.
    pub fn view(&self, now: LocalTime) -> LeaseView {
        LeaseView {
            leased: now < self.lease,
            whole_floor: now >= self.floor,
            floor_passed: now.since(self.floor),
            standing_lenders: standing(&self.lenders, now),
            standing_loans: self.loans.iter().map(|(id, lenders)| (id.clone(), standing(lenders, now))).collect(),
            ..LeaseView::default()
        }
    }

    /// Until when all that [`view`](Self::view) at `now` says may be used holds: the earliest end of
    /// the lease and of the promises that stand. Of budgets without a drain, only promises of
    /// `borrowed` lenders matter.
    pub fn view_horizon(&self, now: LocalTime, borrowed: impl Fn(&RegionName) -> bool) -> LocalTime {
        let of_lenders = self.lenders.iter().filter(|(lender, _)| borrowed(lender)).map(|(_, horizon)| horizon);
        let of_loans = self.loans.values().flat_map(BTreeMap::values);
        let standing = of_lenders.chain(of_loans).filter(|horizon| now < **horizon);
        standing.copied().fold(self.lease, LocalTime::min)
    }
}

fn raise(horizons: &mut Lenders, promises: &BTreeMap<RegionName, Duration>, until: impl Fn(Duration) -> LocalTime) {
    for (lender, remaining) in promises {
        let horizon = horizons.entry(lender.clone()).or_default();
        *horizon = (*horizon).max(until(*remaining));
    }
}

fn standing(lenders: &Lenders, now: LocalTime) -> BTreeSet<RegionName> {
    lenders.iter().filter(|(_, horizon)| now < **horizon).map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::names::{SubjectHash, SubjectKey};

    const LEASE: Duration = Duration::from_secs(10);

    fn second(n: u64) -> LocalTime {
        LocalTime::ZERO.after(Duration::from_secs(n))
    }

    fn region(name: &str) -> RegionName {
        name.parse().expect("a name")
    }

    fn budget(subject: &str) -> BudgetId {
        let policy = "jobs".parse().expect("a name");
        let subject = SubjectHash::of(&SubjectKey::new([0; 32]), &policy, [subject]);
        BudgetId { policy, generation: 1, subject }
    }

    fn promises(of: &[(&str, u64)]) -> BTreeMap<RegionName, Duration> {
        of.iter().map(|(lender, seconds)| (region(lender), Duration::from_secs(*seconds))).collect()
    }

    /// Lenders of budgets without a drain, and of the budget of `acme`, which has one.
    fn renewal(lenders: &[(&str, u64)], of_acme: &[(&str, u64)]) -> Renewal {
        let drained_lenders = vec![(budget("acme"), promises(of_acme))];
        Renewal { lease: LEASE, drift: Drift::DEFAULT, lenders: promises(lenders), drained_lenders }
    }

    /// Of a heartbeat sent at second 20 and answered at second 21.
    fn renewed(lenders: &[(&str, u64)], of_acme: &[(&str, u64)]) -> Horizons {
        let mut horizons = Horizons::start(second(0));
        let renewal = renewal(lenders, of_acme);
        horizons.extend_lease(second(20), &renewal);
        horizons.extend_promises(second(20), &renewal);
        horizons.set_floor(second(0));
        horizons.extend_floor(second(21), &renewal);
        horizons
    }

    fn given_up(from: u64, span: u64) -> LocalTime {
        second(from).after(Drift::DEFAULT.shrink(Duration::from_secs(span)))
    }

    fn just_before(instant: LocalTime) -> LocalTime {
        LocalTime::from_micros(instant.as_micros() - 1)
    }

    #[test]
    fn at_the_start_nothing_is_leased_and_the_floor_is_left_alone_for_the_longest_lease() {
        let horizons = Horizons::start(second(7));
        let whole = second(7).after(Drift::MAX.stretch(LONGEST_LEASE));
        assert_eq!(horizons.floor(), whole);
        let view = horizons.view(just_before(whole));
        assert!(!view.leased && !view.whole_floor && view.floor_passed.is_zero());
        let view = horizons.view(whole);
        assert!(!view.leased && view.whole_floor && view.floor_passed.is_zero());
    }

    #[test]
    fn each_part_ends_at_its_own_horizon() {
        let horizons = renewed(&[("us", 4)], &[("ap", 6)]);
        let (us, ap, lease) = (given_up(20, 4), given_up(20, 6), given_up(20, 10));
        assert!(us < ap && ap < lease && lease == horizons.lease());
        let standing = |now| {
            let view = horizons.view(now);
            let drain = Duration::from_secs(1);
            (
                view.promises(&budget("acme"), Duration::ZERO, &region("us")),
                view.promises(&budget("acme"), drain, &region("ap")),
                view.leased,
            )
        };
        assert_eq!(standing(just_before(us)), (true, true, true));
        assert_eq!(standing(us), (false, true, true));
        assert_eq!(standing(ap), (false, false, true));
        assert_eq!(standing(lease), (false, false, false));
        assert!(horizons.promises(&region("us"), just_before(us)) && !horizons.promises(&region("us"), us));
        assert!(!horizons.promises(&region("ap"), just_before(us)), "only for a budget with a drain");
    }

    #[test]
    fn a_promise_for_one_budget_with_a_drain_is_none_for_another() {
        let view = renewed(&[], &[("ap", 6)]).view(second(21));
        let drain = Duration::from_secs(1);
        assert!(view.promises(&budget("acme"), drain, &region("ap")));
        assert!(!view.promises(&budget("zoo"), drain, &region("ap")));
    }

    #[test]
    fn the_floor_is_whole_only_after_the_lease_is_over() {
        let horizons = renewed(&[], &[]);
        assert_eq!(horizons.floor(), second(21).after(Drift::DEFAULT.stretch(LEASE)));
        assert!(horizons.lease() < horizons.floor());
    }

    #[test]
    fn an_earlier_renewal_moves_nothing_back() {
        let mut horizons = renewed(&[("us", 4)], &[("ap", 6)]);
        let before = horizons.clone();
        let earlier = renewal(&[("us", 4)], &[("ap", 6)]);
        horizons.extend_lease(second(19), &earlier);
        horizons.extend_promises(second(19), &earlier);
        horizons.extend_floor(second(20), &earlier);
        for now in (19..40).map(second) {
            assert_eq!(horizons.view(now), before.view(now));
            assert_eq!(horizons.view_horizon(now, |_| true), before.view_horizon(now, |_| true));
        }
    }

    #[test]
    fn a_view_holds_until_the_first_of_its_parts_ends() {
        let horizons = renewed(&[("us", 4)], &[("ap", 6)]);
        let all = |now| horizons.view_horizon(now, |_| true);
        assert_eq!(all(second(21)), given_up(20, 4));
        assert_eq!(all(given_up(20, 4)), given_up(20, 6), "what has ended is not in the view");
        assert_eq!(all(given_up(20, 6)), given_up(20, 10));
        assert_eq!(horizons.view_horizon(second(21), |_| false), given_up(20, 6), "nothing is borrowed of `us`");
    }

    #[test]
    fn promises_for_budgets_that_are_no_longer_held_are_forgotten() {
        let mut horizons = renewed(&[("us", 4)], &[("ap", 6)]);
        horizons.keep_loans(|id| *id != budget("acme"));
        let view = horizons.view(second(21));
        assert!(view.standing_loans.is_empty());
        assert_eq!(view.standing_lenders, [region("us")].into());
    }
}
