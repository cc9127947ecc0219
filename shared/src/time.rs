//! Instants and drift. Two clocks never meet in one comparison: each has a type of its own.

use crate::mistake::{self, Mistake};
use serde::{Deserialize, Serialize};
use std::time::Duration;

macro_rules! instant {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// The clock's beginning.
            pub const ZERO: Self = Self(0);

            /// The instant this many microseconds after the clock's beginning.
            pub const fn from_micros(micros: u64) -> Self {
                Self(micros)
            }

            /// Microseconds since the clock's beginning.
            pub const fn as_micros(self) -> u64 {
                self.0
            }

            /// The instant `span` later, rounded down to a microsecond and stopping at the end of time.
            #[must_use]
            pub fn after(self, span: Duration) -> Self {
                Self(self.0.saturating_add(micros(span)))
            }

            /// The span from `earlier` to this instant; zero if it is not earlier.
            pub fn since(self, earlier: Self) -> Duration {
                Duration::from_micros(self.0.saturating_sub(earlier.0))
            }
        }
    };
}

instant! {
    /// Microseconds of the leader's monotonic clock since it took office.
    LeaderTime
}
instant! {
    /// Microseconds of one agent's monotonic clock (`CLOCK_MONOTONIC_RAW`).
    LocalTime
}
instant! {
    /// Microseconds of the clock of a region's store: the wall clock of a Redis host (`TIME`),
    /// or an embedded store's clock. Used to refill buckets, to age past use and to tell windows
    /// apart; no lease is dated by it.
    StoreTime
}

/// Which window of an allowance: when it begins, by the wall clock of the store that counts it.
/// Windows of one budget are told apart and ordered by it; a region's never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WindowLabel(StoreTime);

impl WindowLabel {
    /// The window that begins then.
    pub const fn beginning_at(start: StoreTime) -> Self {
        Self(start)
    }

    /// When it begins.
    pub const fn start(self) -> StoreTime {
        self.0
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// ρ: the largest ratio, less 1, between what any two clocks show of one span. In millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Drift(u32);

impl Drift {
    /// 1000 ppm: ten times a bad quartz, twice what a time daemon may slew.
    pub const DEFAULT: Self = Self(1_000);
    /// More than this is not drift but a broken clock.
    pub const MAX: Self = Self(100_000);

    /// A drift of so many millionths, or `None` above [`Drift::MAX`].
    pub const fn from_ppm(ppm: u32) -> Option<Self> {
        if ppm <= Self::MAX.0 { Some(Self(ppm)) } else { None }
    }

    /// Millionths.
    pub const fn ppm(self) -> u32 {
        self.0
    }

    /// `span · (1 + ρ)`, rounded up: for what is taken back.
    pub fn stretch(self, span: Duration) -> Duration {
        if mistake::made(Mistake::NoDriftMargin) {
            return span;
        }
        let scaled = (span.as_micros()).saturating_mul(1_000_000 + u128::from(self.0)).div_ceil(1_000_000);
        Duration::from_micros(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// `span · (1 − ρ)`, rounded down: for what is given up.
    pub fn shrink(self, span: Duration) -> Duration {
        if mistake::made(Mistake::NoDriftMargin) {
            return span;
        }
        let scaled = (span.as_micros()).saturating_mul(1_000_000 - u128::from(self.0)) / 1_000_000;
        Duration::from_micros(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

impl Default for Drift {
    fn default() -> Self {
        Self::DEFAULT
    }
}

const _: () = assert!(Drift::MAX.0 < 1_000_000, "shrink must not go below nothing");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_given_up_on_any_clock_is_over_before_it_is_taken_back_on_any_other() {
        for ppm in [0, 1, 999, 1_000, 100_000] {
            let drift = Drift::from_ppm(ppm).expect("in range");
            for us in [0, 1, 2, 3, 999_999, 1_000_000, 5_000_001] {
                let span = Duration::from_micros(us);
                assert!(drift.shrink(span) <= span && span <= drift.stretch(span));
            }
        }
        assert_eq!(Drift::from_ppm(1_000).map(|d| d.stretch(Duration::from_micros(1))), Some(Duration::from_micros(2)));
        assert_eq!(Drift::from_ppm(1_000).map(|d| d.shrink(Duration::from_micros(1))), Some(Duration::ZERO));
        assert_eq!(Drift::from_ppm(100_001), None);
    }

    #[test]
    fn instants_stop_at_the_ends_of_time() {
        let end = LeaderTime::from_micros(u64::MAX);
        assert_eq!(end.after(Duration::from_secs(1)), end);
        assert_eq!(LeaderTime::ZERO.since(end), Duration::ZERO);
    }
}
