//! The in-memory catalog of keyspaces and named snapshots, which is stored in keyspace 0 of the
//! tree.

use crate::error::{Error, Result};
use crate::options::kind::{DictionaryPlace, StructureKind};
use crate::options::operators::RegisteredOperator;
use crate::options::{KeyspaceOptions, ValueOrder};
use crate::schema::format::{self, CatalogRecord, KeyspaceId, TreeKey};
use alluvium_base::SequenceNumber;
use alluvium_dictionary::merge::CompactionFilter;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::{KeyspaceRules, KeyspaceSchema};
use parking_lot::RwLock;
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The definition of a keyspace, which may have been dropped.
#[derive(Debug)]
pub(crate) struct KeyspaceDefinition {
    pub(crate) id: KeyspaceId,
    /// Prefix of all the keyspace's keys in the tree.
    pub(crate) prefix: TreeKey,
    /// The first tree key after all keys of this keyspace.
    pub(crate) end: TreeKey,
    pub(crate) options: KeyspaceOptions,
    pub(crate) structure: StructureKind,
    /// The dictionary that contains the keyspace, once it has one.
    dictionary: OnceLock<DictionaryPlace>,
    /// Maximum length of a key in this keyspace's structure, in bytes.
    pub(crate) longest_key: usize,
    /// The merge operator, compaction filter and other rules that the dictionaries apply to the
    /// keyspace.
    pub(crate) rules: Arc<KeyspaceRules>,
    /// Whether the merge operator's result is the same in whichever order operands are merged.
    pub(crate) merges_commute: bool,
    name: RwLock<String>,
    dropped: AtomicBool,
}

impl KeyspaceDefinition {
    fn new(
        id: KeyspaceId,
        name: &str,
        structure: StructureKind,
        options: KeyspaceOptions,
        (rules, merges_commute): (KeyspaceRules, bool),
    ) -> KeyspaceDefinition {
        let longest_key = match structure {
            StructureKind::Paged => options.structure.paged().longest_key(),
            _ => usize::MAX,
        };
        KeyspaceDefinition {
            id,
            prefix: format::prefix(id),
            end: format::prefix(id + 1),
            options,
            structure,
            dictionary: OnceLock::new(),
            longest_key,
            rules: Arc::new(rules),
            merges_commute,
            name: RwLock::new(name.to_owned()),
            dropped: AtomicBool::new(false),
        }
    }

    /// Returns the dictionary that contains the keyspace.
    #[inline]
    pub(crate) fn dictionary(&self) -> DictionaryPlace {
        *self.dictionary.get().expect("it was placed before it was used")
    }

    /// Sets the dictionary that contains the keyspace, which never changes.
    pub(crate) fn set_dictionary(&self, place: DictionaryPlace) {
        let has = *self.dictionary.get_or_init(|| place);
        assert_eq!(has, place, "a keyspace stays in its dictionary");
    }

    /// Returns the current name of the keyspace. Renaming the keyspace changes it.
    pub(crate) fn name(&self) -> String {
        self.name.read().clone()
    }

    /// Fails if the keyspace was dropped. A writer must call this while it pins the writers' epoch,
    /// so that a later drop waits for the writer.
    #[inline]
    pub(crate) fn alive(&self) -> Result<()> {
        if self.dropped.load(Ordering::SeqCst) {
            return Err(Error::KeyspaceDropped { name: self.name() });
        }
        Ok(())
    }

    /// Fails if the keyspace's structure does not order its keys.
    #[inline]
    pub(crate) fn require_order(&self) -> Result<()> {
        // Tests may place a keyspace in another structure than its options name, and sort the
        // results themselves.
        let is_told = !cfg!(test) || self.options.structure.kind() == self.structure;
        match self.structure.is_ordered() || !is_told {
            true => Ok(()),
            false => Err(Error::NotOrdered {
                keyspace: self.name(),
            }),
        }
    }

    /// Fails if the keyspace's structure does not order its keys, unless the range covers the
    /// entire keyspace.
    pub(crate) fn require_range(&self, start: &[u8], end: &[u8]) -> Result<()> {
        match *start == *self.prefix && *end == *self.end {
            true => Ok(()),
            false => self.require_order(),
        }
    }

