//! One node, its version lock, and how keys are found in it.

use super::arena::{Arena, Place};
use crate::sync::{AtomicU32, AtomicU64, Backoff, Ordering, fence};
use std::cmp::Ordering as Compared;
use std::ops::Deref;

/// Keys in a leaf, children in an inner node.
#[cfg(not(alluvium_model_check))]
pub(super) const FANOUT: usize = 64;
/// Small under the model checker, so that few operations split nodes.
#[cfg(alluvium_model_check)]
pub(super) const FANOUT: usize = 4;

/// Prefixes that are searched side by side: those of a cache line.
#[cfg(not(alluvium_model_check))]
const GROUP: usize = 8;
#[cfg(alluvium_model_check)]
const GROUP: usize = 2;

const _: () = assert!(FANOUT.is_multiple_of(GROUP));

/// A node's place in the arena.
pub(super) type NodeId = Place;

/// A leaf's slots are its keys' newest records; an inner node's are the records that hold its separators (place 0
/// for the first child's, which has none), and behind it are its children: what lies at or above them.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Node {
    version: AtomicU64,
    level: u32,
    count: AtomicU32,
    /// How many bytes all keys between the fences share.
    skip: AtomicU32,
    low: AtomicU32,
    high: AtomicU32,
    prefixes: Prefixes,
    slots: [AtomicU32; FANOUT],
}

/// The prefix of each slot's key; above those that are used, [`NONE`].
#[repr(C, align(64))]
#[derive(Debug)]
struct Prefixes([AtomicU64; FANOUT]);

/// What an unused prefix is: no prefix is above it.
const NONE: u64 = u64::MAX;

/// What follows an inner node.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Children([AtomicU32; FANOUT]);

impl Children {
    pub(super) fn new() -> Children {
        Children(std::array::from_fn(|_| AtomicU32::new(0)))
    }
}

/// A node with its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeRef<'a> {
    arena: &'a Arena,
    id: NodeId,
    node: &'a Node,
}

impl Deref for NodeRef<'_> {
    type Target = Node;
    fn deref(&self) -> &Node {
        self.node
    }
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
            prefixes: Prefixes(std::array::from_fn(|_| AtomicU64::new(NONE))),
            slots: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// How many bytes of the arena a node of a level takes.
    pub(super) const fn bytes(level: u32) -> usize {
        match level {
            0 => size_of::<Node>(),
            _ => size_of::<Node>() + size_of::<Children>(),
        }
    }

    /// The version to read under; waits while a writer is there.
    pub(super) fn begin(&self) -> Version {
        let mut backoff = Backoff::default();
        loop {
            let version = self.version.load(Ordering::Acquire);
            if version & LOCKED == 0 {
                return Version(version);
            }
            backoff.wait();
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

    /// Unlocks a node that was changed. Only the holder of the lock writes the version.
    pub(super) fn unlock(&self) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Release);
    }

    /// Unlocks a node that was not changed, so that readers need not start over.
    pub(super) fn unlock_unchanged(&self) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version & !LOCKED, Ordering::Release);
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

    pub(super) fn low(&self) -> Place {
        self.low.load(Ordering::Acquire)
    }

    pub(super) fn high(&self) -> Place {
        self.high.load(Ordering::Acquire)
    }

    fn prefix(&self, index: usize) -> u64 {
        self.prefixes.0[index].load(Ordering::Relaxed)
    }

    /// How many prefixes are below `wanted`: first of the groups' first ones, then of one group, without a branch on what
    /// they are and without a load that waits for another.
    #[inline(always)]
    fn prefixes_below(&self, wanted: u64) -> usize {
        let mut group = 0;
        for at in (GROUP..FANOUT).step_by(GROUP) {
            group += usize::from(self.prefix(at) < wanted);
        }
        let from = group * GROUP;
        let mut below = from;
        for prefix in &self.prefixes.0[from..from + GROUP] {
            below += usize::from(prefix.load(Ordering::Relaxed) < wanted);
        }
        below
    }
}

