//! A view that is shown once, or time and again until somebody has seen enough.

use super::{Verdict, print};
use std::io::IsTerminal;
use std::time::Duration;

/// Moves to the top left corner, and clears from there on: what was scrolled away stays.
const CLEAR: &str = "\u{1b}[H\u{1b}[J";

/// Shows what `frame` gives; with a period again and again. While it is shown again, a coordinator that does not answer is a
/// frame like any other.
///
/// # Errors
/// If nothing is to be shown again, and there is nothing to show.
pub async fn show<F>(period: Option<Duration>, mut frame: impl FnMut() -> F) -> anyhow::Result<Verdict>
where
    F: Future<Output = anyhow::Result<String>>,
{
    let Some(period) = period else {
        print(&frame().await?)?;
        return Ok(Verdict::Done);
    };
    let on_terminal = std::io::stdout().is_terminal();
    loop {
        let text = frame().await.unwrap_or_else(|error| format!("error: {error:#}\n"));
        print(&if on_terminal { format!("{CLEAR}{text}") } else { text })?;
        tokio::select! {
            () = tokio::time::sleep(period) => {}
            _ = tokio::signal::ctrl_c() => return Ok(Verdict::Done),
        }
    }
}
