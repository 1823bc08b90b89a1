//! Where checkpoints have written trunk nodes, and the extents that store those nodes.

use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::extents::{Extent, UNIT};
use alluvium_storage::store::Store;
use alluvium_storage::{Error, NodePointer, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Maximum ratio of the total size of the trunk extents to the total size of the current nodes in
/// them. Above it, a checkpoint rewrites all nodes so that the old extents become free.
const SPARSE: u64 = 4;
const _: () = assert!(SPARSE > 1, "extents that hold nothing else are never sparse");

/// Where a checkpoint has written a node, if one has.
#[derive(Debug, Default)]
pub(crate) struct CheckpointLocation {
    state: Mutex<LocationState>,
}

#[derive(Debug, Default)]
enum LocationState {
    #[default]
    Unwritten,
    Written(NodeLocation),
    /// The node has left the current version and will never be in a later one.
    Gone,
}

impl CheckpointLocation {
    /// Returns the pointer to this node that a parent stores, or `None` if the node has not been
    /// written.
    pub(crate) fn at(&self) -> Option<ValuePointer> {
        match &*self.state.lock() {
            LocationState::Written(location) => Some(location.pointer),
            LocationState::Unwritten | LocationState::Gone => None,
        }
    }

    fn location(&self) -> Option<NodeLocation> {
        match &*self.state.lock() {
            LocationState::Written(location) => Some(location.clone()),
            LocationState::Unwritten | LocationState::Gone => None,
        }
    }

    /// Sets the location of a node that was read from disk when the tree was opened.
    pub(crate) fn was_read(&self, from: NodeLocation) {
        let mut state = self.state.lock();
        debug_assert!(matches!(*state, LocationState::Unwritten), "a node is read once");
        *state = LocationState::Written(from);
    }

    /// Marks the node as unwritten, so that the next checkpoint writes it again.
    pub(crate) fn forget(&self) {
        let mut state = self.state.lock();
        debug_assert!(
            !matches!(*state, LocationState::Gone),
            "only what there is is written"
        );
        *state = LocationState::Unwritten;
    }
}

/// The location of a written trunk node.
#[derive(Clone, Debug)]
pub(crate) struct NodeLocation {
    pub(crate) pointer: ValuePointer,
    /// The storage nodes that contain the trunk node's bytes.
    pub(crate) nodes: Vec<NodePointer>,
}

/// The extents in which checkpoints have stored trunk nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TrunkExtents {
    /// Number of the current version's trunk nodes in each extent.
    counts: BTreeMap<Extent, u32>,
    /// Total size in bytes of the current version's written nodes.
    bytes: u64,
}

impl TrunkExtents {
    /// Creates the extent table of a trunk that was read from disk.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a node is not inside an extent that is in use.
    pub(crate) fn of<'n>(
        nodes: impl Iterator<Item = &'n CheckpointLocation>,
        store: &Store,
    ) -> Result<TrunkExtents> {
        let mut extents = TrunkExtents::default();
        for location in nodes.filter_map(CheckpointLocation::location) {
            for pointer in &location.nodes {
                let Some(extent) = store.extents().extent_at(pointer.tier, pointer.offset) else {
                    let found = "a trunk node where no extent is in use";
                    return Err(Error::corrupt(pointer.place(), "an extent", found));
                };
                extents.counts.entry(extent).or_default();
            }
            extents.add(&location);
        }
        Ok(extents)
    }

    /// Returns the extents that contain trunk nodes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.counts.keys().copied()
    }

    /// Returns the approximate memory of the table in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.counts.len() * 2 * size_of::<(Extent, u32)>()) as u64
    }

    /// Returns whether nodes of older versions occupy most of the space in the extents.
    pub(crate) fn is_sparse(&self) -> bool {
        let space: u64 = self.counts.keys().map(Extent::bytes).sum();
        space > SPARSE * self.bytes.next_multiple_of(UNIT) + 2 * UNIT
    }

    /// Records the new locations of nodes that a checkpoint has written, and releases their
    /// previous locations. Ignores nodes that left the current version while they were being
    /// written.
    pub(crate) fn note_written<'n>(
        &mut self,
        nodes: impl Iterator<Item = (&'n CheckpointLocation, NodeLocation)>,
        written: Vec<(Extent, u64)>,
        store: &Store,
    ) {
        for (extent, _) in &written {
            assert!(!self.counts.contains_key(extent), "{extent} is new");
            self.counts.insert(*extent, 0);
        }
        let mut before = Vec::new();
        for (stored, location) in nodes {
            let mut state = stored.state.lock();
            if matches!(*state, LocationState::Gone) {
                continue;
            }
            self.add(&location);
            if let LocationState::Written(old) =
                std::mem::replace(&mut *state, LocationState::Written(location))
            {
                before.push(old);
            }
        }
        for (extent, live) in written {
            if self.counts[&extent] == 0 {
                self.counts.remove(&extent);
                store.extents().abandon(extent);
            } else {
                store.extents().install(&[(extent, live)]);
            }
        }
        for old in before {
            self.release(&old, store);
        }
    }

    /// Marks a node as removed from the current version, and releases its location.
    pub(super) fn node_gone(&mut self, node: &CheckpointLocation, store: &Store) {
        let state = std::mem::replace(&mut *node.state.lock(), LocationState::Gone);
        if let LocationState::Written(location) = state {
            self.release(&location, store);
        }
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

    /// Counts a trunk node in the extents that contain it, all of which must already be in the
    /// table.
    fn add(&mut self, location: &NodeLocation) {
        self.bytes += u64::from(location.pointer.len);
        for pointer in &location.nodes {
            let extent = self
                .holding(pointer)
                .expect("a stored node lies in a trunk extent");
            *self.counts.entry(extent).or_default() += 1;
        }
    }

    /// Removes a trunk node from the counts, and releases the extents that no longer contain any
    /// node.
    fn release(&mut self, location: &NodeLocation, store: &Store) {
        assert!(self.bytes >= u64::from(location.pointer.len), "bytes are counted");
        self.bytes -= u64::from(location.pointer.len);
        for pointer in &location.nodes {
            let extent = self
                .holding(pointer)
                .expect("a stored node lies in a trunk extent");
            let count = self.counts.get_mut(&extent).expect("it was just found");
            assert!(*count > 0, "a stored node is released once");
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&extent);
                store.extents().release(extent, store.epochs().current());
            }
        }
    }
}
