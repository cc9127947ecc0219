//! By how much a token bucket was exceeded in the worst interval of a run.
//!
//! From outside only this can be said of an admission: it was decided between its sending and its
//! answer. So it surely falls into `[a, b]` if it was sent at `a` or later and answered at `b` or
//! earlier, and the measure is
//!
//! ```text
//! max over a ≤ b of  |{sent ≥ a, answered ≤ b}| − burst − rate·(b − a)
//! ```
//!
//! The maximum lies at an `a` that is a sending and a `b` that is an answer. All pairs are tried:
//! a run admits a few thousand.

use std::time::Duration;

/// One admission of one token: when it was sent and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Not after it left.
    pub sent: Duration,
    /// Not before its answer was there.
    pub answered: Duration,
}

/// The largest excess in tokens, in millionths, over any interval; negative if there was room in each.
pub fn overshoot(rate: i64, burst: i64, admissions: &[Admission]) -> i64 {
    let mut spans: Vec<(i64, i64)> = admissions.iter().map(|a| (micros(a.sent), micros_up(a.answered))).collect();
    spans.sort_unstable_by_key(|(_, answered)| *answered);
    let mut starts: Vec<i64> = spans.iter().map(|(sent, _)| *sent).collect();
    starts.sort_unstable();
    starts.dedup();
    let worst_from = |a: i64| {
        let inside = spans.iter().filter(|(sent, _)| *sent >= a);
        // a rate of one a second is a millionth in a microsecond
        inside.zip(1..).map(|((_, b), count)| (count - burst) * 1_000_000 - rate * (b - a)).max()
    };
    starts.into_iter().filter_map(worst_from).max().unwrap_or(-burst * 1_000_000)
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).expect("a run of less than 292,000 years")
}

fn micros_up(span: Duration) -> i64 {
    i64::try_from(span.as_nanos().div_ceil(1_000)).expect("a run of less than 292,000 years")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sent_ms: u64, answered_ms: u64) -> Admission {
        Admission { sent: Duration::from_millis(sent_ms), answered: Duration::from_millis(answered_ms) }
    }

    /// Ten a second with a burst of five, kept to exactly for 20 s.
    fn exact() -> Vec<Admission> {
        let burst = (0..5).map(|_| at(0, 0));
        burst.chain((1..=200).map(|n| at(n * 100, n * 100))).collect()
    }

    #[test]
    fn what_keeps_to_the_limit_exactly_leaves_nothing_over() {
        assert_eq!(overshoot(10, 5, &exact()), 0);
        assert!(overshoot(10, 6, &exact()) < 0);
    }

    #[test]
    fn a_planted_excess_is_found_to_the_token() {
        let mut admissions = exact();
        admissions.extend([at(7_000, 7_000); 3]);
        assert_eq!(overshoot(10, 5, &admissions), 3_000_000);
    }

    #[test]
    fn what_may_have_been_decided_outside_an_interval_does_not_count_in_it() {
        assert_eq!(overshoot(1, 1, &[at(0, 1_000), at(1_000, 1_000)]), 0);
        assert_eq!(overshoot(1, 1, &[at(999, 1_000), at(1_000, 1_000)]), 999_000);
    }

    #[test]
    fn nothing_admitted_leaves_the_burst() {
        assert_eq!(overshoot(10, 5, &[]), -5_000_000);
    }
}
