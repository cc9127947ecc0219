//! `limit`.

use crate::located::{Fields, Located, Value};
use crate::policy::{CalendarUnit, Limit, MAX_LOG_ENTRIES, TimeZone, Window};
use crate::text::{self, DurationText, Rate, cut};
use crate::units::MicroTokens;
use std::time::Duration;

/// The longest period of a rate: what the store's exact division takes.
const MAX_PERIOD: Duration = Duration::from_hours(36);

/// The longest time in which an empty bucket may fill, and the longest window. Stores count it in
/// microseconds, exactly up to 2^53.
const MAX_SPAN: Duration = Duration::from_hours(100 * 365 * 24);

/// The shortest window: less is not told apart by stores.
const MIN_SPAN: Duration = Duration::from_millis(1);

/// What a policy file calls the algorithms, with the fields that each has.
const ALGORITHMS: [(&str, &[&str]); 5] = [
    ("token-bucket", &["algorithm", "rate", "burst"]),
    ("fixed-window", &["algorithm", "units", "window", "time-zone"]),
    ("sliding-window", &["algorithm", "units", "window"]),
    ("sliding-log", &["algorithm", "units", "window"]),
    ("concurrency", &["algorithm", "slots", "max-hold"]),
];

/// The limit of a policy.
pub(super) fn limit(at: &Located<'_>) -> Option<Limit> {
    is_map(at)?;
    let Some(algorithm) = at.peek("algorithm") else {
        at.refuse(format!("`algorithm` is missing: {}", names()));
        return None;
    };
    read(at, algorithm_of(&algorithm)?)
}

/// The limit of an override: the policy's algorithm need not be said again, and neither that nor the
/// period (the window, the time zone, the longest hold) can be changed.
pub(super) fn overriding(at: &Located<'_>, of: Option<Limit>) -> Option<Limit> {
    is_map(at)?;
    let named = match at.peek("algorithm") {
        Some(algorithm) => Some(algorithm_of(&algorithm)?),
        None => None,
    };
    let Some(of) = of else {
        // which fields are right is not known
        return None;
    };
    if let (Some(name), Some(algorithm)) = (named, at.peek("algorithm"))
        && name != of.algorithm()
    {
        algorithm.refuse(format!("the policy's algorithm is `{}`, and an override has that of its policy", of.algorithm()));
        return None;
    }
    let limit = match of {
        Limit::TokenBucket { .. } => read(at, of.algorithm())?,
        _ => read_amount(at, of)?,
    };
    if !limit.same_kind(of) {
        let (own, its) = (DurationText(limit.period()), DurationText(of.period()));
        at.refuse(format!("the rate is per {own} and that of the policy per {its}; an override has the period of its policy"));
        return None;
    }
    Some(limit)
}

fn is_map(at: &Located<'_>) -> Option<()> {
    if !matches!(at.value(), Value::Map(_)) {
        at.refuse_kind("a limit such as `{algorithm: token-bucket, rate: 100/s, burst: 200}`");
        return None;
    }
    Some(())
}

fn names() -> String {
    ALGORITHMS.map(|(name, _)| format!("`{name}`")).join(", ")
}

fn algorithm_of(at: &Located<'_>) -> Option<&'static str> {
    let name = at.text(&format!("one of {}", names()))?;
    if let Some((known, _)) = ALGORITHMS.iter().find(|(known, _)| *known == name) {
        return Some(known);
    }
    let hint = match at.meant(name, ALGORITHMS.map(|(known, _)| known)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("expected one of {}", names()),
    };
    at.refuse(format!("there is no algorithm `{}`; {hint}", cut(name)));
    None
}

/// The fields of `algorithm`. Those of another one are unknown.
fn fields<'a>(at: &Located<'a>, algorithm: &str) -> Option<Fields<'a>> {
    let (_, known) = ALGORITHMS.iter().find(|(name, _)| *name == algorithm)?;
    at.fields(known)
}

fn read(at: &Located<'_>, algorithm: &str) -> Option<Limit> {
    let fields = fields(at, algorithm)?;
    match algorithm {
        "token-bucket" => bucket(&fields),
        "fixed-window" => {
            let (units, window) = (units(&fields), window(&fields));
            Some(Limit::FixedWindow { units: units?, window: window? })
        }
        "concurrency" => {
            let (slots, max_hold) = (slots(&fields), fields.required_as("max-hold", MAX_HOLD).and_then(span));
            Some(Limit::Concurrency { slots: slots?, max_hold: max_hold? })
        }
        sliding => {
            let (units, window) = (units(&fields), fields.required_as("window", ", such as `window: 1min`").and_then(span));
            let (units, window) = (units?, window?);
            Some(match sliding {
                "sliding-log" => log(&fields, units, window),
                _ => Limit::SlidingWindow { units, window },
            })
        }
    }
}

const MAX_HOLD: &str = ": how long a request may take, such as `max-hold: 60s`; after that its slot is free";

/// The limit of an override that need not repeat the window.
fn read_amount(at: &Located<'_>, of: Limit) -> Option<Limit> {
    let fields = fields(at, of.algorithm())?;
    match of {
        Limit::TokenBucket { .. } => None,
        Limit::FixedWindow { window: its, .. } => {
            let said = fields.optional("window").is_some() || fields.optional("time-zone").is_some();
            let (units, window) = (units(&fields), if said { window(&fields) } else { Some(its) });
            Some(Limit::FixedWindow { units: units?, window: the_same(at, window?, its)? })
        }
        Limit::SlidingWindow { window: its, .. } | Limit::SlidingLog { window: its, .. } => {
            let (units, window) = (units(&fields), fields.optional("window").map_or(Some(its), span));
            let (units, window) = (units?, the_same(at, window?, its)?);
            Some(match of {
                Limit::SlidingLog { .. } => log(&fields, units, window),
                _ => Limit::SlidingWindow { units, window },
            })
        }
        Limit::Concurrency { max_hold: its, .. } => {
            let (slots, max_hold) = (slots(&fields), fields.optional("max-hold").map_or(Some(its), span));
            Some(Limit::Concurrency { slots: slots?, max_hold: the_same(at, max_hold?, its)? })
        }
    }
}

