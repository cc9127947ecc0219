//! Rules for Rust sources.

use crate::layout::EMPTY_NAMES;
use crate::tree::TextFile;
use std::collections::BTreeSet;
use std::ops::Range;

/// The module that alone may name openraft.
const RAFT: &str = "coordinator/src/raft";

/// What no source has, tests included. In two halves, or this file would have them.
const NOWHERE: [(&str, &str); 4] = [
    (concat!("to", "do!"), "finish it, or leave it out"),
    (concat!("un", "implemented!"), "finish it, or leave it out"),
    (concat!("db", "g!"), "use tracing"),
    (concat!("FIX", "ME"), "mend it, or write down what holds today"),
];

/// What code outside tests has not.
const NOT_OUTSIDE_TESTS: [&str; 2] = [".unwrap()", ".expect("];

/// What is wrong with the sources.
pub fn all_complaints(files: &[TextFile]) -> Vec<String> {
    let sources = || files.iter().filter(|f| f.path.ends_with(".rs"));
    let test_modules: BTreeSet<String> = sources().flat_map(test_modules).collect();
    sources().flat_map(|file| complaints(file, is_test(&file.path, &test_modules))).collect()
}

fn complaints(file: &TextFile, is_test: bool) -> Vec<String> {
    let code = without_comments_and_strings(&file.text);
    let shipped = without_tests(&code);
    let mut found = Vec::new();
    let mut complain = |line: usize, what: String| found.push(format!("{}:{line}: {what}", file.path));
    for (word, instead) in NOWHERE {
        lines_with(&file.text, word).for_each(|n| complain(n, format!("{word}: {instead}")));
    }
    lines_with_word(&code, "unsafe").for_each(|n| complain(n, "unsafe code".into()));
    if !is_test {
        for call in NOT_OUTSIDE_TESTS {
            lines_with(&shipped, call)
                .for_each(|n| complain(n, format!("{call} outside tests: return an error, or a value that cannot fail")));
        }
    }
    if !file.path.starts_with(RAFT) {
        lines_with_word(&code, "openraft").for_each(|n| complain(n, format!("openraft outside {RAFT}")));
    }
    for name in EMPTY_NAMES {
        lines_with(&code, &format!("mod {name} ")).for_each(|n| complain(n, format!("`{name}` says nothing of what is inside")));
    }
    found
}

/// The package that runs the product as processes: all of it is a test.
const FAULTS: &str = "tests/faults/";

/// True of files that are only compiled for tests.
fn is_test(path: &str, test_modules: &BTreeSet<String>) -> bool {
    let in_package = path.strip_prefix("tests/").unwrap_or(path);
    let in_test_folder = in_package.split('/').any(|part| part == "tests" || part == "benches");
    let in_test_module = test_modules.iter().any(|module| path.strip_prefix(module).is_some_and(|rest| rest.starts_with(['.', '/'])));
    in_test_folder || in_test_module || path.starts_with(FAULTS)
}

/// The modules that a file declares for tests only, as paths without their ending.
fn test_modules(file: &TextFile) -> Vec<String> {
    let code = without_comments_and_strings(&file.text);
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let folder = match name {
        "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
        name => format!("{folder}/{}", name.trim_end_matches(".rs")),
    };
    let items = test_items(&code).into_iter().filter_map(|item| code[item].strip_suffix(';')?.rsplit_once("mod "));
    items.map(|(_, module)| format!("{folder}/{}", module.trim())).collect()
}

fn lines_with<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.lines().enumerate().filter(move |(_, line)| line.contains(word)).map(|(n, _)| n + 1)
}

fn lines_with_word<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let of_a_name = |c: char| c.is_alphanumeric() || c == '_';
    text.lines().enumerate().filter(move |(_, line)| line.split(|c| !of_a_name(c)).any(|w| w == word)).map(|(n, _)| n + 1)
}

/// The same text, line for line, with every `#[cfg(test)]` item blanked out.
/// Expects a text without comments and strings.
pub fn without_tests(code: &str) -> String {
    let mut kept = code.to_owned();
    for item in test_items(code) {
        let blank: String = code[item.clone()].chars().map(|c| if c == '\n' { "\n".into() } else { " ".repeat(c.len_utf8()) }).collect();
        kept.replace_range(item, &blank);
    }
    kept
}

/// How many lines `#[cfg(test)]` items take up. Expects a text without comments and strings.
pub fn test_lines(code: &str) -> usize {
    test_items(code).into_iter().map(|item| code[item].lines().count()).sum()
}

fn test_items(code: &str) -> Vec<Range<usize>> {
    const MARK: &str = "#[cfg(test)]";
    let mut items = Vec::new();
    let mut at = 0;
    while let Some(found) = code[at..].find(MARK) {
        let start = at + found;
        at = start + MARK.len();
        at += end_of_item(&code[at..]);
        items.push(start..at);
    }
    items
}

