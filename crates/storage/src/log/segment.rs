//! Slots and segments. A slot is a file; a segment is one use of a slot. This module hides whether
//! a file is written through a memory mapping or with write calls.

use super::format::{BLOCK_BYTES, SegmentHeader};
use crate::Result;
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, BLOCK, Device, Directory, FileMapping};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Page size in bytes, to which prefaulted and synced ranges are aligned.
const PAGE: u64 = 4096;

/// Number of times a slot is released between two background syncs of its file. These syncs prevent
/// the kernel from writing back all slots at the same time, and cost about 3 % of the log's write
/// volume. They are ten seconds apart at 200 MB/s, and half a minute at 70 MB/s.
const RELEASES_PER_SYNC: u64 = 32;

/// Number of bytes to prefault ahead of the write position, enough for a few milliseconds of
/// writes.
const AHEAD: u64 = 2 << 20;

/// Maximum number of bytes of a long record that are resident while the record is written.
const PIECE: usize = 1 << 20;
const _: () =
    assert!(PAGE.is_multiple_of(BLOCK) && AHEAD.is_multiple_of(PAGE) && (PIECE as u64).is_multiple_of(PAGE));

/// Returns the name of a slot's file.
#[must_use]
pub(super) fn slot_file(slot: u32) -> String {
    format!("log-{slot}")
}

/// Returns the slot number in a file name, or `None` if the name is not that of a slot.
#[must_use]
pub(super) fn slot_of(name: &str) -> Option<u32> {
    let number = name.strip_prefix("log-")?;
    let slot = number.parse().ok()?;
    (slot_file(slot) == name).then_some(slot)
}

/// A file that holds one segment at a time.
#[derive(Debug)]
pub(super) struct SegmentSlot {
    /// The slot number, which is the number in the name of the file.
    pub(super) index: u32,
    pub(super) file: Arc<dyn Device>,
    pub(super) len: u64,
    /// Whether the slot was created for a single record longer than a segment. Its pages are
    /// dropped from memory as soon as they are written.
    pub(super) is_long: bool,
    mapping: OnceLock<FileMapping>,
    /// Whether the file's name and size are known to be durable.
    proven: AtomicBool,
    /// All pages below this offset have been prefaulted since the slot was last given to a lane.
    populated: AtomicU64,
    /// The pages from the write position to this offset were prefaulted recently.
    ahead: AtomicU64,
    releases: AtomicU64,
}

impl SegmentSlot {
    /// Creates a slot for an open file whose name and size may not be durable yet.
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

    /// Makes the name and the size of the file durable, unless they are known to be durable
    /// already.
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

    /// Returns the memory mapping of the whole file, which the first call creates.
    ///
    /// # Errors
    /// `Unsupported` if the file system does not support memory mappings; I/O errors.
    pub(super) fn map(&self) -> alluvium_device::Result<&FileMapping> {
        if let Some(mapping) = self.mapping.get() {
            return Ok(mapping);
        }
        let mapping = self.file.map(0..self.len)?;
        Ok(self.mapping.get_or_init(|| mapping))
    }

    /// Returns the memory mapping of the file, or `None` if the file is not mapped.
    #[must_use]
    pub(super) fn mapping(&self) -> Option<&FileMapping> {
        self.mapping.get()
    }

    /// Returns how many bytes of the slot may be resident and are therefore charged to the memory
    /// budget.
    #[must_use]
    pub(super) fn resident(&self) -> u64 {
        let is_kept = self.mapping.get().is_some() && !self.is_long;
        if is_kept { self.len } else { 0 }
    }

    /// At every 32nd release of the slot, syncs its file even though the released data is no longer
    /// needed. Otherwise the kernel would write back all slots at once about every half minute,
    /// which would stall the log's writers. Different slots are synced at different releases.
    ///
    /// # Errors
    /// I/O errors, after which the file can no longer be used.
    pub(super) fn sync_in_background(&self) -> alluvium_device::Result<()> {
        let releases = self.releases.fetch_add(1, Ordering::Relaxed) + 1;
        if self.mapping.get().is_some() && releases.is_multiple_of(RELEASES_PER_SYNC) {
            self.file.sync(Purpose::Log)?;
        }
        Ok(())
    }

    /// Forgets which pages were prefaulted, because the slot will be reused from its start.
    pub(super) fn forget_populated(&self) {
        self.populated.store(0, Ordering::Relaxed);
        self.ahead.store(0, Ordering::Relaxed);
    }

    /// Prefaults up to `bytes` bytes of pages at or after offset `from` that have not been
    /// prefaulted yet. Returns the number of bytes prefaulted.
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

