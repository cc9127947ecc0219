//! Noticing that a store's clock steps forward: buckets refill by it, so each gains the step.
//!
//! The store's clock is compared with the agent's, which nobody sets. An answer of the store was
//! given between the question and its receipt, so the difference of the two clocks is known up to
//! the round trip. If it grows by more than that and the drift explain, the store's clock stepped.
//! What is smaller than a round trip is not noticed, and neither is a step while nobody asks.

use quorate_shared::bound::Steps;
use quorate_shared::heartbeat::ObservedSteps;
use quorate_shared::time::{Drift, LocalTime, StoreTime};
use std::time::Duration;

/// Two readings of one clock may differ by so much without any step.
const JITTER_MICROS: i128 = 1_000;

/// No step.
const NONE: Steps = Steps { count: 0, total: Duration::ZERO };

/// The difference between a store's clock and the agent's, as last seen.
#[derive(Clone, Copy, Debug)]
struct Difference {
    least: i128,
    most: i128,
    at: LocalTime,
}

/// Watches the clock of one store.
#[derive(Debug)]
pub struct StepWatch {
    observer: u64,
    last: Option<Difference>,
    seen: Steps,
    /// Of them those since another agent was last trusted to have reported what there was.
    recent: Steps,
}

impl StepWatch {
    /// A watch that has seen nothing; `observer` was drawn at random.
    pub const fn new(observer: u64) -> Self {
        Self { observer, last: None, seen: NONE, recent: NONE }
    }

    /// Takes note of what the store's clock showed between `asked` and `answered`. `Some`: it stepped
    /// forward since it was last asked, by at most so much.
    pub fn observe(&mut self, asked: LocalTime, answered: LocalTime, store: StoreTime, drift: Drift) -> Option<Duration> {
        let difference = |local: LocalTime| i128::from(store.as_micros()) - i128::from(local.as_micros());
        let now = Difference { least: difference(answered), most: difference(asked), at: answered };
        let last = self.last.replace(now)?;
        let elapsed = now.at.since(last.at);
        let drifted = i128::try_from(drift.stretch(elapsed).saturating_sub(elapsed).as_micros()).unwrap_or(i128::MAX);
        let (least, most) = (now.least - last.most - drifted, now.most - last.least + drifted);
        if least <= JITTER_MICROS {
            return None;
        }
        let step = Duration::from_micros(u64::try_from(most).unwrap_or(u64::MAX));
        self.seen = self.seen.and(Steps { count: 1, total: step });
        self.recent = self.recent.and(Steps { count: 1, total: step });
        Some(step)
    }

    /// The store is another, or lost its state: its buckets begin empty by its own clock.
    pub fn forget_clock(&mut self) {
        self.last = None;
    }

    /// Another agent reports what it sees of the same clock, and has had the time since the last call to do so:
    /// what was seen before that is no longer this one's to report.
    pub fn leave_to_others(&mut self) {
        self.seen = std::mem::replace(&mut self.recent, NONE);
    }

    /// All that was seen; `None` before the first step.
    pub fn observed(&self) -> Option<ObservedSteps> {
        (self.seen.count > 0).then_some(ObservedSteps { observer: self.observer, steps: self.seen })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2020 on the store's clock where the agent's begins.
    const EPOCH: u64 = 1_600_000_000_000_000;

    fn ms(n: u64) -> LocalTime {
        LocalTime::from_micros(n * 1_000)
    }

    /// Asked at `asked` ms; the store's clock, ahead by `ahead` ms, is read in the middle of `trip` ms.
    fn ask(watch: &mut StepWatch, asked: u64, trip: u64, ahead: u64) -> Option<Duration> {
        let store = StoreTime::from_micros(EPOCH + (asked + trip / 2 + ahead) * 1_000);
        watch.observe(ms(asked), ms(asked + trip), store, Drift::DEFAULT)
    }

    #[test]
    fn a_step_is_noticed_and_never_taken_for_less_than_it_is() {
        let mut watch = StepWatch::new(7);
        for second in 0..10 {
            assert_eq!(ask(&mut watch, second * 1_000, 2, 0), None);
        }
        let step = ask(&mut watch, 10_000, 2, 5_000).expect("noticed");
        assert!(step >= Duration::from_secs(5) && step < Duration::from_millis(5_004), "{step:?}");
        assert_eq!(ask(&mut watch, 11_000, 2, 5_000), None, "once");
        assert_eq!(watch.observed(), Some(ObservedSteps { observer: 7, steps: Steps { count: 1, total: step } }));
    }

    #[test]
    fn slow_answers_drift_and_steps_back_are_no_steps_forward() {
        let mut watch = StepWatch::new(7);
        assert_eq!(ask(&mut watch, 1_000, 2, 500), None);
        assert_eq!(ask(&mut watch, 2_000, 900, 500), None);
        assert_eq!(ask(&mut watch, 4_000, 2, 500), None);
        assert_eq!(ask(&mut watch, 5_000, 2, 0), None, "back");
        // 1000 millionths fast for a minute
        assert_eq!(ask(&mut watch, 65_000, 2, 60), None);
        assert_eq!(watch.observed(), None);
        assert!(ask(&mut watch, 66_000, 2, 560).is_some(), "forward again counts: buckets may have been asked in between");
    }

    #[test]
    fn what_another_agent_had_the_time_to_report_is_left_to_it() {
        let mut watch = StepWatch::new(7);
        ask(&mut watch, 1_000, 2, 0);
        assert!(ask(&mut watch, 2_000, 2, 900).is_some());
        watch.leave_to_others();
        assert!(watch.observed().is_some_and(|seen| seen.steps.count == 1), "it may have died just now");
        assert!(ask(&mut watch, 3_000, 2, 1_900).is_some());
        watch.leave_to_others();
        assert!(watch.observed().is_some_and(|seen| seen.steps.count == 1), "the first was reported");
        watch.leave_to_others();
        assert_eq!(watch.observed(), None);
    }

    #[test]
    fn another_store_has_another_clock() {
        let mut watch = StepWatch::new(7);
        ask(&mut watch, 1_000, 2, 0);
        watch.forget_clock();
        assert_eq!(ask(&mut watch, 2_000, 2, 9_000), None);
    }
}
