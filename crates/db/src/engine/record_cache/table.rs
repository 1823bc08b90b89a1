//! Hash table that finds a record in the ring by its key's hash. It has buckets of eight slots. If
//! a bucket is full, a new record replaces the least used slot.

use super::ring::RingOffset;
use alluvium_base::prefetch_line;

const SLOTS: usize = 8;

/// Maximum value of a record's use count.
pub(super) const MOST_HEAT: u8 = 3;

/// Offset of a record in the ring, and a mark. The two lowest bits of the mark are the record's use
/// count since the ring last reached it. The next bit tells whether the record is a sample that has
/// not been read. The other bits are part of the key's hash.
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

    /// Clears the sample bit. Returns whether it was set.
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

/// A bucket of slots, which fills exactly one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct SlotBucket([RecordSlot; SLOTS]);

const _: () = assert!(size_of::<SlotBucket>() == 64);

#[derive(Debug, Default)]
pub(super) struct RecordTable {
    buckets: Box<[SlotBucket]>,
    used: usize,
}

/// Returns the part of the hash that a mark contains. It is never zero, but its three lowest bits
/// are.
fn tag(hash: u64) -> u32 {
    ((hash >> 24) as u32 & TAG).max(TAG & TAG.wrapping_neg())
}

/// Maps the low 32 bits of a hash to a number below `count`.
pub(super) fn pick(hash: u64, count: usize) -> usize {
    (((hash & u64::from(u32::MAX)) * count as u64) >> 32) as usize
}

impl RecordTable {
    /// Creates a table with at least `slots` slots.
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

    /// Returns the number of slots in use.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    fn bucket(&mut self, hash: u64) -> &mut [RecordSlot] {
        match self.buckets.len() {
            0 => &mut [],
            count => &mut self.buckets[pick(hash, count)].0,
        }
    }

    /// Prefetches the bucket for a hash.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(bucket) = self.buckets.get(pick(hash, self.buckets.len())) {
            prefetch_line(bucket);
        }
    }

    /// Returns the offset of a record that probably has this hash, comparing only the part of the
    /// hash stored in the slot.
    #[inline]
    pub(super) fn likely(&self, hash: u64) -> Option<RingOffset> {
        let bucket = self.buckets.get(pick(hash, self.buckets.len()))?;
        let slot = bucket.0.iter().find(|slot| slot.is_of(tag(hash)))?;
        Some(slot.place)
    }

    /// Returns the slot that matches the hash and for whose offset `is` returns true.
    #[inline]
    pub(super) fn find(&mut self, hash: u64, is: impl Fn(RingOffset) -> bool) -> Option<&mut RecordSlot> {
        let tag = tag(hash);
        self.bucket(hash)
            .iter_mut()
            .find(|slot| slot.is_of(tag) && is(slot.place))
    }

    /// Adds a record with this hash. The record's key must not have a slot yet.
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

    /// Removes the slot that matches the hash and for whose offset `is` returns true. Returns its
    /// use count, or `None` if there is no such slot.
    pub(super) fn remove(&mut self, hash: u64, is: impl Fn(RingOffset) -> bool) -> Option<u8> {
        let slot = self.find(hash, is)?;
        let heat = slot.heat();
        *slot = RecordSlot::default();
        self.used -= 1;
        Some(heat)
    }

    /// Removes all slots for whose offset `is` returns true.
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
