//! What the ledger knows of one region beside its budgets: numbers, dates, what was said since its echo.

use crate::recent::LastHour;
use crate::windows::Windows;
use quorate_shared::bound::Steps;
use quorate_shared::heartbeat::{Number, ObservedSteps, Office, Parts, PoliciesInForce, Stamp, StoreReport};
use quorate_shared::mistake::{self, Mistake};
use quorate_shared::names::{BudgetId, PolicyName};
use quorate_shared::time::{Drift, LeaderTime, StoreTime, WindowLabel};
use quorate_shared::units::{MAX_EXACT, MicroTokens};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// One region's lease on all that it holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Session {
    /// The last accepted number (R1).
    pub newest: Number,
    /// Of the session of that number.
    pub nonce: u64,
    /// `last`: the date of that heartbeat, in the office of the ledger's clock.
    pub last: LeaderTime,
    /// True once the lease has ended and everything was taken back whose past use does not count.
    pub expired: bool,
    /// True from then on until no past use of the region counts any more, of any budget.
    #[serde(default)]
    pub draining: bool,
    /// Set while the operator's word that the region serves nothing waits until its past use counts
    /// no more: since when, once an entry has dated it.
    #[serde(default)]
    pub fencing: Option<Option<LeaderTime>>,
    /// Set for a region that was named before: until it has echoed a response of a greater number
    /// it may go by a set of that time, which may be forgotten.
    #[serde(default)]
    was_told_until: Option<Number>,
    /// True until the region has echoed a response for the first time.
    pub genesis: bool,
    /// The newest response known to be applied, of any session.
    pub echo: Number,
    /// Responses are full until one of at least this number is echoed.
    pub full_from: Number,
    /// `L` and policies in force as said by the responses since the newest whose policies have
    /// drained; the first is that one's own.
    pub said: VecDeque<Said>,
    /// No response that the region was given renews its lease, or bears a promise of it, beyond this:
    /// one that it has echoed since may have said a longer `L` than those after it.
    #[serde(default)]
    renewed_until: LeaderTime,
    /// The longest `L` of those responses that reach up to there.
    #[serde(default)]
    longest_renewal: Duration,
    /// Until when the region has promised to leave alone what it has lent; `None`: unknown.
    pub lend_horizon: Option<LeaderTime>,
    /// Budgets of which something is under way with this region: an offer that it has not
    /// echoed, or a target that it has not been offered.
    pub open: BTreeSet<BudgetId>,
    /// Budgets that its last heartbeat named.
    pub reported: BTreeSet<BudgetId>,
    /// Budgets with a drain of which it was offered a loan.
    #[serde(default)]
    pub borrows: BTreeSet<BudgetId>,
    /// The newest window that it has opened of each allowance.
    #[serde(default)]
    pub windows: Windows,
    /// Windows of which something is under way with this region.
    #[serde(default)]
    pub open_windows: BTreeSet<(BudgetId, WindowLabel)>,
    /// For display.
    pub agent: String,
    /// The region's other agents; for display.
    #[serde(default)]
    pub others: Vec<String>,
    /// For display.
    pub store: StoreReport,
    /// What the store's clock showed at the last heartbeat, and the date of that; for display.
    #[serde(default)]
    pub shown: Option<(StoreTime, LeaderTime)>,
    /// Steps of the store's clock as last reported.
    #[serde(default)]
    steps_reported: Option<ObservedSteps>,
    /// Those that were reported within the last hour.
    #[serde(default)]
    pub steps: LastHour<Steps>,
    /// What gateways of the region may spend of one budget later than it was drawn, by policy: as said within the last hour.
    #[serde(default)]
    pub parts: BTreeMap<PolicyName, LastHour<MicroTokens>>,
}

/// What responses from `from` on said to the whole region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Said {
    pub from: Number,
    pub lease: Duration,
    pub policies: PoliciesInForce,
    /// The date, in this office, of the newest of them: floors with an end of their own hold for that long from then on.
    #[serde(default)]
    pub last: LeaderTime,
    /// The date of the first heartbeat of this office by which one of them was known to be applied: what
    /// the region took under those before it was taken before then.
    #[serde(default)]
    pub echoed_at: Option<LeaderTime>,
}

/// What is remembered of a region that no policy set names any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeftAt {
    newest: Number,
    nonce: u64,
    /// True if it was fenced, or had been told of no set: then it decides by none.
    #[serde(default)]
    decides_by_none: bool,
}

