//! The child process that measures an engine: it opens the engine, runs the phases, and closes the
//! engine.

use super::job::{ChildEvent, EngineJob, PhaseFlow, ResultRow};
use super::measurement_window::MeasurementWindow;
use super::records::LiveRecords;
use super::worker::EngineWorker;
use crate::account::dips::ThroughputDips;
use crate::account::memory::{self, MemoryCounters};
use crate::account::{CostSnapshot, ProcfsProcess, disk_bytes};
use crate::engine::{BenchEngine, CapEnforcement, EngineEntry, EngineOption, EngineSetup, kind_of};
use crate::engines;
use crate::workload::phase::{PhaseTask, WindowLength, WorkloadPhase};
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The main function of a child process. It reads a job from standard input, runs it, and writes
/// events to standard output.
#[must_use]
pub fn child(entries: &[EngineEntry]) -> ExitCode {
    answer(|line, say| {
        let job = serde_json::from_str(line)
            .context("the input is not a job: this command is for `alluvium bench`, which starts it")?;
        run_job(&job, entries, say)
    })
}

/// Reads a line from standard input, calls `work` with it, and writes the events to standard
/// output.
pub(crate) fn answer(work: impl FnOnce(&str, &mut dyn FnMut(ChildEvent)) -> Result<()>) -> ExitCode {
    end_with_parent();
    let say = |event: &ChildEvent| {
        let mut out = std::io::stdout().lock();
        let line = serde_json::to_string(event).expect("an event is JSON");
        // The parent no longer reads the events, so there is nothing left to do.
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            std::process::exit(1);
        }
    };
    let done = read_line().and_then(|line| work(&line, &mut |event| say(&event)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&ChildEvent::Failed {
                why: format!("{error:#}"),
            });
            ExitCode::FAILURE
        }
    }
}

/// Makes the kernel kill this process when its parent ends.
pub fn end_with_parent() {
    // SAFETY: the call only sets an attribute of this process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

fn read_line() -> Result<String> {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .context("reading the job")?;
    Ok(line)
}

/// Runs a job in the current process, and passes each event to `say`.
///
/// # Errors
/// Returns an error if the engine does not exist or returns a wrong result, and errors of the
/// engine.
pub fn run_job(job: &EngineJob, entries: &[EngineEntry], say: &mut dyn FnMut(ChildEvent)) -> Result<()> {
    let Some(entry) = engines::find(entries, kind_of(&job.engine)) else {
        bail!("this program has no engine {:?}", job.engine);
    };
    std::fs::create_dir_all(&job.directory)
        .with_context(|| format!("creating {}", job.directory.display()))?;
    let options = options(job, &entry)?;
    let engine = (entry.open)(&EngineSetup {
        directory: job.directory.clone(),
        cap: job.cap,
        kept: if job.groups.memory.is_some() {
            CapEnforcement::WithinCap
        } else {
            CapEnforcement::Free
        },
        memory: job.memory,
        log: job.log,
        threads: job.threads,
        value_bytes: job.value_bytes,
        records: job.records,
        options,
    })
    .with_context(|| format!("opening {}", job.engine))?;
    say(ChildEvent::Opened {
        settings: engine.settings(),
    });
    let mut state = EngineRun {
        job,
        engine: &*engine,
        records: Arc::new(LiveRecords::new(job.records, job.threads)),
        began: None,
        say,
    };
    if !job.is_loaded && !job.phases.iter().any(|phase| phase.task == PhaseTask::Load) {
        // The records must be loaded first, but this job does not measure the load.
        state.load_silently()?;
    }
    for phase in &job.phases {
        state
            .phase(phase)
            .with_context(|| format!("phase {}", phase.name))?;
    }
    state.prove_deleted()?;
    let began = Instant::now();
    engine.close().context("closing")?;
    say(ChildEvent::Closed {
        seconds: began.elapsed().as_secs_f64(),
    });
    Ok(())
}

struct EngineRun<'a> {
    job: &'a EngineJob,
    engine: &'a dyn BenchEngine,
    records: Arc<LiveRecords>,
    /// When the first phase started, if the job is continuous.
    began: Option<Instant>,
    say: &'a mut dyn FnMut(ChildEvent),
}

/// Number of deleted records, per deletion, that are looked up at the end.
const LOOKED_FOR: u64 = 256;

/// Returns the names and values of the job's options that apply to this engine.
fn options(job: &EngineJob, entry: &EngineEntry) -> Result<Vec<(String, String)>> {
    let mut options = Vec::new();
    let is_meant = |option: &&EngineOption| option.engine == job.engine;
    for option in job.options.iter().filter(is_meant) {
        if !entry.options.contains(&option.name.as_str()) {
            let known = match entry.options {
                [] => "no options".to_owned(),
                names => format!("the options {}", names.join(", ")),
            };
            bail!("{} has no option {:?}; it has {known}", job.engine, option.name);
        }
        options.push((option.name.clone(), option.value.clone()));
    }
    Ok(options)
}

