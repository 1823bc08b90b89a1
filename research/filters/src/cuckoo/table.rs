//! The table: candidates, insertion, removal.

use super::group::{BUCKETS, BucketGroup, first, matching, tag};
use super::shape::{CuckooShape, SLOTS, TaggedBucket};
use crate::{Error, Result};
use alluvium_base::prefetch_line;

/// The number of entries that an insertion moves before it fails.
pub const MAX_DISPLACEMENTS: usize = 128;

/// A partial-key cuckoo table from hashes to 32-bit offsets.
///
/// The table does not store keys. A lookup returns candidates, of which at most one belongs to the
/// key; the owner compares keys. [`CuckooTable::insert`] always adds an entry: to overwrite a key,
/// the owner finds its slot first and updates it with [`CuckooTable::set`].
///
/// ```
/// use research_filters::cuckoo::{CuckooShape, CuckooTable};
/// use alluvium_filters::hash;
/// let mut table = CuckooTable::new(CuckooShape::alternate(15)?, 7);
/// table.insert(hash(0, b"apple"), 4096)?;
/// let found: Vec<u32> = table.candidates(hash(0, b"apple")).map(|(_, offset)| offset).collect();
/// assert_eq!(found, [4096]);
/// assert_eq!(table.candidates(hash(0, b"pear")).count(), 0);
/// # Ok::<(), research_filters::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CuckooTable {
    shape: CuckooShape,
    groups: Box<[BucketGroup]>,
    len: u32,
    random: u64,
}

/// The number of a slot: 4 · bucket + position in the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CuckooSlot(u32);

impl CuckooSlot {
    /// Returns the slot with this number.
    #[must_use]
    pub fn new(number: u32) -> CuckooSlot {
        CuckooSlot(number)
    }

    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }

    pub(super) fn at(bucket: u32, slot: u32) -> CuckooSlot {
        CuckooSlot(bucket * SLOTS + slot)
    }
}

/// An iterator over the entries that may belong to a key.
#[derive(Clone, Debug)]
pub struct CuckooCandidates<'t> {
    table: &'t CuckooTable,
    places: [TaggedBucket; 2],
    /// The index of the current place, and its remaining slots.
    at: usize,
    left: u64,
}

impl Iterator for CuckooCandidates<'_> {
    type Item = (CuckooSlot, u32);

    #[inline]
    fn next(&mut self) -> Option<(CuckooSlot, u32)> {
        loop {
            let bucket = self.places.get(self.at)?.bucket;
            if let Some(slot) = first(self.left) {
                self.left &= self.left - 1;
                let offset = self.table.group(bucket).offset(bucket, slot);
                return Some((CuckooSlot::at(bucket, slot), offset));
            }
            self.at += 1;
            if self.at == 1 && self.places[0] != self.places[1] {
                let TaggedBucket { bucket, tag } = self.places[1];
                self.left = matching(self.table.group(bucket).tags(bucket), tag);
            } else {
                self.at = self.places.len();
            }
        }
    }
}

impl CuckooTable {
    /// Creates an empty table. `seed` determines which entries insertions move.
    #[must_use]
    pub fn new(shape: CuckooShape, seed: u64) -> CuckooTable {
        CuckooTable {
            shape,
            groups: vec![BucketGroup::EMPTY; shape.buckets.div_ceil(BUCKETS) as usize].into(),
            len: 0,
            random: seed | 1,
        }
    }

    #[must_use]
    pub fn shape(&self) -> CuckooShape {
        self.shape
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the fraction of slots in use.
    #[must_use]
    pub fn load(&self) -> f64 {
        f64::from(self.len) / f64::from(self.shape.slots())
    }

    /// Returns the memory used by the slots, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.groups)
    }

