//! The independent checker: from what clients were told, and from nothing else, by how much each
//! limit was exceeded; and whether that is within the bound that the coordinators published.
//!
//! It counts tightly: an admission counts in an interval only if it was sent and answered in it.

pub mod bucket;
pub mod slots;
pub mod window;

use crate::configuration::{BURST, MAX_HOLD, RATE, SLOTS, UNITS, WINDOW};
use crate::load::Clock;
use crate::published::Published;
use crate::told::{Limit, Told};
use bucket::Admission;
use slots::Hold;
use std::time::Duration;

/// What the checker says of one limit of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Which.
    pub limit: Limit,
    /// Requests.
    pub asked: usize,
    /// Admitted.
    pub admitted: usize,
    /// The most that the limit allows in the whole run.
    pub allowed: f64,
    /// Beyond the limit in the worst interval, window or instant; negative if there was room in each.
    pub excess: f64,
    /// The greatest bound that was published; `None`: unbounded.
    pub bound: Option<f64>,
}

impl Verdict {
    /// True if the bound held.
    pub fn holds(&self) -> bool {
        self.bound.is_none_or(|bound| self.excess <= bound)
    }
}

/// What became of each limit.
pub fn verdicts(told: &[Told], clock: Clock, published: &Published) -> Vec<Verdict> {
    let end = told.iter().map(|told| told.answered).max().unwrap_or_default();
    Limit::ALL.into_iter().map(|limit| verdict(limit, told, clock, end, published)).collect()
}

fn verdict(limit: Limit, told: &[Told], clock: Clock, end: Duration, published: &Published) -> Verdict {
    let asked: Vec<&Told> = told.iter().filter(|told| told.limit == limit).collect();
    let admitted = || asked.iter().filter(|told| told.is_admitted());
    let admissions: Vec<Admission> = admitted().map(|told| Admission { sent: told.sent, answered: told.answered }).collect();
    let bound = published.of(limit);
    let span = end.as_secs_f64();
    let windows = (end.as_micros() / WINDOW.as_micros() + 2) as f64;
    let (excess, allowed) = match limit {
        Limit::Bucket => {
            // of the published rate whole tokens, rounded up
            let rate = i64::from(RATE) + bound.map_or(0, |bound| bound.rate.ceil() as i64);
            (bucket::overshoot(rate, BURST.into(), &admissions) as f64 / 1e6, f64::from(BURST) + f64::from(RATE) * span)
        }
        Limit::Window => (window::excess(UNITS.into(), WINDOW, clock.wall, &admissions) as f64, f64::from(UNITS) * windows),
        Limit::Slots => {
            let hold = |told: &&&Told| Some(Hold { sent: told.sent, answered: told.answered, released: told.released? });
            let holds: Vec<Hold> = admitted().filter_map(|told| hold(&told)).collect();
            (slots::excess(SLOTS.into(), MAX_HOLD, &holds) as f64, f64::INFINITY)
        }
    };
    Verdict { limit, asked: asked.len(), admitted: admissions.len(), allowed, excess, bound: bound.map(|bound| bound.amount) }
}
