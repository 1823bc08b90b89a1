//! Implements the store's interface for dictionaries, `alluvium_dictionary::contract`, on levels.

use super::LevelsDictionary;
use super::incorporate::LevelsIncorporation;
use super::policy;
use super::scan::LevelsIter;
use super::state::{LevelMember, groups};
use crate::maplet::{Maplet, different_keys};
use crate::run::RangeWeight;
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::check_report::{CheckLevel, CheckProgress, StructureCheckReport};
use alluvium_dictionary::checkpoint_root::CheckpointRoot;
use alluvium_dictionary::contract::{self, Dictionary, DistinctKeys, OrderedDictionary, PendingWork};
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_dictionary::memtables::MemtableOwner;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::Result;
use alluvium_storage::extents::AllocationClass;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl LevelsDictionary {
    /// Calls `tell` with each run and the number of records and bytes that it has in `range`. Reads
    /// only index nodes.
    fn weigh(&self, range: &KeyRange, tell: &mut dyn FnMut(&LevelMember, RangeWeight)) -> Result<()> {
        let store = &self.shared.home.store;
        let guard = store.epochs().pin();
        let version = self.shared.versions.peek();
        for member in &version.newest_first {
            let range = member.range.intersect(range);
            let weight = member.run.weigh(&range, store.cache(), &guard, Purpose::Other)?;
            debug_assert!(weight.tombstones <= weight.records, "deletes are records");
            tell(member, weight);
        }
        Ok(())
    }
}

impl Dictionary for LevelsDictionary {
    fn cut(&self) -> SequenceNumber {
        self.shared.versions.cut()
    }

    fn advance(&self, cut: SequenceNumber) -> Result<()> {
        self.raise(cut);
        Ok(())
    }

    fn incorporate(
        &self,
        share: MemtableSlice,
        class: AllocationClass,
    ) -> Result<Box<dyn contract::MemtableIncorporation>> {
        Ok(Box::new(LevelsIncorporation::new(self, share, class)?))
    }

    fn ingest(&self, class: AllocationClass) -> Result<Box<dyn contract::BulkIngest>> {
        Ok(Box::new(self.begin_ingest(class)?))
    }

    fn next_step(&self) -> Result<Option<Box<dyn contract::MaintenanceStep>>> {
        let step = self.poison_on_error(self.next_merge())?;
        Ok(step.map(|step| Box::new(step) as Box<dyn contract::MaintenanceStep>))
    }

    fn compact_part(&self, _key: &[u8]) -> Result<()> {
        self.shared.kept.lock().wants_all = true;
        Ok(())
    }

    fn set_space_class(&self, class: AllocationClass) {
        let is_scarce = class != AllocationClass::Normal;
        self.shared.is_scarce.store(is_scarce, Ordering::Relaxed);
    }

    fn has_pending_work(&self) -> bool {
        self.may_merge()
    }

    /// Returns a percentage. Writers are throttled if it is 100 or more.
    fn read_amplification_percent(&self) -> u64 {
        let version = self.shared.versions.peek();
        let runs = version.levels.first().map_or(0, |level| groups(level).count());
        policy::crowding(&self.shared.options.policy, runs)
    }

    fn checkpoint_root(&self) -> Result<CheckpointRoot<'_>> {
        self.write_checkpoint_root()
    }

    fn check(
        &self,
        depth: CheckLevel,
        steps: &[&dyn contract::MaintenanceStep],
        durable: Option<&[u8]>,
        tell: &mut dyn FnMut(CheckProgress) -> Result<()>,
    ) -> Result<StructureCheckReport> {
        let jobs: Vec<u64> = steps.iter().filter_map(|step| step.number()).collect();
        self.examine_all(depth, &jobs, durable, tell)
    }

    fn pending_work(&self) -> PendingWork {
        let (version, shared) = (self.version(), &self.shared);
        let of_runs: u64 = version
            .newest_first
            .iter()
            .map(|member| member.memory_bytes())
            .sum();
        let of_merges = shared.merging_bytes.load(Ordering::Relaxed);
        PendingWork {
            memory_bytes: of_runs + of_merges + shared.held.bytes(),
            steps: self.steps(),
        }
    }

    fn approximate_len(&self, range: &KeyRange) -> Result<u64> {
        let mut sum = RangeWeight::default();
        self.weigh(range, &mut |_, weight| sum = sum + weight)?;
        Ok(sum.records.saturating_sub(sum.tombstones))
    }

    fn distinct_keys(&self) -> Result<DistinctKeys> {
        let store = &self.shared.home.store;
        let _guard = store.epochs().pin();
        let version = self.shared.versions.peek();
        let mut maplets: Vec<Maplet> = Vec::new();
        for member in &version.newest_first {
            // All parts of a run share one filter, so add it only once.
            if maplets
                .iter()
                .all(|maplet| maplet.pointer() != member.maplet.pointer())
            {
                maplets.push(member.maplet.clone());
            }
        }
        let records: u64 = maplets.iter().map(Maplet::entries).sum();
        Ok(DistinctKeys {
            keys: different_keys(&maplets, store.tiers())?,
            records: records as f64,
        })
    }

    fn size_on_disk(&self, range: &KeyRange) -> Result<u64> {
        let mut bytes = 0;
        self.weigh(range, &mut |member, weight| {
            let share = u128::from(member.maplet.bytes()) * u128::from(weight.records);
            let share = (share / u128::from(member.maplet.entries().max(1))) as u64;
            bytes += weight.bytes + share.min(member.maplet.bytes());
        })?;
        Ok(bytes)
    }
}

impl OrderedDictionary for LevelsDictionary {
    type Scan = LevelsIter;

    fn scan(
        &self,
        memtables: Arc<dyn MemtableOwner>,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
        now_ms: u64,
    ) -> LevelsIter {
        LevelsIter::new(self, memtables, range, direction, at, now_ms)
    }
}
