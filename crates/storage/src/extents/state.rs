//! The state of every unit of a tier, as one word per unit. The words are in chunks, each allocated
//! when one of its units is first used.
//!
//! ```text
//! BITS    OF THE FIRST UNIT OF AN EXTENT            OF ITS SECOND UNIT         OF ANY OTHER
//!  0.. 3  provisional, live or dead                 inside                     inside, or free
//!      3  dirty: changed since the last freeze      -                          -
//!      4  persisted: the frozen map names it        -                          -
//!      5  whether there is a second unit            -                          -
//!  8..32  references                                -                          -
//! 32..64  live bytes if alone, else units           16..64: live bytes         -
//! ```
//!
//! Chunks are shared copy-on-write. A snapshot copies only the vector of chunk pointers. A writer
//! copies a 4 KiB chunk before changing it if a snapshot still uses it.

use super::unit_set::CHUNK;
use super::{MAX_EXTENT_UNITS, MAX_REFERENCES, UNIT};
use std::sync::Arc;

/// Where an extent is in the lifecycle described in the module header of `extents`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExtentPhase {
    /// Allocated, but not yet installed.
    Provisional,
    /// Installed, with at least one reference.
    Live,
    /// Without references, but not yet reusable.
    Dead,
}

/// The state of an extent, decoded from its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExtentState {
    pub(super) life: ExtentPhase,
    pub(super) units: u32,
    pub(super) references: u32,
    pub(super) live: u64,
    /// Whether the extent is in its tier's list of changes since the last freeze.
    pub(super) dirty: bool,
    /// Whether the map of the last freeze contains the extent.
    pub(super) persisted: bool,
}

const FREE: u64 = 0;
const INSIDE: u64 = 1;
const DIRTY: u64 = 1 << 3;
const PERSISTED: u64 = 1 << 4;
const SEVERAL: u64 = 1 << 5;

const _: () = {
    assert!(MAX_REFERENCES < 1 << 24, "references have 24 bits");
    assert!(UNIT < 1 << 32, "the live bytes of one unit have 32 bits");
    assert!(
        MAX_EXTENT_UNITS as u64 * UNIT < 1 << 48,
        "the live bytes of an extent have 48 bits"
    );
};

impl ExtentState {
    fn words(&self) -> (u64, u64) {
        debug_assert!(self.references <= MAX_REFERENCES, "{self:?}");
        let life = match self.life {
            ExtentPhase::Provisional => 2,
            ExtentPhase::Live => 3,
            ExtentPhase::Dead => 4,
        };
        let flags = (if self.dirty { DIRTY } else { 0 }) | (if self.persisted { PERSISTED } else { 0 });
        let first = life | flags | u64::from(self.references) << 8;
        if self.units == 1 {
            (first | self.live << 32, INSIDE)
        } else {
            (
                first | SEVERAL | u64::from(self.units) << 32,
                INSIDE | self.live << 16,
            )
        }
    }

    fn of(first: u64, second: u64) -> Option<ExtentState> {
        let life = match first & 7 {
            2 => ExtentPhase::Provisional,
            3 => ExtentPhase::Live,
            4 => ExtentPhase::Dead,
            _ => return None,
        };
        let several = first & SEVERAL != 0;
        Some(ExtentState {
            life,
            units: if several { (first >> 32) as u32 } else { 1 },
            references: (first >> 8) as u32 & MAX_REFERENCES,
            live: if several { second >> 16 } else { first >> 32 },
            dirty: first & DIRTY != 0,
            persisted: first & PERSISTED != 0,
        })
    }
}

#[derive(Clone, Debug)]
struct StateChunk([u64; CHUNK as usize]);

/// The state words of all units of a tier. In a chunk that is not allocated, all units are free.
#[derive(Clone, Debug, Default)]
pub(super) struct UnitStates {
    chunks: Vec<Option<Arc<StateChunk>>>,
    allocated: usize,
}

impl UnitStates {
    fn word(&self, unit: u32) -> u64 {
        match self.chunks.get((unit / CHUNK) as usize) {
            Some(Some(chunk)) => chunk.0[(unit % CHUNK) as usize],
            _ => FREE,
        }
    }

    fn put(&mut self, unit: u32, word: u64) {
        let index = (unit / CHUNK) as usize;
        if index >= self.chunks.len() {
            self.chunks.resize(index + 1, None);
        }
        let chunk = self.chunks[index].get_or_insert_with(|| {
            self.allocated += 1;
            Arc::new(StateChunk([FREE; CHUNK as usize]))
        });
        Arc::make_mut(chunk).0[(unit % CHUNK) as usize] = word;
    }

