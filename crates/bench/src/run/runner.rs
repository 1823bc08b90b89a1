//! The runner: creates a directory, control groups and a child for every repetition and engine, and
//! removes all of them at the end.

use super::copy::copy;
use super::job::{Event, Groups, Job, Row};
use crate::cgroup::Group;
use crate::workload::phase::Task;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How a child's memory is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap {
    /// By a control group.
    Group,
    /// Not limited: engines are configured with a memory size, and the page cache is unlimited.
    None,
}

/// The requested runs.
#[derive(Clone, Debug)]
pub struct Orders {
    /// Names of the engines.
    pub engines: Vec<String>,
    /// Number of repetitions per engine.
    pub repetitions: usize,
    /// How often each engine is loaded.
    pub loads: Loads,
    /// The work of each engine; engine, repetition, directory and groups are filled in.
    pub job: Job,
    /// Whether memory is capped.
    pub cap: Cap,
    /// What happens to an engine's files afterwards.
    pub files: Files,
}

/// How often an engine is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loads {
    /// In every repetition, as its phases specify.
    Each,
    /// Once, in a separate process before the first repetition; each repetition works on a copy.
    /// For engines whose load is longer than the measurement.
    Once,
}

/// What happens to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// They are removed.
    Removed,
    /// They are kept for another run.
    Kept,
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// All rows in order of measurement.
    pub rows: Vec<Row>,
    /// Settings of every engine.
    pub settings: Vec<(String, Vec<(String, String)>)>,
    /// Measurements that failed.
    pub failures: Vec<Failure>,
    /// Whether the run was stopped early.
    pub was_stopped: bool,
}

/// A failed repetition of an engine; earlier measurements remain valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Name of the engine.
    pub engine: String,
    /// Number of the repetition, from 1.
    pub repetition: usize,
    /// The reason.
    pub why: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, repetition {}: {}", self.engine, self.repetition, self.why)
    }
}

/// Receives events of a run.
pub trait Listener: Sync {
    /// Returns whether the user wants to stop.
    fn is_stopped(&self) -> bool;

    /// Reports an event.
    fn hear(&self, engine: &str, repetition: usize, event: &Event);

    /// Reports a failed repetition of an engine; the others continue.
    fn fail(&self, failure: &Failure);
}

/// The environment of the runner.
pub trait Runner: Listener {
    /// Returns the command line of the child for an engine.
    ///
    /// # Errors
    /// If there is none.
    fn command(&self, engine: &str) -> Result<Command>;

    /// Returns the command line of a study of other systems; a directory and a number of records
    /// are appended.
    ///
    /// # Errors
    /// If there is none.
    fn study(&self, name: &str) -> Result<Command> {
        bail!("the study {name} cannot be made from here: `alluvium-lab run` makes it")
    }
}

/// Runs every engine, repetition by repetition.
///
/// # Errors
/// The first failure, if no measurement succeeded.
pub fn run(orders: &Orders, runner: &dyn Runner) -> Result<Outcome> {
    let mut loaded = Vec::new();
    each(
        &orders.engines,
        orders.repetitions,
        Turns::Same,
        runner,
        &mut |engine, repetition, outcome| match orders.loads {
            Loads::Each => run_one(orders, engine, repetition, runner, outcome),
            Loads::Once => run_copy(orders, engine, repetition, runner, &mut loaded, outcome),
        },
    )
}

/// Opens each engine that has options, empty and in a separate process, and closes it, so that
/// invalid options are detected before another engine is loaded for an hour.
///
/// # Errors
/// Errors of the engine.
pub fn try_options(orders: &Orders, runner: &dyn Runner) -> Result<()> {
    let options = &orders.job.options;
    let has_any = |engine: &&String| options.iter().any(|option| option.engine == **engine);
    for engine in orders.engines.iter().filter(has_any) {
        let mut trial = orders.clone();
        trial.job.directory = orders.job.directory.join("options");
        trial.job.phases = Vec::new();
        trial.files = Files::Removed;
        // Nothing is loaded.
        trial.job.is_loaded = true;
        let errand = Errand {
            // The directory of an earlier trial is not reused.
            is_loaded: false,
            ..errand_of(&trial, engine, 0)
        };
        let line = line_of(&trial, engine, 0);
        let tried = errand.run(&line, runner, &mut Outcome::default());
        // Removed only if it is empty.
        let _ = fs::remove_dir(&trial.job.directory);
        tried?;
    }
    Ok(())
}

