//! The temporary files of a sort, and the steps that write and merge them.

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

/// Suffix of the names of temporary files.
const SUFFIX: &str = ".sorting";

/// Maximum number of file names to try before giving up because all of them are taken.
const TRIES: u64 = 1000;

/// The temporary files of a sort. Several threads may share it, each filling, sorting and writing
/// its own chunks.
#[derive(Debug)]
pub struct SortSpool {
    directory: Arc<dyn Directory>,
    name: String,
    options: SortOptions,
    files: AtomicU64,
    chunks: AtomicU64,
    claim: Mutex<Option<SpaceClaim>>,
}

/// Device space reserved for future runs, which is the space of an unlinked file of `bytes` bytes.
#[derive(Debug)]
struct SpaceClaim {
    device: Arc<dyn Device>,
    bytes: u64,
}

/// Sorted records that are in memory or in a temporary file.
#[derive(Debug)]
pub enum SortedInput {
    Chunk(SortedChunk),
    Run(SortedRun),
}

impl SortedInput {
    /// Returns whether the input has no records.
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

    /// Returns the number of records in the input.
    pub(super) fn records(&self) -> u64 {
        match self {
            SortedInput::Chunk(chunk) => chunk.len() as u64,
            SortedInput::Run(run) => run.records(),
        }
    }

    /// Returns the approximate size of the records in bytes.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            SortedInput::Chunk(chunk) => chunk.record_bytes(),
            SortedInput::Run(run) => run.bytes(),
        }
    }
}

impl SortSpool {
    /// Begins a sort. The names of its temporary files begin with `name`. Files with such names
    /// that a crash left behind are removed.
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

    /// Reserves space for runs with a total of `record_bytes` bytes of records. Calling it before
    /// the first run is written detects early if the disk has too little space. Each run then uses
    /// its part of the reserved space.
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
    /// I/O errors. If there is not enough space, nothing is reserved, and [`Error::is_full`]
    /// returns true.
    pub fn claim(&self, record_bytes: u64) -> Result<()> {
        let device = self.create()?;
        let bytes = space_of(record_bytes, self.options.frame());
        device.grow(bytes)?;
        *self.claim.lock() = Some(SpaceClaim { device, bytes });
        Ok(())
    }

    /// Returns the number of bytes of reserved space that no run has used yet.
    #[must_use]
    pub fn claimed_bytes(&self) -> u64 {
        self.claim.lock().as_ref().map_or(0, |claim| claim.bytes)
    }

    /// Frees the part of the reserved space that a run with `record_bytes` bytes of records needs
    /// (Q4).
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

    /// Returns an empty chunk to be filled. Among records with equal keys, those of chunks returned
    /// earlier come first.
    #[must_use]
    pub fn chunk(&self) -> SortChunk {
        SortChunk::new(self.options, self.chunks.fetch_add(1, Ordering::Relaxed))
    }

    /// Writes a sorted chunk to a temporary file as a run, in any thread.
    ///
    /// # Errors
    /// I/O errors. If the disk is full, [`Error::is_full`] returns true.
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

    /// Creates a temporary file and unlinks it immediately (Q2).
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

    /// Merges consecutive inputs into a single run.
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

    /// Returns the merge passes that reduce `inputs` to as few as can be merged at once.
    #[must_use]
    pub fn passes(&self, inputs: Vec<SortedInput>) -> MergePasses {
        MergePasses::new(self.options, inputs)
    }
}

/// Removes a file, if it exists.
fn forget(directory: &dyn Directory, file: &str) -> Result<()> {
    match directory.remove(file) {
        Ok(()) | Err(alluvium_device::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
