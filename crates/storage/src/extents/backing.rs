//! The space behind a tier's units: which free ones have it, which are lent to an operation of the
//! device, where the file ends. A part of [`Tier`]; no I/O here either.

use super::tier::Tier;
use std::ops::Range;

/// What is known of the space behind units that are given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Backed,
    Hole,
    AsItWas,
}

impl Tier {
    /// Free units that may have space on the file system.
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

    /// Returns the first free stretch from `at` on that is not known to be backed.
    pub(super) fn first_unbacked(&self, at: u32) -> Option<Range<u32>> {
        let free = self.free.runs_in(at..self.units);
        free.flat_map(|run| self.backed.gaps_in(run)).next()
    }

    /// Returns the first free unit from `at` on of which nothing is known.
    pub(super) fn first_unknown(&self, at: u32) -> Option<u32> {
        let free = self.free.runs_in(at..self.units);
        let unbacked = free.flat_map(|run| self.backed.gaps_in(run));
        let mut unknown = unbacked.flat_map(|run| self.holes.gaps_in(run));
        unknown.next().map(|run| run.start)
    }

    pub(super) fn is_unbacked(&self, range: Range<u32>) -> bool {
        self.free.contains(range.clone()) && self.backed.count_in(range) == 0
    }

    /// Takes free units out, for an operation of the device on them.
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

    /// Gives held units back as free.
    pub(super) fn unhold(&mut self, range: &Range<u32>, space: Space) {
        let at = self.held.iter().position(|held| held == range);
        self.held
            .swap_remove(at.expect("only what is held is given back"));
        debug_assert!(range.end <= self.units, "held units lie in the file (X1)");
        self.free.insert(range.clone());
        match space {
            Space::Backed => {
                self.holes.clear(range.clone());
                self.backed.insert(range.clone());
            }
            Space::Hole => {
                self.holes.reach(range.end);
                self.holes.set(range.clone());
            }
            Space::AsItWas => {}
        }
    }

    /// The file has grown: its new units are free and backed.
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

    /// The file was shortened by a held range at its end.
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

    /// Returns how much of the free end of the file holds at most `occupying` units that may have
    /// space.
    pub(super) fn tail_with(&self, occupying: u32) -> Range<u32> {
        let tail = self.units - self.free.run_below(self.units)..self.units;
        let mut start = tail.start;
        while self.free.count_in(start..tail.end) - self.holes.count_in(start..tail.end) > occupying {
            // Each round skips at least one occupying unit too many, so the loop ends at
            // `occupying` of them.
            let surplus = tail.end - start - self.holes.count_in(start..tail.end) - occupying;
            start += surplus;
        }
        debug_assert!(start <= tail.end, "a part of the free end is cut off");
        start..tail.end
    }

    /// Everything that has no owner becomes free, of unknown backing: the end of an open.
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