impl LeftAt {
    /// Of a region of which nothing is known: it may go by any set.
    pub fn unknown() -> Self {
        Self { newest: Number::default(), nonce: 0, decides_by_none: false }
    }

    /// What is safe to reckon with of either region.
    pub fn worse(self, other: Self) -> Self {
        let newer = if other.newest > self.newest { other } else { self };
        Self { decides_by_none: self.decides_by_none && other.decides_by_none, ..newer }
    }
}

impl Session {
    /// A region that was never heard of: it has no policies, hence no floor, and no lease.
    pub fn new(agent: String, store: StoreReport) -> Self {
        Self {
            newest: Number::default(),
            nonce: 0,
            last: LeaderTime::ZERO,
            expired: false,
            draining: false,
            fencing: None,
            was_told_until: None,
            genesis: true,
            echo: Number::default(),
            full_from: Number::default(),
            said: VecDeque::from([Said::default()]),
            renewed_until: LeaderTime::ZERO,
            longest_renewal: Duration::ZERO,
            lend_horizon: None,
            open: BTreeSet::new(),
            reported: BTreeSet::new(),
            borrows: BTreeSet::new(),
            windows: Windows::new(),
            open_windows: BTreeSet::new(),
            agent,
            others: Vec::new(),
            store,
            shown: None,
            steps_reported: None,
            steps: LastHour::default(),
            parts: BTreeMap::new(),
        }
    }

    /// A region that was named before, and comes back: what it sent then stays behind it, and it is
    /// not new.
    pub fn returning(self, left: LeftAt) -> Self {
        let was_told_until = (!left.decides_by_none).then_some(left.newest);
        Self { newest: left.newest, nonce: left.nonce, was_told_until, expired: true, genesis: false, ..self }
    }

    /// The same of one that has not been heard of yet.
    pub fn unheard(left: LeftAt) -> Self {
        Self::new(String::new(), StoreReport::new("", false)).returning(left)
    }

    /// Names of the region's agents, in order; none of a region that was not heard of.
    pub fn agents(&self) -> Vec<String> {
        let named = |agent: &&String| !agent.is_empty();
        let mut agents: Vec<String> = self.others.iter().chain([&self.agent]).filter(named).cloned().collect();
        agents.sort();
        agents
    }

    /// What is kept of it when it leaves.
    pub fn left_at(&self) -> LeftAt {
        let decides = self.may_go_by_forgotten() || self.goes_by_unknown() || self.decides_by().any(|told| told.active > 0);
        LeftAt { newest: self.newest, nonce: self.nonce, decides_by_none: !decides }
    }

    /// True if the region may decide by a set that it was told of before it left, whichever that was.
    pub fn may_go_by_forgotten(&self) -> bool {
        self.was_told_until.is_some_and(|newest| self.echo <= newest)
    }

    /// True if it goes by a set of its own beside the one that was restored, whichever that is.
    pub fn goes_by_unknown(&self) -> bool {
        self.decides_by().any(|told| told.active == 0 && told.next.is_some())
    }

    /// True if what it took under such a set, or takes, may count, and it does not obey set `next` beside it.
    pub fn counts_by_unknown(&self, next: u64) -> bool {
        self.told_policies().any(|told| told.active == 0 && told.next.is_some_and(|beside| beside != next))
    }

    /// The same as [`Self::may_go_by_forgotten`] of what it took, or agents of it go by without their store.
    pub fn may_count_by_forgotten(&self) -> bool {
        self.was_told_until.is_some_and(|newest| self.said.front().is_none_or(|said| said.from <= newest))
    }

    /// What it may go by is not what its echo says: only one of a response to come counts.
    pub fn forget_what_it_confirmed(&mut self) {
        self.was_told_until = self.was_told_until.map(|_| self.newest);
    }

    /// When its lease ends, and with it all that rests on its promises, if it is not heard of again.
    pub fn end(&self, drift: Drift) -> LeaderTime {
        self.last.after(drift.stretch(self.lease())).max(self.renewed_until)
    }

    /// The longest `L` that the region was told since its echo.
    pub fn lease(&self) -> Duration {
        self.said.iter().map(|s| s.lease).max().unwrap_or_default()
    }

