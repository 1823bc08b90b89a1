//! Executes a batch of commands with a single read before and a single commit after them. All locks
//! are held from the read to the commit.

use super::blocking::{WaitRequest, WaitingCommand};
use super::commands::monitor_commands;
use super::elements;
use super::prefetch::{PendingRead, PrefetchOutcome, ReadResult, read_ahead};
use super::session::{RedisSession, ReplyMode};
use super::string_store::AT_ONCE;
use super::table::{CommandHandler, CommandSpec};
use crate::error::CommandError;
use crate::observe::slowlog::SlowLogEntry;
use crate::protocol::resp::{Args, ParsedRequests, ReplyTail, ReplyWriter};
use crate::store::model::format::{self, InnerKey};
use crate::store::{
    CommandTransaction, CommitOutcome, KeyLockGuard, KeyLockRequest, LookupCounts, Mode, ServerStore,
    WaitLength,
};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Context;
use std::time::{Duration, Instant};

/// Once a batch has written more bytes than this, its writes are committed in several parts of
/// whole commands. The limit is lower if the clients' memory budget divided by `SHARE` is lower.
const MOST_BYTES: usize = 16 << 20;
const SHARE: usize = 8;

/// The commands of a batch with their arguments, in execution order.
pub(super) struct CommandBatch<'a> {
    /// Stores only one command inline, which keeps moving a batch cheap.
    commands: SmallVec<[(&'static CommandSpec, Args<'a>); 1]>,
}

