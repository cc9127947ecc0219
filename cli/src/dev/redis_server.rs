//! A real `redis-server` for one region, as long as the system runs.

use anyhow::{Context, bail};
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// A server must accept connections within this time.
const START: Duration = Duration::from_secs(10);

/// How often it is asked.
const ASK: Duration = Duration::from_millis(10);

/// A running server; it ends with this value.
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    process: Child,
}

impl RedisServer {
    /// Starts `redis-server` on this port of the loopback address. With `durable` it keeps an
    /// append-only file in `directory`.
    ///
    /// # Errors
    /// If there is none on PATH, the port is in use, or it does not start.
    pub async fn start(port: u16, directory: &Path, durable: bool) -> anyhow::Result<Self> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        free.with_context(|| format!("cannot start redis-server on 127.0.0.1:{port}; choose other ports by --port-base"))?;
        std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let spawned = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--daemonize", "no"])
            .args(["--appendonly", if durable { "yes" } else { "no" }, "--appendfsync", "everysec"])
            .args(["--maxmemory-policy", "noeviction", "--loglevel", "warning", "--dir"])
            .arg(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .process_group(0)
            .spawn();
        let process = match spawned {
            Ok(process) => process,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                bail!("no redis-server on PATH: install it (Debian: apt-get install redis-server), or leave --redis out")
            }
            Err(e) => return Err(e).context("cannot start redis-server"),
        };
        let mut server = Self { port, process };
        server.wait_until_it_accepts().await?;
        Ok(server)
    }

    async fn wait_until_it_accepts(&mut self) -> anyhow::Result<()> {
        let accepts = async {
            loop {
                if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.is_ok() {
                    return Ok(());
                }
                if let Some(status) = self.process.try_wait()? {
                    bail!("redis-server on port {} ended at once: {status}", self.port);
                }
                sleep(ASK).await;
            }
        };
        match timeout(START, accepts).await {
            Ok(outcome) => outcome,
            Err(_) => bail!("redis-server on port {} accepts no connection after {START:?}", self.port),
        }
    }

    /// Where it is reached.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Ends it.
    pub async fn stop(mut self) {
        let _ = self.process.kill().await;
    }
}
