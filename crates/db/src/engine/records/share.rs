//! How much of the caches' memory should hold records. Nothing here does anything.

/// What happened since this was asked last, and how the memory is shared now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// Bytes for records, and for pages.
    pub(crate) records: u64,
    pub(crate) pages: u64,
    /// Whether records have filled their part: before, what comes again says little.
    pub(crate) is_full: bool,
    /// Lookups that went to the tree, and how often they read from the device.
    pub(crate) lookups: u64,
    pub(crate) reads: u64,
    /// Those of them that so many bytes more for records might have answered.
    pub(crate) ghost_hits: u64,
    pub(crate) ghost_bytes: u64,
    /// Lookups that the records have answered.
    pub(crate) hits: u64,
    /// How often scans read from the device.
    pub(crate) scan_reads: u64,
    /// Bytes of the tree on the device.
    pub(crate) data: u64,
}

/// With fewer lookups, or reads of scans, nothing is known.
const ENOUGH: u64 = 10_000;

/// Where so many reads of scans come to one lookup, records are of no use.
const SCANS_PREVAIL: u64 = 10;

/// Records have at least, and at most, so many hundredths.
const LEAST_PERCENT: u64 = 4;
const MOST_PERCENT: u64 = 75;

/// A step, as a part of the whole.
const STEPS: u64 = 32;

/// When lookups read more than so many hundredths of a page each, what finds the leaves is not in memory: pages come first. From a
/// little less on they give nothing any more, so that the shares come to rest.
const STARVING_PERCENT: u64 = 115;
const HUNGRY_PERCENT: u64 = 108;

/// A step where there is memory that pages have no use for.
const LARGE_STEPS: u64 = 8;

/// Pages have use for so many hundredths of the data: what was replaced and is not given up yet takes some.
const PAGES_OF_DATA_PERCENT: u64 = 150;

/// A byte must be worth so many hundredths of a byte on the other side to be moved.
const MARGIN_PERCENT: u128 = 150;

/// Whether there was so much that it tells something.
pub(crate) fn is_enough(view: &View) -> bool {
    view.lookups.max(view.scan_reads) >= ENOUGH
}

fn scans_prevail(view: &View) -> bool {
    view.scan_reads >= ENOUGH && view.scan_reads >= (view.hits + view.lookups) * SCANS_PREVAIL
}

/// Whether pages that find others are missing, as far as there are lookups that tell.
fn is_starving(view: &View) -> bool {
    view.lookups >= ENOUGH && view.reads * 100 > view.lookups * STARVING_PERCENT
}

/// The share at which pages were last found to be missing, which records do not come back to for a while: they would have to give it
/// up again at once, and each change copies them all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ceiling {
    bytes: u64,
    /// How often it still counts.
    looks: u32,
    /// Whether pages were missing the last time.
    was_starving: bool,
}

/// How often a ceiling counts: about a minute.
const LOOKS: u32 = 60;

impl Ceiling {
    /// As [`next`], but for what was given up lately.
    pub(crate) fn next(&mut self, view: &View) -> u64 {
        let starves = is_starving(view);
        let was_starving = std::mem::replace(&mut self.was_starving, starves);
        // Once, as after opening, they were only not there yet.
        if starves && !was_starving {
            return view.records;
        }
        let wanted = next(view);
        if wanted < view.records && starves {
            (self.bytes, self.looks) = (wanted, LOOKS);
            return wanted;
        }
        if self.looks == 0 {
            return wanted;
        }
        self.looks -= 1;
        if wanted > view.records {
            wanted.min(self.bytes).max(view.records)
        } else {
            wanted
        }
    }
}

/// What records have at most of so many bytes for both caches.
pub(crate) fn most(all: u64) -> u64 {
    all * MOST_PERCENT / 100
}