    /// Makes the keyspace writable again after an attempt to drop it has failed.
    pub(crate) fn revive(&self) {
        self.dropped.store(false, Ordering::SeqCst);
    }
}

/// The keyspaces that a commit writes to. If one of them is dropped before the commit has obtained
/// its sequence numbers, the commit is rejected.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CommitKeyspaces<'a> {
    /// Only the catalog, which cannot be dropped.
    Catalog,
    One(&'a KeyspaceDefinition),
    /// The keyspaces that a batch writes to.
    Batch(&'a BatchKeyspaces),
}

/// The keyspaces that a batch writes to.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchKeyspaces {
    /// Sorted keyspace numbers.
    ids: SmallVec<[KeyspaceId; 4]>,
    /// The drop counter when the first keyspace was added. That keyspace had not been dropped by
    /// then.
    drops: u64,
}

impl BatchKeyspaces {
    /// Adds a keyspace. Fails if the keyspace was dropped.
    pub(crate) fn add(&mut self, catalog: &KeyspaceCatalog, definition: &KeyspaceDefinition) -> Result<()> {
        // Read the counter before checking the keyspace. If a drop is not included in this value,
        // either `alive` notices it, or it changes the counter later.
        let drops = catalog.drops.load(Ordering::SeqCst);
        definition.alive()?;
        if self.ids.is_empty() {
            self.drops = drops;
        }
        if let Err(place) = self.ids.binary_search(&definition.id) {
            self.ids.insert(place, definition.id);
        }
        Ok(())
    }
}

/// The catalog of keyspaces and named snapshots. To change it, hold the engine's schema lock.
#[derive(Debug)]
pub(crate) struct KeyspaceCatalog {
    /// Number of keyspace drops begun so far.
    drops: AtomicU64,
    operators: Vec<RegisteredOperator>,
    filters: Vec<(String, Arc<dyn CompactionFilter>)>,
    state: RwLock<CatalogState>,
}

#[derive(Debug, Default)]
struct CatalogState {
    by_name: BTreeMap<String, Arc<KeyspaceDefinition>>,
    by_id: HashMap<KeyspaceId, Arc<KeyspaceDefinition>>,
    snapshots: BTreeMap<String, SequenceNumber>,
    next: KeyspaceId,
}

impl KeyspaceCatalog {
    /// Creates an empty catalog that knows the built-in merge operators, `operators`, and the
    /// compaction filters `filters` by name.
    pub(crate) fn new(
        operators: &[RegisteredOperator],
        filters: &[(String, Arc<dyn CompactionFilter>)],
    ) -> KeyspaceCatalog {
        KeyspaceCatalog {
            drops: AtomicU64::new(0),
            // Put the program's operators first, so that they can replace built-in operators of the
            // same name.
            operators: operators
                .iter()
                .cloned()
                .chain(RegisteredOperator::built_in())
                .collect(),
            filters: filters.to_vec(),
            state: RwLock::new(CatalogState {
                next: format::CATALOG + 1,
                ..CatalogState::default()
            }),
        }
    }

    fn operator(&self, name: &str) -> Option<&RegisteredOperator> {
        self.operators.iter().find(|known| known.operator.name() == name)
    }

    /// Returns the rules of a keyspace. Fails if its merge operator or compaction filter is not
    /// registered.
    fn rules_for(&self, keyspace: &str, options: &KeyspaceOptions) -> Result<KeyspaceRules> {
        let missing = |what, name: &str| Error::NotRegistered {
            keyspace: keyspace.to_owned(),
            what,
            name: name.to_owned(),
            known: match what {
                OPERATOR => listed(self.operators.iter().map(|known| known.operator.name())),
                _ => listed(self.filters.iter().map(|(known, _)| known.as_str())),
            },
        };
        let operator = |name: &String| {
            let found = self.operator(name).map(|known| Arc::clone(&known.operator));
            found.ok_or_else(|| missing(OPERATOR, name))
        };
        let filter = |name: &String| {
            let found = self.filters.iter().find(|(known, _)| known == name);
            found
                .map(|(_, filter)| Arc::clone(filter))
                .ok_or_else(|| missing("compaction filter", name))
        };
        Ok(KeyspaceRules {
            operator: options.merge_operator.as_ref().map(operator).transpose()?,
            codec: options.compression.codec(),
            value_threshold: options.value_threshold.map(|bytes| bytes as usize),
            gathers_values: options.value_order == ValueOrder::Gathered,
            filter: options.compaction_filter.as_ref().map(filter).transpose()?,
        })
    }

