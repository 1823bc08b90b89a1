//! B-trees, Bε-trees and SILT, as modelled in their publications.

use super::cost::{CostPrediction, LONG};
use super::runs::memory;
use super::workload::{MachineProfile, WorkloadProfile};
use crate::lsm::bounds;
use crate::mix::TreeOperationMix;
use crate::parameter::BadParameter;
use crate::silt::SiltModel;
use crate::tiered::missed;

/// Minimum node size in bytes, unless a record is longer.
const BLOCK: f64 = 4096.0;
/// Average fill of a node.
const FILL: f64 = 0.69;
/// Maximum node size in bytes.
const LARGEST: f64 = 16.0 * LONG;

/// Returns α for elements of the size of a record.
fn alpha(workload: &WorkloadProfile, machine: &MachineProfile) -> f64 {
    let device = &machine.device;
    let setup_ps = (device.setup_ns as f64 * 1000.0).max(1.0);
    (device.byte_ps as f64 * workload.record_bytes() / setup_ps).clamp(1e-12, 1.0)
}

/// Converts a workload's operations to the operation mix of the tree models.
fn mix(workload: &WorkloadProfile) -> TreeOperationMix {
    let all = &workload.operations;
    TreeOperationMix {
        inserts: all.writes(),
        queries: all.lookups(),
        ranges: all.scans,
        range: workload.scan_records,
    }
}

pub(super) fn b_tree(
    workload: &WorkloadProfile,
    machine: &MachineProfile,
) -> Result<CostPrediction, BadParameter> {
    let (popularity, memory) = (workload.popularity()?, memory(machine)?);
    let record = workload.record_bytes();
    let most = (LARGEST / record).max(8.0);
    let height = bounds::levels(workload.keys, 2.0, 2.0)?.max(1.0);
    let best = mix(workload).best_b_tree(alpha(workload, machine), height, most)?;
    let bytes = (best.node * record).clamp(BLOCK.max(record), LARGEST);
    let in_node = (bytes * FILL / record).max(1.0);
    let inner = workload.keys / in_node * (workload.key_bytes + 8.0) / FILL;
    let left = (memory.caches - inner).max(0.0);
    // A modified leaf is written when memory evicts it.
    let leaf = missed(&popularity, in_node, bytes, left);
    let unguided = (1.0 - memory.caches / inner.max(1.0)).max(0.0);
    Ok(CostPrediction {
        write_amplification: leaf * bytes / record + machine.log_amplification(record),
        write_moments: None,
        textbook: bounds::b_tree((bytes / record).max(1.0))?,
        hit_reads: leaf + unguided,
        miss_reads: leaf + unguided,
        memory_per_key: inner / workload.keys,
        space_amplification: (record + 8.0) / record / FILL,
        merge_reads: leaf * bytes / record,
        write_bytes: bytes,
        read_bytes: bytes,
        scan_reads: leaf,
        scan_runs: 1.0,
        merged: 1.0,
        hashed: 0.0,
        asked: 1.0,
    })
}

/// Whether a query reads whole nodes or only parts of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeReadMode {
    Whole,
    InPart,
}

pub(super) fn buffered(
    reading: NodeReadMode,
    workload: &WorkloadProfile,
    machine: &MachineProfile,
) -> Result<CostPrediction, BadParameter> {
    let (popularity, memory) = (workload.popularity()?, memory(machine)?);
    let record = workload.record_bytes();
    let most = (LARGEST / record).max(8.0);
    let best = mix(workload).best_buffered(alpha(workload, machine), 1.0, most)?;
    let bytes = (best.node * record).clamp(BLOCK.max(record), LARGEST);
    let fanout = best.fanout.max(2.0);
    let part = match reading {
        NodeReadMode::Whole => bytes,
        NodeReadMode::InPart => (bytes / fanout).max(BLOCK.max(record)),
    };
    let in_part = (part * FILL / record).max(1.0);
    let in_memory = (memory.caches / record).max(2.0);
    let levels = bounds::levels(workload.keys, in_memory, fanout)?;
    let leaf = missed(&popularity, in_part, part, memory.caches);
    let above = levels.ceil().max(1.0) - 1.0;
    Ok(CostPrediction {
        write_amplification: fanout * levels.max(leaf) + machine.log_amplification(record),
        write_moments: None,
        textbook: bounds::buffered(workload.keys, in_memory, fanout)?,
        hit_reads: leaf * (1.0 + above),
        miss_reads: leaf * (1.0 + above),
        memory_per_key: (workload.key_bytes + 8.0) / in_part,
        space_amplification: (record + 8.0) / record / FILL,
        merge_reads: fanout * levels,
        write_bytes: bytes,
        read_bytes: part,
        scan_reads: leaf * (1.0 + above),
        scan_runs: 1.0 + above,
        merged: fanout * levels,
        hashed: 0.0,
        asked: 1.0 + above,
    })
}

pub(super) fn silt(
    workload: &WorkloadProfile,
    machine: &MachineProfile,
) -> Result<CostPrediction, BadParameter> {
    let popularity = workload.popularity()?;
    let record = workload.record_bytes();
    let instances = (workload.keys / 25e6).ceil().max(1.0);
    let example = SiltModel::example();
    let silt = SiltModel {
        keys: workload.keys,
        instances,
        merged: example.merged.min(workload.keys / instances / 2.0).max(1.0),
        ..example
    };
    let costs = silt.costs()?;
    let memory = costs.memory_bytes * workload.keys;
    let left = (machine.memory_bytes - memory).max(0.0);
    let leaf = missed(&popularity, (BLOCK / record).max(1.0), BLOCK.max(record), left);
    let fits = memory <= machine.memory_bytes;
    let more = if fits { 0.0 } else { 1.0 };
    let false_reads = costs.read_amplification - 1.0;
    Ok(CostPrediction {
        write_amplification: costs.write_amplification,
        write_moments: None,
        textbook: costs.write_amplification,
        hit_reads: leaf + false_reads + more,
        miss_reads: leaf + false_reads + more,
        memory_per_key: costs.memory_bytes,
        space_amplification: 1.2,
        merge_reads: costs.write_amplification - 1.0,
        write_bytes: LONG,
        read_bytes: BLOCK.max(record),
        // Records are in hash order, so a scan in key order reads each of them separately.
        scan_reads: workload.scan_records,
        scan_runs: workload.scan_records,
        merged: costs.write_amplification,
        hashed: costs.write_amplification,
        asked: 2.0 + costs.hash_stores,
    })
}
