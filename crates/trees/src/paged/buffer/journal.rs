//! Old images of pages: what checkpoints have where pages are written over since (PB6).
//!
//! A pool of its own has one file of records. A hosted one has two, which take turns, because it
//! does not know at once whether what it has handed out became durable. A record says of which
//! checkpoint its image is; to go back to a checkpoint, each page gets its oldest image that is of
//! that checkpoint or of a later one.

use super::format::{RECORD_HEADER, Superblock, names_of, open_record, seal_record};
use super::pool::Pool;
use crate::paged::error::damaged_page;
use alluvium_base::{ErrorKind, Purpose};
use alluvium_device::{Batch, Buffer, Device};
use alluvium_storage::{Error, Result};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Records that are read together when a file is opened.
const READ_TOGETHER: u64 = 16;
/// The file of the journal grows by at least this many records.
const LEAST_GROWTH: u64 = 64;
const _: () = assert!(LEAST_GROWTH >= READ_TOGETHER, "a read lies in the file");

/// The journal of a file of pages.
#[derive(Debug)]
pub(super) struct Journal {
    /// One, or two that take turns.
    files: Vec<Arc<dyn Device>>,
    page_bytes: usize,
    state: Mutex<State>,
}

/// What was kept since a checkpoint.
#[derive(Debug, Default)]
struct Span {
    /// The checkpoint.
    epoch: u64,
    /// Pages below this number are in it.
    checkpointed: u64,
    /// Pages whose image is synced.
    kept: BTreeSet<u64>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Of the checkpoints that may be gone back to, the oldest first; there is one at least.
    spans: Vec<Span>,
    /// The file that is written to.
    current: usize,
    /// Records in that file.
    records: u64,
    /// Images since the pool was made.
    images: u64,
    /// Copies under way: nothing is forgotten.
    holds: u32,
    /// The superblock of a hosted file as the last checkpoint wrote it, until the first page is
    /// written over.
    pub(super) still: Option<Superblock>,
}

impl State {
    fn last(&mut self) -> &mut Span {
        let last = self.spans.last_mut();
        last.expect("a journal begins behind a checkpoint (PB6)")
    }
}

/// A record that was read.
#[derive(Clone, Copy, Debug)]
struct Found {
    epoch: u64,
    page: u64,
    file: usize,
    index: u64,
}

/// What is at a place of a record.
#[derive(Clone, Copy, Debug)]
enum Read {
    /// A record.
    Genuine(Found),
    /// One whose checksum is wrong, and what it names.
    Damaged(Found),
    /// Nothing that names this store, at this index.
    Nothing(u64),
}

/// What was written back.
#[derive(Debug, Default)]
pub(super) struct RolledBack {
    /// Pages, and of which checkpoint their images are.
    pub(super) images: BTreeMap<u64, u64>,
    /// Pages that damaged records name, with the record's file and offset.
    suspects: BTreeMap<u64, (usize, u64)>,
    /// The first place without a record that lies before records.
    gap: Option<(usize, u64)>,
}

impl RolledBack {
    /// Returns in which file of the journal, and where, the image of a page is damaged, about.
    pub(super) fn place_of(&self, page: u64) -> Option<(usize, u64)> {
        self.suspects.get(&page).copied().or(self.gap)
    }
}

impl Journal {
    /// Returns the journal in files, without records, for a checkpoint of `checkpointed` pages.
    pub(super) fn new(
        files: Vec<Arc<dyn Device>>,
        page_bytes: usize,
        epoch: u64,
        checkpointed: u64,
    ) -> Journal {
        assert!(
            page_bytes.is_multiple_of(RECORD_HEADER) && !files.is_empty(),
            "records are written directly"
        );
        let span = Span {
            epoch,
            checkpointed,
            ..Span::default()
        };
        let state = State {
            spans: vec![span],
            ..State::default()
        };
        Journal {
            files,
            page_bytes,
            state: Mutex::new(state),
        }
    }

