//! The simulator: the pure cores of coordinator and agent under everything that a network, a
//! clock and a process can do, in virtual time, from one seed.

pub mod allocation;
pub mod simulation;
