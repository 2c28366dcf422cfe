//! A WAL in a folder of its own.
#![allow(clippy::unwrap_used, reason = "a helper of tests")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::testing::{FIRST_FILE, Log};

/// A WAL of one file.
pub(crate) struct Written(tempfile::TempDir);

impl Written {
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.path().join(FIRST_FILE)
    }
}

impl Log {
    /// Writes the file.
    pub(crate) fn done(self) -> Written {
        let written = Written(tempfile::tempdir().unwrap());
        fs::write(written.file(), self.bytes()).unwrap();
        written
    }
}
