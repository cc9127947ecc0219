//! Placeholder: the whole system in this process.

use crate::arguments::DevArgs;

/// Runs the whole system until it is told to stop.
pub async fn run(_args: DevArgs) -> anyhow::Result<()> {
    anyhow::bail!("this build has no development system")
}
