//! Old images of pages: what the last checkpoint has where pages are written over since (PB6).

use super::format::{RECORD_HEADER, open_record, seal_record};
use super::pool::Pool;
use crate::paged::error::{Error, Result};
use alluvium_base::{ErrorKind, Purpose};
use alluvium_device::{Batch, Buffer, Device};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Records that are read together when a file is opened.
const READ_TOGETHER: u64 = 16;
/// The file of the journal grows by at least this many records.
const LEAST_GROWTH: u64 = 64;
const _: () = assert!(LEAST_GROWTH >= READ_TOGETHER, "a read lies in the file");

/// The journal of a file of pages.
#[derive(Debug)]
pub(super) struct Journal {
    device: Arc<dyn Device>,
    page_bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Pages whose image is synced.
    kept: BTreeSet<u64>,
    /// Records so far.
    records: u64,
    /// Pages below this number are in the checkpoint.
    checkpointed: u64,
    /// Images since the pool was made.
    images: u64,
}

impl Journal {
    /// Returns the journal in a file, without records, for a checkpoint of `checkpointed`
    /// pages.
    pub(super) fn new(device: Arc<dyn Device>, page_bytes: usize, checkpointed: u64) -> Journal {
        assert!(
            page_bytes.is_multiple_of(RECORD_HEADER),
            "records are written directly"
        );
        let state = State {
            checkpointed,
            ..State::default()
        };
        Journal {
            device,
            page_bytes,
            state: Mutex::new(state),
        }
    }

    pub(super) fn images(&self) -> u64 {
        self.state.lock().images
    }

    /// Forgets all images: a checkpoint of `checkpointed` pages is durable.
    pub(super) fn restart(&self, checkpointed: u64) {
        let mut state = self.state.lock();
        assert!(
            state.checkpointed <= checkpointed,
            "pages stay, used or free (PB7)"
        );
        state.kept.clear();
        state.records = 0;
        state.checkpointed = checkpointed;
    }

    fn record_bytes(&self) -> u64 {
        (RECORD_HEADER + self.page_bytes) as u64
    }

    /// Puts images behind the journal and syncs it.
    fn append(
        &self,
        state: &mut State,
        images: Vec<(u64, Buffer)>,
        identity: u128,
        epoch: u64,
    ) -> Result<()> {
        let bytes = self.record_bytes();
        let end = (state.records + images.len() as u64) * bytes;
        if end > self.device.len() {
            let more = (state.records / 4).max(LEAST_GROWTH) * bytes;
            self.device.grow((end + more).next_multiple_of(bytes))?;
        }
        let numbers: Vec<u64> = images.iter().map(|(page, _)| *page).collect();
        let mut batch = Batch::with_capacity(images.len());
        for (index, (page, image)) in (state.records..).zip(images) {
            let mut record = Buffer::zeroed(bytes as usize);
            record[RECORD_HEADER..].copy_from_slice(&image);
            seal_record(&mut record, index, identity, epoch, page);
            batch.write(index * bytes, record, Purpose::Log);
        }
        self.device.run(batch)?;
        self.device.sync(Purpose::Log)?;
        state.records += numbers.len() as u64;
        state.images += numbers.len() as u64;
        state.kept.extend(numbers);
        assert!(
            state.kept.len() as u64 == state.records,
            "a page has one image (PB6)"
        );
        Ok(())
    }

    /// Writes the images of a checkpoint back to the pages, and returns how many there were.
    /// The records end with the first that is not genuine: what was not synced was not relied
    /// upon.
    pub(super) fn roll_back(
        &self,
        identity: u128,
        epoch: u64,
        pages: u64,
        mut write: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<u64> {
        let bytes = self.record_bytes();
        let total = self.device.len() / bytes;
        let mut index = 0;
        while index < total {
            let together = READ_TOGETHER.min(total - index);
            let read = self
                .device
                .read_at(index * bytes, (together * bytes) as usize, Purpose::Recovery)?;
            for record in read.chunks_exact(bytes as usize) {
                let Some((page, image)) = open_record(record, index, identity, epoch) else {
                    return Ok(index);
                };
                if page >= pages {
                    return Err(Error::Corrupt {
                        file: self.device.name().to_owned(),
                        page,
                        offset: index * bytes,
                        expected: format!("the image of a page below {pages}"),
                        found: "that of another".to_owned(),
                    });
                }
                write(page, image)?;
                index += 1;
            }
        }
        assert!(index == total, "every record was genuine");
        Ok(index)
    }
}

impl Pool {
    /// Keeps the images of pages that are about to be written over (PB6).
    pub(super) fn keep_images(&self, pages: &[u64], epoch: u64) -> Result<()> {
        let mut state = self.journal.state.lock();
        let is_wanted = |page: &&u64| **page < state.checkpointed && !state.kept.contains(page);
        let wanted: Vec<u64> = pages.iter().filter(is_wanted).copied().collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::with_capacity(wanted.len());
        for page in &wanted {
            batch.read(
                self.offset(*page),
                Buffer::zeroed(self.options.page_bytes),
                Purpose::Log,
            );
        }
        let images = self.device.run(batch)?;
        assert_eq!(images.len(), wanted.len(), "each read gives its buffer back");
        let images = wanted.into_iter().zip(images).collect();
        self.journal.append(&mut state, images, self.identity, epoch)
    }

    /// Refuses changes after a failure of the device. A full disk is none.
    pub(super) fn fail(&self, error: &Error) {
        if error.kind() != ErrorKind::Full {
            super::PageBuffer::poison(self, &error.to_string());
            assert!(super::PageBuffer::writable(self).is_err(), "changes are refused");
        }
    }
}
