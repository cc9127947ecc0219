//! When the next heartbeat is due: once in a period, sooner where capacity waits for it.

use quorate_shared::time::LocalTime;
use std::time::Duration;

/// The shortest span between the beginnings of two heartbeats, unless the first gave capacity up.
pub const EAGER: Duration = Duration::from_millis(250);

/// After a heartbeat that renewed nothing.
pub const RETRY: Duration = Duration::from_millis(100);

/// How the last heartbeat went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Renewed and applied; nothing was given up.
    Renewed,
    /// Renewed, and something was given up that others wait for: they can have it once the
    /// coordinators hear that it is free.
    GaveUp,
    /// It renewed nothing.
    Failed,
}

/// When to send the heartbeat after one that began at `started` and ended at `ended`. `period` is
/// the span between two heartbeats where nobody is in a hurry; `hurried` if somebody is: requests
/// are refused here, run into a limit, or stopped coming.
pub fn next(started: LocalTime, ended: LocalTime, outcome: Outcome, period: Duration, hurried: bool) -> LocalTime {
    match outcome {
        Outcome::GaveUp => ended,
        Outcome::Failed => ended.after(RETRY),
        Outcome::Renewed if hurried => started.after(EAGER.min(period)).max(ended),
        Outcome::Renewed => started.after(period).max(ended),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gave_up_says_so_at_once_and_who_is_in_a_hurry_waits_a_quarter_of_a_second() {
        let ms = |ms| LocalTime::ZERO.after(Duration::from_millis(ms));
        let next = |outcome, hurried| next(ms(1_000), ms(1_100), outcome, Duration::from_secs(1), hurried);
        assert_eq!(next(Outcome::GaveUp, false), ms(1_100));
        assert_eq!(next(Outcome::Failed, true), ms(1_200));
        assert_eq!(next(Outcome::Renewed, true), ms(1_250));
        assert_eq!(next(Outcome::Renewed, false), ms(2_000));
    }
}
