//! Every parser of bytes from outside, against bytes that nobody meant.
//!
//! Each target replays its corpus, `__fuzz__/TARGET/corpus`, and as many random inputs as
//! `BOLERO_RANDOM_ITERATIONS` says; none unless it is set. Every input is tried as it is, with each byte beyond ASCII in
//! place of a word that the parser knows, and as edits of a document of the corpus.
//! `cargo bolero test` explores them guided by coverage, with the same corpus. No input may panic, take long, or be
//! understood as something else once it was written again.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "the corpora lie on disk")]

mod words;

use bytes::Bytes;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use prost::Message;
use quorate_agent::grpc::descriptors;
use quorate_agent::http::read;
use quorate_coordinator::documents::{self, import};
use quorate_coordinator::testing;
use quorate_ledger::{Author, Command, Ledger};
use quorate_limiter::lease_book::LeaseBook;
use quorate_limiter::matching::PolicyTable;
use quorate_shared::heartbeat::{Answer, Office, PoliciesInForce};
use quorate_shared::names::{RegionName, SubjectKey};
use quorate_shared::policy::PolicySet;
use quorate_shared::problem::InputError;
use quorate_shared::time::{Drift, LeaderTime, LocalTime};
use quorate_shared::units::MAX_EXACT;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Runs a target on its corpus, and on random bytes if that is asked for.
macro_rules! fuzz {
    ($name:literal, $words:expr, $target:expr) => {{
        let corpus = corpus($name);
        bolero::check!(name = $name).with_iterations(0).for_each(|input: &[u8]| {
            $target(input);
            $target(&words::spelled(input, $words));
            $target(&words::edited(input, &corpus));
        })
    }};
}

/// The documents of a corpus, in the order of their names.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/__fuzz__").join(target).join("corpus");
    let files = fs::read_dir(folder).expect("a corpus").map(|entry| entry.expect("a file").path());
    let sorted: BTreeSet<PathBuf> = files.collect();
    sorted.iter().map(|file| fs::read(file).expect("a document")).collect()
}

const KEY: SubjectKey = SubjectKey::new([9; 32]);

fn region() -> RegionName {
    "us".parse().expect("a name")
}

/// A set with every algorithm and every kind of match.
fn policies() -> PolicySet {
    let text = include_bytes!("__fuzz__/policies/corpus/whole.yaml");
    documents::policy_set(text).expect("a policy set").0
}

#[test]
fn bodies_of_questions_to_an_agent() {
    let table = PolicyTable::new(&region(), &Arc::new(policies()), None, KEY);
    let places = |mistakes: Vec<InputError>| {
        assert!(!mistakes.is_empty(), "refused, and nothing said");
        assert!(mistakes.iter().all(|m| m.pointer.is_empty() || m.pointer.starts_with('/')), "{mistakes:?}");
    };
    fuzz!("questions", &words::QUESTIONS, |input: &[u8]| {
        for check in [read::check(input), read::reserve(input)] {
            match check {
                // each check is looked up in the policies, as descriptors of a gateway are
                Ok(check) => {
                    let attributes = &check.request.attributes;
                    table.matches(|name| attributes.get(name).map(String::as_str), attributes.len(), check.request.cost);
                }
                Err(mistakes) => places(mistakes),
            }
        }
        read::checks(input).map(drop).unwrap_or_else(places);
        read::settlement(input).map(drop).unwrap_or_else(places);
        read::release(input).map(drop).unwrap_or_else(places);
    });
}

#[test]
fn descriptors_of_gateways() {
    let table = PolicyTable::new(&region(), &Arc::new(policies()), None, KEY);
    fuzz!("descriptors", &words::DESCRIPTORS, |input: &[u8]| {
        let Ok(request) = RateLimitRequest::decode(input) else { return };
        let asked = request.descriptors.len();
        match descriptors::read(request) {
            Ok(read) => {
                assert_eq!(read.descriptors.len(), asked);
                assert!(read.descriptors.iter().all(|d| d.attributes.contains_key(descriptors::DOMAIN)));
                let met = table.met_by(&read.descriptors).unwrap_or_default();
                assert!(met.iter().all(|met| met.charge.cost.0 <= MAX_EXACT), "{met:?}");
            }
            Err(mistake) => assert!(mistake.to_string().len() < 400, "{mistake}"),
        }
    });
}

