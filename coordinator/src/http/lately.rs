//! `GET /v1/changes`: what has changed of late, as the leader saw it.
//!
//! For display: the newest changes of regions, stores, leader and policy set, in memory, since this node leads. What must
//! last is in the log.

use super::{App, views};
use crate::author;
use axum::Json;
use axum::extract::State;
use parking_lot::Mutex;
use quorate_shared::api::{RegionState, Regions};
use quorate_shared::problem::Problem;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use utoipa::ToSchema;

/// Changes that are kept.
const KEPT: usize = 200;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Change {
    /// Unix milliseconds, by this node's wall clock.
    pub at_ms: u64,
    /// `leader`, `policies`, `session`, `store` or `agents`.
    pub kind: String,
    /// Which region, if it is of one.
    pub region: Option<String>,
    /// What it is now, in words.
    pub what: String,
    /// True of what somebody should look at.
    pub bad: bool,
}

/// `GET /v1/changes`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Changes {
    /// Newest first.
    pub changes: Vec<Change>,
}

/// The newest changes.
#[derive(Debug, Default)]
pub struct Lately(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    changes: VecDeque<Change>,
    last: Option<Sight>,
}

/// What is compared with what was before.
#[derive(Clone, Debug, Default)]
struct Sight {
    term: u64,
    policies: (u64, u64),
    regions: BTreeMap<String, RegionState>,
}

/// The newest changes.
#[utoipa::path(get, path = "/v1/changes", tag = "views", responses((status = 200, body = Changes), (status = "default", body = Problem, content_type = "application/problem+json", description = "Why not.")))]
pub async fn show(State(app): State<Arc<App>>) -> Json<Changes> {
    Json(app.lately.newest(KEPT))
}

impl Lately {
    /// The newest changes, so many at most.
    pub fn newest(&self, most: usize) -> Changes {
        Changes { changes: self.0.lock().changes.iter().rev().take(most).cloned().collect() }
    }

    /// Looks for changes, if this node leads; else forgets what it compared with.
    pub fn look(&self, app: &App) {
        let sight = app.node.leadership().borrow().here.then(|| {
            let Regions { regions } = views::regions_here(app);
            let policies = app.node.read(|ledger| (ledger.active_policies().version, ledger.newest_policies().version));
            let regions = regions.into_iter().map(|region| (region.region.clone(), region)).collect();
            Sight { term: app.node.status().term, policies, regions }
        });
        self.0.lock().compare(sight, author::now("", None).when_ms, app.node.status().node);
    }
}

impl Seen {
    fn compare(&mut self, sight: Option<Sight>, at_ms: u64, node: u64) {
        let Some(now) = sight else {
            self.last = None;
            return;
        };
        let before = self.last.take();
        let mut note = |kind: &str, region: Option<&str>, what: String, bad: bool| {
            self.changes.push_back(Change { at_ms, kind: kind.to_owned(), region: region.map(str::to_owned), what, bad });
        };
        match &before {
            Some(before) if before.term == now.term => {}
            _ => note("leader", None, format!("node {node} leads, term {}", now.term), false),
        }
        if let Some(before) = before {
            if let Some(what) = of_policies(before.policies, now.policies) {
                note("policies", None, what, false);
            }
            for (name, region) in &now.regions {
                for (kind, what, bad) in of_region(before.regions.get(name), region) {
                    note(kind, Some(name), what, bad);
                }
            }
            for name in before.regions.keys().filter(|name| !now.regions.contains_key(*name)) {
                note("session", Some(name), "no longer in the policy set".to_owned(), false);
            }
        }
        self.changes.drain(..self.changes.len().saturating_sub(KEPT));
        self.last = Some(now);
    }
}

/// Versions in force, and newest.
fn of_policies(before: (u64, u64), now: (u64, u64)) -> Option<String> {
    match now {
        now if now == before => None,
        (active, newest) if active == newest => Some(format!("version {active} is in force")),
        (active, newest) => Some(format!("version {newest} is accepted; {active} is in force until all have confirmed it")),
    }
}

