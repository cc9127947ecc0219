//! A session is opened: once for whatever became of the answer.

use crate::policy_shelf::PolicyShelf;
use crate::region::{Region, State};
use crate::store::{LeaseError, StoreError};
use quorate_limiter::lease_book::LeaseBook;
use quorate_limiter::matching::PolicyTable;
use quorate_limiter::record::{Loaded, Opening, Record};
use quorate_shared::heartbeat::{Number, PoliciesInForce};
use quorate_shared::time::LocalTime;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Region {
    /// Joins the agents of the region: opens a session if there is nobody else to do so, or learns of the one that
    /// is open.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn join(&self) -> Result<(), LeaseError> {
        self.look_at_store().await?;
        if self.is_elected() { self.open_session(None).await } else { Ok(()) }
    }

    /// Opens a session greater than any before (R5), unless one other than `seen` is open already.
    /// Needs no coordinator: the region serves its floor under it until the first response.
    ///
    /// # Errors
    /// If the store cannot be asked, or keeps another session open.
    pub async fn open_session(&self, seen: Option<u64>) -> Result<(), LeaseError> {
        self.open_session_with(seen, false).await
    }

    /// The same; with `burn`, all state of the store counts as lost.
    pub(crate) async fn open_session_with(&self, seen: Option<u64>, burn: bool) -> Result<(), LeaseError> {
        let _gate = self.lease_gate.lock().await;
        if self.state.lock().book.as_ref().map(LeaseBook::session) != seen {
            return Ok(());
        }
        let loaded = self.store.load().await?;
        let (opening, is_open) = self.state.lock().next_opening(&loaded, burn, self.clock.now())?;
        if !is_open {
            let opened = self.store.open_session(&opening).await;
            if matches!(opened, Err(LeaseError::NotElected)) {
                self.follow(&mut self.state.lock(), self.clock.now());
            }
            opened?;
        }
        // what the store now holds: nothing, if it had lost its state
        let record = self.store.load().await?.record.unwrap_or_default();
        self.begin_session(&opening, record);
        Ok(())
    }

    fn begin_session(&self, opening: &Opening, record: Record) {
        let Opening { session, nonce, .. } = *opening;
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.opening = None;
        state.contact.greatest_session = session;
        state.claims.opened(now);
        let table = state.shelf.table(&self.name, record.policies);
        state.table = Arc::new(table.unwrap_or_else(PolicyTable::empty));
        state.upcoming = None;
        state.broken = false;
        let followed = state.followed.take();
        match followed {
            Some(_) => state.demand.count_anew(),
            None => state.demand.restart(),
        }
        (state.counting_in, state.shelved) = (session, None);
        self.follows.store(false, Ordering::Relaxed);
        if record.burnt {
            self.metrics.store_loss();
            state.store_clock.forget_clock();
            self.seat.lock().note_genesis(None);
        }
        let units = record.grants.into_iter().map(|(key, granted)| (key, granted.units));
        let book = LeaseBook::open(self.name.clone(), self.agent.clone(), session, nonce, record.holdings, record.policies, now);
        let contact = state.book.as_ref().map(LeaseBook::contact).or(followed.map(|f| f.follower.contact())).unwrap_or_default();
        state.book = Some(book.with_units(units).with_seats().with_contact(contact));
        self.seat_soon.notify_one();
        self.dated.send_replace(Number { session, seq: 0 });
        match record.burnt && session > 1 {
            true => tracing::warn!(region = %self.name, session, "the region's store has lost its state: its buckets count as empty"),
            false => tracing::info!(region = %self.name, session, burnt = record.burnt, "opened a session"),
        }
    }
}

impl State {
    /// The session to open next, and whether the store has it already: an answer that was given up may have been on its
    /// way. Nothing was drawn in such a session, nor could anybody but this agent, so it begins as any other does; one
    /// more would not be the region's first for the coordinators.
    fn next_opening(&mut self, loaded: &Loaded, burn: bool, now: LocalTime) -> Result<(Opening, bool), StoreError> {
        let burn = burn || self.opening.is_some_and(|asked| asked.burn);
        let knows_all = !self.shelf.is_shared() || now < self.presence.alone_until;
        let policies = policies_of(loaded, &self.shelf, burn, knows_all);
        let (stored, greatest) = (loaded.record.as_ref(), self.contact.greatest_session);
        let asked = self.opening.filter(|asked| asked.session > greatest && (asked.burn, asked.policies) == (burn, policies));
        let has = |asked: &Opening| {
            let record = stored.filter(|_| !loaded.lost());
            record.is_some_and(|r| (r.session, r.nonce, r.seq) == (asked.session, asked.nonce, 0))
        };
        if let Some(open) = asked.filter(has) {
            return Ok((open, true));
        }
        let session = greatest.max(stored.map_or(0, |record| record.session)).saturating_add(1);
        let nonce = match asked.filter(|asked| asked.session == session) {
            Some(asked) => asked.nonce, // the former question may be on its way yet
            None => getrandom::u64().map_err(|e| StoreError::Refused(format!("no randomness for a session: {e}")))?,
        };
        let opening = Opening { session, nonce, burn, policies };
        self.opening = Some(opening);
        Ok((opening, false))
    }
}

/// What an opening takes for in force, of a store that lost its state or has applied nothing since.
fn policies_of(loaded: &Loaded, shelf: &PolicyShelf, burn: bool, knows_all: bool) -> PoliciesInForce {
    // a store that lost its state may have a record, but an old one
    match loaded.record.as_ref().filter(|record| !loaded.lost() && !burn && !record.burnt) {
        Some(record) => record.policies,
        None if knows_all => shelf.in_force(),
        // another agent may have confirmed sets that give this region less
        None => PoliciesInForce::default(),
    }
}
