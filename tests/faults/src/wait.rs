//! Waiting for a condition of other processes, which are asked again and again: they have no way to
//! call. The pause between two questions spares them, and decides nothing.

use std::time::{Duration, Instant};

/// Between two questions.
const ASK: Duration = Duration::from_millis(10);

/// Asks until there is an answer, and gives it.
///
/// # Panics
/// If there is none after `patience`.
pub async fn until<T>(what: &str, patience: Duration, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(begun.elapsed() < patience, "not after {patience:?}: {what}");
        tokio::time::sleep(ASK).await;
    }
}
