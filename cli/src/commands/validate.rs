//! `quorate policy validate`: the mistakes of all files, and not only of the first.

use super::policy::warn;
use super::{Verdict, print};
use crate::policies::{self, PolicyFile};
use quorate_coordinator::documents;
use quorate_shared::policy::PolicySet;
use quorate_shared::problem::InputError;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What is to be said of one file.
#[derive(Debug, Serialize)]
struct Validated {
    file: String,
    valid: bool,
    /// All mistakes, in the order of the text.
    errors: Vec<InputError>,
    /// What is taken as written, and is probably not what was meant.
    warnings: Vec<InputError>,
}

/// Checks each file by itself; negative if any has a mistake.
pub fn run(files: &[PathBuf], json: bool) -> anyhow::Result<Verdict> {
    match json {
        true => as_json(files),
        false => as_text(files),
    }
}

fn as_json(files: &[PathBuf]) -> anyhow::Result<Verdict> {
    let validated: Vec<Validated> = files.iter().map(|path| validated(path)).collect();
    print(&format!("{}\n", serde_json::to_string(&validated)?))?;
    Ok(verdict(validated.iter().all(|file| file.valid)))
}

fn validated(path: &Path) -> Validated {
    let (file, outcome) = match policies::read(path) {
        Ok((name, text)) => (name, documents::policy_set(&text).map_err(|mistakes| mistakes.into_iter().map(Into::into).collect())),
        Err(error) => {
            let unreadable = InputError { pointer: String::new(), detail: format!("{error:#}"), line: None };
            (path.display().to_string(), Err(vec![unreadable]))
        }
    };
    let valid = outcome.is_ok();
    let (warnings, errors) = match outcome {
        Ok((_, warnings)) => (warnings.into_iter().map(Into::into).collect(), Vec::new()),
        Err(errors) => (Vec::new(), errors),
    };
    Validated { file, valid, errors, warnings }
}

fn as_text(files: &[PathBuf]) -> anyhow::Result<Verdict> {
    let mut valid = true;
    for path in files {
        match PolicyFile::read(path) {
            Ok(file) => {
                warn(&file);
                print(&format!("{}: good; {}\n", file.name, contents(&file.set)))?;
            }
            Err(error) => {
                eprintln!("{error:#}");
                valid = false;
            }
        }
    }
    Ok(verdict(valid))
}

fn verdict(valid: bool) -> Verdict {
    if valid { Verdict::Done } else { Verdict::Negative }
}

fn contents(set: &PolicySet) -> String {
    let counted = |n: usize, one: &str, more: &str| format!("{n} {}", if n == 1 { one } else { more });
    format!("{}, {}", counted(set.policies.len(), "policy", "policies"), counted(set.regions.len(), "region", "regions"))
}
