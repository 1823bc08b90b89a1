//! Clients' transactions that span several requests (BEGIN to COMMIT). They read from a snapshot
//! taken at BEGIN and buffer their writes until the commit.
//!
//! Concurrency control is optimistic, so that no server thread ever waits for a client to finish
//! its transaction. Each command runs in its own [`CommandTransaction`], nested in the client's
//! transaction (`nested_transaction.rs`). When the command succeeds, the client's transaction
//! adopts its writes. The in-memory state of collections, namely the filter of keys that may have
//! collections and the rank indexes of large sorted sets, is updated only when the client's
//! transaction commits.

use super::collection_filter::MarkChanges;
use super::databases::{DatabaseNumbers, database_of};
use super::model::format::{self, InnerKey};
use super::nested_transaction::{CommandChanges, NestedTransaction};
use super::records::KeyPlacement;
use super::transaction::{CommandTransaction, CommitOutcome, moment};
use super::{KeyLockRequest, Mode, ServerStore};
use crate::error::CommandError;
use crate::net::wait_hooks;
use alluvium::{Durability, Error, TransactionOptions};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Approximate memory overhead in bytes of a buffered write (besides its key and value) and of a
/// key in the read set.
const PER_WRITE: usize = 200;
const PER_READ: usize = 96;

/// Whether the keys named by commands are added to the transaction's read set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadTracking {
    /// Add the keys to the read set and check them for conflicts at the commit.
    Tracked,
    None,
}

/// A client's transaction that spans several requests.
pub(crate) struct InteractiveTransaction {
    transaction: alluvium::Transaction,
    /// The database mapping when the transaction began.
    numbers: DatabaseNumbers,
    /// The current time as seen by all commands of the transaction, in milliseconds since 1970.
    now_ms: u64,
    /// Maximum number of keys in the read set.
    most_reads: usize,
    dependence: ReadTracking,
    reads: usize,
    /// The keys that the transaction has written, each with the memory of its buffered write in
    /// bytes.
    written: BTreeMap<InnerKey, usize>,
    /// The user keys that the transaction has written, each with its database's stored number.
    touched: BTreeSet<(u8, Box<[u8]>)>,
    bytes: usize,
    expiring: ExpiryTotals,
    /// Keys that gain or lose a collection when the transaction commits.
    marks: MarkChanges,
    /// Numbers of the sorted sets whose rank indexes the transaction has changed.
    orders: BTreeSet<u64>,
}

/// Totals for the data written with an expiry time: bytes, keys, and the latest expiry time.
#[derive(Clone, Copy, Default)]
struct ExpiryTotals {
    bytes: u64,
    keys: u64,
    last_ms: u64,
}

impl InteractiveTransaction {
    pub(crate) fn begin(
        store: &ServerStore,
        options: &TransactionOptions,
        dependence: ReadTracking,
    ) -> InteractiveTransaction {
        // If databases are swapped from now on, the commit reports a conflict (S24).
        let numbers = store.databases.numbers();
        InteractiveTransaction {
            transaction: store.db.begin_with(options),
            numbers,
            now_ms: store.now_ms(),
            most_reads: options.max_tracked,
            dependence,
            reads: 0,
            written: BTreeMap::new(),
            touched: BTreeSet::new(),
            bytes: 0,
            expiring: ExpiryTotals::default(),
            marks: MarkChanges::default(),
            orders: BTreeSet::new(),
        }
    }

    /// Creates a transaction for one command in a database, nested in this transaction.
    pub(crate) fn part<'s>(&'s self, store: &'s ServerStore, database: u8) -> CommandTransaction<'s> {
        let number = self.numbers[usize::from(database)];
        let mut part = CommandTransaction::new(store, number);
        part.now_ms = self.now_ms;
        part.within = Some(Box::new(NestedTransaction::new(&self.transaction)));
        part
    }

    /// Returns the transaction's approximate memory in bytes.
    pub(crate) fn held(&self) -> usize {
        self.bytes + self.reads * PER_READ
    }

    /// Increases the size of the read set by the number of keys that a command names.
    pub(crate) fn note_reads(&mut self, keys: usize) {
        if self.dependence == ReadTracking::Tracked {
            self.reads = self.reads.saturating_add(keys).min(self.most_reads);
        }
    }

    /// Adopts all writes of a command. If one of them fails, adopts none and returns the error.
    pub(crate) fn adopt(&mut self, store: &ServerStore, changes: CommandChanges) -> Result<(), CommandError> {
        if changes.are_none() {
            return Ok(());
        }
        let savepoint = self.transaction.savepoint();
        if let Err(error) = self.write(store, &changes) {
            // A rollback can fail only if the transaction has already ended, so there is nothing
            // left to roll back.
            let _ = self.transaction.rollback_to(&savepoint);
            return Err(explained(error));
        }
        self.transaction.release(&savepoint).map_err(explained)?;
        for (key, expires_ms) in &changes.keys {
            let bytes = changes.value(key).map_or(0, <[u8]>::len);
            self.note_write(key, bytes, *expires_ms);
            if format::is_record(key) {
                self.touched.insert((key[0], format::user_key(key).into()));
            }
        }
        self.bytes += changes.ranges.len() * PER_WRITE;
        self.touched.extend(changes.touched);
        self.marks.append(changes.marks);
        self.orders.extend(changes.orders);
        Ok(())
    }

