//! Transactions over a directory of any file system (`tx --over`).
//!
//! The changes of the command are kept in a file system of the store. Once they are durable there,
//! they are applied to the directory. An apply that was interrupted is finished by the next command
//! with `--over`, or by `tx --recover`.

use crate::context::CommandContext;
use crate::store::StoreHandle;
use crate::store::files::OpenFiles;
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen;
use alluvium_files::{
    AccessTimes, ErrorKind, FilePaths as _, FileSystem, Inode, OrdinaryDirectory, Overlay, OverlayOptions,
    apply, discard,
};
use alluvium_mount::service::FilesView;
use alluvium_mount::{ViewOptions, ViewOutcome, run_in_view};
use anyhow::{Context as _, Result};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The file system in which changes wait until they are applied. It has a directory for each
/// transaction, with these two entries.
const OVERLAYS: &str = "overlays";
const DIRECTORY: &[u8] = b"directory";
const CHANGES: &[u8] = b"changes";

/// A transaction over a directory.
pub(super) struct DirectoryTransaction {
    directory: PathBuf,
    lower: Arc<OrdinaryDirectory>,
    upper: OpenFiles,
    overlay: Arc<Overlay>,
    name: Vec<u8>,
}

impl DirectoryTransaction {
    /// Begins a transaction over a directory, after interrupted ones have been finished.
    pub(super) fn begin(
        context: &CommandContext,
        store: &StoreHandle,
        directory: &Path,
    ) -> Result<DirectoryTransaction> {
        let directory = checked(context, directory)?;
        recover(context, store)?;
        let lower = Arc::new(OrdinaryDirectory::open(&directory, AccessTimes::Keep)?);
        let upper = OpenFiles::open(context, store, OVERLAYS, FilesView::Transaction)?;
        let name = unique_name();
        let path = [b"/", name.as_bytes(), b"/"].concat();
        let changes = upper
            .files
            .create_directories(&[&path[..], CHANGES].concat(), 0o700)?;
        let named = directory.as_os_str().as_bytes();
        upper
            .files
            .write_file(&[&path[..], DIRECTORY].concat(), named, 0o600)?;
        let options = OverlayOptions {
            name: name.clone(),
            nesting: 0,
        };
        let shown = Arc::clone(&lower) as Arc<dyn FileSystem>;
        let overlay = Overlay::create(shown, Arc::clone(&upper.files), changes, &options)?;
        Ok(DirectoryTransaction {
            directory,
            lower,
            upper,
            overlay: Arc::new(overlay),
            name: name.into_bytes(),
        })
    }

    /// Returns the directory.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Runs a command that sees the changes in the directory.
    pub(super) fn run(&self, command: Command, options: &ViewOptions) -> Result<ViewOutcome> {
        let files = Arc::clone(&self.overlay) as Arc<dyn FileSystem>;
        Ok(run_in_view(files, &self.directory, command, options)?)
    }

    /// Makes the changes durable in the store, and applies them to the directory.
    pub(super) fn commit(self, context: &CommandContext, store: &StoreHandle) -> Result<()> {
        let _alone = self.lower.lock()?;
        if let Err(error) = self.overlay.commit() {
            self.upper.rollback()?;
            return Err(error.into());
        }
        drop(self.overlay);
        self.upper.commit()?;
        drop(self.upper);
        let newest = OpenFiles::open(context, store, OVERLAYS, FilesView::Newest)?;
        finish(&newest, &*self.lower, &self.name).with_context(|| {
            format!(
                "the changes are committed, and applying them to {} has failed: run `alluvium tx --recover` once the cause is gone",
                self.directory.display()
            )
        })
    }

    pub(super) fn rollback(self) -> Result<()> {
        self.upper.rollback()
    }
}

/// Returns the directory without symbolic links, unless it and the store lie in each other.
fn checked(context: &CommandContext, directory: &Path) -> Result<PathBuf> {
    let what = || format!("opening {}", directory.display());
    let found = directory.canonicalize().with_context(what)?;
    let store = context
        .path
        .canonicalize()
        .unwrap_or_else(|_| context.path.clone());
    if store.starts_with(&found) || found.starts_with(&store) {
        let text = format!(
            "the store {} lies in {}, or the directory in the store: keep the store elsewhere, with --db",
            store.display(),
            found.display()
        );
        return Err(failure(CommandExit::Usage, text));
    }
    Ok(found)
}

/// Returns a name that no other transaction of this machine has.
fn unique_name() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}", now.as_nanos(), std::process::id())
}

/// Finishes the transactions over directories that were interrupted while they were applied.
/// Returns their directories.
pub(super) fn recover(context: &CommandContext, store: &StoreHandle) -> Result<Vec<PathBuf>> {
    let newest = match OpenFiles::open(context, store, OVERLAYS, FilesView::Newest) {
        Ok(newest) => newest,
        Err(error) => {
            let is_missing = error
                .downcast_ref::<alluvium_files::Error>()
                .is_some_and(|error| error.kind() == ErrorKind::NotFound);
            return if is_missing { Ok(Vec::new()) } else { Err(error) };
        }
    };
    let mut finished = Vec::new();
    let mut after: Option<Vec<u8>> = None;
    loop {
        let page = newest.files.read_directory(Inode::ROOT, after.as_deref(), 100)?;
        let Some(last) = page.last() else {
            return Ok(finished);
        };
        after = Some(last.name.clone());
        for entry in page {
            let path = [b"/", &entry.name[..], b"/", DIRECTORY].concat();
            let directory = match newest.files.read_file(&path) {
                Ok(bytes) => PathBuf::from(OsStr::from_bytes(&bytes)),
                // The process that applies it has just ended.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error.into()),
            };
            let lower = OrdinaryDirectory::open(&directory, AccessTimes::Keep).with_context(|| {
                format!(
                    "an earlier transaction over {} was interrupted, and its changes wait to be applied there",
                    directory.display()
                )
            })?;
            let _alone = lower.lock()?;
            finish(&newest, &lower, &entry.name)?;
            screen::note(&format!(
                "finished an interrupted transaction over {}",
                directory.display()
            ));
            finished.push(directory);
        }
    }
}

/// Applies the changes of a committed transaction to its directory, and forgets them.
fn finish(newest: &OpenFiles, lower: &dyn FileSystem, name: &[u8]) -> Result<()> {
    let path = [b"/", name].concat();
    let changes = match newest.files.resolve(&[&path[..], b"/", CHANGES].concat()) {
        Ok(changes) => changes,
        // Another process has finished it while this one waited for the lock.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    apply(lower, Arc::clone(&newest.files), changes)?;
    discard(&newest.files, changes)?;
    newest.files.remove_all(&path)?;
    Ok(())
}
