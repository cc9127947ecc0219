//! The unit of time by which other systems tell a limit.

use super::Limit;
use super::window::{CalendarUnit, Window};
use std::time::Duration;

/// A unit of time. A month without a calendar has 30 days, and a year 365.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateUnit {
    /// 1 s.
    Second,
    /// 60 s.
    Minute,
    /// 3600 s, or one of the calendar.
    Hour,
    /// 24 h, or one of the calendar.
    Day,
    /// 7 days, or one of the calendar.
    Week,
    /// 30 days, or one of the calendar.
    Month,
    /// 365 days, or one of the calendar.
    Year,
}

const HOUR: u64 = 3_600;

impl RateUnit {
    /// The unit that is exactly so long.
    pub fn of(span: Duration) -> Option<Self> {
        if span.subsec_nanos() != 0 {
            return None;
        }
        Some(match span.as_secs() {
            1 => Self::Second,
            60 => Self::Minute,
            HOUR => Self::Hour,
            86_400 => Self::Day,
            604_800 => Self::Week,
            2_592_000 => Self::Month,
            31_536_000 => Self::Year,
            _ => return None,
        })
    }

    /// The name of it, as in `10 each minute`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }
}

impl Limit {
    /// The unit by which it can be told as so many in each; `None` of slots, and of a period that is no unit.
    pub fn unit(self) -> Option<RateUnit> {
        match self {
            Self::FixedWindow { window: Window::Calendar { unit, .. }, .. } => Some(match unit {
                CalendarUnit::Hour => RateUnit::Hour,
                CalendarUnit::Day => RateUnit::Day,
                CalendarUnit::Week => RateUnit::Week,
                CalendarUnit::Month => RateUnit::Month,
                CalendarUnit::Year => RateUnit::Year,
            }),
            Self::Concurrency { .. } => None,
            _ => RateUnit::of(self.period()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::TimeZone;
    use crate::units::MicroTokens;

    #[test]
    fn a_limit_is_told_by_its_unit_if_it_has_one() {
        let units = MicroTokens::TOKEN;
        let every = |seconds| Limit::FixedWindow { units, window: Window::Every(Duration::from_secs(seconds)) };
        let told = [1, 60, HOUR, 86_400, 604_800, 2_592_000, 31_536_000].map(|seconds| every(seconds).unit().map(RateUnit::name));
        assert_eq!(told, ["second", "minute", "hour", "day", "week", "month", "year"].map(Some));
        assert_eq!((every(10).unit(), RateUnit::of(Duration::from_micros(1_000_001))), (None, None));
        let calendar = |unit| Limit::FixedWindow { units, window: Window::Calendar { unit, zone: TimeZone::UTC } };
        let told = CalendarUnit::ALL.map(|unit| calendar(unit).unit().map(RateUnit::name));
        assert_eq!(told, CalendarUnit::ALL.map(|unit| Some(unit.name())));
        let bucket = Limit::TokenBucket { rate: units, period: Duration::from_secs(60), burst: units };
        let slots = Limit::Concurrency { slots: units, max_hold: Duration::from_secs(60) };
        assert_eq!((bucket.unit(), slots.unit()), (Some(RateUnit::Minute), None));
    }
}
