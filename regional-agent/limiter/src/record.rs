//! The lease record of one region, as its store keeps it, and what may be written to it (R3).

use crate::bucket::{Change, History, exact};
use crate::decision::LeaseView;
use quorate_shared::heartbeat::{Grant, Holding, Number, PoliciesInForce, Stamp};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::{BudgetId, PolicyName, RegionName};
use quorate_shared::policy::Limit;
use quorate_shared::time::{Drift, StoreTime, WindowLabel};
use quorate_shared::units::{Capacity, MAX_EXACT, MicroTokens};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a record outlives its last heartbeat or renewal. Losing it is safe: the next session burns (R7).
pub const RECORD_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long a change of limits bears on the next one of the same policy.
pub const CHANGE_MEMORY: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long it is remembered that the budgets of a policy began anew which no set in force names any more.
pub const ANEW_MEMORY: Duration = Duration::from_secs(366 * 24 * 3600);

/// What a region's store knows of its lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The session that may write.
    pub session: u64,
    /// See [`Opening::nonce`].
    pub nonce: u64,
    /// The last heartbeat number drawn in it; 0 before the first.
    pub seq: u64,
    /// The newest response whose application has begun.
    pub taken: Number,
    /// The newest response applied in full; none yet in a new session.
    pub applied: Option<Stamp>,
    /// By what the newest response applied renewed the lease, for agents that did not receive it (R8).
    pub renewal: Option<Renewal>,
    /// The policy sets applied.
    pub policies: PoliciesInForce,
    /// See [`History::epoch`].
    pub epoch: u64,
    /// See [`History::renewed_at`].
    pub renewed_at: Option<StoreTime>,
    /// See [`History::emptied_at`].
    pub emptied_at: Option<StoreTime>,
    /// True after a loss of state, until a full response: of a budget without a holding all that
    /// may be lent counts as lent (R7).
    pub burnt: bool,
    /// The store that the record was written in: [`Loaded::store`] then.
    pub store: String,
    /// Beyond the floors, by budget.
    pub holdings: BTreeMap<BudgetId, Holding>,
    /// The last change of limits of each policy, by name and generation.
    pub changes: BTreeMap<(PolicyName, u64), Change>,
    /// When the state was last lost: past use before that is unknown (R7).
    pub lost_at: Option<StoreTime>,
    /// The store's clock counts as showing at least this, so that a region's window never goes back:
    /// the newest beginning of a window that something was taken of, the newest instant at which
    /// windows were opened, or what a response said.
    pub clock: StoreTime,
    /// Units granted, by budget and window.
    pub grants: BTreeMap<(BudgetId, WindowLabel), Granted>,
}

/// By what a response renewed a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewal {
    /// `L`.
    pub lease: Duration,
    /// ρ.
    pub drift: Drift,
    /// See [`quorate_shared::heartbeat::Response::lenders`].
    pub lenders: BTreeMap<RegionName, Duration>,
    /// See [`quorate_shared::heartbeat::Response::drained_lenders`].
    pub drained_lenders: Vec<(BudgetId, BTreeMap<RegionName, Duration>)>,
}

/// Units of one window that a region may spend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// Floor included.
    pub units: MicroTokens,
    /// The most that can have been spent before the state was lost.
    pub used_at_most: MicroTokens,
}

/// How far ahead of its successor's a lost store's clock may have been: windows up to there count
/// as used.
pub const CLOCKS_APART: Duration = Duration::from_secs(60);

/// A record as found, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// None in a store that is new or has lost it.
    pub record: Option<Record>,
    /// What the store is now: another text after a restart, a failover or a restore.
    pub store: String,
}

impl Loaded {
    /// True if the store cannot vouch for what was admitted before: the next session must burn (R7).
    pub fn lost(&self) -> bool {
        self.record.as_ref().is_none_or(|record| record.store != self.store)
    }
}

/// Why a lease operation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// R3: another session is open, or a greater response was taken.
    #[error("superseded: the store has taken response {taken}")]
    Superseded {
        /// The newest taken; of the session that is open.
        taken: Number,
    },
    /// The store has no record, or one that another store wrote: open a session first.
    #[error("the store has no record of the region's session")]
    NoRecord,
}

/// A new session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Greater than any before it, and below 2^53.
    pub session: u64,
    /// Drawn at random: a store that lost its record may open a session of the same number again.
    pub nonce: u64,
    /// True to count all state as lost, whatever the store holds.
    pub burn: bool,
    /// Taken for the policy sets in force if the state is lost, or nothing was applied since it was.
    pub policies: PoliciesInForce,
}

/// What is to be held of some budgets from now on.
#[derive(Clone, Debug, PartialEq)]
pub struct HoldingsChange {
    /// The response that says so; taken before.
    pub number: Number,
    /// The lease at the sending; its policies are those of the floors below.
    pub view: LeaseView,
    /// ρ.
    pub drift: Drift,
    /// One for each budget.
    pub settlements: Vec<Settlement>,
    /// Units of allowances.
    pub grants: Vec<Grant>,
}

