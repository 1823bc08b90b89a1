//! Commands that are executed together: one read before, one commit after, locks all the while.

use super::session::Session;
use super::table::{Action, Command};
use super::watching;
use crate::error::Failure;
use crate::model::format::{self, InnerKey};
use crate::resp::{Args, Reply};
use crate::slowlog::Slow;
use crate::store::{Held, Lookups, Mode, Outcome, Transaction, Wanted};
use alluvium::{MultiGet, Value};
use smallvec::SmallVec;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A batch that has written more than this is committed in parts, each of whole commands.
const MOST_BYTES: usize = 16 << 20;

/// Commands and their arguments, in order.
pub(super) struct Batch<'a> {
    commands: SmallVec<[(&'static Command, Args<'a>); 8]>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(command: &'static Command, args: Args<'a>) -> Batch<'a> {
        let mut commands = SmallVec::new();
        commands.push((command, args));
        Batch { commands }
    }

    pub(super) fn push(&mut self, command: &'static Command, args: Args<'a>) {
        self.commands.push((command, args));
    }

    /// The locks that these commands need in a database. When no key of it can have a collection, what a SET finds is nothing to it.
    pub(super) fn wanted(&self, database: u8, has_collections: bool, wanted: &mut Wanted) {
        for (command, args) in &self.commands {
            if command.locks_all(*args) {
                wanted.everything();
            }
            if let Some(mut mode) = command.mode() {
                if !has_collections && command.is_blind(*args) {
                    mode = Mode::Blind;
                }
                for key in command.keys(*args) {
                    wanted.key(database, key, mode);
                }
            }
        }
    }

    /// The records that they will ask for.
    fn records(&self, database: u8) -> Vec<InnerKey> {
        let mut records = Vec::new();
        for (command, args) in &self.commands {
            if command.reads_records() {
                records.extend(command.keys(*args).map(|key| format::record_key(database, key)));
            }
        }
        records
    }
}

/// The records that a batch has waited for.
pub(super) type ReadResult = alluvium::Result<Vec<Option<Value>>>;

/// How much of a batch holds whatever comes.
struct Done {
    commands: usize,
    /// Where the replies to the rest begin.
    position: usize,
}

