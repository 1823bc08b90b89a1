//! Merges in slices, for a disk that has no space for a merge of whole runs.
//!
//! While space is scarce everything is merged slice by slice, in the order of keys: what all runs
//! have in a slice becomes one run, and they count for the other keys only (V6). A slice is as
//! large as the space that is free allows. What it replaces comes free by a checkpoint, before the
//! next one begins: so that the space suffices in the end, however little there is.
//!
//! Slices are merged where that frees space: where deletes are. Where a user wants all of it to
//! become one run, every slice is. Values that are apart from their leaves lie in extents with
//! others, of any keys. Once deletes are merged, the values are copied that lie between the most
//! dead ones, as many as there is space for: when that has gone through all keys, their extents
//! come free.

use super::Levels;
use super::merge::{MergeStep, Reason};
use super::options::Policy;
use super::state::{Age, Kept, Member, Runs, Version, Written};
use crate::run::{Use, Weight};
use alluvium_base::{MIB, Purpose};
use alluvium_dictionary::merge::Older;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::extents::{Extent, UNIT};
use alluvium_storage::{Guard, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A slice is merged for its deletes where they are at least this part of its records.
const WORTH_PART: u64 = 16;

/// The most bytes of a slice.
const MOST_BYTES: u64 = 64 * MIB;

/// What a slice takes beside its records: the ends of extents, a filter, a footer.
const SLACK: u64 = 3 * UNIT;

/// The quarters of the free space that a slice takes at most: checkpoints go on meanwhile.
const FREE_QUARTERS: u64 = 3;

/// More is written than is expected, by this part at most about.
const MARGIN_PART: u64 = 8;

/// Free space that slices need until they free more than they take. An extent comes free once the
/// last of its keys was merged, and each run has one that is merged in part.
const FREEING: u64 = 8 * MIB;

/// The pieces of the largest run at whose first ones a slice may end.
const MOST_PIECES: usize = 1 << 16;

/// The quarters of an extent that may be live for its values to be copied.
const SPARSE_QUARTERS: u64 = 3;

const _: () = assert!(SPARSE_QUARTERS < 4, "what is copied gives space back");
const _: () = assert!(FREE_QUARTERS < 4 && SLACK < MOST_BYTES, "slices leave space");

/// How far everything has been merged in slices.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// The age of the next run when it began: what came later is for another one.
    of: Age,
    /// Whether every slice is merged, as a user wants.
    takes_all: bool,
    /// The first key that is not done.
    next: Box<[u8]>,
    is_over: bool,
    /// How often in a row a slice was made smaller, because there was less space than it seemed.
    halvings: u32,
    /// Extents, in order, of which slices copy the values; none where they are merged for deletes.
    values: Vec<Extent>,
    /// Whether values may be copied next.
    may_copy: bool,
}

/// What slices may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Budget {
    /// There is too little space.
    Nothing,
    /// There is some after a checkpoint.
    Later,
    Bytes(u64),
}

/// What there is in a range of keys.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    weight: Weight,
    /// Bytes of what a merge reads: values that are apart stay where they are.
    read: u64,
    /// Whether any has values that are copied.
    has_values: bool,
    /// Deletes that no reader needs any more.
    deletes: u64,
    /// How many runs have anything there, and whether one of them has deleted a range.
    runs: usize,
    has_range_deletes: bool,
}

impl Amount {
    /// Returns how many bytes a merge writes, about: with each delete that goes, what it deletes
    /// goes, too.
    fn written(&self) -> u64 {
        let records = self.weight.records.max(1);
        let left = records.saturating_sub(2 * self.deletes);
        let share = u128::from(self.read) * u128::from(left) / u128::from(records);
        share as u64 + self.read / MARGIN_PART
    }
}

impl Kept {
    /// Goes on behind a slice that was merged, or is not worth it.
    pub(super) fn pass(&mut self, slice: &KeyRange) {
        self.sweep.halvings = 0;
        match &slice.high {
            Some(high) => self.sweep.next.clone_from(high),
            None => self.end_sweep(),
        }
    }

