//! The state that every coordinator replicates, and how one log entry changes it.

use crate::alarms::Alarms;
use crate::allowance::Allowance;
use crate::budget::{BudgetEntry, Share};
use crate::command::{Author, Command, Outcome};
use crate::departed::Departed;
use crate::journal::{Journal, Note};
use crate::level::check_level;
use crate::measured::Measured;
use crate::policies::PolicyBook;
use crate::restore::Restored;
use crate::session::{LeftAt, Session};
use crate::windows::{Kind, Windows};
use quorate_shared::heartbeat::{LONGEST_LEASE, Office};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::{BudgetId, PolicyName, RegionName, SubjectKey};
use quorate_shared::policy::PolicySet;
use quorate_shared::time::{Drift, LeaderTime};
use quorate_shared::units::Capacity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Who may use how much of which budget, until when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    /// See [`crate::level`].
    #[serde(default)]
    pub(crate) level: u32,
    pub(crate) founding: Option<Founding>,
    pub(crate) clock: LeaderClock,
    pub(crate) regions: BTreeMap<RegionName, Session>,
    pub(crate) budgets: BTreeMap<BudgetId, BudgetEntry>,
    /// Allowances, by window.
    #[serde(default)]
    pub(crate) allowances: BTreeMap<BudgetId, Allowance>,
    /// Windows before these are closed.
    #[serde(default)]
    pub(crate) closed: Windows,
    /// The last window of each kind that any region can ever have used, those that left included.
    #[serde(default)]
    pub(crate) last_windows: Windows,
    pub(crate) policies: PolicyBook,
    #[serde(default)]
    pub(crate) measured: BTreeMap<PolicyName, Measured>,
    #[serde(default)]
    pub(crate) alarms: Alarms,
    /// The active set when a region was first answered. As long as it is active, a region that was
    /// never answered has its floor to itself, and unused.
    #[serde(default)]
    pub(crate) first_set: Option<u64>,
    /// Regions that were named before, and may be again.
    #[serde(default)]
    pub(crate) left: BTreeMap<RegionName, LeftAt>,
    #[serde(default)]
    pub(crate) departed: Departed,
    /// Set if it was restored from a backup.
    #[serde(default)]
    pub(crate) restored: Option<Restored>,
    #[serde(skip)]
    pub(crate) journal: Journal,
}

/// What all replicas and agents share from the cluster's beginning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Founding {
    /// For hashing subjects.
    pub subject_key: SubjectKey,
    /// `L`.
    pub lease: Duration,
    /// ρ.
    pub drift: Drift,
    /// The shortest and the longest that `L` ever was before; none if it never was another.
    #[serde(default)]
    pub former_leases: Option<(Duration, Duration)>,
}

impl Founding {
    /// The shortest that `L` ever was.
    pub fn least_lease(&self) -> Duration {
        self.former_leases.map_or(self.lease, |(least, _)| least.min(self.lease))
    }

    /// The longest that `L` ever was.
    pub fn longest_lease(&self) -> Duration {
        self.former_leases.map_or(self.lease, |(_, longest)| longest.max(self.lease))
    }

    /// `L` is another from now on.
    fn change_lease(&mut self, lease: Duration) {
        self.former_leases = Some((self.least_lease(), self.longest_lease()));
        self.lease = lease;
    }
}

/// The newest date in the log: the office and the time in it. Time never runs backwards in an office.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LeaderClock {
    pub office: Office,
    pub at: LeaderTime,
    /// Earlier offices of the same term: a process that slept, or restarted, and leads on.
    pub retired: Vec<u64>,
}

impl LeaderClock {
    /// True of an office that is over. An entry that one left behind would date everything anew.
    pub fn is_over(&self, office: Office) -> bool {
        office.term < self.office.term || (office.term == self.office.term && self.retired.contains(&office.process))
    }

    /// The entry's date, not before any earlier one of its office; and whether the office is new.
    pub fn advance(&mut self, office: Office, at: LeaderTime) -> bool {
        let new = office != self.office;
        if new {
            match office.term == self.office.term {
                true => self.retired.push(self.office.process),
                false => self.retired.clear(),
            }
            (self.office, self.at) = (office, at);
        }
        self.at = self.at.max(at);
        new
    }
}

/// A promise of the protocol that the ledger's own state breaks: a bug, never an input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{budget}: {what}: {held:?} exceeds {limit:?}")]
pub struct Violation {
    /// Of which budget.
    pub budget: BudgetId,
    /// Which sum.
    pub what: &'static str,
    /// What it is.
    pub held: Capacity,
    /// What it may be.
    pub limit: Capacity,
}

