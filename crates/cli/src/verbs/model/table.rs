//! Formats predicted costs as a table and as JSON.

use crate::terminal::screen::{BOLD, ScreenOutput};
use alluvium_model::structures::{CostBand, MachineProfile, StructureCost, WorkloadProfile};
use serde_json::{Value, json};
use std::io;

/// Describes the input of a prediction in lines of text: the data, the operations and the machine.
pub(crate) fn asked(workload: &WorkloadProfile, machine: &MachineProfile) -> Vec<String> {
    let all = &workload.operations;
    let percent = |count: f64| 100.0 * count / all.total();
    let named = [
        ("inserts", all.inserts),
        ("updates", all.updates),
        ("deletes", all.deletes),
        ("lookups of existing keys", all.hits),
        ("lookups of absent keys", all.misses),
        ("scans", all.scans),
    ];
    let mix: Vec<String> = (named.iter().filter(|(_, count)| *count > 0.0))
        .map(|(name, count)| format!("{:.0} % {name}", percent(*count)))
        .collect();
    let device = &machine.device;
    vec![
        format!(
            "{:.3e} keys of {:.0} and values of {:.0} bytes, {} in all, skew {:.2}",
            workload.keys,
            workload.key_bytes,
            workload.value_bytes,
            size(workload.data_bytes()),
            workload.skew
        ),
        mix.join(", "),
        format!(
            "{} of memory; device requests take {:.1} µs and {:.0} ps a byte, {} at a time",
            size(machine.memory_bytes),
            device.setup_ns as f64 / 1000.0,
            device.byte_ps,
            device.parallelism
        ),
    ]
}

/// Formats a number of bytes with a unit.
pub(crate) fn size(bytes: f64) -> String {
    crate::values::sizes::human(bytes.clamp(0.0, 1.8e19) as u64)
}

fn band(band: &CostBand) -> String {
    format!("{:.2} ({:.2}–{:.2})", band.middle, band.p10, band.p90)
}

/// Prints predicted costs as a table. The order of the rows is that of `costs`.
pub(crate) fn print(out: &mut ScreenOutput, costs: &[StructureCost]) -> io::Result<()> {
    let title = format!(
        "{:22} {:>20} {:>9} {:>18} {:>18} {:>8} {:>6} {:>20}  {}",
        "structure",
        "written per byte",
        "textbook",
        "reads, found",
        "reads, absent",
        "B/key",
        "space",
        "µs an operation",
        "most of it"
    );
    let title = out.styled(BOLD, &title);
    out.line(&title)?;
    for cost in costs {
        let us = |ns: f64| ns / 1000.0;
        let total = CostBand {
            p10: us(cost.total_ns.p10),
            middle: us(cost.total_ns.middle),
            p90: us(cost.total_ns.p90),
        };
        out.line(&format!(
            "{:22} {:>20} {:>9.1} {:>18} {:>18} {:>8.2} {:>6.2} {:>20}  {} {:.0} %",
            cost.name,
            band(&cost.write_amplification),
            cost.textbook,
            band(&cost.hit_reads),
            band(&cost.miss_reads),
            cost.memory_per_key,
            cost.space_amplification.middle,
            band(&total),
            cost.dominating.0.name(),
            100.0 * cost.dominating.1
        ))?;
        if let Some(life) = cost.life_tb {
            out.line(&format!(
                "{:22} the device is worn out after {life:.0} TB of writes",
                ""
            ))?;
        }
    }
    Ok(())
}

fn band_json(band: &CostBand) -> Value {
    json!({ "p10": band.p10, "predicted": band.middle, "p90": band.p90 })
}

/// Returns a predicted cost as JSON.
pub(crate) fn json_of(cost: &StructureCost) -> Value {
    json!({
        "structure": cost.name,
        "write_amplification": band_json(&cost.write_amplification),
        "textbook": cost.textbook,
        "reads_hit": band_json(&cost.hit_reads),
        "reads_miss": band_json(&cost.miss_reads),
        "memory_bytes_per_key": cost.memory_per_key,
        "space_amplification": band_json(&cost.space_amplification),
        "processor_ns": band_json(&cost.processor_ns),
        "device_ns": band_json(&cost.device_ns),
        "total_ns": band_json(&cost.total_ns),
        "dominating": cost.dominating.0.name(),
        "dominating_share": cost.dominating.1,
        "life_tb": cost.life_tb,
    })
}

/// Returns the input of a prediction as JSON.
pub(crate) fn question_json(workload: &WorkloadProfile, machine: &MachineProfile) -> Value {
    let all = &workload.operations;
    json!({
        "keys": workload.keys,
        "key_bytes": workload.key_bytes,
        "value_bytes": workload.value_bytes,
        "skew": workload.skew,
        "scan_records": workload.scan_records,
        "mix": {
            "inserts": all.inserts, "updates": all.updates, "deletes": all.deletes,
            "hits": all.hits, "misses": all.misses, "scans": all.scans,
        },
        "memory_bytes": machine.memory_bytes,
        "device": {
            "setup_ns": machine.device.setup_ns,
            "byte_ps": machine.device.byte_ps,
            "parallelism": machine.device.parallelism,
        },
    })
}
