//! The replicated ledger as a whole: real connections, real disks, real signals.

#[cfg(test)]
mod cluster;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod kill;
#[cfg(test)]
mod members;
#[cfg(test)]
mod refusals;
