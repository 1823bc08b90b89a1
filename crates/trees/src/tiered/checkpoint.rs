//! The trunk on disk: what has changed is written at a checkpoint, children before their parents, and read at an opening.

use super::form::{self, Open};
use super::format::{self, Directory, Form, GroupName};
use super::node::{Group, Node};
use super::tree::{Tree, TreeOptions, Trunk, all_nodes};
use crate::maplet::Maplet;
use crate::range::KeyRange;
use crate::run::{self, Placed, Run, Slot, ValuePointer, ValueWriter};
use alluvium_base::Purpose;
use alluvium_storage::extents::{Class, Extent, UNIT};
use alluvium_storage::node::{MAX_PAGES, WriterOptions, read_node};
use alluvium_storage::store::Store;
use alluvium_storage::{Error, NodePointer, Place, Result, Structure};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Bytes of trunk extents that there may be, for each byte of the trunk's nodes, before all of them are written anew.
const SPARSE: u64 = 4;

/// Where a checkpoint has written a node, if one has.
#[derive(Debug, Default)]
pub(super) struct Stored {
    at: Mutex<Option<Shelf>>,
}

/// Where a trunk node is.
#[derive(Clone, Debug)]
struct Shelf {
    pointer: ValuePointer,
    /// The storage nodes that hold its bytes.
    nodes: Vec<NodePointer>,
}

/// The extents of checkpointed trunk nodes.
#[derive(Debug, Default)]
pub(super) struct Shelves {
    /// How many trunk nodes of the current version each has, and the directory.
    counts: BTreeMap<Extent, u32>,
    /// The directory of the newest checkpoint.
    directory: Option<NodePointer>,
    /// Bytes of all trunk nodes, when they were last counted.
    bytes: u64,
}

impl Shelves {
    /// The extents that hold trunk nodes.
    pub(super) fn extents(&self) -> impl Iterator<Item = Extent> + '_ {
        self.counts.keys().copied()
    }

    /// Bytes of memory that it takes, about.
    pub(super) fn memory_bytes(&self) -> u64 {
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

    fn add(&mut self, pointer: &NodePointer) -> bool {
        let Some(extent) = self.holding(pointer) else {
            return false;
        };
        *self.counts.entry(extent).or_default() += 1;
        true
    }

    /// One node less; the extent, when it was the last.
    fn take(&mut self, pointer: &NodePointer) -> Option<Extent> {
        let extent = self.holding(pointer).expect("a stored node is on a shelf");
        let count = self.counts.get_mut(&extent).expect("it was just found");
        *count -= 1;
        (*count == 0).then(|| {
            self.counts.remove(&extent);
            extent
        })
    }
}

impl Tree {
    /// What is wrong with the counts of trunk nodes by extent, if anything.
    pub(super) fn wrong_shelves(&self, trunk: &Trunk, nodes: &[Arc<Node>]) -> Option<String> {
        let mut counted = Shelves {
            counts: trunk.shelves.counts.keys().map(|extent| (*extent, 0)).collect(),
            ..Shelves::default()
        };
        for node in nodes {
            let shelf = node.stored.at.lock().clone();
            for pointer in shelf.iter().flat_map(|shelf| &shelf.nodes) {
                if !counted.add(pointer) {
                    return Some(format!(
                        "a trunk node at {} is in none of the trunk's extents",
                        pointer.offset
                    ));
                }
            }
        }
        if let Some(directory) = &trunk.shelves.directory {
            counted.add(directory);
        }
        let wrong = counted.counts != trunk.shelves.counts;
        wrong.then(|| {
            format!(
                "trunk extents are counted {:?}, found {:?}",
                trunk.shelves.counts, counted.counts
            )
        })
    }

    /// Makes a durable generation that holds every commit up to [`Tree::cut`]. Returns the generation. One checkpoint runs at a
    /// time; other steps may go on meanwhile.
    ///
    /// # Errors
    /// As [`Checkpoint::finish`](alluvium_storage::store::Checkpoint::finish). A full disk makes no generation durable, and it can be tried
    /// again; after a failed write the store takes no changes.
    pub fn checkpoint(&self) -> Result<u64> {
        let store = &self.shared.store;
        let (begun, payload, cut) = {
            let mut trunk = self.lock();
            let version = self.version();
            let directory = self.persist(&mut trunk, &version.root);
            let directory = self.judge(directory)?;
            // The cut of the extents is taken while nobody can change the trunk.
            (
                store.begin_checkpoint()?,
                format::encode_payload(&directory),
                version.cut,
            )
        };
        begun.finish(&payload, cut)
    }

