//! Names of metrics: rules, dashboards and pages speak only of series that the program has.

use crate::tree::TextFile;
use std::collections::BTreeSet;

/// The sources that register series, with `quorate_` before each name.
const SOURCES: [&str; 2] = ["coordinator/src/metrics.rs", "regional-agent/src/metrics.rs"];

/// Calls that register a series, the name being the first text that follows.
const CALLS: [(&str, &str); 6] = [
    ("register(\"", ""),
    ("register_with_unit(\"", "_seconds"),
    ("seconds_family(registry, \"", "_seconds"),
    ("family(registry, \"", ""),
    ("gauge(registry, \"", ""),
    ("counter(registry, \"", ""),
];

/// What Prometheus's text format adds to a name.
const SUFFIXES: [&str; 6] = ["", "_total", "_info", "_bucket", "_count", "_sum"];

/// Names that a file speaks of and no source registers.
pub fn complaints(file: &TextFile, files: &[TextFile]) -> Vec<String> {
    let known = registered(files);
    let unknown = mentioned(&file.text).into_iter().filter(|name| !known.contains(name));
    unknown.map(|name| format!("{}: no series is called {name}", file.path)).collect()
}

/// True of rules, dashboards and pages.
pub fn is_about_series(file: &TextFile) -> bool {
    file.path.starts_with("deploy/prometheus/") || file.path.starts_with("deploy/grafana/") || file.path.starts_with("docs/operations")
}

fn registered(files: &[TextFile]) -> BTreeSet<String> {
    let sources = files.iter().filter(|file| SOURCES.contains(&file.path.as_str()));
    sources.flat_map(|file| CALLS.iter().flat_map(|(call, unit)| named_by(&file.text, call, unit))).collect()
}

fn named_by(source: &str, call: &str, unit: &str) -> Vec<String> {
    let source = source.replace("&mut registry", "registry");
    let names = source.split(call).skip(1).filter_map(|rest| rest.split_once('"').map(|(name, _)| name.to_owned()));
    names.flat_map(|name| SUFFIXES.map(|suffix| format!("quorate_{name}{unit}{suffix}"))).collect()
}

/// Words of the text that are names of series.
fn mentioned(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("quorate_")).map(str::to_owned).collect()
}

#[test]
fn a_series_that_nobody_registers_is_named() {
    use crate::tree::example;
    let source = "r.register(\"decisions\", x); seconds_family(registry, \"lease\", y); gauge(&mut registry, \"level\", z)";
    let files = [example(SOURCES[0], source)];
    let rules =
        example("deploy/prometheus/a.yml", "rate(quorate_decisions_total[1m]) quorate_lease_seconds > quorate_level or quorate_lost == 1");
    assert!(is_about_series(&rules) && !is_about_series(&files[0]));
    assert_eq!(complaints(&rules, &files), ["deploy/prometheus/a.yml: no series is called quorate_lost"]);
}
