//! The child process that measures an engine with transactions: it opens the engine, runs the
//! phases, verifies the results, and closes the engine.

use super::engine::{AckDurability, AttemptError, TransactionalEngine, TransactionalEntry, find};
use super::job::TransactionJob;
use super::phase::{TransactionPhase, TransactionTask};
use super::worker::{
    COUNTER_BYTES, COUNTER_KEYSPACE, ClientCounts, PhaseContext, TransactionWorker, count, counter,
};
use crate::account::latency::PhaseRecorder;
use crate::account::memory::{self, MemoryCounters};
use crate::account::{CostSnapshot, ProcfsProcess};
use crate::engine::{CapEnforcement, EngineSetup, WriteLogging};
use crate::run::{ChildEvent, MeasurementWindow, ResultRow, answer};
use crate::workload::phase::WindowLength;
use crate::workload::zipf::ZipfGenerator;
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Number of counters per transaction during setup and verification.
const BATCH: u64 = 500;

/// The main function of a child process. It reads a job from standard input, runs it, and writes
/// events to standard output.
#[must_use]
pub fn child(entries: &[TransactionalEntry]) -> ExitCode {
    answer(|line, say| {
        let job = serde_json::from_str(line).context(
            "the input is not a job: this command is for `alluvium bench transactions`, which starts it",
        )?;
        run_job(&job, entries, say)
    })
}

/// Runs a job in the current process, and passes each event to the caller.
///
/// # Errors
/// Returns an error if the engine does not exist or an update was lost, and errors of the engine.
pub fn run_job(
    job: &TransactionJob,
    entries: &[TransactionalEntry],
    say: &mut dyn FnMut(ChildEvent),
) -> Result<()> {
    let Some(entry) = find(entries, &job.engine) else {
        bail!("this program has no transactional engine {:?}", job.engine);
    };
    std::fs::create_dir_all(&job.directory)
        .with_context(|| format!("creating {}", job.directory.display()))?;
    let engine = (entry.open)(&setup(job)).with_context(|| format!("opening {}", job.engine))?;
    say(ChildEvent::Opened {
        settings: engine.settings(),
    });
    let mut state = TransactionRun {
        job,
        engine: &*engine,
        zipf: ZipfGenerator::new(job.counters),
        increments: None,
        say,
    };
    for (place, phase) in job.phases.iter().enumerate() {
        state
            .phase(phase, place)
            .with_context(|| format!("phase {}", phase.name))?;
    }
    let began = Instant::now();
    engine.close().context("closing")?;
    say(ChildEvent::Closed {
        seconds: began.elapsed().as_secs_f64(),
    });
    Ok(())
}

fn setup(job: &TransactionJob) -> EngineSetup {
    EngineSetup {
        directory: job.directory.clone(),
        cap: job.cap,
        kept: match job.groups.memory {
            Some(_) => CapEnforcement::WithinCap,
            None => CapEnforcement::Free,
        },
        memory: job.memory,
        log: WriteLogging::On,
        threads: job.phases.iter().map(|phase| phase.clients).max().unwrap_or(1),
        value_bytes: COUNTER_BYTES,
        records: job.counters,
        options: Vec::new(),
    }
}

struct TransactionRun<'a> {
    job: &'a TransactionJob,
    engine: &'a dyn TransactionalEngine,
    zipf: ZipfGenerator,
    /// Number of increments committed so far, or `None` before the counters are created.
    increments: Option<u64>,
    say: &'a mut dyn FnMut(ChildEvent),
}

