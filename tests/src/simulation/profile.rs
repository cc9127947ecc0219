//! What kind of schedule a seed draws: which faults, how often, under which limits.

use super::Micros;
use super::SECOND;
use super::chance::Chance;
use super::fault::Fault;
use super::kinds::Kind;
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
    /// Whether floors end by themselves.
    pub ends: Ends,
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

/// Whether floors end by themselves in a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Not in this one.
    Never,
    /// Those of some policies.
    Some,
    /// Those of all; and one region stays cut off when everything else is mended, so that changes must do without it.
    All,
}

impl Ends {
    /// Drawn apart, so that all other schedules are as if there were nothing of the kind.
    fn of(kind: Kind, seed: u64) -> Self {
        let mut apart = Chance::new(seed.rotate_left(16));
        match (apart.per_mille(kind.floors_end.0), apart.per_mille(kind.floors_end.1)) {
            (false, _) => Self::Never,
            (true, false) => Self::Some,
            (true, true) => Self::All,
        }
    }
}

impl Profile {
    /// The profile of a seed of this kind.
    pub fn of(kind: Kind, seed: u64, chance: &mut Chance) -> Self {
        let script = (!kind.scripts.is_empty() && chance.per_mille(kind.scripted)).then(|| chance.pick(kind.scripts));
        let (ends, mut apart) = (Ends::of(kind, seed), Chance::new(!seed));
        let drawn = chance.pick(kind.shapes);
        let shape = match ends {
            Ends::Never => drawn,
            Ends::Some => apart.pick(&[Shape::Flow, Shape::Share, Shape::Allowance]),
            // of windows nobody knows which a region has opened that was not heard of since
            Ends::All => apart.pick(&[Shape::Flow, Shape::Share]),
        };
        let drift = Drift::from_ppm(chance.pick(&[0, 1_000, 50_000])).unwrap_or_default();
        Self {
            drift,
            lease: Duration::from_secs(4),
            // a script has three parts
            regions: if script.is_some() { 3 } else { chance.pick(&[2, 3, 3, 3]) },
            policies: if kind.many { chance.pick(&[1, 2]) } else { 1 },
            subjects: if kind.many { 2 } else { 1 },
            // drawn apart, so that the other half is as if there were no seats
            seats: (kind.seats || ends != Ends::Never) && Chance::new(!seed).per_mille(500),
            ends,
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

    /// How long floors hold by themselves that end so: longer than any lease.
    pub fn floor_ttl(&self, chance: &Chance) -> Option<Duration> {
        // looked at, not drawn
        let mut apart = Chance::new(!chance.clone().any());
        let ttl = Duration::from_secs(apart.pick(&[7, 8]));
        (self.ends == Ends::All || self.ends == Ends::Some && apart.per_mille(600)).then_some(ttl)
    }

    /// How long past use counts at most.
    pub fn longest_drain(&self) -> Duration {
        match self.shape == Shape::Share || self.has(Fault::AlgorithmChanged) {
            true => Duration::from_secs(self.periods(Shape::Share).iter().copied().max().unwrap_or_default()),
            false => Duration::ZERO,
        }
    }

    /// True if this may happen.
    pub fn has(&self, fault: Fault) -> bool {
        self.kind.troubles.iter().any(|(f, _)| *f == fault)
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
