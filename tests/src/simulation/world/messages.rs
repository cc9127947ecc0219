//! Heartbeats on their way, and what agents ask of their stores.

use super::{Event, PERIOD, World};
use crate::simulation::Micros;
use crate::simulation::SECOND;
use crate::simulation::call::{Call, InFlight, Outcome};
use crate::simulation::fault::Fault;
use quorate_ledger::{Plan, StampedHeartbeat, UnitPlan};
use quorate_shared::heartbeat::{Answer, Grant, Heartbeat, Holding, Number, Report};
use quorate_shared::names::{BudgetId, RegionName};
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::BTreeMap;

/// The shortest span between two heartbeats, unless the first gave something up.
const EAGER: Micros = SECOND / 4;
/// After a heartbeat that nobody could be asked for.
const RETRY: Micros = SECOND / 5;
/// How long an agent waits for its store.
const STORE_TIMEOUT: Micros = SECOND;

impl World {
    /// The next heartbeat of a region is `after` from now, whatever was planned before.
    pub(super) fn schedule_beat(&mut self, r: usize, after: Micros, early: bool) {
        let pulse = &mut self.pulses[r];
        pulse.turn += 1;
        pulse.next = self.now + after;
        let turn = pulse.turn;
        self.schedule(after, Event::Beat { r, turn, early });
    }

    /// Somebody is refused: the coordinators are to hear of it soon.
    pub(super) fn hurry(&mut self, r: usize) {
        let pulse = self.pulses[r];
        let soonest = (pulse.last + EAGER).max(self.now);
        if soonest < pulse.next {
            self.schedule_beat(r, soonest - self.now, true);
        }
    }

    pub(super) fn beat(&mut self, r: usize, turn: u64, early: bool) {
        if turn != self.pulses[r].turn || self.regions[r].agent.is_none() {
            return;
        }
        if self.now < self.regions[r].paused_until {
            return self.schedule_beat(r, self.regions[r].paused_until - self.now, early);
        }
        if self.regions[r].needs_session() {
            self.schedule_beat(r, RETRY, early);
            return self.open(r);
        }
        // one after the other; but several agents of a region would not wait
        if self.regions[r].is_busy() && self.chance.per_mille(600) {
            return self.schedule_beat(r, EAGER / 2, early);
        }
        let pause = self.chance.between(PERIOD * 9 / 10, PERIOD * 11 / 10);
        self.schedule_beat(r, pause, false);
        self.pulses[r].last = self.now;
        if self.hot.is_some() {
            self.pulses[r].healing += 1;
        }
        if self.profile.seats && self.chance.per_mille(600) {
            self.regions[r].hold_seat(self.now);
            self.touch(r);
        }
        match self.regions[r].beat(self.now) {
            Ok(Some(beat)) => self.send_beat(r, beat),
            Ok(None) => {}
            Err(_) if !self.regions[r].is_busy() => self.open(r),
            Err(_) => {}
        }
    }

    fn open(&mut self, r: usize) {
        if let Some(call) = self.regions[r].open(self.now) {
            self.issue(r, call);
        }
    }

    fn send_beat(&mut self, r: usize, beat: Heartbeat) {
        let Some(node) = self.network.ask(r, self.now) else {
            self.tell(Some(r), || format!("heartbeat {} reaches nobody", beat.number));
            return self.schedule_beat(r, RETRY, true);
        };
        self.tell(Some(r), || {
            let echo = beat.echo.map_or("nothing".to_owned(), |stamp| stamp.number.to_string());
            let spent: String = beat.spent.iter().map(|s| format!(", spent {} of {}", s.units, s.label.start().as_micros())).collect();
            let drained: String = beat.drained.iter().map(|(_, stamp)| format!(", drained {}", stamp.number)).collect();
            let reports: Vec<String> = beat.reports.iter().map(report_in_words).collect();
            format!("heartbeat {} to coordinator {node}, echo {echo}, reports [{}]{spent}{drained}", beat.number, reports.join("; "))
        });
        if self.hazard(Fault::HeartbeatDoubled) {
            self.send(Event::Arrive { r, node, beat: Box::new(beat.clone()) });
        }
        self.send(Event::Arrive { r, node, beat: Box::new(beat) });
    }

