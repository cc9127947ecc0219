//! Many regions' heartbeats on one coordinator, sent by agents made by hand, and what becomes of
//! them while its views are hammered.

use quorate_shared::heartbeat::{Answer, Heartbeat, Number, Report, Stamp, StoreReport};
use quorate_shared::names::{BudgetId, RegionName, SubjectHash};
use quorate_shared::units::MicroTokens;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// How long an agent waits for an answer, as the real one does.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Budgets in each heartbeat.
const REPORTS: u8 = 3;

/// Agents of each region that do not renew, and are named by the one that does.
const OTHERS: usize = 9;

/// Clients that ask for views without a pause.
pub const VIEWERS: usize = 100;

/// What they ask for.
pub const PAGES: &[&str] = &["/v1/budgets?limit=1000&sort=demand", "/v1/regions", "/v1/bound"];

/// The names of so many regions.
pub fn names(regions: usize) -> Vec<RegionName> {
    (0..regions).map(|n| format!("r{n}").parse().expect("a name")).collect()
}

/// The policy set whose budgets they report.
pub fn policies(names: &[RegionName]) -> String {
    let listed: Vec<String> = names.iter().map(|name| format!("{name}: {{agents: {}}}", 1 + OTHERS)).collect();
    let limit = "{algorithm: token-bucket, rate: 100000/s, burst: 100000}";
    format!("regions: {{{}}}\npolicies:\n- name: bucket\n  per: [tenant]\n  limit: {limit}\n", listed.join(", "))
}

/// What became of heartbeats.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// How long each took that was renewed, in order.
    pub renewed: Vec<Duration>,
    /// Overtaken by another of its region.
    pub stale: usize,
    /// Answered with a status that is no success.
    pub refused: usize,
    /// Not answered in time.
    pub unanswered: usize,
    /// How long it was measured.
    pub span: Duration,
}

impl Figures {
    /// So many of a thousand took no longer.
    pub fn per_mille(&self, n: usize) -> Duration {
        self.renewed.get((self.renewed.len() * n / 1_000).min(self.renewed.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    /// What part of all heartbeats renewed something.
    pub fn share(&self) -> f64 {
        let all = self.renewed.len() + self.stale + self.refused + self.unanswered;
        self.renewed.len() as f64 / all.max(1) as f64
    }

    /// Renewed in a second.
    pub fn per_second(&self) -> f64 {
        self.renewed.len() as f64 / self.span.as_secs_f64()
    }
}

/// One region, whose agents share a session.
#[derive(Debug)]
struct Session {
    region: RegionName,
    number: u64,
    seq: AtomicU64,
    echo: Mutex<Option<Stamp>>,
}

/// Sends heartbeats of each region to a coordinator for a while: `agents` in each, each of them one in
/// every `period`, at instants spread over it.
pub async fn measure(coordinator: &str, regions: &[RegionName], agents: usize, period: Duration, span: Duration) -> Figures {
    let (ended, figures) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Figures::default())));
    let (start, ready) = tokio::sync::watch::channel(None::<Instant>);
    // a later run is a later session
    let number = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let mut senders = JoinSet::new();
    let all = regions.len() * agents;
    for (r, region) in regions.iter().enumerate() {
        let session = Session { region: region.clone(), number, seq: AtomicU64::new(0), echo: Mutex::default() };
        let session = Arc::new(session);
        for agent in 0..agents {
            let first = period * u32::try_from(agent * regions.len() + r).unwrap_or_default() / u32::try_from(all).unwrap_or(1);
            let (session, ended, figures) = (session.clone(), ended.clone(), figures.clone());
            let url = format!("{coordinator}/v1/regions/{region}/heartbeat");
            let mut ready = ready.clone();
            senders.spawn(async move {
                let client = client();
                let Some(begun) = ready.wait_for(Option::is_some).await.ok().and_then(|begun| *begun) else { return };
                let mut due = tokio::time::interval_at((begun + first).into(), period);
                due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
                while !ended.load(Ordering::Relaxed) {
                    due.tick().await;
                    beat(&client, &url, &session, &figures).await;
                }
            });
        }
    }
    let begun = Instant::now();
    start.send_replace(Some(begun));
    tokio::time::sleep(span).await;
    ended.store(true, Ordering::Relaxed);
    senders.join_all().await;
    let mut figures = std::mem::take(&mut *figures.lock().unwrap_or_else(PoisonError::into_inner));
    figures.span = begun.elapsed();
    figures.renewed.sort_unstable();
    figures
}