    /// Creates the definition of a keyspace. Fails if its merge operator or compaction filter is
    /// not registered.
    pub(crate) fn define(
        &self,
        id: KeyspaceId,
        name: &str,
        structure: StructureKind,
        options: &KeyspaceOptions,
    ) -> Result<Arc<KeyspaceDefinition>> {
        let rules = self.rules_for(name, options)?;
        let operator = options
            .merge_operator
            .as_ref()
            .and_then(|name| self.operator(name));
        let commutes = operator.is_some_and(|known| known.is_commutative);
        let definition = KeyspaceDefinition::new(id, name, structure, options.clone(), (rules, commutes));
        Ok(Arc::new(definition))
    }

    /// Loads a catalog record when the store is opened, and returns the keyspace that the record
    /// describes, if any.
    pub(crate) fn load(&self, record: CatalogRecord) -> Result<Option<Arc<KeyspaceDefinition>>> {
        match record {
            CatalogRecord::Keyspace {
                name,
                id,
                kind,
                options,
            } => {
                let structure = StructureKind::of_keyspace(kind, &name)?;
                let definition = self.define(id, &name, structure, &options)?;
                self.add(&name, Arc::clone(&definition));
                return Ok(Some(definition));
            }
            CatalogRecord::Snapshot { name, at } => {
                self.add_snapshot(&name, at);
            }
            CatalogRecord::Next(next) => {
                let mut state = self.state.write();
                // Keyspace numbers are never reused, even if the number in this record is too low.
                state.next = state.next.max(next);
            }
        }
        Ok(None)
    }

    /// Registers a new keyspace by its number. Call this before anything is written to the
    /// keyspace, so that compactions know its rules.
    pub(crate) fn prepare(&self, definition: &Arc<KeyspaceDefinition>) {
        self.state
            .write()
            .by_id
            .insert(definition.id, Arc::clone(definition));
    }

    /// Makes a keyspace available under its name. Keyspaces created later get higher numbers.
    pub(crate) fn add(&self, name: &str, definition: Arc<KeyspaceDefinition>) {
        let mut state = self.state.write();
        state.next = state.next.max(definition.id + 1);
        state.by_id.insert(definition.id, Arc::clone(&definition));
        state.by_name.insert(name.to_owned(), definition);
    }

    /// Marks a keyspace as dropped, so that later checks by writers reject it.
    pub(crate) fn begin_drop(&self, definition: &KeyspaceDefinition) {
        definition.dropped.store(true, Ordering::SeqCst);
        self.drops.fetch_add(1, Ordering::SeqCst);
    }

    /// Converts a read error. A tree key in the error is replaced by the name of the keyspace and
    /// the user's key.
    #[cold]
    pub(crate) fn named(&self, error: alluvium_storage::Error) -> Error {
        let alluvium_storage::Error::BadBase { key, operator, why } = error else {
            return error.into();
        };
        let (len, id) = format::split(&key).expect("a key begins with the number of its keyspace");
        let name = self
            .by_id(id)
            .map_or_else(String::new, |definition| definition.name());
        Error::BadBase {
            keyspace: name,
            key: key[len..].to_vec(),
            operator,
            why,
        }
    }

