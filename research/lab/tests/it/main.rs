//! The Lab from outside: its page, and its program.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod page;
mod program;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A directory of a test, and the program in it.
pub(crate) struct Place {
    directory: TempDir,
}

/// What the program printed, and how it ended.
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

    /// It ended with this code.
    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> Said {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// It complained in these words.
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

    /// It ends well.
    #[track_caller]
    pub(crate) fn done<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Said {
        self.run(arguments).ended(0)
    }
}

/// Returns the program, without what the environment says to it.
pub(crate) fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_alluvium-lab"))
}
