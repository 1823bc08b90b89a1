//! Commands that are executed together: one read before, one commit after, locks all the while.

use super::session::Session;
use super::table::{Action, Command};
use crate::error::Failure;
use crate::model::format::{self, InnerKey};
use crate::resp::{Args, Reply};
use crate::slowlog::Slow;
use crate::store::{Held, Outcome, Transaction, Wanted};
use smallvec::SmallVec;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

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

    /// The locks that these commands need in a database.
    pub(super) fn wanted(&self, database: u8, wanted: &mut Wanted) {
        for (command, args) in &self.commands {
            if command.locks_all(*args) {
                wanted.everything();
            }
            if let Some(mode) = command.mode() {
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

impl Session {
    /// Executes a batch and writes its replies.
    pub(super) fn run(&mut self, batch: &Batch<'_>, output: &mut Vec<u8>) {
        let start = output.len();
        let began = Instant::now();
        if let Err(failure) = self.try_run(batch, output) {
            // Nothing of it holds, so that every command gets the same reply.
            output.truncate(start);
            let mut reply = Reply::new(output, self.version);
            for _ in &batch.commands {
                reply.error(&failure.to_string());
            }
        }
        self.note_slow(batch, began.elapsed());
    }

    fn try_run(&mut self, batch: &Batch<'_>, output: &mut Vec<u8>) -> Result<(), Failure> {
        let shared = std::sync::Arc::clone(&self.shared);
        let mut wanted = Wanted::default();
        batch.wanted(self.database, &mut wanted);
        let held = shared.store.locks.lock(wanted);
        let mut transaction = Transaction::new(&shared.store, self.database);
        if batch.commands.len() > 1 {
            let records = batch.records(self.database);
            if records.len() > 1 {
                transaction.prefetch(records)?;
            }
        }
        for (command, args) in &batch.commands {
            self.apply(command, *args, &mut transaction, output)?;
        }
        self.commit(transaction, &held)
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
        let mut reply = Reply::new(output, self.version);
        let result = match command.action {
            Action::Data(run) => run(transaction, args, &mut reply),
            Action::Session(run) => run(self, args, &mut reply),
        };
        match result {
            Err(Failure::Refused(text)) => {
                self.shared.counters.errors.fetch_add(1, Ordering::Relaxed);
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

    fn note_slow(&self, batch: &Batch<'_>, took: Duration) {
        let config = &self.shared.config;
        let threshold = config.slow_us.load(Ordering::Relaxed);
        let took_us = took.as_micros() as u64;
        if threshold < 0 || (took_us as i64) < threshold {
            return;
        }
        let slow = Slow {
            id: 0,
            at_s: self.shared.store.now_ms() / 1000,
            took_us,
            args: Vec::new(),
            peer: self.client.peer.to_string(),
            name: self.client.name.lock().clone(),
        };
        let args: Vec<&[u8]> = batch.commands[0].1.iter().collect();
        let most = config.slow_entries.load(Ordering::Relaxed);
        self.shared.slow.note(slow, args.into_iter(), most);
    }
}
