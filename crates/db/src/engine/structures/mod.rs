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
//! - **X1** Dictionary 0 is the tree. A store has at most one dictionary of each structure, except
//!   for levels and hashed structures: of these, it has one for each set of options in use.
//! - **X2** At every cut (sequence number of a checkpoint), a commit is either in all dictionaries
//!   to which it writes, or in none of them.
//! - **X3** A keyspace is in the dictionary that has its options. The manifest names the same one.
//! - **X4** A generation lists every dictionary that has data or that a keyspace uses.

pub(super) mod catalog;
mod checkpoint;
mod incorporate;
mod open;
mod placement;
mod quarantine;
mod repair;
mod side_files;
mod table;
mod unused;
mod volatile;

pub(super) use checkpoint::PendingCheckpoint;
pub(super) use incorporate::DictionaryFlush;
pub(super) use open::DictionaryOptions;
pub(super) use quarantine::BacklogReplay as HeldWrites;
pub(super) use volatile::LoggedPart;

use crate::error::Result;
use crate::options::Structure;
use crate::options::kind::{DictionaryPlace, StructureKind};
use crate::schema::format::KeyspaceId;
use crate::schema::manifest::{DictionaryEntry, ManifestWriter};
use alluvium_base::SequenceNumber;
use alluvium_dictionary::contract::{BulkIngest, Dictionary};
use alluvium_dictionary::horizon::GcHorizon;
use alluvium_dictionary::rules::KeyspaceSchema;
use alluvium_hashes::hashed::{HashedOptions, HashedStructure};
use alluvium_storage::extents::AllocationClass;
use alluvium_trees::levels::{LevelsDictionary, LevelsOptions};
use alluvium_trees::map::{OrderedMap, StructureContext};
use alluvium_trees::paged::PagedDictionary;
use alluvium_trees::run_locations::RunPlace;
use alluvium_trees::tiered::TieredTree;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use super::readers::{StructureReader, StructureRef};
use catalog::SecondCatalog;
use quarantine::QuarantinedPages;
use side_files::UnusedPages;
use table::DictionaryTable;
use unused::UnusedDictionaries;
use volatile::VolatileMap;

