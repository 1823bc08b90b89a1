//! What a script learns from the exit code, and a person from the last line.

use crate::screen;
use alluvium::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It did what was asked.
    Done = 0,
    /// What was asked for is not there: a key, a keyspace.
    NotFound = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// Something failed that has no code of its own.
    Failed = 3,
    /// The input has rows that cannot be imported.
    BadRows = 4,
    /// The store is damaged.
    Damaged = 5,
    /// The store is open in another process.
    Busy = 6,
    /// The disk is full.
    Full = 7,
    /// It was stopped by Ctrl-C or a signal.
    Interrupted = 130,
}

/// The same for `--help`.
pub(crate) const TABLE: &str = "\
Exit codes:
    0  done
    1  not found: no such key, keyspace or store
    2  the command line is wrong
    3  failed; the message says why and what to do
    4  rows of the input cannot be imported
    5  the store is damaged
    6  the store is open in another process
    7  the disk is full
  130  stopped by Ctrl-C or a signal; nothing is lost";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// A failure whose code is not to be guessed from its cause.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

/// An error with its exit code.
pub(crate) fn failure(exit: Exit, text: impl Into<String>) -> anyhow::Error {
    let text = text.into();
    anyhow::Error::new(Failure { exit, text })
}

/// Says what went wrong, once, and which code that is.
pub(crate) fn report(error: &anyhow::Error) -> Exit {
    let exit = classify(error);
    if exit != Exit::Done {
        screen::complain(&format!("{error:#}"));
    }
    exit
}

/// Whether the extent map alone is damaged, without which a store can be read.
pub(crate) fn is_of_map(error: &anyhow::Error) -> bool {
    use alluvium_storage::{Error as Storage, Structure};
    let error = error.chain().find_map(|cause| cause.downcast_ref::<Error>());
    matches!(
        error,
        Some(Error::Storage(Storage::Corrupt { place, .. })) if place.structure == Structure::ExtentMap
    )
}

pub(crate) fn classify(error: &anyhow::Error) -> Exit {
    for cause in error.chain() {
        if let Some(failure) = cause.downcast_ref::<Failure>() {
            return failure.exit;
        }
        if let Some(error) = cause.downcast_ref::<Error>() {
            return of_store(error);
        }
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            match error.kind() {
                io::ErrorKind::BrokenPipe => return Exit::Done,
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => return Exit::Full,
                _ => {}
            }
        }
    }
    Exit::Failed
}

fn of_store(error: &Error) -> Exit {
    use alluvium_device::Error as Device;
    use alluvium_storage::Error as Storage;
    match error {
        error if error.is_full() => Exit::Full,
        Error::BadBackup { .. } | Error::BadCopy { .. } => Exit::Damaged,
        Error::NoSuchKeyspace { .. } | Error::NoSuchSnapshot { .. } => Exit::NotFound,
        Error::Storage(Storage::Device(Device::Locked { .. })) => Exit::Busy,
        Error::Storage(Storage::Device(Device::NotFound { .. }) | Storage::NotAStore { .. }) => {
            Exit::NotFound
        }
        Error::Storage(
            Storage::Corrupt { .. }
            | Storage::OlderGeneration { .. }
            | Storage::Device(Device::PastEnd { .. }),
        ) => Exit::Damaged,
        _ => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_failure_keeps_its_code_under_what_is_said_about_it() {
        let bad = Err::<(), _>(failure(Exit::BadRows, "row 7")).context("importing a.csv");
        assert_eq!(classify(&bad.unwrap_err()), Exit::BadRows);
        let missing = anyhow::Error::new(Error::NoSuchKeyspace { name: "a".into() });
        assert_eq!(classify(&missing), Exit::NotFound);
        assert_eq!(classify(&anyhow::anyhow!("what is this")), Exit::Failed);
        let pipe = anyhow::Error::new(io::Error::from(io::ErrorKind::BrokenPipe)).context("printing");
        assert_eq!(classify(&pipe), Exit::Done);
    }
}
