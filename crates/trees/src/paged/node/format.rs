//! The node format of a paged tree, version 1. All integers are little-endian.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  1: leaf; 2: node with a buffer; 3: node without; 4: messages that
//!                  do not fit into a node; 255: a free page
//!      1     1  level: 0 for leaves
//!      2     2  pairs of a leaf, else pivots
//!      4     2  messages
//!      6     2  most pivots of a node that is divided in its own way, else 0
//!      8     8  the first child of a node that is no leaf
//!     16        an array of pairs, or of pivots with the child behind each
//!               an array of messages, in a node with a buffer
//! ```
//!
//! An array with space for c entries, whose keys have up to k bytes and values up to v bytes:
//!
//! ```text
//! OFFSET  SIZE             MEANING
//!      0     10 c          directory, in the order of keys, each: the first 8 bytes of the
//!                          key as a number, the first byte highest (8), the slot (2)
//!   10 c     (5 + k + v) c slots, each: length of the key (2), of the value (2), action of a
//!                          message, else 0 (1), key (k), value (v)
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::layout::{CHILD, NodeShape};
use super::message::{MessageAction, NodeMessage};

/// Size of a node's header in bytes.
pub(super) const HEADER: usize = 16;
const ENTRY: usize = 10;
const SLOT_HEADER: usize = 5;
const COUNT_AT: usize = 2;
const BUFFERED_AT: usize = 4;
const OWN_AT: usize = 6;
const _: () = assert!(
    BUFFERED_AT < OWN_AT && OWN_AT + 2 <= HEADER - CHILD,
    "the first child ends the header"
);

/// What a page contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageContentKind {
    /// A leaf, which contains key-value pairs.
    Leaf,
    /// An inner node with a buffer: pivots, children and messages.
    Buffered,
    /// An inner node without a buffer: pivots and children.
    Wide,
    /// Messages that do not fit into a node (see `structure`).
    Apart,
    Free,
}

/// Returns the size in bytes of an array with this capacity.
pub(super) fn table_bytes(capacity: usize, key_limit: usize, value_limit: usize) -> usize {
    capacity * (ENTRY + SLOT_HEADER + key_limit + value_limit)
}

/// An array's position within a node, its capacity, and its length limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeArray {
    count_at: usize,
    at: usize,
    capacity: usize,
    key_limit: usize,
    value_limit: usize,
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.map_or(0, |found| usize::from(u16::from_le_bytes(*found)))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.map_or(0, |found| u64::from_le_bytes(*found))
}

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    let place = bytes.get_mut(at..at + what.len());
    assert!(
        place.is_some(),
        "{} bytes at {at} are inside of a node",
        what.len()
    );
    if let Some(place) = place {
        place.copy_from_slice(what);
    }
}

/// Returns the first eight bytes of a key as a number. These numbers sort in key order.
fn head_of(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => key
            .iter()
            .rev()
            .fold(0, |head, byte| head >> 8 | u64::from(*byte) << 56),
    }
}

impl NodeArray {
    /// Returns the array of a leaf's pairs or of an inner node's pivots.
    pub(super) fn primary(capacity: usize, key_limit: usize, value_limit: usize) -> NodeArray {
        NodeArray {
            count_at: COUNT_AT,
            at: HEADER,
            capacity,
            key_limit,
            value_limit,
        }
    }

    /// Returns the array of an inner node's messages, which begins at offset `at`.
    pub(super) fn secondary(capacity: usize, key_limit: usize, value_limit: usize, at: usize) -> NodeArray {
        assert!(at >= HEADER, "arrays are behind the header");
        NodeArray {
            count_at: BUFFERED_AT,
            at,
            capacity,
            key_limit,
            value_limit,
        }
    }

    /// Returns the offset of the end of the array within the node.
    #[must_use]
    pub fn end(&self) -> usize {
        self.at + table_bytes(self.capacity, self.key_limit, self.value_limit)
    }

    /// Returns the number of entries that the array has space for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of entries in the array.
    #[must_use]
    pub fn len(&self, node: &[u8]) -> usize {
        u16_at(node, self.count_at).min(self.capacity)
    }

