//! The nodes of a memtable. A node is a word that contains the place of a bank, and the bank
//! contains the node's content. Writers never change a bank that may be being read: they fill
//! another bank and store its place in the word. Readers therefore never wait.

use super::arena::{ArenaOffset, MemtableArena};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use std::cmp::Ordering as Compared;
use std::ops::{Deref, Range};

/// Maximum number of keys in a leaf, and of children in an inner node.
#[cfg(not(alluvium_model_check))]
pub(super) const FANOUT: usize = 64;
/// Small under the model checker, so that a few operations cause splits.
#[cfg(alluvium_model_check)]
pub(super) const FANOUT: usize = 4;

/// Number of key prefixes that are compared at a time. They fill one cache line.
#[cfg(not(alluvium_model_check))]
const GROUP: usize = 8;
#[cfg(alluvium_model_check)]
const GROUP: usize = 2;

const _: () = assert!(FANOUT.is_multiple_of(GROUP));
// A split halves a full node, and neither half may be empty.
const _: () = assert!(FANOUT >= 2 && FANOUT.is_multiple_of(2));

/// Identifies a node by the place of its word.
pub(super) type NodeId = ArenaOffset;

/// The lock bit of a node's word. The upper half of the word is the place of the bank, and the
/// other bits of the lower half are a version number.
const LOCKED: u64 = 1;
const VERSION_STEP: u32 = 2;

/// The content of a node. Each slot of a leaf holds the newest record of a key. Each slot of an
/// inner node holds a record whose key is a separator, except that the first child has no
/// separator, so its slot holds place 0. A child contains the keys at or above its separator. The
/// children of an inner node follow its bank.
///
/// A bank that its node no longer uses is refilled for another node of the same kind. A late reader
/// may then see the old content, the new content or a mixture, which it detects from the node's
/// word (M3). Every place in a bank is either valid or zero (M4).
#[repr(C)]
#[derive(Debug)]
pub(super) struct NodeBank {
    level: AtomicU32,
    count: AtomicU32,
    /// Number of leading bytes that all keys between the two fences share.
    skip: AtomicU32,
    low: AtomicU32,
    high: AtomicU32,
    prefixes: PrefixArray,
    slots: [AtomicU32; FANOUT],
}

/// The key prefix of each slot. Unused slots contain [`NONE`].
#[repr(C, align(64))]
#[derive(Debug)]
struct PrefixArray([AtomicU64; FANOUT]);

/// The prefix of an unused slot, which no key prefix exceeds.
const NONE: u64 = u64::MAX;

/// The children of an inner node. In the arena, this array follows the node's bank.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct ChildArray([AtomicU32; FANOUT]);

/// The kind of a bank, which only nodes of the same kind may reuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeBankKind {
    Leaf,
    Inner,
}

impl NodeBankKind {
    pub(super) fn of(level: u32) -> NodeBankKind {
        if level == 0 {
            NodeBankKind::Leaf
        } else {
            NodeBankKind::Inner
        }
    }

    /// Returns the size of a bank of this kind in the arena, in bytes, including the children in
    /// the case of an inner node.
    pub(super) const fn bytes(self) -> usize {
        match self {
            NodeBankKind::Leaf => size_of::<NodeBank>(),
            NodeBankKind::Inner => size_of::<NodeBank>() + size_of::<ChildArray>(),
        }
    }
}

impl ChildArray {
    pub(super) fn new() -> ChildArray {
        ChildArray(std::array::from_fn(|_| AtomicU32::new(0)))
    }
}

