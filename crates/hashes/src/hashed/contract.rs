//! Implementation of `alluvium_dictionary::contract` for a hashed structure.

use super::incorporate::Incorporation;
use super::policy;
use super::run::{Cursor, Run, read_keys};
use super::structure::Hashed;
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::contract::{self, Dictionary, DistinctKeys, Load};
use alluvium_dictionary::cut::Cut;
use alluvium_dictionary::findings::{Checked, Depth, Examined};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::share::Share;
use alluvium_storage::Result;
use alluvium_storage::extents::Class;
use std::collections::HashSet;
use std::sync::atomic::Ordering;

/// Number of leaves that are sampled to estimate the fraction of a run in a key range. Leaves are a
/// random sample because they are in hash order.
const SAMPLED: u64 = 16;

impl Hashed {
    /// Returns the sum of `of` over all runs, each weighted by the estimated fraction of the run in
    /// a range.
    fn weigh(&self, range: &KeyRange, of: impl Fn(&Run) -> u64) -> Result<u64> {
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

/// Minimum number of records in a sample, if there are that many.
const SAMPLE: u64 = 20_000;

impl Hashed {
    /// Estimates the number of distinct keys from the first slice of each part.
    fn sample(&self) -> Result<DistinctKeys> {
        let store = &self.shared.home.store;
        let _guard = store.epochs().pin();
        let (version, options) = (self.version(), &self.shared.options);
        let all: u64 = version.runs().map(Run::records).sum();
        let slices = (all / SAMPLE).max(1);
        let (mut found, mut records) = (HashSet::new(), 0u64);
        for part in 0..options.parts() {
            let (first, last) = options.hashes_of(part);
            let hashes = (first, first + (last - first) / slices);
            for run in version.runs_of(first, options).filter(|run| run.leaves() > 0) {
                let mut cursor = Cursor::open(store, run.clone(), hashes, Purpose::Other)?;
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

impl Dictionary for Hashed {
    fn cut(&self) -> Sequence {
        self.shared.versions.cut()
    }

    fn advance(&self, cut: Sequence) -> Result<()> {
        self.raise(cut);
        Ok(())
    }

    fn incorporate(&self, share: Share, class: Class) -> Result<Box<dyn contract::Incorporate>> {
        Ok(Box::new(Incorporation::new(self, share, class)?))
    }

    fn ingest(&self, class: Class) -> Result<Box<dyn contract::Ingest>> {
        Ok(Box::new(self.begin_ingest(class)?))
    }

    fn next_step(&self) -> Result<Option<Box<dyn contract::Step>>> {
        let step = self.next_merge();
        Ok(step.map(|step| Box::new(step) as Box<dyn contract::Step>))
    }

    fn compact_part(&self, _key: &[u8]) -> Result<()> {
        self.want_all();
        Ok(())
    }

    fn set_space_class(&self, class: Class) {
        let is_scarce = class != Class::Normal;
        self.shared.is_scarce.store(is_scarce, Ordering::Relaxed);
    }

    fn has_pending_work(&self) -> bool {
        self.may_merge()
    }

    /// Returns the number of hash stores above the limit.
    fn overdue_steps(&self) -> usize {
        let most = self.shared.options.most_young as usize;
        self.young().saturating_sub(most)
    }

    fn read_amplification_percent(&self) -> u64 {
        let options = &self.shared.options;
        policy::crowding(&self.version().view(options, &[]), options)
    }

    fn stand(&self) -> Result<Cut<'_>> {
        self.cut_here()
    }

    fn examine(
        &self,
        depth: Depth,
        steps: &[&dyn contract::Step],
        durable: Option<&[u8]>,
        tell: &mut dyn FnMut(Checked) -> Result<()>,
    ) -> Result<Examined> {
        let jobs: Vec<u64> = steps.iter().filter_map(|step| step.number()).collect();
        self.examine_all(depth, &jobs, durable, tell)
    }

    fn load(&self) -> Load {
        Load {
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
        self.weigh(range, Run::device_bytes)
    }
}
