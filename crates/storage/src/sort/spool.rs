//! The files of one sort, and the steps that write and merge them.

use super::chunk::{SortChunk, SortedChunk};
use super::error::{Error, Result};
use super::merge::SortMerge;
use super::options::SortOptions;
use super::passes::MergePasses;
use super::reader::SortedRun;
use super::writer::{SortedRunWriter, space_of};
use alluvium_device::{Device, Directory, FileOptions};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Suffix of the names of runs.
const SUFFIX: &str = ".sorting";

/// Maximum number of names tried for a file if others are taken.
const TRIES: u64 = 1000;

/// The temporary files of a sort. Threads may share it: each fills, sorts and writes chunks.
#[derive(Debug)]
pub struct SortSpool {
    directory: Arc<dyn Directory>,
    name: String,
    options: SortOptions,
    files: AtomicU64,
    chunks: AtomicU64,
    claim: Mutex<Option<SpaceClaim>>,
}

/// Space on the device reserved for future runs: an unlinked file of that length.
#[derive(Debug)]
struct SpaceClaim {
    device: Arc<dyn Device>,
    bytes: u64,
}

/// Sorted records, in memory or in a file.
#[derive(Debug)]
pub enum SortedInput {
    Chunk(SortedChunk),
    Run(SortedRun),
}

impl SortedInput {
    /// Returns whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            SortedInput::Chunk(chunk) => chunk.is_empty(),
            SortedInput::Run(run) => run.records() == 0,
        }
    }

    pub(super) fn common(&self) -> &[u8] {
        match self {
            SortedInput::Chunk(chunk) => &chunk.common,
            SortedInput::Run(run) => &run.common,
        }
    }

    pub(super) fn number(&self) -> u64 {
        match self {
            SortedInput::Chunk(chunk) => chunk.number,
            SortedInput::Run(run) => run.number,
        }
    }

    /// Returns the number of records.
    pub(super) fn records(&self) -> u64 {
        match self {
            SortedInput::Chunk(chunk) => chunk.len() as u64,
            SortedInput::Run(run) => run.records(),
        }
    }

    /// Returns the approximate size in bytes.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            SortedInput::Chunk(chunk) => chunk.record_bytes(),
            SortedInput::Run(run) => run.bytes(),
        }
    }
}

impl SortSpool {
    /// Starts a sort with files whose names begin with `name`, and removes those left over from a
    /// crash.
    ///
    /// # Errors
    /// [`Error::BadOption`] or [`Error::TooLong`] for invalid options; I/O errors.
    pub fn new(directory: Arc<dyn Directory>, name: &str, options: SortOptions) -> Result<SortSpool> {
        options.verify()?;
        for file in directory.list()? {
            let middle = file.strip_prefix(name).and_then(|rest| rest.strip_suffix(SUFFIX));
            let number = middle.and_then(|middle| middle.strip_prefix('.'));
            if number.is_some_and(|number| number.parse::<u64>().is_ok()) {
                forget(&*directory, &file)?;
            }
        }
        Ok(SortSpool {
            directory,
            name: name.to_owned(),
            options,
            files: AtomicU64::new(0),
            chunks: AtomicU64::new(0),
            claim: Mutex::default(),
        })
    }

    /// Reserves space for runs of `record_bytes` bytes before any is written, so that a disk that
    /// is too small is detected early. Each run then gets its part of the space.
    ///
    /// ```
    /// # use alluvium_device::memory::MemoryDirectory;
    /// # use alluvium_storage::sort::{SortRecordLayout, SortOptions, SortSpool};
    /// # use std::sync::Arc;
    /// let directory = Arc::new(MemoryDirectory::new());
    /// let spool = SortSpool::new(directory, "words", SortOptions::new(SortRecordLayout::Variable))?;
    /// spool.claim(1 << 20)?;
    /// assert!(spool.claimed_bytes() > 1 << 20);
    /// # Ok::<(), alluvium_storage::sort::Error>(())
    /// ```
    ///
    /// # Errors
    /// I/O errors; [`Error::is_full`] if there is not enough space. Nothing is reserved then.
    pub fn claim(&self, record_bytes: u64) -> Result<()> {
        let device = self.create()?;
        let bytes = space_of(record_bytes, self.options.frame());
        device.grow(bytes)?;
        *self.claim.lock() = Some(SpaceClaim { device, bytes });
        Ok(())
    }

