//! What an agent is told when it starts: `agent.toml`, read with all its mistakes together.
//!
//! | field | default | what |
//! |---|---|---|
//! | `region` | | the region that it serves |
//! | `name` | the region's | its own name, for people |
//! | `listen` | | address to serve on |
//! | `grpc-listen` | none | address to serve gRPC on, for Envoy |
//! | `coordinators` | | base URLs of all coordinators |
//! | `token-file` | none | holds the token that it shows to them |
//! | `store` | | `{kind = "redis", url = "redis://…"}`, with `sentinels = ["redis://…"]` or without, or `{kind = "embedded"}` |
//! | `heartbeat` | `1s` | how often it reports and renews; 100ms to 10s |
//! | `data-dir` | none | where policy sets are remembered over a restart |
//! | `store-timeout` | `50ms` | after this the store counts as unreachable; 1ms to 10s |
//! | `store-waiting` | 1024 | requests that wait for the store at once at most; 1 to 65536 |
//! | `store-open-for` | `1min` | how long policies that are `open` let everything pass without the store; 0s to 1d |
//! | `max-body` | 65536 | bytes of a request body at most; 1024 to 16777216 |
//! | `tokens` | none | who may call: `{name, sha256}` |
//! | `legacy-headers` | `false` | `X-RateLimit-Limit`, `-Remaining` and `-Reset` too, for old clients |
//! | `authz` | | how header fields of gateways are read ([`authz`]) |
//! | `log` | text, info | `{format = "text" or "json", level = "error" … "trace"}` |
//! | `traces` | none | `{endpoint = "http://127.0.0.1:4318", sample = "1%"}`: spans, to a collector that takes OTLP over HTTP |
//!
//! Without tokens anybody may call, so such an agent listens on loopback only.

pub mod authz;

use crate::fallback::OPEN_FOR;
use crate::http::authz::Forwarding;
use quorate_shared::located::{Located, Mistake, Node, Once, Report, Value};
use quorate_shared::names::RegionName;
use quorate_shared::settings::{self, LogSettings, Seen, TokenHash, TraceSettings, duration_in};
use quorate_shared::text;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often an agent reports, if nothing else is said.
pub const HEARTBEAT: Duration = Duration::from_secs(1);

/// After this the store counts as unreachable, if nothing else is said.
pub const STORE_TIMEOUT: Duration = Duration::from_millis(50);

/// Requests that wait for the store at once at most, if nothing else is said.
pub const STORE_WAITING: usize = 1024;

/// Bytes of a request body at most, if nothing else is said.
pub const MAX_BODY: usize = 64 * 1024;

/// What an agent is told when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    /// The region that it serves.
    pub region: RegionName,
    /// Its own name, for people.
    pub name: String,
    /// Where it serves.
    pub listen: SocketAddr,
    /// Where it serves gRPC, if it does.
    pub grpc_listen: Option<SocketAddr>,
    /// Base URLs of the coordinators, without a slash at the end.
    pub coordinators: Vec<String>,
    /// Holds the token that it shows to them.
    pub token_file: Option<PathBuf>,
    /// Where its budgets are spent.
    pub store: StoreConfig,
    /// Where it remembers policy sets, for a start without any coordinator.
    pub data_dir: Option<PathBuf>,
    /// How often it reports and renews.
    pub heartbeat: Duration,
    /// After this the store counts as unreachable.
    pub store_timeout: Duration,
    /// Requests that wait for the store at once at most.
    pub store_waiting: usize,
    /// How long policies that are open let everything pass without the store.
    pub store_open_for: Duration,
    /// Bytes of a request body at most.
    pub max_body: usize,
    /// Whether answers have `X-RateLimit-…` fields too, for old clients.
    pub legacy_headers: bool,
    /// How header fields of gateways are read.
    pub authz: Forwarding,
    /// Who may call. Empty: anybody.
    pub tokens: Vec<Caller>,
    /// How it logs.
    pub log: LogSettings,
    /// Where it sends spans.
    pub traces: Option<TraceSettings>,
}

/// Where a region's budgets are spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreConfig {
    /// In the agent's own memory: lost when it ends.
    Embedded,
    /// In a Redis that all agents of the region share.
    Redis(RedisConfig),
}

/// Where a Redis is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisConfig {
    /// Of the Redis, or of any node of a cluster. With Sentinels the host is the name by which they know it.
    pub url: RedisUrl,
    /// Who is asked for its address. None: the URL has it.
    pub sentinels: Vec<RedisUrl>,
}

impl RedisConfig {
    /// At this URL.
    pub fn at(url: impl Into<String>) -> Self {
        Self { url: RedisUrl::new(url), sentinels: Vec::new() }
    }
}

/// `redis://[user:password@]host[:port][/database]`. Not shown, for it may hold a password.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl(String);

