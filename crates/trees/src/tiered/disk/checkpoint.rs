//! The trunk on disk: what has changed is written at a checkpoint, children before their parents,
//! and read at an opening.

use super::form::{self, Open};
use super::format::{Form, GroupName, Root};
use super::salvage::{self, Salvage};
use crate::maplet::Maplet;
use crate::run::Run;
use crate::tiered::tree::{Tree, TreeOptions, Trunk, all_nodes};
use crate::tiered::trunk::{Group, Node, RunKey, key_of};
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::cut::Cut;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::read::Files;
use alluvium_dictionary::values::{self, Placed, Slot, ValuePointer, ValueWriter};
use alluvium_storage::extents::{Class, Extent, UNIT};
use alluvium_storage::store::Store;
use alluvium_storage::{Error, NodePointer, Place, Result, Structure};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Bytes of trunk extents that there may be, for each byte of the trunk's nodes, before all of them
/// are written again.
const SPARSE: u64 = 4;

/// How often what has changed is written while the trunk goes on changing.
const ROUNDS: usize = 4;
/// So few nodes may be written while it stands still.
const FEW: usize = 4;

/// Where a checkpoint has written a node, if one has.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Unwritten,
    Written(Shelf),
    /// It is in the current version no more, and never will be again.
    Gone,
}

impl Stored {
    pub(crate) fn at(&self) -> Option<ValuePointer> {
        match &*self.state.lock() {
            State::Written(shelf) => Some(shelf.pointer),
            State::Unwritten | State::Gone => None,
        }
    }

    fn shelf(&self) -> Option<Shelf> {
        match &*self.state.lock() {
            State::Written(shelf) => Some(shelf.clone()),
            State::Unwritten | State::Gone => None,
        }
    }
}

/// Where a trunk node is.
#[derive(Clone, Debug)]
struct Shelf {
    pointer: ValuePointer,
    /// The storage nodes that hold its bytes.
    nodes: Vec<NodePointer>,
}

/// The extents of checkpointed trunk nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Shelves {
    /// How many trunk nodes of the current version each has.
    counts: BTreeMap<Extent, u32>,
    /// Bytes of all of them.
    bytes: u64,
}

impl Shelves {
    /// The extents that hold trunk nodes.
    pub(crate) fn extents(&self) -> impl Iterator<Item = Extent> + '_ {
        self.counts.keys().copied()
    }

    /// Bytes of memory that it takes, about.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.counts.len() * 2 * size_of::<(Extent, u32)>()) as u64
    }

    fn holding(&self, pointer: &NodePointer) -> Option<Extent> {
        let unit = u32::try_from(pointer.offset / UNIT).ok()?;
        let from = Extent {
            tier: pointer.tier,
            start: 0,
            units: 0,
        };
        let to = Extent {
            tier: pointer.tier,
            start: unit,
            units: u32::MAX,
        };
        let (extent, _) = self.counts.range(from..=to).next_back()?;
        (unit < extent.end()).then_some(*extent)
    }

    /// One trunk node more, in extents that are known.
    fn add(&mut self, shelf: &Shelf) {
        self.bytes += u64::from(shelf.pointer.len);
        for pointer in &shelf.nodes {
            let extent = self.holding(pointer).expect("a stored node is on a shelf");
            *self.counts.entry(extent).or_default() += 1;
        }
    }

    /// One trunk node less; the extents in which it was the last.
    fn take(&mut self, shelf: &Shelf) -> Vec<Extent> {
        assert!(self.bytes >= u64::from(shelf.pointer.len), "bytes are counted");
        self.bytes -= u64::from(shelf.pointer.len);
        let mut empty = Vec::new();
        for pointer in &shelf.nodes {
            let extent = self.holding(pointer).expect("a stored node is on a shelf");
            let count = self.counts.get_mut(&extent).expect("it was just found");
            assert!(*count > 0, "a stored node is taken down once");
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&extent);
                empty.push(extent);
            }
        }
        empty
    }

    /// Those of a trunk that was read.
    fn of(nodes: &[Arc<Node>], store: &Store) -> Result<Shelves> {
        let mut shelves = Shelves::default();
        for shelf in nodes.iter().filter_map(|node| node.stored.shelf()) {
            for pointer in &shelf.nodes {
                let Some(extent) = store.extents().holding(pointer.tier, pointer.offset) else {
                    let found = "a trunk node where no extent is in use";
                    return Err(Error::corrupt(pointer.place(), "an extent", found));
                };
                shelves.counts.entry(extent).or_default();
            }
            shelves.add(&shelf);
        }
        Ok(shelves)
    }

    /// Whether most of what the extents hold is of older versions.
    fn is_sparse(&self) -> bool {
        let space: u64 = self.counts.keys().map(Extent::bytes).sum();
        space > SPARSE * self.bytes.next_multiple_of(UNIT) + 2 * UNIT
    }
}

