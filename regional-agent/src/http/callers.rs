//! Who may ask: bearer tokens, known only by their SHA-256.

use super::answer::Answer;
use super::{Door, problems};
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use quorate_shared::settings::TokenHash;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Those who may ask.
#[derive(Clone, Debug, Default)]
pub struct Callers {
    hashes: Arc<[TokenHash]>,
}

impl Callers {
    /// No token is asked for.
    pub fn anybody() -> Self {
        Self::default()
    }

    /// Whoever shows one of these tokens; anybody if there are none.
    pub fn with_tokens(hashes: impl IntoIterator<Item = TokenHash>) -> Self {
        Self { hashes: hashes.into_iter().collect() }
    }

    /// Who shows a token that is known; anybody if none is asked for.
    pub(crate) fn identify(&self, headers: &HeaderMap) -> Option<Caller> {
        if self.hashes.is_empty() {
            return Some(Caller(None));
        }
        let shown: [u8; 32] = Sha256::digest(bearer(headers)?).into();
        // all are compared, whichever fits: how long it takes says nothing
        let matches = self.hashes.iter().map(|known| (known, bool::from(known.as_bytes().ct_eq(&shown))));
        let found = matches.fold(None, |found, (known, fits)| if fits { Some(*known) } else { found });
        found.map(|hash| Caller(Some(hash)))
    }
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().as_bytes())
}

/// Who asks: what is kept of their token, if tokens are asked for. The same at every agent of a region.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Caller(Option<TokenHash>);

impl Caller {
    /// Bytes that no other caller has.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |hash| hash.as_bytes())
    }
}

impl<D: Send + Sync> FromRequestParts<Arc<Door<D>>> for Caller {
    type Rejection = Answer;

    async fn from_request_parts(parts: &mut Parts, door: &Arc<Door<D>>) -> Result<Self, Answer> {
        door.settings.callers.identify(&parts.headers).ok_or_else(|| Answer::problem(problems::unauthorized()))
    }
}
