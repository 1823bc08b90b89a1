//! From a key's hash to its record: buckets of eight slots. A bucket that is full loses what was used least.

use super::ring::Piece;
use alluvium_base::prefetch_line;

/// Slots of a bucket.
const SLOTS: usize = 8;

/// A record is remembered to have been used so often at most.
pub(super) const MOST_HEAT: u8 = 3;

/// A record's place.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slot {
    /// A part of the hash; 0 when the slot is empty.
    tag: u32,
    pub(super) piece: Piece,
    /// How often it was used, until the ring came around to it.
    pub(super) heat: u8,
}

/// Bytes of one slot.
pub(super) const SLOT_BYTES: usize = size_of::<Slot>();

/// The table.
#[derive(Debug, Default)]
pub(super) struct Table {
    buckets: Box<[[Slot; SLOTS]]>,
    used: usize,
}

fn tag(hash: u64) -> u32 {
    (hash >> 24) as u32 | 1
}

/// One of so many, by a hash's low half.
pub(super) fn pick(hash: u64, count: usize) -> usize {
    (((hash & u64::from(u32::MAX)) * count as u64) >> 32) as usize
}

impl Table {
    /// With at least so many slots.
    pub(super) fn new(slots: usize) -> Table {
        Table {
            buckets: vec![[Slot::default(); SLOTS]; slots.div_ceil(SLOTS)].into_boxed_slice(),
            used: 0,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots() * SLOT_BYTES
    }

    pub(super) fn slots(&self) -> usize {
        self.buckets.len() * SLOTS
    }

    /// How many records there are.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    fn bucket(&mut self, hash: u64) -> &mut [Slot] {
        match self.buckets.len() {
            0 => &mut [],
            count => &mut self.buckets[pick(hash, count)],
        }
    }

    /// Asks the processor for the slots of a hash.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(bucket) = self.buckets.get(pick(hash, self.buckets.len())) {
            prefetch_line(&bucket[0]);
            prefetch_line(&bucket[SLOTS - 1]);
        }
    }

    /// What a hash may be the hash of, as far as slots tell.
    #[inline]
    pub(super) fn likely(&self, hash: u64) -> Option<Piece> {
        let bucket = self.buckets.get(pick(hash, self.buckets.len()))?;
        let slot = bucket.iter().find(|slot| slot.tag == tag(hash))?;
        Some(slot.piece)
    }

    /// The slot of a hash whose piece `is` what is wanted.
    #[inline]
    pub(super) fn find(&mut self, hash: u64, is: impl Fn(Piece) -> bool) -> Option<&mut Slot> {
        let tag = tag(hash);
        self.bucket(hash)
            .iter_mut()
            .find(|slot| slot.tag == tag && is(slot.piece))
    }

    /// A record whose key has no slot yet gets one.
    pub(super) fn add(&mut self, hash: u64, piece: Piece, heat: u8) {
        let rank = |slot: &Slot| if slot.tag == 0 { 0 } else { 1 + slot.heat };
        let Some(slot) = self.bucket(hash).iter_mut().min_by_key(|slot| rank(slot)) else {
            return;
        };
        let was_empty = slot.tag == 0;
        let tag = tag(hash);
        *slot = Slot { tag, piece, heat };
        self.used += usize::from(was_empty);
    }

    /// Takes the slot out whose piece `is` what is wanted; its heat.
    pub(super) fn remove(&mut self, hash: u64, is: impl Fn(Piece) -> bool) -> Option<u8> {
        let slot = self.find(hash, is)?;
        let heat = slot.heat;
        *slot = Slot::default();
        self.used -= 1;
        Some(heat)
    }

    /// Takes out every piece that `is` what is wanted.
    pub(super) fn remove_all(&mut self, is: impl Fn(Piece) -> bool) {
        let slots = self.buckets.as_flattened_mut().iter_mut();
        for slot in slots.filter(|slot| slot.tag != 0 && is(slot.piece)) {
            *slot = Slot::default();
            self.used -= 1;
        }
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_that_is_full_loses_what_was_used_least() {
        let mut table = Table::new(1);
        let piece = |at| Piece {
            at,
            ..Piece::default()
        };
        for at in 0..8u32 {
            let heat = if at == 5 { 0 } else { 2 };
            table.add(u64::from(at) << 40, piece(at), heat);
        }
        table.add(99 << 40, piece(99), 0);
        assert_eq!(table.used(), 8);
        assert!(table.find(5 << 40, |found| found.at == 5).is_none());
        assert_eq!(table.find(99 << 40, |found| found.at == 99).unwrap().heat, 0);
        assert_eq!(table.remove(7 << 40, |found| found.at == 7), Some(2));
        assert_eq!(table.remove(7 << 40, |found| found.at == 7), None);
        table.remove_all(|found| found.at < 4);
        assert_eq!(table.used(), 3);
        assert_eq!(table.slots() * SLOT_BYTES, table.bytes());
    }
}
