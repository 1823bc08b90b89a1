//! Writes a run from records that arrive in hash order.

use super::hash_deltas::HashDeltas;
use super::{HashRun, RunDescription};
use crate::hashed::index::{LeafIndex, LeafIndexInput};
use crate::hashed::leaf::HashLeafBuilder;
use crate::hashed::leaf::format::{HEADER_BYTES, KeyPart, PointerOffsets, ValuePart};
use crate::hashed::options::IndexKind;
use crate::hashed::pages::{ClaimedExtents, PageList, PageWriter, StoredDescription};
use alluvium_base::{MessageKind, Purpose, SequenceNumber};
use alluvium_dictionary::placement::{self, PlacementRequest};
use alluvium_dictionary::range_tombstones::RangeTombstoneIndex;
use alluvium_dictionary::rules::KeyspaceRules;
use alluvium_dictionary::value_log::{PointerSlot, ValuePlacement, ValuePointer, ValueWriter};
use alluvium_storage::extents::{AllocationClass, Extent};
use alluvium_storage::node::WriterOptions;
use alluvium_storage::store::Store;
use alluvium_storage::{Error, PageSize, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Options for writing a run.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    pub index: IndexKind,
    /// The run's filter has a false positive rate of 2^−`filter_bits`. `None` for no filter.
    pub filter_bits: Option<u8>,
    /// Seed with which the keys were hashed.
    pub seed: u64,
    /// Purpose under which the writes are counted.
    pub purpose: Purpose,
    /// Space class of the allocations, which determines whether they may use the reserve.
    pub class: AllocationClass,
    /// Tier for the leaves, and for separately stored values and keys. The description, which
    /// contains the index and the filter, goes to the tier of the newest data instead.
    pub tier: u8,
}

impl RunOptions {
    fn writer(&self, store: &Store, tier: u8) -> WriterOptions {
        WriterOptions {
            tier,
            ..store.writer_options(self.purpose, self.class)
        }
    }
}

/// A run that has been written but is not part of a structure yet. If it is dropped, its extents
/// are freed.
#[derive(Debug)]
pub struct WrittenHashRun {
    store: Arc<Store>,
    run: HashRun,
    is_installed: AtomicBool,
}

/// A message for a key, to be written to a run.
#[derive(Clone, Copy, Debug)]
pub struct RunMessage<'m> {
    /// Sequence number relative to the run's base, which is the commit sequence number if the base
    /// is 0.
    pub sequence: SequenceNumber,
    pub kind: MessageKind,
    /// Expiry time in milliseconds, or 0 if the message never expires.
    pub expires_ms: u64,
    pub operand: &'m [u8],
}

/// Writer of a run, whose space is freed if it is dropped before it is finished.
#[derive(Debug)]
pub struct HashRunBuilder {
    store: Arc<Store>,
    options: RunOptions,
    page_size: PageSize,
    leaves: PageWriter,
    /// Writer of separately stored values and keys, created when the first of them arrives.
    apart: Option<ValueWriter>,
    draft: HashLeafBuilder,
    /// The most recently pushed key and its hash.
    key: Vec<u8>,
    hash: u64,
    /// First and last hash in the current leaf.
    bounds: (u64, u64),
    hashes_of_leaves: Vec<(u64, u64)>,
    /// Whether the next record starts a new leaf.
    is_open: bool,
    /// All distinct hashes, collected only if the index is a trie.
    hashes: Vec<u64>,
    /// All hashes, from which the filter will be built. `None` if the run has no filter.
    gathered: Option<HashDeltas>,
    meta: RunDescription,
}

impl HashRunBuilder {
    /// Starts a run of at most `most` records.
    ///
    /// # Errors
    /// If the store accepts no changes because of an earlier I/O error, or if `most` hashes are too
    /// many for a filter.
    pub fn new(store: &Arc<Store>, options: &RunOptions, most: u64) -> Result<HashRunBuilder> {
        let gathered = options.filter_bits.map(|bits| HashDeltas::new(bits, most));
        Ok(HashRunBuilder {
            gathered: gathered.transpose().map_err(|error| unfit(&error))?,
            leaves: PageWriter::new(store, options.writer(store, options.tier))?,
            store: Arc::clone(store),
            options: *options,
            page_size: store.page_size(),
            apart: None,
            draft: HashLeafBuilder::default(),
            key: Vec::new(),
            hash: 0,
            bounds: (0, 0),
            hashes_of_leaves: Vec::new(),
            is_open: true,
            hashes: Vec::new(),
            meta: RunDescription {
                pages: PageList::none(store.page_size()),
                index: LeafIndex::PaCHash(Box::default()),
                filter: None,
                deletes: Arc::default(),
                extents: Box::default(),
                records: 0,
                tombstones: 0,
                hashes: 0,
                bytes: 0,
                newest: 0,
            },
        })
    }

