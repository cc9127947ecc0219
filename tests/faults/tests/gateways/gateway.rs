//! A gateway as a real program, with the files that we ship.

use crate::regions::PATIENCE;
use quorate_faults::ports::Port;
use quorate_faults::process::Process;
use quorate_faults::wait::until;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// nginx.
    Nginx,
    /// HAProxy.
    Haproxy,
    /// Caddy.
    Caddy,
}

/// What a gateway does while no agent answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutAgent {
    /// It refuses, which is how the files are shipped.
    Closed,
    /// It lets everything pass.
    Open,
}

/// A running gateway; ends with this value.
#[derive(Debug)]
pub struct Gateway {
    _process: Process,
    port: Port,
}

impl Program {
    /// The program, if this machine has it.
    pub fn find(self) -> Option<PathBuf> {
        let caddy = std::env::var("QUORATE_TEST_CADDY").unwrap_or_else(|_| "caddy".to_owned());
        let (name, version) = match self {
            Self::Nginx => ("nginx", "-v"),
            Self::Haproxy => ("haproxy", "-v"),
            Self::Caddy => (caddy.as_str(), "version"),
        };
        // Debian keeps servers where a plain user's PATH does not look
        let beside = |folder: &str| Path::new(folder).join(name);
        let places = [PathBuf::from(name), beside("/usr/sbin"), beside("/usr/local/bin")];
        let found = places.into_iter().find(|path| Command::new(path).arg(version).output().is_ok_and(|output| output.status.success()));
        if found.is_none() {
            eprintln!("passed over: there is no {name} on this machine; ./test says how to get it");
        }
        found
    }

    fn folder(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Caddy => "caddy",
        }
    }

    /// How the shipped files say that nothing passes without an agent, and that everything does.
    fn without_agent(self) -> (&'static str, &'static str) {
        match self {
            Self::Nginx => ("default closed;", "default open;"),
            Self::Haproxy => ("WITHOUT_AGENT = \"closed\"", "WITHOUT_AGENT = \"open\""),
            Self::Caddy => ("import without-agent-closed", "import without-agent-open"),
        }
    }

    fn arguments(self, folder: &str) -> Vec<String> {
        let text = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect();
        match self {
            Self::Nginx => text(&["-p", folder, "-c", &format!("{folder}/nginx.conf"), "-e", "stderr", "-g", "daemon off;"]),
            Self::Haproxy => text(&["-C", folder, "-f", "haproxy.cfg", "-db"]),
            Self::Caddy => text(&["run", "--adapter", "caddyfile", "--config", &format!("{folder}/Caddyfile")]),
        }
    }
}

impl Gateway {
    /// Starts `program` before `agent` and `api`, its files in `folder`/`name`, and waits until it answers.
    pub async fn start(program: (Program, &Path), place: (&Path, &str), agent: SocketAddr, api: SocketAddr, without: WithoutAgent) -> Self {
        let (closed, open) = program.0.without_agent();
        let changes = if without == WithoutAgent::Open { vec![(closed, open)] } else { Vec::new() };
        Self::start_changed(program, place, (agent, api), &changes).await
    }

    /// The same; in the shipped files each first text is replaced by its second.
    pub async fn start_changed(
        program: (Program, &Path),
        place: (&Path, &str),
        (agent, api): (SocketAddr, SocketAddr),
        changes: &[(&str, &str)],
    ) -> Self {
        let (which, path) = program;
        let (folder, name) = place;
        let port = Port::reserve();
        let own = folder.join(name);
        fs::create_dir_all(&own).expect("a folder");
        let put_in = [
            ("127.0.0.1:7201", agent.to_string()),
            ("127.0.0.1:8080", api.to_string()),
            ("127.0.0.1:8000", port.address().to_string()),
            ("abns@quorate-authz", format!("abns@quorate-authz-{}", port.address().port())),
        ];
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(which.folder());
        for file in fs::read_dir(source).expect("deploy is there") {
            let file = file.expect("a file").path();
            let mut text = fs::read_to_string(&file).expect("a text");
            for (shipped, here) in &put_in {
                text = text.replace(shipped, here);
            }
            for (shipped, changed) in changes {
                text = text.replace(shipped, changed);
            }
            fs::write(own.join(file.file_name().expect("it has a name")), text).expect("written");
        }
        let arguments = which.arguments(own.to_str().expect("UTF-8"));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let home = [("HOME", own.as_os_str()), ("XDG_DATA_HOME", own.as_os_str()), ("XDG_CONFIG_HOME", own.as_os_str())];
        let process = Process::start_in(path, &arguments, &folder.join(format!("{name}.log")), &home);
        let address = port.address();
        until(&format!("{which:?} listens"), PATIENCE, async || tokio::net::TcpStream::connect(address).await.ok()).await;
        Self { _process: process, port }
    }

    /// The URL of this path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.port.address())
    }
}
