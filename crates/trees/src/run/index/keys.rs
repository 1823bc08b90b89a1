//! The first and the last key of each leaf, behind all else in an index node: so that merges tell
//! exactly which leaves of two runs overlap, and read none of them.

use super::Layout;
use super::format::KEY_ENDS;
use crate::run::strings::{Ends, Strings};
use crate::run::{Bad, common_prefix, format};
use alluvium_base::bytes::Writer;

/// The first and the last key of a leaf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::run) struct LeafKeys {
    pub(in crate::run) first: Vec<u8>,
    pub(in crate::run) last: Vec<u8>,
}

/// Bytes of the length of what all keys begin with.
const PREFIX_LEN: usize = 4;

/// The keys of the leaves of the node being filled.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// Of each leaf the first key and the last, which is left out where it is the first.
    bytes: Vec<u8>,
    ends: Vec<u32>,
    size: Size,
}

/// What the keys of a node come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    /// Bytes that all begin with.
    prefix: usize,
    /// Keys that are there: one or two of each leaf.
    count: usize,
    /// Their bytes.
    keys: usize,
    /// Twice the leaves.
    ends: usize,
}

impl Size {
    /// Bytes of all keys, without what all begin with.
    fn rest(&self) -> usize {
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
        let Some(LeafKeys { first, last }) = keys else {
            return self.size;
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
    pub(super) fn add(&mut self, keys: &LeafKeys) {
        self.size = self.with(Some(keys));
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

    /// Leaves whose keys are here.
    pub(super) fn leaves(&self) -> usize {
        self.size.ends / 2
    }

    /// Appends them.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let (prefix, width) = (self.size.prefix, self.size.width());
        Writer::new(out).u32(prefix as u32).bytes(&self.bytes[..prefix]);
        let starts = std::iter::once(&0).chain(&self.ends);
        let mut at = 0;
        let mut parts = Vec::with_capacity(self.ends.len());
        for (&start, &end) in starts.zip(&self.ends) {
            let part = &self.bytes[start as usize..end as usize];
            // A last key that is left out has no prefix to lose.
            let part = if part.is_empty() { part } else { &part[prefix..] };
            at += part.len();
            format::put(out, at as u64, width);
            parts.push(part);
        }
        debug_assert_eq!(at, self.size.rest(), "all keys are written");
        parts.iter().for_each(|part| out.extend_from_slice(part));
    }
}

/// Where the keys are in a node whose keys begin at `at`: what all begin with, and the rest of each.
fn find(bytes: &[u8], at: usize, children: usize) -> Option<(&[u8], Strings)> {
    let prefix = format::get(bytes, at, PREFIX_LEN)? as usize;
    let begin = at + PREFIX_LEN;
    let ends = Ends::Listed {
        at: begin + prefix,
        width: usize::from(*bytes.get(KEY_ENDS)?),
    };
    let Ends::Listed { at: listed, width } = ends else {
        return None;
    };
    let count = 2 * children;
    let strings = Strings {
        count,
        at: listed + count * width,
        len: ends.total(bytes, count)?,
        ends,
    };
    (strings.at + strings.len <= bytes.len()).then_some((bytes.get(begin..listed)?, strings))
}

/// Returns whether keys that begin at `at` lie in their node.
pub(super) fn are_inside(bytes: &[u8], at: usize, children: usize) -> bool {
    find(bytes, at, children).is_some()
}

impl Layout {
    /// The first and the last key of a leaf; none where the node does not say them.
    pub(in crate::run) fn keys(&self, bytes: &[u8], child: usize) -> Result<Option<LeafKeys>, Bad> {
        let Some(at) = self.keys_at else {
            return Ok(None);
        };
        let (prefix, strings) = find(bytes, at, self.children).ok_or(Bad("keys of leaves"))?;
        let whole = |rest: &[u8]| [prefix, rest].concat();
        let first = whole(strings.get(bytes, 2 * child)?);
        let last = match strings.get(bytes, 2 * child + 1)? {
            [] => first.clone(),
            rest => whole(rest),
        };
        if first > last {
            return Err(Bad("a first key that is not above the last"));
        }
        Ok(Some(LeafKeys { first, last }))
    }
}