    /// Returns the entries that may belong to a hash: those in its two buckets with its tag.
    #[inline]
    #[must_use]
    pub fn candidates(&self, hash: u64) -> CuckooCandidates<'_> {
        let places = self.shape.places(hash);
        let TaggedBucket { bucket, tag } = places[0];
        CuckooCandidates {
            table: self,
            places,
            at: 0,
            left: matching(self.group(bucket).tags(bucket), tag),
        }
    }

    /// Prefetches the tags that a lookup of this hash reads.
    pub fn prefetch(&self, hash: u64) {
        for place in self.shape.places(hash) {
            prefetch_line(self.group(place.bucket));
        }
    }

    /// Adds an entry, moving up to [`MAX_DISPLACEMENTS`] other entries to their alternative
    /// buckets.
    ///
    /// # Errors
    /// [`Error::Full`] when no slot becomes free. The table is then unchanged (C2).
    pub fn insert(&mut self, hash: u64, offset: u32) -> Result<()> {
        let places = self.shape.places(hash);
        for place in places {
            if self.put_in_free_slot(place, offset) {
                return Ok(());
            }
        }
        let start = places[(self.draw() & 1) as usize];
        self.displace(start, offset)
    }

    /// Performs a random walk: the new entry displaces another entry, which moves to its
    /// alternative bucket and displaces a third, until a bucket has a free slot.
    fn displace(&mut self, mut place: TaggedBucket, mut offset: u32) -> Result<()> {
        let mut path = [(CuckooSlot(0), 0u16, 0u32); MAX_DISPLACEMENTS];
        for moved in &mut path {
            let bucket = place.bucket;
            let slot = (self.draw() & u64::from(SLOTS - 1)) as u32;
            let group = self.group(bucket);
            let (old_tag, old_offset) = (tag(group.tags(bucket), slot), group.offset(bucket, slot));
            debug_assert!(old_tag != 0, "a full bucket has no empty slot");
            *moved = (CuckooSlot::at(bucket, slot), old_tag, old_offset);
            self.group_mut(bucket).set(bucket, slot, place.tag, offset);
            place = self.shape.other(TaggedBucket { bucket, tag: old_tag });
            offset = old_offset;
            if self.put_in_free_slot(place, offset) {
                return Ok(());
            }
        }
        // The walk may visit a slot twice. Undoing it in reverse order restores the entry that
        // the slot held first.
        for &(CuckooSlot(number), tag, offset) in path.iter().rev() {
            let bucket = number / SLOTS;
            self.group_mut(bucket).set(bucket, number % SLOTS, tag, offset);
        }
        Err(Error::Full {
            entries: self.len,
            slots: self.shape.slots(),
        })
    }

    fn put_in_free_slot(&mut self, TaggedBucket { bucket, tag }: TaggedBucket, offset: u32) -> bool {
        let Some(slot) = first(matching(self.group(bucket).tags(bucket), 0)) else {
            return false;
        };
        self.group_mut(bucket).set(bucket, slot, tag, offset);
        self.len += 1;
        true
    }

    /// Replaces the offset of an entry, and returns the previous offset.
    ///
    /// # Panics
    /// When the slot is empty or does not exist.
    pub fn set(&mut self, slot: CuckooSlot, offset: u32) -> u32 {
        let (bucket, place, tag) = self.used(slot);
        let before = self.group(bucket).offset(bucket, place);
        self.group_mut(bucket).set(bucket, place, tag, offset);
        before
    }

    /// Removes an entry, and returns its offset.
    ///
    /// # Panics
    /// When the slot is empty or does not exist.
    pub fn remove(&mut self, slot: CuckooSlot) -> u32 {
        let (bucket, place, _) = self.used(slot);
        let before = self.group(bucket).offset(bucket, place);
        self.group_mut(bucket).set(bucket, place, 0, 0);
        self.len -= 1;
        before
    }

    fn used(&self, CuckooSlot(number): CuckooSlot) -> (u32, u32, u16) {
        let (bucket, place) = (number / SLOTS, number % SLOTS);
        assert!(bucket < self.shape.buckets, "there is no slot {number}");
        let tag = tag(self.group(bucket).tags(bucket), place);
        assert!(tag != 0, "slot {number} is empty");
        (bucket, place, tag)
    }

    /// Returns all entries in slot order, the order in which a hash store lays them out.
    pub fn entries(&self) -> impl Iterator<Item = (CuckooSlot, u32)> {
        self.tags().filter(|(_, tag)| *tag != 0).map(|(slot, _)| {
            let bucket = slot.0 / SLOTS;
            (slot, self.group(bucket).offset(bucket, slot.0 % SLOTS))
        })
    }

    /// The tags of all slots in slot order; 0 for an empty slot.
    pub(super) fn tags(&self) -> impl Iterator<Item = (CuckooSlot, u16)> {
        (0..self.shape.buckets).flat_map(|bucket| {
            let tags = self.group(bucket).tags(bucket);
            (0..SLOTS).map(move |slot| (CuckooSlot::at(bucket, slot), tag(tags, slot)))
        })
    }

    #[inline]
    fn group(&self, bucket: u32) -> &BucketGroup {
        &self.groups[(bucket / BUCKETS) as usize]
    }

    #[inline]
    fn group_mut(&mut self, bucket: u32) -> &mut BucketGroup {
        &mut self.groups[(bucket / BUCKETS) as usize]
    }

    /// Returns the high bits of the next number of a xorshift generator.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 32
    }
}
