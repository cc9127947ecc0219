//! Three Sentinels, a primary and its replica: who the primary is, they say.

use super::values::poll;
use super::*;
use crate::config::RedisUrl;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const HOUR: Duration = Duration::from_secs(3_600);

struct Sentinel {
    process: Child,
    port: u16,
    _directory: TempDir,
}

impl Sentinel {
    fn start(primary: &Server) -> Self {
        let (directory, port) = (tempfile::tempdir().expect("a directory"), server::free_port());
        let file = directory.path().join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor limits 127.0.0.1 {} 2\nsentinel down-after-milliseconds limits 500\n\
             sentinel failover-timeout limits 3000\n",
            primary.port()
        );
        std::fs::write(&file, text).expect("written");
        let process = Command::new(server::program()).arg(&file).arg("--sentinel").stdout(Stdio::null()).spawn().expect("it is installed");
        Self { process, port, _directory: directory }
    }

    fn knows(&self) -> Option<String> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).expect("an address");
        let mut connection = client.get_connection().ok()?;
        redis::cmd("INFO").arg("sentinel").query(&mut connection).ok()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn the_primary_is_the_one_that_sentinels_name_and_its_successor_after_a_failover() {
    let mut primary = Server::on_port(server::free_port(), "", &[]);
    let more = ["--replicaof", "127.0.0.1", primary.port(), "--repl-diskless-sync-delay", "0"];
    let replica = Server::on_port(server::free_port(), "", &more);
    poll(|| replica.info("replication").contains("master_link_status:up")).await;
    let sentinels: Vec<Sentinel> = (0..3).map(|_| Sentinel::start(&primary)).collect();
    let all_know = "status=ok,address=127.0.0.1:";
    poll(|| sentinels.iter().all(|s| s.knows().is_some_and(|text| text.contains(all_know) && text.contains("slaves=1,sentinels=3")))).await;

    let redis = RedisConfig {
        url: RedisUrl::new("redis://limits"),
        sentinels: sentinels.iter().map(|s| RedisUrl::new(format!("redis://127.0.0.1:{}", s.port))).collect(),
    };
    let store = RedisStore::new(&RedisSettings { redis, ..settings("redis://unused") }).expect("an address");
    begin(&store).await.expect("begun");
    let limit = charge("a", tokens(1), HOUR, tokens(10));
    assert!(decide(&store, std::slice::from_ref(&limit)).await.allowed);
    assert!(primary.info("keyspace").contains("keys=2"), "it is the primary that was asked");

    primary.kill();
    poll(|| replica.try_info("replication").is_ok_and(|text| text.contains("role:master"))).await;
    values::poll_async(async || store.decide(&question(std::slice::from_ref(&limit))).await == Ok(Reply::NoRecord)).await;
    assert!(store.load().await.expect("it answers").lost());
    begin_again(&store, 2).await;
    assert!(!decide(&store, &[limit]).await.allowed);
}
