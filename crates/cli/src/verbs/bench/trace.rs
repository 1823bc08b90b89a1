//! `bench trace`: records operations in a file and replays them.

use super::{BenchOptions, default_cap, measure, publish, usage};
use crate::context::CommandContext;
use crate::terminal::exit::CommandExit;
use crate::terminal::screen;
use crate::values::sizes::count;
use alluvium_bench::workload::phase::{
    MOST_RECORDS, PhaseDefaults, PhaseTask, WindowLength, WorkloadPhase, parse_count, parse_records,
};
use alluvium_bench::workload::trace;
use anyhow::Result;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Record the operations of a workload in a file, or replay them.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct TraceCommand {
    /// What to do with the trace.
    #[command(subcommand)]
    pub what: TraceAction,
}

const EXAMPLES: &str = "\
Examples:
  alluvium bench trace record a.trace --phase a --records 1M --operations 10M
  alluvium bench trace replay a.trace --engines alluvium,leveldb --memory 64M";

/// What to do with a trace.
#[derive(Debug, Subcommand)]
pub enum TraceAction {
    /// Draw operations from a workload and write them to a file.
    Record {
        /// The file of the trace.
        #[arg(value_name = "TRACE")]
        trace: PathBuf,
        /// The workload: a to f, with words as in `bench ycsb --phases`.
        #[arg(long, value_name = "PHASE", default_value = "a")]
        phase: String,
        /// The number of records before the first operation.
        #[arg(long, value_name = "N", default_value = "1M", value_parser = parse_records)]
        records: u64,
        /// The number of operations to draw.
        #[arg(long, value_name = "N", default_value = "1M", value_parser = parse_count)]
        operations: u64,
        /// The seed of the random numbers.
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
    },
    /// Load the records, then replay the operations. The trace contains the number of records.
    Replay {
        /// The file of the trace.
        #[arg(value_name = "TRACE")]
        trace: PathBuf,
        #[command(flatten)]
        common: Box<BenchOptions>,
    },
}

impl TraceCommand {
    pub(super) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        match &self.what {
            TraceAction::Record {
                trace,
                phase,
                records,
                operations,
                seed,
            } => {
                let nothing = PhaseDefaults {
                    warm: WindowLength::Operations(0),
                    run: WindowLength::Operations(0),
                    rate: None,
                };
                let phase = WorkloadPhase::parse(phase, nothing).map_err(usage)?;
                let head = trace::TraceHeader {
                    records: *records,
                    operations: *operations,
                };
                trace::record(trace, &phase, head, *seed)?;
                screen::note(&format!(
                    "{} operations on {} records in {}",
                    count(*operations),
                    count(*records),
                    trace.display()
                ));
                Ok(CommandExit::Done)
            }
            TraceAction::Replay { trace, common } => {
                let head = trace::head(trace)?;
                if head.records > MOST_RECORDS {
                    return Err(usage(format!(
                        "{} is a trace of {} records, more than the limit of {MOST_RECORDS}: record another one",
                        trace.display(),
                        head.records
                    )));
                }
                let load = WorkloadPhase::parse("load", common.defaults())?;
                let replay = WorkloadPhase {
                    name: "trace".into(),
                    task: PhaseTask::Trace {
                        file: std::path::absolute(trace)?,
                    },
                    ..load.clone()
                };
                let mut orders = common.orders(context, Vec::new())?;
                orders.job.records = head.records;
                orders.job.cap = context
                    .memory
                    .unwrap_or(default_cap(head.records * orders.job.record_bytes()));
                orders.job.phases = if common.reuse {
                    vec![replay]
                } else {
                    vec![load, replay]
                };
                let report = measure(&orders)?;
                publish(context, common.file.as_deref(), &report)
            }
        }
    }
}
