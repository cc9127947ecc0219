//! A ledger at work, on its way to disk and to peers: nothing of it may be lost or changed.

use super::format::{self, FormatError};
use super::types::Proposal;
use quorate_ledger::{Author, Command, Ledger, MemberOrder, Outcome};
use quorate_shared::bound::Steps;
use quorate_shared::heartbeat::{
    Answer, ClockReport, Excess, Heartbeat, Number, ObservedSteps, Office, Parts, Reading, Report, Stamp, StoreReport,
};
use quorate_shared::names::{BudgetId, SubjectHash, SubjectKey};
use quorate_shared::time::{Drift, LeaderTime, StoreTime};
use quorate_shared::units::MicroTokens;
use std::time::Duration;

const POLICIES: &str = "
regions:
  us: {weight: 2}
  eu: {}
policies:
  - name: write-api
    match: {route: write, method: [PUT, POST], path: /v1/*, user: '*'}
    per: [tenant]
    limit: {algorithm: token-bucket, rate: 100/s, burst: 200}
    floor: 40%
    cost: {attribute: plan, values: {batch: 10}}
    overrides:
      - subject: {tenant: acme}
        limit: {algorithm: token-bucket, rate: 500/s, burst: 1000}
    on-store-failure: closed
    mode: {canary: 10%}
  - name: search
    limit: {algorithm: token-bucket, rate: 5000/min, burst: 7}
";

const KEY: SubjectKey = SubjectKey::new([9; 32]);
const OFFICE: Office = Office { term: 3, process: u64::MAX };

/// A ledger whose every entry went through the log's format, and itself through a snapshot's.
#[derive(Default)]
struct Carried(Ledger);

impl Carried {
    fn apply(&mut self, command: &Command) -> Outcome {
        let carried: Command = again(command);
        assert_eq!(carried, *command);
        let outcome = self.0.apply(OFFICE.term, &carried);
        assert_eq!(again::<Outcome>(&outcome), outcome);
        let carried: Ledger = again(&self.0);
        assert_eq!(carried, self.0);
        self.0 = carried;
        outcome
    }
}

fn again<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    let bytes = format::encode(value).expect("encodes");
    assert_eq!(format::length(value), Ok(bytes.len()));
    format::decode(&bytes).expect("decodes")
}

fn author() -> Author {
    Author { who: "ops".to_owned(), when_ms: 1, why: Some("because".to_owned()) }
}

fn beat(region: &str, seq: u64, echo: Option<Stamp>) -> Heartbeat {
    let reports = ["acme", "umbrella"].map(|tenant| Report {
        budget: budget(tenant),
        demand: MicroTokens(700_000_000 * seq),
        // far more than the limit, so that an overshoot is measured
        admitted: MicroTokens(2_000_000_000 * seq),
        refused: MicroTokens(u64::MAX),
        estimated: MicroTokens(u64::MAX),
        largest: MicroTokens::TOKEN,
    });
    let excess = Excess { policy: budget("acme").policy, settled: MicroTokens(1), outlived: MicroTokens(u64::MAX) };
    Heartbeat {
        echo,
        drained: echo.map(|stamp| (budget("acme"), stamp)).into_iter().collect(),
        floors_drained: echo,
        policies: Some(1),
        reports: reports.to_vec(),
        parts: vec![Parts { policy: budget("acme").policy, most: MicroTokens(u64::MAX) }],
        clock: ClockReport {
            shown: Some(StoreTime::from_micros(seq)),
            read: echo.map(|_| Reading { after: Duration::from_millis(900), lag: Duration::from_millis(50) }),
            steps: Some(ObservedSteps { observer: u64::MAX, steps: Steps { count: seq, total: Duration::from_secs(seq) } }),
        },
        ..Heartbeat::silent(
            region.parse().expect("a name"),
            "a".to_owned(),
            Number { session: 1, seq },
            u64::MAX,
            StoreReport { kind: "redis".to_owned(), healthy: false, excesses: vec![excess] },
        )
    }
}

fn budget(tenant: &str) -> BudgetId {
    let policy = "write-api".parse().expect("a name");
    let subject = SubjectHash::of(&KEY, &policy, [tenant]);
    BudgetId { policy, generation: 1, subject }
}

#[test]
fn a_ledger_at_work_is_carried_unchanged() {
    let mut ledger = Carried::default();
    ledger.apply(&Command::Level { to: 1 });
    ledger.apply(&Command::Found { subject_key: KEY, lease: Duration::from_millis(5_001), drift: Drift::DEFAULT });
    let (set, _) = crate::documents::policy_set(POLICIES.as_bytes()).expect("a policy set");
    ledger.apply(&Command::Policies { replaces: 0, set: Box::new(set), by: author() });
    let mut echoes = [("us", None), ("eu", None)];
    let mut offers = 0;
    for seq in 1..=6 {
        for (region, echo) in &mut echoes {
            let heartbeat = beat(region, seq, *echo);
            let stamped = ledger.0.stamp(heartbeat, OFFICE, LeaderTime::from_micros(seq * 1_000_000));
            match ledger.apply(&Command::Heartbeat(Box::new(stamped))) {
                Outcome::Heartbeat(Answer::Renewed(response)) => {
                    *echo = Some(response.stamp);
                    offers += response.offers.len();
                }
                other => panic!("{other:?}"),
            }
        }
    }
    let bound = ledger.0.bounds(None).policies.remove(0);
    assert!(offers > 0 && bound.measured_overshoot > 0.0, "nothing was at work: {bound:?}");
    ledger.apply(&Command::Lease { lease: Duration::from_secs(7), by: author() });
    ledger.apply(&Command::Fence { region: "eu".parse().expect("a name"), by: author() });
    let BudgetId { policy, subject, .. } = budget("acme");
    ledger.apply(&Command::ClearAlarm { policy: Some(policy), subject: Some(subject), by: author() });
    for order in [MemberOrder::Add { node: 4, address: "d:1".into() }, MemberOrder::Remove { node: 2 }, MemberOrder::Lead { node: None }] {
        ledger.apply(&Command::Members { order, by: author() });
    }
}

#[test]
fn a_command_of_a_later_program_is_not_taken_for_one_that_is_known() {
    #[derive(serde::Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Later {
        Level { to: u32, unless: bool },
        Surprise { at: u64 },
    }
    for later in [Later::Level { to: 1, unless: true }, Later::Surprise { at: 1 }] {
        let bytes = format::encode(&later).expect("encodes");
        let read = format::decode::<Proposal>(&bytes);
        assert!(matches!(&read, Err(FormatError::Unknown(why)) if why.contains("unless") || why.contains("surprise")), "{read:?}");
    }
}
