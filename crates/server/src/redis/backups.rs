//! Manages the backups that clients request with BGSAVE and SAVE, the backup directory, and the
//! outcome of the last backup.
//!
//! A new backup is written under a temporary name next to the previous one, and replaces it only
//! after the new backup has been read back and verified. Once the first backup has succeeded, a
//! complete backup therefore exists at all times.

use crate::error::CommandError;
use crate::shared::StoreContext;
use alluvium_device::file::{FileDirectory, remove_directory, replace_directory};
use parking_lot::{Mutex, RwLock};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Name of the complete backup in the backup directory.
pub(crate) const NAME: &str = "alluvium-backup";
/// Temporary name of a backup that is still being written.
const NEW: &str = "alluvium-backup.new";

/// The outcome of a backup: complete, or failed with an error message.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BackupOutcome {
    Whole,
    Failed(String),
}

/// Ensures that only one backup runs at a time, and stores the outcome of the last one.
#[derive(Debug, Default)]
pub(crate) struct BackupManager {
    directory: RwLock<Option<PathBuf>>,
    is_running: AtomicBool,
    began: Mutex<Option<Instant>>,
    last: Mutex<Option<(BackupOutcome, Duration)>>,
    /// Commit number at which the last complete backup was taken.
    last_commit: AtomicU64,
    made: AtomicU64,
}

/// Permission to make a backup. At most one permit exists at a time.
pub(crate) struct BackupPermit {
    shared: Arc<StoreContext>,
    directory: PathBuf,
}

impl Drop for BackupPermit {
    fn drop(&mut self) {
        *self.shared.backups.began.lock() = None;
        self.shared.backups.is_running.store(false, Ordering::Release);
    }
}

impl BackupManager {
    /// Creates a manager without any backup. INFO counts the changes since the commit `commit`.
    pub(crate) fn since(commit: u64) -> BackupManager {
        BackupManager {
            last_commit: AtomicU64::new(commit),
            ..BackupManager::default()
        }
    }

    pub(crate) fn directory(&self) -> Option<PathBuf> {
        self.directory.read().clone()
    }

    /// Sets the backup directory. An empty path disables backups.
    ///
    /// # Errors
    /// An error message for the client if the directory cannot be used.
    pub(crate) fn set_directory(&self, path: &Path) -> Result<(), String> {
        if path.as_os_str().is_empty() {
            *self.directory.write() = None;
            return Ok(());
        }
        if !path.is_absolute() {
            return Err(format!(
                "{} is a relative path; give an absolute path",
                path.display()
            ));
        }
        FileDirectory::open(path)
            .map_err(|error| format!("cannot open the directory for backups: {error}"))?;
        *self.directory.write() = Some(path.to_owned());
        Ok(())
    }

    /// Returns a permit to make a backup. Fails if a backup is already in progress or no backup
    /// directory is set.
    pub(crate) fn begin(shared: &Arc<StoreContext>) -> Result<BackupPermit, CommandError> {
        let directory = shared.backups.directory().ok_or(CommandError::say(
            "ERR no backup directory is set; set one with CONFIG SET dir PATH, or start the server with \
             --backup-dir PATH. Acknowledged writes are kept without a backup",
        ))?;
        if shared.backups.is_running.swap(true, Ordering::AcqRel) {
            return Err(CommandError::say("ERR Background save already in progress"));
        }
        *shared.backups.began.lock() = Some(Instant::now());
        Ok(BackupPermit {
            shared: Arc::clone(shared),
            directory,
        })
    }

    /// Returns the names and values of INFO's backup fields. `sequence` is the current commit
    /// number.
    pub(crate) fn lines(&self, sequence: u64) -> Vec<(&'static str, String)> {
        let seconds = |took: Option<Duration>| took.map_or(-1, |took| took.as_secs() as i64).to_string();
        let last = self.last.lock().clone();
        let running = self.began.lock().map(|began| began.elapsed());
        let changes = sequence.saturating_sub(self.last_commit.load(Ordering::Relaxed));
        let mut lines = vec![
            ("rdb_changes_since_last_save", changes.to_string()),
            (
                "rdb_bgsave_in_progress",
                u8::from(self.is_running.load(Ordering::Acquire)).to_string(),
            ),
            (
                "rdb_last_bgsave_status",
                match &last {
                    Some((BackupOutcome::Failed(_), _)) => "err".to_owned(),
                    _ => "ok".to_owned(),
                },
            ),
            (
                "rdb_last_bgsave_time_sec",
                seconds(last.as_ref().map(|(_, took)| *took)),
            ),
            ("rdb_current_bgsave_time_sec", seconds(running)),
            ("rdb_saves", self.made.load(Ordering::Relaxed).to_string()),
        ];
        if let Some((BackupOutcome::Failed(why), _)) = last {
            lines.push(("alluvium_last_backup_error", why.replace(['\r', '\n'], " ")));
        }
        lines
    }
}

impl BackupPermit {
    /// Makes the backup and stores its outcome. A failed backup leaves the previous one in place.
    pub(crate) fn run(self) -> Result<(), CommandError> {
        let began = Instant::now();
        let made = self.make();
        let backups = &self.shared.backups;
        let outcome = match &made {
            Ok(last_commit) => {
                backups.last_commit.store(*last_commit, Ordering::Relaxed);
                backups.made.fetch_add(1, Ordering::Relaxed);
                let now = self.shared.store.now_ms() / 1000;
                self.shared.saved.store(now, Ordering::Relaxed);
                BackupOutcome::Whole
            }
            Err(error) => {
                tracing::error!(%error, directory = %self.directory.display(), "a backup failed; the previous backup is kept");
                BackupOutcome::Failed(error.to_string())
            }
        };
        *backups.last.lock() = Some((outcome, began.elapsed()));
        made.map(drop).map_err(|error| {
            CommandError::Refused(Cow::Owned(format!(
                "ERR the backup failed, the previous backup is kept: {error}"
            )))
        })
    }

    fn make(&self) -> alluvium::Result<u64> {
        let (new, name) = (self.directory.join(NEW), self.directory.join(NAME));
        // Remove an incomplete backup that an earlier run may have left.
        remove_directory(&new)?;
        let made = self.shared.store.db.checkpoint_to(&new);
        let placed = made.and_then(|last_commit| {
            replace_directory(&new, &name)?;
            Ok(last_commit)
        });
        if placed.is_err()
            && let Err(error) = remove_directory(&new)
        {
            tracing::warn!(%error, "cannot remove the files of a failed backup; the next backup removes them");
        }
        placed
    }
}
