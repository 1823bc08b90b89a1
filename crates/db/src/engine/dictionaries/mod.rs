//! The dictionaries of an open store: which keyspace is in which, and the manifest that lists them.
//!
//! *Knows*: which structures the store has, in which of them a keyspace is, and what is asked of
//! all of them together.
//!
//! *Does not know*: how a structure keeps its keys, and when memtables are sealed.
//!
//! *Read in this order*: this file (what there is, and how each is reached), `open.rs` (how they
//! are created, opened and salvaged), `mend.rs` (damaged leaves), `place.rs` (which keyspace is in
//! which), `aside.rs` (pages in which damage was met), `take.rs` (how a memtable or a load becomes
//! part of them), `cut.rs` (how a checkpoint takes them), `catalog.rs` (the second copy of the
//! catalog), `held.rs` (what there is beside the extents), `volatile.rs` (what the log does not
//! get).
//!
//! A structure is added here: a field, an arm in `Dictionaries::get`, in `place.rs` and in
//! `open.rs`, and a variant of `readers.rs`. Its numbers and names are in `crate::structure`.
//!
//! Invariants:
//!
//! - **X1** Dictionary 0 is the tree. A store has at most one dictionary of each structure.
//! - **X2** At every cut, a commit is in all the dictionaries that it is about, or in none.

mod aside;
pub(super) mod catalog;
mod cut;
mod held;
mod mend;
mod open;
mod place;
mod take;
mod volatile;

pub(super) use aside::Held as HeldWrites;
pub(super) use cut::Begun;
pub(super) use open::How;
pub(super) use take::Taking;
pub(super) use volatile::Kept;

use crate::Result;
use crate::format::KeyspaceId;
use crate::manifest::{Entry, Keeper};
use crate::structure::Structure;
use alluvium_base::Sequence;
use alluvium_dictionary::contract::{Dictionary, Ingest};
use alluvium_dictionary::horizon::Horizon;
use alluvium_dictionary::rules::Schema;
use alluvium_hashes::hashed::{Hashed, HashedOptions, HashedStats};
use alluvium_storage::extents::Class;
use alluvium_trees::levels::{Levels, LevelsOptions};
use alluvium_trees::map::{Home, Map};
use alluvium_trees::paged::Paged;
use alluvium_trees::tiered::Tree;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use super::readers::{Reader, StructureRef};
use aside::SetAside;
use catalog::SecondCatalog;
use held::Left;
use volatile::Volatile;

/// The dictionaries of an open store.
#[derive(Debug)]
pub(crate) struct Dictionaries {
    home: Home,
    /// Keeps the catalog, and every keyspace that is nowhere else.
    pub(crate) tree: Tree,
    /// Made for the first keyspace in it.
    map: OnceLock<Map>,
    /// Made for the first keyspace in it.
    levels: OnceLock<Levels>,
    /// Made for the first keyspace in it.
    hashed: OnceLock<Hashed>,
    volatile: OnceLock<Volatile>,
    paged: OnceLock<Paged>,
    /// Memory for their pages.
    paged_bytes: usize,
    /// The pages that take no more, and whether there are any.
    aside: Mutex<Option<SetAside>>,
    has_aside: AtomicBool,
    /// Whether the durable generation lists damaged pages that no keyspace is in.
    pub(in crate::engine) has_left_damage: bool,
    /// Writes that pages had not taken when the durable generation was made, until the owner has a
    /// memtable for them.
    held: Mutex<Option<HeldWrites>>,
    /// What is there of pages that no keyspace is in.
    left: Mutex<Left>,
    /// How levels are built, but for what their first keyspace says.
    levels_options: LevelsOptions,
    /// How the hashed structure is built, but for the index that its first keyspace says.
    hashed_options: HashedOptions,
    /// Keyspaces that are not in the tree.
    placed: RwLock<BTreeMap<KeyspaceId, Structure>>,
    /// Held while a memtable becomes part of all dictionaries, one after the other, and while a
    /// checkpoint takes their cuts.
    publishing: Mutex<()>,
    /// The catalog's records as of the cut, beside those in the tree.
    pub(in crate::engine) second_catalog: SecondCatalog,
    /// The time that readers had read by when the durable generation was made.
    pub(in crate::engine) time_ms: u64,
    /// Lists them at every checkpoint.
    pub(in crate::engine) manifest: Keeper,
    /// Those that the durable manifest lists and this version cannot open, with a keyspace in each:
    /// the store is refused.
    unknown: Vec<(Entry, Option<KeyspaceId>)>,
}