    /// A message on its way: late, very late or lost.
    fn send(&mut self, message: Event) {
        if self.hazard(Fault::MessageLost) {
            return;
        }
        let delay = match self.hazard(Fault::MessageLate) {
            true => self.chance.between(SECOND / 2, 8 * SECOND),
            false => self.chance.between(100, 150_000),
        };
        self.schedule(delay, message);
    }

    pub(super) fn arrive(&mut self, r: usize, node: usize, beat: Heartbeat) {
        let number = beat.number;
        let Some(mut entry) = self.cluster.stamp(node, beat, self.now) else {
            self.network.ask_another(r);
            return;
        };
        if let Some(plans) = self.proposal(&entry.heartbeat) {
            (entry.plans, entry.unit_plans) = plans;
        } else if self.hazard(Fault::PlansAtRandom) {
            entry.plans = self.plans_at_random(&entry.heartbeat);
            entry.unit_plans = self.unit_plans_at_random(&entry.heartbeat);
        }
        self.tell(Some(r), || {
            let plans: Vec<String> = entry.plans.iter().map(plan_in_words).collect();
            format!("heartbeat {number} dated {:?} by {:?}, plans [{}]", entry.at, entry.office, plans.join("; "))
        });
        let delay = match self.hazard(Fault::CommitLate) {
            true => self.chance.between(100_000, 6 * SECOND),
            false => self.chance.between(100, 20_000),
        };
        self.schedule(delay, Event::Commit { r, node, entry: Box::new(entry) });
    }

    /// Any plan at all for what a heartbeat reports: the ledger offers of it what R4 allows.
    fn plans_at_random(&mut self, beat: &Heartbeat) -> Vec<Plan> {
        let budgets: Vec<BudgetId> = beat.reports.iter().map(|report| report.budget.clone()).collect();
        budgets.into_iter().map(|budget| Plan { budget, targets: self.targets_at_random() }).collect()
    }

    /// The same of the windows that it has opened.
    fn unit_plans_at_random(&mut self, beat: &Heartbeat) -> Vec<UnitPlan> {
        let names = self.catalogue.regions.clone();
        let of = |id: &BudgetId| beat.windows.iter().find(|w| w.policy == id.policy && w.generation == id.generation);
        let windows: Vec<_> = beat.reports.iter().filter_map(|r| Some((r.budget.clone(), of(&r.budget)?.label))).collect();
        let mut target = |name: &RegionName| (name.clone(), MicroTokens(self.chance.between(0, 30) * MicroTokens::TOKEN.0));
        let plan = |(budget, label)| UnitPlan { budget, label, targets: names.iter().map(&mut target).collect() };
        windows.into_iter().map(plan).collect()
    }

    fn targets_at_random(&mut self) -> BTreeMap<RegionName, Holding> {
        let names = self.catalogue.regions.clone();
        let mut part = |n: u64| {
            let tokens = |n: u64| MicroTokens(n * MicroTokens::TOKEN.0);
            let units = if self.chance.per_mille(500) { 0 } else { self.chance.between(1, n) };
            Capacity::new(tokens(units), tokens(units))
        };
        let mut target = |name: &RegionName| {
            let lenders = names.iter().filter(|lender| *lender != name);
            let borrowed = lenders.map(|lender| (lender.clone(), part(12))).filter(|(_, loan)| !loan.is_zero()).collect();
            (name.clone(), Holding { pool: part(30), lent: part(12), borrowed })
        };
        names.iter().map(&mut target).collect()
    }

