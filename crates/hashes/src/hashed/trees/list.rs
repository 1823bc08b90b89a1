//! Writer of a routing tree list, which is either a node's list of sketches or a digest with the
//! hashes of a leaf or a tree.

use super::hash_layout::MOST_PREFIX_BITS;
use super::{HashLayout, RoutingListDescription, WrittenRoutingList};
use crate::hashed::lists::{PrefixSketch, SketchWriter};
use alluvium_storage::Result;
use alluvium_storage::node::WriterOptions;
use alluvium_storage::store::Store;
use std::sync::Arc;

/// Header of a list, which identifies its kind so that a reader can check that it has opened the
/// right list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListHeader {
    /// How hashes are divided into fields.
    pub cut: HashLayout,
    /// Height of the list's tree, or 0 for a leaf digest.
    pub height: u8,
    /// Number of children of the node, or 0 for a digest.
    pub children: u16,
}

impl ListHeader {
    /// Returns whether this is a node's list rather than a digest.
    #[must_use]
    pub fn is_node(&self) -> bool {
        self.children > 0
    }

    /// Returns the length of the prefix that orders the entries, in bits.
    #[must_use]
    pub fn prefix_bits(&self) -> u32 {
        match (self.is_node(), self.height) {
            (true, height) => self.cut.prefix_bits(height),
            (false, 0) => MOST_PREFIX_BITS,
            // A tree digest is ordered by the prefix that the tree's parent uses.
            (false, height) => self.cut.prefix_bits(height + 1),
        }
    }

    /// Returns the length of a payload in bits. The payload of a node entry is a sketch and a
    /// child, and that of a digest entry is the rest of the hash.
    #[must_use]
    pub fn payload_bits(&self) -> u32 {
        match self.is_node() {
            true => 3 * u32::from(self.cut.character_bits),
            false => self.cut.own_bits() - self.prefix_bits(),
        }
    }

    /// Checks that the fields are valid and consistent.
    ///
    /// # Errors
    /// [`alluvium_storage::Error::BadOption`] if they are not.
    pub fn validate(&self) -> Result<()> {
        let above = u8::from(!self.is_node());
        self.cut.validate(self.height.saturating_add(above))?;
        let most = self.cut.lambda();
        match u32::from(self.children) <= most {
            true => Ok(()),
            false => Err(alluvium_storage::Error::BadOption {
                option: "routing tree",
                why: format!("{} children, where λ is {most}", self.children),
            }),
        }
    }

    /// Returns the list entry for a hash. In a node's list, `child` is the index of the child that
    /// contains the hash. In a digest, it is ignored.
    #[must_use]
    pub fn entry(&self, hash: u64, child: usize) -> PrefixSketch {
        let prefix = self.cut.first(hash, self.prefix_bits());
        let payload = match self.is_node() {
            true => self.cut.sketch(hash, self.height) | (child as u64) << (2 * self.cut.character_bits),
            false => hash & ((1 << self.payload_bits()) - 1),
        };
        PrefixSketch { prefix, payload }
    }

    /// Returns the hash that a digest entry represents, without its skipped bits.
    #[must_use]
    pub fn hash(&self, entry: PrefixSketch) -> u64 {
        entry.prefix << self.payload_bits() | entry.payload
    }
}

/// Writer of a list, whose space is freed if it is dropped before it is finished.
#[derive(Debug)]
pub struct RoutingListWriter {
    store: Arc<Store>,
    options: WriterOptions,
    head: ListHeader,
    sketches: SketchWriter,
}

impl RoutingListWriter {
    /// Starts a list of about `expected` entries.
    ///
    /// # Errors
    /// If the header is invalid, or if the store accepts no changes because of an earlier I/O
    /// error.
    pub fn new(
        store: &Arc<Store>,
        options: WriterOptions,
        head: ListHeader,
        expected: u64,
    ) -> Result<RoutingListWriter> {
        head.validate()?;
        let bits = (head.prefix_bits(), head.payload_bits());
        Ok(RoutingListWriter {
            store: Arc::clone(store),
            options,
            head,
            sketches: SketchWriter::new(store, options, bits, expected)?,
        })
    }

    /// Returns the list's header.
    #[must_use]
    pub fn head(&self) -> ListHeader {
        self.head
    }

    /// Returns the number of entries appended so far.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.sketches.entries()
    }

    /// Appends an entry, whose prefix must not be less than the previous one.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    pub fn push(&mut self, entry: PrefixSketch) -> Result<()> {
        self.sketches.push(entry)
    }

    /// Writes the remaining entries and the description. `hidden` is the number of entries that
    /// probably belong to superseded records.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    pub fn finish(self, hidden: u64) -> Result<WrittenRoutingList> {
        let entries = self.sketches.entries();
        let meta = RoutingListDescription {
            head: self.head,
            entries,
            hidden: hidden.min(entries),
            listing: self.sketches.finish()?,
        };
        WrittenRoutingList::describe(&self.store, self.options, meta)
    }
}
