//! `model`: predicts the costs of structures for a workload. No store is needed.
//!
//! *Scope*: the workloads that can be specified, and the display of their costs.
//!
//! *Must not depend on*: how costs are computed (`alluvium_model::structures`).

pub(super) mod question;
pub(super) mod table;

use crate::context::CommandContext;
use crate::terminal::exit::CommandExit;
use crate::terminal::screen::ScreenOutput;
use alluvium_model::structures::{StructureModel, WorkloadProfile};
use anyhow::Result;
use clap::Args;
use question::CostModelArgs;
use serde_json::json;
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  alluvium model --keys 1e9 --value-bytes 100 --memory 4G --device nvme-ssd
  alluvium model --keys 1e8 --skew 0.99 --mix updates=50,hits=40,scans=10 --memory 1G
  alluvium model --device /var/lib/alluvium --json     # as `alluvium probe` has measured it there

A band in parentheses covers eight of ten stores like this one. \"textbook\" is the bound of the literature for bytes \
written, with a constant of 1 and without a log.";

/// Predict the cost of each structure for a workload: bytes written, reads, memory, space, time.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ModelCommand {
    #[command(flatten)]
    pub question: CostModelArgs,
}

impl ModelCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let workload = self.question.workload(WorkloadProfile::default())?;
        let memory = context.memory.unwrap_or_else(alluvium::default_memory) as f64;
        let machine = self.question.machine(&context.path, memory)?;
        let has_scans = workload.operations.scans > 0.0;
        let costs = StructureModel::ALL
            .iter()
            .filter(|structure| structure.is_ordered() || !has_scans)
            .map(|structure| structure.cost(&workload, &machine));
        let costs = costs.collect::<Result<Vec<_>, _>>().map_err(question::refused)?;
        let mut out = ScreenOutput::new();
        if context.is_json() {
            let costs: Vec<_> = costs.iter().map(table::json_of).collect();
            let question = table::question_json(&workload, &machine);
            out.json(&json!({ "question": question, "structures": costs }))?;
        } else {
            for line in table::asked(&workload, &machine) {
                out.line(&line)?;
            }
            table::print(&mut out, &costs)?;
        }
        out.flush()?;
        Ok(CommandExit::Done)
    }
}
