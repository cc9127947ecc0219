//! The kinds of schedules: under which limits, what goes wrong in them and how often.

use super::fault::Fault;
use super::world::script::{self, Script};
use quorate_shared::policy::Shape;

/// Weights, or thousandths.
pub type Odds = &'static [(Fault, u64)];

/// One kind of schedule.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// In a word or two.
    pub name: &'static str,
    /// How limits count past use: one of these.
    pub shapes: &'static [Shape],
    /// The periods of limits of a flow, in seconds: one of these.
    pub periods: &'static [u64],
    /// Saved up at most, in tokens: one of these.
    pub bursts: &'static [u64],
    /// True if there may be several policies, with two subjects each.
    pub many: bool,
    /// True if each region has a second agent.
    pub several: bool,
    /// True if clients reserve estimates, and settle them.
    pub reserves: bool,
    /// True if in half of the schedules agents may spend something by themselves.
    pub seats: bool,
    /// In so many of a thousand schedules floors may end by themselves, and in so many of a thousand of these all do.
    pub floors_end: (u64, u64),
    /// What may happen at any time, with weights.
    pub troubles: Odds,
    /// What may happen to each message or call, in thousandths, together.
    pub hazards: &'static [Odds],
    /// One of these, in so many of a thousand schedules. Then nothing else happens but to messages and calls.
    pub scripts: &'static [Script],
    /// See [`Self::scripts`].
    pub scripted: u64,
}

const PLAIN: Kind = Kind {
    name: "",
    shapes: &[Shape::Flow],
    periods: &[1, 1, 1, 1, 3],
    bursts: &[2, 12, 30],
    many: false,
    several: false,
    reserves: false,
    seats: false,
    floors_end: (0, 0),
    troubles: &[],
    hazards: &[NETWORK],
    scripts: &[],
    scripted: 500,
};