    /// Returns the state of the extent that begins at a unit, if there is one.
    pub(super) fn head(&self, start: u32) -> Option<ExtentState> {
        let first = self.word(start);
        let second = if first & SEVERAL != 0 {
            self.word(start.saturating_add(1))
        } else {
            0
        };
        ExtentState::of(first, second)
    }

    /// Returns whether a unit is free.
    pub(super) fn is_free(&self, unit: u32) -> bool {
        self.word(unit) == FREE
    }

    /// Replaces the state of an existing extent.
    pub(super) fn update(&mut self, start: u32, head: &ExtentState) {
        debug_assert!(head.units > 0, "an extent has units");
        let (first, second) = head.words();
        self.put(start, first);
        if head.units > 1 {
            self.put(start + 1, second);
        }
    }

    /// Stores the state of a new extent. Its units must be free.
    pub(super) fn occupy(&mut self, start: u32, head: &ExtentState) {
        debug_assert!((start..start + head.units).all(|unit| self.is_free(unit)));
        for unit in start..start + head.units {
            self.put(unit, INSIDE);
        }
        self.update(start, head);
    }

    /// Marks units that are in use as free.
    pub(super) fn vacate(&mut self, start: u32, units: u32) {
        debug_assert!((start..start + units).all(|unit| !self.is_free(unit)));
        for unit in start..start + units {
            self.put(unit, FREE);
        }
    }

    /// Frees the memory of a chunk whose units are all free.
    pub(super) fn forget_chunk(&mut self, chunk: u32) {
        if let Some(slot) = self.chunks.get_mut(chunk as usize)
            && slot.take().is_some()
        {
            assert!(self.allocated > 0, "chunks are counted");
            self.allocated -= 1;
        }
    }

    /// Returns the first unit and the state of every extent, in ascending order.
    pub(super) fn heads(&self) -> impl Iterator<Item = (u32, ExtentState)> {
        let used = self
            .chunks
            .iter()
            .enumerate()
            .filter(|(_, chunk)| chunk.is_some());
        used.flat_map(move |(index, _)| {
            let start = index as u32 * CHUNK;
            (start..start + CHUNK).filter_map(|unit| Some((unit, self.head(unit)?)))
        })
    }

    /// Returns a bitmap of the 64 units from unit `64 * index` on, in which a 1 bit means free.
    pub(super) fn free_bits(&self, index: usize) -> u64 {
        let unit = index as u32 * 64;
        match self.chunks.get((unit / CHUNK) as usize) {
            Some(Some(chunk)) => {
                let at = (unit % CHUNK) as usize;
                let words = chunk.0[at..at + 64].iter().enumerate();
                words.fold(0, |bits, (bit, &word)| bits | u64::from(word == FREE) << bit)
            }
            _ => u64::MAX,
        }
    }

    /// Returns the memory in bytes that the state words use.
    pub(super) fn memory_bytes(&self) -> u64 {
        let pointers = self.chunks.capacity() * size_of::<Option<Arc<StateChunk>>>();
        (pointers + self.allocated * (size_of::<StateChunk>() + 2 * size_of::<usize>())) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_found_across_a_chunk_boundary_too() {
        let mut states = UnitStates::default();
        let lives = [ExtentPhase::Provisional, ExtentPhase::Live, ExtentPhase::Dead];
        for (index, units) in [1, 2, 3, MAX_EXTENT_UNITS].into_iter().enumerate() {
            let head = ExtentState {
                life: lives[index % 3],
                units,
                references: if index == 0 { MAX_REFERENCES } else { 7 },
                live: u64::from(units) * UNIT - index as u64,
                dirty: index % 2 == 0,
                persisted: index % 2 == 1,
            };
            let start = CHUNK - 1;
            states.occupy(start, &head);
            assert_eq!(states.head(start), Some(head));
            assert_eq!(states.head(start + 1), None);
            assert!(!states.is_free(start + units - 1) && states.is_free(start + units));
            assert_eq!(states.heads().collect::<Vec<_>>(), [(start, head)]);
            states.vacate(start, units);
            assert_eq!(states.heads().count(), 0);
        }
    }

    #[test]
    fn a_copy_does_not_see_later_changes() {
        let mut states = UnitStates::default();
        let head = ExtentState {
            life: ExtentPhase::Live,
            units: 1,
            references: 1,
            live: 5,
            dirty: false,
            persisted: true,
        };
        states.occupy(3, &head);
        let copy = states.clone();
        states.update(
            3,
            &ExtentState {
                references: 2,
                ..head
            },
        );
        assert_eq!(copy.head(3).map(|head| head.references), Some(1));
        assert_eq!(states.head(3).map(|head| head.references), Some(2));
        states.vacate(3, 1);
        states.forget_chunk(0);
        assert_eq!(copy.heads().count(), 1);
        assert!(states.memory_bytes() < copy.memory_bytes());
    }
}
