//! `index`: builds, reads and updates an index over static data, which finds records by hash.
//!
//! *Scope*: the command line, and reading files of records.
//!
//! *Must not depend on*: how records are hashed and found; that is left to the crate `hashes`.

mod change;
mod read;
mod records;

use crate::context::CommandContext;
use crate::terminal::exit::{CommandExit, failure};
use alluvium_device::file::FileDirectory;
use alluvium_hashes::index::{Error as IndexError, StaticIndexKind as IndexKind};
use anyhow::{Context as _, Result};
use clap::{Args, Subcommand, ValueEnum};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  alluvium index build users.index users.bin --key-bytes 20 --value-bytes 44
  alluvium index get users.index --hex 3f2a…
  alluvium index update users.index --put new.bin --delete gone.bin
  alluvium index stat users.index --check
  alluvium index convert users.index --kind sparse

A file of records is a sequence of keys and values, all of the same lengths. An index is two files: the named one, and the \
records in the order of their hashes, under the same name with a number. A lookup reads one block. Of equal keys the last one counts. \
--memory limits the memory of `build` and `update` [default: 512M].";

/// Build, read and update an index of fixed-length records: one read per lookup, less than 3 bits
/// of memory per key.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct IndexCommand {
    #[command(subcommand)]
    pub what: IndexAction,
}

/// What to do with an index.
#[derive(Debug, Subcommand)]
pub enum IndexAction {
    /// Build an index of the records in files.
    Build(change::IndexBuildCommand),
    /// Print the values of keys.
    Get(read::IndexGetCommand),
    /// Add, replace and delete records.
    Update(change::IndexUpdateCommand),
    /// Show the size of an index, and check it.
    Stat(read::IndexStatCommand),
    /// Convert an index to another kind.
    Convert(change::IndexConvertCommand),
}

/// The kind of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IndexKindArg {
    /// Tries that lead to the record: 2.5 bits of memory per key.
    Dense,
    /// Tries that lead to the block of the record: less than 1 bit per key, if blocks have 16
    /// records or more.
    Sparse,
    /// The first hash of every block: 5 bits per block, and sometimes a second read.
    Blocks,
}

impl From<IndexKindArg> for IndexKind {
    fn from(kind: IndexKindArg) -> IndexKind {
        match kind {
            IndexKindArg::Dense => IndexKind::Dense,
            IndexKindArg::Sparse => IndexKind::Sparse,
            IndexKindArg::Blocks => IndexKind::Blocks,
        }
    }
}

impl IndexCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        match &self.what {
            IndexAction::Build(build) => build.run(context),
            IndexAction::Get(get) => get.run(context),
            IndexAction::Update(update) => update.run(context),
            IndexAction::Stat(stat) => stat.run(context),
            IndexAction::Convert(convert) => convert.run(context),
        }
    }
}

/// Returns the directory that contains an index, and the name of the index in it.
fn place(path: &Path) -> Result<(Arc<FileDirectory>, String)> {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(name) = name else {
        let text = format!("{} is not the name of an index: name a file", path.display());
        return Err(failure(CommandExit::Usage, text));
    };
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let directory = FileDirectory::open(&parent).with_context(|| format!("opening {}", parent.display()))?;
    Ok((Arc::new(directory), name.to_owned()))
}

/// Gives an error of an index an exit code.
fn told(error: IndexError) -> anyhow::Error {
    match error {
        error if error.is_full() => failure(CommandExit::Full, error.to_string()),
        error if error.is_damage() => failure(CommandExit::Damaged, error.to_string()),
        IndexError::Sort(error) => crate::jobs::sorting::told(error, "--memory"),
        IndexError::Device(error @ alluvium_device::Error::NotFound { .. }) => {
            let text = format!("{error}: create the index with `alluvium index build`");
            failure(CommandExit::NotFound, text)
        }
        IndexError::Device(alluvium_device::Error::Locked { .. }) => {
            let text = "the index is being changed by another process: wait for it, and try again";
            failure(CommandExit::Busy, text)
        }
        IndexError::BadOption { option, why } => {
            let flag = match option {
                "key_bytes" => "--key-bytes",
                "block_bytes" => "--block",
                "keys_per_bucket" => "--keys-per-trie",
                _ => "--memory",
            };
            failure(CommandExit::Usage, format!("{flag}: {why}"))
        }
        IndexError::Length { .. } => failure(CommandExit::Usage, error.to_string()),
        error => error.into(),
    }
}
