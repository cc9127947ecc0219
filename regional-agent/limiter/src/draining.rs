//! Up to which response past use has come down: what a region reports as drained (shape `share`).

use crate::telling::Told;
use quorate_shared::heartbeat::{MOST_REPORTS, Number, Offer, Stamp};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::BudgetId;
use quorate_shared::time::{Drift, LocalTime};
use std::collections::BTreeMap;
use std::time::Duration;

/// The budgets of a session whose past use keeps counting, and the policies'.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draining {
    budgets: BTreeMap<BudgetId, Drained>,
    /// The newest heartbeat.
    newest: u64,
    floors: Floors,
}

/// A response, and an instant from which on it has been in force: nothing is taken by any before it.
#[derive(Clone, Copy, Debug)]
struct InForce {
    stamp: Stamp,
    at: LocalTime,
}

/// One budget.
#[derive(Clone, Debug, Default)]
struct Drained {
    /// The response that last changed what is held.
    changed: Number,
    /// The newest response up to which past use has come down.
    by: Option<Stamp>,
    /// The next one to be told so once all that was taken before it has aged; `None` while the count says it sooner.
    aging: Option<InForce>,
    /// The one after that: what it changed does not put that off.
    then: Option<InForce>,
    /// Who said so of the last change.
    told: Told,
    /// The newest heartbeat that said anything of it.
    said: u64,
}

impl Drained {
    fn is_over(&self) -> bool {
        self.by.is_some_and(|by| by.number >= self.changed)
    }

    fn change(&mut self, changed: InForce) {
        (self.changed, self.told) = (changed.stamp.number, Told::default());
        let next = if self.aging.is_none() { &mut self.aging } else { &mut self.then };
        *next = Some(changed);
    }

    /// The count has come down.
    fn come_down(&mut self, by: Stamp) {
        self.by = Some(by);
        if !mistake::made(Mistake::AgedByAnother) {
            (self.aging, self.then) = (None, None);
        }
    }

    /// What was taken before a response was in force has aged a `drain` later, stretched, whatever counts then. One
    /// response ages at a time, so nothing that changes in between puts it off.
    fn age(&mut self, applied: InForce, drain: Duration) {
        let mut aging = self.aging.unwrap_or(applied);
        while applied.at > aging.at.after(drain) {
            if mistake::made(Mistake::AgedByAnother) {
                self.by = Some(applied.stamp);
                break;
            }
            self.by = self.by.filter(|by| by.number > aging.stamp.number).or(Some(aging.stamp));
            aging = self.then.take().unwrap_or(applied);
        }
        self.aging = Some(aging);
    }
}

/// Which response's policies alone past use counts under.
#[derive(Clone, Debug, Default)]
struct Floors {
    /// The newest such response of this session.
    drained: Option<Stamp>,
    /// The longest drain of any policy met in this session.
    longest: Duration,
    /// Since when the present floors are in force.
    since: LocalTime,
    seats: GoneBy,
}

/// Whether agents that may spend something without the store go by the present floors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum GoneBy {
    /// There are none.
    #[default]
    Nobody,
    /// Not all, as far as is known.
    NotYet,
    /// All, since then.
    Since(LocalTime),
}

impl Draining {
    /// Of a session opened at `now`: what was in force just before, nobody knows.
    pub fn open(now: LocalTime) -> Self {
        Self { floors: Floors { since: now, ..Floors::default() }, ..Self::default() }
    }

    /// Budgets of which the count is to be known before each heartbeat.
    pub fn budgets(&self) -> impl Iterator<Item = &BudgetId> {
        self.budgets.keys()
    }

    /// The count of a budget fits what may be used without the parts given up by response `by`.
    pub fn note_drained(&mut self, budget: &BudgetId, by: Stamp) {
        if let Some(drained) = self.budgets.get_mut(budget) {
            drained.come_down(by);
        }
    }

    /// It does not, at `now`, when `applied` is in force. `drain` is stretched.
    pub fn note_undrained(&mut self, budget: &BudgetId, applied: Stamp, now: LocalTime, drain: Duration) {
        if let Some(drained) = self.budgets.get_mut(budget) {
            drained.age(InForce { stamp: applied, at: now }, drain);
        }
    }