    /// Writes every node that is not written yet, and a directory; where that is.
    fn persist(&self, trunk: &mut Trunk, root: &Arc<Node>) -> Result<NodePointer> {
        let store = &self.shared.store;
        let nodes = all_nodes(root);
        let space: u64 = trunk.shelves.counts.keys().map(Extent::bytes).sum();
        let anew = space > SPARSE * trunk.shelves.bytes.next_multiple_of(UNIT) + 2 * UNIT;
        let wanted = |node: &&Arc<Node>| anew || node.stored.at.lock().is_none();
        let mut dirty: Vec<&Arc<Node>> = nodes.iter().filter(wanted).collect();
        if dirty.is_empty()
            && let Some(directory) = trunk.shelves.directory
        {
            return Ok(directory);
        }
        dirty.sort_by_key(|node| node.height);
        let writer = store.node_writer(WriterOptions {
            extent_units: (store.page_size().node_bytes(MAX_PAGES) as u64)
                .div_ceil(UNIT)
                .max(1) as u32,
            ..store.writer_options(Purpose::Trunk, Class::Essential)
        })?;
        let mut writer = ValueWriter::new(writer, store.page_size());
        let mut placed: HashMap<*const Node, Shelf> = HashMap::new();
        let mut bytes = 0;
        for level in dirty.chunk_by(|one, other| one.height == other.height) {
            bytes += write_level(&mut writer, level, &mut placed)?;
        }
        let place_of = |node: &Arc<Node>| placed.get(&Arc::as_ptr(node)).cloned();
        let root_at = place_of(root).or_else(|| root.stored.at.lock().clone());
        let mut directory = Directory {
            fingerprint_bits: self.shared.options.fingerprint_bits,
            next_group: self.group_numbers(),
            root: root_at.expect("the root was written").pointer,
            extents: kept(&trunk.shelves, &dirty),
        };
        let page = store.page_size().bytes();
        let old = directory.extents.len();
        let mut pages = Directory::bytes(old + 1).div_ceil(page);
        let extents = loop {
            let pages_now = u8::try_from(pages).unwrap_or(u8::MAX).min(MAX_PAGES);
            let extents = writer.nodes().extents_ending_with(pages_now)?;
            let needed = Directory::bytes(old + extents.len()).div_ceil(page);
            if needed <= pages {
                break extents;
            }
            pages = needed;
        };
        directory
            .extents
            .extend(extents.iter().map(|(extent, _)| *extent));
        let mut node = directory.encode();
        node.resize(pages * page, 0);
        let at = writer.nodes().add(&node)?;
        let written = writer.finish()?;
        assert_eq!(written.extents, extents, "the writer keeps its word");
        store.extents().install(&written.extents);
        self.shelve(trunk, &dirty, placed, &written.extents, at);
        trunk.shelves.bytes = if anew {
            bytes
        } else {
            trunk.shelves.bytes.max(bytes)
        };
        Ok(at)
    }

    /// Notes where the nodes are now, and gives up where they were.
    fn shelve(
        &self,
        trunk: &mut Trunk,
        dirty: &[&Arc<Node>],
        mut placed: HashMap<*const Node, Shelf>,
        written: &[(Extent, u64)],
        directory: NodePointer,
    ) {
        // Every new extent holds something: a value, or the directory.
        for (extent, _) in written {
            trunk.shelves.counts.insert(*extent, 0);
        }
        trunk.shelves.add(&directory);
        let old = trunk.shelves.directory.replace(directory);
        for node in dirty {
            let shelf = placed.remove(&Arc::as_ptr(node)).expect("it was written");
            for pointer in &shelf.nodes {
                trunk.shelves.add(pointer);
            }
            let before = node.stored.at.lock().replace(shelf);
            self.take_down(trunk, before.iter().flat_map(|shelf| &shelf.nodes));
        }
        self.take_down(trunk, old.iter());
    }

    fn take_down<'p>(&self, trunk: &mut Trunk, nodes: impl Iterator<Item = &'p NodePointer>) {
        let store = &self.shared.store;
        for pointer in nodes {
            if let Some(extent) = trunk.shelves.take(pointer) {
                store.extents().release(extent, store.epochs().current());
            }
        }
    }

    /// A node is not in the current version any more: its extents lose it.
    pub(super) fn forget_stored(&self, trunk: &mut Trunk, node: &Node) {
        let shelf = node.stored.at.lock().take();
        self.take_down(trunk, shelf.iter().flat_map(|shelf| &shelf.nodes));
    }

    /// Opens the tree that the store's superblock names; an empty one when it names none.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::NewerFormat`], or as the device says.
    pub fn open(store: Arc<Store>, options: TreeOptions) -> Result<Tree> {
        let superblock = store.superblock();
        if superblock.payload.is_empty() {
            return Ok(Tree::create(store, options));
        }
        let place = Place::new(Structure::Superblock, "superblock", 0);
        let at = format::decode_payload(&superblock.payload, &place, store.page_size())?;
        let node = read_node(store.tiers(), &at, store.page_size(), Purpose::Trunk)?;
        let directory = Directory::decode(&node, &at.place(), store.page_size())?;
        let mut opener = Opener {
            store: &store,
            groups: HashMap::new(),
            runs: HashMap::new(),
        };
        let root = opener.read(&directory.root)?;
        if root.range != KeyRange::everything() {
            let found = format!("a node with {:?}", root.range);
            return Err(Error::corrupt(
                directory.root.node.place(),
                "a root with every key",
                found,
            ));
        }
        let mut shelves = Shelves {
            counts: directory.extents.iter().map(|extent| (*extent, 0)).collect(),
            ..Shelves::default()
        };
        let nodes = all_nodes(&root);
        let pointers = nodes.iter().flat_map(|node| {
            let shelf = node.stored.at.lock().clone();
            shelf.map(|shelf| shelf.nodes).unwrap_or_default()
        });
        for pointer in pointers.chain([at]) {
            if !shelves.add(&pointer) {
                let found = "a trunk node in none of the directory's extents";
                return Err(Error::corrupt(pointer.place(), "an extent of the trunk", found));
            }
        }
        if shelves.counts.values().any(|count| *count == 0) {
            let found = "an extent without any";
            return Err(Error::corrupt(at.place(), "extents with trunk nodes", found));
        }
        shelves.directory = Some(at);
        shelves.bytes = directory.extents.iter().map(Extent::bytes).sum::<u64>() / 2;
        let options = TreeOptions {
            fingerprint_bits: directory.fingerprint_bits,
            ..options
        };
        let cut = superblock.cut;
        Ok(Tree::assemble(
            Arc::clone(&store),
            options,
            root,
            cut,
            directory.next_group,
            shelves,
        ))
    }
}