#[test]
fn policy_sets() {
    fuzz!("policies", &words::POLICIES, |input: &[u8]| match documents::policy_set(input) {
        Ok((set, _)) => {
            let yaml = documents::to_yaml(&set).expect("what was read can be written");
            let (again, _) = documents::policy_set(yaml.as_bytes()).unwrap_or_else(|m| panic!("{m:?}\n{yaml}"));
            assert_eq!(again, set, "{yaml}");
        }
        Err(mistakes) => {
            assert!(!mistakes.is_empty(), "refused, and nothing said");
            documents::show("set.yaml", input, &mistakes);
        }
    });
}

#[test]
fn limits_of_other_limiters() {
    fuzz!("imports", &words::IMPORTS, |input: &[u8]| {
        let file = || import::SourceFile { name: "limits.yaml".to_owned(), text: input.to_vec() };
        for imported in [import::envoy_ratelimit(&[file()], &[region()], false), import::limitador(&[file()], &[region()])] {
            match imported {
                Ok(imported) => {
                    drop(documents::policy_set(imported.yaml.as_bytes()).unwrap_or_else(|m| panic!("{m:?}\n{}", imported.yaml)))
                }
                Err(mistakes) => assert!(!mistakes.is_empty(), "refused, and nothing said"),
            }
        }
    });
}

#[test]
fn heartbeats() {
    let begun = ledger();
    fuzz!("heartbeats", &words::HEARTBEATS, |input: &[u8]| {
        let Ok(heartbeat) = testing::heartbeat(input, "us") else { return };
        let mut ledger = begun.clone();
        for at in [1, 2] {
            let stamped = ledger.stamp(heartbeat.clone(), Office::default(), LeaderTime::from_micros(at));
            ledger.apply(1, &Command::Heartbeat(Box::new(stamped)));
            assert_eq!(ledger.check(), Ok(()));
            ledger.bounds(None);
        }
    });
}

fn ledger() -> Ledger {
    let mut ledger = Ledger::default();
    ledger.apply(1, &Command::Found { subject_key: KEY, lease: Duration::from_secs(5), drift: Drift::DEFAULT });
    let by = Author { who: "ops".to_owned(), when_ms: 1, why: None };
    ledger.apply(1, &Command::Policies { replaces: 0, set: Box::new(policies()), by });
    ledger
}

#[test]
fn answers_to_heartbeats() {
    fuzz!("answers", &words::HEARTBEATS, |input: &[u8]| {
        let Ok(Answer::Renewed(response)) = serde_json::from_slice::<Answer>(input) else { return };
        let now = LocalTime::from_micros(1_000_000);
        let mut book = LeaseBook::open(region(), "a".to_owned(), 1, 7, BTreeMap::new(), PoliciesInForce::default(), now);
        if let Ok(application) = book.receive(&response, now) {
            book.applied(application, now, Duration::ZERO);
            book.view(now);
        }
    });
}

#[test]
fn messages_between_coordinators() {
    fuzz!("messages", &words::NONE, |input: &[u8]| {
        if let Err(unfaithful) = testing::kinds(&Bytes::copy_from_slice(input)) {
            panic!("{unfaithful}");
        }
    });
}

/// A target that understands nothing of its corpus tests nothing.
#[test]
fn each_corpus_holds_what_is_understood() {
    let read = |bytes: &[u8]| testing::kinds(&Bytes::copy_from_slice(bytes)).expect("faithful");
    assert!(read(include_bytes!("__fuzz__/messages/corpus/append-heartbeat.bin")).contains(&"append"));
    assert!(read(include_bytes!("__fuzz__/messages/corpus/snapshot.bin")).contains(&"snapshot"));
    assert!(read(include_bytes!("__fuzz__/messages/corpus/ledger.bin")).contains(&"ledger"));
    assert!(testing::heartbeat(include_bytes!("__fuzz__/heartbeats/corpus/us-3.json"), "us").is_ok());
    assert!(serde_json::from_slice::<Answer>(include_bytes!("__fuzz__/answers/corpus/us-1.json")).is_ok());
    assert!(read::check(include_bytes!("__fuzz__/questions/corpus/check.json")).is_ok());
    let several = RateLimitRequest::decode(&include_bytes!("__fuzz__/descriptors/corpus/several.bin")[..]).expect("a request");
    assert_eq!(descriptors::read(several).expect("no mistake").descriptors.len(), 3);
    assert!(read::settlement(include_bytes!("__fuzz__/questions/corpus/settle.json")).is_ok());
}
