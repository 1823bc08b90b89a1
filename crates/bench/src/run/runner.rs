//! The runner. For each repetition of each engine, it creates a directory, control groups and a
//! child process, and removes them at the end.

use super::copy::copy;
use super::job::{ChildEvent, EngineJob, GroupPaths, ResultRow};
use crate::cgroup::ControlGroup;
use crate::workload::phase::PhaseTask;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How the memory of a child process is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapMethod {
    /// A control group of the memory controller limits the memory, including the page cache.
    Group,
    /// The memory is not limited. Engines are told how much to use, and the page cache can grow to
    /// any size.
    None,
}

#[derive(Clone, Debug)]
pub struct RunPlan {
    pub engines: Vec<String>,
    /// Number of repetitions for each engine.
    pub repetitions: usize,
    /// Whether each engine is loaded once or in every repetition.
    pub loads: LoadFrequency,
    /// The work of each engine. The runner fills in the engine, the repetition, the directory and
    /// the groups.
    pub job: EngineJob,
    pub cap: CapMethod,
    /// Whether to keep an engine's files after the run.
    pub files: FileRetention,
}

/// Whether an engine is loaded once or in every repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadFrequency {
    /// Each repetition loads the engine if its phases include a load.
    Each,
    /// A separate process loads the engine once before the first repetition, and each repetition
    /// uses a copy of the files. This saves time if loading takes long.
    Once,
}

/// What happens to an engine's files after a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRetention {
    Removed,
    /// The files stay for another run to use.
    Kept,
}

/// The results of a benchmark run.
#[derive(Clone, Debug, Default)]
pub struct BenchOutcome {
    /// All result rows, in measurement order.
    pub rows: Vec<ResultRow>,
    /// The settings of each engine, as reported when it was first opened.
    pub settings: Vec<(String, Vec<(String, String)>)>,
    pub failures: Vec<RepetitionFailure>,
    /// Whether the user stopped the run early.
    pub was_stopped: bool,
}

/// A failed repetition of an engine. Earlier measurements remain valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepetitionFailure {
    pub engine: String,
    /// Number of the repetition, counted from 1.
    pub repetition: usize,
    /// The error message with its causes.
    pub why: String,
}

impl std::fmt::Display for RepetitionFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, repetition {}: {}", self.engine, self.repetition, self.why)
    }
}

/// Receives the events of a benchmark run.
pub trait RunListener: Sync {
    /// Returns whether the user has asked to stop the run.
    fn is_stopped(&self) -> bool;

    fn on_event(&self, engine: &str, repetition: usize, event: &ChildEvent);

    /// Called when a repetition has failed. The others continue.
    fn fail(&self, failure: &RepetitionFailure);
}

/// The environment in which the runner works.
pub trait BenchRunner: RunListener {
    /// Returns the command line that starts the child process of an engine.
    ///
    /// # Errors
    /// Returns an error if there is no program for the engine.
    fn command(&self, engine: &str) -> Result<Command>;

    /// Returns the command line that starts a study of other systems, without the directory and the
    /// number of records, which the caller appends.
    ///
    /// # Errors
    /// Returns an error if there is no program for the study.
    fn study(&self, name: &str) -> Result<Command> {
        bail!("the study {name} cannot be run from here: run it with `alluvium-lab run`")
    }
}

/// Measures all engines. Each repetition measures every engine once.
///
/// # Errors
/// The first failure, if no measurement succeeds.
pub fn run(orders: &RunPlan, runner: &dyn BenchRunner) -> Result<BenchOutcome> {
    let mut loaded = Vec::new();
    each(
        &orders.engines,
        orders.repetitions,
        EngineOrder::Same,
        runner,
        &mut |engine, repetition, outcome| match orders.loads {
            LoadFrequency::Each => run_one(orders, engine, repetition, runner, outcome),
            LoadFrequency::Once => run_copy(orders, engine, repetition, runner, &mut loaded, outcome),
        },
    )
}

