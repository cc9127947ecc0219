//! The store of one region stands still: its agent admits what was set aside for it, and the limit holds.

use crate::load::Load;
use crate::records::Outcome;
use crate::system::{DEMAND, Floors, PATIENCE, REGIONS, System};
use quorate_faults::process::Signal;
use quorate_faults::wait::until;
use quorate_shared::api::DecisionMode;

/// Of the limits whose units do not come back in time, in all regions together.
const UNITS: usize = 60;

/// What of that is set aside for one agent: a fifth of a third.
const ASIDE: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_store_stands_still_admits_what_was_set_aside() {
    let system = System::start(Floors::SetAside).await;
    until("us has a seat", PATIENCE, async || system.status("us").await?.seat).await;
    let load = Load::on(&system);
    load.set_all(DEMAND);
    let emergencies = |from: std::time::Duration| {
        let records = load.records();
        records.in_region("us").filter(|r| r.sent >= from && r.outcome == Outcome::Admitted(DecisionMode::Emergency)).count()
    };

    system.signal_store("us", Signal::STOP);
    let paused = load.now();
    until("us spends by itself", PATIENCE, async || system.status("us").await?.seat.filter(|seat| seat.spends)).await;
    for route in ["spare-window", "spare-log"] {
        let mut admitted = 0;
        for _ in 0..3 * ASIDE {
            match system.ask("us", route).await {
                Outcome::Admitted(mode) => {
                    assert_eq!(mode, DecisionMode::Emergency, "{route}");
                    admitted += 1;
                }
                outcome => assert_eq!(outcome, Outcome::Refused, "{route}"),
            }
        }
        assert_eq!(admitted, ASIDE, "{route}");
    }
    until("some were admitted by what was set aside", PATIENCE, async || (emergencies(paused) >= 20).then_some(())).await;
    assert!(matches!(system.ask("us", "closed").await, Outcome::Failed(503)), "that one asks for nothing else");

    system.signal_store("us", Signal::CONT);
    let resumed = load.now();
    until("the store decides again", PATIENCE, async || {
        let by_store = |mode| mode != DecisionMode::Emergency;
        load.records().in_region("us").any(|r| r.sent >= resumed && r.mode().is_some_and(by_store)).then_some(())
    })
    .await;
    println!("the store decides {:?} after it went on, after {:?}", load.now() - resumed, resumed - paused);
    until("us is well", PATIENCE, async || system.status("us").await?.seat.filter(|seat| !seat.spends)).await;
    load.stop().await.expect_no_overshoot();

    // and what is left is found, asked for until it has come from region to region: all but what is set aside for the other
    // agents, and what the store may have charged for each of the questions that it did not answer in time
    let found = UNITS - (REGIONS.len() - 1) * ASIDE - 3 * ASIDE;
    for route in ["spare-window", "spare-log"] {
        let mut admitted = ASIDE;
        until("what is left is found", PATIENCE, async || {
            for region in REGIONS {
                while matches!(system.ask(region, route).await, Outcome::Admitted(_)) {
                    admitted += 1;
                    assert!(admitted <= UNITS, "{admitted} of {UNITS} of {route}");
                }
            }
            (admitted >= found).then_some(())
        })
        .await;
    }
}
