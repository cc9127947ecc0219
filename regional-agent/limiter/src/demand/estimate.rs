//! How much is wanted in one period, from single requests.
//!
//! The last second is kept in slots. What was asked before is an average that forgets. Where the
//! slots contradict the average, by more than chance makes them, they are right and it is not:
//! demand that rose or fell is known after a slot or two, and demand that did neither is steady.

use crate::decision::LimitDecision;
use quorate_shared::time::LocalTime;
use quorate_shared::units::MicroTokens;
use std::time::Duration;

/// One slot, in microseconds.
const SLOT: u64 = 125_000;

/// Slots that are kept.
const SLOTS: usize = 8;

/// Over so many slots, and the one under way, a change is looked for: one by more than so many
/// standard deviations. The longest first, since the most recent is right.
const SPANS: [(usize, u64); 4] = [(7, 3), (3, 3), (1, 3), (0, 4)];

/// The average forgets over so many slots, or over [`PART_OF_PERIOD`] of a longer period.
const MEMORY: u64 = 16;

/// A trend is one by more than so many standard deviations.
const TREND_CHANCE: u64 = 3;

/// So many slots ahead is a trend followed: until capacity has moved, and the next heartbeat comes.
const AHEAD: u64 = 8;

/// Where so many requests should have come and none did, no more are to be expected.
const GONE: u64 = 24;

/// For so many slots a change of demand is new.
const NEW: u64 = 2;

/// Over so much of a budget's period at least is demand spread: one request is no demand for
/// sixty a minute.
const PART_OF_PERIOD: u64 = 16;

/// Fewer requests than this in a second say little, so that demand is what they say at most.
const FEW: u64 = 16;

/// Nothing asked for in so many times the least span is no demand at all.
const QUIET: u64 = 2;

/// The demand for one budget.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Estimate {
    /// The last ones, the slot under way among them, each at its number modulo their count.
    slots: [Slot; SLOTS],
    /// Number of the slot under way.
    present: u64,
    /// Wanted in one period, by what was asked before the slot under way.
    average: u64,
    /// The same average of the average, which lags as far behind it as it does behind the demand.
    slower: u64,
    /// The first slot after the last change.
    since: u64,
    /// The slot of the last request.
    last: u64,
    /// When that was, in microseconds.
    last_at: u64,
    /// What it cost.
    cost: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    asked: u64,
    /// The largest single cost.
    largest: u64,
}

impl Estimate {
    pub fn new(now: LocalTime) -> Self {
        let present = now.as_micros() / SLOT;
        Self { present, since: present, last: present, ..Self::default() }
    }

    /// Counts a request.
    pub fn add(&mut self, now: LocalTime, cost: MicroTokens, period: Duration) {
        self.advance(now, period);
        let slot = self.slot(self.present);
        slot.asked = slot.asked.saturating_add(cost.0);
        slot.largest = slot.largest.max(cost.0);
        self.last = self.present;
        self.last_at = now.as_micros();
        self.cost = cost.0;
    }

    fn slot(&mut self, number: u64) -> &mut Slot {
        &mut self.slots[(number % SLOTS as u64) as usize]
    }

    /// Ends the slots that are over.
    fn advance(&mut self, now: LocalTime, period: Duration) {
        let number = (now.as_micros() / SLOT).max(self.present);
        if number.saturating_sub(self.last) > QUIET * shortest(period) / SLOT {
            *self = Self::new(now);
        }
        if number == self.present {
            return;
        }
        let memory = memory(period);
        while self.present < number {
            let rate = in_period(self.slot(self.present).asked, SLOT, period);
            self.average = nearer(self.average, rate, memory);
            self.slower = nearer(self.slower, self.average, memory);
            self.present += 1;
            *self.slot(self.present) = Slot::default();
        }
        self.correct(number * SLOT, period);
    }

