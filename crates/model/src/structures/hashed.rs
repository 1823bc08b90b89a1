//! This store's hashed structure: SILT's stores on extents (Lim 2015, §2.4). The model uses the
//! constants of the implementation.
//!
//! Memtables take the place of SILT's log and cuckoo table, and their records become hash stores.
//! The sorted store consists of parts, which are merged in turn. The part that was merged longest
//! ago is merged next, once the records in hash stores average an eighth of the sorted store's
//! bytes, that is, once a quarter of the part's bytes has accumulated for it. If there are many
//! hash stores, groups of eight are joined.

use super::cost::{BEHIND, CostPrediction, LONG, first_asked};
use super::runs::memory;
use super::workload::{MachineProfile, OperationRates, WorkloadProfile};
use crate::Popularity;
use crate::parameter::{BadParameter, require};
use crate::tiered::{RECORD_OVERHEAD, TreeShape, missed_behind};

/// The index that locates the leaf of a hash in the sorted store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashIndex {
    /// A `PaCHash` index, with a few bits per leaf (Kurpicz, Lehmann and Sanders 2023).
    PaCHash,
    /// An entropy-coded trie of all keys, as in SILT.
    Trie,
}

/// Size in bytes of a leaf, and of its header.
pub(super) const LEAF: f64 = 4096.0;
pub(super) const HEADER: f64 = 8.0;
/// Overhead in bytes of a record in a leaf, in addition to its key and value.
pub(super) const RECORD: f64 = 4.0;
/// A part is merged once there are at least `LEAST` hash stores and they hold 1 / `RATIO` of the
/// part's bytes for it, assuming that parts are merged at a steady pace. From `MOST` hash stores
/// on, some are joined.
const LEAST: f64 = 4.0;
pub(super) const MOST: f64 = 24.0;
const RATIO: f64 = 4.0;
/// Number of hash stores that are joined at once, and maximum ratio of their sizes.
const JOINED: usize = 8;
const ALIKE: f64 = 4.0;
/// False-positive rate of a filter, and the probability that a lookup reads a second leaf in vain.
const FILTER_WRONG: f64 = 1.0 / 1024.0;
pub(super) const SECOND_LEAF: f64 = 1.0 / 256.0;
/// Bytes of memory of a filter per record, of metadata per leaf (its checksum and its share of the
/// index), and of a trie per key.
pub(super) const YOUNG_BYTES: f64 = 1.57;
pub(super) const LEAF_BYTES: f64 = 9.4;
const TRIE_BYTES: f64 = 0.38;
/// Additional bytes of memory per leaf if the index is a trie instead of a `PaCHash` index.
const TRIE_LEAF_BYTES: f64 = 12.0;
/// Number of parts of the sorted store. While a part is merged, it occupies space twice.
pub(super) const PARTS: f64 = 16.0;

/// The effect of joining hash stores.
#[derive(Clone, Copy, Debug, PartialEq)]
struct JoinOutcome {
    /// Number of records that joins write per user write.
    writes: f64,
    /// Average number of hash stores.
    stores: f64,
    /// Number of records that hash stores have accumulated for a part when it is merged.
    held: f64,
}

/// Number of simulated turns. The first turn starts without hash stores.
const TURNS: f64 = 3.0;
/// Maximum number of simulated memtables per turn. In longer turns, each further factor of eight is
/// assumed to write a record once more.
const MOST_TURN: f64 = 4_096.0;

