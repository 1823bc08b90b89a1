//! Creates, opens and salvages the dictionaries of a store.

use super::catalog::{self, SecondCatalog};
use super::table::DictionaryTable;
use super::{DictionarySet, HeldWrites};
use crate::error::{Error, Result};
use crate::options::Structure;
use crate::options::kind::{DictionaryId, DictionaryPlace, StructureKind};
use crate::schema::format::{self, KeyspaceId};
use crate::schema::manifest::reachability::{DamageSurvey, lost};
use crate::schema::manifest::{Manifest, ManifestWriter};
use alluvium_base::SequenceNumber;
use alluvium_dictionary::horizon::GcHorizon;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::KeyspaceSchema;
use alluvium_hashes::hashed::{HashedOptions, HashedStructure};
use alluvium_storage::store::Store;
use alluvium_storage::{DiskLocation, OnDiskObject as Kind, PageSize};
use alluvium_trees::levels::{FilterSource, LevelsDictionary, LevelsOptions};
use alluvium_trees::map::{OrderedMap, StructureContext};
use alluvium_trees::paged::{LostKeys, PagedDictionary, PagedOptions};
use alluvium_trees::tiered::{LostRange, TieredTree, TreeOptions, TrunkShape};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// Options for creating and opening a store's dictionaries.
#[derive(Debug)]
pub(in crate::engine) struct DictionaryOptions {
    pub(in crate::engine) shape: TrunkShape,
    /// The kind of filters that levels use.
    pub(in crate::engine) filters: FilterSource,
    pub(in crate::engine) schema: Arc<dyn KeyspaceSchema>,
    /// Size of the buffer of in-place pages, in bytes. It is allocated only if there are such
    /// pages.
    pub(in crate::engine) paged_bytes: usize,
}

impl DictionaryOptions {
    fn home(&self, store: &Arc<Store>) -> StructureContext {
        StructureContext {
            store: Arc::clone(store),
            schema: Arc::clone(&self.schema),
            horizon: Arc::new(GcHorizon::default()),
        }
    }

    fn tree(&self, home: &StructureContext) -> TreeOptions {
        TreeOptions {
            shape: self.shape,
            schema: Arc::clone(&self.schema),
            horizon: Some(Arc::clone(&home.horizon)),
            ..TreeOptions::default()
        }
    }

    /// Returns the options of the hashed structure. A merge writes a run for each partition, so
    /// there are at most as many partitions as there are pages in a memtable. There are at least
    /// two.
    fn hashed(&self) -> HashedOptions {
        let pages = (self.shape.memtable / PageSize::MIN.bytes() as u64).max(1);
        let options = HashedOptions::default();
        HashedOptions {
            parts_log: (pages.ilog2() as u8).clamp(1, options.parts_log),
            ..options
        }
    }

    fn levels(&self) -> LevelsOptions {
        LevelsOptions {
            unit_bytes: self.shape.memtable,
            filters: self.filters,
            ..LevelsOptions::default()
        }
    }
}

impl DictionarySet {
    /// Creates the dictionaries of a new store.
    pub(in crate::engine) fn create(store: &Arc<Store>, how: &DictionaryOptions) -> DictionarySet {
        let home = how.home(store);
        let tree = TieredTree::create(Arc::clone(store), how.tree(&home));
        DictionarySet::assemble(home, tree, ManifestWriter::default(), how)
    }

    /// Opens the dictionaries listed in the durable manifest, except those that this version does
    /// not know; see [`DictionarySet::require_known`].
    pub(in crate::engine) fn open(store: &Arc<Store>, how: &DictionaryOptions) -> Result<DictionarySet> {
        let (keeper, manifest) = ManifestWriter::open(store)?;
        let (home, cut) = (how.home(store), store.superblock().cut);
        let tree = match root_of(&manifest, StructureKind::Tiered)? {
            Some(root) => TieredTree::open(Arc::clone(store), how.tree(&home), root, cut)?,
            None => TieredTree::create(Arc::clone(store), how.tree(&home)),
        };
        let mut dictionaries = DictionarySet::assemble(home, tree, keeper, how);
        dictionaries.second_catalog.set(manifest.catalog.clone());
        dictionaries.time_ms = manifest.time_ms;
        dictionaries.with_others(&manifest, cut, &DamageSurvey::default())
    }

