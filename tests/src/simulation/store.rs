//! One region's store: a Redis with its replica, its backup and its host's wall clock.

use super::Micros;
use super::call::{Call, Outcome};
use super::chance::Chance;
use super::clock::Clock;
use quorate_limiter::decision::{Charge, Question, Reply};
use quorate_limiter::hold::{Beside, HoldId, NewHold, SettleReply};
use quorate_limiter::record::{Record, Refusal};
use quorate_limiter::seats::{SeatAnswer, SeatKeeper, SeatWord};
use quorate_limiter::store::{MemoryStore, Usage};
use quorate_shared::heartbeat::Excess;
use quorate_shared::time::{Drift, StoreTime};
use quorate_shared::units::MicroTokens;

/// One region's store.
#[derive(Debug)]
pub struct Store {
    memory: MemoryStore,
    seats: SeatKeeper,
    /// What its replica knew at some instant, and its last backup.
    replica: Option<(MemoryStore, SeatKeeper)>,
    backup: Option<(MemoryStore, SeatKeeper)>,
    /// The run id: another one after a restart, a failover or a restore.
    run: u64,
    identity: String,
    clock: Clock,
    /// How many questions were put: stands for a random number.
    asked: u128,
}

impl Store {
    /// An empty store.
    pub fn new(drift: Drift, chance: &mut Chance) -> Self {
        let clock = Clock::new(1_000_000 * super::SECOND, drift, chance);
        Self {
            memory: MemoryStore::default(),
            seats: SeatKeeper::default(),
            replica: None,
            backup: None,
            run: 1,
            identity: "run 1".into(),
            clock,
            asked: 0,
        }
    }

    fn time(&self, now: Micros) -> StoreTime {
        StoreTime::from_micros(self.clock.read(now))
    }

    /// What its host's clock shows, in microseconds.
    pub fn clock_micros(&self, now: Micros) -> u64 {
        self.clock.read(now)
    }

    /// The record, if this run of the store wrote it.
    pub fn record(&self, now: Micros) -> Option<&Record> {
        self.found(now).filter(|record| record.store == self.identity)
    }

    /// The record, whoever wrote it.
    pub fn found(&self, now: Micros) -> Option<&Record> {
        self.memory.record(self.time(now))
    }

    /// Does what is asked.
    pub fn perform(&mut self, now: Micros, call: &Call) -> Outcome {
        let time = self.time(now);
        if !matches!(call, Call::Open(_)) && self.record(now).is_none() {
            return Outcome::Refused(Refusal::NoRecord);
        }
        let done = match call {
            Call::Open(opening) => self.memory.open_session(time, opening, &self.identity),
            Call::Take(number) => self.memory.take(time, *number),
            Call::Write(change) => self.memory.write(time, change),
            Call::Finish(finish) => self.memory.finish(time, finish),
        };
        match done {
            Err(refusal) => Outcome::Refused(refusal),
            Ok(()) if matches!(call, Call::Open(_)) => Outcome::Done(self.record(now).cloned().map(Box::new)),
            Ok(()) => Outcome::Done(None),
        }
    }

    /// What a budget has counting, or has spent in its newest window.
    pub fn usage(&self, now: Micros, charge: &Charge, drift: Drift) -> Option<Usage> {
        self.record(now)?;
        self.memory.usage(self.time(now), charge, drift)
    }

    /// Opens the newest windows.
    pub fn open_windows(&mut self, now: Micros) -> Result<&Record, Refusal> {
        if self.record(now).is_none() {
            return Err(Refusal::NoRecord);
        }
        self.memory.open_windows(self.time(now))
    }

    /// Draws the number of the next heartbeat of a session.
    pub fn draw_seq(&mut self, now: Micros, session: u64) -> Result<u64, Refusal> {
        if self.record(now).is_none() {
            return Err(Refusal::NoRecord);
        }
        self.memory.draw_seq(self.time(now), session)
    }

    /// Takes an agent's word on its seat.
    pub fn seat(&mut self, now: Micros, word: &SeatWord) -> Result<SeatAnswer, Refusal> {
        let time = self.time(now);
        let record = self.memory.record(time).filter(|record| record.store == self.identity);
        self.seats.take(time, record, word)
    }

    /// Decides a question; of an estimate a hold is kept.
    pub fn decide(&mut self, now: Micros, question: &Question, hold: Option<NewHold>) -> Reply {
        match self.record(now) {
            None => Reply::NoRecord,
            Some(_) => {
                self.asked += 1;
                let beside = Beside { slot: Some(HoldId::from_bits(self.asked)), hold };
                self.memory.decide_beside(self.time(now), question, &beside)
            }
        }
    }

    /// Puts the true cost in the place of an estimate.
    pub fn settle(&mut self, now: Micros, hold: HoldId, cost: MicroTokens, grounds: Option<&Question>) -> SettleReply {
        match self.record(now) {
            None => SettleReply::NoRecord,
            Some(_) => self.memory.settle_hold(self.time(now), hold, cost, grounds),
        }
    }

    /// What was used beyond limits.
    pub fn excesses(&self, now: Micros) -> Vec<Excess> {
        self.memory.excesses().by_policy(self.time(now))
    }

    /// Which run of the store this is.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Everything is gone.
    pub fn lose(&mut self) {
        (self.memory, self.seats) = (MemoryStore::default(), SeatKeeper::default());
        self.replica = None;
        self.begin_run();
    }

    /// Its replica has caught up.
    pub fn replicate(&mut self) {
        self.replica = Some((self.memory.clone(), self.seats.clone()));
    }

    /// It is saved.
    pub fn back_up(&mut self) {
        self.backup = Some((self.memory.clone(), self.seats.clone()));
    }

    /// The replica takes its place, with what it knew. False if there is none.
    pub fn fail_over(&mut self) -> bool {
        let Some(replica) = self.replica.clone() else { return false };
        (self.memory, self.seats) = replica;
        self.begin_run();
        true
    }

    /// It is restored from its last backup. False if there is none.
    pub fn restore(&mut self) -> bool {
        let Some(backup) = self.backup.clone() else { return false };
        (self.memory, self.seats) = backup;
        self.begin_run();
        true
    }

    fn begin_run(&mut self) {
        self.run += 1;
        self.identity = format!("run {}", self.run);
    }

    /// Its host's wall clock is put forward.
    pub fn step_forward(&mut self, now: Micros, span: u64) {
        self.clock.step_forward(now, span);
    }

    /// Its host's wall clock is put back.
    pub fn step_back(&mut self, now: Micros, span: u64) {
        self.clock.step_back(now, span);
    }
}
