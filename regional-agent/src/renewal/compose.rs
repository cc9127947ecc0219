//! Composes a heartbeat: what the lease book says, and what only demand and the store know.
//!
//! The caller has drawn the number. Then, in this order: the agent's clock, the demand, and in the
//! store the newest windows with what was counted and spent. So what is reported was read after the
//! newest response was applied, and not before the date of the heartbeat.

use crate::region::{Region, State};
use crate::store::{LeaseError, Usages};
use quorate_limiter::decision::Charge;
use quorate_limiter::lease_book::{Account, Count, LeaseBook};
use quorate_limiter::matching::PolicyTable;
use quorate_limiter::store::Usage;
use quorate_shared::heartbeat::{Heartbeat, Report, Spent, StoreReport};
use quorate_shared::names::BudgetId;
use quorate_shared::policy::Shape;
use quorate_shared::time::{Drift, LocalTime, StoreTime};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What is known before the store is asked.
struct Draft {
    now: LocalTime,
    reports: Vec<Report>,
    table: Arc<PolicyTable>,
    drift: Drift,
    /// Budgets of which the store is asked.
    charges: Vec<Charge>,
}

/// Heartbeat `seq` of `session`; `None` if another session was opened since the number was drawn.
///
/// # Errors
/// If the store does not say what there is to report.
pub(super) async fn compose(region: &Region, session: u64, seq: u64) -> Result<Option<Heartbeat>, LeaseError> {
    let Some(draft) = draft(region, session) else { return Ok(None) };
    let usages = match draft.charges.is_empty() && !draft.table.has_windows() {
        true => Usages::default(),
        false => region.store.usage(&draft.charges, draft.drift).await?,
    };
    Ok(complete(region, session, seq, draft, usages))
}

fn draft(region: &Region, session: u64) -> Option<Draft> {
    let mut state = region.state.lock();
    let State { book, table, demand, drift, .. } = &mut *state;
    let book = book.as_ref().filter(|book| book.session() == session)?;
    let now = region.clock.now();
    let granted: BTreeSet<&BudgetId> = book.granted_windows().map(|(budget, _)| budget).collect();
    let period = |budget: &BudgetId| table.terms(budget).map(|t| t.limit.period());
    let worth = |budget: &BudgetId| match book.holdings().contains_key(budget) || granted.contains(budget) {
        true => None,
        false => table.terms(budget).map(|t| t.limit.amount(t.floor).saturating_sub(t.limit.amount(t.lendable))),
    };
    let reports = demand.reports(now, period, worth);
    let counting: BTreeSet<&BudgetId> =
        granted.iter().copied().chain(book.draining_budgets()).chain(reports.iter().map(|report| &report.budget)).collect();
    let charges = counting.into_iter().filter_map(|budget| table.look(budget)).filter(|c| c.limit.shape() != Shape::Flow).collect();
    Some(Draft { now, reports, table: table.clone(), drift: *drift, charges })
}

fn complete(region: &Region, session: u64, seq: u64, draft: Draft, usages: Usages) -> Option<Heartbeat> {
    let Draft { now, reports, table, charges, .. } = draft;
    let mut state = region.state.lock();
    let state = &mut *state;
    let book = state.book.as_mut().filter(|book| book.session() == session)?;
    let spent = note(book, &charges, &usages, region.clock.now());
    let used_aside = Some(region.seat.lock().clock()).filter(|clock| *clock > StoreTime::ZERO);
    let windows = table.open_windows(usages.clock, usages.burnt_until().max(used_aside));
    let store = StoreReport { kind: region.store.kind().to_owned(), healthy: region.store.is_healthy(), excesses: Vec::new() };
    let account = Account { policies_read: state.shelf.newest(), reports, windows, spent, store };
    let mut beat = book.beat(seq, now, account);
    beat.clock.steps = state.store_clock.observed();
    beat.clock.read.iter_mut().for_each(|reading| reading.lag = region.store.counting_lag());
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
