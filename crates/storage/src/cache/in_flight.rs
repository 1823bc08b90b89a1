//! The in-flight table, which lists the nodes that are being read.

use super::frame::NodeKey;
use super::read::BatchRead;
use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// Number of shards of the table, each with its own lock.
const SHARDS: usize = 64;
const _: () = assert!(SHARDS.is_power_of_two(), "shards are bits of a hash");

/// A node that is being read as entry `index` of a batch.
#[derive(Debug)]
pub(super) struct InFlightNode {
    pub(super) key: NodeKey,
    pub(super) reading: Arc<BatchRead>,
    pub(super) index: usize,
}

/// All nodes that are being read, sharded by node hash.
#[derive(Debug)]
pub(super) struct InFlightTable {
    shards: Box<[CachePadded<Mutex<Vec<InFlightNode>>>]>,
}

impl InFlightTable {
    pub(super) fn new() -> InFlightTable {
        InFlightTable {
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
        }
    }

    pub(super) fn bytes() -> u64 {
        (SHARDS * size_of::<CachePadded<Mutex<Vec<InFlightNode>>>>()) as u64
    }

    /// Locks and returns the shard for a hash.
    pub(super) fn shard(&self, hash: u64) -> MutexGuard<'_, Vec<InFlightNode>> {
        self.shards[(hash >> 32) as usize % SHARDS].lock()
    }

    /// Returns every batch in flight.
    pub(super) fn readings(&self) -> Vec<Arc<BatchRead>> {
        let mut readings = Vec::new();
        for shard in &self.shards {
            // The nodes of a batch are spread over many shards, but its first node is in only one,
            // so each batch is returned once.
            let shard = shard.lock();
            let first = shard.iter().filter(|flight| flight.index == 0);
            readings.extend(first.map(|flight| Arc::clone(&flight.reading)));
        }
        readings
    }

    /// Returns the number of nodes that are being read, for `check` and tests.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}
