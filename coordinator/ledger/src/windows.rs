//! Heartbeats and allowances: what regions have spent, which windows are closed, what is granted.

use crate::Ledger;
use crate::allowance::{Allowance, Floors, MOST_WINDOWS, Window};
use crate::command::UnitPlan;
use crate::journal::Note;
use crate::ledger::Violation;
use crate::measured::Overshoot;
use crate::session::Session;
use quorate_shared::heartbeat::{Grant, Heartbeat, Number, Report};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::{BudgetId, PolicyName, RegionName};
use quorate_shared::policy::Shape;
use quorate_shared::time::WindowLabel;
use quorate_shared::units::{Capacity, MicroTokens};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// For so long after its last heartbeat a region whose lease has ended vouches for the window that it was in.
const VOUCHES: Duration = Duration::from_secs(24 * 3600);

/// The budgets of one policy that count the same way.
pub(crate) type Kind = (PolicyName, u64);

/// Which kind a budget is of.
pub(crate) fn kind(budget: &BudgetId) -> Kind {
    (budget.policy.clone(), budget.generation)
}

impl Ledger {
    /// Floors of one window and what is divided of it, by the set under which it began.
    pub(crate) fn window_terms(&self, budget: &BudgetId, label: WindowLabel) -> Option<(Floors, MicroTokens)> {
        let terms = self.policies.terms_of_window(budget, label)?;
        let floors = terms.floors.iter().map(|(name, floor)| (name.clone(), floor.floor.burst)).collect();
        (terms.limit.shape() == Shape::Allowance).then(|| (floors, terms.divided().burst))
    }

    /// Labels below this one of the budget's kind are closed.
    fn closed_before(&self, budget: &BudgetId) -> WindowLabel {
        self.closed.get(&kind(budget)).copied().unwrap_or_default()
    }

    /// The window of a budget that a region is in, unless that is closed.
    pub(crate) fn window_of(&self, region: &RegionName, budget: &BudgetId) -> Option<WindowLabel> {
        let newest = self.regions.get(region)?.windows.get(&kind(budget))?;
        let granted_from_here = !self.began_before_restore(&budget.policy, *newest);
        (granted_from_here && *newest >= self.closed_before(budget)).then_some(*newest)
    }

    /// The region has opened these windows. What every live region has left behind is closed.
    pub(crate) fn take_windows(&mut self, beat: &Heartbeat) {
        for open in &beat.windows {
            let kind = (open.policy.clone(), open.generation);
            if !self.policies.counts_windows(&kind) {
                continue;
            }
            let last = self.last_windows.entry(kind.clone()).or_default();
            *last = (*last).max(open.label).max(open.last);
            if let Some(session) = self.regions.get_mut(&beat.region) {
                let newest = session.windows.entry(kind.clone()).or_default();
                *newest = (*newest).max(open.label);
            }
            if let Some(oldest) = self.left_by_all(&kind) {
                self.close(kind, oldest);
            }
        }
    }

    /// The oldest window that a live region is in, but none that only one clock says has begun: a single region whose clock
    /// is far ahead takes nobody along. One that was heard of late vouches for what it was in then.
    fn left_by_all(&self, kind: &Kind) -> Option<WindowLabel> {
        let oldest = self.regions.values().filter(|s| !s.expired).filter_map(|s| s.windows.get(kind)).min()?;
        let of_late = |s: &&Session| !s.expired || self.clock.at.since(s.last) <= VOUCHES;
        let vouched = second_newest(self.regions.values().filter(of_late), kind)?;
        Some(*oldest.min(&vouched))
    }

    /// True if a region's window is beyond the one after the newest that two live regions have reached: its clock is far
    /// ahead. It has its floor there, which is its own in every window, and is granted nothing, so nothing is to be
    /// remembered until others come there.
    fn is_far_ahead(&self, region: &RegionName, budget: &BudgetId, label: WindowLabel) -> bool {
        let kind = kind(budget);
        let others = self.regions.iter().filter(|(name, s)| *name != region && !s.expired);
        let Some(newest) = others.filter_map(|(_, s)| s.windows.get(&kind)).max().copied() else { return false };
        let Some(terms) = self.policies.active_terms(budget) else { return false };
        terms.limit.window_at(terms.limit.end_of(newest)).is_some_and(|after| label > after)
    }

