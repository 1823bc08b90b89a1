//! Collects the first and last key of each leaf. Merges use them to determine exactly which leaves
//! of two runs overlap, without reading leaves.

use super::format::PREFIX_LEN;
use crate::run::common_prefix;

/// The first and the last key of a leaf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::run) struct LeafKeys {
    pub(in crate::run) first: Vec<u8>,
    pub(in crate::run) last: Vec<u8>,
}

/// The keys of the leaves of the node being filled: of all leaves, or of none.
#[derive(Debug, Default)]
pub(super) struct LeafKeyList {
    /// The first and last key of each leaf; the last key is omitted if it equals the first.
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<u32>,
    size: LeafKeySizes,
    /// Whether the keys of some leaf are unknown, so that none are stored.
    is_off: bool,
}

/// The sizes of a node's leaf keys.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeafKeySizes {
    /// Length of the common prefix.
    pub(super) prefix: usize,
    /// Number of stored keys: one or two per leaf.
    count: usize,
    /// Total size of these keys in bytes.
    keys: usize,
    /// Number of ends: two per leaf.
    ends: usize,
}

impl LeafKeySizes {
    /// Returns the size of all keys without the common prefix, in bytes.
    pub(super) fn rest(&self) -> usize {
        self.keys - self.count * self.prefix
    }

    /// Returns the size of an end in bytes.
    pub(super) fn width(&self) -> usize {
        if self.rest() <= usize::from(u16::MAX) {
            2
        } else {
            4
        }
    }

    /// Returns the size in the node in bytes, or 0 if there are no keys.
    pub(super) fn bytes(&self) -> usize {
        match self.ends {
            0 => 0,
            ends => PREFIX_LEN + self.prefix + self.rest() + ends * self.width(),
        }
    }
}

impl LeafKeyList {
    /// Returns the sizes after adding the keys of one more leaf.
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
        // Keys ascend, so the common prefix of the first and the last key is common to all.
        let lowest = if ends == 0 { first } else { &self.bytes[..prefix] };
        LeafKeySizes {
            prefix: common_prefix(lowest, last),
            count: count + if is_one { 1 } else { 2 },
            keys: keys + first.len() + if is_one { 0 } else { last.len() },
            ends: ends + 2,
        }
    }

    /// Adds the keys of a leaf.
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
