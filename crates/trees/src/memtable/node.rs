//! One node, its version lock, and the table of all nodes.

use super::arena::{Arena, Place};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence, spin_loop};
use std::cmp::Ordering as Compared;
use std::sync::OnceLock;

/// Keys in a leaf, children in an inner node.
#[cfg(not(alluvium_model_check))]
pub(super) const FANOUT: usize = 64;
/// Small under the model checker, so that few operations split nodes.
#[cfg(alluvium_model_check)]
pub(super) const FANOUT: usize = 4;

/// A node's number.
pub(super) type NodeId = u32;

/// A leaf's slots are its keys' newest records; an inner node's are the records that hold its separators (place 0
/// for the first child's, which has none), and `children` are what lies at or above them.
#[repr(align(64))]
#[derive(Debug)]
pub(super) struct Node {
    version: AtomicU64,
    level: u32,
    count: AtomicU32,
    /// How many bytes all keys between the fences share.
    skip: AtomicU32,
    low: AtomicU32,
    high: AtomicU32,
    prefixes: [AtomicU64; FANOUT],
    slots: [AtomicU32; FANOUT],
    children: [AtomicU32; FANOUT],
}

/// A version that was read: even, or nothing could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version(u64);

/// A reader met a writer and starts over.
#[derive(Debug)]
pub(super) struct Restart;

const LOCKED: u64 = 1;

