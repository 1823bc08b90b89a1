//! The journal of old images: the contents that pages had at a checkpoint and that have since been
//! overwritten (PB6).
//!
//! A pool that is not hosted has one file of records. A hosted pool alternates between two files,
//! because it does not find out at once whether a root has become durable. A record contains the
//! epoch of the checkpoint to which its image belongs. A rollback to a checkpoint restores each
//! page from its oldest image that belongs to that checkpoint or to a later one.

use super::format::{PageFileSuperblock, RECORD_HEADER, names_of, open_record, seal_record};
use super::pool::PagePool;
use crate::paged::error::damaged_page;
use alluvium_base::{ErrorKind, Purpose};
use alluvium_device::{AlignedBuffer, Device, IoBatch};
use alluvium_storage::{Error, Result};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Number of records per read when a file is opened.
const READ_TOGETHER: u64 = 16;
/// Minimum number of records by which a journal file grows.
const LEAST_GROWTH: u64 = 64;
const _: () = assert!(LEAST_GROWTH >= READ_TOGETHER, "a read lies in the file");

/// The journal of a page file.
#[derive(Debug)]
pub(super) struct PageJournal {
    /// Either one file, or two files that are used in turn.
    files: Vec<Arc<dyn Device>>,
    page_bytes: usize,
    state: Mutex<JournalState>,
}

/// The images that were written after one checkpoint and before the next.
#[derive(Debug, Default)]
struct CheckpointImages {
    /// The epoch of the checkpoint.
    epoch: u64,
    /// Number of pages in the checkpoint.
    checkpointed: u64,
    /// Numbers of the pages whose images have been synced.
    kept: BTreeSet<u64>,
}

#[derive(Debug, Default)]
pub(super) struct JournalState {
    /// One entry for each checkpoint to which the pages can be rolled back, oldest first. There is
    /// always at least one.
    spans: Vec<CheckpointImages>,
    /// Index of the file to which images are being written.
    current: usize,
    /// Number of records in that file.
    records: u64,
    /// Number of images written since the pool was created or opened.
    images: u64,
    /// Number of holds, one for each copy in progress. No image is dropped while there is a hold.
    holds: u32,
    /// A hosted file's own superblock, as the last checkpoint wrote it. It is removed when the
    /// first page is overwritten.
    pub(super) still: Option<PageFileSuperblock>,
}

impl JournalState {
    fn last(&mut self) -> &mut CheckpointImages {
        let last = self.spans.last_mut();
        last.expect("a journal begins behind a checkpoint (PB6)")
    }
}

/// A record that was read from a journal file.
#[derive(Clone, Copy, Debug)]
struct JournalRecord {
    epoch: u64,
    page: u64,
    file: usize,
    index: u64,
}

/// The result of reading a record.
#[derive(Clone, Copy, Debug)]
enum RecordRead {
    /// A record of this store whose checksum is correct.
    Genuine(JournalRecord),
    /// A record whose checksum is wrong, with the page number in it.
    Damaged(JournalRecord),
    /// The index holds no record of this store.
    Nothing(u64),
}

/// The result of a rollback.
#[derive(Debug, Default)]
pub(super) struct RolledBack {
    /// For each page that was restored, the epoch of its image's checkpoint.
    pub(super) images: BTreeMap<u64, u64>,
    /// For each page number found in a damaged record, the record's file and offset.
    suspects: BTreeMap<u64, (usize, u64)>,
    /// The first file and offset without a valid record although further records follow.
    gap: Option<(usize, u64)>,
}

impl RolledBack {
    /// Returns the approximate location of a page's damaged image, as file index and offset.
    pub(super) fn place_of(&self, page: u64) -> Option<(usize, u64)> {
        self.suspects.get(&page).copied().or(self.gap)
    }
}

impl PageJournal {
    /// Creates an empty journal for a checkpoint of `checkpointed` pages.
    pub(super) fn new(
        files: Vec<Arc<dyn Device>>,
        page_bytes: usize,
        epoch: u64,
        checkpointed: u64,
    ) -> PageJournal {
        assert!(
            page_bytes.is_multiple_of(RECORD_HEADER) && !files.is_empty(),
            "records are written directly"
        );
        let span = CheckpointImages {
            epoch,
            checkpointed,
            ..CheckpointImages::default()
        };
        let state = JournalState {
            spans: vec![span],
            ..JournalState::default()
        };
        PageJournal {
            files,
            page_bytes,
            state: Mutex::new(state),
        }
    }

