//! Who may do what: bearer tokens, and the one table of which request needs which role.

use super::App;
use super::refusal::Refusal;
use crate::config::{Role, Token};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::{HeaderMap, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::sync::Arc;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Name of the token, or `anonymous`.
    pub name: String,
    /// `None` where there are no tokens and everybody may do everything.
    role: Option<Role>,
}

/// Every token, as a hash. None: the coordinator is open, which its configuration allows on
/// loopback only.
#[derive(Clone, Debug, Default)]
pub struct Access {
    tokens: Vec<Token>,
}

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need<'a> {
    Nothing,
    Read,
    Write,
    /// The heartbeat of this region, as it stands in the path.
    Heartbeat(&'a str),
    Raft,
}

impl Need<'_> {
    /// The table. What is not named needs the role for its method, so that a new route is closed
    /// until somebody opens it here.
    fn of<'a>(method: &Method, path: &'a str) -> Need<'a> {
        if path.starts_with("/raft/") {
            return Need::Raft;
        }
        if !path.starts_with("/v1/") && path != "/metrics" {
            // the page and its files hold no data; health is for whoever balances load
            return Need::Nothing;
        }
        match heartbeat_region(path) {
            Some(region) => Need::Heartbeat(region),
            // it holds the key by which subjects are hashed
            None if path == "/v1/cluster/snapshot" => Need::Write,
            // it has a body, and changes nothing
            None if method.is_safe() || path == "/v1/explain" => Need::Read,
            None => Need::Write,
        }
    }

    fn granted_to(self, role: &Role) -> bool {
        match self {
            Self::Nothing => true,
            Self::Read => matches!(role, Role::Viewer | Role::Operator | Role::Peer),
            Self::Write => *role == Role::Operator,
            Self::Heartbeat(region) => matches!(role, Role::Agent(own) if own.as_str() == region),
            Self::Raft => *role == Role::Peer,
        }
    }

    fn wanted(self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Read => "this needs the role viewer".to_owned(),
            Self::Write => "this needs the role operator".to_owned(),
            Self::Heartbeat(_) => "this needs the role agent, bound to the region in the path".to_owned(),
            Self::Raft => "this needs the role peer".to_owned(),
        }
    }
}

/// The region in the path of a heartbeat, as it stands there.
pub fn heartbeat_region(path: &str) -> Option<&str> {
    path.strip_prefix("/v1/regions/")?.strip_suffix("/heartbeat")
}

impl Access {
    /// These tokens.
    pub const fn new(tokens: Vec<Token>) -> Self {
        Self { tokens }
    }

    /// True if there are no tokens.
    pub const fn is_open(&self) -> bool {
        self.tokens.is_empty()
    }

    fn caller(&self, headers: &HeaderMap) -> Result<Caller, Refusal> {
        if self.is_open() {
            return Ok(Caller { name: "anonymous".to_owned(), role: None });
        }
        let Some(header) = headers.get(AUTHORIZATION) else {
            return Err(Refusal::unauthorized("send the header `Authorization: Bearer TOKEN`"));
        };
        let token = bearer(header.as_bytes()).ok_or_else(|| Refusal::unauthorized("the header is not `Authorization: Bearer TOKEN`"))?;
        let known = self.find(token).ok_or_else(|| Refusal::unauthorized("the token is unknown"))?;
        Ok(Caller { name: known.name.clone(), role: Some(known.role.clone()) })
    }

    /// Compares with every hash, each in constant time, so that the time tells nothing of a token.
    fn find(&self, token: &[u8]) -> Option<&Token> {
        let hash: [u8; 32] = Sha256::digest(token).into();
        let mut found = u64::MAX;
        for (at, token) in (0..).zip(&self.tokens) {
            let equal: Choice = token.sha256.as_bytes().ct_eq(&hash);
            found.conditional_assign(&at, equal);
        }
        self.tokens.get(usize::try_from(found).ok()?)
    }
}

fn bearer(header: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = header.split_at_checked(7)?;
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}

/// Lets a request pass that its caller may make, with the [`Caller`] among its extensions.
pub async fn guard(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    match admit(&app.access, &request) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    }
}

