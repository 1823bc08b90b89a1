//! Implements the store's interface to dictionaries for maps: see `alluvium_dictionary::contract`.

use super::Map;
use super::incorporate::{Incorporation, Rewrite};
use super::ingest::Ingest;
use super::scan::Iter;
use alluvium_base::{Kind, Sequence};
use alluvium_dictionary::contract::{self, Dictionary, Load, Ordered, Progress};
use alluvium_dictionary::cut::Cut;
use alluvium_dictionary::findings::{Checked, Depth, Examined};
use alluvium_dictionary::memtables::Memtables;
use alluvium_dictionary::merge::Direction;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::share::Share;
use alluvium_storage::Result;
use alluvium_storage::extents::Class;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Approximate overhead of a key in memory, in bytes, in addition to the key and its operands.
pub(super) const BYTES_PER_KEY: u64 = 96;

impl Dictionary for Map {
    fn cut(&self) -> Sequence {
        self.shared.versions.cut()
    }

    fn advance(&self, cut: Sequence) -> Result<()> {
        self.change(Some(cut), |_| ());
        Ok(())
    }

    fn incorporate(&self, share: Share, _class: Class) -> Result<Box<dyn contract::Incorporate>> {
        Ok(Box::new(Incorporation {
            map: self.clone(),
            share,
        }))
    }

    fn ingest(&self, _class: Class) -> Result<Box<dyn contract::Ingest>> {
        Ok(Box::new(Ingest::new(Box::new(self.clone()))))
    }

    fn next_step(&self) -> Result<Option<Box<dyn contract::Step>>> {
        let step = self.rewrite_due();
        Ok(step.map(|step| Box::new(step) as Box<dyn contract::Step>))
    }

    fn compact_part(&self, _key: &[u8]) -> Result<()> {
        self.shared.is_stale.store(true, Ordering::Release);
        Ok(())
    }

    fn prepare(&self) -> Result<()> {
        self.cut_here().map(drop)
    }

    fn stand(&self) -> Result<Cut<'_>> {
        self.cut_here()
    }

    fn examine(
        &self,
        depth: Depth,
        _steps: &[&dyn contract::Step],
        durable: Option<&[u8]>,
        tell: &mut dyn FnMut(Checked) -> Result<()>,
    ) -> Result<Examined> {
        self.examine_all(depth, durable, tell)
    }

    fn load(&self) -> Load {
        let version = self.version();
        Load {
            memory_bytes: version.bytes + BYTES_PER_KEY * version.keys.len() as u64,
            steps: u64::from(self.shared.is_stale.load(Ordering::Acquire) || self.has_expired()),
        }
    }

    fn approximate_len(&self, range: &KeyRange) -> Result<u64> {
        let version = self.version();
        let within = version.keys.iter().filter(|(key, _)| range.contains(key));
        let live = within.filter(|(_, entries)| {
            debug_assert!(!entries.is_empty(), "a key has a message (P3)");
            entries[0].kind != Kind::Delete
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

impl contract::Incorporate for Incorporation {
    fn poll(&mut self, _records: usize) -> Result<Progress> {
        Ok(Progress::Done)
    }

    fn publish(&mut self) -> Result<()> {
        Incorporation::publish(self);
        Ok(())
    }

    fn taken(&self) -> usize {
        self.share.memtable.len()
    }
}

impl contract::Step for Rewrite {
    fn poll(&mut self, _records: usize) -> Result<Progress> {
        Ok(self.run())
    }

    fn number(&self) -> Option<u64> {
        None
    }
}

impl Ordered for Map {
    type Scan = Iter;

    fn scan(
        &self,
        memtables: Arc<dyn Memtables>,
        range: KeyRange,
        direction: Direction,
        at: Sequence,
        now_ms: u64,
    ) -> Iter {
        Iter::new(self, memtables, range, direction, at, now_ms)
    }
}