/// The kinds of schedules, by the seed's remainder.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "everything",
        many: true,
        troubles: &[
            (Fault::RegionCutOff, 8),
            (Fault::RegionCutFromSome, 4),
            (Fault::RegionHearsNothing, 3),
            (Fault::LeaderLost, 4),
            (Fault::LeaderRestarted, 2),
            (Fault::LeaderIsolated, 3),
            (Fault::AgentKilled, 4),
            (Fault::AgentPaused, 3),
            (Fault::MachineSlept, 2),
            (Fault::MachineRebooted, 2),
            (Fault::DiskLost, 1),
            (Fault::StoreLost, 2),
            (Fault::StoreRestored, 2),
            (Fault::StoreFailedOver, 2),
            (Fault::LimitLowered, 2),
            (Fault::LimitRaised, 2),
            (Fault::FloorsDivided, 2),
            (Fault::PeriodChanged, 1),
            (Fault::OverrideChanged, 1),
            (Fault::ModeChanged, 2),
            (Fault::RegionRemoved, 1),
            (Fault::RegionAdded, 2),
            (Fault::PolicyRemoved, 1),
            (Fault::PolicyAdded, 2),
            (Fault::RegionFenced, 1),
            (Fault::ClockForward, 1),
            (Fault::ClockBack, 1),
            (Fault::LeaseChanged, 2),
        ],
        ..PLAIN
    },
    Kind {
        name: "cut off",
        troubles: &[(Fault::RegionCutOff, 8), (Fault::RegionCutFromSome, 2), (Fault::RegionHearsNothing, 4), (Fault::LeaseChanged, 3)],
        ..PLAIN
    },
    Kind {
        name: "stores that fail",
        troubles: &[(Fault::AgentKilled, 2), (Fault::RegionCutOff, 2), (Fault::AgentPaused, 1)],
        hazards: &[NETWORK, CALLS],
        ..PLAIN
    },
    Kind {
        name: "lapses",
        periods: &[1],
        bursts: &[12, 24],
        troubles: &[(Fault::AgentPaused, 6), (Fault::AgentKilled, 3), (Fault::RegionHearsNothing, 1)],
        hazards: &[&[(Fault::MessageLost, 5), (Fault::PlansAtRandom, 150)]],
        scripts: &[script::REFILL_OVER_A_LAPSE],
        ..PLAIN
    },
    Kind {
        name: "leaders that go",
        troubles: &[
            (Fault::LeaderLost, 5),
            (Fault::LeaderRestarted, 3),
            (Fault::LeaderIsolated, 4),
            (Fault::RegionCutOff, 5),
            (Fault::RegionCutFromSome, 3),
            (Fault::RegionHearsNothing, 3),
            (Fault::AgentKilled, 2),
            (Fault::LeaseChanged, 3),
        ],
        ..PLAIN
    },
    Kind {
        name: "policies that change",
        many: true,
        floors_end: (500, 400),
        troubles: &[
            (Fault::LimitLowered, 4),
            (Fault::LimitRaised, 4),
            (Fault::FloorsDivided, 5),
            (Fault::PeriodChanged, 2),
            (Fault::OverrideChanged, 3),
            (Fault::ModeChanged, 4),
            (Fault::RegionRemoved, 2),
            (Fault::RegionAdded, 3),
            (Fault::PolicyRemoved, 2),
            (Fault::PolicyAdded, 4),
            (Fault::RegionFenced, 2),
            (Fault::RegionCutOff, 4),
            (Fault::RegionHearsNothing, 2),
            (Fault::AgentKilled, 2),
            (Fault::DiskLost, 1),
            (Fault::StoreLost, 1),
        ],
        ..PLAIN
    },
    Kind {
        name: "stores that forget",
        troubles: &[
            (Fault::StoreLost, 5),
            (Fault::StoreRestored, 3),
            (Fault::StoreFailedOver, 4),
            (Fault::AgentKilled, 4),
            (Fault::DiskLost, 2),
            (Fault::RegionCutOff, 4),
        ],
        scripts: &[script::USED_UP_AND_FORGOTTEN],
        scripted: 200,
        ..PLAIN
    },
    Kind {
        name: "clocks that jump",
        troubles: &[
            (Fault::MachineSlept, 3),
            (Fault::MachineRebooted, 4),
            (Fault::AgentPaused, 3),
            (Fault::ClockForward, 3),
            (Fault::ClockBack, 3),
            (Fault::RegionCutOff, 5),
            (Fault::LeaderRestarted, 2),
        ],
        ..PLAIN
    },
    Kind {
        name: "past use that counts",
        shapes: &[Shape::Share],
        troubles: &[
            (Fault::RegionCutOff, 8),
            (Fault::RegionHearsNothing, 4),
            (Fault::LeaderLost, 3),
            (Fault::LeaderRestarted, 2),
            (Fault::LeaderIsolated, 2),
            (Fault::AgentKilled, 4),
            (Fault::AgentPaused, 3),
            (Fault::StoreLost, 2),
            (Fault::StoreFailedOver, 2),
            (Fault::LimitLowered, 3),
            (Fault::LimitRaised, 3),
            (Fault::FloorsDivided, 4),
            (Fault::OverrideChanged, 1),
            (Fault::ModeChanged, 2),
            (Fault::RegionRemoved, 1),
            (Fault::RegionAdded, 2),
            (Fault::RegionFenced, 1),
            (Fault::LeaseChanged, 3),
        ],
        hazards: &[NETWORK, &[(Fault::PlansAtRandom, 250)]],
        scripts: &[script::LENDS_WHILE_A_LOAN_LAPSES, script::LENDER_THAT_HEARS_AGAIN, script::USE_BEFORE_THE_END],
        ..PLAIN
    },
    Kind {
        name: "windows with labels",
        shapes: &[Shape::Allowance],
        troubles: &[
            (Fault::RegionCutOff, 6),
            (Fault::RegionHearsNothing, 4),
            (Fault::LeaderLost, 3),
            (Fault::LeaderIsolated, 2),
            (Fault::AgentKilled, 4),
            (Fault::AgentPaused, 3),
            (Fault::StoreLost, 2),
            (Fault::StoreFailedOver, 2),
            (Fault::ClockForward, 3),
            (Fault::ClockBack, 3),
            (Fault::LimitLowered, 5),
            (Fault::LimitRaised, 5),
            (Fault::FloorsDivided, 6),
            (Fault::OverrideChanged, 1),
            (Fault::ModeChanged, 2),
            (Fault::RegionRemoved, 1),
            (Fault::RegionAdded, 2),
        ],
        hazards: &[NETWORK, &[(Fault::PlansAtRandom, 100)]],
        scripts: &[script::GRANT_TAKEN_BACK_UNHEARD],
        scripted: 200,
        ..PLAIN
    },
    Kind {
        name: "several agents",
        shapes: &[Shape::Flow, Shape::Flow, Shape::Share, Shape::Allowance],
        several: true,
        floors_end: (250, 0),
        troubles: &[
            (Fault::RegionCutOff, 8),
            (Fault::RegionHearsNothing, 4),
            (Fault::LeaderLost, 2),
            (Fault::AgentKilled, 5),
            (Fault::AgentPaused, 4),
            (Fault::FollowerReplaced, 4),
            (Fault::StoreLost, 2),
            (Fault::StoreFailedOver, 2),
            (Fault::LimitLowered, 2),
            (Fault::LimitRaised, 1),
            (Fault::FloorsDivided, 2),
            (Fault::LeaseChanged, 2),
        ],
        hazards: &[NETWORK, CALLS],
        ..PLAIN
    },
    Kind {
        name: "any plans",
        seats: true,
        shapes: &[Shape::Flow, Shape::Flow, Shape::Share, Shape::Allowance],
        bursts: &[12, 30, 60],
        troubles: &[
            (Fault::RegionCutOff, 8),
            (Fault::RegionHearsNothing, 4),
            (Fault::LeaderLost, 2),
            (Fault::LeaderIsolated, 2),
            (Fault::AgentKilled, 3),
            (Fault::AgentPaused, 5),
            (Fault::MachineRebooted, 1),
            (Fault::StoreLost, 1),
            (Fault::StoreFailedOver, 1),
            (Fault::LimitLowered, 2),
            (Fault::LimitRaised, 2),
            (Fault::FloorsDivided, 3),
            (Fault::LeaseChanged, 2),
        ],
        hazards: &[NETWORK, &[(Fault::PlansAtRandom, 600)]],
        ..PLAIN
    },
];

