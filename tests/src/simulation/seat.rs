//! What an agent may spend by itself: its seat, spent at any time, as if the store could not be asked.

use super::Micros;
use super::policies::ATTRIBUTE;
use super::region::{Region, Usable};
use quorate_limiter::decision::Charge;
use quorate_limiter::election::AgentId;
use quorate_limiter::matching::{Holder, PolicyTable};
use quorate_limiter::reserve::Reserve;
use quorate_limiter::seats::{Given, SeatAnswer, SeatWatch, SeatWord};
use quorate_shared::heartbeat::PoliciesInForce;
use quorate_shared::time::{LocalTime, StoreTime, WindowLabel};
use quorate_shared::units::{Capacity, MicroTokens};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// How long a seat may be used without being confirmed: short, so that schedules see it end.
const LIFE: Duration = Duration::from_secs(4);

/// The seat of one agent's process.
#[derive(Debug)]
pub struct Seat {
    me: AgentId,
    /// The life before, until the store has heard of it.
    predecessor: Option<AgentId>,
    reserve: Option<Reserve>,
    /// The number of the seats under which it was last confirmed.
    born: u64,
    /// What it knows of all seats.
    pub watch: SeatWatch,
    /// The first sets, if nobody in this region can have had a seat before, and the store was not told yet.
    pub genesis: Option<PoliciesInForce>,
}

/// What an agent spent by itself.
#[derive(Clone, Debug, Default)]
pub struct Aside {
    /// The places that were charged.
    pub admitted: Vec<usize>,
    /// Of an allowance: in which window.
    pub windows: Vec<Option<WindowLabel>>,
}

impl Seat {
    /// Of an agent that begins.
    pub fn new(me: AgentId, predecessor: Option<AgentId>) -> Self {
        Self { me, predecessor, reserve: None, born: 0, watch: SeatWatch::new(LIFE), genesis: None }
    }

    /// The machine slept (R6).
    pub fn lapse(&mut self) {
        self.reserve.as_mut().into_iter().for_each(Reserve::lapse);
    }

    fn usable(&self, now: LocalTime) -> Option<&Reserve> {
        self.reserve.as_ref().filter(|reserve| reserve.is_held(now))
    }
}

impl Region {
    /// The agent goes by the newest sets that it knows, confirms its seat, and learns who else has one.
    pub fn hold_seat(&mut self, now: Micros) {
        let asked = self.local(now);
        let Some((sets, seats)) = self.agent.as_ref().and_then(|agent| Some((agent.newest_sets()?, self.disk.seats(&self.name)))) else {
            return;
        };
        let number = self.new_number();
        let table = |seat| self.disk.table_of(Holder::Seat(&self.name, seat), sets).map(Arc::new);
        let Some(agent) = self.agent.as_mut() else { return };
        let seat = &mut agent.seat;
        if let Some(reserve) = &mut seat.reserve
            && let Some(table) = table(reserve.seat())
            && reserve.go_by(asked, table).is_err()
        {
            seat.reserve = None;
        }
        if let (Some(reserve), Some(book)) = (&mut seat.reserve, &agent.book) {
            reserve.hear(book.contact());
        }
        let word = SeatWord {
            me: seat.me,
            predecessor: seat.predecessor,
            goes_by: seat.reserve.as_ref().map_or(sets, |reserve| reserve.table().in_force()),
            clock: seat.reserve.as_ref().map_or(StoreTime::ZERO, |reserve| reserve.clock(asked)),
            seats,
            holds: seat.usable(asked).map(|reserve| (reserve.seat(), seat.born)),
            genesis: seat.genesis == Some(sets),
            born: number,
            settles: seat.watch.settles(asked, self.drift),
            lapsed: seat.watch.lapsed(asked, self.drift),
        };
        let Ok(answer) = self.store.seat(now, &word) else { return };
        seat.genesis = seat.genesis.filter(|first| *first != sets);
        seat.predecessor = None;
        seat.born = answer.seats.born;
        seat.watch.saw(&answer.seats, answer.in_force, asked);
        let had = seat.reserve.take().filter(|reserve| answer.given == Given::Still && Some(reserve.seat()) == answer.seat);
        seat.reserve = had.or_else(|| begin(&answer, table(answer.seat?)?, asked));
        let drift = self.drift;
        if seat.reserve.as_mut().is_some_and(|reserve| !reserve.confirm(asked, asked, answer.shown, drift)) {
            seat.reserve = None;
        }
        let since = seat.watch.all_go_by(answer.in_force);
        if let Some(book) = &mut agent.book {
            seat.reserve.iter_mut().for_each(|reserve| reserve.hear(book.contact()));
            book.note_seats(answer.in_force, since);
        }
    }

