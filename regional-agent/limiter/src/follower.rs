//! An agent that does not renew its region's lease, and dates every response itself (R8).
//!
//! It sees the lease only through the answers of the region's store: each shows the newest number
//! drawn and the newest response applied. So it knows of an instant before heartbeat n was sent
//! (the sending of a script whose answer did not show n yet), and of one after response n was
//! applied (the receipt of the first answer that shows so).

use crate::contact::Contact;
use crate::decision::LeaseView;
use crate::horizons::Horizons;
use crate::record::{Record, Renewal};
use quorate_shared::heartbeat::{Number, PoliciesInForce};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::BudgetId;
use quorate_shared::time::LocalTime;
use std::collections::BTreeMap;

/// How many sendings are told apart.
const MOST_SENDINGS: usize = 64;

/// What every answer of a region's store shows of its lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// The newest number drawn for a heartbeat.
    pub drawn: Number,
    /// The newest response applied; seq 0 if there is none in the session.
    pub applied: Number,
    /// Of the session.
    pub nonce: u64,
}

impl Record {
    /// What an answer shows.
    pub fn sight(&self) -> Sight {
        Sight { drawn: Number { session: self.session, seq: self.seq }, applied: self.number(), nonce: self.nonce }
    }
}

/// What one agent knows of a lease that another renews.
#[derive(Clone, Debug)]
pub struct Follower {
    /// By the newest number that its answer showed: when the last such script was sent.
    sendings: BTreeMap<Number, LocalTime>,
    /// The response whose terms are known, and the nonce of its session.
    number: Number,
    nonce: u64,
    horizons: Horizons,
    contact: Contact,
}

impl Follower {
    /// An agent that starts at `now`: no lease until it has seen a number drawn, and no whole
    /// floor before any earlier promise is over.
    pub fn new(now: LocalTime) -> Self {
        Self { sendings: BTreeMap::new(), number: Number::default(), nonce: 0, horizons: Horizons::start(now), contact: Contact::default() }
    }

    /// The same, with what this process knows of its last contact: floors hold over a change of the agent that renews.
    #[must_use]
    pub fn with_contact(mut self, contact: Contact) -> Self {
        self.contact = contact;
        self
    }

    /// A script sent at `sent` was answered. True if it showed a response whose terms are not
    /// known yet: the record is to be read, and given to [`Self::learn`].
    pub fn saw(&mut self, sight: Sight, sent: LocalTime) -> bool {
        let last = self.sendings.entry(sight.drawn).or_default();
        *last = (*last).max(sent);
        while self.sendings.len() > MOST_SENDINGS {
            self.sendings.pop_first();
        }
        sight.applied > self.number || (sight.nonce != self.nonce && sight.applied.seq > 0)
    }

    /// Takes the terms of the response that a record shows as applied. `received` is when this
    /// record was: not before the response was applied.
    pub fn learn(&mut self, record: &Record, received: LocalTime) {
        let Some(renewal) = record.renewal.as_ref().filter(|_| record.applied.is_some()) else { return };
        self.learn_terms(record.sight(), renewal, record.policies, received);
        self.horizons.keep_loans(|budget| record.holdings.contains_key(budget));
    }

    /// The same without what is held: `renewal` is that of the response that `sight` shows as applied, which said these
    /// `sets`.
    pub fn learn_terms(&mut self, sight: Sight, renewal: &Renewal, sets: PoliciesInForce, received: LocalTime) {
        let number = sight.applied;
        if number.seq == 0 || number <= self.number && sight.nonce == self.nonce {
            return;
        }
        self.horizons.extend_floor(received, renewal);
        if let Some(sent) = self.sent_before(number) {
            self.horizons.extend_lease(sent, renewal);
            self.horizons.extend_promises(sent, renewal);
            self.contact.renew(sets, sent);
        }
        (self.number, self.nonce) = (number, sight.nonce);
        // a later response needs no earlier sending than the last
        let newest = self.sendings.range(..number).next_back().map(|(n, _)| *n);
        self.sendings.retain(|n, _| newest.is_none_or(|newest| *n >= newest));
    }

    /// Forgets the promises for budgets that are not `held`.
    pub fn keep_loans(&mut self, held: impl Fn(&BudgetId) -> bool) {
        self.horizons.keep_loans(held);
    }

    /// The response whose terms are known, and the nonce of its session.
    pub fn known(&self) -> (Number, u64) {
        (self.number, self.nonce)
    }

    /// `m`: the last sending of a script whose answer showed no number as great as this.
    fn sent_before(&self, number: Number) -> Option<LocalTime> {
        if mistake::made(Mistake::LeaseHorizonFromSight) {
            return self.sendings.values().max().copied();
        }
        self.sendings.range(..number).map(|(_, sent)| *sent).max()
    }