/// Returns the total numbers of bytes that the workers wrote and read.
fn bytes(workers: &[EngineWorker<'_>]) -> (u64, u64) {
    workers.iter().fold((0, 0), |(written, read), worker| {
        (written + worker.written, read + worker.read)
    })
}

impl<'a> EngineRun<'a> {
    fn workers(&self, phase: &'a WorkloadPhase) -> Result<Vec<EngineWorker<'a>>> {
        let (job, engine) = (self.job, self.engine);
        (0..job.threads)
            .map(|thread| EngineWorker::new(job, phase, Arc::clone(&self.records), engine.session()?, thread))
            .collect()
    }

    fn load_silently(&mut self) -> Result<()> {
        let phase = WorkloadPhase {
            name: "load".into(),
            task: PhaseTask::Load,
            scan: crate::workload::phase::ScanLengths::Uniform(1),
            wanted: crate::workload::phase::KeyPresence::default(),
            warm: WindowLength::Operations(0),
            run: WindowLength::Operations(0),
            rate: None,
        };
        // These workers are dropped before the measured phase begins.
        let (job, engine) = (self.job, self.engine);
        let mut workers = (0..job.threads)
            .map(|thread| {
                EngineWorker::new(job, &phase, Arc::clone(&self.records), engine.session()?, thread)
            })
            .collect::<Result<Vec<_>>>()?;
        self.pass(&phase, None, &mut workers)?;
        self.settle(&mut ResultRow::default())
    }

    /// Lets all workers run operations for one window, which ends after `amount` or when no
    /// operations remain.
    fn pass(
        &mut self,
        phase: &WorkloadPhase,
        amount: Option<WindowLength>,
        workers: &mut [EngineWorker<'_>],
    ) -> Result<(crate::account::latency::PhaseRecorder, f64)> {
        let of = match amount {
            Some(WindowLength::Operations(operations)) => Some(operations),
            None => match phase.task {
                PhaseTask::Delete { percent } => {
                    let deletion = self.records.plan(percent, self.job.seed);
                    Some(deletion.before - deletion.kept)
                }
                _ => Some(self.job.records),
            },
            Some(WindowLength::Milliseconds(_)) => None,
        };
        let pass = MeasurementWindow {
            amount,
            rate: phase.rate,
            interval: Duration::from_millis(self.job.interval_ms),
        };
        let say = &mut *self.say;
        pass.run(workers, &mut |operations, seconds| {
            say(ChildEvent::Progress {
                phase: phase.name.clone(),
                operations,
                of,
                seconds,
            });
        })
    }

    fn phase(&mut self, phase: &'a WorkloadPhase) -> Result<()> {
        let mut workers = self.workers(phase)?;
        let amount = match phase.task {
            PhaseTask::Load | PhaseTask::Trace { .. } | PhaseTask::Delete { .. } => None,
            PhaseTask::Mix { .. } => {
                if !phase.warm.is_nothing() {
                    let warming = WorkloadPhase {
                        name: format!("{}, warming up", phase.name),
                        rate: None,
                        ..phase.clone()
                    };
                    self.pass(&warming, Some(phase.warm), &mut workers)?;
                }
                Some(phase.run)
            }
        };
        let (written_before, read_before) = bytes(&workers);
        memory::reset(&ProcfsProcess::own(), self.job.groups.memory.as_deref());
        let before = self.snapshot();
        let began_s = self.begins();
        let (recorder, seconds) = self.pass(phase, amount, &mut workers)?;
        let after = self.snapshot();
        let (written, read) = bytes(&workers);
        drop(workers);
        if let PhaseTask::Delete { percent } = phase.task {
            let deletion = self.records.plan(percent, self.job.seed);
            self.records = Arc::new(self.records.without(deletion));
        }
        let operations = recorder.operations();
        let user_written = written - written_before;
        let user_read = read - read_before;
        let mut row = ResultRow {
            threads: self.job.threads,
            ops_per_s: operations as f64 / seconds.max(1e-9),
            latency: recorder.percentiles(),
            cpu_us_per_op: (after.cpu_us - before.cpu_us) as f64 / operations.max(1) as f64,
            user_bytes: user_written + user_read,
            user_written_bytes: user_written,
            operations,
            target_per_s: phase.rate,
            series: recorder.series().to_vec(),
            interval_ms: self.job.interval_ms,
            began_s,
            ..self.row(&phase.name, &before, &after)
        };
        row.seconds = seconds;
        row.write_amplification = ratio(row.device_write_bytes, user_written);
        row.read_amplification = ratio(row.device_read_bytes, user_read);
        if began_s.is_some() {
            row.dips = ThroughputDips::of(&row.series, row.interval_ms, seconds);
        }
        let rests = phase.task == PhaseTask::Load && self.job.flow == PhaseFlow::Separate;
        (self.say)(ChildEvent::Measured(Box::new(row.clone())));
        if rests {
            self.settle(&mut row)?;
        }
        Ok(())
    }

    /// Returns the seconds since the start of the first phase if the job is continuous, and `None`
    /// otherwise.
    fn begins(&mut self) -> Option<f64> {
        if self.job.flow == PhaseFlow::Separate {
            return None;
        }
        let now = Instant::now();
        Some((now - *self.began.get_or_insert(now)).as_secs_f64())
    }

    /// Looks up a sample of the deleted records and returns an error if any of them is found.
    fn prove_deleted(&self) -> Result<()> {
        if self.engine.keeps_nothing() {
            return Ok(());
        }
        let mut session = self.engine.session()?;
        for number in self.records.deleted(LOOKED_FOR) {
            let key = self.job.keys.of(number);
            let is_there = session
                .get(&key, &mut |_| {})
                .context("looking for deleted records")?;
            ensure!(!is_there, "{} was deleted, but is found", key.escape_ascii());
        }
        Ok(())
    }

    fn snapshot(&self) -> CostSnapshot {
        CostSnapshot::take(&self.job.directory, self.job.groups.blkio.as_deref())
    }

    /// Returns a result row with the figures that all kinds of phases have.
    fn row(&self, name: &str, before: &CostSnapshot, after: &CostSnapshot) -> ResultRow {
        let device = after.device.since(&before.device);
        let memory = MemoryCounters::now(&ProcfsProcess::own(), self.job.groups.memory.as_deref());
        let records = self.records.limit();
        ResultRow {
            engine: self.job.engine.clone(),
            phase: name.to_owned(),
            repetition: self.job.repetition,
            device_write_bytes: device.write_bytes(),
            device_read_bytes: device.read_bytes(),
            device_reads: device.reads(),
            space_amplification: ratio(disk_bytes(&self.job.directory), records * self.job.record_bytes()),
            rss_peak_bytes: memory.rss_peak_bytes,
            memory,
            device,
            seconds: (after.at - before.at).as_secs_f64(),
            records,
            remarks: self.engine.remarks(),
            ..ResultRow::default()
        }
    }

    /// After a load, flushes all data to the device and waits for the engine to finish its
    /// background work.
    fn settle(&mut self, load: &mut ResultRow) -> Result<()> {
        memory::reset(&ProcfsProcess::own(), self.job.groups.memory.as_deref());
        let before = self.snapshot();
        self.engine.flush().context("flushing the engine's memory")?;
        let limit = Duration::from_millis(self.job.settle_ms);
        let mut rest = IdleDetector::new(self.snapshot());
        while before.at.elapsed() < limit {
            std::thread::sleep(LOOK);
            if rest.is_reached(self.snapshot()) {
                break;
            }
            (self.say)(ChildEvent::Progress {
                phase: "settle".into(),
                operations: 0,
                of: None,
                seconds: before.at.elapsed().as_secs_f64(),
            });
        }
        let after = self.snapshot();
        // In a sweep, phase names begin with the name of the point.
        let point = load.phase.strip_suffix("load").unwrap_or_default();
        let mut row = self.row(&format!("{point}settle"), &before, &after);
        row.threads = self.job.threads;
        row.user_written_bytes = 0;
        row.write_amplification = ratio(
            load.device_write_bytes + row.device_write_bytes,
            load.user_written_bytes,
        );
        if load.operations > 0 {
            (self.say)(ChildEvent::Measured(Box::new(row)));
        }
        Ok(())
    }
}

fn ratio(one: u64, other: u64) -> Option<f64> {
    (other > 0).then(|| one as f64 / other as f64)
}

/// How often the engine is checked for activity.
const LOOK: Duration = Duration::from_millis(250);
/// How long an engine must be inactive to count as idle.
const RESTED: Duration = Duration::from_secs(1);

/// Detects whether an engine is idle, that is, uses almost no CPU time and writes almost nothing.
struct IdleDetector {
    since: CostSnapshot,
}

impl IdleDetector {
    fn new(since: CostSnapshot) -> IdleDetector {
        IdleDetector { since }
    }

    fn is_reached(&mut self, now: CostSnapshot) -> bool {
        let passed = now.at - self.since.at;
        let cpu_us = now.cpu_us - self.since.cpu_us;
        let written = now.device.since(&self.since.device).write_bytes();
        let is_busy = cpu_us as f64 > 0.03 * passed.as_micros() as f64 + 5000.0 || written > 1 << 20;
        if is_busy {
            self.since = now;
            return false;
        }
        passed >= RESTED
    }
}
