//! Runs an experiment step by step, each engine in a separate process, and computes figures from
//! the measurements.

use super::entry::{EngineWorkload, Experiment, ExperimentMethod, RivalStudy, figure};
use super::measurements::{MeasurementSet, StepMeasurement};
use super::plan::{ExperimentStep, RunSize, ScaleOverrides, StepTemplate};
use super::results::{ExperimentResults, MeasureFigures};
use alluvium_bench::report::BenchReport;
use alluvium_bench::report::machine::MachineInfo;
use alluvium_bench::run::{
    self, BenchOutcome, BenchRunner, CapMethod, FileRetention, LoadFrequency, RunPlan,
};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The size of the run.
    pub size: RunSize,
    pub wanted: ScaleOverrides,
    pub engines: Vec<String>,
    /// The directory for the engines' files, which are removed at the end.
    pub directory: PathBuf,
    /// The command line that repeats this run.
    pub command: String,
}

/// The environment of a run: it starts child processes and limits their memory.
#[derive(Clone, Copy)]
pub struct RunEnvironment<'a> {
    /// Starts child processes and receives their results.
    pub runner: &'a dyn BenchRunner,
    /// Decides whether a process can be limited to this many bytes, and reports it if not.
    pub cap: &'a dyn Fn(u64) -> CapMethod,
    /// Shows a line about the progress to the user.
    pub say: &'a dyn Fn(&str),
}

impl std::fmt::Debug for RunEnvironment<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunEnvironment").finish_non_exhaustive()
    }
}

/// Checks a request without measuring anything or creating files.
///
/// # Errors
/// When the experiment waits for a structure; when the request is invalid.
pub fn check(experiment: &Experiment, request: &RunRequest) -> Result<()> {
    ensure!(
        request.wanted.records != Some(0),
        "--records 0: there would be nothing to measure"
    );
    match &experiment.work {
        ExperimentMethod::Waits(structure) => bail!(waiting(experiment, structure)),
        ExperimentMethod::Here { most, .. } | ExperimentMethod::Study(RivalStudy { most, .. }) => {
            let keys = request.wanted.records.unwrap_or_default();
            ensure!(
                keys <= *most,
                "--records {keys}: {} takes {most} at most",
                experiment.id
            );
            Ok(())
        }
        ExperimentMethod::Engines(engines) => {
            ensure!(
                !request.engines.is_empty() && request.engines.iter().all(|engine| !engine.is_empty()),
                "--engines: there is no engine to measure"
            );
            steps(engines, request).map(drop)
        }
    }
}

fn waiting(experiment: &Experiment, structure: &str) -> String {
    format!(
        "{} cannot be run yet: it waits for {structure}, which is not built",
        experiment.id
    )
}

/// Returns the shared settings and the steps.
fn steps(engines: &EngineWorkload, request: &RunRequest) -> Result<(StepTemplate, Vec<ExperimentStep>)> {
    let scale = match request.size {
        RunSize::Quick => &engines.quick,
        RunSize::Full => &engines.full,
    };
    let base = StepTemplate::new(request.size, scale, &request.wanted, request.directory.clone())?;
    let steps = (engines.steps)(&base)?;
    Ok((base, steps))
}

/// Runs an experiment. Returns `None` if it was stopped.
///
/// # Errors
/// When the experiment waits for a structure; when the request is invalid; when nothing could be
/// measured.
pub fn run(
    experiment: &Experiment,
    request: &RunRequest,
    surroundings: RunEnvironment<'_>,
) -> Result<Option<ExperimentResults>> {
    check(experiment, request)?;
    match &experiment.work {
        ExperimentMethod::Waits(structure) => bail!(waiting(experiment, structure)),
        ExperimentMethod::Here {
            quick, full, measure, ..
        } => {
            let usual = match request.size {
                RunSize::Quick => *quick,
                RunSize::Full => *full,
            };
            let keys = request.wanted.records.unwrap_or(usual);
            let machine = MachineInfo::here(Path::new("."));
            let measured = measure(keys)?;
            let mut results = results(experiment, request, machine);
            results.setup.push(("keys".into(), figure(keys as f64)));
            Ok(Some(finished(experiment, results, measured)))
        }
        ExperimentMethod::Study(study) => in_study(experiment, study, request, surroundings),
        ExperimentMethod::Engines(engines) => on_engines(experiment, engines, request, surroundings),
    }
}

