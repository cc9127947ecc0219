//! A region's store in memory: what the Redis scripts do, in pure Rust.
//!
//! Time is an argument and may step back. Buckets and the record are dropped as a store with
//! expiring keys would drop them, so memory is bounded by the subjects in use.

mod account;
mod holds;
mod settle;
mod slots;

use crate::bucket::{Bucket, GRACE, Period, Terms, exact};
use crate::decision::{Charge, Decision, LimitDecision, Question, Reply};
use crate::excess::ExcessBook;
use crate::hold::{Beside, Hold, HoldId};
use crate::record::{Finish, FloorTerms, HoldingsChange, Opening, RECORD_LIFE, Record, Refusal, Settlement};
use crate::share::ShareTerms;
use crate::sliding::WindowCount;
use crate::use_log::UseLog;
use crate::window::{Purse, Units};
use account::{Account, Count};
use quorate_shared::heartbeat::{Holding, Number};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::BudgetId;
use quorate_shared::policy::{Limit, Shape};
use quorate_shared::time::{Drift, StoreTime};
use quorate_shared::units::{MAX_EXACT, MicroTokens};
use slots::SlotBook;
use std::collections::BTreeMap;
use std::time::Duration;

/// Below so many values nobody looks for expired ones.
const FEW: usize = 1024;

/// One region's record and buckets. Open a session before anything else.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    record: Option<Expiring<Record>>,
    buckets: BTreeMap<BudgetId, Expiring<Bucket>>,
    logs: BTreeMap<BudgetId, Expiring<UseLog>>,
    counts: BTreeMap<BudgetId, Expiring<WindowCount>>,
    units: BTreeMap<BudgetId, Expiring<Units>>,
    slots: SlotBook,
    holds: BTreeMap<HoldId, Expiring<Hold>>,
    /// Kept with the record.
    excesses: ExcessBook,
    /// With so many values kept, they are looked through for expired ones.
    sweep_at: usize,
}

/// A value that is there up to an instant.
#[derive(Clone, Debug)]
struct Expiring<T> {
    value: T,
    until: StoreTime,
}

impl<T> Expiring<T> {
    fn is_there(&self, now: StoreTime) -> bool {
        now <= self.until
    }
}

impl MemoryStore {
    /// The record, if there is one.
    pub fn record(&self, now: StoreTime) -> Option<&Record> {
        self.record.as_ref().filter(|record| record.is_there(now)).map(|record| &record.value)
    }

    /// A bucket as it was last written, and until when it is kept.
    pub fn bucket(&self, budget: &BudgetId) -> Option<(&Bucket, StoreTime)> {
        self.buckets.get(budget).map(|bucket| (&bucket.value, bucket.until))
    }

    /// A log as it was last written, and until when it is kept.
    pub fn log(&self, budget: &BudgetId) -> Option<(&UseLog, StoreTime)> {
        self.logs.get(budget).map(|log| (&log.value, log.until))
    }

    /// A count of windows as it was last written, and until when it is kept.
    pub fn count(&self, budget: &BudgetId) -> Option<(&WindowCount, StoreTime)> {
        self.counts.get(budget).map(|count| (&count.value, count.until))
    }

    /// Units of an allowance as they were last written, and until when they are kept.
    pub fn units(&self, budget: &BudgetId) -> Option<(Units, StoreTime)> {
        self.units.get(budget).map(|units| (units.value, units.until))
    }

    /// Buckets, logs, counts and units kept, with those that have expired since anybody looked.
    pub fn kept(&self) -> usize {
        self.buckets.len() + self.logs.len() + self.counts.len() + self.units.len() + self.slots.len() + self.holds.len()
    }

    /// Answers `question` at `now`, and charges it if it is allowed.
    pub fn decide(&mut self, now: StoreTime, question: &Question) -> Reply {
        self.decide_beside(now, question, &Beside::default())
    }