impl NodeBank {
    pub(super) fn new(kind: NodeBankKind) -> NodeBank {
        NodeBank {
            level: AtomicU32::new(u32::from(kind == NodeBankKind::Inner)),
            count: AtomicU32::new(0),
            skip: AtomicU32::new(0),
            low: AtomicU32::new(0),
            high: AtomicU32::new(0),
            prefixes: PrefixArray(std::array::from_fn(|_| AtomicU64::new(NONE))),
            slots: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// Returns whether this is the bank of an inner node, and is therefore followed by its
    /// children.
    pub(super) fn is_inner(&self) -> bool {
        self.level.load(Ordering::Relaxed) > 0
    }

    fn prefix(&self, index: usize) -> u64 {
        self.prefixes.0[index].load(Ordering::Relaxed)
    }

    /// Returns the number of prefixes less than `wanted`. The search compares the first prefix of
    /// each group and then the prefixes of one group, without data-dependent branches or dependent
    /// loads.
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

/// A reference to a bank, and its place in the arena.
#[derive(Clone, Copy, Debug)]
pub(super) struct BankRef<'a> {
    arena: &'a MemtableArena,
    place: ArenaOffset,
    bank: &'a NodeBank,
}

/// A view of a node as of the time when its word was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeView<'a> {
    id: NodeId,
    word: &'a AtomicU64,
    /// The word as it was read, with the lock bit cleared.
    seen: u64,
    bank: BankRef<'a>,
}

impl<'a> Deref for NodeView<'a> {
    type Target = BankRef<'a>;
    fn deref(&self) -> &BankRef<'a> {
        &self.bank
    }
}

/// The error for a node that was changed concurrently, so that the operation must start over.
#[derive(Debug)]
pub(super) struct NodeConflict;

/// Returns the initial word of a new node with this bank. The node's creator holds the lock.
pub(super) fn first_word(bank: ArenaOffset) -> u64 {
    u64::from(bank) << 32 | LOCKED
}