    /// Puts what the slots say in place of an average that they contradict.
    fn correct(&mut self, now: u64, period: Duration) {
        if self.present.saturating_sub(self.last) > SLOTS as u64 {
            return; // so long after the last request there is nothing new
        }
        if self.is_gone(now, period) {
            *self = Self { last: self.last, last_at: self.last_at, cost: self.cost, ..Self::new(LocalTime::from_micros(now)) };
        }
        let largest = self.largest();
        for (span, chance) in SPANS {
            let (asked, _, micros) = self.over(span, now);
            let expected = expected(self.level(period), micros, period);
            if let Some(likely) = contradicted(asked, largest, expected, chance) {
                self.average = in_period(likely, micros, period);
                self.slower = self.average;
                self.since = self.since.max(self.present.saturating_sub(span as u64));
            }
        }
    }

    /// True if there was nothing for so long that chance does not explain it.
    fn is_gone(&self, now: u64, period: Duration) -> bool {
        let (_, largest, _) = self.over(SLOTS - 1, now);
        let missing = expected(self.average, now.saturating_sub(self.last_at), period);
        missing > largest.max(self.cost).max(1).saturating_mul(GONE)
    }

    /// The largest cost of the last second. A slot by itself says little of how large requests are:
    /// where they are large, it may hold none or a small one by chance.
    fn largest(&self) -> u64 {
        self.slots.iter().map(|slot| slot.largest).fold(self.cost, u64::max)
    }

    /// Asked in the last `span` slots and the one under way, the largest cost, and how long that is.
    fn over(&self, span: usize, now: u64) -> (u64, u64, u64) {
        let first = self.present.saturating_sub(span as u64).max(self.since);
        let slots = (first..=self.present).map(|number| self.slots[(number % SLOTS as u64) as usize]);
        let (asked, largest) = slots.fold((0_u64, 0), |(sum, largest), slot| (sum.saturating_add(slot.asked), largest.max(slot.largest)));
        (asked, largest, now.saturating_sub(first * SLOT).max(1))
    }

    /// How far the average lags behind a demand that rises or falls steadily (Brown's double
    /// exponential smoothing); nothing if it may be chance, as it always may where requests are few.
    /// True if it rises.
    fn lag(&self, period: Duration) -> (bool, u64) {
        let lag = self.average.abs_diff(self.slower);
        let span = memory(period).saturating_mul(SLOT);
        let (_, largest, _) = self.over(SLOTS - 1, 0);
        let largest = largest.max(self.cost);
        if expected(self.average, SLOTS as u64 * SLOT, period) < largest.saturating_mul(FEW) {
            return (false, 0);
        }
        let chance = in_period(deviation(expected(self.average, span, period), largest), span, period) / 2;
        let counts = lag > chance.saturating_mul(TREND_CHANCE);
        (self.average > self.slower, if counts { lag } else { 0 })
    }

    /// Wanted in one period, by what was asked before the slot under way, and its trend.
    fn level(&self, period: Duration) -> u64 {
        match self.lag(period) {
            (true, lag) => self.average.saturating_add(lag),
            (false, lag) => self.average.saturating_sub(lag),
        }
    }

    /// What the level will be when what is asked for now has come.
    fn soon(&self, period: Duration) -> u64 {
        let (rises, lag) = self.lag(period);
        let change = lag.saturating_mul(AHEAD) / memory(period).saturating_sub(1).max(1);
        let level = self.level(period);
        if rises { level.saturating_add(change) } else { level.saturating_sub(change) }
    }

    /// Wanted in one period, at `now`.
    pub fn demand(&mut self, now: LocalTime, period: Duration) -> MicroTokens {
        self.advance(now, period);
        // an instant read before the last one that was counted is of the present slot
        let now = now.as_micros().max(self.present * SLOT);
        self.correct(now, period);
        let (asked, largest, micros) = self.over(SLOTS - 1, now);
        let few = asked < largest.saturating_mul(FEW);
        let present = if few { in_period(asked, micros.max(shortest(period)), period) } else { 0 };
        MicroTokens(self.soon(period).max(present))
    }

