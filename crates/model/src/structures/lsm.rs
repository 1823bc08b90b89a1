//! LevelDB: levels of tables whose filters are in memory. A cursor per level selects the next table
//! to compact.

use super::cost::{CostPrediction, LONG};
use super::runs::memory;
use super::workload::{MachineProfile, WorkloadProfile};
use crate::lsm::{GeometricLevels, LevelDb, WriteCosts};
use crate::parameter::BadParameter;
use crate::tiered::missed;

/// Bits per key of a filter, and its false-positive rate.
const FILTER_BITS: f64 = 10.0;
const FILTER_WRONG: f64 = 0.008;
/// Size in bytes of a table's block, and of its index entry.
const BLOCK: f64 = 4096.0;
const INDEX: f64 = 24.0;
/// Ratio of the size of a level to the size of the level above it.
const GROWTH: u32 = 10;
/// Fraction of records that are obsolete versions (Lim §4.4).
const STALE: f64 = 0.11;

/// The result of the write model, and the number of tables that a lookup searches.
struct TableCosts {
    costs: WriteCosts,
    runs: f64,
}

pub(super) fn point(
    workload: &WorkloadProfile,
    machine: &MachineProfile,
) -> Result<CostPrediction, BadParameter> {
    let popularity = workload.popularity()?;
    let memory = memory(machine)?;
    let log = (memory.memtable / (workload.record_bytes() + 160.0)).clamp(1.0, popularity.keys());
    let levels = GeometricLevels::holding(popularity.keys(), log, GROWTH)?.levels as usize + 1;
    let shape =
        LevelDb::with_levels(popularity.keys(), levels).or_else(|_| LevelDb::standard(popularity.keys()))?;
    let shape = LevelDb {
        log: log.min(popularity.keys() / 2.0),
        ..shape
    };
    let tables = TableCosts {
        runs: 2.0 + shape.levels() as f64,
        costs: shape.estimate(&popularity)?,
    };
    Ok(tables.point(workload, &popularity, memory.caches, machine))
}

impl TableCosts {
    fn point(
        &self,
        workload: &WorkloadProfile,
        popularity: &crate::Popularity,
        caches: f64,
        machine: &MachineProfile,
    ) -> CostPrediction {
        let record = workload.record_bytes();
        // The log has a cost term of its own, so leave out the stage that writes it.
        let tree = self.costs.total() - 1.0;
        let in_block = (BLOCK / (record + 8.0)).max(1.0);
        let guides = popularity.keys() * (FILTER_BITS / 8.0 + INDEX / in_block);
        let unguided = (1.0 - caches / guides.max(1.0)).max(0.0);
        let left = (caches - guides).max(0.0);
        let leaf = missed(popularity, in_block, BLOCK.max(record), left);
        let is_growing = workload.operations.updates + workload.operations.deletes == 0.0;
        let stale = if is_growing { 0.0 } else { STALE };
        CostPrediction {
            write_amplification: tree + machine.log_amplification(record),
            write_moments: None,
            textbook: self.costs.textbook,
            hit_reads: leaf + (self.runs - 1.0).max(0.0) * FILTER_WRONG / 2.0 + unguided * self.runs / 2.0,
            miss_reads: self.runs * (FILTER_WRONG + unguided),
            memory_per_key: guides / popularity.keys(),
            space_amplification: (1.0 + 8.0 / record) * (1.0 + stale) + FILTER_BITS / 8.0 / record,
            merge_reads: tree - 1.0_f64.min(tree),
            write_bytes: LONG,
            read_bytes: BLOCK.max(record),
            scan_reads: self.runs * leaf,
            scan_runs: self.runs,
            merged: tree,
            hashed: 0.0,
            asked: self.runs,
        }
    }
}