    pub(super) fn commit(&mut self, r: usize, node: usize, entry: StampedHeartbeat) {
        let sent = (entry.heartbeat.number, entry.heartbeat.nonce);
        let answer = self.cluster.commit(entry);
        self.ledger_changed = true;
        let Some(answer) = answer else {
            return self.tell(Some(r), || format!("heartbeat {} is not committed: its leader leads no more", sent.0));
        };
        self.tell(Some(r), || format!("heartbeat {} committed: {}", sent.0, in_words(&answer)));
        if !self.network.answers(r, node, self.now) {
            return;
        }
        if self.hazard(Fault::AnswerDoubled) {
            self.send(Event::Answer { r, sent, answer: Box::new(answer.clone()) });
        }
        self.send(Event::Answer { r, sent, answer: Box::new(answer) });
    }

    pub(super) fn answer(&mut self, r: usize, sent: (Number, u64), answer: Answer) {
        let paused_until = self.regions[r].paused_until;
        if self.now < paused_until {
            return self.schedule(paused_until - self.now, Event::Answer { r, sent, answer: Box::new(answer) });
        }
        self.tell(Some(r), || format!("the answer to {} arrives", sent.0));
        if let Some(call) = self.regions[r].receive(sent, answer, self.now) {
            self.issue(r, call);
        }
        self.touch(r);
    }

    /// The agent asks its store; what follows at once is done at once.
    pub(super) fn issue(&mut self, r: usize, call: Call) {
        let mut next = Some(call);
        while let Some(call) = next.take() {
            let ticket = self.regions[r].ticket();
            if self.hazard(Fault::AgentKilledInStep) {
                return self.die_asking(r, ticket, call);
            }
            let outcome = if self.hazard(Fault::CallRefused) {
                Outcome::Unknown
            } else if self.hazard(Fault::CallCutShort) {
                self.perform(r, &call);
                Outcome::Unknown
            } else if self.hazard(Fault::StoreSlow) {
                return self.wait_for_store(r, ticket, call);
            } else if self.chance.per_mille(250) {
                let (delay, answer_after) = (self.chance.between(10, 1_000), self.chance.between(0, 1_000));
                let call = Box::new(InFlight { ticket, call, run: self.regions[r].store.run(), answered: true });
                return self.schedule(delay, Event::Effect { r, call, answer_after });
            } else {
                self.perform(r, &call)
            };
            next = self.regions[r].proceed(outcome, self.now);
        }
        self.follow(r);
    }

    fn die_asking(&mut self, r: usize, ticket: u64, call: Call) {
        self.tell(Some(r), || "the agent dies with a call under way".to_owned());
        let delay = self.chance.pick(&[0, 0, 1_000, 3 * SECOND]);
        self.schedule(
            delay,
            Event::Effect {
                r,
                call: Box::new(InFlight { ticket, call, run: self.regions[r].store.run(), answered: false }),
                answer_after: 0,
            },
        );
        self.kill(r);
    }

    fn wait_for_store(&mut self, r: usize, ticket: u64, call: Call) {
        let (effect, answer_after) = (self.chance.between(1_000, 4 * SECOND), self.chance.pick(&[0, 1_000, SECOND, 3 * SECOND]));
        self.schedule(
            effect,
            Event::Effect { r, call: Box::new(InFlight { ticket, call, run: self.regions[r].store.run(), answered: true }), answer_after },
        );
        self.schedule(STORE_TIMEOUT, Event::TimedOut { r, ticket });
    }

    fn perform(&mut self, r: usize, call: &Call) -> Outcome {
        let outcome = self.regions[r].store.perform(self.now, call);
        self.touch(r);
        self.tell(Some(r), || {
            let end = match &outcome {
                Outcome::Refused(refusal) => format!("refused: {refusal}"),
                _ => "done".to_owned(),
            };
            format!("{}: {end}", call_in_words(call))
        });
        outcome
    }

