//! Talking to coordinators and agents over HTTP, and saying what went wrong in words that help.

use crate::arguments::{BaseUrl, ReachArgs};
use anyhow::Context;
use quorate_shared::problem::Problem;
use quorate_shared::text;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, StatusCode};
use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Asks one agent, or the first coordinator that answers.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    coordinators: Vec<BaseUrl>,
    agent: BaseUrl,
}

/// What is asked, without saying of whom.
#[derive(Clone, Debug)]
pub struct Ask {
    method: Method,
    /// Path and query.
    path: String,
    headers: HeaderMap,
    body: String,
}

/// An answer with any status.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Who answered.
    pub from: String,
    /// HTTP status.
    pub status: StatusCode,
    /// The body.
    pub body: String,
}

/// Why there is no useful answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Nobody answered.
    #[error("{}", unreachable(.who, .tried))]
    Unreachable {
        /// What kind of server.
        who: Server,
        /// Every address, and why it gave no answer.
        tried: Vec<(String, String)>,
    },
    /// A refusal in the common form.
    #[error("{problem} ({from}, status {})", problem.status)]
    Problem {
        /// Who answered.
        from: String,
        /// What it said.
        problem: Box<Problem>,
    },
    /// An answer that none of ours would give.
    #[error("{from} answered with status {status}, which is not understood: {}\nIs it {who}?", text::cut(body))]
    Unexpected {
        /// What kind of server was asked.
        who: Server,
        /// Who answered.
        from: String,
        /// HTTP status.
        status: StatusCode,
        /// What it said.
        body: String,
    },
}

/// What kind of server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// Any coordinator.
    Coordinator,
    /// The agent.
    Agent,
    /// One of the agents that load is sent to.
    LoadedAgent,
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Coordinator => "a coordinator",
            Self::Agent | Self::LoadedAgent => "an agent",
        })
    }
}

fn unreachable(who: &Server, tried: &[(String, String)]) -> String {
    let option = match who {
        Server::Coordinator => "--coordinator or QUORATE_COORDINATOR",
        Server::Agent => "--agent or QUORATE_AGENT",
        Server::LoadedAgent => "--agents",
    };
    let mut text = match tried.len() {
        1 => format!("{who} did not answer:"),
        _ => "no coordinator answered:".to_owned(),
    };
    for (url, why) in tried {
        let _ = write!(text, "\n  {url}: {why}");
    }
    let _ = write!(text, "\nIs the system running? `quorate dev` starts one. Another address is given by {option}.");
    text
}

impl Ask {
    /// `GET` of a path with these query parameters; absent ones are left out.
    pub fn get(path: &str, query: &[(&str, Option<&str>)]) -> Self {
        Self { method: Method::GET, path: with_query(path, query), headers: HeaderMap::new(), body: String::new() }
    }

    /// Another method, with a body.
    pub fn send(method: Method, path: &str, query: &[(&str, Option<&str>)], content_type: &'static str, body: String) -> Self {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        Self { method, path: with_query(path, query), headers, body }
    }

    /// With one more header.
    #[must_use]
    pub fn header(mut self, name: reqwest::header::HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}

fn with_query(path: &str, query: &[(&str, Option<&str>)]) -> String {
    let mut url = String::from(path);
    for (name, value) in query.iter().filter_map(|(name, value)| Some((name, (*value)?))) {
        let separator = if url.contains('?') { '&' } else { '?' };
        // Writing to a string does not fail.
        let _ = write!(url, "{separator}{name}={}", percent_encode(value));
    }
    url
}

/// RFC 3986: everything but the unreserved characters.
fn percent_encode(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

impl Reply {
    /// The answer if its status is one of success, else what is wrong.
    pub fn success(self, who: Server) -> Result<Self, Failure> {
        if self.status.is_success() {
            return Ok(self);
        }
        Err(match serde_json::from_str::<Problem>(&self.body) {
            Ok(problem) => Failure::Problem { from: self.from, problem: Box::new(problem) },
            Err(_) => self.unexpected(who),
        })
    }

    /// The body as a value.
    pub fn value<T: serde::de::DeserializeOwned>(&self, who: Server) -> Result<T, Failure> {
        serde_json::from_str(&self.body).map_err(|_| self.clone().unexpected(who))
    }

    fn unexpected(self, who: Server) -> Failure {
        Failure::Unexpected { who, from: self.from, status: self.status, body: self.body }
    }
}

impl Client {
    /// A client for what the command line names. No proxy is used.
    ///
    /// # Errors
    /// The token file cannot be read or holds no token.
    pub fn new(reach: &ReachArgs) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ANSWER_TIMEOUT)
            .default_headers(authorization(reach.token_file.as_deref())?)
            .build()?;
        Ok(Self { http, coordinators: reach.coordinator.clone(), agent: reach.agent.clone() })
    }