    /// Sets the range deletes for the run's description.
    pub fn delete_ranges(&mut self, deletes: Arc<RangeTombstoneIndex>) {
        self.meta.deletes = deletes;
    }

    /// Returns the number of messages pushed.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.meta.records
    }

    /// Appends a message. Messages must arrive ordered by hash, then by key, and those of the same
    /// key from newest to oldest.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    pub fn push(
        &mut self,
        hash: u64,
        key: &[u8],
        message: RunMessage<'_>,
        rules: &KeyspaceRules,
    ) -> Result<()> {
        self.push_after(None, hash, key, message, rules)
    }

    /// Appends a message like [`HashRunBuilder::push`]. If an earlier run of the level contains the
    /// hash prefix of the key, `previous` is the index of that run.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    pub fn push_after(
        &mut self,
        previous: Option<u8>,
        hash: u64,
        key: &[u8],
        message: RunMessage<'_>,
        rules: &KeyspaceRules,
    ) -> Result<()> {
        let is_first = self.meta.records == 0;
        assert!(is_first || self.hash <= hash, "records ascend by hash (R1)");
        let is_same = !is_first && self.hash == hash && self.key == key;
        debug_assert!(
            is_first || self.hash < hash || *self.key <= *key,
            "keys of one hash ascend (R1)"
        );
        let page = self.page_size.bytes();
        let key_is_apart = key.len() > page / 8;
        let most = rules.value_threshold.unwrap_or(page / 4).min(page / 2);
        let value_is_apart = message.operand.len() > most;
        let head = (message.sequence, message.kind, message.expires_ms);
        let value = match value_is_apart {
            true => ValuePart::Apart,
            false => ValuePart::Here(message.operand),
        };
        let named = match key_is_apart {
            true => KeyPart::Apart(hash),
            false => KeyPart::Here(key),
        };
        let short = match is_same && !self.draft.is_empty() {
            true => KeyPart::Same,
            false => named,
        };
        let gaps = match self.draft.push(short, previous, head, value, page) {
            Some(gaps) => gaps,
            None => {
                self.end_leaf()?;
                let pushed = self.draft.push(named, previous, head, value, page);
                pushed.expect("a page has space for a record")
            }
        };
        if self.is_open {
            self.bounds.0 = hash;
        }
        self.bounds.1 = hash;
        self.write_out_of_line(gaps, key, message.operand, rules)?;
        if is_first || self.hash != hash {
            self.meta.hashes += 1;
            if self.options.index == IndexKind::Trie {
                self.hashes.push(hash);
            }
            if let Some(gathered) = &mut self.gathered {
                gathered.push(hash);
            }
        }
        self.meta.records += 1;
        self.meta.tombstones += u64::from(message.kind == MessageKind::Delete);
        self.meta.bytes += (key.len() + message.operand.len()) as u64;
        self.meta.newest = self.meta.newest.max(message.sequence);
        if !is_same {
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        self.hash = hash;
        self.is_open = false;
        Ok(())
    }

    /// Writes those of a record's key and value that are stored separately. `gaps` are the offsets
    /// of their pointers in the leaf.
    fn write_out_of_line(
        &mut self,
        gaps: PointerOffsets,
        key: &[u8],
        value: &[u8],
        rules: &KeyspaceRules,
    ) -> Result<()> {
        let parts = [(gaps.key, key), (gaps.value, value)];
        for (gap, bytes) in parts {
            let Some(gap) = gap else { continue };
            let apart = match &mut self.apart {
                Some(apart) => apart,
                none => {
                    let options = self.options.writer(&self.store, self.options.tier);
                    none.insert(ValueWriter::new(self.store.node_writer(options)?, self.page_size))
                }
            };
            let draft = &mut self.draft;
            let mut fill = |slot: PointerSlot, pointer: ValuePointer| draft.fill(slot.at, &pointer);
            if apart.is_full_for(bytes.len()) {
                apart.close(&mut fill)?;
            }
            apart.nodes().set_codec(rules.codec);
            let slot = PointerSlot { leaf: 0, at: gap };
            if let ValuePlacement::Long(pointer) = apart.add(bytes, slot, &mut |_| ())? {
                fill(slot, pointer);
            }
        }
        Ok(())
    }

    /// Completes and writes the current leaf, unless it is empty.
    fn end_leaf(&mut self) -> Result<()> {
        if self.draft.is_empty() {
            return Ok(());
        }
        if let Some(apart) = &mut self.apart {
            let draft = &mut self.draft;
            apart.close(|slot, pointer| draft.fill(slot.at, &pointer))?;
        }
        let page = self.draft.finish(self.page_size);
        debug_assert!(page.len() > HEADER_BYTES);
        self.leaves.add(&page)?;
        self.hashes_of_leaves.push(self.bounds);
        self.is_open = true;
        Ok(())
    }

    /// Writes the remaining data and the description. Returns `None`, and writes no description, if
    /// there are neither records nor range deletes.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    pub fn finish(mut self) -> Result<Option<WrittenHashRun>> {
        if self.meta.records == 0 && self.meta.deletes.is_empty() {
            return Ok(None);
        }
        self.end_leaf()?;
        let hashes = LeafIndexInput {
            leaves: &self.hashes_of_leaves,
            all: &self.hashes,
        };
        if self.meta.records > 0 {
            let page_bytes = self.page_size.bytes() as u32;
            self.meta.index =
                LeafIndex::build(self.options.index, hashes, page_bytes).map_err(|error| unfit(&error))?;
            let gathered = self.gathered.take();
            let filter = gathered.map(|gathered| gathered.filter());
            self.meta.filter = filter.transpose().map_err(|error| unfit(&error))?;
        }
        let mut claimed = ClaimedExtents::none(&self.store);
        let (pages, extents) = self.leaves.finish()?;
        claimed.extents.extend(extents);
        if let Some(apart) = self.apart.take() {
            claimed.extents.extend(apart.finish()?.extents);
        }
        self.meta.pages = pages;
        self.meta.extents = claimed.extents.clone().into();
        let description = self.meta.encode();
        let tier = placement::tier(&self.store, &PlacementRequest::newest(description.len() as u64));
        let options = self.options.writer(&self.store, tier);
        let described = StoredDescription::write(&self.store, &description, options)?;
        claimed.extents.clear();
        let run = HashRun {
            meta: Arc::new(self.meta),
            base: 0,
            seed: self.options.seed,
            described,
        };
        Ok(Some(WrittenHashRun {
            store: self.store,
            run,
            is_installed: AtomicBool::new(false),
        }))
    }
}

