//! docs/protocol.md, "The bound": of an estimate that is settled its true cost counts, from the admission on. What
//! exceeds the estimate counts with the settlement, as far as it was there to be taken; the rest is `owed`, a term of
//! the bound. And a settlement that is repeated is answered as it was.

use super::admissions::Admissions;
use super::{Terms, Violation, Watch};
use crate::simulation::Micros;
use crate::simulation::region::{Region, Usable};
use quorate_limiter::decision::Charge;
use quorate_limiter::hold::{HoldId, SettleReply, Settled};
use quorate_shared::policy::{Limit, Shape};
use quorate_shared::time::WindowLabel;
use quorate_shared::units::{Capacity, MicroTokens};

const RULE: &str = "a settlement that is repeated is answered as it was";

/// What each region takes of buckets, by itself: over any interval no more than the greatest burst and refill that it
/// ever might have used. Others may leave room for what it takes beyond that, and it is not there for it.
#[derive(Debug)]
pub struct Regional {
    /// By region.
    flows: Vec<Admissions>,
    /// By region and place.
    most: Vec<Vec<Capacity>>,
}

impl Regional {
    /// Nothing was taken yet.
    pub fn new(regions: usize, places: usize) -> Self {
        let flows = (0..regions).map(|_| Admissions::new(places)).collect();
        Self { flows, most: vec![vec![Capacity::ZERO; places]; regions] }
    }

    /// A region was looked at.
    pub fn follow(&mut self, now: Micros, r: usize, terms: &[Option<Terms>], usable: &[Usable]) {
        for (place, (terms, usable)) in terms.iter().zip(usable).enumerate() {
            let (Some(terms), most) = (terms, &mut self.most[r][place]) else { continue };
            let more = most.max(usable.total());
            if *most != more && terms.limit.shape() == Shape::Flow {
                self.flows[r].retune(now, place, Some(&with_whole(terms, *most)), Some(&with_whole(terms, more)));
                *most = more;
            }
        }
    }

    /// A region took something.
    ///
    /// # Errors
    /// If it is more than it can have had.
    pub fn admit(&mut self, now: Micros, r: usize, place: usize, terms: &Terms, cost: MicroTokens) -> Result<(), Violation> {
        const RULE: &str = "a region takes what it has once";
        if terms.limit.shape() != Shape::Flow {
            return Ok(());
        }
        let own = with_whole(terms, self.most[r][place]);
        self.flows[r].admit(now, place, &own, cost).map_err(|violation| Violation { rule: RULE, ..violation })
    }

    fn reserve(&mut self, now: Micros, r: usize, terms: &Terms, reserved: &Reserved) {
        let own = with_whole(terms, self.most[r][reserved.place]);
        self.flows[r].reserve(now, reserved.place, &own, reserved.id);
    }

    fn lower(&mut self, now: Micros, r: usize, terms: &Terms, reserved: &Reserved, less: MicroTokens) {
        let own = with_whole(terms, self.most[r][reserved.place]);
        self.flows[r].lower(now, reserved.place, &own, reserved.id, less);
    }
}

fn with_whole(terms: &Terms, whole: Capacity) -> Terms {
    Terms { whole, ..terms.clone() }
}

/// One estimate.
#[derive(Clone, Debug)]
pub struct Reserved {
    /// By what it is settled: later ones are greater.
    pub id: HoldId,
    /// Where.
    pub place: usize,
    /// What was charged.
    pub charge: Charge,
    /// In which window, if the budget has some.
    pub window: Option<WindowLabel>,
    /// What it truly costs.
    pub cost: MicroTokens,
    /// What came of it, by which run of the store, once it was settled.
    pub settled: Option<(Settled, u64)>,
}

impl Watch {
    /// From now on each region is watched by itself too.
    #[must_use]
    pub fn with_regional(mut self) -> Self {
        self.regional = Some(Regional::new(self.usable.len(), self.terms.len()));
        self
    }

    /// What a region admitted last is an estimate.
    pub fn reserve(&mut self, now: Micros, r: usize, reserved: &Reserved) {
        let Some(terms) = &self.terms[reserved.place] else { return };
        if let Some(regional) = self.regional.as_mut().filter(|_| terms.limit.shape() == Shape::Flow) {
            regional.reserve(now, r, terms, reserved);
        }
        match terms.limit.shape() {
            Shape::Flow => self.admissions.reserve(now, reserved.place, terms, reserved.id),
            Shape::Share => self.counts.reserve(reserved.place, reserved.id),
            Shape::Allowance => {}
        }
    }

    /// An estimate was settled, for the first time.
    ///
    /// # Errors
    /// If more is admitted than may be.
    pub fn settle(&mut self, now: Micros, r: usize, region: &Region, reserved: &Reserved, settled: &Settled) -> Result<(), Violation> {
        let (place, estimate, generation) = (reserved.place, reserved.charge.cost, reserved.charge.budget.generation);
        let Some(terms) = &self.terms[place] else { return Ok(()) };
        let is_slot = matches!(reserved.charge.limit, Limit::Concurrency { .. });
        let less = if is_slot { estimate } else { estimate.saturating_sub(reserved.cost) };
        if let Some(regional) = self.regional.as_mut().filter(|_| terms.limit.shape() == Shape::Flow) {
            regional.lower(now, r, terms, reserved, less);
        }
        match (terms.limit.shape(), reserved.window) {
            (Shape::Flow, _) => self.admissions.lower(now, place, terms, reserved.id, less),
            (Shape::Share, _) => self.counts.lower(place, reserved.id, less),
            (Shape::Allowance, Some(label)) => self.labels.lower(place, generation, label, less),
            (Shape::Allowance, None) => {}
        }
        if !is_slot {
            self.owed.push((now, place, settled.owed));
        }
        let paid = reserved.cost.saturating_sub(estimate).saturating_sub(settled.owed);
        match is_slot || paid == MicroTokens::ZERO {
            true => Ok(()),
            false => self.admit(now, r, region, place, &Charge { cost: paid, ..reserved.charge.clone() }),
        }
    }
}

/// # Errors
/// If the answer to a settlement is another one than before, though the same store gave both.
pub fn check_repeated(now: Micros, reserved: &Reserved, reply: &SettleReply, run: u64) -> Result<(), Violation> {
    match (&reserved.settled, reply) {
        (Some((before, its)), SettleReply::Settled(again)) if *its == run && before != again => {
            let what = format!("{}: {before:?}, then {again:?}", reserved.charge.budget);
            Err(Violation { at: now, rule: RULE, what })
        }
        _ => Ok(()),
    }
}
