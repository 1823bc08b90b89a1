//! Which keyspaces and named snapshots there are, in memory; keyspace 0 of the tree keeps them.

use crate::format::{self, CatalogRecord, KeyspaceId, TreeKey};
use crate::keyspace_options::KeyspaceOptions;
use crate::structure::Structure;
use crate::{Error, Result};
use alluvium_base::Sequence;
use alluvium_dictionary::merge::{Add, Append, CompactionFilter, Maximum, Minimum, Operator};
use alluvium_dictionary::rules::{KeyspaceRules, Schema};
use parking_lot::RwLock;
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A keyspace that exists, or did.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) id: KeyspaceId,
    /// What stands before its keys.
    pub(crate) prefix: TreeKey,
    /// The first key behind it.
    pub(crate) end: TreeKey,
    pub(crate) options: KeyspaceOptions,
    /// What it is in.
    pub(crate) structure: Structure,
    /// The longest key that its structure takes, in bytes.
    pub(crate) longest_key: usize,
    /// How its records are kept.
    pub(crate) rules: Arc<KeyspaceRules>,
    name: RwLock<String>,
    dropped: AtomicBool,
}

impl Definition {
    fn new(
        id: KeyspaceId,
        name: &str,
        structure: Structure,
        options: KeyspaceOptions,
        rules: KeyspaceRules,
    ) -> Definition {
        let longest_key = match structure {
            Structure::Paged => options.structure.paged().longest_key(),
            _ => usize::MAX,
        };
        Definition {
            id,
            prefix: format::prefix(id),
            end: format::prefix(id + 1),
            options,
            structure,
            longest_key,
            rules: Arc::new(rules),
            name: RwLock::new(name.to_owned()),
            dropped: AtomicBool::new(false),
        }
    }

    /// Its name now.
    pub(crate) fn name(&self) -> String {
        self.name.read().clone()
    }

    /// Fails once it was dropped. A writer asks while it pins the epoch of writers: a drop of
    /// the keyspace waits for it then.
    #[inline]
    pub(crate) fn alive(&self) -> Result<()> {
        if self.dropped.load(Ordering::SeqCst) {
            return Err(Error::KeyspaceDropped { name: self.name() });
        }
        Ok(())
    }

    /// Fails unless its keys have an order.
    #[inline]
    pub(crate) fn require_order(&self) -> Result<()> {
        // Tests put keyspaces into a structure that their options do not name, and sort.
        let is_told = !cfg!(test) || self.options.structure.kind() == self.structure;
        match self.structure.is_ordered() || !is_told {
            true => Ok(()),
            false => Err(Error::NotOrdered {
                keyspace: self.name(),
            }),
        }
    }

    /// Fails unless a range is all of it, or its keys have an order.
    pub(crate) fn require_range(&self, start: &[u8], end: &[u8]) -> Result<()> {
        match *start == *self.prefix && *end == *self.end {
            true => Ok(()),
            false => self.require_order(),
        }
    }

    /// It was not dropped after all.
    pub(crate) fn revive(&self) {
        self.dropped.store(false, Ordering::SeqCst);
    }
}

/// The keyspaces that a commit writes to: it is refused if one of them is dropped before it has
/// its place in the commit order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owners<'a> {
    /// None that can be dropped: the catalog's own.
    Catalog,
    /// One.
    One(&'a Definition),
    /// Those of a batch.
    Batch(&'a Members),
}

/// The keyspaces of a batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    /// Their numbers, in order.
    ids: SmallVec<[KeyspaceId; 4]>,
    /// How many drops had begun when the first one was added, which was alive then.
    drops: u64,
}