impl Session {
    /// Executes a batch and writes its replies; or nothing of it, and what it waits for. It is handed in the next time what came of that: records that no
    /// lock is needed for are taken from there, others are in memory then.
    pub(super) fn run(
        &mut self,
        batch: &Batch<'_>,
        read: Option<ReadResult>,
        output: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> Option<MultiGet> {
        let began = *self.began.get_or_insert_with(Instant::now);
        let mut done = Done {
            commands: 0,
            position: output.len(),
        };
        match self.try_run(batch, read, output, context, &mut done) {
            Ok(None) => {}
            Ok(waiting) => return waiting,
            Err(failure) => {
                // Nothing of the rest holds, so that every command of it gets the same reply.
                output.truncate(done.position);
                let text = failure.to_string();
                let mut reply = Reply::new(output, self.version);
                for (command, args) in &batch.commands[done.commands..] {
                    reply.error(&text);
                    self.shared.count_error(&text);
                    self.shared.tally.of(command.counted_as(*args)).failed();
                }
            }
        }
        Lookups::tell(&self.shared.store);
        self.began = None;
        self.count(batch, began.elapsed());
        None
    }

    /// Counts the commands of a batch. Its time is shared out evenly: they were executed together.
    fn count(&self, batch: &Batch<'_>, took: Duration) {
        let each = took / batch.commands.len() as u32;
        let mut rest = &batch.commands[..];
        while let Some((command, args)) = rest.first() {
            let counted_as = command.counted_as(*args);
            let same = |(other, args): &&(&Command, Args<'_>)| other.counted_as(*args) == counted_as;
            let run = rest.iter().take_while(same).count();
            self.shared.tally.of(counted_as).called(run as u64, each);
            rest = &rest[run..];
        }
        if self.shared.monitors.are_there() {
            for (command, args) in &batch.commands {
                self.show(command, *args);
            }
        }
        let (first, args) = batch.commands[0];
        self.note_slow(first, args, took);
    }

    fn try_run(
        &mut self,
        batch: &Batch<'_>,
        read: Option<ReadResult>,
        output: &mut Vec<u8>,
        context: &mut Context<'_>,
        done: &mut Done,
    ) -> Result<Option<MultiGet>, Failure> {
        let shared = std::sync::Arc::clone(&self.shared);
        let store = &*shared.store;
        let has_collections = store.may_have_collections(self.database);
        let is_blind = !has_collections
            && batch
                .commands
                .iter()
                .all(|(command, args)| command.is_blind(*args));
        let mut wanted = Wanted::default();
        batch.wanted(self.database, has_collections, &mut wanted);
        let needs_locks = !wanted.is_empty();
        let held = store.locks.lock(wanted);
        let begin = |database| match is_blind {
            true => Transaction::blind(store, database),
            false => Transaction::new(store, database),
        };
        let mut transaction = begin(self.database);
        let records = if is_blind {
            Vec::new()
        } else {
            batch.records(self.database)
        };
        if !records.is_empty() {
            match read {
                // What it has read before it had the locks is in memory now, but may have changed.
                Some(result) if needs_locks => {
                    result?;
                    transaction.prefetch(records)?;
                }
                Some(result) => transaction.has_read(records, result?),
                None if let Some(values) = store.data.multi_get_in_memory(&records)? => {
                    transaction.has_read(records, values);
                }
                None => {
                    let mut reading = store.data.multi_get_async(&records);
                    match Pin::new(&mut reading).poll(context) {
                        Poll::Ready(values) => transaction.has_read(records, values?),
                        Poll::Pending => return Ok(Some(reading)),
                    }
                }
            }
        }
        for (index, (command, args)) in batch.commands.iter().enumerate() {
            if transaction.bytes() > MOST_BYTES {
                // What was read beforehand is not what is there now.
                let full = std::mem::replace(&mut transaction, begin(self.database));
                self.commit(full, &held)?;
                *done = Done {
                    commands: index,
                    position: output.len(),
                };
            }
            self.apply(command, *args, &mut transaction, output)?;
        }
        self.commit(transaction, &held)?;
        Ok(None)
    }

    /// Executes one command; an error of its own is its reply.
    pub(super) fn apply(
        &mut self,
        command: &Command,
        args: Args<'_>,
        transaction: &mut Transaction<'_>,
        output: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let start = output.len();
        let most = self.shared.config.max_output();
        let mut reply = Reply::new(output, self.version).at_most(most);
        let lookups = Lookups::counted();
        let result = match command.action {
            Action::Data(run) => run(transaction, args, &mut reply),
            Action::Session(run) => run(self, args, &mut reply),
        };
        if command.writes() {
            lookups.forget_since();
        }
        match result {
            Err(Failure::Refused(text)) => {
                self.shared.count_error(&text);
                self.shared.tally.of(command.counted_as(args)).failed();
                reply.rewind(start);
                reply.error(&text);
                Ok(())
            }
            other => other,
        }
    }

    pub(super) fn commit(&mut self, transaction: Transaction<'_>, held: &Held<'_>) -> Result<(), Failure> {
        let waits = transaction.store.waits_for_disk();
        if transaction.commit(held)? == Outcome::Committed {
            self.wants_sync |= waits;
        }
        Ok(())
    }

    /// Notes a command that took long, or a batch by its first command.
    pub(super) fn note_slow(&self, command: &Command, args: Args<'_>, took: Duration) {
        let event = if command.is_fast() {
            "fast-command"
        } else {
            "command"
        };
        let at_s = || self.shared.store.now_ms() / 1000;
        self.shared.latencies.note(event, at_s, took);
        let config = &self.shared.config;
        let threshold = config.slow_us.load(Ordering::Relaxed);
        let took_us = took.as_micros() as u64;
        if threshold < 0 || (took_us as i64) < threshold {
            return;
        }
        let slow = Slow {
            id: 0,
            at_s: at_s(),
            took_us,
            args: Vec::new(),
            peer: self.client.peer.to_string(),
            name: self.client.name.lock().clone(),
        };
        let args: Vec<&[u8]> = watching::words(command, args).collect();
        let most = config.slow_entries.load(Ordering::Relaxed);
        self.shared.slow.note(slow, args.into_iter(), most);
    }
}
