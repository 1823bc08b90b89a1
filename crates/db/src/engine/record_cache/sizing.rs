//! Decides how to divide the cache memory between the record cache and the page cache. All
//! functions are pure.

/// Counters since the previous sample, and how the memory is divided now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheSample {
    /// Memory of the record cache and of the page cache, in bytes.
    pub(crate) records: u64,
    pub(crate) pages: u64,
    /// Whether the record cache is full. Until then, ghost hits are not significant.
    pub(crate) is_full: bool,
    /// Number of lookups that had to continue in the tree, and number of device reads that they
    /// caused.
    pub(crate) lookups: u64,
    pub(crate) reads: u64,
    /// Number of device reads of index and maplet pages.
    pub(crate) guides: u64,
    /// Number of lookups that the record cache might have answered if it had `ghost_bytes` more
    /// bytes.
    pub(crate) ghost_hits: u64,
    pub(crate) ghost_bytes: u64,
    /// Number of lookups that the record cache answered.
    pub(crate) hits: u64,
    /// Number of device reads caused by scans since the previous sample.
    pub(crate) scan_reads: u64,
    /// Size of the tree on disk, in bytes.
    pub(crate) data: u64,
}

/// Minimum number of lookups, or of device reads caused by scans, that makes a sample significant.
/// Tuning: `10_000` since 2026-11-22.
const ENOUGH: u64 = 10_000;

/// If scans cause at least this many device reads for each lookup, the record cache is of no use.
/// Tuning: `10` since 2026-11-22.
const SCANS_PREVAIL: u64 = 10;

/// Minimum share of the record cache in the memory of both caches, in percent.
/// Tuning: `4` since 2026-11-22.
const LEAST_PERCENT: u64 = 4;
/// Maximum share of the record cache in the memory of both caches, in percent.
/// Tuning: `75` since 2026-11-22.
const MOST_PERCENT: u64 = 75;

/// An ordinary step moves 1/`STEPS` of the memory of both caches.
/// Tuning: `32` since 2026-11-22.
const STEPS: u64 = 32;

/// If more than this percentage of lookups miss an index or maplet page, memory moves to the page
/// cache, because hardly any lookup should have to read such a page.
/// Tuning: `4` since 2026-11-24.
const STARVING_PERCENT: u64 = 4;
/// If more than this percentage of lookups miss an index or maplet page, ghost hits do not enlarge
/// the record cache. The limit is below [`STARVING_PERCENT`], so that memory does not move back and
/// forth between the caches.
/// Tuning: `2` since 2026-11-24.
const HUNGRY_PERCENT: u64 = 2;

/// Number of consecutive samples above [`STARVING_PERCENT`] that are required before memory moves.
/// A single sample may be misleading for several reasons: a compaction's output exists alongside
/// its input for a while, a page cache that has shrunk soon reads the lost pages again, and the
/// caches are empty after the store is opened.
/// Tuning: `3` since 2026-11-24.
const PATIENCE: u32 = 3;

/// A step towards the record cache is twice as long if a byte there is worth more than this
/// percentage of a byte in the page cache.
/// Tuning: `300` since 2026-11-24.
const FAR_PERCENT: u128 = 300;
/// A step towards the page cache is twice as long if more than this percentage of lookups miss an
/// index or maplet page.
/// Tuning: `20` since 2026-11-24.
const STARVED_PERCENT: u64 = 20;

/// If the page cache has more memory than it can use, a step moves 1/`LARGE_STEPS` of the memory of
/// both caches.
/// Tuning: `8` since 2026-11-23.
const LARGE_STEPS: u64 = 8;

/// Maximum useful size of the page cache, in percent of the size of the data. It is above 100 %
/// because obsolete pages that have not been dropped occupy some of the page cache.
/// Tuning: `150` since 2026-11-23.
const PAGES_OF_DATA_PERCENT: u64 = 150;

/// Memory moves to a cache only if a byte there is worth more than this percentage of a byte in the
/// other cache.
/// Tuning: `125` since 2026-11-24.
const MARGIN_PERCENT: u128 = 125;

/// Returns whether the sample contains enough lookups or scans to be significant.
pub(crate) fn is_enough(view: &CacheSample) -> bool {
    view.lookups.max(view.scan_reads) >= ENOUGH
}

fn scans_prevail(view: &CacheSample) -> bool {
    view.scan_reads >= ENOUGH && view.scan_reads >= (view.hits + view.lookups) * SCANS_PREVAIL
}

/// Returns whether more than `percent` percent of the lookups missed an index or maplet page.
/// Returns false if there were too few lookups to tell.
fn misses_guides(view: &CacheSample, percent: u64) -> bool {
    view.lookups >= ENOUGH && view.guides * 100 > view.lookups * percent
}

/// What earlier samples have shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheTrend {
    /// Number of consecutive samples in which too many lookups missed index or maplet pages.
    starving: u32,
    /// Minimum size of the page cache in bytes, set when index and maplet pages did not fit. For a
    /// while, the record cache does not take this memory back. It would soon have to return it, and
    /// each resize copies all cached records.
    floor: u64,
    /// Number of further samples for which `floor` is valid.
    looks: u32,
}

