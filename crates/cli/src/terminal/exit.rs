//! The exit codes of the program, and the output of error messages.

use super::screen;
use alluvium::{Error, ErrorKind};
use std::fmt;
use std::io;
use std::process::ExitCode;

/// The exit code of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CommandExit {
    Done = 0,
    /// The requested key or keyspace does not exist.
    NotFound = 1,
    /// The command line is invalid.
    Usage = 2,
    /// A failure that none of the other exit codes describes.
    Failed = 3,
    /// The input of an import contains rows that cannot be imported.
    BadRows = 4,
    Damaged = 5,
    /// Another process has the store open.
    Busy = 6,
    /// The devices that contain the store are full.
    Full = 7,
    /// The transaction conflicts with another one.
    Conflict = 8,
    /// The script of a transaction ended without `commit`.
    NotCommitted = 9,
    /// The command was stopped by Ctrl-C or another signal.
    Interrupted = 130,
}

/// The list of exit codes that `--help` displays.
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
    8  conflict with another transaction; run the command again
    9  a script ended without `commit`; its last transaction was rolled back
  130  stopped by Ctrl-C or a signal; nothing is lost";

impl From<CommandExit> for ExitCode {
    fn from(exit: CommandExit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// An error that determines the exit code of the program.
#[derive(Debug)]
pub(crate) struct ExitError {
    pub(crate) exit: CommandExit,
    pub(crate) text: String,
}

impl fmt::Display for ExitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ExitError {}

/// Creates an error with the given exit code and message.
#[must_use]
pub fn failure(exit: CommandExit, text: impl Into<String>) -> anyhow::Error {
    let text = text.into();
    anyhow::Error::new(ExitError { exit, text })
}

/// Prints an error message and returns the exit code of the error.
pub(crate) fn report(error: &anyhow::Error) -> CommandExit {
    let exit = classify(error);
    if exit != CommandExit::Done {
        screen::complain(&sentence(error));
    }
    exit
}

/// Formats an error and its causes as one text. A cause is omitted if the text already contains it.
pub(crate) fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let said = cause.downcast_ref::<Error>().and_then(in_flags);
        let cause = said.unwrap_or_else(|| cause.to_string());
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// If a library error's message refers to the API, returns a message that refers to the command
/// line instead.
fn in_flags(error: &Error) -> Option<String> {
    Some(match error {
        Error::NoSuchKeyspace { name } => {
            format!("there is no keyspace {name:?}: `alluvium keyspaces list` shows all keyspaces")
        }
        Error::NotRegistered {
            keyspace, what, name, ..
        } => format!(
            "the keyspace {keyspace:?} uses the {what} {name:?}, which only the program that created it provides: open the store with that program"
        ),
        Error::ReadOnly => "the store was opened for reading only".to_owned(),
        Error::BadOption {
            option: "memory",
            why,
        } => format!("--memory: {why}"),
        Error::BadOption {
            option: "measured device",
            why,
        } => format!("--measured-device: {why}"),
        Error::BadBackup { from, findings } => format!(
            "{from} is damaged, so nothing was restored: use another backup, or copy this one and try `alluvium --db COPY repair`; \
             {} findings, the first: {}",
            findings.len(),
            findings.first().map_or("", String::as_str)
        ),
        _ => return None,
    })
}

/// Returns the reason if the error means that the store's location is not writable.
pub(crate) fn cannot_write(error: &anyhow::Error) -> Option<&'static str> {
    let error = error.chain().find_map(|cause| cause.downcast_ref::<Error>())?;
    match (error, error.kind()) {
        (Error::Storage(_), ErrorKind::PermissionDenied) => Some("its files are not writable"),
        (Error::Storage(_), ErrorKind::ReadOnly) => Some("its file system is mounted read-only"),
        (Error::Storage(storage), _) if storage.is_extent_map_damaged() => {
            Some("its extent map is damaged; `alluvium repair` rebuilds it")
        }
        _ if error.is_full() => Some("the disk is full"),
        _ => None,
    }
}

pub(crate) fn classify(error: &anyhow::Error) -> CommandExit {
    for cause in error.chain() {
        if let Some(failure) = cause.downcast_ref::<ExitError>() {
            return failure.exit;
        }
        if let Some(error) = cause.downcast_ref::<Error>() {
            return of_store(error);
        }
        if let Some(error) = cause.downcast_ref::<alluvium_files::Error>() {
            return of_files(error);
        }
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            match error.kind() {
                io::ErrorKind::BrokenPipe => return CommandExit::Done,
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => return CommandExit::Full,
                _ => {}
            }
        }
    }
    CommandExit::Failed
}

fn of_files(error: &alluvium_files::Error) -> CommandExit {
    use alluvium_files::ErrorKind;
    match error.kind() {
        ErrorKind::NotFound => CommandExit::NotFound,
        ErrorKind::NoSpace => CommandExit::Full,
        ErrorKind::Damaged => CommandExit::Damaged,
        ErrorKind::Conflict => CommandExit::Conflict,
        _ => CommandExit::Failed,
    }
}

fn of_store(error: &Error) -> CommandExit {
    match error.kind() {
        _ if error.is_full() => CommandExit::Full,
        ErrorKind::Corrupt => CommandExit::Damaged,
        ErrorKind::NotFound | ErrorKind::NotAStore => CommandExit::NotFound,
        ErrorKind::Locked => CommandExit::Busy,
        ErrorKind::Conflict | ErrorKind::Deadlock => CommandExit::Conflict,
        _ => CommandExit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_failure_keeps_its_code_under_what_is_said_about_it() {
        let bad = Err::<(), _>(failure(CommandExit::BadRows, "row 7")).context("importing a.csv");
        assert_eq!(classify(&bad.unwrap_err()), CommandExit::BadRows);
        let missing = anyhow::Error::new(Error::NoSuchKeyspace { name: "a".into() });
        assert_eq!(classify(&missing), CommandExit::NotFound);
        assert_eq!(classify(&anyhow::anyhow!("what is this")), CommandExit::Failed);
        let pipe = anyhow::Error::new(io::Error::from(io::ErrorKind::BrokenPipe)).context("printing");
        assert_eq!(classify(&pipe), CommandExit::Done);
    }

    #[test]
    fn the_library_is_put_into_the_words_of_the_command_line() {
        for error in [
            Error::NoSuchKeyspace { name: "a".into() },
            Error::ReadOnly,
            Error::NotRegistered {
                keyspace: "a".into(),
                what: "merge operator",
                name: "b".into(),
                known: "add".into(),
            },
        ] {
            let said = sentence(&anyhow::Error::new(error).context("opening"));
            assert!(!said.contains("::") && !said.contains("Options"), "{said}");
        }
    }

    #[test]
    fn causes_are_said_once() {
        let error = anyhow::anyhow!("the disk is gone").context("reading a");
        let error = error.context("opening b: reading a: the disk is gone");
        assert_eq!(sentence(&error), "opening b: reading a: the disk is gone");
        let error = anyhow::anyhow!("the disk is gone").context("reading a");
        assert_eq!(sentence(&error), "reading a: the disk is gone");
    }
}
