//! A second agent of a region: it decides by the same store, and renews nothing (R8).

use super::Micros;
use super::chance::Chance;
use super::clock::Clock;
use super::region::{Region, Usable};
use super::request::{Verdict, decision_by_place};
use quorate_limiter::decision::{Charge, LeaseView, Question, Reply};
use quorate_limiter::follower::Follower;
use quorate_shared::heartbeat::PoliciesInForce;
use quorate_shared::time::{Drift, LocalTime};
use quorate_shared::units::MicroTokens;
use std::ops::Range;

/// What dies with its process, and its machine's clock.
#[derive(Debug)]
pub struct FollowingAgent {
    clock: Clock,
    lease: Follower,
    policies: PoliciesInForce,
    charges: Vec<Option<Charge>>,
}

impl FollowingAgent {
    fn new(now: Micros, drift: Drift, chance: &mut Chance) -> Self {
        let clock = Clock::new(chance.below(100 * super::SECOND), drift, chance);
        let lease = Follower::new(LocalTime::from_micros(clock.read(now)));
        Self { clock, lease, policies: PoliciesInForce::default(), charges: Vec::new() }
    }

    fn local(&self, now: Micros) -> LocalTime {
        LocalTime::from_micros(self.clock.read(now))
    }

    fn view(&self, now: Micros) -> LeaseView {
        self.lease.view(self.local(now), self.policies)
    }
}

impl Region {
    /// A second agent begins, in place of the one that there may have been.
    pub fn start_follower(&mut self, now: Micros, chance: &mut Chance) {
        self.follower = (!self.stopped).then(|| FollowingAgent::new(now, self.drift, chance));
    }

    /// A request to the second agent, decided at once; it hears the answer at `heard`.
    pub fn ask_follower(&mut self, places: Range<usize>, cost: MicroTokens, now: Micros, heard: Micros) -> Verdict {
        let Some(mut agent) = self.follower.take() else { return Verdict::default() };
        let matched: Vec<usize> = places.filter(|place| agent.charges.get(*place).is_some_and(Option::is_some)).collect();
        let charge = |place: &usize| agent.charges.get(*place).cloned().flatten().map(|charge| Charge { cost, ..charge });
        let charges: Vec<Charge> = matched.iter().filter_map(charge).collect();
        let (view, horizon) = (agent.view(now), agent.lease.view_horizon(agent.local(now)));
        let leased = view.leased;
        let question = Question { view, drift: self.drift, charges: charges.clone() };
        let reply = if charges.is_empty() { None } else { Some(self.store.decide(now, &question, None)) };
        self.look(&mut agent, now, heard);
        let verdict = match reply {
            // an admission that used a leased part counts only if the answer came before D
            Some(Reply::Decided(decision)) if decision.allowed => {
                let used_lease = leased && decision.limits.iter().any(|limit| limit.used_lease);
                let later = agent.local(heard).since(agent.local(now));
                let counts = (!used_lease || agent.local(heard) < horizon) && question.floors_hold(&decision, later);
                let (admitted, let_pass) = if counts { decision_by_place(&matched, &charges, &decision) } else { Default::default() };
                Verdict { admitted, let_pass, ..Verdict::default() }
            }
            _ => Verdict::default(),
        };
        self.follower = Some(agent);
        verdict
    }

    /// Every answer shows the newest number drawn and the newest response applied; what it does not
    /// know of that, the agent reads.
    fn look(&self, agent: &mut FollowingAgent, sent: Micros, heard: Micros) {
        let Some(record) = self.store.record(sent) else { return };
        let news = agent.lease.saw(record.sight(), agent.local(sent));
        if news {
            agent.lease.learn(record, agent.local(heard));
        }
        if record.policies.active < self.disk.in_force().active {
            // a call that opened a session was late, and brought what was in force when it was sent
            agent.charges.clear();
            agent.policies = PoliciesInForce::default();
        } else if (news || agent.policies != record.policies)
            && let Some(table) = self.disk.table(&self.name, record.policies)
        {
            (agent.policies, agent.charges) = (record.policies, Self::charges(&self.places, &table));
        }
    }

    /// What the second agent could admit of each place now.
    pub(super) fn usable_by_follower(&self, now: Micros) -> Option<Vec<Usable>> {
        let agent = self.follower.as_ref()?;
        let record = self.store.record(now).filter(|record| record.policies == agent.policies)?;
        Some(self.usable_by(record, &agent.view(now), &agent.charges, false))
    }

    /// When one of the second agent's horizons passes next.
    pub(super) fn next_horizon_of_follower(&self, now: Micros) -> Option<Micros> {
        let agent = self.follower.as_ref()?;
        let lease = &agent.lease;
        let horizons = [lease.view_horizon(agent.local(now)), lease.lease_horizon(), lease.floor_horizon()];
        let ends = self.ends_of_floors(&agent.charges, lease.contact().heard_by(agent.policies));
        horizons.into_iter().chain(ends).filter_map(|horizon| agent.clock.shows(horizon.as_micros(), now)).min()
    }
}
