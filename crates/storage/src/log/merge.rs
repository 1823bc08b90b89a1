//! Merges the records of all segments of a log by sequence number, with bounded memory.
//!
//! The segments of one lane in one incarnation form a stream. The first sequence number of a record
//! exceeds the completion watermark at the time of the append by at most [`WINDOW`], so it is
//! higher than any earlier first number in the stream minus the window. Once a stream has been read
//! up to a record that is `WINDOW` above the next wanted sequence number, the rest of the stream
//! cannot contain that number. At most one window of records is in memory, without their payloads.

use super::format::RecordKind;
use super::scan::{LocatedRecord, SegmentCursor, SegmentEnd, SegmentSource};
use crate::Result;
use crate::watermark::WINDOW;
use alluvium_base::Purpose;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// What reading a segment has revealed about it.
#[derive(Clone, Debug, Default)]
pub(super) struct SegmentFacts {
    /// The highest valid sequence number in the segment, or 0 if there is none.
    pub(super) highest: u64,
    /// Whether the segment contains sequence numbers that a later incarnation cut off.
    pub(super) superseded: bool,
    /// The position at which the segment's records end.
    pub(super) written: u64,
    /// Why the records end there, or `None` if the segment has not been read to its end.
    pub(super) stop: Option<SegmentEnd>,
    /// Positions at which there was no valid record but a later one was found. Used only by
    /// [`SegmentReadMode::Salvage`].
    pub(super) holes: Vec<u64>,
    /// The highest synced watermark in any record of the segment.
    pub(super) synced: u64,
    /// The highest valid completion watermark in any record of the segment.
    pub(super) complete: u64,
    /// The newest generation named in the segment.
    pub(super) generation: u64,
}

/// A record that covers sequence numbers, and where it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SourceRecord {
    /// Index of the source segment that contains the record.
    pub(super) source: usize,
    pub(super) record: LocatedRecord,
}

/// The next item in sequence order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SequenceStep {
    /// A range of sequence numbers that no record covers.
    Gap {
        first: u64,
        last: u64,
    },
    Record(SourceRecord),
    /// A record for sequence numbers that an earlier record already covers. A valid log has no such
    /// record.
    Overlap(SourceRecord),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentReadMode {
    /// A segment ends at its first invalid record.
    Strict,
    /// After an invalid record, reading continues at the next valid one, if any.
    Salvage,
}

#[derive(Debug)]
struct LaneStream {
    incarnation: u64,
    sources: VecDeque<usize>,
    cursor: Option<SegmentCursor>,
    /// The highest first sequence number of any record read from the stream so far.
    frontier: u64,
}

/// A record in the heap, ordered by first sequence number. Among copies of a record, the newest
/// incarnation comes first, and then a void before data.
type WaitingRecord = (u64, Reverse<u64>, Reverse<RecordKind>, usize, LocatedRecord);

/// Reads the streams of all lanes and returns their records in sequence order.
#[derive(Debug)]
pub(super) struct LogMerger<'a> {
    sources: &'a [SegmentSource],
    reading: SegmentReadMode,
    purpose: Purpose,
    /// Records up to this sequence number are skipped.
    from: u64,
    /// The highest valid sequence number of each incarnation.
    limits: BTreeMap<u64, u64>,
    streams: Vec<LaneStream>,
    waiting: BinaryHeap<Reverse<WaitingRecord>>,
    facts: Vec<SegmentFacts>,
    /// The next sequence number to be returned.
    next: u64,
    /// The last record returned. If an interrupted recovery left a copy of it, the copy is skipped.
    last: Option<LocatedRecord>,
}

/// Returns the highest valid sequence number of each incarnation, which is the lowest base of all
/// later incarnations.
fn limits(sources: &[SegmentSource]) -> BTreeMap<u64, u64> {
    let mut bases: BTreeMap<u64, u64> = BTreeMap::new();
    for source in sources {
        let base = bases.entry(source.header.incarnation).or_insert(u64::MAX);
        *base = (*base).min(source.header.base);
    }
    let mut limit = u64::MAX;
    let mut limits = BTreeMap::new();
    for (&incarnation, &base) in bases.iter().rev() {
        limits.insert(incarnation, limit);
        limit = limit.min(base);
    }
    limits
}

