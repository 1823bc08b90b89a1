//! The commands MULTI and EXEC. After MULTI, commands are queued. EXEC executes them as one batch,
//! unless a watched key has changed.
//!
//! EXEC locks all queued and watched keys, executes the commands one after another under these
//! locks, and commits one atomic batch. Unlike BEGIN (`interactive.rs`), it does not use a store
//! transaction, for three reasons. First, the batch is already atomic, and no other client can
//! write to the locked keys, so there is nothing to validate. Second, WATCH needs no validation
//! either: it registers a flag, which every writer of a watched key sets under the key's lock. EXEC
//! checks the flag under the same lock, however long ago the WATCH was. Third, the replies match
//! those of Redis: an EXEC without WATCH never fails because of other clients.
//!
//! With a store transaction, each EXEC would have to keep its read set in memory and validate it at
//! the commit. On a conflict, it would either have to run the queue again, unknown to the client
//! and with different replies, or return an error that Redis clients do not expect. A transaction
//! started by WATCH would also retain old versions while the client is idle. Concurrency would not
//! increase, because the locks order all clients' commands anyway.

use super::keys;
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::batch::ReplyDelivery;
use crate::redis::paging::no_room;
use crate::redis::scripting;
use crate::redis::session::RedisSession;
use crate::redis::table::{CommandHandler, CommandSpec};
use crate::store::{CommandTransaction, KeyLockRequest, LookupCounts, Mode, ServerStore, WorkingMemory};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A command queued after MULTI.
struct QueuedCommand {
    command: &'static CommandSpec,
    bytes: Vec<u8>,
    places: Vec<(usize, usize)>,
}

impl QueuedCommand {
    fn new(command: &'static CommandSpec, args: Args<'_>) -> QueuedCommand {
        let (mut bytes, mut places) = (Vec::new(), Vec::with_capacity(args.len()));
        for arg in args.iter() {
            places.push((bytes.len(), bytes.len() + arg.len()));
            bytes.extend_from_slice(arg);
        }
        QueuedCommand {
            command,
            bytes,
            places,
        }
    }

    /// Returns whether the command runs a script.
    fn is_script(&self) -> bool {
        matches!(self.command.action, CommandHandler::Script(_))
    }

    fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.places)
    }
}

/// Approximate memory overhead of a watched key in bytes, in this connection and the watcher table.
const PER_WATCH: usize = 200;

/// The MULTI and WATCH state of a connection.
#[derive(Default)]
pub(crate) struct MultiState {
    queue: Option<Vec<QueuedCommand>>,
    bytes: usize,
    has_failed: bool,
    /// Whether EXEC is currently executing the queued commands.
    pub(crate) is_executing: bool,
    /// The watched keys and their databases, each with the key's expiry time or 0. A key that
    /// expires changes without being written, so EXEC must check this time.
    watched: BTreeMap<(u8, Box<[u8]>), u64>,
    watched_bytes: usize,
    is_touched: Arc<AtomicBool>,
}

impl MultiState {
    pub(crate) fn is_begun(&self) -> bool {
        self.queue.is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.as_ref().map_or(0, Vec::len)
    }

    /// Returns the memory used by the queue and the watched keys in bytes.
    pub(crate) fn held(&self) -> usize {
        self.bytes + self.watched_bytes
    }

    /// Makes EXEC fail because a command could not be queued. Has no effect outside MULTI.
    pub(crate) fn fail(&mut self) {
        self.has_failed |= self.is_begun();
    }

    pub(crate) fn push(
        &mut self,
        command: &'static CommandSpec,
        args: Args<'_>,
        most: usize,
    ) -> CommandResult {
        let queued = QueuedCommand::new(command, args);
        let places = queued.places.len() * size_of::<(usize, usize)>();
        self.bytes += queued.bytes.len() + places + size_of::<QueuedCommand>();
        if self.bytes > most {
            self.has_failed = true;
            return Err(CommandError::say("ERR transaction exceeds the limit of its size"));
        }
        if let Some(queue) = &mut self.queue {
            queue.push(queued);
        }
        Ok(())
    }

