//! Slots and segments: a slot is a file, a segment is one use of it. Mapped stores and write calls
//! share one interface here.

use super::format::{BLOCK_BYTES, SegmentHeader};
use crate::Result;
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, BLOCK, Device, Directory, FileMapping};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Page size for populating and syncing.
const PAGE: u64 = 4096;

/// Number of releases of a slot between two background syncs of it, which prevent the kernel from
/// writing back all slots at once. The syncs cost about 3 % of the log's bytes. They are ten
/// seconds apart at 200 MB/s, and half a minute at 70 MB/s.
const RELEASES_PER_SYNC: u64 = 32;

/// How far ahead of a writer pages are touched: enough for some milliseconds.
const AHEAD: u64 = 2 << 20;

/// Bytes of a long record that are resident at a time while it is stored.
const PIECE: usize = 1 << 20;
const _: () =
    assert!(PAGE.is_multiple_of(BLOCK) && AHEAD.is_multiple_of(PAGE) && (PIECE as u64).is_multiple_of(PAGE));

/// Returns the name of a slot's file.
#[must_use]
pub(super) fn slot_file(slot: u32) -> String {
    format!("log-{slot}")
}

/// Returns the slot number of a file name, if it is one of the log's.
#[must_use]
pub(super) fn slot_of(name: &str) -> Option<u32> {
    let number = name.strip_prefix("log-")?;
    let slot = number.parse().ok()?;
    (slot_file(slot) == name).then_some(slot)
}

/// A file that contains segments, one after another.
#[derive(Debug)]
pub(super) struct SegmentSlot {
    /// The number in the file's name.
    pub(super) index: u32,
    pub(super) file: Arc<dyn Device>,
    pub(super) len: u64,
    /// Whether the slot was created for one record longer than a segment. Its pages do not stay
    /// resident.
    pub(super) is_long: bool,
    mapping: OnceLock<FileMapping>,
    /// Whether its name and size are known to be durable.
    proven: AtomicBool,
    /// Pages below this offset were touched since the slot was last handed out.
    populated: AtomicU64,
    /// Pages from the writer's position up to this offset were touched recently.
    ahead: AtomicU64,
    releases: AtomicU64,
}

impl SegmentSlot {
    /// Creates a slot for an open file, whose name and size may not be durable.
    #[must_use]
    pub(super) fn new(index: u32, file: Arc<dyn Device>, len: u64) -> SegmentSlot {
        SegmentSlot {
            index,
            file,
            len,
            is_long: false,
            mapping: OnceLock::new(),
            proven: AtomicBool::new(false),
            populated: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
            releases: AtomicU64::new(u64::from(index)),
        }
    }

    /// Makes the file's name and size durable, unless they are known to be.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn prove(&self, directory: &dyn Directory) -> alluvium_device::Result<()> {
        if !self.proven.load(Ordering::Acquire) {
            self.file.sync(Purpose::Log)?;
            directory.sync()?;
            self.proven.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Returns the mapping of the whole file, created by the first call.
    ///
    /// # Errors
    /// `Unsupported` if files cannot be mapped; I/O errors.
    pub(super) fn map(&self) -> alluvium_device::Result<&FileMapping> {
        if let Some(mapping) = self.mapping.get() {
            return Ok(mapping);
        }
        let mapping = self.file.map(0..self.len)?;
        Ok(self.mapping.get_or_init(|| mapping))
    }

    /// Returns the mapping, if there is one.
    #[must_use]
    pub(super) fn mapping(&self) -> Option<&FileMapping> {
        self.mapping.get()
    }

    /// Returns the bytes that may be resident and are charged to the budget.
    #[must_use]
    pub(super) fn resident(&self) -> u64 {
        let is_kept = self.mapping.get().is_some() && !self.is_long;
        if is_kept { self.len } else { 0 }
    }

    /// Syncs the slot at every 32nd release, at a different time for each slot, although its bytes
    /// are no longer needed on the device. Otherwise the kernel would write back all slots at once,
    /// about every half minute, and delay the log's writers.
    ///
    /// # Errors
    /// I/O errors; they poison the file.
    pub(super) fn sync_in_background(&self) -> alluvium_device::Result<()> {
        let releases = self.releases.fetch_add(1, Ordering::Relaxed) + 1;
        if self.mapping.get().is_some() && releases.is_multiple_of(RELEASES_PER_SYNC) {
            self.file.sync(Purpose::Log)?;
        }
        Ok(())
    }

    /// Forgets which pages were touched.
    pub(super) fn forget_populated(&self) {
        self.populated.store(0, Ordering::Relaxed);
        self.ahead.store(0, Ordering::Relaxed);
    }

    /// Touches at most `bytes` of the untouched pages from `from` on. Returns the number of bytes
    /// touched.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn populate(&self, from: u64, bytes: u64) -> Result<u64> {
        let Some(mapping) = self.mapping.get() else {
            return Ok(0);
        };
        let start = self.populated.load(Ordering::Relaxed).max(from / PAGE * PAGE);
        self.touch(mapping, start..self.len.min(start.saturating_add(bytes)))
    }

