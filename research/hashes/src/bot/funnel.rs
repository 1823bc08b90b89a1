//! The K-funnel: a tree of two-way mergers with buffers in between. It merges K runs with few
//! transfers between any two levels of memory, without parameters of either (Conway §2.6; the
//! lazy form of Brodal and Fagerberg).
//!
//! A merger fills its buffer when it is empty, from the buffers below. The buffers on the middle
//! edges of a tree of K leaves hold K^(3/2) items; the trees above and below follow the same rule
//! recursively. All buffers are in one extent, a tree's before those of the trees below it.

use super::format::ITEM_BYTES;
use super::sketch_runs::{SketchItem, SketchRunReader};
use crate::blocks::{BlockExtent, BlockSpace, Result};

/// An input of a merger.
#[derive(Clone, Copy, Debug)]
enum MergerInput {
    Run(usize),
    Merger(usize),
}

#[derive(Debug)]
struct FunnelMerger {
    left: MergerInput,
    right: Option<MergerInput>,
    buffer: MergerBuffer,
}

/// A buffer of items in a part of the extent.
#[derive(Debug, Default)]
struct MergerBuffer {
    offset: u64,
    capacity: u64,
    /// The numbers of items added and removed.
    filled: u64,
    taken: u64,
    head: Option<SketchItem>,
    exhausted: bool,
    window: Vec<SketchItem>,
    window_at: usize,
}

/// Merges runs. Among equal prefixes, the item of the earlier run comes first.
pub(super) struct Funnel<'s> {
    space: &'s dyn BlockSpace,
    extent: Option<BlockExtent>,
    mergers: Vec<FunnelMerger>,
    runs: Vec<SketchRunReader<'s>>,
    heads: Vec<Option<SketchItem>>,
    root: MergerInput,
}

/// The number of items transferred between a buffer and the merger at a time, a constant.
const WINDOW: usize = 4;

