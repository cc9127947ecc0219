//! One budget: what each region was told of it since its echo, and what may be offered next (R4).

use crate::allocator::Memory;
use crate::ledger::Violation;
use crate::meter::{Measure, Meter};
use crate::session::Session;
use crate::sliding::Sliding;
use crate::terms::Terms;
use quorate_shared::heartbeat::{Holding, Number};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::{BudgetId, RegionName};
use quorate_shared::policy::{Limit, Shape};
use quorate_shared::time::{Drift, LeaderTime};
use quorate_shared::units::{Capacity, MicroTokens};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// How many holdings are told apart that a region was told of since its echo.
const MOST_SAID: usize = 16;

/// One budget that somebody pushed beyond a floor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct BudgetEntry {
    /// `d`; never another for one budget.
    #[serde(default)]
    pub drain: Duration,
    pub shares: BTreeMap<RegionName, Share>,
    pub meter: Meter,
    #[serde(default)]
    pub sliding: Sliding,
    /// The allocator's.
    #[serde(default)]
    pub memory: Memory,
}

/// One region's part of a budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Share {
    /// What responses from a number on said; the first is what the echo said. Never empty.
    said: VecDeque<(Number, Holding)>,
    /// True if what was last said no longer holds for a reason outside this region, so the next
    /// response must say it anew.
    pub restate: bool,
    /// What the allocator would like.
    pub target: Holding,
    /// Wanted in one period, by the last report.
    pub demand: MicroTokens,
    /// The largest cost asked for of late that the region could not hold without a loan, by the last report.
    #[serde(default)]
    pub largest: MicroTokens,
    /// Use, added up over sessions.
    pub admitted: MicroTokens,
    /// Refusals, added up over sessions.
    pub refused: MicroTokens,
    /// The last report, for differences.
    pub reported: Option<ReportedTotals>,
    /// Of a budget with a drain: until when the region has promised to leave alone what it has
    /// lent, by its newest drained response; `None`: unknown.
    #[serde(default)]
    pub lend_horizon: Option<LeaderTime>,
    /// True once everything was taken back, and until the region is offered something again.
    #[serde(default)]
    pub expired: bool,
}

/// Running totals of one session as last reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReportedTotals {
    pub session: u64,
    /// An instant before which it was not read; `None` if nobody can say, or that was in another office.
    pub read: Option<LeaderTime>,
    pub admitted: MicroTokens,
    pub refused: MicroTokens,
    /// Of what was admitted.
    #[serde(default)]
    pub estimated: MicroTokens,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            said: VecDeque::from([(Number::default(), Holding::default())]),
            restate: false,
            target: Holding::default(),
            demand: MicroTokens::ZERO,
            largest: MicroTokens::ZERO,
            admitted: MicroTokens::ZERO,
            refused: MicroTokens::ZERO,
            reported: None,
            lend_horizon: None,
            expired: false,
        }
    }
}

impl Share {
    /// What the newest response said.
    pub fn offered(&self) -> Holding {
        self.said.back().map(|(_, h)| h.clone()).unwrap_or_default()
    }

    /// The most of the pool that the region may hold.
    pub fn pool_held(&self) -> Capacity {
        self.acted_on().map(|h| h.pool).fold(Capacity::ZERO, Capacity::max)
    }

    /// The most that it may hold of one lender's floor.
    pub fn borrowed_held(&self, lender: &RegionName) -> Capacity {
        self.acted_on().map(|h| h.borrowed_from(lender)).fold(Capacity::ZERO, Capacity::max)
    }

    /// The least that it leaves alone of its own floor.
    pub fn lent_held(&self) -> Capacity {
        self.acted_on().map(|h| h.lent).reduce(Capacity::min).unwrap_or_default()
    }

    /// All that was said to the region since its echo, and by it.
    pub fn told(&self) -> impl Iterator<Item = &Holding> {
        self.said.iter().map(|(_, holding)| holding)
    }

    /// What the region may be acting on.
    fn acted_on(&self) -> impl Iterator<Item = &Holding> {
        let certain = if mistake::made(Mistake::OfferedSummed) { self.said.len().saturating_sub(1) } else { 0 };
        self.said.iter().skip(certain).map(|(_, holding)| holding)
    }

    /// The most that it may use beyond its own floor.
    pub fn extra_held(&self) -> Capacity {
        self.said.iter().map(|(_, h)| h.pool.plus(h.borrowed_total())).fold(Capacity::ZERO, Capacity::max)
    }

    /// The worst of all that the region may be acting on: the most of pool and of each loan, the least lent.
    pub fn held(&self) -> Holding {
        let lenders: BTreeSet<&RegionName> = self.said.iter().flat_map(|(_, h)| h.borrowed.keys()).collect();
        let borrowed = lenders.into_iter().map(|lender| (lender.clone(), self.borrowed_held(lender))).collect();
        Holding { pool: self.pool_held(), lent: self.lent_held(), borrowed }
    }