impl<'a> NodeView<'a> {
    /// Reads the word of the node `id` and returns a view. A writer may hold the node's lock.
    #[inline(always)]
    pub(super) fn new(arena: &'a MemtableArena, id: NodeId) -> NodeView<'a> {
        debug_assert!(id != 0, "M4: no node is at place 0");
        let word = arena.word(id);
        let seen = word.load(Ordering::Acquire) & !LOCKED;
        NodeView {
            id,
            word,
            seen,
            bank: BankRef::new(arena, (seen >> 32) as ArenaOffset),
        }
    }

    pub(super) fn id(&self) -> NodeId {
        self.id
    }

    /// Prefetches this node if `parent` is a parent of leaves. Higher nodes are usually in the
    /// processor's cache.
    #[inline(always)]
    pub(super) fn prefetch_if_leaf_of(&self, parent: &NodeView<'_>) {
        if parent.level() == 1 {
            self.bank.prefetch();
        }
    }

    /// Checks that everything read since the view was created belongs to a single state of the node
    /// (M3), and returns an error if it does not.
    #[inline(always)]
    pub(super) fn validate(&self) -> Result<(), NodeConflict> {
        // Keeps the preceding reads from being reordered after the second load of the word.
        fence(Ordering::Acquire);
        if self.word.load(Ordering::Relaxed) & !LOCKED == self.seen {
            Ok(())
        } else {
            Err(NodeConflict)
        }
    }

    /// Locks the node. Returns an error if the node has changed since the view was created, or if
    /// another writer holds the lock.
    pub(super) fn lock(&self) -> Result<(), NodeConflict> {
        let locked = self.word.compare_exchange(
            self.seen,
            self.seen | LOCKED,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        locked.map(|_| ()).map_err(|_| NodeConflict)
    }

    /// Unlocks a new node, or a locked node that has kept its bank.
    pub(super) fn unlock(&self) {
        debug_assert!(
            self.word.load(Ordering::Relaxed) & LOCKED != 0,
            "M3: only who locked a node unlocks it"
        );
        self.word.store(self.seen, Ordering::Release);
    }

    /// Replaces the bank of a locked node and unlocks the node. Returns the place of the old bank,
    /// which is no longer in use.
    pub(super) fn publish(&self, bank: BankRef<'_>) -> ArenaOffset {
        debug_assert!(
            self.word.load(Ordering::Relaxed) & LOCKED != 0,
            "M3: a node changes under its lock"
        );
        debug_assert_ne!(bank.place, self.bank.place, "M3: a change is another bank");
        let version = (self.seen as u32).wrapping_add(VERSION_STEP);
        let word = u64::from(bank.place) << 32 | u64::from(version);
        self.word.store(word, Ordering::Release);
        self.bank.place
    }
}

impl<'a> BankRef<'a> {
    #[inline(always)]
    pub(super) fn new(arena: &'a MemtableArena, place: ArenaOffset) -> BankRef<'a> {
        BankRef {
            arena,
            place,
            bank: arena.bank(place),
        }
    }

    pub(super) fn place(&self) -> ArenaOffset {
        self.place
    }

    pub(super) fn level(&self) -> u32 {
        self.bank.level.load(Ordering::Relaxed)
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.level() == 0
    }

    /// Returns the number of used slots. It never exceeds [`FANOUT`], even if an optimistic reader
    /// sees an inconsistent state.
    pub(super) fn count(&self) -> usize {
        (self.bank.count.load(Ordering::Relaxed) as usize).min(FANOUT)
    }

    pub(super) fn slot(&self, index: usize) -> ArenaOffset {
        self.bank.slots[index].load(Ordering::Acquire)
    }

    pub(super) fn child(&self, index: usize) -> NodeId {
        self.arena.children(self.place).0[index].load(Ordering::Acquire)
    }

    pub(super) fn low(&self) -> ArenaOffset {
        self.bank.low.load(Ordering::Acquire)
    }

    pub(super) fn high(&self) -> ArenaOffset {
        self.bank.high.load(Ordering::Acquire)
    }

    /// Prefetches all memory of the bank that a search reads.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        self.arena.prefetch(self.place, NodeBankKind::Leaf.bytes());
    }

    /// Returns the index of the first slot whose key is not less than `key`, and whether the two
    /// keys are equal.
    #[inline(always)]
    pub(super) fn lower_bound(&self, key: &[u8]) -> (usize, bool) {
        debug_assert!(self.place != 0, "M4: no bank is at place 0");
        let wanted = prefix(key, self.bank.skip.load(Ordering::Relaxed) as usize);
        let mut end = self.count();
        // First compare only the prefixes, which does not access any record.
        let mut at = self.bank.prefixes_below(wanted).min(end);
        let from = at;
        // Then compare whole keys, but only in the few slots with the same prefix.
        while at < end {
            let middle = if at == from { at } else { at + (end - at) / 2 };
            if self.bank.prefix(middle) > wanted {
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

    /// Returns the index of the child whose range contains `key`.
    #[inline(always)]
    pub(super) fn child_for(&self, key: &[u8]) -> usize {
        match self.lower_bound(key) {
            (index, true) => index,
            (index, false) => index.saturating_sub(1),
        }
    }

    /// Replaces the record in a slot of a locked node with another record of the same key.
    /// Concurrent readers see one of the two.
    pub(super) fn replace(&self, index: usize, slot: ArenaOffset) {
        debug_assert!(
            slot != 0 && index < self.count(),
            "M2: a key's slot leads to a record"
        );
        self.bank.slots[index].store(slot, Ordering::Release);
    }

    /// Prepares the bank for filling by setting its header. Only the caller and late readers access
    /// the bank.
    fn begin(&self, level: u32, count: usize, low: ArenaOffset, high: ArenaOffset) {
        assert!(count <= FANOUT, "{count} keys of a node (M1)");
        // A late reader that sees any store after this fence also sees that the node that formerly
        // used this bank has another one by now (M3).
        fence(Ordering::Release);
        self.bank.level.store(level, Ordering::Relaxed);
        let before = self.count();
        self.bank.count.store(count as u32, Ordering::Relaxed);
        self.bank.low.store(low, Ordering::Release);
        self.bank.high.store(high, Ordering::Release);
        // Prefixes above the former number of keys are already marked as unused.
        for unused in &self.bank.prefixes.0[count..before.max(count)] {
            unused.store(NONE, Ordering::Relaxed);
        }
    }

    /// Copies a range of slots of a locked node into this bank, starting at slot `to`.
    fn copy(&self, from: &BankRef<'_>, range: Range<usize>, to: usize) {
        debug_assert!(
            range.end <= FANOUT && to + range.len() <= FANOUT,
            "{range:?} to {to} of a bank"
        );
        let (prefixes, slots) = (
            &from.bank.prefixes.0[range.clone()],
            &from.bank.slots[range.clone()],
        );
        copy(prefixes, &self.bank.prefixes.0[to..], |from, to| {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        });
        let place = |from: &AtomicU32, to: &AtomicU32| {
            to.store(from.load(Ordering::Relaxed), Ordering::Release);
        };
        copy(slots, &self.bank.slots[to..], place);
        if !from.is_leaf() {
            let (from, all) = (from.arena.children(from.place), self.arena.children(self.place));
            copy(&from.0[range], &all.0[to..], place);
        }
    }

    fn set(&self, index: usize, slot: ArenaOffset, child: NodeId) {
        debug_assert!(index < self.count(), "slot {index} of {}", self.count());
        debug_assert!(self.is_leaf() || child != 0, "M4: an inner node leads to nodes");
        let skip = self.bank.skip.load(Ordering::Relaxed) as usize;
        self.bank.prefixes.0[index].store(prefix(self.arena.key(slot), skip), Ordering::Relaxed);
        self.bank.slots[index].store(slot, Ordering::Release);
        if !self.is_leaf() {
            self.arena.children(self.place).0[index].store(child, Ordering::Release);
        }
    }

    /// Fills this bank with the content of a locked node plus one more slot at `index`.
    pub(super) fn fill_with(&self, from: &BankRef<'_>, index: usize, slot: ArenaOffset, child: NodeId) {
        let count = from.count();
        assert!(index <= count && count < FANOUT, "slot {index} of {count}");
        self.begin(from.level(), count + 1, from.low(), from.high());
        self.bank
            .skip
            .store(from.bank.skip.load(Ordering::Relaxed), Ordering::Relaxed);
        self.copy(from, 0..index, 0);
        self.set(index, slot, child);
        self.copy(from, index..count, index + 1);
    }

    /// Fills this bank with the part of a full, locked node that lies between the given fences
    /// (M1).
    pub(super) fn fill_part(
        &self,
        from: &BankRef<'_>,
        range: Range<usize>,
        (low, high): (ArenaOffset, ArenaOffset),
    ) {
        assert!(
            !range.is_empty() && range.end <= from.count(),
            "a half of a node has keys (M1)"
        );
        debug_assert!(
            high == 0 || self.arena.key(low) < self.arena.key(high),
            "M1: low < high"
        );
        self.begin(from.level(), range.len(), low, high);
        let skip = self.shared_bytes(low, high);
        self.bank.skip.store(skip, Ordering::Relaxed);
        self.copy(from, range.clone(), 0);
        if skip == from.bank.skip.load(Ordering::Relaxed) {
            return;
        }
        for at in 0..range.len() {
            // The first separator of an inner node may be absent or equal to the low fence. All
            // that matters in either case is that its prefix is the lowest.
            let key = self.arena.key(self.bank.slots[at].load(Ordering::Relaxed));
            self.bank.prefixes.0[at].store(prefix(key, skip as usize), Ordering::Relaxed);
        }
    }

    /// Fills this bank as a new root with two children.
    pub(super) fn fill_root(&self, level: u32, left: NodeId, separator: ArenaOffset, right: NodeId) {
        assert!(
            level > 0 && separator != 0 && left != right,
            "a root parts two nodes (M1)"
        );
        self.begin(level, 2, 0, 0);
        self.bank.skip.store(0, Ordering::Relaxed);
        self.set(0, 0, left);
        self.set(1, separator, right);
    }

    /// Returns the number of leading bytes that all keys between two fences share, or 0 if a fence
    /// is absent.
    fn shared_bytes(&self, low: ArenaOffset, high: ArenaOffset) -> u32 {
        if low == 0 || high == 0 {
            return 0;
        }
        let pairs = self.arena.key(low).iter().zip(self.arena.key(high));
        pairs.take_while(|(a, b)| a == b).count() as u32
    }
}

/// Copies an array of atomics element by element in an unrolled loop, because an insertion spends
/// most of its time here.
#[inline(always)]
fn copy<A>(from: &[A], to: &[A], one: impl Fn(&A, &A)) {
    let (from, rest) = from.as_chunks::<4>();
    let (to, other) = to.split_at(from.len() * 4);
    for (from, to) in from.iter().zip(to.as_chunks::<4>().0) {
        for (from, to) in from.iter().zip(to) {
            one(from, to);
        }
    }
    for (from, to) in rest.iter().zip(other) {
        one(from, to);
    }
}

/// Number of bytes of a record to prefetch: the header, the key, and the beginning of the value.
const RECORD_LINES: usize = 192;

/// Returns the eight bytes of a key after its first `skip` bytes, padded with zeros, as an integer
/// that sorts in the same order.
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