    /// Returns the reserved space that no run has used yet, in bytes.
    #[must_use]
    pub fn claimed_bytes(&self) -> u64 {
        self.claim.lock().as_ref().map_or(0, |claim| claim.bytes)
    }

    /// Releases the part of the reserved space for a run of `record_bytes` bytes (Q4).
    fn hand_over(&self, record_bytes: u64) -> Result<()> {
        let part = space_of(record_bytes, self.options.frame());
        let mut held = self.claim.lock();
        let Some(claim) = held.as_mut() else {
            return Ok(());
        };
        if claim.bytes <= part {
            *held = None;
            return Ok(());
        }
        claim.device.truncate(claim.bytes - part)?;
        claim.bytes -= part;
        Ok(())
    }

    /// Returns the options of the sort.
    #[must_use]
    pub fn options(&self) -> &SortOptions {
        &self.options
    }

    /// Returns the next chunk to be filled. Among equal keys, those of earlier chunks come first.
    #[must_use]
    pub fn chunk(&self) -> SortChunk {
        SortChunk::new(self.options, self.chunks.fetch_add(1, Ordering::Relaxed))
    }

    /// Writes a sorted chunk as a run. Any thread can do this.
    ///
    /// # Errors
    /// I/O errors; [`Error::is_full`] for a full disk.
    pub fn write(&self, chunk: SortedChunk) -> Result<SortedRun> {
        let device = self.create()?;
        self.hand_over(chunk.record_bytes())?;
        let mut writer =
            SortedRunWriter::new(device, chunk.number, self.options.frame(), chunk.record_bytes())?;
        let mut index = 0;
        while let Some((record, _)) = chunk.record(index) {
            writer.push(record)?;
            index += 1;
        }
        let mut run = writer.finish()?;
        assert_eq!(
            run.records,
            chunk.len() as u64,
            "a run has all records of its chunk"
        );
        run.common = chunk.common;
        Ok(run)
    }

    /// Creates a file and unlinks it at once (Q2).
    fn create(&self) -> Result<Arc<dyn Device>> {
        let mut taken = None;
        for _ in 0..TRIES {
            let number = self.files.fetch_add(1, Ordering::Relaxed);
            let file = format!("{}.{number}{SUFFIX}", self.name);
            match self.directory.create(&file, FileOptions::DIRECT) {
                Ok(device) => {
                    forget(&*self.directory, &file)?;
                    return Ok(device);
                }
                Err(error @ alluvium_device::Error::AlreadyExists { .. }) => taken = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Device(taken.expect("a name was tried")))
    }

    /// Merges consecutive runs into one.
    pub(super) fn merge(&self, inputs: Vec<SortedInput>) -> Result<SortedRun> {
        let number = inputs.iter().map(SortedInput::number).min().unwrap_or_default();
        let expected = inputs.iter().map(SortedInput::bytes).sum();
        assert!(inputs.len() > 1, "a merge of one run changes nothing");
        let records: u64 = inputs.iter().map(SortedInput::records).sum();
        let first = inputs.iter().find(|input| !input.is_empty());
        let mut common = first.map_or_else(Vec::new, |input| input.common().to_vec());
        common.truncate(super::merge::common(&inputs));
        self.hand_over(expected)?;
        let mut writer = SortedRunWriter::new(self.create()?, number, self.options.frame(), expected)?;
        let mut merge = SortMerge::new(&self.options, inputs)?;
        while let Some(record) = merge.next()? {
            writer.push(record.encoded())?;
        }
        let mut run = writer.finish()?;
        assert!(run.records <= records, "a merge adds no record");
        run.common = common;
        Ok(run)
    }

    /// Starts the passes that merge `inputs`.
    #[must_use]
    pub fn passes(&self, inputs: Vec<SortedInput>) -> MergePasses {
        MergePasses::new(self.options, inputs)
    }
}

/// Removes a file, if it still exists.
fn forget(directory: &dyn Directory, file: &str) -> Result<()> {
    match directory.remove(file) {
        Ok(()) | Err(alluvium_device::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
