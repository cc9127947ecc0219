//! What is done to both stores, drawn at random.

use super::super::tokens;
use proptest::prelude::*;
use quorate_shared::heartbeat::{Holding, Number, PoliciesInForce};
use quorate_shared::names::RegionName;
use quorate_shared::policy::{CalendarUnit, Limit, TimeZone, Window};
use quorate_shared::units::{Capacity, MAX_EXACT, MicroTokens};
use std::time::Duration;

/// Budgets that are asked for.
pub const SUBJECTS: usize = 3;

/// What is done to both stores.
#[derive(Clone, Debug)]
pub enum Operation {
    Wait(u64),
    StepBack(u64),
    /// With the most that floors may be in windows up to one, relative to the open one.
    Decide {
        charges: Vec<Option<(Parts, u64, bool)>>,
        view: View,
        former: Option<(i8, MicroTokens)>,
        /// For how long the charges are held, in milliseconds.
        reserve: Option<u64>,
    },
    /// Decisions that are asked for at once, and go in one batch.
    Together(Vec<Operation>),
    /// One of the slots.
    Release {
        which: prop::sample::Index,
    },
    /// One of the holds, by a lease and floors of the moment.
    Settle {
        which: prop::sample::Index,
        cost: u64,
        view: View,
        floors: Parts,
    },
    Usage {
        asked: Vec<bool>,
    },
    Open {
        newer: u64,
        burn: bool,
        policies: PoliciesInForce,
    },
    Draw {
        newer: u64,
    },
    Take {
        response: Response,
    },
    Write {
        response: Response,
        view: View,
        settlements: Vec<Option<(Holding, Option<Parts>)>>,
        grants: Vec<GrantOf>,
    },
    /// `changed`: the former floor, whether a refill is slower now, and whether budgets begin anew. `ahead`: how far the clock must be at least.
    Finish {
        response: Response,
        policies: PoliciesInForce,
        flags: [bool; 3],
        changed: Option<(Capacity, bool, bool)>,
        ahead: Option<i64>,
        /// If other policies are in force from now on: whether the budgets' is among them.
        named: Option<bool>,
    },
    LoseState,
}

/// Floor and lendable part.
pub type Parts = (Capacity, Capacity);

/// Of which subject, of which window relative to the open one, units, and the most used.
pub type GrantOf = (usize, i8, MicroTokens, MicroTokens);

/// A response relative to a number of the record: mostly the next or that one.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    pub sessions: i64,
    pub seqs: i64,
}

impl Response {
    pub const PRESENT: Self = Self { sessions: 0, seqs: 0 };
    pub const NEXT: Self = Self { sessions: 0, seqs: 1 };

    pub fn after(self, number: Number) -> Number {
        Number { session: number.session.saturating_add_signed(self.sessions), seq: number.seq.saturating_add_signed(self.seqs) }
    }
}

/// The lease as the asker sees it.
#[derive(Clone, Debug)]
pub struct View {
    pub leased: bool,
    pub whole_floor: bool,
    /// Microseconds since the floor may be whole.
    pub passed: u64,
    /// Microseconds since a coordinator was heard.
    pub unheard: u64,
    pub standing: Vec<RegionName>,
    pub dated: Response,
    pub policies: Option<PoliciesInForce>,
}

/// How one budget is counted.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Bucket(Duration),
    Log(Duration),
    Sliding(Duration),
    Fixed(Window),
    Slots(Duration),
}

impl Kind {
    /// The limit of a budget of which this is the whole.
    pub fn limit(self, whole: Capacity) -> Limit {
        match self {
            Self::Bucket(period) => Limit::TokenBucket { rate: whole.rate, period, burst: whole.burst },
            Self::Log(window) => Limit::SlidingLog { units: whole.burst, window },
            Self::Sliding(window) => Limit::SlidingWindow { units: whole.burst, window },
            Self::Fixed(window) => Limit::FixedWindow { units: whole.burst, window },
            Self::Slots(max_hold) => Limit::Concurrency { slots: whole.burst, max_hold },
        }
    }
}

/// Buckets of any period.
pub fn buckets() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(1u64), 1..1_000u64, Just(1_000_000), Just(60_000_000), 1..=129_600_000_000u64, Just(129_600_000_000u64)]
        .prop_map(|micros| Kind::Bucket(Duration::from_micros(micros)))
}

