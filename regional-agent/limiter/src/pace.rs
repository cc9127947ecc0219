//! When the next heartbeat is due: once in a period, sooner where capacity waits for it.

use quorate_shared::time::LocalTime;
use std::time::Duration;

/// The shortest span between the beginnings of two heartbeats, unless the first gave capacity up.
pub const EAGER: Duration = Duration::from_millis(250);

/// The same where demand has just changed, as long as that is [`Hurry::News`].
pub const NEWS: Duration = Duration::from_millis(100);

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

/// Why a heartbeat should not wait for its time; a greater one waits less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hurry {
    /// Nobody is in a hurry.
    #[default]
    None,
    /// Requests are refused here, or run into a limit.
    Wanting,
    /// Demand has changed a moment ago: the coordinators do not know, or have not yet done what they can.
    News,
}

/// When to send the heartbeat after one that began at `started` and ended at `ended`. `period` is
/// the span between two heartbeats where nobody is in a hurry.
pub fn next(started: LocalTime, ended: LocalTime, outcome: Outcome, period: Duration, hurry: Hurry) -> LocalTime {
    let span = match hurry {
        Hurry::None => period,
        Hurry::Wanting => EAGER.min(period),
        Hurry::News => NEWS.min(period),
    };
    match outcome {
        Outcome::GaveUp => ended,
        Outcome::Failed => ended.after(RETRY),
        Outcome::Renewed => started.after(span).max(ended),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gave_up_says_so_at_once_and_who_is_in_a_hurry_waits_a_moment() {
        let ms = |ms| LocalTime::ZERO.after(Duration::from_millis(ms));
        let next = |outcome, hurry| next(ms(1_000), ms(1_050), outcome, Duration::from_secs(1), hurry);
        assert_eq!(next(Outcome::GaveUp, Hurry::None), ms(1_050));
        assert_eq!(next(Outcome::Failed, Hurry::News), ms(1_150));
        assert_eq!(next(Outcome::Renewed, Hurry::News), ms(1_100));
        assert_eq!(next(Outcome::Renewed, Hurry::Wanting), ms(1_250));
        assert_eq!(next(Outcome::Renewed, Hurry::None), ms(2_000));
    }
}