    /// True of a number that is greater than any before, and not of another session that uses the
    /// newest one's number again.
    pub fn comes_after(&self, number: Number, nonce: u64) -> bool {
        let reused = number.session == self.newest.session && nonce != self.nonce;
        let newer = number > self.newest || (number.session < self.newest.session && mistake::made(Mistake::OlderSessionAccepted));
        newer && !reused
    }

    /// R1: takes the number if it is greater than any before, and not of another session that
    /// uses the same number again.
    pub fn accept(&mut self, number: Number, nonce: u64, at: LeaderTime) -> bool {
        if !self.comes_after(number, nonce) {
            return false;
        }
        if number.session > self.newest.session || self.expired {
            self.full_from = number;
        }
        if self.newest == Number::default() {
            // answers from before it was heard of here are no answers of this cluster
            self.was_told_until = self.was_told_until.map(|_| number.before());
        }
        self.genesis &= self.newest == Number::default() || number.session == self.newest.session;
        (self.newest, self.nonce) = (number, nonce);
        self.last = self.last.max(at);
        (self.expired, self.draining, self.fencing) = (false, false, None);
        true
    }

    /// Takes an echo: its date bounds what the region has promised. What was said before it is
    /// over, as far as past use under it no longer counts. The heartbeat is the session's newest.
    pub fn take_echo(&mut self, echo: Stamp, floors_drained: Option<Stamp>, office: Office) {
        let unknown = self.was_told_until.is_some_and(|until| echo.number <= until);
        if unknown || echo.number.session != self.newest.session || echo.number >= self.newest || echo.number < self.echo {
            return;
        }
        self.genesis = false;
        self.echo = echo.number;
        if echo.office == office {
            self.lend_horizon = self.lease_said_by(echo.number).map(|lease| echo.at.after(lease));
        }
        let last = self.last;
        if let Some(said) = self.said.iter_mut().rfind(|said| said.from <= echo.number) {
            said.echoed_at.get_or_insert(last);
        }
        let Some(drained) = floors_drained.filter(|stamp| self.has_echoed(stamp.number)) else { return };
        while self.said.get(1).is_some_and(|s| s.from <= drained.number) {
            self.said.pop_front();
        }
    }

    /// True of a response of this session that is known to be applied.
    pub fn has_echoed(&self, number: Number) -> bool {
        number.session == self.newest.session && number <= self.echo
    }

    /// `L` as response `number` said it, if that is remembered.
    pub fn lease_said_by(&self, number: Number) -> Option<Duration> {
        self.said.iter().rev().find(|s| s.from <= number).map(|s| s.lease)
    }

    /// True if the response to the newest heartbeat must carry everything.
    pub fn wants_full(&self) -> bool {
        self.echo < self.full_from
    }

    /// True if the region may believe that nothing was ever admitted in it: it is in its very
    /// first session, and has applied no response yet.
    pub fn is_genesis(&self) -> bool {
        self.genesis && self.newest.session == 1
    }

    /// Notes what the response to the newest heartbeat, dated `at`, says to the whole region.
    pub fn say(&mut self, lease: Duration, policies: PoliciesInForce, at: LeaderTime, drift: Drift) {
        let before = if at > self.renewed_until { Duration::ZERO } else { self.longest_renewal };
        self.longest_renewal = before.max(lease);
        self.renewed_until = self.renewed_until.max(at.after(drift.stretch(lease)));
        match self.said.back_mut().filter(|s| s.lease == lease && s.policies == policies) {
            Some(same) => same.last = same.last.max(at),
            None => self.said.push_back(Said { from: self.newest, lease, policies, last: at, echoed_at: None }),
        }
    }