/// Number of samples for which a minimum size of the page cache stays valid, which is about a
/// minute.
/// Tuning: `60` since 2026-11-22.
const LOOKS: u32 = 60;

impl CacheTrend {
    /// Returns the new budget of the record cache, in bytes, and updates the trend.
    pub(crate) fn next(&mut self, view: &CacheSample) -> u64 {
        self.starving = if misses_guides(view, STARVING_PERCENT) {
            self.starving + 1
        } else {
            0
        };
        let is_starving = self.starving >= PATIENCE;
        let wanted = next(view, is_starving);
        let all = view.records + view.pages;
        if is_starving {
            (self.floor, self.looks) = (all - wanted, LOOKS);
            // The page cache must fill its additional memory before the next sample is significant.
            self.starving -= PATIENCE - 1;
        }
        if self.looks == 0 {
            return wanted;
        }
        self.looks -= 1;
        if wanted > view.records {
            wanted.min(all.saturating_sub(self.floor)).max(view.records)
        } else {
            wanted
        }
    }
}

/// Returns the maximum size of the record cache if both caches together have `all` bytes.
pub(crate) fn most(all: u64) -> u64 {
    all * MOST_PERCENT / 100
}

/// Returns the record cache's budget when the total budget of both caches changes from `all` to
/// `caches` bytes. `records` is its budget before the change, and its share is kept.
pub(crate) fn in_proportion(records: u64, all: u64, caches: u64) -> u64 {
    let wanted = u128::from(caches) * u128::from(records) / u128::from(all.max(1));
    u64::try_from(wanted).map_or(caches, |wanted| wanted.min(most(caches)))
}

/// Returns whether a budget change is large enough to justify copying all cached records.
pub(crate) fn is_a_step(change: u64, caches: u64) -> bool {
    change >= caches / STEPS
}

