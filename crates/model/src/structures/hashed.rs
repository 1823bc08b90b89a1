//! Our hashed structure: SILT's stores on extents (Lim 2015, §2.4), with the numbers that a store
//! has them built with.
//!
//! In place of a log and its cuckoo table there is a memtable, whose records become a hash store.
//! The parts of the sorted store take turns: the one that has waited longest takes what waits, once
//! an eighth of the sorted store's bytes wait on average. So a part waits until a quarter of its
//! bytes wait for it. Hash stores are joined by eights while there are many.

use super::cost::{BEHIND, LONG, Point, first_asked};
use super::ours::memory;
use super::workload::{Machine, Operations, Workload};
use crate::Popularity;
use crate::parameter::{BadParameter, require};
use crate::tiered::{RECORD_OVERHEAD, Shape, missed_behind};

/// How the leaf of a hash is found in the sorted store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashIndex {
    /// By a few bits for each leaf (Kurpicz, Lehmann and Sanders 2023).
    PaCHash,
    /// By an entropy-coded trie of all keys, as SILT has it.
    Trie,
}

/// Bytes of a leaf, and those of it that are not records'.
pub(super) const LEAF: f64 = 4096.0;
pub(super) const HEADER: f64 = 8.0;
/// What a record takes beside its key and value in a leaf.
pub(super) const RECORD: f64 = 4.0;
/// A part takes hash stores when there are `LEAST` at least, and when they have 1 / `RATIO` of its
/// bytes, for parts that take turns steadily. With `MOST` hash stores some are joined.
const LEAST: f64 = 4.0;
pub(super) const MOST: f64 = 24.0;
const RATIO: f64 = 4.0;
/// How many hash stores are joined, and how much larger the largest of them may be.
const JOINED: usize = 8;
const ALIKE: f64 = 4.0;
/// How often a filter says yes in vain, and how often a lookup reads a second leaf in vain.
const FILTER_WRONG: f64 = 1.0 / 1024.0;
pub(super) const SECOND_LEAF: f64 = 1.0 / 256.0;
/// Bytes of memory: of a filter for each record, of what is known of each leaf (its checksum, and
/// its part of the index), of a trie for each key.
pub(super) const YOUNG_BYTES: f64 = 1.57;
pub(super) const LEAF_BYTES: f64 = 9.4;
const TRIE_BYTES: f64 = 0.38;
/// A trie's number for each leaf, in place of a `PaCHash` index of it.
const TRIE_LEAF_BYTES: f64 = 12.0;
/// Parts of the sorted store: one is there twice while it is merged.
pub(super) const PARTS: f64 = 16.0;

/// What joins of hash stores come to.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Joins {
    /// Records that they write for each write of a user.
    writes: f64,
    /// Hash stores that there are, on average.
    stores: f64,
    /// Records of those that a part has waited for a turn.
    held: f64,
}

/// Turns that are gone through: the first of them begin with no hash store.
const TURNS: f64 = 3.0;
/// Memtables that are gone through at most; beyond, each factor of eight writes a record once more.
const MOST_TURN: f64 = 4_096.0;

/// Goes through the memtables of some turns. Each hash store counts in memtables, newest first.
fn joins(popularity: &Popularity, requests: f64, turn: f64) -> Joins {
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
        // The last part has taken the oldest.
        let mut held: f64 = young.iter().sum();
        while young.last().is_some_and(|oldest| held - oldest >= turn) {
            held -= young.pop().unwrap_or_default();
        }
        if flush as f64 >= turn {
            // Those of the last turn: of the oldest a part.
            let mut left = turn;
            for &of in &young {
                kept += popularity.unique_of(of * requests) * (left / of).clamp(0.0, 1.0);
                left -= of;
            }
            (stores, counted) = (stores + young.len() as f64, counted + 1.0);
        }
    }
    let counted: f64 = f64::max(counted, 1.0);
    Joins {
        writes: written / (counted * requests) + more,
        stores: stores / counted,
        held: kept / counted,
    }
}

/// How often the length of a turn is corrected.
const CORRECTIONS: usize = 4;

/// Returns how many memtables are written between two turns of a part, and what joins come to
/// meanwhile: joined hash stores have fewer records, so that a turn comes later.
fn turn(popularity: &Popularity, requests: f64, different: f64) -> (f64, Joins) {
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

/// Returns where the hash stores begin that are joined: of those next to each other and alike, the
/// ones with the fewest bytes, and of these the oldest.
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

/// Returns how many records a leaf has: one that does not fit is apart, with a page of its own, and
/// half a record is left empty.
pub(super) fn in_leaf(record: f64) -> f64 {
    ((LEAF - HEADER - record / 2.0) / (record + RECORD)).max(1.0)
}

/// Returns how many leaves a lookup of a key reads, where records and leaves have this memory: a
/// key that is not there is in no cache of records, and all leaves are asked for alike.
pub(super) fn leaf_reads(keys: &Popularity, record: f64, bytes: f64, machine: &Machine) -> f64 {
    let records = bytes * machine.records_share;
    let kept = match keys.groups().len() {
        1 => 0.0,
        _ => records / (record + RECORD_OVERHEAD),
    };
    missed_behind(keys, kept, in_leaf(record), LEAF.max(record), bytes - records)
}

/// Returns which share of the lookups of keys that are there read a leaf because it was written
/// since anyone had asked for it. Each write of a user comes to `rewritten` records in leaves.
pub(super) fn first_reads(all: &Operations, rewritten: f64, in_leaf: f64) -> f64 {
    first_asked(all.writes() * rewritten / in_leaf, all.hits)
}

pub(super) fn point(index: HashIndex, workload: &Workload, machine: &Machine) -> Result<Point, BadParameter> {
    let all = &workload.operations;
    let must = "none: a hashed keyspace has no order";
    require("the scans", all.scans, all.scans == 0.0, must)?;
    let (popularity, memory) = (workload.popularity()?, memory(machine)?);
    let (record, keys) = (workload.record_bytes(), popularity.keys());
    let in_leaf = in_leaf(record);
    let leaf_bytes = LEAF.max(record);
    let on_device = leaf_bytes / in_leaf;
    let requests = (memory.memtable / (record + Shape::default().overhead_bytes)).max(1.0);
    let different = popularity.unique(requests)?.max(1.0);
    // Memtables that are written between two turns of a part, and what waits meanwhile.
    let (turn, joins) = turn(&popularity, requests, different);
    let waiting = (turn / 2.0 * different)
        .min(keys / RATIO / 2.0)
        .max(LEAST / 2.0 * different);
    let again = keys / (turn * requests);
    let is_new = all.inserts / all.writes().max(f64::MIN_POSITIVE);
    // New keys are written by the merge once more than those that replace others.
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
    // Absent keys have no favourites: they ask for every leaf alike.
    let uniform = Popularity::uniform(workload.keys as u64)?;
    let [leaf, any_leaf] = [&popularity, &uniform].map(|keys| leaf_reads(keys, record, left, machine));
    Ok(Point {
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
        // Most of them are joined once, and with 600 most of those once more.
        let (once, twice) = (of(60.0), of(600.0));
        assert!((0.5..1.1).contains(&once.writes), "{once:?}");
        assert!((1.3..2.2).contains(&twice.writes), "{twice:?}");
        assert!(once.stores < 30.0 && twice.stores < 40.0, "{once:?} {twice:?}");
        assert!(of(1e6).writes > twice.writes + 1.0);
    }
}
