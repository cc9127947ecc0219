//! A server that answers what a test tells it to, and runs of the command line against it.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::expect_used, reason = "tests say what they expect")]

use axum::Router;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::net::TcpListener;
use tokio::process::Command;

/// Serves `router` on a free port until the test's runtime ends, and gives its address.
pub async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

/// An address at which nothing listens.
pub async fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    format!("http://{}", listener.local_addr().expect("bound"))
}

/// How a run ended.
#[derive(Debug)]
pub struct Ran {
    /// Exit status.
    pub status: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// Runs `quorate` with these arguments and no settings from the environment.
pub async fn quorate(arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.args(arguments).stdin(Stdio::null()).env_remove("QUORATE_COORDINATOR").env_remove("QUORATE_AGENT");
    let output = command.output().await.expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ran { status: output.status.code().expect("not killed"), out: text(output.stdout), err: text(output.stderr) }
}

/// A file of a test, in a folder that goes with it.
pub struct File {
    folder: tempfile::TempDir,
    name: &'static str,
}

impl File {
    /// A file of this name and text.
    pub fn new(name: &'static str, text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(name), text).expect("written");
        Self { folder, name }
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        Path::new(self.folder.path()).join(self.name)
    }

    /// Where it is, as text.
    pub fn text(&self) -> String {
        self.path().to_str().expect("UTF-8").to_owned()
    }
}
