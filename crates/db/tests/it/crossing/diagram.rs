//! Draws a history whose results differ between two sets of options: the options that differ, and
//! the operations at which the results diverge.

use super::model::Rule;
use super::plan::{KeyspacePlan, StorePlan};
use super::run::{RunOutcome, run_one};
use super::show;
use super::shrink::Failing;
use alluvium::ValueOrder;
use alluvium_sim::Coverage;
use std::fmt::Write as _;

/// Width of an options column in bytes.
const COLUMN: usize = 44;

fn keyspace(plan: &KeyspacePlan) -> String {
    let threshold = plan
        .threshold
        .map_or(String::new(), |bytes| format!(", apart {bytes}"));
    let gathered = match plan.value_order() {
        ValueOrder::Gathered => ", gathered",
        ValueOrder::Written => "",
    };
    format!("{} {:?}{threshold}{gathered}", plan.structure, plan.compression)
}

/// Returns the options of a plan with their names.
fn options(plan: &StorePlan) -> Vec<(String, String)> {
    let keyspaces = plan.keyspaces.iter().enumerate();
    let mut all: Vec<(String, String)> = keyspaces
        .map(|(number, own)| (format!("keyspace {number}, {:?}", own.operator), keyspace(own)))
        .collect();
    let knobs = &plan.knobs;
    let upkeep = knobs.upkeep.as_ref().map_or("none".to_owned(), |(every, what)| {
        format!("{what:?} every {every} operations")
    });
    let durability = knobs
        .durability
        .map_or("as the history says".to_owned(), |all| format!("{all:?}"));
    let rest = [
        ("memtable", plan.memtable.to_string()),
        ("tiers", plan.tiers.to_string()),
        ("page cache", knobs.cache.to_string()),
        ("record cache", knobs.record_memory.to_string()),
        ("fan-out", knobs.fanout.to_string()),
        ("filters of levels", format!("{:?}", knobs.filters)),
        (
            "log",
            format!("{} in {} lanes, {:?}", knobs.log, knobs.lanes, knobs.access),
        ),
        ("page", knobs.page_size.to_string()),
        ("setup of the device", format!("{} ns", knobs.device.setup_ns)),
        ("planned on the first tier", knobs.planned.to_string()),
        ("threads", knobs.workers.to_string()),
        ("durability", durability),
        ("upkeep", upkeep),
    ];
    all.extend(rest.map(|(name, value)| (name.to_owned(), value)));
    all
}

/// Returns the result of an operation under one plan, as one word.
fn mark(ran: &RunOutcome, at: usize) -> String {
    match &ran.failure {
        Some(failure) if failure.at == at => return "WRONG".to_owned(),
        Some(failure) if failure.at < at => return String::new(),
        _ => {}
    }
    let noted = ran.notes.iter().filter(|(of, _)| *of == at);
    let noted: Vec<&str> = noted.map(|(_, note)| &note[..]).collect();
    match noted.is_empty() {
        true => "=".to_owned(),
        false => noted.join(", "),
    }
}

/// Draws a failing history: the options in which its stores differ, then its operations, each with
/// its result under each plan. `=` means that the result is the model's.
pub(super) fn diagram(failing: &Failing, rule: Rule) -> String {
    let [plain, .., other] = &failing.plans[..] else {
        return show(failing);
    };
    let mut text = String::new();
    let _ = writeln!(text, "{:<28}{:<COLUMN$}the other", "", "one store");
    for ((name, one), (_, other)) in options(plain).into_iter().zip(options(other)) {
        if one != other || name.starts_with("keyspace") {
            let _ = writeln!(text, "{name:<28}{one:<COLUMN$}{other}");
        }
    }
    let ran = |plan| run_one(plan, &failing.operations, rule, &Coverage::new());
    let (one, two) = (ran(plain), ran(other));
    text += "\n";
    for (at, operation) in failing.operations.iter().enumerate() {
        let (one, two) = (mark(&one, at), mark(&two, at));
        let _ = writeln!(text, "  {one:^10} {two:^10}  {operation:?},");
    }
    let _ = write!(
        text,
        "  └─ operation {}: {}",
        failing.failure.at, failing.failure.why
    );
    text
}
