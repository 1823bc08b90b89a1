//! Tests of the trees by comparison with maps, and with concurrent threads, failures and crashes.
//!
//! *Scope*: the expected contents of a tree.
//!
//! *Must not depend on*: how a tree stores them.

mod adaptive;
mod coupling;
#[cfg(feature = "couplings")]
mod couplings;
mod crashes;
mod merges;
mod model;
mod shapes;
mod threads;

use super::beps::{BepsOptions, BepsTree, FlushOrder, RootStyle};
use super::bplus::BplusTree;
#[cfg(feature = "couplings")]
use super::buffer::PinPolicy;
use super::buffer::{PAGE_HEADER, PageArena, PageBuffer, PagePool, PoolOptions, QueuePolicy};
use super::merge::UnderfullPolicy;
use super::node::{EpsilonMode, NodeShape, TreeSizes, UpdateOperator};
#[cfg(feature = "couplings")]
use super::read::LatchCoupling;
use super::read::{ScanBounds, TreeWalkReport};
use super::tree::{PagedTree, WritePath};
use alluvium_device::memory::MemoryDirectory;
use alluvium_storage::Result;
use std::sync::Arc;
use std::time::Duration;

/// An operator that appends operands, up to a total of 8 bytes. It is associative, but not
/// commutative.
#[derive(Debug)]
struct Append;

impl UpdateOperator for Append {
    fn combine(&self, older: &[u8], younger: &[u8], into: &mut Vec<u8>) {
        into.extend_from_slice(older);
        into.extend_from_slice(younger);
        into.truncate(8);
    }
}

/// An operator that adds numbers.
#[derive(Debug)]
struct Sum;

impl UpdateOperator for Sum {
    fn combine(&self, older: &[u8], younger: &[u8], into: &mut Vec<u8>) {
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        into.extend((number(older) + number(younger)).to_le_bytes());
    }
}

/// The interface to a tree of any kind.
trait Subject: Sync {
    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()>;
    fn update(&self, key: &[u8], operand: &[u8]) -> Result<()>;
    fn delete(&self, key: &[u8]) -> Result<()>;
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    fn pairs(&self, bounds: ScanBounds, backwards: bool) -> Vec<(Vec<u8>, Vec<u8>)>;
    fn flush_all(&self) -> Result<()>;
    fn examine(&self) -> TreeWalkReport;
    fn pinned(&self) -> usize;
    fn used(&self) -> u64;
}

/// A page buffer that tells a test how many of its frames are pinned.
trait Counted: PageBuffer {
    fn count(&self) -> usize;
    /// Returns the number of pages that are in use.
    fn pages(&self) -> u64;
}

impl Counted for PagePool {
    fn count(&self) -> usize {
        self.pinned()
    }
    fn pages(&self) -> u64 {
        let counted = self.statistics();
        counted.pages - counted.free
    }
}

impl Counted for PageArena {
    fn count(&self) -> usize {
        0
    }
    fn pages(&self) -> u64 {
        self.pages_in_use()
    }
}

impl<B: Counted> Subject for BepsTree<B> {
    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        BepsTree::insert(self, key, value)
    }
    fn update(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        BepsTree::update(self, key, operand)
    }
    fn delete(&self, key: &[u8]) -> Result<()> {
        BepsTree::delete(self, key)
    }
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        BepsTree::get(self, key)
    }
    fn pairs(&self, bounds: ScanBounds, backwards: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
        let scan = self.scan(bounds);
        let pairs: Result<Vec<_>> = if backwards {
            scan.rev().collect()
        } else {
            scan.collect()
        };
        pairs.unwrap()
    }
    fn flush_all(&self) -> Result<()> {
        BepsTree::flush_all(self)
    }
    fn examine(&self) -> TreeWalkReport {
        BepsTree::examine(self).unwrap()
    }
    fn pinned(&self) -> usize {
        self.buffer().count()
    }
    fn used(&self) -> u64 {
        self.buffer().pages()
    }
}

impl<B: Counted> Subject for BplusTree<B> {
    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        BplusTree::insert(self, key, value)
    }
    fn update(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        BplusTree::update(self, key, operand)
    }
    fn delete(&self, key: &[u8]) -> Result<()> {
        BplusTree::delete(self, key)
    }
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        BplusTree::get(self, key)
    }
    fn pairs(&self, bounds: ScanBounds, backwards: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
        let scan = self.scan(bounds);
        let pairs: Result<Vec<_>> = if backwards {
            scan.rev().collect()
        } else {
            scan.collect()
        };
        pairs.unwrap()
    }
    fn flush_all(&self) -> Result<()> {
        Ok(())
    }
    fn examine(&self) -> TreeWalkReport {
        BplusTree::examine(self).unwrap()
    }
    fn pinned(&self) -> usize {
        self.buffer().count()
    }
    fn used(&self) -> u64 {
        self.buffer().pages()
    }
}

fn sizes(epsilon_percent: u32) -> TreeSizes {
    TreeSizes {
        key_limit: 8,
        value_limit: 8,
        epsilon_percent,
    }
}