    /// Forgets what was said before response `echo`, which is in force, and under which alone past
    /// use counts.
    pub fn take_echo(&mut self, echo: Number) {
        while self.said.get(1).is_some_and(|(n, _)| *n <= echo) {
            self.said.pop_front();
        }
    }

    /// True if the region has not echoed what was last said.
    pub fn in_flight(&self) -> bool {
        self.said.len() > 1
    }

    /// True if a response to an agent that has echoed `echo` must carry this budget.
    pub fn newer_than(&self, echo: Number) -> bool {
        self.said.back().is_some_and(|(n, _)| *n > echo)
    }

    /// Says `holding` in the response of this number.
    pub fn say(&mut self, number: Number, holding: Holding) {
        self.expired &= holding.is_zero();
        if self.restate || self.offered() != holding {
            self.said.push_back((number, holding));
        }
        self.restate = false;
        if self.said.len() > MOST_SAID {
            self.merge_oldest();
        }
    }

    /// Puts one holding in place of the two said after the echo's: the most that either gives. What
    /// the region may hold stays at least what it may hold, however long it does not answer.
    fn merge_oldest(&mut self) {
        let (Some((_, a)), Some((number, b))) = (self.said.remove(1), self.said.remove(1)) else { return };
        let mut borrowed = a.borrowed;
        for (lender, loan) in b.borrowed {
            let most = borrowed.entry(lender).or_default();
            *most = most.max(loan);
        }
        self.said.insert(1, (number, Holding { pool: a.pool.max(b.pool), lent: a.lent.min(b.lent), borrowed }));
    }

    /// Says `holding` in place of what was to be said in the response of this number, which has not
    /// left yet.
    pub fn unsay(&mut self, number: Number, holding: Holding) {
        if self.said.len() > 1 && self.said.back().is_some_and(|(n, _)| *n == number) {
            self.said.pop_back();
        }
        self.say(number, holding);
    }

    /// The region's lease has ended: what it held is dead, what it lent is its own again.
    pub fn expire(&mut self) {
        self.said = Self::default().said;
        self.restate = false;
        self.lend_horizon = None;
        self.expired = true;
    }

    /// A lender's promise is void, and with it what this region borrowed there.
    pub fn lose_lender(&mut self, lender: &RegionName) {
        for (_, holding) in &mut self.said {
            self.restate |= holding.borrowed.remove(lender).is_some();
        }
    }

    /// True if whatever the region acts on gives it its floor and nothing else.
    pub fn holds_nothing(&self) -> bool {
        self.said.iter().all(|(_, h)| h.is_zero())
    }

    /// True if responses from the one echoed on give neither pool nor loans.
    pub fn uses_nothing_after(&self, echo: Number) -> bool {
        let known = self.said.iter().rposition(|(said, _)| *said <= echo).unwrap_or_default();
        self.said.iter().skip(known).all(|(_, h)| h.pool.is_zero() && h.borrowed.is_empty())
    }

    /// True if nothing is offered, held, wanted or reported.
    pub fn is_idle(&self) -> bool {
        !self.in_flight() && self.offered().is_zero() && self.target.is_zero() && self.wants_nothing() && !self.restate
    }

    fn wants_nothing(&self) -> bool {
        self.demand.0 == 0 && self.largest.0 == 0
    }

    /// The region wants nothing, or cannot say so any more.
    pub fn forget_wants(&mut self) {
        (self.demand, self.largest) = Default::default();
    }

    /// True if the region is to have more than its floor.
    pub fn is_to_have_extra(&self) -> bool {
        !self.target.pool.is_zero() || !self.target.borrowed.is_empty()
    }

    /// True if something is under way with the region.
    pub fn is_open(&self) -> bool {
        self.in_flight() || self.restate || self.offered() != self.target
    }
}

impl BudgetEntry {
    /// The entry of a budget whose past use counts for `drain`.
    pub fn new(drain: Duration) -> Self {
        Self { drain, ..Self::default() }
    }

    /// Measures anew: the clock or the limit is another, so no span can be measured from before into it.
    pub fn restart_meters(&mut self) {
        self.meter.restart();
        self.sliding.restart();
        self.shares.values_mut().filter_map(|share| share.reported.as_mut()).for_each(|reported| reported.read = None);
    }

    /// Counts a report in the measurement; gives the overshoot that is surely there.
    pub fn measure(&mut self, admitted: MicroTokens, from: LeaderTime, at: LeaderTime, terms: &Terms, drift: Drift) -> MicroTokens {
        if matches!(terms.limit, Limit::Concurrency { .. }) {
            return MicroTokens::ZERO; // slots are given back, and no report says when
        }
        match terms.limit.shape() {
            Shape::Flow => self.meter.count(admitted, from, at, Measure::of(terms, drift)),
            Shape::Share => {
                let counts = self.sliding.count(admitted, from, at, terms.limit.drain(), drift);
                counts.saturating_sub(terms.limit.capacity().burst)
            }
            // measured window by window
            Shape::Allowance => MicroTokens::ZERO,
        }
    }

