//! Clients' transactions that span several requests (BEGIN to COMMIT). They read from a snapshot
//! taken at BEGIN and buffer their writes until the commit.
//!
//! A client may also join a transaction that another part of the process has begun (BEGIN JOIN),
//! such as one over files. Its commands take effect when that part commits. All clients of a joint
//! transaction share their writes, so that the commit locks their keys at once.
//!
//! Concurrency control is optimistic, so that no server thread ever waits for a client to finish
//! its transaction. Each command runs in its own [`CommandTransaction`], nested in the client's
//! transaction (`nested_transaction.rs`). When the command succeeds, the client's transaction
//! adopts its writes. The in-memory state of collections, namely the filter of keys that may have
//! collections and the rank indexes of large sorted sets, is updated only when the client's
//! transaction commits.

use super::collection_filter::MarkChanges;
use super::databases::{DatabaseNumbers, database_of, numbers_of};
use super::key_events::{ChannelMessage, KeyChange, KeyEvent, KeyKind};
use super::model::format::{self, InnerKey};
use super::nested_transaction::{CommandChanges, NestedTransaction};
use super::records::KeyPlacement;
use super::transaction::{CommandTransaction, CommitOutcome, moment};
use super::{KeyLockRequest, Mode, ServerStore};
use crate::error::{CommandError, CommandResult};
use crate::net::wait_hooks;
use alluvium::{Durability, Error, JointTransaction, TransactionOptions, TransactionParticipant};
use parking_lot::Mutex;
use std::any::Any;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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
    transaction: StoreTransaction,
    writes: Arc<Mutex<ClientWrites>>,
    /// Maximum number of keys in the read set.
    most_reads: usize,
    dependence: ReadTracking,
    reads: usize,
    /// Memory of the writes of this client in bytes.
    bytes: usize,
}

/// The transaction of the store to which a client's transaction belongs.
enum StoreTransaction {
    Own(Box<alluvium::Transaction>),
    Joint(JointTransaction),
}

/// A key's type after its last change, and the event of that change.
type LastChange = (KeyKind, KeyEvent);

/// What the clients of a transaction have written.
struct ClientWrites {
    /// The database mapping when the transaction began.
    numbers: DatabaseNumbers,
    /// The current time as seen by all commands of the transaction, in milliseconds since 1970.
    now_ms: u64,
    /// The keys that the transaction has written, each with the memory of its buffered write in
    /// bytes.
    written: BTreeMap<InnerKey, usize>,
    /// The user keys that the transaction has written, each with its database's stored number, its
    /// type after the last change, and the event of that change.
    touched: BTreeMap<(u8, Box<[u8]>), LastChange>,
    /// The messages that are sent when the transaction commits.
    messages: Vec<ChannelMessage>,
    bytes: usize,
    expiring: ExpiryTotals,
    /// Keys that gain or lose a collection when the transaction commits.
    marks: MarkChanges,
    /// Numbers of the sorted sets whose rank indexes the transaction has changed.
    orders: BTreeSet<u64>,
    /// Why the transaction must not commit, if that is so.
    failure: Option<&'static str>,
    /// Whether the writes of the clients of a joint transaction have taken effect.
    is_committed: bool,
}

/// The clients of a joint transaction.
struct JointClients {
    store: Arc<ServerStore>,
    writes: Arc<Mutex<ClientWrites>>,
}

