//! Chains of events that chance alone hardly finds.
//!
//! A script says who asks for how much, who is cut off, and what the leader would like each region to hold: not what
//! the allocator would, since the ledger must be safe whoever proposes (docs/protocol.md, R4). Messages are delayed
//! and lost as ever, so no two schedules of a script are the same.

use super::requests::Mood;
use super::{Event, World};
use crate::simulation::Micros;
use crate::simulation::SECOND;
use crate::simulation::fault::Fault;
use crate::simulation::invariants::Terms;
use quorate_ledger::{Plan, UnitPlan};
use quorate_shared::heartbeat::{Heartbeat, Holding};
use quorate_shared::units::{Capacity, MicroTokens};

/// A region of a script; which one of the world's, chance says.
type Role = usize;

/// What happens, one act after the other, and under which limits it matters.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// Tokens of refill in one second: at least and at most.
    pub rate: (u64, u64),
    /// Tokens, or units, at once.
    pub burst: (u64, u64),
    acts: &'static [Act],
}

/// One act.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Every region asks so.
    All(Mood),
    /// One region asks so.
    One(Role, Mood),
    /// From now on this is what the leader proposes; by region.
    Propose(&'static [Wish; 3]),
    /// A region reaches no coordinator, for the time of troubles.
    CutOff(Role),
    /// A region hears nothing, though it is heard, for the time of troubles.
    Deafen(Role),
    /// Everybody hears everybody again.
    Mend,
    /// A region's agent stands still, for the time of troubles.
    Pause(Role),
    /// It goes on.
    Wake(Role),
    /// A region's store loses everything.
    Forget(Role),
    /// A region sends a heartbeat at once.
    Beat(Role),
    /// Nothing, for a time between the two.
    Wait(Micros, Micros),
}

/// What a region is to have of the budget, as far as the ledger has it to offer.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// All of the pool.
    pool: bool,
    /// It lends all that may be lent of its floor.
    lends: bool,
    /// All that these lend.
    borrows: &'static [Role],
}

const KEEPS: Wish = Wish { pool: false, lends: false, borrows: &[] };
const LENDS: Wish = Wish { lends: true, ..KEEPS };
const TAKES_POOL: Wish = Wish { pool: true, ..KEEPS };

const fn takes_all(borrows: &'static [Role]) -> Wish {
    Wish { pool: true, lends: false, borrows }
}

const fn borrows(borrows: &'static [Role]) -> Wish {
    Wish { borrows, ..KEEPS }
}

/// "Time without a lease counts as leased time": region 0 has used up all there is, with the bursts that the others
/// lend, and stands still. Region 1 uses the same until region 0 gets all of it back. What region 0 did not ask for
/// meanwhile must not count at the rate that was used elsewhere.
pub const REFILL_OVER_A_LAPSE: Script = Script {
    rate: (1, 3),
    burst: (30, 60),
    acts: &[
        Act::Propose(&[takes_all(&[1, 2]), LENDS, LENDS]),
        Act::All(Mood::Hot),
        Act::Wait(4 * SECOND, 5 * SECOND),
        Act::Propose(&[KEEPS, takes_all(&[0, 2]), LENDS]),
        Act::Pause(0),
        Act::One(0, Mood::Idle),
        Act::Wait(8 * SECOND, 9 * SECOND),
        Act::Propose(&[takes_all(&[1, 2]), LENDS, LENDS]),
        Act::Beat(1),
        Act::Wait(SECOND / 2, SECOND),
        Act::Beat(1),
        Act::Wait(SECOND / 3, SECOND / 2),
        Act::Wake(0),
        Act::Beat(0),
        Act::Wait(SECOND / 3, SECOND),
        Act::One(0, Mood::Hot),
        Act::Wait(SECOND, 2 * SECOND),
    ],
};