    /// A new office: no date means anything any more.
    pub fn forget_dates(&mut self) {
        self.restart_meters();
        self.shares.values_mut().for_each(|share| share.lend_horizon = None);
        self.memory.forget_dates();
    }

    /// True if past use of it keeps counting.
    pub fn drains(&self) -> bool {
        !self.drain.is_zero()
    }

    /// The region's share, made if need be.
    pub fn share(&mut self, region: &RegionName) -> &mut Share {
        self.shares.entry(region.clone()).or_default()
    }

    /// What a region may have at most without anything being granted: nothing beyond its floor,
    /// and of that no more than others leave it.
    pub fn offer_nothing_to(&self, region: &RegionName) -> Holding {
        Holding { lent: self.lent_out_by(region), ..Holding::default() }
    }

    /// R4: as much of a region's target as the others' holdings leave room for.
    pub fn offer_to(&self, region: &RegionName, terms: &Terms) -> Holding {
        if !terms.floors.contains_key(region) {
            return self.offer_nothing_to(region);
        }
        let target = self.shares.get(region).map(|s| s.target.clone()).unwrap_or_default();
        let others = || self.shares.iter().filter(|(name, _)| *name != region);
        let pool_elsewhere: Capacity = others().map(|(_, s)| s.pool_held()).sum();
        let lent_out = self.lent_out_by(region);
        let borrow = |(lender, wanted): (RegionName, Capacity)| {
            let promised = self.shares.get(&lender).map(Share::lent_held).unwrap_or_default();
            let elsewhere: Capacity = others().map(|(_, s)| s.borrowed_held(&lender)).sum();
            let loan = wanted.min(promised.minus(elsewhere));
            (!loan.is_zero()).then_some((lender, loan))
        };
        Holding {
            pool: target.pool.min(terms.pool.minus(pool_elsewhere)),
            lent: target.lent.min(terms.of(region).lendable).max(lent_out),
            borrowed: target.borrowed.into_iter().filter_map(borrow).collect(),
        }
    }

    /// The most that others may hold of a region's floor.
    pub fn lent_out_by(&self, lender: &RegionName) -> Capacity {
        self.shares.iter().filter(|(name, _)| *name != lender).map(|(_, s)| s.borrowed_held(lender)).sum()
    }

    /// A region's lease has ended.
    pub fn expire(&mut self, region: &RegionName) {
        for (name, share) in &mut self.shares {
            match name == region {
                true => share.expire(),
                false => share.lose_lender(region),
            }
        }
    }

    /// True if nothing is held and nothing wanted anywhere.
    pub fn is_idle(&self) -> bool {
        self.shares.values().all(Share::is_idle)
    }

    /// R9: true if all that may be held beyond floors is allowed by these terms.
    pub fn fits(&self, terms: &Terms) -> bool {
        let pool: Capacity = self.shares.values().map(Share::pool_held).sum();
        let lent_fits = |(name, share): (&RegionName, &Share)| {
            share.said.iter().all(|(_, h)| h.lent.fits(terms.of(name).lendable)) && self.lent_out_by(name).fits(terms.of(name).lendable)
        };
        let leaves_nothing = |(name, share): (&RegionName, &Share)| terms.floors.contains_key(name) || share.holds_nothing();
        pool.fits(terms.pool) && self.shares.iter().all(lent_fits) && self.shares.iter().all(leaves_nothing)
    }

    /// Checks R4.
    pub fn check(&self, id: &BudgetId, terms: &Terms) -> Result<(), Violation> {
        let broken = |what, held: Capacity, limit: Capacity| match held.fits(limit) {
            true => Ok(()),
            false => Err(Violation { budget: id.clone(), what, held, limit }),
        };
        broken("pool held by all regions", self.shares.values().map(Share::pool_held).sum(), terms.pool)?;
        for (name, share) in &self.shares {
            broken("borrowed by all regions from one", self.lent_out_by(name), share.lent_held())?;
            broken("lent by one region", share.lent_held(), terms.of(name).floor)?;
        }
        Ok(())
    }

    /// Which of its regions have something under way, for [`Session::open`].
    pub fn mark_open(&self, id: &BudgetId, regions: &mut BTreeMap<RegionName, Session>) {
        for (name, _) in self.shares.iter().filter(|(_, share)| share.is_open()) {
            if let Some(session) = regions.get_mut(name) {
                session.open.insert(id.clone());
            }
        }
    }
}
