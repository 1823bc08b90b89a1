//! `stats`: what the store holds and what it takes.

use crate::Exit;
use crate::context::{self, Context};
use crate::import::PROGRESS;
use crate::screen::{BOLD, Output};
use crate::sizes::{count, human};
use alluvium::Stats as Numbers;
use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  alluvium stats
  alluvium stats --json | jq .space.live_bytes";

/// Say what the store holds, and what that takes on the disk and in memory.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Stats {}

impl Stats {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit> {
        let db = context.open()?;
        let keyspaces = db.keyspaces().into_iter().filter(|name| name != PROGRESS).count();
        let snapshots = db.snapshots().len();
        let numbers = json(&db.stats(), keyspaces, snapshots, db.sequence());
        context::close(db)?;
        let mut out = Output::new();
        if context.is_json() {
            out.json(&numbers)?;
        } else {
            for (group, lines) in numbers.as_object().into_iter().flatten() {
                let title = out.styled(BOLD, &group.replace('_', " "));
                out.line(&title)?;
                for (name, value) in lines.as_object().into_iter().flatten() {
                    out.line(&format!(
                        "  {:26} {:>16}",
                        name.replace('_', " "),
                        shown(name, value)
                    ))?;
                }
            }
        }
        out.flush()?;
        Ok(Exit::Done)
    }
}

/// The numbers, in groups.
fn json(stats: &Numbers, keyspaces: usize, snapshots: usize, sequence: u64) -> Value {
    let (space, memory, log) = (&stats.space, &stats.memory, &stats.log);
    let device = stats.device.total();
    json!({
        "store": {
            "keyspaces": keyspaces,
            "kept_snapshots": snapshots,
            "last_commit": sequence,
        },
        "space": {
            "file_bytes": space.file_bytes,
            "live_bytes": space.live_bytes,
            "free_bytes": space.free_bytes,
            "dead_bytes": space.dead_bytes,
        },
        "memory": {
            "budget_bytes": memory.budget,
            "memtables_bytes": memory.memtables,
            "log_bytes": log.resident_bytes,
            "pages_bytes": memory.pages,
            "records_bytes": memory.records,
            "tree_bytes": memory.tree,
            "tables_bytes": memory.tables,
            "total_bytes": memory.total(),
        },
        "device_since_opening": {
            "reads": device.reads,
            "read_bytes": device.read_bytes,
            "writes": device.writes,
            "written_bytes": device.written_bytes,
            "syncs": device.syncs,
        },
    })
}

/// A number for people: bytes with a unit, others in groups of three digits.
fn shown(name: &str, value: &Value) -> String {
    match value.as_u64() {
        Some(bytes) if name.ends_with("_bytes") => human(bytes),
        Some(number) => count(number),
        None => value.to_string(),
    }
}
