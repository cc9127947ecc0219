//! An agent while another one of its region renews the lease: it decides by the same store, and learns of the
//! lease from what the store's answers show (R8).

use crate::policy_shelf::ShelfError;
use crate::region::{Region, State};
use crate::store::StoreError;
use crate::store::look::Leased;
use quorate_limiter::contact::Contact;
use quorate_limiter::follower::{Follower, Sight};
use quorate_shared::heartbeat::{Holding, PoliciesInForce};
use quorate_shared::names::BudgetId;
use quorate_shared::time::LocalTime;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often an agent that follows reads all that its region holds: for people, and for what it reports.
const READS: Duration = Duration::from_secs(1);

/// What an agent knows of a lease that another one renews.
#[derive(Debug)]
pub(crate) struct Followed {
    pub follower: Follower,
    /// The newest number drawn, and the newest response applied, as last shown; none before the first session.
    pub sight: Option<Sight>,
    /// What the region held when it was last read.
    pub holdings: BTreeMap<BudgetId, Holding>,
    read: Option<LocalTime>,
}

/// Why an agent that follows does not know what is in force.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unlearned {
    /// The region's store.
    #[error("the region's store: {0}")]
    Store(#[from] StoreError),
    /// The agent's disk.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
}

impl Followed {
    /// Nothing is known at `now`, but when a coordinator was last heard.
    pub fn new(now: LocalTime, contact: Contact) -> Self {
        Self { follower: Follower::new(now).with_contact(contact), sight: None, holdings: BTreeMap::new(), read: None }
    }

    /// The session, if there is one.
    pub fn session(&self) -> Option<u64> {
        self.sight.map(|sight| sight.drawn.session)
    }

    /// Takes in what a look that was sent at `sent` and answered at `received` showed of the lease.
    pub fn saw(&mut self, leased: Option<&Leased>, sent: LocalTime, received: LocalTime) {
        self.sight = leased.map(|leased| leased.sight);
        let Some(leased) = leased else { return };
        self.follower.saw(leased.sight, sent);
        if let Some(renewal) = &leased.renewal {
            self.follower.learn_terms(leased.sight, renewal, leased.policies, received);
        }
    }

    /// What the store need not tell again.
    pub fn known(&self) -> Option<Sight> {
        let (number, nonce) = self.follower.known();
        Some(Sight { drawn: number, applied: number, nonce }).filter(|sight| sight.applied.seq > 0)
    }
}

impl Region {
    /// The answer to a question that was put at `asked` shows this of the lease. For an agent that renews it is no news.
    pub(crate) fn saw(&self, sight: Option<Sight>, asked: LocalTime) {
        let Some(sight) = sight.filter(|_| self.follows()) else { return };
        let mut state = self.state.lock();
        state.count_in(sight.drawn.session);
        let Some(followed) = state.followed.as_mut() else { return };
        followed.sight = Some(sight);
        if followed.follower.saw(sight, asked) {
            drop(state);
            self.look_soon.notify_one();
        }
    }

    /// Reads what a look has shown to be news: the policy sets in force, and now and then all that is held.
    pub(crate) async fn learn_of(&self, leased: &Leased) -> Result<(), Unlearned> {
        if self.lacks(leased) {
            let adopted = match self.store.shelved().await? {
                Some(exported) => self.adopt(&exported, leased.policies)?,
                None => false,
            };
            if !adopted {
                self.go_by_own_shelf(leased.policies);
            }
        }
        let now = self.clock.now();
        let due = {
            let state = self.state.lock();
            state.followed.as_ref().is_some_and(|f| f.read.is_none_or(|read| now.since(read) >= READS))
        };
        if due {
            let record = self.store.load().await?.record.unwrap_or_default();
            if let Some(followed) = &mut self.state.lock().followed {
                followed.follower.keep_loans(|budget| record.holdings.contains_key(budget));
                (followed.holdings, followed.read) = (record.holdings, Some(now));
            }
        }
        Ok(())
    }

    fn lacks(&self, leased: &Leased) -> bool {
        let state = self.state.lock();
        let known = leased.shelf.is_none() || state.shelf.tag() == leased.shelf.as_deref();
        state.followed.is_some() && (state.table.in_force() != leased.policies || !known)
    }

    fn adopt(&self, exported: &str, in_force: PoliciesInForce) -> Result<bool, ShelfError> {
        let mut state = self.state.lock();
        let adopted = state.shelf.adopt(exported, in_force)?;
        if adopted {
            state.go_by_shelf(&self.name, in_force);
            self.seat_soon.notify_one();
            tracing::info!(region = %self.name, version = in_force.active, "took the policies over from the region's store");
        }
        Ok(adopted)
    }

    /// Where the region's store has no sets, those on this agent's disk will do if they are those in force.
    fn go_by_own_shelf(&self, in_force: PoliciesInForce) {
        let mut state = self.state.lock();
        if state.shelf.in_force() == in_force {
            state.go_by_shelf(&self.name, in_force);
            self.seat_soon.notify_one();
        }
    }

    /// True while another agent renews.
    pub(crate) fn follows(&self) -> bool {
        self.follows.load(Ordering::Relaxed)
    }

    /// Waits until this agent knows of what the store has in force, as far as `knows` asks for. True once it does.
    pub(crate) async fn catch_up(&self, within: Duration, knows: impl Fn(&State) -> bool) -> bool {
        let caught_up = tokio::time::timeout(within, self.look_at_store_unless(&knows)).await;
        matches!(caught_up, Ok(Ok(()))) && knows(&self.state.lock())
    }
}

impl State {
    /// True if the lease is dated by this response, or a later one.
    pub fn knows_of(&self, response: quorate_shared::heartbeat::Number) -> bool {
        self.followed.as_ref().is_none_or(|followed| followed.follower.known().0 >= response)
    }

    fn go_by_shelf(&mut self, region: &quorate_shared::names::RegionName, in_force: PoliciesInForce) {
        if let Some(table) = self.shelf.table(region, in_force) {
            self.drift = self.shelf.drift();
            self.table = Arc::new(table);
        }
    }

    /// What is admitted and refused counts for this session: in another one it counts anew.
    pub fn count_in(&mut self, session: u64) {
        if self.counting_in != session {
            self.counting_in = session;
            self.demand.count_anew();
        }
    }
}