/// Kinds that came later. They take every eighth round, so that all other seeds stay the schedules that they were.
pub const LATER: &[Kind] = &[
    Kind {
        name: "algorithms that change",
        shapes: &[Shape::Flow, Shape::Share, Shape::Allowance],
        bursts: &[12, 30],
        many: true,
        troubles: &[
            (Fault::AlgorithmChanged, 12),
            (Fault::PeriodChanged, 3),
            (Fault::LimitLowered, 3),
            (Fault::LimitRaised, 2),
            (Fault::FloorsDivided, 2),
            (Fault::OverrideChanged, 1),
            (Fault::ModeChanged, 1),
            (Fault::RegionCutOff, 6),
            (Fault::RegionCutFromSome, 2),
            (Fault::RegionHearsNothing, 4),
            (Fault::LeaderLost, 2),
            (Fault::LeaderRestarted, 1),
            (Fault::AgentKilled, 3),
            (Fault::AgentPaused, 3),
            (Fault::DiskLost, 1),
            (Fault::StoreLost, 1),
            (Fault::StoreFailedOver, 1),
            (Fault::LeaseChanged, 1),
        ],
        hazards: &[NETWORK, &[(Fault::PlansAtRandom, 100)]],
        ..PLAIN
    },
    Kind {
        name: "changes that are withdrawn",
        seats: true,
        floors_end: (250, 0),
        shapes: &[Shape::Flow, Shape::Share, Shape::Allowance],
        bursts: &[12, 30],
        many: true,
        troubles: &[
            (Fault::ChangeReplaced, 16),
            (Fault::ChangeWithdrawn, 12),
            (Fault::LimitLowered, 8),
            (Fault::LimitRaised, 2),
            (Fault::FloorsDivided, 4),
            (Fault::AlgorithmChanged, 4),
            (Fault::OverrideChanged, 1),
            (Fault::ModeChanged, 2),
            (Fault::RegionRemoved, 1),
            (Fault::RegionAdded, 2),
            (Fault::PolicyRemoved, 1),
            (Fault::PolicyAdded, 2),
            (Fault::RegionCutOff, 6),
            (Fault::RegionCutFromSome, 2),
            (Fault::RegionHearsNothing, 4),
            (Fault::LeaderLost, 2),
            (Fault::AgentKilled, 3),
            (Fault::AgentPaused, 3),
            (Fault::StoreLost, 1),
            (Fault::StoreFailedOver, 1),
            (Fault::LeaseChanged, 1),
        ],
        hazards: &[NETWORK, &[(Fault::PlansAtRandom, 100)]],
        ..PLAIN
    },
];

