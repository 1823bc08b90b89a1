//! Our hashed structure: SILT's stores on extents (Lim 2015, §2.4), with the numbers that a store
//! has them built with.
//!
//! In place of a log and its cuckoo table there is a memtable, whose records become a hash store.
//! Once hash stores have a quarter of the bytes of the sorted store, or are 32, all of its parts
//! are written again.

use super::cost::{LONG, Point};
use super::ours::{LOG_BYTES, memory};
use super::workload::{Machine, Workload};
use crate::Popularity;
use crate::parameter::{BadParameter, require};
use crate::tiered::{Shape, missed};

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
/// A merge is due with at least `LEAST` hash stores that have 1 / `RATIO` of the sorted store's
/// bytes, and with `MOST` in any case.
const LEAST: f64 = 4.0;
pub(super) const MOST: f64 = 32.0;
const RATIO: f64 = 4.0;
/// How often a filter says yes in vain, and how often a lookup reads a second leaf in vain.
const FILTER_WRONG: f64 = 1.0 / 4096.0;
pub(super) const SECOND_LEAF: f64 = 1.0 / 256.0;
/// Bytes of memory: of a filter for each record, of what is known of each leaf (its checksum, and
/// its part of the index), of a trie for each key.
pub(super) const YOUNG_BYTES: f64 = 2.2;
pub(super) const LEAF_BYTES: f64 = 9.4;
const TRIE_BYTES: f64 = 0.38;
/// A trie's number for each leaf, in place of a `PaCHash` index of it.
const TRIE_LEAF_BYTES: f64 = 12.0;
/// Parts of the sorted store: one is there twice while it is merged.
pub(super) const PARTS: f64 = 16.0;

pub(super) fn point(index: HashIndex, workload: &Workload, machine: &Machine) -> Result<Point, BadParameter> {
    let all = &workload.operations;
    let must = "none: a hashed keyspace has no order";
    require("the scans", all.scans, all.scans == 0.0, must)?;
    let (popularity, memory) = (workload.popularity()?, memory(machine)?);
    let (record, keys) = (workload.record_bytes(), popularity.keys());
    // A record that does not fit is apart, with a page of its own; half a record is left empty.
    let in_leaf = ((LEAF - HEADER - record / 2.0) / (record + RECORD)).max(1.0);
    let leaf_bytes = LEAF.max(record);
    let on_device = leaf_bytes / in_leaf;
    let requests = (memory.memtable / (record + Shape::default().overhead_bytes)).max(1.0);
    let different = popularity.unique(requests)?.max(1.0);
    // Hash stores of a round.
    let stores = (keys / (RATIO * different)).ceil().clamp(LEAST, MOST);
    let young = stores / 2.0 * different;
    let again = keys / (stores * requests);
    let is_new = all.inserts / all.writes().max(f64::MIN_POSITIVE);
    // New keys are written by the merge once more than those that replace others.
    let merged = again + is_new;
    let tree = (different / requests + merged) * on_device / record;
    let of_leaves = match index {
        HashIndex::PaCHash => LEAF_BYTES / in_leaf,
        HashIndex::Trie => TRIE_BYTES + TRIE_LEAF_BYTES / in_leaf,
    };
    let filters = (YOUNG_BYTES + LEAF_BYTES / in_leaf) * young / keys;
    let memory_per_key = of_leaves + filters;
    let left = (memory.caches - memory_per_key * keys).max(0.0);
    let second = match index {
        HashIndex::PaCHash => SECOND_LEAF,
        HashIndex::Trie => 0.0,
    };
    let in_vain = stores / 2.0 * FILTER_WRONG + second;
    // Absent keys have no favourites: they ask for every leaf alike.
    let uniform = Popularity::uniform(workload.keys as u64)?;
    let leaf = missed(&popularity, in_leaf, leaf_bytes, left);
    let any_leaf = missed(&uniform, in_leaf, leaf_bytes, left);
    Ok(Point {
        write_amplification: tree + (record + LOG_BYTES) / record,
        textbook: 2.0 + again,
        hit_reads: leaf + any_leaf * in_vain,
        miss_reads: any_leaf * (1.0 + in_vain),
        memory_per_key,
        space_amplification: on_device / record * (1.0 + young / keys + 1.0 / PARTS),
        merge_reads: (different / requests + again) * on_device / record,
        write_bytes: LONG,
        read_bytes: leaf_bytes,
        scan_runs: 0.0,
        merged: different / requests + merged,
        asked: 1.0 + stores / 2.0,
    })
}
