//! docs/protocol.md, "Share": what all regions together took in the last `d` is within the limit,
//! at every instant.
//!
//! A change of the limit holds from its activation on, for what was taken before it too; one of the window, and
//! another algorithm, for what is taken from then on.

use super::{Terms, Violation};
use crate::simulation::Micros;
use quorate_limiter::hold::HoldId;
use quorate_shared::policy::Shape;
use quorate_shared::units::MicroTokens;
use std::collections::VecDeque;

const RULE: &str = "past use within the limit";

/// What was taken when, by place.
#[derive(Debug)]
pub struct Counts {
    taken: Vec<VecDeque<(Micros, MicroTokens, HoldId)>>,
}

impl Counts {
    /// Nothing was taken yet.
    pub fn new(places: usize) -> Self {
        Self { taken: vec![VecDeque::new(); places] }
    }

    /// Counts an admission at `now`.
    pub fn admit(&mut self, now: Micros, place: usize, terms: &Terms, cost: MicroTokens) -> Result<(), Violation> {
        self.taken[place].push_back((now, cost, HoldId::NOTHING));
        self.check(now, place, terms)
    }

    /// What was taken last is an estimate.
    pub fn reserve(&mut self, place: usize, id: HoldId) {
        if let Some((_, _, estimate)) = self.taken[place].back_mut() {
            *estimate = id;
        }
    }

    /// An estimate took so much less than it was counted with.
    pub fn lower(&mut self, place: usize, id: HoldId, less: MicroTokens) {
        if let Some((_, units, _)) = self.taken[place].iter_mut().find(|(.., estimate)| *estimate == id) {
            *units = units.saturating_sub(less);
        }
    }

    /// Another limit is in force from now on, by which nothing was taken yet.
    pub fn forget(&mut self, place: usize) {
        self.taken[place].clear();
    }

    /// Checks what counts at `now` under these terms.
    pub fn check(&mut self, now: Micros, place: usize, terms: &Terms) -> Result<(), Violation> {
        if terms.limit.shape() != Shape::Share {
            return Ok(());
        }
        let keep = u64::try_from(terms.limit.drain().as_micros()).unwrap_or(u64::MAX);
        let taken = &mut self.taken[place];
        while taken.front().is_some_and(|(at, ..)| now - at >= keep) {
            taken.pop_front();
        }
        let sum = taken.iter().map(|(_, units, _)| *units).fold(MicroTokens::ZERO, MicroTokens::saturating_add);
        match sum <= terms.whole.burst {
            true => Ok(()),
            false => Err(Violation { at: now, rule: RULE, what: format!("{}: {sum} count of {}", terms.budget, terms.whole.burst) }),
        }
    }
}