    /// A response is in force since before `now`: it offered these, and named all there is if `full`. Budgets of which
    /// nothing is `held`, and the coordinators know that, need no word any more.
    pub fn applied(&mut self, stamp: Stamp, now: LocalTime, offers: &[Offer], full: bool, held: impl Fn(&BudgetId) -> bool) {
        if full {
            self.budgets.retain(|id, _| offers.iter().any(|offer| offer.budget == *id));
        }
        self.budgets.retain(|id, drained| held(id) || !drained.told.in_heartbeat(stamp.number.seq));
        for offer in offers.iter().filter(|offer| offer.drains) {
            self.budgets.entry(offer.budget.clone()).or_default().change(InForce { stamp, at: now });
        }
    }

    /// What heartbeat `seq` says of the budgets: of [`MOST_REPORTS`] at most, first of those that have drained
    /// and of which that was not said yet, then of each in turn.
    pub fn report(&mut self, seq: u64) -> Vec<(BudgetId, Stamp)> {
        let before = std::mem::replace(&mut self.newest, seq);
        let mut due: Vec<_> = self.budgets.iter_mut().filter_map(|(id, drained)| Some((drained.by?, id, drained))).collect();
        due.sort_by_key(|(_, _, drained)| (!(drained.is_over() && drained.told.is_news()), drained.said));
        due.truncate(MOST_REPORTS);
        let say = |(by, id, drained): (Stamp, &BudgetId, &mut Drained)| {
            drained.said = seq;
            if drained.is_over() {
                drained.told.say(seq, before);
            }
            (id.clone(), by)
        };
        due.into_iter().map(say).collect()
    }

    /// Floors have changed at `now`, or may have; `longest` is the longest drain of the policies before and after.
    pub fn floors_applied(&mut self, now: LocalTime, changed: bool, longest: Duration) {
        self.floors.longest = self.floors.longest.max(longest);
        if changed {
            self.floors.since = now;
            if self.floors.seats != GoneBy::Nobody {
                self.floors.seats = GoneBy::NotYet;
            }
        }
    }

    /// Agents may have seats: since when, if at all, every one of them goes by the present floors.
    pub fn note_seats(&mut self, since: Option<LocalTime>) {
        self.floors.seats = since.map_or(GoneBy::NotYet, GoneBy::Since);
    }

