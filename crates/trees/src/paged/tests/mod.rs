//! The trees against maps, under threads, faults and crashes.
//!
//! *Knows*: what a tree should hold.
//!
//! *Does not know*: how it holds it.
//!
//! *Read in this order*: this file (trees under one interface), `model.rs`, `shapes.rs`,
//! `threads.rs`, `coupling.rs`, `crashes.rs`.

mod coupling;
mod crashes;
mod model;
mod shapes;
mod threads;

use super::Result;
use super::beps::{BepsTree, FlushOrder, RootStyle, TreeOptions};
use super::bplus::BplusTree;
use super::buffer::{Arena, PAGE_HEADER, PageBuffer, PinPolicy, Pool, PoolOptions, QueuePolicy};
use super::node::{Operator, Shape, TreeSizes};
use super::read::{Bounds, Coupling, Examined};
use alluvium_device::memory::MemoryDirectory;
use std::sync::Arc;

/// Updates append, up to 8 bytes: associative, not commutative.
#[derive(Debug)]
struct Append;

impl Operator for Append {
    fn combine(&self, older: &[u8], younger: &[u8], into: &mut Vec<u8>) {
        into.extend_from_slice(older);
        into.extend_from_slice(younger);
        into.truncate(8);
    }
}

/// Updates add numbers.
#[derive(Debug)]
struct Sum;

impl Operator for Sum {
    fn combine(&self, older: &[u8], younger: &[u8], into: &mut Vec<u8>) {
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        into.extend((number(older) + number(younger)).to_le_bytes());
    }
}

/// A tree of any kind.
trait Subject: Sync {
    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()>;
    fn update(&self, key: &[u8], operand: &[u8]) -> Result<()>;
    fn delete(&self, key: &[u8]) -> Result<()>;
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    fn pairs(&self, bounds: Bounds, backwards: bool) -> Vec<(Vec<u8>, Vec<u8>)>;
    fn flush_all(&self) -> Result<()>;
    fn examine(&self) -> Examined;
    fn pinned(&self) -> usize;
}

/// A buffer of which a test can ask how many frames are pinned.
trait Counted: PageBuffer {
    fn count(&self) -> usize;
}

impl Counted for Pool {
    fn count(&self) -> usize {
        self.pinned()
    }
}

impl Counted for Arena {
    fn count(&self) -> usize {
        0
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
    fn pairs(&self, bounds: Bounds, backwards: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
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
    fn examine(&self) -> Examined {
        BepsTree::examine(self).unwrap()
    }
    fn pinned(&self) -> usize {
        self.buffer().count()
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
    fn pairs(&self, bounds: Bounds, backwards: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
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
    fn examine(&self) -> Examined {
        BplusTree::examine(self).unwrap()
    }
    fn pinned(&self) -> usize {
        self.buffer().count()
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
    operator: Arc<dyn Operator>,
) -> TreeOptions {
    TreeOptions {
        sizes: sizes(epsilon_percent),
        root,
        order,
        operator,
    }
}

/// How pages are pinned, how nodes are gone through, and how many tables there are.
#[derive(Clone, Copy, Debug)]
struct Means(PinPolicy, Coupling, usize);

/// Every option, and options together.
const MEANS: [Means; 6] = [
    Means(PinPolicy::Locked, Coupling::Latched, 1),
    Means(PinPolicy::Optimistic, Coupling::Optimistic, 1),
    Means(PinPolicy::Optimistic, Coupling::Versions, 1),
    Means(PinPolicy::Swizzled, Coupling::Latched, 1),
    Means(PinPolicy::Locked, Coupling::Latched, 3),
    Means(PinPolicy::Swizzled, Coupling::Versions, 2),
];

/// A pool in memory whose pages are checked as those of a tree.
fn pool(page_bytes: usize, frames: usize, epsilon_percent: u32, means: Means) -> Pool {
    let shape = Shape::new(page_bytes - PAGE_HEADER, sizes(epsilon_percent)).unwrap();
    let options = PoolOptions {
        page_bytes,
        memory_bytes: frames * page_bytes,
        policy: QueuePolicy::Quarter,
        waits: 400,
        pins: means.0,
        shards: means.2,
    };
    let validate = Arc::new(move |content: &[u8]| shape.validate(content));
    Pool::create(&MemoryDirectory::new(), "tree", 77, options, validate).unwrap()
}

/// Trees of every kind and option, small enough for every path to be taken.
fn subjects(operator: &Arc<dyn Operator>) -> Vec<(String, Box<dyn Subject>)> {
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
        // In these all options meet every style of root and order of flushes.
        let is_chosen = [30, 60].contains(&epsilon);
        for coupling in [Coupling::Latched, Coupling::Versions] {
            if coupling == Coupling::Latched || is_chosen {
                let tree = BepsTree::create(Arena::new(512).unwrap(), options()).unwrap();
                let name = name(&format!("arena {coupling:?}"));
                all.push((name, Box::new(tree.coupled_by(coupling))));
            }
        }
        for means in MEANS.into_iter().take(if is_chosen { MEANS.len() } else { 1 }) {
            // Of several tables each has the frames for a flush.
            let frames = 96 * means.2;
            let tree = BepsTree::create(pool(512, frames, epsilon, means), options()).unwrap();
            let name = name(&format!("pool {means:?}"));
            all.push((name, Box::new(tree.coupled_by(means.1))));
        }
    }
    for coupling in [Coupling::Latched, Coupling::Versions] {
        let tree = BplusTree::create(Arena::new(512).unwrap(), 8, 8, Arc::clone(operator)).unwrap();
        let name = format!("B⁺ arena {coupling:?}");
        all.push((name, Box::new(tree.coupled_by(coupling))));
    }
    for means in MEANS {
        let tree = BplusTree::create(pool(512, 96, 100, means), 8, 8, Arc::clone(operator)).unwrap();
        let name = format!("B⁺ pool {means:?}");
        all.push((name, Box::new(tree.coupled_by(means.1))));
    }
    all
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}
