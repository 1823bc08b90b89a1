//! Point lookups: from the root to the leaf, newest part first, until a message decides.

use super::gather::{Answer, Gather};
use super::node::{Group, Layer, Node};
use super::tree::{SEED, Tree, Version};
use crate::maplet::{self, Maplet};
use crate::run::{self, Record};
use alluvium_base::{Purpose, Sequence};
use alluvium_filters as filters;
use alluvium_storage::store::Store;
use alluvium_storage::{Error, Guard, NodePointer, Residence, Result};
use std::sync::OnceLock;

/// The parts of a path that count for a key, newest first.
fn path<'v>(root: &'v Node, key: &[u8], layers: &mut Vec<Layer<'v>>) {
    let mut node = root;
    loop {
        let pivot = node.pivot_for(key);
        layers.extend(node.stack(pivot).rev().filter(|layer| layer.part.counts_for(key)));
        match node.pivots[pivot].child.as_deref() {
            Some(child) => node = child,
            None => return,
        }
    }
}

impl Tree {
    /// The value of a key for a reader at `at`.
    ///
    /// ```
    /// use alluvium_base::{Message, message::LAST};
    /// use alluvium_device::{Directory, memory::MemoryDirectory};
    /// use alluvium_storage::extents::Class;
    /// use alluvium_storage::store::{Store, StoreOptions};
    /// use alluvium_trees::memtable::Memtable;
    /// use alluvium_trees::tiered::{Tree, TreeOptions};
    /// use std::sync::Arc;
    ///
    /// let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    /// let store = Arc::new(Store::create(directory, &StoreOptions::default(), b"")?);
    /// let tree = Tree::create(store, TreeOptions::default());
    /// let memtable = Memtable::new(1 << 20);
    /// memtable.insert(b"river", Message::put(1, b"Elbe")).unwrap();
    /// tree.incorporate(Arc::new(memtable), 1, Class::Normal)?.poll(usize::MAX)?;
    /// assert_eq!(tree.get(b"river", LAST, 0)?, Some(b"Elbe".to_vec()));
    /// assert_eq!(tree.get(b"lake", LAST, 0)?, None);
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// As the device says, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
    pub fn get(&self, key: &[u8], at: Sequence, now_ms: u64) -> Result<Answer> {
        let mut gather = Gather::new(at, now_ms, self.options().schema.operator(key));
        self.gather(key, &mut gather)?;
        Ok(gather.finish())
    }

    /// Feeds a lookup that memtables have not decided with what the tree holds.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn gather(&self, key: &[u8], gather: &mut Gather<'_>) -> Result<()> {
        let guard = self.shared.store.epochs().pin();
        let version = self.peek();
        Finder::new(&self.shared.store, &guard).find(&version, key, gather)
    }

    /// The values of many keys for a reader at `at`, in their order. All leaves that must be read are read together.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn multi_get(&self, keys: &[&[u8]], at: Sequence, now_ms: u64) -> Result<Vec<Answer>> {
        let store = &self.shared.store;
        let guard = store.epochs().pin();
        let version = self.peek();
        let mut finder = Finder::new(store, &guard);
        let mut leaves = Vec::new();
        for key in keys {
            finder.first_leaf(&version, key, &mut leaves)?;
        }
        leaves.sort_unstable_by_key(|leaf: &NodePointer| (leaf.tier, leaf.offset));
        leaves.dedup();
        // They stay while they are asked for.
        let held = store
            .cache()
            .get_many(&leaves, &guard, Purpose::Lookup, Residence::Keep)?;
        let mut answers = Vec::with_capacity(keys.len());
        for key in keys {
            let mut gather = Gather::new(at, now_ms, self.options().schema.operator(key));
            finder.find(&version, key, &mut gather)?;
            answers.push(gather.finish());
        }
        drop(held);
        Ok(answers)
    }
}

/// Looks keys up in one version.
struct Finder<'a> {
    store: &'a Store,
    guard: &'a Guard,
    hits: Vec<maplet::Hits>,
}

impl<'a> Finder<'a> {
    fn new(store: &'a Store, guard: &'a Guard) -> Finder<'a> {
        Finder {
            store,
            guard,
            hits: Vec::new(),
        }
    }

    /// Asks all maplets of a path at once.
    fn probe(&mut self, layers: &[Layer<'_>], key: &[u8]) -> Result<()> {
        let maplets: Vec<&Maplet> = layers.iter().map(|layer| &layer.part.group.maplet).collect();
        self.hits.clear();
        maplet::lookup_path(
            &maplets,
            filters::hash(SEED, key),
            self.store.cache(),
            self.guard,
            &mut self.hits,
        )
    }

    fn find(&mut self, version: &Version, key: &[u8], gather: &mut Gather<'_>) -> Result<()> {
        let mut layers = Vec::with_capacity(32);
        path(&version.root, key, &mut layers);
        self.probe(&layers, key)?;
        let hits = std::mem::take(&mut self.hits);
        for (layer, hits) in layers.iter().zip(&hits) {
            let group = &*layer.part.group;
            let deletes = group.runs().any(|(_, run)| !run.range_deletes().is_empty());
            if !deletes {
                for &value in hits.iter() {
                    self.ask(group, usize::from(value), key, gather)?;
                    if gather.is_decided() {
                        break;
                    }
                }
            } else {
                for (place, run) in group.runs().rev() {
                    gather.range_deleted(run.range_deletes().covering(key, gather.known.at()));
                    if hits.iter().any(|&value| usize::from(value) == place) {
                        self.ask(group, place, key, gather)?;
                    }
                    if gather.is_decided() {
                        break;
                    }
                }
            }
            if gather.is_decided() {
                break;
            }
        }
        self.hits = hits;
        Ok(())
    }

    fn ask(&mut self, group: &Group, place: usize, key: &[u8], gather: &mut Gather<'_>) -> Result<()> {
        let Some(run) = group.runs.get(place) else {
            let expected = format!("a maplet that tells {} runs apart", group.runs.len());
            return Err(Error::corrupt(
                group.maplet.pointer().place(),
                expected,
                format!("run {place}"),
            ));
        };
        // A run that is gone has nothing for this key: the maplet may still remember it, and others' keys are alike.
        let Some(run) = run.get() else { return Ok(()) };
        let (cache, guard) = (self.store.cache(), self.guard);
        run.find(
            key,
            gather.known.at(),
            cache,
            guard,
            Purpose::Lookup,
            &mut |record: Record<'_>| {
                gather.known.record(&record, gather.operator, |pointer, operand| {
                    run::read_value(cache, guard, pointer, Purpose::Lookup, operand)
                })
            },
        )
    }

    /// The leaf that a lookup of `key` will probably read first.
    fn first_leaf(&mut self, version: &Version, key: &[u8], leaves: &mut Vec<NodePointer>) -> Result<()> {
        let mut layers = Vec::with_capacity(32);
        path(&version.root, key, &mut layers);
        self.probe(&layers, key)?;
        for (layer, hits) in layers.iter().zip(&self.hits) {
            let Some(&value) = hits.first() else { continue };
            if let Some(run) = layer
                .part
                .group
                .runs
                .get(usize::from(value))
                .and_then(OnceLock::get)
            {
                leaves.extend(run.locate(key, self.store.cache(), self.guard, Purpose::Lookup)?);
            }
            break;
        }
        Ok(())
    }
}