    /// Returns the maximum number of children that receive messages in one flush: ⌈(n + 1) / 2⌉ for
    /// a node with space for n pivots.
    #[must_use]
    pub fn most_addressed(&self) -> usize {
        let most = (self.capacity + 1).div_ceil(2);
        assert!(
            most <= self.capacity.div_ceil(2),
            "one split suffices for a flush (PN4)"
        );
        most
    }

    /// Returns whether the array is empty.
    #[must_use]
    pub fn is_empty(&self, node: &[u8]) -> bool {
        self.len(node) == 0
    }

    /// Returns the number of entries that can still be added.
    #[must_use]
    pub fn free(&self, node: &[u8]) -> usize {
        self.capacity - self.len(node)
    }

    fn set_len(&self, node: &mut [u8], len: usize) {
        assert!(len <= self.capacity, "{len} entries fit into {}", self.capacity);
        put(node, self.count_at, &(len as u16).to_le_bytes());
    }

    fn slot_bytes(&self) -> usize {
        SLOT_HEADER + self.key_limit + self.value_limit
    }

    fn entry(&self, at: usize) -> usize {
        self.at + at * ENTRY
    }

    fn slot_at(&self, slot: usize) -> usize {
        self.at + self.capacity * ENTRY + slot * self.slot_bytes()
    }

    fn slot(&self, node: &[u8], at: usize) -> usize {
        self.slot_at(u16_at(node, self.entry(at) + 8).min(self.capacity.saturating_sub(1)))
    }

