//! The servers that are asked, as processes, and what they cost.

use super::client::Load;
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// For a server to be ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// An agent that is asked: its name, and what its configuration says of its store and what else is special.
pub const AGENTS: [Row; 2] = [
    Row { name: "agent, embedded", region: "embedded", has_redis: false, settings: "" },
    Row { name: "agent, Redis, strict", region: "strict", has_redis: true, settings: "" },
];

/// One agent that is asked.
pub struct Row {
    /// What the tables call it.
    pub name: &'static str,
    /// Its region.
    pub region: &'static str,
    /// Whether its store is a Redis of its own.
    pub has_redis: bool,
    /// Lines for its configuration.
    pub settings: &'static str,
}

/// A server that is asked.
#[derive(Clone)]
pub struct Contender {
    pub name: &'static str,
    pub address: SocketAddr,
    pub process: u32,
    pub redis: Option<u32>,
}

/// All of them, and a coordinator. They end with it.
pub struct System {
    contenders: Vec<Contender>,
    _processes: Vec<Process>,
    _folder: tempfile::TempDir,
}

/// A process that ends with its owner.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl System {
    /// Starts the ceiling and the agents whose name contains `only`, and waits until they serve by a lease.
    pub fn start(only: &str) -> Self {
        Self::start_under(&[], only)
    }

    /// The same, where the ceiling and the agents are started by this command line.
    pub fn start_under(wrapper: &[&str], only: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut system = Self { contenders: Vec::new(), _processes: Vec::new(), _folder: folder };
        system.start_ceiling(wrapper);
        let coordinator = system.start_coordinator();
        for row in AGENTS.iter().filter(|row| row.name.contains(only)) {
            system.start_agent(wrapper, row, coordinator);
        }
        system
    }

    /// Who is asked; the ceiling first.
    pub fn contenders(&self) -> &[Contender] {
        &self.contenders
    }

    fn start_ceiling(&mut self, wrapper: &[&str]) {
        let own = std::env::current_exe().expect("this program has a path");
        let mut child = wrapped(wrapper, &own).env("ROLE", "ceiling").stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("an address");
        let address = line.trim().parse().expect("an address");
        self.contenders.push(Contender { name: "ceiling: bare axum", address, process: child.id(), redis: None });
        self._processes.push(Process(child));
    }

    fn start_coordinator(&mut self) -> SocketAddr {
        let address = free_port();
        let mut regions = String::new();
        for row in AGENTS {
            _ = write!(regions, "{}: {{}}, ", row.region);
        }
        let policies = format!(
            "regions: {{{}}}\npolicies:\n- name: write\n  match: {{route: write}}\n  per: [tenant]\n  floor: 100%\n  \
             limit: {{algorithm: token-bucket, rate: 10000000/s, burst: 10000000}}\n",
            regions.trim_end_matches(", ")
        );
        let config = format!(
            "node = 1\nlisten = \"{address}\"\ndata-dir = \"coordinator\"\npolicies = \"policies.yaml\"\n[members]\n1 = \"{address}\"\n"
        );
        self.write("policies.yaml", &policies);
        self.start_quorate(&[], "coordinator", &config);
        address
    }

    fn start_agent(&mut self, wrapper: &[&str], row: &Row, coordinator: SocketAddr) {
        let redis = row.has_redis.then(|| self.start_redis());
        let store =
            redis.map_or_else(|| "{ kind = \"embedded\" }".to_owned(), |(_, at)| format!("{{ kind = \"redis\", url = \"redis://{at}\" }}"));
        let address = free_port();
        let config = format!(
            "region = \"{}\"\nlisten = \"{address}\"\ncoordinators = [\"http://{coordinator}\"]\nstore = {store}\n\
             store-timeout = \"10s\"\n{}\nlog = {{ level = \"error\" }}\n",
            row.region, row.settings
        );
        let process = self.start_quorate(wrapper, "agent", &config);
        self.contenders.push(Contender { name: row.name, address, process, redis: redis.map(|(process, _)| process) });
        let begun = Instant::now();
        while !is_leased(address) {
            assert!(begun.elapsed() < PATIENCE, "{} is not ready", row.name);
            std::thread::sleep(Duration::from_millis(50));
        }
        Load { address, connections: 4, pace: None }.ask(10);
    }

    fn start_redis(&mut self) -> (u32, SocketAddr) {
        let address = free_port();
        let port = address.port().to_string();
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is on PATH");
        let process = child.id();
        self._processes.push(Process(child));
        (process, address)
    }

    fn start_quorate(&mut self, wrapper: &[&str], role: &str, config: &str) -> u32 {
        let name = format!("{role}-{}.toml", self._processes.len());
        let path = self.write(&name, config);
        let binary = std::env::var_os("QUORATE").unwrap_or_else(|| env!("CARGO_BIN_EXE_quorate").into());
        let mut command = wrapped(wrapper, Path::new(&binary));
        let child = command.args([role, "--config"]).arg(path).stdout(Stdio::null()).spawn().expect("it starts");
        let process = child.id();
        self._processes.push(Process(child));
        process
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self._folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    }
}

/// `program`, started by the command line `wrapper` if there is one.
fn wrapped(wrapper: &[&str], program: &Path) -> Command {
    match wrapper {
        [] => Command::new(program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    }
}

/// A port that was free just now.
fn free_port() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr()).expect("a free port")
}

/// True once an agent says that it serves by a lease.
fn is_leased(address: SocketAddr) -> bool {
    use std::io::{Read, Write};
    let asked = std::net::TcpStream::connect(address).and_then(|mut stream| {
        stream.write_all(b"GET /v1/status HTTP/1.1\r\nhost: agent\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    });
    asked.is_ok_and(|answer| answer.contains(r#""mode":"leased""#))
}

/// User and system time of a process, by `/proc/PID/stat` in hundredths of a second.
pub fn cpu_seconds(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: f64 = after_name.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<f64>().ok()).sum();
    ticks / 100.0
}
