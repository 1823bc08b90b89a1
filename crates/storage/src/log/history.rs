//! The readable history of a log: all unreleased segments, and the newest released ones, which are
//! retained for readers that follow the store.
//!
//! Retained segments do not keep their files open. A reader opens a few of them at a time, in the
//! order in which the segments were begun. All records of a segment are above the completion
//! watermark at the time the segment was begun (L4), so a reader knows up to which sequence number
//! its open segments are complete.

use super::LogRecord;
use super::format::{RecordKind, SegmentHeader};
use super::merge::{LogMerger, SegmentReadMode, SequenceStep};
use super::scan::{SegmentCursor, SegmentSource};
use super::segment::{LogSegment, SegmentSlot, slot_file};
use super::shared::LogInner;
use crate::Result;
use alluvium_base::Purpose;
use alluvium_device::{BLOCK, FileOptions};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of retained segments that a reader opens at a time, or more if more of them were begun at
/// or before the requested sequence number.
const OPEN: usize = 8;

/// A segment that was released but can still be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetainedSegment {
    slot: u32,
    len: u64,
    header: SegmentHeader,
    seed: u64,
    written: u64,
    highest: u64,
    /// All sequence numbers in the segment are above this number.
    above: u64,
}

impl RetainedSegment {
    /// Describes a segment that is about to be retained.
    #[must_use]
    pub(super) fn of(segment: &LogSegment) -> RetainedSegment {
        RetainedSegment {
            slot: segment.slot.index,
            len: segment.slot.len,
            header: segment.header,
            seed: segment.seed,
            written: segment.written(),
            highest: segment.highest(),
            above: segment.above,
        }
    }
}

#[derive(Debug)]
pub(super) struct SegmentHistory {
    kept: Mutex<VecDeque<RetainedSegment>>,
    bytes: AtomicU64,
    /// Some records up to this sequence number are no longer available.
    forgotten: AtomicU64,
}

impl SegmentHistory {
    /// Creates a history without retained segments. Records up to `forgotten` are not available.
    #[must_use]
    pub(super) fn new(forgotten: u64) -> SegmentHistory {
        SegmentHistory {
            kept: Mutex::default(),
            bytes: AtomicU64::new(0),
            forgotten: AtomicU64::new(forgotten),
        }
    }

