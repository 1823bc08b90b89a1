//! A complete external sort that runs in a single thread.

use super::chunk::{PushOutcome, SortChunk};
use super::error::Result;
use super::merge::SortMerge;
use super::options::SortOptions;
use super::spool::{SortSpool, SortedInput};
use alluvium_device::Directory;
use std::sync::Arc;

/// Sorts the records pushed to it. If all records fit into memory, nothing is written to the
/// device.
#[derive(Debug)]
pub struct ExternalSorter {
    spool: SortSpool,
    chunk: SortChunk,
    runs: Vec<SortedInput>,
}

/// A record pushed to the sorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PushedRecord<'i> {
    /// A key and a value of variable length.
    Pair(&'i [u8], &'i [u8]),
    /// A record of fixed length.
    Record(&'i [u8]),
}

impl ExternalSorter {
    /// Begins a sort. The names of its temporary files begin with `name`.
    ///
    /// # Errors
    /// As [`SortSpool::new`].
    pub fn new(directory: Arc<dyn Directory>, name: &str, options: SortOptions) -> Result<ExternalSorter> {
        let spool = SortSpool::new(directory, name, options)?;
        let chunk = spool.chunk();
        Ok(ExternalSorter {
            spool,
            chunk,
            runs: Vec::new(),
        })
    }

    /// Adds a record that consists of a key and a value.
    ///
    /// # Errors
    /// As [`SortChunk::push`] and [`SortSpool::write`].
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.take(PushedRecord::Pair(key, value))
    }

    /// Adds a record of the fixed length given in the options.
    ///
    /// # Errors
    /// As [`SortChunk::push_record`] and [`SortSpool::write`].
    pub fn push_record(&mut self, record: &[u8]) -> Result<()> {
        self.take(PushedRecord::Record(record))
    }

    fn take(&mut self, input: PushedRecord<'_>) -> Result<()> {
        if self.chunk.take(input)? == PushOutcome::Full {
            self.spill()?;
            let pushed = self.chunk.take(input)?;
            assert_eq!(
                pushed,
                PushOutcome::Taken,
                "an empty chunk has space for any record"
            );
        }
        Ok(())
    }

    /// Sorts the current chunk, writes it as a run, and begins a new chunk.
    fn spill(&mut self) -> Result<()> {
        let chunk = std::mem::replace(&mut self.chunk, self.spool.chunk());
        self.runs.push(SortedInput::Run(self.spool.write(chunk.sort())?));
        Ok(())
    }

    /// Sorts the records, and returns a stream of them in key order.
    ///
    /// # Errors
    /// As [`SortSpool::write`], and [`Error::Damaged`](super::Error::Damaged).
    pub fn finish(mut self) -> Result<SortMerge> {
        if self.runs.is_empty() {
            let chunk = std::mem::replace(&mut self.chunk, self.spool.chunk());
            self.runs.push(SortedInput::Chunk(chunk.sort()));
        } else if !self.chunk.is_empty() {
            self.spill()?;
        }
        // Drop the chunk first, because the merge needs its memory.
        drop(self.chunk);
        let mut passes = self.spool.passes(self.runs);
        while let Some(group) = passes.group() {
            passes.put(group.merge(&self.spool)?);
        }
        passes.finish()
    }
}

impl SortChunk {
    fn take(&mut self, input: PushedRecord<'_>) -> Result<PushOutcome> {
        match input {
            PushedRecord::Pair(key, value) => self.push(key, value),
            PushedRecord::Record(record) => self.push_record(record),
        }
    }
}
