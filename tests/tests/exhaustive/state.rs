//! Everything at one instant, and what may happen next.

use super::canonical::{Clock, Date, Matters, Mix, Part, hash_of};
use super::coordinators::Coordinators;
use super::exploration::{Change, Entry, Exploration};
use super::region::{Region, Use};
use super::setting::{self, Left, Terms};
use quorate_shared::heartbeat::{Answer, Heartbeat};
use quorate_shared::mistake;
use quorate_shared::policy::Shape;
use quorate_shared::time::LocalTime;
use quorate_shared::units::{Capacity, MicroTokens};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Time goes on by the setting's tick.
    Wait,
    /// A region sends a heartbeat.
    Send(usize),
    /// A heartbeat under way reaches the leader, and comes into the log. The leader would like to
    /// give everything to the region that is favoured.
    Commit { beat: usize, favoured: usize },
    /// The entry that the last leader left behind comes into the log before any of the new one.
    CommitStranded,
    /// A copy of a heartbeat that was taken before comes into the log.
    Repeat,
    /// An answer under way reaches its region.
    Receive(usize),
    /// A region takes the next step in applying a response.
    Step(usize),
    /// Another leader, or the same one after a restart in its term. The old one may leave behind a
    /// heartbeat under way: dated, and not in the log yet.
    Elect { same_term: bool, stranded: Option<usize> },
    /// An agent dies and starts again.
    Restart(usize),
    /// A store loses everything.
    Lose(usize),
    /// An operator changes the policies.
    ChangePolicies,
    /// A region spends all units that it may.
    Spend(usize),
    /// A store's clock comes to show the next window.
    Turn(usize),
    /// The second agent of the first region asks its store something.
    Look,
}

/// Everything at one instant.
#[derive(Clone, Debug)]
pub struct State {
    /// True time, in microseconds.
    now: u64,
    /// The coordinators.
    pub coordinators: Coordinators,
    /// The regions.
    pub regions: [Arc<Part<Region>>; 2],
    /// Heartbeats under way. One that is lost is one that never arrives; one that arrives again is [`Action::Repeat`].
    beats: Vec<(usize, Arc<Part<Heartbeat>>)>,
    /// Answers under way, again and again until no agent would heed them.
    answers: Vec<(usize, Arc<Part<Answer>>)>,
    /// A heartbeat that was taken.
    taken: Option<Arc<Part<Heartbeat>>>,
    /// What may still happen.
    left: Left,
    rates: [u64; 2],
    key: u64,
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.key.hash(hasher);
    }
}

/// What a clock of this rate shows of a span of true time.
pub fn shown(span: u64, rate: u64) -> u64 {
    u64::try_from(u128::from(span) * u128::from(rate) / 1_000_000).unwrap_or(u64::MAX)
}

