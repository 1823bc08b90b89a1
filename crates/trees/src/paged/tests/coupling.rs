//! Tests of which latches are held when a page is pinned, and of how readers react to a change
//! between two pins.

use super::*;
use crate::paged::buffer::{PageReadGuard, PageWriteGuard};
use crate::paged::node::{child_at, level};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A function that is called with each page before it is pinned. It returns whether it should be
/// called again.
type Hook = Box<dyn FnMut(&PageArena, u64) -> bool + Send>;

/// A buffer of pages in memory that calls a hook before it pins a page.
pub(super) struct Watched {
    pub(super) arena: PageArena,
    /// Number of latches that have been acquired.
    pub(super) latches: AtomicU64,
    hook: Mutex<Option<Hook>>,
}

impl Watched {
    pub(super) fn new() -> Watched {
        Watched {
            arena: PageArena::new(512).unwrap(),
            latches: AtomicU64::new(0),
            hook: Mutex::default(),
        }
    }

    pub(super) fn watch(&self, hook: impl FnMut(&PageArena, u64) -> bool + Send + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }

    pub(super) fn tell(&self, page: u64) {
        let hook = self.hook.lock().unwrap().take();
        if let Some(mut hook) = hook
            && hook(&self.arena, page)
        {
            *self.hook.lock().unwrap() = Some(hook);
        }
    }
}

impl PageBuffer for Watched {
    fn pin_shared(&self, page: u64) -> Result<PageReadGuard<'_>> {
        self.tell(page);
        self.latches.fetch_add(1, Ordering::Relaxed);
        self.arena.pin_shared(page)
    }
    fn pin_exclusive(&self, page: u64) -> Result<PageWriteGuard<'_>> {
        self.tell(page);
        self.latches.fetch_add(1, Ordering::Relaxed);
        self.arena.pin_exclusive(page)
    }
    fn allocate(&self) -> Result<PageWriteGuard<'_>> {
        self.arena.allocate()
    }
    fn free(&self, page: PageWriteGuard<'_>) {
        self.arena.free(page);
    }
    fn reserve(&self, pages: u64) -> Result<()> {
        self.arena.reserve(pages)
    }
    fn content_bytes(&self) -> usize {
        self.arena.content_bytes()
    }
    fn frames(&self) -> Option<usize> {
        self.arena.frames()
    }
    fn poison(&self, cause: &str) {
        self.arena.poison(cause);
    }
    fn writable(&self) -> Result<()> {
        self.arena.writable()
    }
}

impl Counted for Watched {
    fn count(&self) -> usize {
        0
    }
    fn pages(&self) -> u64 {
        self.arena.pages_in_use()
    }
}

/// Counts how often a page below the root is pinned while no other page is latched.
pub(super) fn count_leaps(buffer: &Watched, root: u64) -> Arc<AtomicU64> {
    let leaps = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&leaps);
    buffer.watch(move |arena, page| {
        if page != root && arena.latched().is_empty() {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        true
    });
    leaps
}

fn use_it(tree: &dyn Subject) {
    let at = |number: u64| key(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for number in 0..2500 {
        tree.insert(&at(number), &number.to_le_bytes()).unwrap();
        if number % 8 == 0 {
            assert!(tree.get(&at(number / 2)).unwrap().is_some());
            tree.delete(&at(number / 3)).unwrap();
            tree.insert(&at(number / 3), &number.to_le_bytes()).unwrap();
        }
    }
    assert_eq!(tree.pairs(ScanBounds::default(), false).len(), 2500);
    assert_eq!(tree.pairs(ScanBounds::default(), true).len(), 2500);
    tree.flush_all().unwrap();
    (0..2400).for_each(|number| tree.delete(&at(number)).unwrap());
    assert_eq!(tree.pairs(ScanBounds::default(), true).len(), 100);
    tree.flush_all().unwrap();
}

#[test]
fn a_child_is_latched_before_its_parent_is_left() {
    let operator: Arc<dyn UpdateOperator> = Arc::new(Sum);
    for (epsilon, root, order) in [
        (0, RootStyle::Separate, FlushOrder::Level),
        (60, RootStyle::Separate, FlushOrder::Depth),
        (60, RootStyle::Buffered, FlushOrder::Level),
    ] {
        for merging in [UnderfullPolicy::Never, UnderfullPolicy::UnderFull] {
            let options = BepsOptions {
                merging,
                ..options(epsilon, root, order, Arc::clone(&operator))
            };
            let tree = BepsTree::create(Watched::new(), options).unwrap();
            let leaps = count_leaps(tree.buffer(), tree.core.root);
            use_it(&tree);
            assert_eq!(leaps.load(Ordering::Relaxed), 0, "{epsilon} {root:?} {order:?}");
            let merges = tree.statistics().merges;
            assert_eq!(merges > 0, merging == UnderfullPolicy::UnderFull, "{merges}");
        }
    }
    let tree =
        BplusTree::create_merging(Watched::new(), (8, 8), operator, UnderfullPolicy::UnderFull).unwrap();
    let leaps = count_leaps(tree.buffer(), tree.core.root);
    use_it(&tree);
    assert_eq!(leaps.load(Ordering::Relaxed), 0, "B⁺");
}

/// Returns the level of each page, and its index on that level from left to right.
fn ranks(tree: &BplusTree<Watched>) -> HashMap<u64, (u8, usize)> {
    let mut ranks = HashMap::new();
    let mut row = vec![tree.core.root];
    while !row.is_empty() {
        let mut below = Vec::new();
        for (rank, page) in row.iter().enumerate() {
            let node = tree.buffer().arena.pin_shared(*page).unwrap();
            ranks.insert(*page, (level(&node), rank));
            if level(&node) > 0 {
                let wide = tree.core.shape.wide;
                below.extend((0..=wide.len(&node)).map(|at| child_at(&wide, &node, at)));
            }
        }
        row = below;
    }
    ranks
}

#[test]
fn neighbours_are_latched_from_the_left_to_the_right() {
    let merging = UnderfullPolicy::UnderFull;
    let tree = BplusTree::create_merging(Watched::new(), (8, 8), Arc::new(Sum), merging).unwrap();
    (0..800).for_each(|number| tree.insert(&key(number), b"12345678").unwrap());
    let mut order: Vec<u64> = (0..800).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut order);
    let together = Arc::new(AtomicU64::new(0));
    for number in order {
        let (ranks, together) = (ranks(&tree), Arc::clone(&together));
        tree.buffer().watch(move |arena, page| {
            for held in arena.latched() {
                if let (Some(one), Some(other)) = (ranks.get(&held), ranks.get(&page))
                    && one.0 == other.0
                {
                    assert!(one.1 < other.1, "page {page} is left of {held} (PM3)");
                    together.fetch_add(1, Ordering::Relaxed);
                }
            }
            true
        });
        tree.delete(&key(number)).unwrap();
        tree.buffer().watch(|_, _| false);
    }
    assert!(together.load(Ordering::Relaxed) > 50, "{together:?}");
    assert_eq!(tree.used(), 1);
}