    /// Notes what the file's own superblock is before a page of its checkpoint is written over.
    pub(super) fn begin_still(&self, superblock: Superblock) {
        let mut state = self.state.lock();
        assert!(state.last().kept.is_empty(), "no page was written over (PB6)");
        state.still = Some(superblock);
    }

    pub(super) fn images(&self) -> u64 {
        self.state.lock().images
    }

    /// Nothing is forgotten until [`Journal::release`].
    pub(super) fn hold(&self) {
        let mut state = self.state.lock();
        state.holds += 1;
        assert!(!state.spans.is_empty(), "a checkpoint can be gone back to (PB8)");
    }

    pub(super) fn release(&self) {
        let mut state = self.state.lock();
        state.holds = state.holds.checked_sub(1).expect("it was held");
    }

    /// Returns whether what checkpoints need that are not durable any more may be forgotten.
    pub(super) fn is_held(&self) -> bool {
        self.state.lock().holds > 0
    }

    /// Returns the bytes of the files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len()).sum()
    }

    /// Forgets all images: a checkpoint of `checkpointed` pages is durable. The file shrinks.
    ///
    /// # Errors
    /// As the device says.
    pub(super) fn restart(&self, epoch: u64, checkpointed: u64) -> Result<()> {
        let mut state = self.state.lock();
        assert!(
            state.last().checkpointed <= checkpointed,
            "pages stay, used or free (PB7)"
        );
        state.spans = vec![Span {
            epoch,
            checkpointed,
            ..Span::default()
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

    /// Returns the oldest checkpoint that can be gone back to, once `stand` was called with the
    /// same `is_durable`.
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

    /// Begins to keep images of a further checkpoint. `is_durable` says that the one before it is
    /// what a crash leaves: those before that are forgotten, and the files change their turns.
    ///
    /// # Errors
    /// As the device says.
    pub(super) fn stand(&self, epoch: u64, checkpointed: u64, is_durable: bool) -> Result<()> {
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
        state.spans.push(Span {
            epoch,
            checkpointed,
            ..Span::default()
        });
        Ok(())
    }

    fn record_bytes(&self) -> u64 {
        (RECORD_HEADER + self.page_bytes) as u64
    }

    /// Makes sure that `more` images can be kept without the file growing.
    ///
    /// # Errors
    /// A full disk, with nothing changed.
    pub(super) fn reserve(&self, more: u64) -> Result<()> {
        let mut state = self.state.lock();
        let last = state.last();
        let left = last.checkpointed - last.kept.len() as u64;
        let wanted = state.records + more.min(left);
        self.grow(&state, wanted)
    }

    fn grow(&self, state: &State, records: u64) -> Result<()> {
        let (bytes, file) = (self.record_bytes(), &self.files[state.current]);
        if records * bytes > file.len() {
            let more = (state.records / 4).max(LEAST_GROWTH);
            file.grow((records + more) * bytes)?;
        }
        Ok(())
    }

    /// Puts images behind the journal and syncs it.
    fn append(&self, state: &mut State, images: Vec<(u64, Buffer)>, identity: u128) -> Result<()> {
        let bytes = self.record_bytes();
        self.grow(state, state.records + images.len() as u64)?;
        let epoch = state.last().epoch;
        let numbers: Vec<u64> = images.iter().map(|(page, _)| *page).collect();
        let mut batch = Batch::with_capacity(images.len());
        for (index, (page, image)) in (state.records..).zip(images) {
            let mut record = Buffer::zeroed(bytes as usize);
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

    /// Reads the records of a file. Those that are not genuine are passed over: what a crash left
    /// of the last ones was not relied upon, and what was damaged is missed by who needs it.
    /// Records of older turns of the file are of checkpoints that cannot be named any more.
    fn read(&self, file: usize, identity: u128, tell: &mut dyn FnMut(Read) -> Result<()>) -> Result<()> {
        let bytes = self.record_bytes();
        let device = &self.files[file];
        let total = device.len() / bytes;
        let mut index = 0;
        while index < total {
            let together = READ_TOGETHER.min(total - index);
            let read = device.read_at(index * bytes, (together * bytes) as usize, Purpose::Recovery)?;
            for record in read.chunks_exact(bytes as usize) {
                let found = |epoch, page| Found {
                    epoch,
                    page,
                    file,
                    index,
                };
                if let Some((epoch, page, _)) = open_record(record, index, identity) {
                    tell(Read::Genuine(found(epoch, page)))?;
                } else if let Some((epoch, page)) = names_of(record, identity) {
                    tell(Read::Damaged(found(epoch, page)))?;
                } else {
                    tell(Read::Nothing(index))?;
                }
                index += 1;
            }
        }
        assert!(index == total, "every record was read");
        Ok(())
    }

    /// Writes the images of a checkpoint of `pages` pages back.
    pub(super) fn roll_back(
        &self,
        identity: u128,
        epoch: u64,
        pages: u64,
        mut write: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<RolledBack> {
        let mut rolled_back = RolledBack::default();
        let mut oldest: BTreeMap<u64, Found> = BTreeMap::new();
        for file in 0..self.files.len() {
            let mut unknown = None;
            self.read(file, identity, &mut |read| {
                let found = match read {
                    Read::Genuine(found) => found,
                    Read::Damaged(found) => {
                        let at = found.index * self.record_bytes();
                        if found.epoch >= epoch {
                            rolled_back.suspects.entry(found.page).or_insert((file, at));
                        }
                        unknown = unknown.or(Some((file, at)));
                        return Ok(());
                    }
                    Read::Nothing(index) => {
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
                    // Records behind what cannot be read: it was not the end.
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

    /// Fails unless every page was rolled back that was written over since a checkpoint, as far as
    /// this process knows: for copies of pages that are in use.
    pub(super) fn require_all(&self, rolled_back: &RolledBack, epoch: u64, pages: u64) -> Result<()> {
        let state = self.state.lock();
        let mut first: BTreeMap<u64, u64> = BTreeMap::new();
        for span in state.spans.iter().filter(|span| span.epoch >= epoch) {
            for page in span.kept.range(..pages) {
                first.entry(*page).or_insert(span.epoch);
            }
        }
        let has = |page: &u64, epoch: &u64| rolled_back.images.get(page).is_some_and(|found| found <= epoch);
        match first.into_iter().find(|(page, epoch)| !has(page, epoch)) {
            None => Ok(()),
            Some((page, _)) => {
                let (file, offset) = rolled_back.place_of(page).unwrap_or((state.current, 0));
                let expected = "the old image of a page that was written over";
                let file = self.files[file].name();
                Err(damaged_page(file, page, offset, expected, "no such record"))
            }
        }
    }

    /// Takes all records away, once what they were for is done: that with the newest first, so
    /// that what a crash leaves is right still.
    pub(super) fn empty(&self, identity: u128) -> Result<()> {
        let mut newest = Vec::new();
        for file in 0..self.files.len() {
            let mut first = 0;
            self.read(file, identity, &mut |read| {
                if let Read::Genuine(found) = read {
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

impl Pool {
    /// Keeps the images of pages that are about to be written over (PB6).
    pub(super) fn keep_images(&self, pages: &[u64]) -> Result<()> {
        let mut state = self.journal.state.lock();
        let last = state.last();
        let is_wanted = |page: &&u64| **page < last.checkpointed && !last.kept.contains(page);
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
        self.note_overwrites(&mut state)?;
        let images = self.device.run(batch)?;
        assert_eq!(images.len(), wanted.len(), "each read gives its buffer back");
        let images = wanted.into_iter().zip(images).collect();
        self.journal.append(&mut state, images, self.identity)
    }

    /// Refuses changes after a failure of the device. A full disk is none.
    pub(super) fn fail(&self, error: &Error) {
        if error.kind() != ErrorKind::Full {
            super::PageBuffer::poison(self, &error.to_string());
            assert!(super::PageBuffer::writable(self).is_err(), "changes are refused");
        }
    }
}