    /// A request, decided by what is set aside for the agent.
    pub fn ask_aside(&mut self, places: Range<usize>, cost: MicroTokens, now: Micros) -> Aside {
        let local = self.local(now);
        let drift = self.drift;
        let Some(agent) = self.agent.as_mut().filter(|_| !self.slept) else { return Aside::default() };
        let matched: Vec<usize> = places.filter(|place| agent.charges.get(*place).is_some_and(Option::is_some)).collect();
        let charge = |place: &usize| agent.charges.get(*place).cloned().flatten().map(|charge| Charge { cost, ..charge });
        let charges: Vec<Charge> = matched.iter().filter_map(charge).collect();
        let Some(reserve) = agent.seat.reserve.as_mut() else { return Aside::default() };
        let Some((decision, _)) = reserve.decide(local, &charges, drift, false) else { return Aside::default() };
        let fits = matched.iter().zip(&charges).zip(&decision.limits).filter(|(_, limit)| decision.allowed && limit.fits);
        let clock = reserve.clock(local);
        let (admitted, windows) = fits.map(|((place, charge), _)| (*place, charge.limit.window_at(clock))).unzip();
        Aside { admitted, windows }
    }

    /// With what the agent may spend by itself of each place.
    pub(super) fn include_seat(&self, usable: &mut [Usable], now: Micros) {
        let local = self.local(now);
        let Some(reserve) = self.agent.as_ref().filter(|_| !self.slept).and_then(|agent| agent.seat.usable(local)) else { return };
        for (place, usable) in self.places.iter().zip(usable) {
            let subject = |name: &str| (name == ATTRIBUTE).then_some(place.name);
            let met = reserve.table().matches(subject, 1, Some(MicroTokens::ZERO)).into_iter().find(|met| met.policy == place.policy);
            let Some(charge) = met.map(|met| met.charge) else { continue };
            if usable.generation == 0 {
                usable.period = charge.limit.period();
            }
            let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
            let rate = charge.floor.rate.scale_floor(micros(usable.period), micros(charge.limit.period()));
            let ended = charge.floor_ttl.is_some_and(|ttl| reserve.end_of(ttl, self.drift).is_none_or(|end| local >= end));
            usable.seat = if ended { Capacity::ZERO } else { Capacity { rate, ..charge.floor } };
        }
    }

    /// When the right to the seat ends, unless it is confirmed.
    pub(super) fn next_horizon_of_seat(&self, now: Micros) -> Option<Micros> {
        let reserve = self.agent.as_ref()?.seat.usable(self.local(now))?;
        let ends = reserve.table().floors_that_end().filter_map(|(_, ttl)| reserve.end_of(ttl, self.drift));
        ends.chain([reserve.until()]).filter_map(|end| self.clock.shows(end.as_micros(), now)).min()
    }
}

fn begin(answer: &SeatAnswer, table: Arc<PolicyTable>, now: LocalTime) -> Option<Reserve> {
    let fresh = answer.given == Given::Fresh;
    Reserve::begin(answer.seat?, fresh, table, now, answer.shown).ok().map(|reserve| reserve.living(LIFE))
}