    fn slot_key<'n>(&self, node: &'n [u8], slot: usize) -> &'n [u8] {
        let len = u16_at(node, slot).min(self.key_limit);
        node.get(slot + SLOT_HEADER..slot + SLOT_HEADER + len)
            .unwrap_or_default()
    }

    /// Returns the key of an entry.
    #[must_use]
    pub fn key<'n>(&self, node: &'n [u8], at: usize) -> &'n [u8] {
        debug_assert!(at < self.len(node), "entry {at} of {}", self.len(node));
        self.slot_key(node, self.slot(node, at))
    }

    /// Returns the value of an entry.
    #[must_use]
    pub fn value<'n>(&self, node: &'n [u8], at: usize) -> &'n [u8] {
        debug_assert!(at < self.len(node), "entry {at} of {}", self.len(node));
        let slot = self.slot(node, at);
        let (len, from) = (
            u16_at(node, slot + 2).min(self.value_limit),
            slot + SLOT_HEADER + self.key_limit,
        );
        node.get(from..from + len).unwrap_or_default()
    }

    /// Returns the action of an entry. Pairs and pivots have the action `Insert`.
    #[must_use]
    pub fn action(&self, node: &[u8], at: usize) -> MessageAction {
        self.tag(node, at).unwrap_or(MessageAction::Insert)
    }

    /// Returns the action of a message, or `None` for pairs and pivots.
    pub(super) fn tag(&self, node: &[u8], at: usize) -> Option<MessageAction> {
        let number = node.get(self.slot(node, at) + 4).copied().unwrap_or_default();
        MessageAction::of(number)
    }

    /// Returns an entry as a message.
    #[must_use]
    pub fn message<'n>(&self, node: &'n [u8], at: usize) -> NodeMessage<'n> {
        NodeMessage {
            key: self.key(node, at),
            action: self.action(node, at),
            operand: self.value(node, at),
        }
    }

    /// Returns the number of entries whose keys are below `key`, and whether the next entry has
    /// exactly `key`.
    fn search(&self, node: &[u8], key: &[u8]) -> (usize, bool) {
        let head = head_of(key);
        let directory = node.get(self.at..self.entry(self.len(node))).unwrap_or_default();
        let (entries, _) = directory.as_chunks::<ENTRY>();
        let mut found = false;
        let below = entries.partition_point(|entry| {
            let order = u64_at(entry, 0).cmp(&head).then_with(|| {
                let slot = u16_at(entry, 8).min(self.capacity.saturating_sub(1));
                self.slot_key(node, self.slot_at(slot)).cmp(key)
            });
            found |= order.is_eq();
            order.is_lt()
        });
        (below, found)
    }

    /// Returns the index of the entry with the given key.
    ///
    /// # Errors
    /// If there is no such entry, returns the index at which the key would be inserted.
    pub fn find(&self, node: &[u8], key: &[u8]) -> Result<usize, usize> {
        match self.search(node, key) {
            (at, true) => Ok(at),
            (at, false) => Err(at),
        }
    }

    /// Returns the number of entries whose keys are below `key`.
    #[must_use]
    pub fn below(&self, node: &[u8], key: &[u8]) -> usize {
        self.search(node, key).0
    }

    /// Counts the entries in each child's key range, in one pass over both arrays.
    #[must_use]
    pub fn runs(&self, pivots: &NodeArray, node: &[u8]) -> Vec<usize> {
        let of = |table: &NodeArray| {
            let directory = node.get(table.at..table.entry(table.len(node)));
            directory.unwrap_or_default().as_chunks::<ENTRY>().0
        };
        let mut counts = Vec::with_capacity(pivots.len(node) + 1);
        let mut left = of(self);
        for pivot in of(pivots) {
            let head = u64_at(pivot, 0);
            let is_below = |entry: &&[u8; ENTRY]| match u64_at(*entry, 0).cmp(&head) {
                std::cmp::Ordering::Equal => {
                    let slots = [u16_at(*entry, 8), u16_at(pivot, 8)];
                    self.slot_key(node, self.slot_at(slots[0].min(self.capacity)))
                        < pivots.slot_key(node, pivots.slot_at(slots[1].min(pivots.capacity)))
                }
                order => order.is_lt(),
            };
            let run = left.iter().take_while(is_below).count();
            left = left.get(run..).unwrap_or_default();
            counts.push(run);
        }
        counts.push(left.len());
        debug_assert_eq!(
            counts.iter().sum::<usize>(),
            self.len(node),
            "each entry has a child"
        );
        counts
    }

    /// Writes an entry into slot number `slot`.
    fn fill(&self, node: &mut [u8], slot: usize, key: &[u8], value: &[u8], action: u8) {
        assert!(
            key.len() <= self.key_limit && value.len() <= self.value_limit,
            "keys and values fit"
        );
        let at = self.slot_at(slot);
        put(node, at, &(key.len() as u16).to_le_bytes());
        put(node, at + 2, &(value.len() as u16).to_le_bytes());
        put(node, at + 4, &[action]);
        put(node, at + SLOT_HEADER, key);
        put(node, at + SLOT_HEADER + self.key_limit, value);
    }

    /// Inserts an entry at index `at`. The array must have space for it.
    pub fn insert(
        &self,
        node: &mut [u8],
        at: usize,
        key: &[u8],
        value: &[u8],
        action: Option<MessageAction>,
    ) {
        let len = self.len(node);
        assert!(
            at <= len && len < self.capacity,
            "an entry fits into {} of {}",
            len,
            self.capacity
        );
        self.fill(node, len, key, value, action.map_or(0, |action| action as u8));
        let (from, end) = (self.entry(at), self.entry(len));
        if node.len() >= end + ENTRY {
            node.copy_within(from..end, from + ENTRY);
        }
        put(node, from, &head_of(key).to_le_bytes());
        put(node, from + 8, &(len as u16).to_le_bytes());
        self.set_len(node, len + 1);
    }

    /// Replaces the value and the action of an entry.
    pub fn replace(&self, node: &mut [u8], at: usize, value: &[u8], action: Option<MessageAction>) {
        assert!(
            at < self.len(node) && value.len() <= self.value_limit,
            "the entry exists, the value fits"
        );
        let slot = self.slot(node, at);
        put(node, slot + 2, &(value.len() as u16).to_le_bytes());
        put(node, slot + 4, &[action.map_or(0, |action| action as u8)]);
        put(node, slot + SLOT_HEADER + self.key_limit, value);
    }

    /// Removes an entry. The last slot in use moves to the freed slot, so that the used slots stay
    /// contiguous (PN1).
    pub fn remove(&self, node: &mut [u8], at: usize) {
        let len = self.len(node);
        assert!(at < len, "entry {at} of {len}");
        let slot = u16_at(node, self.entry(at) + 8);
        if slot != len - 1 {
            let last = self.slot_at(len - 1);
            let moved = self.below(node, self.slot_key(node, last));
            assert!(
                u16_at(node, self.entry(moved) + 8) == len - 1,
                "the last slot is in the directory (PN1)"
            );
            put(node, self.entry(moved) + 8, &(slot as u16).to_le_bytes());
            let to = self.slot_at(slot);
            if node.len() >= last + self.slot_bytes() {
                node.copy_within(last..last + self.slot_bytes(), to);
            }
        }
        let (from, end) = (self.entry(at), self.entry(len));
        if node.len() >= end {
            node.copy_within(from + ENTRY..end, from);
        }
        self.set_len(node, len - 1);
    }

    /// Removes all entries after the first `len`.
    pub fn truncate(&self, node: &mut [u8], len: usize) {
        while self.len(node) > len {
            self.remove(node, self.len(node) - 1);
        }
        assert!(self.len(node) <= len, "the others are gone");
    }

    /// Moves all entries at index `from` and above to another node, appending them to the same
    /// array there.
    pub fn move_to(&self, node: &mut [u8], from: usize, other: &mut [u8]) {
        for at in from..self.len(node) {
            let (key, value) = (self.key(node, at), self.value(node, at));
            let (len, tag) = (self.len(other), self.tag(node, at));
            self.insert(other, len, key, value, tag);
        }
        self.truncate(node, from);
    }

    /// Checks an array of a node that was read from disk (PN1).
    fn validate(&self, node: &[u8], name: &str) -> Result<(), String> {
        let len = u16_at(node, self.count_at);
        if len > self.capacity {
            return Err(format!("{len} {name}, but only {} fit", self.capacity));
        }
        let mut is_used = vec![false; len];
        for at in 0..len {
            let number = u16_at(node, self.entry(at) + 8);
            match is_used.get_mut(number) {
                Some(used) if !*used => *used = true,
                _ => return Err(format!("slot {number} twice or out of {len} {name}")),
            }
            let slot = self.slot_at(number);
            if u16_at(node, slot) > self.key_limit || u16_at(node, slot + 2) > self.value_limit {
                return Err(format!("{name} that are too long"));
            }
            let key = self.key(node, at);
            if u64_at(node, self.entry(at)) != head_of(key) {
                return Err(format!("a directory of {name} with another key"));
            }
            if at > 0 && self.key(node, at - 1) >= key {
                return Err(format!("{name} out of order"));
            }
        }
        Ok(())
    }
}

