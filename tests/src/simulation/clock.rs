//! Clocks that run at rates of their own, step and begin anew.

use super::Micros;
use super::chance::Chance;
use quorate_shared::time::Drift;

/// One clock.
#[derive(Clone, Debug)]
pub struct Clock {
    /// What it showed then.
    base: u64,
    /// In true time.
    since: Micros,
    /// In millionths of true time.
    rate: u64,
}

impl Clock {
    /// A clock that shows `base` at the beginning. Its rate is within what `drift` allows: of two
    /// such clocks neither shows more than 1+ρ times what the other shows. The extremes are likely.
    pub fn new(base: u64, drift: Drift, chance: &mut Chance) -> Self {
        Self { base, since: 0, rate: rate(drift, chance) }
    }

    /// What it shows.
    pub fn read(&self, now: Micros) -> u64 {
        self.base + scale(now.saturating_sub(self.since), self.rate, 1_000_000)
    }

    /// The true time from which on it shows `value`; `None` if that has passed, or is beyond the
    /// end of time.
    pub fn shows(&self, value: u64, now: Micros) -> Option<Micros> {
        if value <= self.read(now) {
            return None;
        }
        let span = (u128::from(value - self.base) * 1_000_000).div_ceil(u128::from(self.rate));
        u64::try_from(span).ok().and_then(|span| self.since.checked_add(span))
    }

    /// It is put forward by `span`.
    pub fn step_forward(&mut self, now: Micros, span: u64) {
        (self.base, self.since) = (self.read(now) + span, now);
    }

    /// It is put back by `span`.
    pub fn step_back(&mut self, now: Micros, span: u64) {
        (self.base, self.since) = (self.read(now).saturating_sub(span), now);
    }

    /// It begins anew, at `base`.
    pub fn restart(&mut self, now: Micros, base: u64) {
        (self.base, self.since) = (base, now);
    }
}

/// The rate of any clock, in millionths of true time. (1 + ρ/2.1)/(1 − ρ/2.1) < 1 + ρ for ρ up to 9 %.
pub fn rate(drift: Drift, chance: &mut Chance) -> u64 {
    let most = u64::from(drift.ppm()) * 10 / 21;
    match chance.below(3) {
        0 => 1_000_000 - most,
        1 => 1_000_000 + most,
        _ => chance.between(1_000_000 - most, 1_000_000 + most),
    }
}

/// `amount · rate / whole`, rounded down.
pub fn scale(amount: u64, rate: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(amount) * u128::from(rate) / u128::from(whole)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_a_value_from_that_instant_on_and_not_before() {
        for seed in 0..50 {
            let mut chance = Chance::new(seed);
            let mut clock = Clock::new(1_000, Drift::from_ppm(50_000).expect("in range"), &mut chance);
            clock.step_forward(777, 10);
            let at = clock.shows(5_003_000, 800).expect("in the future");
            assert!(clock.read(at) >= 5_003_000 && clock.read(at - 1) < 5_003_000);
            assert_eq!(clock.shows(5, 800), None);
        }
    }

    #[test]
    fn no_two_clocks_are_further_apart_than_the_drift_allows() {
        for ppm in [0, 1_000, 50_000] {
            let drift = Drift::from_ppm(ppm).expect("in range");
            let rates: Vec<u64> = (0..300).map(|seed| rate(drift, &mut Chance::new(seed))).collect();
            let (least, most) = (rates.iter().min().expect("some"), rates.iter().max().expect("some"));
            assert!(most * 1_000_000 <= least * (1_000_000 + u64::from(ppm)), "{least} {most}");
        }
    }
}
