//! The in-memory state of one tier: its extents and its free units. This module performs no I/O and
//! takes no locks.

use super::policy::{self, AllocationInput, SpaceReserve};
use super::state::{ExtentPhase, ExtentState, UnitStates};
use super::unit_set::{CHUNK, UnitSet};
use super::{AllocationClass, Extent, MAX_EXTENT_UNITS, MAX_REFERENCES, TierLimits};
use std::collections::VecDeque;
use std::ops::Range;

/// An extent whose last reference was released, and the epoch at which that happened.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnlinkedExtent {
    pub(super) start: u32,
    pub(super) epoch: u64,
}

/// A change to an extent since the last freeze, as stored in the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExtentChange {
    pub(super) start: u32,
    pub(super) units: u32,
    /// The extent's reference count and live bytes, or `None` if it no longer exists.
    pub(super) now: Option<(u32, u64)>,
    /// Whether the previous map contains the extent.
    pub(super) known: bool,
}

/// The numbers of live extents and live bytes, and the numbers of units in live, provisional and
/// dead extents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ExtentCounts {
    pub(super) live_extents: u64,
    pub(super) live_units: u32,
    pub(super) live_bytes: u64,
    pub(super) provisional_units: u32,
    pub(super) dead_units: u32,
}

impl ExtentCounts {
    /// Adds an extent to the counts of its state.
    pub(super) fn add(&mut self, head: &ExtentState) {
        match head.life {
            ExtentPhase::Provisional => self.provisional_units += head.units,
            ExtentPhase::Dead => self.dead_units += head.units,
            ExtentPhase::Live => {
                self.live_extents += 1;
                self.live_units += head.units;
                self.live_bytes += head.live;
            }
        }
    }

    /// Subtracts an extent from the counts of its state.
    fn sub(&mut self, head: &ExtentState) {
        let counted = match head.life {
            ExtentPhase::Provisional => self.provisional_units,
            ExtentPhase::Dead => self.dead_units,
            ExtentPhase::Live => self.live_units,
        };
        assert!(
            head.units <= counted,
            "{counted} units are {:?}, {} leave",
            head.life,
            head.units
        );
        assert!(
            head.life != ExtentPhase::Live || (head.live <= self.live_bytes && self.live_extents > 0),
            "{} bytes are live, {} leave",
            self.live_bytes,
            head.live
        );
        match head.life {
            ExtentPhase::Provisional => self.provisional_units -= head.units,
            ExtentPhase::Dead => self.dead_units -= head.units,
            ExtentPhase::Live => {
                self.live_extents -= 1;
                self.live_units -= head.units;
                self.live_bytes -= head.live;
            }
        }
    }
}

/// The state of one tier: its extents and its free units.
#[derive(Debug, Default)]
pub(super) struct TierExtents {
    pub(super) number: u8,
    /// Length of the tier's file in units.
    pub(super) units: u32,
    pub(super) states: UnitStates,
    /// Units that are free and not in use by a device operation.
    pub(super) free: UnitSet,
    /// Free units that are known to occupy space on the file system.
    pub(super) backed: UnitSet,
    /// Units known to occupy no space on the file system that are free or in use by a device
    /// operation. After the store is opened, it is unknown which free units occupy space until they
    /// are accessed.
    pub(super) holes: UnitSet,
    /// Free units that were taken out of `free` for a device operation, which runs without the
    /// tier's lock.
    pub(super) held: Vec<Range<u32>>,
    /// The first unit of each extent that changed since the last freeze, without duplicates.
    pub(super) dirty: Vec<u32>,
    /// Extents that died since the last freeze.
    dying: Vec<UnlinkedExtent>,
    /// Total size in units of the extents in `dying`.
    pub(super) dying_units: u32,
    /// Extents that died before the freeze of a generation that is not durable yet, grouped by that
    /// generation.
    dead: VecDeque<(u64, Vec<UnlinkedExtent>)>,
    /// Extents that are dead in a durable generation, and become free once their epoch is safe. The
    /// queue is in order of death, so an extent whose epoch is not safe yet delays only those that
    /// died at about the same time or later.
    pending: VecDeque<UnlinkedExtent>,
    pub(super) counts: ExtentCounts,
    /// Whether a thread is changing the file's length without holding the tier's lock.
    pub(super) resizing: bool,
    /// Number of units needed by a single compaction that frees space.
    pub(super) freeing: u32,
}

impl TierExtents {
    pub(super) fn new(number: u8) -> TierExtents {
        TierExtents {
            number,
            ..TierExtents::default()
        }
    }

