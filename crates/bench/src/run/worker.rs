//! A worker thread, which generates operations, runs them, verifies their results, and counts them.

use super::deletion::RecordDeletion;
use super::job::EngineJob;
use super::measurement_window::OperationStepper;
use super::records::LiveRecords;
use crate::engine::EngineSession;
use crate::workload::choose::RecordChooser;
use crate::workload::keys::{KEY_BYTES, RecordKey};
use crate::workload::mix::OperationKind;
use crate::workload::phase::{KeyPresence, PhaseTask, WorkloadPhase};
use crate::workload::trace::{TraceOperation, TraceReplay};
use crate::workload::values::ValueGenerator;
use anyhow::{Context, Result, bail, ensure};
use std::ops::Range;
use std::sync::Arc;

/// Number of keys in each batched read.
pub(super) const BATCH: usize = 64;

/// A bit that is set in the numbers that the keys of absent records are derived from.
const ABSENT: u64 = 1 << 63;

/// The state of one worker thread during a phase.
pub(super) struct EngineWorker<'a> {
    job: &'a EngineJob,
    phase: &'a WorkloadPhase,
    records: Arc<LiveRecords>,
    thread: usize,
    session: Box<dyn EngineSession + 'a>,
    random: fastrand::Rng,
    source: OperationSource,
    value: Vec<u8>,
    batch: Vec<RecordKey>,
    reads: u64,
    /// Bytes of keys and values written. `read` counts those read.
    pub(super) written: u64,
    pub(super) read: u64,
}

enum OperationSource {
    /// The numbers of the records that remain to be loaded.
    Load(Range<u64>),
    /// The deletion, and the permuted places whose records remain to be deleted.
    Delete(RecordDeletion, Range<u64>),
    Mix(Box<RecordChooser>),
    Trace(Box<TraceReplay>),
}

impl OperationStepper for EngineWorker<'_> {
    fn thread(&self) -> usize {
        self.thread
    }

    fn step(&mut self) -> Result<bool> {
        let operation = match &mut self.source {
            OperationSource::Load(numbers) => {
                let Some(number) = numbers.next() else {
                    return Ok(false);
                };
                self.put(number)?;
                return Ok(true);
            }
            OperationSource::Delete(deletion, places) => {
                let Some(place) = places.next() else {
                    return Ok(false);
                };
                let number = self.records.number(deletion.shuffled(place));
                self.delete(number)?;
                return Ok(true);
            }
            OperationSource::Mix(_) => self.draw()?,
            OperationSource::Trace(replay) => match replay.next_operation()? {
                Some(operation) => operation,
                None => return Ok(false),
            },
        };
        self.perform(operation)?;
        Ok(true)
    }
}

