//! Clients: who asks for how much.

use super::{Event, World};
use crate::simulation::Micros;
use crate::simulation::SECOND;
use crate::simulation::fault::Fault;
use crate::simulation::invariants::{Violation, bound};
use crate::simulation::request::{Asked, Verdict};
use quorate_limiter::decision::Charge;
use quorate_shared::policy::Shape;
use quorate_shared::units::MicroTokens;

/// Decisions in a row at most: clients take what is there.
const GREED: u64 = 5;

/// How often the clients of the hot region come, once nothing fails any more.
const HOT_PAUSE: Micros = SECOND / 32;

/// How eager a region's clients are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// They ask for nothing.
    Idle,
    /// For a little.
    Light,
    /// For more than there ever is: they get nothing, and it adds up.
    Vain,
    /// For all that there is.
    Hot,
}

impl World {
    /// Demand moves from region to region.
    pub(super) fn change_moods(&mut self) {
        if self.hot.is_some() {
            return;
        }
        let count = self.moods.len() as u64;
        let light = self.chance.pick(&[Mood::Idle, Mood::Idle, Mood::Light]);
        self.moods.fill(light);
        for _ in 0..self.chance.pick(&[0, 1, 1, 1, 1, 2]) {
            let hot = self.chance.below(count) as usize;
            self.moods[hot] = self.chance.pick(&[Mood::Hot, Mood::Hot, Mood::Vain]);
        }
        let span = self.chance.between(SECOND, 5 * SECOND);
        self.schedule(span, Event::Moods);
    }

    pub(super) fn ask(&mut self, r: usize) -> Result<(), Violation> {
        let mood = self.moods[r];
        let pause = match mood {
            Mood::Hot if self.hot.is_some() => HOT_PAUSE,
            Mood::Hot | Mood::Vain => self.chance.between(SECOND / 20, SECOND / 2),
            Mood::Light => self.chance.between(SECOND / 2, 2 * SECOND),
            Mood::Idle => SECOND / 2,
        };
        self.schedule(pause, Event::Ask { r });
        if mood == Mood::Idle || self.regions[r].agent.is_none() || self.now < self.regions[r].paused_until {
            return Ok(());
        }
        let subject = self.chance.below(self.catalogue.subjects() as u64) as usize;
        let places = self.catalogue.places_of(if self.hot.is_some() { 0 } else { subject });
        self.check_passed_by(r, places.clone())?;
        let least = self.least_in_a_row(places.start, mood);
        for n in 0..GREED.max(least) {
            // once in a while as much as there may be, then the rest bit by bit
            let cost = if n < 2 { self.cost(places.start, mood) } else { MicroTokens::TOKEN };
            self.requests.0 += 1;
            if self.profile.seats && self.chance.per_mille(400) {
                self.ask_aside(r, places.clone())?;
                continue;
            }
            if self.hazard(Fault::AnswerOfStoreLate) {
                self.put_question(r, places, cost);
                break;
            }
            if self.profile.kind.several && self.chance.per_mille(500) {
                let late = if self.chance.per_mille(100) { 3 * SECOND } else { 20_000 };
                let heard = self.now + self.chance.between(0, late);
                let verdict = self.regions[r].ask_follower(places.clone(), cost, self.now, heard);
                self.touch(r);
                self.conclude(r, verdict, cost)?;
                continue;
            }
            if self.profile.kind.reserves && self.hot.is_none() && self.chance.per_mille(500) {
                self.reserve(r, places.clone(), cost)?;
                continue;
            }
            let verdict = self.regions[r].ask(places.clone(), cost, None, self.now);
            let refused = verdict.refused;
            if refused {
                self.hurry(r);
            }
            // of several agents each sees a part of the lease, and estimates take room
            if refused && !self.profile.kind.several && !self.profile.kind.reserves {
                self.watch.refuse(self.now, r, &self.regions[r], &verdict.asked, cost)?;
            }
            self.conclude(r, verdict, cost)?;
            if (refused && n + 1 >= least) || mood != Mood::Hot || self.touched[r] {
                break;
            }
        }
        Ok(())
    }

