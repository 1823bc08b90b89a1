//! Operations on the whole contents of a cache: counting and clearing.

use super::bucket::{BucketWriteGuard, IndexBucket, WAYS};
use super::item::{self, ItemHeaderWord};
use super::lossy::LossyTable;
use super::memory::WORD;
use super::mode::ConcurrencyMode;
use super::stats::TableEvent;
use std::ops::AddAssign;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUsage {
    /// Number of items that have not expired.
    pub items: u64,
    /// Total size of their headers, keys and values, in bytes.
    pub bytes: u64,
}

impl AddAssign for CacheUsage {
    fn add_assign(&mut self, other: CacheUsage) {
        self.items += other.items;
        self.bytes += other.bytes;
    }
}

impl<M: ConcurrencyMode> LossyTable<M> {
    /// Deletes all items, bucket by bucket. An item that is set concurrently may or may not be
    /// deleted.
    pub(super) fn clear(&self) {
        for bucket in self.buckets.all() {
            if (0..WAYS).all(|slot| bucket.entry(slot).is_none()) {
                continue;
            }
            let _writing: BucketWriteGuard<'_, M> = BucketWriteGuard::begin(&self.latch, bucket);
            for slot in 0..WAYS {
                if let Some(entry) = bucket.entry(slot) {
                    if self.log(entry).holds(entry.place()) {
                        self.tally.count(TableEvent::Delete);
                    }
                    bucket.replace(slot, None);
                }
            }
        }
    }

    /// Returns the number of items that can be found through the index.
    pub(super) fn count(&self) -> usize {
        let count = |bucket: &IndexBucket| {
            let entries = (0..WAYS).filter_map(|slot| bucket.entry(slot));
            entries
                .filter(|&entry| self.log(entry).holds(entry.place()))
                .count()
        };
        self.buckets.all().iter().map(count).sum()
    }

    /// Estimates the number and total size of the items that have not expired at time `now`. Visits
    /// at most `most` buckets. Concurrent writes only make the result less exact.
    pub(super) fn content(&self, most: usize, now: u64) -> CacheUsage {
        let buckets = self.buckets.all();
        let step = buckets.len().div_ceil(most).max(1);
        let (mut looked_at, mut content) = (0, CacheUsage::default());
        for bucket in buckets.iter().step_by(step) {
            looked_at += 1;
            for entry in (0..WAYS).filter_map(|slot| bucket.entry(slot)) {
                if !self.log(entry).holds(entry.place()) {
                    continue;
                }
                let at = self.log(entry).word(entry.place());
                let header = ItemHeaderWord::load(&self.words, at);
                if at + header.needed() <= self.words.len()
                    && !item::has_expired(&self.words, at, header, now)
                {
                    content.items += 1;
                    content.bytes += (header.needed() * WORD) as u64;
                }
            }
        }
        let all = buckets.len() as u64;
        let share =
            |part: u64| (u128::from(part) * u128::from(all) / u128::from(looked_at.max(1_u64))) as u64;
        CacheUsage {
            items: share(content.items),
            bytes: share(content.bytes),
        }
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::super::{Cache, CacheOptions};

    #[test]
    fn a_cache_counts_what_it_holds_and_forgets_all_of_it() {
        let cache = Cache::new(&CacheOptions::new(4 << 20)).unwrap();
        for number in 0..1000_u32 {
            cache.set(&number.to_ne_bytes(), &[7; 60]).unwrap();
        }
        cache.set(&7_u32.to_ne_bytes(), &[8; 60]).unwrap();
        assert!(cache.delete(&9_u32.to_ne_bytes()));
        // An item has one header word, one key word, and fifteen value words.
        assert_eq!((cache.len(), cache.content().items), (999, 999));
        assert_eq!(cache.content().bytes, 999 * 68);
        cache.set_until(b"soon", b"gone", 5).unwrap();
        assert_eq!(cache.content().items, 1000);
        cache.tick(5);
        assert_eq!((cache.len(), cache.content().items), (1000, 999));
        cache.clear();
        assert!(cache.is_empty());
        assert_eq!(cache.content(), super::CacheUsage::default());
        assert!((0..1000_u32).all(|number| cache.get(&number.to_ne_bytes()).is_none()));
        cache.set(b"again", b"there").unwrap();
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn a_sample_of_a_large_cache_tells_about_what_it_holds() {
        let options = CacheOptions {
            item_bytes: 16,
            ..CacheOptions::new(32 << 20)
        };
        let cache = Cache::new(&options).unwrap();
        for number in 0..300_000_u32 {
            cache.set(&number.to_ne_bytes(), &[7; 12]).unwrap();
        }
        let (items, content) = (cache.len() as u64, cache.content());
        assert!(items > 250_000, "{items}");
        assert!(
            content.items.abs_diff(items) < items / 50,
            "{content:?} of {items}"
        );
        assert!(
            content.bytes.abs_diff(items * 20) < items,
            "{content:?} of {items}"
        );
    }
}
