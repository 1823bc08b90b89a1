//! `bench sweep`: varies one parameter from point to point and keeps all others constant.

use super::{BenchOptions, measure, publish, usage};
use crate::context::CommandContext;
use crate::jobs::stop;
use crate::terminal::exit::CommandExit;
use crate::terminal::screen;
use alluvium_bench::report::BenchReport;
use alluvium_bench::run::sweep;
use alluvium_bench::run::{RepetitionFailure, RunPlan};
use alluvium_bench::workload::phase::parse_count;
use anyhow::Result;
use clap::Args;

/// Vary one parameter.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct SweepCommand {
    /// The parameter: sequential (percent of the records that are loaded in key order), threads,
    /// scan (records of a scan), value (bytes of a value), memory (percent of the data), records
    /// (with the same memory for each).
    #[arg(value_name = "WHAT", value_parser = sweep)]
    pub what: sweep::ParameterSweep,
    /// The values of the parameter, separated by commas [default: those of the literature].
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = parse_count)]
    pub points: Vec<u64>,
    #[command(flatten)]
    pub common: BenchOptions,
}

const EXAMPLES: &str = "\
Examples:
  alluvium bench sweep sequential --records 10M --memory 256M
  alluvium bench sweep threads --points 1,2,4,8 --engines alluvium,rocksdb --json threads.json
  alluvium bench sweep scan --records 5M";

fn sweep(text: &str) -> Result<sweep::ParameterSweep, String> {
    let found = sweep::SWEEPS.iter().find(|(name, _, _)| *name == text);
    found.map(|(_, sweep, _)| *sweep).ok_or_else(|| {
        let names: Vec<&str> = sweep::SWEEPS.iter().map(|(name, _, _)| *name).collect();
        format!("the parameters are {}", names.join(", "))
    })
}

impl SweepCommand {
    pub(super) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let job = self.common.orders(context, Vec::new())?;
        let known = sweep::SWEEPS.iter().find(|(_, sweep, _)| *sweep == self.what);
        let points = match known {
            Some((_, _, points)) if self.points.is_empty() => points,
            _ => &self.points[..],
        };
        let points = self.what.points(points, &job.job, self.common.defaults());
        let points = points.map_err(usage)?;
        let mut whole: Option<BenchReport> = None;
        for point in points {
            screen::note(&format!("-- {}", point.name));
            let orders = RunPlan {
                job: point.job,
                ..job.clone()
            };
            match (measure(&orders), &mut whole) {
                (Ok(report), Some(whole)) => whole.add(report),
                (Ok(report), None) => whole = Some(report),
                // Keep the measurements of the earlier points in the report.
                (Err(error), Some(whole)) if !stop::asked() => whole.failures.push(RepetitionFailure {
                    engine: point.name,
                    repetition: 1,
                    why: format!("{error:#}"),
                }),
                (Err(error), _) => return Err(error),
            }
        }
        match whole {
            Some(report) => publish(context, self.common.file.as_deref(), &report),
            None => Err(usage("a sweep needs at least one point")),
        }
    }
}
