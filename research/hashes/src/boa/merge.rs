//! Merging runs. If there are more runs than the memory has blocks for, several passes are
//! needed.

use super::run::{BoaRun, RecordFormat, RunCursor};
use crate::blocks::{BlockExtent, BlockSpace, BlockStreamReader, BlockStreamWriter, Result};
use crate::records::{TableRecord, decode};
use alluvium_filters::fingerprint::WideFingerprint;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

/// A source of ordered records.
pub(super) enum RecordCursor<'s> {
    /// The records of the buffer.
    Buffer(std::vec::IntoIter<TableRecord>),
    Run(Box<RunCursor<'s>>),
    /// The output of an earlier pass.
    Stream(BlockStreamReader<'s>, u32),
}

impl RecordCursor<'_> {
    pub(super) fn next(&mut self) -> Result<Option<TableRecord>> {
        match self {
            RecordCursor::Buffer(entries) => Ok(entries.next()),
            RecordCursor::Run(run) => run.next(),
            RecordCursor::Stream(reader, _) if reader.left() == 0 => Ok(None),
            RecordCursor::Stream(reader, width) => Ok(Some(decode(reader, *width)?)),
        }
    }
}

/// Merges cursors, of which the first is the newest (O2).
pub(crate) struct RecordMerge<'s> {
    cursors: Vec<RecordCursor<'s>>,
    heads: Vec<Option<TableRecord>>,
    heap: BinaryHeap<Reverse<(WideFingerprint, usize)>>,
    temporary: Vec<BlockExtent>,
    space: &'s dyn BlockSpace,
}

