//! The share of the caches' memory that the record cache should have. Pure functions without side
//! effects.

/// Counters since the last sample, and the current division of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheSample {
    /// Bytes of the record cache and of the page cache.
    pub(crate) records: u64,
    pub(crate) pages: u64,
    /// Whether the record cache is full: before that, ghost hits are not significant.
    pub(crate) is_full: bool,
    /// Lookups passed on to the tree, and their device reads.
    pub(crate) lookups: u64,
    pub(crate) reads: u64,
    /// Reads of index and maplet pages.
    pub(crate) guides: u64,
    /// Lookups that `ghost_bytes` more bytes for the record cache might have answered.
    pub(crate) ghost_hits: u64,
    pub(crate) ghost_bytes: u64,
    /// Lookups answered by the record cache.
    pub(crate) hits: u64,
    /// Device reads of scans since the previous sample.
    pub(crate) scan_reads: u64,
    /// Bytes of the tree on disk.
    pub(crate) data: u64,
}

/// Minimum number of lookups, or of device reads by scans, for a significant sample.
/// Tuning: `10_000` since 2026-11-22.
const ENOUGH: u64 = 10_000;

/// From this many device reads of scans per lookup on, the record cache is of no use.
/// Tuning: `10` since 2026-11-22.
const SCANS_PREVAIL: u64 = 10;

/// Bounds of the record cache's share, in percent.
/// Tuning: `4` since 2026-11-22.
const LEAST_PERCENT: u64 = 4;
/// Upper bound of the record cache's share of the memory, in percent.
/// Tuning: `75` since 2026-11-22.
const MOST_PERCENT: u64 = 75;

/// A step moves 1/`STEPS` of both budgets.
/// Tuning: `32` since 2026-11-22.
const STEPS: u64 = 32;

/// If more than 4 % of lookups miss an index or maplet page, memory moves to the page cache: no
/// lookup should need such a read. Between 2 % and 4 % the page cache keeps its memory
/// (hysteresis).
/// Tuning: `4` since 2026-11-24.
const STARVING_PERCENT: u64 = 4;
/// From this miss rate on, in percent, the page cache keeps its memory (hysteresis).
/// Tuning: `2` since 2026-11-24.
const HUNGRY_PERCENT: u64 = 2;

/// Consecutive samples above the threshold before memory moves. One sample may mislead: the output
/// of a compaction exists alongside its input for a while, a reduced cache soon rereads the pages
/// that it lost, and the caches are empty after opening.
/// Tuning: `3` since 2026-11-24.
const PATIENCE: u32 = 3;

/// Steps are twice as long if a byte for records is worth this percentage of a byte for pages, or
/// if [`STARVED_PERCENT`] of lookups miss index or maplet pages.
/// Tuning: `300` since 2026-11-24.
const FAR_PERCENT: u128 = 300;
/// Steps are twice as long if this percentage of lookups miss an index or maplet page.
/// Tuning: `20` since 2026-11-24.
const STARVED_PERCENT: u64 = 20;

/// A step moves 1/`LARGE_STEPS` of both budgets when the page cache has memory to spare.
/// Tuning: `8` since 2026-11-23.
const LARGE_STEPS: u64 = 8;

/// Useful size of the page cache, in percent of the data: obsolete pages that are not yet dropped
/// occupy some of it.
/// Tuning: `150` since 2026-11-23.
const PAGES_OF_DATA_PERCENT: u64 = 150;

/// A byte must be worth this percentage of a byte in the other cache to be moved.
/// Tuning: `125` since 2026-11-24.
const MARGIN_PERCENT: u128 = 125;

/// Returns whether the sample is significant.
pub(crate) fn is_enough(view: &CacheSample) -> bool {
    view.lookups.max(view.scan_reads) >= ENOUGH
}

fn scans_prevail(view: &CacheSample) -> bool {
    view.scan_reads >= ENOUGH && view.scan_reads >= (view.hits + view.lookups) * SCANS_PREVAIL
}

/// Returns whether more than this percentage of lookups missed index or maplet pages, if there were
/// enough lookups.
fn misses_guides(view: &CacheSample, percent: u64) -> bool {
    view.lookups >= ENOUGH && view.guides * 100 > view.lookups * percent
}

/// What earlier samples have shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheTrend {
    /// Consecutive samples in which index and maplet pages were missing.
    starving: u32,
    /// Lower bound of the page cache, set when it lacked index and maplet pages. The record cache
    /// does not reclaim this memory for a while: it would have to return it again, and each change
    /// copies all records.
    floor: u64,
    /// Samples for which the lower bound still holds.
    looks: u32,
}

/// Number of samples for which a lower bound holds: about a minute.
/// Tuning: `60` since 2026-11-22.
const LOOKS: u32 = 60;

impl CacheTrend {
    /// Returns the new budget of the record cache.
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
            // Added page memory has to fill before the next sample is significant.
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

/// Returns the maximum of the record cache, given `all` bytes for both caches.
pub(crate) fn most(all: u64) -> u64 {
    all * MOST_PERCENT / 100
}

/// Returns the record cache's budget when the sum of both changes from `all` to `caches` bytes and
/// the record cache had `records` bytes.
pub(crate) fn in_proportion(records: u64, all: u64, caches: u64) -> u64 {
    let wanted = u128::from(caches) * u128::from(records) / u128::from(all.max(1));
    u64::try_from(wanted).map_or(caches, |wanted| wanted.min(most(caches)))
}

/// Returns whether a change of the budget is large enough to copy the records for it.
pub(crate) fn is_a_step(change: u64, caches: u64) -> bool {
    change >= caches / STEPS
}

/// Returns the new budget of the record cache.
///
/// If the page cache would hold all data and have memory to spare, the record cache gets that
/// memory: a hit there costs a fifth of the processor time of a lookup in pages.
///
/// A byte more for records saves as many device reads as there were ghost hits, divided by the
/// bytes that the ghosts stand for. A byte more for pages saves at least the average device reads
/// per byte of data outside the page cache: hot keys are usually scattered over leaves, so that all
/// leaves are about equally hot. Index and maplet pages are hotter than leaves; they are the first
/// pages that the page cache keeps.
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
    // Compares ghost_hits * reads / lookups / ghost_bytes with reads / uncached, both multiplied by
    // all divisors.
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
        // A hundred thousand lookups over 976 MiB: 820 for 8 MiB of it.
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
            // Above 17 MiB for records, index and maplet pages do not fit.
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
        // As after a compaction, or after opening.
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
        // A few lookups during scans are not significant.
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