    /// Closes the windows of a kind before `label`: nothing of them is granted any more.
    fn close(&mut self, kind: Kind, label: WindowLabel) {
        let closed = self.closed.entry(kind.clone()).or_default();
        if label <= *closed {
            return;
        }
        *closed = label;
        for (_, allowance) in self.allowances.iter_mut().filter(|(id, _)| id.policy == kind.0 && id.generation == kind.1) {
            allowance.windows.retain(|open, _| *open >= label);
        }
        self.allowances.retain(|_, allowance| !allowance.windows.is_empty());
        self.policies.close_windows(&kind, label);
    }

    /// What the region has spent; with an echo, what was granted before that is over.
    pub(crate) fn take_spent(&mut self, beat: &Heartbeat) {
        let Some(session) = self.regions.get_mut(&beat.region) else { return };
        let echo = beat.echo.map(|stamp| stamp.number).filter(|number| session.has_echoed(*number));
        for spent in &beat.spent {
            let window = self.allowances.get_mut(&spent.budget).and_then(|a| a.windows.get_mut(&spent.label));
            let Some(share) = window.and_then(|w| w.shares.get_mut(&beat.region)) else { continue };
            share.take_spent(spent.units, echo);
        }
    }

    /// Demand for units of the window that the region is in.
    pub(crate) fn take_unit_report(&mut self, report: &Report, beat: &Heartbeat) {
        let Some(label) = self.window_of(&beat.region, &report.budget) else { return };
        if self.is_far_ahead(&beat.region, &report.budget, label) {
            return;
        }
        let Some((floors, _)) = self.window_terms(&report.budget, label) else { return };
        let spent = spent_of(beat, &report.budget, label);
        let floor = floors.get(&beat.region).copied().unwrap_or_default();
        let known = self.allowances.get(&report.budget).is_some_and(|a| a.windows.contains_key(&label));
        if !known && spent.saturating_add(self.ahead(report)) <= floor {
            return;
        }
        let allowance = self.allowances.entry(report.budget.clone()).or_default();
        let share = allowance.windows.entry(label).or_default().share(&beat.region);
        share.demand = report.demand;
        share.spent = share.spent.max(spent);
        let oldest_kept = allowance.windows.keys().rev().nth(MOST_WINDOWS - 1).copied();
        if let Some(oldest) = oldest_kept.filter(|_| allowance.windows.len() > MOST_WINDOWS) {
            self.close(kind(&report.budget), oldest);
        }
    }

    /// A region does not ask for an allowance any more.
    pub(crate) fn forget_unit_demand(&mut self, region: &RegionName, budget: &BudgetId) {
        let Some(allowance) = self.allowances.get_mut(budget) else { return };
        for share in allowance.windows.values_mut().filter_map(|w| w.shares.get_mut(region)) {
            share.demand = MicroTokens::ZERO;
        }
    }

    /// Takes what the allocator would like.
    pub(crate) fn take_unit_plans(&mut self, plans: &[UnitPlan]) {
        for plan in plans.iter().filter(|plan| !self.policies.goes_on_elsewhere(&plan.budget)) {
            let Some(window) = self.allowances.get_mut(&plan.budget).and_then(|a| a.windows.get_mut(&plan.label)) else { continue };
            for (region, share) in &mut window.shares {
                share.target = plan.targets.get(region).copied().unwrap_or_default();
                if share.is_open()
                    && let Some(session) = self.regions.get_mut(region)
                {
                    session.open_windows.insert((plan.budget.clone(), plan.label));
                }
            }
        }
    }

    /// Grants the region what there is room for, and gives what the response must carry: all of it
    /// in a full one, else what was granted since the echo.
    pub(crate) fn grants(&mut self, region: &RegionName, number: Number, full: bool) -> Vec<Grant> {
        let Some(session) = self.regions.get_mut(region) else { return Vec::new() };
        let (echo, open) = (session.echo, std::mem::take(&mut session.open_windows));
        let (mut still_open, mut settled) = (BTreeSet::new(), BTreeSet::new());
        let mut grants = Vec::new();
        for (budget, label) in open {
            self.grant(region, &budget, label, number);
            let window = self.allowances.get(&budget).and_then(|a| a.windows.get(&label));
            let Some(share) = window.and_then(|w| w.shares.get(region)) else { continue };
            let since = if mistake::made(Mistake::LabelsLeftOut) { number.before() } else { echo };
            if share.newer_than(since) {
                grants.extend(self.grant_of(region, &budget, label, number));
            }
            if share.newer_than(number.before()) {
                let (region, budget, units) = (region.clone(), budget.clone(), share.granted());
                self.journal.note(Note::GrantedUnits { region, budget, label, units });
            }
            match share.is_open() {
                true => still_open.insert((budget, label)),
                false => settled.insert(budget),
            };
        }
        if let Some(session) = self.regions.get_mut(region) {
            session.open_windows = still_open;
        }
        if full {
            grants = self.all_grants(region, number);
        }
        self.drop_idle_windows(settled);
        grants
    }

