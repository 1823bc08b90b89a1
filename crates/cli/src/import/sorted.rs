//! Imports rows in any order: sorts them by key with limited memory, and then loads them in that
//! order. Of several rows with the same key, the last one counts.

use super::parser::{EXTRA, FULL, MAX_WRITTEN, RowBlock, RowParser};
use super::progress::ImportProgress;
use super::writer::BlockWriter;
use super::{ImportOutcome, behind};
use crate::formats::RowChange;
use crate::jobs::sorting::{SortJob, told};
use crate::jobs::stop;
use crate::terminal::exit::{CommandExit, failure};
use crate::values::sizes;
use alluvium_device::file::FileDirectory;
use alluvium_storage::sort::{
    EqualKeyPolicy, SortMerge, SortOptions, SortRecordLayout, SortSpool, SortedInput,
};
use anyhow::{Context as _, Error, Result};
use indicatif::ProgressBar;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::available_parallelism;

/// The command line option for the memory of a sort.
const FLAG: &str = "--sort-memory";
/// Prefix of the names of temporary files. Each file is unlinked as soon as it has been created.
const NAME: &str = "alluvium-import";
/// Maximum number of threads: one reads the input, and the other sorts and writes.
const MOST_THREADS: usize = 2;

/// The sort that precedes the loading of rows.
pub(crate) struct ImportSorter {
    spool: SortSpool,
    threads: usize,
    directory: PathBuf,
}

/// The outcome of reading the whole input.
#[derive(Default)]
struct InputReadResult {
    saved: ImportProgress,
    /// The error that occurred when rows were passed to the sort, if any.
    failed: Option<Error>,
}

impl ImportSorter {
    /// Prepares a sort with limited memory. `total` is the input's size in bytes, if known.
    /// Reserves space for temporary files unless all data fits in memory.
    pub(crate) fn new(directory: &Path, memory: u64, total: Option<u64>) -> Result<ImportSorter> {
        let threads = available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
        let memory = memory / threads as u64;
        let options = SortOptions {
            equal: EqualKeyPolicy::KeepLast,
            memory_bytes: usize::try_from(memory).unwrap_or(usize::MAX),
            ..SortOptions::new(SortRecordLayout::Variable)
        };
        let what = || {
            format!(
                "opening {} for the temporary files of --sort; name another directory with --temporary",
                directory.display()
            )
        };
        let files = FileDirectory::open(directory).with_context(what)?;
        let spool = SortSpool::new(Arc::new(files), NAME, options).map_err(|error| told(error, FLAG))?;
        let sorting = ImportSorter {
            spool,
            threads,
            directory: directory.to_owned(),
        };
        if let Some(bytes) = total.filter(|&total| total > memory) {
            sorting.claim(bytes)?;
        }
        Ok(sorting)
    }

    /// Reserves disk space for temporary files of `bytes` bytes.
    fn claim(&self, bytes: u64) -> Result<()> {
        let claimed = self.spool.claim(bytes);
        claimed.map_err(|error| match error.is_full() {
            true => {
                let text = format!(
                    "{} has no space for temporary files of {}: nothing was imported; free some space, or name another directory with --temporary ({error})",
                    self.directory.display(),
                    sizes::human(bytes)
                );
                failure(CommandExit::Full, text)
            }
            false => told(error, FLAG),
        })
    }

