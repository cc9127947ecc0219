//! docs/protocol.md, "What a region may use": a live region is never below its floor, except for
//! what it was told to leave alone.

use super::{Violation, fits};
use crate::simulation::Micros;
use crate::simulation::region::Usable;
use quorate_ledger::Reckoning;
use quorate_shared::names::RegionName;
use quorate_shared::time::Drift;
use quorate_shared::units::{Capacity, MicroTokens};

const RULE: &str = "a region never below its floor";

/// Checks that a region leaves alone no more than the ledger told it to; or after a loss of its
/// state, than may ever be lent (R7).
pub fn check(at: Micros, name: &RegionName, usable: &Usable, reckoning: &Reckoning) -> Result<(), Violation> {
    if usable.ended && usable.leased {
        return Err(Violation { at, rule: RULE, what: format!("the floor of {name} has ended, though it is leased") });
    }
    if !reckoning.live || usable.whole || !usable.settled {
        return Ok(());
    }
    let burnt = if usable.burnt { usable.lendable } else { Capacity::ZERO };
    fits(at, RULE, usable.lent, reckoning.lent_most.max(burnt), || format!("{name} leaves alone"))
}

/// What a region's own part alone would admit of one place: a bucket of its own, at the own rate, of
/// the own burst. Whatever happens to leases, a region refuses nothing that is in it.
///
/// It begins anew, empty, at the next request after the real one may have been emptied or cut for a reason
/// that this one does not follow: a session was opened, the lease had lapsed, the store lost its state,
/// policies changed, or a question was decided long after it was put.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnBucket {
    /// Micro-tokens times the period in microseconds.
    level: u128,
    /// By the store's clock.
    at: u64,
    rate: MicroTokens,
    cap: u128,
    /// True from the next request on.
    counts: bool,
}

/// The real bucket may lose a fraction of a micro-token with each change.
const ROUNDING: u64 = 1_000;

impl OwnBucket {
    /// The region was looked at, at this instant of its store's clock.
    pub fn follow(&mut self, clock: u64, before: &Usable, after: &Usable, drift: Drift) {
        self.refill(clock);
        let own = after.floor.minus(after.lent);
        // what is lent counts from its change on: the real one settles that with less
        let basis =
            |usable: &Usable| (usable.session, usable.epoch, usable.policies, usable.generation, usable.floor, usable.lent, usable.burnt);
        if basis(before) != basis(after) {
            self.begin_anew();
        }
        self.rate = own.rate.scale_floor(1_000_000 - u64::from(drift.ppm()), 1_000_000);
        self.cap = u128::from(own.burst.0) * after.period.as_micros();
        self.level = self.level.min(self.cap);
    }

    /// The real one may hold less than anybody here knows.
    pub fn begin_anew(&mut self) {
        (self.level, self.counts) = (0, false);
    }

    /// A request was admitted.
    pub fn take(&mut self, clock: u64, cost: MicroTokens, usable: &Usable) {
        self.refill(clock);
        self.counts = true;
        self.level = self.level.saturating_sub(u128::from(cost.0) * usable.period.as_micros());
    }

    /// True if so much is in it.
    pub fn holds(&mut self, clock: u64, cost: MicroTokens, usable: &Usable) -> bool {
        self.refill(clock);
        self.counts = true;
        self.cap > 0 && self.level >= u128::from(cost.0 + ROUNDING) * usable.period.as_micros()
    }

    fn refill(&mut self, clock: u64) {
        let gained = u128::from(clock.saturating_sub(self.at)) * u128::from(self.rate.0);
        if self.counts {
            self.level = (self.level + gained).min(self.cap);
        }
        self.at = clock;
    }
}

/// The violation, if a region refuses what its own part would have admitted.
pub fn refused(at: Micros, name: &RegionName, cost: MicroTokens) -> Violation {
    Violation { at, rule: RULE, what: format!("{name} refuses {cost}, which its own part would admit") }
}