/// "Use of a part that has lapsed is counted as if it were held": region 0 borrows from region 2, which is cut off. Once
/// that loan has lapsed, region 0 uses its whole floor, and is then to lend it. Its use fits what it holds by name
/// only; were that reported as drained, region 1 would use the floor of region 0 beside it, and region 2 its own.
pub const LENDS_WHILE_A_LOAN_LAPSES: Script = Script {
    rate: (1, 1),
    burst: (12, 30),
    acts: &[
        Act::Propose(&[borrows(&[2]), TAKES_POOL, LENDS]),
        Act::All(Mood::Hot),
        Act::Wait(2 * SECOND, 3 * SECOND),
        Act::All(Mood::Idle),
        Act::CutOff(2),
        Act::Wait(4 * SECOND, 6 * SECOND),
        Act::One(0, Mood::Hot),
        Act::Wait(SECOND / 3, SECOND),
        Act::Propose(&[Wish { lends: true, ..borrows(&[2]) }, Wish { pool: true, ..borrows(&[0]) }, LENDS]),
        Act::One(0, Mood::Idle),
        Act::One(1, Mood::Hot),
        Act::One(2, Mood::Hot),
        Act::Beat(0),
        Act::Wait(SECOND / 4, SECOND / 2),
        Act::Beat(0),
        Act::Wait(SECOND / 4, SECOND / 2),
        Act::Beat(1),
        Act::Wait(2 * SECOND, 4 * SECOND),
    ],
};

/// "The lender's own use has not come down to what it left itself": region 0 lends, hears nothing for so long that its
/// whole floor is its own again, and uses it. The next response has it lend as before. Were its promise dated by that
/// one's echo, region 1 would go on using the loan beside it.
pub const LENDER_THAT_HEARS_AGAIN: Script = Script {
    rate: (1, 1),
    burst: (12, 30),
    acts: &[
        Act::Propose(&[LENDS, takes_all(&[0, 2]), LENDS]),
        Act::All(Mood::Hot),
        Act::Wait(3 * SECOND, 4 * SECOND),
        Act::All(Mood::Idle),
        Act::Deafen(0),
        Act::Wait(6 * SECOND, 9 * SECOND),
        Act::One(0, Mood::Hot),
        Act::Wait(SECOND / 3, SECOND),
        Act::One(0, Mood::Idle),
        Act::Mend,
        Act::Beat(0),
        Act::Wait(SECOND / 4, SECOND / 2),
        Act::One(1, Mood::Hot),
        Act::Beat(0),
        Act::Wait(SECOND / 6, SECOND / 3),
        Act::Beat(1),
        Act::Wait(2 * SECOND, 3 * SECOND),
    ],
};

/// "What was taken just before still counts": region 0 is cut off, and uses what it holds just before its lease ends.
/// Region 1 is to have the same.
pub const USE_BEFORE_THE_END: Script = Script {
    rate: (1, 1),
    burst: (12, 30),
    acts: &[
        Act::Propose(&[takes_all(&[1, 2]), LENDS, LENDS]),
        Act::All(Mood::Hot),
        Act::Wait(3 * SECOND, 4 * SECOND),
        Act::All(Mood::Idle),
        Act::Wait(4 * SECOND, 5 * SECOND),
        Act::CutOff(0),
        Act::Propose(&[LENDS, takes_all(&[0, 2]), LENDS]),
        Act::Wait(2 * SECOND, 3 * SECOND),
        Act::One(0, Mood::Hot),
        Act::One(1, Mood::Hot),
        Act::Wait(4 * SECOND, 5 * SECOND),
    ],
};

/// "A store's loss taken for full": all is used up when region 0's store loses its state. Nobody looks at its buckets
/// before its first full response, and then they must not be full.
pub const USED_UP_AND_FORGOTTEN: Script = Script {
    rate: (1, 3),
    burst: (12, 60),
    acts: &[
        Act::All(Mood::Hot),
        Act::Wait(4 * SECOND, 6 * SECOND),
        Act::One(0, Mood::Idle),
        Act::Wait(SECOND / 3, SECOND / 3),
        Act::Forget(0),
        Act::Beat(0),
        Act::Wait(SECOND / 4, SECOND),
        Act::One(0, Mood::Hot),
        Act::Wait(SECOND, 3 * SECOND),
    ],
};