    /// Prefaults the pages ahead of write position `at`, even if they were prefaulted before: half
    /// a minute after the first page of a file becomes dirty, the kernel writes back and
    /// write-protects all pages of the file, and a page prefaulted earlier would then fault again.
    /// Returns the number of bytes prefaulted, which is 0 while enough pages are ready.
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

    /// Prefaults a range of pages, and returns its size in bytes.
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

/// One use of a slot, containing consecutive records of one lane.
#[derive(Debug)]
pub(super) struct LogSegment {
    pub(super) slot: Arc<SegmentSlot>,
    pub(super) header: SegmentHeader,
    /// The checksum seed from which the seeds of the segment's records are derived.
    pub(super) seed: u64,
    /// Whether recovery found the segment. If so, it is read-only, and its file is synced as a
    /// whole.
    recovered: bool,
    /// Whether a lane still appends to the segment.
    active: AtomicBool,
    /// The write position: all bytes below this offset are in the page cache.
    written: AtomicU64,
    /// All bytes below this offset are durable.
    synced: AtomicU64,
    /// The highest sequence number in the segment, or 0 if it contains no record.
    highest: AtomicU64,
    /// All sequence numbers in the segment are above this number.
    pub(super) above: u64,
}

impl LogSegment {
    /// Creates a segment for a lane to append to. Every sequence number up to `above` must be
    /// complete.
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

    /// Creates a segment that recovery found and keeps until it is released. Its bytes count as not
    /// durable at first.
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

    /// Returns the write position: all bytes below it are in the page cache.
    #[must_use]
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Returns the synced position: all bytes below it are durable.
    #[must_use]
    pub(super) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Returns the highest sequence number in the segment, or 0 if it contains no record.
    #[must_use]
    pub(super) fn highest(&self) -> u64 {
        self.highest.load(Ordering::Acquire)
    }

    /// Returns whether a lane still appends to the segment.
    #[must_use]
    pub(super) fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    /// Marks the segment as closed: its lane no longer appends to it.
    pub(super) fn retire(&self) {
        self.active.store(false, Ordering::Release);
    }

    /// Advances the write position to `end`. All bytes below `end` must be in the page cache.
    pub(super) fn set_written(&self, end: u64) {
        debug_assert!(end <= self.slot.len, "{end} of a slot of {} bytes", self.slot.len);
        debug_assert!(end >= self.written(), "records follow each other (L3)");
        self.written.store(end, Ordering::Release);
    }

    /// Records that the segment contains sequence number `last`.
    pub(super) fn holds(&self, last: u64) {
        debug_assert!(last > self.above, "{last} is not above {} (L4)", self.above);
        if last > self.highest.load(Ordering::Relaxed) {
            self.highest.store(last, Ordering::Release);
        }
    }

    /// Makes everything written to the segment before this call durable. Returns whether a sync was
    /// necessary.
    ///
    /// # Errors
    /// I/O errors, after which the file can no longer be used.
    pub(super) fn sync(&self) -> Result<bool> {
        let (from, to) = (self.synced(), self.written());
        if from >= to {
            return Ok(false);
        }
        match self.slot.mapping() {
            Some(mapping) if !self.recovered => {
                mapping.sync(from..to, Purpose::Log)?;
                // The sync has left the pages clean and write-protected. The next record begins on
                // the last of them, so prefault that page again.
                let page = (to - 1) / PAGE * PAGE;
                // Prefaulting is only a hint. If it fails, writing the record will report the
                // failure.
                let _ = mapping.populate(page..self.slot.len.min(page + 2 * PAGE));
            }
            _ => self.slot.file.sync(Purpose::Log)?,
        }
        debug_assert!(from < to && to <= self.slot.len, "synced from {from} to {to}");
        self.synced.fetch_max(to, Ordering::AcqRel);
        Ok(true)
    }
}

/// How a lane writes to its slot.
#[derive(Debug)]
pub(super) enum SegmentWriter {
    /// Writes to the slot's memory mapping.
    Mapped(FileMapping),
    /// Writes a long record to the memory mapping in pieces, and drops each piece from memory
    /// immediately.
    Passing(FileMapping),
    /// Issues write calls of whole blocks.
    Written(TailBuffer),
}

/// Maximum size in bytes of a single write call, and of the buffer that is kept after it. The limit
/// ensures that a long record is never in memory twice.
const AT_ONCE: usize = 1 << 20;
const _: () = assert!((AT_ONCE as u64).is_multiple_of(BLOCK));

/// The bytes that follow the last whole block of the file, some of which may not be written yet.
#[derive(Debug, Default)]
pub(super) struct TailBuffer {
    /// Offset of `bytes` in the file, which is a multiple of the block size.
    start: u64,
    bytes: Vec<u8>,
    /// Number of leading bytes of `bytes` that are already in the file.
    flushed: usize,
    /// The buffer of the last write call, for reuse if the next write has the same size.
    spare: Option<AlignedBuffer>,
}

impl TailBuffer {
    /// Appends the parts, followed by zeros up to a total of `padded` bytes.
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

