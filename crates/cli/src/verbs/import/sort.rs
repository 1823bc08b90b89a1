//! `import --sort`: options for sorting rows before they are written.

use crate::formats::FileFormat;
use crate::import::ImportSorter;
use crate::terminal::exit::{CommandExit, failure};
use crate::values::sizes::{self, ByteSize};
use anyhow::Result;
use clap::Args;
use std::path::{Path, PathBuf};

/// Default of --sort-memory, in bytes.
const MEMORY: u64 = 256 << 20;

/// How rows are sorted.
#[derive(Args, Debug)]
pub struct ImportSortArgs {
    /// Sort the rows by their keys first, and load them in that order: the fastest way for a large
    /// input in any order. Of rows with one key the last one counts.
    #[arg(long, conflicts_with_all = ["unique", "redis_db"])]
    pub sort: bool,
    /// Memory for sorting, beside that of the store [default: 256 MiB].
    #[arg(long, value_name = "SIZE", requires = "sort", value_parser = sizes::parse)]
    pub sort_memory: Option<ByteSize>,
    /// The directory of temporary files of --sort [default: the one that the store is in].
    #[arg(long, value_name = "DIRECTORY", requires = "sort")]
    pub temporary: Option<PathBuf>,
}

impl ImportSortArgs {
    /// Prepares the sort, if requested, for an input of `total` bytes.
    pub(super) fn begin(
        &self,
        format: FileFormat,
        store: &Path,
        total: Option<u64>,
    ) -> Result<Option<ImportSorter>> {
        if !self.sort {
            return Ok(None);
        }
        if format == FileFormat::Redis {
            let text = "--sort means nothing for the format redis: its commands are executed in their order";
            return Err(failure(CommandExit::Usage, text));
        }
        let beside = store.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = self.temporary.as_deref().or(beside).unwrap_or(Path::new("."));
        let memory = self.sort_memory.map_or(MEMORY, |memory| memory.0);
        ImportSorter::new(directory, memory, total).map(Some)
    }
}