/// "The region acts on a grant that the ledger has replaced": region 0 is granted all units of a window, and does not hear
/// that they are to go to region 1. The next response must say so too.
pub const GRANT_TAKEN_BACK_UNHEARD: Script = Script {
    rate: (1, 1),
    burst: (12, 30),
    acts: &[
        Act::Propose(&[TAKES_POOL, KEEPS, KEEPS]),
        Act::Wait(SECOND, 5 * SECOND),
        Act::One(0, Mood::Hot),
        Act::One(1, Mood::Light),
        Act::Wait(SECOND / 3, SECOND / 2),
        Act::One(0, Mood::Idle),
        Act::Wait(SECOND / 2, SECOND),
        Act::Deafen(0),
        Act::Propose(&[KEEPS, TAKES_POOL, KEEPS]),
        Act::Beat(0),
        Act::Wait(SECOND / 4, SECOND / 2),
        Act::Mend,
        Act::Beat(0),
        Act::Wait(SECOND / 4, SECOND / 2),
        Act::Beat(0),
        Act::Wait(SECOND / 4, SECOND / 2),
        Act::Beat(1),
        Act::Wait(SECOND / 4, SECOND / 2),
        Act::All(Mood::Hot),
        Act::Wait(SECOND, 2 * SECOND),
    ],
};

impl World {
    /// The next act.
    pub(super) fn act(&mut self, script: Script, next: usize) {
        let Some(act) = script.acts.get(next) else {
            self.proposed = None;
            return self.schedule(0, Event::Moods);
        };
        let after = match *act {
            Act::Wait(least, most) => self.chance.between(least, most),
            _ => 0,
        };
        self.perform_act(*act);
        self.schedule(after, Event::Act { script, next: next + 1 });
    }

    fn perform_act(&mut self, act: Act) {
        match act {
            Act::All(mood) => self.moods.fill(mood),
            Act::One(role, mood) => {
                let r = self.played_by(role);
                self.moods[r] = mood;
            }
            Act::Propose(wishes) => self.proposed = Some(wishes),
            Act::CutOff(role) => self.inflict(Fault::RegionCutOff, role),
            Act::Deafen(role) => self.inflict(Fault::RegionHearsNothing, role),
            Act::Pause(role) => self.inflict(Fault::AgentPaused, role),
            Act::Forget(role) => self.inflict(Fault::StoreLost, role),
            Act::Mend => self.network.heal(),
            Act::Wake(role) => {
                let r = self.played_by(role);
                self.regions[r].paused_until = self.now;
            }
            Act::Beat(role) => self.schedule_beat(self.played_by(role), 1, true),
            Act::Wait(..) => {}
        }
    }

    fn inflict(&mut self, fault: Fault, role: Role) {
        let r = self.played_by(role);
        self.faults.count(fault);
        self.tell(Some(r), || format!("fault: {fault}"));
        match fault {
            Fault::AgentPaused => self.regions[r].paused_until = super::TROUBLE,
            Fault::RegionHearsNothing => self.network.deafen(r, super::TROUBLE),
            Fault::StoreLost => self.regions[r].store.lose(),
            _ => self.network.cut(r, super::TROUBLE, |_| true),
        }
        self.touch(r);
    }

    fn played_by(&self, role: Role) -> usize {
        (self.first_role + role) % self.regions.len()
    }

    /// What the script has the leader propose when this heartbeat arrives, if anything.
    pub(super) fn proposal(&self, beat: &Heartbeat) -> Option<(Vec<Plan>, Vec<UnitPlan>)> {
        let wishes = self.proposed?;
        let name = |role: Role| self.regions[self.played_by(role)].name.clone();
        let terms: Vec<&Terms> = (0..self.catalogue.places.len()).filter_map(|place| self.watch.terms(place)).collect();
        let holding = |wish: &Wish, whole: Capacity| {
            let part = |wanted: bool| if wanted { whole } else { Capacity::ZERO };
            let borrowed = wish.borrows.iter().map(|lender| (name(*lender), whole)).collect();
            Holding { pool: part(wish.pool), lent: part(wish.lends), borrowed }
        };
        let plan = |terms: &&Terms| {
            let targets = wishes.iter().enumerate().map(|(role, wish)| (name(role), holding(wish, terms.whole)));
            Plan { budget: terms.budget.clone(), targets: targets.collect() }
        };
        let unit_plan = |terms: &&Terms| {
            let id = &terms.budget;
            let window = beat.windows.iter().find(|w| w.policy == id.policy && w.generation == id.generation)?;
            let units = |wish: &Wish| if wish.pool { terms.whole.burst } else { MicroTokens::ZERO };
            let targets = wishes.iter().enumerate().map(|(role, wish)| (name(role), units(wish)));
            Some(UnitPlan { budget: id.clone(), label: window.label, targets: targets.collect() })
        };
        Some((terms.iter().map(plan).collect(), terms.iter().filter_map(unit_plan).collect()))
    }
}
