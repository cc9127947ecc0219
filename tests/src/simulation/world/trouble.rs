//! What goes wrong, and how it is put right.

use super::messages::in_words;
use super::requests::Mood;
use super::{END, Event, TROUBLE, World};
use crate::simulation::SECOND;
use crate::simulation::disk::Disk;
use crate::simulation::fault::Fault;
use crate::simulation::network::NODES;
use crate::simulation::profile::Ends;
use quorate_ledger::Outcome;
use std::time::Duration;

impl World {
    /// Something goes wrong, and something else some time later.
    pub(super) fn trouble(&mut self) {
        if self.now >= TROUBLE {
            return;
        }
        let next = self.chance.between(SECOND / 10, self.profile.calm);
        self.schedule(next, Event::Trouble);
        let fault = self.profile.trouble(&mut self.chance);
        let r = self.chance.below(self.regions.len() as u64) as usize;
        if self.strike(fault, r) {
            self.faults.count(fault);
            self.tell(Some(r), || format!("fault: {fault}"));
            self.touch(r);
        }
    }

    /// True if it could happen.
    fn strike(&mut self, fault: Fault, r: usize) -> bool {
        match fault {
            Fault::RegionCutOff | Fault::RegionCutFromSome | Fault::RegionHearsNothing => self.cut(fault, r),
            Fault::LeaderLost | Fault::LeaderRestarted | Fault::LeaderIsolated => self.strike_leader(fault),
            Fault::AgentKilled
            | Fault::FollowerReplaced
            | Fault::AgentPaused
            | Fault::MachineSlept
            | Fault::MachineRebooted
            | Fault::DiskLost => self.strike_agent(fault, r),
            Fault::StoreLost | Fault::StoreRestored | Fault::StoreFailedOver => self.strike_store(fault, r),
            Fault::ClockForward | Fault::ClockBack => self.step_clock(fault, r),
            Fault::RegionFenced => self.stop_for_fence(),
            Fault::LeaseChanged => {
                let seconds = self.chance.pick(&[2, 3, 4, 6]);
                self.ledger_changed = true;
                self.cluster.change_lease(Duration::from_secs(seconds))
            }
            Fault::CoordinatorsRestored => self.restore_coordinators(),
            _ => self.change_policies(fault, r),
        }
    }

    /// All coordinators are lost, and others begin with what was kept of them at some time.
    fn restore_coordinators(&mut self) -> bool {
        if !self.cluster.restore(&mut self.chance) {
            return false;
        }
        self.ledger_changed = true;
        let vacancy = self.chance.between(1_000, SECOND);
        self.schedule(vacancy, Event::Elect { restarted: false });
        true
    }

    fn cut(&mut self, fault: Fault, r: usize) -> bool {
        let span = self.chance.between(SECOND, 10 * SECOND);
        // long enough for floors to end
        let span = if self.profile.ends == Ends::Never { span } else { 2 * span };
        let until = (self.now + span).min(TROUBLE);
        if fault == Fault::RegionHearsNothing {
            self.network.deafen(r, until);
            return true;
        }
        let spared = (fault == Fault::RegionCutFromSome).then(|| self.chance.below(NODES as u64) as usize);
        self.network.cut(r, until, |node| Some(node) != spared);
        true
    }

    fn strike_leader(&mut self, fault: Fault) -> bool {
        if !self.cluster.has_leader() || (fault == Fault::LeaderIsolated && self.cluster.has_deposed()) {
            return false;
        }
        if fault == Fault::LeaderIsolated {
            self.cluster.isolate_leader();
            let apart = self.chance.between(SECOND, 9 * SECOND);
            self.schedule(apart, Event::Rejoin);
        } else {
            self.cluster.lose_leader();
        }
        let most = self.chance.pick(&[SECOND, 6 * SECOND]);
        let vacancy = self.chance.between(1_000, most);
        self.schedule(vacancy, Event::Elect { restarted: fault == Fault::LeaderRestarted });
        true
    }

    pub(super) fn elect(&mut self, restarted: bool) {
        if self.cluster.has_leader() {
            return;
        }
        let old_entries = self.cluster.elect(self.now, restarted, self.profile.drift, &mut self.chance);
        self.ledger_changed = true;
        for (entry, outcome) in old_entries {
            self.faults.count(Fault::OldEntryCommitted);
            let r = self.regions.iter().position(|region| region.name == entry.heartbeat.region);
            self.tell(r, || {
                let (beat, office) = (&entry.heartbeat, entry.office);
                format!("heartbeat {} of {office:?}, {:?}, is committed after all: {}", beat.number, entry.at, outcome_in_words(&outcome))
            });
        }
        self.tell(None, || "a leader takes office".to_owned());
    }

    fn strike_agent(&mut self, fault: Fault, r: usize) -> bool {
        if self.regions[r].agent.is_none() {
            return false;
        }
        let span = self.chance.between(SECOND / 10, 9 * SECOND).min(TROUBLE.saturating_sub(self.now));
        match fault {
            Fault::FollowerReplaced => self.regions[r].start_follower(self.now, &mut self.chance),
            Fault::AgentPaused => self.regions[r].paused_until = self.now + span,
            Fault::MachineSlept => {
                self.regions[r].paused_until = self.now + span;
                self.regions[r].slept = true;
            }
            Fault::MachineRebooted => {
                self.regions[r].reboot(self.now);
                self.schedule(span, Event::Start { r });
            }
            _ => {
                if fault == Fault::DiskLost {
                    self.regions[r].disk = Disk::default();
                }
                self.kill(r);
            }
        }
        true
    }