impl<'a> CommandBatch<'a> {
    /// Creates a batch that contains one command and has capacity for `most` commands.
    #[inline]
    pub(super) fn new(command: &'static CommandSpec, args: Args<'a>, most: usize) -> CommandBatch<'a> {
        let mut commands = SmallVec::with_capacity(most);
        commands.push((command, args));
        CommandBatch { commands }
    }

    /// Returns the number of commands in the batch.
    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    pub(super) fn push(&mut self, command: &'static CommandSpec, args: Args<'a>) {
        self.commands.push((command, args));
    }

    /// Returns for each command whether it is blind, that is, whether it writes its keys without
    /// reading them. A command such as SET is blind only if none of its keys can have a collection
    /// (S8).
    fn blind(&self, store: &ServerStore, database: u8) -> BlindFlags {
        let may_hold = |key: &[u8]| store.marks.may_hold(database, key);
        let is_blind = |(command, args): &(&CommandSpec, Args<'_>)| {
            command.is_blind(*args) && !command.keys(*args).any(may_hold)
        };
        self.commands.iter().map(is_blind).collect()
    }

    /// Returns the locks that the commands need in a database, and the number of blind commands.
    /// Calls `is_blind` with each command's index, specification and arguments.
    #[inline]
    fn wanted(
        &self,
        database: u8,
        is_blind: impl Fn(usize, &CommandSpec, Args<'_>) -> bool,
    ) -> (KeyLockRequest, usize) {
        let mut wanted = KeyLockRequest::with_capacity(self.len());
        let (mut blind, mut last) = (0, None);
        for (index, (command, args)) in self.commands.iter().enumerate() {
            let is_blind = is_blind(index, command, *args);
            blind += usize::from(is_blind);
            if command.locks_all(*args) {
                wanted.everything();
            }
            if let Some(mut mode) = command.mode() {
                if is_blind {
                    mode = Mode::Blind;
                }
                // Consecutive commands often use the same key and need only one lock request for
                // it.
                command.each_key(*args, |key| {
                    if last.replace((key, mode)) != Some((key, mode)) {
                        wanted.key(database, key, mode);
                    }
                });
            }
        }
        (wanted, blind)
    }

    /// Acquires the requested locks in the database with the stored number `number`. `blind` is the
    /// number of blind commands.
    #[inline]
    fn take<'s>(
        &self,
        store: &'s ServerStore,
        number: u8,
        (wanted, blind): (KeyLockRequest, usize),
    ) -> BatchLocks<'s> {
        BatchLocks {
            number,
            needs_locks: !wanted.is_empty(),
            held: store.locks.lock(wanted),
            is_blind: blind == self.len(),
        }
    }

    /// Acquires the locks that the commands need. `database` is the stored number of the database.
    #[inline]
    fn lock<'s>(&self, store: &'s ServerStore, database: u8) -> BatchLocks<'s> {
        // While no key has a collection, the command and its arguments alone determine whether it
        // is blind.
        if !store.marks.has_any(database) {
            let (wanted, blind) = self.wanted(database, |_, command, args| command.is_blind(args));
            let locked = self.take(store, database, (wanted, blind));
            if blind == 0 || !store.marks.has_any(database) {
                return locked;
            }
        }
        self.lock_beside_collections(store, database)
    }

    /// Acquires the locks that the commands need. `database` is the number that clients use for the
    /// database.
    #[inline]
    fn lock_in<'s>(&self, store: &'s ServerStore, database: u8) -> BatchLocks<'s> {
        loop {
            let number = store.databases.number_of(database);
            let locked = self.lock(store, number);
            // If the database was swapped before the locks were acquired (S24), retry.
            if store.databases.number_of(database) == number {
                return locked;
            }
        }
    }

    /// Like `lock`, but for a database in which some keys may have collections.
    fn lock_beside_collections<'s>(&self, store: &'s ServerStore, database: u8) -> BatchLocks<'s> {
        let mut blind = self.blind(store, database);
        loop {
            let locked = self.take(store, database, self.wanted(database, |index, _, _| blind[index]));
            // If a key gained a collection before the locks were acquired, its command is no longer
            // blind: retry. If a key has lost its collection, its lock is merely stronger than
            // necessary.
            let now = self.blind(store, database);
            if blind.iter().zip(&now).all(|(&was, &is)| is || !was) {
                return locked;
            }
            drop(locked);
            blind.iter_mut().zip(&now).for_each(|(was, &is)| *was &= is);
        }
    }

    /// Returns an upper bound on the number of bytes that the commands write: the total length of
    /// their arguments, which are consecutive in one buffer.
    #[inline]
    fn written_bytes(&self) -> usize {
        let (Some((_, first)), Some((_, last))) = (self.commands.first(), self.commands.last()) else {
            return 0;
        };
        match last.place().end.saturating_sub(first.place().start) {
            bytes if self.commands.iter().any(|(command, _)| command.writes()) => bytes,
            _ => 0,
        }
    }

    /// Returns the keys of the records that the commands are going to read.
    fn records(&self, database: u8, most: usize) -> Vec<InnerKey> {
        let (mut records, mut last) = (Vec::with_capacity(self.len()), None);
        for (command, args) in &self.commands {
            // Skip a command with more than `most` keys, because it reads its records in several
            // parts.
            if command.reads_records() && (args.len() <= 2 || command.keys(*args).count() <= most) {
                // Consecutive commands on the same key need only one read.
                command.each_key(*args, |key| {
                    if last.replace(key) != Some(key) {
                        records.push(format::record_key(database, key));
                    }
                });
            }
        }
        records
    }
}

/// Whether each command of a batch is blind.
type BlindFlags = SmallVec<[bool; 16]>;

/// The locks that are held for a batch.
struct BatchLocks<'s> {
    held: KeyLockGuard<'s>,
    /// Whether the commands of the batch need any locks.
    needs_locks: bool,
    /// Whether all commands of the batch are blind.
    is_blind: bool,
    /// The database's stored number when the locks were acquired.
    number: u8,
}

/// The outcome of an attempt to execute a batch.
pub(super) enum BatchOutcome {
    /// The number of executed commands, and the rest of the last command's reply if it is long.
    Commands(usize, Option<Box<dyn ReplyTail>>),
    /// No command was executed, because the batch must wait for this read.
    Waits(Box<PendingRead>),
    /// The only command of the batch waits until another client changes one of its keys.
    Blocks(Arc<WaitingCommand>),
}

