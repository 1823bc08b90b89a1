//! `advise`: determines the structure and the settings with the lowest predicted cost for a store,
//! and whether a change is worthwhile.
//!
//! *Scope*: how the input of the cost model is formed from the store's observations and the command
//! line, the ranking of choices, and which gains are insignificant.
//!
//! *Must not depend on*: how costs are computed (`alluvium_model::structures`), and how requests
//! are observed (`alluvium::Db::workload`).

mod apply;
mod observed_workload;
mod rank;
mod show;

pub(super) use show::moment;

use crate::context::CommandContext;
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::ScreenOutput;
use crate::verbs::model::question::{CostModelArgs, number};
use alluvium_model::structures::{MachineProfile, WorkloadProfile};
use alluvium_server::control::ManagementRequest;
use anyhow::Result;
use clap::Args;
use observed_workload::ObservedWorkload;
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  alluvium advise                                   # for the store that a server has open
  alluvium advise --data 2 --memory-factor 0.5      # with twice the data and half the memory
  alluvium advise --device nvme-ssd                 # on another device
  alluvium advise --trace a.trace --value-bytes 200 # for a recorded trace
  alluvium advise --apply                           # change it now, watch it, and undo it if it was wrong
  alluvium advise --mix updates=50,hits=50 --keys 1e8 --skew 0.99     # without any store

The advice is for a sample of the requests since the store was opened. If no server has the store open, there are none: \
give a workload with --mix.";

/// Printed if the store has not observed any requests.
const SAW_NOTHING: &str = "the store has seen no request since it was opened";

/// Rank structures and settings by their predicted cost for the observed workload.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct AdviseCommand {
    #[command(flatten)]
    pub question: CostModelArgs,
    /// The keyspace to advise on [default: the one with the most requests; the hashed keyspaces of
    /// a server count as one, `redis.keys.*`].
    #[arg(long, value_name = "NAME")]
    pub keyspace: Option<String>,
    /// Read the workload from a trace that `alluvium bench trace record` has written.
    #[arg(long, value_name = "FILE", conflicts_with = "keyspace")]
    pub trace: Option<PathBuf>,
    /// Apply the advice in the server that has the store open. The server watches the change, and
    /// undoes it if lookups read more than predicted.
    #[arg(long)]
    pub apply: bool,
    /// Give records this share of the caches instead of the advised one: 0 to 0.75, as in 0.25 or
    /// 25%.
    #[arg(long, value_name = "SHARE", requires = "apply", value_parser = apply::share)]
    pub records: Option<u32>,
    /// Multiply the amount of data by this factor, as in 2 or 0.5.
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    pub data: Option<f64>,
    /// Multiply the memory by this factor, as in 2 or 0.5.
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    pub memory_factor: Option<f64>,
}

/// Parses a factor such as `2`, `2x` or `0.5`.
fn factor(text: &str) -> Result<f64, String> {
    let found = number(text.trim().trim_end_matches('x'))?;
    match found > 0.0 {
        true => Ok(found),
        false => Err(format!(
            "{text:?} is not a factor: write a number above 0, as in 2 or 0.5x"
        )),
    }
}

impl AdviseCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        if self.apply {
            return self.apply(context);
        }
        let mut seen = self.seen(context)?;
        let base = seen
            .as_ref()
            .map_or_else(WorkloadProfile::default, ObservedWorkload::workload);
        let mut workload = self.question.workload(base)?;
        let memory = match (context.memory, &seen) {
            (Some(bytes), _) => bytes as f64,
            (None, Some(seen)) if seen.memory_bytes > 0.0 => seen.memory_bytes,
            _ => alluvium::default_memory() as f64,
        };
        workload.keys = (workload.keys * self.data.unwrap_or(1.0)).max(2.0);
        let memory = memory * self.memory_factor.unwrap_or(1.0);
        let machine: MachineProfile = self.question.machine(&context.path, memory)?;
        let drifts = seen
            .as_ref()
            .map(|seen| seen.drifts(&workload))
            .unwrap_or_default();
        if self.data.is_some() || self.memory_factor.is_some() {
            // The store's measurements do not apply to a hypothetical workload.
            seen.iter_mut().for_each(|seen| seen.beside.clear());
        }
        let advice = rank::of(&workload, &machine, &drifts)?;
        let mut out = ScreenOutput::new();
        match context.is_json() {
            true => out.json(&show::json_of(&workload, &machine, seen.as_ref(), &advice))?,
            false => show::print(&mut out, &workload, &machine, seen.as_ref(), &advice)?,
        }
        out.flush()?;
        Ok(CommandExit::Done)
    }

    /// Returns whether the command line describes a hypothetical workload or machine.
    fn asks_what_if(&self) -> bool {
        let of = &self.question;
        let numbers = [of.keys, of.key_bytes, of.value_bytes, of.skew, of.scan_records];
        numbers.iter().any(Option::is_some)
            || of.mix.is_some()
            || of.device.is_some()
            || of.endurance.is_some()
            || self.data.is_some()
            || self.memory_factor.is_some()
            || self.trace.is_some()
            || self.keyspace.is_some()
    }

    /// Returns an error if the named keyspace does not exist.
    fn require_keyspace(&self, keyspaces: &Value) -> Result<()> {
        let Some(wanted) = &self.keyspace else {
            return Ok(());
        };
        let mut names = keyspaces.as_array().into_iter().flatten().map(|one| &one["name"]);
        let is_there = match observed_workload::is_sum(wanted) {
            true => names.any(|name| name.as_str().is_some_and(observed_workload::is_of_sum)),
            false => names.any(|name| *name == **wanted),
        };
        if is_there {
            return Ok(());
        }
        let text = format!("there is no keyspace {wanted:?}: `alluvium keyspaces list` shows all keyspaces");
        Err(failure(CommandExit::NotFound, text))
    }

    /// Returns the workload that the store or a trace has observed, or `None` if the command line
    /// specifies all of it.
    fn seen(&self, context: &CommandContext) -> Result<Option<ObservedWorkload>> {
        if let Some(trace) = &self.trace {
            return ObservedWorkload::of_trace(trace).map(Some);
        }
        let says_all = self.question.mix.is_some() && self.question.keys.is_some();
        if says_all && self.keyspace.is_none() {
            return Ok(None);
        }
        let store = context.open_to_read()?;
        let numbers = store.json(&ManagementRequest::Stats)?;
        let keyspaces = store.json(&ManagementRequest::Keyspaces)?;
        store.close()?;
        self.require_keyspace(&keyspaces)?;
        let seen = ObservedWorkload::of(&numbers, self.keyspace.as_deref());
        if seen.is_none() && self.question.mix.is_none() {
            let text = match &self.keyspace {
                Some(name) => {
                    format!(
                        "the store has seen no request to {name:?}: give a workload with --mix, as in updates=30,hits=70"
                    )
                }
                None => format!(
                    "{SAW_NOTHING}: run the command while a server has it open, or give a workload with --mix, as in updates=30,hits=70"
                ),
            };
            return Err(failure(CommandExit::NotFound, text));
        }
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_numbers_above_nothing() {
        assert_eq!((factor("2x"), factor("0.5")), (Ok(2.0), Ok(0.5)));
        for bad in ["0", "-1", "NaN", "x"] {
            assert!(factor(bad).is_err(), "{bad}");
        }
    }
}
