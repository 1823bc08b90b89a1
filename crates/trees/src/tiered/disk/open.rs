//! Opening of a trunk: reads nodes from the root down, and opens what they refer to.

use super::form::{self, Open};
use super::format::{Form, GroupName, Root};
use super::names::root_place;
use crate::maplet::Maplet;
use crate::run::Run;
use crate::tiered::trunk::{
    Group, Location, Node, Pivot, RunKey, TreeOptions, Trunk, TrunkExtents, all_nodes, key_of,
};
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::read::Files;
use alluvium_dictionary::values::{self, ValuePointer};
use alluvium_storage::store::Store;
use alluvium_storage::{Error, NodePointer, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Opens the trunk with this root, taken from a checkpoint's cut, containing every commit up to
/// `cut`.
///
/// # Errors
/// [`Error::Corrupt`], [`Error::NewerFormat`], or I/O errors.
pub(crate) fn open(store: Arc<Store>, options: TreeOptions, root: &[u8], cut: Sequence) -> Result<Trunk> {
    let payload = Root::decode(root, &root_place(), store.page_size())?;
    let root = Opener::new(&store).root(&payload)?;
    let nodes = all_nodes(&root);
    let extents = TrunkExtents::of(nodes.iter().map(|node| &node.stored), &store)?;
    let options = TreeOptions {
        fingerprint_bits: payload.fingerprint_bits,
        ..options
    };
    Ok(Trunk::new(store, options, root, cut, payload.next_group, extents))
}

/// Opens the structures that trunk nodes refer to, each once.
pub(super) struct Opener<'s> {
    store: &'s Store,
    groups: HashMap<u64, (NodePointer, Arc<Group>)>,
    runs: HashMap<RunKey, Run>,
    /// In a repair, the runs whose footers are lost.
    gone: Option<&'s HashSet<RunKey>>,
    /// Rebuilt maplets, by the key of the damaged maplet.
    made: BTreeMap<RunKey, Maplet>,
}

impl<'s> Opener<'s> {
    fn new(store: &'s Store) -> Opener<'s> {
        Opener {
            store,
            groups: HashMap::new(),
            runs: HashMap::new(),
            gone: None,
            made: BTreeMap::new(),
        }
    }

    /// Creates an opener for a repair: these runs are lost, and these maplets were rebuilt.
    pub(super) fn salvaging(
        store: &'s Store,
        gone: &'s HashSet<RunKey>,
        made: BTreeMap<RunKey, Maplet>,
    ) -> Opener<'s> {
        Opener {
            gone: Some(gone),
            made,
            ..Opener::new(store)
        }
    }

    /// Opens the root of a trunk and all nodes below it.
    pub(super) fn root(&mut self, root: &Root) -> Result<Arc<Node>> {
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

    fn read(&mut self, pointer: &ValuePointer) -> Result<Arc<Node>> {
        let mut bytes = Vec::new();
        let nodes = values::read_apart(Files::of(self.store), pointer, Purpose::Trunk, &mut bytes)?;
        let place = pointer.node.place();
        let form = Form::decode(&bytes, &place, self.store.page_size())?;
        let node = form::node_of(form, self)?;
        node.stored.was_read(Location {
            pointer: *pointer,
            nodes,
        });
        Ok(Arc::new(node))
    }

    fn run(&mut self, pointer: &NodePointer) -> Result<Run> {
        let key = key_of(pointer);
        if let Some(run) = self.runs.get(&key) {
            return Ok(run.clone());
        }
        let run = Run::open(self.store, pointer, Purpose::Trunk)?;
        self.runs.insert(key, run.clone());
        Ok(run)
    }
}

impl Open for Opener<'_> {
    fn group(&mut self, name: &GroupName) -> Result<Arc<Group>> {
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
                let group = Arc::new(Group::new(name.id, name.runs.iter().map(|_| None), maplet));
                self.groups.insert(name.id, (name.maplet, Arc::clone(&group)));
                group
            }
        };
        // Each node lists the runs that it needs.
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

    fn child(&mut self, pointer: ValuePointer, height: u8, range: &KeyRange) -> Result<Arc<Node>> {
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

/// Returns an empty subtree.
fn empty(height: u8, range: &KeyRange) -> Node {
    if height == 0 {
        return Node::leaf(range.clone());
    }
    let below = Arc::new(empty(height - 1, range));
    Node {
        height,
        pivots: vec![Pivot::empty(range.low.clone(), Some(below), 1)],
        ..Node::leaf(range.clone())
    }
}