impl<'s> RecordMerge<'s> {
    /// Starts a merge of `buffer` and `runs`, the newest first.
    pub(super) fn new(
        space: &'s dyn BlockSpace,
        form: RecordFormat,
        fan_in: usize,
        buffer: Vec<TableRecord>,
        runs: Vec<BoaRun>,
    ) -> Result<RecordMerge<'s>> {
        let runs = runs.into_iter().map(|run| {
            let bytes = run.bytes;
            (
                RecordCursor::Run(Box::new(RunCursor::new(space, form, run))),
                bytes,
            )
        });
        RecordMerge::of(space, form, fan_in, buffer, runs.collect())
    }

    /// Starts a merge of `buffer` and streams with the given sizes in bytes, the newest first.
    pub(crate) fn of_streams(
        space: &'s dyn BlockSpace,
        form: RecordFormat,
        fan_in: usize,
        buffer: Vec<TableRecord>,
        streams: Vec<(BlockStreamReader<'s>, u64)>,
    ) -> Result<RecordMerge<'s>> {
        let streams = streams
            .into_iter()
            .map(|(reader, bytes)| (RecordCursor::Stream(reader, form.width), bytes));
        RecordMerge::of(space, form, fan_in, buffer, streams.collect())
    }

    /// Starts a merge. If there are more than `fan_in` cursors, groups of adjacent cursors are
    /// merged first, which preserves the order of age.
    fn of(
        space: &'s dyn BlockSpace,
        form: RecordFormat,
        fan_in: usize,
        buffer: Vec<TableRecord>,
        older: Vec<(RecordCursor<'s>, u64)>,
    ) -> Result<RecordMerge<'s>> {
        let bytes = buffer.iter().map(|entry| entry.bytes(form.width)).sum();
        let mut sources = vec![(RecordCursor::Buffer(buffer.into_iter()), bytes)];
        sources.extend(older);
        let mut temporary = Vec::new();
        while sources.len() > fan_in {
            // Merges only as many cursors as necessary to leave `fan_in` of them. The oldest are
            // the largest, and are excluded if possible.
            let groups = (sources.len() - fan_in).div_ceil(fan_in - 1);
            let rest = sources.split_off((groups * fan_in).min(sources.len()));
            let mut merged = Vec::new();
            let mut left = sources.into_iter().peekable();
            while left.peek().is_some() {
                let group: Vec<_> = left.by_ref().take(fan_in).collect();
                let bytes = group.iter().map(|(_, bytes)| bytes).sum();
                let cursors = group.into_iter().map(|(cursor, _)| cursor).collect();
                let extent = RecordMerge::over(space, cursors)?.write(form, bytes)?;
                temporary.push(extent);
                let reader = BlockStreamReader::new(space, extent, form.machine.chunk());
                merged.push((RecordCursor::Stream(reader, form.width), bytes));
            }
            merged.extend(rest);
            sources = merged;
        }
        let mut merge = RecordMerge::over(space, sources.into_iter().map(|(cursor, _)| cursor).collect())?;
        merge.temporary = temporary;
        Ok(merge)
    }

    fn over(space: &'s dyn BlockSpace, cursors: Vec<RecordCursor<'s>>) -> Result<RecordMerge<'s>> {
        let heads = (0..cursors.len()).map(|_| None).collect();
        let mut merge = RecordMerge {
            heads,
            cursors,
            heap: BinaryHeap::new(),
            temporary: Vec::new(),
            space,
        };
        for at in 0..merge.cursors.len() {
            merge.advance(at)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, at: usize) -> Result<()> {
        self.heads[at] = self.cursors[at].next()?;
        if let Some(entry) = &self.heads[at] {
            self.heap.push(Reverse((entry.fingerprint, at)));
        }
        Ok(())
    }

    /// Returns the next record. Among equal fingerprints the newest record comes first.
    pub(crate) fn next(&mut self) -> Result<Option<TableRecord>> {
        let Some(Reverse((_, at))) = self.heap.pop() else {
            return Ok(None);
        };
        let entry = self.heads[at].take();
        self.advance(at)?;
        Ok(entry)
    }

    fn write(mut self, form: RecordFormat, bytes: u64) -> Result<BlockExtent> {
        let extent = self.space.allocate(bytes)?;
        let mut writer = BlockStreamWriter::new(self.space, extent, form.machine.chunk());
        let mut encoded = Vec::new();
        while let Some(entry) = self.next()? {
            encoded.clear();
            entry.encode(form.width, &mut encoded);
            writer.put(&encoded)?;
        }
        let bytes = writer.finish()?;
        self.space.trim(extent, bytes)
    }

    /// Releases the output of earlier passes.
    pub(crate) fn end(self) {
        for extent in self.temporary {
            self.space.release(extent);
        }
    }
}

/// Drops records that are obsolete because of a newer record with the same key.
///
/// It remembers the keys of one fingerprint, up to `memory` bytes. Records beyond this limit are
/// kept, as are deletes that may be followed by an older record.
pub(crate) struct DuplicateFilter {
    fingerprint: Option<WideFingerprint>,
    keys: HashSet<Vec<u8>>,
    bytes: u64,
    memory: u64,
    /// Whether no older data exists below, so that deletes can be dropped.
    pub(super) last: bool,
}

impl DuplicateFilter {
    pub(crate) fn new(memory: u64, last: bool) -> DuplicateFilter {
        DuplicateFilter {
            fingerprint: None,
            keys: HashSet::new(),
            bytes: 0,
            memory,
            last,
        }
    }

    /// Returns whether a record is kept.
    pub(crate) fn keeps(&mut self, entry: &TableRecord, space: &dyn BlockSpace) -> Result<bool> {
        if self.fingerprint != Some(entry.fingerprint) {
            self.fingerprint = Some(entry.fingerprint);
            self.keys.clear();
            self.bytes = 0;
        }
        let (key, _) = entry.load_pair(space)?;
        if self.keys.contains(&key) {
            return Ok(false);
        }
        let bytes = key.len() as u64 + 48;
        if self.bytes + bytes > self.memory {
            return Ok(true);
        }
        self.bytes += bytes;
        self.keys.insert(key);
        Ok(!(entry.tombstone && self.last))
    }
}
