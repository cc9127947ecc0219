//! Who asks for how much, when.

use super::{Micros, SECOND};
use crate::simulation::chance::Chance;
use quorate_shared::units::{Capacity, MicroTokens, PartsPerMillion};

/// How the demand of the regions goes up and down. Loads are parts of the limit.
#[derive(Clone, Debug)]
pub enum Demand {
    /// Always the same, by region.
    Steady(Vec<f64>),
    /// All together always `load`; each region's part rises and falls once in a cycle, one after
    /// the other.
    Sun {
        /// Of all regions together.
        load: f64,
        /// Length of a day.
        cycle: Micros,
    },
    /// All of it in the first region, and from an instant on in the last.
    Step {
        /// Before and after.
        load: f64,
        /// When.
        at: Micros,
    },
    /// One region's demand falls from one load to another while another region wants everything.
    Fall {
        /// Of the first region, before.
        from: f64,
        /// Of the first region, after.
        to: f64,
        /// When.
        at: Micros,
    },
    /// Only the first region asks, with gaps.
    Gaps {
        /// While on.
        load: f64,
        /// Span on.
        on: Micros,
        /// Span off.
        off: Micros,
    },
    /// Each region by itself: on for a while, off for a while, each between half and one and a
    /// half of its mean.
    OnOff {
        /// While on.
        load: f64,
        /// Mean span on.
        on: Micros,
        /// Mean span off.
        off: Micros,
    },
}

/// One run.
#[derive(Clone, Debug)]
pub struct Workload {
    /// For the table.
    pub name: &'static str,
    /// How many regions.
    pub regions: usize,
    /// The limit, for one second.
    pub limit: Capacity,
    /// What each request costs.
    pub cost: MicroTokens,
    /// Who wants how much.
    pub demand: Demand,
    /// What is counted: from when to when.
    pub counted: (Micros, Micros),
    /// Round trip between agent and leader, at least and at most; drawn for each region.
    pub round_trip: (Micros, Micros),
    /// What of each floor may be lent.
    pub lendable: PartsPerMillion,
    /// A region that the network cuts off, from when on and until when.
    pub cut: Option<(usize, Micros, Micros)>,
}

/// The spans in which a region is on.
type Spans = Vec<(Micros, Micros)>;

/// The demand of one run, with what was drawn for it.
#[derive(Clone, Debug)]
pub struct Rates {
    demand: Demand,
    /// In requests in a second.
    limit: f64,
    regions: usize,
    spans: Vec<Spans>,
}

impl Rates {
    /// Draws what the workload leaves to chance.
    pub fn new(workload: &Workload, chance: &mut Chance) -> Self {
        let spans = match workload.demand {
            Demand::OnOff { on, off, .. } => (0..workload.regions).map(|_| draw_spans(on, off, workload.counted.1, chance)).collect(),
            _ => vec![Spans::new(); workload.regions],
        };
        let limit = workload.limit.rate.0 as f64 / workload.cost.0 as f64;
        Self { demand: workload.demand.clone(), limit, regions: workload.regions, spans }
    }

    /// Requests in a second.
    pub fn of(&self, region: usize, now: Micros) -> f64 {
        self.limit
            * match &self.demand {
                Demand::Steady(loads) => loads.get(region).copied().unwrap_or_default(),
                Demand::Sun { load, cycle } => load * sun(region, self.regions, now, *cycle),
                Demand::Step { load, at } => {
                    let asking = if now < *at { 0 } else { self.regions - 1 };
                    if region == asking { *load } else { 0.0 }
                }
                Demand::Fall { from, to, at } => match region {
                    0 => {
                        if now < *at {
                            *from
                        } else {
                            *to
                        }
                    }
                    1 => 1.0,
                    _ => 0.0,
                },
                Demand::Gaps { load, on, off } => {
                    let is_on = region == 0 && now % (on + off) < *on;
                    if is_on { *load } else { 0.0 }
                }
                Demand::OnOff { load, .. } => {
                    let on = self.spans[region].iter().any(|(start, end)| (*start..*end).contains(&now));
                    if on { *load } else { 0.0 }
                }
            }
    }

    /// When the demand of a region next jumps, if it does.
    pub fn next_jump(&self, region: usize, now: Micros) -> Option<Micros> {
        match self.demand {
            Demand::Step { at, .. } | Demand::Fall { at, .. } => (at > now).then_some(at),
            Demand::Gaps { on, off, .. } => {
                let begun = now - now % (on + off);
                [begun + on, begun + on + off].into_iter().find(|edge| *edge > now)
            }
            Demand::OnOff { .. } => self.spans[region].iter().flat_map(|(a, b)| [*a, *b]).find(|edge| *edge > now),
            Demand::Steady(_) | Demand::Sun { .. } => None,
        }
    }
}

/// Each region's part of the day: the square of a raised cosine, so that parts add up to one.
fn sun(region: usize, regions: usize, now: Micros, cycle: Micros) -> f64 {
    let turn = (now % cycle) as f64 / cycle as f64 - region as f64 / regions as f64;
    let height = 1.0 + (turn * std::f64::consts::TAU).cos();
    height * height / (1.5 * regions as f64)
}