    /// Touches the pages ahead of a writer at `at`, even if they were touched before: the kernel
    /// writes back all pages of a file when the first of them has been dirty for half a minute, and
    /// write-protects them, so that pages prepared earlier fault again, one by one. Returns the
    /// number of bytes touched; 0 while enough of them are ready.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn populate_ahead(&self, at: u64) -> Result<u64> {
        let Some(mapping) = self.mapping.get() else {
            return Ok(0);
        };
        let start = self.ahead.load(Ordering::Relaxed).max(at / PAGE * PAGE);
        let end = self.len.min(at.div_ceil(PAGE) * PAGE + AHEAD);
        if start > at + AHEAD / 2 {
            return Ok(0);
        }
        let touched = self.touch(mapping, start..end)?;
        self.ahead.fetch_max(end, Ordering::Relaxed);
        Ok(touched)
    }

    /// Touches these pages. Returns their size in bytes.
    fn touch(&self, mapping: &FileMapping, pages: Range<u64>) -> Result<u64> {
        if pages.is_empty() {
            return Ok(0);
        }
        debug_assert!(pages.end <= self.len, "{pages:?} of a slot of {} bytes", self.len);
        mapping.populate(pages.clone())?;
        self.populated.fetch_max(pages.end, Ordering::Relaxed);
        Ok(pages.end - pages.start)
    }
}

/// One use of a slot: part of the records of one lane.
#[derive(Debug)]
pub(super) struct LogSegment {
    pub(super) slot: Arc<SegmentSlot>,
    pub(super) header: SegmentHeader,
    /// The seed of its record checksums.
    pub(super) seed: u64,
    /// Whether it was found by recovery. It is then read-only, and synced as a file.
    recovered: bool,
    /// Whether a lane still writes it.
    active: AtomicBool,
    /// The write position: everything below is in the page cache.
    written: AtomicU64,
    /// Everything below this offset is durable.
    synced: AtomicU64,
    /// The highest sequence in it, 0 if none.
    highest: AtomicU64,
    /// All its sequences are above this one.
    pub(super) above: u64,
}

impl LogSegment {
    /// Creates a segment that a lane begins to write. Everything up to `above` is complete.
    #[must_use]
    pub(super) fn begun(slot: Arc<SegmentSlot>, header: SegmentHeader, above: u64) -> LogSegment {
        LogSegment {
            slot,
            header,
            seed: header.seed(),
            recovered: false,
            active: AtomicBool::new(true),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            highest: AtomicU64::new(0),
            above,
        }
    }

    /// Creates a segment that recovery keeps until it is released. None of it counts as durable.
    #[must_use]
    pub(super) fn recovered(
        slot: Arc<SegmentSlot>,
        header: SegmentHeader,
        written: u64,
        highest: u64,
    ) -> LogSegment {
        LogSegment {
            recovered: true,
            active: AtomicBool::new(false),
            written: AtomicU64::new(written),
            highest: AtomicU64::new(highest),
            ..LogSegment::begun(slot, header, 0)
        }
    }