    /// Like [`DictionarySet::open`], but for damaged dictionaries. Also returns the lost key ranges
    /// and descriptions of the repairs.
    pub(in crate::engine) fn open_salvaged(
        store: &Arc<Store>,
        how: &DictionaryOptions,
        mut surveyed: DamageSurvey,
    ) -> Result<(DictionarySet, Vec<LostRange>, Vec<String>)> {
        let (keeper, manifest) = ManifestWriter::open(store)?;
        let (home, cut) = (how.home(store), store.superblock().cut);
        let root = root_of(&manifest, StructureKind::Tiered)?;
        let (tree, mut lost, mut mended) = match (surveyed.tree.take(), root) {
            (Some(salvage), root) => {
                let root = root.expect("what is salvaged has a root");
                TieredTree::open_salvaged(store, how.tree(&home), salvage, root, cut)?
            }
            (None, Some(root)) => {
                let tree = TieredTree::open(Arc::clone(store), how.tree(&home), root, cut)?;
                (tree, Vec::new(), Vec::new())
            }
            (None, None) => {
                let tree = TieredTree::create(Arc::clone(store), how.tree(&home));
                (tree, Vec::new(), Vec::new())
            }
        };
        lost.extend(
            surveyed
                .map
                .iter()
                .chain(&surveyed.levels)
                .chain(&surveyed.hashed)
                .chain(&surveyed.hashed_runs)
                .cloned(),
        );
        let mut dictionaries = DictionarySet::assemble(home, tree, keeper, how);
        dictionaries.second_catalog.set(manifest.catalog.clone());
        dictionaries.time_ms = manifest.time_ms;
        if lost
            .iter()
            .any(|lost| !lost.range.intersect(&catalog::range()).is_empty())
        {
            dictionaries.second_catalog.replace_first();
        }
        let (lost_pages, has_lost_pages) = dictionaries.salvage_pages(&manifest, cut)?;
        if !has_lost_pages && !lost_pages.is_empty() {
            mended.push("pages that could not be read were replaced by empty ones".to_owned());
        }
        lost.extend(lost_pages.iter().flat_map(|lost| in_pages(&manifest, lost)));
        surveyed.has_lost_pages = has_lost_pages;
        if surveyed.hashed_filters > 0 {
            mended.push(format!(
                "{} routing filters of hashed keyspaces could not be opened and were dropped; merges write them again",
                surveyed.hashed_filters
            ));
        }
        let is_used = |id: &DictionaryId| manifest.keyspaces.values().any(|of| of == id);
        let unused = surveyed.discarded.iter().filter(|id| !is_used(id)).count();
        if unused > 0 {
            mended.push(format!(
                "{unused} dictionaries that no keyspace uses could not be opened and were dropped"
            ));
        }
        let dictionaries = dictionaries.with_others(&manifest, cut, &surveyed)?;
        Ok((dictionaries, lost, mended))
    }

    fn assemble(
        home: StructureContext,
        tree: TieredTree,
        manifest: ManifestWriter,
        how: &DictionaryOptions,
    ) -> DictionarySet {
        DictionarySet {
            home,
            tree,
            map: OnceLock::new(),
            levels: DictionaryTable::default(),
            hashed: DictionaryTable::default(),
            paged: OnceLock::new(),
            volatile: OnceLock::new(),
            levels_options: how.levels(),
            hashed_options: how.hashed(),
            paged_bytes: how.paged_bytes,
            aside: Mutex::default(),
            has_aside: AtomicBool::new(false),
            has_left_damage: false,
            held: Mutex::default(),
            left: Mutex::default(),
            placed: RwLock::default(),
            unused: Mutex::default(),
            publishing: Mutex::default(),
            second_catalog: SecondCatalog::default(),
            time_ms: 0,
            manifest,
            unknown: Vec::new(),
        }
    }