    /// Returns the allocation policy's input for a request of `least` to `wanted` units.
    pub(super) fn view(
        &self,
        wanted: u32,
        least: u32,
        class: AllocationClass,
        limits: &TierLimits,
    ) -> AllocationInput {
        AllocationInput {
            wanted,
            least,
            class,
            file: self.units,
            free: self.free.count(),
            free_longest: self.free.longest(),
            backed: self.backed.count(),
            backed_longest: self.backed.longest(),
            reserve: self.reserve(limits),
            unknown: self.occupying() - self.backed.count(),
            refused: false,
            probed: false,
        }
    }

    /// Returns the number of units to keep backed for essential allocations.
    pub(super) fn reserve(&self, limits: &TierLimits) -> SpaceReserve {
        debug_assert!(
            self.backed.count() <= self.free.count(),
            "backed units are free ones"
        );
        let used = self.used();
        SpaceReserve {
            shared: policy::reserve(used, limits.reserve_bounds(), limits.start()),
            freeing: policy::reserve_for_freeing(used, self.freeing),
        }
    }

    /// Returns the number of units in extents that are provisional, live or dead.
    pub(super) fn used(&self) -> u32 {
        let counts = &self.counts;
        let used = counts.live_units + counts.provisional_units + counts.dead_units;
        debug_assert!(
            used <= self.units,
            "{used} of {} units are in use (X1)",
            self.units
        );
        used
    }

    pub(super) fn extent(&self, start: u32, units: u32) -> Extent {
        Extent {
            tier: self.number,
            start,
            units,
        }
    }

    /// Allocates a provisional extent of backed units. It begins at unit `near` if the units there
    /// are free and backed, and otherwise at the first long enough run of such units.
    pub(super) fn take(&mut self, units: u32, near: Option<u32>) -> Extent {
        let near = near.filter(|&near| {
            near.checked_add(units)
                .is_some_and(|end| self.backed.contains(near..end))
        });
        let start = near
            .or_else(|| self.backed.first_fit(units))
            .expect("the policy takes no more than the longest backed stretch");
        assert!(
            start + units <= self.units,
            "{units} units at {start} of a file of {}",
            self.units
        );
        self.free.remove(start..start + units);
        self.backed.remove(start..start + units);
        let head = ExtentState {
            life: ExtentPhase::Provisional,
            units,
            references: 1,
            live: 0,
            dirty: false,
            persisted: false,
        };
        debug_assert_eq!(
            self.holes.count_in(start..start + units),
            0,
            "it has its space (X3)"
        );
        self.states.occupy(start, &head);
        self.counts.add(&head);
        self.extent(start, units)
    }

    /// Returns the state of an extent, or `None` if there is no extent with this position and
    /// length.
    pub(super) fn find(&self, extent: Extent) -> Option<ExtentState> {
        self.states
            .head(extent.start)
            .filter(|head| head.units == extent.units)
    }

    /// Returns the live extent that contains a unit, if any.
    pub(super) fn extent_at(&self, unit: u32) -> Option<Extent> {
        let starts = (unit.saturating_sub(MAX_EXTENT_UNITS - 1)..=unit).rev();
        let (start, head) = starts
            .take_while(|&start| !self.states.is_free(start))
            .find_map(|start| Some((start, self.states.head(start)?)))?;
        let extent = self.extent(start, head.units);
        (unit < extent.end() && head.life == ExtentPhase::Live).then_some(extent)
    }

    fn expect(&self, extent: Extent, life: ExtentPhase, action: &str) -> ExtentState {
        match self.find(extent) {
            Some(head) if head.life == life => head,
            found => panic!("{action} {extent}: it should be {life:?}, found {found:?}"),
        }
    }

    /// Marks units as free and backed.
    fn vacate(&mut self, start: u32, units: u32) {
        assert!(
            units > 0 && start + units <= self.units,
            "{units} units at {start} of a file of {}",
            self.units
        );
        self.states.vacate(start, units);
        self.free.insert(start..start + units);
        self.backed.insert(start..start + units);
        for chunk in start / CHUNK..=(start + units - 1) / CHUNK {
            if self.free.contains(chunk * CHUNK..(chunk + 1) * CHUNK) {
                self.states.forget_chunk(chunk);
            }
        }
    }

    /// Frees a provisional extent that will not be installed.
    pub(super) fn abandon(&mut self, extent: Extent) {
        let head = self.expect(extent, ExtentPhase::Provisional, "abandoning");
        self.counts.sub(&head);
        self.vacate(extent.start, extent.units);
    }