    /// Returns the write position: everything below is in the page cache.
    #[must_use]
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Returns the synced position: everything below is durable.
    #[must_use]
    pub(super) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Returns the highest sequence in it, 0 if none.
    #[must_use]
    pub(super) fn highest(&self) -> u64 {
        self.highest.load(Ordering::Acquire)
    }

    /// Returns whether a lane still writes it.
    #[must_use]
    pub(super) fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    /// Marks the segment as no longer written by its lane.
    pub(super) fn retire(&self) {
        self.active.store(false, Ordering::Release);
    }

    /// Sets the write position: everything below `end` is in the page cache.
    pub(super) fn set_written(&self, end: u64) {
        debug_assert!(end <= self.slot.len, "{end} of a slot of {} bytes", self.slot.len);
        debug_assert!(end >= self.written(), "records follow each other (L3)");
        self.written.store(end, Ordering::Release);
    }

    /// Records that it contains sequence `last`.
    pub(super) fn holds(&self, last: u64) {
        debug_assert!(last > self.above, "{last} is not above {} (L4)", self.above);
        if last > self.highest.load(Ordering::Relaxed) {
            self.highest.store(last, Ordering::Release);
        }
    }

    /// Makes everything written before this call durable, unless it already is. Returns whether a
    /// sync was needed.
    ///
    /// # Errors
    /// I/O errors; they poison the file.
    pub(super) fn sync(&self) -> Result<bool> {
        let (from, to) = (self.synced(), self.written());
        if from >= to {
            return Ok(false);
        }
        match self.slot.mapping() {
            Some(mapping) if !self.recovered => {
                mapping.sync(from..to, Purpose::Log)?;
                // The sync left the pages clean and write-protected, and the next record goes to
                // the last of them.
                let page = (to - 1) / PAGE * PAGE;
                // A hint: a failure would also show in the store itself.
                let _ = mapping.populate(page..self.slot.len.min(page + 2 * PAGE));
            }
            _ => self.slot.file.sync(Purpose::Log)?,
        }
        debug_assert!(from < to && to <= self.slot.len, "synced from {from} to {to}");
        self.synced.fetch_max(to, Ordering::AcqRel);
        Ok(true)
    }
}

/// How a lane writes bytes: stores into a mapping, or write calls of whole blocks.
#[derive(Debug)]
pub(super) enum SegmentWriter {
    /// Stores into the slot's mapping.
    Mapped(FileMapping),
    /// Stores into the mapping piece by piece, releasing each piece from memory at once.
    Passing(FileMapping),
    /// Write calls of whole blocks.
    Written(TailBuffer),
}

/// Maximum size in bytes of a single write call and of the buffer kept afterwards, so that a long
/// record is not in memory twice.
const AT_ONCE: usize = 1 << 20;
const _: () = assert!((AT_ONCE as u64).is_multiple_of(BLOCK));

/// The bytes after the last whole block written, including those not written yet.
#[derive(Debug, Default)]
pub(super) struct TailBuffer {
    /// The file offset of `bytes`, a multiple of the block size.
    start: u64,
    bytes: Vec<u8>,
    /// Number of `bytes` already written to the file.
    flushed: usize,
    /// The buffer of the last write, reused for the next one of the same size.
    spare: Option<AlignedBuffer>,
}

impl TailBuffer {
    /// Appends `parts`, and zeros up to a length of `padded`.
    fn extend<const N: usize>(&mut self, parts: [&[u8]; N], padded: u64) {
        debug_assert!(
            parts.iter().map(|part| part.len()).sum::<usize>() <= padded as usize,
            "a record fits its place"
        );
        let end = self.bytes.len() + padded as usize;
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.bytes.resize(end, 0);
    }

    /// Returns the number of bytes not written yet.
    #[must_use]
    pub(super) fn waiting(&self) -> usize {
        self.bytes.len() - self.flushed
    }