    fn grant(&mut self, region: &RegionName, budget: &BudgetId, label: WindowLabel, number: Number) {
        let Some((floors, limit)) = self.window_terms(budget, label) else { return };
        let stopped =
            self.alarms.stop(budget) || self.policies.goes_on_elsewhere(budget) || self.began_before_restore(&budget.policy, label);
        let Some(window) = self.allowances.get_mut(budget).and_then(|a| a.windows.get_mut(&label)) else { return };
        let units = if stopped { MicroTokens::ZERO } else { window.offer_to(region, &floors, limit) };
        window.share(region).say(number, units);
        if let Err(violation) = check_window(budget, window, &floors, limit) {
            window.share(region).unsay(number);
            self.raise_alarm(&violation);
        }
    }

    /// R9: units of allowances that go on as another kind are to be given up before that begins.
    pub(crate) fn wind_down_ending_units(&mut self) {
        for (id, allowance) in self.allowances.iter_mut().filter(|(id, _)| self.policies.goes_on_elsewhere(id)) {
            for (label, window) in &mut allowance.windows {
                for (region, share) in &mut window.shares {
                    share.target = MicroTokens::ZERO;
                    if let Some(session) = self.regions.get_mut(region).filter(|_| share.is_open()) {
                        session.open_windows.insert((id.clone(), *label));
                    }
                }
            }
        }
    }

    /// True if the region may spend more than its floor of an allowance that is to go on as another kind: a grant needs no
    /// lease.
    pub(crate) fn may_spend_ending_units(&self, region: &RegionName, session: &Session) -> bool {
        let serves = |id: &BudgetId| session.said.iter().any(|said| said.policies.active > 0 && !self.uses_no_more(said, &id.policy));
        let ending = self.allowances.iter().filter(|(id, _)| self.policies.goes_on_elsewhere(id) && serves(id));
        let shares = ending.flat_map(|(_, allowance)| allowance.windows.values()).filter_map(|window| window.shares.get(region));
        shares.into_iter().any(|share| !share.grants_nothing())
    }

    fn grant_of(&self, region: &RegionName, budget: &BudgetId, label: WindowLabel, number: Number) -> Option<Grant> {
        let (floors, _) = self.window_terms(budget, label)?;
        let window = self.allowances.get(budget)?.windows.get(&label)?;
        let granted = window.shares.get(region)?.granted();
        Some(Grant { budget: budget.clone(), label, granted, used_at_most: window.used_at_most(region, &floors, number) })
    }

    fn all_grants(&self, region: &RegionName, number: Number) -> Vec<Grant> {
        let windows = self.allowances.iter().flat_map(|(id, a)| a.windows.keys().map(move |label| (id, *label)));
        windows.filter_map(|(id, label)| self.grant_of(region, id, label, number)).collect()
    }

    /// Forgets windows of which nobody has or wants more than a floor.
    pub(crate) fn drop_idle_windows(&mut self, ids: impl IntoIterator<Item = BudgetId>) {
        for id in ids {
            let Some(mut allowance) = self.allowances.remove(&id) else { continue };
            allowance.windows.retain(|label, window| self.window_terms(&id, *label).is_some_and(|(floors, _)| !window.is_idle(&floors)));
            if !allowance.windows.is_empty() {
                self.allowances.insert(id, allowance);
            }
        }
    }

    /// True if what is held of every open window of a kind is within the pending set's limit, with
    /// its floors.
    pub(crate) fn windows_fit_next(&self, kind: &Kind) -> bool {
        let of_kind = self.allowances.iter().filter(|(id, _)| id.policy == kind.0 && id.generation == kind.1);
        of_kind.filter_map(|(id, allowance)| Some((allowance, self.policies.next_terms(id)?))).all(|(allowance, terms)| {
            let floors: Floors = terms.floors.iter().map(|(name, floor)| (name.clone(), floor.floor.burst)).collect();
            allowance.windows.values().all(|window| window.committed(&floors, None) <= terms.divided().burst)
        })
    }

    /// Checks `Σ max(f, granted, spent) ≤ R` of every open window.
    pub(crate) fn check_windows(&self) -> Result<(), Violation> {
        self.allowances.keys().try_for_each(|id| self.check_windows_of(id))
    }

