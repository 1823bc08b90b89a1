//! Merges all records of a log in the order of their sequences, in bounded memory.
//!
//! Each lane of each incarnation is a stream of segments. A record begins at most [`WINDOW`]
//! sequences above the completion watermark, and never below it, so a record's first sequence
//! exceeds those of all earlier records in its stream, less the window. Once a stream was read up
//! to a record `WINDOW` above the next wanted sequence, it cannot contain that sequence any more.
//! Memory holds at most a window of records, without payloads.

use super::format::RecordKind;
use super::scan::{LocatedRecord, SegmentCursor, SegmentEnd, SegmentSource};
use crate::Result;
use crate::watermark::WINDOW;
use alluvium_base::Purpose;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Facts learnt about one segment.
#[derive(Clone, Debug, Default)]
pub(super) struct SegmentFacts {
    /// Its highest valid sequence, 0 if none.
    pub(super) highest: u64,
    /// Whether it has sequences that a later incarnation has cut off.
    pub(super) superseded: bool,
    /// The position where its records end.
    pub(super) written: u64,
    /// Why its records end there; set once it was read completely.
    pub(super) stop: Option<SegmentEnd>,
    /// The positions where records were missing but later ones were found, when salvaging.
    pub(super) holes: Vec<u64>,
    /// The highest synced watermark in it.
    pub(super) synced: u64,
    /// The highest valid completion watermark in it.
    pub(super) complete: u64,
    /// The newest generation named in it.
    pub(super) generation: u64,
}

/// A record that covers sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SourceRecord {
    /// Index of the source that contains it.
    pub(super) source: usize,
    pub(super) record: LocatedRecord,
}

/// The next step in the order of sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SequenceStep {
    /// Sequences that no record covers.
    Gap {
        first: u64,
        last: u64,
    },
    Record(SourceRecord),
    /// A record that covers sequences covered before. A sound log has none.
    Overlap(SourceRecord),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentReadMode {
    /// A segment ends at its first invalid record.
    Strict,
    /// Reading continues after damage if a later record is found.
    Salvage,
}

#[derive(Debug)]
struct LaneStream {
    incarnation: u64,
    sources: VecDeque<usize>,
    cursor: Option<SegmentCursor>,
    /// The highest first sequence read from the stream.
    frontier: u64,
}

/// Heap order of waiting records: by first sequence, then the newest incarnation among copies, then
/// void before data.
type WaitingRecord = (u64, Reverse<u64>, Reverse<RecordKind>, usize, LocatedRecord);

/// Reads streams and merges their records in order.
#[derive(Debug)]
pub(super) struct LogMerger<'a> {
    sources: &'a [SegmentSource],
    reading: SegmentReadMode,
    purpose: Purpose,
    /// Sequences up to this one are skipped.
    from: u64,
    /// The highest valid sequence of each incarnation.
    limits: BTreeMap<u64, u64>,
    streams: Vec<LaneStream>,
    waiting: BinaryHeap<Reverse<WaitingRecord>>,
    facts: Vec<SegmentFacts>,
    /// The next sequence to return.
    next: u64,
    /// The last record returned. A copy of it, made by an interrupted recovery, is skipped.
    last: Option<LocatedRecord>,
}

/// Returns the highest valid sequence of each incarnation: at most the base of every later one.
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
    /// Creates a merge of the records above `from`. The segments must be ordered by number.
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

    /// Returns the facts about each source. They are complete once [`LogMerger::next`] has returned
    /// `None`.
    #[must_use]
    pub(super) fn into_facts(self) -> Vec<SegmentFacts> {
        self.facts
    }

    /// Returns the next record in the order of sequences, or the gap before it.
    ///
    /// # Errors
    /// I/O errors. Damage shows as gaps.
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
            // A copy made by an interrupted recovery: skipped.
        }
    }

    /// Reads every stream until it cannot contain the next sequence any more.
    fn fill(&mut self) -> Result<()> {
        let wanted = self.next.saturating_add(WINDOW);
        for index in 0..self.streams.len() {
            while self.streams[index].frontier < wanted && self.read_one(index)? {}
        }
        Ok(())
    }

    /// Reads one record of a stream. Returns whether the stream was not exhausted.
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