/// The event that a batch waits for.
enum BatchWait {
    Read(Box<PendingRead>),
    Change(Arc<WaitingCommand>),
}

/// Whether a long reply must be written as a whole or may be written in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyDelivery {
    Whole,
    Parts,
}

/// The number of a batch's commands whose results are final because their writes are committed.
struct BatchProgress {
    commands: usize,
    /// Length of the output buffer after these commands' replies.
    position: usize,
    /// The rest of the last command's reply if it is long.
    tail: Option<Box<dyn ReplyTail>>,
}

impl RedisSession {
    /// Returns a batch that consists of the command in request `at` and those of the following
    /// requests that can run in the same batch.
    pub(super) fn gather<'a>(
        &self,
        requests: &'a ParsedRequests,
        buffer: &'a [u8],
        command: &'static CommandSpec,
        at: usize,
    ) -> CommandBatch<'a> {
        let args = requests.get(at, buffer);
        if self.paging.is_alone() || command.blocks() {
            return CommandBatch::new(command, args, 1);
        }
        let mut batch = CommandBatch::new(command, args, requests.len() - at);
        let most = self.paging.max_records(&self.shared.store.sizes);
        let mut reading = command.records(args);
        for index in at + 1..requests.len() {
            let args = requests.get(index, buffer);
            match self.joins(args) {
                Some(next)
                    if self.settings.reply_mode == ReplyMode::On
                        && (reading < most || !next.reads_records()) =>
                {
                    reading += next.records(args);
                    batch.push(next, args);
                }
                _ => break,
            }
        }
        batch
    }

    /// Executes a batch and writes its replies. If records must first be read from the device,
    /// executes nothing and returns the pending read. Once it has completed, the caller must call
    /// this again with its result in `read`. Commands without locks then use the records of that
    /// result. Commands with locks read the records again, and usually find them in memory.
    ///
    /// A command with a long reply ends the execution early, so the returned number may be smaller
    /// than the batch.
    pub(super) fn run(
        &mut self,
        batch: &CommandBatch<'_>,
        read: Option<ReadResult>,
        output: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> BatchOutcome {
        let shared = Arc::clone(&self.shared);
        let _turn = shared.store.turn_to_write(batch.written_bytes());
        let began = self.activity.begin();
        let mut done = BatchProgress {
            commands: 0,
            position: output.len(),
            tail: None,
        };
        let lookups = LookupCounts::counted();
        match self.try_run(batch, read, output, context, &mut done) {
            Ok(None) => {}
            Ok(Some(BatchWait::Read(waiting))) => return BatchOutcome::Waits(waiting),
            Ok(Some(BatchWait::Change(waiting))) => {
                LookupCounts::publish_counts(&self.shared.store);
                self.activity.end();
                let (command, args) = batch.commands[0];
                self.client.set_last_command(command.counted_as(args));
                self.show(command, args);
                return BatchOutcome::Blocks(waiting);
            }
            Err(failure) => {
                self.paging.forget_cut();
                output.truncate(done.position);
                let rest = batch.len() - done.commands;
                if rest > 1 && failure.may_spare_others() {
                    // The writes of the remaining commands were not committed. Since it is unknown
                    // which of these commands failed, execute them one by one.
                    lookups.forget_since();
                    self.paging.divide(done.commands, rest);
                    self.activity.cancel();
                    return BatchOutcome::Commands(done.commands, None);
                }
                // The writes of the remaining commands were not committed, so reply to each of them
                // with the same error.
                let text = failure.to_string();
                let mut reply = ReplyWriter::new(output, self.settings.version);
                for (command, args) in &batch.commands[done.commands..] {
                    reply.error(&text);
                    self.shared.count_error(&text);
                    self.shared.tally.of(command.counted_as(*args)).failed();
                }
                done.commands = batch.len();
            }
        }
        LookupCounts::publish_counts(&self.shared.store);
        let ended = self.activity.end();
        self.count(
            &batch.commands[..self.paging.executed(done.commands)],
            ended.saturating_duration_since(began),
        );
        BatchOutcome::Commands(done.commands, done.tail)
    }

    /// Updates the statistics of executed commands, dividing the batch's execution time evenly
    /// among them.
    fn count(&self, executed: &[(&CommandSpec, Args<'_>)], took: Duration) {
        let Some(&(first, args)) = executed.first() else {
            return;
        };
        let each = match executed.len() {
            1 => took,
            count => took / count as u32,
        };
        let mut rest = executed;
        while let Some((command, args)) = rest.first() {
            let counted_as = command.counted_as(*args);
            let same = |(other, args): &&(&CommandSpec, Args<'_>)| other.counted_as(*args) == counted_as;
            let run = rest.iter().take_while(same).count();
            self.shared.tally.of(counted_as).called(run as u64, each);
            self.client.set_last_command(counted_as);
            rest = &rest[run..];
        }
        if self.shared.monitors.are_there() {
            for (command, args) in executed {
                self.show(command, *args);
            }
        }
        self.note_slow(first, args, took);
    }

    fn try_run(
        &mut self,
        batch: &CommandBatch<'_>,
        read: Option<ReadResult>,
        output: &mut Vec<u8>,
        context: &mut Context<'_>,
        done: &mut BatchProgress,
    ) -> Result<Option<BatchWait>, CommandError> {
        let shared = Arc::clone(&self.shared);
        let store = &*shared.store;
        let BatchLocks {
            held,
            needs_locks,
            is_blind,
            number,
        } = batch.lock_in(store, self.settings.database);
        let client = self.client.id;
        let begin = |database| begin(store, database, is_blind, client);
        let mut transaction = begin(number);
        transaction.take_over(self.reservation.take());
        let at_once = AT_ONCE.min(store.sizes.most());
        let ahead = if is_blind {
            PrefetchOutcome::Known
        } else {
            let records = batch.records(number, at_once);
            read_ahead(&mut transaction, records, read, needs_locks, context)?
        };
        match ahead {
            PrefetchOutcome::Known => {}
            PrefetchOutcome::Waits(waiting) => return Ok(Some(BatchWait::Read(waiting))),
            PrefetchOutcome::NoRoom => return self.wait_or_refuse(store),
        }
        if batch.len() > 1 && !is_blind {
            elements::read_ahead(batch.commands.iter(), &mut transaction, at_once)?;
        }
        let most = MOST_BYTES.min(shared.budget.limit() / SHARE);
        let before = output.len();
        for (index, (command, args)) in batch.commands.iter().enumerate() {
            if transaction.bytes() > most {
                self.commit(&mut transaction, &held)?;
                // The commit may have made the prefetched records obsolete, so begin a new
                // transaction.
                transaction = begin(transaction.database);
                (done.commands, done.position) = (index, output.len());
            }
            let start = output.len();
            if command.blocks() {
                transaction.allow_waiting(u64::MAX);
            }
            if let Some(mut tail) = self.apply(command, *args, &mut transaction, output, self.length())? {
                // The rest of the long reply must show the state after this commit. The batch's
                // remaining commands wait until the client has received the whole reply.
                self.commit(&mut transaction, &held)?;
                tail.begin();
                (done.commands, done.tail) = (index + 1, Some(tail));
                return Ok(None);
            }
            if transaction.wait().is_some() {
                output.truncate(start);
                let waiting = self.wait_for_change((command, *args), &transaction, &held, context);
                return Ok(Some(BatchWait::Change(waiting)));
            }
            self.note_length(command, *args, output.len().saturating_sub(start));
            let written = (output.len().saturating_sub(before), index + 1);
            if self.ends_batch(&transaction, written, batch.len()) {
                break;
            }
        }
        self.commit(&mut transaction, &held)?;
        done.commands = batch.len();
        Ok(None)
    }

    /// Returns whether a batch of `all` commands ends after `executed` commands, which have written
    /// `bytes` bytes of replies.
    fn ends_batch(
        &mut self,
        transaction: &CommandTransaction<'_>,
        (bytes, executed): (usize, usize),
        all: usize,
    ) -> bool {
        if transaction.wakes() {
            // The clients that wait are served before the next command.
            self.paging.end_batch(executed, all);
        }
        self.paging.should_end_batch(executed, all, bytes)
    }

    /// Makes a command wait until another client changes one of its keys, whose locks are held.
    fn wait_for_change(
        &self,
        (command, args): (&'static CommandSpec, Args<'_>),
        transaction: &CommandTransaction<'_>,
        held: &KeyLockGuard<'_>,
        context: &Context<'_>,
    ) -> Arc<WaitingCommand> {
        let deadline = match transaction.wait() {
            Some(WaitLength::AtMost(length)) => Instant::now().checked_add(length),
            Some(WaitLength::Forever) | None => None,
        };
        let request = WaitRequest {
            command,
            args,
            version: self.settings.version,
            database: self.settings.database,
            client: self.client.id,
            deadline,
            has_yielded: transaction.has_yielded(),
        };
        self.shared.waits.enqueue(&request, held, context.waker())
    }

    /// Handles a batch for whose read there is no memory. The batch waits for memory, or fails if
    /// it has already waited too long.
    fn wait_or_refuse(&mut self, store: &ServerStore) -> Result<Option<BatchWait>, CommandError> {
        if self.paging.refuses {
            let bytes = store.sizes.at_worst(1);
            return Err(CommandError::NoRoom { bytes });
        }
        self.paging.wait_before_all();
        Ok(None)
    }

    /// Returns whether long replies may be written in parts. Not allowed if the client has disabled
    /// replies.
    fn length(&self) -> ReplyDelivery {
        if self.settings.reply_mode == ReplyMode::On {
            ReplyDelivery::Parts
        } else {
            ReplyDelivery::Whole
        }
    }

    /// Updates the value size statistics with the length of the reply to a command that reads
    /// strings.
    fn note_length(&self, command: &CommandSpec, args: Args<'_>, bytes: usize) {
        const SHORT: usize = 1 << 10;
        if bytes > SHORT && command.reads_records() && command.group == "string" {
            let strings = command.keys(args).count().max(1);
            self.shared.store.sizes.note(bytes / strings);
        }
    }

    /// Executes one command and writes its reply, or its error as a reply. If the reply is long,
    /// returns the object that writes the rest of it.
    pub(super) fn apply(
        &mut self,
        command: &CommandSpec,
        args: Args<'_>,
        transaction: &mut CommandTransaction<'_>,
        output: &mut Vec<u8>,
        length: ReplyDelivery,
    ) -> Result<Option<Box<dyn ReplyTail>>, CommandError> {
        let start = output.len();
        // A command that accumulates data for its reply fails when the reply exceeds this limit. A
        // command that has changed data must reply even if its reply is longer.
        let room = self.reply_room();
        let most = self.shared.config.max_output().min(start.saturating_add(room));
        let mut reply = ReplyWriter::new(output, self.settings.version).at_most(most);
        if length == ReplyDelivery::Parts {
            reply = reply.in_parts();
        }
        self.note_uses(command, args, transaction);
        transaction.begin_command(command.event);
        match command.keeps_record() {
            true => transaction.keep_record(),
            false => transaction.settle(),
        }
        let lookups = LookupCounts::counted();
        let result = match command.action {
            CommandHandler::Data(run) => run(transaction, args, &mut reply),
            CommandHandler::Session(run) => run(self, args, &mut reply),
            CommandHandler::Script(run) => run(self, transaction, args, &mut reply),
        };
        let is_too_long = !command.writes() && reply.position() - start > room;
        if command.writes() {
            lookups.forget_since();
        }
        match result {
            Ok(()) if !is_too_long => Ok(reply.into_tail()),
            Ok(()) | Err(CommandError::Refused(_)) if is_too_long => {
                self.discard_reply(&mut reply, start);
                if self.paging.has_taken_back() {
                    // The command will run again and count its lookups again.
                    lookups.forget_since();
                } else {
                    self.shared.tally.of(command.counted_as(args)).failed();
                }
                Ok(None)
            }
            Err(CommandError::NoRoom { bytes }) if self.may_wait_for(bytes) && !command.writes() => {
                reply.rewind(start);
                self.paging.wait_for_room();
                lookups.forget_since();
                Ok(None)
            }
            Err(failure @ (CommandError::Refused(_) | CommandError::NoRoom { .. })) => {
                if let CommandError::NoRoom { .. } = failure {
                    let counters = &self.shared.counters;
                    counters.memory_refusals.fetch_add(1, Ordering::Relaxed);
                    self.paging.refusals += 1;
                }
                let text = failure.to_string();
                self.shared.count_error(&text);
                self.shared.tally.of(command.counted_as(args)).failed();
                reply.rewind(start);
                reply.error(&text);
                Ok(None)
            }
            Err(other @ CommandError::Store(_)) => Err(other),
            Ok(()) => unreachable!("it is either too long or not"),
        }
    }

    /// Updates the last-use times of a command's keys, unless the command only inspects them. If
    /// the client has set CLIENT NO-TOUCH, only writes and TOUCH count as uses.
    fn note_uses(&self, command: &CommandSpec, args: Args<'_>, transaction: &CommandTransaction<'_>) {
        let counts = match self.settings.touches_keys {
            true => command.uses_keys(),
            false => command.writes() || command.name == "touch",
        };
        if counts {
            let (uses, database) = (&transaction.store.uses, transaction.database);
            command.each_key(args, |key| uses.note(database, key, transaction.now_ms));
        }
    }

    #[inline]
    pub(super) fn commit(
        &mut self,
        transaction: &mut CommandTransaction<'_>,
        held: &KeyLockGuard<'_>,
    ) -> Result<(), CommandError> {
        let waits = transaction.store.waits_for_disk();
        if transaction.commit(held)? == CommitOutcome::Committed {
            self.wants_sync |= waits;
        }
        Ok(())
    }

    /// Records a slow command in the latency history and the slow log. A slow batch is recorded as
    /// its first command.
    #[inline]
    pub(super) fn note_slow(&self, command: &CommandSpec, args: Args<'_>, took: Duration) {
        if self.shared.latencies.may_note(took) {
            let event = if command.is_fast() {
                "fast-command"
            } else {
                "command"
            };
            let at_s = || self.shared.store.now_ms() / 1000;
            self.shared.latencies.note(event, at_s, took);
        }
        // A negative threshold disables the slow log.
        let slow_us = self.shared.config.slow_us.load(Ordering::Relaxed);
        if u64::try_from(slow_us).is_ok_and(|slow_us| took >= Duration::from_micros(slow_us)) {
            self.note_in_slowlog(command, args, took);
        }
    }

    #[cold]
    fn note_in_slowlog(&self, command: &CommandSpec, args: Args<'_>, took: Duration) {
        let slow = SlowLogEntry {
            id: 0,
            at_s: self.shared.store.now_ms() / 1000,
            took_us: took.as_micros() as u64,
            args: Vec::new(),
            peer: self.client.peer.to_string(),
            name: self.client.name.lock().clone(),
        };
        let args: Vec<&[u8]> = monitor_commands::words(command, args).collect();
        let most = self.shared.config.slow_entries.load(Ordering::Relaxed);
        self.shared.slow.note(slow, args.into_iter(), most);
    }
}

/// Begins a transaction for a client's commands. If all of them are blind, the transaction is
/// blind, too.
fn begin(store: &ServerStore, database: u8, is_blind: bool, client: u64) -> CommandTransaction<'_> {
    let mut transaction = match is_blind {
        true => CommandTransaction::blind(store, database),
        false => CommandTransaction::new(store, database),
    };
    transaction.client = client;
    transaction
}
