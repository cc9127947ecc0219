//! Whose clock a heartbeat is dated by: one leader's time in office.

use crate::clock::{RawInstant, Slept};
use parking_lot::Mutex;
use quorate_shared::heartbeat::Office;
use quorate_shared::time::LeaderTime;

/// The time of this process in office. It hands out one clock for each term that it leads,
/// and another one if the machine slept meanwhile, since the raw clock does not count that.
#[derive(Debug)]
pub struct OfficeClock(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Names this process and, after a sleep, its new clock.
    process: u64,
    slept: Slept,
    term: Option<(u64, RawInstant)>,
}

impl OfficeClock {
    /// A clock of a process that has just begun; its number is drawn at random.
    pub fn new() -> Result<Self, getrandom::Error> {
        Ok(Self(Mutex::new(State { process: getrandom::u64()?, slept: Slept::until_now(), term: None })))
    }

    /// Office and time of the leader of `term`, which this process must have been seen to be
    /// before this is called: the clock of a term begins at the first call, so never before the
    /// election was won.
    pub fn now(&self, term: u64) -> (Office, LeaderTime) {
        // Read in this order, a sleep between the two readings makes a new clock.
        let now = RawInstant::now();
        let slept = Slept::until_now();
        self.at(term, now, slept)
    }

    fn at(&self, term: u64, now: RawInstant, slept: Slept) -> (Office, LeaderTime) {
        let mut state = self.0.lock();
        if slept.more_than(state.slept) {
            state.process = state.process.wrapping_add(1);
            state.term = None;
            state.slept = slept;
        }
        let start = match state.term {
            Some((known, start)) if known == term => start,
            // an office that is over: its clock must not take the place of the present one's
            Some((known, _)) if known > term => now,
            _ => {
                state.term = Some((term, now));
                now
            }
        };
        (Office { term, process: state.process }, LeaderTime::ZERO.after(now.since(start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    fn awake() -> Slept {
        Slept::between(us(100), us(103))
    }

    fn clock() -> OfficeClock {
        OfficeClock(Mutex::new(State { process: 7, slept: awake(), term: None }))
    }

    #[test]
    fn a_term_has_one_clock_and_the_next_term_another() {
        let clock = clock();
        let (first, zero) = clock.at(3, RawInstant::at(us(1_000)), awake());
        assert_eq!((first, zero), (Office { term: 3, process: 7 }, LeaderTime::ZERO));
        assert_eq!(clock.at(3, RawInstant::at(us(1_250)), awake()), (first, LeaderTime::from_micros(250)));
        let (second, zero) = clock.at(4, RawInstant::at(us(2_000)), awake());
        assert_eq!((second, zero), (Office { term: 4, process: 7 }, LeaderTime::ZERO));
        // a reader of the old term that was held up
        assert_eq!(clock.at(3, RawInstant::at(us(2_100)), awake()), (first, LeaderTime::ZERO));
        assert_eq!(clock.at(4, RawInstant::at(us(2_200)), awake()), (second, LeaderTime::from_micros(200)));
    }

    #[test]
    fn a_sleep_ends_the_clock_within_its_term() {
        let clock = clock();
        let (before, _) = clock.at(3, RawInstant::at(us(1_000)), awake());
        let (after, zero) = clock.at(3, RawInstant::at(us(1_500)), Slept::between(us(104), us(108)));
        assert_eq!((after.term, zero), (3, LeaderTime::ZERO));
        assert_ne!(after.process, before.process);
        assert_eq!(clock.at(3, RawInstant::at(us(1_600)), Slept::between(us(105), us(109))).0, after);
    }

    #[test]
    fn two_processes_have_two_numbers() {
        let office = || OfficeClock::new().expect("randomness").now(1).0;
        assert_ne!(office(), office());
    }
}