    /// Opens the dictionaries other than the tree that a manifest lists. Levels or a map that have
    /// lost a key range are discarded entirely. A hashed structure is discarded unless it has lost
    /// only runs or filters.
    fn with_others(
        mut self,
        manifest: &Manifest,
        cut: SequenceNumber,
        surveyed: &DamageSurvey,
    ) -> Result<DictionarySet> {
        self.open_levels(manifest, cut, surveyed)?;
        self.open_hashed(manifest, cut, surveyed)?;
        self.require_different()?;
        self.open_pages(manifest, cut, surveyed)?;
        if root_of(manifest, StructureKind::Paged)?.is_none() {
            self.note_unlisted_pages()?;
        }
        if let Some(root) = root_of(manifest, StructureKind::Map)? {
            let map = match surveyed.discarded.contains(&StructureKind::Map.dictionary()) {
                false => OrderedMap::open(self.home.clone(), root, cut)?,
                true => OrderedMap::create(self.home.clone(), cut),
            };
            self.map.set(map).expect("it was not made before");
        }
        let placed = self.placed.get_mut();
        for (&keyspace, &id) in &manifest.keyspaces {
            match DictionaryPlace::of(id) {
                // The manifest usually omits keyspaces that are in the tree.
                Some(DictionaryPlace::TREE) => {}
                Some(place)
                    if manifest
                        .entry(id)
                        .is_some_and(|entry| entry.kind == place.structure.kind()) =>
                {
                    placed.insert(keyspace, place);
                }
                _ => {}
            }
        }
        let keyspace_in = |id| {
            let mut all = manifest
                .keyspaces
                .iter()
                .filter(|(_, dictionary)| **dictionary == id);
            all.next().map(|(keyspace, _)| *keyspace)
        };
        let unknown = manifest
            .dictionaries
            .iter()
            .filter(|entry| StructureKind::of(entry.kind).is_none());
        self.unknown = unknown
            .map(|entry| (entry.clone(), keyspace_in(entry.id)))
            .collect();
        Ok(self)
    }

    /// Opens the in-place pages, unless they were lost or have already been salvaged.
    fn open_pages(
        &mut self,
        manifest: &Manifest,
        cut: SequenceNumber,
        surveyed: &DamageSurvey,
    ) -> Result<()> {
        if let Some(root) = root_of(manifest, StructureKind::Paged)?
            && !surveyed.has_lost_pages
            && self.paged.get().is_none()
        {
            let paged =
                PagedDictionary::open(self.home.clone(), &self.pages(), root, own_cut(manifest, cut))?;
            self.paged.set(paged).expect("they were not made before");
            self.stays_aside(manifest, cut);
        }
        if let Some(behind) = manifest.behind.get(&StructureKind::Paged.dictionary()) {
            *self.held.get_mut() = Some(HeldWrites {
                behind: behind.clone(),
                cut,
                is_aside: self.has_quarantined_pages(),
            });
        }
        Ok(())
    }

    /// Opens all levels except those that are discarded, which are created again for the first
    /// keyspace that uses them.
    fn open_levels(&self, manifest: &Manifest, cut: SequenceNumber, surveyed: &DamageSurvey) -> Result<()> {
        for (place, root) in roots_of(manifest, StructureKind::Levels)? {
            if !surveyed.discarded.contains(&place.id()) {
                let levels = LevelsDictionary::open(self.home.clone(), &self.levels_options, root, cut)?;
                self.levels.set(place.number, levels);
            }
        }
        Ok(())
    }

    /// Opens all hashed structures except those that are discarded. Leaves out their unreadable
    /// runs and filters.
    fn open_hashed(&self, manifest: &Manifest, cut: SequenceNumber, surveyed: &DamageSurvey) -> Result<()> {
        for (place, root) in roots_of(manifest, StructureKind::Hashed)? {
            let (home, options) = (self.home.clone(), &self.hashed_options);
            let hashed = match surveyed.salvaged.contains(&place.id()) {
                _ if surveyed.discarded.contains(&place.id()) => continue,
                false => HashedStructure::open(home, options, root, cut)?,
                true => HashedStructure::open_salvaged(home, options, root, cut)?,
            };
            self.hashed.set(place.number, hashed);
        }
        Ok(())
    }

    /// Fails if two dictionaries with the same structure have the same options (X1).
    fn require_different(&self) -> Result<()> {
        let mut found: HashMap<Structure, DictionaryId> = HashMap::new();
        for (place, _) in self.all() {
            let Some(options) = self.options_of(place) else {
                continue;
            };
            let text = options.to_string();
            if let Some(other) = found.insert(options, place.id()) {
                let expected = format!("one dictionary with the options {text}");
                return corrupt(expected, format!("dictionaries {other} and {}", place.id()));
            }
        }
        Ok(())
    }

    /// Returns the options of the in-place pages.
    pub(super) fn pages(&self) -> PagedOptions {
        PagedOptions {
            buffer_bytes: self.paged_bytes,
            ..PagedOptions::default()
        }
    }