    /// Writes the final value of each key that the command has written to the client's transaction.
    fn write(&mut self, store: &ServerStore, changes: &CommandChanges) -> alluvium::Result<()> {
        let (transaction, data) = (&mut self.transaction, &store.data);
        for (start, end) in &changes.ranges {
            transaction.delete_range(data, start, Some(end))?;
        }
        if let Some(records) = &changes.records {
            records.write_within(transaction, &store.records)?;
        }
        let Some(writes) = &changes.writes else {
            return Ok(());
        };
        let is_in_order = |(key, _): &&(InnerKey, u64)| store.records.home(key) == KeyPlacement::Ordered;
        for (key, expires_ms) in changes.keys.iter().filter(is_in_order) {
            // If the command has no write for this key, a later range deletion in the same command
            // deleted it.
            let value = writes.own(key).and_then(|own| own.value());
            match (value, moment(*expires_ms)) {
                (Some(value), Some(until)) => transaction.put_until(data, key, value, until)?,
                (Some(value), None) => transaction.put(data, key, value)?,
                (None, _) => transaction.delete(data, key)?,
            }
        }
        Ok(())
    }

    fn note_write(&mut self, key: &InnerKey, value: usize, expires_ms: u64) {
        let bytes = 2 * key.len() + value + PER_WRITE;
        let before = self.written.insert(key.clone(), bytes).unwrap_or(0);
        self.bytes = self.bytes + bytes - before;
        if expires_ms != 0 {
            self.expiring.bytes += (key.len() + value) as u64;
            self.expiring.keys += 1;
            self.expiring.last_ms = self.expiring.last_ms.max(expires_ms);
        }
    }

    /// Commits the transaction while holding the exclusive locks of all keys that it writes (S6). A
    /// command that reads one of these keys in order to overwrite it therefore either has already
    /// committed, or waits for the lock and then reads the new value.
    pub(crate) fn commit(self, store: &ServerStore) -> Result<CommitOutcome, CommandError> {
        let mut wanted = KeyLockRequest::with_capacity(self.touched.len());
        for (number, key) in &self.touched {
            wanted.key(*number, key, Mode::Exclusive);
        }
        let _may_wait = wait_hooks::may_wait();
        let held = store.locks.lock(wanted);
        if self.touched.is_empty() {
            self.transaction.commit().map_err(explained)?;
            return Ok(CommitOutcome::Nothing);
        }
        if store.databases.numbers() != self.numbers {
            return Err(CommandError::say(
                "CONFLICT databases were swapped since BEGIN: nothing is written, run the transaction again",
            ));
        }
        self.marks.apply_additions(&store.marks);
        if let Err(error) = self.transaction.commit_with(Durability::Process) {
            self.marks.undo(&store.marks);
            return Err(explained(error));
        }
        self.marks.apply_removals(&store.marks);
        store.forget_orders(&self.orders);
        let ExpiryTotals { bytes, keys, last_ms } = self.expiring;
        if bytes > 0 {
            store.expiring.note(last_ms, bytes, keys);
        }
        for (number, key) in &self.touched {
            held.touch(database_of(&self.numbers, *number), key);
        }
        Ok(CommitOutcome::Committed)
    }
}

fn conflict(key: &[u8]) -> String {
    format!(
        "CONFLICT another client has written to the key \"{}\" since BEGIN: nothing is written, run the transaction again",
        key.escape_ascii()
    )
}

/// Converts an error of a client's transaction to the message that the client receives.
pub(crate) fn explained(error: Error) -> CommandError {
    let text = match error {
        Error::Conflict { keyspace, key } if format::is_records_name(&keyspace) && !key.is_empty() => {
            conflict(&key)
        }
        // A conflict on the range of all keys is reported at the range's first key, which is the
        // record key of the empty user key.
        Error::Conflict { key, .. } if !format::is_record(&key) || format::user_key(&key).is_empty() => {
            "CONFLICT another client has written to a collection or a range of keys since BEGIN: nothing is written, run \
             the transaction again"
                .to_owned()
        }
        Error::Conflict { key, .. } => conflict(format::user_key(&key)),
        Error::TransactionTooOld { most } => format!(
            "ABORTED the transaction was open for longer than {} ms and nothing is written; send ABORT and \
             begin another one, if necessary with a longer TIMEOUT",
            most.as_millis()
        ),
        Error::TransactionEnded { why } => {
            format!("ABORTED the transaction has ended: {why}; send ABORT and begin another one")
        }
        Error::TransactionLimit { what, most, .. } => format!(
            "ERR {what} of the transaction would exceed {most}; send ABORT, and do less in one transaction"
        ),
        other => return CommandError::Store(other),
    };
    CommandError::Refused(Cow::Owned(text))
}
