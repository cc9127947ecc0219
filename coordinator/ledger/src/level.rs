//! Levels: which rules a ledger is applied by.
//!
//! Replicas stay alike only if each applies every entry by the same rules, and during an upgrade
//! they run different programs. So a rule changes by an entry of the log, never by a restart:
//! [`Command::Level`](crate::Command::Level) raises the ledger's level, once the leader has heard
//! from every member that its program knows it. A program that meets a level, or a command, that it
//! does not know applies nothing more.
//!
//! To change what applying a command does, or what a command or the ledger holds:
//!
//! 1. raise [`LEVEL`] and add a line to the table;
//! 2. where the rule is, ask `self.level` whether the new one holds yet;
//! 3. say nothing new in commands below that level: new fields are left out while they have their
//!    defaults, new commands are not proposed, and so nothing is passed over by a program that
//!    does not know it;
//! 4. a level that every supported upgrade begins at needs no question any more.
//!
//! | level | since | what |
//! |---|---|---|
//! | 0 | | a ledger that was never raised: the rules of level 1 |
//! | 1 | 0.1.0 | the first |
//! | 2 | 0.1.0 | who changes the members is in the log; a policy may replace others; what gateways spend by themselves counts |

use crate::Ledger;
use crate::command::{Command, Outcome};
use quorate_shared::policy::PolicySet;

/// The newest level that this program knows.
pub const LEVEL: u32 = 2;

/// The second level: see the table.
pub const SECOND: u32 = 2;

/// A level that this program does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the ledger is at level {found}, and this program knows up to {LEVEL}: it applies nothing more; what it has is intact, go on with the later version that the other members run"
)]
pub struct UnknownLevel {
    /// Which.
    pub found: u32,
}

/// Whether a ledger of this level can be read and applied.
///
/// # Errors
/// If it is above [`LEVEL`].
pub fn check_level(found: u32) -> Result<(), UnknownLevel> {
    if found > LEVEL { Err(UnknownLevel { found }) } else { Ok(()) }
}

impl Command {
    /// The level below which it must not be proposed: there may be members whose programs do not know what it says.
    pub fn level(&self) -> u32 {
        let replaces = |set: &PolicySet| set.policies.iter().any(|policy| !policy.replaces.is_empty());
        let second = match self {
            Self::Members { .. } => true,
            Self::Policies { set, .. } => replaces(set),
            Self::Restore { backup, .. } => backup.history.iter().any(|version| replaces(&version.set)),
            Self::Found { .. }
            | Self::Heartbeat(_)
            | Self::Fence { .. }
            | Self::Lease { .. }
            | Self::Level { .. }
            | Self::ClearAlarm { .. } => false,
        };
        if second { SECOND } else { 0 }
    }
}

impl Ledger {
    /// By which rules it is applied.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Raises the level; a level never falls.
    pub(crate) fn raise_level(&mut self, to: u32) -> Outcome {
        match check_level(to) {
            Err(unknown) => Outcome::UnknownLevel { found: unknown.found },
            Ok(()) => {
                self.level = self.level.max(to);
                Outcome::Done
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemberOrder;
    use crate::testing::{by, set};

    #[test]
    fn a_level_rises_and_never_falls() {
        let mut ledger = Ledger::default();
        for (to, level) in [(0, 0), (1, 1), (0, 1)] {
            assert_eq!((ledger.apply(1, &Command::Level { to }), ledger.level()), (Outcome::Done, level));
        }
    }

    #[test]
    fn what_members_of_the_first_level_do_not_know_is_of_the_second() {
        let policies = |set| Command::Policies { replaces: 0, set: Box::new(set), by: by() };
        let plain = set(100, 1_000_000);
        let mut replacing = plain.clone();
        replacing.policies[0].replaces = vec!["q".parse().expect("a name")];
        assert_eq!((policies(plain).level(), policies(replacing).level()), (0, SECOND));
        assert_eq!(Command::Members { order: MemberOrder::Remove { node: 1 }, by: by() }.level(), SECOND);
        assert_eq!(Command::Level { to: SECOND }.level(), 0);
    }

    #[test]
    fn a_level_that_is_not_known_changes_nothing_and_nothing_is_applied_at_one() {
        let mut ledger = Ledger::default();
        let found = LEVEL + 1;
        assert_eq!(ledger.apply(1, &Command::Level { to: found }), Outcome::UnknownLevel { found });
        assert_eq!(ledger, Ledger::default());
        ledger.level = found;
        let before = ledger.clone();
        assert_eq!(ledger.apply(1, &Command::Level { to: 1 }), Outcome::UnknownLevel { found });
        assert_eq!(ledger, before);
    }
}
