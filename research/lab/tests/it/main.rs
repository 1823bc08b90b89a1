//! Integration tests of the Lab's page and program.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod page;
mod program;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A test directory in which the program runs.
pub(crate) struct Place {
    directory: TempDir,
}

/// Output and exit status of the program.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.out.clone()).expect("it printed text")
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.out).expect("it printed JSON")
    }

    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> Said {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// Asserts that the error output contains these words.
    #[track_caller]
    pub(crate) fn complained(self, words: &str) -> Said {
        assert!(self.err.contains(words), "{words:?} is not in {self:?}");
        self
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Said {
        Said {
            code: output.status.code(),
            out: output.stdout,
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Place {
    pub(crate) fn new() -> Place {
        Place {
            directory: tempfile::tempdir().expect("a directory"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a file");
        path
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Said {
        let mut command = binary();
        command.args(arguments).stdin(Stdio::null());
        command.output().expect("the program runs").into()
    }

    /// Runs the program and asserts success.
    #[track_caller]
    pub(crate) fn done<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Said {
        self.run(arguments).ended(0)
    }
}

/// Returns a command for the program, without environment variables that affect it.
pub(crate) fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_alluvium-lab"))
}
