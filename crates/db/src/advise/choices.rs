//! The settings that a store chose for itself, and why.
//!
//! The choices come from the same models that predict costs. They concern the division of memory,
//! the leaf length, and the structure of keyspaces for which the program specifies none.

use crate::options::Options;
use crate::options::store::ResolvedOptions;
use alluvium_model::best_node;
use alluvium_model::structures::{MachineProfile, StructureModel, TieredSettings, WorkloadProfile};
use std::fmt;

/// A setting and its value, chosen by the store or specified by the program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SettingChoice {
    /// Name of the setting, such as "log limit".
    pub name: &'static str,
    /// Value of the setting, with its unit.
    pub value: String,
    /// Reason for the value, in words.
    pub why: String,
}

impl fmt::Display for SettingChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.name, self.value, self.why)
    }
}

fn choice(name: &'static str, value: String, why: impl Into<String>) -> SettingChoice {
    SettingChoice {
        name,
        value,
        why: why.into(),
    }
}

/// What the models assume while the workload is unknown: the record size in bytes, and the ratio of
/// data size to memory limit.
const USUAL_RECORD: u64 = 116;
const DATA_OF_MEMORY: f64 = 10.0;

/// Returns the reason for a value: either the option `option` specified it, or the reason is
/// `otherwise`.
fn by(option: &str, is_said: bool, otherwise: &str) -> String {
    match is_said {
        true => format!("set by {option}"),
        false => otherwise.to_owned(),
    }
}

/// Returns how the memory limit is divided among the caches, memtables and log.
fn memory(options: &Options, plan: &ResolvedOptions) -> Vec<SettingChoice> {
    let scale = &plan.scale;
    vec![
        choice(
            "memory",
            format!("{} bytes", plan.memory),
            by(
                "`Options::memory`",
                options.memory.is_some(),
                "a quarter of the machine's memory, or half of the container's",
            ),
        ),
        choice(
            "memtable",
            format!("{} bytes", scale.memtable),
            "a sixteenth of the memory, from 1 to 64 MiB: three of them are in memory while one is written out",
        ),
        choice(
            "log limit",
            format!("{} bytes", scale.log.limit_bytes),
            by(
                "`Options::log_limit`",
                options.log_limit.is_some(),
                "four memtables, so that checkpoints are rare and recovery after a crash is short",
            ),
        ),
        choice(
            "records",
            format!("{} bytes", plan.records),
            by(
                "`Options::record_memory`",
                options.records.is_some(),
                "an eighth of the caches to begin with; the store moves memory to where it saves more reads",
            ),
        ),
    ]
}

/// Returns the choices that the store makes when it is opened with these options.
pub(crate) fn of(options: &Options, plan: &ResolvedOptions) -> Vec<SettingChoice> {
    let device = &plan.device;
    let half = device.half_bandwidth();
    let mut all = memory(options, plan);
    all.extend([
        choice(
            "page size",
            format!("{} bytes", plan.page_size.bytes()),
            by(
                "`Options::page_size`",
                options.page_size.is_some(),
                "the block size of most devices; an existing store keeps its page size",
            ),
        ),
        choice(
            "device",
            format!(
                "{} ns per request, {} ps per byte, {} requests at a time",
                device.setup_ns, device.byte_ps, device.parallelism
            ),
            by(
                "a measurement of `alluvium probe`",
                options.takes_measured,
                "set by `Options::device`; by default an SSD",
            ),
        ),
    ]);
    all.push(choice(
        "leaf",
        format!("{} bytes", best_node(USUAL_RECORD, half)),
        format!(
            "the best size for records of {USUAL_RECORD} bytes by the affine model, in whole pages, on a device that transfers {half} bytes in the setup time of a request"
        ),
    ));
    all.push(choice(
        "read-ahead",
        format!("{} requests of 256 KiB", device.parallelism),
        "the number that the device serves at the same time, by the PDAM model",
    ));
    all
}

/// Returns the structure chosen for keyspaces for which the program specifies none. The reason
/// compares its predicted cost with that of the runner-up.
pub(crate) fn structure(plan: &ResolvedOptions) -> Option<SettingChoice> {
    let machine = MachineProfile {
        memory_bytes: plan.memory as f64,
        device: plan.device,
        ..MachineProfile::default()
    };
    let usual = WorkloadProfile::default();
    let workload = WorkloadProfile {
        keys: (DATA_OF_MEMORY * plan.memory as f64 / USUAL_RECORD as f64).max(2.0),
        ..usual
    };
    let ns = |structure: &StructureModel| {
        let cost = structure.cost_alone(&workload, &machine).ok()?;
        Some((cost.total_ns.middle, cost.name))
    };
    let (ours, _) = ns(&StructureModel::Tiered(TieredSettings::USUAL))?;
    let others = StructureModel::CHOICES
        .iter()
        .filter(|one| one.is_ordered() && !matches!(one, StructureModel::Tiered(_)));
    let (next, name) = others
        .filter_map(ns)
        .min_by(|one, other| one.0.total_cmp(&other.0))?;
    let why = format!(
        "for data of ten times the memory, half updates and half lookups, the models predict {:.1} µs an operation, and {:.1} µs for the next best structure, {name}",
        ours / 1000.0,
        next / 1000.0
    );
    Some(choice("structure", "tiered".to_owned(), why))
}
