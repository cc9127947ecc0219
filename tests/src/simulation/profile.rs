//! What kind of schedule a seed draws: which faults, how often, under which limits.

use super::Micros;
use super::SECOND;
use super::chance::Chance;
use super::fault::Fault;
use super::kinds::{self, Kind};
use super::world::script::Script;
use quorate_shared::policy::Shape;
use quorate_shared::time::Drift;
use std::time::Duration;

/// What kind of schedule it is.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Which faults there are.
    pub kind: Kind,
    /// ρ.
    pub drift: Drift,
    /// `L`.
    pub lease: Duration,
    /// How many regions.
    pub regions: usize,
    /// How many policies, and subjects of each.
    pub policies: usize,
    /// See [`Self::policies`].
    pub subjects: usize,
    /// True if agents may spend something by themselves.
    pub seats: bool,
    /// How limits count past use at the beginning.
    pub shape: Shape,
    /// Refill in one second, in tokens: at least and at most.
    pub rate: (u64, u64),
    /// Saved up at once, in tokens.
    pub burst: (u64, u64),
    /// True if floors may add up to more than the limit.
    pub overcommitted: bool,
    /// What it follows, if anything.
    pub script: Option<Script>,
    /// The longest time between two faults that are not of a message or a call.
    pub calm: Micros,
}

impl Profile {
    /// The profile of a seed.
    pub fn of(seed: u64, chance: &mut Chance) -> Self {
        let kind = kinds::of(seed);
        let script = (!kind.scripts.is_empty() && chance.per_mille(kind.scripted)).then(|| chance.pick(kind.scripts));
        let shape = chance.pick(kind.shapes);
        let drift = Drift::from_ppm(chance.pick(&[0, 1_000, 50_000])).unwrap_or_default();
        Self {
            drift,
            lease: Duration::from_secs(4),
            // a script has three parts
            regions: if script.is_some() { 3 } else { chance.pick(&[2, 3, 3, 3]) },
            policies: if kind.many { chance.pick(&[1, 2]) } else { 1 },
            subjects: if kind.many { 2 } else { 1 },
            // drawn apart, so that the other half is as if there were no seats
            seats: kind.seats && Chance::new(!seed).per_mille(500),
            shape,
            rate: script.map_or((1, chance.pick(&[3, 8, 20])), |script| script.rate),
            burst: script.map_or((1, chance.pick(kind.bursts)), |script| script.burst),
            overcommitted: kind.many && chance.per_mille(100),
            calm: chance.pick(&[2, 4]) * SECOND,
            script,
            kind,
        }
    }

    /// How likely `fault` is to happen to one message or call, in thousandths.
    pub fn hazard(&self, fault: Fault) -> u64 {
        self.kind.hazards.iter().copied().flatten().filter(|(f, _)| *f == fault).map(|(_, n)| n).sum()
    }

    /// The periods of limits of this shape, or the lengths of their windows, in seconds.
    pub fn periods(&self, shape: Shape) -> &'static [u64] {
        match shape {
            Shape::Flow => self.kind.periods,
            Shape::Share => &[2, 4],
            Shape::Allowance => &[4, 9],
        }
    }

    /// How long past use counts at most.
    pub fn longest_drain(&self) -> Duration {
        let becomes = self.kind.troubles.iter().any(|(fault, _)| *fault == Fault::AlgorithmChanged);
        match self.shape == Shape::Share || becomes {
            true => Duration::from_secs(self.periods(Shape::Share).iter().copied().max().unwrap_or_default()),
            false => Duration::ZERO,
        }
    }

    /// What goes wrong next.
    pub fn trouble(&self, chance: &mut Chance) -> Fault {
        let total: u64 = self.kind.troubles.iter().map(|(_, weight)| weight).sum();
        let mut drawn = chance.below(total);
        for (fault, weight) in self.kind.troubles {
            match drawn.checked_sub(*weight) {
                None => return *fault,
                Some(rest) => drawn = rest,
            }
        }
        Fault::RegionCutOff
    }
}
