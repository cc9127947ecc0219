//! A child process with a log file, which ends with its owner.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running process; killed when dropped.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts `program`; what it prints is added to `log`. Expects it to be there.
    pub fn start(program: &Path, arguments: &[&str], log: &Path) -> Self {
        let output = File::options().create(true).append(true).open(log).expect("a log file");
        let spawned = Command::new(program)
            .args(arguments)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a log file"))
            .stderr(output)
            .spawn();
        Self(spawned.unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display())))
    }
}

impl Drop for Process {
    /// SIGKILL; it has ended when this returns.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The `quorate` binary of the profile that this test was built with.
pub fn quorate() -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    // target/PROFILE/deps/cluster-0123…
    let binary = test.ancestors().nth(2).expect("a folder of the profile").join("quorate");
    assert!(binary.exists(), "{} is missing: `cargo build -p quorate` makes it, and ./test does so first", binary.display());
    binary
}

/// The last `lines` of every log in `folder`, for a test that fails.
pub fn last_words(folder: &Path, lines: usize) -> String {
    let mut logs: Vec<PathBuf> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    logs.retain(|path| path.extension().is_some_and(|end| end == "log"));
    logs.sort();
    let tail = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let all: Vec<&str> = text.lines().collect();
        format!("--- {}\n{}\n", path.display(), all[all.len().saturating_sub(lines)..].join("\n"))
    };
    logs.iter().map(tail).collect()
}
