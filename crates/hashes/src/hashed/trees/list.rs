//! Writing a list: what a node says, or the hashes of a leaf or a tree.

use super::cut::MOST_PREFIX_BITS;
use super::{Cut, Meta, Written};
use crate::hashed::lists::{Sketch, SketchWriter};
use alluvium_storage::Result;
use alluvium_storage::node::WriterOptions;
use alluvium_storage::store::Store;
use std::sync::Arc;

/// What a list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// How its hashes are cut.
    pub cut: Cut,
    /// The height of its tree. A digest of height 0 is of a leaf.
    pub height: u8,
    /// How many children a node has; a digest has none.
    pub children: u16,
}

impl Head {
    /// Returns whether it is of a node.
    #[must_use]
    pub fn is_node(&self) -> bool {
        self.children > 0
    }

    /// Returns the bits of the prefix by which it is in order.
    #[must_use]
    pub fn prefix_bits(&self) -> u32 {
        match (self.is_node(), self.height) {
            (true, height) => self.cut.prefix_bits(height),
            (false, 0) => MOST_PREFIX_BITS,
            // What the parent of the tree needs.
            (false, height) => self.cut.prefix_bits(height + 1),
        }
    }

    /// Returns the bits of what follows a prefix: a sketch and a child, or the rest of a hash.
    #[must_use]
    pub fn payload_bits(&self) -> u32 {
        match self.is_node() {
            true => 3 * u32::from(self.cut.character_bits),
            false => self.cut.own_bits() - self.prefix_bits(),
        }
    }

    /// Fails unless there can be such a list.
    ///
    /// # Errors
    /// [`alluvium_storage::Error::BadOption`].
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

    /// Returns the entry of a hash; of a node, in the child with this number.
    #[must_use]
    pub fn entry(&self, hash: u64, child: usize) -> Sketch {
        let prefix = self.cut.first(hash, self.prefix_bits());
        let payload = match self.is_node() {
            true => self.cut.sketch(hash, self.height) | (child as u64) << (2 * self.cut.character_bits),
            false => hash & ((1 << self.payload_bits()) - 1),
        };
        Sketch { prefix, payload }
    }

    /// Returns the hash of an entry of a digest, without the bits that are skipped.
    #[must_use]
    pub fn hash(&self, entry: Sketch) -> u64 {
        entry.prefix << self.payload_bits() | entry.payload
    }
}

/// A list that is being written. Dropped unfinished, it leaves nothing.
#[derive(Debug)]
pub struct Writer {
    store: Arc<Store>,
    options: WriterOptions,
    head: Head,
    sketches: SketchWriter,
}

impl Writer {
    /// Begins a list of about `expected` entries.
    ///
    /// # Errors
    /// When the store takes no changes.
    pub fn new(store: &Arc<Store>, options: WriterOptions, head: Head, expected: u64) -> Result<Writer> {
        head.validate()?;
        let bits = (head.prefix_bits(), head.payload_bits());
        Ok(Writer {
            store: Arc::clone(store),
            options,
            head,
            sketches: SketchWriter::new(store, options, bits, expected)?,
        })
    }

    /// Returns what it is a list of.
    #[must_use]
    pub fn head(&self) -> Head {
        self.head
    }

    /// Returns how many entries it has.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.sketches.entries()
    }

    /// Appends an entry. Prefixes ascend.
    ///
    /// # Errors
    /// A full disk; as the device says.
    pub fn push(&mut self, entry: Sketch) -> Result<()> {
        self.sketches.push(entry)
    }

    /// Writes what is left, and the description.
    ///
    /// # Errors
    /// A full disk; as the device says.
    pub fn finish(self, hidden: u64) -> Result<Written> {
        let entries = self.sketches.entries();
        let meta = Meta {
            head: self.head,
            entries,
            hidden: hidden.min(entries),
            listing: self.sketches.finish()?,
        };
        Written::describe(&self.store, self.options, meta)
    }
}