fn options(
    epsilon_percent: u32,
    root: RootStyle,
    order: FlushOrder,
    operator: Arc<dyn UpdateOperator>,
) -> BepsOptions {
    BepsOptions {
        sizes: sizes(epsilon_percent),
        epsilon: EpsilonMode::Fixed,
        root,
        order,
        merging: UnderfullPolicy::Never,
        operator,
    }
}

/// The number of shards and, with the feature `couplings`, how threads pin pages and descend from
/// node to node.
#[derive(Clone, Copy, Debug)]
struct Means {
    shards: usize,
    #[cfg(feature = "couplings")]
    pins: PinPolicy,
    #[cfg(feature = "couplings")]
    coupling: LatchCoupling,
}

impl Means {
    #[cfg(feature = "couplings")]
    const fn of(pins: PinPolicy, coupling: LatchCoupling, shards: usize) -> Means {
        Means {
            shards,
            pins,
            coupling,
        }
    }

    #[cfg(not(feature = "couplings"))]
    const fn of(shards: usize) -> Means {
        Means { shards }
    }

    /// Sets how threads descend from a node of this tree to its child.
    fn couple<B: PageBuffer, W: WritePath>(self, tree: PagedTree<B, W>) -> PagedTree<B, W> {
        #[cfg(feature = "couplings")]
        let tree = tree.coupled_by(self.coupling);
        tree
    }
}

/// Every option on its own, and some combinations.
#[cfg(feature = "couplings")]
const MEANS: &[Means] = &[
    Means::of(PinPolicy::Locked, LatchCoupling::Latched, 1),
    Means::of(PinPolicy::Optimistic, LatchCoupling::Optimistic, 1),
    Means::of(PinPolicy::Optimistic, LatchCoupling::Versions, 1),
    Means::of(PinPolicy::Swizzled, LatchCoupling::Latched, 1),
    Means::of(PinPolicy::Locked, LatchCoupling::Latched, 3),
    Means::of(PinPolicy::Swizzled, LatchCoupling::Versions, 2),
];
#[cfg(not(feature = "couplings"))]
const MEANS: &[Means] = &[Means::of(1), Means::of(3)];

/// The options that also apply to trees whose pages are all in memory.
#[cfg(feature = "couplings")]
const MEANS_IN_MEMORY: &[Means] = &[MEANS[0], MEANS[1], MEANS[2]];
#[cfg(not(feature = "couplings"))]
const MEANS_IN_MEMORY: &[Means] = &[MEANS[0]];

/// Returns one of the options, selected by an arbitrary number.
const fn means(number: usize) -> Means {
    let mut means = MEANS[number % MEANS.len()];
    means.shards = 1;
    means
}

/// Returns a pool in memory that checks that its pages are valid nodes of a tree.
fn pool(page_bytes: usize, frames: usize, epsilon_percent: u32, means: Means) -> PagePool {
    let shape = NodeShape::new(page_bytes - PAGE_HEADER, sizes(epsilon_percent)).unwrap();
    pool_of(shape, frames, means)
}

/// Returns a pool in memory that checks that its pages are valid nodes with the given layout.
fn pool_of(shape: NodeShape, frames: usize, means: Means) -> PagePool {
    let page_bytes = shape.content_bytes + PAGE_HEADER;
    let options = PoolOptions {
        page_bytes,
        memory_bytes: frames * page_bytes,
        policy: QueuePolicy::Quarter,
        longest_wait: Duration::from_secs(2),
        #[cfg(feature = "couplings")]
        pins: means.pins,
        shards: means.shards,
    };
    let validate = Arc::new(move |content: &[u8]| shape.validate(content));
    PagePool::create(&MemoryDirectory::new(), "tree", 77, options, validate).unwrap()
}

/// Returns trees of every kind and with every option, small enough that every path is tested.
fn subjects(operator: &Arc<dyn UpdateOperator>) -> Vec<(String, Box<dyn Subject>)> {
    let mut all: Vec<(String, Box<dyn Subject>)> = Vec::new();
    for (epsilon, root, order) in [
        (0, RootStyle::Separate, FlushOrder::Level),
        (50, RootStyle::Separate, FlushOrder::Depth),
        (75, RootStyle::Separate, FlushOrder::Level),
        (100, RootStyle::Separate, FlushOrder::Level),
        (0, RootStyle::Buffered, FlushOrder::Level),
        (30, RootStyle::Separate, FlushOrder::Level),
        (60, RootStyle::Buffered, FlushOrder::Depth),
        (100, RootStyle::Buffered, FlushOrder::Level),
    ] {
        let name = |buffer: &str| format!("Bε {epsilon} {root:?} {order:?} {buffer}");
        let options = || options(epsilon, root, order, Arc::clone(operator));
        // Combine these values of ε with every option, every kind of root and every flush order.
        let is_chosen = [30, 60].contains(&epsilon);
        let some = |all: &'static [Means]| all.iter().take(if is_chosen { all.len() } else { 1 });
        for means in some(MEANS_IN_MEMORY) {
            let tree = BepsTree::create(PageArena::new(512).unwrap(), options()).unwrap();
            let name = name(&format!("arena {means:?}"));
            all.push((name, Box::new(means.couple(tree))));
        }
        for &means in some(MEANS) {
            // Each shard must have enough frames for a flush.
            let frames = 96 * means.shards;
            let tree = BepsTree::create(pool(512, frames, epsilon, means), options()).unwrap();
            let name = name(&format!("pool {means:?}"));
            all.push((name, Box::new(means.couple(tree))));
        }
    }
    for means in MEANS_IN_MEMORY {
        let tree = BplusTree::create(PageArena::new(512).unwrap(), 8, 8, Arc::clone(operator)).unwrap();
        let name = format!("B⁺ arena {means:?}");
        all.push((name, Box::new(means.couple(tree))));
    }
    for &means in MEANS {
        let tree = BplusTree::create(pool(512, 96, 100, means), 8, 8, Arc::clone(operator)).unwrap();
        let name = format!("B⁺ pool {means:?}");
        all.push((name, Box::new(means.couple(tree))));
    }
    all.extend(merging_subjects(operator));
    all.extend(adaptive_subjects(operator, UnderfullPolicy::Never));
    all
}

