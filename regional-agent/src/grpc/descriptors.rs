//! A `RateLimitRequest`, read strictly, as a question.
//!
//! | what | becomes |
//! |---|---|
//! | an entry of a descriptor | an attribute; the second of one key is `key.2`, the third `key.3` |
//! | `domain` | the attribute `domain` of each descriptor |
//! | `hits_addend` of a descriptor, else of the request | the cost; of a descriptor 0 only looks, of the request it is the same as none |
//! | no `hits_addend` | the cost that each policy says |
//! | `limit` of a descriptor | a limit of its own, of policies for the same unit of time |
//!
//! At most [`MOST_DESCRIPTORS`] descriptors with [`MOST_ATTRIBUTES`] attributes each; keys of [`LONGEST_NAME`] bytes and values
//! of [`LONGEST_VALUE`]. Whatever does not fit is refused whole, with the first mistake.

use crate::decide::Request;
use crate::http::read::{LONGEST_NAME, MOST_ATTRIBUTES, MOST_COST};
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{Entry, RateLimitOverride};
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use envoy_types::pb::envoy::r#type::v3::RateLimitUnit;
use quorate_limiter::matching::descriptors::{Descriptor, MOST_DESCRIPTORS, OwnLimit};
use quorate_shared::policy::RateUnit;
use quorate_shared::text::cut;
use quorate_shared::units::MicroTokens;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;

/// The attribute that a request's domain is.
pub const DOMAIN: &str = "domain";

/// Bytes of a value: more than all header fields that a gateway takes by its defaults, or clients could make their
/// requests mistakes, which pass where mistakes do.
pub const LONGEST_VALUE: usize = 64 * 1024;

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// It cannot be understood.
    #[error("{0}")]
    Invalid(String),
    /// It asks for what there is not.
    #[error("{0}")]
    Unsupported(&'static str),
}

fn invalid<T>(what: impl Into<String>) -> Result<T, Mistake> {
    Err(Mistake::Invalid(what.into()))
}

/// Reads a request.
///
/// # Errors
/// The first mistake.
pub fn read(request: RateLimitRequest) -> Result<Request, Mistake> {
    let RateLimitRequest { domain, descriptors, hits_addend } = request;
    if domain.is_empty() {
        return invalid("the domain is missing or empty");
    }
    if descriptors.is_empty() {
        return invalid("there is no descriptor");
    }
    if descriptors.len() > MOST_DESCRIPTORS {
        return invalid(format!("{} descriptors; at most {MOST_DESCRIPTORS}", descriptors.len()));
    }
    // the least that can be said on the wire is nothing
    let hits = (hits_addend > 0).then(|| u64::from(hits_addend));
    let read = descriptors.into_iter().map(|one| descriptor(&domain, one, hits));
    Ok(Request { descriptors: read.collect::<Result<_, _>>()?, ..Request::default() })
}

fn descriptor(domain: &str, descriptor: RateLimitDescriptor, hits: Option<u64>) -> Result<Descriptor, Mistake> {
    if descriptor.is_negative_hits {
        return Err(Mistake::Unsupported("hits are not given back: take an estimate by /v1/reserve, and settle it by /v1/settle"));
    }
    if descriptor.entries.is_empty() {
        return invalid("a descriptor without entries");
    }
    let hits = descriptor.hits_addend.map(|hits| hits.value).or(hits);
    let cost = hits.map(cost).transpose()?;
    let limit = descriptor.limit.as_ref().map(own_limit).transpose()?;
    Ok(Descriptor { attributes: attributes(domain, descriptor.entries)?, cost, limit, times: None })
}

fn cost(hits: u64) -> Result<MicroTokens, Mistake> {
    match MicroTokens::from_tokens(hits) {
        Some(cost) => Ok(cost),
        None => invalid(format!("{hits} hits at once; at most {MOST_COST}")),
    }
}

