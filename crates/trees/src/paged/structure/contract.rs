//! Implements the store's interface to dictionaries for trees in pages: see
//! `alluvium_dictionary::contract`.

use super::Paged;
use super::apply::Incorporation;
use super::scan::Iter;
use crate::map::Ingest;
use crate::paged::read::{Bounds, Scan};
use alluvium_base::Sequence;
use alluvium_dictionary::contract::{self, Dictionary, Load, Ordered};
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

impl Paged {
    /// Returns the number of keys in a range, and the approximate bytes that they occupy.
    fn weigh(&self, range: &KeyRange) -> Result<(u64, u64)> {
        let _inside = self.shared.gate.read();
        let bounds = Bounds {
            from: Some(range.low.to_vec()),
            below: range.high.as_ref().map(|high| high.to_vec()),
        };
        let mut scan = Scan::new(self.core(), bounds);
        let (mut keys, mut bytes) = (0, 0);
        while let Some((key, value)) = self.judge(scan.next_pair())? {
            keys += 1;
            bytes += (key.len() + value.len()) as u64;
        }
        Ok((keys, bytes))
    }
}

impl Dictionary for Paged {
    fn cut(&self) -> Sequence {
        self.at()
    }

    fn advance(&self, cut: Sequence) -> Result<()> {
        let _writer = self.shared.writer.lock();
        self.raise(cut);
        Ok(())
    }

    fn incorporate(&self, share: Share, class: Class) -> Result<Box<dyn contract::Incorporate>> {
        Ok(Box::new(Incorporation {
            paged: self.clone(),
            share,
            class,
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
        self.judge(self.core().buffer.write_dirty())
    }

    fn stand(&self) -> Result<Cut<'_>> {
        self.cut_here()
    }

    fn examine(
        &self,
        depth: Depth,
        _steps: &[&dyn contract::Step],
        _durable: Option<&[u8]>,
        tell: &mut dyn FnMut(Checked) -> Result<()>,
    ) -> Result<Examined> {
        self.examine_all(depth, tell)
    }

    fn load(&self) -> Load {
        Load {
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

impl Ordered for Paged {
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
