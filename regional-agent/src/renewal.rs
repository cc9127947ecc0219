//! The heartbeat: one per region and period, sooner where capacity waits for it.

mod compose;
mod notice;
mod turn;

pub use self::turn::keep_trying;

use self::compose::compose;
use crate::coordinators::{Coordinators, SendError};
use crate::policy_shelf::ShelfError;
use crate::region::{Region, State};
use crate::store::{LeaseError, StoreError};
use quorate_limiter::lease_book::{Application, LeaseBook, Refused};
use quorate_limiter::matching::PolicyTable;
use quorate_limiter::pace::{self, Hurry, Outcome};
use quorate_limiter::record::{ChangedPolicy, Finish, HoldingsChange, Refusal, Settlement};
use quorate_shared::heartbeat::{Answer, Grant, Holding, Number, PoliciesInForce, Response};
use quorate_shared::names::BudgetId;
use quorate_shared::time::LocalTime;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span};

/// Between two looks at whether demand for what is held here has changed.
const LOOK: Duration = Duration::from_millis(50);

/// What two readings of the time slept may differ by without any sleep.
const JITTER_MICROS: u64 = 1_000;

/// Budgets in one write to the store.
const WRITE_PART: usize = 200;

/// Why a heartbeat renewed nothing.
#[derive(Debug, thiserror::Error)]
pub enum BeatError {
    /// No coordinator answered, or none takes this agent for one of its region.
    #[error(transparent)]
    Unsent(#[from] SendError),
    /// The region's store did not do its part.
    #[error("the region's store: {0}")]
    Store(#[from] LeaseError),
    /// R1: the coordinators have accepted a later heartbeat of this region.
    #[error("heartbeat {sent} came after {newest}: another session of this region is open, or was")]
    Stale {
        /// What was sent.
        sent: Number,
        /// What was accepted before.
        newest: Number,
    },
    /// The policy set names no such region.
    #[error("the coordinators know no region of this name: add it to the policy set")]
    UnknownRegion,
    /// What was granted before the backup was restored may count yet.
    #[error("the coordinators were restored from a backup, and answer nobody for {0:?} yet: the region serves its floor")]
    Restoring(Duration),
    /// R3.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The response goes by policy sets that it did not bring and that nobody brought before.
    #[error("policy set {0} is in force, but has not been read")]
    MissingPolicies(u64),
    /// The coordinators are not those that were heard before.
    #[error("the coordinators were founded anew: what was remembered of the cluster before is forgotten")]
    OtherCluster,
    /// Two stores serve one region.
    #[error("another store serves a region of this name: this agent admits nothing from now on")]
    OtherStore,
    /// The agent's disk.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    /// The region is cut off for a demonstration.
    #[error("unplugged")]
    Unplugged,
}

/// Renews the region's lease until cancelled.
pub async fn keep_renewing(region: &Region, coordinators: &Coordinators, period: Duration, stop: CancellationToken) {
    let mut slept = region.clock.slept_micros();
    loop {
        if !region.is_elected() {
            tokio::select! {
                () = stop.cancelled() => return,
                () = region.elected.notified() => continue,
            }
        }
        let started = region.clock.now();
        if region.clock.slept_micros() > slept.saturating_add(JITTER_MICROS) {
            // R6: a machine that slept has a new clock
            slept = region.clock.slept_micros();
            let session = {
                let mut state = region.state.lock();
                state.book.iter_mut().for_each(LeaseBook::forget_contact);
                state.book.as_ref().map(LeaseBook::session)
            };
            if let Err(e) = region.open_session(session).await {
                note_failure(region, Err(e.into()));
            }
        }
        let span = info_span!(target: quorate_traces::TARGET, "heartbeat", otel.kind = "client", quorate.region = %region.name);
        let outcome = beat_once(region, coordinators).instrument(span).await;
        if matches!(outcome, Err(BeatError::Store(LeaseError::Store(_)))) {
            notice::tell(region, coordinators).await;
        }
        turn::give_way(region, &outcome).await;
        region.metrics.heartbeat(&outcome);
        let went = match &outcome {
            Ok(true) => Outcome::GaveUp,
            Ok(false) => Outcome::Renewed,
            Err(_) => Outcome::Failed,
        };
        let ended = region.clock.now();
        if region.is_elected() {
            note_failure(region, outcome.map(|_| ()));
        }
        let due = |hurry| pace::next(started, ended, went, period, hurry);
        tokio::select! {
            () = stop.cancelled() => return,
            () = wait_until(region, due) => {}
        }
    }
}

/// Waits until the next heartbeat is due: in a hurry if a decision asked for one, or if demand
/// for what is held here has changed.
async fn wait_until(region: &Region, due: impl Fn(Hurry) -> LocalTime) {
    let mut hurry = Hurry::None;
    loop {
        let left = due(hurry).since(region.clock.now());
        if left.is_zero() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(left.min(LOOK)) => hurry = hurry.max(look_at_demand(region)),
            () = region.eager.notified(), if hurry == Hurry::None => hurry = Hurry::Wanting,
        }
    }
}

fn look_at_demand(region: &Region) -> Hurry {
    let now = region.clock.now();
    let mut state = region.state.lock();
    let State { demand, book, table, .. } = &mut *state;
    let held = book.iter().flat_map(|book| book.holdings().keys());
    demand.hurry(now, |budget| table.terms(budget).map(|t| t.limit.period()), held)
}

/// Keeps the last error for display, and logs it: once while heartbeats go on failing alike,
/// whichever coordinator was asked.
fn note_failure(region: &Region, outcome: Result<(), BeatError>) {
    let contact = &mut region.state.lock().contact;
    match outcome {
        Ok(()) => {
            if contact.failing.take().is_some() {
                tracing::info!(region = %region.name, "heartbeats renew the lease again");
            }
            contact.last_error = None;
        }
        Err(e) => {
            let kind = std::mem::discriminant(&e);
            match contact.failing.replace(kind) == Some(kind) {
                false if matches!(e, BeatError::Unsent(SendError::Forbidden(_))) => {
                    tracing::error!(region = %region.name, error = %e, "this agent may not renew the region's lease");
                }
                true => tracing::debug!(region = %region.name, error = %e, "a heartbeat renewed nothing"),
                false => tracing::warn!(region = %region.name, error = %e, "a heartbeat renewed nothing"),
            }
            contact.last_error = Some(e.to_string());
        }
    }
}

/// One heartbeat and its application. True if it gave up capacity that others may wait for.
async fn beat_once(region: &Region, coordinators: &Coordinators) -> Result<bool, BeatError> {
    let (seen, broken) = {
        let state = region.state.lock();
        (state.book.as_ref().map(LeaseBook::session), state.broken)
    };
    if seen.is_none() || broken {
        region.open_session(seen).await?;
    }
    let session = region.state.lock().book.as_ref().map(LeaseBook::session).unwrap_or_default();
    // R2: the number first, then the clock, then the sending
    let asked = region.clock.now();
    let drawn = match region.store.draw_seq(session).await {
        Ok(drawn) => drawn,
        Err(e) => return Err(reopen_after(region, session, e).await),
    };
    if let Some(time) = drawn.time {
        region.watch_store_clock(asked, region.clock.now(), time);
    }
    if region.is_unplugged() {
        return Err(BeatError::Unplugged);
    }
    let mut beat = match compose(region, session, drawn.seq).await {
        Ok(Some(beat)) => beat,
        Ok(None) => return Ok(false),
        Err(e) => return Err(reopen_after(region, session, e).await),
    };
    beat.store.excesses = drawn.excesses;
    beat.clock.shown = drawn.time;
    let answer = coordinators.send(&beat).await?;
    let received = region.clock.now();
    if region.is_unplugged() {
        return Err(BeatError::Unplugged);
    }
    match answer.answer {
        Answer::Renewed(mut response) => {
            region.state.lock().announcements.answered(&beat.parts);
            if let Some(book) = region.state.lock().book.as_ref() {
                response.policies = response.policies.in_a_region_with(book.policies());
            }
            let foreign = region.state.lock().shelf.is_foreign_to(&response);
            if foreign {
                return Err(start_over(region, session).await);
            }
            let gave_up = apply(region, &response, received).await?;
            let mut state = region.state.lock();
            state.contact.last_renewal = Some(received);
            state.contact.coordinator = Some(answer.coordinator);
            Ok(gave_up)
        }
        Answer::Stale { newest } => Err(overtaken(region, beat.number, newest).await),
        Answer::UnknownRegion => Err(BeatError::UnknownRegion),
        Answer::Restoring { remaining } => Err(BeatError::Restoring(remaining)),
    }
}

/// The coordinators were founded anew: policy versions, budgets and sessions begin again, and what
/// is remembered of the old cluster means nothing in the new one.
async fn start_over(region: &Region, session: u64) -> BeatError {
    if let Err(e) = region.state.lock().shelf.clear() {
        return e.into();
    }
    region.seat.lock().forget();
    region.state.lock().announcements.forget();
    match region.open_session_with(Some(session), true).await {
        Ok(()) => BeatError::OtherCluster,
        Err(e) => e.into(),
    }
}

/// Another session of this region was accepted: this one is over (R1, R5).
async fn overtaken(region: &Region, sent: Number, newest: Number) -> BeatError {
    {
        let contact = &mut region.state.lock().contact;
        contact.greatest_session = contact.greatest_session.max(newest.session);
    }
    // another agent of this store may have opened that session
    if let Err(e) = region.look_at_store().await {
        return LeaseError::Store(e).into();
    }
    if region.is_elected() && region.stops_after(sent, newest).await {
        return BeatError::OtherStore;
    }
    if let Err(e) = region.open_session(Some(sent.session)).await {
        return e.into();
    }
    BeatError::Stale { sent, newest }
}

/// The store has another session, or none: open a new one, if that is why it refused.
async fn reopen_after(region: &Region, session: u64, error: LeaseError) -> BeatError {
    if let LeaseError::Refused(Refusal::NoRecord | Refusal::Superseded { .. }) = &error
        && let Err(e) = region.open_session(Some(session)).await
    {
        return e.into();
    }
    error.into()
}

/// Applies a response (R3): number, reductions, stamp, horizons, increases. A failure on the way
/// leaves book and store apart, so it ends the session.
async fn apply(region: &Region, response: &Response, received: LocalTime) -> Result<bool, BeatError> {
    let gate = region.lease_gate.lock().await;
    let (application, table, changed) = prepare(region, response, received)?;
    let gives_up = application.gives_up();
    let session = application.stamp.number.session;
    let outcome = write_down(region, application, table, changed).await;
    region.state.lock().upcoming = None;
    drop(gate);
    match outcome {
        Ok(()) => Ok(gives_up),
        Err(e) => {
            region.state.lock().broken = true;
            region.open_session(Some(session)).await?;
            Err(e.into())
        }
    }
}

fn prepare(
    region: &Region,
    response: &Response,
    received: LocalTime,
) -> Result<(Application, Arc<PolicyTable>, Vec<ChangedPolicy>), BeatError> {
    let mut state = region.state.lock();
    let state = &mut *state;
    let Some(book) = state.book.as_mut() else { return Err(LeaseError::from(Refusal::NoRecord).into()) };
    let (before, view) = (book.policies(), book.view(received));
    let application = book.receive(response, received)?;
    state.drift = response.drift;
    state.shelf.add(response)?;
    let table = match response.policies == state.table.in_force() && response.former.is_empty() {
        true => state.table.clone(),
        false => {
            let made = state.shelf.table(&region.name, response.policies);
            Arc::new(made.ok_or(BeatError::MissingPolicies(response.policies.active))?)
        }
    };
    let changed = match before == response.policies || before == PoliciesInForce::default() {
        true => Vec::new(),
        false => {
            let ended = |ttl| !view.floor_holds(Some(ttl), response.drift, Duration::ZERO);
            table.changed_since(before, (before.active > 0 && state.table.in_force() == before).then_some(&*state.table), ended)
        }
    };
    Ok((application, table, changed))
}

async fn write_down(
    region: &Region,
    application: Application,
    table: Arc<PolicyTable>,
    changed: Vec<ChangedPolicy>,
) -> Result<(), LeaseError> {
    let number = application.stamp.number;
    region.store.take(number).await?;
    shelve(region, number).await?;
    write_holdings(region, number, &application.reductions, &application.fewer_units).await?;
    let changes = {
        let mut state = region.state.lock();
        state.upcoming = Some(table.clone());
        state.table.in_force() != table.in_force()
    };
    let named = changes.then(|| table.kinds());
    let mut finish = Finish {
        stamp: application.stamp,
        renewal: application.renewal(),
        clock_at_least: application.clock_at_least,
        policies: application.policies,
        full: application.full,
        genesis: application.genesis,
        lapsed: has_lapsed(region, &application),
        changed,
        named,
    };
    region.store.finish(&finish).await?;
    if !finish.lapsed && has_lapsed(region, &application) {
        // the lease ran out while the stamp was on its way
        (finish.lapsed, finish.changed) = (true, Vec::new());
        region.store.finish(&finish).await?;
    }
    let (increases, more_units) = (application.increases.clone(), application.more_units.clone());
    {
        let mut state = region.state.lock();
        let longest_drain = state.table.longest_drain().max(table.longest_drain());
        let now = region.clock.now();
        if let Some(book) = state.book.as_mut() {
            book.applied(application, now, longest_drain);
        }
        state.table = table;
    }
    if finish.genesis {
        region.seat.lock().note_genesis(Some(finish.policies));
    }
    if finish.genesis || changes {
        region.seat_soon.notify_one();
    }
    region.dated.send_replace(number);
    write_holdings(region, number, &increases, &more_units).await
}

/// Keeps the policy sets of a response for the region's other agents, before it is in force.
async fn shelve(region: &Region, number: Number) -> Result<(), LeaseError> {
    if !region.store.is_shared() {
        return Ok(());
    }
    let exported = {
        let mut state = region.state.lock();
        let shelved = state.shelved.is_some() && state.shelved.as_deref() == state.shelf.tag();
        if shelved { None } else { Some(state.shelf.exported().map_err(|e| StoreError::Refused(e.to_string()))?) }
    };
    if let Some((tag, sets)) = exported {
        region.store.shelve(number, &tag, &sets).await?;
        region.state.lock().shelved = Some(tag);
    }
    Ok(())
}

fn has_lapsed(region: &Region, application: &Application) -> bool {
    let now = region.clock.now();
    region.state.lock().book.as_ref().is_none_or(|book| book.lapsed(application, now))
}

async fn write_holdings(region: &Region, number: Number, holdings: &[(BudgetId, Holding)], units: &[Grant]) -> Result<(), LeaseError> {
    for units in units.chunks(WRITE_PART) {
        let Some(basis) = region.basis() else { return Err(Refusal::NoRecord.into()) };
        let change = HoldingsChange { number, view: basis.view, drift: basis.drift, settlements: Vec::new(), grants: units.to_vec() };
        region.store.write(&change).await?;
    }
    for part in holdings.chunks(WRITE_PART) {
        let Some(basis) = region.basis() else { return Err(Refusal::NoRecord.into()) };
        let settle = |(budget, holding): &(BudgetId, Holding)| Settlement {
            budget: budget.clone(),
            holding: holding.clone(),
            standing: basis.table.terms(budget),
        };
        let settlements = part.iter().map(settle).collect();
        region.store.write(&HoldingsChange { number, view: basis.view, drift: basis.drift, settlements, grants: Vec::new() }).await?;
    }
    Ok(())
}