/// Simulates the memtable flushes of several turns, and returns the effect of joins. Sizes of hash
/// stores are in memtables, newest first.
fn joins(popularity: &Popularity, requests: f64, turn: f64) -> JoinOutcome {
    let more = (turn / MOST_TURN).max(1.0).log(JOINED as f64);
    let turn = turn.min(MOST_TURN);
    let mut young: Vec<f64> = Vec::new();
    let (mut written, mut stores, mut kept, mut counted) = (0.0, 0.0, 0.0, 0.0);
    let count = (TURNS * turn).ceil() as u64;
    for flush in 0..count {
        young.insert(0, 1.0);
        if young.len() >= MOST as usize
            && let Some(at) = joined(&young)
        {
            let memtables: f64 = young.splice(at..at + JOINED, [0.0]).sum();
            young[at] = memtables;
            if flush as f64 >= turn {
                written += popularity.unique_of(memtables * requests);
            }
        }
        // The merge of the last part has used up the oldest hash stores.
        let mut held: f64 = young.iter().sum();
        while young.last().is_some_and(|oldest| held - oldest >= turn) {
            held -= young.pop().unwrap_or_default();
        }
        if flush as f64 >= turn {
            // Count the records in the hash stores of the last turn, with a fraction of the oldest
            // one.
            let mut left = turn;
            for &of in &young {
                kept += popularity.unique_of(of * requests) * (left / of).clamp(0.0, 1.0);
                left -= of;
            }
            (stores, counted) = (stores + young.len() as f64, counted + 1.0);
        }
    }
    let counted: f64 = f64::max(counted, 1.0);
    JoinOutcome {
        writes: written / (counted * requests) + more,
        stores: stores / counted,
        held: kept / counted,
    }
}

/// Number of times that the estimated turn length is corrected.
const CORRECTIONS: usize = 4;

/// Returns the number of memtables flushed between two merges of a part, and the effect of joins in
/// that period. Joined hash stores have fewer records, which delays the next merge.
fn turn(popularity: &Popularity, requests: f64, different: f64) -> (f64, JoinOutcome) {
    let share = popularity.keys() / RATIO;
    let mut turn = (share / different).max(LEAST);
    let mut of = joins(popularity, requests, turn);
    for _ in 0..CORRECTIONS {
        if of.writes == 0.0 || turn >= MOST_TURN {
            break;
        }
        turn = (turn * share / of.held.max(1.0)).max(LEAST);
        of = joins(popularity, requests, turn);
    }
    (turn, of)
}

/// Returns the index of the first of the hash stores to join, or `None` if no group is suitable.
/// Among groups of adjacent stores of similar size, selects the one with the fewest bytes, or the
/// oldest of several such groups.
fn joined(young: &[f64]) -> Option<usize> {
    let mut chosen: Option<(f64, usize)> = None;
    for (at, group) in young.windows(JOINED).enumerate() {
        let (least, most) = group.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), &of| {
            (least.min(of), most.max(of))
        });
        let sum: f64 = group.iter().sum();
        if most <= ALIKE * least && chosen.is_none_or(|(before, _)| sum <= before) {
            chosen = Some((sum, at));
        }
    }
    chosen.map(|(_, at)| at)
}

/// Returns the number of records per leaf, each of which wastes the space of half a record. A
/// record that is longer than a leaf has its own pages.
pub(super) fn in_leaf(record: f64) -> f64 {
    ((LEAF - HEADER - record / 2.0) / (record + RECORD)).max(1.0)
}

/// Returns the number of leaves that a lookup reads from the device if the record cache and cached
/// leaves share `bytes` bytes of memory. Keys that do not exist are not in the record cache, and
/// their lookups access all leaves uniformly.
pub(super) fn leaf_reads(keys: &Popularity, record: f64, bytes: f64, machine: &MachineProfile) -> f64 {
    let records = bytes * machine.records_share;
    let kept = match keys.groups().len() {
        1 => 0.0,
        _ => records / (record + RECORD_OVERHEAD),
    };
    missed_behind(keys, kept, in_leaf(record), LEAF.max(record), bytes - records)
}

/// Returns the fraction of lookups of existing keys that read a leaf because nothing has accessed
/// it since it was written. `rewritten` is the number of records written to leaves per user write.
pub(super) fn first_reads(all: &OperationRates, rewritten: f64, in_leaf: f64) -> f64 {
    first_asked(all.writes() * rewritten / in_leaf, all.hits)
}