/// The attributes of these entries, and `domain`.
///
/// # Errors
/// If a name or a value is too long, a name is empty, there are too many, or two have one name.
pub fn attributes(domain: &str, entries: impl IntoIterator<Item = Entry>) -> Result<BTreeMap<String, String>, Mistake> {
    let mut attributes = BTreeMap::from([(DOMAIN.to_owned(), checked(DOMAIN, domain.to_owned())?)]);
    let mut seen: BTreeMap<String, usize> = BTreeMap::from([(DOMAIN.to_owned(), 1)]);
    for Entry { key, value } in entries {
        if key.is_empty() || key.len() > LONGEST_NAME {
            return invalid(format!("the key `{}` has {} bytes; 1 to {LONGEST_NAME} are allowed", cut(&key), key.len()));
        }
        let value = checked(&key, value)?;
        let times = seen.entry(key.clone()).and_modify(|times| *times += 1).or_insert(1);
        let name = if *times == 1 { key } else { format!("{key}.{times}") };
        match attributes.entry(name) {
            Place::Vacant(place) => _ = place.insert(value),
            Place::Occupied(first) => return invalid(format!("the attribute `{}` is there twice", cut(first.key()))),
        }
        if attributes.len() > MOST_ATTRIBUTES {
            return invalid(format!("more than {MOST_ATTRIBUTES} attributes, of which `domain` is one"));
        }
    }
    Ok(attributes)
}

fn checked(key: &str, value: String) -> Result<String, Mistake> {
    match value.len() {
        0..=LONGEST_VALUE => Ok(value),
        bytes => invalid(format!("the value of `{}` has {bytes} bytes; at most {LONGEST_VALUE}", cut(key))),
    }
}

fn own_limit(limit: &RateLimitOverride) -> Result<OwnLimit, Mistake> {
    let unit = match RateLimitUnit::try_from(limit.unit) {
        Ok(RateLimitUnit::Second) => RateUnit::Second,
        Ok(RateLimitUnit::Minute) => RateUnit::Minute,
        Ok(RateLimitUnit::Hour) => RateUnit::Hour,
        Ok(RateLimitUnit::Day) => RateUnit::Day,
        Ok(RateLimitUnit::Month) => RateUnit::Month,
        Ok(RateLimitUnit::Year) => RateUnit::Year,
        Ok(RateLimitUnit::Unknown) | Err(_) => return invalid(format!("{} is no unit of time for a limit of a descriptor", limit.unit)),
    };
    Ok(OwnLimit { requests: limit.requests_per_unit, unit })
}

#[cfg(test)]
mod tests {
    use super::*;
    use envoy_types::pb::google::protobuf::UInt64Value;

    fn entry(key: &str, value: &str) -> Entry {
        Entry { key: key.to_owned(), value: value.to_owned() }
    }

    fn one(entries: &[(&str, &str)]) -> RateLimitDescriptor {
        RateLimitDescriptor { entries: entries.iter().map(|(key, value)| entry(key, value)).collect(), ..Default::default() }
    }

    fn request(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
        RateLimitRequest { domain: "edge".to_owned(), descriptors, hits_addend: 0 }
    }