/// For each engine with options, opens and closes an empty store in a separate process, so that
/// invalid options come to light before another engine is loaded for an hour.
///
/// # Errors
/// Errors of the engine.
pub fn try_options(orders: &RunPlan, runner: &dyn BenchRunner) -> Result<()> {
    let options = &orders.job.options;
    let has_any = |engine: &&String| options.iter().any(|option| option.engine == **engine);
    for engine in orders.engines.iter().filter(has_any) {
        let mut trial = orders.clone();
        trial.job.directory = orders.job.directory.join("options");
        trial.job.phases = Vec::new();
        trial.files = FileRetention::Removed;
        // Without records, the trial does not load any.
        trial.job.is_loaded = true;
        let errand = ChildTask {
            // Each trial starts with a new directory.
            is_loaded: false,
            ..errand_of(&trial, engine, 0)
        };
        let line = line_of(&trial, engine, 0);
        let tried = errand.run(&line, runner, &mut BenchOutcome::default());
        // This removes the directory only if it is empty.
        let _ = fs::remove_dir(&trial.job.directory);
        tried?;
    }
    Ok(())
}

/// Runs one repetition of one engine.
pub(crate) type RepetitionWork<'a> = &'a mut dyn FnMut(&str, usize, &mut BenchOutcome) -> Result<()>;

/// The order of the engines in a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineOrder {
    /// Each repetition has the same order.
    Same,
    /// The order is reversed in every second repetition.
    Alternating,
}

/// Runs `work` for each engine in each repetition. Repetitions are the outer loop, so that changes
/// on the machine affect all engines. The failure of an engine is recorded and the others continue:
/// if one is killed after an hour because of its memory use, the results of the others are
/// preserved.
///
/// # Errors
/// Returns the first failure if no measurement has succeeded.
pub(crate) fn each(
    engines: &[String],
    repetitions: usize,
    turns: EngineOrder,
    listener: &(impl RunListener + ?Sized),
    one: RepetitionWork<'_>,
) -> Result<BenchOutcome> {
    let mut outcome = BenchOutcome::default();
    for repetition in 1..=repetitions {
        let mut order: Vec<&String> = engines.iter().collect();
        if turns == EngineOrder::Alternating && repetition % 2 == 0 {
            order.reverse();
        }
        for engine in order {
            let done = one(engine, repetition, &mut outcome);
            if listener.is_stopped() {
                outcome.was_stopped = true;
                return Ok(outcome);
            }
            if let Err(error) = done {
                let failure = RepetitionFailure {
                    engine: engine.clone(),
                    repetition,
                    why: format!("{error:#}"),
                };
                listener.fail(&failure);
                outcome.failures.push(failure);
            }
        }
    }
    match outcome.failures.first() {
        Some(failure) if outcome.rows.is_empty() => bail!("{failure}"),
        _ => Ok(outcome),
    }
}

/// A directory that is removed with its files when the handle is dropped.
struct OwnedDirectory {
    path: PathBuf,
    files: FileRetention,
}

