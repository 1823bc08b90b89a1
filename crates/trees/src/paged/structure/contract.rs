//! Implements the store's interface for dictionaries, `alluvium_dictionary::contract`, on trees in
//! pages.

use super::PagedDictionary;
use super::apply::PagedIncorporation;
use super::scan::PagedIter;
use crate::map::MemoryIngest;
use crate::paged::read::{PagedTreeScan, ScanBounds};
use alluvium_base::SequenceNumber;
use alluvium_dictionary::check_report::{CheckLevel, CheckProgress, StructureCheckReport};
use alluvium_dictionary::checkpoint_root::CheckpointRoot;
use alluvium_dictionary::contract::{self, Dictionary, OrderedDictionary, PendingWork};
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_dictionary::memtables::MemtableOwner;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::Result;
use alluvium_storage::extents::AllocationClass;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl PagedDictionary {
    /// Returns the number of keys in a range, and the approximate number of bytes that their pairs
    /// occupy.
    fn weigh(&self, range: &KeyRange) -> Result<(u64, u64)> {
        let _inside = self.shared.gate.read();
        let bounds = ScanBounds {
            from: Some(range.low.to_vec()),
            below: range.high.as_ref().map(|high| high.to_vec()),
        };
        let mut scan = PagedTreeScan::new(self.core(), bounds);
        let (mut keys, mut bytes) = (0, 0);
        while let Some((key, value)) = self.poison_on_error(scan.next_pair())? {
            keys += 1;
            bytes += (key.len() + value.len()) as u64;
        }
        Ok((keys, bytes))
    }
}

impl Dictionary for PagedDictionary {
    fn cut(&self) -> SequenceNumber {
        self.at()
    }

    fn advance(&self, cut: SequenceNumber) -> Result<()> {
        let _writer = self.shared.writer.lock();
        self.raise(cut);
        Ok(())
    }

    fn incorporate(
        &self,
        share: MemtableSlice,
        class: AllocationClass,
    ) -> Result<Box<dyn contract::MemtableIncorporation>> {
        Ok(Box::new(PagedIncorporation {
            paged: self.clone(),
            share,
            class,
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
        self.poison_on_error(self.core().buffer.write_dirty())
    }

    fn checkpoint_root(&self) -> Result<CheckpointRoot<'_>> {
        self.write_checkpoint_root()
    }

    fn check(
        &self,
        depth: CheckLevel,
        _steps: &[&dyn contract::MaintenanceStep],
        _durable: Option<&[u8]>,
        tell: &mut dyn FnMut(CheckProgress) -> Result<()>,
    ) -> Result<StructureCheckReport> {
        self.examine_all(depth, tell)
    }

    fn pending_work(&self) -> PendingWork {
        PendingWork {
            memory_bytes: self.core().buffer.memory_bytes(),
            steps: u64::from(self.shared.is_stale.load(Ordering::Acquire)),
        }
    }

    fn approximate_len(&self, range: &KeyRange) -> Result<u64> {
        Ok(self.weigh(range)?.0)
    }

    fn size_on_disk(&self, range: &KeyRange) -> Result<u64> {
        Ok(self.weigh(range)?.1)
    }
}

impl OrderedDictionary for PagedDictionary {
    type Scan = PagedIter;

    fn scan(
        &self,
        memtables: Arc<dyn MemtableOwner>,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
        now_ms: u64,
    ) -> PagedIter {
        PagedIter::new(self, memtables, range, direction, at, now_ms)
    }
}