/// Runs a study in a separate process. The directory is empty before and after.
fn in_study(
    experiment: &Experiment,
    study: &RivalStudy,
    request: &RunRequest,
    surroundings: RunEnvironment<'_>,
) -> Result<Option<ExperimentResults>> {
    let usual = match request.size {
        RunSize::Quick => study.quick,
        RunSize::Full => study.full,
    };
    let records = request.wanted.records.unwrap_or(usual);
    let mut command = surroundings.runner.study(study.name)?;
    let directory = &request.directory;
    std::fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
    let mut results = results(experiment, request, MachineInfo::here(directory));
    (surroundings.say)(&format!("{}, {} records", experiment.id, figure(records as f64)));
    let place = directory.join(study.name);
    command.arg(&place).arg(records.to_string());
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command
        .output()
        .with_context(|| format!("starting the study {}", study.name))?;
    if place.exists() {
        // The study was stopped before it could remove its files.
        std::fs::remove_dir_all(&place).with_context(|| format!("removing {}", place.display()))?;
    }
    if surroundings.runner.is_stopped() {
        return Ok(None);
    }
    ensure!(
        output.status.success(),
        "the study {} has failed: {}; what it says is above",
        study.name,
        output.status
    );
    let measured: MeasurementSet = serde_json::from_slice(&output.stdout).with_context(|| {
        format!(
            "what the study {} has printed is no measurement: build alluvium-rivals again",
            study.name
        )
    })?;
    results.setup.push(("records".into(), figure(records as f64)));
    Ok(Some(finished(experiment, results, measured)))
}

fn on_engines(
    experiment: &Experiment,
    engines: &EngineWorkload,
    request: &RunRequest,
    surroundings: RunEnvironment<'_>,
) -> Result<Option<ExperimentResults>> {
    let (base, steps) = steps(engines, request)?;
    for engine in &request.engines {
        // Check that every other engine exists before measuring the first.
        surroundings.runner.command(engine)?;
    }
    let directory = &request.directory;
    std::fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
    let mut results = results(experiment, request, MachineInfo::here(directory));
    results.setup = setup(&base, &steps);
    let mut measured = MeasurementSet::default();
    for step in &steps {
        (surroundings.say)(&format!("{}, {}", experiment.id, step.at));
        let cap = (surroundings.cap)(step.job.cap);
        if cap == CapMethod::None && measured.steps.is_empty() {
            results.notes.push(
                "No control group kept the process within its memory: engines were told the number, and the page cache took what there was."
                    .into(),
            );
        }
        let orders = RunPlan {
            engines: request.engines.clone(),
            repetitions: 1,
            loads: LoadFrequency::Each,
            job: step.job.clone(),
            cap,
            files: FileRetention::Removed,
        };
        let outcome = match run::run(&orders, surroundings.runner) {
            Ok(outcome) => outcome,
            // Measurements of earlier steps remain valid.
            Err(error) if !measured.steps.is_empty() => failed(step, &error),
            Err(error) => return Err(error),
        };
        if outcome.was_stopped {
            return Ok(None);
        }
        record_outcome(step, outcome, &mut results, &mut measured);
    }
    Ok(Some(finished(experiment, results, measured)))
}

/// Returns an outcome with nothing but a failure.
fn failed(step: &ExperimentStep, error: &anyhow::Error) -> BenchOutcome {
    BenchOutcome {
        failures: vec![run::RepetitionFailure {
            engine: step.at.to_string(),
            repetition: 1,
            why: format!("{error:#}"),
        }],
        ..BenchOutcome::default()
    }
}