    /// Sets a hosted file's own superblock, which the journal keeps until a page of that checkpoint
    /// is overwritten.
    pub(super) fn begin_still(&self, superblock: PageFileSuperblock) {
        let mut state = self.state.lock();
        assert!(state.last().kept.is_empty(), "no page was written over (PB6)");
        state.still = Some(superblock);
    }

    pub(super) fn images(&self) -> u64 {
        self.state.lock().images
    }

    /// Prevents images from being dropped until [`PageJournal::release`] is called.
    pub(super) fn hold(&self) {
        let mut state = self.state.lock();
        state.holds += 1;
        assert!(!state.spans.is_empty(), "a checkpoint can be gone back to (PB8)");
    }

    pub(super) fn release(&self) {
        let mut state = self.state.lock();
        state.holds = state.holds.checked_sub(1).expect("it was held");
    }

    /// Returns whether a copy is in progress, so that no image may be dropped.
    pub(super) fn is_held(&self) -> bool {
        self.state.lock().holds > 0
    }

    /// Returns the total size of the files in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len()).sum()
    }

    /// Drops all images and shrinks the file, because a checkpoint of `checkpointed` pages has
    /// become durable.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn restart(&self, epoch: u64, checkpointed: u64) -> Result<()> {
        let mut state = self.state.lock();
        assert!(
            state.last().checkpointed <= checkpointed,
            "pages stay, used or free (PB7)"
        );
        state.spans = vec![CheckpointImages {
            epoch,
            checkpointed,
            ..CheckpointImages::default()
        }];
        state.records = 0;
        self.shrink(0)
    }

    fn shrink(&self, file: usize) -> Result<()> {
        let file = self.files.get(file).expect("the file is one of them");
        if file.len() > LEAST_GROWTH * self.record_bytes() {
            file.truncate(LEAST_GROWTH * self.record_bytes())?;
        }
        Ok(())
    }

    /// Returns the epoch of the oldest checkpoint to which the pages could be rolled back after
    /// calling `start_checkpoint` with the same `is_durable`.
    pub(super) fn oldest(&self, is_durable: bool) -> u64 {
        let state = self.state.lock();
        let mut epochs = state.spans.iter().map(|span| span.epoch);
        let oldest = if is_durable {
            epochs.next_back()
        } else {
            epochs.next()
        };
        oldest.expect("a journal begins behind a checkpoint (PB6)")
    }

    /// Starts collecting images for a new checkpoint. If `is_durable` is set, the previous
    /// checkpoint is durable, so the images of all checkpoints before it are dropped, and further
    /// images are written to the other file.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn start_checkpoint(&self, epoch: u64, checkpointed: u64, is_durable: bool) -> Result<()> {
        let mut state = self.state.lock();
        assert!(state.last().epoch < epoch, "checkpoints are counted (PB8)");
        assert!(
            state.last().checkpointed <= checkpointed,
            "pages stay, used or free (PB7)"
        );
        if is_durable {
            let older = state.spans.len() - 1;
            state.spans.drain(..older);
            if self.files.len() > 1 {
                state.current = (state.current + 1) % self.files.len();
                state.records = 0;
                self.shrink(state.current)?;
            }
        }
        state.spans.push(CheckpointImages {
            epoch,
            checkpointed,
            ..CheckpointImages::default()
        });
        Ok(())
    }

    fn record_bytes(&self) -> u64 {
        (RECORD_HEADER + self.page_bytes) as u64
    }

    /// Grows the file if necessary, so that `more` images can be written without growing it
    /// further.
    ///
    /// # Errors
    /// An error if the disk is full. Nothing has changed in this case.
    pub(super) fn reserve(&self, more: u64) -> Result<()> {
        let mut state = self.state.lock();
        let last = state.last();
        let left = last.checkpointed - last.kept.len() as u64;
        let wanted = state.records + more.min(left);
        self.grow(&state, wanted)
    }

    fn grow(&self, state: &JournalState, records: u64) -> Result<()> {
        let (bytes, file) = (self.record_bytes(), &self.files[state.current]);
        if records * bytes > file.len() {
            let more = (state.records / 4).max(LEAST_GROWTH);
            file.grow((records + more) * bytes)?;
        }
        Ok(())
    }

    /// Appends images to the journal and syncs the file.
    fn append(
        &self,
        state: &mut JournalState,
        images: Vec<(u64, AlignedBuffer)>,
        identity: u128,
    ) -> Result<()> {
        let bytes = self.record_bytes();
        self.grow(state, state.records + images.len() as u64)?;
        let epoch = state.last().epoch;
        let numbers: Vec<u64> = images.iter().map(|(page, _)| *page).collect();
        let mut batch = IoBatch::with_capacity(images.len());
        for (index, (page, image)) in (state.records..).zip(images) {
            let mut record = AlignedBuffer::zeroed(bytes as usize);
            record[RECORD_HEADER..].copy_from_slice(&image);
            seal_record(&mut record, index, identity, epoch, page);
            batch.write(index * bytes, record, Purpose::Log);
        }
        let file = &self.files[state.current];
        file.run(batch)?;
        file.sync(Purpose::Log)?;
        state.records += numbers.len() as u64;
        state.images += numbers.len() as u64;
        let before = state.last().kept.len();
        let added = numbers.len();
        state.last().kept.extend(numbers);
        assert!(
            state.last().kept.len() == before + added,
            "a page has one image of a checkpoint (PB6)"
        );
        Ok(())
    }

    /// Reads a file's records and passes each of them to `tell`. Invalid records are passed too,
    /// and do not end the reading. They do no harm. If a crash interrupted the writing of a record,
    /// its page had not been overwritten yet. If a record is damaged, that is detected later for
    /// its page. Records from earlier uses of the file belong to checkpoints that no root refers to
    /// any more.
    fn read(
        &self,
        file: usize,
        identity: u128,
        tell: &mut dyn FnMut(RecordRead) -> Result<()>,
    ) -> Result<()> {
        let bytes = self.record_bytes();
        let device = &self.files[file];
        let total = device.len() / bytes;
        let mut index = 0;
        while index < total {
            let together = READ_TOGETHER.min(total - index);
            let read = device.read_at(index * bytes, (together * bytes) as usize, Purpose::Recovery)?;
            for record in read.chunks_exact(bytes as usize) {
                let found = |epoch, page| JournalRecord {
                    epoch,
                    page,
                    file,
                    index,
                };
                if let Some((epoch, page, _)) = open_record(record, index, identity) {
                    tell(RecordRead::Genuine(found(epoch, page)))?;
                } else if let Some((epoch, page)) = names_of(record, identity) {
                    tell(RecordRead::Damaged(found(epoch, page)))?;
                } else {
                    tell(RecordRead::Nothing(index))?;
                }
                index += 1;
            }
        }
        assert!(index == total, "every record was read");
        Ok(())
    }

    /// Restores a checkpoint of `pages` pages, by passing the image of each overwritten page to
    /// `write`.
    pub(super) fn roll_back(
        &self,
        identity: u128,
        epoch: u64,
        pages: u64,
        mut write: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<RolledBack> {
        let mut rolled_back = RolledBack::default();
        let mut oldest: BTreeMap<u64, JournalRecord> = BTreeMap::new();
        for file in 0..self.files.len() {
            let mut unknown = None;
            self.read(file, identity, &mut |read| {
                let found = match read {
                    RecordRead::Genuine(found) => found,
                    RecordRead::Damaged(found) => {
                        let at = found.index * self.record_bytes();
                        if found.epoch >= epoch {
                            rolled_back.suspects.entry(found.page).or_insert((file, at));
                        }
                        unknown = unknown.or(Some((file, at)));
                        return Ok(());
                    }
                    RecordRead::Nothing(index) => {
                        unknown = unknown.or(Some((file, index * self.record_bytes())));
                        return Ok(());
                    }
                };
                if found.epoch == epoch && found.page >= pages {
                    return Err(damaged_page(
                        self.files[file].name(),
                        found.page,
                        found.index * self.record_bytes(),
                        format!("the image of a page below {pages}"),
                        "that of another",
                    ));
                }
                if found.epoch >= epoch {
                    // A record follows the unreadable one, which thus was not the end of the
                    // journal.
                    rolled_back.gap = rolled_back.gap.or(unknown);
                }
                if found.epoch >= epoch && found.page < pages {
                    let known = oldest.entry(found.page).or_insert(found);
                    if found.epoch < known.epoch {
                        *known = found;
                    }
                }
                Ok(())
            })?;
        }
        for (page, found) in &oldest {
            let (bytes, at) = (self.record_bytes(), found.index * self.record_bytes());
            let record = self.files[found.file].read_at(at, bytes as usize, Purpose::Recovery)?;
            let Some((_, _, image)) = open_record(&record, found.index, identity) else {
                let file = self.files[found.file].name();
                let expected = "the record that was read before";
                return Err(damaged_page(file, *page, at, expected, "another"));
            };
            write(*page, image)?;
            rolled_back.images.insert(*page, found.epoch);
        }
        Ok(rolled_back)
    }

    /// Returns the pages that this process has overwritten since the checkpoint `epoch`, each with
    /// the epoch of its first image. Only pages below `pages` are listed.
    pub(super) fn overwritten_since(&self, epoch: u64, pages: u64) -> BTreeMap<u64, u64> {
        let state = self.state.lock();
        let mut first: BTreeMap<u64, u64> = BTreeMap::new();
        for span in state.spans.iter().filter(|span| span.epoch >= epoch) {
            for page in span.kept.range(..pages) {
                first.entry(*page).or_insert(span.epoch);
            }
        }
        first
    }

    /// Returns an error unless the rollback restored every page in `overwritten`. This check is for
    /// copies of pages that are in use. The list must have been made before the rollback: a page
    /// that is overwritten during the rollback was copied before.
    pub(super) fn require_all(
        &self,
        rolled_back: &RolledBack,
        overwritten: BTreeMap<u64, u64>,
    ) -> Result<()> {
        let has = |page: &u64, epoch: &u64| rolled_back.images.get(page).is_some_and(|found| found <= epoch);
        match overwritten.into_iter().find(|(page, epoch)| !has(page, epoch)) {
            None => Ok(()),
            Some((page, _)) => {
                let current = self.state.lock().current;
                let (file, offset) = rolled_back.place_of(page).unwrap_or((current, 0));
                let expected = "the old image of a page that was written over";
                let file = self.files[file].name();
                Err(damaged_page(file, page, offset, expected, "no such record"))
            }
        }
    }

    /// Removes all records, which must no longer be needed. The file with the newest record is
    /// emptied first, so that the journal is still valid if a crash occurs before the other file is
    /// emptied.
    pub(super) fn empty(&self, identity: u128) -> Result<()> {
        let mut newest = Vec::new();
        for file in 0..self.files.len() {
            let mut first = 0;
            self.read(file, identity, &mut |read| {
                if let RecordRead::Genuine(found) = read {
                    first = first.max(found.epoch);
                }
                Ok(())
            })?;
            newest.push((first, file));
        }
        newest.sort_unstable();
        for (_, file) in newest.into_iter().rev() {
            let file = &self.files[file];
            if !file.is_empty() {
                file.truncate(0)?;
                file.sync(Purpose::Recovery)?;
            }
        }
        assert!(self.bytes() == 0, "no record is left");
        Ok(())
    }
}

