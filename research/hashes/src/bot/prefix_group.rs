//! Sorts the items of a prefix after the prefix grows: such a group has few items, and its items
//! are not ordered by the added bits.

use super::sketch_runs::{SketchItem, SketchMerge, SketchRunShape, SketchRunWriter, reduce};
use super::tape::Tape;
use crate::blocks::{BlockSpace, MachineModel, Result};

/// The maximum number of items of a group in memory. Larger groups are sorted in parts and
/// merged.
pub(super) const MOST: usize = 4096;

/// Sorts the items of a group stably.
pub(super) struct PrefixGroupSorter {
    shape: SketchRunShape,
    items: Vec<SketchItem>,
    spilled: Tape,
}

impl PrefixGroupSorter {
    pub(super) fn new(shape: SketchRunShape) -> PrefixGroupSorter {
        PrefixGroupSorter {
            shape,
            items: Vec::new(),
            spilled: Tape::default(),
        }
    }

    pub(super) fn push(
        &mut self,
        item: SketchItem,
        space: &dyn BlockSpace,
        machine: MachineModel,
    ) -> Result<()> {
        self.items.push(item);
        if self.items.len() >= MOST {
            self.spill(space, machine)?;
        }
        Ok(())
    }

    fn spill(&mut self, space: &dyn BlockSpace, machine: MachineModel) -> Result<()> {
        self.items.sort_by_key(|item| item.prefix);
        let mut run = SketchRunWriter::new(&self.spilled, self.shape, self.items.len() as u64);
        for item in self.items.drain(..) {
            run.push(&mut self.spilled, space, machine, item)?;
        }
        run.finish(&mut self.spilled, space, machine)
    }

    /// Passes on the items of the group in order, and clears the group.
    pub(super) fn drain(
        &mut self,
        space: &dyn BlockSpace,
        machine: MachineModel,
        sink: &mut dyn FnMut(SketchItem) -> Result<()>,
    ) -> Result<()> {
        if self.spilled.runs == 0 {
            self.items.sort_by_key(|item| item.prefix);
            return self.items.drain(..).try_for_each(sink);
        }
        self.spill(space, machine)?;
        let (mut tape, places) = reduce(std::mem::take(&mut self.spilled), space, machine, self.shape)?;
        let mut stream = SketchMerge::new(&tape, space, machine, &places, self.shape)?;
        while let Some(item) = stream.next()? {
            sink(item)?;
        }
        stream.end(space);
        tape.clear(space);
        Ok(())
    }
}