impl Dictionaries {
    /// Returns a structure, if the store has it.
    #[inline]
    fn get(&self, structure: Structure) -> Option<StructureRef<'_>> {
        Some(match structure {
            Structure::Tiered => StructureRef::Tiered(&self.tree),
            Structure::Map => StructureRef::Map(self.map.get()?),
            Structure::Levels => StructureRef::Levels(self.levels.get()?),
            Structure::Hashed => StructureRef::Hashed(self.hashed.get()?),
            Structure::Paged => StructureRef::Paged(self.paged.get()?),
            Structure::Volatile => StructureRef::Map(&self.volatile.get()?.map),
        })
    }

    /// Returns a structure of which a keyspace is known.
    #[inline]
    pub(in crate::engine) fn structure(&self, structure: Structure) -> StructureRef<'_> {
        self.get(structure).expect("it was made for its first keyspace")
    }

    pub(in crate::engine) fn of(&self, structure: Structure) -> &dyn Dictionary {
        self.structure(structure).dictionary()
    }

    /// Each of them, the tree first.
    pub(in crate::engine) fn all(&self) -> impl Iterator<Item = (Structure, &dyn Dictionary)> {
        let all = Structure::ALL.into_iter();
        all.filter_map(|structure| Some((structure, self.get(structure)?.dictionary())))
    }

    /// The levels, of which a keyspace is known.
    pub(crate) fn levels(&self) -> &Levels {
        self.levels
            .get()
            .expect("they were made for their first keyspace")
    }

    /// The hashed structure, of which a keyspace is known.
    pub(crate) fn hashed(&self) -> &Hashed {
        self.hashed.get().expect("it was made for its first keyspace")
    }

    /// The pages, of which a keyspace is known.
    pub(crate) fn paged(&self) -> &Paged {
        self.paged.get().expect("they were made for their first keyspace")
    }

    /// Sets the class of space that maintenance asks for.
    pub(in crate::engine) fn set_space_class(&self, class: Class) {
        self.all()
            .for_each(|(_, dictionary)| dictionary.set_space_class(class));
    }

    /// Returns whether a step is under way or due.
    pub(crate) fn has_pending_work(&self) -> bool {
        self.all().any(|(_, dictionary)| dictionary.has_pending_work())
    }

    /// Returns how many bytes of free space a compaction takes that frees some, about, beyond those
    /// of a few memtables.
    pub(in crate::engine) fn freeing_bytes(&self) -> u64 {
        self.hashed.get().map_or(0, Hashed::merge_bytes)
    }

    /// Has merges of hashed keyspaces take the deletes that wait for them. Returns whether there
    /// are any that no merge was asked to take before.
    pub(in crate::engine) fn want_deletes_merged(&self) -> bool {
        self.hashed.get().is_some_and(Hashed::want_deletes_merged)
    }

    /// Limits what scans hold between their calls, all of them together. Each structure has the
    /// same part.
    pub(in crate::engine) fn limit_scans(&self, bytes: u64) {
        let levels = self.levels.get();
        let part = bytes / (1 + u64::from(levels.is_some()));
        self.tree.limit_scans(part);
        if let Some(levels) = levels {
            levels.limit_scans(part);
        }
    }

    /// Returns how many steps are due, as far as writers that do them themselves must know.
    pub(crate) fn overdue_steps(&self) -> usize {
        self.all().map(|(_, dictionary)| dictionary.overdue_steps()).sum()
    }

    /// Returns how many runs a lookup may meet, in percent of what there should be at most.
    pub(crate) fn read_amplification_percent(&self) -> u64 {
        let all = self.all();
        let percent = all.map(|(_, dictionary)| dictionary.read_amplification_percent());
        percent.max().unwrap_or(0)
    }

    /// What the hashed structure holds; none if there is none.
    pub(crate) fn hashed_stats(&self) -> Option<HashedStats> {
        self.hashed.get().map(Hashed::stats)
    }

    /// Every commit up to this one is in all of them.
    pub(crate) fn cut(&self) -> Sequence {
        let tree = self.tree.cut();
        self.live()
            .fold(tree, |cut, (_, dictionary)| cut.min(dictionary.cut()))
    }

    /// What may be forgotten.
    pub(crate) fn horizon(&self) -> &Horizon {
        &self.home.horizon
    }

    /// How the records of each keyspace are kept.
    pub(in crate::engine) fn schema(&self) -> &Arc<dyn Schema> {
        &self.home.schema
    }

    /// Bytes of memory that they take.
    pub(in crate::engine) fn memory_bytes(&self) -> u64 {
        self.all()
            .map(|(_, dictionary)| dictionary.load().memory_bytes)
            .sum()
    }

    /// Steps that are due or under way.
    pub(in crate::engine) fn steps(&self) -> u64 {
        self.live().map(|(_, dictionary)| dictionary.load().steps).sum()
    }

    /// Begins to load records into a structure.
    pub(in crate::engine) fn ingest(&self, structure: Structure, class: Class) -> Result<Box<dyn Ingest>> {
        if structure == Structure::Paged {
            self.require_pages(|| "of this ingest".to_owned())?;
        }
        Ok(self.of(structure).ingest(class)?)
    }

    /// A reader of what a structure holds now. A read that needs memtables loads their list before.
    #[inline]
    pub(in crate::engine) fn reader(&self, structure: Structure) -> Reader<'_> {
        self.structure(structure).reader()
    }
}
