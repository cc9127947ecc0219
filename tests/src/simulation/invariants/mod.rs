//! What must hold, whatever happens: a file for each rule of docs/protocol.md.

pub mod admissions;
pub mod beginnings;
pub mod bound;
pub mod conservation;
pub mod counts;
pub mod entitlements;
pub mod floors;
pub mod healing;
pub mod labels;
pub mod reservations;

use super::Micros;
use super::policies::Catalogue;
use super::region::{MOST_REGIONS, Region, Usable};
use admissions::Admissions;
use beginnings::{Beginnings, Use};
use counts::Counts;
use floors::OwnBucket;
use labels::Labels;
use quorate_ledger::Ledger;
use quorate_limiter::decision::Charge;
use quorate_shared::names::BudgetId;
use quorate_shared::policy::floors::RegionShare;
use quorate_shared::policy::{Limit, Shape};
use quorate_shared::time::{Drift, StoreTime, WindowLabel};
use quorate_shared::units::{Capacity, MicroTokens};
use reservations::Regional;
use std::time::Duration;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When.
    pub at: Micros,
    /// Which promise.
    pub rule: &'static str,
    /// By how much, and where.
    pub what: String,
}

/// The terms in force for one place: those of the active set, until every region has confirmed its
/// successor (R9).
#[derive(Clone, Debug)]
pub struct Terms {
    /// The budget of the present generation.
    pub budget: BudgetId,
    /// As configured.
    pub limit: Limit,
    /// All that may be used: the limit, or the sum of the floors where that is more on purpose.
    pub whole: Capacity,
    /// By region.
    pub floors: [Capacity; MOST_REGIONS],
    /// What is in no floor.
    pub pool: Capacity,
    /// True if refusals are enforced.
    pub enforced: bool,
}

impl Terms {
    /// A capacity of another generation, in the period of this one.
    pub fn in_this_period(&self, capacity: Capacity, period: Duration) -> Capacity {
        if period == self.limit.period() {
            return capacity;
        }
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Capacity { rate: capacity.rate.scale_floor(micros(self.limit.period()), micros(period)), ..capacity }
    }
}

/// Everything that is watched.
#[derive(Debug)]
pub struct Watch {
    catalogue: Catalogue,
    /// Of this version of the policy set.
    version: u64,
    /// By place.
    terms: Vec<Option<Terms>>,
    /// By region and place.
    usable: Vec<Vec<Usable>>,
    /// By region: [`Self::usable`] holds until then.
    holds_until: Vec<Option<Micros>>,
    admissions: Admissions,
    /// By region and place.
    own: Vec<Vec<OwnBucket>>,
    /// By region: its store's clock was put back, so that nobody can say what refilled.
    put_back: Vec<bool>,
    drift: Drift,
    counts: Counts,
    labels: Labels,
    beginnings: Beginnings,
    regional: Option<Regional>,
    /// A store's clock was put forward: nobody can say what was forgotten.
    stepped: bool,
    /// Instants at which some region could use more than its own.
    pub leased_instants: u64,
    /// A fold of everything that regions could use: equal for equal runs.
    pub fingerprint: u64,
    /// True once the promise is wider than the limit, so that overshoot may be measured.
    pub widened: bool,
    /// True once a region is cut off for good.
    pub one_unheard: bool,
    /// Instants at which the floor of some region had ended by itself.
    pub ended_instants: u64,
    /// What settlements came to beyond what was there: when, and of which place.
    owed: Vec<(Micros, usize, MicroTokens)>,
}

impl Watch {
    /// Watches a world that has not begun.
    pub fn new(catalogue: &Catalogue, ledger: &Ledger) -> Self {
        let (regions, places) = (catalogue.regions.len(), catalogue.places.len());
        let mut watch = Self {
            catalogue: catalogue.clone(),
            version: 0,
            terms: vec![None; places],
            usable: vec![vec![Usable::default(); places]; regions],
            holds_until: vec![None; regions],
            admissions: Admissions::new(places),
            own: vec![vec![OwnBucket::default(); places]; regions],
            put_back: vec![false; regions],
            drift: ledger.founding().map(|founding| founding.drift).unwrap_or_default(),
            counts: Counts::new(places),
            labels: Labels::new(places),
            beginnings: Beginnings::new(regions, places),
            regional: None,
            stepped: false,
            leased_instants: 0,
            fingerprint: 0,
            widened: false,
            one_unheard: false,
            ended_instants: 0,
            owed: Vec::new(),
        };
        // nothing was admitted, so nothing can be broken
        let _ = watch.follow_policies(0, ledger);
        watch
    }

    /// When something is to be checked next even if nothing happens: a horizon passes.
    pub fn next_horizon(&self) -> Option<Micros> {
        self.holds_until.iter().flatten().min().copied()
    }