    /// Ends MULTI and WATCH: discards the queued commands and removes all watches.
    pub(crate) fn end(&mut self, store: &ServerStore) {
        self.queue = None;
        self.bytes = 0;
        self.has_failed = false;
        self.unwatch(store);
    }

    fn unwatch(&mut self, store: &ServerStore) {
        for (database, key) in std::mem::take(&mut self.watched).into_keys() {
            store.locks.unwatch(database, &key, &self.is_touched);
        }
        self.watched_bytes = 0;
        self.is_touched.store(false, Ordering::Release);
    }

    /// Returns whether a watched key has changed or expired. The caller must hold the locks of all
    /// watched keys.
    fn is_stale(&self, now_ms: u64) -> bool {
        let is_gone = |&expires_ms: &u64| expires_ms != 0 && expires_ms <= now_ms;
        self.is_touched.load(Ordering::Acquire) || self.watched.values().any(is_gone)
    }
}

pub(crate) fn multi(
    session: &mut RedisSession,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    if session.interactive.is_some() {
        return Err(CommandError::say(
            "ERR MULTI after BEGIN is not allowed; send COMMIT or ABORT first",
        ));
    }
    if session.multi.is_begun() {
        return Err(CommandError::say("ERR MULTI calls can not be nested"));
    }
    session.multi.queue = Some(Vec::new());
    session.client.queued.store(0, Ordering::Relaxed);
    reply.ok();
    Ok(())
}

pub(crate) fn discard(
    session: &mut RedisSession,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    if !session.multi.is_begun() {
        return Err(CommandError::say("ERR DISCARD without MULTI"));
    }
    super::connection::forget(session);
    reply.ok();
    Ok(())
}

pub(crate) fn watch(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    if session.interactive.is_some() {
        return Err(CommandError::say(
            "ERR WATCH after BEGIN is not allowed, because the transaction detects changes of the keys it reads",
        ));
    }
    if session.multi.is_begun() {
        return Err(CommandError::say("ERR WATCH inside MULTI is not allowed"));
    }
    let store = Arc::clone(&session.shared.store);
    for key in args.from(1).iter() {
        let database = session.settings.database;
        let place = (database, Box::from(key));
        if session.multi.watched.contains_key(&place) {
            continue;
        }
        if !session.has_room_to_watch(PER_WATCH + key.len()) {
            let text = no_room("the list of watched keys", &session.shared.budget);
            session
                .shared
                .counters
                .memory_refusals
                .fetch_add(1, Ordering::Relaxed);
            return Err(CommandError::Refused(Cow::Owned(text)));
        }
        // Register the watch before reading the key, so that no write in between goes unnoticed.
        let number = watch_locked(&store, database, key, &session.multi.is_touched);
        session.multi.watched_bytes += PER_WATCH + key.len();
        session.multi.watched.insert(place.clone(), 0);
        let mut transaction = CommandTransaction::new(&store, number);
        let expires_ms = transaction.entry(key)?.map_or(0, |entry| entry.expires_ms());
        session.multi.watched.insert(place, expires_ms);
    }
    reply.ok();
    Ok(())
}

/// Registers a watch under the key's lock. Returns the stored number of the key's database.
fn watch_locked(store: &ServerStore, database: u8, key: &[u8], is_touched: &Arc<AtomicBool>) -> u8 {
    loop {
        let number = store.databases.number_of(database);
        let mut wanted = KeyLockRequest::default();
        wanted.key(number, key, Mode::Shared);
        let _held = store.locks.lock(wanted);
        // If the database was swapped before the lock was acquired (S24), retry.
        if store.databases.number_of(database) == number {
            store.locks.watch(database, key, is_touched);
            return number;
        }
    }
}

pub(crate) fn unwatch(
    session: &mut RedisSession,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    session.multi.unwatch(&Arc::clone(&session.shared.store));
    reply.ok();
    Ok(())
}

