//! Changes that recovery makes to segments it keeps: it rewrites their bytes, or cuts off their
//! end.
//!
//! On copy-on-write file systems, both changes need space, which a full disk does not have. In that
//! case the changes are postponed, and the log can only be read. Without space for the first
//! segment of the new incarnation, that segment is postponed too. Postponed work must be done
//! before the first record is appended and before any record is treated as synced. Until then, no
//! file named in the previous incarnation's mark is changed or removed, so that after a crash, the
//! next recovery finds the same state.

use super::format::ALIGNMENT;
use super::pool::{SlotHeader, SlotPool};
use super::scan::{SegmentCursor, SegmentSource};
use super::segment::slot_file;
use crate::{DiskLocation, Error, OnDiskObject, Result};
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, BLOCK};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of bytes rewritten at a time.
const CHUNK: u64 = 1 << 20;
const _: () = assert!(CHUNK.is_multiple_of(BLOCK));

/// Where a segment is cut off: all records before this point are valid, and none after it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrimPoint {
    /// Position of the first record that is no longer valid.
    pub(super) at: u64,
    /// The highest sequence number before that position.
    pub(super) highest: u64,
}

/// A change that recovery makes to a segment.
#[derive(Clone, Copy, Debug)]
pub(super) enum SegmentWork {
    /// Cut off the segment at position `at`. Its records currently end at `written`.
    CutOff { at: u64, written: u64 },
    /// Rewrite the segment up to position `written`.
    Rewrite { written: u64 },
    /// Return the slot of a segment that is no longer needed to the pool. While the previous
    /// incarnation's mark is in effect, its segments must not be removed.
    FreeSlot,
}

impl SegmentWork {
    /// Makes the change to the segment.
    ///
    /// # Errors
    /// As [`cut_off`], [`write_again`] and [`SlotPool::adopt`].
    fn run(self, source: &SegmentSource, pool: &SlotPool) -> Result<()> {
        match self {
            SegmentWork::CutOff { at, written } => cut_off(source, at, written),
            SegmentWork::Rewrite { written } => write_again(source, written),
            SegmentWork::FreeSlot => pool.adopt(source.as_slot(), SlotHeader::Stale),
        }
    }
}

/// Changes that were postponed because the disk was full.
#[derive(Debug, Default)]
pub(super) struct PostponedWork {
    is_any: AtomicBool,
    works: Mutex<PostponedQueue>,
}

#[derive(Debug, Default)]
struct PostponedQueue {
    /// Whether the incarnation's first segment is still to be written. It must precede all other
    /// postponed work.
    begin: bool,
    kept: Vec<(SegmentSource, SegmentWork)>,
}

impl PostponedWork {
    /// Postpones the incarnation's first segment until the disk has space for it.
    pub(super) fn begin_later(&self) {
        self.works.lock().begin = true;
        self.is_any.store(true, Ordering::Release);
    }

    /// Makes a change to a segment, or postpones it if the disk is full or earlier work is still
    /// postponed.
    ///
    /// # Errors
    /// As [`cut_off`], [`write_again`] and [`SlotPool::adopt`]. A full disk is not an error.
    pub(super) fn run_or_postpone(
        &self,
        source: &SegmentSource,
        work: SegmentWork,
        pool: &SlotPool,
    ) -> Result<()> {
        let mut works = self.works.lock();
        // Keep the changes in order, because a segment is cut off before it is rewritten.
        let is_behind = works.begin || !works.kept.is_empty();
        let done = (!is_behind).then(|| work.run(source, pool));
        match done {
            Some(Err(error)) if !error.is_full() => return Err(error),
            Some(Ok(())) => return Ok(()),
            Some(Err(_)) | None => {}
        }
        works.kept.push((source.clone(), work));
        self.is_any.store(true, Ordering::Release);
        Ok(())
    }

    /// Performs all postponed work. If the incarnation's first segment was postponed, calls `begin`
    /// first to write it.
    ///
    /// # Errors
    /// As [`cut_off`], [`write_again`] and `begin`. If the disk is still full, the remaining work
    /// stays postponed.
    #[inline]
    pub(super) fn run_postponed(&self, pool: &SlotPool, begin: impl FnOnce() -> Result<()>) -> Result<()> {
        if !self.is_any.load(Ordering::Acquire) {
            return Ok(());
        }
        self.do_all(pool, begin)
    }

    #[cold]
    fn do_all(&self, pool: &SlotPool, begin: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut works = self.works.lock();
        if works.begin {
            begin()?;
            debug_assert!(works.begin, "an incarnation begins once");
            works.begin = false;
        }
        while let Some((source, work)) = works.kept.first() {
            work.run(source, pool)?;
            works.kept.remove(0);
        }
        self.is_any.store(false, Ordering::Release);
        Ok(())
    }
}

/// Returns where a segment must be cut off if nothing above sequence number `last` is valid.
/// Returns `None` if a valid record follows an invalid one, or if no record above `from` would be
/// left.
///
/// # Errors
/// I/O errors.
pub(super) fn trim_at(source: &SegmentSource, from: u64, last: u64) -> Result<Option<TrimPoint>> {
    let mut cursor = SegmentCursor::new(Purpose::Recovery);
    let (mut at, mut highest) = (None, 0);
    while let Some(record) = cursor.next(source)? {
        if !record.header.kind.is_numbered() {
            continue;
        }
        if record.header.last() > last {
            at = at.or(Some(record.at));
        } else if at.is_some() {
            return Ok(None);
        } else {
            highest = highest.max(record.header.last());
        }
    }
    Ok(at.filter(|_| highest > from).map(|at| TrimPoint { at, highest }))
}

/// Durably destroys everything in a segment from position `at` on. On file systems that write in
/// place, this needs no space.
///
/// # Errors
/// I/O errors.
pub(super) fn cut_off(source: &SegmentSource, at: u64, written: u64) -> Result<()> {
    debug_assert!(at.is_multiple_of(ALIGNMENT));
    let start = at / BLOCK * BLOCK;
    let end = written.next_multiple_of(BLOCK).min(source.end);
    assert!(start < end && at <= written, "{at} of {written} written bytes");
    let mut buffer = AlignedBuffer::zeroed((end - start) as usize);
    let before = (at - start) as usize;
    let block = source.file.read_at(start, BLOCK as usize, Purpose::Recovery)?;
    buffer[..before].copy_from_slice(&block[..before]);
    source.file.write_at(start, buffer, Purpose::Log)?;
    source.file.sync(Purpose::Log)?;
    Ok(())
}

/// Rewrites a segment up to position `written`, so that the next sync writes it to the device even
/// if an earlier sync failed. If the failed sync marked a page clean, the kernel may have evicted
/// the page before it was rewritten, so the records are verified once more afterwards.
///
/// # Errors
/// [`Error::Corrupt`] if the records have changed; I/O errors.
pub(super) fn write_again(source: &SegmentSource, written: u64) -> Result<()> {
    let end = written.next_multiple_of(BLOCK).min(source.end);
    let mut at = 0;
    while at < end {
        let len = CHUNK.min(end - at);
        let bytes = source.file.read_at(at, len as usize, Purpose::Recovery)?;
        source.file.write_at(at, bytes, Purpose::Log)?;
        at += len;
    }
    let mut cursor = SegmentCursor::new(Purpose::Recovery);
    while cursor.next(source)?.is_some() {}
    if cursor.position() == written {
        return Ok(());
    }
    let place = DiskLocation::new(OnDiskObject::LogRecord, slot_file(source.slot), cursor.position());
    let expected = "a record that was read before";
    Err(Error::corrupt(place, expected, "none: the device is unreliable"))
}