impl<'a> NodeRef<'a> {
    #[inline(always)]
    pub(super) fn new(arena: &'a Arena, id: NodeId) -> NodeRef<'a> {
        NodeRef {
            arena,
            id,
            node: arena.node(id),
        }
    }

    pub(super) fn id(self) -> NodeId {
        self.id
    }

    pub(super) fn child(self, index: usize) -> NodeId {
        self.arena.children(self.id).0[index].load(Ordering::Acquire)
    }

    /// Asks the processor for what a search of a child reads first: all its lines but its children.
    #[inline(always)]
    pub(super) fn prefetch_child(self, child: NodeId) {
        // Nodes high up are in the cache anyway.
        if self.level() == 1 {
            self.arena.prefetch(child, Node::bytes(0));
        }
    }

    /// The first slot whose key is not below `key`, and whether it is `key`.
    #[inline(always)]
    pub(super) fn lower_bound(self, key: &[u8]) -> (usize, bool) {
        let wanted = prefix(key, self.skip.load(Ordering::Relaxed) as usize);
        let mut end = self.count();
        // By prefix first, without touching a record.
        let mut at = self.prefixes_below(wanted).min(end);
        let from = at;
        // Then by whole key, among the few that share the prefix.
        while at < end {
            let middle = if at == from { at } else { at + (end - at) / 2 };
            if self.prefix(middle) > wanted {
                end = middle;
                continue;
            }
            let place = self.slot(middle);
            self.arena.prefetch(place, RECORD_LINES);
            match self.arena.key(place).cmp(key) {
                Compared::Less => at = middle + 1,
                Compared::Equal => return (middle, true),
                Compared::Greater => end = middle,
            }
        }
        (at, false)
    }

    /// The child in whose range `key` lies.
    #[inline(always)]
    pub(super) fn child_for(self, key: &[u8]) -> usize {
        match self.lower_bound(key) {
            (index, true) => index,
            (index, false) => index.saturating_sub(1),
        }
    }

    /// Puts a slot at `index`, moving those behind it. The node is locked and not full.
    pub(super) fn insert(self, index: usize, slot: Place, child: NodeId) {
        let count = self.count();
        assert!(index <= count && count < FANOUT, "slot {index} of {count}");
        let skip = self.skip.load(Ordering::Relaxed) as usize;
        let prefix = prefix(self.arena.key(slot), skip);
        shift(
            &self.prefixes.0,
            index,
            count,
            prefix,
            |prefix, value| {
                prefix.store(value, Ordering::Relaxed);
            },
            |prefix| prefix.load(Ordering::Relaxed),
        );
        let (store, load) = (
            |place: &AtomicU32, value| place.store(value, Ordering::Release),
            |place: &AtomicU32| place.load(Ordering::Relaxed),
        );
        shift(&self.slots, index, count, slot, store, load);
        if !self.is_leaf() {
            shift(&self.arena.children(self.id).0, index, count, child, store, load);
        }
        self.count.store(count as u32 + 1, Ordering::Relaxed);
    }

    /// Replaces the record in a slot by another of the same key. The node is locked.
    pub(super) fn replace(self, index: usize, slot: Place) {
        self.slots[index].store(slot, Ordering::Release);
    }

    /// Moves the slots from `middle` on to `right`, a fresh node of the same level, and narrows the fences (M1). This
    /// node is locked; the other is not published yet. Returns the record that holds the separator.
    pub(super) fn split(self, middle: usize, right: NodeRef<'_>) -> Place {
        let count = self.count();
        assert!(0 < middle && middle < count, "a split at {middle} of {count}");
        let separator = self.slots[middle].load(Ordering::Relaxed);
        for at in middle..count {
            right.prefixes.0[at - middle].store(self.prefix(at), Ordering::Relaxed);
            right.slots[at - middle].store(self.slots[at].load(Ordering::Relaxed), Ordering::Release);
            self.prefixes.0[at].store(NONE, Ordering::Relaxed);
        }
        if !self.is_leaf() {
            let (from, to) = (self.arena.children(self.id), right.arena.children(right.id));
            for (from, to) in from.0[middle..count].iter().zip(&to.0) {
                to.store(from.load(Ordering::Relaxed), Ordering::Release);
            }
        }
        right.count.store((count - middle) as u32, Ordering::Relaxed);
        right.low.store(separator, Ordering::Release);
        right
            .high
            .store(self.high.load(Ordering::Relaxed), Ordering::Release);
        self.count.store(middle as u32, Ordering::Relaxed);
        self.high.store(separator, Ordering::Release);
        self.update_prefixes();
        right.update_prefixes();
        separator
    }

    /// Recomputes what the fences say all keys share, and every prefix behind it.
    fn update_prefixes(self) {
        let (low, high) = (
            self.low.load(Ordering::Relaxed),
            self.high.load(Ordering::Relaxed),
        );
        if low == 0 || high == 0 {
            return; // An open range shares nothing; the prefixes are already those of whole keys.
        }
        let skip = self
            .arena
            .key(low)
            .iter()
            .zip(self.arena.key(high))
            .take_while(|(a, b)| a == b)
            .count();
        if self.skip.load(Ordering::Relaxed) as usize == skip {
            return;
        }
        self.skip.store(skip as u32, Ordering::Relaxed);
        for at in 0..self.count() {
            // The first separator of an inner node may be the low fence's or none; both only need to be lowest.
            let key = self.arena.key(self.slots[at].load(Ordering::Relaxed));
            self.prefixes.0[at].store(prefix(key, skip), Ordering::Relaxed);
        }
    }
}

/// How much of a record a reader will want: header, key, and what of the value lies beside.
const RECORD_LINES: usize = 192;

/// Puts a value at `index` of the first `count`, moving those behind it.
#[inline(always)]
fn shift<A, V>(
    all: &[A; FANOUT],
    index: usize,
    count: usize,
    value: V,
    store: impl Fn(&A, V),
    load: impl Fn(&A) -> V,
) {
    for at in (index..count).rev() {
        store(&all[at + 1], load(&all[at]));
    }
    store(&all[index], value);
}

/// Eight bytes of a key behind `skip`, as a number that orders like them.
#[inline(always)]
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