/// Logs and counts over windows of any length.
pub fn shares() -> impl Strategy<Value = Kind> {
    let century = 100 * 365 * 86_400_000_000u64;
    let window = prop_oneof![
        1 => Just(1u64),
        1 => 1..1_000u64,
        3 => Just(1_000_000),
        3 => Just(60_000_000),
        1 => 1..=129_600_000_000u64,
        1 => 1..=century,
        1 => Just(century),
    ];
    (window, proptest::sample::select(vec![Kind::Log as fn(Duration) -> Kind, Kind::Sliding, Kind::Slots]))
        .prop_map(|(micros, kind)| kind(Duration::from_micros(micros)))
}

/// Windows of any length, and of the calendar.
pub fn windows() -> impl Strategy<Value = Kind> {
    let every = prop_oneof![Just(1_000u64), Just(2_000_000), Just(60_000_000), Just(86_400_000_000), (1..1_000_000u64).prop_map(|n| n * 2)];
    let zone = proptest::sample::select(vec!["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia"]);
    let calendar = (proptest::sample::select(CalendarUnit::ALL.to_vec()), zone);
    prop_oneof![
        every.prop_map(|micros| Kind::Fixed(Window::Every(Duration::from_micros(micros)))),
        calendar.prop_map(|(unit, zone)| Kind::Fixed(Window::Calendar { unit, zone: TimeZone::named(zone).expect("a zone") })),
    ]
}

fn grant() -> impl Strategy<Value = GrantOf> {
    (0..SUBJECTS, prop_oneof![1 => Just(-1i8), 5 => Just(0), 1 => Just(1)], amount(), amount())
}

fn amount() -> impl Strategy<Value = MicroTokens> {
    prop_oneof![
        Just(0),
        0..5u64,
        (0..50u64).prop_map(|n| n * 1_000_000),
        0..10_000_000_000u64,
        0..=MAX_EXACT,
        Just(MAX_EXACT),
        Just(u64::MAX),
    ]
    .prop_map(MicroTokens)
}

fn part() -> impl Strategy<Value = Capacity> {
    (amount(), amount()).prop_map(|(rate, burst)| Capacity::new(rate, burst))
}

fn parts() -> impl Strategy<Value = Parts> {
    let floor = prop_oneof![3 => Just(Capacity::new(tokens(10), tokens(20))), 2 => part()];
    (floor, part()).prop_map(|(floor, lendable)| (floor, lendable.min(floor)))
}

fn lenders() -> impl Strategy<Value = Vec<RegionName>> {
    proptest::sample::subsequence(vec!["ap", "us"], 0..=2).prop_map(|names| names.into_iter().map(|n| n.parse().expect("a name")).collect())
}

fn holding() -> impl Strategy<Value = Holding> {
    let part = prop_oneof![Just(Capacity::ZERO), part()].boxed();
    let full = (part.clone(), part.clone(), lenders(), part.clone(), part).prop_map(|(pool, lent, lenders, a, b)| Holding {
        pool,
        lent,
        borrowed: lenders.into_iter().zip([a, b]).collect(),
    });
    prop_oneof![1 => Just(Holding::default()), 3 => full]
}

fn policies() -> impl Strategy<Value = PoliciesInForce> {
    prop_oneof![3 => Just((0, None)), 1 => Just((1, Some(2))), 1 => Just((2, None))].prop_map(|(active, next)| PoliciesInForce {
        active,
        next,
        also: None,
    })
}

fn response() -> impl Strategy<Value = Response> {
    (prop_oneof![8 => Just(0i64), 1 => -1..=1i64], prop_oneof![6 => Just(0i64), 4 => Just(1i64), 1 => -2..=3i64])
        .prop_map(|(sessions, seqs)| Response { sessions, seqs })
}

fn view() -> impl Strategy<Value = View> {
    let small = || prop_oneof![12 => Just(0i64), 1 => -1..=1i64];
    let dated = (small(), small()).prop_map(|(sessions, seqs)| Response { sessions, seqs });
    let unheard = prop_oneof![4 => Just(0u64), 1 => Just(2_000_000u64)];
    let floor = (proptest::bool::weighted(0.3), span(), unheard);
    (any::<bool>(), floor, lenders(), dated, proptest::option::weighted(0.05, policies())).prop_map(
        |(leased, (whole_floor, passed, unheard), standing, dated, policies)| View {
            leased,
            whole_floor,
            passed,
            unheard,
            standing,
            dated,
            policies,
        },
    )
}

