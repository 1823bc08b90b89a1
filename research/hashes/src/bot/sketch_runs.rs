//! Runs of sketches on tapes: sorted prefixes with the characters that later levels need.

use super::format::{RunTrailer, TRAILER_BYTES};
use super::tape::{Tape, TapeReader};
use crate::blocks::{BlockSpace, Error, MachineModel, Result};
use alluvium_filters::golomb::{BitReader, DeltaCoder, RiceCode, StreamBitWriter};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A prefix and its sketches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SketchItem {
    pub(super) prefix: u64,
    pub(super) payload: u128,
}

/// The encoding parameters of a series' runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SketchRunShape {
    pub(super) prefix_bits: u32,
    pub(super) payload_bits: u32,
}

/// Appends one run to a tape.
pub(super) struct SketchRunWriter {
    shape: SketchRunShape,
    rice: RiceCode,
    bits: StreamBitWriter,
    delta: DeltaCoder,
    count: u64,
    start: u64,
}

impl SketchRunWriter {
    /// Starts a run of about `expected` items.
    pub(super) fn new(tape: &Tape, shape: SketchRunShape, expected: u64) -> SketchRunWriter {
        let rice = RiceCode::new(expected, shape.prefix_bits);
        let (bits, delta) = (StreamBitWriter::new(), DeltaCoder::new(rice, 0));
        SketchRunWriter {
            shape,
            rice,
            bits,
            delta,
            count: 0,
            start: tape.bytes(),
        }
    }

    /// Appends an item, whose prefix must not be less than the previous one.
    pub(super) fn push(
        &mut self,
        tape: &mut Tape,
        space: &dyn BlockSpace,
        machine: MachineModel,
        item: SketchItem,
    ) -> Result<()> {
        self.delta.write(&mut self.bits, item.prefix);
        self.bits.put_wide(item.payload, self.shape.payload_bits);
        self.count += 1;
        if self.bits.ready() >= machine.chunk() {
            tape.append(space, machine, &self.bits.take())?;
        }
        Ok(())
    }

    /// Completes the run on `tape`. Writes nothing if the run is empty.
    pub(super) fn finish(self, tape: &mut Tape, space: &dyn BlockSpace, machine: MachineModel) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let mut bytes = self.bits.finish();
        let body = tape.bytes() + bytes.len() as u64 - self.start;
        RunTrailer {
            count: self.count,
            bytes: body,
            parameter: self.rice.parameter(),
        }
        .encode(&mut bytes);
        tape.append(space, machine, &bytes)?;
        tape.runs += 1;
        tape.entries += self.count;
        Ok(())
    }
}

/// The location of a run on its tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TapeRunLocation {
    pub(super) start: u64,
    pub(super) trailer: RunTrailer,
}

/// Finds runs backwards from the end of a tape, using the trailer of each run.
pub(super) struct ReverseRunScan<'s> {
    tape: &'s Tape,
    space: &'s dyn BlockSpace,
    machine: MachineModel,
    end: u64,
    left: u64,
}

impl<'s> ReverseRunScan<'s> {
    pub(super) fn new(
        tape: &'s Tape,
        space: &'s dyn BlockSpace,
        machine: MachineModel,
    ) -> ReverseRunScan<'s> {
        ReverseRunScan {
            tape,
            space,
            machine,
            end: tape.bytes(),
            left: tape.runs,
        }
    }

    /// Returns the next `most` runs, the last on the tape first.
    pub(super) fn next(&mut self, most: u64, shape: SketchRunShape) -> Result<Vec<TapeRunLocation>> {
        let mut places = Vec::new();
        while self.left > 0 && (places.len() as u64) < most {
            let at = self.end.saturating_sub(TRAILER_BYTES);
            let mut bytes = Vec::new();
            let mut reader = self.tape.reader(self.space, self.machine, at..self.end)?;
            crate::records::RecordSource::take(&mut reader, self.end - at, &mut bytes)?;
            let trailer = RunTrailer::decode(&bytes, at, shape)?;
            let start = at - trailer.bytes;
            places.push(TapeRunLocation { start, trailer });
            self.end = start;
            self.left -= 1;
        }
        Ok(places)
    }
}

pub(super) struct SketchRunReader<'s> {
    bits: BitReader<TapeReader<'s>>,
    delta: DeltaCoder,
    left: u64,
    shape: SketchRunShape,
}

impl<'s> SketchRunReader<'s> {
    pub(super) fn new(
        tape: &'s Tape,
        space: &'s dyn BlockSpace,
        machine: MachineModel,
        place: TapeRunLocation,
        shape: SketchRunShape,
    ) -> Result<SketchRunReader<'s>> {
        let TapeRunLocation { start, trailer } = place;
        let reader = tape.reader(space, machine, start..start + trailer.bytes)?;
        let delta = DeltaCoder::new(RiceCode::with_parameter(trailer.parameter, shape.prefix_bits), 0);
        Ok(SketchRunReader {
            bits: BitReader::new(reader),
            delta,
            left: trailer.count,
            shape,
        })
    }

    pub(super) fn next(&mut self) -> Result<Option<SketchItem>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let prefix = self
            .delta
            .read(&mut self.bits, (1 << self.shape.prefix_bits) - 1)?;
        let payload = self.bits.get_wide(self.shape.payload_bits)?;
        Ok(Some(SketchItem { prefix, payload }))
    }
}