    /// Asks the agent.
    pub async fn ask_agent(&self, ask: &Ask) -> Result<Reply, Failure> {
        self.ask_at(&self.agent, Server::Agent, ask).await
    }

    /// Asks one server at this address.
    pub async fn ask_at(&self, url: &BaseUrl, who: Server, ask: &Ask) -> Result<Reply, Failure> {
        let answer = self.ask_one(url, ask).await;
        answer.map_err(|e| Failure::Unreachable { who, tried: vec![(url.to_string(), reason(&e))] })
    }

    /// Asks the coordinators in turn until one answers and can serve. What changes something is not asked
    /// again once it may have arrived.
    pub async fn ask_coordinator(&self, ask: &Ask) -> Result<Reply, Failure> {
        let mut tried = Vec::new();
        let mut unable = None;
        for url in &self.coordinators {
            match self.ask_one(url, ask).await {
                Ok(reply) if reply.status == StatusCode::SERVICE_UNAVAILABLE && ask.method.is_safe() => unable = Some(reply),
                Ok(reply) => return Ok(reply),
                Err(e) => {
                    tried.push((url.to_string(), reason(&e)));
                    if !ask.method.is_safe() && !e.is_connect() {
                        break;
                    }
                }
            }
        }
        unable.ok_or(Failure::Unreachable { who: Server::Coordinator, tried })
    }

    async fn ask_one(&self, base: &BaseUrl, ask: &Ask) -> reqwest::Result<Reply> {
        let url = format!("{base}{}", ask.path);
        let request = self.http.request(ask.method.clone(), url).headers(ask.headers.clone()).body(ask.body.clone());
        let response = request.send().await?;
        let status = response.status();
        Ok(Reply { from: base.to_string(), status, body: response.text().await? })
    }
}

/// The header that carries the token of a file, if there is one.
pub fn authorization(token_file: Option<&Path>) -> anyhow::Result<HeaderMap> {
    let Some(path) = token_file else { return Ok(HeaderMap::new()) };
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the token file {}", path.display()))?;
    let token = text.trim();
    let graphic = !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic());
    anyhow::ensure!(graphic, "{} does not hold a token: one line of printable ASCII characters is expected", path.display());
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(AUTHORIZATION, value)]))
}

/// What an HTTP error comes down to, in a few words.
pub fn reason(error: &reqwest::Error) -> String {
    let mut deepest: &dyn Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    match deepest.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
        Some(std::io::ErrorKind::ConnectionRefused) => "connection refused: nothing listens there".to_owned(),
        _ if error.is_timeout() => "no answer in time".to_owned(),
        _ => deepest.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_holds_what_was_given_and_is_quoted() {
        let ask = Ask::get("/v1/budgets", &[("policy", Some("a b&c")), ("subject", None), ("limit", Some("3"))]);
        assert_eq!(ask.path, "/v1/budgets?policy=a%20b%26c&limit=3");
        assert_eq!(Ask::get("/x", &[]).path, "/x");
    }

    fn reply(status: u16, body: &str) -> Reply {
        Reply { from: "http://a:1".into(), status: StatusCode::from_u16(status).expect("a status"), body: body.into() }
    }

    #[test]
    fn a_problem_is_told_in_its_own_words() {
        let body = r#"{"type":"https://quorate.dev/problems/invalid-request","title":"Invalid request","status":400,
            "detail":"two mistakes","errors":[{"pointer":"/a","detail":"is not a text"},{"pointer":"/b","detail":"is unknown","line":3}]}"#;
        let told = reply(400, body).success(Server::Agent).expect_err("a refusal").to_string();
        assert_eq!(told, "Invalid request: two mistakes\n  /a: is not a text\n  line 3, /b: is unknown (http://a:1, status 400)");
    }

    #[test]
    fn another_server_is_recognised_as_such() {
        let told = reply(404, "<html>nginx</html>").success(Server::Coordinator).expect_err("a refusal").to_string();
        assert!(told.contains("status 404") && told.contains("Is it a coordinator?"), "{told}");
        assert!(reply(200, "<html>").value::<Problem>(Server::Agent).is_err());
    }

    #[test]
    fn a_token_file_holds_one_token() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        for (text, good) in [("abc\n", true), ("", false), ("a b", false), ("a\nb", false)] {
            std::fs::write(file.path(), text).expect("written");
            assert_eq!(authorization(Some(file.path())).is_ok(), good, "{text:?}");
        }
        assert!(authorization(Some(Path::new("/nowhere/token"))).is_err());
    }
}
