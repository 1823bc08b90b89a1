//! The hash table from a key's hash to its record, in buckets of eight slots. An insertion into a
//! full bucket replaces the least used slot.

use super::ring::RingOffset;
use alluvium_base::prefetch_line;

const SLOTS: usize = 8;

/// Limit of a record's use count.
pub(super) const MOST_HEAT: u8 = 3;

/// A record's offset and a mark: part of its hash, in the lowest two bits the use count since the
/// ring last reached the record, and in the next bit whether it is an unused sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecordSlot {
    pub(super) place: RingOffset,
    /// Zero if the slot is empty.
    mark: u32,
}

const HEAT: u32 = 3;
const SAMPLE: u32 = 4;
const TAG: u32 = !(HEAT | SAMPLE);
const _: () = assert!(MOST_HEAT as u32 <= HEAT);

impl RecordSlot {
    pub(super) fn heat(self) -> u8 {
        (self.mark & HEAT) as u8
    }

    pub(super) fn set_heat(&mut self, heat: u8) {
        self.mark = self.mark & !HEAT | u32::from(heat);
    }

    /// Clears the sample flag. Returns whether it was set.
    pub(super) fn end_sample(&mut self) -> bool {
        let was_sample = self.mark & SAMPLE != 0;
        self.mark &= !SAMPLE;
        was_sample
    }

    pub(super) fn begin_sample(&mut self) {
        self.mark |= SAMPLE;
    }

    fn is_empty(self) -> bool {
        self.mark == 0
    }

    fn is_of(self, tag: u32) -> bool {
        self.mark & TAG == tag
    }
}

pub(super) const SLOT_BYTES: usize = size_of::<RecordSlot>();

/// A bucket fills one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct SlotBucket([RecordSlot; SLOTS]);

const _: () = assert!(size_of::<SlotBucket>() == 64);

#[derive(Debug, Default)]
pub(super) struct RecordTable {
    buckets: Box<[SlotBucket]>,
    used: usize,
}

/// Returns the hash part of a mark. It is never zero, but its lowest bits are.
fn tag(hash: u64) -> u32 {
    ((hash >> 24) as u32 & TAG).max(TAG & TAG.wrapping_neg())
}

/// Returns a number below `count`, from the low half of a hash.
pub(super) fn pick(hash: u64, count: usize) -> usize {
    (((hash & u64::from(u32::MAX)) * count as u64) >> 32) as usize
}

impl RecordTable {
    /// Creates a table of at least `slots` slots.
    pub(super) fn new(slots: usize) -> RecordTable {
        RecordTable {
            buckets: vec![SlotBucket::default(); slots.div_ceil(SLOTS)].into_boxed_slice(),
            used: 0,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots() * SLOT_BYTES
    }

    pub(super) fn slots(&self) -> usize {
        self.buckets.len() * SLOTS
    }

    /// Returns the number of records.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    fn bucket(&mut self, hash: u64) -> &mut [RecordSlot] {
        match self.buckets.len() {
            0 => &mut [],
            count => &mut self.buckets[pick(hash, count)].0,
        }
    }

    /// Prefetches the slots of a hash.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(bucket) = self.buckets.get(pick(hash, self.buckets.len())) {
            prefetch_line(bucket);
        }
    }

    /// Returns the offset of a record that may have this hash, judging by its slot.
    #[inline]
    pub(super) fn likely(&self, hash: u64) -> Option<RingOffset> {
        let bucket = self.buckets.get(pick(hash, self.buckets.len()))?;
        let slot = bucket.0.iter().find(|slot| slot.is_of(tag(hash)))?;
        Some(slot.place)
    }

    /// Returns the slot of a hash for whose offset `is` is true.
    #[inline]
    pub(super) fn find(&mut self, hash: u64, is: impl Fn(RingOffset) -> bool) -> Option<&mut RecordSlot> {
        let tag = tag(hash);
        self.bucket(hash)
            .iter_mut()
            .find(|slot| slot.is_of(tag) && is(slot.place))
    }

    /// Adds a record. Its key must not have a slot yet.
    pub(super) fn add(&mut self, hash: u64, place: RingOffset, heat: u8) {
        let rank = |slot: &RecordSlot| if slot.is_empty() { 0 } else { 1 + slot.heat() };
        let Some(slot) = self.bucket(hash).iter_mut().min_by_key(|slot| rank(slot)) else {
            return;
        };
        let was_empty = slot.is_empty();
        let mark = tag(hash) | u32::from(heat);
        *slot = RecordSlot { place, mark };
        self.used += usize::from(was_empty);
    }

    /// Removes the slot of a hash for whose offset `is` is true. Returns its use count.
    pub(super) fn remove(&mut self, hash: u64, is: impl Fn(RingOffset) -> bool) -> Option<u8> {
        let slot = self.find(hash, is)?;
        let heat = slot.heat();
        *slot = RecordSlot::default();
        self.used -= 1;
        Some(heat)
    }

    /// Removes all slots for whose offset `is` is true.
    pub(super) fn remove_all(&mut self, is: impl Fn(RingOffset) -> bool) {
        let slots = self.buckets.iter_mut().flat_map(|bucket| &mut bucket.0);
        for slot in slots.filter(|slot| !slot.is_empty() && is(slot.place)) {
            *slot = RecordSlot::default();
            self.used -= 1;
        }
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_that_is_full_loses_what_was_used_least() {
        let mut table = RecordTable::new(1);
        for place in 0..8u32 {
            let heat = if place == 5 { 0 } else { 2 };
            table.add(u64::from(place) << 40, place, heat);
        }
        table.add(99 << 40, 99, 0);
        assert_eq!(table.used(), 8);
        assert!(table.find(5 << 40, |found| found == 5).is_none());
        assert_eq!(table.find(99 << 40, |found| found == 99).unwrap().heat(), 0);
        table
            .find(6 << 40, |found| found == 6)
            .unwrap()
            .set_heat(MOST_HEAT);
        assert_eq!(table.remove(6 << 40, |found| found == 6), Some(MOST_HEAT));
        assert_eq!(table.remove(7 << 40, |found| found == 7), Some(2));
        assert_eq!(table.remove(7 << 40, |found| found == 7), None);
        table.remove_all(|found| found < 4);
        assert_eq!(table.used(), 2);
        assert_eq!(table.slots() * SLOT_BYTES, table.bytes());
    }
}
