//! What the processes are told, and how much there is of everything.

use crate::places::REGIONS;
use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

/// How long a region may go on without being heard: as long as the product's default. A heartbeat that is
/// handed on to a leader across an ocean takes most of a second, and one is given up after a second.
pub const LEASE: Duration = Duration::from_secs(5);

/// How often an agent is to be heard.
pub const HEARTBEAT: Duration = Duration::from_millis(300);

/// Agents in each region, unless somebody says otherwise.
pub const AGENTS: usize = 2;

/// Tokens in a second of the policy `bucket`, in all regions together.
pub const RATE: u32 = 40;

/// Its burst. What is admitted too much must exceed what is left of it to be seen, so it is small.
pub const BURST: u32 = 20;

/// Units of the policy `window`, in all regions together.
pub const UNITS: u32 = 24;

/// How long each of its windows lasts.
pub const WINDOW: Duration = Duration::from_secs(4);

/// Slots of the policy `slots`, in all regions together.
pub const SLOTS: u32 = 6;

/// After this a slot is free, whatever its request does.
pub const MAX_HOLD: Duration = Duration::from_secs(2);

/// A busy machine is no failure of the store.
const STORE_TIMEOUT: Duration = Duration::from_millis(500);

/// The silence of a leader after which another is elected, as docs/operations.md advises.
fn election_timeout(round_trip: Duration) -> Duration {
    Duration::from_millis(600).max(6 * round_trip)
}

/// The policy set: a limit of each shape, with a part of it in no floor. Of the bucket something is set aside for each
/// agent without its store: more than a token.
pub fn policies() -> String {
    let regions = REGIONS.map(|region| format!("{region}: {{agents: {AGENTS}}}")).join(", ");
    format!(
        "regions: {{{regions}}}\n\
         policies:\n\
         - name: bucket\n  match: {{route: bucket}}\n  per: [tenant]\n  floor: 60%\n  on-store-failure: emergency\n  \
         emergency: 60%\n  \
         limit: {{algorithm: token-bucket, rate: {RATE}/s, burst: {BURST}}}\n\
         - name: window\n  match: {{route: window}}\n  per: [tenant]\n  floor: 30%\n  on-store-failure: closed\n  \
         limit: {{algorithm: fixed-window, units: {UNITS}, window: {}s}}\n\
         - name: slots\n  match: {{route: slots}}\n  per: [tenant]\n  floor: 50%\n  on-store-failure: closed\n  \
         limit: {{algorithm: concurrency, slots: {SLOTS}, max-hold: {}s}}\n",
        WINDOW.as_secs(),
        MAX_HOLD.as_secs()
    )
}

/// Of one coordinator, which the others reach at its entry of `members`.
pub fn coordinator(node: u64, listen: SocketAddr, members: &[(u64, SocketAddr)], round_trip: Duration) -> String {
    let mut text = format!(
        "node = {node}\nlisten = \"{listen}\"\ndata-dir = \"coordinator-{node}\"\nlease = \"{LEASE:?}\"\n\
         election-timeout = \"{}ms\"\npolicies = \"policies.yaml\"\n[members]\n",
        election_timeout(round_trip).as_millis()
    );
    for (node, address) in members {
        // writing to a String does not fail
        let _ = writeln!(text, "{node} = \"{address}\"");
    }
    text
}

/// Of one agent.
pub fn agent(region: &str, name: &str, listen: SocketAddr, coordinators: &[String], store: SocketAddr) -> String {
    format!(
        "region = \"{region}\"\nname = \"{name}\"\nlisten = \"{listen}\"\ncoordinators = {coordinators:?}\ndata-dir = \"{name}\"\n\
         store = {{ kind = \"redis\", url = \"redis://{store}\" }}\nstore-timeout = \"{STORE_TIMEOUT:?}\"\nheartbeat = \"{HEARTBEAT:?}\"\n"
    )
}
