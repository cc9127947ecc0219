//! Rules for every text file: length, blanks, names, permission to run.

use crate::rust;
use crate::tree::TextFile;

/// Lines of code in one file, its `#[cfg(test)]` part left out. Most stay below 400.
const MOST_LINES: usize = 600;

/// Files with code, which must be short.
const CODE: [&str; 6] = [".rs", ".lua", ".js", ".mjs", ".css", ".html"];

/// Names that say nothing of what is inside.
pub const EMPTY_NAMES: [&str; 4] = ["utils", "common", "helpers", "manager"];

/// What is wrong with one file.
pub fn complaints(file: &TextFile) -> Vec<String> {
    let found = blanks(&file.text).chain(length(file)).chain(names(&file.path)).chain(permission(file));
    found.map(|what| format!("{}: {what}", file.path)).collect()
}

fn blanks(text: &str) -> impl Iterator<Item = String> + '_ {
    let end =
        (!text.is_empty() && (!text.ends_with('\n') || text.ends_with("\n\n"))).then(|| "not exactly one newline at the end".to_owned());
    let lines = text.split('\n').enumerate().filter_map(|(n, line)| match line {
        _ if line.contains('\t') => Some(format!("line {}: a tab", n + 1)),
        _ if line.ends_with([' ', '\r']) => Some(format!("line {}: a blank at the end", n + 1)),
        _ => None,
    });
    lines.chain(end)
}

fn length(file: &TextFile) -> Option<String> {
    if !CODE.iter().any(|ending| file.path.ends_with(ending)) {
        return None;
    }
    let lines = match file.path.ends_with(".rs") {
        true => lines_without_tests(&file.text),
        false => file.text.lines().count(),
    };
    (lines > MOST_LINES).then(|| format!("{lines} lines without tests; at most {MOST_LINES}: give its second thing a file of its own"))
}

fn lines_without_tests(text: &str) -> usize {
    let code = rust::without_comments_and_strings(text);
    let all = code.lines().count();
    all - rust::test_lines(&code)
}

fn names(path: &str) -> Option<String> {
    let bad = path.split('/').find(|part| EMPTY_NAMES.contains(&part.split('.').next().unwrap_or_default()));
    bad.map(|name| format!("`{name}` says nothing of what is inside: name it for its one main thing"))
}

fn permission(file: &TextFile) -> Option<String> {
    let script = file.text.starts_with("#!/");
    match (script, file.executable) {
        (true, false) => Some("a script that nobody may run: chmod +x".to_owned()),
        (false, true) => Some("may be run, but is no script: chmod -x".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::example;

    fn count(path: &str, text: &str) -> usize {
        complaints(&example(path, text)).len()
    }

    #[test]
    fn tabs_and_blanks_are_found() {
        assert_eq!(count("a.md", "x\n"), 0);
        for bad in ["\tx\n", "x \n", "x\r\n", "x", "x\n\n"] {
            assert_eq!(count("a.md", bad), 1, "{bad:?}");
        }
    }

    #[test]
    fn a_long_file_is_found_and_its_tests_do_not_count() {
        let long = "x();\n".repeat(MOST_LINES + 1);
        assert_eq!(count("a/src/b.rs", &long), 1);
        assert_eq!(count("a/b.lua", &long), 1);
        assert_eq!(count("a/b.md", &long), 0);
        assert_eq!(count("a/src/b.rs", &format!("x();\n#[cfg(test)]\nmod tests {{\n{long}}}\n")), 0);
    }

    #[test]
    fn empty_names_are_found() {
        assert_eq!(count("a/src/utils.rs", ""), 1);
        assert_eq!(count("a/src/helpers/b.rs", ""), 1);
        assert_eq!(count("a/src/common_ground.rs", ""), 0);
    }

    #[test]
    fn scripts_may_be_run_and_nothing_else() {
        let file = |text: &str, executable| TextFile { executable, ..example("run", text) };
        assert_eq!(complaints(&file("#!/bin/sh\n", false)).len(), 1);
        assert_eq!(complaints(&file("#!/bin/sh\n", true)).len(), 0);
        assert_eq!(complaints(&file("words\n", true)).len(), 1);
    }
}
