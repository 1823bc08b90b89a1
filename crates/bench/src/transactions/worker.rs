//! A client thread, which generates transactions, retries each of them until it commits, and counts
//! them.

use super::engine::{AttemptError, AttemptResult, EngineTransaction, TransactionClient};
use super::phase::{CounterOrder, TransactionPhase, TransactionTask};
use crate::run::OperationStepper;
use crate::workload::keys::{KEY_BYTES, KeyOrdering, RecordKey, scatter};
use crate::workload::values::ValueGenerator;
use crate::workload::zipf::ZipfGenerator;
use anyhow::{Result, anyhow, bail, ensure};
use std::time::Duration;

/// Maximum pause after the first conflict. It doubles with each further conflict, as in Alluvium's
/// own retry loop.
const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Number of attempts after which a transaction is assumed never to succeed.
const MOST_TRIES: u32 = 100_000;

/// Smallest number that denotes a counter. The numbers of other keys are smaller.
const COUNTERS: u64 = 1 << 63;

/// Size of a counter in bytes.
pub(super) const COUNTER_BYTES: usize = 8;

pub(super) const COUNTER_KEYSPACE: usize = 0;

/// Bits of a key's number for the client, and for the client's transaction.
const CLIENT_BITS: u32 = 12;
const TRANSACTION_BITS: u32 = 40;

/// Returns the key of a counter.
pub(super) fn counter(number: u64) -> RecordKey {
    KeyOrdering::default().of(COUNTERS + number)
}

/// Decodes the number in a counter's value.
///
/// # Errors
/// Returns an error if the value does not have the length of a counter.
pub(super) fn count(value: &[u8]) -> Result<u64> {
    let bytes = value.try_into();
    bytes
        .map(u64::from_le_bytes)
        .map_err(|_| anyhow!("a counter has {} bytes, not {COUNTER_BYTES}", value.len()))
}

/// A client's counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClientCounts {
    /// Number of attempts that ended in a conflict.
    pub(super) aborts: u64,
    /// Number of counter increments in committed transactions.
    pub(super) increments: u64,
    /// Total size in bytes of the committed keys and values.
    pub(super) written: u64,
}

/// The state of one client during a phase.
pub(super) struct TransactionWorker<'a> {
    phase: &'a TransactionPhase,
    client: Box<dyn TransactionClient + 'a>,
    number: usize,
    random: fastrand::Rng,
    zipf: &'a ZipfGenerator,
    counters: u64,
    /// Number of the next transaction, from which its new keys are derived.
    next: u64,
    keys: Vec<RecordKey>,
    value: Vec<u8>,
    pub(super) tally: ClientCounts,
}

/// State that all clients of a phase share.
pub(super) struct PhaseContext<'a> {
    pub(super) phase: &'a TransactionPhase,
    /// Index of the phase, from which its random choices are derived.
    pub(super) place: usize,
    pub(super) seed: u64,
    pub(super) counters: u64,
    pub(super) zipf: &'a ZipfGenerator,
}