/// Trunk nodes that are written, and not yet part of the store.
struct Written {
    /// Each with where it is.
    nodes: Vec<(Arc<Node>, Shelf)>,
    extents: Vec<(Extent, u64)>,
}

impl Tree {
    /// What is wrong with the counts of trunk nodes by extent, if anything.
    pub(crate) fn wrong_shelves(&self, trunk: &Trunk, nodes: &[Arc<Node>]) -> Option<String> {
        match Shelves::of(nodes, self.store()) {
            Ok(found) if found == trunk.shelves => None,
            Ok(found) => Some(format!(
                "trunk extents are counted {:?}, found {found:?}",
                trunk.shelves
            )),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Writes most of what a checkpoint needs, while other steps go on: the cut that follows has
    /// little left to write. One checkpoint runs at a time.
    ///
    /// # Errors
    /// A full disk, which changes nothing; after a failed write the store takes no changes.
    pub fn prepare(&self) -> Result<()> {
        // What changes while most is written is written again, and is little: the trunk stands
        // still for a few nodes.
        for round in 0..ROUNDS {
            let version = self.version();
            let nodes = if round == 0 && self.lock().shelves.is_sparse() {
                all_nodes(&version.root)
            } else {
                unwritten(&version.root)
            };
            if nodes.len() <= FEW {
                break;
            }
            let written = self.write_nodes(nodes);
            let written = self.judge(written)?;
            self.shelve(&mut self.lock(), written);
        }
        Ok(())
    }

    /// Writes what is left, and returns what the tree is opened from: [`Tree::open`]. The trunk
    /// stands still until the cut is dropped, so that the extents can be cut at the same moment.
    ///
    /// # Errors
    /// As [`Tree::prepare`].
    pub fn stand(&self) -> Result<Cut<'_>> {
        let mut trunk = self.lock();
        let version = self.version();
        let written = self.write_nodes(unwritten(&version.root));
        let written = self.judge(written)?;
        self.shelve(&mut trunk, written);
        let root = Root {
            fingerprint_bits: self.shared.options.fingerprint_bits,
            next_group: self.group_numbers(),
            trunk: version.root.stored.at().expect("the root was written"),
        };
        Ok(Cut::new(root.encode(), version.cut, trunk))
    }

    /// Writes nodes, children before their parents. Those of which a child has been overtaken
    /// meanwhile have been, too, and are left out.
    fn write_nodes(&self, mut nodes: Vec<Arc<Node>>) -> Result<Written> {
        if nodes.is_empty() {
            return Ok(Written {
                nodes: Vec::new(),
                extents: Vec::new(),
            });
        }
        nodes.sort_by_key(|node| node.height);
        let store = self.store();
        let writer = store.node_writer(store.writer_options(Purpose::Trunk, Class::Freeing))?;
        let mut writer = ValueWriter::new(writer, store.page_size());
        let mut placed: HashMap<*const Node, Shelf> = HashMap::new();
        for level in nodes.chunk_by(|one, other| one.height == other.height) {
            write_level(&mut writer, level, &mut placed)?;
        }
        let extents = writer.finish()?.extents;
        let with_shelf = |node: Arc<Node>| {
            let shelf = placed.remove(&Arc::as_ptr(&node))?;
            Some((node, shelf))
        };
        Ok(Written {
            nodes: nodes.into_iter().filter_map(with_shelf).collect(),
            extents,
        })
    }

    /// Notes where nodes are now, and gives up where they were. What has been overtaken while it
    /// was written counts for nothing.
    fn shelve(&self, trunk: &mut Trunk, written: Written) {
        let (store, shelves) = (self.store(), &mut trunk.shelves);
        for (extent, _) in &written.extents {
            assert!(!shelves.counts.contains_key(extent), "{extent} is new");
            shelves.counts.insert(*extent, 0);
        }
        let mut before = Vec::new();
        for (node, shelf) in written.nodes {
            let mut state = node.stored.state.lock();
            if matches!(*state, State::Gone) {
                continue;
            }
            shelves.add(&shelf);
            if let State::Written(shelf) = std::mem::replace(&mut *state, State::Written(shelf)) {
                before.push(shelf);
            }
        }
        for (extent, live) in written.extents {
            if shelves.counts[&extent] == 0 {
                shelves.counts.remove(&extent);
                store.extents().abandon(extent);
            } else {
                store.extents().install(&[(extent, live)]);
            }
        }
        for shelf in before {
            self.take_down(trunk, &shelf);
        }
    }

    fn take_down(&self, trunk: &mut Trunk, shelf: &Shelf) {
        let store = self.store();
        for extent in trunk.shelves.take(shelf) {
            store.extents().release(extent, store.epochs().current());
        }
    }

    /// A node is not in the current version any more: its extents lose it.
    pub(crate) fn forget_stored(&self, trunk: &mut Trunk, node: &Node) {
        let state = std::mem::replace(&mut *node.stored.state.lock(), State::Gone);
        if let State::Written(shelf) = state {
            self.take_down(trunk, &shelf);
        }
    }

    /// Opens the tree with this root, which a [`Cut`] had, and with every commit up to `cut`.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::NewerFormat`], or as the device says.
    pub fn open(store: Arc<Store>, options: TreeOptions, root: &[u8], cut: Sequence) -> Result<Tree> {
        let payload = Root::decode(root, &root_place(), store.page_size())?;
        let mut opener = Opener {
            store: &store,
            groups: HashMap::new(),
            runs: HashMap::new(),
            salvage: None,
            made: BTreeMap::new(),
        };
        let root = opener.read(&payload.trunk)?;
        if root.range != KeyRange::everything() {
            let found = format!("a node with {:?}", root.range);
            return Err(Error::corrupt(
                payload.trunk.node.place(),
                "a root with every key",
                found,
            ));
        }
        let shelves = Shelves::of(&all_nodes(&root), &store)?;
        let options = TreeOptions {
            fingerprint_bits: payload.fingerprint_bits,
            ..options
        };
        Ok(Tree::assemble(
            store,
            options,
            root,
            cut,
            payload.next_group,
            shelves,
        ))
    }
}

impl Tree {
    /// A tree that was read, and whose nodes are all written again by the next checkpoint, wherever
    /// they are.
    pub(crate) fn assemble_unwritten(
        store: Arc<Store>,
        options: TreeOptions,
        root: Arc<Node>,
        cut: Sequence,
        next_group: u64,
    ) -> Tree {
        for node in all_nodes(&root) {
            *node.stored.state.lock() = State::Unwritten;
        }
        Tree::assemble(store, options, root, cut, next_group, Shelves::default())
    }
}

/// Where the root of a tree is, for errors: others keep it.
pub(crate) fn root_place() -> Place {
    Place::new(Structure::Node, "the root of a tree", 0)
}

/// The nodes of a trunk that no checkpoint has written. Below one that is written, all are.
fn unwritten(root: &Arc<Node>) -> Vec<Arc<Node>> {
    let mut nodes = Vec::new();
    let mut next = vec![root];
    while let Some(node) = next.pop() {
        if node.stored.at().is_none() {
            nodes.push(Arc::clone(node));
            next.extend(node.children());
        }
    }
    nodes
}

/// Writes nodes of one height, whose children are written.
fn write_level(
    writer: &mut ValueWriter,
    level: &[Arc<Node>],
    placed: &mut HashMap<*const Node, Shelf>,
) -> Result<()> {
    let mut done: Vec<(usize, Shelf)> = Vec::new();
    let short = |pointer: ValuePointer| Shelf {
        pointer,
        nodes: vec![pointer.node],
    };
    for (slot, node) in level.iter().enumerate() {
        let form = form::form_of(node, &|child| {
            let written = placed.get(&Arc::as_ptr(child)).map(|shelf| shelf.pointer);
            written.or_else(|| child.stored.at())
        });
        let Some(form) = form else { continue };
        let blob = form.encode();
        if writer.is_full_for(blob.len()) {
            writer.close(|slot, pointer| done.push((slot.at, short(pointer))))?;
        }
        let mut nodes = Vec::new();
        let place = Slot { leaf: 0, at: slot };
        if let Placed::Long(pointer) = writer.add(&blob, place, &mut |node| nodes.push(*node))? {
            done.push((slot, Shelf { pointer, nodes }));
        }
    }
    writer.close(|slot, pointer| done.push((slot.at, short(pointer))))?;
    placed.extend(
        done.into_iter()
            .map(|(slot, shelf)| (Arc::as_ptr(&level[slot]), shelf)),
    );
    Ok(())
}

/// Opens what trunk nodes refer to, each once.
pub(crate) struct Opener<'s> {
    store: &'s Store,
    groups: HashMap<u64, (NodePointer, Arc<Group>)>,
    runs: HashMap<RunKey, Run>,
    /// What is damaged, where a repair opens the tree.
    salvage: Option<&'s Salvage>,
    /// Maplets that were rebuilt, by what they are named.
    made: BTreeMap<RunKey, Maplet>,
}

