//! Composes a heartbeat: what the lease book says, and what only demand and the store know.
//!
//! The caller has drawn the number. Then, in this order: the agent's clock, the demand, and in the
//! store the newest windows with what was counted and spent. So what is reported was read after the
//! newest response was applied, and not before the date of the heartbeat.

use crate::presence::{SHARES, Told};
use crate::region::Region;
use crate::store::{LeaseError, Usages};
use quorate_limiter::decision::Charge;
use quorate_limiter::lease_book::{Account, Count, LeaseBook};
use quorate_limiter::matching::PolicyTable;
use quorate_limiter::store::Usage;
use quorate_shared::heartbeat::{Heartbeat, Spent, StoreReport};
use quorate_shared::names::BudgetId;
use quorate_shared::policy::Shape;
use quorate_shared::time::{Drift, LocalTime, StoreTime};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// What is known before the store is asked.
struct Draft {
    now: LocalTime,
    told: Told,
    table: Arc<PolicyTable>,
    drift: Drift,
    /// Budgets of which the store is asked, reported or not.
    asked: BTreeSet<BudgetId>,
}

impl Draft {
    /// Of what the store is asked.
    fn charges(&self) -> Vec<Charge> {
        let counting: BTreeSet<&BudgetId> = self.asked.iter().chain(self.told.reports.iter().map(|report| &report.budget)).collect();
        counting.into_iter().filter_map(|budget| self.table.look(budget)).filter(|c| c.limit.shape() != Shape::Flow).collect()
    }
}

/// Heartbeat `seq` of `session`; `None` if another session was opened since the number was drawn.
///
/// # Errors
/// If the store does not say what there is to report.
pub(super) async fn compose(region: &Region, session: u64, seq: u64) -> Result<Option<Heartbeat>, LeaseError> {
    let Some(mut draft) = draft(region, session) else { return Ok(None) };
    // what the region's other agents saw too
    draft.told = region.regional_share(session, draft.told).await?;
    let charges = draft.charges();
    let usages = match charges.is_empty() && !draft.table.has_windows() {
        true => Usages::default(),
        false => region.store.usage(&charges, draft.drift).await?,
    };
    Ok(complete(region, session, seq, draft, &charges, usages))
}

fn draft(region: &Region, session: u64) -> Option<Draft> {
    let mut state = region.state.lock();
    let book = state.book.as_ref().filter(|book| book.session() == session)?;
    let now = region.clock.now();
    let granted: BTreeSet<BudgetId> = book.granted_windows().map(|(budget, _)| budget.clone()).collect();
    let held: BTreeSet<BudgetId> = book.holdings().keys().cloned().collect();
    let asked = granted.iter().cloned().chain(book.draining_budgets().cloned()).collect();
    let reports = state.own_reports(now, |budget| held.contains(budget) || granted.contains(budget));
    let parts = state.announcements.named(now);
    Some(Draft { now, told: Told { reports, parts }, table: state.table.clone(), drift: state.drift, asked })
}

fn complete(region: &Region, session: u64, seq: u64, draft: Draft, charges: &[Charge], usages: Usages) -> Option<Heartbeat> {
    let Draft { now, told: Told { reports, parts }, table, .. } = draft;
    let mut state = region.state.lock();
    let state = &mut *state;
    let book = state.book.as_mut().filter(|book| book.session() == session)?;
    let spent = note(book, charges, &usages, region.clock.now());
    let used_aside = Some(region.seat.lock().clock()).filter(|clock| *clock > StoreTime::ZERO);
    let windows = table.open_windows(usages.clock, usages.burnt_until().max(used_aside));
    let store = StoreReport::new(region.store.kind(), region.store.is_healthy());
    let account = Account { policies_read: state.shelf.newest(), reports, windows, spent, store };
    let mut beat = book.beat(seq, now, account);
    beat.parts = parts;
    beat.clock.steps = state.store_clock.observed();
    let others_lag = if state.presence.has_peers() { SHARES * 2 } else { Duration::ZERO };
    beat.clock.read.iter_mut().for_each(|reading| reading.lag = region.store.counting_lag() + others_lag);
    beat.others = state.presence.others();
    Some(beat)
}

/// Tells the book what counts at `now`, and gives what was spent.
fn note(book: &mut LeaseBook, charges: &[Charge], usages: &Usages, now: LocalTime) -> Vec<Spent> {
    let mut spent = Vec::new();
    for (charge, usage) in charges.iter().zip(&usages.of) {
        let budget = &charge.budget;
        match *usage {
            Usage::Counted(units) => book.note_count(budget, Count { units, floor: charge.floor, drain: charge.limit.drain() }, now),
            Usage::Spent(units) => spent.push(Spent { budget: budget.clone(), label: units.label, units: units.spent }),
        }
    }
    spent
}
