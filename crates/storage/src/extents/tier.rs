//! One tier in memory: which extents there are, what they hold, and which units are free. No I/O, no locks.

use super::policy::{self, View};
use super::space::{CHUNK, UnitSet};
use super::state::{Head, Life, States};
use super::{Class, Extent, MAX_REFERENCES, UNIT};
use std::collections::VecDeque;
use std::ops::Range;

/// An extent that lost its last reference, and the epoch at which it was unlinked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unlinked {
    pub(super) start: u32,
    pub(super) epoch: u64,
}

/// A change since the last freeze, as the map records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) start: u32,
    pub(super) units: u32,
    /// References and live bytes, or nothing when the extent is gone.
    pub(super) now: Option<(u32, u64)>,
    /// Whether the map named the extent before.
    pub(super) known: bool,
}

/// How many extents, units and bytes are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) live_extents: u64,
    pub(super) live_units: u32,
    pub(super) live_bytes: u64,
    pub(super) provisional_units: u32,
    pub(super) dead_units: u32,
}

/// One tier.
#[derive(Debug, Default)]
pub(super) struct Tier {
    pub(super) number: u8,
    /// Units in the file.
    pub(super) units: u32,
    pub(super) states: States,
    /// Free units that nobody holds.
    pub(super) free: UnitSet,
    /// Those of them that surely have space on the file system.
    pub(super) backed: UnitSet,
    /// Units, free or held, that surely have none. (After an open, free units are neither until they are touched.)
    pub(super) holes: UnitSet,
    /// Free units taken out for an operation of the device that runs outside the lock.
    pub(super) held: Vec<Range<u32>>,
    /// Starts of the extents that changed since the last freeze, each once.
    pub(super) dirty: Vec<u32>,
    /// Dead since the last freeze.
    dying: Vec<Unlinked>,
    /// Dead at the freeze of a generation that is not durable yet.
    dead: VecDeque<(u64, Vec<Unlinked>)>,
    /// Dead in a durable generation; free once their epoch is safe.
    pending: VecDeque<Unlinked>,
    pub(super) counts: Counts,
    /// The file is being grown or shortened outside the lock.
    pub(super) resizing: bool,
}

impl Tier {
    /// A tier of which nothing is known.
    pub(super) fn new(number: u8) -> Tier {
        Tier {
            number,
            ..Tier::default()
        }
    }

    /// What an allocation sees.
    pub(super) fn view(&self, wanted: u32, least: u32, class: Class, bounds: (u32, u32)) -> View {
        View {
            wanted,
            least,
            class,
            file: self.units,
            free: self.free.count(),
            free_longest: self.free.longest(),
            backed: self.backed.count(),
            backed_longest: self.backed.longest(),
            reserve: self.reserve(bounds),
            unknown: self.occupying() - self.backed.count(),
            refused: false,
            probed: false,
        }
    }

    /// The units that are kept backed for essential allocations.
    pub(super) fn reserve(&self, bounds: (u32, u32)) -> u32 {
        let counts = &self.counts;
        policy::reserve(
            counts.live_units + counts.provisional_units + counts.dead_units,
            bounds,
        )
    }

    fn extent(&self, start: u32, units: u32) -> Extent {
        Extent {
            tier: self.number,
            start,
            units,
        }
    }

    /// Free units that may have space on the file system.
    pub(super) fn occupying(&self) -> u32 {
        let held_holes: u32 = self
            .held
            .iter()
            .map(|range| self.holes.count_in(range.clone()))
            .sum();
        self.free.count() - (self.holes.count() - held_holes)
    }

    /// Takes backed units for a step: right at `near` if it can be, else the lowest stretch.
    pub(super) fn take(&mut self, units: u32, near: Option<u32>) -> Extent {
        let near = near.filter(|&near| {
            near.checked_add(units)
                .is_some_and(|end| self.backed.contains(near..end))
        });
        let start = near
            .or_else(|| self.backed.first_fit(units))
            .expect("the policy takes no more than the longest backed stretch");
        self.free.remove(start..start + units);
        self.backed.remove(start..start + units);
        let head = Head {
            life: Life::Provisional,
            units,
            references: 1,
            live: 0,
            dirty: false,
            persisted: false,
        };
        self.states.occupy(start, &head);
        self.counts.provisional_units += units;
        self.extent(start, units)
    }

    /// The extent's head, when it is there with this length.
    pub(super) fn find(&self, extent: Extent) -> Option<Head> {
        self.states
            .head(extent.start)
            .filter(|head| head.units == extent.units)
    }

    fn expect(&self, extent: Extent, life: Life, action: &str) -> Head {
        match self.find(extent) {
            Some(head) if head.life == life => head,
            found => panic!("{action} {extent}: it should be {life:?}, found {found:?}"),
        }
    }

