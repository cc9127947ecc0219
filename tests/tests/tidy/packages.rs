//! Rules for packages: what each may import, its lints, its bans.

use crate::tree;
use std::fs;
use std::process::Command;

/// One package of the workspace.
pub struct Package {
    /// Its name.
    pub name: String,
    /// Dependencies of the code that is shipped: not those of tests.
    pub imports: Vec<String>,
    /// Its `Cargo.toml`.
    pub manifest: String,
    /// Its own `clippy.toml`, if it has one.
    pub clippy: Option<String>,
}

/// What one package may import.
struct Rule {
    package: &'static str,
    /// Packages of ours.
    ours: &'static [&'static str],
    /// Packages of others.
    others: Others,
}

enum Others {
    /// These, and no more: all of them pure.
    Only(&'static [&'static str]),
    /// Any but these.
    AllBut(&'static [&'static str]),
}

/// The import rules of docs/architecture.md.
const RULES: [Rule; 10] = [
    Rule { package: "quorate-shared", ours: &[], others: Others::Only(&["serde", "thiserror", "blake3", "chrono", "chrono-tz", "utoipa"]) },
    Rule { package: "quorate-ledger", ours: &["quorate-shared"], others: Others::Only(&["serde", "thiserror"]) },
    Rule { package: "quorate-limiter", ours: &["quorate-shared"], others: Others::Only(&["serde", "thiserror"]) },
    Rule {
        package: "quorate-coordinator",
        ours: &["quorate-shared", "quorate-traces", "quorate-ledger"],
        others: Others::AllBut(&["redis"]),
    },
    Rule {
        package: "quorate-agent",
        ours: &["quorate-shared", "quorate-traces", "quorate-limiter"],
        others: Others::AllBut(&["openraft", "redb"]),
    },
    Rule {
        package: "quorate",
        ours: &["quorate-shared", "quorate-traces", "quorate-coordinator", "quorate-agent"],
        others: Others::AllBut(&["openraft", "redis", "redb"]),
    },
    Rule {
        package: "quorate-tests",
        ours: &["quorate-shared", "quorate-ledger", "quorate-limiter"],
        others: Others::Only(&["serde", "thiserror"]),
    },
    Rule { package: "quorate-traces", ours: &["quorate-shared"], others: Others::AllBut(&["openraft", "redis", "redb"]) },
    Rule { package: "quorate-tower", ours: &["quorate-shared"], others: Others::AllBut(&["openraft", "redis", "redb"]) },
    Rule { package: "quorate-faults", ours: &["quorate-shared"], others: Others::AllBut(&["openraft", "redis", "redb"]) },
];

/// Packages that must ban clocks, randomness, hash order and the outside.
const PURE: [&str; 4] = ["quorate-shared", "quorate-ledger", "quorate-limiter", "quorate-tests"];

/// What each of them must ban at least. Clippy's own file says why.
const BANS: [(&str, &[&str]); 2] = [
    (
        "disallowed-methods",
        &["std::time::Instant::now", "std::time::SystemTime::now", "std::thread::sleep", "std::env::var", "std::fs::read"],
    ),
    ("disallowed-types", &["std::time::Instant", "std::collections::HashMap", "std::collections::HashSet", "std::process::Command"]),
];

/// Every package of the workspace, as Cargo understands it.
pub fn read_all() -> Vec<Package> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let args = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let output = Command::new(cargo).args(args).current_dir(tree::root()).output().expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    metadata["packages"].as_array().expect("packages").iter().map(read_package).collect()
}

fn read_package(package: &serde_json::Value) -> Package {
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let manifest_path = text(&package["manifest_path"]);
    let shipped = package["dependencies"].as_array().expect("dependencies").iter().filter(|d| d["kind"] != "dev");
    Package {
        name: text(&package["name"]),
        imports: shipped.map(|d| text(&d["name"])).collect(),
        manifest: fs::read_to_string(&manifest_path).expect("a manifest"),
        clippy: fs::read_to_string(manifest_path.replace("Cargo.toml", "clippy.toml")).ok(),
    }
}

/// Imports that no rule allows, and packages without a rule.
pub fn import_complaints(packages: &[Package]) -> Vec<String> {
    let mut found = Vec::new();
    for package in packages {
        match RULES.iter().find(|rule| rule.package == package.name) {
            None => found.push(format!("{}: no import rule: add one here and to docs/architecture.md", package.name)),
            Some(rule) => {
                let bad = package.imports.iter().filter(|import| !rule.allows(import));
                found.extend(bad.map(|import| format!("{} must not import {import}", package.name)));
            }
        }
    }
    let gone = RULES.iter().filter(|rule| packages.iter().all(|p| p.name != rule.package));
    found.extend(gone.map(|rule| format!("{}: a rule without a package", rule.package)));
    found
}

impl Rule {
    fn allows(&self, import: &str) -> bool {
        if import == "quorate" || import.starts_with("quorate-") {
            return self.ours.contains(&import);
        }
        match self.others {
            Others::Only(allowed) => allowed.contains(&import),
            Others::AllBut(banned) => !banned.contains(&import),
        }
    }
}

/// The feature that lets rules of the protocol be left out, and the one package that may turn it on.
const MISTAKES: (&str, &str) = ("mistakes", "quorate-tests");

/// Packages that are built with mistakes, or could be: by a dependency or a feature of their own.
pub fn feature_complaints(packages: &[Package]) -> Vec<String> {
    let (feature, tests) = MISTAKES;
    let owner = |p: &Package| p.name == "quorate-shared" || p.name == tests;
    let turns_on = packages.iter().filter(|p| !owner(p) && table(&p.manifest).to_string().contains(feature));
    let mut found: Vec<String> = turns_on.map(|p| format!("{}: only {tests} may name the feature `{feature}`", p.name)).collect();
    let default = |p: &Package| table(&p.manifest).get("features").and_then(|f| f.get("default")).is_some();
    let on = packages.iter().filter(|p| p.name == "quorate-shared" && default(p));
    found.extend(on.map(|p| format!("{}: no default features: `{feature}` must stay off", p.name)));
    found
}

