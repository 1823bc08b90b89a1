//! The file that a probe measures, which is created without a name and then filled.

use super::{LARGEST, LEAST_SPACE, ProbeClock, ProbeFailure};
use crate::{AlignedBuffer, Device, Directory, Error, FileOptions, IoBatch};
use alluvium_base::measurements::TransferSlice;
use alluvium_base::{MIB, Purpose};
use std::sync::Arc;

/// Temporary name of the file, removed right after creation.
const NAME: &str = "alluvium-probe.tmp";

/// Length of the requests that fill the file, and how many are in flight.
const PIECE: u64 = MIB;
const PIECES: u64 = 4;

const _: () = assert!(LARGEST == PIECE * PIECES && LEAST_SPACE.is_multiple_of(LARGEST));

/// Creates a file without a name (PR1) and with space for `bytes`.
///
/// # Errors
/// [`ProbeFailure::NoSpace`], or I/O errors.
pub(super) fn create(directory: &dyn Directory, bytes: u64) -> Result<Arc<dyn Device>, ProbeFailure> {
    let free = directory.space()?.free;
    if free < LEAST_SPACE.saturating_mul(2) {
        return Err(ProbeFailure::NoSpace { free });
    }
    let file = match directory.create(NAME, FileOptions::DIRECT) {
        // A process left the file behind because it was killed between creating the file and
        // removing its name.
        Err(Error::AlreadyExists { .. }) => {
            directory.remove(NAME)?;
            directory.create(NAME, FileOptions::DIRECT)?
        }
        created => created?,
    };
    directory.remove(NAME)?;
    file.grow(bytes)?;
    Ok(file)
}

/// Fills the file sequentially, a few megabytes at a time.
pub(super) struct FileFiller<'f> {
    file: &'f dyn Device,
    rng: fastrand::Rng,
    buffers: Vec<AlignedBuffer>,
    at: u64,
}

impl FileFiller<'_> {
    pub(super) fn new(file: &dyn Device, seed: u64) -> FileFiller<'_> {
        FileFiller {
            file,
            rng: fastrand::Rng::with_seed(seed),
            buffers: (0..PIECES)
                .map(|_| AlignedBuffer::zeroed(PIECE as usize))
                .collect(),
            at: 0,
        }
    }

    /// Returns the length written so far, in bytes.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Writes the next [`LARGEST`] bytes. The contents always differ, so that no device can
    /// deduplicate or compress them.
    pub(super) fn next(&mut self, watch: &dyn ProbeClock) -> Result<TransferSlice, Error> {
        let mut batch = IoBatch::with_capacity(self.buffers.len());
        for (place, mut buffer) in (0..).zip(self.buffers.drain(..)) {
            self.rng.fill(&mut buffer);
            batch.write(self.at + place * PIECE, buffer, Purpose::Probe);
        }
        let before_ns = watch.now_ns();
        self.buffers = self.file.run(batch)?;
        self.at += LARGEST;
        Ok(TransferSlice {
            bytes: LARGEST,
            elapsed_ns: watch.now_ns().saturating_sub(before_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryDirectory;
    use crate::probe::ProcessClock;

    #[test]
    fn the_file_has_no_name_and_one_that_was_left_is_taken_away() {
        let directory = MemoryDirectory::new();
        directory.create(NAME, FileOptions::DIRECT).unwrap();
        let file = create(&directory, LEAST_SPACE).unwrap();
        assert_eq!(directory.list().unwrap(), Vec::<String>::new());
        assert_eq!(file.len(), LEAST_SPACE);
    }

    #[test]
    fn every_block_is_written_and_no_two_are_alike() {
        let directory = MemoryDirectory::new();
        let file = create(&directory, LEAST_SPACE).unwrap();
        let mut filler = FileFiller::new(&*file, 1);
        while filler.at() < LEAST_SPACE {
            filler.next(&ProcessClock::new()).unwrap();
        }
        let bytes = file.read_at(0, LEAST_SPACE as usize, Purpose::Probe).unwrap();
        let blocks: std::collections::BTreeSet<&[u8]> = bytes.chunks(4096).collect();
        assert_eq!(blocks.len() as u64, LEAST_SPACE / 4096);
    }
}