    /// Units become free and stay backed.
    fn vacate(&mut self, start: u32, units: u32) {
        self.states.vacate(start, units);
        self.free.insert(start..start + units);
        self.backed.insert(start..start + units);
        for chunk in start / CHUNK..=(start + units - 1) / CHUNK {
            if self.free.contains(chunk * CHUNK..(chunk + 1) * CHUNK) {
                self.states.forget_chunk(chunk);
            }
        }
    }

    /// A step gives an extent up.
    pub(super) fn abandon(&mut self, extent: Extent) {
        self.expect(extent, Life::Provisional, "abandoning");
        self.counts.provisional_units -= extent.units;
        self.vacate(extent.start, extent.units);
    }

    /// A step gives the end of an extent up.
    pub(super) fn trim(&mut self, extent: Extent, units: u32) -> Extent {
        let head = self.expect(extent, Life::Provisional, "trimming");
        assert!(
            (1..=extent.units).contains(&units),
            "trimming {extent} to {units} units"
        );
        if units < extent.units {
            self.vacate(extent.start + units, extent.units - units);
            self.counts.provisional_units -= extent.units - units;
            self.states.update(extent.start, &Head { units, ..head });
        }
        self.extent(extent.start, units)
    }

    /// A step is installed.
    pub(super) fn install(&mut self, extent: Extent, live: u64) {
        let head = self.expect(extent, Life::Provisional, "installing");
        assert!(
            live <= extent.bytes(),
            "installing {extent} with {live} live bytes"
        );
        self.counts.provisional_units -= extent.units;
        self.counts.live_extents += 1;
        self.counts.live_units += extent.units;
        self.counts.live_bytes += live;
        self.change(
            extent.start,
            Head {
                life: Life::Live,
                live,
                ..head
            },
        );
    }

    /// Writes a changed head back and remembers that it changed.
    fn change(&mut self, start: u32, head: Head) {
        if !head.dirty {
            self.dirty.push(start);
        }
        self.states.update(start, &Head { dirty: true, ..head });
    }

    pub(super) fn retain(&mut self, extent: Extent) {
        let head = self.expect(extent, Life::Live, "retaining");
        assert!(
            head.references < MAX_REFERENCES,
            "{extent} has {MAX_REFERENCES} references"
        );
        self.change(
            extent.start,
            Head {
                references: head.references + 1,
                ..head
            },
        );
    }

    /// Gives a reference up; whether it was the last one.
    pub(super) fn release(&mut self, extent: Extent, epoch: u64) -> bool {
        let head = self.expect(extent, Life::Live, "releasing");
        let references = head.references - 1;
        let last = references == 0;
        if last {
            self.counts.live_extents -= 1;
            self.counts.live_units -= extent.units;
            self.counts.live_bytes -= head.live;
            self.counts.dead_units += extent.units;
            let start = extent.start;
            self.dying.push(Unlinked { start, epoch });
        }
        let life = if last { Life::Dead } else { Life::Live };
        self.change(
            extent.start,
            Head {
                life,
                references,
                ..head
            },
        );
        last
    }

    pub(super) fn add_live(&mut self, extent: Extent, bytes: u64) {
        let head = self.expect(extent, Life::Live, "adding live bytes to");
        let live = head.live + bytes;
        assert!(live <= extent.bytes(), "{extent} would have {live} live bytes");
        self.counts.live_bytes += bytes;
        self.change(extent.start, Head { live, ..head });
    }

    pub(super) fn sub_live(&mut self, extent: Extent, bytes: u64) {
        let head = self.expect(extent, Life::Live, "taking live bytes from");
        assert!(
            bytes <= head.live,
            "{extent} has {} live bytes, {bytes} die",
            head.live
        );
        self.counts.live_bytes -= bytes;
        self.change(
            extent.start,
            Head {
                live: head.live - bytes,
                ..head
            },
        );
    }

    /// Cuts what changed since the last freeze; what died since then dies with `generation`.
    pub(super) fn freeze(&mut self, generation: u64) -> Vec<Change> {
        let dirty = std::mem::take(&mut self.dirty);
        let mut changes = Vec::with_capacity(dirty.len());
        for start in dirty {
            let head = self
                .states
                .head(start)
                .expect("a changed extent keeps its head until it was frozen");
            let live = head.life == Life::Live;
            if live || head.persisted {
                changes.push(Change {
                    start,
                    units: head.units,
                    now: live.then_some((head.references, head.live)),
                    known: head.persisted,
                });
            }
            let clean = Head {
                dirty: false,
                persisted: live,
                ..head
            };
            self.states.update(start, &clean);
        }
        let dying = std::mem::take(&mut self.dying);
        if !dying.is_empty() {
            self.dead.push_back((generation, dying));
        }
        changes
    }

    /// Takes a cut back whose map was not written: its changes belong to the next freeze.
    pub(super) fn thaw(&mut self, changes: &[Change]) {
        for change in changes {
            let head = self
                .states
                .head(change.start)
                .expect("an extent outlives the cut that records its change");
            self.change(
                change.start,
                Head {
                    persisted: change.known,
                    ..head
                },
            );
        }
    }

