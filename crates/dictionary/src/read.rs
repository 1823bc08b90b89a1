//! The data files that a check reads, and counts of what it has read.

use alluvium_base::Purpose;
use alluvium_storage::node::read_nodes;
use alluvium_storage::store::Store;
use alluvium_storage::{NodePointer, PageSize, Result, TierFiles};
use std::ops::AddAssign;

/// The data files of an open or closed store. All reads bypass the cache.
#[derive(Clone, Copy, Debug)]
pub struct DataFiles<'f> {
    pub tiers: &'f TierFiles,
    pub page_size: PageSize,
}

impl<'f> DataFiles<'f> {
    /// Returns the data files of an open store.
    #[must_use]
    pub fn of(store: &'f Store) -> DataFiles<'f> {
        DataFiles {
            tiers: store.tiers(),
            page_size: store.page_size(),
        }
    }

    /// Reads nodes in batches and passes the index and result of each to `visit`. A damaged node
    /// does not keep the others from being read.
    pub fn nodes(&self, pointers: &[NodePointer], visit: &mut dyn FnMut(usize, Result<Vec<u8>>)) {
        read_nodes(self.tiers, pointers, self.page_size, Purpose::Check, visit);
    }
}

/// How many nodes of one kind were read, and their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeTotals {
    /// Number of nodes or pages.
    pub nodes: u64,
    /// Size of these nodes on the device, in bytes.
    pub bytes: u64,
}

impl NodeTotals {
    /// Counts a node, whether or not it was intact.
    pub fn add(&mut self, pointer: &NodePointer) {
        self.nodes += 1;
        self.bytes += pointer.read_len() as u64;
    }
}

impl AddAssign for NodeTotals {
    fn add_assign(&mut self, other: NodeTotals) {
        self.nodes += other.nodes;
        self.bytes += other.bytes;
    }
}

/// How much data a check has read, for each kind of node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckReadTotals {
    /// Manifest nodes that the superblock points to.
    pub manifest: NodeTotals,
    pub trunk: NodeTotals,
    /// Footers of runs, including any parts of them that are stored in other nodes.
    pub footers: NodeTotals,
    pub index: NodeTotals,
    pub leaves: NodeTotals,
    /// Nodes with values that are stored outside their leaves.
    pub values: NodeTotals,
    /// Directories of maplets, which `maplets` does not include.
    pub directories: NodeTotals,
    pub maplets: NodeTotals,
    /// Segments of the log, each counted as one node.
    pub log: NodeTotals,
    /// Number of records in all leaves read.
    pub records: u64,
    /// Number of reachable records whose value is stored outside the leaf. Each such value was
    /// read.
    pub values_apart: u64,
}

impl AddAssign for CheckReadTotals {
    fn add_assign(&mut self, other: CheckReadTotals) {
        self.manifest += other.manifest;
        self.trunk += other.trunk;
        self.footers += other.footers;
        self.index += other.index;
        self.leaves += other.leaves;
        self.values += other.values;
        self.directories += other.directories;
        self.maplets += other.maplets;
        self.log += other.log;
        self.records += other.records;
        self.values_apart += other.values_apart;
    }
}

impl CheckReadTotals {
    /// Returns the total size of all nodes except log segments, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.manifest.bytes
            + self.trunk.bytes
            + self.footers.bytes
            + self.index.bytes
            + self.leaves.bytes
            + self.values.bytes
            + self.directories.bytes
            + self.maplets.bytes
    }
}
