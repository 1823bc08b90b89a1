//! `import --sort`: the options for sorting rows before they are written.

use crate::formats::FileFormat;
use crate::import::ImportSorter;
use crate::terminal::exit::{CommandExit, failure};
use crate::values::sizes::{self, ByteSize};
use anyhow::Result;
use clap::Args;
use std::path::{Path, PathBuf};

/// Default value of --sort-memory in bytes.
const MEMORY: u64 = 256 << 20;

/// How rows are sorted.
#[derive(Args, Debug)]
pub struct ImportSortArgs {
    /// Sort the rows by key before loading them: the fastest way for a large unordered input. Of
    /// several rows with the same key, the last one counts.
    #[arg(long, conflicts_with_all = ["unique", "redis_db"])]
    pub sort: bool,
    /// The memory for sorting, in addition to that of the store [default: 256M].
    #[arg(long, value_name = "SIZE", requires = "sort", value_parser = sizes::parse)]
    pub sort_memory: Option<ByteSize>,
    /// The directory for the temporary files of --sort [default: the one that contains the store].
    #[arg(long, value_name = "DIRECTORY", requires = "sort")]
    pub temporary: Option<PathBuf>,
}

impl ImportSortArgs {
    /// Prepares the sort of an input of `total` bytes if the user has requested it.
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
            let text = "--sort does not apply to the format redis, whose commands are executed in order: leave it out";
            return Err(failure(CommandExit::Usage, text));
        }
        let beside = store.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = self.temporary.as_deref().or(beside).unwrap_or(Path::new("."));
        let memory = self.sort_memory.map_or(MEMORY, |memory| memory.0);
        ImportSorter::new(directory, memory, total).map(Some)
    }
}
