//! The agent's monotonic clock.

use quorate_shared::time::LocalTime;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};

/// `CLOCK_MONOTONIC_RAW`, which no time daemon slews, plus the time that the machine slept.
///
/// A machine that sleeps stops the raw clock while leases run on elsewhere. `CLOCK_BOOTTIME`
/// differs from `CLOCK_MONOTONIC` by exactly the time slept.
#[derive(Debug, Default)]
pub struct LocalClock {
    slept_micros: AtomicU64,
}

impl LocalClock {
    /// Now.
    pub fn now(&self) -> LocalTime {
        let slept = self.slept_micros();
        LocalTime::from_micros(micros(clock_gettime(ClockId::MonotonicRaw)).saturating_add(slept))
    }

    /// How long the machine has slept since it booted, in microseconds. Never falls, and is never
    /// more than the truth: the clock that includes sleep is read first.
    pub fn slept_micros(&self) -> u64 {
        let with_sleep = micros(clock_gettime(ClockId::Boottime));
        let without = micros(clock_gettime(ClockId::Monotonic));
        let slept = with_sleep.saturating_sub(without);
        self.slept_micros.fetch_max(slept, Ordering::Relaxed).max(slept)
    }
}

fn micros(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let micros = u64::try_from(time.tv_nsec).unwrap_or_default() / 1_000;
    seconds.saturating_mul(1_000_000).saturating_add(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_runs_backwards() {
        let clock = LocalClock::default();
        let mut before = clock.now();
        for _ in 0..100_000 {
            let now = clock.now();
            assert!(now >= before);
            before = now;
        }
    }
}
