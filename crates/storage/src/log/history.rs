//! What the log still knows of the past: the segments that are not released, and the newest of
//! those that are, for who follows the store.
//!
//! A kept segment holds no open file: a reader opens a few of them at a time, in the order in which
//! they were begun. The records of a segment lie above the completion watermark of the moment when
//! it was begun (L4), so a reader knows how far the segments that it has opened are all there is.

use super::Record;
use super::format::{Kind, SegmentHeader};
use super::merge::{Merge, Next, Reading};
use super::scan::{Cursor, Source};
use super::segment::{Segment, Slot, slot_file};
use super::shared::Shared;
use crate::Result;
use alluvium_base::Purpose;
use alluvium_device::{BLOCK, FileOptions};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many kept segments a reader has open at a time, unless more of them begin before what it
/// wants.
const OPEN: usize = 8;

/// A released segment that is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    slot: u32,
    len: u64,
    header: SegmentHeader,
    seed: u64,
    written: u64,
    highest: u64,
    /// All its sequences are above this one.
    above: u64,
}

impl Kept {
    /// Returns what is kept of a segment.
    #[must_use]
    pub(super) fn of(segment: &Segment) -> Kept {
        Kept {
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

/// Released segments that are kept.
#[derive(Debug)]
pub(super) struct History {
    kept: Mutex<VecDeque<Kept>>,
    bytes: AtomicU64,
    /// Of what is not above this sequence, some is gone.
    forgotten: AtomicU64,
}

impl History {
    /// Nothing is kept, and nothing up to `forgotten` is known.
    #[must_use]
    pub(super) fn new(forgotten: u64) -> History {
        History {
            kept: Mutex::default(),
            bytes: AtomicU64::new(0),
            forgotten: AtomicU64::new(forgotten),
        }
    }

    /// How many bytes are kept from now on.
    pub(super) fn retain(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns whether anything is.
    #[must_use]
    pub(super) fn keeps(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > 0
    }

    /// Every record above this sequence is there.
    #[must_use]
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    /// Keeps segments that were released, and returns those that exceed the limit. From then on no
    /// reader takes them for whole.
    pub(super) fn keep(&self, released: impl Iterator<Item = Kept>) -> Vec<Kept> {
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

impl History {
    /// Nothing of these segments is kept.
    pub(super) fn forget_all(&self, released: &[Arc<Segment>]) {
        let highest = released.iter().map(|segment| segment.highest()).max();
        self.forgotten.fetch_max(highest.unwrap_or(0), Ordering::AcqRel);
    }
}

impl Shared {
    /// As [`Log::read_after`](super::Log::read_after).
    ///
    /// # Errors
    /// As the device says.
    pub(super) fn read_after(
        &self,
        after: u64,
        through: u64,
        bytes: u64,
        take: &mut dyn FnMut(Record<'_>),
    ) -> Result<Option<u64>> {
        let (sources, most) = match self.sources_above(after) {
            Err(_) if self.history.forgotten() > after => return Ok(None),
            other => other?,
        };
        let through = through.min(most);
        let mut merge = Merge::new(&sources, after, Reading::Strict, Purpose::Other);
        let mut cursors: Vec<Cursor> = sources.iter().map(|_| Cursor::new(Purpose::Other)).collect();
        let mut records: Vec<(u64, u32, Vec<u8>)> = Vec::new();
        let (mut reached, mut read) = (after, 0);
        while read < bytes
            && let Some(next) = merge.next()?
        {
            let found = match next {
                Next::Record(found) if found.record.header.last() <= through => found,
                // Numbers that came to nothing.
                Next::Gap { last, .. } if last <= through => {
                    reached = last;
                    continue;
                }
                Next::Overlap(_) => continue,
                Next::Record(_) | Next::Gap { .. } => break,
            };
            let header = found.record.header;
            if header.kind == Kind::Data && header.first > after {
                let payload = cursors[found.source].payload(&sources[found.source], &found.record)?;
                read += payload.len() as u64 + 1;
                records.push((header.first, header.count as u32, payload.to_vec()));
                cursors[found.source].let_go();
            }
            reached = header.last();
        }
        // A segment that was given up meanwhile looks like the end of a log.
        if self.history.forgotten() > after {
            return Ok(None);
        }
        debug_assert!(
            records.is_sorted_by_key(|record| record.0),
            "records are read in their order"
        );
        for (first, count, payload) in &records {
            let (first, count) = (*first, *count);
            take(Record {
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

    /// Segments that hold everything between a sequence and another one, which is the second part,
    /// by their numbers.
    fn sources_above(&self, after: u64) -> Result<(Vec<Source>, u64)> {
        let table = self.table.lock();
        let mut sources: Vec<_> = table
            .iter()
            .filter(|segment| segment.is_active() || segment.highest() > after)
            .map(|segment| Source {
                slot: segment.slot.index,
                file: Arc::clone(&segment.slot.file),
                header: segment.header,
                seed: segment.seed,
                // Behind it a lane may be storing.
                end: segment.written().next_multiple_of(BLOCK).min(segment.slot.len),
            })
            .collect();
        let mut kept: Vec<Kept> = self.history.kept.lock().iter().copied().collect();
        drop(table);
        kept.retain(|segment| segment.highest > after);
        kept.sort_by_key(|segment| segment.above);
        let open = kept.partition_point(|segment| segment.above <= after).max(OPEN);
        let most = kept.get(open).map_or(u64::MAX, |segment| segment.above);
        for segment in kept.iter().take(open) {
            sources.push(Source {
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

    /// Gives up a segment that was kept. Where no more files can be opened, its file goes.
    ///
    /// # Errors
    /// As the device says.
    pub(super) fn forget(&self, kept: &Kept) -> Result<()> {
        match self.directory.open(&slot_file(kept.slot), FileOptions::BUFFERED) {
            Ok(file) => self
                .pool
                .give_back(Arc::new(Slot::new(kept.slot, file, kept.len))),
            Err(error) if error.is_shortage() => self.pool.remove(kept.slot),
            Err(error) => Err(error.into()),
        }
    }
}
