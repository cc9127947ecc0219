//! Built-in traffic: how many requests each region sends at each instant.

use std::f64::consts::TAU;
use std::time::Duration;

/// How demand moves between regions. The sum over all regions is constant in each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    /// All regions alike, all the time.
    Steady,
    /// Each region in turn has its day: from nothing up to twice its even part and back.
    FollowTheSun,
    /// All alike for half a cycle, then most of it in the first region for the other half.
    Step,
}

/// Demand of all regions over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Over all regions, in requests per second.
    rate: f64,
    shape: Shape,
    regions: usize,
    cycle: Duration,
}

/// Part of all demand that comes from the first region in the second half of [`Shape::Step`].
const STEP_SHARE: f64 = 0.8;

impl Demand {
    /// `rate` requests per second over all regions; shapes repeat every `cycle`.
    ///
    /// A rate that is not a positive number is none; there is at least one region, and a cycle lasts at least 1 ms.
    pub fn new(shape: Shape, rate: f64, regions: usize, cycle: Duration) -> Self {
        let rate = if rate.is_finite() { rate.max(0.0) } else { 0.0 };
        Self { rate, shape, regions: regions.max(1), cycle: cycle.max(Duration::from_millis(1)) }
    }

    /// Requests per second that `region` (from 0) sends when `elapsed` has passed.
    #[cfg(test)]
    pub fn at(&self, region: usize, elapsed: Duration) -> f64 {
        let even = self.rate / self.regions as f64;
        if self.regions == 1 {
            return even;
        }
        match self.shape {
            Shape::Steady => even,
            Shape::FollowTheSun => even * (1.0 + (TAU * (self.cycles(elapsed) - self.noon(region))).cos()),
            Shape::Step if self.cycles(elapsed).fract() < 0.5 => even,
            Shape::Step => self.stepped(region),
        }
    }

    /// Requests that `region` has sent once `elapsed` has passed: the integral of [`Demand::at`].
    pub fn sent_by(&self, region: usize, elapsed: Duration) -> f64 {
        let even = self.rate / self.regions as f64;
        if self.regions == 1 {
            return even * elapsed.as_secs_f64();
        }
        match self.shape {
            Shape::Steady => even * elapsed.as_secs_f64(),
            Shape::FollowTheSun => {
                let (cycle, noon) = (self.cycle.as_secs_f64(), self.noon(region));
                let swing = (TAU * (self.cycles(elapsed) - noon)).sin() + (TAU * noon).sin();
                even * (elapsed.as_secs_f64() + cycle / TAU * swing)
            }
            Shape::Step => {
                let (half, cycles) = (self.cycle.as_secs_f64() / 2.0, self.cycles(elapsed));
                let (whole, part) = (cycles.floor(), cycles.fract() * 2.0);
                let in_even = whole + part.min(1.0);
                let in_stepped = whole + (part - 1.0).max(0.0);
                half * (even * in_even + self.stepped(region) * in_stepped)
            }
        }
    }

    fn cycles(&self, elapsed: Duration) -> f64 {
        elapsed.as_secs_f64() / self.cycle.as_secs_f64()
    }

    /// When in its cycle a region has most demand.
    fn noon(&self, region: usize) -> f64 {
        region as f64 / self.regions as f64
    }

    fn stepped(&self, region: usize) -> f64 {
        match region {
            0 => self.rate * STEP_SHARE,
            _ => self.rate * (1.0 - STEP_SHARE) / (self.regions - 1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: [Shape; 3] = [Shape::Steady, Shape::FollowTheSun, Shape::Step];

    fn demand(shape: Shape, regions: usize) -> Demand {
        Demand::new(shape, 120.0, regions, Duration::from_secs(60))
    }

    #[test]
    fn all_regions_together_send_the_rate_at_every_instant() {
        for shape in SHAPES {
            for regions in [1, 2, 3, 5] {
                for ms in (0..150_000).step_by(777) {
                    let total: f64 = (0..regions).map(|r| demand(shape, regions).at(r, Duration::from_millis(ms))).sum();
                    assert!((total - 120.0).abs() < 1e-6, "{shape:?} of {regions} at {ms} ms: {total}");
                }
            }
        }
    }

    #[test]
    fn what_was_sent_is_the_integral_of_the_demand() {
        for shape in SHAPES {
            for region in 0..3 {
                let demand = demand(shape, 3);
                let mut sum = 0.0;
                for ms in 0..100_000_u64 {
                    sum += demand.at(region, Duration::from_micros(ms * 1_000 + 500)) / 1_000.0;
                }
                let sent = demand.sent_by(region, Duration::from_secs(100));
                assert!((sum - sent).abs() < 0.01, "{shape:?}, region {region}: {sum} and {sent}");
            }
        }
    }

    #[test]
    fn the_sun_reaches_each_region_in_turn() {
        let demand = demand(Shape::FollowTheSun, 3);
        for region in 0..3 {
            let noon = Duration::from_secs(20 * region as u64);
            assert!((demand.at(region, noon) - 80.0).abs() < 1e-6);
            assert!(demand.at(region, noon + Duration::from_secs(30)) < 1e-6);
        }
    }

    #[test]
    fn the_step_comes_after_half_a_cycle() {
        let demand = demand(Shape::Step, 3);
        assert!((demand.at(0, Duration::from_secs(29)) - 40.0).abs() < 1e-6);
        assert!((demand.at(0, Duration::from_secs(31)) - 96.0).abs() < 1e-6);
    }

    #[test]
    fn no_number_is_no_demand() {
        for rate in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(Demand::new(Shape::Steady, rate, 0, Duration::ZERO).at(0, Duration::ZERO), 0.0);
        }
    }
}
