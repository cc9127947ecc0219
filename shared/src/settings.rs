//! Settings that the configurations of coordinator and agent have in common: what is logged,
//! and who may call.

use crate::located::{Fields, Located, Once, Value};
use crate::names::PolicyName;
use crate::text::{self, DurationText};
use crate::units::PartsPerMillion;
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// How a process logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSettings {
    /// Default: text.
    pub format: LogFormat,
    /// Default: info.
    pub level: LogLevel,
}

/// For whom logs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// The least important line that is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something will fail, or was not as it should be.
    Warn,
    /// Something happened that happens seldom.
    #[default]
    Info,
    /// What was decided.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// Reads `log = {format = "text", level = "info"}`.
pub fn log(at: &Located<'_>) -> Option<LogSettings> {
    let fields = at.fields(&["format", "level"])?;
    let format = fields.or("format", LogFormat::default(), |at| at.word(&[("text", LogFormat::Text), ("json", LogFormat::Json)]));
    let levels = [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug, LogLevel::Trace].map(|l| (l.as_str(), l));
    let level = fields.or("level", LogLevel::default(), |at| at.word(&levels));
    Some(LogSettings { format: format?, level: level? })
}

/// Where spans are sent, and of how many requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSettings {
    /// Base URL of an OpenTelemetry collector that takes OTLP over HTTP, without a slash at the end.
    pub endpoint: String,
    /// Of requests that come without a decision about their trace, the share that has spans.
    pub sample: PartsPerMillion,
}

impl TraceSettings {
    /// One request in a hundred.
    pub const SAMPLE: PartsPerMillion = PartsPerMillion(10_000);
}

/// Reads `traces = {endpoint = "http://127.0.0.1:4318", sample = "1%"}`.
pub fn traces(at: &Located<'_>) -> Option<TraceSettings> {
    let fields = at.fields(&["endpoint", "sample"])?;
    let endpoint = fields.required_as("endpoint", ", such as \"http://127.0.0.1:4318\"");
    let endpoint = endpoint.and_then(|at| at.read("a URL, such as http://127.0.0.1:4318", text::collector));
    let sample = fields.or("sample", TraceSettings::SAMPLE, |at| at.read("a share, such as 1%", text::share));
    Some(TraceSettings { endpoint: endpoint?, sample: sample? })
}

/// What is kept of a bearer token: the SHA-256 of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of these bytes.
    pub const fn new(sha256: [u8; 32]) -> Self {
        Self(sha256)
    }

    /// Its bytes, for a comparison in constant time.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

/// Why an address cannot be listened on, and what to do about it.
pub fn listen_advice(source: &std::io::Error) -> String {
    match source.kind() {
        std::io::ErrorKind::AddrInUse => "another process listens there; end it, or choose another port in `listen`".to_owned(),
        std::io::ErrorKind::AddrNotAvailable => "this machine has no such address; correct `listen`".to_owned(),
        std::io::ErrorKind::PermissionDenied => "not permitted; choose a port above 1023 in `listen`".to_owned(),
        _ => source.to_string(),
    }
}

/// SHA-256 of nothing: what a script writes whose token was not set.
const OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

const NO_TOKEN: &str = "the token itself is not written here";

/// The items of a list of tokens. What is there instead is not repeated: it may be a token.
pub fn token_list<'a>(at: &Located<'a>, example: &str) -> Option<Vec<Located<'a>>> {
    let Value::List(_) = at.value() else {
        at.refuse(format!("expected a list of tokens, such as {example}; {NO_TOKEN}"));
        return None;
    };
    at.list("a list of tokens")
}

/// The fields of one token of such a list.
pub fn token_fields<'a>(at: &Located<'a>, known: &'static [&'static str]) -> Option<Fields<'a>> {
    let Value::Map(_) = at.value() else {
        at.refuse(format!("expected a map with a name and the SHA-256 of the token; {NO_TOKEN}"));
        return None;
    };
    at.fields(known)
}

/// Reads the name of a token and its hash, which no other token in `seen` may have.
pub fn name_and_hash<'a>(fields: &Fields<'a>, seen: &mut Seen<'a>) -> (Option<String>, Option<TokenHash>) {
    let name = fields.required("name").and_then(|at| {
        let name: PolicyName = at.taken(at.text("a name")?.parse())?;
        seen.names.first(at, name.as_str().to_owned(), "another token has this name").map(|()| name.as_str().to_owned())
    });
    let hint = ", the hash of the token in hexadecimal; get it by `printf %s \"$TOKEN\" | sha256sum`";
    let hash = fields.required_as("sha256", hint).and_then(|at| {
        let hash = hash(at)?;
        seen.hashes.first(at, hash, "another token has this hash").map(|()| hash)
    });
    (name, hash)
}

/// Names and hashes of the tokens that were read.
#[derive(Debug, Default)]
pub struct Seen<'a> {
    names: Once<'a, String>,
    hashes: Once<'a, TokenHash>,
}

/// The text is not repeated in a mistake: it may be the token itself.
fn hash(at: &Located<'_>) -> Option<TokenHash> {
    let text = at.text("the SHA-256 of the token, 64 hexadecimal digits")?;
    if text == OF_NOTHING {
        at.refuse("this is the hash of an empty token");
        return None;
    }
    let bytes: Option<Vec<u8>> = (text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()))
        .then(|| (0..64).step_by(2).filter_map(|i| u8::from_str_radix(text.get(i..i + 2)?, 16).ok()).collect());
    match bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()) {
        Some(bytes) => Some(TokenHash(bytes)),
        None => {
            at.refuse(format!("expected the SHA-256 of the token, 64 hexadecimal digits; {NO_TOKEN}"));
            None
        }
    }
}

/// Refuses to listen where others can reach, if nobody must show who they are. `at` is the
/// address's place.
pub fn not_open_to_all(at: &Located<'_>, listen: SocketAddr, credentials: bool) {
    if !listen.ip().is_loopback() && !credentials {
        at.refuse(format!(
            "others can reach {listen}, and without `tokens` anybody may do anything; list the hashes of your tokens in `tokens`, or listen on 127.0.0.1"
        ));
    }
}

/// Reads a path.
pub fn path(at: &Located<'_>) -> Option<PathBuf> {
    let text = at.text("a path")?;
    if text.is_empty() || text.contains('\0') {
        at.refuse_kind("a path");
        return None;
    }
    Some(text.into())
}

/// Reads a duration in a range.
pub fn duration_in(range: RangeInclusive<Duration>) -> impl Fn(&Located<'_>) -> Option<Duration> {
    move |at| {
        let span = at.read("a duration such as `1s`", text::duration)?;
        if !range.contains(&span) {
            let [span, least, most] = [span, *range.start(), *range.end()].map(DurationText);
            at.refuse(format!("{span} is not between {least} and {most}"));
            return None;
        }
        Some(span)
    }
}
