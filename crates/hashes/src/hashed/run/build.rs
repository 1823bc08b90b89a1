//! Writing a run from records in hash order.

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

/// Options of a run to be written.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    pub index: IndexKind,
    /// Logarithm of the inverse false positive rate of the run's filter; `None` for no filter.
    pub filter_bits: Option<u8>,
    /// Seed of key hashes.
    pub seed: u64,
    /// Purpose that writes are accounted to.
    pub purpose: Purpose,
    /// Space class, which determines whether the reserve may be used.
    pub class: AllocationClass,
    /// Tier of the leaves and of separate values and keys. The description, which contains the
    /// index and the filter, is placed with the newest data.
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

/// A run that is written but not yet part of a structure. If it is dropped, its extents are freed.
#[derive(Debug)]
pub struct WrittenHashRun {
    store: Arc<Store>,
    run: Option<HashRun>,
}

/// A message to be written about a key.
#[derive(Clone, Copy, Debug)]
pub struct RunMessage<'m> {
    /// Commit sequence number, relative to the base of the run.
    pub sequence: SequenceNumber,
    pub kind: MessageKind,
    /// Expiry time; 0 means never.
    pub expires_ms: u64,
    pub operand: &'m [u8],
}

/// Writer of a run. If it is dropped unfinished, its space is freed.
#[derive(Debug)]
pub struct HashRunBuilder {
    store: Arc<Store>,
    options: RunOptions,
    page_size: PageSize,
    leaves: PageWriter,
    /// Writer of separate values and keys; created for the first one.
    apart: Option<ValueWriter>,
    draft: HashLeafBuilder,
    /// The last key and its hash.
    key: Vec<u8>,
    hash: u64,
    /// First and last hash of the current leaf.
    bounds: (u64, u64),
    hashes_of_leaves: Vec<(u64, u64)>,
    /// Whether the current leaf has no record yet.
    is_open: bool,
    /// All distinct hashes, if a trie is to be built.
    hashes: Vec<u64>,
    /// Hashes for the filter; `None` without a filter.
    gathered: Option<HashDeltas>,
    meta: RunDescription,
}

impl HashRunBuilder {
    /// Starts a run of at most `most` records.
    ///
    /// # Errors
    /// If the store accepts no changes.
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

    /// Sets the range deletes of the run.
    pub fn delete_ranges(&mut self, deletes: Arc<RangeTombstoneIndex>) {
        self.meta.deletes = deletes;
    }

    /// Returns the number of records.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.meta.records
    }

    /// Adds a message. Messages must be ordered by hash, then by key, then newest first.
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

    /// As [`HashRunBuilder::push`], for a record whose prefix also occurs in an earlier run of its
    /// level.
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

    /// Writes the separate parts of a record.
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

    /// Writes the current leaf, unless it is empty.
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

    /// Writes the remaining data and the description. Returns `None` if there are neither records
    /// nor range deletes.
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
            run: Some(run),
        }))
    }
}

/// An index can fail only because the run has too many records.
#[cold]
fn unfit(error: &alluvium_filters::Error) -> Error {
    Error::BadOption {
        option: "parts",
        why: format!("a run cannot be indexed: {error}"),
    }
}

impl WrittenHashRun {
    /// Returns the run.
    ///
    /// # Panics
    /// If it was installed.
    #[must_use]
    pub fn run(&self) -> &HashRun {
        self.run.as_ref().expect("it was not installed")
    }

    /// Installs the run's extents in the generation in progress.
    ///
    /// # Panics
    /// If it was installed before.
    pub fn install(mut self) -> HashRun {
        let run = self.run.take().expect("it was not installed");
        let extents: Vec<(Extent, u64)> = run.extents().collect();
        self.store.extents().install(&extents);
        run
    }
}

impl Drop for WrittenHashRun {
    fn drop(&mut self) {
        let Some(run) = self.run.take() else { return };
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
