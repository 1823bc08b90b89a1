//! The dictionaries of an open store: which keyspace is in which, and the manifest that lists them.

use crate::catalog::Definition;
use crate::format::{self, KeyspaceId};
use crate::levels_options;
use crate::manifest::files::Surveyed;
use crate::manifest::{Entry, Keeper, Manifest};
use crate::structure::Structure;
use crate::{Error, Result};
use alluvium_base::Sequence;
use alluvium_dictionary::contract::{Dictionary, Incorporate, Ingest, Lookup, Ordered};
use alluvium_dictionary::horizon::Horizon;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtables::Memtables;
use alluvium_dictionary::merge::Direction;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::Schema;
use alluvium_dictionary::share::Share;
use alluvium_storage::extents::Class;
use alluvium_storage::store::{Checkpoint, Store};
use alluvium_storage::{Place, Structure as Kind};
use alluvium_trees::levels::{Levels, LevelsOptions};
use alluvium_trees::map::{Home, Map};
use alluvium_trees::tiered::{Lost, Shape, Tree, TreeOptions};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::readers::{Reader, Scan};

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
    /// How levels are built, but for what their first keyspace says.
    levels_options: LevelsOptions,
    /// Keyspaces that are not in the tree.
    placed: RwLock<BTreeMap<KeyspaceId, Structure>>,
    /// Held while a memtable becomes part of all dictionaries, one after the other, and while a
    /// checkpoint takes their cuts.
    publishing: Mutex<()>,
    /// Lists them at every checkpoint.
    pub(super) manifest: Keeper,
    /// Those that the durable manifest lists and this version cannot open, with a keyspace in each:
    /// the store is refused.
    unknown: Vec<(Entry, Option<KeyspaceId>)>,
}

/// How the dictionaries of a store are opened.
#[derive(Debug)]
pub(super) struct How {
    pub(super) shape: Shape,
    pub(super) schema: Arc<dyn Schema>,
}

/// A cut of all dictionaries that is not durable yet.
#[derive(Debug)]
pub(super) struct Begun<'d> {
    pub(super) checkpoint: Checkpoint<'d>,
    /// What the superblock is to say.
    pub(super) payload: Vec<u8>,
    /// The last commit in it.
    pub(super) at: Sequence,
}

/// The share of a memtable on its way into one of the dictionaries.
#[derive(Debug)]
pub(super) struct Taking {
    pub(super) share: Box<dyn Incorporate>,
    pub(super) is_published: bool,
}

impl How {
    fn home(&self, store: &Arc<Store>) -> Home {
        Home {
            store: Arc::clone(store),
            schema: Arc::clone(&self.schema),
            horizon: Arc::new(Horizon::default()),
        }
    }

    fn tree(&self, home: &Home) -> TreeOptions {
        TreeOptions {
            shape: self.shape,
            schema: Arc::clone(&self.schema),
            horizon: Some(Arc::clone(&home.horizon)),
            ..TreeOptions::default()
        }
    }

    fn levels(&self) -> LevelsOptions {
        LevelsOptions {
            unit_bytes: self.shape.memtable,
            ..LevelsOptions::default()
        }
    }
}

impl Dictionaries {
    /// The dictionaries of a store that has just been created.
    pub(super) fn create(store: &Arc<Store>, how: &How) -> Dictionaries {
        let home = how.home(store);
        let tree = Tree::create(Arc::clone(store), how.tree(&home));
        Dictionaries::assemble(home, tree, Keeper::default(), how.levels())
    }

    /// Opens the dictionaries that the durable manifest lists, as far as this version knows them:
    /// see [`Dictionaries::require_known`].
    pub(super) fn open(store: &Arc<Store>, how: &How) -> Result<Dictionaries> {
        let (keeper, manifest) = Keeper::open(store)?;
        let (home, cut) = (how.home(store), store.superblock().cut);
        let tree = match root_of(&manifest, Structure::Tiered)? {
            Some(root) => Tree::open(Arc::clone(store), how.tree(&home), root, cut)?,
            None => Tree::create(Arc::clone(store), how.tree(&home)),
        };
        let dictionaries = Dictionaries::assemble(home, tree, keeper, how.levels());
        dictionaries.with_others(&manifest, cut, &Surveyed::default())
    }

