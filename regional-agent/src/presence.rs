//! An agent among the agents of its region: who renews the lease, who is there, and what each has to report.
//!
//! Every agent looks at the region's store now and then, in one script. By it the agent that renews keeps its lock,
//! any other sees whether that one is still there, and all see each other.

mod shares;

pub(crate) use self::shares::Told;

use crate::following::Followed;
use crate::region::{Region, State};
use crate::store::StoreError;
use crate::store::look::{Bid, Leased, Look, Looked, Peer};
use quorate_limiter::contact::Contact;
use quorate_limiter::election::{AgentId, Watch, life};
use quorate_limiter::lease_book::LeaseBook;
use quorate_limiter::pace::Hurry;
use quorate_limiter::regional_reports::RegionalReports;
use quorate_limiter::turn::Turn;
use quorate_shared::api::AgentState;
use quorate_shared::heartbeat::{MOST_AGENTS, Number, Parts};
use quorate_shared::time::LocalTime;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Between two looks of an agent that is alone.
const ALONE: Duration = Duration::from_millis(250);

/// Between two looks of an agent that is not.
const AMONG_OTHERS: Duration = Duration::from_millis(100);

/// The shortest span between two looks, whatever is news.
const SOON: Duration = Duration::from_millis(10);

/// How often an agent that follows writes down what it has to report.
pub(crate) const SHARES: Duration = Duration::from_millis(250);

/// After so long the agent that renews has reported what it could see of the store's clock.
const REPORTED: Duration = Duration::from_secs(15);

/// What two readings of the time slept may differ by without any sleep.
const JITTER_MICROS: u64 = 1_000;

/// The length of a lease as long as nobody has said it.
const USUAL_LEASE: Duration = Duration::from_secs(5);

/// One agent among the others.
#[derive(Debug)]
pub(crate) struct Presence {
    me: AgentId,
    /// An earlier life of this agent, which is surely over.
    predecessor: Option<AgentId>,
    watch: Watch,
    /// True while this agent holds the lock.
    pub elected: bool,
    /// Until then no other agent can have renewed since this one last kept the lock.
    pub alone_until: LocalTime,
    /// The length of the region's lease.
    pub lease: Duration,
    /// The newest response applied, as last shown, and since when.
    applied: (Number, LocalTime),
    /// True if this agent follows a lease that nobody renews, and reaches a coordinator itself.
    pub reaches: bool,
    pub turn: Turn,
    /// True from when this agent gives up its turn until the store knows.
    pub gives_back: bool,
    /// True once this agent has said that it leaves.
    pub leaves: bool,
    peers: Vec<Peer>,
    /// How often this agent has wished for a heartbeat, and each of the others, as last seen.
    urges: u64,
    urged: BTreeMap<AgentId, u64>,
    /// The reports as last written, and when.
    shared: String,
    shared_at: LocalTime,
    /// What they say of parts that gateways spend: while nobody knows whether the store has it, and once it has.
    parts_on_the_way: Option<Vec<Parts>>,
    parts_shared: Vec<Parts>,
    left_to_others: LocalTime,
    reports: RegionalReports,
    /// Agents that have gone, whose reports were read for the last time.
    gone: Vec<AgentId>,
}

impl Presence {
    /// An agent that begins.
    pub fn new(me: AgentId, predecessor: Option<AgentId>) -> Self {
        Self {
            me,
            predecessor,
            watch: Watch::default(),
            elected: false,
            alone_until: LocalTime::ZERO,
            lease: USUAL_LEASE,
            applied: (Number::default(), LocalTime::ZERO),
            reaches: false,
            turn: Turn::default(),
            gives_back: false,
            leaves: false,
            peers: Vec::new(),
            urges: 0,
            urged: BTreeMap::new(),
            shared: String::new(),
            shared_at: LocalTime::ZERO,
            parts_on_the_way: None,
            parts_shared: Vec::new(),
            left_to_others: LocalTime::ZERO,
            reports: RegionalReports::default(),
            gone: Vec::new(),
        }
    }

    /// True if the region has other agents.
    pub fn has_peers(&self) -> bool {
        !self.peers.is_empty()
    }

    /// True if one of the other agents reaches a coordinator.
    pub fn is_succeeded(&self) -> bool {
        self.peers.iter().any(|peer| peer.reaches)
    }

    /// True if nobody has renewed the region's lease for a part of it.
    pub fn is_silent(&self, now: LocalTime) -> bool {
        now.since(self.applied.1) >= self.lease / 4
    }

    /// Between two looks.
    fn every(&self) -> Duration {
        let most = if self.has_peers() || !self.elected { AMONG_OTHERS } else { ALONE };
        most.min(life(self.lease) / 4)
    }

    fn bid(&self, now: LocalTime) -> Bid {
        let life = life(self.lease);
        Bid {
            free: self.turn.stands(now, self.lease),
            none: self.watch.takes_none(life),
            challenged: self.watch.challenged(life),
            predecessor: self.predecessor,
            gives_back: self.gives_back,
        }
    }