    fn named(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn mistake(request: RateLimitRequest) -> String {
        read(request).expect_err("a mistake").to_string()
    }

    #[test]
    fn entries_are_attributes_and_so_is_the_domain() {
        let read = read(request(vec![one(&[("route", "write"), ("tenant", "")]), one(&[("domain", "x")])])).expect("read");
        let attributes: Vec<_> = read.descriptors.iter().map(|d| d.attributes.clone()).collect();
        let expected = [named(&[("domain", "edge"), ("route", "write"), ("tenant", "")]), named(&[("domain", "edge"), ("domain.2", "x")])];
        assert_eq!(attributes, expected);
        assert!(read.attributes.is_empty() && read.descriptors.iter().all(|d| d.cost.is_none() && d.limit.is_none()));
    }

    #[test]
    fn a_key_that_comes_again_has_a_number() {
        let entries = [entry("k", "a"), entry("k", "b"), entry("k", "c")];
        let expected = named(&[("domain", "edge"), ("k", "a"), ("k.2", "b"), ("k.3", "c")]);
        assert_eq!(attributes("edge", entries), Ok(expected));
        let twice = attributes("edge", [entry("k.2", "a"), entry("k", "b"), entry("k", "c")]).expect_err("twice");
        assert_eq!(twice.to_string(), "the attribute `k.2` is there twice");
    }

    #[test]
    fn hits_of_a_descriptor_come_before_those_of_the_request_and_none_is_as_the_policy_says() {
        let costs = |of_request: u32, of_descriptor: Option<u64>| {
            let hits_addend = of_descriptor.map(|value| UInt64Value { value });
            let descriptor = RateLimitDescriptor { hits_addend, ..one(&[("a", "b")]) };
            let read = read(RateLimitRequest { hits_addend: of_request, ..request(vec![descriptor]) });
            read.map(|read| read.descriptors[0].cost.map(|cost| cost.tokens_floor()))
        };
        assert_eq!(
            [costs(0, None), costs(3, None), costs(3, Some(5)), costs(3, Some(0))],
            [Ok(None), Ok(Some(3)), Ok(Some(5)), Ok(Some(0))]
        );
        assert_eq!(costs(0, Some(MOST_COST)), Ok(Some(MOST_COST)));
        for beyond in [MOST_COST + 1, u64::MAX] {
            assert!(costs(0, Some(beyond)).is_err(), "{beyond}");
        }
    }

    #[test]
    fn what_cannot_be_a_request_is_refused_and_named() {
        assert_eq!(
            mistake(RateLimitRequest { domain: String::new(), ..request(vec![one(&[("a", "b")])]) }),
            "the domain is missing or empty"
        );
        assert_eq!(mistake(request(vec![])), "there is no descriptor");
        assert_eq!(mistake(request(vec![one(&[])])), "a descriptor without entries");
        assert!(mistake(request(vec![one(&[("", "b")])])).contains("0 bytes"));
        assert!(mistake(request(vec![one(&[(&"k".repeat(LONGEST_NAME + 1), "b")])])).contains("129 bytes"));
        assert!(mistake(request(vec![one(&[("a", &"v".repeat(LONGEST_VALUE + 1))])])).contains("the value of `a`"));
        assert!(
            mistake(RateLimitRequest { domain: "d".repeat(LONGEST_VALUE + 1), ..request(vec![one(&[("a", "b")])]) }).contains("`domain`")
        );
        assert!(mistake(request(vec![one(&[("a", "b")]); MOST_DESCRIPTORS + 1])).contains("65 descriptors"));
        let many: Vec<String> = (0..MOST_ATTRIBUTES).map(|n| format!("k{n}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|key| (key.as_str(), "v")).collect();
        assert!(read(request(vec![one(&many[1..])])).is_ok());
        assert!(mistake(request(vec![one(&many)])).contains("more than 64"));
        let negative = RateLimitDescriptor { is_negative_hits: true, ..one(&[("a", "b")]) };
        assert!(matches!(read(request(vec![negative])), Err(Mistake::Unsupported(_))));
    }

    #[test]
    fn a_limit_of_a_descriptor_has_a_unit() {
        let with = |unit| {
            let limit = Some(RateLimitOverride { requests_per_unit: 5, unit });
            read(request(vec![RateLimitDescriptor { limit, ..one(&[("a", "b")]) }])).map(|read| read.descriptors[0].limit)
        };
        let units = [RateUnit::Second, RateUnit::Minute, RateUnit::Hour, RateUnit::Day, RateUnit::Month, RateUnit::Year];
        for (number, unit) in (1..).zip(units) {
            assert_eq!(with(number), Ok(Some(OwnLimit { requests: 5, unit })), "{number}");
        }
        for bad in [0, 7, -1, i32::MAX] {
            assert!(with(bad).is_err(), "{bad}");
        }
    }
}