/// Returns trees with adaptive nodes.
fn adaptive_subjects(
    operator: &Arc<dyn UpdateOperator>,
    merging: UnderfullPolicy,
) -> Vec<(String, Box<dyn Subject>)> {
    let mut all: Vec<(String, Box<dyn Subject>)> = Vec::new();
    for (page_bytes, root, order, means) in [
        (512, RootStyle::Separate, FlushOrder::Level, means(0)),
        (1024, RootStyle::Separate, FlushOrder::Depth, means(5)),
        (1024, RootStyle::Buffered, FlushOrder::Level, means(0)),
    ] {
        let options = || BepsOptions {
            merging,
            epsilon: EpsilonMode::Adaptive,
            ..options(0, root, order, Arc::clone(operator))
        };
        let merges = match merging {
            UnderfullPolicy::Never => "",
            UnderfullPolicy::UnderFull => "merging ",
        };
        let name = |buffer: &str| format!("{merges}adaptive Bε {page_bytes} {root:?} {order:?} {buffer}");
        let tree = BepsTree::create(PageArena::new(page_bytes).unwrap(), options()).unwrap();
        all.push((name("arena"), Box::new(means.couple(tree))));
        let shape = NodeShape::adaptive(page_bytes - PAGE_HEADER, sizes(0)).unwrap();
        let tree = BepsTree::create(pool_of(shape, 96, means), options()).unwrap();
        all.push((name("pool"), Box::new(means.couple(tree))));
    }
    all
}

/// Returns trees that merge under-full nodes, of every kind and with every option.
fn merging_subjects(operator: &Arc<dyn UpdateOperator>) -> Vec<(String, Box<dyn Subject>)> {
    let mut all: Vec<(String, Box<dyn Subject>)> = Vec::new();
    for (epsilon, root, order, means) in [
        (0, RootStyle::Separate, FlushOrder::Level, means(0)),
        (60, RootStyle::Separate, FlushOrder::Depth, means(1)),
        (85, RootStyle::Separate, FlushOrder::Level, means(0)),
        (0, RootStyle::Buffered, FlushOrder::Depth, means(0)),
        (70, RootStyle::Buffered, FlushOrder::Level, means(2)),
    ] {
        let options = || BepsOptions {
            merging: UnderfullPolicy::UnderFull,
            ..options(epsilon, root, order, Arc::clone(operator))
        };
        let name = |buffer: &str| format!("merging Bε {epsilon} {root:?} {order:?} {buffer}");
        let tree = BepsTree::create(PageArena::new(512).unwrap(), options()).unwrap();
        all.push((name("arena"), Box::new(means.couple(tree))));
        let tree = BepsTree::create(pool(512, 96, epsilon, means), options()).unwrap();
        all.push((name("pool"), Box::new(means.couple(tree))));
    }
    for means in [means(0), means(1), means(5)] {
        let (limits, merging) = ((8, 8), UnderfullPolicy::UnderFull);
        let arena = PageArena::new(512).unwrap();
        let tree = BplusTree::create_merging(arena, limits, Arc::clone(operator), merging).unwrap();
        all.push((
            format!("merging B⁺ {means:?} arena"),
            Box::new(means.couple(tree)),
        ));
        let pool = pool(512, 96, 100, means);
        let tree = BplusTree::create_merging(pool, limits, Arc::clone(operator), merging).unwrap();
        all.push((format!("merging B⁺ {means:?} pool"), Box::new(means.couple(tree))));
    }
    all.extend(adaptive_subjects(operator, UnderfullPolicy::UnderFull));
    all
}

/// Returns the number of operations per tree: `usual`, unless an environment variable sets it for a
/// long run.
fn operations(usual: u64) -> u64 {
    alluvium_sim::environment::number("ALLUVIUM_PAGED_OPERATIONS", usual)
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}