/// Returns the new budget of the record cache, in bytes, for one sample.
///
/// If the page cache could hold all data and have memory left, the record cache gets the rest,
/// because a hit in the record cache costs a fifth of the processor time of a lookup in cached
/// pages.
///
/// An additional byte of the record cache saves as many device reads as there were ghost hits,
/// divided by the number of bytes that the ghosts' records would occupy. An additional byte of the
/// page cache saves at least the average number of device reads per byte of data outside the page
/// cache. The average is used because hot keys are usually scattered over the leaves, which makes
/// all leaves about equally hot. Index and maplet pages are hotter than leaves, so the page cache
/// keeps them first.
fn next(view: &CacheSample, is_starving: bool) -> u64 {
    let all = view.records + view.pages;
    let (least, most) = (all * LEAST_PERCENT / 100, most(all));
    let spare = all.saturating_sub(view.data * PAGES_OF_DATA_PERCENT / 100);
    if spare > view.records && view.is_full && view.lookups >= ENOUGH && !scans_prevail(view) {
        return (view.records + all / LARGE_STEPS).min(spare).min(most);
    }
    if !scans_prevail(view) && (view.lookups < ENOUGH || view.reads == 0) {
        return view.records;
    }
    let step = |is_far: bool| all / STEPS * if is_far { 2 } else { 1 };
    let less = |is_far| view.records.saturating_sub(step(is_far));
    let uncached = u128::from(view.data.saturating_sub(view.pages).max(1));
    let lookups = u128::from(view.lookups);
    // Compare ghost_hits * reads / lookups / ghost_bytes with reads / uncached. Both sides are
    // multiplied by all divisors, and reads cancels out.
    let of_records = u128::from(view.ghost_hits) * uncached;
    let of_pages = lookups * u128::from(view.ghost_bytes);
    let wanted = if scans_prevail(view) {
        less(false)
    } else if is_starving {
        less(misses_guides(view, STARVED_PERCENT))
    } else if !view.is_full || view.ghost_hits == 0 {
        view.records
    } else if of_pages * 100 > of_records * MARGIN_PERCENT {
        less(false)
    } else if of_records * 100 > of_pages * MARGIN_PERCENT && !misses_guides(view, HUNGRY_PERCENT) {
        view.records + step(of_records * 100 > of_pages * FAR_PERCENT)
    } else {
        view.records
    };
    wanted.clamp(least, most)
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn view(ghost_hits: u64, guides: u64) -> CacheSample {
        CacheSample {
            records: 16 * MIB,
            pages: 48 * MIB,
            is_full: true,
            lookups: 100_000,
            reads: 90_000 + guides,
            guides,
            ghost_hits,
            ghost_bytes: 8 * MIB,
            hits: 100_000,
            scan_reads: 15_000,
            data: 1024 * MIB,
        }
    }

    #[test]
    fn memory_goes_to_where_a_byte_saves_more_reads() {
        // There are 100,000 lookups over 976 MiB of uncached data, so about 820 of them read a
        // given 8 MiB.
        let table = [
            (5_000, 0, 20, "hot records come back"),
            (2_000, 0, 18, "records that are not so hot do"),
            (1_000, 0, 16, "no difference worth while"),
            (300, 0, 14, "all pages are as hot as the records"),
            (5_000, 3_000, 16, "what leads to leaves barely fits"),
            (300, 3_000, 14, "pages may have more"),
            (0, 0, 16, "nothing was turned away"),
        ];
        for (ghost_hits, guides, mebibytes, why) in table {
            assert_eq!(next(&view(ghost_hits, guides), false), mebibytes * MIB, "{why}");
        }
        for (guides, mebibytes) in [(5_000, 14), (30_000, 12)] {
            assert_eq!(next(&view(5_000, guides), true), mebibytes * MIB);
        }
        let in_memory = CacheSample {
            reads: 0,
            ..view(5_000, 0)
        };
        assert_eq!(next(&in_memory, false), in_memory.records);
        let few = CacheSample {
            lookups: 100,
            ..view(50, 50)
        };
        assert_eq!(next(&few, false), few.records);
        for (lookups, mebibytes) in [(50, 14), (1_000, 16)] {
            let scans = CacheSample {
                lookups,
                hits: lookups,
                reads: lookups,
                ..view(0, 0)
            };
            assert_eq!(
                next(&scans, false),
                mebibytes * MIB,
                "scans with {lookups} lookups"
            );
        }
        for (is_starving, mebibytes) in [(false, 16), (true, 14)] {
            let filling = CacheSample {
                is_full: false,
                ..view(5_000, 5_000)
            };
            assert_eq!(next(&filling, is_starving), mebibytes * MIB);
        }
    }

    #[test]
    fn records_have_what_pages_have_no_use_for() {
        let of = |data, records, is_full| {
            let view = CacheSample {
                data: data * MIB,
                records: records * MIB,
                pages: (64 - records) * MIB,
                is_full,
                ..view(0, 0)
            };
            next(&view, false) / MIB
        };
        assert_eq!(of(10, 16, true), 24);
        assert_eq!(of(10, 44, true), 48, "no more than they ever have");
        assert_eq!(of(30, 16, true), 19, "pages have use for the others");
        assert_eq!(of(40, 16, true), 16);
        assert_eq!(of(10, 16, false), 16, "they have use for no more");
    }

    #[test]
    fn what_was_given_up_is_not_asked_for_again_at_once() {
        let mut trend = CacheTrend::default();
        let mut now = view(2_000, 0);
        let (mut changes, mut shares) = (0, Vec::new());
        for _ in 0..10 * LOOKS {
            // If the record cache uses more than 17 MiB, the index and maplet pages do not fit into
            // the page cache.
            now.guides = if now.records > 17 * MIB { 30_000 } else { 0 };
            let wanted = trend.next(&now);
            changes += u32::from(wanted != now.records);
            now.pages = now.records + now.pages - wanted;
            now.records = wanted;
            shares.push(wanted);
        }
        assert!(changes < 40, "{changes} changes");
        assert!(shares.iter().filter(|&&share| share <= 16 * MIB).count() > 500);
    }

    #[test]
    fn guides_that_are_missing_for_a_moment_change_nothing() {
        let mut trend = CacheTrend::default();
        // Index and maplet pages are missing only briefly, as they are after a compaction or after
        // the store is opened.
        for guides in [80_000, 30_000, 3_000, 30_000, 10_000, 2_500] {
            assert_eq!(trend.next(&view(5_000, guides)), 16 * MIB, "{guides}");
        }
        assert_eq!(trend.next(&view(5_000, 500)), 20 * MIB);
        for mebibytes in [16, 16, 14, 16, 14] {
            assert_eq!(trend.next(&view(5_000, 6_000)), mebibytes * MIB);
        }
        assert_eq!(
            trend.next(&view(5_000, 500)),
            16 * MIB,
            "pages keep what they had to be given"
        );
        // Both caches grow.
        let larger = CacheSample {
            pages: 52 * MIB,
            ..view(5_000, 500)
        };
        assert_eq!(trend.next(&larger), 18 * MIB);
        // A few lookups during scans are no evidence that index and maplet pages are missing.
        let scans = CacheSample {
            hits: 0,
            lookups: 20,
            reads: 40,
            guides: 20,
            ..view(5_000, 0)
        };
        let mut trend = CacheTrend::default();
        for _ in 0..2 * PATIENCE {
            assert_eq!(trend.next(&scans), 14 * MIB);
        }
        assert_eq!(trend.next(&view(5_000, 500)), 20 * MIB);
    }

    #[test]
    fn neither_side_is_left_with_nothing() {
        let mut up = view(50_000, 0);
        let mut down = view(1, 0);
        for view in [&mut up, &mut down] {
            for _ in 0..100 {
                let all = view.records + view.pages;
                view.records = next(view, false);
                view.pages = all - view.records;
            }
        }
        assert_eq!(up.records, most(64 * MIB));
        assert_eq!(down.records, 64 * MIB * LEAST_PERCENT / 100);
    }
}
