//! The dictionaries of an open store, the assignment of keyspaces to them, and the manifest that
//! lists them.
//!
//! *Scope*: the structures of the store, the structure of each keyspace, and operations on all
//! structures together.
//!
//! *Must not depend on*: how a structure stores its keys, and when memtables are sealed.
//!
//! To add a structure: add a field, an arm in `DictionarySet::get`, in `placement.rs` and in
//! `open.rs`, and a variant in `readers.rs`. Its numbers and names are in `crate::options::kind`.
//!
//! Invariants:
//!
//! - **X1** Dictionary 0 is the tree. A store has at most one dictionary of each structure.
//! - **X2** At every cut, a commit is in all dictionaries that it writes to, or in none.

pub(super) mod catalog;
mod checkpoint;
mod incorporate;
mod open;
mod placement;
mod quarantine;
mod repair;
mod side_files;
mod volatile;

pub(super) use checkpoint::PendingCheckpoint;
pub(super) use incorporate::DictionaryFlush;
pub(super) use open::DictionaryOptions;
pub(super) use quarantine::BacklogReplay as HeldWrites;
pub(super) use volatile::LoggedPart;

use crate::error::Result;
use crate::options::kind::StructureKind;
use crate::schema::format::KeyspaceId;
use crate::schema::manifest::{DictionaryEntry, ManifestWriter};
use alluvium_base::SequenceNumber;
use alluvium_dictionary::contract::{BulkIngest, Dictionary};
use alluvium_dictionary::horizon::GcHorizon;
use alluvium_dictionary::rules::KeyspaceSchema;
use alluvium_hashes::hashed::{HashedOptions, HashedStats, HashedStructure};
use alluvium_storage::extents::AllocationClass;
use alluvium_trees::levels::{LevelsDictionary, LevelsOptions};
use alluvium_trees::map::{OrderedMap, StructureContext};
use alluvium_trees::paged::PagedDictionary;
use alluvium_trees::tiered::TieredTree;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use super::readers::{StructureReader, StructureRef};
use catalog::SecondCatalog;
use quarantine::QuarantinedPages;
use side_files::UnusedPages;
use volatile::VolatileMap;

#[derive(Debug)]
pub(crate) struct DictionarySet {
    home: StructureContext,
    /// Contains the catalog and every keyspace that is not in another structure.
    pub(crate) tree: TieredTree,
    /// Created for its first keyspace.
    map: OnceLock<OrderedMap>,
    /// Created for their first keyspace.
    levels: OnceLock<LevelsDictionary>,
    /// Created for its first keyspace.
    hashed: OnceLock<HashedStructure>,
    volatile: OnceLock<VolatileMap>,
    paged: OnceLock<PagedDictionary>,
    /// Memory of the buffer of `paged`, in bytes.
    paged_bytes: usize,
    /// The quarantined pages, which accept no writes, and whether there are any.
    aside: Mutex<Option<QuarantinedPages>>,
    has_aside: AtomicBool,
    /// Whether the durable generation lists damaged pages that no keyspace uses.
    pub(in crate::engine) has_left_damage: bool,
    /// Writes that the pages had not received when the durable generation was made, until the owner
    /// has made a memtable of them.
    held: Mutex<Option<HeldWrites>>,
    /// State of pages that no keyspace uses.
    left: Mutex<UnusedPages>,
    /// Options of the levels, except those set by their first keyspace.
    levels_options: LevelsOptions,
    /// Options of the hashed structure, except the form, index and seed set for its first keyspace.
    hashed_options: HashedOptions,
    /// Structures of the keyspaces that are not in the tree.
    placed: RwLock<BTreeMap<KeyspaceId, StructureKind>>,
    /// Held while all dictionaries publish a memtable one after the other, and while a checkpoint
    /// takes their cuts.
    publishing: Mutex<()>,
    /// The second copy of the catalog's records, as of the cut.
    pub(in crate::engine) second_catalog: SecondCatalog,
    /// The latest reading time when the durable generation was made.
    pub(in crate::engine) time_ms: u64,
    /// Writes the manifest at every checkpoint.
    pub(in crate::engine) manifest: ManifestWriter,
    /// Dictionaries in the durable manifest that this version cannot open, with a keyspace in each.
    /// If there are any, opening fails.
    unknown: Vec<(DictionaryEntry, Option<KeyspaceId>)>,
}