fn record_outcome(
    step: &ExperimentStep,
    outcome: BenchOutcome,
    results: &mut ExperimentResults,
    measured: &mut MeasurementSet,
) {
    let report = BenchReport::new(MachineInfo::default(), Vec::new(), outcome);
    results.failures.extend(report.failures);
    for settings in report.settings {
        if !results.settings.iter().any(|(engine, _)| *engine == settings.0) {
            results.settings.push(settings);
        }
    }
    if !report.results.is_empty() {
        measured.steps.push(StepMeasurement {
            at: step.at.clone(),
            rows: report.results,
        });
    }
}

fn results(experiment: &Experiment, request: &RunRequest, machine: MachineInfo) -> ExperimentResults {
    let mut notes = Vec::new();
    if let Some(note) = busy(&machine) {
        notes.push(note);
    }
    if cfg!(debug_assertions) {
        notes.push("This was a debug build: its times say nothing.".into());
    }
    ExperimentResults {
        form: ExperimentResults::FORM,
        id: experiment.id.into(),
        size: request.size,
        version: env!("CARGO_PKG_VERSION").into(),
        command: request.command.clone(),
        machine,
        setup: Vec::new(),
        settings: Vec::new(),
        notes,
        failures: Vec::new(),
        figures: Vec::new(),
        measured: MeasurementSet::default(),
    }
}

/// Returns a warning if other processes were using the processors at the start.
fn busy(machine: &MachineInfo) -> Option<String> {
    let load: f64 = machine.load.parse().ok()?;
    let cores = machine.cores.max(1);
    (load > 0.3 * cores as f64).then(|| {
        format!(
            "The machine was busy: {load} processes wanted its {cores} processors before the run began. Judge by counts before times."
        )
    })
}

/// Describes the requested setup, for the results.
fn setup(base: &StepTemplate, steps: &[ExperimentStep]) -> Vec<(String, String)> {
    let job = &base.job;
    let mut caps: Vec<u64> = steps.iter().map(|step| step.job.cap).collect();
    caps.dedup();
    let share = |cap: &u64| {
        let percent = 100.0 * *cap as f64 / base.data().max(1) as f64;
        format!("{} MiB ({} % of the data)", cap >> 20, figure(percent))
    };
    let mut threads: Vec<String> = steps.iter().map(|step| step.job.threads.to_string()).collect();
    threads.dedup();
    let text = |name: &str, text: String| (name.to_owned(), text);
    vec![
        text(
            "data",
            format!(
                "{} records of {} bytes, {} MB",
                figure(job.records as f64),
                job.record_bytes(),
                figure(base.data() as f64 / 1e6)
            ),
        ),
        text(
            "memory",
            caps.iter().map(share).collect::<Vec<String>>().join(", "),
        ),
        text("threads", threads.join(", ")),
        text("log", "on, no sync for each write".into()),
        text("seed", job.seed.to_string()),
    ]
}

/// Computes the figures from `measured`, and adds both to the results.
fn finished(
    experiment: &Experiment,
    mut results: ExperimentResults,
    measured: MeasurementSet,
) -> ExperimentResults {
    let figures = experiment.measures.iter().map(|measure| MeasureFigures {
        measure: measure.name.into(),
        unit: measure.unit.into(),
        lines: (measure.ours)(&measured),
    });
    results.figures = figures.collect();
    results.notes.extend(measured.notes.iter().cloned());
    results.measured = measured;
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experiment_whose_structure_is_not_built_says_which() {
        let experiment = Experiment {
            id: "seed-0/X1",
            title: "A structure that is not built",
            shows: "Nothing yet.",
            section: "§1",
            figure: "none",
            setting: "none",
            differs: &[],
            measures: &[],
            work: ExperimentMethod::Waits("a tree of time"),
        };
        let request = RunRequest {
            size: RunSize::Quick,
            wanted: ScaleOverrides::default(),
            engines: Vec::new(),
            directory: PathBuf::new(),
            command: String::new(),
        };
        let refused = check(&experiment, &request).unwrap_err().to_string();
        assert!(
            refused.contains("seed-0/X1 cannot be run yet: it waits for a tree of time"),
            "{refused}"
        );
        assert_eq!(experiment.waits_for(), Some("a tree of time"));
    }
}