impl Ledger {
    /// Applies one entry of the log, which stands there under `log_term`. After
    /// [`Outcome::UnknownLevel`] nothing was changed, and nothing may be applied any more.
    pub fn apply(&mut self, log_term: u64, command: &Command) -> Outcome {
        self.journal.clear();
        if let Err(unknown) = check_level(self.level) {
            return Outcome::UnknownLevel { found: unknown.found };
        }
        match command {
            Command::Level { to } => self.raise_level(*to),
            Command::Found { subject_key, lease, drift } => {
                let founding = Founding { subject_key: subject_key.clone(), lease: *lease, drift: *drift, former_leases: None };
                self.founding.get_or_insert(founding);
                Outcome::Done
            }
            Command::Heartbeat(stamped) => self.apply_heartbeat(log_term, stamped),
            Command::Policies { replaces, set, by } => self.apply_policies(*replaces, set, by),
            Command::Fence { region, .. } => self.apply_fence(region),
            Command::Lease { lease, .. } => self.apply_lease(*lease),
            Command::Restore { backup, longest_lease, version, by } => self.apply_restore(backup, *longest_lease, *version, by),
            Command::ClearAlarm { policy, subject, .. } => self.clear_alarms(policy.as_ref(), *subject),
            Command::Members { .. } => Outcome::Done,
        }
    }

    /// What applying the last entry did. Of a ledger that was read from a snapshot nothing is known.
    pub fn notes(&self) -> &[Note] {
        self.journal.notes()
    }

    /// What the cluster was founded with; `None` before its first entry.
    pub fn founding(&self) -> Option<&Founding> {
        self.founding.as_ref()
    }

    /// The newest policy set, active or not.
    pub fn newest_policies(&self) -> &Arc<PolicySet> {
        self.policies.newest()
    }

    /// The policy set in force.
    pub fn active_policies(&self) -> &Arc<PolicySet> {
        &self.policies.active.set
    }

    /// Every kept version of the policy set, oldest first.
    pub fn policy_history(&self) -> &[crate::PolicyVersion] {
        &self.policies.history
    }

    /// The set that is not active yet, with the regions that have not confirmed it.
    pub fn pending_policies(&self) -> Option<(u64, Vec<RegionName>)> {
        let next = self.policies.next.as_ref()?;
        Some((next.set.version, self.unconfirmed_regions()))
    }

    /// R9. A set may take the place of one that is pending: until one is active, regions go by the active set, or by less,
    /// so each is to confirm the new one as if the other had never been.
    fn apply_policies(&mut self, replaces: u64, set: &PolicySet, by: &Author) -> Outcome {
        let Some(founding) = &self.founding else { return Outcome::Done };
        if self.is_restoring() {
            return Outcome::Restoring { version: self.newest_policies().version, waits_for: self.unconfirmed_regions() };
        }
        let newest = self.policies.newest().version;
        if replaces != newest {
            return Outcome::VersionConflict { newest };
        }
        let version = self.policies.propose(set.clone(), by.clone(), &founding.subject_key);
        self.call_back_named();
        self.wind_down_ending_budgets();
        self.wind_down_ending_units();
        self.activate_if_confirmed();
        let waits_for = self.pending_policies().map(|(_, regions)| regions).unwrap_or_default();
        Outcome::Policies { version, waits_for }
    }

    /// `L` is another in every response from now on. Sessions end by the longest that they were told
    /// since their echo.
    fn apply_lease(&mut self, lease: Duration) -> Outcome {
        if lease.is_zero() || lease > LONGEST_LEASE {
            return Outcome::NoSuchLease;
        }
        if let Some(founding) = self.founding.as_mut().filter(|founding| founding.lease != lease) {
            founding.change_lease(lease);
        }
        Outcome::Done
    }

    fn apply_fence(&mut self, region: &RegionName) -> Outcome {
        let Some(session) = self.regions.get_mut(region) else { return Outcome::UnknownRegion };
        if !session.expired {
            return Outcome::StillLive;
        }
        if !self.policies.longest_drain().is_zero() {
            session.fencing.get_or_insert(None);
            return Outcome::Done;
        }
        session.fence();
        self.journal.note(Note::Fenced { region: region.clone() });
        self.activate_if_confirmed();
        Outcome::Done
    }

