//! Collects the first and last keys of the leaves for an index node. With these, merges can tell
//! exactly which leaves of two runs overlap without reading the leaves.

use super::format::PREFIX_LEN;
use crate::run::common_prefix;

/// The first and last keys of a leaf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::run) struct LeafKeys {
    pub(in crate::run) first: Vec<u8>,
    pub(in crate::run) last: Vec<u8>,
}

/// The first and last keys of the leaves in the current index node. The list has the keys of all
/// leaves, or it is empty.
#[derive(Debug, Default)]
pub(super) struct LeafKeyList {
    /// The concatenated keys. A leaf's last key is omitted if it is equal to the first.
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<u32>,
    size: LeafKeySizes,
    /// Whether the keys of any leaf are unknown. If so, the list is empty.
    is_off: bool,
}

/// The sizes that determine how much space the leaf keys occupy in an index node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeafKeySizes {
    /// Length of the common prefix of all keys.
    pub(super) prefix: usize,
    /// Number of stored keys: one or two for each leaf.
    count: usize,
    /// Total length of the stored keys in bytes.
    keys: usize,
    /// Number of stored ends: two for each leaf.
    ends: usize,
}

impl LeafKeySizes {
    /// Returns the total length in bytes of all keys without their common prefix.
    pub(super) fn rest(&self) -> usize {
        self.keys - self.count * self.prefix
    }

    /// Returns the size in bytes of each stored end.
    pub(super) fn width(&self) -> usize {
        if self.rest() <= usize::from(u16::MAX) {
            2
        } else {
            4
        }
    }

    /// Returns the number of bytes that the keys occupy in the index node, or 0 if there are no
    /// keys.
    pub(super) fn bytes(&self) -> usize {
        match self.ends {
            0 => 0,
            ends => PREFIX_LEN + self.prefix + self.rest() + ends * self.width(),
        }
    }
}

impl LeafKeyList {
    /// Returns the sizes of the list with one more leaf's keys.
    pub(super) fn with(&self, keys: Option<&LeafKeys>) -> LeafKeySizes {
        let Some(LeafKeys { first, last }) = keys.filter(|_| !self.is_off) else {
            return LeafKeySizes::default();
        };
        debug_assert!(first <= last, "the first key of a leaf is not above its last");
        let LeafKeySizes {
            prefix,
            count,
            keys,
            ends,
        } = self.size;
        let is_one = first == last;
        // Keys ascend, so the common prefix of the first and last keys is common to all keys.
        let lowest = if ends == 0 { first } else { &self.bytes[..prefix] };
        LeafKeySizes {
            prefix: common_prefix(lowest, last),
            count: count + if is_one { 1 } else { 2 },
            keys: keys + first.len() + if is_one { 0 } else { last.len() },
            ends: ends + 2,
        }
    }

    /// Adds the keys of a leaf. If they are not given, the list becomes empty and stays empty.
    pub(super) fn add(&mut self, keys: Option<&LeafKeys>) {
        self.size = self.with(keys);
        let Some(keys) = keys.filter(|_| !self.is_off) else {
            self.is_off = true;
            self.bytes.clear();
            self.ends.clear();
            return;
        };
        self.bytes.extend_from_slice(&keys.first);
        self.ends.push(self.bytes.len() as u32);
        if keys.first != keys.last {
            self.bytes.extend_from_slice(&keys.last);
        }
        self.ends.push(self.bytes.len() as u32);
        debug_assert_eq!(self.bytes.len(), self.size.keys, "all keys are counted");
    }

    pub(super) fn size(&self) -> LeafKeySizes {
        self.size
    }
}
