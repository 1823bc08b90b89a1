//! Imports: the rows of a stream are loaded into a keyspace, and the progress is stored with them.
//!
//! *Scope*: a pipeline of two threads, one of which converts rows to blocks while the other writes
//! the blocks; the progress that is committed with each block; invalid rows; continuation after a
//! kill.
//!
//! *Must not depend on*: the meaning of a format's bytes; the display of progress.

mod duplicate_detector;
pub(crate) mod layout;
mod parser;
mod progress;
mod rejects;
mod sorted;
mod writer;

pub(crate) use layout::{ImportLayout, PROGRESS, layout_key};
pub(crate) use parser::{RowParser, RowRetention};
pub(crate) use progress::{ImportIdentity, ImportProgress};
pub(crate) use rejects::RejectsFile;
pub(crate) use sorted::ImportSorter;
pub(crate) use writer::{ImportTarget, KeyUniqueness};

use crate::store::StoreHandle;
use crate::terminal::exit::ExitError;
use anyhow::{Error, Result};
use indicatif::ProgressBar;
use std::sync::mpsc::sync_channel;
use std::thread;
use writer::BlockWriter;

/// Maximum number of blocks that wait to be written. Each block is about one megabyte in size.
const WAITING: usize = 4;

pub(crate) struct ImportJob<'a> {
    writer: BlockWriter<'a>,
}

/// How an import without errors ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImportOutcome {
    /// All rows have been written to the store.
    Complete,
    /// The user stopped the import. Repeating the command continues it.
    Stopped,
}

impl<'a> ImportJob<'a> {
    pub(crate) fn new(
        store: &'a StoreHandle,
        to: ImportTarget,
        identity: ImportIdentity,
        layout: Option<ImportLayout>,
        uniqueness: KeyUniqueness,
    ) -> ImportJob<'a> {
        ImportJob {
            writer: BlockWriter::new(store, to, identity, layout, uniqueness),
        }
    }

    /// Runs an import until the end of the input or until it is stopped. Calls `moved` with the
    /// current position in the input. Returns the progress and the outcome. Even if the outcome is
    /// an error, the rows before the error are in the store.
    pub(crate) fn run(
        mut self,
        parser: RowParser,
        moved: impl Fn(u64),
    ) -> (ImportProgress, Result<ImportOutcome>) {
        let name = parser.name.clone();
        let mut saved = parser.saved.clone();
        // A new import has no earlier progress to replace.
        self.writer.saved = (saved.rows > 0).then(|| saved.clone());
        let ended = thread::scope(|scope| {
            let (sender, blocks) = sync_channel(WAITING);
            let parsing = scope.spawn(move || parser.run(&|block| sender.send(block).is_ok()));
            let write = || -> Result<()> {
                for block in blocks {
                    let next = block.saved.clone();
                    let what = || format!("writing rows before line {}", next.lines + 1);
                    let written = self.writer.take(&block);
                    written.map_err(|error| behind(error, &name, what))?;
                    moved(next.offset);
                    saved = next;
                }
                self.writer.settle()
            };
            // A failed write drops the receiver of blocks, which makes the parser stop.
            let written = write();
            let parsed = parsing
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            written.and(parsed)
        });
        (saved, ended)
    }

    /// Like `run`, but sorts the rows by key before they are written. `first` is the progress of an
    /// earlier import of the same input.
    pub(crate) fn run_sorted(
        mut self,
        parser: RowParser,
        sorting: &ImportSorter,
        first: &ImportProgress,
        bar: &ProgressBar,
    ) -> (ImportProgress, Result<ImportOutcome>) {
        self.writer.saved = (first.rows > 0).then(|| first.clone());
        self.writer.expect_order();
        sorting.run(self.writer, parser, first, bar)
    }
}

/// Adds the name of the input to an error that occurred while rows were written.
fn behind(error: Error, name: &str, what: impl Fn() -> String) -> Error {
    if error.is::<ExitError>() {
        return error.context(name.to_owned());
    }
    error.context(format!(
        "{} of {name}; run the same command again to continue",
        what()
    ))
}
