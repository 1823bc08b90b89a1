//! Opens a trunk by reading its nodes from the root down and opening the structures that they refer
//! to.

use super::format::{StoredGroup, StoredNode, TreeRoot};
use super::reachable::root_place;
use super::stored_node::{self, NodeResolver};
use crate::maplet::Maplet;
use crate::run::IndexedRun;
use crate::tiered::trunk::{
    MapletGroup, NodeLocation, RunKey, TreeOptions, Trunk, TrunkExtents, TrunkNode, TrunkPivot, all_nodes,
    key_of,
};
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::read::DataFiles;
use alluvium_dictionary::value_log::{self, ValuePointer};
use alluvium_storage::store::Store;
use alluvium_storage::{Error, NodePointer, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Opens the trunk with the given root, which a checkpoint returned. The checkpoint contains every
/// commit up to the sequence number `cut`.
///
/// # Errors
/// [`Error::Corrupt`], [`Error::NewerFormat`], or I/O errors.
pub(crate) fn open(
    store: Arc<Store>,
    options: TreeOptions,
    root: &[u8],
    cut: SequenceNumber,
) -> Result<Trunk> {
    let payload = TreeRoot::decode(root, &root_place(), store.page_size())?;
    let root = TrunkOpener::new(&store).root(&payload)?;
    let nodes = all_nodes(&root);
    let extents = TrunkExtents::of(nodes.iter().map(|node| &node.stored), &store)?;
    let options = TreeOptions {
        fingerprint_bits: payload.fingerprint_bits,
        ..options
    };
    Ok(Trunk::new(store, options, root, cut, payload.next_group, extents))
}

/// Opens the structures that trunk nodes refer to. A structure with several references is opened
/// only once.
pub(super) struct TrunkOpener<'s> {
    store: &'s Store,
    groups: HashMap<u64, (NodePointer, Arc<MapletGroup>)>,
    runs: HashMap<RunKey, IndexedRun>,
    /// Runs with unreadable footers. Set only during a repair.
    gone: Option<&'s HashSet<RunKey>>,
    /// The rebuilt maplets, each under the key of the damaged maplet that it replaces.
    made: BTreeMap<RunKey, Maplet>,
}

impl<'s> TrunkOpener<'s> {
    fn new(store: &'s Store) -> TrunkOpener<'s> {
        TrunkOpener {
            store,
            groups: HashMap::new(),
            runs: HashMap::new(),
            gone: None,
            made: BTreeMap::new(),
        }
    }

    /// Creates an opener for a repair. The runs in `gone` are lost, and `made` holds the rebuilt
    /// maplets.
    pub(super) fn salvaging(
        store: &'s Store,
        gone: &'s HashSet<RunKey>,
        made: BTreeMap<RunKey, Maplet>,
    ) -> TrunkOpener<'s> {
        TrunkOpener {
            gone: Some(gone),
            made,
            ..TrunkOpener::new(store)
        }
    }

    /// Opens the root of a trunk and all nodes below it.
    pub(super) fn root(&mut self, root: &TreeRoot) -> Result<Arc<TrunkNode>> {
        let pointer = &root.trunk;
        let node = self.read(pointer)?;
        if node.range != KeyRange::everything() {
            let found = format!("a node with {:?}", node.range);
            return Err(Error::corrupt(
                pointer.node.place(),
                "a root with every key",
                found,
            ));
        }
        Ok(node)
    }

    fn read(&mut self, pointer: &ValuePointer) -> Result<Arc<TrunkNode>> {
        let mut bytes = Vec::new();
        let nodes = value_log::read_apart(DataFiles::of(self.store), pointer, Purpose::Trunk, &mut bytes)?;
        let place = pointer.node.place();
        let form = StoredNode::decode(&bytes, &place, self.store.page_size())?;
        let node = stored_node::node_of(form, self)?;
        node.stored.was_read(NodeLocation {
            pointer: *pointer,
            nodes,
        });
        Ok(Arc::new(node))
    }

    fn run(&mut self, pointer: &NodePointer) -> Result<IndexedRun> {
        let key = key_of(pointer);
        if let Some(run) = self.runs.get(&key) {
            return Ok(run.clone());
        }
        let run = IndexedRun::open(self.store, pointer, Purpose::Trunk)?;
        self.runs.insert(key, run.clone());
        Ok(run)
    }
}

impl NodeResolver for TrunkOpener<'_> {
    fn group(&mut self, name: &StoredGroup) -> Result<Arc<MapletGroup>> {
        let group = match self.groups.get(&name.id) {
            Some((maplet, group)) if *maplet == name.maplet && group.runs.len() == name.runs.len() => {
                Arc::clone(group)
            }
            Some(_) => {
                let expected = format!("one group of number {}", name.id);
                return Err(Error::corrupt(name.maplet.place(), expected, "two"));
            }
            None => {
                let maplet = match self.made.remove(&key_of(&name.maplet)) {
                    Some(made) => made,
                    None => Maplet::open(self.store, &name.maplet, Purpose::Trunk)?,
                };
                let group = Arc::new(MapletGroup::new(name.id, name.runs.iter().map(|_| None), maplet));
                self.groups.insert(name.id, (name.maplet, Arc::clone(&group)));
                group
            }
        };
        // Each node lists only the runs that it needs, so another node may fill in more entries of
        // a shared group.
        for (slot, name) in group.runs.iter().zip(&name.runs) {
            if let Some(name) = name
                && slot.get().is_none()
                && !self
                    .gone
                    .is_some_and(|gone| gone.contains(&key_of(&name.pointer)))
            {
                let filled = slot.set(self.run(&name.pointer)?.based(name.base));
                debug_assert!(filled.is_ok(), "one thread opens a trunk");
            }
        }
        Ok(group)
    }

    fn child(&mut self, pointer: ValuePointer, height: u8, range: &KeyRange) -> Result<Arc<TrunkNode>> {
        let node = match self.read(&pointer) {
            Err(Error::Corrupt { .. }) if self.gone.is_some() => Arc::new(empty(height, range)),
            read => read?,
        };
        if node.height != height || node.range != *range {
            let expected = format!("a trunk node of height {height} with {range:?}");
            let found = format!("one of height {} with {:?}", node.height, node.range);
            return Err(Error::corrupt(pointer.node.place(), expected, found));
        }
        Ok(node)
    }
}

/// Returns an empty subtree of the given height, with one node and one pivot per level.
fn empty(height: u8, range: &KeyRange) -> TrunkNode {
    if height == 0 {
        return TrunkNode::leaf(range.clone());
    }
    let below = Arc::new(empty(height - 1, range));
    TrunkNode {
        height,
        pivots: vec![TrunkPivot::empty(range.low.clone(), Some(below), 1)],
        ..TrunkNode::leaf(range.clone())
    }
}