fn cost() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => Just(0u64),
        4 => Just(1_000_000u64),
        2 => 0..30_000_000u64,
        1 => 0..=MAX_EXACT,
        1 => Just(MAX_EXACT),
        1 => Just(u64::MAX),
    ]
}

fn span() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0u64), 0..100u64, 0..3_000_000u64, 0..120_000_000u64, 0..200_000_000_000u64, Just(10 * 365 * 86_400_000_000u64),]
}

/// The most that floors may be in windows up to one, relative to the open one.
fn former() -> impl Strategy<Value = Option<(i8, MicroTokens)>> {
    proptest::option::weighted(0.2, (-1..=1i8, amount()))
}

/// Any of them.
pub fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        18 => span().prop_map(Operation::Wait),
        3 => span().prop_map(Operation::StepBack),
        24 => decide(),
        6 => together().prop_map(Operation::Together),
        12 => (any::<prop::sample::Index>(), cost(), view(), parts()).prop_map(|(which, cost, view, floors)| Operation::Settle { which, cost: cost.min(MAX_EXACT), view, floors }),
        12 => any::<prop::sample::Index>().prop_map(|which| Operation::Release { which }),
        6 => proptest::collection::vec(any::<bool>(), SUBJECTS).prop_map(|asked| Operation::Usage { asked }),
        3 => (0..3u64, proptest::bool::weighted(0.2), policies()).prop_map(|(newer, burn, policies)| Operation::Open { newer, burn, policies }),
        3 => (0..2u64).prop_map(|newer| Operation::Draw { newer }),
        9 => response().prop_map(|response| Operation::Take { response }),
        12 => (response(), view(), proptest::collection::vec(proptest::option::weighted(0.6, (holding(), proptest::option::weighted(0.9, parts()))), SUBJECTS), proptest::collection::vec(grant(), 0..4))
            .prop_map(|(response, view, settlements, grants)| Operation::Write { response, view, settlements, grants }),
        9 => (response(), policies(), any::<[bool; 3]>(), proptest::option::weighted(0.3, (part(), any::<bool>(), proptest::bool::weighted(0.3))), proptest::option::weighted(0.1, -1_000_000_000..1_000_000_000i64), proptest::option::weighted(0.3, any::<bool>()))
            .prop_map(|(response, policies, flags, changed, ahead, named)| Operation::Finish { response, policies, flags, changed, ahead, named }),
        1 => Just(Operation::LoseState),
    ]
}

#[rustfmt::skip]
fn decide() -> impl Strategy<Value = Operation> {
    (proptest::collection::vec(proptest::option::weighted(0.5, (parts(), cost(), proptest::bool::weighted(0.8))), SUBJECTS), view(), former(), proptest::option::weighted(0.3, 60_000..=600_000u64))
        .prop_map(|(charges, view, former, reserve)| Operation::Decide { charges, view, former, reserve })
}

/// Decisions for one batch: by a few views and ways, so that they have much in common, or by any.
fn together() -> impl Strategy<Value = Vec<Operation>> {
    let by_any = proptest::collection::vec(decide(), 2..8);
    let alike = (proptest::collection::vec(decide(), 1..3), proptest::collection::vec((any::<prop::sample::Index>(), cost()), 2..24));
    let alike = alike.prop_map(|(few, asked)| asked.into_iter().map(|(which, cost)| at_cost(which.get(&few).clone(), cost)).collect());
    prop_oneof![by_any, alike]
}

fn at_cost(mut operation: Operation, cost: u64) -> Operation {
    if let Operation::Decide { charges, .. } = &mut operation {
        charges.iter_mut().flatten().for_each(|(_, its, _)| *its = cost);
    }
    operation
}

/// Other policies are in force, among which the budgets' is no more.
pub fn take_out() -> [Operation; 2] {
    let (policies, flags) = (PoliciesInForce::default(), [false; 3]);
    let finish = Operation::Finish { response: Response::PRESENT, policies, flags, changed: None, ahead: None, named: Some(false) };
    [Operation::Take { response: Response::NEXT }, finish]
}
