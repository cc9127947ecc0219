//! Windows of an allowance: which one an instant lies in, when it begins and when it ends.
//!
//! A window of a fixed length begins at a multiple of its length since 1970, UTC. A calendar window
//! is an hour, day, week, month or year of a time zone. It begins at the first instant at which the zone's
//! clocks show its beginning, or at which they jump over that, and ends where the next one begins. So
//! windows follow one another without a gap whatever the zone does: the day on which clocks go forward
//! has 23 hours, the hour that clocks show twice has two, and a day that a zone left out has no window.

use crate::time::{StoreTime, WindowLabel};
use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeDelta, TimeZone as _, Timelike, Utc};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// How an allowance is cut into windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Window {
    /// Each so long.
    Every(Duration),
    /// By the calendar of a place.
    Calendar {
        /// Of what length.
        unit: CalendarUnit,
        /// By whose clocks.
        zone: TimeZone,
    },
}

/// A length of time that the calendar knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CalendarUnit {
    /// From minute 0.
    Hour,
    /// From midnight.
    Day,
    /// From Monday (ISO 8601).
    Week,
    /// From the first.
    Month,
    /// From the first of January.
    Year,
}

impl CalendarUnit {
    /// From the shortest to the longest.
    pub const ALL: [Self; 5] = [Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// What a policy file calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// The longest that it is by a calendar without clock changes.
    const fn longest(self) -> Duration {
        match self {
            Self::Hour => Duration::from_hours(1),
            Self::Day => Duration::from_hours(24),
            Self::Week => Duration::from_hours(7 * 24),
            Self::Month => Duration::from_hours(31 * 24),
            Self::Year => Duration::from_hours(366 * 24),
        }
    }

    /// The beginning, by the clocks of the place, of the one that `local` lies in.
    fn beginning(self, local: NaiveDateTime) -> Option<NaiveDateTime> {
        let date = local.date();
        let date = match self {
            Self::Hour => return local.date().and_hms_opt(local.hour(), 0, 0),
            Self::Day => date,
            Self::Week => date.checked_sub_days(Days::new(u64::from(date.weekday().num_days_from_monday())))?,
            Self::Month => date.with_day(1)?,
            Self::Year => NaiveDate::from_ymd_opt(date.year(), 1, 1)?,
        };
        Some(date.and_time(NaiveTime::MIN))
    }

    /// The beginning of the one after that which begins at `beginning`.
    fn next(self, beginning: NaiveDateTime) -> Option<NaiveDateTime> {
        match self {
            Self::Hour => beginning.checked_add_signed(TimeDelta::hours(1)),
            Self::Day => beginning.checked_add_days(Days::new(1)),
            Self::Week => beginning.checked_add_days(Days::new(7)),
            Self::Month => beginning.checked_add_months(Months::new(1)),
            Self::Year => beginning.checked_add_months(Months::new(12)),
        }
    }
}

/// A time zone of the IANA database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TimeZone(chrono_tz::Tz);

impl TimeZone {
    /// Coordinated Universal Time.
    pub const UTC: Self = Self(chrono_tz::Tz::UTC);

    /// The zone of this name, such as `Europe/Berlin`.
    pub fn named(name: &str) -> Option<Self> {
        name.parse().ok().map(Self)
    }

    /// The names of all zones.
    pub fn names() -> impl Iterator<Item = &'static str> {
        chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name())
    }

    /// What the clocks of the place show.
    fn local(self, at: DateTime<Utc>) -> NaiveDateTime {
        at.with_timezone(&self.0).naive_local()
    }

    /// The first instant at which the clocks of the place show `local`, or at which they jump over it.
    fn first_instant(self, local: NaiveDateTime) -> Option<DateTime<Utc>> {
        if let Some(first) = self.0.from_local_datetime(&local).earliest() {
            return Some(first.with_timezone(&Utc));
        }
        // jumped over: it would be then if the clocks had gone on as on the day before
        let before = local.checked_sub_days(Days::new(1))?;
        let offset = self.0.offset_from_local_datetime(&before).latest()?.fix();
        let unmoved = DateTime::<Utc>::from_naive_utc_and_offset(local.checked_sub_offset(offset)?, Utc);
        self.jump_before(unmoved)
    }

    /// The last forward jump at or before `at`, which lies less than a day and a bit back.
    fn jump_before(self, at: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let (mut before, mut after) = (at.checked_sub_signed(TimeDelta::hours(25))?, at);
        let offset = |at: DateTime<Utc>| self.0.offset_from_utc_datetime(&at.naive_utc()).fix();
        let jumped = offset(after);
        while after - before > TimeDelta::seconds(1) {
            let middle = before + (after - before) / 2;
            match offset(middle) == jumped {
                true => after = middle,
                false => before = middle,
            }
        }
        after.with_nanosecond(0)
    }
}

