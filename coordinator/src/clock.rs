//! The clocks of this machine that leases are timed by.
//!
//! Spans are taken from `CLOCK_MONOTONIC_RAW`, which no time daemon slews. It stands still while
//! the machine sleeps, so a span over a sleep would be too short: a sleep makes a new clock.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// A reading of `CLOCK_MONOTONIC_RAW`, in nanoseconds since a fixed instant of this boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RawInstant(Duration);

impl RawInstant {
    /// The clock now.
    pub fn now() -> Self {
        Self(read(ClockId::MonotonicRaw))
    }

    /// The span since `earlier`; zero if it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The reading this long after the clock's own beginning, for tests.
    #[cfg(test)]
    pub const fn at(since_boot: Duration) -> Self {
        Self(since_boot)
    }
}

/// How long this machine has slept since it booted, as far as one look can tell.
///
/// It is `CLOCK_BOOTTIME` less `CLOCK_MONOTONIC`: both are slewed alike, so unlike a comparison
/// with the raw clock their difference grows by sleep alone. They are not read at one instant,
/// so the look gives bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slept {
    at_least: Duration,
    at_most: Duration,
}

impl Slept {
    /// The sum of all sleeps until now.
    pub fn until_now() -> Self {
        let before = read(ClockId::Monotonic);
        let boot = read(ClockId::Boottime);
        let after = read(ClockId::Monotonic);
        Self { at_least: boot.saturating_sub(after), at_most: boot.saturating_sub(before) }
    }

    /// True if the machine certainly slept between the look `earlier` and this one.
    pub fn more_than(self, earlier: Self) -> bool {
        self.at_least > earlier.at_most
    }

    /// A look with these bounds, for tests.
    #[cfg(test)]
    pub const fn between(at_least: Duration, at_most: Duration) -> Self {
        Self { at_least, at_most }
    }
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_raw_clock_never_goes_back() {
        let mut last = RawInstant::now();
        for _ in 0..1_000 {
            let now = RawInstant::now();
            assert!(now >= last);
            last = now;
        }
        assert_eq!(RawInstant::at(Duration::from_secs(1)).since(RawInstant::at(Duration::from_secs(2))), Duration::ZERO);
    }

    #[test]
    fn a_busy_machine_did_not_sleep() {
        let first = Slept::until_now();
        assert!((0..1_000).all(|_| !Slept::until_now().more_than(first)));
    }

    #[test]
    fn a_sleep_longer_than_the_look_is_seen() {
        let us = Duration::from_micros;
        let first = Slept::between(us(10), us(14));
        assert!(!Slept::between(us(12), us(18)).more_than(first));
        assert!(Slept::between(us(15), us(18)).more_than(first));
    }
}
