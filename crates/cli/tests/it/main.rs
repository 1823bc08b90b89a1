//! Tests of the real binary, by subcommand.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod access;
mod advise;
mod aging;
mod basics;
mod bench;
mod bench_refused;
mod bench_transactions;
mod branches;
mod bulk;
mod config;
mod consent;
mod copies;
mod created_files;
mod errors;
mod files;
mod formats;
mod import_sorted;
mod joined_keys;
mod joint;
mod keyspaces;
mod managed;
mod probe;
mod read_only;
mod readme;
mod resume;
mod serve;
mod sorting;
mod tables;
mod terminal;
mod tiers;
mod transactions;
mod typed;
mod upkeep;

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A temporary directory with a store, on which the binary runs.
pub(crate) struct Place {
    directory: TempDir,
}

/// Output and exit code of the binary.
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

    /// Asserts that standard error contains the words.
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

    /// Builds a command that runs the binary on this store.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = binary();
        command
            .env("ALLUVIUM_DB", self.path("store"))
            .args(["--memory", "32M"])
            .args(arguments);
        command
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Said {
        self.command(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("the binary runs")
            .into()
    }

    /// Runs a command and asserts that it succeeds.
    #[track_caller]
    pub(crate) fn done<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Said {
        self.run(arguments).ended(0)
    }

    /// Runs a command with these bytes as standard input.
    pub(crate) fn fed<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>, input: &[u8]) -> Said {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut stdin = child.stdin.take().expect("it is piped");
        let input = input.to_vec();
        // A command that stops reading early reports the reason itself, so ignore write errors.
        let feeding = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let said = child.wait_with_output().expect("it ends").into();
        feeding.join().expect("the input is fed");
        said
    }
}

/// ID of a user that owns none of the files.
const OTHER: u32 = 65534;

/// Returns the same command, to be run by a user other than root. Where that is not possible,
/// records a skip and returns `None`.
pub(crate) fn as_other_user(command: &Command) -> Option<Command> {
    let other = |program: &OsStr| {
        let mut other = Command::new("setpriv");
        other
            .args([format!("--reuid={OTHER}"), format!("--regid={OTHER}")])
            .arg("--clear-groups")
            .arg(program);
        other
    };
    // SAFETY: the call only returns a number.
    if unsafe { libc::geteuid() } != 0 {
        let mut same = Command::new(command.get_program());
        same.args(command.get_args());
        return Some(same);
    }
    let tried = other(command.get_program()).arg("--version").output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        alluvium_device::skipped!("other users", "the binary cannot be run as another user");
        return None;
    }
    let mut other = other(command.get_program());
    other.args(command.get_args());
    Some(other)
}

pub(crate) fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alluvium"));
    command.env_remove("ALLUVIUM_DB").env("LC_ALL", "C");
    command
}

/// Returns the lines of a text without their line ends.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn without_a_choice_the_store_is_in_the_working_directory() {
    let place = Place::new();
    let run = |arguments: &[&str]| {
        let directory: &Path = place.directory.path();
        binary()
            .current_dir(directory)
            .args(arguments)
            .status()
            .expect("the binary runs")
    };
    assert!(run(&["put", "a", "1"]).success());
    assert!(place.path("alluvium-data").is_dir());
}