/// The extents that still hold trunk nodes once these nodes, and the directory, are elsewhere.
fn kept(shelves: &Shelves, dirty: &[&Arc<Node>]) -> Vec<Extent> {
    let mut left = Shelves {
        counts: shelves.counts.clone(),
        ..Shelves::default()
    };
    for node in dirty {
        let shelf = node.stored.at.lock().clone();
        for pointer in shelf.iter().flat_map(|shelf| &shelf.nodes) {
            left.take(pointer);
        }
    }
    if let Some(directory) = &shelves.directory {
        left.take(directory);
    }
    left.extents().collect()
}

/// Writes nodes of one height, whose children are written; their bytes.
fn write_level(
    writer: &mut ValueWriter,
    level: &[&Arc<Node>],
    placed: &mut HashMap<*const Node, Shelf>,
) -> Result<u64> {
    let mut bytes = 0;
    let mut done: Vec<(usize, Shelf)> = Vec::new();
    let short = |pointer: ValuePointer| Shelf {
        pointer,
        nodes: vec![pointer.node],
    };
    for (slot, node) in level.iter().enumerate() {
        let form = form::form_of(node, &|child| {
            let written = placed.get(&Arc::as_ptr(child)).map(|shelf| shelf.pointer);
            let before = || child.stored.at.lock().as_ref().map(|shelf| shelf.pointer);
            written
                .or_else(before)
                .expect("children are written before their parents")
        });
        let blob = form.encode();
        bytes += blob.len() as u64;
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
            .map(|(slot, shelf)| (Arc::as_ptr(level[slot]), shelf)),
    );
    Ok(bytes)
}

/// Opens what trunk nodes refer to, each once.
struct Opener<'s> {
    store: &'s Store,
    groups: HashMap<u64, (NodePointer, Arc<Group>)>,
    runs: HashMap<(u8, u64, u64), Run>,
}

impl Opener<'_> {
    fn read(&mut self, pointer: &ValuePointer) -> Result<Arc<Node>> {
        let mut bytes = Vec::new();
        let nodes = run::read_apart(self.store, pointer, Purpose::Trunk, &mut bytes)?;
        let place = pointer.node.place();
        let form = Form::decode(&bytes, &place, self.store.page_size())?;
        let node = form::node_of(form, self)?;
        *node.stored.at.lock() = Some(Shelf {
            pointer: *pointer,
            nodes,
        });
        Ok(Arc::new(node))
    }

    fn run(&mut self, pointer: &NodePointer) -> Result<Run> {
        let key = (pointer.tier, pointer.offset, pointer.birth);
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
                let maplet = Maplet::open(self.store, &name.maplet, Purpose::Trunk)?;
                let group = Arc::new(Group::new(name.id, name.runs.iter().map(|_| None), maplet));
                self.groups.insert(name.id, (name.maplet, Arc::clone(&group)));
                group
            }
        };
        // Each node names the runs that it needs.
        for (slot, name) in group.runs.iter().zip(&name.runs) {
            if let Some(name) = name
                && slot.get().is_none()
            {
                let _ = slot.set(self.run(&name.pointer)?.based(name.base));
            }
        }
        Ok(group)
    }

    fn child(&mut self, pointer: ValuePointer, height: u8, range: &KeyRange) -> Result<Arc<Node>> {
        let node = self.read(&pointer)?;
        if node.height != height || node.range != *range {
            let expected = format!("a trunk node of height {height} with {range:?}");
            let found = format!("one of height {} with {:?}", node.height, node.range);
            return Err(Error::corrupt(pointer.node.place(), expected, found));
        }
        Ok(node)
    }
}