impl RedisUrl {
    /// A URL of this text.
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// The URL, password and all.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedisUrl(…)")
    }
}

/// One credential of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// For the log, unique.
    pub name: String,
    /// What is kept of it.
    pub sha256: TokenHash,
}

const FIELDS: &[&str] = &[
    "region",
    "name",
    "listen",
    "grpc-listen",
    "coordinators",
    "token-file",
    "store",
    "data-dir",
    "heartbeat",
    "store-timeout",
    "store-waiting",
    "store-open-for",
    "max-body",
    "legacy-headers",
    "authz",
    "tokens",
    "log",
    "traces",
];

impl AgentConfig {
    /// An agent without credentials; everything else as if it was not said.
    pub fn new(region: RegionName, listen: SocketAddr, coordinators: Vec<String>, store: StoreConfig) -> Self {
        Self {
            name: region.to_string(),
            region,
            listen,
            grpc_listen: None,
            coordinators,
            token_file: None,
            store,
            data_dir: None,
            heartbeat: HEARTBEAT,
            store_timeout: STORE_TIMEOUT,
            store_waiting: STORE_WAITING,
            store_open_for: OPEN_FOR,
            max_body: MAX_BODY,
            legacy_headers: false,
            authz: Forwarding::default(),
            tokens: Vec::new(),
            log: LogSettings::default(),
            traces: None,
        }
    }

    /// Reads a configuration.
    ///
    /// # Errors
    /// Every mistake, in the order of the text.
    pub fn from_node(document: &Node) -> Result<Self, Vec<Mistake>> {
        let report = Report::default();
        let config = config(&Located::root(document, &report));
        report.finish(config).map(|(config, _)| config)
    }

    /// The same, with relative paths taken from `folder`.
    #[must_use]
    pub fn relative_to(mut self, folder: &Path) -> Self {
        self.token_file = self.token_file.map(|path| folder.join(path));
        self.data_dir = self.data_dir.map(|path| folder.join(path));
        self
    }
}

fn config(document: &Located<'_>) -> Option<AgentConfig> {
    let fields = document.fields(FIELDS)?;
    // every field is read before the first `?`, or the mistakes of the later ones would be lost
    let region = fields.required("region").and_then(name);
    let own_name = fields.or("name", region.clone(), |at| name(at).map(Some));
    let listen = fields.required_as("listen", ", such as \"127.0.0.1:7201\"").and_then(address);
    let grpc_listen = fields.or("grpc-listen", None, |at| address(at).map(Some));
    let coordinators = fields.required_as("coordinators", ", such as [\"http://127.0.0.1:7101\"]").and_then(coordinators);
    let token_file = fields.or("token-file", None, |at| settings::path(at).map(Some));
    let store = fields.required_as("store", ", such as { kind = \"redis\", url = \"redis://127.0.0.1:6379\" }").and_then(store);
    let data_dir = fields.or("data-dir", None, |at| settings::path(at).map(Some));
    let heartbeat = fields.or("heartbeat", HEARTBEAT, duration_in(Duration::from_millis(100)..=Duration::from_secs(10)));
    let store_timeout = fields.or("store-timeout", STORE_TIMEOUT, duration_in(Duration::from_millis(1)..=Duration::from_secs(10)));
    let store_waiting = fields.or("store-waiting", STORE_WAITING, |at| usize::try_from(at.whole(1..=65_536)?).ok());
    let store_open_for = fields.or("store-open-for", OPEN_FOR, duration_in(Duration::ZERO..=Duration::from_secs(24 * 3_600)));
    let max_body = fields.or("max-body", MAX_BODY, |at| usize::try_from(at.whole(1024..=16 * 1024 * 1024)?).ok());
    let legacy_headers = fields.or("legacy-headers", false, Located::bool);
    let authz = fields.or("authz", Forwarding::default(), authz::read);
    let tokens = fields.or("tokens", Vec::new(), tokens);
    let log = fields.or("log", LogSettings::default(), settings::log);
    let traces = fields.or("traces", None, |at| settings::traces(at).map(Some));

    for (field, listen) in [("listen", listen), ("grpc-listen", grpc_listen.flatten())] {
        if let (Some(at), Some(listen), Some(tokens)) = (fields.optional(field), listen, &tokens) {
            settings::not_open_to_all(at, listen, !tokens.is_empty());
        }
    }
    Some(AgentConfig {
        region: region?,
        name: own_name??.to_string(),
        listen: listen?,
        grpc_listen: grpc_listen?,
        coordinators: coordinators?,
        token_file: token_file?,
        store: store?,
        data_dir: data_dir?,
        heartbeat: heartbeat?,
        store_timeout: store_timeout?,
        store_waiting: store_waiting?,
        store_open_for: store_open_for?,
        max_body: max_body?,
        legacy_headers: legacy_headers?,
        authz: authz?,
        tokens: tokens?,
        log: log?,
        traces: traces?,
    })
}