impl<'a> LogMerger<'a> {
    /// Creates a merger of all records above sequence number `from`. The sources must be ordered by
    /// segment number.
    #[must_use]
    pub(super) fn new(
        sources: &'a [SegmentSource],
        from: u64,
        reading: SegmentReadMode,
        purpose: Purpose,
    ) -> LogMerger<'a> {
        debug_assert!(
            sources.is_sorted_by_key(|source| source.header.number),
            "segments come in the order of their numbers"
        );
        let mut streams: BTreeMap<(u64, u16), VecDeque<usize>> = BTreeMap::new();
        for (index, source) in sources.iter().enumerate() {
            let stream = (source.header.incarnation, source.header.lane);
            streams.entry(stream).or_default().push_back(index);
        }
        let streams = streams.into_iter().map(|((incarnation, _), sources)| LaneStream {
            incarnation,
            sources,
            cursor: None,
            frontier: 0,
        });
        LogMerger {
            reading,
            purpose,
            from,
            limits: limits(sources),
            streams: streams.collect(),
            waiting: BinaryHeap::new(),
            facts: sources
                .iter()
                .map(|source| SegmentFacts {
                    synced: source.header.synced,
                    generation: source.header.generation,
                    ..SegmentFacts::default()
                })
                .collect(),
            sources,
            next: from + 1,
            last: None,
        }
    }

    /// Returns what was learned about each source. This is complete only after [`LogMerger::next`]
    /// has returned `None`.
    #[must_use]
    pub(super) fn into_facts(self) -> Vec<SegmentFacts> {
        self.facts
    }

    /// Returns the next record in sequence order. If sequence numbers before it are missing,
    /// returns the gap first. Returns `None` after the last record.
    ///
    /// # Errors
    /// I/O errors. Damaged records are not errors; they leave gaps.
    pub(super) fn next(&mut self) -> Result<Option<SequenceStep>> {
        loop {
            self.fill()?;
            let Some(&Reverse((first, _, _, source, record))) = self.waiting.peek() else {
                return Ok(None);
            };
            if first > self.next {
                debug_assert!(self.next > self.from, "gaps lie behind the start");
                let gap = SequenceStep::Gap {
                    first: self.next,
                    last: first - 1,
                };
                self.next = first;
                return Ok(Some(gap));
            }
            self.waiting.pop();
            let found = SourceRecord { source, record };
            let last = record.header.last();
            let straddles = first <= self.from && self.next == self.from + 1;
            if first == self.next || straddles {
                assert!(last + 1 > self.next, "a record moves on, to {last}");
                self.next = last + 1;
                self.last = Some(record);
                return Ok(Some(SequenceStep::Record(found)));
            }
            let same = |other: LocatedRecord| other.header.first == first && other.header.last() == last;
            if !self.last.is_some_and(same) {
                return Ok(Some(SequenceStep::Overlap(found)));
            }
            // The record is a copy made by an interrupted recovery, so skip it.
        }
    }

    /// Reads every stream until the rest of it cannot contain the next sequence number.
    fn fill(&mut self) -> Result<()> {
        let wanted = self.next.saturating_add(WINDOW);
        for index in 0..self.streams.len() {
            while self.streams[index].frontier < wanted && self.read_one(index)? {}
        }
        Ok(())
    }

    /// Reads one record of a stream into the heap. Returns `false` if the stream has no more
    /// records.
    fn read_one(&mut self, index: usize) -> Result<bool> {
        let stream = &mut self.streams[index];
        let Some(&number) = stream.sources.front() else {
            return Ok(false);
        };
        let source = &self.sources[number];
        let fact = &mut self.facts[number];
        let cursor = stream
            .cursor
            .get_or_insert_with(|| SegmentCursor::new(self.purpose));
        let Some(record) = cursor.next(source)? else {
            if self.reading == SegmentReadMode::Salvage {
                let stopped = cursor.position();
                if cursor.resume(source)? {
                    fact.holes.push(stopped);
                    return Ok(true);
                }
            }
            fact.written = cursor.position();
            fact.stop = cursor.stop().cloned();
            stream.cursor = None;
            stream.sources.pop_front();
            return Ok(true);
        };
        let header = record.header;
        let limit = self.limits.get(&stream.incarnation).copied().unwrap_or(0);
        fact.synced = fact.synced.max(header.synced);
        if !header.kind.is_numbered() {
            fact.generation = fact.generation.max(header.first);
            fact.complete = fact.complete.max(header.complete.min(limit));
            return Ok(true);
        }
        let last = header.last();
        stream.frontier = stream.frontier.max(header.first);
        if last <= self.from {
            return Ok(true);
        }
        if last > limit {
            fact.superseded = true;
            return Ok(true);
        }
        fact.complete = fact.complete.max(header.complete);
        debug_assert!(last <= limit && last > self.from, "{last} of {limit}");
        fact.highest = fact.highest.max(last);
        let order = (Reverse(stream.incarnation), Reverse(header.kind));
        self.waiting
            .push(Reverse((header.first, order.0, order.1, number, record)));
        Ok(true)
    }
}
