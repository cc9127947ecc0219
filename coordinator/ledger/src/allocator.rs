//! The allocator: who should have how much of one budget, given who wants how much.
//!
//! Weighted max-min over reported demand, see `docs/allocator.md`. It only proposes: the ledger
//! offers of a plan what R4 leaves room for, so a worse plan costs utilisation and never the bound.

mod burst;
mod claims;
mod fill;
mod hold;
mod lend;
mod units;

pub(crate) use claims::Memory;

use fill::Seat;
use lend::Flows;
use quorate_shared::heartbeat::Holding;
use quorate_shared::names::RegionName;
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::BTreeMap;

/// Room above the demand, in percent, where that can be had: a rising demand is not refused at once.
const MARGIN_PERCENT: u64 = 10;

/// A region that asks and has a burst for a large cost wants at least this part of the limit's rate.
const PART_FOR_LARGE: u64 = 4;

/// What is to be divided, and among whom.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Situation {
    /// All that is divided: the limit, less what agents may spend without their store.
    pub limit: Capacity,
    /// What of it is in no floor.
    pub pool: Capacity,
    /// Whether idle floors are given up ahead of time, for whoever outgrows its own next.
    pub readiness: Readiness,
    /// Counts up as time passes; whose turn it is among regions that cannot all have the burst
    /// that they need.
    pub turn: u64,
    /// By region.
    pub claims: BTreeMap<RegionName, Claim>,
}

/// When idle floors are given up ahead of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    /// Not at all: what is given up of this budget is not soon had back.
    Never,
    /// While some region has more than its floor.
    #[default]
    WithLoans,
    /// Some region had more of late.
    Always,
}

/// What is known of one region when a budget is divided.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    /// Its static share.
    pub floor: Capacity,
    /// What of it may be lent; nothing while the region is out of reach.
    pub lendable: Capacity,
    /// Wanted in one period.
    pub demand: MicroTokens,
    /// The largest cost asked for of late that its floor cannot hold.
    pub largest: MicroTokens,
    /// Wanted by clients that may come back, of what those that ask now leave; counted in [`Self::largest`] where a
    /// burst is to be brought together for it.
    pub returning: MicroTokens,
    /// Its part of a shortage is in proportion to this.
    pub weight: u32,
    /// What is beyond floors goes to greater ones first.
    pub priority: u32,
    /// False while it can be given nothing and lends nothing.
    pub live: bool,
    /// What it was to have by the plan before.
    pub before: Holding,
}

impl Claim {
    /// The part of its floor that stays with it whatever happens.
    fn kept(&self) -> u64 {
        self.floor.rate.saturating_sub(self.lendable.rate).0
    }
}

/// Regions by name, with what each is to hold; one that is to have just its floor is not named.
pub type Targets = BTreeMap<RegionName, Holding>;

/// One region and its claim.
type Party<'a> = (&'a RegionName, &'a Claim);

/// Divides one budget.
///
/// First the bursts for costs that no share holds, then rates, then the loans that make the
/// rates true. A plan that is hardly better than the one before gives way to it.
pub fn plan(situation: &Situation) -> Targets {
    let parties: Vec<Party<'_>> = situation.claims.iter().collect();
    let mut flows = Flows::new(parties.len(), situation.pool);
    burst::serve_large_costs(situation, &parties, &mut flows);
    let shares = shares(situation, &parties, &flows);
    flows.meet(&parties, &shares.wanted);
    let ready = match situation.readiness {
        Readiness::Never => false,
        Readiness::WithLoans => flows.has_loans(),
        Readiness::Always => true,
    };
    if ready {
        flows.hold_ready(&parties, &shares.wanted);
    }
    burst::follow_rates(&parties, &mut flows);
    match hold::is_good_enough(situation, &parties, &shares, &flows) {
        true => hold::before(&parties),
        false => flows.into_targets(&parties),
    }
}

/// True if a region has a burst for a cost that its floor cannot hold.
fn is_served(claim: &Claim, burst: MicroTokens) -> bool {
    claim.live && claim.largest > claim.floor.burst && claim.largest <= burst
}

/// The rate that each region should have.
struct Shares {
    /// As far as demand goes.
    needed: Vec<u64>,
    /// With room for more.
    wanted: Vec<u64>,
}

/// Of its own floor each live region has what it wants, and at least what may not be lent. What
/// is left goes to demand beyond floors, by priority and weighted max-min; what is left then to
/// clients that may come back, and then to margins.
fn shares(situation: &Situation, parties: &[Party<'_>], flows: &Flows) -> Shares {
    let mut left = situation.pool.rate.0;
    let mut seats: Vec<Seat> = Vec::with_capacity(parties.len());
    let limit = situation.limit.rate;
    for (i, (_, claim)) in parties.iter().enumerate() {
        let floor = claim.floor.rate.0;
        // without a token of burst no rate can be used; the pool brings its own
        let burst = flows.burst_of(i, claim);
        let usable = claim.live && burst.saturating_add(flows.pool_left.burst) >= MicroTokens::TOKEN;
        // a large cost should soon find its bucket filled, and what else is asked for come through
        let asks = claim.demand > MicroTokens::ZERO;
        let large = if asks && is_served(claim, burst) { limit.0 / PART_FOR_LARGE } else { 0 };
        let want = if usable { claim.demand.0.max(large).min(limit.0) } else { 0 };
        let share = if claim.live { want.min(floor).max(claim.kept()) } else { floor };
        left = left.saturating_add(floor.saturating_sub(share));
        seats.push(Seat { share, want, weight: u64::from(claim.weight.max(1)), priority: claim.priority });
    }
    fill::raise(&mut seats, &mut left);
    for (seat, (_, claim)) in seats.iter_mut().zip(parties).filter(|(_, (_, claim))| claim.live) {
        seat.want = seat.want.max(claim.returning.min(limit).0);
    }
    fill::raise(&mut seats, &mut left);
    let needed = seats.iter().map(|seat| seat.share).collect();
    for (i, (seat, (_, claim))) in seats.iter_mut().zip(parties).enumerate() {
        if is_served(claim, flows.burst_of(i, claim)) {
            // nobody else needs what is left, and the sooner the bucket fills the better
            seat.want = limit.0;
            continue;
        }
        let roomy = MicroTokens(seat.want).scale_floor(100 + MARGIN_PERCENT, 100).min(limit).0;
        // a margin alone is no reason to move anything
        seat.want = if seat.want > claim.floor.rate.0 { roomy } else { roomy.min(claim.floor.rate.0) };
    }
    fill::raise(&mut seats, &mut left);
    Shares { needed, wanted: seats.iter().map(|seat| seat.share).collect() }
}

#[cfg(test)]
mod tests;