/// How a joint transaction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JointOutcome {
    Committed,
    /// It was rolled back, or its commit is under way or has failed.
    Unknown,
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
        let writes = ClientWrites::new(store, store.databases.numbers());
        InteractiveTransaction {
            transaction: StoreTransaction::Own(Box::new(store.db.begin_with(options))),
            writes: Arc::new(Mutex::new(writes)),
            most_reads: options.max_tracked,
            dependence,
            reads: 0,
            bytes: 0,
        }
    }

    /// Joins the transaction that was published with a name. Returns `None` if it has ended.
    ///
    /// # Errors
    /// Errors of reading the store.
    pub(crate) fn join(
        store: &Arc<ServerStore>,
        name: &str,
    ) -> Result<Option<InteractiveTransaction>, CommandError> {
        let _may_wait = wait_hooks::may_wait();
        let Some(joint) = store.db.joint_transaction(name) else {
            return Ok(None);
        };
        // The transaction may be older than a swap of databases, and sees them as before. If they
        // were swapped since, the commit reports a conflict (S24).
        let key = format::databases_key();
        let Ok(stored) = joint.with(|transaction| transaction.get_untracked(&store.data, &key[..])) else {
            return Ok(None);
        };
        let numbers = numbers_of(stored.map_err(explained)?.as_deref());
        let begin = || -> Arc<dyn TransactionParticipant> {
            Arc::new(JointClients {
                store: Arc::clone(store),
                writes: Arc::new(Mutex::new(ClientWrites::new(store, numbers))),
            })
        };
        let clients: &dyn Any = &**joint.participant(begin);
        let Some(clients) = clients.downcast_ref::<JointClients>() else {
            return Ok(None);
        };
        let writes = Arc::clone(&clients.writes);
        // A joint transaction may be open for hours, and expiry times count from now.
        let mut shared = writes.lock();
        shared.now_ms = shared.now_ms.max(store.now_ms());
        drop(shared);
        Ok(Some(InteractiveTransaction {
            transaction: StoreTransaction::Joint(joint),
            writes,
            most_reads: TransactionOptions::new().max_tracked,
            dependence: ReadTracking::Tracked,
            reads: 0,
            bytes: 0,
        }))
    }

    /// Runs one command in a database, in a transaction of its own that is nested in this one. If
    /// the command succeeds, adopts its writes.
    pub(crate) fn run(
        &mut self,
        store: &ServerStore,
        database: u8,
        command: impl FnOnce(&mut CommandTransaction<'_>) -> CommandResult,
    ) -> CommandResult {
        // Other parties of a joint transaction may wait for the device with it.
        let _may_wait = (!self.is_own()).then(wait_hooks::may_wait);
        let writes = &mut *self.writes.lock();
        let before = writes.bytes;
        let result = match &mut self.transaction {
            StoreTransaction::Own(transaction) => writes.run(store, database, transaction, command),
            StoreTransaction::Joint(joint) => {
                let done = joint.with(|transaction| writes.run(store, database, transaction, command));
                done.map_err(explained)?
            }
        };
        self.bytes = (self.bytes + writes.bytes).saturating_sub(before);
        result
    }

    /// Returns the approximate memory in bytes of this client's part of the transaction.
    pub(crate) fn held(&self) -> usize {
        self.bytes + self.reads * PER_READ
    }

    /// Increases the size of the read set by the number of keys that a command names.
    pub(crate) fn note_reads(&mut self, keys: usize) {
        if self.dependence == ReadTracking::Tracked {
            self.reads = self.reads.saturating_add(keys).min(self.most_reads);
        }
    }

    /// Commits the transaction. Only leaves a joint one, which another party commits.
    pub(crate) fn commit(self, store: &ServerStore) -> Result<CommitOutcome, CommandError> {
        let StoreTransaction::Own(transaction) = self.transaction else {
            return Ok(CommitOutcome::Nothing);
        };
        let writes = &mut *self.writes.lock();
        if !writes.touched.is_empty() && store.databases.numbers() != writes.numbers {
            return Err(CommandError::say(
                "CONFLICT databases were swapped since BEGIN: nothing is written, run the transaction again",
            ));
        }
        let is_empty = writes.touched.is_empty();
        let mut transaction = Some(transaction);
        let mut commit = || match (transaction.take(), is_empty) {
            (Some(transaction), true) => transaction.commit(),
            (Some(transaction), false) => transaction.commit_with(Durability::Process),
            (None, _) => Ok(()),
        };
        writes.commit(store, &mut commit).map_err(explained)?;
        Ok(match is_empty {
            true => CommitOutcome::Nothing,
            false => CommitOutcome::Committed,
        })
    }

    /// Returns how a joint transaction has ended, or `None` while the client's transaction is open.
    pub(crate) fn outcome(&self) -> Option<JointOutcome> {
        let StoreTransaction::Joint(joint) = &self.transaction else {
            return None;
        };
        let _may_wait = wait_hooks::may_wait();
        if joint.is_open() {
            return None;
        }
        Some(match self.writes.lock().is_committed {
            true => JointOutcome::Committed,
            false => JointOutcome::Unknown,
        })
    }

    /// Makes the commit of a joint transaction fail, because a command of the client has failed.
    pub(crate) fn fail_joint(&self) {
        if let StoreTransaction::Joint(_) = self.transaction {
            let why = "a command of a Redis client that has joined it has failed";
            self.writes.lock().failure = Some(why);
        }
    }

    /// Makes the commit of a joint transaction fail, because the client was told that nothing is
    /// written.
    pub(crate) fn refuse(&self) {
        let why = "COMMIT of a Redis client that has joined it was refused";
        self.writes.lock().failure.get_or_insert(why);
    }

    /// Returns whether the client decides about the transaction. Otherwise, the party decides that
    /// has begun the joint transaction.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self.transaction, StoreTransaction::Own(_))
    }
}

impl TransactionParticipant for JointClients {
    fn commit(&self, commit: &mut dyn FnMut() -> alluvium::Result<()>) -> alluvium::Result<()> {
        // The transaction has ended for its clients, so none of them writes any more. They must not
        // wait for this lock while the commit waits for those of keys, which they may hold.
        let after = ClientWrites::new(&self.store, self.store.databases.numbers());
        let mut writes = std::mem::replace(&mut *self.writes.lock(), after);
        if let Some(why) = writes.failure {
            return Err(Error::TransactionEnded { why });
        }
        writes.commit(&self.store, commit)?;
        self.writes.lock().is_committed = true;
        Ok(())
    }
}