    /// Writes the pending bytes in whole blocks.
    ///
    /// # Errors
    /// I/O errors; the bytes stay pending.
    pub(super) fn flush(&mut self, file: &dyn Device) -> Result<()> {
        if self.waiting() == 0 {
            return Ok(());
        }
        debug_assert!(
            self.start.is_multiple_of(BLOCK) && self.flushed <= self.bytes.len(),
            "whole blocks are written"
        );
        let mut at = self.start;
        for piece in self.bytes.chunks(AT_ONCE) {
            let len = piece.len().next_multiple_of(BLOCK as usize);
            let mut buffer = match self.spare.take() {
                Some(spare) if spare.len() == len => spare,
                _ => AlignedBuffer::zeroed(len),
            };
            buffer[..piece.len()].copy_from_slice(piece);
            buffer[piece.len()..].fill(0);
            self.spare = Some(file.write_at(at, buffer, Purpose::Log)?);
            at += len as u64;
        }
        let whole = self.bytes.len() / BLOCK as usize * BLOCK as usize;
        self.bytes.drain(..whole);
        self.bytes.shrink_to(AT_ONCE);
        self.start += whole as u64;
        self.flushed = self.bytes.len();
        Ok(())
    }
}

impl SegmentWriter {
    /// Creates a writer at the slot's first byte.
    #[must_use]
    pub(super) fn new(slot: &SegmentSlot) -> SegmentWriter {
        match slot.mapping() {
            Some(mapping) if slot.is_long => SegmentWriter::Passing(mapping.clone()),
            Some(mapping) => SegmentWriter::Mapped(mapping.clone()),
            None => SegmentWriter::Written(TailBuffer::default()),
        }
    }

    /// Writes the parts at `at`, the end of the previous write, and advances by `padded` bytes.
    ///
    /// # Safety
    /// The caller is the only writer of this slot.
    #[inline]
    pub(super) unsafe fn put<const N: usize>(&mut self, at: u64, parts: [&[u8]; N], padded: u64) {
        match self {
            SegmentWriter::Mapped(mapping) => {
                let mut at = at as usize;
                for part in parts {
                    // SAFETY: the slot has one writer, the caller; a thread that syncs it reads it
                    // through the kernel.
                    unsafe { mapping.write(at, part) };
                    at += part.len();
                }
            }
            SegmentWriter::Passing(mapping) => {
                let mut at = at as usize;
                for piece in parts.iter().flat_map(|part| part.chunks(PIECE)) {
                    // SAFETY: as above.
                    unsafe { mapping.write(at, piece) };
                    mapping.release_pages(at as u64..(at + piece.len()) as u64);
                    at += piece.len();
                }
            }
            SegmentWriter::Written(tail) => {
                debug_assert_eq!(tail.start + tail.bytes.len() as u64, at);
                tail.extend(parts, padded);
            }
        }
    }

    /// Discards the bytes from `at` on that were not written yet.
    pub(super) fn take_back(&mut self, at: u64) {
        if let SegmentWriter::Written(tail) = self {
            assert!(
                at >= tail.start,
                "what stands before {} is written already, {at} is not taken back",
                tail.start
            );
            tail.bytes.truncate((at - tail.start) as usize);
            tail.flushed = tail.flushed.min(tail.bytes.len());
        }
    }

    /// Returns whether a store has failed, so that the last bytes may be lost.
    #[must_use]
    pub(super) fn is_broken(&self) -> bool {
        match self {
            SegmentWriter::Mapped(mapping) | SegmentWriter::Passing(mapping) => mapping.is_broken(),
            SegmentWriter::Written(_) => false,
        }
    }

    /// Returns the number of bytes that are not in the page cache yet, for tests.
    #[cfg(test)]
    #[must_use]
    pub(super) fn waiting(&self) -> usize {
        match self {
            SegmentWriter::Mapped(_) | SegmentWriter::Passing(_) => 0,
            SegmentWriter::Written(tail) => tail.waiting(),
        }
    }

