//! `bench ceiling`: computes the best hit rate that a cache of a given number of records can have.

use super::usage;
use crate::context::CommandContext;
use crate::terminal::exit::CommandExit;
use crate::terminal::screen::ScreenOutput;
use crate::values::sizes::count;
use alluvium_bench::workload::ceiling::{CeilingDraws, ceilings};
use alluvium_bench::workload::phase::{
    PhaseDefaults, WindowLength, WorkloadPhase, parse_count, parse_records,
};
use anyhow::Result;
use clap::Args;
use serde_json::json;
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  alluvium bench ceiling --records 20M --kept 1M,2M,4M
  alluvium bench ceiling --phases c,d --records 5M --kept 500k --warm 1M --json

The command runs no engine. It draws operations as `bench ycsb` does, and counts those that read a record which the cache does not have.
`counted` keeps the records with the most requests during the warm-up; hardly any cache is better while the workload stays the same.
`recent` keeps the records that were read or written last. `endless` has no limit, and misses only the first request for a record.";

/// Compute the fewest reads per operation that a cache of a number of records allows, a bound for
/// every engine.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CeilingCommand {
    /// The phases, separated by commas: a, b, c, d and f, with the distributions of
    /// `bench ycsb --phases`.
    #[arg(long, value_name = "PHASES", value_delimiter = ',', default_value = "c")]
    phases: Vec<String>,
    /// The number of records before the first operation.
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse_records)]
    records: u64,
    /// The numbers of records that the caches keep, separated by commas.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "100k", value_parser = parse_count)]
    kept: Vec<u64>,
    /// The number of operations that warm up the caches.
    #[arg(long, value_name = "N", default_value = "20M", value_parser = parse_count)]
    warm: u64,
    /// The number of operations that are counted.
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse_count)]
    run: u64,
    /// The seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl CeilingCommand {
    pub(super) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let nothing = PhaseDefaults {
            warm: WindowLength::Operations(0),
            run: WindowLength::Operations(0),
            rate: None,
        };
        let draws = CeilingDraws {
            records: self.records,
            warm: self.warm,
            run: self.run,
            seed: self.seed,
        };
        let (mut rows, mut objects) = (Vec::new(), Vec::new());
        for text in &self.phases {
            let phase = WorkloadPhase::parse(text, nothing).map_err(usage)?;
            for ceiling in ceilings(&phase, draws, &self.kept).map_err(usage)? {
                let share = |share: f64| format!("{share:.3}");
                rows.push(vec![
                    text.clone(),
                    count(ceiling.kept),
                    share(ceiling.counted),
                    share(ceiling.recent),
                    share(ceiling.endless),
                ]);
                objects.push(json!({ "phase": text, "reads_per_op": ceiling }));
            }
        }
        let mut out = ScreenOutput::new();
        if context.is_json() {
            out.json(&objects.into())?;
        } else {
            let head = ["phase", "kept", "counted", "recent", "endless"];
            out.table(&head, &rows)?;
        }
        out.flush()?;
        Ok(CommandExit::Done)
    }
}
