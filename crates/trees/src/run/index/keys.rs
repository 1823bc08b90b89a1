//! Collects the first and the last key of each leaf, so that merges tell exactly which leaves of
//! two runs overlap, and read none of them.

use super::format::PREFIX_LEN;
use crate::run::common_prefix;

/// The first and the last key of a leaf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::run) struct LeafKeys {
    pub(in crate::run) first: Vec<u8>,
    pub(in crate::run) last: Vec<u8>,
}

/// The keys of the leaves of the node being filled: of all of them, or of none.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// Of each leaf the first key and the last, which is left out where it is the first.
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<u32>,
    size: Size,
    /// Those of a leaf are not said, and so of none.
    is_off: bool,
}

/// What the keys of a node come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    /// Bytes that all begin with.
    pub(super) prefix: usize,
    /// Keys that are there: one or two of each leaf.
    count: usize,
    /// Their bytes.
    keys: usize,
    /// Twice the leaves.
    ends: usize,
}

impl Size {
    /// Bytes of all keys, without what all begin with.
    pub(super) fn rest(&self) -> usize {
        self.keys - self.count * self.prefix
    }

    /// Bytes of an end.
    pub(super) fn width(&self) -> usize {
        if self.rest() <= usize::from(u16::MAX) {
            2
        } else {
            4
        }
    }

    /// Bytes in the node; none where there are no keys.
    pub(super) fn bytes(&self) -> usize {
        match self.ends {
            0 => 0,
            ends => PREFIX_LEN + self.prefix + self.rest() + ends * self.width(),
        }
    }
}

impl Keys {
    /// Returns what the keys come to with those of one more leaf.
    pub(super) fn with(&self, keys: Option<&LeafKeys>) -> Size {
        let Some(LeafKeys { first, last }) = keys.filter(|_| !self.is_off) else {
            return Size::default();
        };
        debug_assert!(first <= last, "the first key of a leaf is not above its last");
        let Size {
            prefix,
            count,
            keys,
            ends,
        } = self.size;
        let is_one = first == last;
        // Keys ascend: what the first of all and the last of all begin with, all do.
        let lowest = if ends == 0 { first } else { &self.bytes[..prefix] };
        Size {
            prefix: common_prefix(lowest, last),
            count: count + if is_one { 1 } else { 2 },
            keys: keys + first.len() + if is_one { 0 } else { last.len() },
            ends: ends + 2,
        }
    }

    /// Adds those of a leaf.
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

    pub(super) fn size(&self) -> Size {
        self.size
    }
}