    /// The same, and keeps what is to be kept beside.
    pub fn decide_beside(&mut self, now: StoreTime, question: &Question, beside: &Beside) -> Reply {
        debug_assert!(question.budgets_differ(), "two charges on one budget");
        let view = &question.view;
        let Some(record) = self.record(now) else { return Reply::NoRecord };
        if record.policies != view.policies {
            return Reply::OtherPolicies(record.policies);
        }
        if (view.leased || view.whole_floor) && !record.is_known_by(view.number, view.nonce) {
            return Reply::OtherLease(record.number());
        }
        let mut accounts: Vec<Account> =
            question.charges.iter().map(|charge| self.account(now, record, question, charge, beside)).collect();
        let allowed = accounts.iter().all(|a| a.fits || !a.charge.enforced);
        let mut kept = Hold { lost_at: record.lost_at, most: beside.hold.map_or(MicroTokens::ZERO, |hold| hold.most), ..Hold::default() };
        for account in &mut accounts {
            if account.charge.cost.0 > 0 {
                let taken = allowed && account.fits;
                if taken {
                    account.take();
                    kept.parts.extend(beside.hold.and_then(|hold| account.reserve(now, hold)));
                }
                self.keep_account(now, account, taken);
            }
        }
        if allowed {
            self.keep_hold(now, beside, kept);
        }
        let decision = |account: &Account<'_>| {
            let budget = &account.charge.budget;
            match account.count {
                Count::Log(..) => account.decision(now, there(&self.logs, now, budget), None),
                Count::Slots(..) => account.decision(now, None, self.slots.get(now, budget)),
                _ => account.decision(now, None, None),
            }
        };
        Reply::Decided(Decision { allowed, limits: accounts.iter().map(decision).collect() })
    }

    /// Notes that the store's clock shows `now`: the newest windows are open. Gives the record.
    pub fn open_windows(&mut self, now: StoreTime) -> Result<&Record, Refusal> {
        let record = self.record_mut(now)?;
        record.note_clock(now);
        Ok(record)
    }

    /// What a budget has counting, or has spent in its newest window, read for a heartbeat.
    pub fn usage(&self, now: StoreTime, charge: &Charge, drift: Drift) -> Option<Usage> {
        let record = self.record(now)?;
        match charge.limit.shape() {
            Shape::Flow => None,
            Shape::Share => {
                let keep = drift.stretch(charge.limit.drain());
                if record.unknown_until(&charge.budget).is_some_and(|until| now.since(until) <= keep) {
                    return Some(Usage::Counted(MicroTokens(u64::MAX))); // what nobody knows of may count yet
                }
                Some(Usage::Counted(match charge.limit {
                    Limit::SlidingWindow { window, .. } => {
                        self.count_at(now, &charge.budget, window).weighed(window, now).estimate().min(MicroTokens(MAX_EXACT))
                    }
                    Limit::Concurrency { .. } => {
                        self.slots.get(now, &charge.budget).map(|slots| slots.counted(now, keep)).unwrap_or_default()
                    }
                    _ => there(&self.logs, now, &charge.budget).map(|log| log.counted(now, keep)).unwrap_or_default(),
                }))
            }
            Shape::Allowance => {
                let stored = there(&self.units, now, &charge.budget).copied();
                let units = Purse::new(charge, record, stored, now)?.units;
                Some(Usage::Spent(Units { beyond: MicroTokens::ZERO, ..units }))
            }
        }
    }

    /// Opens a session; refused unless it is greater than the one that is open. The state counts
    /// as lost if there is none, if `opening` says so, or if another store wrote it.
    pub fn open_session(&mut self, now: StoreTime, opening: &Opening, store: &str) -> Result<(), Refusal> {
        self.drop_expired_record(now);
        let record = match self.record(now) {
            None => Record::burnt(0, opening, store, now),
            Some(record) if record.session >= opening.session => return Err(Refusal::Superseded { taken: record.taken }),
            Some(record) if opening.burn || record.store != store => Record::burnt(record.epoch, opening, store, now),
            Some(record) => {
                let mut record = record.clone();
                record.reopen(opening);
                record
            }
        };
        self.record = Some(Expiring { value: record, until: now.after(RECORD_LIFE) });
        Ok(())
    }

    /// Draws the number of the next heartbeat of `session` (R8). A region that is cut off keeps its record by it.
    pub fn draw_seq(&mut self, now: StoreTime, session: u64) -> Result<u64, Refusal> {
        let seq = self.record_mut(now)?.draw_seq(session)?;
        self.extend_record(now);
        Ok(seq)
    }

    /// Begins to apply response `number`: older ones are refused from now on.
    pub fn take(&mut self, now: StoreTime, number: Number) -> Result<(), Refusal> {
        self.record_mut(now)?.take(number)
    }

    /// Changes what is held: each bucket is first settled under what was held until now.
    pub fn write(&mut self, now: StoreTime, change: &HoldingsChange) -> Result<(), Refusal> {
        self.record_mut(now)?.check_taken(change.number)?;
        for settlement in &change.settlements {
            let bucket = settlement.standing.and_then(|floor| self.settle(now, change, settlement, floor));
            if let Some((bucket, terms)) = bucket {
                self.keep(now, &settlement.budget, bucket, &terms);
            }
            self.record_mut(now)?.hold(&settlement.budget, exact_holding(&settlement.holding));
        }
        for grant in &change.grants {
            self.record_mut(now)?.grant(grant);
        }
        Ok(())
    }

    /// Ends the application of a response.
    pub fn finish(&mut self, now: StoreTime, finish: &Finish) -> Result<(), Refusal> {
        self.record_mut(now)?.finish(now, finish)?;
        self.extend_record(now);
        Ok(())
    }

    fn drop_expired_record(&mut self, now: StoreTime) {
        self.record = self.record.take().filter(|record| record.is_there(now));
        if self.record.is_none() {
            self.excesses = ExcessBook::default();
        }
    }

    fn extend_record(&mut self, now: StoreTime) {
        if let Some(record) = &mut self.record {
            record.until = now.after(RECORD_LIFE);
        }
    }

    /// Drops what has expired. Done by itself whenever what is kept has doubled.
    pub fn sweep(&mut self, now: StoreTime) {
        self.drop_expired_record(now);
        self.buckets.retain(|_, bucket| bucket.is_there(now));
        self.counts.retain(|_, count| count.is_there(now));
        self.logs.retain(|_, log| log.is_there(now));
        self.units.retain(|_, units| units.is_there(now));
        self.slots.sweep(now);
        self.holds.retain(|_, hold| hold.is_there(now));
        self.sweep_at = self.kept().saturating_mul(2);
    }

    fn record_mut(&mut self, now: StoreTime) -> Result<&mut Record, Refusal> {
        let record = self.record.as_mut().filter(|record| record.is_there(now));
        record.map(|record| &mut record.value).ok_or(Refusal::NoRecord)
    }

    /// How a charge stands before anything is taken.
    fn account<'a>(&self, now: StoreTime, record: &Record, question: &Question, charge: &'a Charge, beside: &Beside) -> Account<'a> {
        let holding = record.holding(&charge.budget, exact(charge.lendable));
        let (view, drift) = (&question.view, question.drift);
        if question.has_ended(charge) {
            return Account { charge, fits: LimitDecision::ended(charge.cost).fits, count: Count::Ended };
        }
        let units = there(&self.units, now, &charge.budget).copied();
        if let Some(purse) = Purse::new(charge, record, units, now) {
            return Account { charge, fits: purse.fits(charge.cost), count: Count::Window(purse) };
        }
        if charge.limit.shape() == Shape::Share {
            let terms = ShareTerms::new(charge, &holding, view, drift, record.unknown_until(&charge.budget), now);
            let keep = drift.stretch(charge.limit.drain());
            return match charge.limit {
                Limit::Concurrency { .. } => self.slots_account(now, charge, terms, keep, beside.slot.unwrap_or_default()),
                _ => self.share_account(now, charge, terms, keep),
            };
        }
        let terms = Terms::new(&holding, charge.floor, Period::of(charge.limit), view, drift);
        let bucket = Bucket::settled(self.stored(now, &charge.budget), &terms, &record.history(&charge.budget), now);
        Account { charge, fits: bucket.holds(charge.cost), count: Count::Bucket(terms, bucket) }
    }

    /// How a charge on a budget with a drain stands.
    fn share_account<'a>(&self, now: StoreTime, charge: &'a Charge, terms: ShareTerms, keep: Duration) -> Account<'a> {
        let (counted, count) = match charge.limit {
            Limit::SlidingWindow { window, .. } => {
                let count = self.count_at(now, &charge.budget, window);
                (count.weighed(window, now).estimate(), Count::Sliding(terms, window, count))
            }
            _ => {
                let counted = there(&self.logs, now, &charge.budget).map(|log| log.counted(now, keep));
                (counted.unwrap_or_default(), Count::Log(terms, keep))
            }
        };
        Account { charge, fits: terms.fits(counted, charge.cost), count }
    }

    fn count_at(&self, now: StoreTime, budget: &BudgetId, window: Duration) -> WindowCount {
        WindowCount::settled(there(&self.counts, now, budget), window, now)
    }

    fn keep_account(&mut self, now: StoreTime, account: &Account<'_>, taken: bool) {
        let budget = &account.charge.budget;
        match &account.count {
            Count::Bucket(terms, bucket) => self.keep(now, budget, bucket.clone(), terms),
            Count::Slots(_, keep, id) => self.keep_slots(now, budget, *keep, taken.then_some((*id, account.charge.cost))),
            Count::Log(_, keep) => self.keep_log(now, budget, *keep, taken.then_some(account.charge.cost)),
            Count::Sliding(_, window, count) => self.keep_count(now, budget, *window, *count),
            // what a window that was burnt came to is not known before it is told, so it is not written down
            Count::Window(_) if !taken => {}
            Count::Ended => {}
            Count::Window(purse) => {
                if let Some(record) = &mut self.record {
                    record.value.note_clock(purse.units.label.start());
                }
                let until = account.charge.limit.end_of(purse.units.label).after(GRACE);
                self.units.insert(budget.clone(), Expiring { value: purse.units, until });
                self.bound_memory(now);
            }
        }
    }

    /// Writes down what a log has come to, and what was taken of it; nothing if that is what it was.
    fn keep_log(&mut self, now: StoreTime, budget: &BudgetId, keep: Duration, taken: Option<MicroTokens>) {
        if !self.logs.contains_key(budget) {
            let Some(units) = taken else { return };
            let mut log = UseLog::default();
            log.take(now, units);
            self.logs.insert(budget.clone(), Expiring { value: log, until: now.after(log_life(keep)) });
            return self.bound_memory(now);
        }
        let Some(log) = self.logs.get_mut(budget) else { return };
        let settled = log.value.settle(now, keep);
        if let Some(units) = taken {
            log.value.take(now, units);
        }
        if settled || taken.is_some() {
            log.until = now.after(log_life(keep));
        }
        if log.value.is_empty() {
            self.logs.remove(budget);
        }
    }

    /// Writes down what a count has come to; nothing if that is what it was.
    fn keep_count(&mut self, now: StoreTime, budget: &BudgetId, window: Duration, count: WindowCount) {
        if count.is_empty() {
            self.counts.remove(budget);
            return;
        }
        if there(&self.counts, now, budget) == Some(&count) {
            return;
        }
        let until = now.after(count.weighed(window, now).life()).after(GRACE);
        self.counts.insert(budget.clone(), Expiring { value: count, until });
        self.bound_memory(now);
    }

    /// A budget's bucket, settled under what was held and put under what will be.
    fn settle(&self, now: StoreTime, change: &HoldingsChange, settlement: &Settlement, floor: FloorTerms) -> Option<(Bucket, Terms)> {
        let record = self.record(now)?;
        if floor.limit.shape() != Shape::Flow {
            return None; // nothing refills: what counts is compared with what is held at each question
        }
        let terms = |holding: &Holding| Terms::new(holding, floor.floor, Period::of(floor.limit), &change.view, change.drift);
        let before = terms(&record.holding(&settlement.budget, exact(floor.lendable)));
        let after = terms(&exact_holding(&settlement.holding));
        let stored = self.stored(now, &settlement.budget);
        let mut bucket = Bucket::settled(stored, &before, &record.history(&settlement.budget), now);
        if mistake::made(Mistake::LevelRaisedWithGrant) {
            bucket.fill.level = bucket.fill.level.saturating_add(after.entitlement.burst.saturating_sub(before.entitlement.burst));
        }
        bucket.put_under(&after);
        Some((bucket, after))
    }

    fn stored(&self, now: StoreTime, budget: &BudgetId) -> Option<&Bucket> {
        there(&self.buckets, now, budget)
    }

    fn keep(&mut self, now: StoreTime, budget: &BudgetId, bucket: Bucket, terms: &Terms) {
        self.buckets.insert(budget.clone(), Expiring { until: now.after(bucket.life(terms)), value: bucket });
        self.bound_memory(now);
    }

    fn bound_memory(&mut self, now: StoreTime) {
        if self.kept() >= self.sweep_at.max(FEW) {
            self.sweep(now);
        }
    }
}

/// What a budget comes to beside its limit: see [`MemoryStore::usage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Of a budget with a drain.
    Counted(MicroTokens),
    /// Of an allowance.
    Spent(Units),
}

/// How much longer than it counts a log is kept: [`GRACE`], in whole milliseconds.
fn log_life(keep: Duration) -> Duration {
    Duration::from_millis(u64::try_from(keep.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)).saturating_add(GRACE)
}

fn there<'a, T>(values: &'a BTreeMap<BudgetId, Expiring<T>>, now: StoreTime, budget: &BudgetId) -> Option<&'a T> {
    values.get(budget).filter(|value| value.is_there(now)).map(|value| &value.value)
}

/// As a script would keep it: amounts that are exact, and no loans of nothing.
fn exact_holding(holding: &Holding) -> Holding {
    let loans = holding.borrowed.iter().map(|(lender, loan)| (lender.clone(), exact(*loan)));
    Holding { pool: exact(holding.pool), lent: exact(holding.lent), borrowed: loans.filter(|(_, loan)| !loan.is_zero()).collect() }
}