/// A sliding log; one that may not have room for all admissions is warned of.
fn log(fields: &Fields<'_>, units: MicroTokens, window: Duration) -> Limit {
    let entries = MicroTokens(MicroTokens::TOKEN.0.saturating_mul(MAX_LOG_ENTRIES as u64));
    if units > entries {
        fields.whole().warn(format!(
            "a sliding log keeps at most {entries} admissions of a subject, and if there are more, the oldest count longer than \
             the window; for {units} units take `sliding-window`"
        ));
    }
    Limit::SlidingLog { units, window }
}

fn the_same<T: PartialEq>(at: &Located<'_>, own: T, its: T) -> Option<T> {
    if own != its {
        at.refuse("an override has the window (and the time zone, or the longest hold) of its policy: leave it out");
        return None;
    }
    Some(own)
}

fn units(fields: &Fields<'_>) -> Option<MicroTokens> {
    fields.required_as("units", ", such as `units: 600`")?.read("an amount such as `600`", text::tokens)
}

fn slots(fields: &Fields<'_>) -> Option<MicroTokens> {
    fields.required_as("slots", ", such as `slots: 50`")?.read("an amount such as `50`", text::tokens)
}

fn window(fields: &Fields<'_>) -> Option<Window> {
    let zone = fields.optional("time-zone").map(|at| (at, zone(at)));
    let at = fields.required_as("window", ": a length such as `1min`, or one of `hour`, `day`, `week`, `month`, `year`")?;
    let text = at.text("a length such as `1min`, or a unit of the calendar such as `month`")?;
    if let Some(unit) = CalendarUnit::ALL.into_iter().find(|unit| unit.name() == text) {
        let zone = zone.map_or(Some(TimeZone::UTC), |(_, zone)| zone)?;
        return Some(Window::Calendar { unit, zone });
    }
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        let hint = match at.meant(text, CalendarUnit::ALL.map(CalendarUnit::name)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "write a length such as `10s`, `1min`, `7d`, or one of `hour`, `day`, `week`, `month`, `year`".into(),
        };
        at.refuse(format!("there is no window `{}`; {hint}", cut(text)));
        return None;
    }
    let length = span(at)?;
    if let Some((zone, _)) = zone {
        zone.refuse("a window of a fixed length has no time zone: it begins at multiples of its length since 1970, UTC");
        return None;
    }
    Some(Window::Every(length))
}

fn zone(at: &Located<'_>) -> Option<TimeZone> {
    let name = at.text("a time zone such as `Europe/Berlin`")?;
    if let Some(zone) = TimeZone::named(name) {
        return Some(zone);
    }
    let hint = at
        .meant(name, TimeZone::names())
        .map_or("write one such as `UTC` or `Europe/Berlin`".into(), |meant| format!("did you mean `{meant}`?"));
    at.refuse(format!("there is no time zone `{}`; {hint}", cut(name)));
    None
}

fn span(at: &Located<'_>) -> Option<Duration> {
    let span = at.read("a duration such as `1min`", text::duration)?;
    if span < MIN_SPAN || span > MAX_SPAN {
        at.refuse(format!("it is {}; at least {} and at most 100 years", DurationText(span), DurationText(MIN_SPAN)));
        return None;
    }
    Some(span)
}

fn bucket(fields: &Fields<'_>) -> Option<Limit> {
    let rate = fields.required_as("rate", ", such as `rate: 100/s`").and_then(rate);
    // a burst that is wrong must not hide what is wrong with the rate, and the other way round
    let burst = fields.optional("burst").map(burst);
    let rate = rate?;
    let burst = burst.unwrap_or(Some(rate.amount.max(MicroTokens::TOKEN)))?;
    let fill = u128::from(burst.0) * rate.period.as_micros() / u128::from(rate.amount.0.max(1));
    if fill > MAX_SPAN.as_micros() {
        let whole = fields.whole();
        whole.refuse(format!(
            "at {rate} an empty bucket of {burst} would take more than 100 years to fill; write a greater rate or a smaller burst"
        ));
        return None;
    }
    Some(Limit::TokenBucket { rate: rate.amount, period: rate.period, burst })
}

fn rate(at: &Located<'_>) -> Option<Rate> {
    let rate = at.read("a rate such as `100/s`", text::rate)?;
    if rate.amount == MicroTokens::ZERO {
        at.refuse("the rate is 0, and an empty bucket would stay empty; write at least 0.000001 in a period");
        return None;
    }
    if rate.period > MAX_PERIOD {
        at.refuse(format!("the period is {}; at most {}", DurationText(rate.period), DurationText(MAX_PERIOD)));
        return None;
    }
    Some(rate)
}

fn burst(at: &Located<'_>) -> Option<MicroTokens> {
    let burst = at.read("an amount of tokens such as `200`", text::tokens)?;
    if burst < MicroTokens::TOKEN {
        at.refuse(format!("the burst is {burst}; at least 1, or no request would ever fit"));
        return None;
    }
    Some(burst)
}
