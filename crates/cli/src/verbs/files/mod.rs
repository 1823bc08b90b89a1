//! `files`: works on the file systems of a store without a mount.
//!
//! *Scope*: the subcommands, their options and their output.
//!
//! *Must not depend on*: how files are stored, and which process has the store open.

mod create;
mod history;
mod list;
mod manage;
mod stream;
mod transfer;

use crate::context::CommandContext;
use crate::store::files::OpenFiles;
use crate::terminal::confirm::Consent;
use crate::terminal::exit::CommandExit;
use alluvium_mount::service::FilesView;
use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
pub(crate) use create::CreateFilesCommand;
pub(crate) use list::date;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  alluvium files import ~/letters /letters   # all of it, or nothing
  alluvium files ls -l /letters
  alluvium files cat /letters/november
  alluvium files snapshot create monday
  alluvium files export / /tmp/monday --snapshot monday
  alluvium files history /letters/november
  alluvium files send monday | ssh backup alluvium --db copies files receive
  alluvium files send tuesday changes --since monday
  alluvium files check

A path begins at the root of the file system. Commands that change files are transactions: they take effect as a whole or \
not at all. `alluvium mount` shows the files to all programs, and `alluvium tx` runs a command in a transaction.";

/// List, read, copy and check the files of a store.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct FilesCommand {
    /// The file system. It is created when it is used for the first time.
    #[arg(long, global = true, default_value = "main", value_name = "NAME")]
    pub files: String,
    /// Read this snapshot instead of the newest state.
    #[arg(long, global = true, value_name = "NAME")]
    pub snapshot: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub action: FilesAction,
}

/// A path in a file system of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorePath(pub Vec<u8>);

impl From<OsString> for StorePath {
    fn from(text: OsString) -> StorePath {
        StorePath(text.as_os_str().as_bytes().to_vec())
    }
}

/// How contents of files are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileCompression {
    /// As they are.
    None,
    /// Compressed.
    Zstd,
}

/// The subcommands of `files`.
#[derive(Debug, Subcommand)]
pub enum FilesAction {
    /// List the entries of a directory, or a file.
    Ls {
        /// Print mode, links, owner, group, size and time of each entry.
        #[arg(short, long)]
        long: bool,
        #[arg(default_value = "/")]
        path: StorePath,
    },
    /// Write the contents of files to standard output.
    Cat {
        #[arg(required = true)]
        paths: Vec<StorePath>,
    },
    /// Write a file from a file of this machine, or from standard input.
    Put {
        /// A file of this machine; `-` for standard input.
        source: PathBuf,
        path: StorePath,
    },
    /// Write a file of the store to a file of this machine.
    Get { path: StorePath, target: PathBuf },
    /// Create a directory, and the directories above it.
    Mkdir { path: StorePath },
    /// Copy a file, or a directory with everything in it.
    Cp {
        /// Copy directories.
        #[arg(short, long)]
        recursive: bool,
        from: StorePath,
        to: StorePath,
    },
    /// Rename a file or a directory.
    Mv { from: StorePath, to: StorePath },
    /// Remove files.
    Rm {
        /// Remove directories with everything in them.
        #[arg(short, long)]
        recursive: bool,
        #[arg(required = true)]
        paths: Vec<StorePath>,
    },
    /// Copy a directory of this machine into the store, in one transaction.
    Import {
        directory: PathBuf,
        /// The directory that its entries are copied to, which is created if it does not exist.
        #[arg(default_value = "/")]
        path: StorePath,
    },
    /// Copy a directory of the store to a directory of this machine, which must be empty or new.
    Export { path: StorePath, directory: PathBuf },
    /// Compress the contents of a file, or of a directory with everything in it, also of what is
    /// created in it later. In a mount, the extended attribute `user.alluvium.compression` does the
    /// same for one file or directory.
    Compress {
        path: StorePath,
        /// How contents are stored.
        #[arg(value_enum, default_value_t = FileCompression::Zstd)]
        compression: FileCompression,
    },
    /// Show the space that files use.
    Du {
        #[arg(default_value = "/")]
        path: StorePath,
    },
    /// List the versions of a file or directory that the snapshots and the newest state have, the
    /// newest first.
    History { path: StorePath },
    /// Verify that names, inodes, links and contents agree, in the files and in open transactions.
    Check,
    /// Create, list and remove snapshots.
    #[command(subcommand)]
    Snapshot(SnapshotAction),
    /// Write a snapshot as a stream, by which a copy in another store follows these files.
    Send {
        /// The snapshot.
        name: String,
        /// A file of this machine, which appears once it is complete; `-` for standard output.
        #[arg(default_value = "-")]
        target: PathBuf,
        /// Write only what has changed since this snapshot, which the copy has.
        #[arg(long, value_name = "NAME")]
        since: Option<String>,
    },
    /// Write a stream of `send` into a copy, all of it or nothing. A whole snapshot creates the
    /// copy.
    Receive {
        /// A file of this machine; `-` for standard input.
        #[arg(default_value = "-")]
        source: PathBuf,
    },
    /// Make a copy changeable. It receives no streams any more.
    Promote,
    /// Create a file system, and choose how it stores files. Without this command, the first use
    /// of a file system creates it with the defaults.
    Create(CreateFilesCommand),
    /// List the file systems of the store.
    List,
    /// Remove a file system with everything in it.
    Remove {
        #[command(flatten)]
        consent: Consent,
    },
}