    /// A look that was answered at `now` showed this of the region's lease.
    fn saw(&mut self, leased: &Leased, now: LocalTime) {
        let applied = leased.sight.applied;
        if self.applied.0 != applied {
            self.applied = (applied, now);
        }
        self.turn.saw(applied);
        self.lease = leased.renewal.as_ref().map_or(self.lease, |renewal| renewal.lease);
    }

    /// Names of the other agents.
    pub fn others(&self) -> Vec<String> {
        self.peers.iter().take(MOST_AGENTS).map(|peer| peer.name.clone()).collect()
    }

    /// All agents of the region, by their names.
    pub fn agents(&self, own_name: &str, seats: &BTreeMap<AgentId, u32>) -> Vec<AgentState> {
        let renewing = self.watch.lock().and_then(|lock| lock.holder);
        let state = |id, name: &str| AgentState { agent: name.to_owned(), seat: seats.get(&id).copied(), renews: renewing == Some(id) };
        let mut all: Vec<AgentState> = self.peers.iter().map(|peer| state(peer.id, &peer.name)).collect();
        all.push(state(self.me, own_name));
        all.sort_by(|a, b| a.agent.cmp(&b.agent));
        all
    }

    /// True if any of the others has wished for a heartbeat since it was last seen.
    fn is_urged(&mut self) -> bool {
        let before = std::mem::take(&mut self.urged);
        self.urged = self.peers.iter().map(|peer| (peer.id, peer.urges)).collect();
        self.urged.iter().any(|(id, urges)| before.get(id).is_some_and(|known| urges > known))
    }
}

/// Looks at the region until cancelled.
pub(crate) async fn keep_looking(region: &Region, stop: CancellationToken) {
    let mut slept = region.clock.slept_micros();
    loop {
        let begun = region.clock.now();
        if region.clock.slept_micros() > slept.saturating_add(JITTER_MICROS) {
            // R6: a machine that slept has a new clock
            slept = region.clock.slept_micros();
            let mut state = region.state.lock();
            state.book.iter_mut().for_each(LeaseBook::forget_contact);
            if let Some(followed) = &mut state.followed {
                *followed = Followed::new(begun, Contact::default());
            }
        }
        if let Err(e) = region.look_at_store().await {
            region.note_unseen(&e);
        }
        region.note_floors();
        let pause = region.state.lock().presence.every();
        let left = |pause: Duration| begun.after(pause).since(region.clock.now());
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(left(pause)) => {}
            () = async {
                region.look_soon.notified().await;
                tokio::time::sleep(left(SOON)).await;
            } => {}
        }
    }
}

impl Region {
    /// Looks at the region's store, and takes in what it shows.
    pub(crate) async fn look_at_store(&self) -> Result<(), StoreError> {
        self.look_at_store_unless(&|_: &State| false).await
    }

    /// The same, unless another look made it needless meanwhile.
    pub(crate) async fn look_at_store_unless(&self, needless: &impl Fn(&State) -> bool) -> Result<(), StoreError> {
        let _turn = self.look_gate.lock().await;
        let (sent, look) = {
            let mut state = self.state.lock();
            if needless(&state) {
                return Ok(());
            }
            let sent = self.clock.now();
            (sent, state.look(self.agent.clone(), sent))
        };
        let looked = self.store.look(&look).await?;
        let received = self.clock.now();
        self.take_in(&looked, sent, received);
        let renewing = self.state.lock().book.as_ref().map(|book| book.session());
        // a store that has lost the lease: nobody waits for the next heartbeat
        let lost = renewing.filter(|_| looked.lease.is_none() && self.store.is_shared());
        if lost.is_some() && self.open_session(lost).await.is_ok() {
            self.eager.notify_one();
        }
        if let (None, Some(leased)) = (renewing, &looked.lease)
            && let Err(e) = self.learn_of(leased).await
        {
            tracing::warn!(region = %self.name, error = %e, "what is in force in the region cannot be read");
        }
        Ok(())
    }

    fn take_in(&self, looked: &Looked, sent: LocalTime, received: LocalTime) {
        if let Some(shown) = looked.time {
            self.watch_store_clock(sent, received, shown);
        }
        let mut state = self.state.lock();
        let state = &mut *state;
        let presence = &mut state.presence;
        let every = presence.every();
        presence.watch.saw(looked.lock, presence.me, sent, received, every * 2);
        presence.peers = looked.peers.clone();
        if let Some(leased) = &looked.lease {
            presence.saw(leased, received);
        }
        let elected = looked.lock.is_some_and(|lock| lock.holder == Some(presence.me));
        let (urged, was_elected) = (presence.is_urged(), std::mem::replace(&mut presence.elected, elected));
        if elected {
            self.take_in_as_elected(state, looked, sent, was_elected, urged);
        } else {
            self.take_in_as_follower(state, looked.lease.as_ref(), sent, received);
        }
        self.follows.store(state.book.is_none(), Ordering::Relaxed);
    }