    /// Something happened in a region, or one of its horizons has passed: it is looked at anew.
    pub fn look_at(&mut self, r: usize, region: &Region, now: Micros) {
        self.holds_until[r] = region.next_horizon(now);
        let usable = region.usable(now);
        self.fingerprint = usable.iter().fold(self.fingerprint ^ now, |fold, usable| {
            let total = usable.total();
            fold.rotate_left(7).wrapping_mul(0x100_0000_01b3) ^ total.rate.0 ^ total.burst.0.rotate_left(32)
        });
        let clock = region.store.clock_micros(now);
        for ((own, before), after) in self.own[r].iter_mut().zip(&self.usable[r]).zip(&usable) {
            own.follow(clock, before, after, self.drift);
        }
        if let Some(regional) = &mut self.regional {
            regional.follow(now, r, &self.terms, &usable);
        }
        self.usable[r] = usable;
    }

    /// Regions of which a horizon has passed.
    pub fn passed(&self, now: Micros) -> impl Iterator<Item = usize> + use<> {
        let passed: Vec<usize> = (0..self.usable.len()).filter(|r| self.holds_until[*r].is_some_and(|until| until <= now)).collect();
        passed.into_iter()
    }

    /// What must hold at every instant.
    ///
    /// # Errors
    /// The first promise that is broken.
    pub fn check(&mut self, now: Micros, ledger: &Ledger) -> Result<(), Violation> {
        for (place, terms) in self.terms.iter().enumerate() {
            let Some(terms) = terms.as_ref().filter(|terms| terms.limit.shape() != Shape::Allowance) else { continue };
            let each = || self.usable.iter().map(move |usable| &usable[place]);
            self.leased_instants += u64::from(each().any(Usable::is_leased));
            self.ended_instants += u64::from(each().any(|usable| usable.ended));
            entitlements::check(now, terms, each())?;
            conservation::check_parts(now, terms, each())?;
            let known = |usable: &Usable| usable.generation == terms.budget.generation && !ledger.is_restoring();
            for (r, usable) in each().enumerate().filter(|(_, usable)| known(usable)) {
                let reckoning = ledger.reckoning(&terms.budget, &self.catalogue.regions[r]);
                conservation::check_reckoning(now, &self.catalogue.regions, r, usable, &reckoning)?;
                floors::check(now, &self.catalogue.regions[r], usable, &reckoning)?;
            }
        }
        Ok(())
    }

    /// What must hold after every entry of the log.
    ///
    /// # Errors
    /// The first promise that is broken.
    pub fn check_ledger(&mut self, now: Micros, ledger: &Ledger) -> Result<(), Violation> {
        self.follow_policies(now, ledger)?;
        for (place, terms) in self.terms.iter().enumerate() {
            let Some(terms) = terms.as_ref().filter(|terms| terms.limit.shape() == Shape::Allowance) else { continue };
            for (label, limit) in ledger.open_window_limits(&terms.budget) {
                self.labels.allow(place, terms.budget.generation, label, limit);
            }
        }
        conservation::check_ledger(now, ledger)
    }

    /// A region refused a request for these places.
    ///
    /// # Errors
    /// If its own part would have admitted it.
    pub fn refuse(&mut self, now: Micros, r: usize, region: &Region, places: &[usize], cost: MicroTokens) -> Result<(), Violation> {
        let is_flow = |place: &usize| self.terms[*place].as_ref().is_none_or(|terms| terms.limit.shape() == Shape::Flow);
        if !places.iter().all(is_flow) {
            return Ok(()); // nothing refills
        }
        let clock = region.store.clock_micros(now);
        let usable = &self.usable[r];
        let held = places.iter().filter(|place| self.own[r][**place].holds(clock, cost, &usable[**place])).count();
        match held == places.len() && held > 0 && !self.put_back[r] {
            true => Err(floors::refused(now, &region.name, cost)),
            false => Ok(()),
        }
    }

    /// A request was admitted in a region, and charged.
    ///
    /// # Errors
    /// If more is admitted than may be.
    pub fn admit(&mut self, now: Micros, r: usize, region: &Region, place: usize, charge: &Charge) -> Result<(), Violation> {
        let (cost, clock) = (charge.cost, region.store.clock_micros(now));
        self.own[r][place].take(clock, cost, &self.usable[r][place]);
        let (Some(terms), clock) = (&self.terms[place], StoreTime::from_micros(clock)) else { return Ok(()) };
        let label = region.window(charge, now);
        let current = charge.budget.generation == terms.budget.generation;
        if let Some(regional) = &mut self.regional {
            regional.admit(now, r, place, terms, cost)?;
        }
        if !self.stepped {
            let taken = Use { generation: charge.budget.generation, at: now, clock };
            self.beginnings.admit(r, place, terms, taken, label, cost)?;
        }
        if let Some(label) = label.filter(|_| !current) {
            self.labels.admit_by(now, place, charge.budget.generation, label, cost)?;
        }
        // a region that has not heard of the set in force yet must leave room for those that have
        let window = label.filter(|_| current).or_else(|| terms.limit.window_at(clock));
        self.admit_aside(now, place, window, cost)
    }