    /// Fails if one of the keyspaces was dropped. The caller must have pinned the writers' epoch.
    #[inline]
    pub(crate) fn alive(&self, owners: CommitKeyspaces<'_>) -> Result<()> {
        match owners {
            CommitKeyspaces::Catalog => Ok(()),
            CommitKeyspaces::One(definition) => definition.alive(),
            // No drop has begun since the keyspaces were added to the batch.
            CommitKeyspaces::Batch(members) if members.drops == self.drops.load(Ordering::SeqCst) => Ok(()),
            CommitKeyspaces::Batch(members) => {
                let state = self.state.read();
                let mut definitions = members.ids.iter().filter_map(|id| state.by_id.get(id));
                definitions.try_for_each(|definition| definition.alive())
            }
        }
    }

    /// Returns the number that the next new keyspace will get.
    pub(crate) fn next(&self) -> KeyspaceId {
        self.state.read().next
    }

    /// Returns the keyspace with this name, or `None` if there is none.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<KeyspaceDefinition>> {
        self.state.read().by_name.get(name).cloned()
    }

    /// Returns the keyspace with this number, or `None` if there is none. This also finds keyspaces
    /// that were dropped since the store was opened.
    pub(crate) fn by_id(&self, id: KeyspaceId) -> Option<Arc<KeyspaceDefinition>> {
        self.state.read().by_id.get(&id).cloned()
    }

    /// Returns the names of all keyspaces, in alphabetical order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.state.read().by_name.keys().cloned().collect()
    }

    /// Returns the names of all keyspaces in levels and in hashed structures by their dictionaries,
    /// in alphabetical order.
    pub(crate) fn names_by_dictionary(&self) -> BTreeMap<DictionaryPlace, Vec<String>> {
        let mut names: BTreeMap<DictionaryPlace, Vec<String>> = BTreeMap::new();
        for (name, definition) in &self.state.read().by_name {
            if definition.structure.has_several() {
                names
                    .entry(definition.dictionary())
                    .or_default()
                    .push(name.clone());
            }
        }
        names
    }

    /// Removes the name of a dropped keyspace. Its definition can still be found by number, because
    /// compactions may have yet to merge its records.
    pub(crate) fn remove(&self, name: &str) {
        self.state.write().by_name.remove(name);
    }

    pub(crate) fn rename(&self, from: &str, to: &str) {
        let mut state = self.state.write();
        let definition = state.by_name.remove(from).expect("it was found");
        to.clone_into(&mut definition.name.write());
        state.by_name.insert(to.to_owned(), definition);
    }

    /// Returns all named snapshots, as a map from names to sequence numbers.
    pub(crate) fn snapshots(&self) -> BTreeMap<String, SequenceNumber> {
        self.state.read().snapshots.clone()
    }

    /// Returns the sequence number of the snapshot with this name, or `None` if no such snapshot
    /// exists.
    pub(crate) fn snapshot(&self, name: &str) -> Option<SequenceNumber> {
        self.state.read().snapshots.get(name).copied()
    }

    pub(crate) fn add_snapshot(&self, name: &str, at: SequenceNumber) {
        self.state.write().snapshots.insert(name.to_owned(), at);
    }

    pub(crate) fn remove_snapshot(&self, name: &str) {
        self.state.write().snapshots.remove(name);
    }
}

/// How error messages refer to a merge operator.
const OPERATOR: &str = "merge operator";

/// Formats a list of names for an error message.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}

impl KeyspaceSchema for KeyspaceCatalog {
    fn prefix_len(&self, key: &[u8]) -> usize {
        format::split(key).map_or(0, |(len, _)| len)
    }

    fn rules(&self, key: &[u8]) -> Arc<KeyspaceRules> {
        let definition = |(_, id)| self.state.read().by_id.get(&id).cloned();
        let found = format::split(key).and_then(definition);
        // Records of a keyspace that was dropped before the store was opened follow the default
        // rules.
        found.map_or_else(Arc::default, |definition| Arc::clone(&definition.rules))
    }

    fn gathers_values_in(&self, range: &KeyRange) -> bool {
        let state = self.state.read();
        state.by_id.values().any(|definition| {
            let of = || KeyRange::new(&definition.prefix, Some(&definition.end));
            definition.rules.gathers_values && !of().intersect(range).is_empty()
        })
    }
}
