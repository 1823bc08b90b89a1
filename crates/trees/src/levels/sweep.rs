//! Merges all runs slice by slice, when the disk has too little free space to merge whole runs.
//!
//! While space is scarce, the key space is merged in slices, in key order. The records that all
//! runs have in a slice are merged into one new run, and the old runs stay live only for the other
//! keys (V6). The free space limits the size of a slice. A checkpoint frees the replaced extents
//! before the next slice starts, so even a little free space suffices to merge everything.
//!
//! Usually only slices with deletes are merged, because merging the others would not free space. If
//! a user has requested a merge of the whole structure, every slice is merged.

use super::LevelsDictionary;
use super::merge::MergeStep;
use super::options::MergePolicy;
use super::state::{LevelMember, LevelsVersion, LevelsWriterState, RunAge};
use crate::run::RangeWeight;
use alluvium_base::{MIB, Purpose};
use alluvium_dictionary::merge::OlderData;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::extents::UNIT;
use alluvium_storage::{EpochGuard, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A slice is worth merging for its deletes if at least one in this many records is a delete.
const WORTH_PART: u64 = 16;

/// Maximum size of a slice in bytes.
const MOST_BYTES: u64 = 64 * MIB;

/// Additional space in bytes that merging a slice needs for the unused ends of extents, the filter,
/// and the footer.
const SLACK: u64 = 3 * UNIT;

/// Merging a slice uses at most the free space divided by this. The rest is for deletes and
/// checkpoints that are written during the merge.
const FREE_PART: u64 = 2;

/// Maximum number of pieces that a run is divided into to find the end of a slice.
const MOST_PIECES: usize = 1 << 16;

const _: () = assert!(FREE_PART > 1 && SLACK < MOST_BYTES, "slices leave space");

/// The progress of merging all runs slice by slice.
#[derive(Debug, Default)]
pub(super) struct SliceSweep {
    /// The age that the next new run had when the sweep started. Newer runs belong to the next
    /// sweep.
    of: RunAge,
    /// Whether every slice is merged, because a user has requested it.
    takes_all: bool,
    /// The first key that has not been merged yet.
    next: Box<[u8]>,
    is_over: bool,
    /// How many times in a row the size of a slice was halved because the store was full.
    halvings: u32,
}

/// The amount of data in a key range.
#[derive(Clone, Copy, Debug, Default)]
struct SliceStats {
    weight: RangeWeight,
    /// An upper bound for the number of deletes that no reader needs any more: the deletes of all
    /// runs that have records at or below the horizon.
    deletes: u64,
    /// The number of runs with records in the range.
    runs: usize,
    has_range_deletes: bool,
}

impl LevelsWriterState {
    /// Advances the sweep past a slice that has been merged or is not worth merging.
    pub(super) fn pass(&mut self, slice: &KeyRange) {
        self.sweep.halvings = 0;
        match &slice.high {
            Some(high) => self.sweep.next.clone_from(high),
            None => self.end_sweep(),
        }
    }

    /// Ends the sweep, because no slice remains.
    fn end_sweep(&mut self) {
        self.sweep.is_over = true;
        if std::mem::take(&mut self.sweep.takes_all) {
            self.wants_all = false;
        }
    }
}

impl SliceSweep {
    /// Halves the maximum size of the following slices, because merging a slice ran out of space.
    pub(super) fn shrink(&mut self) {
        self.halvings += 1;
    }

    /// Returns the maximum size of a slice in bytes when `free_bytes` bytes of space are free.
    fn most_bytes(&self, free_bytes: u64) -> u64 {
        let most = (free_bytes / FREE_PART).saturating_sub(SLACK).min(MOST_BYTES);
        most.checked_shr(self.halvings).unwrap_or(0)
    }
}

impl LevelsDictionary {
    /// Returns whether slices are left to merge, because they may free space or because a user has
    /// requested it.
    pub(super) fn is_sweeping(&self, kept: &LevelsWriterState, version: &LevelsVersion) -> bool {
        let sweep = &kept.sweep;
        let is_scarce = self.shared.is_scarce.load(Ordering::Relaxed);
        let goes_on = sweep.takes_all && kept.wants_all && !sweep.is_over;
        let is_known = sweep.of == version.next_age && sweep.takes_all >= kept.wants_all;
        let is_left = !(sweep.is_over && is_known);
        let may_begin = kept.wants_all || self.shared.options.policy != MergePolicy::Never;
        !version.newest_first.is_empty() && (goes_on || is_scarce && is_left && may_begin)
    }

    /// Starts merging the next slice if one is due and there is enough free space. Returns `None`
    /// otherwise.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) if an index node is damaged; I/O
    /// errors.
    pub(super) fn next_slice(
        &self,
        kept: &mut LevelsWriterState,
        version: &LevelsVersion,
    ) -> Result<Option<MergeStep>> {
        if !kept.jobs.is_empty() || !self.is_sweeping(kept, version) {
            return Ok(None);
        }
        let begins = kept.sweep.is_over || (!kept.sweep.takes_all && kept.wants_all);
        if begins || kept.sweep.of == 0 {
            kept.sweep = SliceSweep {
                of: version.next_age,
                takes_all: kept.wants_all,
                ..SliceSweep::default()
            };
        }
        let guard = self.shared.home.store.epochs().pin();
        let slice = self.choose_slice(kept, version, &guard)?;
        Ok(slice.map(|slice| self.begin_slice(kept, version, slice)))
    }

    /// Chooses the next slice to merge, and skips slices that are not worth merging. Returns `None`
    /// if no slice is left, or if the merge must wait for free space.
    fn choose_slice(
        &self,
        kept: &mut LevelsWriterState,
        version: &LevelsVersion,
        guard: &EpochGuard,
    ) -> Result<Option<KeyRange>> {
        let shared = &self.shared;
        let view = kept.view(version, &shared.options, shared.home.store.tiers());
        let Some(merge) = view.all().filter(|_| !view.has_lost()) else {
            kept.sweep.is_over = true;
            return Ok(None);
        };
        let usage = shared.home.store.extents().usage();
        let tier = self.tier(merge.into, 0);
        let free = usage.tiers.get(usize::from(tier)).copied().unwrap_or_default();
        let most = kept.sweep.most_bytes(free.backed_bytes);
        // If the next checkpoint will free enough space, wait for it.
        let is_coming = free.dead_bytes > 0;
        if is_coming && free.dead_bytes >= free.backed_bytes.min(MOST_BYTES) {
            return Ok(None);
        }
        if most < UNIT {
            kept.sweep.is_over = !is_coming;
            return Ok(None);
        }
        loop {
            let rest = KeyRange::new(&kept.sweep.next, None);
            let amount = self.amount(version, &rest, guard)?;
            if !kept.sweep.is_worth(&amount, true) {
                kept.end_sweep();
                return Ok(None);
            }
            let end = self.end_of_slice(version, &rest, amount.weight.bytes, most, guard)?;
            let slice = KeyRange::new(&rest.low, end.as_deref());
            let amount = self.amount(version, &slice, guard)?;
            if kept.sweep.is_worth(&amount, false) {
                return Ok(Some(slice));
            }
            kept.pass(&slice);
            if kept.sweep.is_over {
                return Ok(None);
            }
        }
    }

    /// Returns the amount of data in a range. Reads only index nodes.
    fn amount(&self, version: &LevelsVersion, range: &KeyRange, guard: &EpochGuard) -> Result<SliceStats> {
        let home = &self.shared.home;
        let horizon = home.horizon.rule(OlderData::None).horizon;
        let mut amount = SliceStats::default();
        for member in version
            .newest_first
            .iter()
            .filter(|member| member.overlaps(range))
        {
            let within = member.range.intersect(range);
            let weight = member
                .run
                .weigh(&within, home.store.cache(), guard, Purpose::Other)?;
            amount.weight = amount.weight + weight;
            amount.runs += 1;
            let summary = member.run.summary();
            if summary.lowest_sequence.max(member.run.base()) <= horizon {
                amount.deletes += weight.tombstones;
                let deletes = member.run.range_deletes();
                let newest = deletes.newest_touching(&within.low, within.high.as_deref());
                amount.has_range_deletes |= newest.is_some();
            }
        }
        Ok(amount)
    }

    /// Returns the end key of the slice that starts where `rest` starts, or `None` if the slice is
    /// all of `rest`. `bytes` is the size of `rest`. The slice has at most `most` bytes, if the
    /// index nodes divide the keys finely enough.
    fn end_of_slice(
        &self,
        version: &LevelsVersion,
        rest: &KeyRange,
        bytes: u64,
        most: u64,
        guard: &EpochGuard,
    ) -> Result<Option<Box<[u8]>>> {
        if bytes <= most {
            return Ok(None);
        }
        let cache = self.shared.home.store.cache();
        let mut wanted = usize::try_from(bytes / most.max(1) + 1).unwrap_or(MOST_PIECES);
        loop {
            wanted = (2 * wanted).min(MOST_PIECES);
            let mut end: Option<Box<[u8]>> = None;
            for member in version.newest_first.iter().filter(|member| member.overlaps(rest)) {
                let within = member.range.intersect(rest);
                let weight = member.run.weigh(&within, cache, guard, Purpose::Other)?;
                let share = u128::from(weight.bytes) * wanted as u128 / u128::from(bytes.max(1));
                let pieces = (share as usize).max(1);
                let pieces = member
                    .run
                    .separators(&within, pieces, cache, guard, Purpose::Other)?;
                let second = pieces.into_iter().nth(1).map(|piece| piece.low);
                if second.is_some() && (end.is_none() || second < end) {
                    end = second;
                }
            }
            let slice = KeyRange::new(&rest.low, end.as_deref());
            let amount = self.amount(version, &slice, guard)?;
            if amount.weight.bytes <= most || wanted >= MOST_PIECES {
                return Ok(end);
            }
        }
    }
}

impl SliceSweep {
    /// Returns whether it is worthwhile to merge a range. If `may_be_little` is true, it is enough
    /// that the merge may free some space.
    fn is_worth(&self, amount: &SliceStats, may_be_little: bool) -> bool {
        let SliceStats { deletes, weight, .. } = *amount;
        let has_deletes = match may_be_little {
            true => deletes > 0,
            false => deletes > 0 && deletes * WORTH_PART >= weight.records,
        };
        has_deletes || amount.has_range_deletes || (self.takes_all && amount.runs > 1)
    }
}

/// Returns the parts of a member that stay live after the slice has been merged.
pub(super) fn left_of(member: &LevelMember, slice: &KeyRange) -> impl Iterator<Item = Arc<LevelMember>> {
    let below = KeyRange::new(&[], Some(&slice.low));
    let behind = slice.high.as_deref().map(|high| KeyRange::new(high, None));
    let parts = [
        member.within(&below),
        behind.and_then(|range| member.within(&range)),
    ];
    parts.into_iter().flatten().map(Arc::new)
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn a_slice_leaves_half_of_the_free_space_and_is_halved_where_that_was_not_enough() {
        let mut sweep = SliceSweep::default();
        let most = |sweep: &SliceSweep, units: u64| sweep.most_bytes(units * UNIT) / UNIT;
        assert_eq!([0, 6, 8, 26].map(|units| most(&sweep, units)), [0, 0, 1, 10]);
        assert_eq!(sweep.most_bytes(u64::MAX), MOST_BYTES);
        sweep.shrink();
        assert_eq!(most(&sweep, 26), 5);
        (0..70).for_each(|_| sweep.shrink());
        assert_eq!(most(&sweep, 1 << 20), 0);
    }

    #[test]
    fn a_sweep_of_everything_ends_behind_its_last_slice_and_is_what_a_user_waits_for() {
        let mut kept = LevelsWriterState {
            wants_all: true,
            ..LevelsWriterState::default()
        };
        (kept.sweep.takes_all, kept.sweep.halvings) = (true, 3);
        kept.pass(&KeyRange::new(b"a", Some(b"k")));
        assert_eq!((&*kept.sweep.next, kept.sweep.halvings), (&b"k"[..], 0));
        assert!(kept.wants_all && !kept.sweep.is_over);
        kept.pass(&KeyRange::new(b"k", None));
        assert!(!kept.wants_all && kept.sweep.is_over);
    }

    #[test]
    fn a_slice_is_merged_where_deletes_are() {
        let amount = |records, deletes| SliceStats {
            weight: RangeWeight {
                records,
                ..RangeWeight::default()
            },
            deletes,
            runs: 2,
            has_range_deletes: false,
        };
        let sweep = SliceSweep::default();
        let is_worth = |amount: &SliceStats| sweep.is_worth(amount, false);
        assert!(is_worth(&amount(160, 10)) && !is_worth(&amount(160, 9)));
        assert!(!is_worth(&amount(0, 0)) && sweep.is_worth(&amount(160, 9), true));
        let ranges = SliceStats {
            has_range_deletes: true,
            ..amount(160, 0)
        };
        assert!(is_worth(&ranges));
        let all = SliceSweep {
            takes_all: true,
            ..SliceSweep::default()
        };
        assert!(all.is_worth(&amount(160, 0), false));
        let one = SliceStats {
            runs: 1,
            ..amount(160, 0)
        };
        assert!(!all.is_worth(&one, false), "one run is one already");
    }
}