/// Converts an error from building an index or a filter, which can only mean that the run has too
/// many records.
#[cold]
fn unfit(error: &alluvium_filters::Error) -> Error {
    Error::BadOption {
        option: "parts",
        why: format!("a run cannot be indexed: {error}"),
    }
}

impl WrittenHashRun {
    /// Returns the run that was written.
    #[must_use]
    pub fn run(&self) -> &HashRun {
        &self.run
    }

    /// Marks the run's extents as used in the current generation and returns the run.
    ///
    /// # Panics
    /// If the run was already installed.
    pub fn install(&self) -> HashRun {
        let was_installed = self.is_installed.swap(true, Ordering::Relaxed);
        assert!(!was_installed, "a run is installed once");
        let extents: Vec<(Extent, u64)> = self.run.extents().collect();
        self.store.extents().install(&extents);
        self.run.clone()
    }
}

impl Drop for WrittenHashRun {
    fn drop(&mut self) {
        if self.is_installed.load(Ordering::Relaxed) {
            return;
        }
        let run = &self.run;
        for number in 0..run.leaves() {
            if let Ok(pointer) = run.leaf(number) {
                self.store.cache().discard(&pointer);
            }
        }
        for (extent, _) in run.extents() {
            self.store.extents().abandon(extent);
        }
    }
}