    /// The agent dies, and is started again after a while.
    pub(super) fn kill(&mut self, r: usize) {
        self.regions[r].crash();
        self.touch(r);
        let most = self.chance.pick(&[SECOND / 2, 5 * SECOND]);
        let down = self.chance.between(1_000, most);
        self.schedule(down, Event::Start { r });
    }

    pub(super) fn start(&mut self, r: usize) {
        if self.regions[r].agent.is_none() {
            let observer = self.chance.any();
            self.regions[r].start(observer);
            self.schedule_beat(r, 1, true);
            self.touch(r);
        }
    }

    fn strike_store(&mut self, fault: Fault, r: usize) -> bool {
        let region = &mut self.regions[r];
        match fault {
            Fault::StoreLost => {
                region.store.lose();
                true
            }
            Fault::StoreRestored => region.store.restore(),
            _ => region.store.fail_over(),
        }
    }

    fn step_clock(&mut self, fault: Fault, r: usize) -> bool {
        let span = self.chance.between(SECOND / 10, 15 * SECOND);
        match fault {
            Fault::ClockForward => {
                self.regions[r].step_forward(self.now, span);
                self.watch.step_forward(self.now, span);
            }
            _ => {
                self.regions[r].step_back(self.now, span);
                self.watch.step_back(r);
            }
        }
        true
    }

    fn change_policies(&mut self, fault: Fault, r: usize) -> bool {
        // what a region lets pass that stays cut off, no end of its floors ends; and no other may be all alone with it
        let waits_for_ever = matches!(fault, Fault::ModeChanged | Fault::RegionRemoved) && self.profile.ends == Ends::All;
        let replaces = matches!(fault, Fault::ChangeReplaced | Fault::ChangeWithdrawn);
        if waits_for_ever || self.cluster.ledger.pending_policies().is_some() != replaces {
            return false;
        }
        let newest = self.cluster.ledger.newest_policies().clone();
        let set = match fault {
            Fault::ChangeWithdrawn => Some((**self.cluster.ledger.active_policies()).clone()),
            Fault::ChangeReplaced => {
                let by = self.chance.pick(&[Fault::LimitLowered, Fault::LimitRaised, Fault::FloorsDivided, Fault::AlgorithmChanged]);
                self.catalogue.changed(&newest, by, &self.profile, &mut self.chance)
            }
            Fault::RegionRemoved => self.catalogue.without(&newest, &self.regions[r].name),
            _ => self.catalogue.changed(&newest, fault, &self.profile, &mut self.chance),
        };
        let Some(set) = set else { return false };
        self.ledger_changed = true;
        self.cluster.change_policies(set)
    }

    /// The operator stops the agents of a region that a change waits for, to fence it.
    fn stop_for_fence(&mut self) -> bool {
        let Some((_, waits_for)) = self.cluster.ledger.pending_policies() else { return false };
        let Some(r) = waits_for.first().and_then(|name| self.regions.iter().position(|region| region.name == *name)) else { return false };
        if self.regions[r].stopped {
            return false;
        }
        self.regions[r].crash();
        (self.regions[r].stopped, self.regions[r].follower) = (true, None);
        self.touch(r);
        self.schedule(SECOND, Event::Fence { r });
        true
    }

    /// The operator's word, once the region's lease has ended. It comes back as a machine that knows nothing.
    pub(super) fn fence(&mut self, r: usize) {
        if !self.regions[r].stopped {
            return;
        }
        let Some(done) = self.cluster.fence(&self.regions[r].name) else { return self.schedule(SECOND / 2, Event::Fence { r }) };
        self.ledger_changed = true;
        self.tell(Some(r), || format!("fenced: {done}"));
        if done {
            self.regions[r].wipe();
        }
        self.regions[r].stopped = false;
        let down = self.chance.between(1_000, 3 * SECOND);
        self.schedule(down, Event::Start { r });
    }

    /// From now on nothing fails any more, and one region wants everything.
    pub(super) fn heal(&mut self) {
        self.tell(None, || "nothing fails any more".to_owned());
        self.network.heal();
        self.cluster.rejoin();
        let hot = self.chance.below(self.regions.len() as u64) as usize;
        self.hot = Some(hot);
        self.cut_off_for_good(hot);
        self.proposed = None;
        self.moods.fill(Mood::Idle);
        self.moods[hot] = Mood::Hot;
        for r in 0..self.regions.len() {
            self.regions[r].stopped = false;
            self.start(r);
            self.schedule_beat(r, 1, false);
        }
        if !self.cluster.has_leader() {
            self.schedule(SECOND / 2, Event::Elect { restarted: false });
        }
        self.complete();
    }

    /// One of the other regions is not mended, in some schedules.
    fn cut_off_for_good(&mut self, hot: usize) {
        if self.profile.ends == Ends::All {
            let r = (hot + 1) % self.regions.len();
            self.tell(Some(r), || "stays cut off".to_owned());
            self.network.cut(r, END, |_| true);
            (self.cut_off, self.watch.one_unheard) = (Some(r), true);
        }
    }

    /// The policy set gets back what it lacks.
    pub(super) fn complete(&mut self) {
        let newest = self.cluster.ledger.newest_policies().clone();
        if self.catalogue.is_complete(&newest) {
            return;
        }
        let set = self.catalogue.completed((*newest).clone(), &self.profile, &mut self.chance);
        if !self.cluster.change_policies(set) {
            return self.schedule(SECOND / 4, Event::Complete);
        }
        self.ledger_changed = true;
    }
}

fn outcome_in_words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Heartbeat(answer) => in_words(answer),
        _ => "nothing is changed".to_owned(),
    }
}
