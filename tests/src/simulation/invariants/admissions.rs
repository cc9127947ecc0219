//! docs/protocol.md, "Shapes": over any interval `W`, all regions together admit at most `B + R·W`.
//!
//! One bucket for all regions that refills at the limit's rate and holds its burst at most says the
//! same of all intervals at once: every admission must find its cost in it. It is kept in
//! micro-tokens times the period, so nothing is rounded.
//!
//! Under another algorithm it begins full: what was admitted before was within the limit before.
//! A change of the limit leaves its level, or cuts it to the new burst, as the protocol says of every
//! region's bucket (ADR 0006): so the statement holds across the change too, and across a change of the
//! period. A forward step of a store's wall clock refills it as if that time had passed, which is the
//! term `wall-clock-steps` of the bound and no more.

use super::{Terms, Violation};
use crate::simulation::Micros;
use quorate_limiter::hold::HoldId;
use quorate_shared::policy::Shape;
use quorate_shared::units::MicroTokens;
use std::collections::BTreeMap;

const RULE: &str = "admissions within burst and refill";

/// A bucket for each place.
#[derive(Debug)]
pub struct Admissions {
    buckets: Vec<Bucket>,
    /// By place, and by estimate that is out: the same of all that was admitted since, and it is not in.
    since: Vec<BTreeMap<HoldId, Bucket>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Micro-tokens times the period in microseconds.
    level: u128,
    /// The same without what steps of clocks allow: below zero once more was admitted than burst and refill.
    strict: i128,
    /// The least that it was.
    least: i128,
    /// True once something was admitted.
    used: bool,
    at: Micros,
}

impl Bucket {
    /// Full, of what is in use.
    fn filled(now: Micros, terms: &Terms) -> Self {
        let level = full(terms);
        Self { level, at: now, strict: i128::try_from(level).unwrap_or(i128::MAX), least: 0, used: true }
    }

    fn retune(&mut self, now: Micros, before: &Terms, after: &Terms) {
        self.refill(now, before);
        // rounded in favour of the regions: by less than a micro-token
        let level = self.level.div_ceil(before.limit.period().as_micros().max(1));
        self.level = (level * after.limit.period().as_micros()).min(full(after));
    }

    fn refill(&mut self, now: Micros, terms: &Terms) {
        let span = now.saturating_sub(self.at);
        self.add(span, terms);
        let gained = i128::from(span) * i128::from(terms.whole.rate.0);
        self.strict = (self.strict + gained).min(i128::try_from(full(terms)).unwrap_or(i128::MAX));
        self.at = self.at.max(now);
    }

    fn add(&mut self, span: Micros, terms: &Terms) {
        let gained = u128::from(span) * u128::from(terms.whole.rate.0);
        self.level = (self.level + gained).min(full(terms));
    }
}

impl Admissions {
    /// Nothing is limited yet.
    pub fn new(places: usize) -> Self {
        Self { buckets: vec![Bucket::default(); places], since: vec![BTreeMap::new(); places] }
    }

    /// What was admitted last, at `now`, is an estimate.
    pub fn reserve(&mut self, now: Micros, place: usize, terms: &Terms, id: HoldId) {
        self.since[place].insert(id, Bucket::filled(now, terms));
    }

    /// An estimate took so much less than it was counted with: by every interval that it is in there is more room, and by
    /// those that began after it there is not.
    pub fn lower(&mut self, now: Micros, place: usize, terms: &Terms, id: HoldId, less: MicroTokens) {
        let Some(mut since) = self.since[place].remove(&id) else { return };
        since.refill(now, terms);
        let less = u128::from(less.0) * terms.limit.period().as_micros();
        let earlier = self.since[place].range_mut(..id).map(|(_, bucket)| bucket);
        for bucket in earlier.chain([&mut self.buckets[place]]) {
            bucket.refill(now, terms);
            bucket.level = (bucket.level + less).min(since.level);
            bucket.strict = (bucket.strict + i128::try_from(less).unwrap_or(i128::MAX)).min(since.strict);
        }
    }

    /// Counts an admission at `now`, which may be a little before the last one counted.
    pub fn admit(&mut self, now: Micros, place: usize, terms: &Terms, cost: MicroTokens) -> Result<(), Violation> {
        let bucket = &mut self.buckets[place];
        bucket.refill(now, terms);
        let cost = u128::from(cost.0) * terms.limit.period().as_micros();
        for since in self.since[place].values_mut() {
            since.refill(now, terms);
            since.level = since.level.saturating_sub(cost);
            since.strict -= i128::try_from(cost).unwrap_or(i128::MAX);
        }
        bucket.strict -= i128::try_from(cost).unwrap_or(i128::MAX);
        bucket.least = bucket.least.min(bucket.strict);
        match bucket.level.checked_sub(cost) {
            Some(left) => {
                (bucket.level, bucket.used) = (left, true);
                Ok(())
            }
            None => {
                let over = (cost - bucket.level).div_ceil(terms.limit.period().as_micros().max(1));
                let what = format!("{}: {over} micro-tokens more than burst and refill", terms.budget);
                Err(Violation { at: now, rule: RULE, what })
            }
        }
    }

    /// A store's wall clock was put forward by `span`.
    pub fn step_forward(&mut self, now: Micros, place: usize, terms: &Terms, span: Micros) {
        for bucket in self.since[place].values_mut().chain([&mut self.buckets[place]]) {
            bucket.refill(now, terms);
            bucket.add(span, terms);
        }
    }

    /// The most that was admitted of a place beyond burst and refill, in tokens.
    pub fn overshoot(&self, place: usize, terms: &Terms) -> f64 {
        self.buckets[place].least.unsigned_abs() as f64 / terms.limit.period().as_micros() as f64 / MicroTokens::TOKEN.0 as f64
    }

    /// From now on these terms are in force, and nothing has been saved up.
    pub fn begin_empty(&mut self, now: Micros, place: usize) {
        self.buckets[place] = Bucket { at: now, used: true, ..Bucket::default() };
    }

    /// Other terms are in force from now on.
    pub fn retune(&mut self, now: Micros, place: usize, before: Option<&Terms>, after: Option<&Terms>) {
        let Some(after) = after else { return };
        let is_flow = |terms: &Terms| terms.limit.shape() == Shape::Flow;
        for bucket in self.since[place].values_mut().chain([&mut self.buckets[place]]) {
            match before {
                Some(before) if bucket.used && is_flow(before) && is_flow(after) => bucket.retune(now, before, after),
                _ => *bucket = Bucket { used: false, ..Bucket::filled(now, after) },
            }
        }
    }
}

fn full(terms: &Terms) -> u128 {
    u128::from(terms.whole.burst.0) * terms.limit.period().as_micros()
}
