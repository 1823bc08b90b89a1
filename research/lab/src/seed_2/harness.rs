//! Paged trees, the thesis's five workloads, and figures by name.

use crate::entry::AxisPosition;
use crate::measurements::{FigurePoint, FigureSeries, MeasurementSet};
use crate::scratch::ScratchDirectory;
use alluvium_bench::workload::keys::scatter;
use alluvium_bench::workload::zipf::ZipfGenerator;
use alluvium_storage::Result as PagedResult;
use alluvium_trees::paged::TreeLocation;
use alluvium_trees::paged::beps::{BepsOptions, BepsTree, RootStyle};
use alluvium_trees::paged::bplus::BplusTree;
use alluvium_trees::paged::buffer::{PageArena, PageBuffer, PagePool, PinPolicy, PoolOptions, QueuePolicy};
use alluvium_trees::paged::node::ReplaceOperator;
use anyhow::{Result, ensure};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a key and of a value.
pub(super) const KEY: usize = 8;
pub(super) const VALUE: usize = 100;
/// Bytes of a page in the thesis.
pub(super) const PAGE: usize = 16 << 10;
/// The value of ε that the thesis chose, in percent.
pub(super) const CHOSEN: u32 = 80;
/// Time limit of a workload; a workload that reaches it is measured up to there.
const LIMIT: Duration = Duration::from_secs(60);
/// Minimum pages of memory for a buffer pool.
const LEAST_PAGES: usize = 48;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PagedTreeKind {
    /// The Bε-tree whose root has no buffer.
    Separate,
    /// The Bε-tree whose root has a buffer.
    NoRoot,
    Bplus,
}

/// The storage of a tree's pages.
#[derive(Clone, Copy, Debug)]
pub(super) enum PageStorage {
    /// In memory without a page table: the thesis's optimal buffer.
    Memory,
    /// In a file, with a buffer pool.
    File {
        memory_bytes: usize,
        policy: QueuePolicy,
        pins: PinPolicy,
    },
}

impl PageStorage {
    /// Stores pages in a file, with memory for one `part`-th of the pairs.
    pub(super) fn file(pairs: u64, part: u64, pins: PinPolicy) -> PageStorage {
        let bytes = pairs * (KEY + VALUE) as u64 / part;
        PageStorage::File {
            memory_bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
            policy: QueuePolicy::Quarter,
            pins,
        }
    }
}

/// The configuration of a tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct PagedTreeConfig {
    pub(super) sort: PagedTreeKind,
    pub(super) epsilon_percent: u32,
    pub(super) page_bytes: usize,
    pub(super) pages: PageStorage,
}

impl PagedTreeConfig {
    /// Returns a configuration in memory, as in the thesis.
    pub(super) fn in_memory(sort: PagedTreeKind, epsilon_percent: u32) -> PagedTreeConfig {
        PagedTreeConfig {
            sort,
            epsilon_percent,
            page_bytes: PAGE,
            pages: PageStorage::Memory,
        }
    }
}

/// A page buffer that reports the number of pages of its tree.
trait MeteredPageBuffer: PageBuffer {
    fn used(&self) -> u64;
    /// Returns the number of pages read and written.
    fn moved(&self) -> u64;
}

impl MeteredPageBuffer for PageArena {
    fn used(&self) -> u64 {
        self.pages_in_use()
    }
    fn moved(&self) -> u64 {
        0
    }
}

impl MeteredPageBuffer for PagePool {
    fn used(&self) -> u64 {
        let counted = self.statistics();
        counted.pages - counted.free
    }
    fn moved(&self) -> u64 {
        let counted = self.statistics();
        counted.reads + counted.writes + counted.images
    }
}

/// The operations that each tree must support here.
trait MeteredTree: Sync {
    fn insert(&self, key: &[u8], value: &[u8]) -> PagedResult<()>;
    fn update(&self, key: &[u8], value: &[u8]) -> PagedResult<()>;
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> PagedResult<bool>;
    fn used(&self) -> u64;
    fn moved(&self) -> u64;
    fn height(&self) -> PagedResult<u32>;
}

macro_rules! tree {
    ($tree:ident) => {
        impl<B: MeteredPageBuffer> MeteredTree for $tree<B> {
            fn insert(&self, key: &[u8], value: &[u8]) -> PagedResult<()> {
                $tree::insert(self, key, value)
            }
            fn update(&self, key: &[u8], value: &[u8]) -> PagedResult<()> {
                $tree::update(self, key, value)
            }
            fn get(&self, key: &[u8], value: &mut Vec<u8>) -> PagedResult<bool> {
                self.get_into(key, value)
            }
            fn used(&self) -> u64 {
                self.buffer().used()
            }
            fn moved(&self) -> u64 {
                self.buffer().moved()
            }
            fn height(&self) -> PagedResult<u32> {
                Ok(self.examine()?.height)
            }
        }
    };
}

