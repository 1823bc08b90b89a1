//! Writing a list: the sketches of a node, or the hashes of a leaf or a tree.

use super::hash_layout::MOST_PREFIX_BITS;
use super::{HashLayout, RoutingListDescription, WrittenRoutingList};
use crate::hashed::lists::{PrefixSketch, SketchWriter};
use alluvium_storage::Result;
use alluvium_storage::node::WriterOptions;
use alluvium_storage::store::Store;
use std::sync::Arc;

/// The kind of a list, by which a reader checks that it is the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListHeader {
    /// How its hashes are cut.
    pub cut: HashLayout,
    /// Height of its tree; 0 for the digest of a leaf.
    pub height: u8,
    /// Number of children of a node; 0 for a digest.
    pub children: u16,
}

impl ListHeader {
    /// Returns whether the list is a node's.
    #[must_use]
    pub fn is_node(&self) -> bool {
        self.children > 0
    }

    /// Returns the length in bits of the prefix by which the list is ordered.
    #[must_use]
    pub fn prefix_bits(&self) -> u32 {
        match (self.is_node(), self.height) {
            (true, height) => self.cut.prefix_bits(height),
            (false, 0) => MOST_PREFIX_BITS,
            // The length that the parent of the tree needs.
            (false, height) => self.cut.prefix_bits(height + 1),
        }
    }

    /// Returns the bits of a payload: a sketch and a child, or the rest of a hash.
    #[must_use]
    pub fn payload_bits(&self) -> u32 {
        match self.is_node() {
            true => 3 * u32::from(self.cut.character_bits),
            false => self.cut.own_bits() - self.prefix_bits(),
        }
    }

    /// Checks the validity of the fields.
    ///
    /// # Errors
    /// [`alluvium_storage::Error::BadOption`] if they are invalid.
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

    /// Returns the entry of a hash. For a node, `child` is the child that contains the hash.
    #[must_use]
    pub fn entry(&self, hash: u64, child: usize) -> PrefixSketch {
        let prefix = self.cut.first(hash, self.prefix_bits());
        let payload = match self.is_node() {
            true => self.cut.sketch(hash, self.height) | (child as u64) << (2 * self.cut.character_bits),
            false => hash & ((1 << self.payload_bits()) - 1),
        };
        PrefixSketch { prefix, payload }
    }

    /// Returns the hash of a digest's entry, without the skipped bits.
    #[must_use]
    pub fn hash(&self, entry: PrefixSketch) -> u64 {
        entry.prefix << self.payload_bits() | entry.payload
    }
}

/// Writer of a list. If it is dropped unfinished, its space is freed.
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
    /// If the store accepts no changes.
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

    /// Returns the kind of the list.
    #[must_use]
    pub fn head(&self) -> ListHeader {
        self.head
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.sketches.entries()
    }

    /// Appends an entry. Prefixes must be ascending.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    pub fn push(&mut self, entry: PrefixSketch) -> Result<()> {
        self.sketches.push(entry)
    }

    /// Writes the remaining data and the description.
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
