//! `limit`.

use crate::located::{Fields, Located, Value};
use crate::policy::Limit;
use crate::text::{self, DurationText, Rate, cut};
use crate::units::MicroTokens;
use std::time::Duration;

/// The longest period of a rate: what the store's exact division takes.
const MAX_PERIOD: Duration = Duration::from_hours(36);

/// The longest time in which an empty bucket may fill. Stores count it in microseconds, exactly
/// up to 2^53.
const MAX_FILL: Duration = Duration::from_hours(100 * 365 * 24);

const OTHER_ALGORITHMS: [&str; 4] = ["fixed-window", "sliding-window", "sliding-log", "concurrency"];

/// The limit of a policy.
pub(super) fn limit(at: &Located<'_>) -> Option<Limit> {
    let fields = token_bucket(at)?;
    let algorithm = fields.required_as("algorithm", ": this version serves `token-bucket`");
    let limit = bucket(&fields);
    algorithm.and(limit)
}

/// The limit of an override: the policy's algorithm need not be said again, and its period
/// cannot be changed.
pub(super) fn overriding(at: &Located<'_>, of: Option<Limit>) -> Option<Limit> {
    let limit = bucket(&token_bucket(at)?)?;
    let period = of.map_or(limit.period(), Limit::period);
    if limit.period() != period {
        let (own, its) = (DurationText(limit.period()), DurationText(period));
        at.refuse(format!("the rate is per {own} and that of the policy per {its}; an override has the period of its policy"));
        return None;
    }
    Some(limit)
}

/// The fields of a token bucket. The fields of another algorithm are not looked at: that it is
/// not served is the only mistake then.
fn token_bucket<'a>(at: &Located<'a>) -> Option<Fields<'a>> {
    if !matches!(at.value(), Value::Map(_)) {
        at.refuse_kind("a limit such as `{algorithm: token-bucket, rate: 100/s, burst: 200}`");
        return None;
    }
    if let Some(algorithm) = at.peek("algorithm") {
        let name = algorithm.text("`token-bucket`")?;
        if name != "token-bucket" {
            refuse_algorithm(&algorithm, name);
            return None;
        }
    }
    at.fields(&["algorithm", "rate", "burst"])
}

fn refuse_algorithm(at: &Located<'_>, name: &str) {
    if OTHER_ALGORITHMS.contains(&name) {
        return at.refuse(format!("this version serves `token-bucket` only, not `{name}`"));
    }
    let meant = at.meant(name, std::iter::once("token-bucket").chain(OTHER_ALGORITHMS));
    let hint = meant.map(|m| format!("; did you mean `{m}`?")).unwrap_or_default();
    at.refuse(format!("expected `token-bucket`, found `{}`{hint}", cut(name)));
}

fn bucket(fields: &Fields<'_>) -> Option<Limit> {
    let rate = fields.required_as("rate", ", such as `rate: 100/s`").and_then(rate);
    // a burst that is wrong must not hide what is wrong with the rate, and the other way round
    let burst = fields.optional("burst").map(burst);
    let rate = rate?;
    let burst = burst.unwrap_or(Some(rate.amount.max(MicroTokens::TOKEN)))?;
    let fill = u128::from(burst.0) * rate.period.as_micros() / u128::from(rate.amount.0.max(1));
    if fill > MAX_FILL.as_micros() {
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