    /// Frees the end of a provisional extent, of which the first `units` are kept. Returns the
    /// shortened extent.
    pub(super) fn trim(&mut self, extent: Extent, units: u32) -> Extent {
        let head = self.expect(extent, ExtentPhase::Provisional, "trimming");
        assert!(
            (1..=extent.units).contains(&units),
            "trimming {extent} to {units} units"
        );
        if units < extent.units {
            self.vacate(extent.start + units, extent.units - units);
            self.counts.sub(&head);
            self.counts.add(&ExtentState { units, ..head });
            self.states.update(extent.start, &ExtentState { units, ..head });
        }
        self.extent(extent.start, units)
    }

    /// Makes a provisional extent live, with `live` live bytes.
    pub(super) fn install(&mut self, extent: Extent, live: u64) {
        let head = self.expect(extent, ExtentPhase::Provisional, "installing");
        assert_eq!(head.references, 1, "{extent} has one owner until it is installed");
        assert!(
            live <= extent.bytes(),
            "installing {extent} with {live} live bytes"
        );
        self.change(extent.start, head, |head| {
            head.life = ExtentPhase::Live;
            head.live = live;
        });
    }

    /// Changes the state of an extent, and records that the next map must contain the change.
    fn change(&mut self, start: u32, before: ExtentState, edit: impl FnOnce(&mut ExtentState)) {
        let mut head = before;
        edit(&mut head);
        debug_assert_eq!(
            head.life == ExtentPhase::Dead,
            head.references == 0,
            "references (X6)"
        );
        debug_assert_eq!(head.units, before.units, "an extent keeps its length");
        head.dirty = true;
        if !before.dirty {
            self.dirty.push(start);
        }
        self.counts.sub(&before);
        self.counts.add(&head);
        self.states.update(start, &head);
    }

    pub(super) fn retain(&mut self, extent: Extent) {
        let head = self.expect(extent, ExtentPhase::Live, "retaining");
        assert!(
            head.references < MAX_REFERENCES,
            "{extent} has {MAX_REFERENCES} references"
        );
        self.change(extent.start, head, |head| head.references += 1);
    }

    /// Releases a reference to a live extent. Returns whether it was the last, so that the extent
    /// is now dead.
    pub(super) fn release(&mut self, extent: Extent, epoch: u64) -> bool {
        let head = self.expect(extent, ExtentPhase::Live, "releasing");
        assert!(head.references > 0, "{extent} is live without a reference");
        let last = head.references == 1;
        if last {
            let start = extent.start;
            self.dying.push(UnlinkedExtent { start, epoch });
            self.dying_units += extent.units;
        }
        self.change(extent.start, head, |head| {
            head.references -= 1;
            head.life = if last {
                ExtentPhase::Dead
            } else {
                ExtentPhase::Live
            };
        });
        last
    }

    pub(super) fn add_live(&mut self, extent: Extent, bytes: u64) {
        let head = self.expect(extent, ExtentPhase::Live, "adding live bytes to");
        let live = head.live + bytes;
        assert!(live <= extent.bytes(), "{extent} would have {live} live bytes");
        self.change(extent.start, head, |head| head.live = live);
    }

    pub(super) fn sub_live(&mut self, extent: Extent, bytes: u64) {
        let head = self.expect(extent, ExtentPhase::Live, "taking live bytes from");
        assert!(
            bytes <= head.live,
            "{extent} has {} live bytes, {bytes} die",
            head.live
        );
        self.change(extent.start, head, |head| head.live -= bytes);
    }

    /// Returns all changes since the last freeze and starts a new list. Extents that died since the
    /// last freeze are tagged with `generation`.
    pub(super) fn freeze(&mut self, generation: u64) -> Vec<ExtentChange> {
        let dirty = std::mem::take(&mut self.dirty);
        let mut changes = Vec::with_capacity(dirty.len());
        for start in dirty {
            let head = self
                .states
                .head(start)
                .expect("a changed extent keeps its head until it was frozen");
            let live = head.life == ExtentPhase::Live;
            if live || head.persisted {
                changes.push(ExtentChange {
                    start,
                    units: head.units,
                    now: live.then_some((head.references, head.live)),
                    known: head.persisted,
                });
            }
            let clean = ExtentState {
                dirty: false,
                persisted: live,
                ..head
            };
            self.states.update(start, &clean);
        }
        debug_assert_eq!(
            self.dying
                .iter()
                .filter_map(|unlinked| Some(self.states.head(unlinked.start)?.units))
                .sum::<u32>(),
            self.dying_units,
            "dying units are counted"
        );
        debug_assert!(
            self.dead.back().is_none_or(|(tag, _)| *tag <= generation),
            "generations rise"
        );
        let dying = std::mem::take(&mut self.dying);
        self.dying_units = 0;
        if !dying.is_empty() {
            self.dead.push_back((generation, dying));
        }
        changes
    }