/// Merges runs with a heap, for a machine with blocks. Among equal prefixes, the item of the
/// earlier run comes first.
pub(super) struct HeapMerge<'s> {
    runs: Vec<SketchRunReader<'s>>,
    heads: Vec<SketchItem>,
    heap: BinaryHeap<Reverse<(u64, usize)>>,
}

impl<'s> HeapMerge<'s> {
    pub(super) fn new(runs: Vec<SketchRunReader<'s>>) -> Result<HeapMerge<'s>> {
        let mut merge = HeapMerge {
            heads: vec![SketchItem::default(); runs.len()],
            runs,
            heap: BinaryHeap::new(),
        };
        for at in 0..merge.runs.len() {
            merge.advance(at)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, at: usize) -> Result<()> {
        if let Some(item) = self.runs[at].next()? {
            self.heads[at] = item;
            self.heap.push(Reverse((item.prefix, at)));
        }
        Ok(())
    }

    pub(super) fn next(&mut self) -> Result<Option<SketchItem>> {
        let Some(Reverse((_, at))) = self.heap.pop() else {
            return Ok(None);
        };
        let item = self.heads[at];
        self.advance(at)?;
        Ok(Some(item))
    }
}

/// The merge that is appropriate for the machine.
pub(super) enum SketchMerge<'s> {
    Heap(HeapMerge<'s>),
    Funnel(Box<super::funnel::Funnel<'s>>),
}

impl<'s> SketchMerge<'s> {
    /// Merges the runs at the given locations of a tape, the oldest first.
    pub(super) fn new(
        tape: &'s Tape,
        space: &'s dyn BlockSpace,
        machine: MachineModel,
        places: &[TapeRunLocation],
        shape: SketchRunShape,
    ) -> Result<SketchMerge<'s>> {
        let runs = places
            .iter()
            .map(|&place| SketchRunReader::new(tape, space, machine, place, shape));
        let runs = runs.collect::<Result<Vec<_>>>()?;
        match machine {
            MachineModel::Blocks { .. } => Ok(SketchMerge::Heap(HeapMerge::new(runs)?)),
            MachineModel::Oblivious => Ok(SketchMerge::Funnel(Box::new(super::funnel::Funnel::new(
                space, runs,
            )?))),
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<SketchItem>> {
        match self {
            SketchMerge::Heap(merge) => merge.next(),
            SketchMerge::Funnel(funnel) => funnel.next(),
        }
    }

    /// Releases the resources of the merge.
    pub(super) fn end(self, space: &dyn BlockSpace) {
        if let SketchMerge::Funnel(funnel) = self {
            funnel.end(space);
        }
    }
}

/// Returns how many of `runs` runs with `entries` items are merged at once: all of them in the
/// last pass.
///
/// With blocks, the memory limits the number. Without blocks, the merge is a partial funnelsort
/// (Conway §2.6): all runs if K runs have at least K³ items, otherwise groups of the cube root.
pub(super) fn group_of(machine: MachineModel, runs: u64, entries: u64) -> u64 {
    match machine.fan_in() {
        Some(fan_in) => fan_in as u64,
        None if runs <= 2 || u128::from(entries) >= u128::from(runs).pow(3) => runs.max(2),
        None => ((runs as f64).cbrt().ceil() as u64).max(2),
    }
}

/// Merges runs in passes until one more merge is enough. Returns the tape, which holds as many
/// runs, and their places from the oldest.
pub(super) fn reduce(
    mut tape: Tape,
    space: &dyn BlockSpace,
    machine: MachineModel,
    shape: SketchRunShape,
) -> Result<(Tape, Vec<TapeRunLocation>)> {
    // Runs are found from the end, so each pass reverses their order.
    let mut newest_first = true;
    loop {
        let group = group_of(machine, tape.runs, tape.entries);
        if tape.runs <= group {
            let mut places = ReverseRunScan::new(&tape, space, machine).next(group, shape)?;
            if newest_first {
                places.reverse();
            }
            return Ok((tape, places));
        }
        let mut next = Tape::default();
        let mut walk = ReverseRunScan::new(&tape, space, machine);
        loop {
            let mut places = walk.next(group, shape)?;
            if places.is_empty() {
                break;
            }
            if newest_first {
                places.reverse();
            }
            let expected = places.iter().map(|place| place.trailer.count).sum();
            let mut stream = SketchMerge::new(&tape, space, machine, &places, shape)?;
            let mut writer = SketchRunWriter::new(&next, shape, expected);
            while let Some(item) = stream.next()? {
                writer.push(&mut next, space, machine, item)?;
            }
            stream.end(space);
            writer.finish(&mut next, space, machine)?;
        }
        if next.entries != tape.entries {
            return Err(Error::damaged(0, "items of a tape", tape.entries, next.entries));
        }
        tape.clear(space);
        tape = next;
        newest_first = !newest_first;
    }
}