/// Returns a node's kind, or `None` if its kind byte is unknown.
pub(in crate::paged) fn kind(node: &[u8]) -> Option<PageContentKind> {
    match node.first()? {
        1 => Some(PageContentKind::Leaf),
        2 => Some(PageContentKind::Buffered),
        3 => Some(PageContentKind::Wide),
        4 => Some(PageContentKind::Apart),
        255 => Some(PageContentKind::Free),
        _ => None,
    }
}

pub(in crate::paged) fn level(node: &[u8]) -> u8 {
    node.get(1).copied().unwrap_or_default()
}

/// Returns the maximum number of pivots that is stored in the node itself, or 0 if the node is
/// divided by the tree's ε.
pub(super) fn own_pivots(node: &[u8]) -> usize {
    u16_at(node, OWN_AT)
}

pub(super) fn set_own_pivots(node: &mut [u8], n: usize) {
    put(node, OWN_AT, &(n as u16).to_le_bytes());
    assert!(own_pivots(node) == n, "numbers of pivots have two bytes");
}

/// Writes the header of a node that has no entries.
pub(in crate::paged) fn set_head(node: &mut [u8], kind: PageContentKind, level: u8) {
    assert!(
        (kind == PageContentKind::Leaf) == (level == 0),
        "leaves are at level 0"
    );
    let number = match kind {
        PageContentKind::Leaf => 1,
        PageContentKind::Buffered => 2,
        PageContentKind::Wide => 3,
        PageContentKind::Apart => 4,
        PageContentKind::Free => 255,
    };
    clear(node);
    put(node, 0, &[number, level]);
}

/// Removes all content of a node by clearing its header.
pub(in crate::paged) fn clear(node: &mut [u8]) {
    put(node, 0, &[0; HEADER]);
}

