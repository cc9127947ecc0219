//! Real files of envoyproxy/ratelimit, with what its own loader and matcher said of them, read by
//! the import and asked by the agent's matching; and Limitador's own example.
//!
//! The files stay outside the repository, beside the checkout in `shared/cases`, or where `QUORATE_CASES`
//! says; without them these tests say so and pass over them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a test that reads files and says what it passes over"
)]

use quorate_coordinator::documents::import::{Imported, Note, SourceFile, envoy_ratelimit, limitador};
use quorate_limiter::matching::PolicyTable;
use quorate_shared::names::{RegionName, SubjectKey};
use quorate_shared::policy::{Limit, Mode, PolicySet, Window};
use quorate_shared::units::MicroTokens;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder of envoyproxy/ratelimit, if it is there.
fn folder() -> Option<PathBuf> {
    folder_of("envoy-ratelimit")
}

fn folder_of(limiter: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases");
    let folder = std::env::var_os("QUORATE_CASES").map_or(beside, PathBuf::from).join(limiter);
    if !folder.is_dir() {
        println!("passed over: no files of another limiter beside the checkout, and QUORATE_CASES names no folder of them");
        return None;
    }
    Some(folder)
}

fn eu() -> RegionName {
    "eu".parse().expect("a name")
}

fn import(folder: &Path, names: &[&str], merge: bool) -> Result<Imported, Vec<Note>> {
    let file = |name: &&str| SourceFile { name: (*name).to_owned(), text: fs::read(folder.join(name)).expect("a file") };
    envoy_ratelimit(&names.iter().map(file).collect::<Vec<_>>(), &[eu()], merge)
}

/// The rows of a table below its first one, in columns.
fn rows(folder: &Path, name: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(folder.join(name)).expect("a table");
    text.lines().skip(1).map(|row| row.split('\t').map(str::to_owned).collect()).collect()
}

/// What was said of a file, and a part of what the import says of the same mistake.
const REASONS: [(&str, &str); 21] = [
    ("error loading config file: yaml: line", "cannot be read as YAML"),
    ("descriptor has empty key", "has no key"),
    ("unknown key 'requestsperunit'", "unknown key `requestsperunit`"),
    ("key is not of type string: 0.25", "the key `0.25` is not a text"),
    ("replaces should not contain name of same", "does not replace itself"),
    ("unknown key 'unit_multiplier'", "unknown key `unit_multiplier`"),
    ("unknown key 'apiVersion'", "unknown key `apiVersion`"),
    ("unknown key 'ratelimit'", "unknown key `ratelimit`"),
    ("unknown key 'Key'", "unknown key `Key`"),
    ("duplicate descriptor composite key", "another descriptor of this level has the same key and value"),
    ("rate_limit is a list", "`rate_limit` is a map, and not a list"),
    ("cannot unmarshal !!seq into config.YamlRateLimit", "`rate_limit` is a map, and not a list"),
    ("config file cannot have empty domain", "the domain is missing or empty"),
    ("cannot unmarshal !!int `-1` into uint32", "expected a whole number"),
    ("cannot unmarshal !!str `10` into uint32", "expected a whole number"),
    ("cannot unmarshal !!str `true` into bool", "expected `true` or `false`"),
    ("invalid rate limit unit", "is not one of `second`"),
    ("share_threshold can only be used with wildcard", "`share_threshold` needs a `*`"),
    ("list of type other than map", "a list holds nothing else"),
    ("error checking config", "is a fraction, or a whole number above"),
    ("duplicate domain", "is in"),
];

#[test]
fn files_are_taken_and_refused_as_their_own_limiter_does() {
    let Some(folder) = folder() else { return };
    let index = rows(&folder, "INDEX.tsv");
    let mut refused = 0;
    for row in &index {
        let (name, expected) = (row[0].as_str(), row[3].as_str());
        match (import(&folder, &[name], false), expected.strip_prefix("upstream rejects because ")) {
            (Ok(_), None) => {}
            (Err(mistakes), Some(reason)) => {
                refused += 1;
                let (_, ours) = REASONS.iter().find(|(theirs, _)| reason.contains(theirs)).unwrap_or_else(|| panic!("{name}: {reason}"));
                assert!(mistakes.iter().all(|m| m.file == name && m.at.is_some()), "{name}: {mistakes:?}");
                assert!(mistakes.iter().any(|m| m.detail.contains(ours)), "{name}: {reason}: {mistakes:?}");
            }
            (Ok(imported), Some(reason)) => panic!("{name}: {reason}\n{}", imported.yaml),
            (Err(mistakes), None) => panic!("{name}: {expected}: {mistakes:?}"),
        }
    }
    assert!(refused > 20 && index.len() > refused + 30, "{refused} of {}", index.len());
    println!("{} files, {refused} of them refused", index.len());
}