fn of_region(before: Option<&RegionState>, now: &RegionState) -> Vec<(&'static str, String, bool)> {
    let mut found = Vec::new();
    let unknown = RegionState { state: "unknown".to_owned(), mode: "floor".to_owned(), ..RegionState::default() };
    if before.is_none() {
        found.push(("session", "named by the policy set".to_owned(), false));
    }
    let before = before.unwrap_or(&unknown);
    if before.state != now.state || before.mode != now.mode {
        let (what, bad) = match (now.state.as_str(), now.mode.as_str()) {
            (_, "conflict") => ("two stores serve it: their agents\u{2019} sessions overtake each other", true),
            ("live", _) => ("reached: it has a lease", false),
            ("expired", _) => ("cut off: its lease has ended, it goes by its floors", true),
            _ => ("not heard of yet", false),
        };
        found.push(("session", what.to_owned(), bad));
    }
    if before.session != now.session && before.session > 0 {
        found.push(("session", format!("session {} began", now.session), false));
    }
    if before.store.healthy != now.store.healthy && !before.store.kind.is_empty() {
        let what = if now.store.healthy { "its store answers again" } else { "its store fails: agents fall back" };
        found.push(("store", what.to_owned(), !now.store.healthy));
    }
    if before.agents != now.agents && !before.agents.is_empty() {
        found.push(("agents", format!("agents: {}", now.agents.join(", ")), false));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_shared::api::StoreStatus;

    fn region(state: &str, healthy: bool) -> RegionState {
        let store = StoreStatus { kind: "redis".into(), healthy, ..StoreStatus::default() };
        let mode = if state == "live" { "leased" } else { "floor" };
        RegionState { region: "eu".into(), state: state.into(), mode: mode.into(), session: 1, store, ..RegionState::default() }
    }

    fn sight(term: u64, policies: (u64, u64), eu: RegionState) -> Sight {
        Sight { term, policies, regions: BTreeMap::from([("eu".to_owned(), eu)]) }
    }

    fn told(seen: &Seen) -> Vec<(u64, &str, bool)> {
        seen.changes.iter().map(|change| (change.at_ms, change.kind.as_str(), change.bad)).collect()
    }

    #[test]
    fn what_differs_is_told_once() {
        let mut seen = Seen::default();
        let steps = [
            sight(1, (1, 1), region("live", true)),
            sight(1, (1, 1), region("live", true)),
            sight(1, (1, 1), region("expired", true)),
            sight(1, (1, 2), region("live", false)),
            sight(2, (2, 2), region("live", true)),
        ];
        for (at, step) in (10..).zip(steps) {
            seen.compare(Some(step), at, 1);
        }
        let session = |at, bad| (at, "session", bad);
        assert_eq!(
            told(&seen),
            [
                (10, "leader", false),
                session(12, true),
                (13, "policies", false),
                session(13, false),
                (13, "store", true),
                (14, "leader", false),
                (14, "policies", false),
                (14, "store", false),
            ]
        );
    }

    #[test]
    fn of_a_region_that_is_new_its_state_is_told_too() {
        let told = |now: &RegionState| of_region(None, now).into_iter().map(|(_, what, _)| what).collect::<Vec<_>>();
        assert_eq!(told(&region("live", true)), ["named by the policy set", "reached: it has a lease"]);
        assert_eq!(told(&region("unknown", true)), ["named by the policy set"]);
    }

    #[test]
    fn a_node_that_led_before_compares_with_nothing_and_keeps_no_more_than_it_may() {
        let mut seen = Seen::default();
        seen.compare(Some(sight(1, (1, 1), region("live", true))), 1, 1);
        seen.compare(None, 2, 1);
        seen.compare(Some(sight(3, (1, 1), region("expired", true))), 3, 1);
        assert_eq!(told(&seen), [(1, "leader", false), (3, "leader", false)], "what happened in between it did not see");
        for at in 0..KEPT as u64 {
            let state = if at % 2 == 0 { "live" } else { "expired" };
            seen.compare(Some(sight(3, (1, 1), region(state, true))), 10 + at, 1);
        }
        assert_eq!((seen.changes.len(), seen.changes[KEPT - 1].at_ms), (KEPT, 9 + KEPT as u64));
    }
}