    /// R9: what the region was told of active sets whose whole floors it may be using without obeying set `next`.
    pub fn acts_on(&self, next: u64) -> impl Iterator<Item = &Said> + '_ {
        self.since_echo().filter(move |said| is_without(next, said.policies))
    }

    /// The same, and of those under whose floors past use may count, each with the date of the first heartbeat by which
    /// the region was known to go by them no more.
    pub fn acted_on(&self, next: u64) -> impl Iterator<Item = (&Said, Option<LeaderTime>)> + '_ {
        let until = |place: usize| self.said.iter().skip(place + 1).find_map(|later| later.echoed_at);
        let told = self.said.iter().enumerate().map(move |(place, said)| (said, until(place)));
        told.filter(move |(said, _)| is_without(next, said.policies))
    }

    /// The policy sets that the region was told of since the newest response whose floors alone past use counts under.
    pub fn told_policies(&self) -> impl Iterator<Item = PoliciesInForce> + '_ {
        self.said.iter().map(|s| s.policies)
    }

    /// The policy sets by which the region may decide: what it was told of before its echo is over,
    /// whether or not past use counts under it.
    pub fn decides_by(&self) -> impl Iterator<Item = PoliciesInForce> + '_ {
        self.since_echo().map(|s| s.policies)
    }

    fn since_echo(&self) -> impl Iterator<Item = &Said> + '_ {
        let known = self.said.iter().rposition(|s| s.from <= self.echo).unwrap_or_default();
        self.said.iter().skip(known)
    }

    /// True if the region may be using floors of this set.
    pub fn may_act_on(&self, version: u64) -> bool {
        self.said.iter().any(|s| s.policies.active == version)
    }

    /// Version of the active set that the region has confirmed.
    pub fn confirmed_policies(&self) -> u64 {
        self.decides_by().next().map_or(0, |policies| policies.active)
    }

    /// Notes the steps of the store's clock that the report before did not have.
    pub fn take_steps(&mut self, report: Option<ObservedSteps>, at: LeaderTime) {
        let Some(now) = report else { return };
        let known = self.steps_reported.filter(|known| known.observer == now.observer).map(|known| known.steps).unwrap_or_default();
        let new = Steps { count: now.steps.count.saturating_sub(known.count), total: now.steps.total.saturating_sub(known.total) };
        self.steps_reported = Some(now);
        if new.count > 0 {
            self.steps.note(new, at);
        }
    }

    /// Notes which policies the region's gateways spend parts of: of those that `exist`, so that nobody can name more.
    pub fn take_parts(&mut self, parts: &[Parts], exist: impl Fn(&PolicyName) -> bool, at: LeaderTime) {
        self.parts.retain(|policy, hour| exist(policy) && hour.total(at) > MicroTokens::ZERO);
        for parts in parts.iter().filter(|parts| exist(&parts.policy)) {
            self.parts.entry(parts.policy.clone()).or_default().note(parts.most, at);
        }
    }

    /// A new office, first heard at `first`: the date of the last heartbeat and of every promise
    /// means nothing any more.
    pub fn forget_dates(&mut self, first: LeaderTime, drift: Drift) {
        self.last = LeaderTime::ZERO;
        self.renewed_until = LeaderTime::ZERO.after(drift.stretch(self.longest_renewal));
        self.fencing = self.fencing.map(|_| None);
        self.said.iter_mut().for_each(|said| (said.last, said.echoed_at) = (LeaderTime::ZERO, None));
        if !mistake::made(Mistake::PromiseKeptOverOffice) {
            self.lend_horizon = None;
        }
        self.shown = None;
        self.steps.forget_dates(first);
        self.parts.values_mut().for_each(|hour| hour.forget_dates(first));
    }

    /// Fences the region once `drain` has passed since the first entry after the operator's word:
    /// until then what it served just before counts. True if it is fenced now, and was not before.
    pub fn fence_once_drained(&mut self, at: LeaderTime, drain: Duration) -> bool {
        match self.fencing {
            Some(None) => self.fencing = Some(Some(at)),
            Some(Some(since)) if at > since.after(drain) => {
                self.fence();
                return true;
            }
            _ => {}
        }
        false
    }

    /// The operator's word that the region, whose lease has ended, serves nothing: so it uses no
    /// floor. What it held and lent went the way of every ended lease.
    pub fn fence(&mut self) {
        (self.fencing, self.was_told_until) = (None, None);
        self.said = VecDeque::from([Said { from: self.newest, ..Said::default() }]);
        self.genesis = false;
        if self.newest.session < MAX_EXACT {
            // a heartbeat of before must not come after those of the region's next life
            return;
        }
        // a region whose numbers were driven up to where no agent can follow begins again
        self.newest = Number::default();
        self.echo = Number::default();
        self.full_from = Number::default();
        self.said.iter_mut().for_each(|said| said.from = Number::default());
    }
}

/// True of an active set that does not come with set `next`, which is newer.
fn is_without(next: u64, told: PoliciesInForce) -> bool {
    let confirmed = told.next == Some(next) || (told.next.is_some() && mistake::made(Mistake::ConfirmedAnother));
    told.active > 0 && told.active < next && !confirmed
}