    /// True if demand has changed, by more than chance, a moment ago.
    pub fn is_new(&self) -> bool {
        self.present.saturating_sub(self.since) <= NEW
    }

    /// Asked in the last second, as so much in one period.
    pub fn of_late(&self, now: LocalTime, period: Duration) -> MicroTokens {
        let (asked, _, micros) = self.over(SLOTS - 1, now.as_micros());
        MicroTokens(in_period(asked, micros.max(shortest(period)), period))
    }

    /// By so much may the average be off by chance. It knows as much as twice its memory would
    /// if that were remembered evenly.
    pub fn noise(&self, period: Duration) -> MicroTokens {
        let (_, largest, _) = self.over(SLOTS - 1, 0);
        let span = memory(period).saturating_mul(2 * SLOT);
        MicroTokens(in_period(deviation(expected(self.average, span, period), largest), span, period))
    }

    /// Asked in the last second.
    pub fn asked_of_late(&self) -> MicroTokens {
        MicroTokens(self.slots.iter().fold(0, |sum, slot| sum.saturating_add(slot.asked)))
    }

    /// True if what remains would not last for a second at the pace of the last two slots.
    pub fn empties(&self, now: LocalTime, period: Duration, decision: &LimitDecision) -> bool {
        let (asked, largest, micros) = self.over(1, now.as_micros());
        let micros = micros.max(SLOT);
        let refill = expected(decision.capacity.rate.0, micros, period);
        let net = asked.saturating_sub(refill);
        let in_a_second = u128::from(net) * 1_000_000 / u128::from(micros);
        asked >= largest.saturating_mul(4) && u128::from(decision.remaining.0) < in_a_second
    }
}

/// One step of an average that forgets over so many.
fn nearer(average: u64, value: u64, memory: u64) -> u64 {
    let sum = u128::from(average) * u128::from(memory - 1) + u128::from(value);
    u64::try_from(sum / u128::from(memory)).unwrap_or(u64::MAX)
}

/// Microseconds over which few requests are spread at least.
fn shortest(period: Duration) -> u64 {
    (micros(period) / PART_OF_PERIOD).max(SLOT * SLOTS as u64)
}

/// Slots over which the average forgets.
fn memory(period: Duration) -> u64 {
    MEMORY.max(micros(period) / PART_OF_PERIOD / SLOT)
}

fn micros(period: Duration) -> u64 {
    u64::try_from(period.as_micros()).unwrap_or(u64::MAX).max(1)
}

/// What `asked` in so many microseconds is in one period.
fn in_period(asked: u64, micros_asked: u64, period: Duration) -> u64 {
    let rate = u128::from(asked) * u128::from(micros(period)) / u128::from(micros_asked.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// What so much in one period is in so many microseconds.
fn expected(rate: u64, micros_asked: u64, period: Duration) -> u64 {
    in_period(rate, micros(period), Duration::from_micros(micros_asked))
}

/// If so much is more, or less, than chance makes of what was expected: what was to be expected
/// then, as near to what was thought as one standard deviation allows.
fn contradicted(asked: u64, largest: u64, expected: u64, chance: u64) -> Option<u64> {
    let off = u128::from(asked.abs_diff(expected));
    let variance = u128::from(asked.max(expected)).saturating_mul(u128::from(largest));
    if off.saturating_mul(off) <= variance.saturating_mul(u128::from(chance * chance)) {
        return None;
    }
    let deviation = deviation(asked, largest);
    match asked > expected {
        true => Some(asked.saturating_sub(deviation).max(expected)),
        false => Some(asked.saturating_add(deviation).min(expected)),
    }
}

/// The standard deviation of a sum of requests that come by chance (Poisson), all of them taken
/// to be as large as the largest.
fn deviation(asked: u64, largest: u64) -> u64 {
    u64::try_from((u128::from(asked) * u128::from(largest)).isqrt()).unwrap_or(u64::MAX)
}