/// Where the item at the beginning of `code` ends: after its block, or its semicolon.
fn end_of_item(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '{' => depth += 1,
            ';' if depth == 0 => return at + 1,
            '}' if depth <= 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// The same text with comments, strings and characters blanked out, line for line.
pub fn without_comments_and_strings(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let hidden = hidden_length(rest, kept.chars().next_back());
        if hidden > 0 {
            kept.extend(rest[..hidden].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[hidden..];
        } else {
            kept.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    kept
}

/// How many bytes of a comment, string or character `text` begins with.
fn hidden_length(text: &str, before: Option<char>) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return block_comment_length(text);
    }
    if text.starts_with('"') {
        return string_length(text);
    }
    if text.starts_with('\'') {
        return character_length(text);
    }
    let in_a_name = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if !in_a_name && (text.starts_with('r') || text.starts_with("br")) {
        return raw_string_length(text);
    }
    0
}

fn block_comment_length(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if text[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
        if depth == 0 {
            return at;
        }
    }
    at
}

fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Of `'x'`, `'\n'`, `'\u{1f600}'`; 0 for a lifetime.
fn character_length(text: &str) -> usize {
    let inner = &text[1..];
    if let Some(escape) = inner.strip_prefix('\\') {
        let after = escape.chars().next().map_or(0, char::len_utf8);
        return escape[after..].find('\'').map_or(0, |end| 1 + 1 + after + end + 1);
    }
    let Some(c) = inner.chars().next() else { return 0 };
    if inner[c.len_utf8()..].starts_with('\'') { 1 + c.len_utf8() + 1 } else { 0 }
}

/// Of `r"…"`, `r#"…"#`, `br"…"`; 0 for a name that begins so.
fn raw_string_length(text: &str) -> usize {
    let prefix = if text.starts_with("br") { 2 } else { 1 };
    let hashes = text[prefix..].bytes().take_while(|b| *b == b'#').count();
    let open = prefix + hashes;
    if !text[open..].starts_with('"') {
        return 0;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    text[open + 1..].find(&close).map_or(text.len(), |end| open + 1 + end + close.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::example;

    fn count(path: &str, text: &str) -> usize {
        all_complaints(&[example(path, text)]).len()
    }

    #[test]
    fn what_is_nowhere_is_found_even_in_a_comment() {
        for (word, _) in NOWHERE {
            assert_eq!(count("a/src/b.rs", &format!("fn f() {{}}\n// {word}(1)\n")), 1, "{word}");
        }
    }

    #[test]
    fn code_that_may_panic_is_found_outside_tests_only() {
        let bad = "fn f() { g().unwrap(); h().expect(\"x\"); }\n";
        assert_eq!(count("a/src/b.rs", bad), 2);
        assert_eq!(count("tests/src/b.rs", bad), 2);
        assert_eq!(count("a/tests/b.rs", bad), 0);
        assert_eq!(count("tests/tests/b.rs", bad), 0);
        assert_eq!(count("a/src/b.rs", &format!("#[cfg(test)]\nmod tests {{ {bad} }}\n")), 0);
        assert_eq!(count("a/src/b.rs", &format!("#[cfg(test)]\nmod tests {{ {{}} }}\n{bad}")), 2);
        assert_eq!(count("a/src/b.rs", &format!("#[cfg(test)]\nmod tests;\n{bad}")), 2);
        assert_eq!(count("a/src/b.rs", "/// `x.unwrap()` would panic.\nfn f() { g(\".expect(\"); }\n"), 0);
    }

    #[test]
    fn a_module_declared_for_tests_is_test_code() {
        let bad = "fn f() { g().unwrap(); }\n";
        let with = |path: &str, declared: &str| {
            let parent = example(path, declared);
            all_complaints(&[parent, example("a/src/b/c.rs", bad), example("a/src/b/c/d.rs", bad)]).len()
        };
        assert_eq!(with("a/src/b.rs", "#[cfg(test)]\nmod c;\n"), 0);
        assert_eq!(with("a/src/b/mod.rs", "#[cfg(test)]\npub(crate) mod c;\n"), 0);
        assert_eq!(with("a/src/b.rs", "mod c;\n"), 2);
        assert_eq!(with("a/src/c.rs", "#[cfg(test)]\nmod c;\n"), 2);
        assert_eq!(with("a/src/b.rs", "#[cfg(test)]\nmod cc;\n"), 2);
    }

    #[test]
    fn openraft_is_found_outside_its_module() {
        let bad = "use openraft::Raft;\n";
        assert_eq!(count("coordinator/src/http.rs", bad), 1);
        assert_eq!(count("coordinator/src/raft/store.rs", bad), 0);
        assert_eq!(count("coordinator/src/http.rs", "// openraft does that\n"), 0);
    }

    #[test]
    fn unsafe_code_is_found_and_its_name_in_prose_is_not() {
        assert_eq!(count("a/src/b.rs", "fn f() { unsafe { g() } }\n"), 1);
        assert_eq!(count("a/src/b.rs", "//! no unsafe here\nfn not_unsafe() { g(\"unsafe\"); }\n"), 0);
    }

    #[test]
    fn a_module_without_a_telling_name_is_found() {
        assert_eq!(count("a/src/b.rs", "mod utils { }\n"), 1);
        assert_eq!(count("a/src/b.rs", "mod utilsation { }\n"), 0);
    }

    #[test]
    fn comments_and_strings_are_blanked_line_for_line() {
        let cases = [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            ("f(\"a\\\"b\") + g", "f(      ) + g"),
            ("r#\"a\"b\"# + r", "         + r"),
            ("br\"a\" + br", "      + br"),
            ("'a' + '\\'' + 'a", "    +      + 'a"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("attr\"x\"", "attr   "),
        ];
        for (text, want) in cases {
            assert_eq!(without_comments_and_strings(text), want, "{text}");
        }
        assert_eq!(without_comments_and_strings("'\\'' x '\"' y"), "     x     y");
    }
}