fn micros(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// Long after every clock began.
const BEGINNING: u64 = 1_000_000_000;

impl State {
    /// The first state of an exploration.
    pub fn first(within: &Exploration) -> Self {
        mistake::make(within.setting.mistake);
        let setting = &within.setting;
        let region = |which: usize| {
            let region = Region::new(which, setting, LocalTime::from_micros(shown(BEGINNING, setting.agents[which])));
            Arc::new(Part::with_text(region.text(), region))
        };
        let mut state = Self {
            now: BEGINNING,
            coordinators: Coordinators::found(setting, BEGINNING),
            regions: [region(0), region(1)],
            beats: Vec::new(),
            answers: Vec::new(),
            taken: None,
            left: Left { beats: [u8::MAX; 2], ..setting.left },
            rates: setting.agents,
            key: 0,
        };
        if setting.lent {
            (0..8).for_each(|round| state.renew(within, round % 2));
        }
        state.left = setting.left;
        state.key = state.key(within);
        state
    }

    /// One heartbeat of a region and all that follows.
    fn renew(&mut self, within: &Exploration, region: usize) {
        self.change(within, region, &Change::Look);
        self.happen(within, Action::Send(region));
        self.happen(within, Action::Commit { beat: 0, favoured: 0 });
        self.happen(within, Action::Receive(0));
        while self.regions[region].value.is_applying() {
            self.happen(within, Action::Step(region));
        }
        self.change(within, region, &Change::Look);
    }

    /// What an agent's clock shows.
    pub fn local(&self, region: usize) -> LocalTime {
        LocalTime::from_micros(shown(self.now, self.rates[region]))
    }

    /// What a region may use now.
    pub fn uses(&self, region: usize) -> Use {
        self.regions[region].value.uses(self.local(region))
    }

    /// What may still happen.
    pub const fn left(&self) -> Left {
        self.left
    }

    /// What a region has counting now.
    pub fn counted(&self, region: usize) -> MicroTokens {
        self.regions[region].value.counted(self.local(region))
    }

    /// Units that all regions together have spent of a window, by its place in time.
    pub fn spent(&self, window: usize) -> MicroTokens {
        let [a, b] = [0, 1].map(|region| self.regions[region].value.spent(window));
        a.saturating_add(b)
    }

    /// What the policies in force make of the budget.
    pub fn terms<'a>(&self, within: &'a Exploration) -> &'a Terms {
        within.terms(self.coordinators.ledger.value.active_policies().version)
    }

    /// What all regions together may use now.
    pub fn total_use(&self) -> Capacity {
        self.uses(0).total().plus(self.uses(1).total())
    }

    /// All that may happen next.
    pub fn actions(&self, within: &Exploration, actions: &mut Vec<Action>) {
        actions.push(Action::Wait);
        (0..2).for_each(|region| self.region_actions(within, region, actions));
        let favoured = self.coordinators.favoured;
        actions.extend((0..self.beats.len()).map(|beat| Action::Commit { beat, favoured }));
        if self.left.swings > 0 {
            actions.extend((0..self.beats.len()).map(|beat| Action::Commit { beat, favoured: 1 - favoured }));
        }
        actions.extend((0..self.answers.len()).map(Action::Receive));
        if self.taken.is_some() {
            actions.push(Action::Repeat);
        }
        if self.coordinators.stranded.is_some() {
            actions.push(Action::CommitStranded);
        }
        if self.left.looks > 0 {
            actions.push(Action::Look);
        }
        if self.left.changes > 0 {
            actions.push(Action::ChangePolicies);
        }
        let more_to_come = !self.beats.is_empty() || self.left.beats != [0, 0];
        if self.left.elections > 0 && more_to_come {
            for stranded in std::iter::once(None).chain((0..self.beats.len()).map(Some)) {
                actions.extend([false, true].map(|same_term| Action::Elect { same_term, stranded }));
            }
        }
    }

    fn region_actions(&self, within: &Exploration, region: usize, actions: &mut Vec<Action>) {
        let busy = within.setting.one_at_a_time && self.regions[region].value.is_applying();
        if self.left.beats[region] > 0 && !busy {
            actions.push(Action::Send(region));
        }
        if self.regions[region].value.is_applying() {
            actions.push(Action::Step(region));
        }
        if self.left.restarts > 0 {
            actions.push(Action::Restart(region));
        }
        if self.left.losses > 0 {
            actions.push(Action::Lose(region));
        }
        if self.left.turns[region] > 0 {
            actions.push(Action::Turn(region));
        }
        if within.setting.limit.shape() == Shape::Allowance {
            actions.push(Action::Spend(region));
        }
    }

    /// What follows; `None` if that is nothing new.
    pub fn after(&self, within: &Exploration, action: Action) -> Option<Self> {
        // of the checker's own thread
        mistake::make(within.setting.mistake);
        let mut next = self.clone();
        next.happen(within, action);
        next.key = next.key(within);
        (next.key != self.key).then_some(next)
    }

    fn happen(&mut self, within: &Exploration, action: Action) {
        match action {
            Action::Wait => {
                self.now += micros(within.setting.tick);
                if !within.setting.drain().is_zero() {
                    (0..2).for_each(|region| self.change(within, region, &Change::Use));
                }
            }
            Action::Send(region) => {
                self.left.beats[region] -= 1;
                if within.setting.one_at_a_time {
                    // it no longer waits for the answer to an earlier one
                    self.answers.retain(|(of, _)| *of != region);
                }
                self.change(within, region, &Change::Beat);
            }
            Action::Commit { beat, favoured } => {
                self.left.swings -= u8::from(favoured != self.coordinators.favoured);
                self.coordinators.favoured = favoured;
                let (region, beat) = self.beats.remove(beat);
                self.commit(within, region, &self.coordinators.stamp(beat, self.now));
            }
            Action::CommitStranded => {
                if let Some(entry) = self.coordinators.stranded.take() {
                    self.commit(within, usize::from(entry.heartbeat.value.region == setting::name(1)), &entry);
                }
            }
            Action::Repeat => {
                if let Some(beat) = &self.taken {
                    self.coordinators.commit(within, &self.coordinators.stamp(beat.clone(), self.now));
                }
            }
            Action::Receive(answer) => {
                let (region, answer) = self.answers[answer].clone();
                self.change(within, region, &Change::Receive(answer));
            }
            Action::Step(region) => {
                self.change(within, region, &Change::Step);
                while !within.setting.stepwise && self.regions[region].value.is_applying() {
                    self.change(within, region, &Change::Step);
                }
            }
            Action::Elect { same_term, stranded } => {
                self.left.elections -= 1;
                self.coordinators.stranded = stranded.map(|beat| self.coordinators.stamp(self.beats[beat].1.clone(), self.now));
                self.coordinators.elect(same_term, within.setting.leaders[1], self.now);
            }
            Action::Restart(region) => {
                self.left.restarts -= 1;
                self.change(within, region, &Change::Restart);
            }
            Action::Lose(region) => {
                self.left.losses -= 1;
                self.change(within, region, &Change::Lose);
            }
            Action::ChangePolicies => {
                self.left.changes -= 1;
                self.coordinators.change_policies(within);
            }
            Action::Look => {
                self.left.looks -= 1;
                self.change(within, 0, &Change::Look);
            }
            Action::Spend(region) => self.change(within, region, &Change::Use),
            Action::Turn(region) => {
                self.left.turns[region] -= 1;
                self.change(within, region, &Change::Turn);
            }
        }
    }

    fn change(&mut self, within: &Exploration, which: usize, change: &Change) {
        let (region, beat) = within.change(&self.regions[which], change, self.local(which));
        self.regions[which] = region;
        self.beats.extend(beat.map(|beat| (which, beat)));
        self.answers.retain(|(of, answer)| *of != which || within.heeds(&self.regions[which], answer));
    }

    fn commit(&mut self, within: &Exploration, region: usize, entry: &Entry) {
        let Some(answer) = self.coordinators.commit(within, entry) else { return };
        if matches!(answer.value, Answer::Renewed(_)) {
            self.taken = Some(entry.heartbeat.clone());
        }
        let awaited = !within.setting.one_at_a_time || self.regions[region].value.awaits(&entry.heartbeat.value);
        if awaited && within.heeds(&self.regions[region], &answer) {
            self.answers.push((region, answer));
        }
        let Self { regions, beats, coordinators, .. } = self;
        // what would only be refused from now on, without anybody learning from it
        beats.retain(|(region, beat)| match coordinators.ledger.value.overtaken(&beat.value) {
            None => true,
            Some(newest) => regions[*region].value.heeds(&Answer::Stale { newest }),
        });
    }

    /// What makes this state the same as another.
    fn key(&self, within: &Exploration) -> u64 {
        let mut hasher = Mix::default();
        let Coordinators { ledger, office, log_office, stranded, favoured, refused_entry_counted, .. } = &self.coordinators;
        hash_of(&(self.left, office, log_office, favoured, refused_entry_counted, self.taken.is_some())).hash(&mut hasher);
        if office != log_office {
            // its first entry will date every session from its election
            self.coordinators.leader_time(self.now).as_micros().min(micros(within.setting.longest())).hash(&mut hasher);
        }
        let present =
            |agent: usize| Present { state: self, agent, longest: micros(within.setting.longest()), drain: micros(within.setting.drain()) };
        present(0).hash(ledger, &mut hasher);
        if let Some(Entry { heartbeat, .. }) = stranded {
            present(0).hash(heartbeat, &mut hasher);
        }
        self.regions.iter().enumerate().for_each(|(agent, region)| present(agent).hash(region, &mut hasher));
        let beats = self.beats.iter().map(|(region, beat)| present(*region).digest(beat));
        let answers = self.answers.iter().map(|(region, answer)| present(*region).digest(answer));
        // the order in which messages were sent does not matter
        for mut messages in [beats.collect::<Vec<u64>>(), answers.collect()] {
            messages.sort_unstable();
            messages.hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// From where dates are seen: by how far they are off, if what they begin is not over.
struct Present<'a> {
    state: &'a State,
    agent: usize,
    longest: u64,
    drain: u64,
}

impl Present<'_> {
    fn digest<T>(&self, part: &Part<T>) -> u64 {
        let mut hasher = Mix::default();
        self.hash(part, &mut hasher);
        hasher.finish()
    }

    fn hash<T>(&self, part: &Part<T>, hasher: &mut impl Hasher) {
        part.shape.hash(hasher);
        part.dates.iter().for_each(|date| self.distance(*date).hash(hasher));
    }

    fn distance(&self, date: Date) -> i64 {
        let Coordinators { office, log_office, stranded, .. } = &self.state.coordinators;
        let now = match date.clock {
            Clock::Store => self.state.regions[self.agent].value.store_time(self.state.local(self.agent)).as_micros(),
            Clock::Agent => self.state.local(self.agent).as_micros(),
            Clock::Leader(of) if of.unwrap_or(*log_office) == *office => self.state.coordinators.leader_time(self.state.now).as_micros(),
            // means nothing any more, unless an entry of that office is still to come: the last of it
            Clock::Leader(_) => match stranded {
                Some(entry) => entry.at.as_micros(),
                None => return i64::MIN,
            },
        };
        let signed = |micros: u64| i64::try_from(micros).unwrap_or(i64::MAX);
        let least = -signed(match date.matters {
            Matters::Longest => self.longest,
            Matters::Drain => self.drain,
            Matters::MoreThanDrain => self.drain + 1,
        });
        (signed(date.at) - signed(now)).max(least)
    }
}