    /// R9: the next set becomes active once no region can still be using more than it allows.
    pub(crate) fn activate_if_confirmed(&mut self) {
        if self.policies.next.is_none() || !self.unconfirmed_regions().is_empty() || !self.holdings_fit_next() {
            return;
        }
        let up_to = self.windows_under_active();
        let regions = &self.regions;
        self.policies.activate(|version| regions.values().any(|session| session.may_act_on(version)), up_to);
        self.journal.note(Note::Activated { version: self.policies.active.set.version });
        self.let_regions_go();
        let book = &self.policies;
        self.allowances.retain(|id, _| book.active.has(id));
        self.closed.retain(|kind, _| book.active.has_kind(kind));
        self.last_windows.retain(|kind, _| book.active.has_kind(kind));
        for allowance in self.allowances.values_mut() {
            allowance.forget_targets_of(|region| !book.active.set.regions.contains_key(region));
        }
        self.budgets.retain(|id, _| book.active.has(id));
        for entry in self.budgets.values_mut() {
            entry.shares.retain(|name, _| book.active.set.regions.contains_key(name));
        }
        self.measured.retain(|name, _| book.active.set.policy(name).is_some());
        for session in self.regions.values_mut() {
            session.open.retain(|id| book.active.has(id));
            session.reported.retain(|id| book.active.has(id));
            session.borrows.retain(|id| book.active.has(id));
            session.open_windows.retain(|(id, _)| book.active.has(id));
            session.windows.retain(|kind, _| book.active.has_kind(kind));
        }
        for entry in self.budgets.values_mut() {
            // what the next report says was admitted under the set before, too
            entry.restart_meters();
            entry.memory.changed = Some(self.clock.at);
        }
    }

    /// For how long what is held of budgets may count of which too much is held for the next set.
    pub(crate) fn unfit_drains(&self) -> impl Iterator<Item = Duration> {
        let unfit = self.budgets.iter().filter(|(id, entry)| !self.policies.goes_on_elsewhere(id) && !self.fits_next(id, entry));
        unfit.map(|(_, entry)| entry.drain)
    }

    /// R9: the last window of each allowance that began under the active set, where the pending
    /// one gives less or does not hold for what is granted; there it holds from the next window on.
    fn windows_under_active(&self) -> Windows {
        let bound = |(kind, lowered): (Kind, bool)| {
            let holds = (!lowered && self.windows_fit_next(&kind)) || mistake::made(Mistake::NewPolicyInUsedWindow);
            let last = || self.last_windows.get(&kind).copied().max(self.last_window_unheard(&kind));
            if holds { None } else { last().map(|label| (kind.clone(), label)) }
        };
        self.policies.continued_allowances().into_iter().filter_map(bound).collect()
    }

    /// True if all that regions may hold beyond their floors fits the next set; budgets that end
    /// with the present one must be down to nothing.
    fn holdings_fit_next(&self) -> bool {
        self.budgets.iter().all(|(id, entry)| self.fits_next(id, entry))
    }

    fn fits_next(&self, id: &BudgetId, entry: &BudgetEntry) -> bool {
        match self.policies.next_terms(id) {
            Some(terms) => entry.fits(&terms),
            // what is given up of a budget that ends need not drain: nobody is to be given it
            None => !self.policies.goes_on_elsewhere(id) || entry.shares.iter().all(|(name, share)| self.has_given_up(name, share)),
        }
    }

    /// True if the region can use nothing of its share but what is its own.
    fn has_given_up(&self, region: &RegionName, share: &Share) -> bool {
        self.regions.get(region).is_none_or(|session| session.expired || share.uses_nothing_after(session.echo))
    }

    /// Regions that may hold something of a budget of which too much is held for the next set.
    pub(crate) fn holders_beyond_next(&self) -> impl Iterator<Item = &RegionName> {
        let unfit = self.budgets.iter().filter(|(id, entry)| !self.fits_next(id, entry));
        unfit.flat_map(|(_, entry)| entry.shares.iter().filter(|(_, share)| !share.holds_nothing()).map(|(name, _)| name))
    }

    /// Checks R4 on the whole state. For tests and alarms: costs in proportion to all budgets.
    ///
    /// # Errors
    /// The first sum that exceeds what it may be.
    pub fn check(&self) -> Result<(), Violation> {
        for (id, entry) in &self.budgets {
            if let Some(terms) = self.policies.active_terms(id) {
                entry.check(id, &terms)?;
            }
        }
        self.check_windows()
    }
}
