//! The whole system as real processes, behind proxies that spoil the network, under load from an
//! open loop; and a checker that knows only what clients were told.
//!
//! | file | what |
//! |---|---|
//! | `system`, `configuration`, `places` | three coordinators, three regions with agents and a Redis each |
//! | `process`, `ports`, `wait`, `pulse` | processes, their ports, waiting for what they say, and how late the machine is |
//! | `proxy`, `weather`, `callers` | the network between them, and who is calling |
//! | `disk`, `disk.c` | a disk that is full, or fails to flush |
//! | `fault`, `scenario` | what goes wrong, one by one and by seed |
//! | `load`, `told` | requests, and what their clients were told |
//! | `checker`, `published` | what was admitted beyond the limits, and what the coordinators promised |
//! | `run` | all of it together |
//! | `post` | a relay that loses, doubles and keeps heartbeats |
//! | `alone`, `backlog` | one coordinator by itself; heartbeats of many regions on it, made by hand |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test of the whole: a run that cannot go on ends, and says why"
)]

pub mod alone;
pub mod backlog;
pub mod callers;
pub mod checker;
pub mod configuration;
pub mod disk;
pub mod fault;
pub mod load;
pub mod places;
pub mod ports;
pub mod post;
pub mod process;
pub mod proxy;
pub mod published;
pub mod pulse;
pub mod run;
pub mod scenario;
pub mod system;
pub mod told;
pub mod wait;
pub mod weather;
