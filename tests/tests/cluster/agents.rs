//! Two agents in each region: one renews, both serve; the one that renews is killed, stopped, or ends.

use crate::load::Load;
use crate::records::Outcome;
use crate::relay::Way;
use crate::system::{DEMAND, Floors, LEASE, PATIENCE, POOL, RATE, REGIONS, System};
use quorate_faults::process::Signal;
use quorate_faults::pulse::Pulse;
use quorate_faults::wait::until;
use quorate_shared::api::{AgentStatus, DecisionMode};
use std::time::{Duration, Instant};

/// Matches the policy that loads meet.
const WRITE: [(&str, &str); 2] = [("route", "write"), ("tenant", "acme")];

/// Who renews, as this agent knows it.
fn renewing(status: &AgentStatus) -> Option<&str> {
    status.agents.iter().find(|agent| agent.renews).map(|agent| agent.agent.as_str())
}

/// Waits until this agent renews, in a session greater than `before`, and is leased.
async fn wait_until_it_renews(system: &System, agent: &str, before: u64) -> AgentStatus {
    let renews = |status: &AgentStatus| renewing(status) == Some(agent) && status.mode == "leased" && status.session > before;
    until(&format!("{agent} renews"), PATIENCE, async || system.status(agent).await.filter(renews)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_agents_of_a_region_serve_its_lease_and_the_coordinators_know_them() {
    let system = System::start_in_pairs(Floors::WithPool).await;
    let leader = system.leader().await;
    for region in REGIONS {
        let second = format!("{region}-b");
        let known = until("the coordinators know both", PATIENCE, async || {
            let regions = system.regions(leader).await?.regions;
            regions.into_iter().find(|state| state.region == region && state.agents.len() == 2)
        })
        .await;
        assert_eq!((known.agents, known.renewed_by), (vec![region.to_owned(), second.clone()], Some(region.to_owned())));
        let seats = |status: &AgentStatus| status.agents.iter().filter_map(|agent| agent.seat).collect::<Vec<u32>>();
        let see = |status: &AgentStatus| status.agents.len() == 2 && seats(status) == [1];
        let status =
            until("they see each other, and who has the one seat", PATIENCE, async || system.status(&second).await.filter(see)).await;
        assert_eq!((renewing(&status), status.session), (Some(region), system.status(region).await.expect("it answers").session));
    }
    // nobody asks the second agent for longer than a lease; then it serves what is leased at once
    tokio::time::sleep(2 * LEASE).await;
    let answer = system.look("us-b", &WRITE).await.expect("it answers");
    assert_eq!(answer.limits[0].mode, DecisionMode::Leased);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_second_agent_is_asked_for_is_wanted_by_its_region() {
    let system = System::start_in_pairs(Floors::WithPool).await;
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let url = format!("{}/v1/check", system.agent_url("us-b"));
    let body = serde_json::json!({"attributes": {"route": "write", "tenant": "acme"}});
    let held = until("the region holds the pool", PATIENCE, async || {
        for _ in 0..20 {
            client.post(&url).json(&body).send().await.ok()?;
        }
        let held = system.status("us").await?.budgets.iter().map(|budget| budget.pool.rate).sum::<f64>();
        (held >= POOL / 2.0).then_some(held)
    })
    .await;
    println!("{held} of the pool for the demand that only the second agent saw");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_renewed_and_was_killed_is_replaced_within_a_lease() {
    let mut system = System::start_in_pairs(Floors::WithPool).await;
    let load = Load::on(&system);
    load.set_all(DEMAND);
    system.wait_until_they_hold_the_pool(&REGIONS).await;
    let before = system.status("us").await.expect("it answers");

    let pulse = Pulse::begin();
    system.kill_agent("us");
    let killed = Instant::now();
    wait_until_it_renews(&system, "us-b", before.session).await;
    let after = killed.elapsed();
    println!("leased again {after:?} after the kill");
    assert!(after < pulse.allows(LEASE), "{after:?}");
    // every second request of one region meets an agent that is gone
    load.served(&REGIONS, 0.6 * f64::from(RATE), LEASE).await;
    system.start_agent("us");
    let first = until("the first is back, and follows", PATIENCE, async || {
        system.status("us").await.filter(|status| renewing(status) == Some("us-b") && status.mode == "leased")
    })
    .await;
    assert!(first.session > before.session);
    load.stop().await.expect_no_overshoot();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_was_killed_has_the_seat_of_its_former_life_at_once() {
    let mut system = System::start(Floors::SetAside).await;
    let has_seat = async |system: &System| until("us has a seat", PATIENCE, async || system.status("us").await?.seat).await;
    let before = has_seat(&system).await;
    let load = Load::on(&system);
    load.set_all(DEMAND);
    system.kill_agent("us");
    system.start_agent("us");
    let after = has_seat(&system).await;
    assert_eq!(after.seat, before.seat);

    system.signal_store("us", Signal::STOP);
    let paused = load.now();
    until("it is spent without the store", PATIENCE, async || {
        let by_seat = |outcome| outcome == Outcome::Admitted(DecisionMode::Emergency);
        let spent = load.records().in_region("us").filter(|record| record.sent >= paused && by_seat(record.outcome)).count();
        (spent >= 20).then_some(())
    })
    .await;
    system.signal_store("us", Signal::CONT);
    until("the store decides again", PATIENCE, async || system.status("us").await?.seat.filter(|seat| !seat.spends)).await;
    load.stop().await.expect_no_overshoot();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_was_stopped_for_longer_than_a_lease_uses_nothing_of_it() {
    let system = System::start_in_pairs(Floors::WithPool).await;
    let load = Load::on(&system);
    load.set_all(DEMAND);
    system.wait_until_they_hold_the_pool(&REGIONS).await;
    let before = system.status("us").await.expect("it answers");

    system.signal_agent("us", Signal::STOP);
    wait_until_it_renews(&system, "us-b", before.session).await;
    load.measure(2 * LEASE).await;
    system.signal_agent("us", Signal::CONT);
    until("the first follows", PATIENCE, async || {
        system.status("us").await.filter(|status| renewing(status) == Some("us-b") && status.mode == "leased")
    })
    .await;
    load.measure(LEASE).await;
    load.stop().await.expect_no_overshoot();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_ends_hands_its_turn_over_at_once() {
    let system = System::start_in_pairs(Floors::WithPool).await;
    let load = Load::on(&system);
    load.set_all(DEMAND);
    system.wait_until_they_hold_the_pool(&REGIONS).await;
    let before = system.status("us").await.expect("it answers");

    let pulse = Pulse::begin();
    system.signal_agent("us", Signal::TERM);
    let ended = Instant::now();
    wait_until_it_renews(&system, "us-b", before.session).await;
    let after = ended.elapsed();
    println!("leased again {after:?} after the end");
    assert!(after < pulse.allows(LEASE / 2), "{after:?}: as if it had died");
    load.measure(Duration::from_secs(1)).await;
    load.stop().await.expect_no_overshoot();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_no_coordinator_answers_leaves_the_lease_to_one_that_reaches_them() {
    let system = System::start_in_pairs(Floors::WithPool).await;
    let load = Load::on(&system);
    load.set_all(DEMAND);
    system.wait_until_they_hold_the_pool(&REGIONS).await;
    let before = system.status("us").await.expect("it answers");

    system.set_way_of("us", Way::Refused).await;
    let cut = Instant::now();
    let after = wait_until_it_renews(&system, "us-b", before.session).await;
    println!("leased again {:?} after the cut", cut.elapsed());
    load.measure(2 * LEASE).await;
    system.set_way_of("us", Way::Open).await;
    load.measure(LEASE).await;
    let healed = system.status("us").await.expect("it answers");
    assert_eq!((renewing(&healed), healed.mode.as_str(), healed.session), (Some("us-b"), "leased", after.session), "nobody takes it back");
    load.stop().await.expect_no_overshoot();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_stores_that_serve_one_region_the_one_that_came_last_stops() {
    let mut system = System::start(Floors::WithPool).await;
    // longer than a session that counts as short
    tokio::time::sleep(Duration::from_secs(11)).await;
    system.start_agent_on("us-b", "eu");
    let stopped = system.wait_for_mode("us-b", "conflict").await;
    let why = stopped.last_error.unwrap_or_default();
    assert!(why.contains("another store"), "{why}");
    assert!(system.look("us-b", &WRITE).await.is_none(), "it decides nothing any more");
    let leader = system.leader().await;
    until("the leader shows the conflict", PATIENCE, async || {
        let regions = system.regions(leader).await?.regions;
        regions.into_iter().find(|state| state.region == "us" && state.mode == "conflict")
    })
    .await;
    let before = system.wait_for_mode("us", "leased").await;
    tokio::time::sleep(2 * LEASE).await;
    let after = system.status("us").await.expect("it answers");
    assert_eq!((after.mode.as_str(), after.session), ("leased", before.session), "nobody overtakes it any more");
}