impl Members {
    /// Adds a keyspace, if it is alive.
    pub(crate) fn add(&mut self, catalog: &Catalog, definition: &Definition) -> Result<()> {
        // In this order: a drop that is not counted yet is seen by who asks afterwards, or is
        // counted later.
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

/// The catalog. To change it, hold the lock of the engine's schema changes.
#[derive(Debug)]
pub(crate) struct Catalog {
    /// How many drops have begun.
    drops: AtomicU64,
    operators: Vec<Arc<dyn Operator>>,
    filters: Vec<(String, Arc<dyn CompactionFilter>)>,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    by_name: BTreeMap<String, Arc<Definition>>,
    by_id: HashMap<KeyspaceId, Arc<Definition>>,
    snapshots: BTreeMap<String, Sequence>,
    next: KeyspaceId,
}

impl Catalog {
    /// An empty catalog that knows the built-in merge operators, `operators`, and `filters` by
    /// their names.
    pub(crate) fn new(
        operators: &[Arc<dyn Operator>],
        filters: &[(String, Arc<dyn CompactionFilter>)],
    ) -> Catalog {
        let builtin: [Arc<dyn Operator>; 4] = [
            Arc::new(Add),
            Arc::new(Append),
            Arc::new(Minimum),
            Arc::new(Maximum),
        ];
        Catalog {
            drops: AtomicU64::new(0),
            // The program's own come first: they may replace a built-in one.
            operators: operators.iter().cloned().chain(builtin).collect(),
            filters: filters.to_vec(),
            state: RwLock::new(State {
                next: format::CATALOG + 1,
                ..State::default()
            }),
        }
    }

    /// What a keyspace is kept by.
    fn rules_for(&self, keyspace: &str, options: &KeyspaceOptions) -> Result<KeyspaceRules> {
        let missing = |what, name: &str| Error::NotRegistered {
            keyspace: keyspace.to_owned(),
            what,
            name: name.to_owned(),
            known: match what {
                OPERATOR => listed(self.operators.iter().map(|operator| operator.name())),
                _ => listed(self.filters.iter().map(|(known, _)| known.as_str())),
            },
        };
        let operator = |name: &String| {
            let found = self.operators.iter().find(|operator| operator.name() == name);
            found.cloned().ok_or_else(|| missing(OPERATOR, name))
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
            filter: options.compaction_filter.as_ref().map(filter).transpose()?,
        })
    }

    /// A keyspace that may be added: everything that it needs is registered.
    pub(crate) fn define(
        &self,
        id: KeyspaceId,
        name: &str,
        structure: Structure,
        options: &KeyspaceOptions,
    ) -> Result<Arc<Definition>> {
        let rules = self.rules_for(name, options)?;
        let definition = Definition::new(id, name, structure, options.clone(), rules);
        Ok(Arc::new(definition))
    }

    /// Takes in a record of the catalog as it is found at an opening. Returns the keyspace, if it
    /// is one.
    pub(crate) fn load(&self, record: CatalogRecord) -> Result<Option<Arc<Definition>>> {
        match record {
            CatalogRecord::Keyspace {
                name,
                id,
                kind,
                options,
            } => {
                let structure = Structure::of_keyspace(kind, &name)?;
                let definition = self.define(id, &name, structure, &options)?;
                self.add(&name, Arc::clone(&definition));
                return Ok(Some(definition));
            }
            CatalogRecord::Snapshot { name, at } => {
                self.add_snapshot(&name, at);
            }
            CatalogRecord::Next(next) => {
                let mut state = self.state.write();
                // A number is not given twice, whatever the record says.
                state.next = state.next.max(next);
            }
        }
        Ok(None)
    }

    /// A keyspace is about to be added: whatever is written to it can be folded.
    pub(crate) fn prepare(&self, definition: &Arc<Definition>) {
        self.state
            .write()
            .by_id
            .insert(definition.id, Arc::clone(definition));
    }

    /// The keyspace exists.
    pub(crate) fn add(&self, name: &str, definition: Arc<Definition>) {
        let mut state = self.state.write();
        state.next = state.next.max(definition.id + 1);
        state.by_id.insert(definition.id, Arc::clone(&definition));
        state.by_name.insert(name.to_owned(), definition);
    }

    /// A keyspace is being dropped: writers that ask from now on are refused.
    pub(crate) fn begin_drop(&self, definition: &Definition) {
        definition.dropped.store(true, Ordering::SeqCst);
        self.drops.fetch_add(1, Ordering::SeqCst);
    }

    /// An error of a read, with what a user calls the keyspace and the key.
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
            operator: operator.to_owned(),
            why,
        }
    }

    /// Fails if one of the keyspaces was dropped. The writer pins the epoch of writers.
    #[inline]
    pub(crate) fn alive(&self, owners: Owners<'_>) -> Result<()> {
        match owners {
            Owners::Catalog => Ok(()),
            Owners::One(definition) => definition.alive(),
            // Nothing was dropped since they were seen alive.
            Owners::Batch(members) if members.drops == self.drops.load(Ordering::SeqCst) => Ok(()),
            Owners::Batch(members) => {
                let state = self.state.read();
                let mut definitions = members.ids.iter().filter_map(|id| state.by_id.get(id));
                definitions.try_for_each(|definition| definition.alive())
            }
        }
    }

    /// The number of the next keyspace.
    pub(crate) fn next(&self) -> KeyspaceId {
        self.state.read().next
    }

    /// The keyspace of a name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Definition>> {
        self.state.read().by_name.get(name).cloned()
    }

    /// The keyspace of a number, also one that was dropped since the store was opened.
    pub(crate) fn by_id(&self, id: KeyspaceId) -> Option<Arc<Definition>> {
        self.state.read().by_id.get(&id).cloned()
    }

    /// All names, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.state.read().by_name.keys().cloned().collect()
    }

    /// The keyspace is gone from the catalog. What is left of it in the tree may still have to be
    /// folded.
    pub(crate) fn remove(&self, name: &str) {
        self.state.write().by_name.remove(name);
    }

    /// The keyspace has another name.
    pub(crate) fn rename(&self, from: &str, to: &str) {
        let mut state = self.state.write();
        let definition = state.by_name.remove(from).expect("it was found");
        to.clone_into(&mut definition.name.write());
        state.by_name.insert(to.to_owned(), definition);
    }

    /// Named snapshots, by name.
    pub(crate) fn snapshots(&self) -> BTreeMap<String, Sequence> {
        self.state.read().snapshots.clone()
    }

    /// The place of a named snapshot.
    pub(crate) fn snapshot(&self, name: &str) -> Option<Sequence> {
        self.state.read().snapshots.get(name).copied()
    }

    pub(crate) fn add_snapshot(&self, name: &str, at: Sequence) {
        self.state.write().snapshots.insert(name.to_owned(), at);
    }

    pub(crate) fn remove_snapshot(&self, name: &str) {
        self.state.write().snapshots.remove(name);
    }
}

/// What an error calls them.
const OPERATOR: &str = "merge operator";

/// Names as an error lists them.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}

impl Schema for Catalog {
    fn prefix_len(&self, key: &[u8]) -> usize {
        format::split(key).map_or(0, |(len, _)| len)
    }

    fn rules(&self, key: &[u8]) -> Arc<KeyspaceRules> {
        let definition = |(_, id)| self.state.read().by_id.get(&id).cloned();
        let found = format::split(key).and_then(definition);
        // What is left of a keyspace that was dropped before this opening follows no rules any
        // more.
        found.map_or_else(Arc::default, |definition| Arc::clone(&definition.rules))
    }
}