fn subject(n: u8) -> SubjectHash {
    format!("{n:032x}").parse().expect("32 hexadecimal digits")
}

fn client() -> reqwest::Client {
    // without TLS no roots are needed, and to read them takes longer than all else here
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).http2_prior_knowledge().tcp_nodelay(true).timeout(TIMEOUT);
    client.build().expect("a client")
}

async fn beat(client: &reqwest::Client, url: &str, session: &Session, figures: &Mutex<Figures>) {
    let heartbeat = session.heartbeat();
    let sent = Instant::now();
    let answer = match client.post(url).json(&heartbeat).send().await {
        Ok(response) if response.status().is_success() => response.json::<Answer>().await.ok(),
        Ok(_) => {
            figures.lock().unwrap_or_else(PoisonError::into_inner).refused += 1;
            return;
        }
        Err(_) => None,
    };
    let took = sent.elapsed();
    if let Some(Answer::Renewed(response)) = &answer {
        session.apply(response.stamp);
    }
    let mut figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
    match answer {
        Some(Answer::Renewed(_)) => figures.renewed.push(took),
        Some(_) => figures.stale += 1,
        None => figures.unanswered += 1,
    }
}

impl Session {
    fn heartbeat(&self) -> Heartbeat {
        let report = |n: u8| Report {
            budget: BudgetId { policy: "bucket".parse().expect("a name"), generation: 1, subject: subject(n) },
            demand: MicroTokens(MicroTokens::TOKEN.0 * u64::from(n)),
            admitted: MicroTokens::ZERO,
            refused: MicroTokens::ZERO,
            estimated: MicroTokens::ZERO,
            largest: MicroTokens::ZERO,
        };
        let echo = *self.echo.lock().unwrap_or_else(PoisonError::into_inner);
        Heartbeat {
            others: (1..=OTHERS).map(|n| format!("other-{n}")).collect(),
            echo,
            policies: Some(1),
            reports: (1..=REPORTS).map(report).collect(),
            ..Heartbeat::silent(
                self.region.clone(),
                "by-hand".to_owned(),
                Number { session: self.number, seq: self.seq.fetch_add(1, Ordering::Relaxed) + 1 },
                self.number,
                StoreReport::new("embedded", true),
            )
        }
    }

    fn apply(&self, stamp: Stamp) {
        let mut echo = self.echo.lock().unwrap_or_else(PoisonError::into_inner);
        if echo.is_none_or(|newest| newest.number < stamp.number) {
            *echo = Some(stamp);
        }
    }
}

/// Clients that ask for views, one question after another each. Ends with this value.
#[derive(Debug)]
pub struct Viewers {
    _asking: JoinSet<()>,
    answered: Arc<AtomicUsize>,
    shed: Arc<AtomicUsize>,
}

impl Viewers {
    /// So many, of these pages.
    pub fn of(coordinator: &str, pages: &'static [&'static str], viewers: usize) -> Self {
        let (mut asking, answered, shed) = (JoinSet::new(), Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        for viewer in 0..viewers {
            let (base, answered, shed) = (coordinator.to_owned(), answered.clone(), shed.clone());
            asking.spawn(async move {
                let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
                for page in pages.iter().cycle().skip(viewer) {
                    let Ok(response) = client.get(format!("{base}{page}")).send().await else { continue };
                    let counter = if response.status().is_success() { &answered } else { &shed };
                    counter.fetch_add(1, Ordering::Relaxed);
                    // it must be read to its end, or the connection is made anew
                    let _ = response.bytes().await;
                }
            });
        }
        Self { _asking: asking, answered, shed }
    }

    /// How many questions were answered, and how many refused.
    pub fn counts(&self) -> (usize, usize) {
        (self.answered.load(Ordering::Relaxed), self.shed.load(Ordering::Relaxed))
    }
}
