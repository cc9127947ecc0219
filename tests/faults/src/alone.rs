//! One coordinator by itself, as a process.

use crate::disk::{Disk, Shim};
use crate::ports::Port;
use crate::process::{Process, quorate};
use crate::system::PATIENCE;
use crate::wait::until;
use std::fs;
use std::time::Duration;
use tempfile::TempDir;

/// A coordinator that is all of its cluster.
#[derive(Debug)]
pub struct Alone {
    process: Option<Process>,
    port: Port,
    disk: Disk,
    client: reqwest::Client,
    folder: TempDir,
}

impl Alone {
    /// Starts it with a policy set, and waits until it leads.
    pub async fn start(policies: &str) -> Self {
        let (folder, port) = (tempfile::tempdir().expect("a folder"), Port::reserve());
        let address = port.address();
        let config =
            format!("node = 1\nlisten = \"{address}\"\ndata-dir = \"data\"\npolicies = \"policies.yaml\"\n[members]\n1 = \"{address}\"\n");
        fs::write(folder.path().join("policies.yaml"), policies).expect("written");
        fs::write(folder.path().join("coordinator.toml"), config).expect("written");
        let disk = Disk::new(&Shim::compile(folder.path()), folder.path(), "data");
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(5)).build().expect("a client");
        let mut alone = Self { process: None, port, disk, client, folder };
        alone.launch();
        alone.wait_until_ready().await;
        alone
    }

    /// Starts its process.
    pub fn launch(&mut self) {
        let path = |name: &str| self.folder.path().join(name);
        let config = path("coordinator.toml");
        let arguments = ["coordinator", "--config", config.to_str().expect("UTF-8")];
        self.process = Some(Process::start_in(&quorate(), &arguments, &path("coordinator.log"), &self.disk.environment()));
    }

    /// Waits until it has a policy set.
    pub async fn wait_until_ready(&self) {
        until("it has its policies", PATIENCE, async || self.version().await.filter(|version| *version > 0)).await;
    }

    /// The newest version of its policy set; `None` if it does not answer.
    pub async fn version(&self) -> Option<u64> {
        let response = self.client.get(format!("{}/v1/policies", self.url())).send().await.ok()?.error_for_status().ok()?;
        response.headers().get("etag")?.to_str().ok()?.trim_matches('"').parse().ok()
    }

    /// Puts a policy set in place of a version. True if that was acknowledged.
    pub async fn put(&self, version: u64, policies: String) -> bool {
        let request = self.client.put(format!("{}/v1/policies", self.url())).header("if-match", format!("\"{version}\""));
        let sent = request.header("content-type", "application/yaml").body(policies).send().await;
        sent.is_ok_and(|response| response.status().is_success())
    }

    /// Its base URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.port.address())
    }

    /// Its disk.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Waits until its process has ended by itself.
    pub async fn wait_until_it_ends(&mut self) {
        let process = self.process.as_mut().expect("it was started");
        until("the coordinator ends", PATIENCE, async || process.has_ended().then_some(())).await;
    }
}