impl fmt::Display for TimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

impl Window {
    /// How long a window is at most, but for a change of clocks within it.
    pub const fn longest(self) -> Duration {
        match self {
            Self::Every(length) => length,
            Self::Calendar { unit, .. } => unit.longest(),
        }
    }

    /// The window that an instant of a store's wall clock lies in.
    pub fn at(self, now: StoreTime) -> WindowLabel {
        let start = match self {
            Self::Every(length) => every(now, length),
            // beyond the calendar (some 260,000 years) a window is as long as it can be
            Self::Calendar { unit, zone } => calendar(now, unit, zone).map_or_else(|| every(now, unit.longest()), |(start, _)| start),
        };
        WindowLabel::beginning_at(start)
    }

    /// When the window `label` ends and the next begins.
    pub fn end(self, label: WindowLabel) -> StoreTime {
        let nominal = || label.start().after(self.longest());
        match self {
            Self::Every(_) => nominal(),
            Self::Calendar { unit, zone } => calendar(label.start(), unit, zone).map_or_else(nominal, |(_, end)| end),
        }
    }
}

fn every(now: StoreTime, length: Duration) -> StoreTime {
    let length = u64::try_from(length.as_micros()).unwrap_or(u64::MAX).max(1);
    StoreTime::from_micros(now.as_micros() / length * length)
}

/// So long before its last instant the calendar counts no windows any more: more than the longest one.
const AT_THE_END: TimeDelta = TimeDelta::days(3 * 366);

/// Beginning and end of the calendar window that `now` lies in. Windows begin at the first instants of
/// the units' beginnings, in the order of the calendar, and the last that has begun is the one.
fn calendar(now: StoreTime, unit: CalendarUnit, zone: TimeZone) -> Option<(StoreTime, StoreTime)> {
    let at = DateTime::<Utc>::from_timestamp_micros(i64::try_from(now.as_micros()).ok()?)?;
    // what follows adds a unit and an offset at most, and would panic beyond the last instant of all
    at.checked_add_signed(AT_THE_END)?;
    let mut beginning = unit.beginning(zone.local(at))?;
    let mut start = zone.first_instant(beginning)?;
    loop {
        beginning = unit.next(beginning)?;
        let end = zone.first_instant(beginning)?;
        if end > at {
            return Some((instant(start), instant(end)));
        }
        start = end;
    }
}

