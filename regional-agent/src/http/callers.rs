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

    fn identify(&self, headers: &HeaderMap) -> Option<Caller> {
        if self.hashes.is_empty() {
            return Some(Caller(None));
        }
        let shown: [u8; 32] = Sha256::digest(bearer(headers)?).into();
        // all are compared, whichever fits: how long it takes says nothing
        let matches = self.hashes.iter().map(|known| bool::from(known.as_bytes().ct_eq(&shown)));
        let place = matches.enumerate().fold(None, |found, (index, fits)| if fits { Some(index) } else { found });
        place.map(|index| Caller(Some(index)))
    }
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().as_bytes())
}

/// Who asks: the place of their token in the list, if tokens are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller(Option<usize>);

impl Caller {
    /// A number that no other caller has.
    pub fn index(self) -> u64 {
        self.0.map_or(0, |index| index as u64 + 1)
    }
}

impl<D: Send + Sync> FromRequestParts<Arc<Door<D>>> for Caller {
    type Rejection = Answer;

    async fn from_request_parts(parts: &mut Parts, door: &Arc<Door<D>>) -> Result<Self, Answer> {
        door.settings.callers.identify(&parts.headers).ok_or_else(|| Answer::problem(problems::unauthorized()))
    }
}
