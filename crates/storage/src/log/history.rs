//! What the log still knows of the past: the segments that are not released, and the newest of those that are, for who follows the store.

use super::Record;
use super::format::Kind;
use super::merge::{Merge, Next, Reading};
use super::scan::{Cursor, Source};
use super::segment::Segment;
use super::shared::Shared;
use crate::Result;
use alluvium_base::Purpose;
use alluvium_device::BLOCK;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Released segments that are kept.
#[derive(Debug)]
pub(super) struct History {
    kept: Mutex<VecDeque<Arc<Segment>>>,
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

    /// Whether anything is.
    #[must_use]
    pub(super) fn keeps(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > 0
    }

    /// Every record above this sequence is there.
    #[must_use]
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    /// Keeps segments that were released, and gives up those that are too much. Nobody who reads takes them for whole from then on.
    pub(super) fn keep(&self, released: impl Iterator<Item = Arc<Segment>>) -> Vec<Arc<Segment>> {
        let mut kept = self.kept.lock();
        kept.extend(released);
        kept.make_contiguous().sort_by_key(|segment| segment.highest());
        let most = self.bytes.load(Ordering::Relaxed);
        let mut bytes: u64 = kept.iter().map(|segment| segment.slot.len).sum();
        let mut gone = Vec::new();
        while bytes > most
            && let Some(oldest) = kept.pop_front()
        {
            bytes -= oldest.slot.len;
            self.forgotten.fetch_max(oldest.highest(), Ordering::AcqRel);
            gone.push(oldest);
        }
        gone
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
        self.drain()?;
        let sources = self.sources_above(after);
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
                records.push((header.first, header.count, payload.to_vec()));
            }
            reached = header.last();
        }
        // A segment that was given up meanwhile looks like the end of a log.
        if self.history.forgotten() > after {
            return Ok(None);
        }
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

    /// The segments that may hold anything above a sequence, by their numbers.
    fn sources_above(&self, after: u64) -> Vec<Source> {
        let table = self.table.lock();
        let mut segments: Vec<_> = table.clone();
        segments.extend(self.history.kept.lock().iter().cloned());
        drop(table);
        segments.sort_by_key(|segment| segment.header.number);
        segments.dedup_by_key(|segment| segment.header.number);
        let above = |segment: &&Arc<Segment>| segment.is_active() || segment.highest() > after;
        let source = |segment: &Arc<Segment>| Source {
            slot: segment.slot.index,
            file: Arc::clone(&segment.slot.file),
            header: segment.header,
            seed: segment.seed,
            // Behind it a lane may be storing.
            end: segment.written().next_multiple_of(BLOCK).min(segment.slot.len),
        };
        segments.iter().filter(above).map(source).collect()
    }
}