    /// The newest response, `applied` being in force, by whose floors alone all agents go, those without the
    /// store too, and past use counts at `now`.
    pub fn floors_drained(&mut self, now: LocalTime, applied: Option<Stamp>, drift: Drift) -> Option<Stamp> {
        let since = match self.floors.seats {
            GoneBy::Nobody => Some(self.floors.since),
            GoneBy::NotYet if !mistake::made(Mistake::SeatsNotWaitedFor) => None,
            GoneBy::NotYet => Some(self.floors.since),
            GoneBy::Since(then) => Some(then.max(self.floors.since)),
        };
        if since.is_some_and(|since| now >= since.after(drift.stretch(self.floors.longest))) {
            self.floors.drained = applied;
        }
        self.floors.drained
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::heartbeat::{Holding, Office};
    use quorate_shared::names::{PolicyName, SubjectHash, SubjectKey};
    use quorate_shared::time::LeaderTime;
    use std::collections::BTreeSet;

    fn stamp(seq: u64) -> Stamp {
        Stamp { number: Number { session: 1, seq }, office: Office::default(), at: LeaderTime::ZERO }
    }

    /// So many budgets, offered something by response 1 and drained.
    fn drained(count: usize) -> (Draining, Vec<BudgetId>) {
        let policy: PolicyName = "p".parse().expect("a name");
        let subject = |n: usize| SubjectHash::of(&SubjectKey::new([0; 32]), &policy, [n.to_string().as_str()]);
        let budgets: Vec<BudgetId> = (0..count).map(|n| BudgetId { policy: policy.clone(), generation: 1, subject: subject(n) }).collect();
        let offer = |budget: &BudgetId| Offer { budget: budget.clone(), holding: Holding::default(), drains: true };
        let mut draining = Draining::open(LocalTime::ZERO);
        draining.applied(stamp(1), LocalTime::ZERO, &budgets.iter().map(offer).collect::<Vec<_>>(), false, |_| true);
        budgets.iter().for_each(|budget| draining.note_drained(budget, stamp(1)));
        (draining, budgets)
    }

    fn said(draining: &mut Draining, seq: u64) -> BTreeSet<BudgetId> {
        let said = draining.report(seq);
        assert!(said.len() <= MOST_REPORTS);
        said.into_iter().map(|(budget, _)| budget).collect()
    }

    #[test]
    fn of_more_budgets_than_a_heartbeat_holds_each_has_its_turn_and_news_goes_first() {
        let (mut draining, budgets) = drained(2 * MOST_REPORTS + 500);
        let (first, second) = (said(&mut draining, 2), said(&mut draining, 3));
        assert!(first.len() == MOST_REPORTS && second.len() == MOST_REPORTS && first.is_disjoint(&second));
        // told again of one that has been said: what it gave up next is news
        let (again, third) = (first.first().expect("many").clone(), second.first().expect("many").clone());
        draining.applied(
            stamp(3),
            LocalTime::ZERO,
            &[Offer { budget: again.clone(), holding: Holding::default(), drains: true }],
            false,
            |_| true,
        );
        draining.note_drained(&again, stamp(3));
        let next = said(&mut draining, 4);
        assert!(next.contains(&again) && !next.contains(&third));
        let all: BTreeSet<BudgetId> = [first, second, next].into_iter().flatten().collect();
        assert_eq!(all.len(), budgets.len());
        assert!((5..8).map(|seq| said(&mut draining, seq)).any(|said| said.contains(&third)), "each is said again in its turn");
    }

    #[test]
    fn floors_are_confirmed_once_every_seat_goes_by_them_and_what_was_taken_there_counts_no_more() {
        let (at, second) = (|s| LocalTime::ZERO.after(Duration::from_secs(s)), Duration::from_secs(1));
        let mut draining = Draining::open(at(0));
        draining.note_seats(None);
        let no_drift = Drift::from_ppm(0).expect("in range");
        let confirmed = |draining: &mut Draining, s, seq| draining.floors_drained(at(s), Some(stamp(seq)), no_drift).map(|s| s.number.seq);
        assert_eq!(confirmed(&mut draining, 100, 1), None, "nobody has said what they go by");
        draining.note_seats(Some(at(100)));
        assert_eq!(confirmed(&mut draining, 101, 1), Some(1));
        draining.floors_applied(at(200), true, 10 * second);
        assert_eq!(confirmed(&mut draining, 300, 2), Some(1), "one goes by the former floors yet");
        draining.note_seats(Some(at(305)));
        assert_eq!([306, 314, 315].map(|s| confirmed(&mut draining, s, 2)), [Some(1), Some(1), Some(2)]);
    }

    #[test]
    fn what_was_taken_before_a_response_has_aged_a_drain_after_it_was_in_force() {
        let (mut draining, budgets) = drained(1);
        let (at, drain) = (|s| LocalTime::ZERO.after(Duration::from_secs(s)), Duration::from_secs(10));
        let changes = |draining: &mut Draining, seq, second| {
            let offer = Offer { budget: budgets[0].clone(), holding: Holding::default(), drains: true };
            draining.applied(stamp(seq), at(second), &[offer], false, |_| true);
        };
        // each heartbeat finds more counting than fits
        let told = |draining: &mut Draining, seq, second| {
            draining.note_undrained(&budgets[0], stamp(seq), at(second), drain);
            draining.report(seq).pop().map(|(_, by)| by.number.seq)
        };
        changes(&mut draining, 2, 100);
        changes(&mut draining, 3, 105);
        assert_eq!(told(&mut draining, 4, 110), Some(1), "what was taken just before still counts");
        assert_eq!(told(&mut draining, 5, 111), Some(2), "what came since puts nothing off");
        changes(&mut draining, 5, 112);
        assert_eq!(told(&mut draining, 6, 115), Some(2));
        assert_eq!(told(&mut draining, 7, 122), Some(3));
        assert_eq!(told(&mut draining, 8, 123), Some(5), "the last change has aged too");
        assert_eq!(told(&mut draining, 9, 134), Some(8), "and newer ones by and by, which date its promises");
        draining.note_drained(&budgets[0], stamp(9));
        assert_eq!(told(&mut draining, 10, 140), Some(9), "the count said more");
    }

    #[test]
    fn a_budget_is_told_only_by_a_heartbeat_that_named_it() {
        let (mut draining, budgets) = drained(MOST_REPORTS + 1);
        let (first, second) = (said(&mut draining, 2), said(&mut draining, 3));
        draining.applied(stamp(3), LocalTime::ZERO, &[], false, |_| false);
        let left: BTreeSet<BudgetId> = draining.budgets().cloned().collect();
        assert_eq!(left, budgets.into_iter().filter(|budget| !second.contains(budget)).collect());
        assert!(!left.is_empty() && left.is_subset(&first));
    }
}