impl<'a> EngineWorker<'a> {
    pub(super) fn new(
        job: &'a EngineJob,
        phase: &'a WorkloadPhase,
        records: Arc<LiveRecords>,
        session: Box<dyn EngineSession + 'a>,
        thread: usize,
    ) -> Result<EngineWorker<'a>> {
        let share = |of: Range<u64>| {
            let at = |thread: usize| of.start + (of.end - of.start) * thread as u64 / job.threads as u64;
            at(thread)..at(thread + 1)
        };
        let source = match &phase.task {
            PhaseTask::Load => OperationSource::Load(share(0..job.records)),
            PhaseTask::Delete { percent } => {
                let deletion = records.plan(*percent, job.seed);
                OperationSource::Delete(deletion, share(deletion.kept..deletion.before))
            }
            PhaseTask::Mix { distribution, .. } => {
                OperationSource::Mix(Box::new(RecordChooser::new(*distribution, records.limit())))
            }
            PhaseTask::Trace { file } => {
                OperationSource::Trace(Box::new(TraceReplay::open(file, thread, job.threads)?))
            }
        };
        // Random numbers differ between phases and threads, but not between engines.
        let name = phase.name.bytes().fold(job.seed, |seed, byte| {
            crate::workload::keys::scatter(seed ^ u64::from(byte))
        });
        Ok(EngineWorker {
            random: fastrand::Rng::with_seed(crate::workload::keys::scatter(name ^ thread as u64)),
            value: vec![0; job.value_bytes],
            batch: Vec::with_capacity(BATCH),
            reads: 0,
            written: 0,
            read: 0,
            job,
            phase,
            records,
            thread,
            session,
            source,
        })
    }

    fn draw(&mut self) -> Result<TraceOperation> {
        let (PhaseTask::Mix { mix, .. }, OperationSource::Mix(chooser)) =
            (&self.phase.task, &mut self.source)
        else {
            bail!("only mixes are drawn");
        };
        let kind = mix.draw(&mut self.random);
        let record = match kind {
            // The new record gets its place only when it is inserted.
            OperationKind::Insert => 0,
            _ => {
                let place = chooser.draw(&mut self.random, self.records.limit());
                self.records.number(place)
            }
        };
        let length = match kind {
            OperationKind::Scan => self.phase.scan.draw(&mut self.random) as u32,
            _ => 0,
        };
        Ok(TraceOperation { kind, record, length })
    }

    fn perform(&mut self, operation: TraceOperation) -> Result<()> {
        let record = operation.record;
        match operation.kind {
            OperationKind::Read if self.phase.wanted == KeyPresence::Absent => self.get_absent(record),
            OperationKind::Read => self.get(record),
            OperationKind::Update => self.put(record),
            OperationKind::Insert => {
                let place = self.records.begin(self.thread);
                let number = self.records.number(place);
                let done = self.put(number);
                self.records.end(self.thread);
                done
            }
            OperationKind::Scan => self.scan(record, operation.length as usize),
            OperationKind::ReadModifyWrite => {
                self.get(record)?;
                self.put(record)
            }
            OperationKind::MultiGet => self.multi_get(record),
        }
    }

    fn put(&mut self, number: u64) -> Result<()> {
        let key = self.job.keys.of(number);
        ValueGenerator::fill(&mut self.value, &key, self.random.u64(..));
        self.session
            .put(&key, &self.value)
            .with_context(|| what("putting", &key))?;
        self.written += (KEY_BYTES + self.value.len()) as u64;
        Ok(())
    }

    fn delete(&mut self, number: u64) -> Result<()> {
        let key = self.job.keys.of(number);
        self.session
            .delete(&key)
            .with_context(|| what("deleting", &key))?;
        self.written += KEY_BYTES as u64;
        Ok(())
    }

    /// Returns whether to verify the next value read.
    fn proves(&mut self) -> bool {
        self.reads += 1;
        self.reads.is_multiple_of(self.job.verify_every)
    }

    fn get(&mut self, number: u64) -> Result<()> {
        let key = self.job.keys.of(number);
        let proves = self.proves();
        let expected = self.value.len();
        let mut is_right = true;
        let found = self.session.get(&key, &mut |value| {
            is_right = value.len() == expected && (!proves || ValueGenerator::is_of(value, &key));
        });
        ensure!(
            found.with_context(|| what("getting", &key))?,
            "{}: nothing was found, although it was put",
            what("getting", &key)
        );
        ensure!(is_right, "{}: another value was found", what("getting", &key));
        self.read += (KEY_BYTES + expected) as u64;
        Ok(())
    }

    /// Looks up a key that no record has, because its number is greater than those of all records.
    fn get_absent(&mut self, number: u64) -> Result<()> {
        let key = self.job.keys.of(number | ABSENT);
        let found = self.session.get(&key, &mut |_| {});
        ensure!(
            !found.with_context(|| what("getting", &key))?,
            "{}: a value was found, although none was put",
            what("getting", &key)
        );
        self.read += KEY_BYTES as u64;
        Ok(())
    }

    fn multi_get(&mut self, first: u64) -> Result<()> {
        self.batch.clear();
        self.batch.push(self.job.keys.of(first));
        while self.batch.len() < BATCH {
            let OperationSource::Mix(chooser) = &mut self.source else {
                bail!("reads of many keys at once cannot be replayed: leave m out of traces");
            };
            let place = chooser.draw(&mut self.random, self.records.limit());
            self.batch.push(self.job.keys.of(self.records.number(place)));
        }
        let proves = self.proves();
        let expected = self.value.len();
        let keys: Vec<&[u8]> = self.batch.iter().map(|key| &key[..]).collect();
        let mut wrong = 0;
        let count = self.session.multi_get(&keys, &mut |place, value| {
            if value.len() != expected || (proves && !ValueGenerator::is_of(value, keys[place])) {
                wrong += 1;
            }
        });
        let count = count.context("getting many keys")?;
        ensure!(
            count == BATCH && wrong == 0,
            "getting {BATCH} keys at once: {count} were found, {wrong} of them with another value"
        );
        self.read += (BATCH * (KEY_BYTES + expected)) as u64;
        Ok(())
    }

    fn scan(&mut self, first: u64, length: usize) -> Result<()> {
        let from = self.job.keys.of(first);
        let proves = self.proves();
        let expected = self.value.len();
        let mut last: Vec<u8> = Vec::with_capacity(KEY_BYTES);
        let (mut is_right, mut seen) = (true, 0);
        let count = self.session.scan(&from, length, &mut |key, value| {
            // The first key must be the requested one, whose record exists. The later keys must be
            // in ascending order.
            is_right &= if seen == 0 { key == from } else { key > &last[..] };
            is_right &= value.len() == expected && (!proves || ValueGenerator::is_of(value, key));
            last.clear();
            last.extend_from_slice(key);
            seen += 1;
        });
        let count = count.with_context(|| what("scanning from", &from))?;
        ensure!(
            is_right && seen == count && (1..=length).contains(&count),
            "{}: {count} records of {length}, out of order, or with another value",
            what("scanning from", &from)
        );
        self.read += (count * (KEY_BYTES + expected)) as u64;
        Ok(())
    }
}

fn what(doing: &str, key: &RecordKey) -> String {
    format!("{doing} {}", key.escape_ascii())
}
