//! Holds: what one request was charged, kept so that it can be corrected once the true cost is known.
//!
//! A hold is written in the same step as the charge and is gone after its life: what it was charged then
//! stays charged. Whoever knows its id may settle it once; a repeated settlement gets the first answer.

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