/// The subcommands of `files snapshot`.
#[derive(Debug, Subcommand)]
pub enum SnapshotAction {
    /// Keep the present state under a name.
    Create { name: String },
    /// List the snapshots.
    List,
    /// Remove a snapshot.
    Remove { name: String },
}

impl FilesCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        match &self.action {
            FilesAction::Ls { long, path } => list::list(self, context, &path.0, *long),
            FilesAction::Cat { paths } => list::cat(self, context, paths),
            FilesAction::Du { path } => list::usage(self, context, &path.0),
            FilesAction::Put { source, path } => transfer::put(self, context, source, &path.0),
            FilesAction::Get { path, target } => transfer::get(self, context, &path.0, target),
            FilesAction::Import { directory, path } => transfer::import(self, context, directory, &path.0),
            FilesAction::Export { path, directory } => transfer::export(self, context, &path.0, directory),
            FilesAction::Cp { recursive, from, to } => {
                transfer::copy(self, context, (&from.0, &to.0), *recursive)
            }
            FilesAction::Mkdir { path } => manage::make_directory(self, context, &path.0),
            FilesAction::Mv { from, to } => manage::rename(self, context, &from.0, &to.0),
            FilesAction::Rm { recursive, paths } => manage::remove(self, context, paths, *recursive),
            FilesAction::Compress { path, compression } => {
                manage::compress(self, context, &path.0, *compression)
            }
            FilesAction::History { path } => history::print(self, context, &path.0),
            FilesAction::Check => manage::check(self, context),
            FilesAction::Snapshot(action) => manage::snapshot(self, context, action),
            FilesAction::Send { name, target, since } => {
                stream::send(self, context, (name, since.as_deref()), target)
            }
            FilesAction::Receive { source } => stream::receive(self, context, source),
            FilesAction::Promote => manage::promote(self, context),
            FilesAction::Create(create) => create.run(context, &self.files),
            FilesAction::List => manage::list(context),
            FilesAction::Remove { consent } => manage::remove_files(self, context, *consent),
        }
    }

    /// Runs `body` on the state that the command reads.
    fn reading(
        &self,
        context: &CommandContext,
        body: impl FnOnce(&OpenFiles) -> Result<CommandExit>,
    ) -> Result<CommandExit> {
        let store = context.open_to_read()?;
        let view = match &self.snapshot {
            Some(name) => FilesView::Snapshot(name.clone()),
            None => FilesView::Newest,
        };
        let files = OpenFiles::open(context, &store, &self.files, view)?;
        let exit = body(&files)?;
        drop(files);
        store.close()?;
        Ok(exit)
    }

    /// Runs `body` in a transaction, and commits it.
    fn changing(
        &self,
        context: &CommandContext,
        body: impl FnOnce(&OpenFiles) -> Result<()>,
    ) -> Result<CommandExit> {
        self.require_newest()?;
        let store = context.open_or_create()?;
        let files = OpenFiles::open(context, &store, &self.files, FilesView::Transaction)?;
        match body(&files) {
            Ok(()) => files.commit()?,
            Err(error) => {
                files.rollback()?;
                return Err(error);
            }
        }
        drop(files);
        store.close()?;
        Ok(CommandExit::Done)
    }

    /// Runs `body` on the file system itself.
    fn managing(
        &self,
        context: &CommandContext,
        body: impl FnOnce(&OpenFiles) -> Result<CommandExit>,
    ) -> Result<CommandExit> {
        self.require_newest()?;
        let store = context.open()?;
        let files = OpenFiles::open(context, &store, &self.files, FilesView::Newest)?;
        let exit = body(&files)?;
        drop(files);
        store.close()?;
        Ok(exit)
    }

    fn require_newest(&self) -> Result<()> {
        match &self.snapshot {
            None => Ok(()),
            Some(name) => Err(crate::terminal::exit::failure(
                CommandExit::Usage,
                format!("a snapshot cannot be changed: leave out --snapshot {name}"),
            )),
        }
    }
}
