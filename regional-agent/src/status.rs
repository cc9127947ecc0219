//! What an agent says of itself: `GET /v1/status`.

use crate::conflict::CONFLICT;
use crate::fallback;
use crate::following::Followed;
use crate::region::{Region, State};
use quorate_limiter::hot_keys::HotKey;
use quorate_limiter::lease_book::LeaseBook;
use quorate_shared::api::{AgentStatus, BudgetStatus, DecisionMode, HotSubject};
use quorate_shared::heartbeat::Holding;
use quorate_shared::names::BudgetId;
use quorate_shared::time::LocalTime;
use std::collections::BTreeMap;
use std::time::Duration;

/// Subjects of each policy that are shown.
const HOT: usize = 5;

/// What is known of the lease, whoever renews it.
struct Lease<'a> {
    session: u64,
    seq: u64,
    /// True while a response in force gives the region something, as far as this agent may use it.
    leased: bool,
    until: LocalTime,
    whole_floor_from: LocalTime,
    holdings: &'a BTreeMap<BudgetId, Holding>,
}

impl<'a> Lease<'a> {
    fn of(state: &'a State, now: LocalTime) -> Option<Self> {
        match (&state.book, &state.followed) {
            (Some(book), _) => Some(Self::renewed(book, now)),
            (None, Some(followed)) => Self::followed(followed, now),
            (None, None) => None,
        }
    }

    fn renewed(book: &'a LeaseBook, now: LocalTime) -> Self {
        Self {
            session: book.session(),
            seq: book.taken().seq,
            leased: book.view(now).leased && book.is_applied(),
            until: book.lease_horizon(),
            whole_floor_from: book.floor_horizon(),
            holdings: book.holdings(),
        }
    }

    fn followed(followed: &'a Followed, now: LocalTime) -> Option<Self> {
        let sight = followed.sight?;
        let known = followed.known().is_some_and(|known| known.drawn.session == sight.drawn.session && known.nonce == sight.nonce);
        Some(Self {
            session: sight.drawn.session,
            seq: sight.applied.seq,
            leased: known && now < followed.follower.lease_horizon(),
            until: followed.follower.lease_horizon(),
            whole_floor_from: followed.follower.floor_horizon(),
            holdings: &followed.holdings,
        })
    }
}

impl Region {
    /// What `GET /v1/status` says.
    pub fn status(&self) -> AgentStatus {
        let now = self.clock.now();
        let (failing_for, seat, seats) = (self.store.failing_for(), self.seat_status(), self.seat.lock().by_agent());
        let mut state = self.state.lock();
        let hot = hot_subjects(&mut state, now);
        let left = |until: LocalTime| millis(until.since(now));
        let lease = Lease::of(&state, now);
        let mode = match &lease {
            _ if state.claims.conflict() => CONFLICT,
            Some(lease) if lease.leased => "leased",
            Some(_) if state.table.in_force().active > 0 => "floor",
            _ => "starting",
        };
        AgentStatus {
            region: self.name.to_string(),
            agent: self.agent.clone(),
            agents: state.presence.agents(&self.agent, &seats),
            mode: mode.to_owned(),
            session: lease.as_ref().map_or(0, |lease| lease.session),
            seq: lease.as_ref().map_or(0, |lease| lease.seq),
            horizon_ms: lease.as_ref().map_or(0, |lease| left(lease.until)),
            floor_horizon_ms: lease.as_ref().map_or(0, |lease| left(lease.whole_floor_from)),
            last_renewal_ms: state.contact.last_renewal.map(|at| millis(now.since(at))),
            last_error: state.contact.last_error.clone(),
            coordinator: state.contact.coordinator.clone(),
            store: self.store.status(),
            fallbacks: failing_for
                .map(|span| fallback::present(&self.fallbacks, state.table.on_store_failure(), span, &self.set_aside()))
                .unwrap_or_default(),
            policies: state.table.in_force().active,
            floors: state.floors(now),
            seat,
            hot_subjects: hot,
            budgets: lease.as_ref().map(|lease| budgets(lease, &state)).unwrap_or_default(),
        }
    }
}

fn hot_subjects(state: &mut State, now: LocalTime) -> Vec<HotSubject> {
    let subject = |key: HotKey| HotSubject {
        policy: key.policy.to_string(),
        subject: key.subject.to_string(),
        share: Duration::from_micros(key.share_ppm).as_secs_f64(),
    };
    state.hot.top(now, HOT).into_iter().map(subject).collect()
}

fn budgets(lease: &Lease<'_>, state: &State) -> Vec<BudgetStatus> {
    let status = |(id, holding): (&BudgetId, &Holding)| {
        let terms = state.table.terms(id)?;
        Some(BudgetStatus {
            policy: id.policy.to_string(),
            subject: id.subject.to_string(),
            mode: if lease.leased { DecisionMode::Leased } else { DecisionMode::Floor },
            floor: terms.floor.into(),
            pool: holding.pool.into(),
            lent: holding.lent.into(),
            borrowed: holding.borrowed.iter().map(|(lender, loan)| (lender.to_string(), (*loan).into())).collect(),
            demand: state.demand.demand(id).tokens(),
        })
    };
    lease.holdings.iter().filter_map(status).collect()
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
