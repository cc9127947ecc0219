//! A disk that is full, or that fails to flush, under one coordinator: its calls to the C library
//! are answered as such a disk answers them. The binary is the one that is shipped.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What stands between the store and the C library.
const SOURCE: &str = include_str!("disk.c");

/// How a disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Writes find no room (`ENOSPC`).
    Full,
    /// Flushes fail (`EIO`); what was written before them is in doubt.
    Sync,
}

/// The library that makes disks fail, compiled.
#[derive(Debug)]
pub struct Shim(PathBuf);

impl Shim {
    /// Compiles it into a folder; expects a C compiler, as the build of the product does.
    pub fn compile(folder: &Path) -> Self {
        let (source, library) = (folder.join("disk.c"), folder.join("disk.so"));
        fs::write(&source, SOURCE).expect("written");
        let made = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).arg("-ldl").status();
        assert!(made.expect("a C compiler").success(), "disk.c does not compile");
        Self(library)
    }
}

/// The disk of one process.
#[derive(Clone, Debug)]
pub struct Disk {
    library: PathBuf,
    switch: PathBuf,
}

impl Disk {
    /// One that works.
    pub fn new(shim: &Shim, folder: &Path, name: &str) -> Self {
        Self { library: shim.0.clone(), switch: folder.join(format!("{name}.disk")) }
    }

    /// What the process must find in its environment.
    pub fn environment(&self) -> [(&'static str, &OsStr); 2] {
        [("LD_PRELOAD", self.library.as_os_str()), ("FAULTY_DISK", self.switch.as_os_str())]
    }

    /// It fails from now on.
    pub fn fail(&self, how: Failure) {
        let word = match how {
            Failure::Full => "full",
            Failure::Sync => "sync",
        };
        fs::write(&self.switch, word).expect("written");
    }

    /// It works again.
    pub fn mend(&self) {
        // it may not have failed
        let _ = fs::remove_file(&self.switch);
    }
}