    /// Nothing is left to merge in slices.
    fn end_sweep(&mut self) {
        self.sweep.is_over = true;
        self.sweep.may_copy = true;
        if std::mem::take(&mut self.sweep.takes_all) {
            self.wants_all = false;
        }
    }
}

impl Sweep {
    /// Makes the next slices smaller: one found no space.
    pub(super) fn shrink(&mut self) {
        self.halvings += 1;
    }

    /// Returns the most bytes of a slice where `free` bytes are free.
    fn most_bytes(&self, free_bytes: u64) -> u64 {
        let most = free_bytes / 4 * FREE_QUARTERS;
        let most = most.saturating_sub(SLACK).min(MOST_BYTES);
        most.checked_shr(self.halvings).unwrap_or(0)
    }
}

impl Levels {
    /// Returns how many bytes of free space slices need that free more.
    #[must_use]
    pub fn freeing_bytes(&self) -> u64 {
        FREEING
    }

    /// Returns whether slices are left that may free space, or that a user waits for.
    pub(super) fn is_sweeping(&self, kept: &Kept, version: &Version) -> bool {
        let sweep = &kept.sweep;
        let is_scarce = self.shared.is_scarce.load(Ordering::Relaxed);
        let goes_on = sweep.takes_all && kept.wants_all && !sweep.is_over;
        let is_known = sweep.of == version.next_age && sweep.takes_all >= kept.wants_all;
        let is_left = !(sweep.is_over && is_known) || sweep.may_copy;
        let may_begin = kept.wants_all || self.shared.options.policy != Policy::Never;
        !version.newest_first.is_empty() && (goes_on || is_scarce && is_left && may_begin)
    }

    /// Begins to merge the next slice, if one is due and there is space for it.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) when an index node is damaged; as the
    /// device says.
    pub(super) fn next_slice(&self, kept: &mut Kept, version: &Version) -> Result<Option<MergeStep>> {
        if !kept.jobs.is_empty() || !self.is_sweeping(kept, version) {
            return Ok(None);
        }
        let sweep = &kept.sweep;
        let is_new = sweep.of == 0 || (sweep.is_over && sweep.of < version.next_age);
        if is_new || (!sweep.takes_all && kept.wants_all) {
            kept.sweep = Sweep {
                of: version.next_age,
                takes_all: kept.wants_all,
                ..Sweep::default()
            };
        } else if sweep.is_over && !self.begin_copying(kept, version) {
            return Ok(None);
        }
        let guard = self.shared.home.store.epochs().pin();
        let slice = self.choose_slice(kept, version, &guard)?;
        Ok(slice.map(|slice| self.begin_slice(kept, version, slice)))
    }

    /// Begins to merge a slice.
    fn begin_slice(&self, kept: &mut Kept, version: &Version, slice: KeyRange) -> MergeStep {
        let view = kept.view(version, &self.shared.options, self.shared.home.store.tiers());
        let merge = view.all().expect("nothing else is under way");
        let runs = version.newest_first.iter();
        let inputs = runs.filter(|member| !member.range.intersect(&slice).is_empty());
        let inputs = inputs.cloned().collect();
        let mut step = self.begun(kept, version, merge, inputs, Reason::Slice);
        // All that may be older is in it.
        (step.slice, step.older) = (Some(slice), Older::None);
        step.values.clone_from(&kept.sweep.values);
        step
    }

