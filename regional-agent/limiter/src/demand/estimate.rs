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
    /// The first slot after the last change.
    since: u64,
    /// The slot of the last request.
    last: u64,
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
    }

    fn slot(&mut self, number: u64) -> &mut Slot {
        &mut self.slots[(number % SLOTS as u64) as usize]
    }

    /// Ends the slots that are over.
    fn advance(&mut self, now: LocalTime, period: Duration) {
        let number = (now.as_micros() / SLOT).max(self.present);
        if number - self.last > QUIET * shortest(period) / SLOT {
            *self = Self::new(now);
        }
        if number == self.present {
            return;
        }
        let memory = u128::from(memory(period));
        while self.present < number {
            let rate = u128::from(in_period(self.slot(self.present).asked, SLOT, period));
            let average = (u128::from(self.average) * (memory - 1) + rate) / memory;
            self.average = u64::try_from(average).unwrap_or(u64::MAX);
            self.present += 1;
            *self.slot(self.present) = Slot::default();
        }
        self.correct(number * SLOT, period);
    }

    /// Puts what the slots say in place of an average that they contradict.
    fn correct(&mut self, now: u64, period: Duration) {
        if self.present - self.last > SLOTS as u64 {
            return; // so long after the last request there is nothing new
        }
        for (span, chance) in SPANS {
            let (asked, largest, micros) = self.over(span, now);
            let expected = expected(self.average, micros, period);
            if let Some(likely) = contradicted(asked, largest, expected, chance) {
                self.average = in_period(likely, micros, period);
                self.since = self.since.max(self.present.saturating_sub(span as u64));
            }
        }
    }

    /// Asked in the last `span` slots and the one under way, the largest cost, and how long that is.
    fn over(&self, span: usize, now: u64) -> (u64, u64, u64) {
        let first = self.present.saturating_sub(span as u64).max(self.since);
        let slots = (first..=self.present).map(|number| self.slots[(number % SLOTS as u64) as usize]);
        let (asked, largest) = slots.fold((0_u64, 0), |(sum, largest), slot| (sum.saturating_add(slot.asked), largest.max(slot.largest)));
        (asked, largest, now.saturating_sub(first * SLOT).max(1))
    }

    /// Wanted in one period, at `now`.
    pub fn demand(&mut self, now: LocalTime, period: Duration) -> MicroTokens {
        self.advance(now, period);
        self.correct(now.as_micros(), period);
        let (asked, largest, micros) = self.over(SLOTS - 1, now.as_micros());
        let few = asked < largest.saturating_mul(FEW);
        let present = if few { in_period(asked, micros.max(shortest(period)), period) } else { 0 };
        MicroTokens(self.average.max(present))
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
    let largest = if largest == 0 { MicroTokens::TOKEN.0 } else { largest };
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