/// One budget's part of a [`HoldingsChange`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// Which budget.
    pub budget: BudgetId,
    /// What is held from now on.
    pub holding: Holding,
    /// How the bucket stands meanwhile; `None` if no policy in force is known for the budget, so
    /// that nobody can ask for it either.
    pub standing: Option<FloorTerms>,
}

/// What the policies say of a budget in one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloorTerms {
    /// For its period.
    pub limit: Limit,
    /// The region's static share.
    pub floor: Capacity,
    /// λ: see [`crate::decision::Charge::lendable`].
    pub lendable: Capacity,
}

/// The last step of applying a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// Of the response; its number was taken before.
    pub stamp: Stamp,
    /// By what it renews the lease.
    pub renewal: Renewal,
    /// In force from now on.
    pub policies: PoliciesInForce,
    /// True if the response named all that is held; what it did not name was written as zero.
    pub full: bool,
    /// True if nothing was ever admitted in this region.
    pub genesis: bool,
    /// True if the lease (`D`), or the promise of a lender of anything held (`D_j`), had run out
    /// before the horizons moved.
    pub lapsed: bool,
    /// The store's clock counts as showing at least this: earlier windows are closed.
    pub clock_at_least: StoreTime,
    /// Policies whose floors changed with [`Self::policies`].
    pub changed: Vec<ChangedPolicy>,
    /// If other policies are in force from now on: all of them, by name and generation. What is remembered of others is
    /// forgotten once it is old; they come back only with coordinators that are restored from a backup.
    pub named: Option<BTreeSet<(PolicyName, u64)>>,
}

/// A policy whose budgets have other floors from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedPolicy {
    /// Its name.
    pub policy: PolicyName,
    /// Its budgets' generation.
    pub generation: u64,
    /// The least floor that one of its budgets had in this region until now, by rate and by burst.
    pub former: Capacity,
    /// True if one of its budgets refills more slowly from now on.
    pub slows: bool,
    /// True if its budgets begin anew under a name that had others before (another kind of limit,
    /// period or subject): what those counted is not in these.
    pub anew: bool,
}

impl Record {
    /// The newest response applied; seq 0 if there is none in this session.
    pub fn number(&self) -> Number {
        Number { session: self.session, seq: self.applied.map_or(0, |stamp| stamp.number.seq) }
    }

    /// True if a lease dated by response `number` of a session is as new as this record (R8).
    pub fn is_known_by(&self, number: Number, nonce: u64) -> bool {
        number.session == self.session && nonce == self.nonce && number >= self.number()
    }

    /// Windows that begin no later may have been used before the state was lost (R7).
    pub fn burnt_until(&self) -> Option<StoreTime> {
        self.lost_at.map(|lost| lost.after(CLOCKS_APART))
    }

    /// What is held of a budget of which `lendable` may be lent.
    pub fn holding(&self, budget: &BudgetId, lendable: Capacity) -> Holding {
        match self.holdings.get(budget) {
            Some(holding) => holding.clone(),
            None if self.burnt => Holding { lent: lendable, ..Holding::default() },
            None => Holding::default(),
        }
    }

    /// What happened to the bucket of a budget without its being asked for.
    pub fn history(&self, budget: &BudgetId) -> History {
        let changed = self.changes.get(&(budget.policy.clone(), budget.generation)).copied();
        History { epoch: self.epoch, renewed_at: self.renewed_at, emptied_at: self.emptied_at, changed }
    }

    /// A record that knows nothing but its session: what follows a loss of state.
    pub(crate) fn burnt(previous_epoch: u64, opening: &Opening, store: &str, now: StoreTime) -> Self {
        let taken_for_empty = mistake::made(Mistake::LossTakenForEmpty);
        Self {
            session: opening.session,
            nonce: opening.nonce,
            taken: Number { session: opening.session, seq: 0 },
            policies: opening.policies,
            // a lost record's epoch is unknown: the time is one that it did not reach
            epoch: previous_epoch.saturating_add(1).max(now.as_micros()),
            emptied_at: (!taken_for_empty && !mistake::made(Mistake::LossTakenForFull)).then_some(now),
            burnt: !taken_for_empty && !mistake::made(Mistake::WholeFloorAfterLoss),
            lost_at: Some(now),
            store: store.to_owned(),
            ..Self::default()
        }
    }

    /// The same record under a new session.
    pub(crate) fn reopen(&mut self, opening: &Opening) {
        let session = opening.session;
        (self.session, self.nonce) = (session, opening.nonce);
        if self.burnt {
            // nothing was applied since the loss: the policies are what an agent's disk remembered, this one's no less
            self.policies = opening.policies;
        }
        self.seq = 0;
        self.taken = Number { session, seq: 0 };
        (self.applied, self.renewal) = (None, None);
    }

    /// Begins response `number`; refused unless it is of this session and newer than all taken.
    pub(crate) fn take(&mut self, number: Number) -> Result<(), Refusal> {
        let newer = number > self.taken || mistake::made(Mistake::OlderResponseAccepted);
        if number.session != self.session || !newer {
            return Err(self.superseded());
        }
        self.taken = number;
        Ok(())
    }

