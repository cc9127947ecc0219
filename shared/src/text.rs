//! Values as people write them: durations, rates, token amounts, shares, addresses.
//!
//! | what | how it is written |
//! |---|---|
//! | duration | `250us`, `250ms`, `10s`, `1min`, `1h`, `1d`: a whole number and a unit, without a space |
//! | token amount | `200`, `0.5`: decimal, up to 6 places, at most 9007199254.740991 |
//! | rate | `100/s`, `5000/min`, `100/10s`: an amount, a slash, a unit or a duration |
//! | share | `30%`, `12.5%`, `0.0001%`: decimal, up to 4 places |
//! | address | `127.0.0.1:7101`, `[::1]:7101` |
//!
//! Each kind has one spelling that is read and the same one that is printed; anything else is
//! refused with what would be right.

use crate::units::{MAX_EXACT, MicroTokens, PartsPerMillion};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// Why a text is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}: {right}")]
pub struct Unreadable {
    /// What was given, cut to 64 characters.
    pub text: String,
    /// What it should have been, with its article.
    pub what: &'static str,
    /// What would be right.
    pub right: String,
}

impl Unreadable {
    fn new(text: &str, what: &'static str, right: impl Into<String>) -> Self {
        Self { text: cut(text), what, right: right.into() }
    }
}

/// The first 64 characters of `text`, and an ellipsis if that is not all of it.
pub fn cut(text: &str) -> String {
    match text.char_indices().nth(64) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Units of time from the longest to the shortest, in microseconds.
const UNITS: [(&str, u64); 6] =
    [("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1)];

/// Units that people write and that are not read, with the one that is.
const OTHER_UNITS: [(&str, &str); 20] = [
    ("m", "min"),
    ("mins", "min"),
    ("minute", "min"),
    ("minutes", "min"),
    ("M", "min"),
    ("sec", "s"),
    ("secs", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("S", "s"),
    ("hr", "h"),
    ("hour", "h"),
    ("hours", "h"),
    ("H", "h"),
    ("day", "d"),
    ("days", "d"),
    ("D", "d"),
    ("msec", "ms"),
    ("µs", "us"),
    ("μs", "us"),
];

const DURATION: &str = "a duration";
const DURATION_RIGHT: &str = "write a whole number and a unit (us, ms, s, min, h, d), such as `10s`";

/// Reads a duration, to the microsecond.
///
/// # Errors
/// No unit, another unit, no whole number, more than 2^64 µs.
pub fn duration(text: &str) -> Result<Duration, Unreadable> {
    let refuse = |right: String| Err(Unreadable::new(text, DURATION, right));
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    match unit {
        _ if number.is_empty() => refuse(DURATION_RIGHT.into()),
        "" => refuse(format!("a unit is missing; write for example `{number}s` or `{number}ms` (units: us, ms, s, min, h, d)")),
        _ if unit.starts_with(['.', ',']) => {
            refuse("write a whole number of a smaller unit, such as `1500ms` for one and a half seconds".into())
        }
        _ => match micros_of(unit) {
            Ok(scale) => match number.parse::<u64>().ok().and_then(|n| n.checked_mul(scale)) {
                Some(micros) => Ok(Duration::from_micros(micros)),
                None => refuse("it is longer than 584,000 years".into()),
            },
            Err(Some(known)) => refuse(format!("the unit is written `{known}`: `{number}{known}`")),
            Err(None) => refuse(DURATION_RIGHT.into()),
        },
    }
}

/// Microseconds of a unit, or else the unit that was probably meant.
fn micros_of(unit: &str) -> Result<u64, Option<&'static str>> {
    match UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, micros)) => Ok(*micros),
        None => Err(OTHER_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, known)| *known)),
    }
}

/// A duration as [`duration`] reads it, in the longest unit that needs no fraction. What is
/// below a microsecond is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationText(pub Duration);

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        if micros == 0 {
            return f.write_str("0s");
        }
        match UNITS.iter().find(|(_, scale)| micros.is_multiple_of(u128::from(*scale))) {
            Some((unit, scale)) => write!(f, "{}{unit}", micros / u128::from(*scale)),
            None => write!(f, "{micros}us"),
        }
    }
}