    /// As [`Dictionaries::open`], where some are damaged. Says what it did about that.
    pub(super) fn open_salvaged(
        store: &Arc<Store>,
        how: &How,
        mut surveyed: Surveyed,
    ) -> Result<(Dictionaries, Vec<Lost>, Vec<String>)> {
        let (keeper, manifest) = Keeper::open(store)?;
        let (home, cut) = (how.home(store), store.superblock().cut);
        let root = root_of(&manifest, Structure::Tiered)?;
        let (tree, mut lost, mended) = match (surveyed.tree.take(), root) {
            (Some(salvage), root) => {
                let root = root.expect("what is salvaged has a root");
                Tree::open_salvaged(store, how.tree(&home), salvage, root, cut)?
            }
            (None, Some(root)) => {
                let tree = Tree::open(Arc::clone(store), how.tree(&home), root, cut)?;
                (tree, Vec::new(), Vec::new())
            }
            (None, None) => {
                let tree = Tree::create(Arc::clone(store), how.tree(&home));
                (tree, Vec::new(), Vec::new())
            }
        };
        lost.extend(surveyed.map.iter().chain(&surveyed.levels).cloned());
        let dictionaries = Dictionaries::assemble(home, tree, keeper, how.levels());
        let dictionaries = dictionaries.with_others(&manifest, cut, &surveyed)?;
        Ok((dictionaries, lost, mended))
    }

    fn assemble(home: Home, tree: Tree, manifest: Keeper, levels: LevelsOptions) -> Dictionaries {
        Dictionaries {
            home,
            tree,
            map: OnceLock::new(),
            levels: OnceLock::new(),
            levels_options: levels,
            placed: RwLock::default(),
            publishing: Mutex::default(),
            manifest,
            unknown: Vec::new(),
        }
    }

