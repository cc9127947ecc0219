//! The house rules, as tests: packages and their imports, sources, pages, scripts.
//!
//! Every rule is a plain function from text to complaints, so each has a test of its own with
//! a bad example. Nothing here writes, and nothing is run but `cargo metadata`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of the checkout: it reads files and runs cargo"
)]

mod known_faults;
mod layout;
mod packages;
mod pages;
mod rust;
mod series;
mod tree;

/// Fails with every complaint at once.
fn expect_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn packages_import_only_what_they_may() {
    expect_none(packages::import_complaints(&packages::read_all()));
}

#[test]
fn packages_inherit_the_lints_of_the_workspace() {
    expect_none(packages::lint_complaints(&packages::read_all()));
}

#[test]
fn only_tests_make_mistakes_on_purpose() {
    expect_none(packages::feature_complaints(&packages::read_all()));
}

#[test]
fn pure_packages_ban_what_is_ambient() {
    expect_none(packages::ban_complaints(&packages::read_all()));
}

#[test]
fn sources_keep_the_house_rules() {
    let files = tree::read_all();
    assert!(files.iter().any(|f| f.path == "shared/src/units.rs"), "the sources were not found");
    expect_none(rust::all_complaints(&files));
}

#[test]
fn files_are_short_clean_and_well_named() {
    expect_none(tree::read_all().iter().flat_map(layout::complaints).collect());
}

#[test]
fn pages_are_linked_and_decisions_are_listed() {
    let files = tree::read_all();
    expect_none(files.iter().flat_map(|f| pages::complaints(f, &files)).chain(pages::decision_complaints(&files)).collect());
}

#[test]
fn each_known_fault_has_its_tests() {
    expect_none(known_faults::complaints(&tree::read_all()));
}

#[test]
fn rules_and_dashboards_speak_of_series_that_there_are() {
    let files = tree::read_all();
    let about: Vec<_> = files.iter().filter(|file| series::is_about_series(file)).collect();
    assert!(about.len() > 3, "the rules were not found");
    expect_none(about.into_iter().flat_map(|file| series::complaints(file, &files)).collect());
}
