//! A child process with a log file, which ends with its owner.

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running process; killed when dropped.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts `program`; what it prints is added to `log`. Expects it to be there.
    pub fn start(program: &Path, arguments: &[&str], log: &Path) -> Self {
        Self::start_in(program, arguments, log, &[])
    }

    /// The same with these in its environment.
    pub fn start_in(program: &Path, arguments: &[&str], log: &Path, environment: &[(&str, &OsStr)]) -> Self {
        let output = File::options().create(true).append(true).open(log).expect("a log file");
        let spawned = Command::new(program)
            .args(arguments)
            .env_remove("RUST_LOG")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a log file"))
            .stderr(output)
            .spawn();
        Self(spawned.unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display())))
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Sends it a signal, unless it has ended.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // it is ours and not waited for yet, so the number is nobody else's
            let _ = kill_process(pid, signal);
        }
    }

    /// True once it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|status| status.is_some())
    }
}

impl Drop for Process {
    /// SIGKILL; it has ended when this returns.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The `quorate` binary of the profile that this program was built with.
pub fn quorate() -> PathBuf {
    let own = std::env::current_exe().expect("this program has a path");
    // target/PROFILE/faults, or target/PROFILE/deps/cluster-0123…
    let binary = own.ancestors().skip(1).take(2).map(|folder| folder.join("quorate")).find(|path| path.is_file());
    binary.unwrap_or_else(|| panic!("no `quorate` beside {}: `cargo build -p quorate` makes it, and ./test does so first", own.display()))
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
