//! The dictionaries of an open store, the mapping from keyspaces to dictionaries, and the manifest
//! that lists the dictionaries.
//!
//! *Scope*: which structures (kinds of dictionaries) the store has, which structure each keyspace
//! uses, and operations on all dictionaries together.
//!
//! *Must not depend on*: how a structure stores its keys, and when memtables are sealed.
//!
//! To add a structure, add a field here, an arm in `DictionarySet::get`, arms in `placement.rs` and
//! `open.rs`, and a variant in `readers.rs`. `crate::options::kind` defines each structure's number
//! and name.
//!
//! Invariants:
//!
//! - **X1** Dictionary 0 is the tree. A store has at most one dictionary of each structure.
//! - **X2** At every cut (sequence number of a checkpoint), a commit is either in all dictionaries
//!   to which it writes, or in none of them.

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
    /// The tree, which contains the catalog and every keyspace that is not in another structure.
    pub(crate) tree: TieredTree,
    /// The ordered map, created for the first keyspace that uses it.
    map: OnceLock<OrderedMap>,
    /// The levels, created for the first keyspace that uses them.
    levels: OnceLock<LevelsDictionary>,
    /// The hashed structure, created for the first keyspace that uses it.
    hashed: OnceLock<HashedStructure>,
    volatile: OnceLock<VolatileMap>,
    paged: OnceLock<PagedDictionary>,
    /// Size of the buffer of `paged`, in bytes.
    paged_bytes: usize,
    /// The in-place pages while they are quarantined and accept no writes. `has_aside` tells
    /// whether they are.
    aside: Mutex<Option<QuarantinedPages>>,
    has_aside: AtomicBool,
    /// Whether the durable generation lists damaged pages that no keyspace uses.
    pub(in crate::engine) has_left_damage: bool,
    /// The writes that the in-place pages had not received when the durable generation was made.
    /// `None` once the engine has put them into a memtable.
    held: Mutex<Option<HeldWrites>>,
    /// State of in-place pages that no keyspace uses any more.
    left: Mutex<UnusedPages>,
    /// Options of the levels. Those that the first keyspace determines are left at their defaults.
    levels_options: LevelsOptions,
    /// Options of the hashed structure. Its form, index and seed, which the first keyspace
    /// determines, are left at their defaults.
    hashed_options: HashedOptions,
    /// The structure of each keyspace that is not in the tree.
    placed: RwLock<BTreeMap<KeyspaceId, StructureKind>>,
    /// Held while the dictionaries publish a memtable one after the other, and while a checkpoint
    /// collects their roots.
    publishing: Mutex<()>,
    /// The second copy of the catalog's records, as recent as the dictionaries.
    pub(in crate::engine) second_catalog: SecondCatalog,
    /// The latest time that any reader had compared to expiry times when the durable generation was
    /// made, in milliseconds since 1970.
    pub(in crate::engine) time_ms: u64,
    /// Writes the manifest at every checkpoint.
    pub(in crate::engine) manifest: ManifestWriter,
    /// Dictionaries in the durable manifest whose structure this version does not know, each with
    /// one of its keyspaces, if it has any. Opening the store fails unless this list is empty.
    unknown: Vec<(DictionaryEntry, Option<KeyspaceId>)>,
}

impl DictionarySet {
    /// Returns the dictionary with this structure, or `None` if the store has none.
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

