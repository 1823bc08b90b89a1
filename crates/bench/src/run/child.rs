//! One engine in a process of its own: opened, driven through its phases, closed.

use super::job::{Event, Job, Row};
use super::pass::Pass;
use super::records::Records;
use super::worker::Worker;
use crate::account::memory::{self, Memory};
use crate::account::{Process, Snapshot, disk_bytes};
use crate::engine::{Engine, Entry, Kept, Setup};
use crate::engines;
use crate::workload::phase::{Amount, Phase, Task};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Reads a job from standard input, does it, and writes what happens to standard output.
#[must_use]
pub fn child(entries: &[Entry]) -> ExitCode {
    // A runner that was killed takes its children with it.
    // SAFETY: it sets a number of this process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let say = |event: &Event| {
        let mut out = std::io::stdout().lock();
        let line = serde_json::to_string(event).expect("an event is JSON");
        // The parent does not listen any more: there is nothing left to do.
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            std::process::exit(1);
        }
    };
    let done = read_job().and_then(|job| run_job(&job, entries, &mut |event| say(&event)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&Event::Failed {
                why: format!("{error:#}"),
            });
            ExitCode::FAILURE
        }
    }
}

fn read_job() -> Result<Job> {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .context("reading the job")?;
    serde_json::from_str(&line).context("the job is no job: `alluvium bench` starts this by itself")
}

/// Does a job in this process.
///
/// # Errors
/// When there is no such engine; as the engine says; when it answers wrongly.
pub fn run_job(job: &Job, entries: &[Entry], say: &mut dyn FnMut(Event)) -> Result<()> {
    let Some(entry) = engines::find(entries, &job.engine) else {
        bail!("this program has no engine {:?}", job.engine);
    };
    std::fs::create_dir_all(&job.directory).with_context(|| format!("making {}", job.directory.display()))?;
    let engine = (entry.open)(&Setup {
        directory: job.directory.clone(),
        cap: job.cap,
        kept: if job.groups.memory.is_some() {
            Kept::WithinCap
        } else {
            Kept::Free
        },
        memory: job.memory,
        log: job.log,
        threads: job.threads,
        value_bytes: job.value_bytes,
        records: job.records,
    })
    .with_context(|| format!("opening {}", job.engine))?;
    say(Event::Opened {
        settings: engine.settings(),
    });
    let records = Records::new(job.records, job.threads);
    let mut state = State {
        job,
        engine: &*engine,
        records: &records,
        say,
    };
    if !job.is_loaded && !job.phases.iter().any(|phase| phase.task == Task::Load) {
        // Only what follows is wanted.
        state.load_silently()?;
    }
    for phase in &job.phases {
        state
            .phase(phase)
            .with_context(|| format!("phase {}", phase.name))?;
    }
    let began = Instant::now();
    engine.close().context("closing")?;
    say(Event::Closed {
        seconds: began.elapsed().as_secs_f64(),
    });
    Ok(())
}

struct State<'a> {
    job: &'a Job,
    engine: &'a dyn Engine,
    records: &'a Records,
    say: &'a mut dyn FnMut(Event),
}

