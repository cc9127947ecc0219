//! What is to be said of the files: mistakes, and notes.

use quorate_shared::located::Place;
use std::fmt;

/// One thing that is to be said of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The name of the file.
    pub file: String,
    /// Where in it, if that is known.
    pub at: Option<Place>,
    /// What.
    pub detail: String,
}

impl fmt::Display for Note {
    /// `FILE:LINE:COLUMN: DETAIL`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{}:{}:{}: {}", self.file, at.line, at.column, self.detail),
            None => write!(f, "{}: {}", self.file, self.detail),
        }
    }
}

/// Everything that was found so far, and the file that is being read.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The file that what comes is about.
    pub file: String,
    /// For each of them the other limiter would refuse the file.
    pub mistakes: Vec<Note>,
    /// What does not carry over.
    pub notes: Vec<Note>,
}

impl Findings {
    /// Something that the other limiter would refuse the file for.
    pub(super) fn refuse(&mut self, at: Option<Place>, detail: impl Into<String>) {
        self.mistakes.push(Note { file: self.file.clone(), at, detail: detail.into() });
    }

    /// Something that does not carry over, or is probably not meant.
    pub(super) fn note(&mut self, at: Option<Place>, detail: impl Into<String>) {
        self.notes.push(Note { file: self.file.clone(), at, detail: detail.into() });
    }
}