    /// Chooses the values that the next slices copy. Returns whether there are any.
    fn begin_copying(&self, kept: &mut Kept, version: &Version) -> bool {
        let most = match self.budget(kept) {
            Budget::Later => return false,
            Budget::Nothing => 0,
            Budget::Bytes(most) => most / 2,
        };
        let live = version.live_bytes();
        // What was to come free and did not is not tried again.
        let has_failed = kept.sweep.values.iter().any(|extent| live.contains_key(extent));
        let uses = version.newest_first.iter().flat_map(|member| member.uses());
        let shared = uses.filter(|used| used.inherited).map(|used| used.extent);
        let mut sparse: Vec<(u64, Extent)> = Vec::new();
        for extent in shared.collect::<BTreeSet<Extent>>() {
            let bytes = live.get(&extent).copied().unwrap_or(0);
            if 4 * bytes <= SPARSE_QUARTERS * extent.bytes() {
                sparse.push((bytes, extent));
            }
        }
        sparse.sort_unstable();
        let mut total = 0;
        let mut values: Vec<Extent> = Vec::new();
        for (bytes, extent) in sparse {
            total += bytes;
            if total > most || has_failed {
                break;
            }
            values.push(extent);
        }
        values.sort_unstable();
        let is_some = !values.is_empty();
        kept.sweep = Sweep {
            of: kept.sweep.of,
            is_over: !is_some,
            values,
            ..Sweep::default()
        };
        is_some
    }

    /// Returns how many bytes the next slice may write.
    fn budget(&self, kept: &Kept) -> Budget {
        let usage = self.shared.home.store.extents().usage();
        let last = self.version().levels.len().saturating_sub(1);
        let tier = usize::from(self.tier(last, 0));
        let free = usage.tiers.get(tier).copied().unwrap_or_default();
        // What comes free by a checkpoint is waited for.
        if free.dead_bytes > 0 && free.dead_bytes >= free.backed_bytes.min(MOST_BYTES) {
            return Budget::Later;
        }
        match kept.sweep.most_bytes(free.backed_bytes) {
            most if most >= UNIT => Budget::Bytes(most),
            _ if free.dead_bytes > 0 => Budget::Later,
            _ => Budget::Nothing,
        }
    }

    /// Chooses the next slice. Passes by those that are not worth a merge; none where it must wait
    /// for space.
    fn choose_slice(&self, kept: &mut Kept, version: &Version, guard: &Guard) -> Result<Option<KeyRange>> {
        let view = kept.view(version, &self.shared.options, self.shared.home.store.tiers());
        let can_merge = view.all().is_some() && !view.has_lost();
        let most = match self.budget(kept) {
            Budget::Bytes(most) if can_merge => most,
            Budget::Later if can_merge => return Ok(None),
            _ => {
                kept.sweep.is_over = true;
                return Ok(None);
            }
        };
        // The rest is for the values.
        let most = if kept.sweep.values.is_empty() {
            most
        } else {
            most / 2
        };
        loop {
            let rest = KeyRange::new(&kept.sweep.next, None);
            let amount = self.amount(kept, version, &rest, guard)?;
            if !kept.sweep.is_worth(&amount, true) {
                kept.end_sweep();
                return Ok(None);
            }
            let end = self.end_of_slice((kept, version), &rest, &amount, most, guard)?;
            let slice = KeyRange::new(&rest.low, end.as_deref());
            let amount = self.amount(kept, version, &slice, guard)?;
            if kept.sweep.is_worth(&amount, false) {
                return Ok(Some(slice));
            }
            kept.pass(&slice);
            if kept.sweep.is_over {
                return Ok(None);
            }
        }
    }