const TOKENS: &str = "an amount of tokens";

/// Reads an amount of tokens.
///
/// # Errors
/// Not a decimal number, more than 6 places, more than [`MAX_EXACT`] micro-tokens.
pub fn tokens(text: &str) -> Result<MicroTokens, Unreadable> {
    match decimal(text, 6) {
        Ok(micro) if micro <= MAX_EXACT => Ok(MicroTokens(micro)),
        Ok(_) | Err(BadDecimal::TooLarge) => {
            Err(Unreadable::new(text, TOKENS, format!("at most {} can be counted exactly", MicroTokens(MAX_EXACT))))
        }
        Err(bad) => Err(Unreadable::new(text, TOKENS, bad.right("200", "0.5", 6))),
    }
}

/// Tokens in a span: what a bucket refills by, continuously.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How much in one period.
    pub amount: MicroTokens,
    /// The period.
    pub period: Duration,
}

const RATE: &str = "a rate";
const RATE_RIGHT: &str = "write an amount, a slash and a unit or a duration, such as `100/s`, `5000/min` or `100/10s`";

/// Reads a rate. The amount may be zero and the period of any length above zero: whoever asks
/// for a rate says what it may be.
///
/// # Errors
/// No slash, or a part that is no amount or no unit of time.
pub fn rate(text: &str) -> Result<Rate, Unreadable> {
    let refuse = |right: String| Unreadable::new(text, RATE, right);
    let Some((amount, per)) = text.split_once('/') else {
        let per_what =
            if decimal(text, 6).is_ok() { format!("per what? Write for example `{text}/s` or `{text}/min`") } else { RATE_RIGHT.into() };
        return Err(refuse(per_what));
    };
    let amount = tokens(amount).map_err(|e| refuse(if amount.is_empty() { RATE_RIGHT.into() } else { e.to_string() }))?;
    let period = if per.starts_with(|c: char| c.is_ascii_digit()) {
        duration(per).map_err(|e| refuse(e.to_string()))?
    } else {
        let micros = micros_of(per).map_err(|known| {
            refuse(known.map_or_else(|| RATE_RIGHT.into(), |known| format!("the unit is written `{known}`: `{amount}/{known}`")))
        })?;
        Duration::from_micros(micros)
    };
    if period.is_zero() {
        return Err(refuse("the period is zero".into()));
    }
    Ok(Rate { amount, period })
}

impl fmt::Display for Rate {
    /// As [`rate`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, micros)| Duration::from_micros(*micros) == self.period) {
            Some((unit, _)) => write!(f, "{}/{unit}", self.amount),
            None => write!(f, "{}/{}", self.amount, DurationText(self.period)),
        }
    }
}

const SHARE: &str = "a share";

/// Reads a share, to a millionth of the whole. It may be more than the whole.
///
/// # Errors
/// No percent sign, not a decimal number, more than 4 places, more than 429496.7295%.
pub fn share(text: &str) -> Result<PartsPerMillion, Unreadable> {
    let refuse = |right: String| Err(Unreadable::new(text, SHARE, right));
    let Some(number) = text.strip_suffix('%') else {
        return refuse(match decimal(text, 4) {
            Ok(1..10_000) => "a share is written in percent: a half is `50%`".into(),
            Ok(_) => format!("a share is written in percent: `{text}%`"),
            Err(_) => "write a number and a percent sign, such as `30%`".into(),
        });
    };
    match decimal(number, 4).map(u32::try_from) {
        Ok(Ok(millionths)) => Ok(PartsPerMillion(millionths)),
        Ok(Err(_)) | Err(BadDecimal::TooLarge) => refuse("at most 429496.7295%".into()),
        Err(bad) => refuse(bad.right("30%", "12.5%", 4)),
    }
}

/// A share as [`share`] reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareText(pub PartsPerMillion);

impl fmt::Display for ShareText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0.0 / 10_000, self.0.0 % 10_000);
        if part == 0 {
            return write!(f, "{whole}%");
        }
        let places = format!("{part:04}");
        write!(f, "{whole}.{}%", places.trim_end_matches('0'))
    }
}