    /// Returns the number of bytes that are not yet written.
    #[must_use]
    pub(super) fn waiting(&self) -> usize {
        self.bytes.len() - self.flushed
    }

    /// Writes all bytes that are not yet written, padding the last block with zeros.
    ///
    /// # Errors
    /// I/O errors. The bytes are kept and can be flushed again.
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
    /// Creates a writer for the slot, positioned at its first byte.
    #[must_use]
    pub(super) fn new(slot: &SegmentSlot) -> SegmentWriter {
        match slot.mapping() {
            Some(mapping) if slot.is_long => SegmentWriter::Passing(mapping.clone()),
            Some(mapping) => SegmentWriter::Mapped(mapping.clone()),
            None => SegmentWriter::Written(TailBuffer::default()),
        }
    }

    /// Writes the parts at offset `at`, followed by padding up to a total of `padded` bytes. `at`
    /// must be the end of the previous write.
    ///
    /// # Safety
    /// The caller must be the only writer of this slot.
    #[inline]
    pub(super) unsafe fn put<const N: usize>(&mut self, at: u64, parts: [&[u8]; N], padded: u64) {
        match self {
            SegmentWriter::Mapped(mapping) => {
                let mut at = at as usize;
                for part in parts {
                    // SAFETY: the caller is the only writer of the slot. A thread that syncs the
                    // slot reads it only through the kernel.
                    unsafe { mapping.write(at, part) };
                    at += part.len();
                }
            }
            SegmentWriter::Passing(mapping) => {
                let mut at = at as usize;
                for piece in parts.iter().flat_map(|part| part.chunks(PIECE)) {
                    // SAFETY: the caller is the only writer of the slot, as for a mapped slot
                    // above.
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

    /// Discards the bytes from offset `at` on, which must not have been written yet.
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

    /// Returns whether a write to the mapping has failed, in which case the last bytes may be lost.
    #[must_use]
    pub(super) fn is_broken(&self) -> bool {
        match self {
            SegmentWriter::Mapped(mapping) | SegmentWriter::Passing(mapping) => mapping.is_broken(),
            SegmentWriter::Written(_) => false,
        }
    }

    /// Returns the number of bytes that have not reached the page cache yet. For tests only.
    #[cfg(test)]
    #[must_use]
    pub(super) fn waiting(&self) -> usize {
        match self {
            SegmentWriter::Mapped(_) | SegmentWriter::Passing(_) => 0,
            SegmentWriter::Written(tail) => tail.waiting(),
        }
    }

    /// Writes all remaining bytes to the page cache.
    ///
    /// # Errors
    /// I/O errors. The bytes are kept and can be flushed again.
    #[inline]
    pub(super) fn flush(&mut self, slot: &SegmentSlot) -> Result<()> {
        match self {
            SegmentWriter::Mapped(_) | SegmentWriter::Passing(_) => Ok(()),
            SegmentWriter::Written(tail) => tail.flush(slot.file.as_ref()),
        }
    }
}

/// Durably destroys a segment by overwriting its header block with zeros.
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
                    // SAFETY: this thread is the only writer of the slot.
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
        // Other tests in this process may map files during a measurement and inflate its result, so
        // measure five times and check only the smallest growth.
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
            // SAFETY: this thread is the only writer of the slot.
            unsafe { SegmentWriter::new(&slot).put(0, [&[1; 512], &value], len) };
            let grown = resident_of_files().saturating_sub(before);
            let read = slot.file.read_at(0, 16 * PIECE, Purpose::Other).unwrap();
            assert!(read[..512] == [1; 512] && read[512..].iter().all(|&byte| byte == 7));
            grown
        });
        let least = grown.min().unwrap();
        assert!(least < 4 * PIECE as u64, "{least} bytes stay");
    }

    /// Returns how many bytes of mapped files are resident in this process according to Linux, or 0
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
            // The writer has moved past all prefaulted pages in the meantime.
            assert_eq!(slot.populate_ahead(2 * AHEAD + 7).unwrap(), AHEAD + PAGE);
            // Prefaulting stops at the end of the slot.
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
        // SAFETY: this thread is the only writer of the slot.
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