impl Drop for OwnedDirectory {
    fn drop(&mut self) {
        if self.files == FileRetention::Removed {
            // The measurement is valid even if the directory cannot be removed. The user can remove
            // it later.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A child process that is killed when the handle is dropped.
struct ChildProcess(Mutex<Child>);

impl ChildProcess {
    fn kill(&self) {
        if let Ok(mut child) = self.0.lock() {
            // This fails if the child process has already ended.
            let _ = child.kill();
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill();
        if let Ok(mut child) = self.0.lock() {
            let _ = child.wait();
        }
    }
}

/// An engine's loaded files, which all its repetitions use.
struct LoadedFiles {
    engine: String,
    /// The files, or `None` if loading has failed.
    place: Option<OwnedDirectory>,
}

/// Runs a repetition on a copy of the loaded files, which are loaded before the first repetition.
fn run_copy(
    orders: &RunPlan,
    engine: &str,
    repetition: usize,
    runner: &dyn BenchRunner,
    loaded: &mut Vec<LoadedFiles>,
    outcome: &mut BenchOutcome,
) -> Result<()> {
    let (loads, others): (Vec<_>, Vec<_>) = orders
        .job
        .phases
        .iter()
        .cloned()
        .partition(|phase| phase.task == PhaseTask::Load);
    let mut orders = orders.clone();
    if !loaded.iter().any(|one| one.engine == engine) {
        let mut load = orders.clone();
        load.job.phases = loads;
        load.files = FileRetention::Kept;
        let mut place = OwnedDirectory {
            path: load.job.directory.join(engine),
            files: FileRetention::Removed,
        };
        let done = run_one(&load, engine, repetition, runner, outcome);
        let is_done = done.is_ok() && !runner.is_stopped();
        if is_done {
            let path = orders.job.directory.join(format!("{engine}-loaded"));
            replace(&place.path, &path)?;
            place.path = path;
        }
        loaded.push(LoadedFiles {
            engine: engine.to_owned(),
            place: is_done.then_some(place),
        });
        done?;
    }
    let Some(place) = loaded
        .iter()
        .find(|one| one.engine == engine)
        .and_then(|one| one.place.as_ref())
    else {
        if runner.is_stopped() {
            return Ok(());
        }
        bail!("the load has failed");
    };
    let here = orders.job.directory.join(engine);
    if here.exists() {
        fs::remove_dir_all(&here).with_context(|| format!("removing {}", here.display()))?;
    }
    copy(&place.path, &here)?;
    orders.job.phases = others;
    orders.job.is_loaded = true;
    run_one(&orders, engine, repetition, runner, outcome)
}

/// Renames a directory, replacing the target if it exists.
fn replace(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).with_context(|| format!("removing {}", to.display()))?;
    }
    fs::rename(from, to).with_context(|| format!("renaming {} to {}", from.display(), to.display()))
}

/// Runs one child process, in which the engine runs its phases in its directory.
fn run_one(
    orders: &RunPlan,
    engine: &str,
    repetition: usize,
    runner: &dyn BenchRunner,
    outcome: &mut BenchOutcome,
) -> Result<()> {
    let line = line_of(orders, engine, repetition);
    errand_of(orders, engine, repetition).run(&line, runner, outcome)
}

fn errand_of<'a>(orders: &'a RunPlan, engine: &'a str, repetition: usize) -> ChildTask<'a> {
    ChildTask {
        engine,
        repetition,
        directory: &orders.job.directory,
        files: orders.files,
        is_loaded: orders.job.is_loaded,
        cap: orders.cap,
        cap_bytes: orders.job.cap,
    }
}

/// Returns a function that writes the job line for a child process.
fn line_of(
    orders: &RunPlan,
    engine: &str,
    repetition: usize,
) -> impl Fn(&Path, GroupPaths) -> Result<String> {
    move |directory, groups| {
        Ok(serde_json::to_string(&EngineJob {
            engine: engine.to_owned(),
            repetition,
            directory: directory.to_owned(),
            groups,
            ..orders.job.clone()
        })?)
    }
}

/// The part of a child process's task that is common to all kinds of jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChildTask<'a> {
    pub(crate) engine: &'a str,
    pub(crate) repetition: usize,
    /// The parent of the engine's directory.
    pub(crate) directory: &'a Path,
    /// Whether to keep the engine's directory afterwards.
    pub(crate) files: FileRetention,
    /// Whether the engine's directory already exists and must not be changed.
    pub(crate) is_loaded: bool,
    pub(crate) cap: CapMethod,
    pub(crate) cap_bytes: u64,
}

/// Writes the job line for a child process, given the paths of its directory and control groups.
pub(crate) type JobLine<'a> = &'a dyn Fn(&Path, GroupPaths) -> Result<String>;

impl ChildTask<'_> {
    /// Creates the directory and the control groups, starts the child process, and handles its
    /// events until it ends. Then removes the directory and the groups.
    ///
    /// # Errors
    /// Why the child process failed or could not be started.
    pub(crate) fn run(
        &self,
        job: JobLine<'_>,
        runner: &dyn BenchRunner,
        outcome: &mut BenchOutcome,
    ) -> Result<()> {
        let place = OwnedDirectory {
            path: self.directory.join(self.engine),
            files: self.files,
        };
        if !self.is_loaded && place.path.exists() {
            fs::remove_dir_all(&place.path).with_context(|| format!("removing {}", place.path.display()))?;
        }
        fs::create_dir_all(&place.path).with_context(|| format!("creating {}", place.path.display()))?;
        // Only an empty group can be removed, so drop the groups after the process.
        let (memory, blkio) = match self.cap {
            CapMethod::None => (None, None),
            CapMethod::Group => {
                let name = format!("{}-{}", self.engine, self.repetition);
                (
                    Some(ControlGroup::memory(&name, self.cap_bytes)?),
                    // Some machines have no block controller, and the block device's counters are
                    // used instead.
                    ControlGroup::blkio(&name, &place.path).ok(),
                )
            }
        };
        let path = |group: &Option<ControlGroup>| group.as_ref().map(|group| group.path().to_owned());
        let groups = GroupPaths {
            memory: path(&memory),
            blkio: path(&blkio),
        };
        let line = job(&place.path, groups)?;
        drive(self, line, &memory, &blkio, runner, outcome)
    }
}

