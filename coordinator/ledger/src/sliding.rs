//! Measuring the overshoot of a budget whose past use counts for a window (shape `share`).

use quorate_shared::time::{Drift, LeaderTime};
use quorate_shared::units::MicroTokens;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// Into so many parts a window is divided at least, for reports to share one.
const PARTS: u32 = 32;

/// What was admitted of late, each part with an interval that surely holds it.
///
/// What counts at once is at least all that was admitted within one window. Of a part it is not
/// known when, so it is counted only while its whole interval is within the window: what is
/// measured is a lower bound.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sliding(VecDeque<Part>);

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Part {
    from: LeaderTime,
    /// When the part was begun, by its first report.
    begun: LeaderTime,
    admitted: MicroTokens,
}

impl Sliding {
    /// Counts what was `admitted` between `from` and `at`, and gives what surely was within the last
    /// `window`, by any clock.
    pub fn count(&mut self, admitted: MicroTokens, from: LeaderTime, at: LeaderTime, window: Duration, drift: Drift) -> MicroTokens {
        let surely = drift.shrink(window);
        self.0.retain(|part| at.since(part.from) < surely);
        match self.0.back_mut().filter(|part| at.since(part.begun) < window / PARTS) {
            Some(part) => {
                part.from = part.from.min(from);
                part.admitted = part.admitted.saturating_add(admitted);
            }
            None => self.0.push_back(Part { from, begun: at, admitted }),
        }
        let within = self.0.iter().filter(|part| at.since(part.from) < surely);
        within.map(|part| part.admitted).fold(MicroTokens::ZERO, MicroTokens::saturating_add)
    }

    /// Forgets everything: the clock or the limit is another.
    pub fn restart(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);

    fn count(sliding: &mut Sliding, second: u64, units: u64) -> u64 {
        let at = |second| LeaderTime::ZERO.after(Duration::from_secs(second));
        sliding.count(MicroTokens(units), at(second.saturating_sub(1)), at(second), WINDOW, Drift::default()).0
    }

    #[test]
    fn what_was_admitted_within_a_window_adds_up_and_ages() {
        let mut sliding = Sliding::default();
        assert_eq!([1, 20, 59].map(|second| count(&mut sliding, second, 10)), [10, 20, 30]);
        assert_eq!(count(&mut sliding, 60, 10), 30, "the first may be older than a window");
        assert_eq!(count(&mut sliding, 200, 1), 1);
    }

    #[test]
    fn it_is_never_more_than_a_window_of_true_use_and_memory_is_bounded() {
        let mut sliding = Sliding::default();
        let most = (1..2_000).map(|second| count(&mut sliding, second, 10)).max();
        // ten a second: a part may hide two seconds at the window's beginning
        assert!(most <= Some(600) && most > Some(550), "{most:?}");
        assert!(sliding.0.len() <= 61, "{}", sliding.0.len());
    }
}
