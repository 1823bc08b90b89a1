//! Builds the root filter once lookups have probed the maplets of the root's bundles often enough.

use crate::maplet::MapletEntryIter;
use crate::tiered::trunk::{MapletGroup, RootFilter, RootFilterCoverage, Trunk, deletes_ranges, waiting};
use alluvium_base::Purpose;
use alluvium_dictionary::contract::StepProgress;
use alluvium_storage::{EpochHold, Result};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Minimum number of groups in the root for which a filter is built. With fewer groups, it saves
/// little.
/// Tuning: `4` since 2026-11-22.
const LEAST_GROUPS: usize = 4;
/// The filter is built once lookups without it have probed at least
/// `entries / ENTRIES_PER_QUESTION` maplets, where `entries` is the number of entries to add.
/// Probing a maplet costs three to four times as much as adding an entry.
/// Tuning: `4` since 2026-11-22; probing a maplet costs three to four times as much as adding an
/// entry.
const ENTRIES_PER_QUESTION: u64 = 4;
/// The maximum size of a root filter is the size of a memtable divided by this. With very small
/// records, a filter would cost more memory than it is worth.
/// Tuning: `2` since 2026-11-22.
const MEMTABLE_PART: u64 = 2;

/// A root filter that is being built. Dropping it before it is done changes nothing.
#[derive(Debug)]
pub struct RootFilterBuilder {
    trunk: Arc<Trunk>,
    /// Keeps the space of the maplets' extents from being reused.
    _hold: EpochHold,
    groups: VecDeque<Arc<MapletGroup>>,
    covered: HashSet<u64>,
    digest: Arc<RootFilter>,
    reading: Option<MapletEntryIter>,
}

impl RootFilterBuilder {
    /// Starts to build a root filter if it is worth its cost, and returns `None` otherwise. It is
    /// worth its cost once lookups have probed enough maplets of the root's bundles.
    #[must_use]
    pub(crate) fn due(trunk: &Arc<Trunk>) -> Option<RootFilterBuilder> {
        let questions = trunk.usage.questions();
        if questions == 0 {
            return None;
        }
        let version = trunk.peek();
        let (mut groups, mut entries) = (0, 0);
        for group in waiting(&version.root) {
            groups += 1;
            entries += group.maplet.entries();
        }
        if groups < LEAST_GROUPS || questions * ENTRIES_PER_QUESTION < entries {
            return None;
        }
        trunk.usage.answer_questions();
        RootFilterBuilder::begin(trunk)
    }

    /// Starts to build a root filter regardless of its cost. Returns `None` if one already exists
    /// or none can be built.
    #[must_use]
    pub(crate) fn begin(trunk: &Arc<Trunk>) -> Option<RootFilterBuilder> {
        let hold = trunk.store.epochs().hold();
        let version = trunk.version();
        let groups: VecDeque<Arc<MapletGroup>> = waiting(&version.root).cloned().collect();
        let entries: u64 = groups.iter().map(|group| group.maplet.entries()).sum();
        let bits = trunk.options.fingerprint_bits;
        let room = RootFilter::capacity_for(entries);
        let is_large = RootFilter::bytes_for(room) > trunk.options.shape.memtable / MEMTABLE_PART;
        if version.digest.is_some() || is_large || groups.iter().any(|group| deletes_ranges(group)) {
            return None;
        }
        let digest = RootFilter::new(bits, room);
        trunk
            .totals
            .digesting
            .fetch_add(digest.bytes(), Ordering::Relaxed);
        Some(RootFilterBuilder {
            trunk: Arc::clone(trunk),
            _hold: hold,
            covered: groups.iter().map(|group| group.id).collect(),
            groups,
            digest: Arc::new(digest),
            reading: None,
        })
    }

    /// Runs one slice of the work, which adds about `entries` entries to the filter.
    ///
    /// # Errors
    /// I/O errors, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt). An error leaves the
    /// tree unchanged.
    pub fn poll(&mut self, entries: usize) -> Result<StepProgress> {
        let tiers = self.trunk.store.tiers();
        let bits = self.digest.fingerprint_bits();
        let mut left = entries;
        while left > 0 {
            if self.reading.is_none() {
                let Some(group) = self.groups.pop_front() else {
                    return Ok(self.install());
                };
                self.reading = Some(group.maplet.read_entries(tiers, Purpose::Compact)?);
            }
            let reading = self.reading.as_mut().expect("it was just begun");
            match reading.next_page()? {
                Some(page) => {
                    left = left.saturating_sub(page.len().max(1));
                    if !self
                        .digest
                        .add(page.iter().map(|entry| entry.fingerprint().number(bits)))
                    {
                        // More entries arrived during the build than the filter has capacity for,
                        // so discard it.
                        return Ok(StepProgress::Done);
                    }
                }
                None => self.reading = None,
            }
        }
        Ok(StepProgress::More)
    }

