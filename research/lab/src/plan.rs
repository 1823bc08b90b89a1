//! Turns the size of an experiment into the jobs of its steps.

use super::entry::AxisPosition;
use alluvium_bench::engine::WriteLogging;
use alluvium_bench::run::{EngineJob, GroupPaths, PhaseFlow};
use alluvium_bench::workload::keys::KeyOrdering;
use alluvium_bench::workload::phase::{PhaseDefaults, WindowLength, WorkloadPhase};
use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The scale at which an experiment is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunSize {
    /// Takes seconds, for a first look and for tests. Does not keep the document's ratio of memory
    /// to data.
    Quick,
    /// Takes minutes to hours: a tenth of the document's data, with the document's ratios.
    Full,
}

impl RunSize {
    /// Returns the name used in command-line options and file names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RunSize::Quick => "quick",
            RunSize::Full => "full",
        }
    }
}

/// The parameters of one size of an experiment on engines.
#[derive(Clone, Copy, Debug)]
pub struct ExperimentScale {
    pub records: u64,
    /// Bytes of each value. Keys have 24 bytes.
    pub value_bytes: usize,
    pub threads: ThreadCount,
    /// Memory limit of the process in bytes, page cache included.
    pub cap: u64,
    /// Warm-up before each phase, in milliseconds.
    pub warm_ms: u64,
    /// Measured time of each phase, in milliseconds.
    pub run_ms: u64,
    /// Maximum time for an engine's background work after a load, in milliseconds.
    pub settle_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadCount {
    /// One thread, as in the document.
    One,
    /// One thread for each processor.
    Processors,
}

/// Overrides by the user. `None` keeps the value of the size.
#[derive(Clone, Debug, Default)]
pub struct ScaleOverrides {
    /// Number of records or keys.
    pub records: Option<u64>,
    /// Memory limit of the process in bytes.
    pub cap: Option<u64>,
    /// Warm-up before each phase.
    pub warm: Option<WindowLength>,
    /// Measured amount of each phase.
    pub run: Option<WindowLength>,
    /// Maximum time for an engine's background work after a load.
    pub settle: Option<WindowLength>,
}

/// Minimum memory limit; no engine works with less.
pub(super) const LEAST_CAP: u64 = 48 << 20;
/// Maximum number of records. More do not fit on any disk that this runs on.
const MOST_RECORDS: u64 = 1 << 40;
/// One read in eight is verified to the last byte.
const VERIFY_EVERY: u64 = 8;
const INTERVAL_MS: u64 = 100;

/// The settings shared by all steps of an experiment.
#[derive(Clone, Debug)]
pub struct StepTemplate {
    /// The size of the run.
    pub size: RunSize,
    /// The template for the steps' jobs; it has no phases.
    pub job: EngineJob,
    defaults: PhaseDefaults,
    is_memory_wanted: bool,
}

/// A load and the phases after it, in one process for each engine.
#[derive(Clone, Debug)]
pub struct ExperimentStep {
    /// The step's place on the axis.
    pub at: AxisPosition,
    /// The job that each engine runs.
    pub job: EngineJob,
}

impl StepTemplate {
    /// Combines a scale with the user's overrides.
    ///
    /// # Errors
    /// When the result would measure nothing.
    pub fn new(
        size: RunSize,
        scale: &ExperimentScale,
        wanted: &ScaleOverrides,
        directory: PathBuf,
    ) -> Result<StepTemplate> {
        let records = wanted.records.unwrap_or(scale.records);
        if records == 0 || records > MOST_RECORDS {
            bail!("--records {records}: name a number from 1 to {MOST_RECORDS}");
        }
        let run = wanted.run.unwrap_or(WindowLength::Milliseconds(scale.run_ms));
        if run.is_nothing() {
            bail!("--run 0: there would be nothing to measure");
        }
        let settle_ms = match wanted.settle {
            None => scale.settle_ms,
            Some(WindowLength::Milliseconds(settle_ms)) => settle_ms,
            Some(WindowLength::Operations(_)) => bail!("--settle is a time, as in 60s"),
        };
        let cap = wanted.cap.unwrap_or(scale.cap);
        if cap < LEAST_CAP {
            bail!(
                "--memory: no engine works with less than {} MiB in all",
                LEAST_CAP >> 20
            );
        }
        Ok(StepTemplate {
            size,
            job: EngineJob {
                engine: String::new(),
                repetition: 0,
                directory,
                records,
                keys: KeyOrdering::default(),
                value_bytes: scale.value_bytes,
                threads: match scale.threads {
                    ThreadCount::One => 1,
                    ThreadCount::Processors => processors(),
                },
                phases: Vec::new(),
                flow: PhaseFlow::Separate,
                is_loaded: false,
                seed: 1,
                log: WriteLogging::On,
                cap,
                memory: None,
                options: Vec::new(),
                settle_ms,
                verify_every: VERIFY_EVERY,
                interval_ms: INTERVAL_MS,
                groups: GroupPaths::default(),
            },
            defaults: PhaseDefaults {
                warm: wanted.warm.unwrap_or(WindowLength::Milliseconds(scale.warm_ms)),
                run,
                rate: None,
            },
            is_memory_wanted: wanted.cap.is_some(),
        })
    }

    /// Returns a step with these phases.
    ///
    /// # Errors
    /// When a phase is invalid.
    pub fn step(&self, at: AxisPosition, phases: &[&str]) -> Result<ExperimentStep> {
        let mut job = self.job.clone();
        job.phases = phases
            .iter()
            .map(|text| WorkloadPhase::parse(text, self.defaults))
            .collect::<Result<_>>()?;
        Ok(ExperimentStep { at, job })
    }

    /// Returns a step with these phases and this number of threads.
    ///
    /// # Errors
    /// As [`StepTemplate::step`].
    pub fn with_threads(&self, threads: usize, phases: &[&str]) -> Result<ExperimentStep> {
        let mut step = self.step(AxisPosition::Number(threads as f64), phases)?;
        step.job.threads = threads;
        Ok(step)
    }

    /// Rejects a memory override, for experiments that set the memory themselves.
    ///
    /// # Errors
    /// When the user has set the memory.
    pub fn refuse_memory(&self, why: &str) -> Result<()> {
        ensure!(
            !self.is_memory_wanted,
            "--memory is not for this experiment: {why}"
        );
        Ok(())
    }

    /// Returns the bytes of all records.
    #[must_use]
    pub fn data(&self) -> u64 {
        self.job.records.saturating_mul(self.job.record_bytes())
    }
}

/// Returns the number of processors available to this process.
pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Keeps the document's thread counts that are meaningful here: up to twice the processors.
pub(super) fn threads(all: &[usize]) -> Vec<usize> {
    let most = 2 * processors();
    all.iter().copied().filter(|&threads| threads <= most).collect()
}
