//! What goes wrong, one by one.

use crate::disk::Failure;
use crate::places::{NODES, Place, REGIONS};
use crate::system::System;
use crate::weather::{Kind, Trouble, TroubleId};
use std::fmt;
use std::time::Duration;

/// One way to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL to the leader; it is started again at the end.
    LeaderKilled,
    /// The leader hears and is heard by agents, and by no other coordinator.
    LeaderIsolated,
    /// SIGSTOP to the leader.
    LeaderPaused,
    /// What the leader sends the others is lost; what they send it arrives.
    LeaderMute,
    /// What the others send the leader is lost; what it sends them arrives.
    LeaderDeaf,
    /// SIGKILL to the leader and to one more.
    MajorityLost,
    /// SIGKILL to all coordinators.
    AllLost,
    /// One coordinator and one other cannot reach each other; both reach the third.
    TwoApart(u64),
    /// A region and the coordinators: connections are reset, new ones too.
    RegionCut(&'static str),
    /// The same, and nothing is refused: nothing arrives.
    RegionSilent(&'static str),
    /// What coordinators answer a region is lost; what it says arrives.
    RegionDeaf(&'static str),
    /// A region and the coordinators: so few bytes a second.
    RegionTrickle(&'static str),
    /// Between coordinators everything takes longer.
    CoordinatorsFar,
    /// Between coordinators and from agents to them all connections are reset once.
    Resets,
    /// The disk of the leader is full.
    DiskFull,
    /// The disk of the leader fails to flush.
    DiskFails,
    /// The disk of a coordinator that does not lead fails to flush.
    FollowerDiskFails,
    /// SIGTERM to each coordinator, agent and store in turn, each started again before the next.
    RollingRestart,
    /// SIGKILL to a region's Redis, which loses everything.
    StoreKilled(&'static str),
    /// SIGSTOP to a region's Redis.
    StorePaused(&'static str),
    /// A region's agents and its Redis: nothing arrives.
    StoreSilent(&'static str),
    /// The same: what Redis answers is lost; what it is asked arrives.
    StoreMute(&'static str),
    /// The same: connections are reset once.
    StoreResets(&'static str),
    /// SIGKILL to the agent of a region that renews its lease.
    RenewingAgentKilled(&'static str),
    /// SIGSTOP to the agent of a region that renews its lease.
    RenewingAgentPaused(&'static str),
    /// SIGKILL to an agent of a region that follows another one.
    FollowingAgentKilled(&'static str),
    /// SIGSTOP to an agent of a region that follows another one.
    FollowingAgentPaused(&'static str),
}

/// A trickle: less than two regions' heartbeats need.
const TRICKLE: u32 = 3_000;

/// Farther by so much.
const FAR: Duration = Duration::from_millis(300);

impl Fault {
    /// All of them, those of a region in that region, those of a coordinator at that one.
    pub fn all(region: &'static str, node: u64) -> Vec<Self> {
        vec![
            Self::LeaderKilled,
            Self::LeaderIsolated,
            Self::LeaderPaused,
            Self::LeaderMute,
            Self::LeaderDeaf,
            Self::MajorityLost,
            Self::AllLost,
            Self::TwoApart(node),
            Self::RegionCut(region),
            Self::RegionSilent(region),
            Self::RegionDeaf(region),
            Self::RegionTrickle(region),
            Self::CoordinatorsFar,
            Self::Resets,
            Self::DiskFull,
            Self::DiskFails,
            Self::FollowerDiskFails,
            Self::RollingRestart,
            Self::StoreKilled(region),
            Self::StorePaused(region),
            Self::StoreSilent(region),
            Self::StoreMute(region),
            Self::StoreResets(region),
            Self::RenewingAgentKilled(region),
            Self::RenewingAgentPaused(region),
            Self::FollowingAgentKilled(region),
            Self::FollowingAgentPaused(region),
        ]
    }

    /// One word or two, for the command line.
    pub fn name(self) -> String {
        let debug = format!("{self:?}");
        let word = debug.split('(').next().unwrap_or_default();
        let parts = word.chars().flat_map(|c| c.is_uppercase().then_some('-').into_iter().chain(c.to_lowercase()));
        parts.collect::<String>().trim_start_matches('-').to_owned()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name())?;
        match self {
            Self::TwoApart(node) => write!(f, " {node}"),
            Self::RegionCut(region)
            | Self::RegionSilent(region)
            | Self::RegionDeaf(region)
            | Self::RegionTrickle(region)
            | Self::StoreKilled(region)
            | Self::StorePaused(region)
            | Self::StoreSilent(region)
            | Self::StoreMute(region)
            | Self::StoreResets(region)
            | Self::RenewingAgentKilled(region)
            | Self::RenewingAgentPaused(region)
            | Self::FollowingAgentKilled(region)
            | Self::FollowingAgentPaused(region) => write!(f, " {region}"),
            _ => Ok(()),
        }
    }
}

/// What ends a fault.
#[derive(Debug, Default)]
pub struct UnderWay {
    killed: Vec<Place>,
    paused: Vec<Place>,
    troubles: Vec<TroubleId>,
    disk: Option<u64>,
}

impl Fault {
    /// It begins. Gives what must be undone at its end.
    pub async fn begin(self, system: &mut System) -> UnderWay {
        match self {
            Self::LeaderKilled | Self::MajorityLost | Self::AllLost => {
                let leader = leader(system).await;
                let many = match self {
                    Self::LeaderKilled => 1,
                    Self::MajorityLost => 2,
                    _ => NODES.len(),
                };
                let killed: Vec<Place> = from(leader).take(many).map(Place::Coordinator).collect();
                killed.iter().for_each(|place| system.kill(*place));
                UnderWay { killed, ..UnderWay::default() }
            }
            Self::StoreKilled(region) => killed(system, Place::Store(region)),
            Self::RenewingAgentKilled(region) | Self::FollowingAgentKilled(region) => {
                let agent = self.agent_of(system, region).await;
                killed(system, agent)
            }
            Self::LeaderPaused => {
                let leader = Place::Coordinator(leader(system).await);
                paused(system, leader)
            }
            Self::StorePaused(region) => paused(system, Place::Store(region)),
            Self::RenewingAgentPaused(region) | Self::FollowingAgentPaused(region) => {
                let agent = self.agent_of(system, region).await;
                paused(system, agent)
            }
            Self::DiskFull => spoiled(system, leader(system).await, Failure::Full),
            Self::DiskFails => spoiled(system, leader(system).await, Failure::Sync),
            Self::FollowerDiskFails => {
                let follower = from(leader(system).await).nth(1).unwrap_or_default();
                spoiled(system, follower, Failure::Sync)
            }
            Self::Resets => {
                let all: Vec<Place> = Place::coordinators().into_iter().chain(REGIONS.iter().flat_map(|r| system.agents(r))).collect();
                system.climate().storm(&Place::coordinators(), &all);
                UnderWay::default()
            }
            Self::StoreResets(region) => {
                system.climate().storm(&system.agents(region), &[Place::Store(region)]);
                UnderWay::default()
            }
            Self::RollingRestart => {
                restart_all(system).await;
                UnderWay::default()
            }
            _ => {
                let troubles = self.troubles(system).await;
                let troubles = troubles.into_iter().map(|trouble| system.climate().begin(trouble)).collect();
                UnderWay { troubles, ..UnderWay::default() }
            }
        }
    }

    /// The agent that one of those of agents means; the only one, where there is no other.
    async fn agent_of(self, system: &System, region: &str) -> Place {
        let agents = system.agents(region);
        let renewing = system.renewing_agent(region).await.unwrap_or(agents[0]);
        let follows = matches!(self, Self::FollowingAgentKilled(_) | Self::FollowingAgentPaused(_));
        agents.into_iter().find(|agent| follows && *agent != renewing).unwrap_or(renewing)
    }

    /// Of those that are troubles of the network.
    async fn troubles(self, system: &System) -> Vec<Trouble> {
        let all = Place::coordinators();
        let trouble = |these: &[Place], those: &[Place], kind| Trouble { these: these.to_vec(), those: those.to_vec(), kind };
        let both_ways = |these: &[Place], those: &[Place]| vec![trouble(these, those, Kind::Lost), trouble(those, these, Kind::Lost)];
        match self {
            Self::LeaderIsolated | Self::LeaderMute | Self::LeaderDeaf => {
                let leader = leader(system).await;
                let others: Vec<Place> = from(leader).skip(1).map(Place::Coordinator).collect();
                let leader = [Place::Coordinator(leader)];
                match self {
                    Self::LeaderMute => vec![trouble(&leader, &others, Kind::Lost)],
                    Self::LeaderDeaf => vec![trouble(&others, &leader, Kind::Lost)],
                    _ => both_ways(&leader, &others),
                }
            }
            Self::TwoApart(node) => {
                let other = from(node).nth(1).unwrap_or_default();
                both_ways(&[Place::Coordinator(node)], &[Place::Coordinator(other)])
            }
            Self::RegionCut(region) => vec![trouble(&system.agents(region), &all, Kind::Cut)],
            Self::RegionSilent(region) => both_ways(&system.agents(region), &all),
            Self::RegionDeaf(region) => vec![trouble(&all, &system.agents(region), Kind::Lost)],
            Self::RegionTrickle(region) => vec![trouble(&system.agents(region), &all, Kind::Trickle(TRICKLE))],
            Self::CoordinatorsFar => vec![trouble(&all, &all, Kind::Late(FAR))],
            Self::StoreSilent(region) => both_ways(&system.agents(region), &[Place::Store(region)]),
            Self::StoreMute(region) => vec![trouble(&[Place::Store(region)], &system.agents(region), Kind::Lost)],
            _ => Vec::new(),
        }
    }
}

impl UnderWay {
    /// It is over; what it says of itself, if that is worth a word.
    pub fn end(self, system: &mut System) -> Option<String> {
        self.troubles.into_iter().for_each(|id| system.climate().end(id));
        self.killed.into_iter().for_each(|place| system.revive(place));
        self.paused.into_iter().for_each(|place| system.go_on(place));
        let node = self.disk?;
        let stopped = system.mend_disk(node);
        Some(format!("coordinator {node} {} over its disk", if stopped { "stopped" } else { "did not stop" }))
    }
}

fn killed(system: &mut System, place: Place) -> UnderWay {
    system.kill(place);
    UnderWay { killed: vec![place], ..UnderWay::default() }
}

fn paused(system: &mut System, place: Place) -> UnderWay {
    system.pause(place);
    UnderWay { paused: vec![place], ..UnderWay::default() }
}

fn spoiled(system: &System, node: u64, how: Failure) -> UnderWay {
    system.spoil_disk(node, how);
    UnderWay { disk: Some(node), ..UnderWay::default() }
}

/// Who leads, or anybody.
async fn leader(system: &System) -> u64 {
    system.leader().await.unwrap_or(NODES[0])
}

/// All coordinators, beginning with this one.
fn from(node: u64) -> impl Iterator<Item = u64> {
    let at = NODES.iter().position(|n| *n == node).unwrap_or_default();
    (0..NODES.len()).map(move |n| NODES[(at + n) % NODES.len()])
}

async fn restart_all(system: &mut System) {
    for node in NODES {
        system.restart(Place::Coordinator(node)).await;
        system.wait_until_in_step().await;
    }
    for region in REGIONS {
        for agent in system.agents(region) {
            system.restart(agent).await;
            system.wait_until_leased(None).await;
        }
    }
    for region in REGIONS {
        system.restart(Place::Store(region)).await;
        system.wait_until_leased(None).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_a_name_of_its_own() {
        let names: Vec<String> = Fault::all("us", 1).into_iter().map(Fault::name).collect();
        assert!(names.contains(&"leader-killed".to_owned()) && names.contains(&"two-apart".to_owned()), "{names:?}");
        let mut distinct = names.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), names.len());
    }
}