tree!(BepsTree);
tree!(BplusTree);

pub(super) struct TreeBenchmark {
    tree: Box<dyn MeteredTree>,
    /// Declared last so that it is dropped after the tree.
    _scratch: Option<ScratchDirectory>,
}

impl TreeBenchmark {
    pub(super) fn new(plan: PagedTreeConfig) -> Result<TreeBenchmark> {
        let mut options = BepsOptions::new(KEY, VALUE);
        options.sizes.epsilon_percent = plan.epsilon_percent;
        options.root = match plan.sort {
            PagedTreeKind::NoRoot => RootStyle::Buffered,
            PagedTreeKind::Separate | PagedTreeKind::Bplus => RootStyle::Separate,
        };
        let is_bplus = plan.sort == PagedTreeKind::Bplus;
        let PageStorage::File {
            memory_bytes,
            policy,
            pins,
        } = plan.pages
        else {
            let arena = PageArena::new(plan.page_bytes)?;
            return Ok(TreeBenchmark {
                tree: match is_bplus {
                    true => Box::new(BplusTree::create(arena, KEY, VALUE, Arc::new(ReplaceOperator))?),
                    false => Box::new(BepsTree::create(arena, options)?),
                },
                _scratch: None,
            });
        };
        let pool = PoolOptions {
            page_bytes: plan.page_bytes,
            memory_bytes: memory_bytes.max(LEAST_PAGES * plan.page_bytes),
            policy,
            pins,
            ..PoolOptions::default()
        };
        let scratch = ScratchDirectory::new()?;
        let place = TreeLocation {
            directory: &*scratch.directory,
            name: "pages",
        };
        let tree: Box<dyn MeteredTree> = match is_bplus {
            true => Box::new(BplusTree::create_in(
                place,
                1,
                pool,
                (KEY, VALUE),
                Arc::new(ReplaceOperator),
            )?),
            false => Box::new(BepsTree::create_in(place, 1, pool, options)?),
        };
        Ok(TreeBenchmark {
            tree,
            _scratch: Some(scratch),
        })
    }

    /// Returns the levels of the tree; 1 for a single leaf.
    pub(super) fn height(&self) -> Result<f64> {
        Ok(f64::from(self.tree.height()?))
    }

    /// Returns the number of pages of the tree.
    pub(super) fn pages(&self) -> f64 {
        self.tree.used() as f64
    }

    /// Returns the number of pages read and written.
    pub(super) fn moved(&self) -> f64 {
        self.tree.moved() as f64
    }

    /// Runs a workload with several threads. Returns thousands of operations per second.
    pub(super) fn run(
        &self,
        work: TreeWorkload,
        draw: &KeySampler,
        operations: u64,
        threads: u64,
    ) -> Result<f64> {
        ensure!(
            operations >= threads && threads > 0,
            "--records {operations}: {threads} threads need one each"
        );
        let done = AtomicU64::new(0);
        let started = Instant::now();
        std::thread::scope(|scope| {
            let done = &done;
            let threads: Vec<_> = (0..threads)
                .map(|thread| {
                    let random = fastrand::Rng::with_seed(work.seed() + thread);
                    scope.spawn(move || {
                        let own = self.run_one(work, draw, operations / threads, random, started)?;
                        done.fetch_add(own, Ordering::Relaxed);
                        Ok(())
                    })
                })
                .collect();
            let mut ended = threads.into_iter().map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            ended.try_for_each(|ended: Result<()>| ended)
        })?;
        let seconds = started.elapsed().as_secs_f64();
        Ok(done.into_inner() as f64 / seconds.max(1e-9) / 1000.0)
    }

    fn run_one(
        &self,
        work: TreeWorkload,
        draw: &KeySampler,
        most: u64,
        mut random: fastrand::Rng,
        started: Instant,
    ) -> Result<u64> {
        let (inserts, updates) = work.shares();
        let mut value = [7; VALUE];
        let mut found = Vec::with_capacity(VALUE);
        for own in 0..most {
            if own % 64 == 63 && started.elapsed() > LIMIT {
                return Ok(own);
            }
            let key = draw.key(&mut random);
            let kind = random.u8(..100);
            value[..KEY].copy_from_slice(&key);
            if kind < inserts {
                self.tree.insert(&key, &value)?;
            } else if kind < inserts + updates {
                self.tree.update(&key, &value)?;
            } else if self.tree.get(&key, &mut found)? {
                ensure!(found == value, "the value of another key was found");
            }
        }
        Ok(most)
    }
}

