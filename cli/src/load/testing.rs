//! Values that several tests of the load generator need.

use super::schedule::Attributes;
use crate::arguments::AttributeList;
use quorate_shared::policy::{CostRule, FloorRule, Limit, Mode, OnStoreFailure, Policy};
use quorate_shared::units::{MicroTokens, PartsPerMillion};
use std::collections::BTreeMap;
use std::time::Duration;

/// Attributes as they are written on the command line.
pub fn attributes(text: &str) -> Attributes {
    text.parse::<AttributeList>().expect("pairs").0
}

/// An enforced token bucket in whole tokens, per second, that matches all requests.
pub fn policy(name: &str, rate: u64, burst: u64, per: &[&str]) -> Policy {
    let tokens = |n| MicroTokens::from_tokens(n).expect("few");
    Policy {
        name: name.parse().expect("a name"),
        generation: 1,
        matches: BTreeMap::new(),
        no_other_attributes: false,
        replaces: Vec::new(),
        per: per.iter().map(|s| (*s).to_owned()).collect(),
        limit: Limit::TokenBucket { rate: tokens(rate), period: Duration::from_secs(1), burst: tokens(burst) },
        floor: FloorRule::Together(PartsPerMillion::WHOLE),
        lendable: PartsPerMillion(900_000),
        allow_overcommit: false,
        cost: CostRule::Fixed(MicroTokens::TOKEN),
        overrides: vec![],
        on_store_failure: OnStoreFailure::Closed,
        emergency: PartsPerMillion(0),
        floor_ttl: None,
        mode: Mode::Enforce,
    }
}
