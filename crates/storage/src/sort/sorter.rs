//! A whole sort in one thread.

use super::chunk::{Chunk, Pushed};
use super::error::Result;
use super::merge::Merge;
use super::options::Options;
use super::spool::{Spool, Spooled};
use alluvium_device::Directory;
use std::sync::Arc;

/// Sorts the pushed records. Records that fit into memory are not written to the device.
#[derive(Debug)]
pub struct Sorter {
    spool: Spool,
    chunk: Chunk,
    runs: Vec<Spooled>,
}

/// A record pushed to a sorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input<'i> {
    /// A key and a value of any length.
    Pair(&'i [u8], &'i [u8]),
    /// A record of the fixed length.
    Record(&'i [u8]),
}

impl Sorter {
    /// Starts a sort with temporary files whose names begin with `name`.
    ///
    /// # Errors
    /// As [`Spool::new`].
    pub fn new(directory: Arc<dyn Directory>, name: &str, options: Options) -> Result<Sorter> {
        let spool = Spool::new(directory, name, options)?;
        let chunk = spool.chunk();
        Ok(Sorter {
            spool,
            chunk,
            runs: Vec::new(),
        })
    }

    /// Adds a key and a value.
    ///
    /// # Errors
    /// As [`Chunk::push`] and [`Spool::write`].
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.take(Input::Pair(key, value))
    }

    /// Adds a record of the fixed length.
    ///
    /// # Errors
    /// As [`Chunk::push_record`] and [`Spool::write`].
    pub fn push_record(&mut self, record: &[u8]) -> Result<()> {
        self.take(Input::Record(record))
    }

    fn take(&mut self, input: Input<'_>) -> Result<()> {
        if self.chunk.take(input)? == Pushed::Full {
            self.spill()?;
            let pushed = self.chunk.take(input)?;
            assert_eq!(pushed, Pushed::Taken, "an empty chunk has space for any record");
        }
        Ok(())
    }

    /// Sorts and writes the chunk, and starts the next one.
    fn spill(&mut self) -> Result<()> {
        let chunk = std::mem::replace(&mut self.chunk, self.spool.chunk());
        self.runs.push(Spooled::Run(self.spool.write(chunk.sort())?));
        Ok(())
    }

    /// Returns the sorted records.
    ///
    /// # Errors
    /// As [`Spool::write`], and [`Error::Damaged`](super::Error::Damaged).
    pub fn finish(mut self) -> Result<Merge> {
        if self.runs.is_empty() {
            let chunk = std::mem::replace(&mut self.chunk, self.spool.chunk());
            self.runs.push(Spooled::Chunk(chunk.sort()));
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

impl Chunk {
    fn take(&mut self, input: Input<'_>) -> Result<Pushed> {
        match input {
            Input::Pair(key, value) => self.push(key, value),
            Input::Record(record) => self.push_record(record),
        }
    }
}