/// Bytes for records from now on.
///
/// Where pages would hold all data and leave room, records have that: what they answer costs a processor a fifth of a lookup in pages.
///
/// A byte more for records saves as many device reads as ghosts were hit, for each byte that the ghosts stand for. A byte more for
/// pages saves at least what every byte of the data that no page holds has cost on the average: hot keys are scattered over leaves, as a
/// rule, so that one leaf is about as hot as the next.
fn next(view: &View) -> u64 {
    let all = view.records + view.pages;
    let (least, most) = (all * LEAST_PERCENT / 100, most(all));
    let spare = all.saturating_sub(view.data * PAGES_OF_DATA_PERCENT / 100);
    if spare > view.records && view.is_full && view.lookups >= ENOUGH && !scans_prevail(view) {
        return (view.records + all / LARGE_STEPS).min(spare).min(most);
    }
    if !scans_prevail(view) && (view.lookups < ENOUGH || view.reads == 0) {
        return view.records;
    }
    let (more, less) = (
        view.records + all / STEPS,
        view.records.saturating_sub(all / STEPS),
    );
    let uncached = u128::from(view.data.saturating_sub(view.pages).max(1));
    let lookups = u128::from(view.lookups);
    // Both gains times all divisors: ghost_hits * reads / lookups / ghost_bytes against reads / uncached.
    let of_records = u128::from(view.ghost_hits) * uncached;
    let of_pages = lookups * u128::from(view.ghost_bytes);
    let wanted = if scans_prevail(view) || is_starving(view) {
        less
    } else if !view.is_full || view.ghost_hits == 0 {
        view.records
    } else if of_pages * 100 > of_records * MARGIN_PERCENT {
        less
    } else if of_records * 100 > of_pages * MARGIN_PERCENT
        && view.reads * 100 <= view.lookups * HUNGRY_PERCENT
    {
        more
    } else {
        view.records
    };
    wanted.clamp(least, most)
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn view(ghost_hits: u64, reads: u64) -> View {
        View {
            records: 16 * MIB,
            pages: 48 * MIB,
            is_full: true,
            lookups: 100_000,
            reads,
            ghost_hits,
            ghost_bytes: 8 * MIB,
            hits: 100_000,
            scan_reads: 15_000,
            data: 1024 * MIB,
        }
    }

    #[test]
    fn memory_goes_to_where_a_byte_saves_more_reads() {
        // A hundred thousand lookups over 976 MiB: 820 for eight of them.
        let table = [
            (5_000, 90_000, 18, "hot records come back"),
            (1_000, 90_000, 16, "no difference worth while"),
            (300, 90_000, 14, "all pages are as hot as the records"),
            (5_000, 110_000, 16, "the index barely fits"),
            (5_000, 130_000, 14, "the index does not fit"),
            (0, 90_000, 16, "nothing was turned away"),
            (5_000, 0, 16, "everything is in memory"),
        ];
        for (ghost_hits, reads, mebibytes, why) in table {
            assert_eq!(next(&view(ghost_hits, reads)), mebibytes * MIB, "{why}");
        }
        let few = View {
            lookups: 100,
            ..view(50, 90)
        };
        assert_eq!(next(&few), few.records);
        for (lookups, mebibytes) in [(50, 14), (1_000, 16)] {
            let scans = View {
                lookups,
                hits: lookups,
                reads: lookups,
                ..view(0, 0)
            };
            assert_eq!(next(&scans), mebibytes * MIB, "scans with {lookups} lookups");
        }
        for (reads, mebibytes) in [(90_000, 16), (130_000, 14)] {
            let filling = View {
                is_full: false,
                ..view(5_000, reads)
            };
            assert_eq!(next(&filling), mebibytes * MIB);
        }
    }

    #[test]
    fn records_have_what_pages_have_no_use_for() {
        let of = |data, records, is_full| {
            next(&View {
                data: data * MIB,
                records: records * MIB,
                pages: (64 - records) * MIB,
                is_full,
                ..view(0, 0)
            }) / MIB
        };
        assert_eq!(of(10, 16, true), 24);
        assert_eq!(of(10, 44, true), 48, "no more than they ever have");
        assert_eq!(of(30, 16, true), 19, "pages have use for the others");
        assert_eq!(of(40, 16, true), 16);
        assert_eq!(of(10, 16, false), 16, "they have use for no more");
    }

    #[test]
    fn what_was_given_up_is_not_asked_for_again_at_once() {
        let mut ceiling = Ceiling::default();
        let mut now = view(5_000, 130_000);
        let (mut changes, mut shares) = (0, Vec::new());
        for _ in 0..10 * LOOKS {
            // Above 17 MiB what finds the leaves does not fit.
            now.reads = if now.records > 17 * MIB { 130_000 } else { 90_000 };
            let wanted = ceiling.next(&now);
            changes += u32::from(wanted != now.records);
            now.pages = now.records + now.pages - wanted;
            now.records = wanted;
            shares.push(wanted);
        }
        assert!(changes < 25, "{changes} changes");
        // What is not there yet after opening comes by being read.
        let mut ceiling = Ceiling::default();
        assert_eq!(ceiling.next(&view(5_000, 170_000)), 16 * MIB);
        assert_eq!(ceiling.next(&view(5_000, 90_000)), 18 * MIB);
        assert_eq!(ceiling.next(&view(5_000, 170_000)), 16 * MIB);
        assert_eq!(ceiling.next(&view(5_000, 170_000)), 14 * MIB, "it does not come");
        // A few lookups beside scans say nothing about what fits.
        let (mut ceiling, mut scans) = (Ceiling::default(), view(5_000, 90_000));
        (scans.hits, scans.lookups, scans.reads) = (0, 20, 40);
        assert_eq!(ceiling.next(&scans), 14 * MIB);
        assert_eq!(ceiling.next(&view(5_000, 90_000)), 18 * MIB);
        assert!(shares.iter().filter(|&&share| share == 16 * MIB).count() > 550);
    }

    #[test]
    fn neither_side_is_left_with_nothing() {
        let mut up = view(50_000, 90_000);
        let mut down = view(1, 90_000);
        for view in [&mut up, &mut down] {
            for _ in 0..100 {
                let all = view.records + view.pages;
                view.records = next(view);
                view.pages = all - view.records;
            }
        }
        assert_eq!(up.records, most(64 * MIB));
        assert_eq!(down.records, 64 * MIB * LEAST_PERCENT / 100);
    }
}