fn draw_spans(on: Micros, off: Micros, until: Micros, chance: &mut Chance) -> Spans {
    let mut draw = |mean: Micros| chance.between(mean / 2, mean * 3 / 2);
    let mut spans = Spans::new();
    let mut at = draw(off) % off;
    while at < until {
        let end = at + draw(on);
        spans.push((at, end));
        at = end + draw(off);
    }
    spans
}

fn tokens(n: u64) -> MicroTokens {
    MicroTokens(n * MicroTokens::TOKEN.0)
}

impl Workload {
    /// Three regions, 1,000 requests a second and as many saved up, round trips of 50 to 250 ms,
    /// counted from 30 s on for `span`.
    fn over(name: &'static str, demand: Demand, span: Micros) -> Self {
        let limit = Capacity::new(tokens(1_000), tokens(1_000));
        let counted = (30 * SECOND, 30 * SECOND + span);
        let (round_trip, lendable) = ((50_000, 250_000), PartsPerMillion(900_000));
        Self { name, regions: 3, limit, cost: tokens(1), demand, counted, round_trip, lendable, cut: None }
    }

    /// 90 % of the demand in one region; half as much again as the limit.
    pub fn skew() -> Self {
        Self::over("skew 90/5/5, 150 %", Demand::Steady(vec![1.35, 0.075, 0.075]), 60 * SECOND)
    }

    /// The same, just below the limit.
    pub fn skew_below() -> Self {
        Self::over("skew 90/5/5, 95 %", Demand::Steady(vec![0.855, 0.047_5, 0.047_5]), 60 * SECOND)
    }

    /// Demand that goes around the world once in a cycle.
    pub fn sun(name: &'static str, cycle: Micros) -> Self {
        Self::over(name, Demand::Sun { load: 0.95, cycle }, cycle.max(120 * SECOND))
    }

    /// All of it moves; counted for `span` from then on.
    pub fn step(name: &'static str, load: f64, span: Micros) -> Self {
        Self::over(name, Demand::Step { load, at: 30 * SECOND }, span)
    }

    /// One of two hot regions needs half as much from one instant on.
    pub fn fall() -> Self {
        Self::over("half of one region's demand goes", Demand::Fall { from: 0.8, to: 0.2, at: 30 * SECOND }, 10 * SECOND)
    }

    /// Regions that are on and off.
    pub fn on_off(name: &'static str, on: Micros, off: Micros) -> Self {
        Self::over(name, Demand::OnOff { load: 1.0, on, off }, (15 * on).clamp(120 * SECOND, 300 * SECOND))
    }

    /// Twenty regions; the first has as much demand as the n-th n times.
    pub fn zipf(name: &'static str, load: f64) -> Self {
        let sum: f64 = (1..=20).map(|rank| 1.0 / f64::from(rank)).sum();
        let loads = (1..=20).map(|rank| load / f64::from(rank) / sum).collect();
        Self { regions: 20, ..Self::over(name, Demand::Steady(loads), 60 * SECOND) }
    }

    /// One region that asks for half a second less than every two seconds.
    pub fn gaps() -> Self {
        let demand = Demand::Gaps { load: 0.9, on: 3 * SECOND / 2, off: SECOND / 2 };
        Self::over("one region, off for 0.5 s of every 2 s", demand, 60 * SECOND)
    }

    /// A limit of 1 a second with a burst of 1 over five regions, of which some ask five times as often.
    pub fn one_over_five(name: &'static str, asking: [bool; 5]) -> Self {
        let loads = asking.map(|asks| if asks { 5.0 } else { 0.0 }).to_vec();
        let limit = Capacity::new(tokens(1), tokens(1));
        Self { regions: 5, limit, ..Self::over(name, Demand::Steady(loads), 240 * SECOND) }
    }

    /// Requests that cost three quarters of a burst of which each region has a third.
    pub fn large_costs() -> Self {
        let limit = Capacity::new(tokens(100), tokens(200));
        let demand = Demand::Steady(vec![0.5, 0.0, 0.0]);
        Self { limit, cost: tokens(150), ..Self::over("costs of 150 of a burst of 200", demand, 240 * SECOND) }
    }

    /// A region that lends is cut off for a while, and wants nearly its floor then.
    pub fn cut_off() -> Self {
        let demand = Demand::Steady(vec![1.35, 0.075, 0.3]);
        Self { cut: Some((2, 35 * SECOND, 75 * SECOND)), ..Self::over("a region cut off", demand, 60 * SECOND) }
    }

    /// The same by another name, and with other round trips.
    #[must_use]
    pub fn with_round_trip(self, name: &'static str, micros: Micros) -> Self {
        Self { name, round_trip: (micros, micros), ..self }
    }

    /// The same by another name, and with all of each floor lendable.
    #[must_use]
    pub fn all_lendable(self, name: &'static str) -> Self {
        Self { name, lendable: PartsPerMillion::WHOLE, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_day_add_up() {
        for now in (0..60).map(|s| s * SECOND) {
            let sum: f64 = (0..3).map(|r| sun(r, 3, now, 60 * SECOND)).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        }
    }
}