    /// Returns what there is in a range, from index nodes alone.
    fn amount(&self, kept: &Kept, version: &Version, range: &KeyRange, guard: &Guard) -> Result<Amount> {
        let home = &self.shared.home;
        let horizon = home.horizon.rule(Older::None).horizon;
        let mut amount = Amount::default();
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
            amount.read += self.read_of(member, &weight);
            amount.runs += 1;
            let is_copied = |used: &Use| kept.sweep.values.binary_search(&used.extent).is_ok();
            amount.has_values |= member.run.extents_for(&within).any(|(_, used)| is_copied(used));
            let summary = member.run.summary();
            if summary.lowest_sequence.max(member.run.base()) <= horizon {
                amount.deletes += weight.tombstones;
                amount.has_range_deletes |= member.run.range_deletes().touching(&within) > 0;
            }
        }
        Ok(amount)
    }

    /// Returns how many bytes a merge reads of what a run has in a range, about.
    fn read_of(&self, member: &Member, weight: &Weight) -> u64 {
        let summary = member.run.summary();
        if summary.separate == 0 || self.shared.options.stitching.moves_values {
            return weight.bytes;
        }
        // Leaves of records whose values are apart have a page, or two.
        let leaf_bytes = 2 * self.shared.home.store.page_size().bytes() as u64;
        let share = u128::from(summary.leaves * leaf_bytes) * u128::from(weight.records);
        let share = (share / u128::from(summary.records.max(1))) as u64;
        weight.bytes.min(share + leaf_bytes)
    }

    /// Returns where the slice ends that begins with a range which has so much; none where it takes
    /// all of it.
    fn end_of_slice(
        &self,
        (kept, version): (&Kept, &Version),
        rest: &KeyRange,
        all: &Amount,
        most: u64,
        guard: &Guard,
    ) -> Result<Option<Box<[u8]>>> {
        if all.written() <= most {
            return Ok(None);
        }
        let cache = self.shared.home.store.cache();
        let mut wanted = usize::try_from(all.written() / most.max(1) + 1).unwrap_or(MOST_PIECES);
        loop {
            wanted = (2 * wanted).min(MOST_PIECES);
            let mut end: Option<Box<[u8]>> = None;
            for member in version.newest_first.iter().filter(|member| member.overlaps(rest)) {
                let within = member.range.intersect(rest);
                let weight = member.run.weigh(&within, cache, guard, Purpose::Other)?;
                let read = self.read_of(member, &weight);
                let share = u128::from(read) * wanted as u128 / u128::from(all.read.max(1));
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
            let amount = self.amount(kept, version, &slice, guard)?;
            if amount.written() <= most || wanted >= MOST_PIECES {
                return Ok(end);
            }
        }
    }
}

impl Sweep {
    /// Returns whether a merge of what is in a range may free anything, or frees enough.
    fn is_worth(&self, amount: &Amount, may_be_little: bool) -> bool {
        if !self.values.is_empty() {
            return amount.has_values;
        }
        let Amount { deletes, weight, .. } = *amount;
        let has_deletes = match may_be_little {
            true => deletes > 0,
            false => deletes > 0 && deletes * WORTH_PART >= weight.records,
        };
        has_deletes || amount.has_range_deletes || (self.takes_all && amount.runs > 1)
    }
}

impl MergeStep {
    /// Puts the result in the place of a slice of the inputs. It stands beside what is left of the
    /// oldest of them.
    pub(super) fn install_slice(&mut self, slice: &KeyRange, result: Option<Written>) {
        let levels = self.levels.clone();
        let store = &levels.shared.home.store;
        let mut kept = levels.shared.kept.lock();
        let version = levels.version();
        let oldest = self.inputs.last().expect("a merge takes runs");
        let is_input = |member: &Arc<Member>| self.inputs.iter().any(|input| Arc::ptr_eq(input, member));
        let has_oldest = |level: &Vec<Arc<Member>>| level.iter().any(|member| Arc::ptr_eq(member, oldest));
        let place = version.levels.iter().position(has_oldest);
        let place = place.expect("busy runs stay where they are (V4)");
        let mut runs = Runs::new();
        let mut left: Vec<Arc<Member>> = Vec::new();
        for level in &version.levels {
            let mut after = Vec::new();
            for member in level {
                if is_input(member) {
                    let parts: Vec<_> = left_of(member, slice).collect();
                    left.extend(parts.iter().cloned());
                    after.extend(parts);
                } else {
                    after.push(Arc::clone(member));
                }
            }
            runs.push(after);
        }
        if let Some(written) = result {
            let whole = written.install(store, oldest.ages);
            self.note(whole.run.summary().bytes);
            let level = &mut runs[place];
            level.push(Arc::new(Member {
                range: slice.clone(),
                ..whole
            }));
            level.sort_by(|one, other| (one.ages.0, &one.range.low).cmp(&(other.ages.0, &other.range.low)));
        }
        let before = self.inputs.iter().flat_map(|member| member.extents());
        let after = left.iter().flat_map(|member| member.extents());
        let mut references: BTreeMap<Extent, i64> = BTreeMap::new();
        before.for_each(|extent| *references.entry(extent).or_default() -= 1);
        after.for_each(|extent| *references.entry(extent).or_default() += 1);
        for (&extent, &more) in &references {
            (0..more).for_each(|_| store.extents().retain(extent));
        }
        levels.show(runs, version.cut, version.next_age);
        let epoch = store.epochs().current();
        for (&extent, &more) in &references {
            (more..0).for_each(|_| {
                store.extents().release(extent, epoch);
            });
        }
        kept.is_cramped = false;
        kept.pass(slice);
        self.end(&mut kept);
    }
}