/// Decodes a pivot's value, which is the page number of its child.
#[must_use]
pub fn child_of_value(value: &[u8]) -> u64 {
    debug_assert_eq!(value.len(), CHILD, "a pivot has a child");
    u64_at(value, 0)
}

/// Returns the value of a pivot that refers to the given child.
#[must_use]
pub fn value_of_child(child: u64) -> [u8; CHILD] {
    child.to_le_bytes()
}

pub(in crate::paged) fn set_first_child(node: &mut [u8], child: u64) {
    put(node, HEADER - CHILD, &child.to_le_bytes());
    assert!(u64_at(node, HEADER - CHILD) == child, "the child is there");
}

impl NodeShape {
    /// Returns the pivot array of an inner node.
    #[must_use]
    pub fn pivots_of(&self, node: &[u8]) -> NodeArray {
        match kind(node) {
            Some(PageContentKind::Buffered) => self.arrays_of(node).0,
            _ => self.wide,
        }
    }

    /// Checks a node that was read from disk (PB5).
    ///
    /// # Errors
    /// Returns a description of the first error found.
    pub fn validate(&self, node: &[u8]) -> Result<(), String> {
        if node.len() != self.content_bytes {
            return Err(format!("{} bytes", node.len()));
        }
        let level = level(node);
        let inner = |table: &NodeArray| {
            table.validate(node, "pivots")?;
            let is_child = |at: usize| table.value(node, at).len() == CHILD;
            if level == 0 || !(0..table.len(node)).all(is_child) {
                return Err("an inner node without children".to_owned());
            }
            Ok(())
        };
        match kind(node) {
            Some(PageContentKind::Free) => Ok(()),
            Some(PageContentKind::Leaf) if level == 0 => self.pairs.validate(node, "pairs"),
            Some(PageContentKind::Wide) => inner(&self.wide),
            Some(PageContentKind::Buffered) => {
                let n = own_pivots(node);
                if n != 0 && self.divided(n).is_none() {
                    return Err(format!("a node with {n} pivots, which none may have"));
                }
                let (pivots, buffer) = self.arrays_of(node);
                inner(&pivots)?;
                buffer.validate(node, "messages")?;
                let all = (0..buffer.len(node)).all(|at| buffer.tag(node, at).is_some());
                all.then_some(()).ok_or_else(|| "an unknown action".to_owned())
            }
            _ => Err(format!("a node of kind {:?} at level {level}", node.first())),
        }
    }
}

/// Returns the index of the child whose range contains a key (PN2), which equals the number of
/// pivots at or below the key.
pub(in crate::paged) fn child_index(table: &NodeArray, node: &[u8], key: &[u8]) -> usize {
    table.find(node, key).map_or_else(|at| at, |at| at + 1)
}

/// Returns the page number of the child at an index.
pub(in crate::paged) fn child_at(table: &NodeArray, node: &[u8], at: usize) -> u64 {
    assert!(
        at <= table.len(node),
        "a node has one child more than pivots (PN2)"
    );
    match at.checked_sub(1) {
        None => u64_at(node, HEADER - CHILD),
        Some(pivot) => child_of_value(table.value(node, pivot)),
    }
}

/// Returns the page number of the child whose range contains a key.
pub(in crate::paged) fn child(shape: &NodeShape, node: &[u8], key: &[u8]) -> u64 {
    let table = shape.pivots_of(node);
    child_at(&table, node, child_index(&table, node, key))
}

/// Adds a pivot with the given key and the child to its right.
pub(in crate::paged) fn add_pivot(shape: &NodeShape, node: &mut [u8], key: &[u8], child: u64) {
    let table = shape.pivots_of(node);
    let place = table.find(node, key);
    assert!(place.is_err(), "pivots differ (PN2)");
    if let Err(at) = place {
        table.insert(node, at, key, &value_of_child(child), None);
    }
}

mod look;
#[cfg(feature = "couplings")]
mod words;
pub(in crate::paged) use look::{ChildLookup, ChildReference, look, reference_at};
#[cfg(feature = "couplings")]
pub(in crate::paged) use words::{NodeWords, look_at};

#[cfg(test)]
mod tests;
