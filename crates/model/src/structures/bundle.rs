//! This store's bundle of arrays: levels of fewer than λ runs, with one routing filter per level
//! (Conway 2020, §2.3 and §2.4). The model uses the constants of the implementation.
//!
//! A run of the first level is merged from λ hash stores, or from 24 if λ is greater than 24. Each
//! merge includes all levels above its output level. Of the λ runs that are merged into a run of
//! the next level, the last is therefore never written to its own level. As long as all records
//! have new keys, each level thus writes a record 1 − 1/λ times on average.

use super::cost::{CostPrediction, LONG};
use super::hashed::{
    LEAF, LEAF_BYTES, MOST, PARTS, SECOND_LEAF, YOUNG_BYTES, first_reads, in_leaf, leaf_reads,
};
use super::runs::memory;
use super::workload::{MachineProfile, WorkloadProfile};
use crate::Popularity;
use crate::parameter::{BadParameter, require};
use crate::tiered::TreeShape;

/// Average number of filter prefixes per record of a run, divided by λ. The number of prefixes is
/// rounded up to a power of two, which multiplies it by a factor between 1 and 2. All factors are
/// equally likely.
const ROUNDED: f64 = 1.44;
/// Maximum number of levels beyond those that suffice for all keys. They contain only updates of
/// existing keys.
const MOST_LEVELS: usize = 40;

/// Returns how many records merges write per record written by users, counting new and existing
/// keys.
fn merged(popularity: &Popularity, lambda: f64, first: f64, is_new: f64) -> Result<f64, BadParameter> {
    let (mut requests, mut sum) = (first, 0.0);
    for _ in 0..MOST_LEVELS {
        let again = popularity.unique(requests)? / requests;
        let new = if requests <= popularity.keys() { 1.0 } else { 0.0 };
        let each = (1.0 - 1.0 / lambda) * (is_new * new + (1.0 - is_new) * again);
        sum += each;
        if each < 1e-6 {
            break;
        }
        requests *= lambda;
    }
    Ok(sum)
}

/// Returns an error unless λ is valid.
pub(super) fn require_lambda(lambda: u32) -> Result<(), BadParameter> {
    let is_lambda = lambda.is_power_of_two() && (2..=256).contains(&lambda);
    require("λ", f64::from(lambda), is_lambda, "a power of two from 2 to 256").map(|_| ())
}

pub(super) fn point(
    lambda: u32,
    refined: bool,
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
    let different = popularity.unique(requests)?.max(1.0);
    let stores = factor.min(MOST);
    let is_new = all.inserts / all.writes().max(f64::MIN_POSITIVE);
    let merged = merged(&popularity, factor, stores * requests, is_new)?;
    // The size of a run in the deepest level, and the number of such runs.
    let mut run = popularity.unique(stores * requests)?.max(1.0);
    let mut levels = 1.0;
    while run * factor <= keys {
        run *= factor;
        levels += 1.0;
    }
    let runs = (keys / run).clamp(1.0, factor);
    let bits = factor.log2();
    let prefixes = ROUNDED * factor * run;
    let filter_bytes = match refined {
        true => runs * run * ((prefixes / (runs * run)).log2().max(0.0) + 2.0 + 2.0 * bits) / 8.0,
        false => prefixes * bits / 8.0,
    };
    // The filter of each level is 1/λ the size of the filter one level below.
    let filters = filter_bytes * factor / (factor - 1.0);
    let filter_writes = filters / runs / (run * record).max(1.0) * (levels + 1.0) / 2.0;
    // A lookup also reads runs that a filter names falsely: those with a record of the same prefix,
    // among an average of (λ − 1)/2 runs per level.
    let named = (factor - 1.0) / 2.0 / (ROUNDED * factor);
    let in_vain = if refined { named / factor } else { named };
    let young = stores / 2.0 * different;
    let memory_per_key = LEAF_BYTES / in_leaf + YOUNG_BYTES * young / keys;
    let left = (memory.caches - memory_per_key * keys).max(0.0);
    // Filter pages are requested far more often than record pages, so the cache holds them first.
    let filter_misses = (1.0 - left / filters).max(0.0) * levels.min(1.0 + 1.0 / (factor - 1.0));
    let for_leaves = (left - filters).max(0.0);
    let uniform = Popularity::uniform(workload.keys as u64)?;
    let [leaf, any_leaf] = [&popularity, &uniform].map(|keys| leaf_reads(keys, record, for_leaves, machine));
    let wrong = SECOND_LEAF + levels * in_vain;
    // Obsolete records occupy space until they are merged.
    let stale = (1.0 - is_new) / (factor - 1.0);
    let per_record = filters / keys;
    Ok(CostPrediction {
        write_amplification: (different / requests + merged) * on_device / record
            + filter_writes
            + machine.log_amplification(record),
        write_moments: None,
        textbook: 1.0 + levels,
        hit_reads: leaf
            + (1.0 - leaf) * first_reads(all, different / requests + merged, in_leaf)
            + filter_misses
            + any_leaf * wrong,
        miss_reads: filter_misses + any_leaf * wrong,
        memory_per_key: memory_per_key + per_record,
        space_amplification: (on_device + per_record) / record * (1.0 + stale + young / keys + 1.0 / PARTS),
        merge_reads: (different / requests + merged) * on_device / record,
        write_bytes: LONG,
        read_bytes: leaf_bytes,
        scan_reads: 0.0,
        scan_runs: 0.0,
        merged: different / requests + merged,
        hashed: different / requests + merged,
        asked: 1.0 + stores / 2.0 + levels,
    })
}
