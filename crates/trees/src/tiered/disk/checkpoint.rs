//! Trunk checkpoints. A checkpoint writes the changed nodes, children before parents.

use super::format::TreeRoot;
use super::stored_node;
use crate::tiered::trunk::{NodeLocation, Trunk, TrunkNode, TrunkWriter, all_nodes};
use alluvium_base::Purpose;
use alluvium_dictionary::checkpoint_root::CheckpointRoot;
use alluvium_dictionary::value_log::{PointerSlot, ValuePlacement, ValuePointer, ValueWriter};
use alluvium_storage::Result;
use alluvium_storage::extents::{AllocationClass, Extent};
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of rounds in which a checkpoint writes changed nodes while the trunk may still
/// change.
const ROUNDS: usize = 4;
/// Number of unwritten nodes that may be left for the final phase, which holds the trunk's lock.
const FEW: usize = 4;

/// Trunk nodes that have been written, and the extents that contain them. These extents do not
/// belong to the store yet.
struct WrittenNodes {
    nodes: Vec<(Arc<TrunkNode>, NodeLocation)>,
    extents: Vec<(Extent, u64)>,
}

/// Writes checkpoints of the trunk, one at a time.
#[derive(Clone, Debug)]
pub(crate) struct Checkpointer {
    trunk: Arc<Trunk>,
}

impl Checkpointer {
    /// Creates the checkpointer of a trunk.
    pub(crate) fn new(trunk: &Arc<Trunk>) -> Checkpointer {
        Checkpointer {
            trunk: Arc::clone(trunk),
        }
    }

    /// Writes most of a checkpoint while other steps continue, to leave little work for
    /// [`Checkpointer::checkpoint_root`]. Only one checkpoint may run at a time.
    ///
    /// # Errors
    /// If the disk is full, returns an error and leaves the tree unchanged. After a failed write,
    /// the store refuses changes.
    pub(crate) fn prepare(&self) -> Result<()> {
        // Each round writes the few nodes that changed during the previous one. The last few are
        // written later, under the trunk's lock.
        for round in 0..ROUNDS {
            let version = self.trunk.version();
            let nodes = if round == 0 && self.trunk.lock().extents.is_sparse() {
                all_nodes(&version.root)
            } else {
                unwritten(&version.root)
            };
            if nodes.len() <= FEW {
                break;
            }
            let written = self.write_nodes(nodes);
            let written = self.trunk.poison_on_error(written)?;
            self.note(&mut self.trunk.lock(), written);
        }
        Ok(())
    }

    /// Writes the rest of a checkpoint and returns the root that `open.rs` reads. The trunk cannot
    /// change while the returned value exists, so the caller can record the extents in the matching
    /// state.
    ///
    /// # Errors
    /// See [`Checkpointer::prepare`].
    pub(crate) fn checkpoint_root(&self) -> Result<CheckpointRoot<'_>> {
        let mut writer = self.trunk.lock();
        let version = self.trunk.version();
        let written = self.write_nodes(unwritten(&version.root));
        let written = self.trunk.poison_on_error(written)?;
        self.note(&mut writer, written);
        let root = TreeRoot {
            fingerprint_bits: self.trunk.options.fingerprint_bits,
            next_group: self.trunk.group_numbers(),
            trunk: version.root.stored.at().expect("the root was written"),
        };
        Ok(CheckpointRoot::new(root.encode(), version.stamp.cut, writer))
    }

    /// Writes nodes, children before parents. If a child has left the current version in the
    /// meantime, so has its parent, which is then skipped.
    fn write_nodes(&self, mut nodes: Vec<Arc<TrunkNode>>) -> Result<WrittenNodes> {
        if nodes.is_empty() {
            return Ok(WrittenNodes {
                nodes: Vec::new(),
                extents: Vec::new(),
            });
        }
        nodes.sort_by_key(|node| node.height);
        let store = &self.trunk.store;
        let writer = store.node_writer(store.writer_options(Purpose::Trunk, AllocationClass::Freeing))?;
        let mut writer = ValueWriter::new(writer, store.page_size());
        let mut placed: HashMap<*const TrunkNode, NodeLocation> = HashMap::new();
        for level in nodes.chunk_by(|one, other| one.height == other.height) {
            write_level(&mut writer, level, &mut placed)?;
        }
        let extents = writer.finish()?.extents;
        let with_location = |node: Arc<TrunkNode>| {
            let location = placed.remove(&Arc::as_ptr(&node))?;
            Some((node, location))
        };
        let nodes = nodes.into_iter().filter_map(with_location).collect();
        debug_assert!(placed.is_empty(), "what was written is a node of the trunk");
        Ok(WrittenNodes { nodes, extents })
    }

    /// Records the new locations of nodes and releases their previous locations.
    fn note(&self, writer: &mut TrunkWriter<'_>, written: WrittenNodes) {
        let nodes = written
            .nodes
            .iter()
            .map(|(node, location)| (&node.stored, location.clone()));
        writer
            .extents
            .note_written(nodes, written.extents, &self.trunk.store);
    }
}

/// Returns the nodes of a trunk that no checkpoint has written. If a node has been written, so have
/// all its descendants, so the search does not descend into it.
fn unwritten(root: &Arc<TrunkNode>) -> Vec<Arc<TrunkNode>> {
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

/// Writes nodes of equal height. Their children must already have been written.
fn write_level(
    writer: &mut ValueWriter,
    level: &[Arc<TrunkNode>],
    placed: &mut HashMap<*const TrunkNode, NodeLocation>,
) -> Result<()> {
    let mut done: Vec<(usize, NodeLocation)> = Vec::new();
    let short = |pointer: ValuePointer| NodeLocation {
        pointer,
        nodes: vec![pointer.node],
    };
    for (slot, node) in level.iter().enumerate() {
        let form = stored_node::form_of(node, &|child| {
            let written = placed.get(&Arc::as_ptr(child)).map(|location| location.pointer);
            written.or_else(|| child.stored.at())
        });
        let Some(form) = form else { continue };
        let blob = form.encode();
        if writer.is_full_for(blob.len()) {
            writer.close(|slot, pointer| done.push((slot.at, short(pointer))))?;
        }
        let mut nodes = Vec::new();
        let place = PointerSlot { leaf: 0, at: slot };
        if let ValuePlacement::Long(pointer) = writer.add(&blob, place, &mut |node| nodes.push(*node))? {
            done.push((slot, NodeLocation { pointer, nodes }));
        }
    }
    writer.close(|slot, pointer| done.push((slot.at, short(pointer))))?;
    debug_assert!(done.len() <= level.len(), "a node is written to one place");
    placed.extend(
        done.into_iter()
            .map(|(slot, location)| (Arc::as_ptr(&level[slot]), location)),
    );
    Ok(())
}