    fn take_in_as_elected(&self, state: &mut State, looked: &Looked, sent: LocalTime, was_elected: bool, urged: bool) {
        let presence = &mut state.presence;
        presence.predecessor = None;
        if was_elected && state.book.is_some() {
            presence.alone_until = sent.after(life(presence.lease) / 2);
        }
        if presence.has_peers()
            && !state.shelf.is_shared()
            && let Err(e) = state.shelf.note_shared()
        {
            tracing::warn!(region = %self.name, error = %e, "that the region has several agents is not remembered");
        }
        state.shelved = looked.lease.as_ref().and_then(|leased| leased.shelf.clone());
        if !was_elected {
            presence.turn.begins(sent);
            let turn = looked.lock.map(|lock| lock.token);
            tracing::info!(region = %self.name, agent = self.agent, turn, "this agent renews the region's lease");
            self.elected.notify_one();
        } else if urged {
            self.eager.notify_one();
        }
    }

    fn take_in_as_follower(&self, state: &mut State, leased: Option<&Leased>, sent: LocalTime, received: LocalTime) {
        if state.book.is_some() || state.followed.is_none() {
            self.follow(state, received);
        }
        if let Some(parts) = state.presence.parts_on_the_way.take() {
            state.presence.parts_shared = parts;
        }
        if let Some(leased) = leased {
            state.count_in(leased.sight.drawn.session);
            state.announcements.saw(&state.presence.parts_shared, leased.sight.drawn, leased.sight.applied);
        }
        if let Some(followed) = &mut state.followed {
            followed.saw(leased, sent, received);
        }
        if received.since(state.presence.left_to_others) >= REPORTED {
            state.presence.left_to_others = received;
            state.store_clock.leave_to_others();
        }
    }

    /// Another agent renews from now on, as far as this one knows.
    pub(crate) fn follow(&self, state: &mut State, now: LocalTime) {
        (state.presence.elected, state.presence.gives_back) = (false, false);
        let contact = state.contact_with_coordinators();
        (state.book, state.upcoming, state.opening, state.broken) = (None, None, None, false);
        state.followed = Some(Followed::new(now, contact));
        if !state.claims.conflict() {
            state.contact.last_error = None;
        }
        self.follows.store(true, Ordering::Relaxed);
        tracing::info!(region = %self.name, agent = self.agent, "this agent follows: another one renews the region's lease");
    }

    /// The store cannot be looked at: an agent that waits for its first session has nobody else to say so.
    fn note_unseen(&self, error: &StoreError) {
        let mut state = self.state.lock();
        if state.book.is_none() {
            let text = format!("the region's store: {error}");
            if state.contact.last_error.as_ref() != Some(&text) {
                tracing::warn!(region = %self.name, %error, "the region's store does not say who renews");
            }
            state.contact.last_error = Some(text);
        }
    }

    /// A decision asks for a heartbeat before its time. Where another agent sends them, it sees so at its next look.
    pub(crate) fn urge(&self) {
        if self.follows.load(Ordering::Relaxed) {
            self.state.lock().presence.urges += 1;
        } else {
            self.eager.notify_one();
        }
    }

    /// True while this agent is the one that renews.
    pub(crate) fn is_elected(&self) -> bool {
        let state = self.state.lock();
        state.presence.elected && !state.claims.conflict()
    }

    /// This agent is about to end: it is no longer ready, and stands for no election.
    pub(crate) fn retire(&self) {
        self.state.lock().presence.leaves = true;
    }

    /// The last word: seat and lock are free from now on. What was counted until then is still to be read.
    pub(crate) async fn leave(&self) {
        let look = {
            let mut state = self.state.lock();
            let now = self.clock.now();
            let look = state.look(self.agent.clone(), now);
            Look { reports: state.book.is_none().then(|| state.share(now)).flatten(), ..look }
        };
        if let Err(error) = self.store.leave(&look).await {
            tracing::warn!(region = %self.name, %error, "the region's other agents will notice by themselves that this one has left");
        }
    }
}

impl State {
    fn look(&mut self, name: String, now: LocalTime) -> Look {
        let follows = self.book.is_none();
        if follows && self.wants_a_heartbeat(now) {
            self.presence.urges += 1;
        }
        let due = now.since(self.presence.shared_at) >= SHARES;
        let reports = if follows && due && self.presence.has_peers() { self.share(now) } else { None };
        let presence = &self.presence;
        Look {
            me: presence.me,
            name,
            urges: presence.urges,
            reaches: presence.reaches && follows,
            bid: if presence.leaves { Bid::default() } else { presence.bid(now) },
            reports,
            known: self.followed.as_ref().and_then(Followed::known),
        }
    }

    fn wants_a_heartbeat(&mut self, now: LocalTime) -> bool {
        let Self { demand, followed, table, .. } = self;
        let held = followed.iter().flat_map(|followed| followed.holdings.keys());
        demand.hurry(now, |budget| table.terms(budget).map(|t| t.limit.period()), held) != Hurry::None
    }
}