    /// Writes all pending bytes to the page cache.
    ///
    /// # Errors
    /// I/O errors; the bytes stay pending.
    #[inline]
    pub(super) fn flush(&mut self, slot: &SegmentSlot) -> Result<()> {
        match self {
            SegmentWriter::Mapped(_) | SegmentWriter::Passing(_) => Ok(()),
            SegmentWriter::Written(tail) => tail.flush(slot.file.as_ref()),
        }
    }
}

/// Durably destroys a segment by zeroing its header block.
///
/// # Errors
/// I/O errors.
pub(super) fn void(file: &dyn Device) -> Result<()> {
    if file.len() >= BLOCK_BYTES as u64 {
        file.write_at(0, AlignedBuffer::zeroed(BLOCK_BYTES), Purpose::Log)?;
        file.sync(Purpose::Log)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_device::FileOptions;
    use alluvium_device::file::FileDirectory;
    use alluvium_device::memory::MemoryDirectory;

    #[test]
    fn slot_names_are_read_back_and_others_are_not_ours() {
        assert_eq!(slot_of(&slot_file(17)), Some(17));
        for other in [
            "log-",
            "log-01",
            "log-x",
            "log-+1",
            "superblock",
            "log-4294967296",
        ] {
            assert_eq!(slot_of(other), None, "{other}");
        }
    }

    #[test]
    fn all_pens_leave_the_same_bytes() {
        let directory = MemoryDirectory::new();
        let contents: Vec<Vec<u8>> = [(true, false), (true, true), (false, false)]
            .into_iter()
            .zip(0..)
            .map(|((mapped, is_long), number)| {
                let file = directory
                    .create(&slot_file(number), FileOptions::BUFFERED)
                    .unwrap();
                file.grow(8192).unwrap();
                let slot = SegmentSlot {
                    is_long,
                    ..SegmentSlot::new(0, file, 8192)
                };
                if mapped {
                    slot.map().unwrap();
                }
                let mut pen = SegmentWriter::new(&slot);
                let mut at = 0;
                for len in [512u64, 40, 200, 1000, 16, 2048] {
                    let bytes = vec![len as u8 | 1; len as usize];
                    // SAFETY: this thread alone writes the slot.
                    unsafe { pen.put(at, [&bytes[..8], &bytes[8..]], len) };
                    at += len;
                    if len != 200 {
                        pen.flush(&slot).unwrap();
                        assert_eq!(pen.waiting(), 0);
                    }
                }
                slot.file.read_at(0, 8192, Purpose::Other).unwrap().to_vec()
            })
            .collect();
        assert!(contents[0] == contents[1] && contents[0] == contents[2]);
    }

    #[test]
    fn what_a_passing_pen_stores_is_in_the_file_and_not_in_memory() {
        let place = tempfile::tempdir().unwrap();
        let directory = FileDirectory::create(place.path()).unwrap();
        let (value, len) = (vec![7; 16 * PIECE], 17 * PIECE as u64);
        // Other tests map files concurrently, so one small measurement is sufficient.
        let grown = (0..5).map(|number| {
            let file = directory
                .create(&slot_file(number), FileOptions::BUFFERED)
                .unwrap();
            file.grow(len).unwrap();
            let slot = SegmentSlot {
                is_long: true,
                ..SegmentSlot::new(number, file, len)
            };
            slot.map().unwrap();
            assert_eq!(slot.resident(), 0);
            let before = resident_of_files();
            // SAFETY: this thread alone writes the slot.
            unsafe { SegmentWriter::new(&slot).put(0, [&[1; 512], &value], len) };
            let grown = resident_of_files().saturating_sub(before);
            let read = slot.file.read_at(0, 16 * PIECE, Purpose::Other).unwrap();
            assert!(read[..512] == [1; 512] && read[512..].iter().all(|&byte| byte == 7));
            grown
        });
        let least = grown.min().unwrap();
        assert!(least < 4 * PIECE as u64, "{least} bytes stay");
    }

    /// Returns the bytes of files mapped by this process that are resident, according to Linux; 0
    /// on other systems.
    fn resident_of_files() -> u64 {
        alluvium_device::machine::memory_of_process("RssFile").unwrap_or(0)
    }

    fn mapped(index: u32, len: u64) -> (MemoryDirectory, SegmentSlot) {
        let directory = MemoryDirectory::new();
        let file = directory
            .create(&slot_file(index), FileOptions::BUFFERED)
            .unwrap();
        file.grow(len).unwrap();
        let slot = SegmentSlot::new(index, file, len);
        slot.map().unwrap();
        (directory, slot)
    }

    #[test]
    fn pages_ahead_of_a_writer_are_touched_again_however_ready_they_were() {
        let (_directory, slot) = mapped(0, 4 * AHEAD);
        while slot.populate(0, AHEAD).unwrap() > 0 {}
        for _ in 0..2 {
            assert_eq!(slot.populate_ahead(0).unwrap(), AHEAD);
            assert_eq!(slot.populate_ahead(0).unwrap(), 0);
            assert_eq!(slot.populate_ahead(AHEAD / 2 - 1).unwrap(), 0);
            assert_eq!(slot.populate_ahead(AHEAD / 2).unwrap(), AHEAD / 2);
            // No page was touched ahead while the writer wrote all prepared pages and more.
            assert_eq!(slot.populate_ahead(2 * AHEAD + 7).unwrap(), AHEAD + PAGE);
            // The end of the slot.
            assert_eq!(slot.populate_ahead(4 * AHEAD - PAGE - 1).unwrap(), 2 * PAGE);
            assert_eq!(slot.populate_ahead(4 * AHEAD).unwrap(), 0);
            slot.forget_populated();
        }
    }

    #[test]
    fn slots_are_rinsed_at_different_releases() {
        let mut rinsed = Vec::new();
        for index in 0..RELEASES_PER_SYNC as u32 {
            let (directory, slot) = mapped(index, PAGE);
            let syncs = || directory.counters().snapshot().of(Purpose::Log).syncs;
            let at: Vec<u64> = (1..=2 * RELEASES_PER_SYNC)
                .filter(|_| {
                    let before = syncs();
                    slot.sync_in_background().unwrap();
                    syncs() > before
                })
                .collect();
            assert_eq!(at.len(), 2);
            assert_eq!(at[1] - at[0], RELEASES_PER_SYNC);
            rinsed.push(at[0]);
        }
        rinsed.sort_unstable();
        assert_eq!(rinsed, (1..=RELEASES_PER_SYNC).collect::<Vec<_>>());
        let directory = MemoryDirectory::new();
        let file = directory.create("log-0", FileOptions::BUFFERED).unwrap();
        let written = SegmentSlot::new(RELEASES_PER_SYNC as u32 - 1, file, 0);
        written.sync_in_background().unwrap();
        assert_eq!(
            directory.counters().snapshot().of(Purpose::Log).syncs,
            0,
            "what is written with calls is at the device's sooner or later anyway"
        );
    }

    #[test]
    fn what_is_taken_back_is_not_written() {
        let directory = MemoryDirectory::new();
        let file = directory.create("log-0", FileOptions::BUFFERED).unwrap();
        file.grow(4096).unwrap();
        let slot = SegmentSlot::new(0, file, 4096);
        let mut pen = SegmentWriter::new(&slot);
        // SAFETY: this thread alone writes the slot.
        unsafe {
            pen.put(0, [&[1; 8], &[]], 8);
            pen.flush(&slot).unwrap();
            pen.put(8, [&[2; 8], &[]], 8);
            pen.take_back(8);
            pen.put(8, [&[3; 4], &[3; 4]], 8);
        }
        pen.flush(&slot).unwrap();
        let bytes = slot.file.read_at(0, 512, Purpose::Other).unwrap();
        assert_eq!(&bytes[..17], &[1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3, 0]);
    }
}
