//! The changes that a recovery makes to the segments that it keeps in place: it rewrites their
//! bytes and cuts off their ends.
//!
//! On copy-on-write file systems both need space, which a full disk does not have. The log then
//! still opens for reading, and the work is postponed; so is the first segment of the new
//! incarnation if there is no space for it. The postponed work is done before the first record is
//! appended and before anything counts as synced. Until then, no file that the previous
//! incarnation's mark names is changed or removed, so that the next recovery after a crash finds
//! the same state.

use super::format::ALIGNMENT;
use super::pool::{SlotHeader, SlotPool};
use super::scan::{SegmentCursor, SegmentSource};
use super::segment::slot_file;
use crate::{DiskLocation, Error, OnDiskObject, Result};
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, BLOCK};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes rewritten at a time.
const CHUNK: u64 = 1 << 20;
const _: () = assert!(CHUNK.is_multiple_of(BLOCK));

/// The place where a segment is cut off: all records before it are valid, and none after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrimPoint {
    /// Position of the first invalid record.
    pub(super) at: u64,
    /// The highest sequence before that position.
    pub(super) highest: u64,
}

/// The work to be done on a segment.
#[derive(Clone, Copy, Debug)]
pub(super) enum SegmentWork {
    /// Cut off everything from `at` on. The segment is written up to `written`.
    CutOff { at: u64, written: u64 },
    /// Rewrite everything up to `written`.
    Rewrite { written: u64 },
    /// Free the slot: the segment is no longer needed. While the previous incarnation's mark is
    /// valid, its segments must stay.
    FreeSlot,
}

impl SegmentWork {
    /// Does the work.
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

/// Work postponed because the disk was full.
#[derive(Debug, Default)]
pub(super) struct PostponedWork {
    is_any: AtomicBool,
    works: Mutex<PostponedQueue>,
}

#[derive(Debug, Default)]
struct PostponedQueue {
    /// Whether the incarnation still needs its first segment, which precedes all other work.
    begin: bool,
    kept: Vec<(SegmentSource, SegmentWork)>,
}

impl PostponedWork {
    /// Postpones the first segment of the incarnation until the disk has space.
    pub(super) fn begin_later(&self) {
        self.works.lock().begin = true;
        self.is_any.store(true, Ordering::Release);
    }

    /// Does the work, or postpones it if the disk is full or earlier work is postponed.
    ///
    /// # Errors
    /// As [`cut_off`], [`write_again`] and [`SlotPool::adopt`], except for a full disk.
    pub(super) fn run_or_postpone(
        &self,
        source: &SegmentSource,
        work: SegmentWork,
        pool: &SlotPool,
    ) -> Result<()> {
        let mut works = self.works.lock();
        // The order matters: a segment is cut off before it is rewritten.
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

    /// Does the postponed work. `begin` starts the incarnation if that was postponed.
    ///
    /// # Errors
    /// As [`cut_off`], [`write_again`] and `begin`. If the disk is still full, the rest stays
    /// postponed.
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

/// Returns where to cut a segment in which nothing above `last` is valid. `None` if valid records
/// follow invalid ones, or if nothing above `from` would be left.
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

/// Durably destroys everything after a place in a segment. On file systems that write in place this
/// needs no space.
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

/// Rewrites a segment up to `written`, so that the next sync writes it regardless of earlier failed
/// syncs. A page that a failed sync left clean could be evicted before it is rewritten, so the
/// records are verified again afterwards.
///
/// # Errors
/// [`Error::Corrupt`] if the records are no longer there; I/O errors.
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
