//! The command line of `quorate cluster`.

use super::ViewArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `quorate cluster`.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Wait until the configured members have formed the cluster, and show it
    Init(ViewArgs),
    /// Show leader, members and how far each has come
    Status(ViewArgs),
    /// Add a node that runs with `join = true`
    Add(AddArgs),
    /// Remove a node that does not lead
    Remove(RemoveArgs),
    /// Let another node lead
    TransferLeader(LeadArgs),
    /// Let grants go on of budgets of which an internal check failed; exit status 1 if one fails it still
    ClearAlarm(ClearAlarmArgs),
    /// Change how long a region may go on without being heard
    Lease(LeaseArgs),
    /// Write what is to be kept outside of the cluster: policy sets, and the key of subjects
    Snapshot(SnapshotArgs),
    /// Let a newly founded cluster go on from a snapshot
    Restore(RestoreArgs),
}

/// `quorate cluster add`.
#[derive(Clone, Debug, Args)]
pub struct AddArgs {
    /// Its number, never used for another
    #[arg(value_name = "NODE", value_parser = clap::value_parser!(u64).range(1..))]
    pub node: u64,
    /// Host and port at which the others reach it
    #[arg(value_name = "ADDRESS")]
    pub address: String,
    /// Why, for the log
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
}

/// `quorate cluster remove`.
#[derive(Clone, Debug, Args)]
pub struct RemoveArgs {
    /// Its number
    #[arg(value_name = "NODE", value_parser = clap::value_parser!(u64).range(1..))]
    pub node: u64,
    /// Why, for the log
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
}

/// `quorate cluster transfer-leader`.
#[derive(Clone, Debug, Args)]
pub struct LeadArgs {
    /// To this node; without it, to the one that is best fit
    #[arg(value_name = "NODE", value_parser = clap::value_parser!(u64).range(1..))]
    pub node: Option<u64>,
    /// Why, for the log
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
}

/// `quorate cluster snapshot`.
#[derive(Clone, Debug, Args)]
pub struct SnapshotArgs {
    /// Where to write it, readable by its owner alone; a file that is there is not replaced
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// `quorate cluster restore`.
#[derive(Clone, Debug, Args)]
pub struct RestoreArgs {
    /// What `quorate cluster snapshot` wrote
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Why, for the log
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
}

/// `quorate cluster lease`.
#[derive(Clone, Debug, Args)]
pub struct LeaseArgs {
    /// From 1s to 1min
    #[arg(value_name = "LENGTH")]
    pub lease: String,
    /// Why, for the log
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
}

/// `quorate cluster clear-alarm`.
#[derive(Clone, Debug, Args)]
pub struct ClearAlarmArgs {
    /// Only those of this policy
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// Only the one of this subject, by its hash
    #[arg(long, value_name = "HASH")]
    pub subject: Option<String>,
    /// Why, for the log
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
    /// Print the answer as it came
    #[arg(long)]
    pub json: bool,
}
