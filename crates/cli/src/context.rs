//! The context in which every verb runs: the location of the store, and the output format.

use crate::store::StoreHandle;
use crate::terminal::exit::{self, CommandExit, failure};
use crate::terminal::screen;
use crate::values::sizes;
use crate::values::tier::TierDirectory;
use alluvium::{Db, MIN_MEMORY, OpenMode, Options, TierOptions};
use alluvium_server::control::ManagementClient;
use anyhow::{Context as _, Error, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The values of the options that all verbs share.
#[derive(Clone, Debug)]
pub(crate) struct CommandContext {
    pub(crate) path: PathBuf,
    pub(crate) form: OutputFormat,
    pub(crate) memory: Option<u64>,
    /// Whether to open the store with the measured costs of its device instead of the default ones.
    pub(crate) takes_measured: bool,
    /// The additional directories of the store, one per tier.
    pub(crate) tiers: Vec<TierDirectory>,
}

/// Whether the output is text for people or JSON for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    Text,
    Json,
}

impl CommandContext {
    pub(crate) fn is_json(&self) -> bool {
        self.form == OutputFormat::Json
    }

    /// Returns the options for opening the store.
    pub(crate) fn options(&self) -> Options {
        let mut options = match self.takes_measured {
            true => Options::new().measured_device(),
            false => Options::new(),
        };
        for TierDirectory { path, max_bytes } in &self.tiers {
            let limited = max_bytes.map(|bytes| TierOptions::new().max_bytes(bytes));
            options = options.tier(path, limited.unwrap_or_default());
        }
        match self.memory {
            Some(bytes) => options.memory(bytes),
            None => options,
        }
    }

    fn what(&self) -> String {
        format!("opening the store in {}", self.path.display())
    }

    /// Returns an error if the store's path exists but is not a directory, or if the memory limit
    /// is too small.
    pub(crate) fn check(&self) -> Result<()> {
        if self.path.exists() && !self.path.is_dir() {
            let text = format!(
                "{} is a file: --db and ALLUVIUM_DB name the directory of a store",
                self.path.display()
            );
            return Err(failure(CommandExit::Usage, text));
        }
        if let Some(memory) = self.memory.filter(|&memory| memory < MIN_MEMORY) {
            let text = format!(
                "--memory {}: a store needs {} or more",
                sizes::human(memory),
                sizes::human(MIN_MEMORY)
            );
            return Err(failure(CommandExit::Usage, text));
        }
        Ok(())
    }

    /// Opens an existing store. If another process has it open, connects to that process.
    pub(crate) fn open(&self) -> Result<StoreHandle> {
        self.check_store()?;
        self.or_served(|| self.open_own())
    }

    /// Opens an existing store for reading. If another process has it open, connects to that
    /// process. If this process may not write to the store, opens it read-only and prints a note.
    pub(crate) fn open_to_read(&self) -> Result<StoreHandle> {
        self.check_store()?;
        self.or_served(|| self.open_own_to_read())
    }

    /// Opens a store, or creates it if it does not exist. If another process has it open, connects
    /// to that process.
    pub(crate) fn open_or_create(&self) -> Result<StoreHandle> {
        self.check()?;
        self.or_served(|| self.options().open(&self.path).with_context(|| self.what()))
    }

    fn open_own(&self) -> Result<Db> {
        self.options()
            .mode(OpenMode::Existing)
            .open(&self.path)
            .with_context(|| self.what())
    }

    fn open_own_to_read(&self) -> Result<Db> {
        let error = match self.open_own() {
            Ok(db) => return Ok(db),
            Err(error) => error,
        };
        let Some(why) = exit::cannot_write(&error) else {
            return Err(error);
        };
        let db = match self.options().mode(OpenMode::ReadOnly).open(&self.path) {
            Ok(db) => db,
            Err(other) => {
                let other = Error::new(other).context(self.what());
                // Report the more specific error of opening for writing, unless the store is busy:
                // then a server may be able to answer.
                let is_busy = exit::classify(&other) == CommandExit::Busy;
                return Err(if is_busy { other } else { error });
            }
        };
        screen::note(&format!(
            "{} is opened for reading only: {why}",
            self.path.display()
        ));
        Ok(db)
    }

    /// Opens the store. If that fails, tries to connect to the process that has it open.
    fn or_served(&self, open: impl Fn() -> Result<Db>) -> Result<StoreHandle> {
        let began = Instant::now();
        loop {
            let error = match open() {
                Ok(db) => return Ok(StoreHandle::own(db)),
                Err(error) => error,
            };
            // A process that already has the store open may be able to serve it even if opening
            // fails for another reason, such as a missing directory.
            let refused = match ManagementClient::connect(&self.path) {
                Ok(client) => return Ok(StoreHandle::served(client)),
                Err(refused) => refused,
            };
            if exit::classify(&error) != CommandExit::Busy {
                return Err(error);
            }
            if !is_alone(&refused) || began.elapsed() >= RELEASE_TIME {
                return Err(busy(error, &refused));
            }
            std::thread::sleep(RELEASE_PAUSE);
        }
    }

    fn check_store(&self) -> Result<()> {
        self.check()?;
        if !self.path.exists() {
            let text = format!(
                "there is no store in {}: give the directory of a store with --db or ALLUVIUM_DB, or create a store with `alluvium put`",
                self.path.display()
            );
            return Err(failure(CommandExit::NotFound, text));
        }
        Ok(())
    }
}

/// How long a command waits for the lock of a store that no process answers for. The kernel frees
/// the lock of a killed process a moment after the process has ended.
const RELEASE_TIME: Duration = Duration::from_secs(1);
const RELEASE_PAUSE: Duration = Duration::from_millis(20);

/// Returns whether no process listens at the management socket.
fn is_alone(refused: &io::Error) -> bool {
    matches!(
        refused.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

/// Returns the error for a store that another process has open without serving its management
/// socket.
fn busy(error: Error, refused: &io::Error) -> Error {
    let why = match refused.kind() {
        io::ErrorKind::PermissionDenied => {
            "a process of another user has the store open and accepts commands only from that user and root: run the command as that user".to_owned()
        }
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            "another process has the store open and does not accept commands: stop that process, or run `alluvium serve`, which accepts them".to_owned()
        }
        _ => format!("another process has the store open, but does not answer ({refused}): try again, or stop that process"),
    };
    error.context(why)
}

/// Returns the error for an operation that is impossible while another process has the store open.
pub(crate) fn not_while_open(error: Error, verb: &str, way: &str) -> Error {
    if exit::classify(&error) != CommandExit::Busy {
        return error;
    }
    error.context(format!("{verb} needs exclusive access to the store: {way}"))
}

/// Returns an error if the target directory is not empty.
pub(crate) fn vacant(directory: &Path) -> Result<()> {
    let Ok(mut entries) = directory.read_dir() else {
        // If the directory cannot be read, writing to it later reports the error.
        return Ok(());
    };
    if entries.next().is_none() {
        return Ok(());
    }
    let what = match directory.join("superblock").exists() {
        true => "holds a store already",
        false => "is not empty",
    };
    let text = format!(
        "{} {what}: name an empty directory for the copy",
        directory.display()
    );
    Err(failure(CommandExit::Failed, text))
}
