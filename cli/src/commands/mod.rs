//! The commands that ask a running system something.

pub mod alarm;
pub mod audit;
pub mod backup;
pub mod check;
pub mod explain;
pub mod history;
pub mod lease;
pub mod members;
pub mod policy;
pub mod top;
pub mod validate;
pub mod views;
pub mod watch;

use std::io::{ErrorKind, Write};

/// What a command came to. Failures to do it at all are errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Exit status 0.
    Done,
    /// Exit status 1: it was done, and the answer is no.
    Negative,
}

/// Writes to standard output. A reader that has gone away, such as `head`, is no failure.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// `text` with one line end.
pub fn ended(text: &str) -> String {
    format!("{}\n", text.trim_end_matches('\n'))
}
