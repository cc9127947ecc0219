//! One request in one region, as the real agent decides it.

use super::Micros;
use super::agent::Agent;
use super::call::Call;
use super::region::Region;
use quorate_limiter::decision::{Charge, Decision, Question, Reply};
use quorate_limiter::hold::NewHold;
use quorate_shared::time::LocalTime;
use quorate_shared::units::MicroTokens;
use std::ops::Range;

/// How often a question is put anew because the lease or the policies changed under it.
const ATTEMPTS: usize = 4;

/// A question on its way to the store.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The places that are charged.
    pub places: Vec<usize>,
    /// What is asked.
    pub question: Question,
    /// Until when all of the lease by which it was asked holds.
    horizon: LocalTime,
    /// When it was asked.
    at: LocalTime,
}

/// What came of a request.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The places that the store was asked about.
    pub asked: Vec<usize>,
    /// Of these, those that count as admitted, and what was charged there.
    pub admitted: Vec<(usize, Charge)>,
    /// Of these, those of which the request was let pass though it did not fit: they are observed only.
    pub let_pass: Vec<usize>,
    /// True if it was refused by a limit.
    pub refused: bool,
    /// What is to be done with the store, if it lost its record.
    pub call: Option<Call>,
}

impl Agent {
    fn question(&self, region: &Region, places: Range<usize>, cost: MicroTokens, without_lease: bool, now: LocalTime) -> Option<Asked> {
        let book = self.book.as_ref()?;
        let mut view = book.view(now);
        if without_lease {
            (view.leased, view.whole_floor) = (false, false);
        }
        view.policies = self.table.in_force();
        let matched: Vec<usize> = places.filter(|place| self.charges.get(*place).is_some_and(Option::is_some)).collect();
        let charge = |place: &usize| self.charges.get(*place).cloned().flatten().map(|charge| Charge { cost, ..charge });
        let charges: Vec<Charge> = matched.iter().filter_map(charge).collect();
        let question = Question { view, drift: region.drift, charges };
        (!matched.is_empty()).then_some(Asked { places: matched, question, horizon: book.view_horizon(now), at: now })
    }
}

impl Region {
    /// A request, decided at once; of an estimate a hold is kept.
    pub fn ask(&mut self, places: Range<usize>, cost: MicroTokens, hold: Option<NewHold>, now: Micros) -> Verdict {
        let mut without_lease = false;
        for _ in 0..ATTEMPTS {
            let Some(asked) = self.question(places.clone(), cost, without_lease, now) else { break };
            match self.store.decide(now, &asked.question, hold) {
                Reply::Decided(decision) => {
                    let verdict = self.conclude(asked, &decision, now, true);
                    if let Some(agent) = self.agent.as_mut().filter(|_| hold.is_some()) {
                        verdict.admitted.iter().for_each(|(_, charge)| agent.demand.note_estimate(charge));
                    }
                    return verdict;
                }
                Reply::OtherLease(_) => without_lease = true,
                Reply::OtherPolicies(_) => {
                    without_lease = true;
                    self.go_by_upcoming();
                }
                Reply::NoRecord if !self.is_busy() => return Verdict { call: self.open(now), ..Verdict::default() },
                Reply::NoRecord => break,
            }
        }
        Verdict::default()
    }

    /// A question that the agent puts now, for the store to decide later.
    pub fn question(&self, places: Range<usize>, cost: MicroTokens, without_lease: bool, now: Micros) -> Option<Asked> {
        self.agent.as_ref()?.question(self, places, cost, without_lease, self.local(now))
    }

    /// The store decides a question that was put some time ago; the agent hears of it at `heard`.
    pub fn decide_late(&mut self, asked: Asked, now: Micros, heard: Micros) -> Verdict {
        let reply = self.store.decide(now, &asked.question, None);
        let session = self.agent.as_ref().and_then(|agent| agent.book.as_ref()).map(|book| book.session());
        if session != Some(asked.question.view.number.session) {
            // nobody is there to hear it
            return Verdict::default();
        }
        match reply {
            Reply::Decided(decision) => {
                // R8: an admission that used a leased part counts only if the answer came before D
                let used_lease = asked.question.view.leased && decision.limits.iter().any(|limit| limit.used_lease);
                let heard_at = self.local(heard);
                let floors_hold = asked.question.floors_hold(&decision, heard_at.since(asked.at));
                let counts = (!used_lease || heard_at < asked.horizon) && floors_hold;
                self.conclude(asked, &decision, heard, counts)
            }
            _ => Verdict::default(),
        }
    }

    fn conclude(&mut self, asked: Asked, decision: &Decision, heard: Micros, counts: bool) -> Verdict {
        let local = self.local(heard);
        if let Some(agent) = self.agent.as_mut() {
            for (charge, limit) in asked.question.charges.iter().zip(&decision.limits) {
                agent.demand.count(local, charge, decision.allowed, limit);
            }
        }
        let (admitted, let_pass) =
            if counts { decision_by_place(&asked.places, &asked.question.charges, decision) } else { Default::default() };
        Verdict { asked: asked.places, admitted, let_pass, refused: !decision.allowed, call: None }
    }

    /// A response is being applied: its policies are in force in the store already.
    fn go_by_upcoming(&mut self) {
        let Some(agent) = self.agent.as_mut() else { return };
        if let Some((table, charges)) = agent.upcoming.clone() {
            (agent.table, agent.charges) = (table, charges);
        }
    }
}

/// Of these places, those that an allowed request was charged to, with the charge, and those that let it pass.
pub(super) fn decision_by_place(places: &[usize], charges: &[Charge], decision: &Decision) -> (Vec<(usize, Charge)>, Vec<usize>) {
    let each = places.iter().zip(charges).zip(&decision.limits).filter(|_| decision.allowed);
    let (fit, unfit): (Vec<_>, Vec<_>) = each.partition(|(_, limit)| limit.fits);
    let charged = fit.into_iter().map(|((place, charge), _)| (*place, charge.clone())).collect();
    (charged, unfit.into_iter().map(|((place, _), _)| *place).collect())
}