/// One in sixty-four rounds is of these, for the same reason.
const LATEST: &[Kind] = &[Kind {
    name: "coordinators restored",
    seats: true,
    shapes: &[Shape::Flow, Shape::Share, Shape::Allowance],
    bursts: &[12, 30],
    many: true,
    troubles: &[
        (Fault::CoordinatorsRestored, 8),
        (Fault::AlgorithmChanged, 2),
        (Fault::LimitLowered, 3),
        (Fault::LimitRaised, 3),
        (Fault::FloorsDivided, 4),
        (Fault::OverrideChanged, 1),
        (Fault::RegionRemoved, 1),
        (Fault::RegionAdded, 2),
        (Fault::PolicyRemoved, 1),
        (Fault::PolicyAdded, 1),
        (Fault::RegionFenced, 1),
        (Fault::RegionCutOff, 5),
        (Fault::RegionHearsNothing, 3),
        (Fault::LeaderLost, 2),
        (Fault::LeaderIsolated, 1),
        (Fault::AgentKilled, 3),
        (Fault::AgentPaused, 2),
        (Fault::StoreLost, 1),
        (Fault::LeaseChanged, 2),
    ],
    hazards: &[NETWORK, &[(Fault::PlansAtRandom, 300)]],
    ..PLAIN
}];

/// So is another one in sixty-four.
const COSTS: Kind = Kind {
    name: "costs that are settled",
    reserves: true,
    shapes: &[Shape::Flow, Shape::Flow, Shape::Share, Shape::Allowance],
    bursts: &[12, 30],
    troubles: &[
        (Fault::RegionCutOff, 6),
        (Fault::RegionHearsNothing, 4),
        (Fault::LeaderLost, 2),
        (Fault::AgentKilled, 4),
        (Fault::AgentPaused, 4),
        (Fault::StoreLost, 2),
        (Fault::StoreRestored, 2),
        (Fault::StoreFailedOver, 2),
        (Fault::ClockBack, 2),
        (Fault::LimitLowered, 3),
        (Fault::LimitRaised, 3),
        (Fault::FloorsDivided, 4),
        (Fault::LeaseChanged, 1),
    ],
    hazards: &[NETWORK, &[(Fault::PlansAtRandom, 200)]],
    ..PLAIN
};

/// A round of seeds has one for each of [`KINDS`].
const ROUND: u64 = KINDS.len() as u64;

/// The kind of a seed.
pub fn of(seed: u64) -> Kind {
    let place = (seed % ROUND) as usize;
    match seed / ROUND % 64 {
        63 => LATEST[place % LATEST.len()],
        31 => COSTS,
        round if round % 8 == 7 => LATER[place % LATER.len()],
        _ => KINDS[place],
    }
}

/// Every kind.
pub fn all() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().chain(LATER).chain(LATEST).chain([&COSTS])
}

/// The seeds of a kind.
pub fn seeds_of(name: &str) -> impl Iterator<Item = u64> {
    (0..).filter(move |seed| of(*seed).name == name)
}

const NETWORK: Odds = &[
    (Fault::MessageLost, 40),
    (Fault::MessageLate, 40),
    (Fault::HeartbeatDoubled, 20),
    (Fault::AnswerDoubled, 20),
    (Fault::CommitLate, 30),
    (Fault::AnswerOfStoreLate, 10),
    (Fault::StoreSlow, 4),
];

/// What an agent asks of its store fails often.
const CALLS: Odds = &[
    (Fault::StoreSlow, 36),
    (Fault::CallRefused, 15),
    (Fault::CallCutShort, 15),
    (Fault::AgentKilledInStep, 12),
    (Fault::AnswerOfStoreLate, 50),
];
