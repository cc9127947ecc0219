//! The text files of the checkout.

use std::fs;
use std::path::{Path, PathBuf};

/// One text file.
pub struct TextFile {
    /// From the root of the checkout, with `/`.
    pub path: String,
    /// All of it.
    pub text: String,
    /// True if anyone may run it.
    pub executable: bool,
}

/// Folders that are not ours to tidy: built, fetched, written by others, or wrong on purpose.
const FOREIGN: [&str; 4] = ["target", "node_modules", "vendor", "__fuzz__"];

/// Hidden folders that are ours; all others belong to somebody's tools.
const OURS: [&str; 3] = [".ci", ".config", ".github"];

/// Endings of files that are text; a file without an ending is text too.
const TEXT: [&str; 17] =
    ["rs", "toml", "md", "lua", "js", "mjs", "ts", "css", "html", "svg", "json", "yaml", "yml", "sh", "service", "conf", "txt"];

/// Ending of pictures that pages show.
const PICTURE: &str = ".png";

/// The root of the checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the checkout").to_owned()
}

/// Every text file that is ours.
pub fn read_all() -> Vec<TextFile> {
    let mut files = Vec::new();
    read_folder(&root(), "", &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn read_folder(folder: &Path, prefix: &str, files: &mut Vec<TextFile>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().expect("a type");
        if kind.is_dir() && is_ours(&name) {
            read_folder(&entry.path(), &format!("{path}/"), files);
        } else if kind.is_file() && is_text(&name) {
            // what is not UTF-8 is no text, whatever its name
            if let Ok(text) = String::from_utf8(fs::read(entry.path()).expect("a file")) {
                files.push(TextFile { executable: is_executable(&entry.path()), path, text });
            }
        } else if kind.is_file() && name.ends_with(PICTURE) {
            // pages show it, and there is nothing to read
            files.push(TextFile { executable: is_executable(&entry.path()), path, text: String::new() });
        }
    }
}

fn is_ours(folder: &str) -> bool {
    if folder.starts_with('.') { OURS.contains(&folder) } else { !FOREIGN.contains(&folder) }
}

fn is_text(name: &str) -> bool {
    match name.trim_start_matches('.').rsplit_once('.') {
        None => true,
        Some((_, ending)) => TEXT.contains(&ending),
    }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).expect("a file").permissions().mode() & 0o111 != 0
}

/// A file for the tests of the rules.
pub fn example(path: &str, text: &str) -> TextFile {
    TextFile { path: path.to_owned(), text: text.to_owned(), executable: false }
}

#[test]
fn text_is_told_by_its_ending() {
    assert!(is_text("main.rs") && is_text("quickstart") && is_text(".gitignore"));
    assert!(!is_text("font.woff2") && !is_text("Cargo.lock"));
}
