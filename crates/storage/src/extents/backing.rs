//! Tracks which of a tier's units have space on the file system, which are in use by a device
//! operation, and where the file ends. Like the rest of [`TierExtents`], this code performs no I/O.

use super::tier::TierExtents;
use std::ops::Range;

/// Whether units have file system space after a device operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitBacking {
    Backed,
    Hole,
    Unchanged,
}

impl TierExtents {
    /// Returns the number of free units not known to be holes, which may therefore occupy space on
    /// the file system.
    pub(super) fn occupying(&self) -> u32 {
        let held_holes: u32 = self
            .held
            .iter()
            .map(|range| self.holes.count_in(range.clone()))
            .sum();
        assert!(held_holes <= self.holes.count(), "held holes are holes");
        assert!(
            self.holes.count() - held_holes <= self.free.count(),
            "holes are free"
        );
        self.free.count() - (self.holes.count() - held_holes)
    }

    /// Returns the first run of free units at or after `at` that are not known to be backed.
    pub(super) fn first_unbacked(&self, at: u32) -> Option<Range<u32>> {
        let free = self.free.runs_in(at..self.units);
        free.flat_map(|run| self.backed.gaps_in(run)).next()
    }

    /// Returns the first free unit at or after `at` for which it is unknown whether it occupies
    /// space.
    pub(super) fn first_unknown(&self, at: u32) -> Option<u32> {
        let free = self.free.runs_in(at..self.units);
        let unbacked = free.flat_map(|run| self.backed.gaps_in(run));
        let mut unknown = unbacked.flat_map(|run| self.holes.gaps_in(run));
        unknown.next().map(|run| run.start)
    }

    pub(super) fn is_unbacked(&self, range: Range<u32>) -> bool {
        self.free.contains(range.clone()) && self.backed.count_in(range) == 0
    }

    /// Takes units out of the free set for the duration of a device operation.
    pub(super) fn hold(&mut self, range: Range<u32>) {
        self.free.remove(range.clone());
        self.backed.clear(range.clone());
        debug_assert!(
            self.held
                .iter()
                .all(|held| held.end <= range.start || range.end <= held.start)
        );
        self.held.push(range);
    }

    /// Returns units to the free set after a device operation. `space` says whether they now have
    /// file system space.
    pub(super) fn unhold(&mut self, range: &Range<u32>, space: UnitBacking) {
        let at = self.held.iter().position(|held| held == range);
        self.held
            .swap_remove(at.expect("only what is held is given back"));
        debug_assert!(range.end <= self.units, "held units lie in the file (X1)");
        self.free.insert(range.clone());
        match space {
            UnitBacking::Backed => {
                self.holes.clear(range.clone());
                self.backed.insert(range.clone());
            }
            UnitBacking::Hole => {
                self.holes.reach(range.end);
                self.holes.set(range.clone());
            }
            UnitBacking::Unchanged => {}
        }
    }

    /// Adds the units at the end of a file that has grown, which are free and backed.
    pub(super) fn extend(&mut self, units: u32) {
        assert!(
            units > self.units,
            "a file of {} units grows to {units}",
            self.units
        );
        let new = self.units..units;
        self.free.reach(units);
        self.backed.reach(units);
        self.free.insert(new.clone());
        self.backed.insert(new);
        self.units = units;
    }

    /// Removes the units at the end of a file that was truncated. They must have been taken out of
    /// the free set with [`TierExtents::hold`].
    pub(super) fn shorten(&mut self, cut: &Range<u32>) {
        let at = self.held.iter().position(|held| held == cut);
        self.held.swap_remove(at.expect("only what is held is cut off"));
        assert_eq!(cut.end, self.units, "only the end of a file can be cut off");
        self.units = cut.start;
        self.holes.clear(cut.clone());
        self.free.shrink(cut.start);
        self.backed.shrink(cut.start);
        self.holes.shrink(cut.start);
    }

    /// Returns the longest range of free units at the end of the file with at most `occupying`
    /// units that may occupy space on the file system.
    pub(super) fn tail_with(&self, occupying: u32) -> Range<u32> {
        let tail = self.units - self.free.run_below(self.units)..self.units;
        let mut start = tail.start;
        while self.free.count_in(start..tail.end) - self.holes.count_in(start..tail.end) > occupying {
            // Each iteration skips at least one surplus unit that may occupy space, so the loop
            // terminates.
            let surplus = tail.end - start - self.holes.count_in(start..tail.end) - occupying;
            start += surplus;
        }
        debug_assert!(start <= tail.end, "a part of the free end is cut off");
        start..tail.end
    }

    /// Once the states were read from a map, marks all units that belong to no extent as free.
    /// Whether these occupy space is unknown. `units` is the length of the file.
    pub(super) fn opened(&mut self, units: u32) {
        assert!(
            self.held.is_empty(),
            "nothing is lent to the device while a map is read (X1)"
        );
        self.units = units;
        let states = &self.states;
        self.free.fill(units, |index| states.free_bits(index));
        self.backed.reach(units);
    }
}
