//! The table of known faults: each test that it names is there.

use crate::tree::TextFile;

/// Where the table is.
const PAGE: &str = "docs/testing.md";

/// Rows that it has at least.
const ROWS: usize = 30;

/// Names in the table that are no test's.
pub fn complaints(files: &[TextFile]) -> Vec<String> {
    let page = files.iter().find(|file| file.path == PAGE).map(|file| file.text.as_str()).unwrap_or_default();
    let rows: Vec<&str> = section(page).lines().filter(|line| line.starts_with("| ") && !line.starts_with("| #")).collect();
    let few = (rows.len() < ROWS).then(|| format!("{PAGE}: {} known faults", rows.len()));
    let named = rows.iter().flat_map(|row| names(row));
    let missing = named.filter(|name| !files.iter().any(|file| file.text.contains(&format!("fn {name}("))));
    missing.map(|name| format!("{PAGE}: no test is called {name}")).chain(few).collect()
}

fn section(page: &str) -> &str {
    let (_, rest) = page.split_once("\n## Known faults\n").unwrap_or_default();
    rest.split_once("\n## ").map_or(rest, |(section, _)| section)
}

/// The code of the last column.
fn names(row: &str) -> impl Iterator<Item = &str> {
    let last = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
    last.split('`').skip(1).step_by(2)
}

#[test]
fn a_test_that_is_not_there_is_named() {
    use crate::tree::example;
    let page = example(
        PAGE,
        "# Testing\n\n## Known faults\n\n| # | class | tests |\n|---|---|---|\n| 1 | `x` | `a`, `b` |\n\n## Figures\n| 2 | y | `c` |\n",
    );
    let files = [page, example("shared/src/a.rs", "#[test]\nfn a() {}\n")];
    assert_eq!(complaints(&files), ["docs/testing.md: no test is called b", "docs/testing.md: 1 known faults"]);
}