/// The work for one repetition of one engine.
pub(crate) type One<'a> = &'a mut dyn FnMut(&str, usize, &mut Outcome) -> Result<()>;

/// The order in which engines run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turns {
    /// The same in every repetition.
    Same,
    /// Reversed in every second repetition.
    Alternating,
}

/// Runs the work for every engine, repetition by repetition, so that changes on the machine affect
/// all engines. A failing engine is recorded and the others continue: if one is killed for its
/// memory use after an hour, the figures of the others are kept.
///
/// # Errors
/// The first failure, if no measurement succeeded.
pub(crate) fn each(
    engines: &[String],
    repetitions: usize,
    turns: Turns,
    listener: &(impl Listener + ?Sized),
    one: One<'_>,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for repetition in 1..=repetitions {
        let mut order: Vec<&String> = engines.iter().collect();
        if turns == Turns::Alternating && repetition % 2 == 0 {
            order.reverse();
        }
        for engine in order {
            let done = one(engine, repetition, &mut outcome);
            if listener.is_stopped() {
                outcome.was_stopped = true;
                return Ok(outcome);
            }
            if let Err(error) = done {
                let failure = Failure {
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

/// Files that are removed on drop.
struct Place {
    path: PathBuf,
    files: Files,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.files == Files::Removed {
            // If the directory cannot be removed, the user can remove it; the measurement is valid.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A child that is killed on drop.
struct Process(Mutex<Child>);

impl Process {
    fn kill(&self) {
        if let Ok(mut child) = self.0.lock() {
            // It may have ended by itself.
            let _ = child.kill();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if let Ok(mut child) = self.0.lock() {
            let _ = child.wait();
        }
    }
}

/// The loaded files of an engine, for all repetitions.
struct Loaded {
    engine: String,
    /// The files; `None` if loading failed.
    place: Option<Place>,
}

/// Runs a repetition on a copy of the loaded files; the first repetition loads them.
fn run_copy(
    orders: &Orders,
    engine: &str,
    repetition: usize,
    runner: &dyn Runner,
    loaded: &mut Vec<Loaded>,
    outcome: &mut Outcome,
) -> Result<()> {
    let (loads, others): (Vec<_>, Vec<_>) = orders
        .job
        .phases
        .iter()
        .cloned()
        .partition(|phase| phase.task == Task::Load);
    let mut orders = orders.clone();
    if !loaded.iter().any(|one| one.engine == engine) {
        let mut load = orders.clone();
        load.job.phases = loads;
        load.files = Files::Kept;
        let mut place = Place {
            path: load.job.directory.join(engine),
            files: Files::Removed,
        };
        let done = run_one(&load, engine, repetition, runner, outcome);
        let is_done = done.is_ok() && !runner.is_stopped();
        if is_done {
            let path = orders.job.directory.join(format!("{engine}-loaded"));
            replace(&place.path, &path)?;
            place.path = path;
        }
        loaded.push(Loaded {
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
        bail!("its only load has failed");
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

/// Renames a directory, replacing any existing one.
fn replace(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).with_context(|| format!("removing {}", to.display()))?;
    }
    fs::rename(from, to).with_context(|| format!("renaming {} to {}", from.display(), to.display()))
}

/// Runs one process: an engine that executes its phases in its directory.
fn run_one(
    orders: &Orders,
    engine: &str,
    repetition: usize,
    runner: &dyn Runner,
    outcome: &mut Outcome,
) -> Result<()> {
    let line = line_of(orders, engine, repetition);
    errand_of(orders, engine, repetition).run(&line, runner, outcome)
}

fn errand_of<'a>(orders: &'a Orders, engine: &'a str, repetition: usize) -> Errand<'a> {
    Errand {
        engine,
        repetition,
        directory: &orders.job.directory,
        files: orders.files,
        is_loaded: orders.job.is_loaded,
        cap: orders.cap,
        cap_bytes: orders.job.cap,
    }
}

/// Returns a function that builds the line with a child's job.
fn line_of(orders: &Orders, engine: &str, repetition: usize) -> impl Fn(&Path, Groups) -> Result<String> {
    move |directory, groups| {
        Ok(serde_json::to_string(&Job {
            engine: engine.to_owned(),
            repetition,
            directory: directory.to_owned(),
            groups,
            ..orders.job.clone()
        })?)
    }
}

/// The purpose of a process, independent of the kind of job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Errand<'a> {
    /// Name of the engine.
    pub(crate) engine: &'a str,
    /// Number of the repetition.
    pub(crate) repetition: usize,
    /// Parent directory of the engine's directory.
    pub(crate) directory: &'a Path,
    /// What happens to the directory afterwards.
    pub(crate) files: Files,
    /// Whether the directory exists and is kept unchanged.
    pub(crate) is_loaded: bool,
    /// Whether memory is capped.
    pub(crate) cap: Cap,
    /// The cap in bytes.
    pub(crate) cap_bytes: u64,
}

/// Builds the line with a child's job, from its directory and groups.
pub(crate) type JobLine<'a> = &'a dyn Fn(&Path, Groups) -> Result<String>;

impl Errand<'_> {
    /// Creates the directory and the groups, starts the child, and processes its events until it
    /// ends. Removes directory and groups afterwards.
    ///
    /// # Errors
    /// The reason why the child failed or could not be started.
    pub(crate) fn run(&self, job: JobLine<'_>, runner: &dyn Runner, outcome: &mut Outcome) -> Result<()> {
        let place = Place {
            path: self.directory.join(self.engine),
            files: self.files,
        };
        if !self.is_loaded && place.path.exists() {
            fs::remove_dir_all(&place.path).with_context(|| format!("removing {}", place.path.display()))?;
        }
        fs::create_dir_all(&place.path).with_context(|| format!("making {}", place.path.display()))?;
        // Groups are dropped after the process, because only an empty group can be removed.
        let (memory, blkio) = match self.cap {
            Cap::None => (None, None),
            Cap::Group => {
                let name = format!("{}-{}", self.engine, self.repetition);
                (
                    Some(Group::memory(&name, self.cap_bytes)?),
                    // Some machines have no block controller; the counters of the block device are
                    // still available.
                    Group::blkio(&name, &place.path).ok(),
                )
            }
        };
        let path = |group: &Option<Group>| group.as_ref().map(|group| group.path().to_owned());
        let groups = Groups {
            memory: path(&memory),
            blkio: path(&blkio),
        };
        let line = job(&place.path, groups)?;
        drive(self, line, &memory, &blkio, runner, outcome)
    }
}

/// Starts the child for a job, moves it into its groups, and processes its events until it ends.
fn drive(
    errand: &Errand<'_>,
    line: String,
    memory: &Option<Group>,
    blkio: &Option<Group>,
    runner: &dyn Runner,
    outcome: &mut Outcome,
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
    let process = Process(Mutex::new(child));
    for group in memory.iter().chain(blkio) {
        group.admit(number)?;
    }
    // The child waits for its job, so it does nothing before it is in its groups.
    let text = line + "\n";
    input
        .write_all(text.as_bytes())
        .context("telling the child its job")?;
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
        Heard::Closed => Ok(()),
        Heard::Failed(why) => bail!("{why}"),
        Heard::Silence => bail!(
            "its process ended with {status} before it was done; killed by signal 9 it took more memory than the cap of {} bytes",
            errand.cap_bytes
        ),
    }
}

/// How a child ended.
enum Heard {
    Closed,
    Failed(String),
    Silence,
}

fn listen(
    output: impl BufRead,
    engine: &str,
    repetition: usize,
    runner: &dyn Runner,
    outcome: &mut Outcome,
) -> Result<Heard> {
    for line in output.lines() {
        let Ok(line) = line else { break };
        let event: Event = serde_json::from_str(&line).with_context(|| {
            format!("the child said {line:?}, which is no message of this version: are both programs of one version?")
        })?;
        runner.hear(engine, repetition, &event);
        match event {
            Event::Opened { settings } => {
                if !outcome.settings.iter().any(|(name, _)| name == engine) {
                    outcome.settings.push((engine.to_owned(), settings));
                }
            }
            Event::Measured(row) => outcome.rows.push(*row),
            Event::Closed { .. } => return Ok(Heard::Closed),
            Event::Failed { why } => return Ok(Heard::Failed(why)),
            Event::Progress { .. } => {}
        }
    }
    Ok(Heard::Silence)
}
