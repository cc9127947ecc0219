//! `cost`.

use super::matching::attribute;
use crate::located::{Located, Value};
use crate::policy::{CostRule, Limit, Override};
use crate::text;
use crate::units::MicroTokens;
use std::collections::BTreeMap;

/// The bursts that costs must fit.
pub(super) struct Bursts {
    /// Of the policy's limit.
    most_subjects: MicroTokens,
    /// The largest of the limit and the overrides.
    largest: MicroTokens,
    /// The smallest of them.
    smallest: MicroTokens,
}

impl Bursts {
    /// `None` where a limit is wrong itself.
    pub(super) fn of(limit: Option<Limit>, overrides: Option<&[Override]>) -> Option<Self> {
        let most_subjects = limit?.capacity().burst;
        let all = || std::iter::once(most_subjects).chain(overrides.into_iter().flatten().map(|o| o.limit.capacity().burst));
        overrides?;
        Some(Self { most_subjects, largest: all().max()?, smallest: all().min()? })
    }

    /// Refuses a cost that fits no bucket at all; warns of one that does not fit each of them.
    fn check(&self, at: &Located<'_>, cost: MicroTokens) {
        if cost > self.largest {
            at.refuse(format!("a cost of {cost} never fits: the largest burst of this policy is {}", self.largest));
        } else if cost > self.most_subjects {
            at.warn(format!("a cost of {cost} fits only subjects with an override: the burst of the policy is {}", self.most_subjects));
        } else if cost > self.smallest {
            at.warn(format!("a cost of {cost} never fits the smallest burst of the overrides, {}", self.smallest));
        }
    }
}

/// `cost`: a number, or a number by the value of an attribute. `bursts` is `None` where they
/// are wrong themselves.
pub(super) fn rule(at: &Located<'_>, bursts: Option<&Bursts>) -> Option<CostRule> {
    if matches!(at.value(), Value::Map(_)) {
        return by_attribute(at, bursts);
    }
    let cost = amount(at, bursts)?;
    if cost == MicroTokens::ZERO {
        at.warn("a request that does not say its cost takes nothing, and is never refused");
    }
    Some(CostRule::Fixed(cost))
}

fn by_attribute(at: &Located<'_>, bursts: Option<&Bursts>) -> Option<CostRule> {
    let fields = at.fields(&["attribute", "values", "otherwise"])?;
    let name = fields
        .required_as("attribute", ": the attribute whose value decides")
        .and_then(|at| at.scalar("the name of an attribute").and_then(|name| attribute(at, name)));
    let values = fields.required("values").and_then(|at| values(at, bursts));
    let otherwise = fields.or("otherwise", MicroTokens::TOKEN, |at| amount(at, bursts));
    Some(CostRule::ByAttribute { attribute: name?, values: values?, otherwise: otherwise? })
}

fn values(at: &Located<'_>, bursts: Option<&Bursts>) -> Option<BTreeMap<String, MicroTokens>> {
    let entries = at.entries("a map of value to cost, such as `{batch: 10}`")?;
    let read: Vec<_> = entries.into_iter().map(|(value, cost)| amount(&cost, bursts).map(|cost| (value.to_owned(), cost))).collect();
    read.into_iter().collect()
}

fn amount(at: &Located<'_>, bursts: Option<&Bursts>) -> Option<MicroTokens> {
    let cost = at.read("a cost such as `1`", text::tokens)?;
    if let Some(bursts) = bursts {
        bursts.check(at, cost);
    }
    Some(cost)
}