impl Node {
    pub(super) fn new(level: u32) -> Node {
        Node {
            version: AtomicU64::new(0),
            level,
            count: AtomicU32::new(0),
            skip: AtomicU32::new(0),
            low: AtomicU32::new(0),
            high: AtomicU32::new(0),
            prefixes: std::array::from_fn(|_| AtomicU64::new(0)),
            slots: std::array::from_fn(|_| AtomicU32::new(0)),
            children: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// The version to read under; waits while a writer is there.
    pub(super) fn begin(&self) -> Version {
        loop {
            let version = self.version.load(Ordering::Acquire);
            if version & LOCKED == 0 {
                return Version(version);
            }
            spin_loop();
        }
    }

    /// Whether everything read since `begin` belongs to one state of the node (M3).
    pub(super) fn validate(&self, version: Version) -> Result<(), Restart> {
        // The reads before must not move behind the second look at the version.
        fence(Ordering::Acquire);
        if self.version.load(Ordering::Relaxed) == version.0 {
            Ok(())
        } else {
            Err(Restart)
        }
    }

    /// Locks the node if it still has this version.
    pub(super) fn lock(&self, version: Version) -> Result<(), Restart> {
        let locked = self.version.compare_exchange(
            version.0,
            version.0 | LOCKED,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        // Stores into the node must not move before the lock is seen by readers.
        fence(Ordering::Release);
        locked.map(|_| ()).map_err(|_| Restart)
    }

    /// Unlocks a node that was changed.
    pub(super) fn unlock(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Unlocks a node that was not changed, so that readers need not start over.
    pub(super) fn unlock_unchanged(&self) {
        self.version.fetch_and(!LOCKED, Ordering::Release);
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.level == 0
    }

    pub(super) fn level(&self) -> u32 {
        self.level
    }

    /// How many slots are used; never more than there are, whatever an optimistic reader sees.
    pub(super) fn count(&self) -> usize {
        (self.count.load(Ordering::Relaxed) as usize).min(FANOUT)
    }

    pub(super) fn slot(&self, index: usize) -> Place {
        self.slots[index].load(Ordering::Acquire)
    }

    pub(super) fn child(&self, index: usize) -> NodeId {
        self.children[index].load(Ordering::Acquire)
    }

    pub(super) fn low(&self) -> Place {
        self.low.load(Ordering::Acquire)
    }

    pub(super) fn high(&self) -> Place {
        self.high.load(Ordering::Acquire)
    }

    /// The first slot whose key is not below `key`, and whether it is `key`.
    pub(super) fn lower_bound(&self, arena: &Arena, key: &[u8]) -> (usize, bool) {
        let wanted = prefix(key, self.skip.load(Ordering::Relaxed) as usize);
        let count = self.count();
        // By prefix first, without touching a record.
        let mut from = 0;
        let mut len = count;
        while len > 0 {
            let half = len / 2;
            let below = self.prefixes[from + half].load(Ordering::Relaxed) < wanted;
            from = if below { from + half + 1 } else { from };
            len = if below { len - half - 1 } else { half };
        }
        // Then by whole key, among the few that share the prefix.
        let mut end = count;
        let mut at = from;
        while at < end {
            let middle = if at == from { at } else { at + (end - at) / 2 };
            if self.prefixes[middle].load(Ordering::Relaxed) > wanted {
                end = middle;
                continue;
            }
            match arena.key(self.slot(middle)).cmp(key) {
                Compared::Less => at = middle + 1,
                Compared::Equal => return (middle, true),
                Compared::Greater => end = middle,
            }
        }
        (at, false)
    }

    /// The child in whose range `key` lies.
    pub(super) fn child_for(&self, arena: &Arena, key: &[u8]) -> usize {
        match self.lower_bound(arena, key) {
            (index, true) => index,
            (index, false) => index.saturating_sub(1),
        }
    }

    /// Puts a slot at `index`, moving those behind it. The node is locked and not full.
    pub(super) fn insert(&self, arena: &Arena, index: usize, slot: Place, child: NodeId) {
        let count = self.count();
        assert!(index <= count && count < FANOUT, "slot {index} of {count}");
        for at in (index..count).rev() {
            self.copy_slot(at, self, at + 1);
        }
        let skip = self.skip.load(Ordering::Relaxed) as usize;
        self.prefixes[index].store(prefix(arena.key(slot), skip), Ordering::Relaxed);
        self.slots[index].store(slot, Ordering::Release);
        self.children[index].store(child, Ordering::Release);
        self.count.store(count as u32 + 1, Ordering::Relaxed);
    }

    /// Replaces the record in a slot by another of the same key. The node is locked.
    pub(super) fn replace(&self, index: usize, slot: Place) {
        self.slots[index].store(slot, Ordering::Release);
    }

    fn copy_slot(&self, from: usize, to: &Node, at: usize) {
        to.prefixes[at].store(self.prefixes[from].load(Ordering::Relaxed), Ordering::Relaxed);
        to.slots[at].store(self.slots[from].load(Ordering::Relaxed), Ordering::Release);
        to.children[at].store(self.children[from].load(Ordering::Relaxed), Ordering::Release);
    }

    /// Moves the slots from `middle` on to `right`, a fresh node of the same level, and narrows the fences (M1). This
    /// node is locked; the other is not published yet. Returns the record that holds the separator.
    pub(super) fn split(&self, arena: &Arena, middle: usize, right: &Node) -> Place {
        let count = self.count();
        assert!(0 < middle && middle < count, "a split at {middle} of {count}");
        let separator = self.slots[middle].load(Ordering::Relaxed);
        for at in middle..count {
            self.copy_slot(at, right, at - middle);
        }
        right.count.store((count - middle) as u32, Ordering::Relaxed);
        right.low.store(separator, Ordering::Release);
        right
            .high
            .store(self.high.load(Ordering::Relaxed), Ordering::Release);
        self.count.store(middle as u32, Ordering::Relaxed);
        self.high.store(separator, Ordering::Release);
        self.update_prefixes(arena);
        right.update_prefixes(arena);
        separator
    }

    /// Recomputes what the fences say all keys share, and every prefix behind it.
    fn update_prefixes(&self, arena: &Arena) {
        let (low, high) = (
            self.low.load(Ordering::Relaxed),
            self.high.load(Ordering::Relaxed),
        );
        if low == 0 || high == 0 {
            return; // An open range shares nothing; the prefixes are already those of whole keys.
        }
        let skip = arena
            .key(low)
            .iter()
            .zip(arena.key(high))
            .take_while(|(a, b)| a == b)
            .count();
        self.skip.store(skip as u32, Ordering::Relaxed);
        for at in 0..self.count() {
            // The first separator of an inner node may be the low fence's or none; both only need to be lowest.
            let key = arena.key(self.slots[at].load(Ordering::Relaxed));
            self.prefixes[at].store(prefix(key, skip), Ordering::Relaxed);
        }
    }
}

/// Eight bytes of a key behind `skip`, as a number that orders like them.
fn prefix(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or(&[]);
    let eight = rest.first_chunk::<8>().copied().unwrap_or_else(|| {
        let mut padded = [0; 8];
        padded[..rest.len()].copy_from_slice(rest);
        padded
    });
    // tidy: allow format: a number to sort by, which never leaves memory
    u64::from_be_bytes(eight)
}

/// How many nodes are allocated at once.
const CHUNK: usize = 64;
/// How many chunks there may be: 4 M nodes, more than any memtable fills.
const CHUNKS: usize = 1 << 16;

/// Nodes that were allocated together, each set once.
type Chunk = Box<[OnceLock<Node>]>;

/// Every node of a memtable: they are numbered, never move, and are freed together.
#[derive(Debug)]
pub(super) struct Nodes {
    chunks: Box<[OnceLock<Chunk>]>,
    count: AtomicUsize,
}

impl Nodes {
    pub(super) fn new() -> Nodes {
        Nodes {
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            count: AtomicUsize::new(0),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Adds a node; `None` when there are as many as there can be.
    pub(super) fn add(&self, node: Node) -> Option<NodeId> {
        let id = self.count.fetch_add(1, Ordering::Relaxed);
        let chunk = self
            .chunks
            .get(id / CHUNK)?
            .get_or_init(|| (0..CHUNK).map(|_| OnceLock::new()).collect());
        assert!(chunk[id % CHUNK].set(node).is_ok(), "node {id} is added once");
        Some(id as NodeId)
    }

    /// A node that was added.
    pub(super) fn get(&self, id: NodeId) -> &Node {
        let chunk = self.chunks[id as usize / CHUNK]
            .get()
            .expect("a node's chunk exists (M4)");
        chunk[id as usize % CHUNK].get().expect("a node exists (M4)")
    }
}

#[cfg(test)]
mod tests {
    use super::prefix;

    #[test]
    fn prefixes_order_like_the_bytes_they_stand_for() {
        let keys: [&[u8]; 7] = [b"", b"\0", b"a", b"a\0b", b"ab", b"abcdefgh", b"b"];
        for pair in keys.windows(2) {
            assert!(prefix(pair[0], 0) <= prefix(pair[1], 0), "{pair:?}");
        }
        assert_eq!(prefix(b"shared-x", 7), u64::from(b'x') << 56);
        assert_eq!(prefix(b"short", 9), 0);
    }
}