#[test]
fn files_of_one_domain_are_refused_unless_merged() {
    let Some(folder) = folder() else { return };
    for (pair, policies) in
        [(["08-upstream-merge-a.yaml", "09-upstream-merge-b.yaml"], 2), (["03-upstream-basic.yaml", "21-duplicate-domain.yaml"], 7)]
    {
        let mistakes = import(&folder, &pair, false).expect_err("one domain in two files");
        assert!(mistakes.len() == 1 && mistakes[0].file == pair[1] && mistakes[0].at.is_some(), "{mistakes:?}");
        assert_eq!(import(&folder, &pair, true).expect("merged").set.policies.len(), policies, "{pair:?}");
    }
}

/// A limit as the table has it: units, the unit's name, whether it only watches.
type Met = (u64, &'static str, bool);

const UNITS: [(&str, u64); 7] =
    [("SECOND", 1), ("MINUTE", 60), ("HOUR", 3_600), ("DAY", 86_400), ("WEEK", 604_800), ("MONTH", 2_592_000), ("YEAR", 31_536_000)];

/// What a row expects: nothing too where there is no limit to count, since that allows all.
fn expected(row: &[String]) -> Option<Met> {
    let (units, unit) = row[2].split_once('/')?;
    let unit = UNITS.iter().find(|(name, _)| *name == unit)?;
    Some((units.parse().expect("a number"), unit.0, row[3].contains("shadow=true")))
}

/// The limits that a request meets, by the agent's own matching.
fn met(set: &PolicySet, attributes: &BTreeMap<&str, &str>) -> Vec<Met> {
    let table = PolicyTable::new(&eu(), &Arc::new(set.clone()), None, SubjectKey::new([0; 32]));
    let matched = table.matches(|name| attributes.get(name).copied(), attributes.len(), None);
    let one = |charge: &quorate_limiter::decision::Charge| {
        let Limit::FixedWindow { units: MicroTokens(units), window: Window::Every(window) } = charge.limit else {
            panic!("{:?}", charge.limit)
        };
        let unit = UNITS.iter().find(|(_, seconds)| *seconds == window.as_secs()).expect("a unit");
        let policy = set.policy(&charge.budget.policy).expect("a policy");
        (units / 1_000_000, unit.0, policy.mode == Mode::Observe)
    };
    matched.iter().map(|matched| one(&matched.charge)).collect()
}

#[test]
fn requests_meet_the_limits_that_they_met_before() {
    let Some(folder) = folder() else { return };
    let mut looked_up = 0;
    for row in rows(&folder, "LOOKUPS.tsv") {
        let (name, request) = (row[0].as_str(), row[1].as_str());
        if request.contains("##") {
            // a request that brings a limit of its own does not ask any policy
            continue;
        }
        let imported = import(&folder, &[name], false).expect("it loads");
        let (domain, descriptor) = match request.split_once("@@") {
            Some((domain, descriptor)) => (domain.to_owned(), descriptor),
            None => (domain_of(&folder, name), request),
        };
        let entries = descriptor.split(',').map(|entry| entry.split_once('=').expect("an entry"));
        let attributes: BTreeMap<&str, &str> = entries.chain([("domain", domain.as_str())]).collect();
        assert_eq!(met(&imported.set, &attributes), expected(&row).into_iter().collect::<Vec<_>>(), "{name}: {request}\n{}", imported.yaml);
        looked_up += 1;
    }
    assert!(looked_up > 70, "{looked_up}");
    println!("{looked_up} requests");
}

fn domain_of(folder: &Path, name: &str) -> String {
    let text = fs::read_to_string(folder.join(name)).expect("a file");
    let line = text.lines().find_map(|line| line.trim_start_matches('\u{feff}').strip_prefix("domain: ")).expect("a domain");
    line.trim().to_owned()
}

#[test]
fn the_example_of_limitador_is_two_policies_and_what_is_around_a_file_is_named() {
    let Some(folder) = folder_of("other") else { return };
    let read = |name: &str| limitador(&[SourceFile { name: name.to_owned(), text: fs::read(folder.join(name)).expect("a file") }], &[eu()]);
    let imported = read("limitador-01-examples.yaml").expect("it loads");
    let per: Vec<usize> = imported.set.policies.iter().map(|policy| policy.per.len()).collect();
    assert_eq!((per.as_slice(), imported.notes.len()), (&[0, 1][..], 0), "{}", imported.yaml);
    for wrapped in ["limitador-03-configmap.yaml", "limitador-05-k8s.yaml"] {
        let mistakes = read(wrapped).expect_err("a ConfigMap");
        assert!(mistakes.len() == 1 && mistakes[0].detail.starts_with("this is a ConfigMap"), "{mistakes:?}");
    }
}