    /// Undoes a freeze whose map was not written, so that its changes become part of the next
    /// freeze.
    pub(super) fn thaw(&mut self, changes: &[ExtentChange]) {
        for change in changes {
            let head = self
                .states
                .head(change.start)
                .expect("an extent outlives the cut that records its change");
            debug_assert_eq!(head.units, change.units, "an extent keeps its length");
            self.change(change.start, head, |head| head.persisted = change.known);
        }
    }

    /// Records that a generation is durable. Extents that died in it or in an earlier one become
    /// free once their epoch is safe.
    pub(super) fn made_durable(&mut self, generation: u64) {
        while let Some((tag, _)) = self.dead.front()
            && *tag <= generation
        {
            let (_, batch) = self.dead.pop_front().expect("there is a first batch");
            debug_assert!(!batch.is_empty(), "a generation is listed with what died with it");
            self.pending.extend(batch);
        }
    }

    /// Frees up to `limit` extents that are dead in a durable generation and out of reach of any
    /// guard. Returns how many extents and units were freed.
    pub(super) fn settle(&mut self, safe_epoch: u64, limit: usize) -> (usize, u32) {
        let (mut extents, mut units) = (0, 0);
        while extents < limit {
            let Some(first) = self.pending.front().filter(|first| first.epoch < safe_epoch) else {
                break;
            };
            let start = first.start;
            let head = self.states.head(start).expect("a pending extent has a head");
            assert!(
                head.life == ExtentPhase::Dead && !head.dirty && !head.persisted,
                "freeing {}: {head:?}",
                self.extent(start, head.units)
            );
            self.pending.pop_front();
            if self.pending.is_empty() {
                // Free the memory that the queue used when many extents died at once.
                self.pending = VecDeque::new();
            }
            self.counts.sub(&head);
            self.vacate(start, head.units);
            extents += 1;
            units += head.units;
        }
        (extents, units)
    }

    /// Returns whether [`TierExtents::settle`] with this `safe_epoch` would free any extent.
    pub(super) fn can_settle(&self, safe_epoch: u64) -> bool {
        self.pending.front().is_some_and(|first| first.epoch < safe_epoch)
    }

    /// Applies a change read from a map. Returns `false` if the change contradicts the current
    /// state.
    pub(super) fn load(&mut self, change: &ExtentChange) -> bool {
        let before = self.states.head(change.start);
        if change.known != before.is_some_and(|head| head.units == change.units) {
            return false;
        }
        if let Some(head) = &before {
            self.counts.sub(head);
        }
        let Some((references, live)) = change.now else {
            self.states.vacate(change.start, change.units);
            return true;
        };
        let head = ExtentState {
            life: ExtentPhase::Live,
            units: change.units,
            references,
            live,
            dirty: false,
            persisted: true,
        };
        self.counts.add(&head);
        if before.is_some() {
            self.states.update(change.start, &head);
            return true;
        }
        let room = (change.start..change.start + change.units).all(|unit| self.states.is_free(unit));
        if room {
            self.states.occupy(change.start, &head);
        }
        room
    }

    /// Returns all dead extents, whether or not the generation in which they died is durable.
    pub(super) fn unlinked(&self) -> impl Iterator<Item = &UnlinkedExtent> {
        let dead = self.dead.iter().flat_map(|(_, batch)| batch);
        self.dying.iter().chain(dead).chain(&self.pending)
    }

    /// Returns the memory in bytes that the state of the tier uses.
    pub(super) fn memory_bytes(&self) -> u64 {
        let unlinked = self.dying.capacity()
            + self.pending.capacity()
            + self.dead.iter().map(|(_, batch)| batch.capacity()).sum::<usize>();
        let lists = unlinked * size_of::<UnlinkedExtent>() + self.dirty.capacity() * 4;
        let sets = [&self.free, &self.backed, &self.holes].map(UnitSet::memory_bytes);
        self.states.memory_bytes() + sets.iter().sum::<u64>() + lists as u64
    }
}