fn admit(access: &Access, request: &Request) -> Result<Caller, Refusal> {
    let need = Need::of(request.method(), request.uri().path());
    if access.is_open() && !is_plain_host(request.uri(), request.headers()) {
        return Err(Refusal::forbidden(
            "a coordinator without credentials answers under an IP address or `localhost` only, so that no web page can reach it by a name of its own",
        ));
    }
    if need == Need::Nothing {
        return Ok(Caller { name: "anonymous".to_owned(), role: None });
    }
    let caller = access.caller(request.headers())?;
    match &caller.role {
        Some(role) if !need.granted_to(role) => Err(Refusal::forbidden(need.wanted())),
        _ => Ok(caller),
    }
}

/// True unless the request was sent to a name that somebody else's DNS may have pointed at us.
fn is_plain_host(uri: &Uri, headers: &HeaderMap) -> bool {
    let named = uri.authority().map(|a| a.as_str()).or_else(|| headers.get(HOST)?.to_str().ok());
    // without any host it was no browser
    let Some(named) = named else { return !headers.contains_key(HOST) };
    let host = named.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit())).map_or(named, |(host, _)| host);
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use quorate_shared::settings::TokenHash;

    fn token(name: &str, secret: &str, role: Role) -> Token {
        Token { name: name.into(), sha256: TokenHash::new(Sha256::digest(secret).into()), role }
    }

    fn with(header: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(header))])
    }

    #[test]
    fn a_token_is_found_by_its_hash_and_nothing_else_is() {
        let access = Access::new(vec![token("a", "one", Role::Viewer), token("b", "two", Role::Operator)]);
        let name = |header| access.caller(&with(header)).map(|c| c.name).ok();
        assert_eq!(name("Bearer one").as_deref(), Some("a"));
        assert_eq!(name("bearer two").as_deref(), Some("b"));
        for bad in ["Bearer three", "Bearer ", "Basic one", "one", "Bearer one ", ""] {
            assert_eq!(name(bad), None, "{bad}");
        }
        assert!(access.caller(&HeaderMap::new()).is_err());
        assert!(Access::default().caller(&HeaderMap::new()).is_ok());
    }

    #[test]
    fn each_role_has_its_own_and_nothing_more() {
        let agent = Role::Agent("eu".parse().expect("a name"));
        let roles = [Role::Viewer, Role::Operator, agent, Role::Peer];
        let cases = [
            (Method::GET, "/v1/regions", [true, true, false, true]),
            (Method::GET, "/metrics", [true, true, false, true]),
            (Method::GET, "/v1/not-there-yet", [true, true, false, true]),
            (Method::PUT, "/v1/policies", [false, true, false, false]),
            (Method::POST, "/v1/not-there-yet", [false, true, false, false]),
            (Method::POST, "/v1/explain", [true, true, false, true]),
            (Method::POST, "/v1/regions/eu/heartbeat", [false, false, true, false]),
            (Method::POST, "/v1/regions/us/heartbeat", [false; 4]),
            (Method::POST, "/v1/regions/e%75/heartbeat", [false; 4]),
            (Method::POST, "/raft/append", [false, false, false, true]),
            (Method::GET, "/", [true; 4]),
            (Method::GET, "/readyz", [true; 4]),
        ];
        for (method, path, want) in cases {
            let got = roles.each_ref().map(|role| Need::of(&method, path).granted_to(role));
            assert_eq!(got, want, "{method} {path}");
        }
    }

    #[test]
    fn an_open_coordinator_has_no_name_but_localhost() {
        let sent_to = |host: &'static str| {
            let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
            is_plain_host(&Uri::from_static("/"), &headers)
        };
        for good in ["127.0.0.1:7101", "localhost", "LOCALHOST:7101", "[::1]:7101", "[::1]"] {
            assert!(sent_to(good), "{good}");
        }
        for bad in ["evil.example:7101", "evil.example", "localhost.evil.example", ""] {
            assert!(!sent_to(bad), "{bad}");
        }
        assert!(!is_plain_host(&Uri::from_static("http://evil.example/"), &HeaderMap::new()));
        assert!(is_plain_host(&Uri::from_static("/"), &HeaderMap::new()));
    }
}
