//! Lost, repeated and late heartbeats: they renew nothing that they should not.

#![allow(clippy::expect_used, clippy::panic)]

use quorate_faults::alone::Alone;
use quorate_faults::configuration::policies;
use quorate_faults::ports::Port;
use quorate_faults::post::{Fate, Post};
use quorate_faults::process::{Process, quorate};
use quorate_faults::system::PATIENCE;
use quorate_faults::wait::until;
use quorate_shared::api::{AgentStatus, RegionState, Regions};
use quorate_shared::heartbeat::Answer;
use std::time::Duration;
use tempfile::TempDir;

/// One region, whose agent speaks to one coordinator through a relay that reads along.
struct Bench {
    coordinator: Alone,
    post: Post,
    agent: String,
    client: reqwest::Client,
    _process: Process,
    _folder: TempDir,
}

impl Bench {
    async fn set_up() -> Self {
        let coordinator = Alone::start(&policies()).await;
        let post = Post::to(coordinator.url()).await;
        let (folder, port) = (tempfile::tempdir().expect("a folder"), Port::reserve());
        let config = folder.path().join("agent.toml");
        let text = format!(
            "region = \"us\"\nlisten = \"{}\"\ncoordinators = [\"{}\"]\nstore = {{ kind = \"embedded\" }}\nheartbeat = \"200ms\"\n",
            port.address(),
            post.url()
        );
        std::fs::write(&config, text).expect("written");
        let arguments = ["agent", "--config", config.to_str().expect("UTF-8")];
        let process = Process::start(&quorate(), &arguments, &folder.path().join("agent.log"));
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(2)).build().expect("a client");
        let bench = Self { coordinator, post, agent: format!("http://{}", port.address()), client, _process: process, _folder: folder };
        bench.agent_until("it is leased", |status| status.mode == "leased").await;
        bench
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, url: String) -> Option<T> {
        self.client.get(url).send().await.ok()?.json().await.ok()
    }

    async fn agent_until(&self, what: &str, so: impl Fn(&AgentStatus) -> bool) -> AgentStatus {
        until(what, PATIENCE, async || self.get::<AgentStatus>(format!("{}/v1/status", self.agent)).await.filter(&so)).await
    }

    /// The region as the coordinator sees it.
    async fn region(&self) -> Option<RegionState> {
        let regions: Regions = self.get(format!("{}/v1/regions", self.coordinator.url())).await?;
        regions.regions.into_iter().find(|region| region.region == "us")
    }

    async fn wait_for_heartbeats(&self, more: usize) {
        let seen = self.post.seen();
        until("more heartbeats", PATIENCE, async || (self.post.seen() >= seen + more).then_some(())).await;
    }
}

fn is_stale(answer: &Option<Answer>) -> bool {
    matches!(answer, Some(Answer::Stale { .. }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_that_come_twice_change_nothing() {
    let bench = Bench::set_up().await;
    let before = bench.agent_until("it is leased", |status| status.mode == "leased").await;
    bench.post.set(Fate::Doubled);
    bench.wait_for_heartbeats(10).await;
    let after = bench.agent_until("it answers", |_| true).await;
    assert_eq!((after.session, after.mode.as_str()), (before.session, "leased"));
    assert_eq!(bench.region().await.map(|region| region.session), Some(before.session));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_that_is_silent_is_not_kept_alive_by_its_old_heartbeats() {
    let bench = Bench::set_up().await;
    bench.wait_for_heartbeats(5).await;
    bench.post.set(Fate::Lost);
    let delivered = bench.post.seen() - 1;
    // the one under way when that was set may still arrive
    bench.wait_for_heartbeats(1).await;
    let mut n = 0;
    until("its lease has ended", PATIENCE, async || {
        let answer = bench.post.again(n % delivered).await;
        assert!(is_stale(&answer), "{answer:?}");
        n += 1;
        bench.region().await.filter(|region| region.state == "expired")
    })
    .await;
    assert!(n > delivered, "each was sent again");
    bench.agent_until("the agent knows", |status| status.mode == "floor").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_that_come_late_are_taken_in_their_order_only() {
    let bench = Bench::set_up().await;
    let session = bench.agent_until("it is leased", |_| true).await.session;
    bench.post.set(Fate::Lost);
    bench.wait_for_heartbeats(3).await;
    let (newest, older) = (bench.post.seen() - 1, bench.post.seen() - 2);
    let answer = bench.post.again(newest).await;
    assert!(matches!(answer, Some(Answer::Renewed(_))), "it is the newest of its session: {answer:?}");
    for _ in 0..2 {
        let answers = [bench.post.again(older).await, bench.post.again(newest).await];
        assert!(answers.iter().all(is_stale), "{answers:?}");
    }
    bench.agent_until("what the agent has not heard does not renew its lease", |status| status.mode == "floor").await;
    bench.post.set(Fate::Delivered);
    let back = bench.agent_until("it is leased again", |status| status.mode == "leased").await;
    assert_eq!(back.session, session, "in the session that it had");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_lost_renew_nothing_at_the_agent() {
    let bench = Bench::set_up().await;
    bench.post.set(Fate::Unanswered);
    bench.agent_until("its lease has ended", |status| status.mode == "floor").await;
    let region = bench.region().await.expect("the coordinator answers");
    assert_eq!(region.state, "live", "the coordinator heard of it all along");
    bench.post.set(Fate::Delivered);
    bench.agent_until("it is leased again", |status| status.mode == "leased").await;
}
