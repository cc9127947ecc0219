//! One allowance: what each region may spend of each window, and has spent.
//!
//! For every label `Σ_i max(f_i, max granted_i, spent_i) ≤ R`. Nothing is lent, and nothing returns
//! by the end of a lease: units that were granted count as spent until the region says otherwise.

use quorate_shared::heartbeat::Number;
use quorate_shared::names::RegionName;
use quorate_shared::time::WindowLabel;
use quorate_shared::units::MicroTokens;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// How many grants are told apart that a region was told of since its echo.
const MOST_SAID: usize = 16;

/// Open windows of one allowance at most; with more, the oldest is closed.
pub(crate) const MOST_WINDOWS: usize = 8;

/// The floor of each region in one window.
pub(crate) type Floors = BTreeMap<RegionName, MicroTokens>;

/// One allowance of which somebody wanted more than a floor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Allowance {
    pub windows: BTreeMap<WindowLabel, Window>,
}

/// One window of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Window {
    pub shares: BTreeMap<RegionName, UnitShare>,
}

/// One region's part of a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct UnitShare {
    /// Units granted by responses from a number on, floor included; the first is what the echo said.
    said: VecDeque<(Number, MicroTokens)>,
    /// What the allocator would like it to have.
    pub target: MicroTokens,
    /// The most that it has reported.
    pub spent: MicroTokens,
    /// Wanted in one window, by the last report.
    pub demand: MicroTokens,
}

impl Default for UnitShare {
    fn default() -> Self {
        let said = VecDeque::from([(Number::default(), MicroTokens::ZERO)]);
        Self { said, target: MicroTokens::ZERO, spent: MicroTokens::ZERO, demand: MicroTokens::ZERO }
    }
}

impl UnitShare {
    /// What the newest response granted.
    pub fn granted(&self) -> MicroTokens {
        self.said.back().map(|(_, units)| *units).unwrap_or_default()
    }

    /// The most that the region can have spent, or may spend, beside its floor.
    pub fn held(&self) -> MicroTokens {
        self.said.iter().map(|(_, units)| *units).fold(self.spent, MicroTokens::max)
    }

    /// True if the region may spend no more than its floor.
    pub fn grants_nothing(&self) -> bool {
        self.said.iter().all(|(_, units)| *units == MicroTokens::ZERO)
    }

    /// The same, but for what the response of this number grants.
    pub fn held_before(&self, number: Number) -> MicroTokens {
        let before = self.said.iter().filter(|(said, _)| *said < number);
        before.map(|(_, units)| *units).fold(self.spent, MicroTokens::max)
    }

    /// The region has spent so much, read after response `echo` was applied: what was granted
    /// before is over. Without that report it would not be, since the region keeps what it had spent.
    pub fn take_spent(&mut self, spent: MicroTokens, echo: Option<Number>) {
        self.spent = self.spent.max(spent);
        let Some(echo) = echo else { return };
        while self.said.get(1).is_some_and(|(number, _)| *number <= echo) {
            self.said.pop_front();
        }
    }

    /// Grants `units` in the response of this number.
    pub fn say(&mut self, number: Number, units: MicroTokens) {
        if self.granted() != units {
            self.said.push_back((number, units));
        }
        if self.said.len() > MOST_SAID
            && let (Some((_, a)), Some((number, b))) = (self.said.remove(1), self.said.remove(1))
        {
            self.said.insert(1, (number, a.max(b)));
        }
    }

    /// Takes back what the response of this number was to grant, which has not left yet.
    pub fn unsay(&mut self, number: Number) {
        if self.said.len() > 1 && self.said.back().is_some_and(|(n, _)| *n == number) {
            self.said.pop_back();
        }
    }

    /// True if a response to an agent that has echoed `echo` must carry it.
    pub fn newer_than(&self, echo: Number) -> bool {
        self.said.back().is_some_and(|(number, _)| *number > echo)
    }

    /// True if something is under way with the region.
    pub fn is_open(&self) -> bool {
        self.said.len() > 1 || self.granted() != self.target
    }

    /// True if it is a floor and nothing else.
    fn is_idle(&self, floor: MicroTokens) -> bool {
        !self.is_open() && self.held() <= floor && self.target <= floor && self.demand == MicroTokens::ZERO
    }
}

impl Window {
    /// The region's share, made if need be.
    pub fn share(&mut self, region: &RegionName) -> &mut UnitShare {
        self.shares.entry(region.clone()).or_default()
    }

    /// What all regions may come to, or all but one.
    pub fn committed(&self, floors: &Floors, but: Option<&RegionName>) -> MicroTokens {
        let with_floor = floors.keys().filter(|name| !self.shares.contains_key(*name)).chain(self.shares.keys());
        let each = with_floor.filter(|name| but != Some(*name)).map(|name| self.usable(name, floors));
        each.fold(MicroTokens::ZERO, MicroTokens::saturating_add)
    }

    /// `max(f, max granted, spent)` of one region.
    pub fn usable(&self, region: &RegionName, floors: &Floors) -> MicroTokens {
        let floor = floors.get(region).copied().unwrap_or_default();
        self.shares.get(region).map(UnitShare::held).unwrap_or_default().max(floor)
    }

    /// The most that a region can have spent before it has the response of this number.
    pub fn used_at_most(&self, region: &RegionName, floors: &Floors, number: Number) -> MicroTokens {
        let floor = floors.get(region).copied().unwrap_or_default();
        self.shares.get(region).map(|share| share.held_before(number)).unwrap_or_default().max(floor)
    }

    /// As much of a region's target as the others leave; nothing beyond its floor is no grant.
    pub fn offer_to(&self, region: &RegionName, floors: &Floors, limit: MicroTokens) -> MicroTokens {
        let target = self.shares.get(region).map(|share| share.target).unwrap_or_default();
        let room = limit.saturating_sub(self.committed(floors, Some(region)));
        let floor = floors.get(region).copied().unwrap_or_default();
        let units = target.min(room);
        if units > floor { units } else { MicroTokens::ZERO }
    }

    /// True if nobody has, wants or has spent more than a floor.
    pub fn is_idle(&self, floors: &Floors) -> bool {
        self.shares.iter().all(|(name, share)| share.is_idle(floors.get(name).copied().unwrap_or_default()))
    }
}