/// Returns what the workers of a pass have written and read.
fn bytes(workers: &[Worker<'_>]) -> (u64, u64) {
    workers.iter().fold((0, 0), |(written, read), worker| {
        (written + worker.written, read + worker.read)
    })
}

impl<'a> State<'a> {
    fn workers(&self, phase: &'a Phase) -> Result<Vec<Worker<'a>>> {
        let (job, engine, records) = (self.job, self.engine, self.records);
        (0..job.threads)
            .map(|thread| Worker::new(job, phase, records, engine.session()?, thread))
            .collect()
    }

    fn load_silently(&mut self) -> Result<()> {
        let phase = Phase {
            name: "load".into(),
            task: Task::Load,
            scan: crate::workload::phase::Lengths::Uniform(1),
            warm: Amount::Operations(0),
            run: Amount::Operations(0),
            rate: None,
        };
        // Its workers are gone before the phase is.
        let (job, engine, records) = (self.job, self.engine, self.records);
        let mut workers = (0..job.threads)
            .map(|thread| Worker::new(job, &phase, records, engine.session()?, thread))
            .collect::<Result<Vec<_>>>()?;
        self.pass("load", None, None, &mut workers)?;
        self.settle(&mut Row::default())
    }

    fn pass(
        &mut self,
        name: &str,
        amount: Option<Amount>,
        rate: Option<f64>,
        workers: &mut [Worker<'_>],
    ) -> Result<(crate::account::latency::Recorder, f64)> {
        let of = match amount {
            Some(Amount::Operations(operations)) => Some(operations),
            None => Some(self.job.records),
            Some(Amount::Milliseconds(_)) => None,
        };
        let pass = Pass {
            amount,
            rate,
            interval: Duration::from_millis(self.job.interval_ms),
        };
        let say = &mut *self.say;
        pass.run(workers, &mut |operations, seconds| {
            say(Event::Progress {
                phase: name.to_owned(),
                operations,
                of,
                seconds,
            });
        })
    }

    fn phase(&mut self, phase: &'a Phase) -> Result<()> {
        let mut workers = self.workers(phase)?;
        let amount = match phase.task {
            Task::Load | Task::Trace { .. } => None,
            Task::Mix { .. } => {
                if !phase.warm.is_nothing() {
                    let name = format!("{}, warming up", phase.name);
                    self.pass(&name, Some(phase.warm), None, &mut workers)?;
                }
                Some(phase.run)
            }
        };
        let (written_before, read_before) = bytes(&workers);
        memory::reset(&Process::own(), self.job.groups.memory.as_deref());
        let before = self.snapshot();
        let (recorder, seconds) = self.pass(&phase.name, amount, phase.rate, &mut workers)?;
        let after = self.snapshot();
        let (written, read) = bytes(&workers);
        drop(workers);
        let operations = recorder.operations();
        let user_written = written - written_before;
        let user_read = read - read_before;
        let mut row = Row {
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
            ..self.row(&phase.name, &before, &after)
        };
        row.seconds = seconds;
        row.write_amplification = ratio(row.device_write_bytes, user_written);
        row.read_amplification = ratio(row.device_read_bytes, user_read);
        let is_load = phase.task == Task::Load;
        (self.say)(Event::Measured(Box::new(row.clone())));
        if is_load {
            self.settle(&mut row)?;
        }
        Ok(())
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.job.directory, self.job.groups.blkio.as_deref())
    }

    /// Returns what holds of every row.
    fn row(&self, name: &str, before: &Snapshot, after: &Snapshot) -> Row {
        let device = after.device.since(&before.device);
        let memory = Memory::now(&Process::own(), self.job.groups.memory.as_deref());
        let records = self.records.limit();
        Row {
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
            ..Row::default()
        }
    }

    /// After a load: what is in memory goes to the device, and the engine may work in the
    /// background until it rests.
    fn settle(&mut self, load: &mut Row) -> Result<()> {
        memory::reset(&Process::own(), self.job.groups.memory.as_deref());
        let before = self.snapshot();
        self.engine.flush().context("writing out what is in memory")?;
        let limit = Duration::from_millis(self.job.settle_ms);
        let mut rest = Rest::new(self.snapshot());
        while before.at.elapsed() < limit {
            std::thread::sleep(LOOK);
            if rest.is_reached(self.snapshot()) {
                break;
            }
            (self.say)(Event::Progress {
                phase: "settle".into(),
                operations: 0,
                of: None,
                seconds: before.at.elapsed().as_secs_f64(),
            });
        }
        let after = self.snapshot();
        // A point of a sweep says in front which one it is.
        let point = load.phase.strip_suffix("load").unwrap_or_default();
        let mut row = self.row(&format!("{point}settle"), &before, &after);
        row.threads = self.job.threads;
        row.user_written_bytes = 0;
        row.write_amplification = ratio(
            load.device_write_bytes + row.device_write_bytes,
            load.user_written_bytes,
        );
        if load.operations > 0 {
            (self.say)(Event::Measured(Box::new(row)));
        }
        Ok(())
    }
}

fn ratio(one: u64, other: u64) -> Option<f64> {
    (other > 0).then(|| one as f64 / other as f64)
}

/// How often it is looked whether an engine rests.
const LOOK: Duration = Duration::from_millis(250);
/// For how long it must have rested.
const RESTED: Duration = Duration::from_secs(1);

/// Whether an engine rests: next to no processor time, next to no bytes written.
struct Rest {
    since: Snapshot,
}

impl Rest {
    fn new(since: Snapshot) -> Rest {
        Rest { since }
    }

    fn is_reached(&mut self, now: Snapshot) -> bool {
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
