//! Holds: what one request was charged, kept so that it can be corrected once the true cost is known.
//!
//! A hold is written in the same step as the charge and is gone after its life: what it was charged then
//! stays charged. Whoever knows its id may settle it once; a repeated settlement gets the first answer.

use crate::decision::Question;
use quorate_shared::names::BudgetId;
use quorate_shared::time::StoreTime;
use quorate_shared::units::MicroTokens;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// 128 random bits that name a hold: nobody who was not told them can settle it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HoldId(u128);

impl HoldId {
    /// What is answered where nothing was charged, so that there is nothing to keep.
    pub const NOTHING: Self = Self(0);

    /// The id of these bits.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// A part of the bits, which others may share.
    pub(crate) const fn folded(self) -> u32 {
        let half = (self.0 ^ self.0 >> 64) as u64;
        (half ^ half >> 32) as u32
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A text that names no hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("32 hexadecimal digits, as they were answered")]
pub struct NoHoldId;

impl FromStr for HoldId {
    type Err = NoHoldId;

    fn from_str(text: &str) -> Result<Self, NoHoldId> {
        let digits = text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !digits {
            return Err(NoHoldId);
        }
        u128::from_str_radix(text, 16).map(Self).map_err(|_| NoHoldId)
    }
}

/// A hold to be kept if the question is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewHold {
    /// Drawn at random.
    pub id: HoldId,
    /// How long it may be settled.
    pub life: Duration,
    /// The greatest true cost: no more than the least of the limits can ever hold.
    pub most: MicroTokens,
}

/// What is to be kept beside a question that is allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// What is charged is an estimate, to be settled by this.
    pub hold: Option<NewHold>,
    /// Drawn at random: by what slots are given back. Needed if slots are asked for.
    pub slot: Option<HoldId>,
}

/// What a request was charged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// [`crate::record::Record::lost_at`] then: what was charged before a loss of state is not corrected.
    pub lost_at: Option<StoreTime>,
    /// See [`NewHold::most`].
    pub most: MicroTokens,
    /// One for each budget.
    pub parts: Vec<Part>,
    /// What came of it, once it is settled.
    pub settled: Option<Settled>,
}

/// What one budget was charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which budget.
    pub budget: BudgetId,
    /// How much.
    pub estimate: MicroTokens,
    /// Where it is counted.
    pub place: Place,
}

/// Where a charge is counted, and what is needed to correct it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a bucket.
    Bucket(crate::estimates::Ticket),
    /// Among slots, by this id.
    Slot(HoldId),
    /// In a window of an allowance.
    Window(crate::window::Ticket),
    /// In a sliding log.
    Log(crate::use_log::Ticket),
    /// In windows that slide.
    Sliding(crate::sliding::Ticket),
}

/// By what a settlement tells what is there to pay for more than an estimate.
#[derive(Clone, Debug)]
pub struct Grounds {
    /// What the asker goes by, as for a question; charges of the budgets that the hold names, as far as it knows them.
    pub question: Question,
    /// How long all of that holds, from its making on.
    holds_for: Duration,
}

impl Grounds {
    /// Of an asker whose lease, if the question goes by it, stands for so long.
    pub fn new(question: Question, lease_for: Duration) -> Self {
        let lease_for = if question.view.leased { lease_for } else { Duration::MAX };
        let floors = question.charges.iter().filter_map(|charge| charge.floor_ttl);
        let floors = floors.map(|ttl| question.drift.shrink(ttl).saturating_sub(question.view.unheard_for));
        Self { holds_for: floors.fold(lease_for, Duration::min), question }
    }

    /// How long it holds by any other clock, at least.
    pub fn holds_for(&self) -> Duration {
        self.question.drift.shrink(self.holds_for)
    }
}

/// What a settlement came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The true cost.
    pub cost: MicroTokens,
    /// Given back: the least of all budgets.
    pub returned: MicroTokens,
    /// Beyond what was there: the most of all budgets. It slows the refill of a bucket; of other limits it counts
    /// beyond what may be used, so that nothing more fits meanwhile, or, if its window is over, for nothing.
    pub owed: MicroTokens,
}

impl Settled {
    /// Nothing has come of any budget yet.
    pub const fn of(cost: MicroTokens) -> Self {
        Self { cost, returned: MicroTokens(u64::MAX), owed: MicroTokens::ZERO }
    }

    /// With what came of one more budget.
    #[must_use]
    pub fn with(self, returned: MicroTokens, owed: MicroTokens) -> Self {
        Self { returned: self.returned.min(returned), owed: self.owed.max(owed), ..self }
    }

    /// After the last budget; without any, nothing was given back.
    #[must_use]
    pub fn done(self) -> Self {
        let none = self.returned == MicroTokens(u64::MAX);
        Self { returned: if none { MicroTokens::ZERO } else { self.returned }, ..self }
    }
}

/// What a store says to a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleReply {
    /// Now, or before.
    Settled(Settled),
    /// There is no such hold, or its life is over: what it was charged stays charged.
    Ended,
    /// The cost is beyond [`NewHold::most`], which this is. It can be settled still.
    Beyond(MicroTokens),
    /// See [`crate::decision::Reply::NoRecord`].
    NoRecord,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{Charge, LeaseView};
    use quorate_shared::names::{SubjectHash, SubjectKey};
    use quorate_shared::policy::Limit;
    use quorate_shared::time::Drift;

    #[test]
    fn grounds_hold_as_long_as_the_lease_and_every_floor_by_any_clock() {
        let second = Duration::from_secs(1);
        let drift = Drift::from_ppm(1_000).expect("in range");
        let limit = Limit::SlidingLog { units: MicroTokens::TOKEN, window: second };
        let budget = |name: &str| {
            let policy = "p".parse().expect("a name");
            BudgetId { subject: SubjectHash::of(&SubjectKey::new([1; 32]), &policy, [name]), policy, generation: 1 }
        };
        let charge = |name, floor_ttl| Charge {
            budget: budget(name),
            limit,
            floor: limit.capacity(),
            lendable: limit.capacity(),
            former_floors: vec![],
            floor_ttl,
            cost: MicroTokens::ZERO,
            enforced: true,
        };
        let holds_for = |leased, ttl| {
            let view = LeaseView { leased, unheard_for: 50 * second, ..LeaseView::default() };
            Grounds::new(Question { view, drift, charges: vec![charge("a", None), charge("b", ttl)] }, 7 * second).holds_for()
        };
        assert_eq!(holds_for(true, None), drift.shrink(7 * second));
        assert_eq!(holds_for(false, Some(60 * second)), drift.shrink(drift.shrink(60 * second) - 50 * second));
        assert!(holds_for(true, Some(60 * second)) == holds_for(true, None) && holds_for(false, None) > 1_000_000 * second);
        assert_eq!(holds_for(true, Some(40 * second)), Duration::ZERO, "a floor has ended");
    }

    #[test]
    fn an_id_reads_back_as_written_and_nothing_else_is_one() {
        for id in [HoldId::NOTHING, HoldId::from_bits(7), HoldId::from_bits(u128::MAX)] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        let upper = HoldId::from_bits(u128::MAX).to_string().to_uppercase();
        for bad in ["", "7", "+0000000000000000000000000000007", &upper, "0000000000000000000000000000000g", &"0".repeat(33)] {
            assert_eq!(bad.parse::<HoldId>(), Err(NoHoldId), "{bad}");
        }
    }
}
