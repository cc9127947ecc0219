//! How late a busy machine wakes this program up, by which tests know how much longer all takes on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// What is awaited comes after so many steps at most, one after the other in one process or another, each of which a
/// busy machine may take up late.
const STEPS: u32 = 40;

/// How long that may take on a machine that is so late, which takes `span` on one that has time.
pub fn allows(span: Duration, late: Duration) -> Duration {
    span + STEPS * late
}

/// Wakes up again and again, to see how late the machine lets it.
#[derive(Debug)]
pub struct Pulse {
    worst: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Pulse {
    const BEAT: Duration = Duration::from_millis(20);

    /// Begins.
    pub fn begin() -> Self {
        let worst = Arc::<AtomicU64>::default();
        let seen = worst.clone();
        let task = tokio::spawn(async move {
            loop {
                let begun = Instant::now();
                tokio::time::sleep(Self::BEAT).await;
                let late = begun.elapsed().saturating_sub(Self::BEAT);
                seen.fetch_max(u64::try_from(late.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
        });
        Self { worst, task }
    }

    /// What was until now does not count.
    pub fn forget(&self) {
        self.worst.store(0, Ordering::Relaxed);
    }

    /// The latest.
    pub fn worst(&self) -> Duration {
        Duration::from_micros(self.worst.load(Ordering::Relaxed))
    }

    /// See [`allows`].
    pub fn allows(&self, span: Duration) -> Duration {
        allows(span, self.worst())
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.task.abort();
    }
}