impl<'s> Opener<'s> {
    /// For a tree of which something is damaged.
    pub(crate) fn salvaging(
        store: &'s Store,
        salvage: &'s Salvage,
        made: BTreeMap<RunKey, Maplet>,
    ) -> Opener<'s> {
        Opener {
            store,
            groups: HashMap::new(),
            runs: HashMap::new(),
            salvage: Some(salvage),
            made,
        }
    }

    pub(crate) fn read(&mut self, pointer: &ValuePointer) -> Result<Arc<Node>> {
        let mut bytes = Vec::new();
        let nodes = values::read_apart(Files::of(self.store), pointer, Purpose::Trunk, &mut bytes)?;
        let place = pointer.node.place();
        let form = Form::decode(&bytes, &place, self.store.page_size())?;
        let node = form::node_of(form, self)?;
        *node.stored.state.lock() = State::Written(Shelf {
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
        // Each node names the runs that it needs.
        for (slot, name) in group.runs.iter().zip(&name.runs) {
            if let Some(name) = name
                && slot.get().is_none()
                && !self
                    .salvage
                    .is_some_and(|salvage| salvage.is_gone(&key_of(&name.pointer)))
            {
                let _ = slot.set(self.run(&name.pointer)?.based(name.base));
            }
        }
        Ok(group)
    }

    fn child(&mut self, pointer: ValuePointer, height: u8, range: &KeyRange) -> Result<Arc<Node>> {
        let node = match self.read(&pointer) {
            Err(Error::Corrupt { .. }) if self.salvage.is_some() => Arc::new(salvage::empty(height, range)),
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
