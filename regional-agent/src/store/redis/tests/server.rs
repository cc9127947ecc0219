//! A real Redis for one test.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;

/// A `redis-server` of its own, stopped with the test.
pub struct Server {
    process: Child,
    directory: TempDir,
    options: Vec<String>,
    pub url: String,
}

impl Server {
    /// On a socket file, so no port is taken.
    pub fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("redis.sock").display().to_string();
        let options = ["--port", "0", "--unixsocket", &path].map(str::to_owned).to_vec();
        Self::run(directory, options, format!("unix://{path}"))
    }

    /// On a free port of the loopback interface, with `more` options; `login` is part of the address.
    pub fn on_port(port: u16, login: &str, more: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let port = port.to_string();
        let options = ["--bind", "127.0.0.1", "--port", &port].into_iter().chain(more.iter().copied()).map(str::to_owned).collect();
        Self::run(directory, options, format!("redis://{login}127.0.0.1:{port}"))
    }

    fn run(directory: TempDir, options: Vec<String>, url: String) -> Self {
        let process = spawn(&directory, &options);
        Self { process, directory, options, url }
    }

    /// A connection of the test's own.
    pub fn connect(&self) -> redis::Connection {
        let client = redis::Client::open(self.url.as_str()).expect("an address");
        client.get_connection().expect("a connection")
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }

    /// Starts it anew after [`Self::kill`], with what is in its directory.
    pub fn restart(&mut self) {
        self.process = spawn(&self.directory, &self.options);
    }

    /// The same with `more` options, without waiting until it serves.
    pub fn restart_slowly(&mut self, more: &[&str]) {
        self.process = command(&self.directory, &self.options).args(more).stdout(Stdio::null()).spawn().expect("it is installed");
    }

    /// The port that it listens on.
    pub fn port(&self) -> &str {
        self.url.rsplit(':').next().expect("a port")
    }

    /// One section of what it says of itself.
    pub fn info(&self, section: &str) -> String {
        self.try_info(section).expect("it answers")
    }

    /// The same; one that changes its role resets all connections, those that are just made too.
    pub fn try_info(&self, section: &str) -> redis::RedisResult<String> {
        let mut connection = redis::Client::open(self.url.as_str())?.get_connection()?;
        redis::cmd("INFO").arg(section).query(&mut connection)
    }

    /// Sets it up while it runs.
    pub fn set(&self, name: &str, value: &str) {
        redis::cmd("CONFIG").arg(&["SET", name, value]).exec(&mut self.connect()).expect("set");
    }

    /// Stops it from running, or lets it run on.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(id, signal).expect("it runs");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A port that was free just now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// `redis-server`, or what `QUORATE_TEST_REDIS` names, such as `valkey-server`.
pub fn program() -> String {
    std::env::var("QUORATE_TEST_REDIS").unwrap_or_else(|_| "redis-server".to_owned())
}

fn command(directory: &TempDir, options: &[String]) -> Command {
    let mut command = Command::new(program());
    command.args(["--save", "", "--appendonly", "no", "--daemonize", "no", "--dir"]).arg(directory.path()).args(options);
    command
}

/// Starts a Redis and waits until it says that it serves.
fn spawn(directory: &TempDir, options: &[String]) -> Child {
    let mut process = command(directory, options).stdout(Stdio::piped()).spawn().expect("it is installed");
    let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    let (said, ready) = mpsc::channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if line.to_lowercase().contains("ready to accept connections") {
                let _ = said.send(());
            }
        }
    });
    if ready.recv_timeout(Duration::from_secs(20)).is_err() {
        let _ = process.kill();
        panic!("redis-server did not start: {:?}", process.wait());
    }
    process
}
