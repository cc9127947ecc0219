//! What makes two states one.
//!
//! A part of a state is known by what `Debug` prints of it, so no field can be forgotten. Its dates
//! are taken out, since only their distance from the present matters, and only up to the longest
//! span that anything is timed by.

use quorate_shared::heartbeat::Office;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A date in a part of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// Microseconds of its clock.
    pub at: u64,
    /// Whose clock.
    pub clock: Clock,
    /// How long ago it matters.
    pub matters: Matters,
}

/// How long a date matters after it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matters {
    /// As long as anything is timed by it.
    Longest,
    /// As long as past use counts: else it only matters whether it has passed.
    Drain,
    /// Until more than that has passed.
    MoreThanDrain,
}

/// Who shows a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The region's agent.
    Agent,
    /// The region's store.
    Store,
    /// The leader of this office; `None`: of the office of the ledger's newest entry.
    Leader(Option<Office>),
}

/// Something with its canonical form.
#[derive(Debug)]
pub struct Part<T> {
    /// The thing.
    pub value: T,
    /// A hash of all of it.
    pub whole: u64,
    /// A hash of it without its dates.
    pub shape: u64,
    /// Its dates, in order.
    pub dates: Vec<Date>,
}

impl<T: Debug> Part<T> {
    /// The canonical form of `value`.
    pub fn new(value: T) -> Self {
        Self::with_text(format!("{value:?}"), value)
    }
}

impl<T> Part<T> {
    /// The same for something of which `text` says all that matters.
    pub fn with_text(text: String, value: T) -> Self {
        let (shape, dates) = read(&text);
        Self { value, whole: hash_of(&text), shape, dates }
    }
}

/// The same for the same `thing` in every run.
pub fn hash_of(thing: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    thing.hash(&mut hasher);
    hasher.finish()
}

/// Mixes whole words, as there are very many to mix: MurmurHash3's finalizer (Appleby) after each.
#[derive(Debug, Default)]
pub struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        self.write_u64(hash_of(bytes));
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0.rotate_left(5) ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        self.0 = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        self.0 ^= self.0 >> 33;
    }

    fn write_i64(&mut self, word: i64) {
        self.write_u64(word.cast_unsigned());
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(u64::from(word));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// What is only kept for people and for the measured overshoot: no offer depends on it.
const LEFT_OUT: [&str; 2] = ["meter: Meter ", "reported: Some"];

fn read(text: &str) -> (u64, Vec<Date>) {
    let mut hasher = DefaultHasher::new();
    let mut dates = Vec::new();
    let mut office = None;
    let mut done = 0;
    for (open, _) in text.match_indices(['(', '{']) {
        if open < done {
            continue;
        }
        let before = &text[..open];
        if LEFT_OUT.iter().any(|name| before.ends_with(name)) {
            text[done..open].hash(&mut hasher);
            done = open + balanced(&text[open..]);
        } else if before.ends_with("Office ") {
            office = read_office(&text[open..]);
        } else if let Some(date) = read_date(before, &text[open..], office) {
            text[done..open].hash(&mut hasher);
            done = open + balanced(&text[open..]);
            dates.push(date);
        }
    }
    text[done..].hash(&mut hasher);
    (hasher.finish(), dates)
}

fn read_date(before: &str, text: &str, office: Option<Office>) -> Option<Date> {
    let clock = match before {
        _ if before.ends_with("LocalTime") => Clock::Agent,
        _ if before.ends_with("StoreTime") => Clock::Store,
        _ if before.ends_with(" at: LeaderTime") => Clock::Leader(office),
        _ if before.ends_with("LeaderTime") => Clock::Leader(None),
        _ => return None,
    };
    // `…_horizon: LocalTime`, `lend_horizon: Some(LeaderTime`, a lender's `RegionName("b"): LocalTime`,
    // and since when floors are in force
    let name = before.trim_end_matches("LocalTime").trim_end_matches("LeaderTime").trim_end_matches("Some(");
    let horizon = name.ends_with("horizon: ") || name.ends_with("\"): ") || name.ends_with(" since: ");
    let matters = match name {
        // of a response that ages
        _ if clock == Clock::Agent && name.ends_with(", at: ") => Matters::MoreThanDrain,
        _ if horizon => Matters::Drain,
        _ => Matters::Longest,
    };
    Some(Date { at: number(text.get(1..)?)?, clock, matters })
}

fn read_office(text: &str) -> Option<Office> {
    let (term, rest) = text.strip_prefix("{ term: ")?.split_once(", process: ")?;
    Some(Office { term: number(term)?, process: number(rest)? })
}

fn number(text: &str) -> Option<u64> {
    text[..text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())].parse().ok()
}

/// Length of what begins with an opening bracket, up to its closing one.
fn balanced(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'{' | b'[' => depth += 1,
            b')' | b'}' | b']' if depth == 1 => return at + 1,
            b')' | b'}' | b']' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::heartbeat::{Number, Stamp};
    use quorate_shared::time::{LeaderTime, LocalTime};

    fn stamp(at: u64) -> Stamp {
        Stamp { number: Number { session: 1, seq: 2 }, office: Office { term: 3, process: 4 }, at: LeaderTime::from_micros(at) }
    }

    #[test]
    fn dates_are_taken_out_with_their_clock() {
        let (a, b) = (Part::new(stamp(5)), Part::new(stamp(6)));
        assert_eq!(a.shape, b.shape);
        let clock = Clock::Leader(Some(Office { term: 3, process: 4 }));
        assert_eq!(a.dates, [Date { at: 5, clock, matters: Matters::Longest }]);
        let local = Part::new((LocalTime::from_micros(7), 1));
        assert_eq!(local.dates, [Date { at: 7, clock: Clock::Agent, matters: Matters::Longest }]);
    }

    #[test]
    fn everything_else_tells_two_apart() {
        let other = Stamp { number: Number { session: 1, seq: 3 }, ..stamp(5) };
        assert_ne!(Part::new(stamp(5)).shape, Part::new(other).shape);
    }
}
