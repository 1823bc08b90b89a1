//! An import: rows of a stream into a keyspace, with a place in the store that says how far it is.
//!
//! *Knows*: how rows become blocks on one thread and are written on another, the progress that is
//! committed with them, bad rows, how to go on after a kill.
//!
//! *Does not know*: what a format's bytes mean; what is shown meanwhile.
//!
//! *Read in this order*: `progress.rs` (what is remembered), `layout.rs` (what a table looked
//! like), `rejects.rs`, `seen.rs` (keys that came before),
//! `parser.rs` (rows to blocks), `writer.rs` (blocks into the store), `sorted.rs` (rows in any
//! order first), this file.

pub(crate) mod layout;
mod parser;
mod progress;
mod rejects;
mod seen;
mod sorted;
mod writer;

pub(crate) use layout::{Layout, layout_key};
pub(crate) use parser::{Kept, Parser};
pub(crate) use progress::{Identity, PROGRESS, Saved};
pub(crate) use rejects::Rejects;
pub(crate) use sorted::Sorting;
pub(crate) use writer::{To, Uniqueness};

use crate::exit::Failure;
use crate::store::Store;
use anyhow::{Error, Result};
use indicatif::ProgressBar;
use std::sync::mpsc::sync_channel;
use std::thread;
use writer::Writer;

/// Blocks that wait to be written: each is about a megabyte.
const WAITING: usize = 4;

/// Where an import goes.
pub(crate) struct Job<'a> {
    writer: Writer<'a>,
}

/// How an import ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Everything is in the store.
    Complete,
    /// It was told to stop; the same command goes on.
    Stopped,
}

impl<'a> Job<'a> {
    pub(crate) fn new(
        store: &'a Store,
        to: To,
        identity: Identity,
        layout: Option<Layout>,
        uniqueness: Uniqueness,
    ) -> Job<'a> {
        Job {
            writer: Writer::new(store, to, identity, layout, uniqueness),
        }
    }

    /// Imports until the end, or until it is asked to stop; `moved` hears where in the input it is.
    /// How far it is then, and how it ended: what stands before an error is in the store.
    pub(crate) fn run(mut self, parser: Parser, moved: impl Fn(u64)) -> (Saved, Result<End>) {
        let name = parser.name.clone();
        let mut saved = parser.saved.clone();
        // Before anything was imported, there is nothing to go on behind.
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
            // The blocks' end is gone when this fails, and the parser stops.
            let written = write();
            let parsed = parsing
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            written.and(parsed)
        });
        (saved, ended)
    }

    /// The same with rows that are sorted by their keys first; `first` is how far an earlier import
    /// of the same input came.
    pub(crate) fn run_sorted(
        mut self,
        parser: Parser,
        sorting: &Sorting,
        first: &Saved,
        bar: &ProgressBar,
    ) -> (Saved, Result<End>) {
        self.writer.saved = (first.rows > 0).then(|| first.clone());
        self.writer.expect_order();
        sorting.run(self.writer, parser, first, bar)
    }
}

/// Says what was being done with an input when writing failed.
fn behind(error: Error, name: &str, what: impl Fn() -> String) -> Error {
    if error.is::<Failure>() {
        return error.context(name.to_owned());
    }
    error.context(format!(
        "{} of {name}; run the same command again to go on",
        what()
    ))
}