/// Packages with lints of their own.
pub fn lint_complaints(packages: &[Package]) -> Vec<String> {
    let inherits =
        |p: &&Package| table(&p.manifest).get("lints").and_then(|l| l.get("workspace")).and_then(toml::Value::as_bool) == Some(true);
    packages.iter().filter(|p| !inherits(p)).map(|p| format!("{}: [lints] must be `workspace = true`", p.name)).collect()
}

/// Pure packages that do not ban what is ambient, or not say why.
pub fn ban_complaints(packages: &[Package]) -> Vec<String> {
    packages.iter().filter(|p| PURE.contains(&p.name.as_str())).flat_map(missing_bans).collect()
}

fn missing_bans(package: &Package) -> Vec<String> {
    let Some(clippy) = package.clippy.as_deref().map(table) else {
        return vec![format!("{}: a pure package needs a clippy.toml of its own", package.name)];
    };
    let mut found = Vec::new();
    for (list, wanted) in BANS {
        let bans = clippy.get(list).and_then(toml::Value::as_array).cloned().unwrap_or_default();
        let member = |ban: &toml::Value, key: &str| ban.get(key).and_then(toml::Value::as_str).unwrap_or_default().to_owned();
        let missing = wanted.iter().filter(|path| bans.iter().all(|ban| member(ban, "path") != **path));
        found.extend(missing.map(|path| format!("{}: clippy.toml does not ban {path}", package.name)));
        let unreasoned = bans.iter().filter(|ban| member(ban, "reason").is_empty());
        found.extend(unreasoned.map(|ban| format!("{}: clippy.toml bans {ban} without a reason", package.name)));
    }
    found
}

fn table(text: &str) -> toml::Table {
    text.parse().expect("TOML")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, imports: &[&str]) -> Package {
        let imports = imports.iter().map(|i| (*i).to_owned()).collect();
        Package { name: name.to_owned(), imports, manifest: String::new(), clippy: None }
    }

    fn all_with(other: Package) -> Vec<Package> {
        let mut all: Vec<Package> = RULES.iter().map(|r| package(r.package, &[])).filter(|p| p.name != other.name).collect();
        all.push(other);
        all
    }

    #[test]
    fn imports_across_the_house_are_found() {
        let bad = [
            ("quorate-shared", "quorate-ledger"),
            ("quorate-shared", "tokio"),
            ("quorate-ledger", "openraft"),
            ("quorate-limiter", "redis"),
            ("quorate-coordinator", "quorate-limiter"),
            ("quorate-agent", "quorate-ledger"),
            ("quorate-agent", "openraft"),
            ("quorate", "openraft"),
            ("quorate-tests", "tokio"),
            ("quorate-tests", "quorate-agent"),
            ("quorate-faults", "quorate-agent"),
        ];
        for (name, import) in bad {
            assert_eq!(import_complaints(&all_with(package(name, &[import]))).len(), 1, "{name} imports {import}");
        }
        assert!(import_complaints(&all_with(package("quorate-agent", &["tokio", "quorate-limiter"]))).is_empty());
    }

    #[test]
    fn a_package_without_a_rule_and_a_rule_without_a_package_are_found() {
        assert_eq!(import_complaints(&all_with(package("quorate-new", &[]))).len(), 1);
        assert_eq!(import_complaints(&[]).len(), RULES.len());
    }

    #[test]
    fn lints_of_its_own_are_found() {
        let with = |manifest: &str| [Package { manifest: manifest.to_owned(), ..package("p", &[]) }];
        assert!(lint_complaints(&with("[lints]\nworkspace = true\n")).is_empty());
        assert_eq!(lint_complaints(&with("[lints.rust]\nunsafe_code = \"allow\"\n")).len(), 1);
        assert_eq!(lint_complaints(&with("")).len(), 1);
    }

    #[test]
    fn mistakes_outside_of_tests_are_found() {
        let with = |name: &str, manifest: &str| [Package { manifest: manifest.to_owned(), ..package(name, &[]) }];
        let on = "[dependencies]\nquorate-shared = { workspace = true, features = [\"mistakes\"] }\n";
        assert!(feature_complaints(&with("quorate-tests", on)).is_empty());
        assert!(feature_complaints(&with("quorate-shared", "[features]\nmistakes = []\n")).is_empty());
        assert_eq!(feature_complaints(&with("quorate-agent", on)).len(), 1);
        assert_eq!(feature_complaints(&with("quorate", "[features]\nx = [\"quorate-shared/mistakes\"]\n")).len(), 1);
        assert_eq!(feature_complaints(&with("quorate-shared", "[features]\ndefault = [\"mistakes\"]\n")).len(), 1);
    }

    #[test]
    fn missing_and_unreasoned_bans_are_found() {
        let with = |clippy: Option<&str>| [Package { clippy: clippy.map(str::to_owned), ..package("quorate-ledger", &[]) }];
        let wanted: usize = BANS.iter().map(|(_, paths)| paths.len()).sum();
        assert_eq!(ban_complaints(&with(None)).len(), 1);
        assert_eq!(ban_complaints(&with(Some(""))).len(), wanted);
        let one = "disallowed-methods = [{ path = \"std::env::var\" }]\n";
        assert_eq!(ban_complaints(&with(Some(one))).len(), wanted, "one is banned, without a reason");
    }
}