    /// Returns the dictionary with this structure, which some keyspace must use.
    #[inline]
    pub(in crate::engine) fn structure(&self, structure: StructureKind) -> StructureRef<'_> {
        self.get(structure).expect("it was made for its first keyspace")
    }

    pub(in crate::engine) fn of(&self, structure: StructureKind) -> &dyn Dictionary {
        self.structure(structure).dictionary()
    }

    /// Returns all dictionaries of the store, starting with the tree.
    pub(in crate::engine) fn all(&self) -> impl Iterator<Item = (StructureKind, &dyn Dictionary)> {
        let all = StructureKind::ALL.into_iter();
        all.filter_map(|structure| Some((structure, self.get(structure)?.dictionary())))
    }

    /// Returns the levels, which some keyspace must use.
    pub(crate) fn levels(&self) -> &LevelsDictionary {
        self.levels
            .get()
            .expect("they were made for their first keyspace")
    }

    /// Returns the hashed structure, which some keyspace must use.
    pub(crate) fn hashed(&self) -> &HashedStructure {
        self.hashed.get().expect("it was made for its first keyspace")
    }

    /// Returns the in-place pages, which some keyspace must use.
    pub(crate) fn paged(&self) -> &PagedDictionary {
        self.paged.get().expect("they were made for their first keyspace")
    }

    /// Sets the space class that maintenance allocates from.
    pub(in crate::engine) fn set_space_class(&self, class: AllocationClass) {
        self.all()
            .for_each(|(_, dictionary)| dictionary.set_space_class(class));
    }

    /// Returns whether a maintenance step is due or running in any dictionary.
    pub(crate) fn has_pending_work(&self) -> bool {
        self.all().any(|(_, dictionary)| dictionary.has_pending_work())
    }

    /// Returns approximately how many bytes of free space a compaction needs in order to free
    /// space. Callers must add a few memtables.
    pub(in crate::engine) fn freeing_bytes(&self) -> u64 {
        self.hashed.get().map_or(0, HashedStructure::merge_bytes)
    }

    /// Makes merges of hashed keyspaces include pending deletes. Returns whether this covers any
    /// deletes that no merge was asked to include before.
    pub(in crate::engine) fn want_deletes_merged(&self) -> bool {
        self.hashed
            .get()
            .is_some_and(HashedStructure::want_deletes_merged)
    }

    /// Sets the maximum memory that all scans together retain between calls, in bytes. It is
    /// divided evenly among the structures whose scans retain memory.
    pub(in crate::engine) fn limit_scans(&self, bytes: u64) {
        let levels = self.levels.get();
        let part = bytes / (1 + u64::from(levels.is_some()));
        self.tree.limit_scans(part);
        if let Some(levels) = levels {
            levels.limit_scans(part);
        }
    }

    /// Returns the number of due steps that determines how writers are throttled if there are no
    /// background threads.
    pub(crate) fn overdue_steps(&self) -> usize {
        self.all().map(|(_, dictionary)| dictionary.overdue_steps()).sum()
    }

    /// Returns the highest read amplification of all dictionaries, in percent of its limit.
    pub(crate) fn read_amplification_percent(&self) -> u64 {
        let all = self.all();
        let percent = all.map(|(_, dictionary)| dictionary.read_amplification_percent());
        percent.max().unwrap_or(0)
    }

    /// Returns the statistics of the hashed structure, or `None` if there is none.
    pub(crate) fn hashed_stats(&self) -> Option<HashedStats> {
        self.hashed.get().map(HashedStructure::stats)
    }

    /// Returns the sequence number up to which all dictionaries contain all commits.
    pub(crate) fn cut(&self) -> SequenceNumber {
        let tree = self.tree.cut();
        self.live()
            .fold(tree, |cut, (_, dictionary)| cut.min(dictionary.cut()))
    }

    /// Returns the horizon, which determines the versions that compactions may discard.
    pub(crate) fn horizon(&self) -> &GcHorizon {
        &self.home.horizon
    }

    /// Returns the rules that apply to the records of each keyspace.
    pub(in crate::engine) fn schema(&self) -> &Arc<dyn KeyspaceSchema> {
        &self.home.schema
    }

    /// Returns the memory of all dictionaries, in bytes.
    pub(in crate::engine) fn memory_bytes(&self) -> u64 {
        self.all()
            .map(|(_, dictionary)| dictionary.pending_work().memory_bytes)
            .sum()
    }

    /// Returns the number of due or running maintenance steps.
    pub(in crate::engine) fn steps(&self) -> u64 {
        self.live()
            .map(|(_, dictionary)| dictionary.pending_work().steps)
            .sum()
    }

    /// Begins an ingest into the dictionary with this structure. Fails if its pages are
    /// quarantined.
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

    /// Returns a reader of a dictionary's current version. A read that also searches memtables must
    /// load the list of memtables first.
    #[inline]
    pub(in crate::engine) fn reader(&self, structure: StructureKind) -> StructureReader<'_> {
        self.structure(structure).reader()
    }
}
