//! What a store has chosen for itself, and why.
//!
//! The choices rest on the same models that predict what a store costs: how memory is cut, how long
//! leaves are, which structure keyspaces have that name none.

use super::Engine;
use crate::options::{Options, Plan};
use alluvium_model::best_node;
use alluvium_model::structures::{Machine, Setting, Structure, Workload};
use std::fmt;

/// A setting that a store has chosen, or that it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// What was chosen.
    pub name: &'static str,
    /// Its value, with its unit.
    pub value: String,
    /// Why it is that.
    pub why: String,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.name, self.value, self.why)
    }
}

fn choice(name: &'static str, value: String, why: impl Into<String>) -> Choice {
    Choice {
        name,
        value,
        why: why.into(),
    }
}

/// Bytes of a record, and how many times the memory the data is, where nothing is known of a store:
/// for those the models are asked.
const USUAL_RECORD: u64 = 116;
const DATA_OF_MEMORY: f64 = 10.0;

/// Whether a number was an option's.
fn by(option: &str, is_said: bool, otherwise: &str) -> String {
    match is_said {
        true => format!("as {option} says"),
        false => otherwise.to_owned(),
    }
}

/// Returns how the memory was cut.
fn memory(options: &Options, plan: &Plan) -> Vec<Choice> {
    let scale = &plan.scale;
    vec![
        choice(
            "memory",
            format!("{} bytes", plan.memory),
            by(
                "`Options::memory`",
                options.memory.is_some(),
                "a quarter of the machine's, or a half of the container's",
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
                "four memtables, so that checkpoints are rare and an opening after a crash is short",
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

/// Returns what was chosen when a store was opened with these options.
pub(crate) fn of(options: &Options, plan: &Plan) -> Vec<Choice> {
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
                "the unit of devices; that of a store that is there stays",
            ),
        ),
        choice(
            "device",
            format!(
                "{} ns to begin, {} ps a byte, {} requests at a time",
                device.setup_ns, device.byte_ps, device.parallelism
            ),
            by(
                "`alluvium probe` has measured",
                options.takes_measured,
                "as `Options::device` says, an SSD if it says nothing",
            ),
        ),
    ]);
    all.push(choice(
        "leaf",
        format!("{} bytes", best_node(USUAL_RECORD, half)),
        format!(
            "the best for records of {USUAL_RECORD} bytes by the affine model, on a device that moves {half} bytes while a request begins; in whole pages"
        ),
    ));
    all.push(choice(
        "read-ahead",
        format!("{} requests of 256 KiB", device.parallelism),
        "what the device serves at the same time, by the PDAM model",
    ));
    all
}

/// Returns the structure of keyspaces that name none, beside the next best by the models.
fn structure(plan: &Plan) -> Option<Choice> {
    let machine = Machine {
        memory_bytes: plan.memory as f64,
        device: plan.device,
        ..Machine::default()
    };
    let usual = Workload::default();
    let workload = Workload {
        keys: (DATA_OF_MEMORY * plan.memory as f64 / USUAL_RECORD as f64).max(2.0),
        ..usual
    };
    let ns = |structure: &Structure| {
        let cost = structure.cost_alone(&workload, &machine).ok()?;
        Some((cost.total_ns.middle, cost.name))
    };
    let (ours, _) = ns(&Structure::Tiered(Setting::USUAL))?;
    let others = Structure::CHOICES
        .iter()
        .filter(|one| one.is_ordered() && !matches!(one, Structure::Tiered(_)));
    let (next, name) = others
        .filter_map(ns)
        .min_by(|one, other| one.0.total_cmp(&other.0))?;
    let why = format!(
        "for data ten times the memory, half updates and half lookups, the models say {:.1} µs an operation, {:.1} µs for the next one, {name}",
        ours / 1000.0,
        next / 1000.0
    );
    Some(choice("structure", "tiered".to_owned(), why))
}

impl Engine {
    /// Returns what the store has chosen, and why.
    pub(crate) fn choices(&self) -> Vec<Choice> {
        let mut all = self.chosen.clone();
        if self.memory_budget() > 0 {
            // It depends on nothing that changes while the store is open.
            all.extend(
                self.chosen_structure
                    .get_or_init(|| structure(&self.plan))
                    .clone(),
            );
        }
        all
    }
}