/// Instants before 1970 count as its first.
fn instant(at: DateTime<Utc>) -> StoreTime {
    StoreTime::from_micros(u64::try_from(at.timestamp_micros()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str) -> StoreTime {
        instant(text.parse::<DateTime<Utc>>().expect("an instant"))
    }

    fn window(unit: CalendarUnit, zone: &str) -> Window {
        Window::Calendar { unit, zone: TimeZone::named(zone).expect("a zone") }
    }

    /// Each row: unit, zone, an instant, and the beginning and the end of its window.
    const CASES: &[(CalendarUnit, &str, &str, &str, &str)] = &[
        (CalendarUnit::Month, "UTC", "2026-02-28T23:59:59Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"),
        (CalendarUnit::Month, "UTC", "2028-02-29T00:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"),
        (CalendarUnit::Month, "Europe/Berlin", "2026-02-28T23:00:00Z", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z"),
        (CalendarUnit::Month, "Europe/Berlin", "2026-10-31T22:59:59Z", "2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z"),
        // the days on which the clocks change have 23 and 25 hours
        (CalendarUnit::Day, "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
        (CalendarUnit::Day, "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"),
        // the hour that is shown twice has two, the one that is left out none
        (CalendarUnit::Hour, "Europe/Berlin", "2026-10-25T01:30:00Z", "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z"),
        (CalendarUnit::Hour, "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"),
        (CalendarUnit::Hour, "Asia/Kolkata", "2026-06-01T10:45:00Z", "2026-06-01T10:30:00Z", "2026-06-01T11:30:00Z"),
        // half an hour back: from 02:00 to 01:30
        (CalendarUnit::Hour, "Australia/Lord_Howe", "2026-04-04T15:15:00Z", "2026-04-04T14:00:00Z", "2026-04-04T15:30:00Z"),
        // midnight is left out
        (CalendarUnit::Day, "America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"),
        // midnight is shown, then 23:01 of the day before again: the new day goes on
        (CalendarUnit::Day, "America/St_Johns", "2010-11-07T03:00:00Z", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"),
        // a whole day is left out
        (CalendarUnit::Day, "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"),
        (CalendarUnit::Day, "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"),
        (CalendarUnit::Week, "UTC", "2026-11-29T23:59:59Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"),
        (CalendarUnit::Week, "America/New_York", "2026-11-02T04:59:59Z", "2026-10-26T04:00:00Z", "2026-11-02T05:00:00Z"),
        (CalendarUnit::Year, "Asia/Tokyo", "2026-12-31T15:00:00Z", "2026-12-31T15:00:00Z", "2027-12-31T15:00:00Z"),
    ];

    #[test]
    fn calendar_windows_follow_the_clocks_of_a_place() {
        for (unit, zone, now, start, end) in CASES {
            let window = window(*unit, zone);
            let label = window.at(at(now));
            assert_eq!(label.start(), at(start), "{unit:?} of {zone} at {now}");
            assert_eq!(window.end(label), at(end), "{unit:?} of {zone} at {now}");
        }
    }

    #[test]
    fn windows_of_any_length_begin_at_its_multiples() {
        let seven = Window::Every(Duration::from_secs(7));
        assert_eq!(seven.at(at("1970-01-01T00:00:15Z")).start(), at("1970-01-01T00:00:14Z"));
        assert_eq!(seven.end(seven.at(at("1970-01-01T00:00:15Z"))), at("1970-01-01T00:00:21Z"));
    }

    #[test]
    fn at_the_end_of_the_calendar_windows_go_on_without_it() {
        let last = u64::try_from(DateTime::<Utc>::MAX_UTC.timestamp_micros()).expect("after 1970");
        let day = 86_400_000_000;
        let steps = (0..2_000u64).map(|days| last - days * day);
        for micros in steps.chain([last + 1, u64::MAX / 2, u64::MAX - 1, u64::MAX]) {
            for zone in ["UTC", "Pacific/Apia", "Pacific/Kiritimati", "America/Adak", "Australia/Lord_Howe"] {
                for unit in CalendarUnit::ALL {
                    let window = window(unit, zone);
                    let label = window.at(StoreTime::from_micros(micros));
                    assert!(label.start().as_micros() <= micros, "{unit:?} of {zone} at {micros}");
                    assert!(window.end(label) > label.start(), "{unit:?} of {zone} at {micros}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn windows_follow_one_another_without_a_gap(
            micros in 0..4_102_444_800_000_000u64,
            unit in prop::sample::select(CalendarUnit::ALL.to_vec()),
            zone in prop::sample::select(chrono_tz::TZ_VARIANTS.to_vec()),
        ) {
            let (window, now) = (Window::Calendar { unit, zone: TimeZone(zone) }, StoreTime::from_micros(micros));
            let label = window.at(now);
            let end = window.end(label);
            prop_assert!(label.start() <= now && now < end, "{} {label:?} {end:?}", zone.name());
            prop_assert_eq!(window.at(StoreTime::from_micros(end.as_micros() - 1)), label);
            prop_assert_eq!(window.at(end).start(), end);
        }
    }
}