    /// The same with what a manifest lists beside the tree. Of what something is lost, all is.
    fn with_others(
        mut self,
        manifest: &Manifest,
        cut: Sequence,
        surveyed: &Surveyed,
    ) -> Result<Dictionaries> {
        // Lost levels are made again for the first keyspace that is in them.
        if let Some(root) = root_of(manifest, Structure::Levels)?.filter(|_| surveyed.levels.is_empty()) {
            let levels = Levels::open(self.home.clone(), &self.levels_options, root, cut)?;
            self.levels.set(levels).expect("they were not made before");
        }
        if let Some(root) = root_of(manifest, Structure::Map)? {
            let map = match surveyed.map.is_empty() {
                true => Map::open(self.home.clone(), root, cut)?,
                false => Map::create(self.home.clone(), cut),
            };
            self.map.set(map).expect("it was not made before");
        }
        let structure_of = |id| {
            Structure::ALL
                .into_iter()
                .find(|structure| structure.dictionary() == id)
        };
        let placed = self.placed.get_mut();
        for (&keyspace, &id) in &manifest.keyspaces {
            match structure_of(id) {
                // What is in the tree is not listed, as a rule.
                Some(Structure::Tiered) => {}
                Some(structure)
                    if manifest
                        .entry(id)
                        .is_some_and(|entry| entry.kind == structure.kind()) =>
                {
                    placed.insert(keyspace, structure);
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
            .filter(|entry| Structure::of(entry.kind).is_none());
        self.unknown = unknown
            .map(|entry| (entry.clone(), keyspace_in(entry.id)))
            .collect();
        Ok(self)
    }

    /// Fails if there is a dictionary that this version does not know. `name_of` says what a
    /// keyspace is called.
    pub(super) fn require_known(&self, name_of: impl Fn(KeyspaceId) -> Option<String>) -> Result<()> {
        let Some((entry, keyspace)) = self.unknown.first() else {
            return Ok(());
        };
        let name = keyspace.and_then(name_of);
        Err(Error::UnknownStructure {
            keyspace: name.unwrap_or_else(|| match keyspace {
                Some(number) => format!("number {number}"),
                None => format!("in dictionary {}", entry.id),
            }),
            kind: entry.kind,
        })
    }

    /// Fails unless a keyspace that the durable generation has is in the dictionary of its
    /// structure, as the manifest says.
    pub(super) fn require_placed(&self, keyspace: KeyspaceId, structure: Structure) -> Result<()> {
        let of_manifest = self.placed.read().get(&keyspace).copied();
        let listed = of_manifest.unwrap_or(Structure::Tiered);
        if listed == structure {
            return Ok(());
        }
        let expected = format!(
            "keyspace {keyspace} in dictionary {}, as the catalog says",
            structure.dictionary()
        );
        corrupt(expected, format!("in dictionary {}", listed.dictionary()))
    }

    /// A keyspace is in its structure. It is told before anything can be written to the keyspace.
    pub(crate) fn place(&self, definition: &Definition) -> Result<()> {
        let _publishing = self.publishing.lock();
        // No commit so far is about its keys.
        let cut = self.tree.cut();
        match definition.structure {
            Structure::Tiered => {
                self.placed.write().remove(&definition.id);
                return Ok(());
            }
            Structure::Levels => {
                let asked = options_of(definition);
                if self.levels.get().is_none() {
                    let options = self.levels_options.clone().with_policy(asked.policy.clone());
                    let options = options.with_stitching(asked.stitching());
                    let made = Levels::create(self.home.clone(), options, cut)?;
                    self.levels.get_or_init(|| made);
                }
                let has = self.levels().options();
                if (&has.policy, has.stitching) != (&asked.policy, asked.stitching()) {
                    return Err(Error::OptionsDiffer {
                        keyspace: definition.name(),
                        option: "options of all levels of this store",
                        has: format!("{}{}", has.policy, has.stitching),
                        asked: asked.to_string(),
                    });
                }
            }
            Structure::Map => {
                self.map.get_or_init(|| Map::create(self.home.clone(), cut));
            }
        }
        self.placed.write().insert(definition.id, definition.structure);
        Ok(())
    }

    /// Forgets where keyspaces were that there are not: no memtable has anything about them.
    pub(super) fn forget_others(&self, is_there: impl Fn(KeyspaceId) -> bool) {
        self.placed.write().retain(|&keyspace, _| is_there(keyspace));
    }

    /// Each of them.
    pub(super) fn all(&self) -> impl Iterator<Item = (Structure, &dyn Dictionary)> {
        let map = self.map.get().map(|map| (Structure::Map, map as &dyn Dictionary));
        let levels = self.levels.get();
        let levels = levels.map(|levels| (Structure::Levels, levels as &dyn Dictionary));
        let tree = (Structure::Tiered, &self.tree as &dyn Dictionary);
        std::iter::once(tree).chain(map).chain(levels)
    }

    pub(super) fn of(&self, structure: Structure) -> &dyn Dictionary {
        match structure {
            Structure::Tiered => &self.tree,
            Structure::Levels => self.levels(),
            Structure::Map => self.map(),
        }
    }

    /// The map, of which a keyspace is known.
    pub(super) fn map(&self) -> &Map {
        self.map.get().expect("it was made for its first keyspace")
    }

    /// The levels, of which a keyspace is known.
    pub(crate) fn levels(&self) -> &Levels {
        self.levels
            .get()
            .expect("they were made for their first keyspace")
    }

    /// Has compactions ask for space of this class.
    pub(super) fn compact_from(&self, class: Class) {
        self.tree.compact_from(class);
        if let Some(levels) = self.levels.get() {
            levels.compact_from(class);
        }
    }

    /// Returns whether a compaction is under way or due.
    pub(super) fn may_compact(&self) -> bool {
        let levels = self.levels.get();
        self.tree.may_compact() || levels.is_some_and(Levels::may_compact)
    }

    /// Every commit up to this one is in all of them.
    pub(crate) fn cut(&self) -> Sequence {
        let tree = self.tree.cut();
        self.all()
            .fold(tree, |cut, (_, dictionary)| cut.min(dictionary.cut()))
    }

    /// What may be forgotten.
    pub(crate) fn horizon(&self) -> &Horizon {
        &self.home.horizon
    }

    /// How the records of each keyspace are kept.
    pub(super) fn schema(&self) -> &Arc<dyn Schema> {
        &self.home.schema
    }

    /// Bytes of memory that they take.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.all()
            .map(|(_, dictionary)| dictionary.load().memory_bytes)
            .sum()
    }

    /// Steps that are due or under way.
    pub(super) fn steps(&self) -> u64 {
        self.all().map(|(_, dictionary)| dictionary.load().steps).sum()
    }

    /// The keys of a structure, ascending.
    fn keys_of(&self, structure: Structure) -> Arc<[KeyRange]> {
        let placed = self.placed.read();
        let range = |id| KeyRange::new(&format::prefix(id), Some(&format::prefix(id + 1)));
        if structure != Structure::Tiered {
            let own = placed.iter().filter(|(_, of)| **of == structure);
            return own.map(|(&id, _)| range(id)).collect();
        }
        let mut low: Box<[u8]> = Box::default();
        let mut keys = Vec::new();
        for &id in placed.keys() {
            let others = range(id);
            let before = KeyRange::new(&low, Some(&others.low));
            keys.extend(Some(before).filter(|before| !before.is_empty()));
            low = others.high.expect("a keyspace has an end");
        }
        keys.push(KeyRange { low, high: None });
        keys.into()
    }

    /// Begins to take a sealed memtable into those of them that do not have it yet.
    pub(super) fn take(
        &self,
        memtable: &Arc<Memtable>,
        cut: Sequence,
        class: Class,
    ) -> alluvium_storage::Result<Vec<Taking>> {
        let begun = self.all().filter(|(_, dictionary)| dictionary.cut() < cut);
        let begun = begun.map(|(structure, dictionary)| {
            let keys = self.keys_of(structure);
            let share = Share::new(Arc::clone(memtable), cut, keys);
            Ok(Taking {
                share: dictionary.incorporate(share, class)?,
                is_published: false,
            })
        });
        begun.collect()
    }

    /// What was taken is in all of them. Where it fails it may be in some; those that have it say
    /// so.
    pub(super) fn publish(&self, taken: &mut [Taking], cut: Sequence) -> alluvium_storage::Result<()> {
        let _publishing = self.publishing.lock();
        for taking in taken.iter_mut().filter(|taking| !taking.is_published) {
            taking.share.publish()?;
            taking.is_published = true;
        }
        // One may have come since: nothing of the memtable is about its keys.
        self.advance(cut)
    }

    fn advance(&self, cut: Sequence) -> alluvium_storage::Result<()> {
        let mut behind = self.all().filter(|(_, dictionary)| dictionary.cut() < cut);
        behind.try_for_each(|(_, dictionary)| dictionary.advance(cut))
    }

    /// What was written beside dictionaries becomes part of them, as the commits from `first` to
    /// `last`.
    pub(super) fn attach(&self, all: Vec<Box<dyn Ingest>>, first: Sequence, last: Sequence) -> Result<()> {
        let _publishing = self.publishing.lock();
        let mut attached = 0;
        for ingest in all {
            match ingest.attach(first) {
                Ok(()) => attached += 1,
                // Some have it and some do not: only an opening can take it back.
                Err(error) if attached > 0 => {
                    let cause = error.to_string();
                    let poisoned = alluvium_storage::Error::Poisoned { cause };
                    return Ok(self.home.store.judge(Err(poisoned))?);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.advance(last)?)
    }

    /// Begins to load records into a structure.
    pub(super) fn ingest(&self, structure: Structure, class: Class) -> Result<Box<dyn Ingest>> {
        Ok(match structure {
            Structure::Tiered => Ordered::ingest(&self.tree, class)?,
            Structure::Levels => self.levels().ingest(class)?,
            Structure::Map => self.map().ingest(class)?,
        })
    }

    /// A reader of what a structure holds now. A read that needs memtables loads their list before.
    #[inline]
    pub(super) fn reader(&self, structure: Structure) -> Reader<'_> {
        match structure {
            Structure::Tiered => Reader::Tiered(self.tree.reader()),
            Structure::Levels => Reader::Levels(self.levels().reader()),
            Structure::Map => Reader::Map(self.map().reader()),
        }
    }

    /// Begins a walk over a range of a structure.
    pub(super) fn scan(
        &self,
        structure: Structure,
        memtables: Arc<dyn Memtables>,
        range: KeyRange,
        direction: Direction,
        at: Sequence,
        now_ms: u64,
    ) -> Scan {
        match structure {
            Structure::Tiered => Scan::Tiered(self.tree.scan(memtables, range, direction, at, now_ms)),
            Structure::Levels => Scan::Levels(self.levels().scan(memtables, range, direction, at, now_ms)),
            Structure::Map => Scan::Map(self.map().scan(memtables, range, direction, at, now_ms)),
        }
    }

    /// Cuts a generation of all of them (M1); none while a memtable is in some and not in others.
    pub(super) fn cut_generation<'s>(&self, store: &'s Store) -> Result<Option<Begun<'s>>> {
        for (_, dictionary) in self.all() {
            dictionary.prepare()?;
        }
        let _publishing = self.publishing.lock();
        let mut cuts = Vec::new();
        for (structure, dictionary) in self.all() {
            cuts.push((structure, dictionary.stand()?));
        }
        let at = cuts[0].1.at;
        if cuts.iter().any(|(_, cut)| cut.at != at) {
            return Ok(None);
        }
        let entry = |(structure, cut): &(Structure, alluvium_dictionary::cut::Cut<'_>)| Entry {
            id: structure.dictionary(),
            kind: structure.kind(),
            root: cut.root.clone(),
        };
        let placed = self.placed.read();
        let manifest = Manifest {
            dictionaries: cuts.iter().map(entry).collect(),
            keyspaces: placed.iter().map(|(&id, of)| (id, of.dictionary())).collect(),
        };
        let payload = self.manifest.keep(store, manifest)?;
        Ok(Some(Begun {
            checkpoint: store.begin_checkpoint()?,
            payload,
            at,
        }))
    }
}

/// The options of a keyspace's levels.
fn options_of(definition: &Definition) -> levels_options::LevelsOptions {
    match &definition.options.structure {
        levels_options::Structure::Levels(options) => options.clone(),
        levels_options::Structure::Tiered => levels_options::LevelsOptions::default(),
    }
}

/// What a structure is opened from; none if a manifest does not list it.
fn root_of(manifest: &Manifest, structure: Structure) -> Result<Option<&[u8]>> {
    let id = structure.dictionary();
    let kind = structure.kind();
    let mut of_kind = manifest.dictionaries.iter().filter(|entry| entry.kind == kind);
    if let Some(other) = of_kind.find(|entry| entry.id != id) {
        let expected = format!("structures of kind {kind} as dictionary {id} alone");
        return corrupt(expected, format!("dictionary {}", other.id));
    }
    match manifest.entry(id) {
        Some(entry) if entry.kind == kind => Ok(Some(&entry.root)),
        None if structure == Structure::Tiered && !manifest.dictionaries.is_empty() => {
            corrupt("a tree as dictionary 0".to_owned(), "none".to_owned())
        }
        Some(other) if structure == Structure::Tiered => corrupt(
            "a tree as dictionary 0".to_owned(),
            format!("kind {}", other.kind),
        ),
        _ => Ok(None),
    }
}

fn corrupt<T>(expected: String, found: String) -> Result<T> {
    let place = Place::new(Kind::Superblock, "the manifest", 0);
    Err(alluvium_storage::Error::corrupt(place, expected, found).into())
}