#[derive(Debug)]
pub(crate) struct DictionarySet {
    home: StructureContext,
    /// The tree, which contains the catalog and every keyspace that is not in another structure.
    pub(crate) tree: TieredTree,
    /// The ordered map, created for the first keyspace that uses it.
    map: OnceLock<OrderedMap>,
    /// The levels, each created for the first keyspace with its options.
    levels: DictionaryTable<LevelsDictionary>,
    /// The hashed structures, each created for the first keyspace with its options.
    hashed: DictionaryTable<HashedStructure>,
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
    /// Options of all levels. Those that keyspaces determine are left at their defaults.
    levels_options: LevelsOptions,
    /// Options of all hashed structures. Their form, index and seed, which keyspaces determine, are
    /// left at their defaults.
    hashed_options: HashedOptions,
    /// The dictionary of each keyspace that is not in the tree.
    placed: RwLock<BTreeMap<KeyspaceId, DictionaryPlace>>,
    unused: Mutex<UnusedDictionaries>,
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
    /// Returns a dictionary, or `None` if the store does not have it.
    #[inline]
    fn get(&self, place: DictionaryPlace) -> Option<StructureRef<'_>> {
        Some(match place.structure {
            StructureKind::Tiered => StructureRef::Tiered(&self.tree),
            StructureKind::Map => StructureRef::Map(self.map.get()?),
            StructureKind::Levels => StructureRef::Levels(self.levels.get(place.number)?),
            StructureKind::Hashed => StructureRef::Hashed(self.hashed.get(place.number)?),
            StructureKind::Paged => StructureRef::Paged(self.paged.get()?),
            StructureKind::Volatile => StructureRef::Map(&self.volatile.get()?.map),
        })
    }

    /// Returns a dictionary, which some keyspace must use.
    #[inline]
    pub(in crate::engine) fn structure(&self, place: DictionaryPlace) -> StructureRef<'_> {
        self.get(place).expect("it was made for its first keyspace")
    }

    pub(crate) fn of(&self, place: DictionaryPlace) -> &dyn Dictionary {
        self.structure(place).dictionary()
    }

    /// Returns all dictionaries of the store in ascending order, starting with the tree.
    pub(in crate::engine) fn all(&self) -> impl Iterator<Item = (DictionaryPlace, &dyn Dictionary)> {
        StructureKind::ALL
            .into_iter()
            .flat_map(|structure| self.places(structure))
            .filter_map(|place| Some((place, self.get(place)?.dictionary())))
    }

    /// Returns where dictionaries with this structure may be, in ascending order.
    fn places(&self, structure: StructureKind) -> impl Iterator<Item = DictionaryPlace> {
        let end = match structure {
            StructureKind::Levels => self.levels.end(),
            StructureKind::Hashed => self.hashed.end(),
            _ => 1,
        };
        let numbers = (0..=u8::MAX).take(end);
        numbers.map(move |number| DictionaryPlace { structure, number })
    }

    /// Returns the dictionary if it is levels.
    pub(crate) fn levels(&self, place: DictionaryPlace) -> Option<&LevelsDictionary> {
        match self.get(place)? {
            StructureRef::Levels(levels) => Some(levels),
            _ => None,
        }
    }

    /// Returns the dictionary if it is a hashed structure.
    pub(crate) fn hashed(&self, place: DictionaryPlace) -> Option<&HashedStructure> {
        match self.get(place)? {
            StructureRef::Hashed(hashed) => Some(hashed),
            _ => None,
        }
    }

    /// Returns the levels and hashed structures that a keyspace uses or that have data, with their
    /// options.
    pub(crate) fn with_options(&self) -> impl Iterator<Item = (DictionaryPlace, Structure)> {
        let listed = self.all().filter(|(place, _)| self.is_listed(*place));
        listed.filter_map(|(place, _)| Some((place, self.options_of(place)?)))
    }

    /// Returns the location of each run of the tree and of levels, with the structure that has it.
    /// Reads nothing from the device.
    pub(crate) fn run_places(&self) -> Vec<(Structure, RunPlace)> {
        let of_tree = self.tree.places().into_iter();
        let mut places: Vec<_> = of_tree.map(|run| (Structure::Tiered, run)).collect();
        for (place, structure) in self.with_options() {
            let runs = self.levels(place).map(LevelsDictionary::places);
            let runs = runs.into_iter().flatten();
            places.extend(runs.map(|run| (structure.clone(), run)));
        }
        places
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
        let needs = self.hashed.all().map(|(_, hashed)| hashed.merge_bytes());
        needs.max().unwrap_or(0)
    }

    /// Makes merges of hashed keyspaces include pending deletes. Returns whether this covers any
    /// deletes that no merge was asked to include before.
    pub(in crate::engine) fn want_deletes_merged(&self) -> bool {
        let all = self.hashed.all();
        all.fold(false, |is_new, (_, hashed)| {
            hashed.want_deletes_merged() || is_new
        })
    }

    /// Sets the maximum memory that all scans together retain between calls, in bytes. It is
    /// divided evenly among the structures whose scans retain memory.
    pub(in crate::engine) fn limit_scans(&self, bytes: u64) {
        let part = bytes / (1 + self.levels.all().count() as u64);
        self.tree.limit_scans(part);
        self.levels.all().for_each(|(_, levels)| levels.limit_scans(part));
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

    /// Begins an ingest into a dictionary. Fails if its pages are quarantined.
    pub(in crate::engine) fn ingest(
        &self,
        place: DictionaryPlace,
        class: AllocationClass,
    ) -> Result<Box<dyn BulkIngest>> {
        if place == DictionaryPlace::PAGES {
            self.require_pages(|| "(the target of this ingest)".to_owned())?;
        }
        Ok(self.of(place).ingest(class)?)
    }

    /// Returns a reader of a dictionary's current version. A read that also searches memtables must
    /// load the list of memtables first.
    #[inline]
    pub(in crate::engine) fn reader(&self, place: DictionaryPlace) -> StructureReader<'_> {
        self.structure(place).reader()
    }
}
