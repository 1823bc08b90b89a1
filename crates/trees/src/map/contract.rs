//! Implements the store's interface for dictionaries, `alluvium_dictionary::contract`, on maps.

use super::OrderedMap;
use super::incorporate::{MapIncorporation, MapRewrite};
use super::ingest::MemoryIngest;
use super::scan::MapIter;
use alluvium_base::{MessageKind, SequenceNumber};
use alluvium_dictionary::check_report::{CheckLevel, CheckProgress, StructureCheckReport};
use alluvium_dictionary::checkpoint_root::CheckpointRoot;
use alluvium_dictionary::contract::{self, Dictionary, OrderedDictionary, PendingWork, StepProgress};
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_dictionary::memtables::MemtableOwner;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::Result;
use alluvium_storage::extents::AllocationClass;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Approximate memory per key in bytes, not counting the key itself and its operands.
pub(super) const BYTES_PER_KEY: u64 = 96;

impl Dictionary for OrderedMap {
    fn cut(&self) -> SequenceNumber {
        self.shared.versions.cut()
    }

    fn advance(&self, cut: SequenceNumber) -> Result<()> {
        self.change(Some(cut), |_| ());
        Ok(())
    }

    fn incorporate(
        &self,
        share: MemtableSlice,
        _class: AllocationClass,
    ) -> Result<Box<dyn contract::MemtableIncorporation>> {
        Ok(Box::new(MapIncorporation {
            map: self.clone(),
            share,
        }))
    }

    fn ingest(&self, _class: AllocationClass) -> Result<Box<dyn contract::BulkIngest>> {
        Ok(Box::new(MemoryIngest::new(Box::new(self.clone()))))
    }

    fn next_step(&self) -> Result<Option<Box<dyn contract::MaintenanceStep>>> {
        let step = self.rewrite_due();
        Ok(step.map(|step| Box::new(step) as Box<dyn contract::MaintenanceStep>))
    }

    fn compact_part(&self, _key: &[u8]) -> Result<()> {
        self.shared.is_stale.store(true, Ordering::Release);
        Ok(())
    }

    fn prepare(&self) -> Result<()> {
        self.write_checkpoint_root().map(drop)
    }

    fn checkpoint_root(&self) -> Result<CheckpointRoot<'_>> {
        self.write_checkpoint_root()
    }

    fn check(
        &self,
        depth: CheckLevel,
        _steps: &[&dyn contract::MaintenanceStep],
        durable: Option<&[u8]>,
        tell: &mut dyn FnMut(CheckProgress) -> Result<()>,
    ) -> Result<StructureCheckReport> {
        self.examine_all(depth, durable, tell)
    }

    fn pending_work(&self) -> PendingWork {
        let version = self.version();
        PendingWork {
            memory_bytes: version.bytes + BYTES_PER_KEY * version.keys.len() as u64,
            steps: u64::from(self.shared.is_stale.load(Ordering::Acquire) || self.has_expired()),
        }
    }

    fn approximate_len(&self, range: &KeyRange) -> Result<u64> {
        let version = self.version();
        let within = version.keys.iter().filter(|(key, _)| range.contains(key));
        let live = within.filter(|(_, entries)| {
            debug_assert!(!entries.is_empty(), "a key has a message (P3)");
            entries[0].kind != MessageKind::Delete
        });
        Ok(live.count() as u64)
    }

    fn size_on_disk(&self, range: &KeyRange) -> Result<u64> {
        let version = self.version();
        let within = version.keys.iter().filter(|(key, _)| range.contains(key));
        let bytes = within.map(|(key, entries)| super::bytes_of(key, entries)).sum();
        assert!(bytes <= version.bytes, "a range is a part of the map");
        Ok(bytes)
    }
}

impl contract::MemtableIncorporation for MapIncorporation {
    fn poll(&mut self, _records: usize) -> Result<StepProgress> {
        Ok(StepProgress::Done)
    }

    fn publish(&mut self) -> Result<()> {
        MapIncorporation::publish(self);
        Ok(())
    }

    fn taken(&self) -> usize {
        self.share.memtable.len()
    }
}

impl contract::MaintenanceStep for MapRewrite {
    fn poll(&mut self, _records: usize) -> Result<StepProgress> {
        Ok(self.run())
    }

    fn number(&self) -> Option<u64> {
        None
    }
}

impl OrderedDictionary for OrderedMap {
    type Scan = MapIter;

    fn scan(
        &self,
        memtables: Arc<dyn MemtableOwner>,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
        now_ms: u64,
    ) -> MapIter {
        MapIter::new(self, memtables, range, direction, at, now_ms)
    }
}
