//! From the rates that regions should have to the loans that make them true.

use super::{Claim, Party, Targets};
use quorate_shared::heartbeat::Holding;
use quorate_shared::policy::floors::split;
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::BTreeMap;

/// Who has what from where. Regions are named by their place.
#[derive(Clone, Debug)]
pub(super) struct Flows {
    /// From the pool, by region.
    pub pool: Vec<Capacity>,
    /// Of the pool, given to nobody yet.
    pub pool_left: Capacity,
    /// By borrower and lender.
    pub loans: BTreeMap<(usize, usize), Capacity>,
    /// By lender; at least the loans of its floor.
    pub lent: Vec<Capacity>,
}

impl Flows {
    /// Nothing has moved yet.
    pub fn new(regions: usize, pool: Capacity) -> Self {
        let nothing = vec![Capacity::ZERO; regions];
        Self { pool: nothing.clone(), pool_left: pool, loans: BTreeMap::new(), lent: nothing }
    }

    /// What a region may use so far.
    pub fn entitlement(&self, region: usize, claim: &Claim) -> Capacity {
        claim.floor.minus(self.lent[region]).plus(self.pool[region]).plus(self.borrowed_by(region))
    }

    /// What it may save up so far.
    pub fn burst_of(&self, region: usize, claim: &Claim) -> MicroTokens {
        self.entitlement(region, claim).burst
    }

    fn borrowed_by(&self, region: usize) -> Capacity {
        self.loans.range((region, 0)..=(region, usize::MAX)).map(|(_, loan)| *loan).sum()
    }

    /// True if any rate is borrowed.
    pub fn has_loans(&self) -> bool {
        self.loans.values().any(|loan| loan.rate.0 > 0) || self.pool.iter().any(|pool| pool.rate.0 > 0)
    }

    /// True if each region just has its floor.
    pub fn is_nothing(&self) -> bool {
        self.pool.iter().chain(&self.lent).all(|part| part.is_zero())
    }

    /// Lends something.
    pub fn lend(&mut self, borrower: usize, lender: usize, loan: Capacity) {
        let known = self.loans.entry((borrower, lender)).or_default();
        *known = known.plus(loan);
        self.lent[lender] = self.lent[lender].plus(loan);
    }

    /// Moves rates until each region has its share: out of the pool, then out of floors that are
    /// not needed, from those first from whom a region borrowed before.
    pub fn meet(&mut self, parties: &[Party<'_>], shares: &[u64]) {
        let floor = |c: &Claim| c.floor.rate.0;
        let mut extra: Vec<u64> = parties.iter().zip(shares).map(|((_, c), share)| share.saturating_sub(floor(c))).collect();
        let spare = |((_, c), share): (&Party<'_>, &u64)| if c.live { floor(c).saturating_sub(*share) } else { 0 };
        let mut spare: Vec<u64> = parties.iter().zip(shares).map(spare).collect();
        self.give_pool(&mut extra);
        let borrowers: Vec<usize> = (0..parties.len()).filter(|i| extra[*i] > 0).collect();
        let lenders: Vec<usize> = (0..parties.len()).filter(|i| spare[*i] > 0).collect();
        for keep in [true, false] {
            for borrower in &borrowers {
                for lender in &lenders {
                    let before = parties[*borrower].1.before.borrowed_from(parties[*lender].0).rate.0;
                    let most = if keep { before } else { u64::MAX };
                    self.lend_rate((*borrower, &mut extra), (*lender, &mut spare), most);
                }
            }
        }
    }

    fn lend_rate(&mut self, (borrower, extra): (usize, &mut [u64]), (lender, spare): (usize, &mut [u64]), most: u64) {
        let rate = extra[borrower].min(spare[lender]).min(most);
        if rate > 0 {
            (extra[borrower], spare[lender]) = (extra[borrower].saturating_sub(rate), spare[lender].saturating_sub(rate));
            self.lend(borrower, lender, Capacity::new(MicroTokens(rate), MicroTokens::ZERO));
        }
    }

    /// The pool goes to those who need more than their floor, in proportion to how much more.
    fn give_pool(&mut self, extra: &mut [u64]) {
        let needed = extra.iter().copied().fold(0, u64::saturating_add);
        let rates = split(self.pool_left.rate.0.min(needed), 1, extra);
        let bursts = split(self.pool_left.burst.0, MicroTokens::TOKEN.0, extra);
        for (i, (rate, burst)) in rates.into_iter().zip(bursts).enumerate() {
            let part = Capacity::new(MicroTokens(rate.min(extra[i])), MicroTokens(burst));
            extra[i] = extra[i].saturating_sub(part.rate.0);
            self.pool[i] = self.pool[i].plus(part);
            self.pool_left = self.pool_left.minus(part);
        }
    }

    /// What nobody needs of a floor is given up ahead of time, so that whoever needs it next has
    /// it with one heartbeat: nobody has to be asked first.
    pub fn hold_ready(&mut self, parties: &[Party<'_>], shares: &[u64]) {
        for (i, (_, claim)) in parties.iter().enumerate().filter(|(_, (_, claim))| claim.live) {
            let spare = claim.floor.rate.0.saturating_sub(shares[i]).min(claim.lendable.rate.0);
            self.lent[i].rate = self.lent[i].rate.max(MicroTokens(spare));
        }
    }

    /// As holdings by name.
    pub fn into_targets(self, parties: &[Party<'_>]) -> Targets {
        let mut holdings: Vec<Holding> =
            self.pool.into_iter().zip(self.lent).map(|(pool, lent)| Holding { pool, lent, borrowed: BTreeMap::new() }).collect();
        for ((borrower, lender), loan) in self.loans.into_iter().filter(|(_, loan)| !loan.is_zero()) {
            holdings[borrower].borrowed.insert(parties[lender].0.clone(), loan);
        }
        let with_names = parties.iter().zip(holdings).filter(|(_, holding)| !holding.is_zero());
        with_names.map(|((name, _), holding)| ((*name).clone(), holding)).collect()
    }
}
