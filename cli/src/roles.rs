//! Placeholder: one coordinator or one agent in this process.

use std::path::Path;

/// Runs one coordinator node until it is told to stop.
pub async fn coordinator(_config: &Path) -> anyhow::Result<()> {
    anyhow::bail!("this build has no coordinator role")
}

/// Runs one agent until it is told to stop.
pub async fn agent(_config: &Path) -> anyhow::Result<()> {
    anyhow::bail!("this build has no agent role")
}
