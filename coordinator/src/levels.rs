//! Raising the ledger's level, once every member runs a program that knows it.

use crate::raft::RaftNode;
use quorate_ledger::Command;
use quorate_ledger::level::LEVEL;
use std::time::Duration;

/// How often a leader looks whether it is time.
const LOOK: Duration = Duration::from_secs(5);

/// Raises the level whenever this node leads and all members allow it. Ends with the node.
pub async fn keep_raising(node: &RaftNode) {
    let mut leadership = node.leadership();
    loop {
        let here = leadership.borrow_and_update().here;
        let current = node.read(quorate_ledger::Ledger::level);
        if here
            && current < LEVEL
            && let Some(to) = node.level_of_all_members().await.and_then(|known| next(current, &known))
        {
            match node.propose(Command::Level { to }).await {
                Ok(_) => tracing::info!(from = current, to, "the ledger's level is raised"),
                Err(error) => tracing::info!(%error, to, "the ledger's level is not raised yet"),
            }
        }
        tokio::select! {
            changed = leadership.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// The level to raise to: the greatest that all know, unless that is no raise.
fn next(current: u32, known: &[u32]) -> Option<u32> {
    known.iter().copied().min().map(|least| least.min(LEVEL)).filter(|to| *to > current)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_that_all_know_is_the_next() {
        assert_eq!(next(0, &[LEVEL, LEVEL, LEVEL]), Some(LEVEL));
        assert_eq!(next(0, &[LEVEL, 0, LEVEL]), None, "one does not know it");
        assert_eq!(next(0, &[LEVEL + 3, LEVEL + 1]), Some(LEVEL), "what this node does not know it does not ask for");
        assert_eq!(next(LEVEL, &[LEVEL, LEVEL]), None);
        assert_eq!(next(0, &[]), None);
    }
}
