//! A whole sort in one thread.

use super::chunk::{PushOutcome, SortChunk};
use super::error::Result;
use super::merge::SortMerge;
use super::options::SortOptions;
use super::spool::{SortSpool, SortedInput};
use alluvium_device::Directory;
use std::sync::Arc;

/// Sorts the pushed records. Records that fit into memory are not written to the device.
#[derive(Debug)]
pub struct ExternalSorter {
    spool: SortSpool,
    chunk: SortChunk,
    runs: Vec<SortedInput>,
}

/// A record pushed to a sorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PushedRecord<'i> {
    /// A key and a value of any length.
    Pair(&'i [u8], &'i [u8]),
    /// A record of the fixed length.
    Record(&'i [u8]),
}

impl ExternalSorter {
    /// Starts a sort with temporary files whose names begin with `name`.
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

    /// Adds a key and a value.
    ///
    /// # Errors
    /// As [`SortChunk::push`] and [`SortSpool::write`].
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.take(PushedRecord::Pair(key, value))
    }

    /// Adds a record of the fixed length.
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

    /// Sorts and writes the chunk, and starts the next one.
    fn spill(&mut self) -> Result<()> {
        let chunk = std::mem::replace(&mut self.chunk, self.spool.chunk());
        self.runs.push(SortedInput::Run(self.spool.write(chunk.sort())?));
        Ok(())
    }

    /// Returns the sorted records.
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
        // Dropped first, because the merge needs the memory.
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