    /// An agent admitted a request by itself, of an allowance in this window.
    ///
    /// # Errors
    /// If more is admitted than may be.
    pub fn admit_aside(&mut self, now: Micros, place: usize, window: Option<WindowLabel>, cost: MicroTokens) -> Result<(), Violation> {
        let Some(terms) = &self.terms[place] else { return Ok(()) };
        match (terms.limit.shape(), window) {
            (Shape::Flow, _) => self.admissions.admit(now, place, terms, cost),
            (Shape::Share, _) => self.counts.admit(now, place, terms, cost),
            (Shape::Allowance, Some(label)) => self.labels.admit(now, place, terms, label, cost),
            (Shape::Allowance, None) => Ok(()),
        }
    }

    /// The wall clock of a store was put forward: term `wall-clock-steps` of the bound.
    pub fn step_forward(&mut self, now: Micros, span: Micros) {
        (self.widened, self.stepped) = (true, true);
        for (place, terms) in self.terms.iter().enumerate() {
            if let Some(terms) = terms {
                self.admissions.step_forward(now, place, terms, span);
            }
        }
    }

    /// A region's store decided a question that was put some time ago.
    pub fn decided_late(&mut self, r: usize) {
        self.own[r].iter_mut().for_each(OwnBucket::begin_anew);
    }

    /// The wall clock of a region's store was put back.
    pub fn step_back(&mut self, r: usize) {
        self.put_back[r] = true;
    }

    /// The terms in force for a place.
    pub fn terms(&self, place: usize) -> Option<&Terms> {
        self.terms[place].as_ref()
    }

    /// True if refusals of a place are enforced, by the set in force.
    pub fn enforces(&self, place: usize) -> bool {
        self.terms[place].as_ref().is_some_and(|terms| terms.enforced)
    }

    /// What a region can use of a place.
    pub fn usable(&self, r: usize, place: usize) -> &Usable {
        &self.usable[r][place]
    }

    fn follow_policies(&mut self, now: Micros, ledger: &Ledger) -> Result<(), Violation> {
        let set = ledger.active_policies();
        // while restored coordinators know of no set, those before hold
        if set.version == self.version || ledger.is_restoring() {
            return Ok(());
        }
        self.version = set.version;
        let Some(founding) = ledger.founding() else { return Ok(()) };
        for (i, place) in self.catalogue.places.iter().enumerate() {
            let terms = set.policy(&place.policy).map(|policy| {
                let limit = policy.overrides_by_hash(&founding.subject_key).get(&place.subject).copied().unwrap_or(policy.limit);
                let by_region = set.shares(policy, limit);
                let mut floors = [Capacity::ZERO; MOST_REGIONS];
                let floor = |name| by_region.get(name).map(|share| share.floor).unwrap_or_default();
                floors.iter_mut().zip(&self.catalogue.regions).for_each(|(part, name)| *part = floor(name));
                let sum: Capacity = by_region.values().map(RegionShare::whole).sum();
                let whole = if policy.allow_overcommit { limit.capacity().max(sum) } else { limit.capacity() };
                let enforced = policy.mode.enforces(place.subject);
                Terms { budget: policy.budget(place.subject), limit, whole, floors, pool: limit.capacity().minus(sum), enforced }
            });
            // of units, a smaller limit holds from the next window on
            self.widened |= terms.as_ref().is_some_and(|terms| terms.limit.shape() == Shape::Allowance);
            // what is let pass is measured, and no bound speaks of it
            self.widened |= terms.as_ref().is_some_and(|terms| !terms.enforced);
            self.widened |= terms.as_ref().is_some_and(|terms| terms.whole != terms.limit.capacity());
            let before = self.terms[i].as_ref();
            self.admissions.retune(now, i, before, terms.as_ref());
            self.beginnings.follow(now, i, before, terms.as_ref());
            let generation = |terms: &Terms| terms.budget.generation;
            if let Some(terms) = &terms {
                self.labels.know(i, terms.budget.generation, terms.whole.burst);
            }
            match &terms {
                Some(terms) if before.map(generation) == Some(generation(terms)) => self.counts.check(now, i, terms)?,
                _ => self.counts.forget(i),
            }
            self.terms[i] = terms;
        }
        Ok(())
    }
}

/// Fails with a description unless `left` fits `right`.
fn fits(at: Micros, rule: &'static str, left: Capacity, right: Capacity, what: impl FnOnce() -> String) -> Result<(), Violation> {
    if left.fits(right) {
        return Ok(());
    }
    let text = |c: Capacity| format!("{} per period, {} at once", c.rate, c.burst);
    Err(Violation { at, rule, what: format!("{}: {}; may be {}", what(), text(left), text(right)) })
}