/// The workloads of section 6.2 (Figure 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TreeWorkload {
    /// Inserts into an empty tree.
    Load,
    /// Inserts into a tree that has received as many inserts before.
    Inserts,
    Reads,
    /// Reads with 5 % inserts.
    FewInserts,
    /// Reads with 50 % updates.
    Updates,
}

impl TreeWorkload {
    /// Returns the percentages of inserts and updates.
    fn shares(self) -> (u8, u8) {
        match self {
            TreeWorkload::Load | TreeWorkload::Inserts => (100, 0),
            TreeWorkload::Reads => (0, 0),
            TreeWorkload::FewInserts => (5, 0),
            TreeWorkload::Updates => (0, 50),
        }
    }

    fn seed(self) -> u64 {
        1000 * (self as u64 + 1)
    }
}

/// Draws keys; the same key may be drawn several times.
pub(super) enum KeySampler {
    Uniform(u64),
    Zipf(ZipfGenerator),
}

impl KeySampler {
    /// Draws from a Zipf distribution, as in most experiments of the thesis.
    pub(super) fn zipf(keys: u64) -> KeySampler {
        KeySampler::Zipf(ZipfGenerator::new(keys))
    }

    fn key(&self, random: &mut fastrand::Rng) -> [u8; KEY] {
        let rank = match self {
            KeySampler::Uniform(keys) => random.u64(..*keys),
            KeySampler::Zipf(zipf) => zipf.draw(random),
        };
        scatter(rank).to_be_bytes()
    }
}

/// Figures by the names of their lines, in order of insertion.
#[derive(Default)]
pub(super) struct SeriesCollector(Vec<FigureSeries>);

impl SeriesCollector {
    /// Adds a figure to a line of a measure.
    pub(super) fn add(&mut self, measure: &str, line: &str, at: AxisPosition, value: f64) {
        let name = format!("{measure}, {line}");
        let spot = FigurePoint { at, value };
        match self.0.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(spot),
            None => self.0.push(FigureSeries {
                name,
                points: vec![spot],
            }),
        }
    }

    pub(super) fn measured(self) -> MeasurementSet {
        MeasurementSet {
            counts: self.0,
            ..MeasurementSet::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tree_does_every_workload_in_memory_and_in_a_file() {
        let draw = KeySampler::zipf(3000);
        let file = PageStorage::file(3000, 4, PinPolicy::Optimistic);
        for pages in [PageStorage::Memory, file] {
            for sort in [
                PagedTreeKind::Separate,
                PagedTreeKind::NoRoot,
                PagedTreeKind::Bplus,
            ] {
                let plan = PagedTreeConfig {
                    page_bytes: 1024,
                    pages,
                    ..PagedTreeConfig::in_memory(sort, CHOSEN)
                };
                let subject = TreeBenchmark::new(plan).unwrap();
                for work in [
                    TreeWorkload::Load,
                    TreeWorkload::Inserts,
                    TreeWorkload::Reads,
                    TreeWorkload::FewInserts,
                    TreeWorkload::Updates,
                ] {
                    assert!(subject.run(work, &draw, 3000, 2).unwrap() > 0.0);
                }
                assert!(subject.height().unwrap() >= 3.0 && subject.pages() > 100.0);
                let is_file = matches!(pages, PageStorage::File { .. });
                assert_eq!(subject.moved() > 0.0, is_file, "{sort:?}");
            }
        }
        let refused = TreeBenchmark::new(PagedTreeConfig::in_memory(PagedTreeKind::Bplus, 100)).unwrap();
        assert!(refused.run(TreeWorkload::Load, &draw, 1, 2).is_err());
    }

    #[test]
    fn figures_of_a_line_stay_together() {
        let mut lines = SeriesCollector::default();
        for number in 0..3 {
            lines.add("reads", "one", AxisPosition::Number(f64::from(number)), 1.0);
            lines.add("reads", "two", AxisPosition::Number(f64::from(number)), 2.0);
        }
        let under = lines.measured().series_with_prefix("reads");
        let counted: Vec<(&str, usize)> = under
            .iter()
            .map(|line| (&line.name[..], line.points.len()))
            .collect();
        assert_eq!(counted, [("one", 3), ("two", 3)]);
    }
}