impl TransactionRun<'_> {
    fn phase(&mut self, phase: &TransactionPhase, place: usize) -> Result<()> {
        let adds = matches!(phase.task, TransactionTask::Add { .. });
        if adds && self.increments.is_none() {
            self.put_counters().context("putting the counters")?;
            self.increments = Some(0);
        }
        let (engine, job) = (self.engine, self.job);
        let zipf = self.zipf.clone();
        let common = PhaseContext {
            phase,
            place,
            seed: job.seed,
            counters: job.counters,
            zipf: &zipf,
        };
        let mut workers = (0..phase.clients)
            .map(|number| {
                Ok(TransactionWorker::new(
                    &common,
                    engine.client(phase.durability)?,
                    number,
                ))
            })
            .collect::<Result<Vec<_>>>()?;
        if !job.warm.is_nothing() {
            self.pass(phase, job.warm, &mut workers)?;
        }
        let already = tally(&workers);
        memory::reset(&ProcfsProcess::own(), job.groups.memory.as_deref());
        let before = self.snapshot();
        let (recorder, seconds) = self.pass(phase, job.run, &mut workers)?;
        let after = self.snapshot();
        let all = tally(&workers);
        let measured = ClientCounts {
            aborts: all.aborts - already.aborts,
            increments: all.increments - already.increments,
            written: all.written - already.written,
        };
        let row = self.row(phase, (&recorder, seconds), measured, (&before, &after));
        workers.iter_mut().try_for_each(TransactionWorker::prove)?;
        drop(workers);
        if let Some(increments) = &mut self.increments {
            *increments += all.increments;
        }
        self.prove_counters()?;
        (self.say)(ChildEvent::Measured(Box::new(row)));
        Ok(())
    }

    fn pass(
        &mut self,
        phase: &TransactionPhase,
        amount: WindowLength,
        workers: &mut [TransactionWorker<'_>],
    ) -> Result<(PhaseRecorder, f64)> {
        let pass = MeasurementWindow {
            amount: Some(amount),
            rate: None,
            interval: Duration::from_millis(self.job.interval_ms),
        };
        let of = match amount {
            WindowLength::Operations(operations) => Some(operations),
            WindowLength::Milliseconds(_) => None,
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

    fn snapshot(&self) -> CostSnapshot {
        CostSnapshot::take(&self.job.directory, self.job.groups.blkio.as_deref())
    }

    fn row(
        &self,
        phase: &TransactionPhase,
        (recorder, seconds): (&PhaseRecorder, f64),
        tally: ClientCounts,
        (before, after): (&CostSnapshot, &CostSnapshot),
    ) -> ResultRow {
        let device = after.device.since(&before.device);
        let memory = MemoryCounters::now(&ProcfsProcess::own(), self.job.groups.memory.as_deref());
        let operations = recorder.operations();
        let per_commit = |count: u64| (operations > 0).then(|| count as f64 / operations as f64);
        ResultRow {
            engine: self.job.engine.clone(),
            phase: phase.name.clone(),
            repetition: self.job.repetition,
            threads: phase.clients,
            ops_per_s: operations as f64 / seconds.max(1e-9),
            latency: recorder.percentiles(),
            cpu_us_per_op: per_commit(after.cpu_us - before.cpu_us).unwrap_or_default(),
            device_write_bytes: device.write_bytes(),
            device_read_bytes: device.read_bytes(),
            device_reads: device.reads(),
            user_bytes: tally.written,
            user_written_bytes: tally.written,
            write_amplification: (tally.written > 0)
                .then(|| device.write_bytes() as f64 / tally.written as f64),
            aborts_per_op: per_commit(tally.aborts),
            flushes_per_op: device.block.and_then(|block| block.flushes).and_then(per_commit),
            rss_peak_bytes: memory.rss_peak_bytes,
            memory,
            device,
            operations,
            seconds,
            records: self.job.counters,
            series: recorder.series().to_vec(),
            interval_ms: self.job.interval_ms,
            remarks: self.engine.remarks(),
            ..ResultRow::default()
        }
    }

    /// Creates all counters with the value zero.
    fn put_counters(&self) -> Result<()> {
        let mut client = self.engine.client(AckDurability::Disk)?;
        for (from, until) in batches(self.job.counters) {
            let put = client.attempt(&mut |transaction| {
                (from..until).try_for_each(|number| {
                    let zero = 0u64.to_le_bytes();
                    transaction.put(COUNTER_KEYSPACE, &counter(number), &zero)
                })
            });
            put.map_err(alone)?;
        }
        Ok(())
    }

    /// Reads all counters and checks that their sum equals the number of committed increments.
    fn prove_counters(&self) -> Result<()> {
        let Some(increments) = self.increments else {
            return Ok(());
        };
        let mut client = self.engine.client(AckDurability::Disk)?;
        let mut sum = 0;
        for (from, until) in batches(self.job.counters) {
            let mut of_batch = 0;
            let read = client.attempt(&mut |transaction| {
                of_batch = 0;
                for number in from..until {
                    let mut found = Err(anyhow!("counter {number} no longer exists"));
                    let key = counter(number);
                    transaction.get_for_update(COUNTER_KEYSPACE, &key, &mut |value| found = count(value))?;
                    of_batch += found.map_err(AttemptError::Failed)?;
                }
                Ok(())
            });
            read.map_err(alone)?;
            sum += of_batch;
        }
        ensure!(
            sum == increments,
            "the counters add up to {sum}, and {increments} increments were committed: {}",
            if sum < increments {
                "updates were lost"
            } else {
                "some took effect that were not acknowledged"
            }
        );
        Ok(())
    }
}

/// Converts the error of a transaction that cannot have had a conflict because it ran alone.
fn alone(stop: AttemptError) -> anyhow::Error {
    match stop {
        AttemptError::Failed(error) => error,
        AttemptError::Conflict => anyhow!("a transaction without any other client met a conflict"),
    }
}

fn batches(counters: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..counters.div_ceil(BATCH)).map(move |batch| (batch * BATCH, counters.min((batch + 1) * BATCH)))
}

fn tally(workers: &[TransactionWorker<'_>]) -> ClientCounts {
    workers
        .iter()
        .fold(ClientCounts::default(), |sum, worker| ClientCounts {
            aborts: sum.aborts + worker.tally.aborts,
            increments: sum.increments + worker.tally.increments,
            written: sum.written + worker.tally.written,
        })
}