    pub(super) fn take_effect(&mut self, r: usize, call: InFlight, answer_after: Micros) {
        let lost = call.run != self.regions[r].store.run();
        let outcome = if lost { Outcome::Unknown } else { self.perform(r, &call.call) };
        if call.answered {
            match answer_after {
                0 => self.done(r, call.ticket, outcome),
                after => self.schedule(after, Event::Done { r, ticket: call.ticket, outcome }),
            }
        }
    }

    /// The agent hears how a call ended, if it waits for that one.
    pub(super) fn done(&mut self, r: usize, ticket: u64, outcome: Outcome) {
        if !self.regions[r].awaits(ticket) {
            return;
        }
        let paused_until = self.regions[r].paused_until;
        if self.now < paused_until {
            return self.schedule(paused_until - self.now, Event::Done { r, ticket, outcome });
        }
        self.touch(r);
        match self.regions[r].proceed(outcome, self.now) {
            Some(call) => self.issue(r, call),
            None => self.follow(r),
        }
    }

    /// What the agent does after it is done with its store.
    fn follow(&mut self, r: usize) {
        self.touch(r);
        if std::mem::take(&mut self.regions[r].eager) {
            self.schedule_beat(r, 1, true);
        }
    }
}

pub(super) fn in_words(answer: &Answer) -> String {
    match answer {
        Answer::Renewed(response) => {
            let offers: Vec<String> =
                response.offers.iter().map(|offer| format!("{} {}", offer.budget.policy, holding_in_words(&offer.holding))).collect();
            let lenders: Vec<String> = response.lenders.iter().map(|(name, left)| format!("{name} {left:?}")).collect();
            let kind = if response.full { "full" } else { "renewed" };
            let grants = grants_in_words(&response.grants);
            format!("{kind}, policies {:?}, offers [{}], promises [{}]{grants}", response.policies, offers.join("; "), lenders.join(", "))
        }
        Answer::Stale { newest } => format!("stale, the newest is {newest}"),
        Answer::UnknownRegion => "unknown region".to_owned(),
        Answer::Restoring { remaining } => format!("restored, and quiet for {remaining:?} yet"),
    }
}

fn report_in_words(report: &Report) -> String {
    format!("{} wants {}, largest {}", report.budget.policy, report.demand, report.largest)
}

fn plan_in_words(plan: &Plan) -> String {
    let targets = plan.targets.iter().map(|(name, target)| format!("{name} {}", holding_in_words(target)));
    format!("{}: {}", plan.budget.policy, targets.collect::<Vec<_>>().join(", "))
}

fn holding_in_words(holding: &Holding) -> String {
    let part = |c: quorate_shared::units::Capacity| format!("{}/{}", c.rate, c.burst);
    let loans: Vec<String> = holding.borrowed.iter().map(|(lender, loan)| format!("{} of {lender}", part(*loan))).collect();
    format!("pool {}, lent {}, borrowed [{}]", part(holding.pool), part(holding.lent), loans.join(", "))
}

fn grants_in_words(grants: &[Grant]) -> String {
    let grant = |g: &Grant| format!(", grants {} of {}, used at most {}", g.granted, g.label.start().as_micros(), g.used_at_most);
    grants.iter().map(grant).collect()
}

fn call_in_words(call: &Call) -> String {
    match call {
        Call::Open(opening) => format!("opens session {}", opening.session),
        Call::Take(number) => format!("takes {number}"),
        Call::Write(change) => {
            let parts = change.settlements.iter().map(|s| format!("{} {}", s.budget.policy, holding_in_words(&s.holding)));
            format!("writes for {}: {}{}", change.number, parts.collect::<Vec<_>>().join("; "), grants_in_words(&change.grants))
        }
        Call::Finish(finish) => {
            let changed = finish.changed.len();
            format!("finishes {}, lapsed {}, {changed} policies changed, {:?}", finish.stamp.number, finish.lapsed, finish.policies)
        }
    }
}
