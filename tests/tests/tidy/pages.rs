//! Rules for pages: links lead somewhere, decisions are numbered and listed, words are meant.

use crate::tree::TextFile;

/// Where decisions are kept.
const DECISIONS: &str = "docs/adr/";

/// What each decision says.
const PARTS: [&str; 3] = ["## Context", "## Decision", "## Consequences"];

/// What no page says of this product: its bound holds at every instant.
const NEVER_SAID: [&str; 2] = ["eventually consistent", "eventual consistency"];

/// What is wrong with one page.
pub fn complaints(page: &TextFile, all: &[TextFile]) -> Vec<String> {
    if !page.path.ends_with(".md") {
        return Vec::new();
    }
    let prose = without_code(&page.text);
    let dead = links(&prose).into_iter().filter(|link| !leads_somewhere(&page.path, link, all)).map(|link| format!("dead link: {link}"));
    let folded = page.text.to_lowercase().replace('\n', " ");
    let said = NEVER_SAID.into_iter().filter(|words| folded.contains(words)).map(|words| format!("says `{words}`"));
    dead.chain(said).map(|what| format!("{}: {what}", page.path)).collect()
}

/// The page without fenced, indented and quoted code.
fn without_code(text: &str) -> String {
    let mut fenced = false;
    let mut prose = String::new();
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if !fenced && !fence && !line.starts_with("    ") {
            prose.extend(line.split('`').step_by(2));
            prose.push('\n');
        }
    }
    prose
}

/// Targets of `[text](target)` and `![text](target)`.
fn links(prose: &str) -> Vec<&str> {
    prose.split("](").skip(1).filter_map(|rest| rest.split([')', ' ', '\n']).next()).collect()
}

fn leads_somewhere(page: &str, link: &str, all: &[TextFile]) -> bool {
    if link.starts_with("https://") || link.starts_with("http://") {
        return true;
    }
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let path = if file.is_empty() { page.to_owned() } else { resolve(page, file) };
    let Some(target) = all.iter().find(|f| f.path == path) else {
        return heading.is_empty() && all.iter().any(|f| f.path.starts_with(&format!("{path}/")));
    };
    heading.is_empty() || target.text.lines().filter(|l| l.starts_with('#')).any(|l| anchor(l) == heading)
}

/// `../a.md` seen from a page.
fn resolve(page: &str, file: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// What a heading is linked by.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Decisions that are misnumbered, unlisted, too long, or lack a part.
pub fn decision_complaints(all: &[TextFile]) -> Vec<String> {
    let list = all.iter().find(|f| f.path == format!("{DECISIONS}README.md")).map_or("", |f| f.text.as_str());
    let decisions = all.iter().filter(|f| f.path.starts_with(DECISIONS) && f.path != format!("{DECISIONS}README.md"));
    decisions.zip(1..).flat_map(|(file, number)| decision_complaint(file, number, list)).collect()
}

fn decision_complaint(file: &TextFile, number: usize, list: &str) -> Vec<String> {
    let name = file.path.trim_start_matches(DECISIONS);
    let mut found = Vec::new();
    if !name.starts_with(&format!("{number:04}-")) || !file.text.starts_with(&format!("# {number:04} ")) {
        found.push(format!("{name}: name and heading must begin with {number:04}"));
    }
    if !list.contains(&format!("]({name})")) {
        found.push(format!("{name}: not listed in {DECISIONS}README.md"));
    }
    let missing = PARTS.into_iter().filter(|part| !file.text.lines().any(|l| l == *part));
    found.extend(missing.map(|part| format!("{name}: no part `{part}`")));
    if file.text.lines().count() > 40 {
        found.push(format!("{name}: a decision fits on a page"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::example;

    #[test]
    fn dead_links_are_found() {
        let all = [example("README.md", ""), example("docs/a.md", "# One two, three\n"), example("docs/adr/x.md", "")];
        let count = |text: &str| complaints(&example("docs/b.md", text), &all).len();
        for good in
            ["[a](a.md)", "[a](../README.md)", "[a](a.md#one-two-three)", "[a](adr)", "[a](adr/)", "[a](https://x.y/z)", "`[a](no.md)`"]
        {
            assert_eq!(count(good), 0, "{good}");
        }
        for bad in ["[a](no.md)", "[a](../a.md)", "[a](a.md#four)", "![a](no.svg)", "[a](no.md) [b](a.md)", "x\n```\ny\n```\n[a](no.md)"] {
            assert_eq!(count(bad), 1, "{bad}");
        }
    }

    #[test]
    fn words_that_are_not_meant_are_found() {
        assert_eq!(complaints(&example("README.md", "It is Eventually\nconsistent.\n"), &[]).len(), 1);
    }

    #[test]
    fn bad_decisions_are_found() {
        let good = "# 0001 Title\n\n## Context\n\n## Decision\n\n## Consequences\n";
        let list = example("docs/adr/README.md", "- [0001 Title](0001-title.md)\n");
        let count = |path: &str, text: &str, list: &TextFile| {
            decision_complaints(&[example(path, text), TextFile { path: list.path.clone(), text: list.text.clone(), executable: false }])
                .len()
        };
        assert_eq!(count("docs/adr/0001-title.md", good, &list), 0);
        assert_eq!(count("docs/adr/0001-title.md", good, &example("docs/adr/README.md", "")), 1);
        assert_eq!(count("docs/adr/0001-title.md", "# Title\n\n## Context\n\n## Decision\n\n## Consequences\n", &list), 1);
        assert_eq!(count("docs/adr/0001-title.md", "# 0001 Title\n\n## Context\n\n## Decision\n", &list), 1);
        assert_eq!(count("docs/adr/0001-title.md", &(good.to_owned() + &"x\n".repeat(40)), &list), 1);
        assert_eq!(count("docs/adr/0003-title.md", good, &list), 2);
    }
}
