//! Who may ask: bearer tokens, known only by their SHA-256.

use super::answer::Answer;
use super::{Door, problems};
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// The SHA-256 of a token: of a random text, so that its hash cannot be searched for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of `token`.
    pub fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

/// Why a text is no hash of a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the SHA-256 of a token: 64 hexadecimal digits, as `printf %s TOKEN | sha256sum` prints them")]
pub struct InvalidTokenHash;

impl FromStr for TokenHash {
    type Err = InvalidTokenHash;

    fn from_str(text: &str) -> Result<Self, InvalidTokenHash> {
        let mut hash = [0; 32];
        let (digits, rest) = text.as_bytes().as_chunks::<2>();
        if digits.len() != hash.len() || !rest.is_empty() {
            return Err(InvalidTokenHash);
        }
        for (byte, [high, low]) in hash.iter_mut().zip(digits) {
            *byte = hex(*high)? << 4 | hex(*low)?;
        }
        Ok(Self(hash))
    }
}

fn hex(digit: u8) -> Result<u8, InvalidTokenHash> {
    let value = char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    value.ok_or(InvalidTokenHash)
}

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
        let shown = TokenHash::of(bearer(headers)?);
        // all are compared, whichever fits: how long it takes says nothing
        let matches = self.hashes.iter().map(|known| bool::from(known.0.ct_eq(&shown.0)));
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
