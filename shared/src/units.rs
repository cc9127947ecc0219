//! Amounts: micro-tokens and what is made of them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The largest integer that a Lua number (a double) holds exactly, and so the largest
/// amount that may pass through a Redis script: 2^53 − 1.
pub const MAX_EXACT: u64 = (1 << 53) - 1;

/// Millionths of a token. The only unit in which tokens are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MicroTokens(pub u64);

impl MicroTokens {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// One token.
    pub const TOKEN: Self = Self(1_000_000);

    /// Whole tokens as micro-tokens, or `None` above [`MAX_EXACT`].
    pub const fn from_tokens(tokens: u64) -> Option<Self> {
        match tokens.checked_mul(Self::TOKEN.0) {
            Some(n) if n <= MAX_EXACT => Some(Self(n)),
            _ => None,
        }
    }

    /// Whole tokens in this amount, rounded down.
    pub const fn tokens_floor(self) -> u64 {
        self.0 / Self::TOKEN.0
    }

    /// Tokens as a decimal number, for display only.
    pub fn tokens(self) -> f64 {
        self.0 as f64 / Self::TOKEN.0 as f64
    }

    /// Sum, stopping at the greatest value: an amount that large refuses nothing it should admit.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Difference, stopping at zero: less than nothing is nothing.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `self · numerator / denominator`, rounded down, exact in between. Zero if the
    /// denominator is zero.
    pub const fn scale_floor(self, numerator: u64, denominator: u64) -> Self {
        if denominator == 0 {
            return Self::ZERO;
        }
        let scaled = self.0 as u128 * numerator as u128 / denominator as u128;
        Self(if scaled > u64::MAX as u128 { u64::MAX } else { scaled as u64 })
    }
}

impl fmt::Display for MicroTokens {
    /// Tokens, with as many decimals as are needed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / Self::TOKEN.0, self.0 % Self::TOKEN.0);
        if part == 0 {
            return write!(f, "{whole}");
        }
        let decimals = format!("{part:06}");
        write!(f, "{whole}.{}", decimals.trim_end_matches('0'))
    }
}

/// A share in millionths of the whole; `1_000_000` is all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PartsPerMillion(pub u32);

impl PartsPerMillion {
    /// The whole.
    pub const WHOLE: Self = Self(1_000_000);

    /// This share of `amount`, rounded down.
    pub const fn of(self, amount: MicroTokens) -> MicroTokens {
        amount.scale_floor(self.0 as u64, Self::WHOLE.0 as u64)
    }
}

/// An amount of one budget's capacity: what a floor, a pool share, a loan or an entitlement is.
///
/// Both parts are conserved separately. Of a `flow` budget, `rate` is what refills in one
/// period of its policy and `burst` what may be saved up; of an `allowance` or a `share`,
/// `burst` is the units and `rate` is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Capacity {
    /// Refill in one period of the policy.
    #[serde(rename = "r", default)]
    pub rate: MicroTokens,
    /// Saved up at most.
    #[serde(rename = "b", default)]
    pub burst: MicroTokens,
}

impl Capacity {
    /// Nothing.
    pub const ZERO: Self = Self { rate: MicroTokens::ZERO, burst: MicroTokens::ZERO };

    /// A capacity of these parts.
    pub const fn new(rate: MicroTokens, burst: MicroTokens) -> Self {
        Self { rate, burst }
    }

    /// True of nothing at all.
    pub const fn is_zero(self) -> bool {
        self.rate.0 == 0 && self.burst.0 == 0
    }

    /// The smaller of both, part by part.
    pub fn min(self, other: Self) -> Self {
        self.zip(other, MicroTokens::min)
    }

    /// The larger of both, part by part.
    pub fn max(self, other: Self) -> Self {
        self.zip(other, MicroTokens::max)
    }

    /// Sum, part by part, saturating.
    pub fn plus(self, other: Self) -> Self {
        self.zip(other, MicroTokens::saturating_add)
    }

    /// Difference, part by part, not below zero.
    pub fn minus(self, other: Self) -> Self {
        self.zip(other, MicroTokens::saturating_sub)
    }

    /// True if each part is at most the other's.
    pub fn fits(self, other: Self) -> bool {
        self.rate <= other.rate && self.burst <= other.burst
    }

    /// Applies `f` to both parts of both.
    pub fn zip(self, other: Self, f: impl Fn(MicroTokens, MicroTokens) -> MicroTokens) -> Self {
        Self { rate: f(self.rate, other.rate), burst: f(self.burst, other.burst) }
    }
}

impl std::iter::Sum for Capacity {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::ZERO, Self::plus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_written_without_needless_decimals() {
        assert_eq!(MicroTokens(1_500_000).to_string(), "1.5");
        assert_eq!(MicroTokens(2_000_000).to_string(), "2");
        assert_eq!(MicroTokens(1).to_string(), "0.000001");
    }

    #[test]
    fn an_amount_that_lua_cannot_hold_is_no_amount() {
        assert_eq!(MicroTokens::from_tokens(9_007_199_254), Some(MicroTokens(9_007_199_254_000_000)));
        assert_eq!(MicroTokens::from_tokens(9_007_199_255), None);
        assert_eq!(MicroTokens::from_tokens(u64::MAX), None);
    }

    #[test]
    fn scaling_rounds_down_and_does_not_overflow() {
        assert_eq!(MicroTokens(10).scale_floor(1, 3), MicroTokens(3));
        assert_eq!(MicroTokens(u64::MAX).scale_floor(u64::MAX, 1), MicroTokens(u64::MAX));
        assert_eq!(MicroTokens(10).scale_floor(1, 0), MicroTokens::ZERO);
    }
}