fn address(at: &Located<'_>) -> Option<SocketAddr> {
    at.read("an address", text::socket_address)
}

fn name(at: &Located<'_>) -> Option<RegionName> {
    at.taken(at.text("a name")?.parse())
}

fn coordinators(at: &Located<'_>) -> Option<Vec<String>> {
    let items = at.list("a list of URLs, such as [\"http://127.0.0.1:7101\"]")?;
    if items.is_empty() {
        at.refuse("at least one coordinator is needed");
        return None;
    }
    let mut seen = Once::default();
    let mut urls = Vec::with_capacity(items.len());
    for item in &items {
        if let Some(url) = item.text("a URL").and_then(|text| base_url(item, text))
            && seen.first(item, url.clone(), "this coordinator is already there").is_some()
        {
            urls.push(url);
        }
    }
    (urls.len() == items.len()).then_some(urls)
}

/// A URL of a scheme, a host and a port, without the slash at its end.
fn base_url(at: &Located<'_>, text: &str) -> Option<String> {
    let url = text.strip_suffix('/').unwrap_or(text);
    let address = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    match address.map(text::host_and_port) {
        Some(Ok(_)) => Some(url.to_owned()),
        _ => {
            at.refuse(format!(
                "`{}` is not the URL of a coordinator: write scheme, host and port, such as `http://10.0.0.1:7101`",
                text::cut(text)
            ));
            None
        }
    }
}

/// What is there instead is not repeated in a mistake: there may be a password in it.
fn store(at: &Located<'_>) -> Option<StoreConfig> {
    if !matches!(at.value(), Value::Map(_)) {
        at.refuse("expected a map, such as { kind = \"redis\", url = \"redis://127.0.0.1:6379\" }");
        return None;
    }
    let fields = at.fields(&["kind", "url", "sentinels"])?;
    let kind = fields.required("kind")?;
    match kind.value() {
        Value::Text(kind) if kind == "redis" => {
            let sentinels = fields.or("sentinels", Vec::new(), sentinels);
            let url = redis_url(fields.required_as("url", ", such as \"redis://127.0.0.1:6379\"")?)?;
            Some(StoreConfig::Redis(RedisConfig { url, sentinels: sentinels? }))
        }
        Value::Text(kind) if kind == "embedded" => {
            for redis in [fields.optional("url"), fields.optional("sentinels")].into_iter().flatten() {
                redis.refuse("an embedded store has no URL");
            }
            Some(StoreConfig::Embedded)
        }
        _ => {
            kind.refuse("expected `embedded` or `redis`");
            None
        }
    }
}

fn sentinels(at: &Located<'_>) -> Option<Vec<RedisUrl>> {
    let items = at.list("a list of URLs, such as [\"redis://10.0.0.1:26379\"]")?;
    let urls: Vec<RedisUrl> = items.iter().filter_map(redis_url).collect();
    (urls.len() == items.len()).then_some(urls)
}

/// The text is not repeated in a mistake: there may be a password in it.
fn redis_url(at: &Located<'_>) -> Option<RedisUrl> {
    const RIGHT: &str = "write a URL such as `redis://127.0.0.1:6379`";
    let text = at.text("a URL")?;
    let Some(rest) = text.strip_prefix("redis://") else {
        let tls = text.starts_with("rediss://");
        at.refuse(if tls { "this version speaks to Redis without TLS only: `redis://`" } else { RIGHT });
        return None;
    };
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    let (host, database) = place.split_once('/').unwrap_or((place, ""));
    let with_port =
        if host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']')) { host.to_owned() } else { format!("{host}:6379") };
    let digits = database.bytes().all(|b| b.is_ascii_digit());
    if text::host_and_port(&with_port).is_err() || !digits {
        at.refuse(RIGHT);
        return None;
    }
    Some(RedisUrl(text.to_owned()))
}

fn tokens(at: &Located<'_>) -> Option<Vec<Caller>> {
    let items = settings::token_list(at, "[{ name = \"gateway\", sha256 = \"…\" }]")?;
    let mut seen = Seen::default();
    let tokens: Vec<Caller> = items.iter().filter_map(|item| token(item, &mut seen)).collect();
    (tokens.len() == items.len()).then_some(tokens)
}

fn token<'a>(at: &Located<'a>, seen: &mut Seen<'a>) -> Option<Caller> {
    let fields = settings::token_fields(at, &["name", "sha256"])?;
    let (name, sha256) = settings::name_and_hash(&fields, seen);
    Some(Caller { name: name?, sha256: sha256? })
}