    /// Attaches the root filter to the current version if it covers all bundles of the root.
    /// Otherwise adds the new bundles to the remaining work.
    fn install(&mut self) -> StepProgress {
        let mut writer = self.trunk.lock();
        let version = self.trunk.version();
        for group in waiting(&version.root) {
            if deletes_ranges(group) {
                return StepProgress::Done;
            }
            if self.covered.insert(group.id) {
                self.groups.push_back(Arc::clone(group));
            }
        }
        if !self.groups.is_empty() {
            return StepProgress::More;
        }
        let covered = std::mem::take(&mut self.covered);
        writer.digest = Some(RootFilterCoverage::new(Arc::clone(&self.digest), covered));
        writer.publish_digest(&version);
        StepProgress::Done
    }
}

impl Drop for RootFilterBuilder {
    fn drop(&mut self) {
        let bytes = self.digest.bytes();
        self.trunk.totals.digesting.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::search::{LookupPath, TreeSearch};
    use super::*;
    use crate::tiered::trunk::AbsentKeys;
    use crate::tiered::{TieredTree, TreeOptions};
    use alluvium_base::Message;
    use alluvium_base::message::MAX_SEQUENCE;
    use alluvium_device::memory::MemoryDirectory;
    use alluvium_dictionary::key::LookupKey;
    use alluvium_dictionary::memtable::Memtable;
    use alluvium_storage::extents::AllocationClass;
    use alluvium_storage::store::{Store, StoreOptions};

    /// Writes the keys `from..from + 200` to a memtable and flushes it. The sequence number of each
    /// put is its key plus one.
    fn write(tree: &TieredTree, from: u64, deletes_range: bool) {
        let memtable = Memtable::new(1 << 20);
        for number in from..from + 200 {
            let message = Message::put(number + 1, b"here");
            memtable.insert(&number.to_be_bytes(), message).unwrap();
        }
        let cut = from + 200;
        if deletes_range {
            memtable.delete_range(&[0xf0], &[0xff], cut).unwrap();
        }
        let mut writing = tree
            .incorporate(Arc::new(memtable), cut, AllocationClass::Normal)
            .unwrap();
        while writing.poll(50).unwrap() == StepProgress::More {}
    }

    fn make(mut digesting: RootFilterBuilder) {
        while digesting.poll(30).unwrap() == StepProgress::More {}
    }

    fn has_digest(tree: &TieredTree) -> bool {
        tree.version().digest.is_some()
    }

    #[test]
    fn what_is_incorporated_later_is_covered_until_there_is_no_room() {
        let directory = Arc::new(MemoryDirectory::new());
        let store = Arc::new(Store::create(directory, &StoreOptions::default(), b"").unwrap());
        let tree = TieredTree::create(store, TreeOptions::default());
        (0..5).for_each(|memtable| write(&tree, memtable * 200, false));
        assert!(tree.digest_due().is_none() && tree.memory().digest == 0);
        let mut search = TreeSearch::default();
        let mut asked = |key: u64| {
            search.restart();
            let (version, absent) = (tree.version(), AbsentKeys::default());
            LookupPath::of(&version, LookupKey::new(&key.to_be_bytes()), &mut search, &absent).len()
        };
        assert_eq!(asked(1 << 40), 5, "no lookup has told");
        // Build two root filters concurrently, and flush a memtable in the meantime.
        let digesting = [tree.digest().unwrap(), tree.digest().unwrap()];
        write(&tree, 1000, false);
        digesting.into_iter().for_each(make);
        assert!(has_digest(&tree) && tree.memory().digest > 0 && tree.digest().is_none());
        write(&tree, 1200, false);
        let strangers = (1 << 40..).take(1000);
        let passed = strangers.map(&mut asked).filter(|&maplets| maplets > 0).count();
        assert!(has_digest(&tree) && passed < 50, "{passed} of 1,000 pass");
        for key in 0..1400u64 {
            let found = tree.get(&key.to_be_bytes(), MAX_SEQUENCE, 0).unwrap();
            assert_eq!(found.as_deref(), Some(&b"here"[..]), "{key}");
        }
        // The filter has twice the capacity of the keys it was built with.
        (7..12).for_each(|memtable| write(&tree, memtable * 200, false));
        assert!(!has_digest(&tree) && tree.memory().digest == 0);
        for key in 1 << 40..(1 << 40) + 2000u64 {
            assert_eq!(tree.get(&key.to_be_bytes(), MAX_SEQUENCE, 0).unwrap(), None);
        }
        make(tree.digest_due().expect("lookups have paid for it"));
        assert!(has_digest(&tree));
        write(&tree, 2400, true);
        assert!(!has_digest(&tree) && tree.digest().is_none(), "D2");
    }
}