    fn job(&self) -> SortJob<'_> {
        SortJob {
            spool: &self.spool,
            threads: self.threads,
            is_lines: false,
            flag: FLAG,
        }
    }

    /// Reads all rows into sorted runs. Returns the progress and how reading ended.
    fn read(
        &self,
        parser: RowParser,
        bar: &ProgressBar,
    ) -> Result<(ImportProgress, Vec<SortedInput>, ImportOutcome)> {
        let said = RefCell::new(InputReadResult::default());
        let mut end = ImportOutcome::Stopped;
        let runs = self.job().runs(|chunks| {
            let chunks = RefCell::new(chunks);
            let ended = parser.run(&|block: RowBlock| {
                let mut chunks = chunks.borrow_mut();
                let mut said = said.borrow_mut();
                for change in block.changes.iter() {
                    let RowChange::Put(key, value, None) = change else {
                        unreachable!("only formats whose rows are keys and values are sorted");
                    };
                    if let Err(error) = chunks.push_pair(key, value) {
                        said.failed = Some(error);
                        return false;
                    }
                }
                bar.set_position(block.saved.offset);
                said.saved = block.saved;
                true
            });
            match said.borrow_mut().failed.take() {
                Some(error) => Err(error),
                None => {
                    end = ended?;
                    Ok(())
                }
            }
        })?;
        Ok((said.into_inner().saved, runs, end))
    }

    /// Imports all rows of the input. `first` is the progress of an earlier import of the same
    /// input. Returns the progress and how the import ended.
    pub(super) fn run(
        &self,
        writer: BlockWriter<'_>,
        parser: RowParser,
        first: &ImportProgress,
        bar: &ProgressBar,
    ) -> (ImportProgress, Result<ImportOutcome>) {
        let name = parser.name.clone();
        let (saved, runs) = match self.read(parser, bar) {
            Ok((saved, runs, ImportOutcome::Complete)) => (saved, runs),
            Ok((.., ImportOutcome::Stopped)) => return (first.clone(), Ok(ImportOutcome::Stopped)),
            Err(error) => return (first.clone(), Err(error)),
        };
        if first.rows > 0
            && let Err(error) = saved.is_same_input(first)
        {
            return (first.clone(), Err(error));
        }
        bar.set_message("loading");
        let mut loading = SortedLoader {
            writer,
            input: saved,
            skipped: first.rows,
            saved: first.clone(),
            name,
        };
        let ended = self.job().merged(runs).and_then(|merge| loading.all(merge));
        (loading.saved, ended)
    }
}

/// Loads sorted rows into the store.
struct SortedLoader<'w> {
    writer: BlockWriter<'w>,
    /// The progress after the whole input was read.
    input: ImportProgress,
    /// Number of keys that were skipped because an earlier import has already written them.
    skipped: u64,
    /// The progress after the last block written.
    saved: ImportProgress,
    name: String,
}

impl SortedLoader<'_> {
    fn all(&mut self, mut merge: SortMerge) -> Result<ImportOutcome> {
        let (mut block, mut keys) = (RowBlock::default(), 0);
        while let Some(record) = merge.next().map_err(|error| told(error, FLAG))? {
            keys += 1;
            if keys <= self.skipped {
                continue;
            }
            let bytes = record.key().len() + record.value().len() + EXTRA;
            if block.bytes >= FULL || (block.bytes > 0 && block.bytes + bytes > MAX_WRITTEN) {
                self.write(std::mem::take(&mut block), keys - 1)?;
                if stop::asked() {
                    self.writer.settle()?;
                    return Ok(ImportOutcome::Stopped);
                }
            }
            block.changes.put(record.key(), record.value());
            block
                .order
                .note(RowChange::Put(record.key(), record.value(), None));
            block.bytes += bytes;
        }
        // The sort kept only the last row of each key, so all other rows are duplicates.
        self.input.duplicates = self.input.rows.saturating_sub(keys);
        self.input.is_partial = false;
        block.is_last = true;
        let rows = self.input.rows;
        self.write(block, rows)?;
        self.writer.settle()?;
        Ok(ImportOutcome::Complete)
    }

    /// Writes a block of changes, after which `rows` rows are in the store.
    fn write(&mut self, mut block: RowBlock, rows: u64) -> Result<()> {
        block.saved = ImportProgress {
            rows,
            ..self.input.clone()
        };
        let next = block.saved.clone();
        let written = self.writer.take(&block);
        written.map_err(|error| behind(error, &self.name, || "writing sorted rows".to_owned()))?;
        self.saved = next;
        Ok(())
    }
}