impl DictionarySet {
    /// Returns a structure, if it exists.
    #[inline]
    fn get(&self, structure: StructureKind) -> Option<StructureRef<'_>> {
        Some(match structure {
            StructureKind::Tiered => StructureRef::Tiered(&self.tree),
            StructureKind::Map => StructureRef::Map(self.map.get()?),
            StructureKind::Levels => StructureRef::Levels(self.levels.get()?),
            StructureKind::Hashed => StructureRef::Hashed(self.hashed.get()?),
            StructureKind::Paged => StructureRef::Paged(self.paged.get()?),
            StructureKind::Volatile => StructureRef::Map(&self.volatile.get()?.map),
        })
    }

    /// Returns a structure that has at least one keyspace.
    #[inline]
    pub(in crate::engine) fn structure(&self, structure: StructureKind) -> StructureRef<'_> {
        self.get(structure).expect("it was made for its first keyspace")
    }

    pub(in crate::engine) fn of(&self, structure: StructureKind) -> &dyn Dictionary {
        self.structure(structure).dictionary()
    }

    /// Returns all dictionaries, the tree first.
    pub(in crate::engine) fn all(&self) -> impl Iterator<Item = (StructureKind, &dyn Dictionary)> {
        let all = StructureKind::ALL.into_iter();
        all.filter_map(|structure| Some((structure, self.get(structure)?.dictionary())))
    }

    /// Returns the levels, which must have a keyspace.
    pub(crate) fn levels(&self) -> &LevelsDictionary {
        self.levels
            .get()
            .expect("they were made for their first keyspace")
    }

    /// Returns the hashed structure, which must have a keyspace.
    pub(crate) fn hashed(&self) -> &HashedStructure {
        self.hashed.get().expect("it was made for its first keyspace")
    }

    /// Returns the pages, which must have a keyspace.
    pub(crate) fn paged(&self) -> &PagedDictionary {
        self.paged.get().expect("they were made for their first keyspace")
    }

    /// Sets the space class that maintenance allocates from.
    pub(in crate::engine) fn set_space_class(&self, class: AllocationClass) {
        self.all()
            .for_each(|(_, dictionary)| dictionary.set_space_class(class));
    }

    /// Returns whether a step is running or due.
    pub(crate) fn has_pending_work(&self) -> bool {
        self.all().any(|(_, dictionary)| dictionary.has_pending_work())
    }

    /// Returns the approximate free space needed by a compaction that frees space, in addition to a
    /// few memtables.
    pub(in crate::engine) fn freeing_bytes(&self) -> u64 {
        self.hashed.get().map_or(0, HashedStructure::merge_bytes)
    }

    /// Makes merges of hashed keyspaces include pending deletes. Returns whether there are deletes
    /// that no merge was yet asked to include.
    pub(in crate::engine) fn want_deletes_merged(&self) -> bool {
        self.hashed
            .get()
            .is_some_and(HashedStructure::want_deletes_merged)
    }

    /// Limits the memory that all scans together hold between calls. It is divided evenly between
    /// the structures with such scans.
    pub(in crate::engine) fn limit_scans(&self, bytes: u64) {
        let levels = self.levels.get();
        let part = bytes / (1 + u64::from(levels.is_some()));
        self.tree.limit_scans(part);
        if let Some(levels) = levels {
            levels.limit_scans(part);
        }
    }

    /// Returns the number of due steps for the throttling of writers without background threads.
    pub(crate) fn overdue_steps(&self) -> usize {
        self.all().map(|(_, dictionary)| dictionary.overdue_steps()).sum()
    }

    /// Returns the read amplification in percent of its limit.
    pub(crate) fn read_amplification_percent(&self) -> u64 {
        let all = self.all();
        let percent = all.map(|(_, dictionary)| dictionary.read_amplification_percent());
        percent.max().unwrap_or(0)
    }

    /// Returns the statistics of the hashed structure, if it exists.
    pub(crate) fn hashed_stats(&self) -> Option<HashedStats> {
        self.hashed.get().map(HashedStructure::stats)
    }

    /// Returns the last commit up to which all commits are in all dictionaries.
    pub(crate) fn cut(&self) -> SequenceNumber {
        let tree = self.tree.cut();
        self.live()
            .fold(tree, |cut, (_, dictionary)| cut.min(dictionary.cut()))
    }

    /// Returns the horizon below which versions may be discarded.
    pub(crate) fn horizon(&self) -> &GcHorizon {
        &self.home.horizon
    }

    /// Returns the record rules of each keyspace.
    pub(in crate::engine) fn schema(&self) -> &Arc<dyn KeyspaceSchema> {
        &self.home.schema
    }

    /// Returns the memory of all dictionaries in bytes.
    pub(in crate::engine) fn memory_bytes(&self) -> u64 {
        self.all()
            .map(|(_, dictionary)| dictionary.pending_work().memory_bytes)
            .sum()
    }

    /// Returns the number of steps due or running.
    pub(in crate::engine) fn steps(&self) -> u64 {
        self.live()
            .map(|(_, dictionary)| dictionary.pending_work().steps)
            .sum()
    }

    /// Begins an ingest into a structure.
    pub(in crate::engine) fn ingest(
        &self,
        structure: StructureKind,
        class: AllocationClass,
    ) -> Result<Box<dyn BulkIngest>> {
        if structure == StructureKind::Paged {
            self.require_pages(|| "(the target of this ingest)".to_owned())?;
        }
        Ok(self.of(structure).ingest(class)?)
    }

    /// Returns a reader of the current state of a structure. A read that includes memtables must
    /// load their list first.
    #[inline]
    pub(in crate::engine) fn reader(&self, structure: StructureKind) -> StructureReader<'_> {
        self.structure(structure).reader()
    }
}