/// Reads an IP address and a port to listen on.
///
/// # Errors
/// A host name, no port, or neither.
pub fn socket_address(text: &str) -> Result<SocketAddr, Unreadable> {
    text.parse().map_err(|_| {
        let right = "write an IP address and a port, such as `127.0.0.1:7101` or `[::1]:7101`";
        Unreadable::new(text, "an address to listen on", right)
    })
}

/// Reads a host and a port at which something is reached: `10.0.0.1:7101`, `[::1]:7101`,
/// `coordinator-1.internal:7101`.
///
/// # Errors
/// No port, port 0, or a host that is neither an IP address nor a DNS name.
pub fn host_and_port(text: &str) -> Result<String, Unreadable> {
    let right = "write a host and a port, such as `10.0.0.1:7101` or `coordinator-1.internal:7101`";
    let refuse = |right: &str| Err(Unreadable::new(text, "a host and a port", right));
    if let Ok(address) = text.parse::<SocketAddr>() {
        return match (address.port(), address.ip().is_unspecified()) {
            (0, _) => refuse("port 0 cannot be reached"),
            (_, true) => refuse("an unspecified address cannot be reached: name the address that others see"),
            _ => Ok(text.to_owned()),
        };
    }
    let Some((host, port)) = text.rsplit_once(':') else { return refuse(right) };
    let port_is_one = port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|p| p != 0);
    if port_is_one && is_host_name(host) { Ok(text.to_owned()) } else { refuse(right) }
}

/// Reads the base URL of a collector: scheme, host and port, and perhaps a path; without the slash at its end.
///
/// # Errors
/// Another scheme, no port, or a host that is none.
pub fn collector(text: &str) -> Result<String, Unreadable> {
    let url = text.strip_suffix('/').unwrap_or(text);
    let after = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let authority = after.map(|after| after.split('/').next().unwrap_or_default());
    match authority.map(host_and_port) {
        Some(Ok(_)) if url.bytes().all(|b| b.is_ascii_graphic()) => Ok(url.to_owned()),
        _ => Err(Unreadable::new(text, "the URL of a collector", "write scheme, host and port, such as `http://127.0.0.1:4318`")),
    }
}

/// RFC 1123, section 2.1: labels of letters, digits and inner hyphens; the last is not a number.
fn is_host_name(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let label = |l: &str| (1..=63).contains(&l.len()) && l.bytes().all(inner) && !l.starts_with('-') && !l.ends_with('-');
    let last_is_number = text.rsplit('.').next().is_some_and(|l| l.bytes().all(|b| b.is_ascii_digit()));
    text.len() <= 253 && text.split('.').all(label) && !last_is_number
}

/// Why a text is no decimal number.
enum BadDecimal {
    NotOne,
    Negative,
    LeadingZero,
    NoDigitsBeforePoint,
    TooManyPlaces,
    TooLarge,
}

impl BadDecimal {
    fn right(&self, whole: &str, broken: &str, places: u32) -> String {
        match self {
            Self::Negative => "it cannot be negative".into(),
            Self::LeadingZero => "write it without leading zeros".into(),
            Self::NoDigitsBeforePoint => format!("write a digit on both sides of the point, such as `{broken}`"),
            Self::TooManyPlaces => format!("at most {places} decimal places"),
            Self::TooLarge | Self::NotOne => format!("write a decimal number, such as `{whole}` or `{broken}`"),
        }
    }
}