impl<'a> TransactionWorker<'a> {
    pub(super) fn new(
        common: &PhaseContext<'a>,
        client: Box<dyn TransactionClient + 'a>,
        number: usize,
    ) -> TransactionWorker<'a> {
        let place = (common.place as u64) << CLIENT_BITS | number as u64;
        assert!(number < 1 << CLIENT_BITS, "a phase has fewer clients");
        let value_bytes = match common.phase.task {
            TransactionTask::Put { pair_bytes, .. } => pair_bytes - KEY_BYTES,
            TransactionTask::Add { .. } => COUNTER_BYTES,
        };
        TransactionWorker {
            phase: common.phase,
            client,
            number,
            random: fastrand::Rng::with_seed(scatter(common.seed ^ scatter(place))),
            zipf: common.zipf,
            counters: common.counters,
            next: place << TRANSACTION_BITS,
            keys: Vec::new(),
            value: vec![0; value_bytes],
            tally: ClientCounts::default(),
        }
    }

    /// Chooses the keys of the next transaction and, for a put, generates the value.
    fn draw(&mut self) {
        self.keys.clear();
        match self.phase.task {
            TransactionTask::Put { pairs, .. } => {
                let key = KeyOrdering::default().of(self.next);
                self.keys.extend(std::iter::repeat_n(key, pairs));
                ValueGenerator::fill(&mut self.value, &key, self.next);
                self.next += 1;
            }
            TransactionTask::Add { keys, order } => {
                let keys = keys.min(self.counters as usize);
                while self.keys.len() < keys {
                    let key = counter(self.zipf.draw(&mut self.random));
                    if !self.keys.contains(&key) {
                        self.keys.push(key);
                    }
                }
                if order == CounterOrder::Sorted {
                    self.keys.sort_unstable();
                }
            }
        }
    }

    fn attempt(&mut self) -> AttemptResult<()> {
        let (keys, value) = (&self.keys, &self.value);
        match self.phase.task {
            TransactionTask::Put { .. } => self.client.attempt(&mut |transaction| {
                for (keyspace, key) in keys.iter().enumerate() {
                    transaction.put(keyspace, key, value)?;
                }
                Ok(())
            }),
            TransactionTask::Add { .. } => self
                .client
                .attempt(&mut |transaction| keys.iter().try_for_each(|key| add_one(transaction, key))),
        }
    }

    fn has_committed(&mut self) {
        let transactions_keys = self.keys.len() as u64;
        self.tally.written += transactions_keys * (KEY_BYTES + self.value.len()) as u64;
        if matches!(self.phase.task, TransactionTask::Add { .. }) {
            self.tally.increments += transactions_keys;
        }
    }

    /// Reads the keys that the last transaction wrote and compares their values with the expected
    /// ones.
    ///
    /// # Errors
    /// Returns an error if a value is missing or differs.
    pub(super) fn prove(&mut self) -> Result<()> {
        if matches!(self.phase.task, TransactionTask::Add { .. }) || self.tally.written == 0 {
            return Ok(());
        }
        let (keys, value) = (&self.keys, &self.value);
        let mut wrong = None;
        let read = self.client.attempt(&mut |transaction| {
            for (keyspace, key) in keys.iter().enumerate() {
                let mut is_same = false;
                transaction.get_for_update(keyspace, key, &mut |found| is_same = found == value)?;
                if !is_same {
                    wrong = Some((keyspace, *key));
                }
            }
            Ok(())
        });
        match read {
            Ok(()) => {}
            Err(AttemptError::Failed(error)) => return Err(error),
            Err(AttemptError::Conflict) => bail!("a read without any other client met a conflict"),
        }
        let place = wrong.map(|(keyspace, key)| format!("{} of keyspace {keyspace}", key.escape_ascii()));
        ensure!(
            wrong.is_none(),
            "{} was committed, but has another value than was put",
            place.unwrap_or_default()
        );
        Ok(())
    }
}

impl OperationStepper for TransactionWorker<'_> {
    fn thread(&self) -> usize {
        self.number
    }

    fn step(&mut self) -> Result<bool> {
        self.draw();
        let mut tries = 0;
        loop {
            match self.attempt() {
                Ok(()) => break,
                Err(AttemptError::Failed(error)) => return Err(error),
                Err(AttemptError::Conflict) => {}
            }
            self.tally.aborts += 1;
            tries += 1;
            ensure!(
                tries < MOST_TRIES,
                "a transaction was run {tries} times and always met a conflict"
            );
            let most = FIRST_PAUSE.saturating_mul(1 << tries.min(16)).min(LONGEST_PAUSE);
            std::thread::sleep(most.mul_f64(self.random.f64()));
        }
        self.has_committed();
        Ok(true)
    }
}

fn add_one(transaction: &mut dyn EngineTransaction, key: &[u8]) -> AttemptResult<()> {
    let mut before = Err(anyhow!("the counter {} does not exist", key.escape_ascii()));
    transaction.get_for_update(COUNTER_KEYSPACE, key, &mut |value| before = count(value))?;
    let after = before.map_err(AttemptError::Failed)? + 1;
    transaction.put(COUNTER_KEYSPACE, key, &after.to_le_bytes())
}