    /// Opens as much of damaged in-place pages as possible. If nothing can be opened, new pages are
    /// created for the first keyspace that uses them. Returns the lost key ranges, and whether the
    /// pages were lost entirely.
    fn salvage_pages(&self, manifest: &Manifest, cut: SequenceNumber) -> Result<(Vec<LostRange>, bool)> {
        let Some(root) = root_of(manifest, StructureKind::Paged)? else {
            return Ok((Vec::new(), false));
        };
        match PagedDictionary::open_salvaged(self.home.clone(), &self.pages(), root, own_cut(manifest, cut)) {
            Ok((paged, lost)) => {
                self.paged.set(paged).expect("they were not made before");
                let lost = lost
                    .into_iter()
                    .map(|LostKeys { range, what }| LostRange { range, what });
                Ok((lost.collect(), false))
            }
            Err(error @ alluvium_storage::Error::Corrupt { .. }) => {
                let entry = manifest.entry(StructureKind::Paged.dictionary());
                let entry = entry.expect("it has a root");
                Ok((lost(manifest, entry, &error), true))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Fails if the store has a dictionary whose structure this version does not know. `name_of`
    /// returns a keyspace's name for the error message.
    pub(in crate::engine) fn require_known(
        &self,
        name_of: impl Fn(KeyspaceId) -> Option<String>,
    ) -> Result<()> {
        let Some((entry, keyspace)) = self.unknown.first() else {
            return Ok(());
        };
        let name = keyspace.and_then(name_of);
        Err(Error::UnknownStructure {
            keyspace: name.unwrap_or_else(|| match keyspace {
                Some(number) => format!("(name unknown, number {number})"),
                None => format!("(name unknown, dictionary {})", entry.id),
            }),
            kind: entry.kind,
        })
    }
}

/// Returns the sequence number up to which the in-place pages contain all commits.
fn own_cut(manifest: &Manifest, cut: SequenceNumber) -> SequenceNumber {
    let behind = manifest.behind.get(&StructureKind::Paged.dictionary());
    behind.map_or(cut, |behind| behind.cut.min(cut))
}

/// Splits a lost key range at the boundaries of paged keyspaces, and returns the parts inside these
/// keyspaces.
fn in_pages(manifest: &Manifest, lost: &LostRange) -> Vec<LostRange> {
    let id = StructureKind::Paged.dictionary();
    let own = manifest.keyspaces.iter().filter(|(_, of)| **of == id);
    let ranges = own.map(|(&keyspace, _)| {
        let all = KeyRange::new(&format::prefix(keyspace), Some(&format::prefix(keyspace + 1)));
        lost.range.intersect(&all)
    });
    let some = ranges.filter(|range| !range.is_empty());
    some.map(|range| LostRange {
        range,
        what: lost.what.clone(),
    })
    .collect()
}

/// Returns the roots in the manifest of all dictionaries with this structure, with their places.
fn roots_of(manifest: &Manifest, structure: StructureKind) -> Result<Vec<(DictionaryPlace, &[u8])>> {
    let (first, kind) = (structure.dictionary(), structure.kind());
    let of_kind = manifest.dictionaries.iter().filter(|entry| entry.kind == kind);
    let roots = of_kind.map(|entry| match DictionaryPlace::of(entry.id) {
        Some(place) if place.structure == structure => Ok((place, &entry.root[..])),
        _ => {
            let expected = match structure.has_several() {
                true => {
                    format!("structures of kind {kind} only as dictionary {first} or a multiple of 256 more")
                }
                false => format!("structures of kind {kind} only as dictionary {first}"),
            };
            corrupt(expected, format!("dictionary {}", entry.id))
        }
    });
    roots.collect()
}

/// Returns the root in the manifest of the only dictionary with this structure, or `None` if the
/// manifest does not list it.
fn root_of(manifest: &Manifest, structure: StructureKind) -> Result<Option<&[u8]>> {
    roots_of(manifest, structure)?;
    let id = structure.dictionary();
    let kind = structure.kind();
    match manifest.entry(id) {
        Some(entry) if entry.kind == kind => Ok(Some(&entry.root)),
        None if structure == StructureKind::Tiered && !manifest.dictionaries.is_empty() => {
            corrupt("a tree as dictionary 0".to_owned(), "none".to_owned())
        }
        Some(other) if structure == StructureKind::Tiered => corrupt(
            "a tree as dictionary 0".to_owned(),
            format!("kind {}", other.kind),
        ),
        _ => Ok(None),
    }
}

pub(super) fn corrupt<T>(expected: String, found: String) -> Result<T> {
    let place = DiskLocation::new(Kind::Superblock, "the manifest", 0);
    Err(alluvium_storage::Error::corrupt(place, expected, found).into())
}