/// Reads `digits[.digits]` exactly, as a whole number of 10^-`places`.
fn decimal(text: &str, places: u32) -> Result<u64, BadDecimal> {
    let (whole, part) = text.split_once('.').map_or((text, None), |(w, p)| (w, Some(p)));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if text.starts_with('-') {
        return Err(BadDecimal::Negative);
    }
    if !digits(whole) || !part.is_none_or(digits) || text.is_empty() {
        return Err(BadDecimal::NotOne);
    }
    if whole.is_empty() || part == Some("") {
        return Err(BadDecimal::NoDigitsBeforePoint);
    }
    if whole.len() > 1 && whole.starts_with('0') {
        return Err(BadDecimal::LeadingZero);
    }
    let part = part.unwrap_or("").trim_end_matches('0');
    let missing = u32::try_from(part.len()).ok().and_then(|n| places.checked_sub(n)).ok_or(BadDecimal::TooManyPlaces)?;
    let fraction = if part.is_empty() { 0 } else { part.parse::<u64>().map_err(|_| BadDecimal::TooLarge)? * 10u64.pow(missing) };
    let whole = whole.parse::<u64>().ok().and_then(|w| w.checked_mul(10u64.pow(places)));
    whole.and_then(|w| w.checked_add(fraction)).ok_or(BadDecimal::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told<T>(read: Result<T, Unreadable>) -> String {
        read.err().map_or_else(|| "read".into(), |e| e.to_string())
    }

    #[test]
    fn durations_have_units() {
        let micros = |text| duration(text).map(|d| d.as_micros());
        for (text, us) in [
            ("1us", 1),
            ("250ms", 250_000),
            ("10s", 10_000_000),
            ("1min", 60_000_000),
            ("1h", 3_600_000_000),
            ("1d", 86_400_000_000),
            ("0s", 0),
        ] {
            assert_eq!(micros(text), Ok(us), "{text}");
        }
        for (text, right) in [
            ("10", "a unit is missing; write for example `10s` or `10ms` (units: us, ms, s, min, h, d)"),
            ("", DURATION_RIGHT),
            ("s", DURATION_RIGHT),
            ("-5s", DURATION_RIGHT),
            ("10 s", DURATION_RIGHT),
            (" 10s", DURATION_RIGHT),
            ("5w", DURATION_RIGHT),
            ("1h30min", DURATION_RIGHT),
            ("5m", "the unit is written `min`: `5min`"),
            ("5µs", "the unit is written `us`: `5us`"),
            ("1.5s", "write a whole number of a smaller unit, such as `1500ms` for one and a half seconds"),
            ("99999999999999999999s", "it is longer than 584,000 years"),
            ("18446744073709551615ms", "it is longer than 584,000 years"),
        ] {
            assert_eq!(told(duration(text)), format!("`{text}` is not a duration: {right}"));
        }
    }

    #[test]
    fn amounts_are_exact_decimals() {
        for (text, micro) in [
            ("0", 0),
            ("1", 1_000_000),
            ("0.5", 500_000),
            ("0.000001", 1),
            ("1.10", 1_100_000),
            ("9007199254.740991", MAX_EXACT),
            ("1.0000000", 1_000_000),
        ] {
            assert_eq!(tokens(text), Ok(MicroTokens(micro)), "{text}");
        }
        let decimal = "write a decimal number, such as `200` or `0.5`";
        for (text, right) in [
            ("", decimal),
            ("1e3", decimal),
            ("1_000", decimal),
            ("1,000", decimal),
            ("10k", decimal),
            ("+1", decimal),
            ("0x10", decimal),
            ("٣", decimal),
            ("1.2.3", decimal),
            ("-1", "it cannot be negative"),
            ("007", "write it without leading zeros"),
            (".5", "write a digit on both sides of the point, such as `0.5`"),
            ("5.", "write a digit on both sides of the point, such as `0.5`"),
            (".", "write a digit on both sides of the point, such as `0.5`"),
            ("0.0000001", "at most 6 decimal places"),
            ("9007199254.740992", "at most 9007199254.740991 can be counted exactly"),
            ("18446744073709551616", "at most 9007199254.740991 can be counted exactly"),
        ] {
            assert_eq!(told(tokens(text)), format!("`{text}` is not an amount of tokens: {right}"));
        }
    }

    #[test]
    fn rates_have_a_period() {
        let read = |text| rate(text).map(|r| (r.amount.0, r.period.as_micros()));
        for (text, amount, us) in [
            ("100/s", 100_000_000, 1_000_000),
            ("5000/min", 5_000_000_000, 60_000_000),
            ("100/10s", 100_000_000, 10_000_000),
            ("0.5/s", 500_000, 1_000_000),
            ("0/h", 0, 3_600_000_000),
            ("1/d", 1_000_000, 86_400_000_000),
            ("1/1us", 1_000_000, 1),
        ] {
            assert_eq!(read(text), Ok((amount, us)), "{text}");
        }
        for (text, right) in [
            ("100", "per what? Write for example `100/s` or `100/min`"),
            ("", RATE_RIGHT),
            ("/s", RATE_RIGHT),
            ("100/", RATE_RIGHT),
            ("100/fortnight", RATE_RIGHT),
            ("100/minute", "the unit is written `min`: `100/min`"),
            ("100/10", "`10` is not a duration: a unit is missing; write for example `10s` or `10ms` (units: us, ms, s, min, h, d)"),
            ("100/0s", "the period is zero"),
            ("-1/s", "`-1` is not an amount of tokens: it cannot be negative"),
        ] {
            assert_eq!(told(rate(text)), format!("`{text}` is not a rate: {right}"));
        }
    }

    #[test]
    fn a_collector_has_a_scheme_a_host_and_a_port() {
        for (text, read) in
            [("http://127.0.0.1:4318", "http://127.0.0.1:4318"), ("https://otel.internal:443/a/", "https://otel.internal:443/a")]
        {
            assert_eq!(collector(text), Ok(read.to_owned()));
        }
        for text in ["127.0.0.1:4318", "grpc://127.0.0.1:4317", "http://127.0.0.1", "http://:4318", "http://a:1/\n", ""] {
            assert!(collector(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_are_percentages() {
        for (text, millionths) in
            [("0%", 0), ("30%", 300_000), ("12.5%", 125_000), ("100%", 1_000_000), ("0.0001%", 1), ("250%", 2_500_000)]
        {
            assert_eq!(share(text), Ok(PartsPerMillion(millionths)), "{text}");
        }
        for (text, right) in [
            ("30", "a share is written in percent: `30%`"),
            ("0.3", "a share is written in percent: a half is `50%`"),
            ("half", "write a number and a percent sign, such as `30%`"),
            ("%", "write a decimal number, such as `30%` or `12.5%`"),
            ("-1%", "it cannot be negative"),
            ("0.00001%", "at most 4 decimal places"),
            ("429496.7296%", "at most 429496.7295%"),
        ] {
            assert_eq!(told(share(text)), format!("`{text}` is not a share: {right}"));
        }
        assert_eq!(share("429496.7295%"), Ok(PartsPerMillion(u32::MAX)));
    }

    #[test]
    fn addresses_name_a_port_that_can_be_reached() {
        assert!(socket_address("127.0.0.1:0").is_ok() && socket_address("[::1]:7101").is_ok());
        for bad in ["localhost:1", "127.0.0.1", ":7101", "127.0.0.1:70000"] {
            assert!(socket_address(bad).is_err(), "{bad}");
        }
        for good in ["10.0.0.1:7101", "[::1]:7101", "localhost:1", "coordinator-1.internal:65535"] {
            assert_eq!(host_and_port(good).as_deref(), Ok(good));
        }
        for bad in [
            "10.0.0.1",
            "host",
            "host:0",
            "host:+1",
            "host:65536",
            "0.0.0.0:1",
            "[::]:1",
            "::1:7101",
            "-a:1",
            "a..b:1",
            "1.2.3:4",
            "http://a:1",
            "a b:1",
            ":1",
        ] {
            assert!(host_and_port(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_duration_reads_back(micros: u64) {
            let span = Duration::from_micros(micros);
            prop_assert_eq!(duration(&DurationText(span).to_string()), Ok(span));
        }

        #[test]
        fn a_rate_reads_back(amount in 0..=MAX_EXACT, period in prop_oneof![prop::sample::select(UNITS.map(|u| u.1).to_vec()), 1..=u64::MAX]) {
            let written = Rate { amount: MicroTokens(amount), period: Duration::from_micros(period) };
            prop_assert_eq!(rate(&written.to_string()), Ok(written));
        }

        #[test]
        fn an_amount_reads_back(micro in 0..=MAX_EXACT) {
            prop_assert_eq!(tokens(&MicroTokens(micro).to_string()), Ok(MicroTokens(micro)));
        }

        #[test]
        fn a_share_reads_back(millionths: u32) {
            prop_assert_eq!(share(&ShareText(PartsPerMillion(millionths)).to_string()), Ok(PartsPerMillion(millionths)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
            for told in [told(duration(&text)), told(tokens(&text)), told(rate(&text)), told(share(&text)), told(host_and_port(&text))] {
                prop_assert!(!told.is_empty());
            }
        }
    }
}