/// Starts the child process, moves it into its control groups, and handles its events until it
/// ends.
fn drive(
    errand: &ChildTask<'_>,
    line: String,
    memory: &Option<ControlGroup>,
    blkio: &Option<ControlGroup>,
    runner: &dyn BenchRunner,
    outcome: &mut BenchOutcome,
) -> Result<()> {
    let (engine, repetition) = (errand.engine, errand.repetition);
    let mut command = runner.command(engine)?;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {:?}", command.get_program()))?;
    let mut input = child.stdin.take().expect("it is piped");
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    let number = child.id();
    let process = ChildProcess(Mutex::new(child));
    for group in memory.iter().chain(blkio) {
        group.admit(number)?;
    }
    // Until it gets its job, the child process does nothing, so it cannot work outside its groups.
    let text = line + "\n";
    input
        .write_all(text.as_bytes())
        .context("sending the job to the child")?;
    drop(input);
    let is_over = AtomicBool::new(false);
    let heard = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if runner.is_stopped() {
                    process.kill();
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let heard = listen(output, engine, repetition, runner, outcome);
        is_over.store(true, Ordering::Relaxed);
        heard
    });
    let heard = heard?;
    let status = process.0.lock().map_or_else(
        |_| bail!("a thread of the runner has panicked"),
        |mut child| Ok(child.wait()?),
    )?;
    if runner.is_stopped() {
        return Ok(());
    }
    match heard {
        ChildEnd::Closed => Ok(()),
        ChildEnd::Failed(why) => bail!("{why}"),
        ChildEnd::Silence => bail!(
            "its process ended early with {status}; signal 9 usually means that it exceeded the memory cap of {} bytes",
            errand.cap_bytes
        ),
    }
}

enum ChildEnd {
    Closed,
    Failed(String),
    Silence,
}

fn listen(
    output: impl BufRead,
    engine: &str,
    repetition: usize,
    runner: &dyn BenchRunner,
    outcome: &mut BenchOutcome,
) -> Result<ChildEnd> {
    for line in output.lines() {
        let Ok(line) = line else { break };
        let event: ChildEvent = serde_json::from_str(&line).with_context(|| {
            format!("the child sent {line:?}, which is not a message of this version: use both programs of the same version")
        })?;
        runner.on_event(engine, repetition, &event);
        match event {
            ChildEvent::Opened { settings } => {
                if !outcome.settings.iter().any(|(name, _)| name == engine) {
                    outcome.settings.push((engine.to_owned(), settings));
                }
            }
            ChildEvent::Measured(row) => outcome.rows.push(*row),
            ChildEvent::Closed { .. } => return Ok(ChildEnd::Closed),
            ChildEvent::Failed { why } => return Ok(ChildEnd::Failed(why)),
            ChildEvent::Progress { .. } => {}
        }
    }
    Ok(ChildEnd::Silence)
}