    /// Refuses what is not part of the response that was taken last.
    pub(crate) fn check_taken(&self, number: Number) -> Result<(), Refusal> {
        let refused = number != self.taken && !mistake::made(Mistake::LateApplication);
        if refused { Err(self.superseded()) } else { Ok(()) }
    }

    /// Draws the next heartbeat number of `session`.
    pub(crate) fn draw_seq(&mut self, session: u64) -> Result<u64, Refusal> {
        if session != self.session {
            return Err(self.superseded());
        }
        self.seq += 1;
        Ok(self.seq)
    }

    /// Records what is held of a budget. Nothing is not recorded, unless that is news.
    pub(crate) fn hold(&mut self, budget: &BudgetId, holding: Holding) {
        if holding.is_zero() && !self.burnt {
            self.holdings.remove(budget);
        } else {
            self.holdings.insert(budget.clone(), holding);
        }
    }

    /// Records what may be spent of a window, and what it can have come to at most before it was lost. The latter is told
    /// once, and stays until the window is over: what was granted since then the store counts itself, and what a report
    /// made of it must not change. Neither is not recorded.
    pub(crate) fn grant(&mut self, grant: &Grant) {
        let key = (grant.budget.clone(), grant.label);
        let most = MicroTokens(MAX_EXACT);
        let told = self.grants.get(&key).map(|known| known.used_at_most).filter(|used| *used > MicroTokens::ZERO);
        let granted = Granted { units: grant.granted.min(most), used_at_most: told.unwrap_or(grant.used_at_most.min(most)) };
        match (grant.granted, grant.used_at_most) == (MicroTokens::ZERO, MicroTokens::ZERO) {
            true => self.grants.remove(&key),
            false => self.grants.insert(key, granted),
        };
    }

    /// True of a window that may have been used before the state was lost (R7).
    pub fn is_burnt(&self, label: WindowLabel) -> bool {
        self.burnt_until().is_some_and(|until| label.start() <= until)
    }

    /// True of a window of which nobody can say what was used: it may have been before the state was
    /// lost (R7), or by budgets that these took the place of.
    pub fn counts_as_used(&self, budget: &BudgetId, label: WindowLabel) -> bool {
        let anew_at = self.history(budget).changed.and_then(|change| change.anew_at);
        self.is_burnt(label) || anew_at.is_some_and(|then| label.start() <= then)
    }

    /// Until when nobody can say what was taken of a budget: before the state was lost (R7), or by budgets that
    /// this one took the place of.
    pub fn unknown_until(&self, budget: &BudgetId) -> Option<StoreTime> {
        let anew_at = self.history(budget).changed.and_then(|change| change.anew_at);
        self.lost_at.max(anew_at)
    }

    /// From now on the store's clock counts as showing at least this.
    pub(crate) fn note_clock(&mut self, shown: StoreTime) {
        self.clock = self.clock.max(shown);
    }

    /// Ends the application of a response.
    pub(crate) fn finish(&mut self, now: StoreTime, finish: &Finish) -> Result<(), Refusal> {
        self.check_taken(finish.stamp.number)?;
        self.applied = Some(finish.stamp);
        self.note_clock(finish.clock_at_least);
        self.renewal = Some(finish.renewal.clone());
        self.policies = finish.policies;
        let lapsed = finish.lapsed && !mistake::made(Mistake::RefillOverLapse);
        if lapsed {
            self.renewed_at = Some(now);
        }
        if lapsed || !finish.changed.is_empty() {
            self.epoch += 1;
        }
        for changed in finish.changed.iter().filter(|changed| !changed.anew || !mistake::made(Mistake::ChangedKindUnused)) {
            self.note_change(now, changed);
        }
        if let Some(named) = &finish.named {
            self.changes.retain(|policy, change| named.contains(policy) || !change.is_past(now));
        }
        if finish.full && self.burnt {
            // what was lent until now nobody knew, so what refilled until now is not counted
            self.emptied_at = (!mistake::made(Mistake::LossTakenForFull)).then_some(now);
            self.unburn();
        }
        if finish.genesis {
            (self.emptied_at, self.lost_at) = (None, None);
            self.unburn();
        }
        Ok(())
    }

    fn note_change(&mut self, now: StoreTime, changed: &ChangedPolicy) {
        let key = (changed.policy.clone(), changed.generation);
        let before = self.changes.get(&key).copied();
        let former = exact(changed.former);
        let recent = before.filter(|change| now.since(change.at) <= CHANGE_MEMORY);
        let change = recent.map_or(Change::first(now, former, changed.slows), |change| change.followed(now, former, changed.slows));
        let anew_at = if changed.anew { Some(now.max(self.clock)) } else { before.and_then(|change| change.anew_at) };
        self.changes.insert(key, Change { anew_at, ..change });
    }

    fn unburn(&mut self) {
        self.burnt = false;
        self.holdings.retain(|_, holding| !holding.is_zero());
    }

    fn superseded(&self) -> Refusal {
        Refusal::Superseded { taken: self.taken }
    }
}