pub(crate) fn exec(
    session: &mut RedisSession,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let store = Arc::clone(&session.shared.store);
    let Some(queue) = session.multi.queue.take() else {
        return Err(CommandError::say("ERR EXEC without MULTI"));
    };
    session.client.queued.store(-1, Ordering::Relaxed);
    if session.multi.has_failed {
        session.multi.end(&store);
        return Err(CommandError::say(
            "EXECABORT Transaction discarded because of previous errors.",
        ));
    }
    if queue.iter().any(QueuedCommand::is_script) {
        // A script must not wait for its interpreter while this transaction holds locks.
        session.engine = Some(scripting::lend(session)?);
    }
    (session.multi.is_executing, session.paging.refuses) = (true, true);
    let result = execute(session, &store, &queue, reply);
    session.engine = None;
    (session.multi.is_executing, session.paging.refuses) = (false, false);
    session.multi.end(&store);
    result
}

fn execute(
    session: &mut RedisSession,
    store: &ServerStore,
    queue: &[QueuedCommand],
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let held = loop {
        let numbers = store.databases.numbers();
        let held = store.locks.lock(wanted(session, queue, &numbers));
        // If databases were swapped before the locks were acquired (S24), retry.
        if store.databases.numbers() == numbers {
            break held;
        }
    };
    let mut transaction =
        CommandTransaction::new(store, store.databases.number_of(session.settings.database));
    transaction.client = session.client.id;
    if session.multi.is_stale(transaction.now_ms) {
        reply.null_array();
        return Ok(());
    }
    let (mut output, mut working) = (Vec::new(), WorkingMemory::new(store));
    // The queued commands' memory is already charged, and they contain most of the data that EXEC
    // writes. Charge only the excess.
    let (sent, mut charged) = (queue.iter().map(|queued| queued.bytes.len()).sum::<usize>(), 0);
    for queued in queue {
        let (command, args) = (queued.command, queued.args());
        if let Some(text) = session.no_longer_allowed(command, args) {
            session.shared.tally.of(command.counted_as(args)).rejected();
            session.shared.count_error(&text);
            ReplyWriter::new(&mut output, session.settings.version).error(&text);
            continue;
        }
        let began = Instant::now();
        session.show(command, args);
        session.apply(command, args, &mut transaction, &mut output, ReplyDelivery::Whole)?;
        if let Some(text) = session.ended_script.take() {
            return Err(CommandError::Refused(Cow::Owned(format!(
                "EXECABORT Transaction discarded because of: {}",
                text.strip_prefix("ERR ").unwrap_or(&text)
            ))));
        }
        let took = began.elapsed();
        session.shared.tally.of(command.counted_as(args)).called(1, took);
        session.note_slow(command, args, took);
        if transaction.bytes() > session.shared.config.limits.transaction {
            return Err(CommandError::say("ERR transaction exceeds the limit of its size"));
        }
        let beyond = transaction.bytes().saturating_sub(sent);
        working.add(beyond.saturating_sub(charged))?;
        charged = charged.max(beyond);
        if output.len() > session.reply_room() {
            let text = no_room("the reply of the transaction", &session.shared.budget);
            return Err(CommandError::Refused(Cow::Owned(text)));
        }
        transaction.database = transaction.number_of(session.settings.database);
    }
    LookupCounts::publish_counts(store);
    session.commit(&mut transaction, &held)?;
    reply.array(queue.len());
    reply.raw(&output);
    Ok(())
}

/// Returns the locks for all queued and watched keys. `numbers` maps databases to stored numbers.
/// Keys that are only read are locked, too, because a transaction's reads must be consistent with
/// each other.
fn wanted(session: &RedisSession, queue: &[QueuedCommand], numbers: &[u8]) -> KeyLockRequest {
    let number_of = |database: u8| numbers[usize::from(database)];
    let mut wanted = KeyLockRequest::default();
    let mut database = session.settings.database;
    for (database, key) in session.multi.watched.keys() {
        wanted.key(number_of(*database), key, Mode::Shared);
    }
    for queued in queue {
        let (command, args) = (queued.command, queued.args());
        // A script may touch keys that it does not declare.
        if command.locks_all(args) || queued.is_script() {
            wanted.everything();
        }
        let mode = command.mode().unwrap_or(Mode::Shared);
        command.each_key(args, |key| wanted.key(number_of(database), key, mode));
        if command.name == "select"
            && matches!(command.action, CommandHandler::Session(_))
            && let Ok(chosen) = keys::database(args.at(1))
        {
            database = chosen;
        }
    }
    wanted
}