    /// A generation is durable: what died with it, or before, waits only for its epoch.
    pub(super) fn made_durable(&mut self, generation: u64) {
        while let Some((tag, _)) = self.dead.front()
            && *tag <= generation
        {
            let (_, batch) = self.dead.pop_front().expect("there is a first batch");
            self.pending.extend(batch);
        }
    }

    /// Frees at most `limit` extents that no guard can reach any more; how many extents and units that were.
    pub(super) fn settle(&mut self, safe_epoch: u64, limit: usize) -> (usize, u32) {
        let (mut extents, mut units) = (0, 0);
        while extents < limit {
            let Some(first) = self.pending.front().filter(|first| first.epoch < safe_epoch) else {
                break;
            };
            let start = first.start;
            let head = self.states.head(start).expect("a pending extent has a head");
            assert!(
                head.life == Life::Dead && !head.dirty && !head.persisted,
                "freeing {}: {head:?}",
                self.extent(start, head.units)
            );
            self.pending.pop_front();
            self.counts.dead_units -= head.units;
            self.vacate(start, head.units);
            extents += 1;
            units += head.units;
        }
        (extents, units)
    }

    /// Whether something waits only for an epoch below `safe_epoch`.
    pub(super) fn can_settle(&self, safe_epoch: u64) -> bool {
        self.pending.front().is_some_and(|first| first.epoch < safe_epoch)
    }

    /// Takes free units out, for an operation of the device on them.
    pub(super) fn hold(&mut self, range: Range<u32>) {
        self.free.remove(range.clone());
        self.backed.clear(range.clone());
        self.held.push(range);
    }

    /// Gives held units back as free.
    pub(super) fn unhold(&mut self, range: &Range<u32>, space: Space) {
        let at = self.held.iter().position(|held| held == range);
        self.held
            .swap_remove(at.expect("only what is held is given back"));
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

    /// How much of the free end of the file holds at most `occupying` units that may have space.
    pub(super) fn tail_with(&self, occupying: u32) -> Range<u32> {
        let tail = self.units - self.free.run_below(self.units)..self.units;
        let mut start = tail.start;
        while self.free.count_in(start..tail.end) - self.holes.count_in(start..tail.end) > occupying {
            // Each round skips at least one occupying unit too many, so the loop ends at `occupying` of them.
            let surplus = tail.end - start - self.holes.count_in(start..tail.end) - occupying;
            start += surplus;
        }
        start..tail.end
    }

    /// Everything that has no owner becomes free, of unknown backing: the end of an open.
    pub(super) fn opened(&mut self, units: u32) {
        self.units = units;
        let states = &self.states;
        self.free.fill(units, |index| states.free_bits(index));
        self.backed.reach(units);
    }

    /// Puts an extent of the map where nothing is; whether there was room.
    pub(super) fn load(&mut self, change: &Change) -> bool {
        let end = change.start.saturating_add(change.units);
        match (self.states.head(change.start), change.now) {
            (Some(head), None) => {
                self.forget(&head);
                self.states.vacate(change.start, head.units);
                true
            }
            (Some(head), Some((references, live))) if head.units == change.units => {
                self.forget(&head);
                self.count_loaded(change.units, live);
                self.states.update(
                    change.start,
                    &Head {
                        references,
                        live,
                        ..head
                    },
                );
                true
            }
            (None, Some((references, live))) if (change.start..end).all(|unit| self.states.is_free(unit)) => {
                self.count_loaded(change.units, live);
                let head = Head {
                    life: Life::Live,
                    units: change.units,
                    references,
                    live,
                    dirty: false,
                    persisted: true,
                };
                self.states.occupy(change.start, &head);
                true
            }
            _ => false,
        }
    }

    fn count_loaded(&mut self, units: u32, live: u64) {
        self.counts.live_extents += 1;
        self.counts.live_units += units;
        self.counts.live_bytes += live;
    }

    fn forget(&mut self, head: &Head) {
        self.counts.live_extents -= 1;
        self.counts.live_units -= head.units;
        self.counts.live_bytes -= head.live;
    }

    /// Bytes of memory that the tier takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let unlinked = self.dying.capacity()
            + self.pending.capacity()
            + self.dead.iter().map(|(_, batch)| batch.capacity()).sum::<usize>();
        let lists = unlinked * size_of::<Unlinked>() + self.dirty.capacity() * 4;
        let sets = [&self.free, &self.backed, &self.holes].map(UnitSet::memory_bytes);
        self.states.memory_bytes() + sets.iter().sum::<u64>() + lists as u64
    }
}

/// What is known of the space behind units that are given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Backed,
    Hole,
    AsItWas,
}

const _: () = assert!(UNIT.is_power_of_two());
