//! Collects children until an index node is full.

use super::format::{self, COLUMNS};
use super::keys::{LeafKeyList, LeafKeys};
use super::{IndexChild, SubtreeSums, ValueUnits};
use crate::run::common_prefix;

/// Maximum number of children of an index node.
const MAX_CHILDREN: usize = 1 << 15;
const _: () = assert!(
    MAX_CHILDREN <= u16::MAX as usize,
    "children are counted in 16 bits"
);

/// The children of the index node that is being filled.
#[derive(Debug)]
pub(in crate::run) struct IndexBuilder {
    level: u8,
    separators: Vec<u8>,
    ends: Vec<u32>,
    children: Vec<IndexChild>,
    /// For each child, the allocation units that contain its separate values.
    lists: Vec<ValueUnits>,
    /// Total number of units in `lists`.
    units: usize,
    /// The children's first and last keys, if the node stores them.
    keys: LeafKeyList,
    prefix: usize,
    range: [(u64, u64); COLUMNS],
}

/// A complete index node that has not been written yet.
#[derive(Debug)]
pub(in crate::run) struct FullIndexNode {
    pub(in crate::run) bytes: Vec<u8>,
    /// The separator of the first child.
    pub(in crate::run) separator: Vec<u8>,
    pub(in crate::run) sums: SubtreeSums,
    pub(in crate::run) begun: bool,
}

impl IndexBuilder {
    pub(in crate::run) fn new(level: u8) -> IndexBuilder {
        assert!(level > 0, "leaves are below level 1");
        IndexBuilder {
            level,
            separators: Vec::new(),
            ends: Vec::new(),
            children: Vec::new(),
            lists: Vec::new(),
            units: 0,
            keys: LeafKeyList::default(),
            prefix: 0,
            range: [(u64::MAX, 0); COLUMNS],
        }
    }

    /// Adds a child. Returns `false` without adding it if the node would exceed `room` bytes. The
    /// first two children are accepted regardless of their size. If the child is a leaf, `units`
    /// lists the allocation units of its separate values, and `keys` has its first and last keys,
    /// which are stored only if they are given for all children.
    pub(in crate::run) fn add(
        &mut self,
        separator: &[u8],
        child: &IndexChild,
        (units, keys): (&ValueUnits, Option<&LeafKeys>),
        room: usize,
    ) -> bool {
        debug_assert!(
            self.level == 1 || (units.is_empty() && keys.is_none()),
            "values and keys belong to leaves (I3)"
        );
        let first = self.children.is_empty();
        let prefix = if first {
            separator.len()
        } else {
            common_prefix(&self.separators[..self.prefix], separator)
        };
        let mut range = self.range;
        for ((low, high), number) in range.iter_mut().zip(format::columns(child)) {
            (*low, *high) = ((*low).min(number), (*high).max(number));
        }
        let count = self.children.len() + 1;
        let listed = self.units + units.list().len();
        let bytes = format::bytes(count, self.separators.len() + separator.len(), prefix, &range)
            + format::list_bytes(count, listed)
            + self.keys.with(keys).bytes();
        if count > 2 && (bytes > room || count > MAX_CHILDREN) {
            return false;
        }
        self.separators.extend_from_slice(separator);
        self.ends.push(self.separators.len() as u32);
        self.children.push(*child);
        self.lists.push(units.clone());
        self.units = listed;
        self.keys.add(keys);
        debug_assert!(
            self.keys.ends.is_empty() || self.keys.ends.len() == 2 * self.children.len(),
            "keys are said of each child or of none (I4)"
        );
        debug_assert!(prefix <= separator.len(), "a separator has the prefix");
        debug_assert_eq!(self.ends.len(), self.children.len(), "a separator each");
        (self.prefix, self.range) = (prefix, range);
        true
    }

    /// Encodes the node and returns it. The builder is empty afterwards.
    pub(in crate::run) fn take(&mut self) -> FullIndexNode {
        assert!(!self.children.is_empty(), "an index node has children");
        let mut bytes = Vec::new();
        format::encode(
            self.level,
            (&self.separators, &self.ends),
            self.prefix,
            &self.children,
            (&self.lists, &self.keys),
            &self.range,
            &mut bytes,
        );
        debug_assert!(
            usize::try_from(self.ends[self.ends.len() - 1]).is_ok_and(|end| end == self.separators.len()),
            "the last separator ends them"
        );
        let mut sums = SubtreeSums::default();
        self.children.iter().for_each(|child| sums += child.sums);
        let full = FullIndexNode {
            bytes,
            separator: self.separators[..self.ends[0] as usize].to_vec(),
            sums,
            begun: self.children[0].begun,
        };
        *self = IndexBuilder::new(self.level);
        full
    }
}
