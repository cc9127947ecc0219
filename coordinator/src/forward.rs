//! Handing a request on to the leader, once.

use axum::body::{Body, Bytes};
use axum::extract::FromRequestParts;
use axum::http::header::{ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE, ETAG, IF_MATCH, RETRY_AFTER, VARY, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method};
use axum::response::Response;
use bytes::BytesMut;
use std::convert::Infallible;
use std::time::Duration;

/// On a request that a coordinator handed on: its number. Such a request is not handed on again.
pub const HOP: HeaderName = HeaderName::from_static("quorate-forwarded-by");

/// For the history of policy sets: why. An alternative to `?why=`.
pub const WHY: HeaderName = HeaderName::from_static("quorate-why");

const REQUEST_HEADERS: [HeaderName; 5] = [AUTHORIZATION, CONTENT_TYPE, ACCEPT, IF_MATCH, WHY];
const RESPONSE_HEADERS: [HeaderName; 6] = [CONTENT_TYPE, ETAG, RETRY_AFTER, WWW_AUTHENTICATE, ALLOW, VARY];

/// An answer is smaller than this.
const ANSWER_BYTES: usize = 64 << 20;

/// A peer that does not complete a connection in this time is down.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// A connection that no longer answers is given up after twice this.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// The client that hands on.
#[derive(Clone, Debug)]
pub struct Forwarder {
    client: reqwest::Client,
    node: u64,
    token: Option<String>,
}

/// What must be known of a request to hand it on.
#[derive(Clone, Debug)]
pub struct Forwardable {
    method: Method,
    path_and_query: String,
    headers: HeaderMap,
    /// True if another coordinator handed it on already.
    pub forwarded: bool,
}

/// Why the leader did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// It did not arrive.
    #[error("the leader, node {node} at {address}, cannot be reached: {source}")]
    Unreachable {
        /// Which node.
        node: u64,
        /// Where.
        address: String,
        /// The client's word.
        source: reqwest::Error,
    },
    /// It may have arrived.
    #[error("the leader, node {node} at {address}, did not answer: {detail}")]
    Unanswered {
        /// Which node.
        node: u64,
        /// Where.
        address: String,
        /// What happened.
        detail: String,
    },
}

impl<S: Sync> FromRequestParts<S> for Forwardable {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(parts))
    }
}

impl Forwardable {
    fn of(parts: &Parts) -> Self {
        Self {
            method: parts.method.clone(),
            path_and_query: parts.uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string),
            headers: chosen(&parts.headers, &REQUEST_HEADERS),
            forwarded: parts.headers.contains_key(HOP),
        }
    }
}

impl Forwarder {
    /// A client of node `node`, which names itself to the others by `token` where it asks for itself.
    ///
    /// # Errors
    /// If the system gives no client.
    pub fn new(node: u64, token: Option<String>) -> reqwest::Result<Self> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .http2_prior_knowledge()
            .http2_adaptive_window(true)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .http2_keep_alive_timeout(KEEP_ALIVE)
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self { client, node, token })
    }

    /// Hands a request on to `leader` and gives its answer back, whatever its status.
    ///
    /// # Errors
    /// If there is none within `timeout`.
    pub async fn forward(
        &self,
        (node, address): (u64, String),
        mut request: Forwardable,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Response, ForwardError> {
        quorate_traces::inject(&mut request.headers);
        let url = format!("http://{address}{}", request.path_and_query);
        let sent = self.client.request(request.method, url).headers(request.headers).header(HOP, self.node).timeout(timeout).body(body);
        let answered = async {
            let response = sent.send().await?;
            let (status, headers) = (response.status(), chosen(response.headers(), &RESPONSE_HEADERS));
            Ok((status, headers, limited(response).await?))
        };
        match answered.await {
            Ok((status, headers, Some(body))) => {
                let mut response = Response::new(Body::from(body));
                *response.status_mut() = status;
                *response.headers_mut() = headers;
                Ok(response)
            }
            Ok((_, _, None)) => Err(ForwardError::Unanswered { node, address, detail: format!("more than {ANSWER_BYTES} bytes") }),
            Err(error) => Err(failed(node, address, error)),
        }
    }

    /// Asks `leader` a question of this node's own, and gives the body of a success.
    ///
    /// # Errors
    /// If there is none within `timeout`.
    pub async fn ask(&self, (node, address): (u64, String), path: &str, timeout: Duration) -> Result<Bytes, ForwardError> {
        let mut request = self.client.get(format!("http://{address}{path}")).header(HOP, self.node).timeout(timeout);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let answered = async { limited(request.send().await?.error_for_status()?).await };
        match answered.await {
            Ok(Some(body)) => Ok(body),
            Ok(None) => Err(ForwardError::Unanswered { node, address, detail: format!("more than {ANSWER_BYTES} bytes") }),
            Err(error) => Err(failed(node, address, error)),
        }
    }
}

fn chosen(headers: &HeaderMap, names: &[HeaderName]) -> HeaderMap {
    names.iter().filter_map(|name| Some((name.clone(), headers.get(name)?.clone()))).collect()
}

/// The body; `None` if it is too large.
async fn limited(mut response: reqwest::Response) -> reqwest::Result<Option<Bytes>> {
    let mut whole = BytesMut::new();
    while let Some(part) = response.chunk().await? {
        if whole.len() + part.len() > ANSWER_BYTES {
            return Ok(None);
        }
        whole.extend_from_slice(&part);
    }
    Ok(Some(whole.freeze()))
}

fn failed(node: u64, address: String, source: reqwest::Error) -> ForwardError {
    if source.is_connect() {
        return ForwardError::Unreachable { node, address, source };
    }
    let detail = if source.is_timeout() { "not in time".to_owned() } else { source.to_string() };
    ForwardError::Unanswered { node, address, detail }
}