impl<'s> Funnel<'s> {
    /// Creates a funnel over runs, the oldest first.
    pub(super) fn new(space: &'s dyn BlockSpace, mut runs: Vec<SketchRunReader<'s>>) -> Result<Funnel<'s>> {
        let heads = runs
            .iter_mut()
            .map(SketchRunReader::next)
            .collect::<Result<Vec<_>>>()?;
        let mut funnel = Funnel {
            space,
            extent: None,
            mergers: Vec::new(),
            heads,
            root: MergerInput::Run(0),
            runs,
        };
        if funnel.runs.len() > 1 {
            let inputs: Vec<MergerInput> = (0..funnel.runs.len()).map(MergerInput::Run).collect();
            let mut end = 0;
            let height = funnel.runs.len().next_power_of_two().ilog2();
            funnel.root = funnel.build(&inputs, height, 0, &mut end);
            if end > 0 {
                funnel.extent = Some(space.allocate(end * ITEM_BYTES)?);
            }
        }
        Ok(funnel)
    }

    /// Creates a tree of `height` over inputs, with a root buffer of `capacity` items. A single
    /// input needs no tree.
    fn build(&mut self, inputs: &[MergerInput], height: u32, capacity: u64, end: &mut u64) -> MergerInput {
        if inputs.len() == 1 {
            return inputs[0];
        }
        if height == 1 {
            let buffer = MergerBuffer {
                offset: *end,
                capacity,
                ..MergerBuffer::default()
            };
            *end += capacity;
            self.mergers.push(FunnelMerger {
                left: inputs[0],
                right: inputs.get(1).copied(),
                buffer,
            });
            return MergerInput::Merger(self.mergers.len() - 1);
        }
        // The bottom trees have half of the levels; the top tree merges their buffers.
        let below = height / 2;
        let middle = 2f64.powf(1.5 * f64::from(height)).ceil() as u64;
        let bottoms: Vec<MergerInput> = inputs
            .chunks(1 << below)
            .map(|inputs| self.build(inputs, below, middle, end))
            .collect();
        self.build(&bottoms, height - below, capacity, end)
    }

    pub(super) fn next(&mut self) -> Result<Option<SketchItem>> {
        if self.runs.is_empty() {
            return Ok(None);
        }
        match self.root {
            MergerInput::Run(_) => self.take(self.root),
            MergerInput::Merger(at) => self.merge(at),
        }
    }

    /// Releases the extent of the buffers.
    pub(super) fn end(self, space: &dyn BlockSpace) {
        if let Some(extent) = self.extent {
            space.release(extent);
        }
    }

    /// Removes and returns the lesser of a merger's two heads.
    fn merge(&mut self, at: usize) -> Result<Option<SketchItem>> {
        let (left, right) = (self.mergers[at].left, self.mergers[at].right);
        let first = self.peek(left)?;
        let second = match right {
            Some(right) => self.peek(right)?,
            None => None,
        };
        match (first, second, right) {
            (Some(first), Some(second), Some(right)) if second.prefix < first.prefix => self.take(right),
            (None, Some(_), Some(right)) => self.take(right),
            (Some(_), ..) => self.take(left),
            _ => Ok(None),
        }
    }

    fn peek(&mut self, input: MergerInput) -> Result<Option<SketchItem>> {
        match input {
            MergerInput::Run(at) => Ok(self.heads[at]),
            MergerInput::Merger(at) => {
                if self.mergers[at].buffer.head.is_none() {
                    self.refresh(at)?;
                }
                Ok(self.mergers[at].buffer.head)
            }
        }
    }

    fn take(&mut self, input: MergerInput) -> Result<Option<SketchItem>> {
        let item = self.peek(input)?;
        match input {
            MergerInput::Run(at) if item.is_some() => self.heads[at] = self.runs[at].next()?,
            MergerInput::Run(_) => {}
            MergerInput::Merger(at) => self.mergers[at].buffer.head = None,
        }
        Ok(item)
    }

    /// Finds the next head of a buffer, filling the buffer first if it is empty.
    fn refresh(&mut self, at: usize) -> Result<()> {
        if self.mergers[at].buffer.window_at == self.mergers[at].buffer.window.len() {
            let buffer = &self.mergers[at].buffer;
            if buffer.taken == buffer.filled {
                if buffer.exhausted {
                    return Ok(());
                }
                self.fill(at)?;
            }
            self.load(at)?;
        }
        let buffer = &mut self.mergers[at].buffer;
        buffer.head = buffer.window.get(buffer.window_at).copied();
        buffer.window_at += usize::from(buffer.head.is_some());
        Ok(())
    }

    /// Fills an empty buffer with merged items, up to its capacity.
    fn fill(&mut self, at: usize) -> Result<()> {
        let Some(extent) = self.extent else { return Ok(()) };
        let (offset, capacity) = (self.mergers[at].buffer.offset, self.mergers[at].buffer.capacity);
        let (mut filled, mut bytes) = (0, Vec::new());
        let mut written = 0;
        while filled < capacity {
            let Some(item) = self.merge(at)? else {
                self.mergers[at].buffer.exhausted = true;
                break;
            };
            item.encode(&mut bytes);
            filled += 1;
            if bytes.len() >= WINDOW * ITEM_BYTES as usize {
                self.space
                    .write(extent.at + offset * ITEM_BYTES + written, &bytes)?;
                written += bytes.len() as u64;
                bytes.clear();
            }
        }
        if !bytes.is_empty() {
            self.space
                .write(extent.at + offset * ITEM_BYTES + written, &bytes)?;
        }
        let buffer = &mut self.mergers[at].buffer;
        (buffer.filled, buffer.taken) = (filled, 0);
        Ok(())
    }

    /// Reads the next items of a buffer.
    fn load(&mut self, at: usize) -> Result<()> {
        let buffer = &mut self.mergers[at].buffer;
        buffer.window.clear();
        buffer.window_at = 0;
        let count = (buffer.filled - buffer.taken).min(WINDOW as u64);
        let Some(extent) = self.extent.filter(|_| count > 0) else {
            return Ok(());
        };
        let mut bytes = vec![0; (count * ITEM_BYTES) as usize];
        let place = extent.place((buffer.offset + buffer.taken) * ITEM_BYTES, count * ITEM_BYTES)?;
        self.space.read(place, &mut bytes)?;
        for bytes in bytes.chunks(ITEM_BYTES as usize) {
            buffer.window.push(SketchItem::decode(bytes)?);
        }
        buffer.taken += count;
        Ok(())
    }
}