/// Returns the parts that are left of runs of which a slice is merged.
fn left_of(member: &Member, slice: &KeyRange) -> impl Iterator<Item = Arc<Member>> {
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
    fn a_slice_leaves_some_of_the_free_space_and_is_halved_where_that_was_not_enough() {
        let mut sweep = Sweep::default();
        let most = |sweep: &Sweep, units: u64| sweep.most_bytes(units * UNIT) / UNIT;
        assert_eq!([0, 4, 8, 20].map(|units| most(&sweep, units)), [0, 0, 3, 12]);
        assert_eq!(sweep.most_bytes(u64::MAX), MOST_BYTES);
        sweep.shrink();
        assert_eq!(most(&sweep, 20), 6);
        (0..70).for_each(|_| sweep.shrink());
        assert_eq!(most(&sweep, 1 << 20), 0);
    }

    #[test]
    fn a_sweep_of_everything_ends_behind_its_last_slice_and_is_what_a_user_waits_for() {
        let mut kept = Kept {
            wants_all: true,
            ..Kept::default()
        };
        (kept.sweep.takes_all, kept.sweep.halvings) = (true, 3);
        kept.pass(&KeyRange::new(b"a", Some(b"k")));
        assert_eq!((&*kept.sweep.next, kept.sweep.halvings), (&b"k"[..], 0));
        assert!(kept.wants_all && !kept.sweep.is_over);
        kept.pass(&KeyRange::new(b"k", None));
        assert!(!kept.wants_all && kept.sweep.is_over);
    }

    #[test]
    fn what_is_deleted_is_not_written() {
        let amount = |records, deletes| Amount {
            weight: Weight {
                records,
                ..Weight::default()
            },
            read: 8000,
            deletes,
            ..Amount::default()
        };
        let written = [(100, 0), (100, 25), (100, 50), (100, 80), (0, 0)];
        let written = written.map(|(records, deletes)| amount(records, deletes).written());
        assert_eq!(written, [9000, 5000, 1000, 1000, 9000]);
    }

    #[test]
    fn a_slice_is_merged_where_deletes_are() {
        let amount = |records, deletes| Amount {
            weight: Weight {
                records,
                ..Weight::default()
            },
            deletes,
            runs: 2,
            ..Amount::default()
        };
        let sweep = Sweep::default();
        let is_worth = |amount: &Amount| sweep.is_worth(amount, false);
        assert!(is_worth(&amount(160, 10)) && !is_worth(&amount(160, 9)));
        assert!(!is_worth(&amount(0, 0)) && sweep.is_worth(&amount(160, 9), true));
        let ranges = Amount {
            has_range_deletes: true,
            ..amount(160, 0)
        };
        assert!(is_worth(&ranges));
        let all = Sweep {
            takes_all: true,
            ..Sweep::default()
        };
        assert!(all.is_worth(&amount(160, 0), false));
        let one = Amount {
            runs: 1,
            ..amount(160, 0)
        };
        assert!(!all.is_worth(&one, false), "one run is one already");
        let copying = Sweep {
            values: vec![Extent {
                tier: 0,
                start: 8,
                units: 1,
            }],
            ..Sweep::default()
        };
        let has_values = Amount {
            has_values: true,
            ..one
        };
        assert!(!copying.is_worth(&amount(160, 160), false) && copying.is_worth(&has_values, false));
    }
}
