//! How long a client is told to wait.
//!
//! Never less than the true wait. Clients that were refused together would all come back at one instant, so
//! each is told a little more: up to a tenth of its wait, at least up to [`LEAST`] and at most up to [`MOST`].
//! `RateLimit` goes on telling the true time.

use quorate_shared::units::PartsPerMillion;
use std::time::Duration;

/// The least upper bound of what is added.
pub const LEAST: Duration = Duration::from_millis(100);

/// The greatest upper bound of what is added.
pub const MOST: Duration = Duration::from_secs(5);

/// How long a client is told to wait.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Where nobody knows how long.
    pub unknown: Duration,
    /// Draws how much of what may be added is.
    pub spread: fn() -> PartsPerMillion,
}

impl Waiting {
    /// What to say of a true wait.
    pub fn said(&self, wait: Duration) -> Duration {
        let most = (wait / 10).clamp(LEAST, MOST);
        let part = most.as_micros().saturating_mul(u128::from((self.spread)().0)) / 1_000_000;
        wait.saturating_add(Duration::from_micros(u64::try_from(part).unwrap_or(u64::MAX)))
    }
}

/// Adds nothing.
pub const fn exactly() -> PartsPerMillion {
    PartsPerMillion(0)
}

/// Any part, each as likely as any other; none where there is no randomness.
pub fn drawn() -> PartsPerMillion {
    PartsPerMillion(getrandom::u32().map_or(0, |n| n % (PartsPerMillion::WHOLE.0 + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_longer_within_its_bounds_and_never_shorter() {
        let whole = || PartsPerMillion::WHOLE;
        let half = || PartsPerMillion(500_000);
        let said = |spread, wait| Waiting { unknown: Duration::ZERO, spread }.said(Duration::from_millis(wait)).as_millis();
        assert_eq!([said(whole, 0), said(whole, 200), said(whole, 20_000), said(whole, 3_600_000)], [100, 300, 22_000, 3_605_000]);
        assert_eq!([said(half, 0), said(half, 20_000)], [50, 21_000]);
        assert_eq!([said(exactly, 0), said(exactly, 20_000)], [0, 20_000]);
    }

    #[test]
    fn clients_that_are_refused_together_do_not_come_back_together() {
        let waiting = Waiting { unknown: Duration::ZERO, spread: drawn };
        let wait = Duration::from_secs(10);
        let said: std::collections::BTreeSet<Duration> = (0..100).map(|_| waiting.said(wait)).collect();
        assert!(said.len() > 90, "{} different waits", said.len());
        assert!(said.iter().all(|s| (wait..=Duration::from_secs(11)).contains(s)));
    }
}
