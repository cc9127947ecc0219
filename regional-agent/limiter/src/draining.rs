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

/// One budget.
#[derive(Clone, Debug, Default)]
struct Drained {
    /// The response that last changed what is held.
    changed: Number,
    /// The newest response up to which the count has come down.
    by: Option<Stamp>,
    /// Who said so of the last change.
    told: Told,
    /// The newest heartbeat that said anything of it.
    said: u64,
}

impl Drained {
    fn is_over(&self) -> bool {
        self.by.is_some_and(|by| by.number >= self.changed)
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
            drained.by = Some(by);
        }
    }

    /// A response is in force: it offered these, and named all there is if `full`. Budgets of which
    /// nothing is `held`, and the coordinators know that, need no word any more.
    pub fn applied(&mut self, stamp: Stamp, offers: &[Offer], full: bool, held: impl Fn(&BudgetId) -> bool) {
        if full {
            self.budgets.retain(|id, _| offers.iter().any(|offer| offer.budget == *id));
        }
        self.budgets.retain(|id, drained| held(id) || !drained.told.in_heartbeat(stamp.number.seq));
        for offer in offers.iter().filter(|offer| offer.drains) {
            let drained = self.budgets.entry(offer.budget.clone()).or_default();
            (drained.changed, drained.told) = (stamp.number, Told::default());
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
        draining.applied(stamp(1), &budgets.iter().map(offer).collect::<Vec<_>>(), false, |_| true);
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
        draining.applied(stamp(3), &[Offer { budget: again.clone(), holding: Holding::default(), drains: true }], false, |_| true);
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
    fn a_budget_is_told_only_by_a_heartbeat_that_named_it() {
        let (mut draining, budgets) = drained(MOST_REPORTS + 1);
        let (first, second) = (said(&mut draining, 2), said(&mut draining, 3));
        draining.applied(stamp(3), &[], false, |_| false);
        let left: BTreeSet<BudgetId> = draining.budgets().cloned().collect();
        assert_eq!(left, budgets.into_iter().filter(|budget| !second.contains(budget)).collect());
        assert!(!left.is_empty() && left.is_subset(&first));
    }
}
