//! The bounds that coordinators published in the course of a run: the greatest counts.

use crate::places::NODES;
use crate::system::System;
use crate::told::Limit;
use quorate_shared::api::{Bounds, PolicyBound};
use std::collections::{BTreeMap, BTreeSet};

/// The term of a limit on slots whose requests may outlive them: the checker counts none that do,
/// so the rest of the bound is a number all the same.
const OUTLIVED: &str = "max-hold";

/// The greatest bound of each limit.
#[derive(Clone, Debug, Default)]
pub struct Published {
    limits: BTreeMap<Limit, Amounts>,
    unbounded: BTreeSet<(Limit, String)>,
    broken: BTreeSet<String>,
}

/// What may be admitted beyond a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amounts {
    /// Tokens at once.
    pub amount: f64,
    /// Tokens a second.
    pub rate: f64,
}

impl Published {
    /// Asks every coordinator.
    pub async fn ask(&mut self, system: &System) {
        for bounds in futures_util::future::join_all(NODES.map(|node| system.bounds(node))).await.into_iter().flatten() {
            self.note(&bounds);
        }
    }

    /// Takes note of an answer.
    pub fn note(&mut self, bounds: &Bounds) {
        for policy in &bounds.policies {
            if let Some(limit) = Limit::ALL.into_iter().find(|limit| limit.name() == policy.policy) {
                self.note_one(limit, policy);
            }
        }
    }

    fn note_one(&mut self, limit: Limit, policy: &PolicyBound) {
        let mut sum = Amounts::default();
        for term in policy.bound.terms.iter().filter(|term| !(limit == Limit::Slots && term.name == OUTLIVED)) {
            match (term.amount, term.amount_per_period) {
                (Some(amount), Some(rate)) => sum = Amounts { amount: sum.amount + amount, rate: sum.rate + rate },
                _ => drop(self.unbounded.insert((limit, term.name.clone()))),
            }
        }
        let greatest = self.limits.entry(limit).or_default();
        *greatest = Amounts { amount: greatest.amount.max(sum.amount), rate: greatest.rate.max(sum.rate) };
        if policy.measured_beyond_bound > 0.0 {
            self.broken.insert(format!("{}: measured {} beyond the bound", policy.policy, policy.measured_beyond_bound));
        }
        self.broken.extend(policy.alarms.iter().map(|alarm| format!("{}: {}", policy.policy, alarm.what)));
    }

    /// The greatest; `None` if it was unbounded.
    pub fn of(&self, limit: Limit) -> Option<Amounts> {
        let has_number = self.unbounded.iter().all(|(of, _)| *of != limit);
        if has_number { self.limits.get(&limit).copied() } else { None }
    }

    /// Terms without a number.
    pub fn unbounded(&self) -> impl Iterator<Item = String> {
        self.unbounded.iter().map(|(limit, term)| format!("{}: unbounded ({term})", limit.name()))
    }

    /// What the coordinators themselves found wrong.
    pub fn broken(&self) -> impl Iterator<Item = &String> {
        self.broken.iter()
    }
}
