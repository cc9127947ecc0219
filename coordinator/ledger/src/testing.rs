//! A ledger in a test, and what each region last applied of its answers.

use crate::{Author, Command, Ledger, Outcome};
use quorate_shared::api::PolicyBound;
use quorate_shared::heartbeat::{Answer, Heartbeat, Number, Office, Reading, Report, Response, Stamp, StoreReport};
use quorate_shared::names::{BudgetId, PolicyName, SubjectKey};
use quorate_shared::policy::{Limit, Policy, PolicySet};
use quorate_shared::testing;
use quorate_shared::time::{Drift, LeaderTime};
use quorate_shared::units::{MicroTokens, PartsPerMillion};
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) const LEASE: Duration = Duration::from_secs(4);

pub(crate) fn tokens(n: u64) -> MicroTokens {
    MicroTokens::from_tokens(n).expect("few")
}

/// A limit of `rate` a second and as much at once, of which the floors are this part.
pub(crate) fn set(rate: u64, floor: u32) -> PolicySet {
    set_of(Limit::TokenBucket { rate: tokens(rate), period: Duration::from_secs(1), burst: tokens(rate) }, floor)
}

/// Any limit, of which the floors are this part.
pub(crate) fn set_of(limit: Limit, floor: u32) -> PolicySet {
    let policy = testing::policy(name(), limit, PartsPerMillion(floor));
    let policy = Policy { lendable: PartsPerMillion(900_000), allow_overcommit: floor > 1_000_000, ..policy };
    testing::policy_set(["eu", "us"].map(|region| region.parse().expect("a name")), policy)
}

fn name() -> PolicyName {
    "p".parse().expect("a name")
}

pub(crate) fn budget() -> BudgetId {
    testing::budget(name())
}

pub(crate) fn at(ms: u64) -> LeaderTime {
    LeaderTime::from_micros(ms * 1_000)
}

pub(crate) fn by() -> Author {
    Author { who: "test".into(), when_ms: 0, why: None }
}

/// A ledger of two regions.
pub(crate) struct World {
    pub ledger: Ledger,
    pub office: Office,
    /// Nothing of what regions took before has come down yet, of no policy of which past use counts.
    pub still_counts: bool,
    echoes: BTreeMap<&'static str, Stamp>,
    seqs: BTreeMap<&'static str, u64>,
    admitted: BTreeMap<&'static str, MicroTokens>,
}

impl World {
    pub fn new(rate: u64, floor: u32) -> Self {
        Self::under(set(rate, floor))
    }

    pub fn under(set: PolicySet) -> Self {
        let mut ledger = Ledger::default();
        ledger.apply(1, &Command::Found { subject_key: SubjectKey::new([0; 32]), lease: LEASE, drift: Drift::default() });
        let (echoes, seqs, admitted) = Default::default();
        let mut world = Self { ledger, office: Office { term: 1, process: 1 }, still_counts: false, echoes, seqs, admitted };
        world.change(0, set);
        world
    }

    pub fn change(&mut self, replaces: u64, set: PolicySet) {
        let outcome = self.ledger.apply(self.office.term, &Command::Policies { replaces, set: Box::new(set), by: by() });
        assert!(matches!(outcome, Outcome::Policies { .. }), "{outcome:?}");
    }

    /// One heartbeat, answered and applied at once. A demand of 0 reports nothing.
    pub fn beat(&mut self, region: &'static str, ms: u64, demand: u64) {
        let heartbeat = self.heartbeat(region, demand, MicroTokens::ZERO);
        self.send(region, ms, heartbeat);
    }

    /// The same, of a region whose agent says when it read that so much more was admitted: as it sent
    /// the heartbeat, `trip_ms` before it arrived.
    pub fn report(&mut self, region: &'static str, ms: u64, admitted: MicroTokens, trip_ms: u64) {
        let mut heartbeat = self.heartbeat(region, 1_000, admitted);
        let after = |echo: Stamp| at(ms - trip_ms).since(echo.at);
        heartbeat.clock.read = heartbeat.echo.map(|echo| Reading { after: after(echo), lag: Duration::ZERO });
        self.send(region, ms, heartbeat);
    }

    pub fn heartbeat(&mut self, region: &'static str, demand: u64, admitted: MicroTokens) -> Heartbeat {
        let seq = self.seqs.entry(region).or_default();
        *seq += 1;
        let total = self.admitted.entry(region).or_default();
        *total = total.saturating_add(admitted);
        let report = Report {
            budget: budget(),
            demand: tokens(demand),
            admitted: *total,
            refused: MicroTokens::ZERO,
            estimated: MicroTokens::ZERO,
            largest: MicroTokens::ZERO,
        };
        Heartbeat {
            echo: self.echoes.get(region).copied(),
            floors_drained: self.echoes.get(region).copied().filter(|_| !self.still_counts),
            reports: if demand > 0 { vec![report] } else { vec![] },
            ..Heartbeat::silent(
                region.parse().expect("a name"),
                "a".into(),
                Number { session: 1, seq: *seq },
                1,
                StoreReport::new("memory", true),
            )
        }
    }

    pub fn send(&mut self, region: &'static str, ms: u64, heartbeat: Heartbeat) -> Response {
        let stamped = self.ledger.stamp(heartbeat, self.office, at(ms));
        match self.ledger.apply(self.office.term, &Command::Heartbeat(Box::new(stamped))) {
            Outcome::Heartbeat(Answer::Renewed(response)) => {
                self.echoes.insert(region, response.stamp);
                *response
            }
            other => panic!("not renewed: {other:?}"),
        }
    }

    pub fn bound(&self, ms: u64) -> PolicyBound {
        self.ledger.bounds(Some((self.office, at(ms)))).policies.remove(0)
    }
}
