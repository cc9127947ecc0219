//! Files of envoyproxy/ratelimit.
//!
//! One file is one domain: a tree of descriptors. A request's descriptor, a list of entries, walks
//! down one level for each entry, and meets the limit at the node where it ends. At each level the
//! exact value comes before the patterns, which are tried in the order of the file, and those before
//! the bare key; there is no way back up. So a node is met by one condition for each level, and each
//! of its own: that is the policy it becomes.
//!
//! | file | one thing |
//! |---|---|
//! | `check.rs` | what the loader of that limiter refuses before it looks at any meaning |
//! | `read.rs` | a file as rules |
//! | `level.rs` | which values of which attribute meet each rule of one level |
//! | `convert.rs` | rules as policies, and what does not carry over |

mod check;
mod convert;
mod level;
mod read;
mod rules;

use super::findings::{Findings, Note};
use super::scalar::Origin;
use super::{Imported, SourceFile, whole};
use crate::documents::parse;
use quorate_shared::located::{Node, Place};
use quorate_shared::names::RegionName;
use rules::Domain;

/// The policy set that limits as these files do. Rules of one domain stand in one file, or with
/// `merge_domains` in several.
///
/// # Errors
/// Everything in all files that the limiter would refuse one of them for.
pub fn import(files: &[SourceFile], regions: &[RegionName], merge_domains: bool) -> Result<Imported, Vec<Note>> {
    let mut findings = Findings::default();
    let mut domains: Vec<Domain> = Vec::new();
    for file in files {
        findings.file.clone_from(&file.name);
        let Some(domain) = one(file, &mut findings) else { continue };
        match domains.iter_mut().find(|known| known.name == domain.name) {
            None => domains.push(domain),
            Some(known) if merge_domains => known.merge(domain, &mut findings),
            Some(known) => {
                let detail =
                    format!("the domain `{}` is in {} already; MERGE_DOMAIN_CONFIG=true is `--merge-domains`", domain.name, known.file);
                findings.refuse(domain.at, detail);
            }
        }
    }
    let drafts = convert::drafts(&domains, &mut findings);
    whole::set(&drafts, regions, findings)
}

fn one(file: &SourceFile, findings: &mut Findings) -> Option<Domain> {
    let text = whole::utf8(file, findings)?;
    let (text, second) = first_document(text);
    if let Some(line) = second {
        findings.note(Some(Place { line, column: 1 }), "a second document begins here: as before, only the first one is read");
    }
    let document = match parse(text.as_bytes()) {
        Ok(document) => document,
        Err(mistakes) => {
            mistakes.into_iter().for_each(|mistake| findings.refuse(mistake.at, mistake.detail));
            return None;
        }
    };
    let origin = Origin::new(text);
    check::keys(&document, &origin, findings).then(|| read::domain(&document, &origin, findings))?
}

/// The first document of a text, and the line in which another one begins.
fn first_document(text: &str) -> (&str, Option<u64>) {
    let mut began = false;
    let mut offset = 0;
    for (line, content) in (1..).zip(text.split_inclusive('\n')) {
        let marks = |mark: &str| content.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        let opens = marks("---");
        if began && (opens || marks("...")) {
            let rest = &text[offset + 3..];
            let more = rest.lines().any(|line| !is_empty(line) && !line.starts_with("..."));
            return (&text[..offset], more.then_some(line));
        }
        began |= opens || !(is_empty(content.trim_start_matches('\u{feff}')) || content.starts_with('%'));
        offset += content.len();
    }
    (text, None)
}

fn is_empty(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// The entries of a map, of which the last one of a key counts.
fn last_of_each(node: &Node) -> Vec<(&quorate_shared::located::Key, &Node)> {
    let quorate_shared::located::Value::Map(entries) = &node.value else { return Vec::new() };
    let later = |i: usize, name: &str| entries[i + 1..].iter().any(|(key, _)| key.name == name);
    entries.iter().enumerate().filter(|(i, (key, _))| !later(*i, &key.name)).map(|(_, (key, node))| (key, node)).collect()
}

#[cfg(test)]
mod walk_tests;

#[cfg(test)]
mod tests {
    use super::first_document;

    #[test]
    fn the_first_document_ends_where_the_second_begins() {
        for (text, first, second) in [
            ("a: 1\n", "a: 1\n", None),
            ("---\na: 1\n", "---\na: 1\n", None),
            ("# c\n%YAML 1.1\n--- # c\na: 1\n---\nb: 1\n", "# c\n%YAML 1.1\n--- # c\na: 1\n", Some(5)),
            ("a: 1\n---\n", "a: 1\n", None),
            ("a: 1\n...\nb: 1\n", "a: 1\n", Some(2)),
            ("---\n---\na: 1\n", "---\n", Some(2)),
            ("\u{feff}# c\n---\r\na: --- x\r\n---\r\nb", "\u{feff}# c\n---\r\na: --- x\r\n", Some(4)),
            ("a: 1\n----\n", "a: 1\n----\n", None),
            ("", "", None),
        ] {
            assert_eq!(first_document(text), (first, second), "{text:?}");
        }
    }
}