impl ClientWrites {
    fn new(store: &ServerStore, numbers: DatabaseNumbers) -> ClientWrites {
        ClientWrites {
            numbers,
            now_ms: store.now_ms(),
            written: BTreeMap::new(),
            touched: BTreeMap::new(),
            messages: Vec::new(),
            bytes: 0,
            expiring: ExpiryTotals::default(),
            marks: MarkChanges::default(),
            orders: BTreeSet::new(),
            failure: None,
            is_committed: false,
        }
    }

    fn run(
        &mut self,
        store: &ServerStore,
        database: u8,
        transaction: &mut alluvium::Transaction,
        command: impl FnOnce(&mut CommandTransaction<'_>) -> CommandResult,
    ) -> CommandResult {
        let number = self.numbers[usize::from(database)];
        let mut part = CommandTransaction::new(store, number);
        part.now_ms = self.now_ms;
        part.within = Some(Box::new(NestedTransaction::new(transaction)));
        command(&mut part)?;
        let changes = part.into_changes();
        self.adopt(store, transaction, changes)
    }

    /// Adopts all writes of a command. If one of them fails, adopts none and returns the error.
    fn adopt(
        &mut self,
        store: &ServerStore,
        transaction: &mut alluvium::Transaction,
        mut changes: CommandChanges,
    ) -> CommandResult {
        let messages = std::mem::take(&mut changes.messages);
        if changes.are_none() {
            self.keep_messages(messages);
            return Ok(());
        }
        let savepoint = transaction.savepoint();
        if let Err(error) = write(transaction, store, &changes) {
            // A rollback can fail only if the transaction has already ended, so there is nothing
            // left to roll back.
            let _ = transaction.rollback_to(&savepoint);
            return Err(explained(error));
        }
        transaction.release(&savepoint).map_err(explained)?;
        for (key, expires_ms) in &changes.keys {
            let bytes = changes.value(key).map_or(0, <[u8]>::len);
            self.note_write(key, bytes, *expires_ms);
            if format::is_record(key) {
                let place = (key[0], format::user_key(key).into());
                let change = (KeyKind::Absent, KeyEvent::INTERNAL);
                self.touched.entry(place).or_insert(change);
            }
        }
        self.bytes += changes.ranges.len() * PER_WRITE;
        let touched = changes.touched.into_iter();
        self.touched
            .extend(touched.map(|(number, key, change)| ((number, key), change)));
        self.marks.append(changes.marks);
        self.orders.extend(changes.orders);
        self.keep_messages(messages);
        Ok(())
    }

    fn keep_messages(&mut self, messages: Vec<ChannelMessage>) {
        self.bytes += messages.iter().map(ChannelMessage::memory).sum::<usize>();
        self.messages.extend(messages);
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

    /// Calls `commit`, which commits the transaction, while holding the exclusive locks of all keys
    /// that it writes (S6). A command that reads one of these keys in order to overwrite it
    /// therefore either has already committed, or waits for the lock and then reads the new value.
    fn commit(
        &mut self,
        store: &ServerStore,
        commit: &mut dyn FnMut() -> alluvium::Result<()>,
    ) -> alluvium::Result<()> {
        if self.touched.is_empty() {
            commit()?;
            store.locks.publish(&self.messages);
            return Ok(());
        }
        let mut wanted = KeyLockRequest::with_capacity(self.touched.len());
        for (number, key) in self.touched.keys() {
            wanted.key(*number, key, Mode::Exclusive);
        }
        let _may_wait = wait_hooks::may_wait();
        let held = store.locks.lock(wanted);
        if store.databases.numbers() != self.numbers {
            return Err(Error::Conflict {
                keyspace: store.data.name(),
                key: Vec::new(),
            });
        }
        self.marks.apply_additions(&store.marks);
        if let Err(error) = commit() {
            self.marks.undo(&store.marks);
            return Err(error);
        }
        self.marks.apply_removals(&store.marks);
        store.forget_orders(&self.orders);
        let ExpiryTotals { bytes, keys, last_ms } = self.expiring;
        if bytes > 0 {
            store.expiring.note(last_ms, bytes, keys);
        }
        if store.locks.has_listeners() {
            for ((number, key), (kind, event)) in &self.touched {
                held.report(&KeyChange {
                    database: database_of(&self.numbers, *number),
                    key: key.clone(),
                    kind: *kind,
                    event: *event,
                });
            }
        }
        store.locks.publish(&self.messages);
        Ok(())
    }
}

/// Writes the final value of each key that the command has written to the client's transaction.
fn write(
    transaction: &mut alluvium::Transaction,
    store: &ServerStore,
    changes: &CommandChanges,
) -> alluvium::Result<()> {
    let data = &store.data;
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