impl PagePool {
    /// Writes the images of pages that are about to be overwritten to the journal, unless they are
    /// already there (PB6).
    pub(super) fn keep_images(&self, pages: &[u64]) -> Result<()> {
        let mut state = self.journal.state.lock();
        let last = state.last();
        let is_wanted = |page: &&u64| **page < last.checkpointed && !last.kept.contains(page);
        let wanted: Vec<u64> = pages.iter().filter(is_wanted).copied().collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let mut batch = IoBatch::with_capacity(wanted.len());
        for page in &wanted {
            batch.read(
                self.offset(*page),
                AlignedBuffer::zeroed(self.options.page_bytes),
                Purpose::Log,
            );
        }
        self.note_overwrites(&mut state)?;
        let images = self.device.run(batch)?;
        assert_eq!(images.len(), wanted.len(), "each read gives its buffer back");
        let images = wanted.into_iter().zip(images).collect();
        self.journal.append(&mut state, images, self.identity)
    }

    /// Makes the pool refuse changes after an error, unless the error is a full disk.
    pub(super) fn fail(&self, error: &Error) {
        if error.kind() != ErrorKind::Full {
            super::PageBuffer::poison(self, &error.to_string());
            assert!(super::PageBuffer::writable(self).is_err(), "changes are refused");
        }
    }
}
