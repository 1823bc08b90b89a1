//! From an experiment's size to the jobs of its steps.

use super::entry::At;
use alluvium_bench::engine::Log;
use alluvium_bench::run::{Flow, Groups, Job};
use alluvium_bench::workload::keys::Keys;
use alluvium_bench::workload::phase::{Amount, Defaults, Phase};
use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How large an experiment is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// Seconds: for a look, and for tests. The document's ratios of memory to data are not kept.
    Quick,
    /// Minutes to hours: a tenth of the document's data, with the document's ratios.
    Full,
}

impl Size {
    /// As it is typed behind two dashes, and in the name of a file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Size::Quick => "quick",
            Size::Full => "full",
        }
    }
}

/// What a size means for an experiment on engines.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// How many records are loaded.
    pub records: u64,
    /// Bytes of a value; keys have 24.
    pub value_bytes: usize,
    /// How many threads work.
    pub threads: Threads,
    /// What the process may take of memory, page cache included, in bytes.
    pub cap: u64,
    /// What is done before a phase is measured, in milliseconds.
    pub warm_ms: u64,
    /// What is measured of a phase, in milliseconds.
    pub run_ms: u64,
    /// How long an engine may go on by itself after a load, in milliseconds.
    pub settle_ms: u64,
}

/// How many threads work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One, as in the document.
    One,
    /// One for each processor.
    Processors,
}

/// What a person asks for beyond the size; none stands for what the size says.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Records, or keys.
    pub records: Option<u64>,
    /// Bytes of memory.
    pub cap: Option<u64>,
    /// What is done before a phase is measured.
    pub warm: Option<Amount>,
    /// What is measured of a phase.
    pub run: Option<Amount>,
    /// How long an engine may go on by itself after a load.
    pub settle: Option<Amount>,
}

/// With less no engine works.
pub(super) const LEAST_CAP: u64 = 48 << 20;
/// More do not fit on any disk that this is run on.
const MOST_RECORDS: u64 = 1 << 40;
/// Every eighth read is proven to the last byte.
const VERIFY_EVERY: u64 = 8;
const INTERVAL_MS: u64 = 100;

/// What the steps of an experiment have in common.
#[derive(Clone, Debug)]
pub struct Base {
    /// The size.
    pub size: Size,
    /// A job without phases.
    pub job: Job,
    defaults: Defaults,
    is_memory_wanted: bool,
}

/// A step: a load, and what follows it, in one process of each engine.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its place on the axis.
    pub at: At,
    /// What is done.
    pub job: Job,
}

impl Base {
    /// Of a scale, with what a person asks for.
    ///
    /// # Errors
    /// When nothing would be measured.
    pub fn new(size: Size, scale: &Scale, wanted: &Wanted, directory: PathBuf) -> Result<Base> {
        let records = wanted.records.unwrap_or(scale.records);
        if records == 0 || records > MOST_RECORDS {
            bail!("--records {records}: name a number from 1 to {MOST_RECORDS}");
        }
        let run = wanted.run.unwrap_or(Amount::Milliseconds(scale.run_ms));
        if run.is_nothing() {
            bail!("--run 0: there would be nothing to measure");
        }
        let settle_ms = match wanted.settle {
            None => scale.settle_ms,
            Some(Amount::Milliseconds(settle_ms)) => settle_ms,
            Some(Amount::Operations(_)) => bail!("--settle is a time, as in 60s"),
        };
        let cap = wanted.cap.unwrap_or(scale.cap);
        if cap < LEAST_CAP {
            bail!(
                "--memory: no engine works with less than {} MiB in all",
                LEAST_CAP >> 20
            );
        }
        Ok(Base {
            size,
            job: Job {
                engine: String::new(),
                repetition: 0,
                directory,
                records,
                keys: Keys::default(),
                value_bytes: scale.value_bytes,
                threads: match scale.threads {
                    Threads::One => 1,
                    Threads::Processors => processors(),
                },
                phases: Vec::new(),
                flow: Flow::Separate,
                is_loaded: false,
                seed: 1,
                log: Log::On,
                cap,
                memory: None,
                options: Vec::new(),
                settle_ms,
                verify_every: VERIFY_EVERY,
                interval_ms: INTERVAL_MS,
                groups: Groups::default(),
            },
            defaults: Defaults {
                warm: wanted.warm.unwrap_or(Amount::Milliseconds(scale.warm_ms)),
                run,
                rate: None,
            },
            is_memory_wanted: wanted.cap.is_some(),
        })
    }

    /// A step that does these phases.
    ///
    /// # Errors
    /// When a phase makes no sense.
    pub fn step(&self, at: At, phases: &[&str]) -> Result<Step> {
        let mut job = self.job.clone();
        job.phases = phases
            .iter()
            .map(|text| Phase::parse(text, self.defaults))
            .collect::<Result<_>>()?;
        Ok(Step { at, job })
    }

    /// A step that does these phases, with a number of threads.
    ///
    /// # Errors
    /// As [`Base::step`].
    pub fn with_threads(&self, threads: usize, phases: &[&str]) -> Result<Step> {
        let mut step = self.step(At::Number(threads as f64), phases)?;
        step.job.threads = threads;
        Ok(step)
    }

    /// Refuses a number for the memory, where an experiment has numbers of its own.
    ///
    /// # Errors
    /// When a person has said one.
    pub fn refuse_memory(&self, why: &str) -> Result<()> {
        ensure!(
            !self.is_memory_wanted,
            "--memory is not for this experiment: {why}"
        );
        Ok(())
    }

    /// Bytes of the records.
    #[must_use]
    pub fn data(&self) -> u64 {
        self.job.records.saturating_mul(self.job.record_bytes())
    }
}

/// How many processors this process may use.
pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The numbers of threads of the document that say something here: up to twice the processors.
pub(super) fn threads(all: &[usize]) -> Vec<usize> {
    let most = 2 * processors();
    all.iter().copied().filter(|&threads| threads <= most).collect()
}
