//! By how much a fixed window was exceeded in the worst window of a run.
//!
//! Windows are told apart by wall clocks, and all processes of a run have one. An admission surely
//! falls into a window if it was sent and answered in it.

use crate::checker::bucket::Admission;
use std::collections::BTreeMap;
use std::time::Duration;

/// Wall clock and monotonic clock may have run apart by so much since the run began.
const SLEWED: Duration = Duration::from_millis(20);

/// Admitted in the fullest window of this length, beyond `units`; negative if there was room in each.
/// `wall` is what wall clocks showed when the run began.
pub fn excess(units: i64, window: Duration, wall: Duration, admissions: &[Admission]) -> i64 {
    let mut counts = BTreeMap::<u128, i64>::new();
    for admission in admissions {
        let index = |at: Duration| (wall + at).as_micros() / window.as_micros();
        let (first, last) = (index(admission.sent.saturating_sub(SLEWED)), index(admission.answered + SLEWED));
        if first == last {
            *counts.entry(first).or_default() += 1;
        }
    }
    counts.values().max().copied().unwrap_or_default() - units
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sent_ms: u64, answered_ms: u64) -> Admission {
        Admission { sent: Duration::from_millis(sent_ms), answered: Duration::from_millis(answered_ms) }
    }

    #[test]
    fn the_fullest_window_counts_and_those_between_two_do_not() {
        let wall = Duration::from_millis(500);
        let window = Duration::from_secs(1);
        // windows of this run begin at 500, 1500, …
        let one = [at(600, 700), at(600, 1_400)];
        let across = [at(1_490, 1_495), at(1_400, 1_600), at(1_505, 1_510)];
        assert_eq!(excess(2, window, wall, &one), 0);
        assert_eq!(excess(1, window, wall, &[one.as_slice(), &across].concat()), 1);
        assert_eq!(excess(2, window, wall, &[]), -2);
    }
}