    /// The agent takes its store for gone, rightly or not.
    fn ask_aside(&mut self, r: usize, places: std::ops::Range<usize>) -> Result<(), Violation> {
        let cost = MicroTokens(self.chance.between(1, 3) * MicroTokens::TOKEN.0);
        let aside = self.regions[r].ask_aside(places, cost, self.now);
        if !aside.admitted.is_empty() {
            self.requests.1 += 1;
            self.tell(Some(r), || format!("admits {cost} of {:?} by itself", aside.admitted));
        }
        let each = aside.admitted.into_iter().zip(aside.windows);
        each.into_iter().try_for_each(|(place, window)| self.watch.admit_aside(self.now, place, window, cost))
    }

    /// What a region does not know to be limited it lets pass.
    fn check_passed_by(&self, r: usize, places: std::ops::Range<usize>) -> Result<(), Violation> {
        let (region, ledger) = (&self.regions[r], &self.cluster.ledger);
        if !ledger.active_policies().regions.contains_key(&region.name) {
            return Ok(()); // of a region that was taken out nothing is promised
        }
        let passed_by = places.filter(|place| region.goes_without(*place) && self.watch.enforces(*place));
        passed_by
            .into_iter()
            .try_for_each(|place| bound::check_passed_by(self.now, &region.name, &self.catalogue.places[place].policy, ledger))
    }

    /// Decisions in a row at least, refused or not. Another policy may refuse what this one has room for; that
    /// everything is wanted of this one is true only of clients that ask for a little more than its limit even so.
    fn least_in_a_row(&mut self, place: usize, mood: Mood) -> u64 {
        let Some(terms) = self.watch.terms(place).filter(|_| self.hot.is_some()) else { return 2 };
        let period = u64::try_from(terms.limit.period().as_micros()).unwrap_or(u64::MAX);
        let refills = (terms.whole.rate.0 * HOT_PAUSE).div_ceil(period);
        let first = 2 * self.cost(place, mood).0;
        2 + (refills + refills / 4).saturating_sub(first).div_ceil(MicroTokens::TOKEN.0)
    }

    /// Large enough that few requests use up a limit.
    fn cost(&mut self, place: usize, mood: Mood) -> MicroTokens {
        let tokens = self.watch.terms(place).map_or(1, |terms| match self.hot {
            // a cost that no burst could hold is no demand
            Some(_) if terms.limit.shape() == Shape::Flow => terms.whole.rate.min(terms.whole.burst).tokens_floor() / 2,
            Some(_) => terms.whole.burst.tokens_floor(),
            None if mood == Mood::Vain => terms.whole.burst.tokens_floor() + 1,
            None => self.chance.between(1, 1 + terms.whole.burst.tokens_floor() / 4),
        });
        MicroTokens(tokens.max(1) * MicroTokens::TOKEN.0)
    }

    /// The question reaches the store later, and its answer the agent later still.
    fn put_question(&mut self, r: usize, places: std::ops::Range<usize>, cost: MicroTokens) {
        let Some(asked) = self.regions[r].question(places, cost, false, self.now) else { return };
        let span = self.chance.pick(&[1_000, 100_000, SECOND, 4 * SECOND]);
        let (decided, heard) = (self.chance.between(0, span), self.chance.between(0, span));
        self.schedule(decided, Event::Decide { r, asked: Box::new(asked), cost, heard });
    }

    pub(super) fn decide(&mut self, r: usize, asked: Asked, cost: MicroTokens, heard: Micros) -> Result<(), Violation> {
        let heard = (self.now + heard).max(self.regions[r].paused_until);
        let verdict = self.regions[r].decide_late(asked, self.now, heard);
        self.conclude(r, verdict, cost)?;
        self.watch.decided_late(r);
        Ok(())
    }

    pub(super) fn conclude(&mut self, r: usize, verdict: Verdict, cost: MicroTokens) -> Result<(), Violation> {
        if let Some(call) = verdict.call {
            self.issue(r, call);
        }
        if !verdict.admitted.is_empty() {
            self.requests.1 += 1;
            self.tell(Some(r), || {
                let charged = |(place, charge): &(usize, Charge)| format!("{place} (generation {})", charge.budget.generation);
                format!("admits {cost} of {}", verdict.admitted.iter().map(charged).collect::<Vec<_>>().join(", "))
            });
        }
        let enforced = verdict.let_pass.iter().find(|place| self.watch.enforces(**place));
        if let Some(place) = enforced {
            return Err(bound::let_pass(self.now, &self.regions[r].name, &self.catalogue.places[*place].policy));
        }
        let region = &self.regions[r];
        verdict.admitted.iter().try_for_each(|(place, charge)| self.watch.admit(self.now, r, region, *place, charge))
    }
}
