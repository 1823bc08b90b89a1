//! Merging runs: as many at once as the memory has blocks for, then the results.

use super::run::{Form, Run, RunCursor};
use crate::blocks::{Extent, Reader, Result, Space, Writer};
use crate::records::{Entry, decode};
use alluvium_filters::fingerprint::WideFingerprint;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

/// Something that gives records in order.
pub(super) enum Cursor<'s> {
    /// The records of the buffer.
    Buffer(std::vec::IntoIter<Entry>),
    /// A run.
    Run(Box<RunCursor<'s>>),
    /// What an earlier pass wrote.
    Stream(Reader<'s>, u32),
}

impl Cursor<'_> {
    pub(super) fn next(&mut self) -> Result<Option<Entry>> {
        match self {
            Cursor::Buffer(entries) => Ok(entries.next()),
            Cursor::Run(run) => run.next(),
            Cursor::Stream(reader, _) if reader.left() == 0 => Ok(None),
            Cursor::Stream(reader, width) => Ok(Some(decode(reader, *width)?)),
        }
    }
}

/// Merges cursors, of which the first is the newest (O2).
pub(crate) struct Merge<'s> {
    cursors: Vec<Cursor<'s>>,
    heads: Vec<Option<Entry>>,
    heap: BinaryHeap<Reverse<(WideFingerprint, usize)>>,
    temporary: Vec<Extent>,
    space: &'s dyn Space,
}

impl<'s> Merge<'s> {
    /// Begins a merge of `buffer` and `runs`, the newest first.
    pub(super) fn new(
        space: &'s dyn Space,
        form: Form,
        fan_in: usize,
        buffer: Vec<Entry>,
        runs: Vec<Run>,
    ) -> Result<Merge<'s>> {
        let runs = runs.into_iter().map(|run| {
            let bytes = run.bytes;
            (Cursor::Run(Box::new(RunCursor::new(space, form, run))), bytes)
        });
        Merge::of(space, form, fan_in, buffer, runs.collect())
    }

    /// Begins a merge of `buffer` and of streams that have some bytes each, the newest first.
    pub(crate) fn of_streams(
        space: &'s dyn Space,
        form: Form,
        fan_in: usize,
        buffer: Vec<Entry>,
        streams: Vec<(Reader<'s>, u64)>,
    ) -> Result<Merge<'s>> {
        let streams = streams
            .into_iter()
            .map(|(reader, bytes)| (Cursor::Stream(reader, form.width), bytes));
        Merge::of(space, form, fan_in, buffer, streams.collect())
    }

    /// Begins a merge. What is more than `fan_in` is merged in groups of neighbours before, so
    /// that age stays in order.
    fn of(
        space: &'s dyn Space,
        form: Form,
        fan_in: usize,
        buffer: Vec<Entry>,
        older: Vec<(Cursor<'s>, u64)>,
    ) -> Result<Merge<'s>> {
        let bytes = buffer.iter().map(|entry| entry.bytes(form.width)).sum();
        let mut sources = vec![(Cursor::Buffer(buffer.into_iter()), bytes)];
        sources.extend(older);
        let mut temporary = Vec::new();
        while sources.len() > fan_in {
            // Only as many are merged as it takes to be `fan_in` afterwards; the oldest are
            // largest and stay out of it if they can.
            let groups = (sources.len() - fan_in).div_ceil(fan_in - 1);
            let rest = sources.split_off((groups * fan_in).min(sources.len()));
            let mut merged = Vec::new();
            let mut left = sources.into_iter().peekable();
            while left.peek().is_some() {
                let group: Vec<_> = left.by_ref().take(fan_in).collect();
                let bytes = group.iter().map(|(_, bytes)| bytes).sum();
                let cursors = group.into_iter().map(|(cursor, _)| cursor).collect();
                let extent = Merge::over(space, cursors)?.write(form, bytes)?;
                temporary.push(extent);
                let reader = Reader::new(space, extent, form.machine.chunk());
                merged.push((Cursor::Stream(reader, form.width), bytes));
            }
            merged.extend(rest);
            sources = merged;
        }
        let mut merge = Merge::over(space, sources.into_iter().map(|(cursor, _)| cursor).collect())?;
        merge.temporary = temporary;
        Ok(merge)
    }

    fn over(space: &'s dyn Space, cursors: Vec<Cursor<'s>>) -> Result<Merge<'s>> {
        let heads = (0..cursors.len()).map(|_| None).collect();
        let mut merge = Merge {
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

    /// Returns the next record: of equal fingerprints, the newest.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>> {
        let Some(Reverse((_, at))) = self.heap.pop() else {
            return Ok(None);
        };
        let entry = self.heads[at].take();
        self.advance(at)?;
        Ok(entry)
    }

    fn write(mut self, form: Form, bytes: u64) -> Result<Extent> {
        let extent = self.space.allocate(bytes)?;
        let mut writer = Writer::new(self.space, extent, form.machine.chunk());
        let mut encoded = Vec::new();
        while let Some(entry) = self.next()? {
            encoded.clear();
            entry.encode(form.width, &mut encoded);
            writer.put(&encoded)?;
        }
        let bytes = writer.finish()?;
        self.space.trim(extent, bytes)
    }

    /// Gives back what earlier passes wrote.
    pub(crate) fn end(self) {
        for extent in self.temporary {
            self.space.release(extent);
        }
    }
}

/// Drops records that a newer one of the same key hides.
///
/// It remembers the keys of one fingerprint, as many as `memory` bytes hold; records beyond are
/// kept, as are deletes that a record may come after.
pub(crate) struct Fold {
    fingerprint: Option<WideFingerprint>,
    keys: HashSet<Vec<u8>>,
    bytes: u64,
    memory: u64,
    /// Whether nothing older is left: deletes have done their work.
    pub(super) last: bool,
}

impl Fold {
    pub(crate) fn new(memory: u64, last: bool) -> Fold {
        Fold {
            fingerprint: None,
            keys: HashSet::new(),
            bytes: 0,
            memory,
            last,
        }
    }

    /// Returns whether a record is kept.
    pub(crate) fn keeps(&mut self, entry: &Entry, space: &dyn Space) -> Result<bool> {
        if self.fingerprint != Some(entry.fingerprint) {
            self.fingerprint = Some(entry.fingerprint);
            self.keys.clear();
            self.bytes = 0;
        }
        let (key, _) = entry.take_apart(space)?;
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