    /// Sets the maximum total size in bytes of the segments to be retained from now on.
    pub(super) fn retain(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns whether released segments are retained.
    #[must_use]
    pub(super) fn keeps(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > 0
    }

    /// Returns the sequence number above which every record is available.
    #[must_use]
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    /// Retains released segments. If the retained segments now exceed the maximum size, removes the
    /// oldest ones and returns them. From then on, readers are told that the records of these
    /// segments are unavailable.
    pub(super) fn keep(&self, released: impl Iterator<Item = RetainedSegment>) -> Vec<RetainedSegment> {
        let mut kept = self.kept.lock();
        kept.extend(released);
        kept.make_contiguous().sort_by_key(|segment| segment.highest);
        debug_assert!(
            kept.iter().all(|segment| segment.written <= segment.len),
            "records lie inside their segments"
        );
        let most = self.bytes.load(Ordering::Relaxed);
        let mut bytes: u64 = kept.iter().map(|segment| segment.len).sum();
        let mut gone = Vec::new();
        while bytes > most
            && let Some(oldest) = kept.pop_front()
        {
            bytes -= oldest.len;
            self.forgotten.fetch_max(oldest.highest, Ordering::AcqRel);
            gone.push(oldest);
        }
        debug_assert!(
            bytes <= most || kept.is_empty(),
            "{bytes} bytes are kept, {most} may be"
        );
        gone
    }
}

impl SegmentHistory {
    /// Records that released segments were not retained, so their records are no longer available.
    pub(super) fn forget_all(&self, released: &[Arc<LogSegment>]) {
        let highest = released.iter().map(|segment| segment.highest()).max();
        self.forgotten.fetch_max(highest.unwrap_or(0), Ordering::AcqRel);
    }
}

impl LogInner {
    /// Implements [`WriteAheadLog::read_after`](super::WriteAheadLog::read_after).
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn read_after(
        &self,
        after: u64,
        through: u64,
        bytes: u64,
        take: &mut dyn FnMut(LogRecord<'_>),
    ) -> Result<Option<u64>> {
        let (sources, most) = match self.sources_above(after) {
            Err(_) if self.history.forgotten() > after => return Ok(None),
            other => other?,
        };
        let through = through.min(most);
        let mut merge = LogMerger::new(&sources, after, SegmentReadMode::Strict, Purpose::Other);
        let mut cursors: Vec<SegmentCursor> = sources
            .iter()
            .map(|_| SegmentCursor::new(Purpose::Other))
            .collect();
        let mut records: Vec<(u64, u32, Vec<u8>)> = Vec::new();
        let (mut reached, mut read) = (after, 0);
        while read < bytes
            && let Some(next) = merge.next()?
        {
            let found = match next {
                SequenceStep::Record(found) if found.record.header.last() <= through => found,
                // The sequence numbers in a gap are void.
                SequenceStep::Gap { last, .. } if last <= through => {
                    reached = last;
                    continue;
                }
                SequenceStep::Overlap(_) => continue,
                SequenceStep::Record(_) | SequenceStep::Gap { .. } => break,
            };
            let header = found.record.header;
            if header.kind == RecordKind::Data && header.first > after {
                let payload = cursors[found.source].payload(&sources[found.source], &found.record)?;
                read += payload.len() as u64 + 1;
                records.push((header.first, header.count as u32, payload.to_vec()));
                cursors[found.source].let_go();
            }
            reached = header.last();
        }
        // If a segment was removed during the read, its removal looks like the end of the log.
        if self.history.forgotten() > after {
            return Ok(None);
        }
        debug_assert!(
            records.is_sorted_by_key(|record| record.0),
            "records are read in their order"
        );
        for (first, count, payload) in &records {
            let (first, count) = (*first, *count);
            take(LogRecord {
                first,
                count,
                payload,
            });
        }
        Ok(Some(if read < bytes {
            reached.max(through)
        } else {
            reached
        }))
    }

    /// Returns segments that contain every record above `after` up to some limit, ordered by
    /// number, and that limit.
    fn sources_above(&self, after: u64) -> Result<(Vec<SegmentSource>, u64)> {
        let table = self.table.lock();
        let mut sources: Vec<_> = table
            .iter()
            .filter(|segment| segment.is_active() || segment.highest() > after)
            .map(|segment| SegmentSource {
                slot: segment.slot.index,
                file: Arc::clone(&segment.slot.file),
                header: segment.header,
                seed: segment.seed,
                // A lane may be writing beyond this position.
                end: segment.written().next_multiple_of(BLOCK).min(segment.slot.len),
            })
            .collect();
        let mut kept: Vec<RetainedSegment> = self.history.kept.lock().iter().copied().collect();
        drop(table);
        kept.retain(|segment| segment.highest > after);
        kept.sort_by_key(|segment| segment.above);
        let open = kept.partition_point(|segment| segment.above <= after).max(OPEN);
        let most = kept.get(open).map_or(u64::MAX, |segment| segment.above);
        for segment in kept.iter().take(open) {
            sources.push(SegmentSource {
                slot: segment.slot,
                file: self
                    .directory
                    .open(&slot_file(segment.slot), FileOptions::BUFFERED)?,
                header: segment.header,
                seed: segment.seed,
                end: segment.written.next_multiple_of(BLOCK).min(segment.len),
            });
        }
        sources.sort_by_key(|source| source.header.number);
        sources.dedup_by_key(|source| source.header.number);
        Ok((sources, most))
    }

    /// Removes a retained segment and returns its file to the pool. If a shortage of resources,
    /// such as file descriptors, prevents opening the file, the file is deleted instead.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn forget(&self, kept: &RetainedSegment) -> Result<()> {
        match self.directory.open(&slot_file(kept.slot), FileOptions::BUFFERED) {
            Ok(file) => self
                .pool
                .give_back(Arc::new(SegmentSlot::new(kept.slot, file, kept.len))),
            Err(error) if error.is_shortage() => self.pool.remove(kept.slot),
            Err(error) => Err(error.into()),
        }
    }
}