    /// The same of one budget.
    pub(crate) fn check_windows_of(&self, id: &BudgetId) -> Result<(), Violation> {
        let windows = self.allowances.get(id).into_iter().flat_map(|a| &a.windows);
        let checked = windows.filter_map(|(label, window)| Some((window, self.window_terms(id, *label)?)));
        checked.into_iter().try_for_each(|(window, (floors, limit))| check_window(id, window, &floors, limit))
    }

    /// By how much more was spent than there is, of each window that a heartbeat speaks of, and how much
    /// of that was promised: the set under which it began may have had floors beyond its limit.
    pub(crate) fn unit_overshoots<'a>(&self, beat: &'a Heartbeat) -> Vec<(&'a PolicyName, Overshoot)> {
        let overshoot = |budget: &BudgetId, label: WindowLabel| {
            let window = self.allowances.get(budget)?.windows.get(&label)?;
            let (floors, limit) = self.window_terms(budget, label)?;
            let spent = window.shares.values().map(|share| share.spent).fold(MicroTokens::ZERO, MicroTokens::saturating_add);
            let floors = floors.values().copied().fold(MicroTokens::ZERO, MicroTokens::saturating_add);
            Some(Overshoot { amount: spent.saturating_sub(limit), promised: floors.saturating_sub(limit) })
        };
        beat.spent.iter().filter_map(|spent| Some((&spent.budget.policy, overshoot(&spent.budget, spent.label)?))).collect()
    }

    /// What a region should have in hand: what it wants in one lease, and at least one request.
    pub(crate) fn ahead(&self, report: &Report) -> MicroTokens {
        let terms = self.policies.active_terms(&report.budget);
        let period = terms.map(|t| t.limit.period()).unwrap_or_default();
        let lease = self.founding.as_ref().map(|f| f.lease).unwrap_or_default();
        ahead(report.demand, report.largest, lease, period)
    }
}

/// The newest window that two of these regions have reached; of one that is alone, its own.
fn second_newest<'a>(sessions: impl Iterator<Item = &'a Session>, kind: &Kind) -> Option<WindowLabel> {
    let mut windows: Vec<WindowLabel> = sessions.filter_map(|s| s.windows.get(kind)).copied().collect();
    windows.sort_unstable_by(|a, b| b.cmp(a));
    windows.get(1).or(windows.first()).copied()
}

/// `Σ max(f, granted, spent) ≤ R` of one window.
fn check_window(id: &BudgetId, window: &Window, floors: &Floors, limit: MicroTokens) -> Result<(), Violation> {
    // floors beyond the limit on purpose are a term of the bound, not a fault
    let floors_alone = floors.values().copied().fold(MicroTokens::ZERO, MicroTokens::saturating_add);
    let (held, limit) = (window.committed(floors, None), limit.max(floors_alone));
    match held <= limit {
        true => Ok(()),
        false => {
            let units = |n| Capacity::new(MicroTokens::ZERO, n);
            Err(Violation { budget: id.clone(), what: "units of one window", held: units(held), limit: units(limit) })
        }
    }
}

/// Units wanted in one lease at `demand` in each `period`, in whole units, and at least `largest`.
pub(crate) fn ahead(demand: MicroTokens, largest: MicroTokens, lease: Duration, period: Duration) -> MicroTokens {
    let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    let wanted = demand.scale_floor(micros(lease), micros(period)).min(demand);
    let whole = wanted.0.div_ceil(MicroTokens::TOKEN.0).saturating_mul(MicroTokens::TOKEN.0);
    MicroTokens(whole).max(largest)
}

/// What a heartbeat says of one window.
pub(crate) fn spent_of(beat: &Heartbeat, budget: &BudgetId, label: WindowLabel) -> MicroTokens {
    let of_window = beat.spent.iter().filter(|s| s.budget == *budget && s.label == label);
    of_window.map(|s| s.units).max().unwrap_or_default()
}

/// Open windows by kind.
pub(crate) type Windows = BTreeMap<Kind, WindowLabel>;

impl Allowance {
    /// True if a region that is not named any more still counts in some window.
    pub fn forget_targets_of(&mut self, gone: impl Fn(&RegionName) -> bool) {
        for (_, share) in self.windows.values_mut().flat_map(|w| &mut w.shares).filter(|(name, _)| gone(name)) {
            (share.target, share.demand) = (MicroTokens::ZERO, MicroTokens::ZERO);
        }
    }
}
