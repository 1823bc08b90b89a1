//! The runner: for every repetition and engine a directory, control groups, a child; in the end nothing of them is left.

use super::job::{Event, Groups, Job, Row};
use crate::cgroup::Group;
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How a child is kept within its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap {
    /// By a control group.
    Group,
    /// Not at all: engines are told how much they may take, and the page cache is whatever there is.
    None,
}

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Orders {
    /// The engines.
    pub engines: Vec<String>,
    /// How often each.
    pub repetitions: usize,
    /// What each is to do; engine, repetition, directory and groups are filled in.
    pub job: Job,
    /// Whether there is a cap.
    pub cap: Cap,
    /// What happens to the files of an engine afterwards.
    pub files: Files,
}

/// What happens to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// They are removed.
    Removed,
    /// They are kept, for another run.
    Kept,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// All rows, in the order in which they were measured.
    pub rows: Vec<Row>,
    /// The settings of every engine.
    pub settings: Vec<(String, Vec<(String, String)>)>,
    /// Whether it was stopped before the end.
    pub was_stopped: bool,
}

/// What the runner needs of its surroundings.
pub trait Runner: Sync {
    /// The program, with its arguments, that is the child for an engine.
    ///
    /// # Errors
    /// When there is none.
    fn command(&self, engine: &str) -> Result<Command>;

    /// Whether somebody wants it to stop.
    fn is_stopped(&self) -> bool;

    /// Something has happened.
    fn hear(&self, engine: &str, repetition: usize, event: &Event);
}

/// Runs every engine, repetition by repetition, so that what changes on the machine meanwhile meets all of them.
///
/// # Errors
/// When an engine fails or answers wrongly; when there are no control groups and a cap is wanted.
pub fn run(orders: &Orders, runner: &dyn Runner) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for repetition in 1..=orders.repetitions {
        for engine in &orders.engines {
            if runner.is_stopped() {
                outcome.was_stopped = true;
                return Ok(outcome);
            }
            run_one(orders, engine, repetition, runner, &mut outcome)
                .with_context(|| format!("{engine}, repetition {repetition}"))?;
        }
    }
    Ok(outcome)
}

/// Files that are removed when this is dropped.
struct Place {
    path: PathBuf,
    files: Files,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.files == Files::Removed {
            // What cannot be removed now can be removed by hand; the measurement stands.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A child that does not outlive this.
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

fn run_one(
    orders: &Orders,
    engine: &str,
    repetition: usize,
    runner: &dyn Runner,
    outcome: &mut Outcome,
) -> Result<()> {
    let place = Place {
        path: orders.job.directory.join(engine),
        files: orders.files,
    };
    if !orders.job.is_loaded && place.path.exists() {
        fs::remove_dir_all(&place.path).with_context(|| format!("removing {}", place.path.display()))?;
    }
    fs::create_dir_all(&place.path).with_context(|| format!("making {}", place.path.display()))?;
    // Groups are dropped after the process: an empty one can be removed.
    let (memory, blkio) = match orders.cap {
        Cap::None => (None, None),
        Cap::Group => {
            let name = format!("{engine}-{repetition}");
            (
                Some(Group::memory(&name, orders.job.cap)?),
                // Some machines have no block controller; the block device's own counters are there anyhow.
                Group::blkio(&name, &place.path).ok(),
            )
        }
    };
    let path = |group: &Option<Group>| group.as_ref().map(|group| group.path().to_owned());
    let job = Job {
        engine: engine.to_owned(),
        repetition,
        directory: place.path.clone(),
        groups: Groups {
            memory: path(&memory),
            blkio: path(&blkio),
        },
        ..orders.job.clone()
    };
    drive(&job, &memory, &blkio, runner, outcome)
}

/// Starts the child for a job, puts it into its groups, and hears what it says until it is done.
fn drive(
    job: &Job,
    memory: &Option<Group>,
    blkio: &Option<Group>,
    runner: &dyn Runner,
    outcome: &mut Outcome,
) -> Result<()> {
    let (engine, repetition) = (job.engine.as_str(), job.repetition);
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
    // It waits for its job, so it does nothing before it is in its groups.
    let text = serde_json::to_string(job)? + "\n";
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
        outcome.was_stopped = true;
        return Ok(());
    }
    match heard {
        Heard::Closed => Ok(()),
        Heard::Failed(why) => bail!("{why}"),
        Heard::Silence => bail!(
            "its process ended with {status} before it was done; killed by signal 9 it took more memory than the cap of {} bytes",
            job.cap
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
            format!("the child said {line:?}, which nobody understands: are both programs of one version?")
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
