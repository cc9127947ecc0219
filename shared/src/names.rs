//! Names: regions, policies, subjects, budgets.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a name: 1 to 63 of a-z, 0-9 and `-`")]
pub struct InvalidName {
    /// What was given, cut to 64 characters.
    pub text: String,
}

fn check_name(text: &str) -> Result<Arc<str>, InvalidName> {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if (1..=63).contains(&text.len()) && text.bytes().all(allowed) {
        return Ok(Arc::from(text));
    }
    Err(InvalidName { text: text.chars().take(64).collect() })
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;
            fn from_str(text: &str) -> Result<Self, InvalidName> {
                check_name(text).map(Self)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;
            fn try_from(text: String) -> Result<Self, InvalidName> {
                check_name(&text).map(Self)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// One failure domain with a store of its own.
    RegionName
}
name! {
    /// One policy of the set.
    PolicyName
}

/// The secret under which subjects are hashed. The same in all regions, since a budget must
/// be one budget everywhere; made once by the coordinator and never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SubjectKey([u8; 32]);

impl SubjectKey {
    /// A key of these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for SubjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SubjectKey(…)")
    }
}

/// What stands for a subject in stores, logs and metrics: 128 bits of a keyed BLAKE3 hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubjectHash(u128);

impl SubjectHash {
    /// Hashes the values of a policy's `per` attributes, in the policy's order.
    ///
    /// Each value is preceded by its length, so no two lists of values have one encoding; bytes
    /// are taken as they are, without folding case or normalising Unicode.
    pub fn of<'a>(key: &SubjectKey, policy: &'a PolicyName, values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(&key.0);
        for part in std::iter::once(policy.as_str()).chain(values) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let mut bytes = [0; 16];
        hasher.finalize_xof().fill(&mut bytes);
        Self(u128::from_be_bytes(bytes))
    }

    /// A stable place of this subject between 0 and 999,999, for canaries.
    pub const fn millionth(self) -> u32 {
        (((self.0 >> 64) * 1_000_000) >> 64) as u32
    }
}

impl fmt::Display for SubjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for SubjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is no subject hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a subject hash: 32 hexadecimal digits")]
pub struct InvalidHash(String);

impl FromStr for SubjectHash {
    type Err = InvalidHash;
    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        let digits = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        match u128::from_str_radix(text, 16) {
            Ok(n) if digits => Ok(Self(n)),
            _ => Err(InvalidHash(text.chars().take(64).collect())),
        }
    }
}

impl Serialize for SubjectHash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SubjectHash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// One global limit on one subject.
///
/// `generation` is the version of the policy set in which the policy's budgets took their
/// present kind: another algorithm, period or subject makes other budgets; another rate, burst
/// or floor does not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BudgetId {
    /// Whose budget.
    #[serde(rename = "p")]
    pub policy: PolicyName,
    /// Since which version of the policy set.
    #[serde(rename = "g")]
    pub generation: u64,
    /// On which subject.
    #[serde(rename = "s")]
    pub subject: SubjectHash,
}

impl fmt::Display for BudgetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.policy, self.generation, self.subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(values: &[&str]) -> SubjectHash {
        let policy = "p".parse().expect("a name");
        SubjectHash::of(&SubjectKey::new([7; 32]), &policy, values.iter().copied())
    }

    #[test]
    fn different_subjects_never_share_an_encoding() {
        let subjects: &[&[&str]] = &[
            &["user", "a:b"],
            &["user:a", "b"],
            &["usera", ":b"],
            &["user", "a:b", ""],
            &["USER", "a:b"],
            &["user ", "a:b"],
            &["\u{e9}"],
            &["e\u{301}"],
            &["\0"],
            &["\0\0"],
            &[""],
            &[],
            &[&"x".repeat(1 << 20)],
            &[&"x".repeat((1 << 20) + 1)],
        ];
        for (i, a) in subjects.iter().enumerate() {
            for b in &subjects[..i] {
                assert_ne!(hash(a), hash(b), "{i}");
            }
            assert_eq!(hash(a).to_string().len(), 32, "whatever stands for it");
        }
    }

    #[test]
    fn a_hash_reads_back_as_written_and_nothing_else_does() {
        let h = hash(&["acme"]);
        assert_eq!(h.to_string().parse(), Ok(h));
        assert!("+00000000000000000000000000000001".parse::<SubjectHash>().is_err());
        assert!("12".parse::<SubjectHash>().is_err());
    }

    #[test]
    fn names_are_short_and_plain() {
        assert!("write-api".parse::<PolicyName>().is_ok());
        for bad in ["", "Write", "a b", "a_b", "ä", &"x".repeat(64)] {
            assert!(bad.parse::<PolicyName>().is_err(), "{bad}");
        }
    }
}
