//! The model that the checker explores: states, what may happen in them, what must hold in each.

use super::exploration::Exploration;
use super::setting::{self, Terms};
use super::state::{Action, State};
use quorate_shared::heartbeat::Holding;
use quorate_shared::policy::Limit;
use stateright::{Model, Property};

impl Model for Exploration {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::first(self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        state.actions(self, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        state.after(self, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = promises();
        all.extend(events());
        all
    }
}

/// What must hold in every state.
fn promises() -> Vec<Property<Exploration>> {
    vec![
        Property::<Exploration>::always("entitlements add up to at most the limit", |m, s| s.total_use().fits(s.terms(m).limit)),
        Property::<Exploration>::always("what counts in all regions adds up to at most the limit", |m, s| {
            s.counted(0).saturating_add(s.counted(1)) <= s.terms(m).limit.burst
        }),
        Property::<Exploration>::always("units spent of each window add up to at most the limit", |m, s| {
            (0..2).all(|window| s.spent(window) <= m.terms(1).limit.burst)
        }),
        Property::<Exploration>::always("no part is used twice", |m, s| no_part_is_used_twice(s, s.terms(m))),
        Property::<Exploration>::always("the ledger's own check holds", |_, s| ledger_is_sound(s)),
        Property::<Exploration>::always("what a region goes by is what the ledger reckons with", |_, s| {
            (0..2).all(|region| is_reckoned_with(s, region))
        }),
        Property::<Exploration>::always("an entry of an office that is over changes nothing", |_, s| !s.coordinators.refused_entry_counted),
    ]
}

/// The second region uses the pool.
pub const POOL_MOVES: &str = "the pool is used in the second region";
/// The first region uses the second's floor.
pub const LENT_TO_FIRST: &str = "the second's floor is used in the first region";
/// The second region uses the first's floor.
pub const LENT_TO_SECOND: &str = "the first's floor is used in the second region";
/// What was lent one way is lent the other way.
pub const LENT_BACK: &str = "the second region has its floor back and the first leaves its own alone";
/// The borrower says so, and the lender takes it back under its lease.
pub const GIVEN_BACK: &str = "a loan is given back before it ends";
/// The ledger takes back what a region holds.
pub const ENDS: &str = "a lease ends";
/// And gives it to the other.
pub const ELSEWHERE: &str = "what a lease had is used elsewhere once it has ended";
/// A region that lent its floor and hears nothing has it back.
pub const WHOLE_AGAIN: &str = "a lender that hears nothing has its floor back";

/// A second agent uses leased parts.
pub const SECOND_LEASED: &str = "the second agent of a region knows of a lease by what it was shown";
/// And stops before the first.
pub const SECOND_LAPSES: &str = "the second agent of a region has no lease and the first has";

/// What an operator's change brings.
pub const CHANGES: &str = "a change of policies comes into force";
/// While a region that hears nothing may go by the old ones.
pub const WAITS: &str = "a change waits for a region whose lease has ended";
/// A floor grows once others have shrunk.
pub const GROWS: &str = "a floor that a change raised is used";
/// Units are granted.
pub const GRANTED: &str = "units beyond a floor are spent in the first region";
/// And may be granted to another while they are not spent.
pub const GRANT_MOVES: &str = "units that were granted to the first region are spent in the second";
/// Of both windows.
pub const BOTH_WINDOWS: &str = "all units of two windows are spent";

/// What must happen in some state, or the promises would hold of nothing.
fn events() -> Vec<Property<Exploration>> {
    vec![
        Property::<Exploration>::sometimes(POOL_MOVES, |m, s| uses_pool(s, 1, m.setting.limit)),
        Property::<Exploration>::sometimes(LENT_TO_FIRST, |m, s| s.uses(0).loan == setting::floor(m.setting.limit)),
        Property::<Exploration>::sometimes(LENT_TO_SECOND, |m, s| s.uses(1).loan == setting::floor(m.setting.limit)),
        Property::<Exploration>::sometimes(LENT_BACK, |m, s| s.uses(1).own == setting::floor(m.setting.limit) && s.uses(0).own.is_zero()),
        Property::<Exploration>::sometimes(GIVEN_BACK, |_, s| given_back(s)),
        Property::<Exploration>::sometimes(ENDS, |_, s| has_ended(s, 0)),
        Property::<Exploration>::sometimes(ELSEWHERE, |m, s| has_ended(s, 0) && uses_pool(s, 1, m.setting.limit)),
        Property::<Exploration>::sometimes(WHOLE_AGAIN, |m, s| {
            !holding(s, 1).lent.is_zero() && s.uses(1).own == setting::floor(m.setting.limit)
        }),
        Property::<Exploration>::sometimes(SECOND_LEASED, |m, s| {
            s.left().looks < m.setting.left.looks && s.regions[0].value.second_is_leased(s.local(0))
        }),
        Property::<Exploration>::sometimes(SECOND_LAPSES, |m, s| {
            let first = &s.regions[0].value;
            m.setting.left.looks > 0 && first.is_leased(s.local(0)) && !first.second_is_leased(s.local(0))
        }),
        Property::<Exploration>::sometimes(CHANGES, |_, s| active(s) == 2),
        Property::<Exploration>::sometimes(WAITS, |_, s| active(s) == 1 && s.left().changes == 0 && has_ended(s, 0)),
        Property::<Exploration>::sometimes(GROWS, |m, s| s.uses(1).own.rate > m.terms(1).floors[1].rate),
        Property::<Exploration>::sometimes(GRANTED, |m, s| s.regions[0].value.spent(0) > m.terms(1).floors[0].burst),
        Property::<Exploration>::sometimes(GRANT_MOVES, |m, s| s.regions[1].value.spent(0) > m.terms(1).floors[1].burst),
        Property::<Exploration>::sometimes(BOTH_WINDOWS, |m, s| (0..2).all(|window| s.spent(window) == m.terms(1).limit.burst)),
    ]
}

fn active(state: &State) -> u64 {
    state.coordinators.ledger.value.active_policies().version
}

fn no_part_is_used_twice(state: &State, terms: &Terms) -> bool {
    let [a, b] = [state.uses(0), state.uses(1)];
    let floors = [a.own.plus(b.loan), b.own.plus(a.loan)];
    floors.into_iter().zip(terms.floors).all(|(used, floor)| used.fits(floor)) && a.pool.plus(b.pool).fits(terms.pool)
}

/// docs/protocol.md, "Why it holds", C: while a region may use leased parts, each is at most what the
/// ledger takes it for; while it does not have its whole floor, it leaves at least as much alone.
fn is_reckoned_with(state: &State, region: usize) -> bool {
    let (agent, now) = (&state.regions[region].value, state.local(region));
    let held = state.coordinators.ledger.value.held(&setting::budget(), &setting::name(region));
    let uses = agent.uses(now);
    let leaves = agent.has_whole_floor(now) || held.lent.fits(agent.holding().lent);
    uses.pool.fits(held.pool) && uses.loan.fits(held.borrowed_total()) && leaves
}

fn ledger_is_sound(state: &State) -> bool {
    let ledger = &state.coordinators.ledger.value;
    ledger.check().is_ok() && ledger.alarms().next().is_none()
}

fn holding(state: &State, region: usize) -> Holding {
    state.regions[region].value.holding()
}

fn uses_pool(state: &State, region: usize, limit: Limit) -> bool {
    state.uses(region).pool == setting::pool(limit)
}

/// True if the ledger has taken back what the region's record still has.
fn has_ended(state: &State, region: usize) -> bool {
    let held = state.coordinators.ledger.value.held(&setting::budget(), &setting::name(region));
    !holding(state, region).pool.is_zero() && held.pool.is_zero()
}

/// True if the second region, which lent its floor to the first, has it back before the whole floor
/// would be its own anyway.
fn given_back(state: &State) -> bool {
    let lender = &state.regions[1].value;
    let early = lender.is_leased(state.local(1)) && !lender.has_whole_floor(state.local(1));
    early && holding(state, 1).lent.is_zero() && holding(state, 0).borrowed_total().is_zero()
}
