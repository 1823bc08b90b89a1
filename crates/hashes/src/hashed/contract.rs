//! Implements the traits of `alluvium_dictionary::contract` for hashed structures.

use super::incorporate::HashStoreFlush;
use super::policy;
use super::run::{HashRun, HashRunCursor, read_keys};
use super::structure::HashedStructure;
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::check_report::{CheckLevel, CheckProgress, StructureCheckReport};
use alluvium_dictionary::checkpoint_root::CheckpointRoot;
use alluvium_dictionary::contract::{self, Dictionary, DistinctKeys, PendingWork};
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::Result;
use alluvium_storage::extents::AllocationClass;
use std::collections::HashSet;
use std::sync::atomic::Ordering;

/// Number of leaves to read when estimating the fraction of a run that belongs to a key range.
/// Leaves are in hash order, so the keys of any leaf are a random sample of the run's keys.
const SAMPLED: u64 = 16;

impl HashedStructure {
    /// Sums `of` over all runs, each weighted by the estimated fraction of its keys that are in
    /// `range`.
    fn weigh(&self, range: &KeyRange, of: impl Fn(&HashRun) -> u64) -> Result<u64> {
        let store = &self.shared.home.store;
        let _guard = store.epochs().pin();
        let version = self.version();
        let mut sum = 0;
        for run in version.runs().filter(|run| run.leaves() > 0) {
            let (mut all, mut within) = (0u64, 0u64);
            let step = run.leaves().div_ceil(SAMPLED);
            if range.low.is_empty() && range.high.is_none() {
                sum += of(run);
                continue;
            }
            for leaf in (0..run.leaves()).step_by(step as usize) {
                read_keys(store, run, leaf, &mut |key| {
                    all += 1;
                    within += u64::from(range.contains(key));
                })?;
            }
            let share = u128::from(of(run)) * u128::from(within) / u128::from(all.max(1));
            sum += share as u64;
        }
        Ok(sum)
    }
}

/// Approximate number of records to read when estimating the number of distinct keys. If there are
/// fewer, all of them are read.
const SAMPLE: u64 = 20_000;

impl HashedStructure {
    /// Estimates the number of distinct keys by reading the same fraction of every part, starting
    /// at the part's first hash, and extrapolating.
    fn sample(&self) -> Result<DistinctKeys> {
        let store = &self.shared.home.store;
        let _guard = store.epochs().pin();
        let (version, options) = (self.version(), &self.shared.options);
        let all: u64 = version.runs().map(HashRun::records).sum();
        let slices = (all / SAMPLE).max(1);
        let (mut found, mut records) = (HashSet::new(), 0u64);
        for part in 0..options.parts() {
            let (first, last) = options.hashes_of(part);
            let hashes = (first, first + (last - first) / slices);
            for run in version.runs_of(first, options).filter(|run| run.leaves() > 0) {
                let mut cursor = HashRunCursor::open(store, run.clone(), hashes, Purpose::Other)?;
                while let Some(hash) = cursor.hash() {
                    found.insert(hash);
                    records += 1;
                    cursor.skip()?;
                }
            }
        }
        Ok(DistinctKeys {
            keys: (found.len() as u64 * slices) as f64,
            records: (records * slices) as f64,
        })
    }
}

impl Dictionary for HashedStructure {
    fn cut(&self) -> SequenceNumber {
        self.shared.versions.cut()
    }

    fn advance(&self, cut: SequenceNumber) -> Result<()> {
        self.raise_cut(cut);
        Ok(())
    }

    fn incorporate(
        &self,
        share: MemtableSlice,
        class: AllocationClass,
    ) -> Result<Box<dyn contract::MemtableIncorporation>> {
        Ok(Box::new(HashStoreFlush::new(self, share, class)?))
    }

    fn ingest(&self, class: AllocationClass) -> Result<Box<dyn contract::BulkIngest>> {
        Ok(Box::new(self.begin_ingest(class)?))
    }

    fn next_step(&self) -> Result<Option<Box<dyn contract::MaintenanceStep>>> {
        let step = self.next_merge();
        Ok(step.map(|step| Box::new(step) as Box<dyn contract::MaintenanceStep>))
    }

    fn compact_part(&self, _key: &[u8]) -> Result<()> {
        self.request_full_rewrite();
        Ok(())
    }

    fn set_space_class(&self, class: AllocationClass) {
        let is_scarce = class != AllocationClass::Normal;
        self.shared.is_scarce.store(is_scarce, Ordering::Relaxed);
    }

    fn has_pending_work(&self) -> bool {
        self.may_merge()
    }

    /// Returns the number of hash stores beyond `most_young`, or 0 if there are none.
    fn overdue_steps(&self) -> usize {
        let most = self.shared.options.most_young as usize;
        self.hash_store_count().saturating_sub(most)
    }

    fn read_amplification_percent(&self) -> u64 {
        let options = &self.shared.options;
        policy::backlog_percent(&self.version().view(options, &[]), options)
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
        PendingWork {
            memory_bytes: self.stats().memory_bytes,
            steps: self.steps(),
        }
    }

    fn approximate_len(&self, range: &KeyRange) -> Result<u64> {
        self.weigh(range, |run| run.records().saturating_sub(run.tombstones()))
    }

    fn distinct_keys(&self) -> Result<DistinctKeys> {
        self.sample()
    }

    fn size_on_disk(&self, range: &KeyRange) -> Result<u64> {
        self.weigh(range, HashRun::device_bytes)
    }
}