pub(super) fn point(
    index: HashIndex,
    workload: &WorkloadProfile,
    machine: &MachineProfile,
) -> Result<CostPrediction, BadParameter> {
    let all = &workload.operations;
    let must = "0, because a hashed keyspace has no order";
    require("the scans", all.scans, all.scans == 0.0, must)?;
    let (popularity, memory) = (workload.popularity()?, memory(machine)?);
    let (record, keys) = (workload.record_bytes(), popularity.keys());
    let in_leaf = in_leaf(record);
    let leaf_bytes = LEAF.max(record);
    let on_device = leaf_bytes / in_leaf;
    let requests = (memory.memtable / (record + TreeShape::default().overhead_bytes)).max(1.0);
    let different = popularity.unique(requests)?.max(1.0);
    // The number of memtables between two merges of a part, and the average number of records that
    // have accumulated for it.
    let (turn, joins) = turn(&popularity, requests, different);
    let waiting = (turn / 2.0 * different)
        .min(keys / RATIO / 2.0)
        .max(LEAST / 2.0 * different);
    let again = keys / (turn * requests);
    let is_new = all.inserts / all.writes().max(f64::MIN_POSITIVE);
    // A merge rewrites the existing keys and also writes the new keys.
    let merged = again + is_new + joins.writes;
    let tree = (different / requests + merged) * on_device / record;
    let of_leaves = match index {
        HashIndex::PaCHash => LEAF_BYTES / in_leaf,
        HashIndex::Trie => TRIE_BYTES + TRIE_LEAF_BYTES / in_leaf,
    };
    let filters = (YOUNG_BYTES + LEAF_BYTES / in_leaf) * waiting / keys;
    let memory_per_key = of_leaves + filters;
    let left = (memory.caches - memory_per_key * keys).max(0.0);
    let second = match index {
        HashIndex::PaCHash => SECOND_LEAF,
        HashIndex::Trie => 0.0,
    };
    let in_vain = joins.stores / 2.0 * FILTER_WRONG + second;
    // Lookups of keys that do not exist access every leaf uniformly.
    let uniform = Popularity::uniform(workload.keys as u64)?;
    let [leaf, any_leaf] = [&popularity, &uniform].map(|keys| leaf_reads(keys, record, left, machine));
    Ok(CostPrediction {
        write_amplification: tree + machine.log_amplification(record),
        write_moments: Some((
            BEHIND * tree + machine.log_amplification(record),
            tree + machine.log_amplification(record),
        )),
        textbook: 2.0 + again,
        hit_reads: leaf
            + (1.0 - leaf) * first_reads(all, different / requests + merged, in_leaf)
            + any_leaf * in_vain,
        miss_reads: any_leaf * (1.0 + in_vain),
        memory_per_key,
        space_amplification: on_device / record * (1.0 + 2.0 * waiting / keys + 1.0 / PARTS),
        merge_reads: (different / requests + again + joins.writes) * on_device / record,
        write_bytes: LONG,
        read_bytes: leaf_bytes,
        scan_reads: 0.0,
        scan_runs: 0.0,
        merged: different / requests + merged,
        hashed: different / requests + merged,
        asked: 1.0 + joins.stores / 2.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_stores_are_joined_only_where_a_turn_has_many() {
        let keys = Popularity::uniform(1_000_000_000).unwrap();
        let of = |turn| joins(&keys, 1000.0, turn);
        let few = of(12.0);
        assert_eq!(few.writes, 0.0);
        assert!((10.0..13.0).contains(&few.stores), "{few:?}");
        // With 60 memtables per turn, most hash stores are joined once. With 600, most of them are
        // joined twice.
        let (once, twice) = (of(60.0), of(600.0));
        assert!((0.5..1.1).contains(&once.writes), "{once:?}");
        assert!((1.3..2.2).contains(&twice.writes), "{twice:?}");
        assert!(once.stores < 30.0 && twice.stores < 40.0, "{once:?} {twice:?}");
        assert!(of(1e6).writes > twice.writes + 1.0);
    }
}
