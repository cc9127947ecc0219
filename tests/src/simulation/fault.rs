//! What may go wrong, by kind, and how often it did.

use std::fmt;

macro_rules! faults {
    ($($name:ident $text:literal,)*) => {
        /// One kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault {
            $(#[doc = $text] $name,)*
        }

        impl Fault {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }

        impl fmt::Display for Fault {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$name => $text,)* })
            }
        }
    };
}

faults! {
    MessageLost "message lost",
    MessageLate "message late by seconds",
    HeartbeatDoubled "heartbeat doubled",
    AnswerDoubled "answer doubled",
    CommitLate "commit late by seconds",
    RegionCutOff "region cut off from all coordinators",
    RegionCutFromSome "region cut off from some coordinators",
    RegionHearsNothing "region hears nothing, though it is heard",
    LeaderLost "leader lost",
    LeaderRestarted "leader restarted in its term",
    LeaderIsolated "leader isolated, and stamping on",
    OldEntryCommitted "entry of a leader before committed",
    PlansAtRandom "allocator's plans drawn at random",
    AgentKilled "agent killed",
    AgentKilledInStep "agent killed while applying",
    FollowerReplaced "second agent of a region replaced",
    AgentPaused "agent paused",
    MachineSlept "agent's machine slept",
    MachineRebooted "agent's machine rebooted",
    DiskLost "agent's disk lost",
    StoreLost "store lost",
    StoreRestored "store restored from a backup",
    StoreFailedOver "store failed over to a replica behind",
    StoreSlow "store call late, beyond its timeout",
    CallRefused "store call failed before it took effect",
    CallCutShort "store call failed after it took effect",
    AnswerOfStoreLate "decision of the store late",
    ClockForward "store's wall clock stepped forward",
    ClockBack "store's wall clock stepped back",
    LimitLowered "limit lowered",
    LimitRaised "limit raised",
    FloorsDivided "floors divided anew",
    PeriodChanged "period changed",
    AlgorithmChanged "algorithm changed",
    OverrideChanged "override changed",
    RegionRemoved "region removed",
    RegionAdded "region added",
    PolicyRemoved "policy removed",
    PolicyAdded "policy added",
    RegionFenced "region fenced",
    ModeChanged "enforced or only observed",
    LeaseChanged "length of leases changed",
    ChangeReplaced "pending change replaced by another",
    ChangeWithdrawn "pending change withdrawn",
    CoordinatorsRestored "coordinators restored from a backup",
}

/// How often each kind happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults([u64; Fault::ALL.len()]);

impl Default for Faults {
    fn default() -> Self {
        Self([0; Fault::ALL.len()])
    }
}

impl Faults {
    /// One more.
    pub fn count(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    /// How many of one kind.
    pub fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    /// Adds those of another schedule.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, others)| *own += others);
    }
}
