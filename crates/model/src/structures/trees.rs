//! This store's bundle of trees, on extents. The records of λ hash stores are written to a leaf,
//! and rewritten only when a third of a part's records are dead. Each level above the leaves stores
//! a list of the hashes of its records.

use super::bundle::require_lambda;
use super::cost::{CostPrediction, LONG};
use super::hashed::{
    LEAF, LEAF_BYTES, MOST, PARTS, SECOND_LEAF, YOUNG_BYTES, first_reads, in_leaf, leaf_reads,
};
use super::runs::memory;
use super::workload::{MachineProfile, WorkloadProfile};
use crate::Popularity;
use crate::parameter::{BadParameter, require};
use crate::tiered::TreeShape;

/// Bits per list entry, besides its characters, for the encoded difference from the previous entry.
const DIFFERENCE: f64 = 3.0;
/// Number of updates per key after which a part is rebuilt, if updates are uniformly distributed.
/// Dead records below settled runs do not count towards the threshold, so this is not the number of
/// updates after which half of the records are dead. It is the root of 2 g − 4 + 3 e^−g.
const REBUILT: f64 = 1.74;

/// Properties of the hash stores and leaves of a bundle.
struct BundleLeaves {
    /// Number of distinct records in a hash store, and of the writes that produced them.
    different: f64,
    requests: f64,
    /// Number of records in a leaf per write that produced them.
    again: f64,
    /// Number of levels of a tree. A tree of a single leaf has one.
    levels: f64,
}

impl BundleLeaves {
    fn of(
        popularity: &Popularity,
        requests: f64,
        stores: f64,
        lambda: f64,
    ) -> Result<BundleLeaves, BadParameter> {
        let leaf = popularity.unique(stores * requests)?.max(1.0);
        let leaves = (popularity.keys() / leaf).max(1.0);
        Ok(BundleLeaves {
            different: popularity.unique(requests)?.max(1.0),
            requests,
            again: leaf / (stores * requests),
            levels: 1.0 + (leaves.ln() / lambda.ln()).floor(),
        })
    }
}

pub(super) fn point(
    lambda: u32,
    workload: &WorkloadProfile,
    machine: &MachineProfile,
) -> Result<CostPrediction, BadParameter> {
    let all = &workload.operations;
    let must = "0, because a hashed keyspace has no order";
    require("the scans", all.scans, all.scans == 0.0, must)?;
    require_lambda(lambda)?;
    let (popularity, memory) = (workload.popularity()?, memory(machine)?);
    let (record, keys, factor) = (workload.record_bytes(), popularity.keys(), f64::from(lambda));
    let in_leaf = in_leaf(record);
    let leaf_bytes = LEAF.max(record);
    let on_device = leaf_bytes / in_leaf;
    let requests = (memory.memtable / (record + TreeShape::default().overhead_bytes)).max(1.0);
    let stores = factor.min(MOST);
    let leaves = BundleLeaves::of(&popularity, requests, stores, factor)?;
    let is_new = all.inserts / all.writes().max(f64::MIN_POSITIVE);
    let rebuilt = (1.0 - is_new) * leaves.again / REBUILT;
    let written = leaves.different / leaves.requests + leaves.again + rebuilt;
    let bits = factor.log2();
    let entry = (3.0 * bits + DIFFERENCE) / 8.0;
    // A root is rewritten each time it gets a child, so a child's entries are rewritten (λ + 1) / 2
    // times on average. Hashes are written with a leaf, and again at every β-th level.
    let beta = (8.0 / bits).floor().max(1.0);
    let leaf_records = leaves.again * stores * leaves.requests;
    let digest = (66.0 - leaf_records.log2()).max(8.0) / 8.0;
    let lists = leaves.levels * entry * (factor + 1.0) / 2.0 + (1.0 + leaves.levels / beta) * digest;
    let filters = keys * leaves.levels * entry;
    let young = stores / 2.0 * leaves.different;
    let memory_per_key = LEAF_BYTES / in_leaf + YOUNG_BYTES * young / keys;
    let left = (memory.caches - memory_per_key * keys).max(0.0);
    // Most keys are in the deepest tree. To find one, a lookup reads one page of the root of every
    // tree, and one page of each node on the path below the deepest tree's root.
    let nodes = 2.0 * leaves.levels - 1.0;
    let is_missed = (1.0 - left / filters).max(0.0);
    let for_leaves = (left - filters).max(0.0);
    let uniform = Popularity::uniform(workload.keys as u64)?;
    let [leaf, any_leaf] = [&popularity, &uniform].map(|keys| leaf_reads(keys, record, for_leaves, machine));
    // On average a root is half full. Of the entries whose prefix matches by chance, a fraction of
    // 1/λ also matches in the check character, and at each level below, 1/λ of the remaining ones
    // match. Over the roots of all heights, this adds up to 0.5 (1/λ + 1/λ² + …).
    let in_vain = 0.5 / (factor - 1.0);
    let stale = (1.0 - is_new) * REBUILT / 2.0;
    let per_record = filters / keys + digest / beta;
    Ok(CostPrediction {
        write_amplification: written * on_device / record
            + lists * leaves.again / record
            + machine.log_amplification(record),
        write_moments: None,
        textbook: 2.0 + lists / record,
        hit_reads: leaf
            + (1.0 - leaf) * first_reads(all, written, in_leaf)
            + nodes * is_missed
            + any_leaf * (SECOND_LEAF + in_vain),
        miss_reads: leaves.levels * is_missed + any_leaf * in_vain,
        memory_per_key: memory_per_key + filters / keys,
        space_amplification: (on_device + per_record) / record * (1.0 + stale + young / keys + 1.0 / PARTS),
        merge_reads: written * on_device / record,
        write_bytes: LONG,
        read_bytes: leaf_bytes,
        scan_reads: 0.0,
        scan_runs: 0.0,
        merged: written,
        hashed: 0.0,
        asked: 1.0 + stores / 2.0 + leaves.levels,
    })
}