    /// What holds at `now`, by the policies in force in the store.
    pub fn view(&self, now: LocalTime, policies: PoliciesInForce) -> LeaseView {
        let unheard_for = self.contact.unheard_for(policies, now);
        LeaseView { number: self.number, nonce: self.nonce, policies, unheard_for, ..self.horizons.view(now) }
    }

    /// When a coordinator was last heard.
    pub fn contact(&self) -> Contact {
        self.contact
    }

    /// Until when all that [`view`](Self::view) at `now` says may be used holds. An admission that
    /// used a leased part counts only if the answer came before.
    pub fn view_horizon(&self, now: LocalTime) -> LocalTime {
        self.horizons.view_horizon(now, |_| true)
    }

    /// `D`.
    pub fn lease_horizon(&self) -> LocalTime {
        self.horizons.lease()
    }

    /// `U`.
    pub fn floor_horizon(&self) -> LocalTime {
        self.horizons.floor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::heartbeat::{Office, Stamp};
    use quorate_shared::time::{Drift, LeaderTime};
    use std::time::Duration;

    const LEASE: Duration = Duration::from_secs(5);

    fn second(n: u64) -> LocalTime {
        LocalTime::ZERO.after(Duration::from_secs(n))
    }

    fn number(seq: u64) -> Number {
        Number { session: 1, seq }
    }

    fn record(drawn: u64, applied: u64) -> Record {
        let stamp = Stamp { number: number(applied), office: Office::default(), at: LeaderTime::ZERO };
        let renewal = Renewal { lease: LEASE, drift: Drift::DEFAULT, lenders: BTreeMap::new(), drained_lenders: vec![] };
        Record { session: 1, seq: drawn, applied: Some(stamp), renewal: Some(renewal), ..Record::default() }
    }

    #[test]
    fn a_new_agent_has_no_lease_until_it_has_seen_a_number_drawn() {
        let mut agent = Follower::new(second(0));
        assert!(agent.saw(record(7, 6).sight(), second(10)), "response 6 is news");
        agent.learn(&record(7, 6), second(11));
        let view = agent.view(second(11), PoliciesInForce::default());
        assert!(!view.leased && !view.whole_floor, "nobody saw the time before heartbeat 6");
        // the answer to a script of second 12 still showed 7: heartbeat 8 was sent after that
        agent.saw(record(7, 6).sight(), second(12));
        assert!(agent.saw(record(8, 8).sight(), second(14)));
        agent.learn(&record(8, 8), second(15));
        assert_eq!(agent.lease_horizon(), second(12).after(Drift::DEFAULT.shrink(LEASE)));
        assert!(agent.view(second(16), PoliciesInForce::default()).leased);
    }

    #[test]
    fn a_late_answer_does_not_move_the_date_of_a_heartbeat() {
        let mut agent = Follower::new(second(0));
        agent.saw(record(7, 7).sight(), second(10));
        agent.saw(record(8, 7).sight(), second(12));
        // sent before the one above, and executed before it
        agent.saw(record(7, 7).sight(), second(11));
        agent.saw(record(8, 8).sight(), second(13));
        agent.learn(&record(8, 8), second(13));
        assert_eq!(agent.lease_horizon(), second(11).after(Drift::DEFAULT.shrink(LEASE)));
    }

    #[test]
    fn the_floor_is_whole_again_only_after_the_promise_that_the_newest_response_made() {
        let mut agent = Follower::new(second(0));
        agent.saw(record(1, 1).sight(), second(90));
        agent.learn(&record(1, 1), second(91));
        let until = second(91).after(Drift::DEFAULT.stretch(LEASE));
        assert_eq!(agent.floor_horizon(), until);
        assert!(!agent.view(second(95), PoliciesInForce::default()).whole_floor);
        assert!(agent.view(until, PoliciesInForce::default()).whole_floor);
    }

    #[test]
    fn floors_that_end_by_themselves_are_dated_by_an_instant_before_the_heartbeat_and_for_the_sets_that_it_said() {
        let sets = |active| PoliciesInForce { active, next: None, also: None };
        let of = |drawn, applied, active| Record { policies: sets(active), ..record(drawn, applied) };
        let unheard = |agent: &Follower, active| agent.view(second(20), sets(active)).unheard_for;
        let mut agent = Follower::new(second(0));
        agent.saw(of(7, 6, 1).sight(), second(10));
        agent.learn(&of(7, 6, 1), second(11));
        assert_eq!(unheard(&agent, 1), Duration::MAX, "nobody saw the time before heartbeat 6");
        agent.saw(of(8, 8, 1).sight(), second(14));
        agent.learn(&of(8, 8, 1), second(15));
        assert_eq!((unheard(&agent, 1), unheard(&agent, 2)), (Duration::from_secs(10), Duration::MAX));
        agent.saw(of(9, 9, 2).sight(), second(18));
        agent.learn(&of(9, 9, 2), second(19));
        assert_eq!((unheard(&agent, 1), unheard(&agent, 2)), (Duration::MAX, Duration::from_secs(6)));
    }
}
