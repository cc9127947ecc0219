//! The ledger on several nodes at once: consensus, the log on disk, and the way to the peers.
//!
//! [`RaftNode`] is all that the rest of the coordinator sees; no type of the consensus library
//! leaves this module.
//!
//! | file | what |
//! |---|---|
//! | `node` | the handle |
//! | `settings`, `errors`, `status` | what goes in and comes out |
//! | `formation`, `members` | how a cluster begins, and grows |
//! | `office` | the leader's clock |
//! | `types` | what openraft is told about our types |
//! | `log_store`, `state_machine` | what openraft asks of us |
//! | `audit` | the account of what the log did |
//! | `disk`, `writer`, `data_dir`, `format` | the file beneath |
//! | `network`, `peer_routes`, `wire` | the other nodes |

mod audit;
mod awaited;
mod data_dir;
mod disk;
mod errors;
mod format;
mod formation;
mod log_store;
mod members;
#[cfg(feature = "testing")]
pub(crate) mod messages;
mod network;
mod node;
mod office;
mod peer_routes;
mod settings;
mod state_machine;
mod status;
mod types;
mod wire;
mod writer;

#[cfg(test)]
mod kill_tests;
#[cfg(test)]
mod round_trip_tests;
#[cfg(test)]
mod tests;

pub use audit::{Place, Wanted};
pub use data_dir::DiskRoom;
pub use errors::{FormationError, MemberError, ProposeError, StartError};
pub use members::Added;
pub use node::RaftNode;
pub use settings::RaftSettings;
pub use status::{Leadership, MemberStatus, RaftStatus};
