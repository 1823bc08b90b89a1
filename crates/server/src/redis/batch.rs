//! Commands that are executed together: one read before, one commit after, locks all the while.

use super::elements;
use super::session::{ReplyMode, Session};
use super::strings::AT_ONCE;
use super::table::{Action, Command};
use super::watching;
use crate::error::Failure;
use crate::model::format::{self, InnerKey};
use crate::resp::{Args, Reply, Requests, Tail};
use crate::slowlog::Slow;
use crate::store::{Held, Lookups, Mode, Outcome, Reading, Store, Transaction, Wanted};
use alluvium::{MultiGet, Value};
use smallvec::SmallVec;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

/// A batch that has written more than this is committed in parts, each of whole commands; or more
/// than a share of the memory of clients, if that is less.
const MOST_BYTES: usize = 16 << 20;
const SHARE: usize = 8;

/// Commands and their arguments, in order.
pub(super) struct Batch<'a> {
    /// One stands in the value itself: it is moved.
    commands: SmallVec<[(&'static Command, Args<'a>); 1]>,
}

impl<'a> Batch<'a> {
    /// One with a command, which no more than `most` come to.
    #[inline]
    pub(super) fn new(command: &'static Command, args: Args<'a>, most: usize) -> Batch<'a> {
        let mut commands = SmallVec::with_capacity(most);
        commands.push((command, args));
        Batch { commands }
    }

    /// How many commands it has.
    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    pub(super) fn push(&mut self, command: &'static Command, args: Args<'a>) {
        self.commands.push((command, args));
    }

    /// Which of the commands write to keys whatever they have: what a SET finds is nothing to it
    /// when none of its keys can have a collection (S8).
    fn blind(&self, store: &Store, database: u8) -> BlindOnes {
        let may_hold = |key: &[u8]| store.marks.may_hold(database, key);
        let is_blind = |(command, args): &(&Command, Args<'_>)| {
            command.is_blind(*args) && !command.keys(*args).any(may_hold)
        };
        self.commands.iter().map(is_blind).collect()
    }

    /// The locks that these commands need in a database, and how many of them are blind;
    /// `is_blind` says it of the command at an index.
    #[inline]
    fn wanted(&self, database: u8, is_blind: impl Fn(usize, &Command, Args<'_>) -> bool) -> (Wanted, usize) {
        let mut wanted = Wanted::with_capacity(self.len());
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
                // Neighbours often have one key.
                command.each_key(*args, |key| {
                    if last.replace((key, mode)) != Some((key, mode)) {
                        wanted.key(database, key, mode);
                    }
                });
            }
        }
        (wanted, blind)
    }

    /// Waits for locks. `blind` of the commands write to keys whatever they have.
    #[inline]
    fn take<'s>(&self, store: &'s Store, number: u8, (wanted, blind): (Wanted, usize)) -> Locked<'s> {
        Locked {
            number,
            needs_locks: !wanted.is_empty(),
            held: store.locks.lock(wanted),
            is_blind: blind == self.len(),
        }
    }

    /// Waits for the locks that these commands need in a database.
    #[inline]
    fn lock<'s>(&self, store: &'s Store, database: u8) -> Locked<'s> {
        // As long as no key has a collection, a command is as blind as it says.
        if !store.marks.has_any(database) {
            let (wanted, blind) = self.wanted(database, |_, command, args| command.is_blind(args));
            let locked = self.take(store, database, (wanted, blind));
            if blind == 0 || !store.marks.has_any(database) {
                return locked;
            }
        }
        self.lock_beside_collections(store, database)
    }

    /// The same for a database of clients.
    #[inline]
    fn lock_in<'s>(&self, store: &'s Store, database: u8) -> Locked<'s> {
        loop {
            let number = store.databases.number_of(database);
            let locked = self.lock(store, number);
            // Until the locks were held it may have been swapped (S24).
            if store.databases.number_of(database) == number {
                return locked;
            }
        }
    }

    /// The same where keys may have collections.
    fn lock_beside_collections<'s>(&self, store: &'s Store, database: u8) -> Locked<'s> {
        let mut blind = self.blind(store, database);
        loop {
            let locked = self.take(store, database, self.wanted(database, |index, _, _| blind[index]));
            // Until the locks were held a key may have got a collection. What has lost it meanwhile
            // is locked more strongly than need be.
            let now = self.blind(store, database);
            if blind.iter().zip(&now).all(|(&was, &is)| is || !was) {
                return locked;
            }
            drop(locked);
            blind.iter_mut().zip(&now).for_each(|(was, &is)| *was &= is);
        }
    }

    /// About how many bytes they write, at most: they follow each other in one buffer.
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

    /// The records that they will ask for.
    fn records(&self, database: u8, most: usize) -> Vec<InnerKey> {
        let (mut records, mut last) = (Vec::with_capacity(self.len()), None);
        for (command, args) in &self.commands {
            // Who asks for more than may be read at once reads it piece by piece.
            if command.reads_records() && (args.len() <= 2 || command.keys(*args).count() <= most) {
                // Commands on one key follow each other: what they ask for is read once.
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

/// For each command of a batch, whether it writes to its keys whatever they have.
type BlindOnes = SmallVec<[bool; 16]>;

/// What a batch waits for: records, and the memory that they take.
pub(super) struct Awaited {
    pub(super) reading: MultiGet,
    pub(super) memory: Reading,
    /// The number that the database of the records is stored under.
    pub(super) number: u8,
}

/// The records that a batch has waited for.
pub(super) struct ReadResult {
    pub(super) values: alluvium::Result<Vec<Option<Value>>>,
    /// The number that their database was stored under.
    pub(super) number: u8,
}

/// The locks of a batch.
struct Locked<'s> {
    held: Held<'s>,
    /// Whether there are any.
    needs_locks: bool,
    /// Whether all commands write to their keys whatever they have.
    is_blind: bool,
    /// The number that their database is stored under.
    number: u8,
}

/// What became of a batch.
pub(super) enum Ran {
    /// How many of its commands were executed, and what is left of a long reply to the last one.
    Commands(usize, Option<Box<dyn Tail>>),
    /// None of them: it waits for this.
    Waits(Box<Awaited>),
}

/// How long a reply may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// It is needed whole.
    Whole,
    /// It may be written in parts.
    Parts,
}

/// How much of a batch holds whatever comes.
struct Done {
    commands: usize,
    /// Where the replies to the rest begin.
    position: usize,
    /// What is left of a long reply to the last command.
    tail: Option<Box<dyn Tail>>,
}

impl Session {
    /// The command of the request `at`, and those of its neighbours that are executed with it.
    pub(super) fn gather<'a>(
        &self,
        requests: &'a Requests,
        buffer: &'a [u8],
        command: &'static Command,
        at: usize,
    ) -> Batch<'a> {
        let args = requests.get(at, buffer);
        if self.paging.is_alone() {
            return Batch::new(command, args, 1);
        }
        let mut batch = Batch::new(command, args, requests.len() - at);
        let most = self.paging.most(&self.shared.store.sizes);
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

    /// Executes a batch and writes its replies; or nothing of it, and what it waits for. It is
    /// handed in the next time what came of that: records that no lock is needed for are taken from
    /// there, others are in memory then.
    ///
    /// A command whose reply is long is the last one that is executed: how many were, is told.
    pub(super) fn run(
        &mut self,
        batch: &Batch<'_>,
        read: Option<ReadResult>,
        output: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> Ran {
        let shared = std::sync::Arc::clone(&self.shared);
        let _turn = shared.store.turn_to_write(batch.written_bytes());
        let began = self.activity.begin();
        let mut done = Done {
            commands: 0,
            position: output.len(),
            tail: None,
        };
        let lookups = Lookups::counted();
        match self.try_run(batch, read, output, context, &mut done) {
            Ok(None) => {}
            Ok(Some(waiting)) => return Ran::Waits(waiting),
            Err(failure) => {
                self.paging.forget_cut();
                output.truncate(done.position);
                let rest = batch.len() - done.commands;
                if rest > 1 && failure.may_spare_others() {
                    // Nothing of the rest holds. Which of the keys has the fault is not known.
                    lookups.forget_since();
                    self.paging.divide(done.commands, rest);
                    self.activity.cancel();
                    return Ran::Commands(done.commands, None);
                }
                // Nothing of the rest holds, so that every command of it gets the same reply.
                let text = failure.to_string();
                let mut reply = Reply::new(output, self.settings.version);
                for (command, args) in &batch.commands[done.commands..] {
                    reply.error(&text);
                    self.shared.count_error(&text);
                    self.shared.tally.of(command.counted_as(*args)).failed();
                }
                done.commands = batch.len();
            }
        }
        Lookups::tell(&self.shared.store);
        let ended = self.activity.end();
        self.count(
            &batch.commands[..self.paging.executed(done.commands)],
            ended.saturating_duration_since(began),
        );
        Ran::Commands(done.commands, done.tail)
    }

    /// Counts the commands of a batch that were executed. Its time is shared out evenly: they were
    /// executed together.
    fn count(&self, executed: &[(&Command, Args<'_>)], took: Duration) {
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
            let same = |(other, args): &&(&Command, Args<'_>)| other.counted_as(*args) == counted_as;
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
        batch: &Batch<'_>,
        read: Option<ReadResult>,
        output: &mut Vec<u8>,
        context: &mut Context<'_>,
        done: &mut Done,
    ) -> Result<Option<Box<Awaited>>, Failure> {
        let shared = std::sync::Arc::clone(&self.shared);
        let store = &*shared.store;
        let Locked {
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
            Ahead::Known
        } else {
            let records = batch.records(number, at_once);
            read_ahead(&mut transaction, records, read, needs_locks, context)?
        };
        match ahead {
            Ahead::Known => {}
            Ahead::Waits(waiting) => return Ok(Some(waiting)),
            Ahead::NoRoom => return self.wait_or_refuse(store),
        }
        if batch.len() > 1 && !is_blind {
            elements::read_ahead(batch.commands.iter(), &mut transaction, at_once)?;
        }
        let most = MOST_BYTES.min(shared.budget.limit() / SHARE);
        let before = output.len();
        for (index, (command, args)) in batch.commands.iter().enumerate() {
            if transaction.bytes() > most {
                self.commit(&mut transaction, &held)?;
                // What was read beforehand is not what is there now.
                transaction = begin(transaction.database);
                (done.commands, done.position) = (index, output.len());
            }
            let start = output.len();
            if let Some(mut tail) = self.apply(command, *args, &mut transaction, output, self.length())? {
                // What it shows is what is there once all this is committed. The rest of the batch
                // waits until the client has it.
                self.commit(&mut transaction, &held)?;
                tail.begin();
                (done.commands, done.tail) = (index + 1, Some(tail));
                return Ok(None);
            }
            self.note_length(command, *args, output.len().saturating_sub(start));
            let bytes = output.len().saturating_sub(before);
            if self.paging.cuts(index + 1, batch.len(), bytes) {
                break;
            }
        }
        self.commit(&mut transaction, &held)?;
        done.commands = batch.len();
        Ok(None)
    }

    /// There is no memory for what a batch reads: it waits, or is refused.
    fn wait_or_refuse(&mut self, store: &Store) -> Result<Option<Box<Awaited>>, Failure> {
        if self.paging.refuses {
            let bytes = store.sizes.at_worst(1);
            return Err(Failure::NoRoom { bytes });
        }
        self.paging.wait_before_all();
        Ok(None)
    }

    /// Who wants no replies has none to take in parts.
    fn length(&self) -> Length {
        if self.settings.reply_mode == ReplyMode::On {
            Length::Parts
        } else {
            Length::Whole
        }
    }

    /// Notes how long the strings are that a reply of a length has.
    fn note_length(&self, command: &Command, args: Args<'_>, bytes: usize) {
        const SHORT: usize = 1 << 10;
        if bytes > SHORT && command.reads_records() && command.group == "string" {
            let strings = command.keys(args).count().max(1);
            self.shared.store.sizes.note(bytes / strings);
        }
    }

    /// Executes one command; an error of its own is its reply. What is left of the reply, if it is
    /// a long one.
    pub(super) fn apply(
        &mut self,
        command: &Command,
        args: Args<'_>,
        transaction: &mut Transaction<'_>,
        output: &mut Vec<u8>,
        length: Length,
    ) -> Result<Option<Box<dyn Tail>>, Failure> {
        let start = output.len();
        // Commands that gather what they reply fail before it is longer than this. What was changed
        // must be told, however long that is.
        let room = self.reply_room();
        let most = self.shared.config.max_output().min(start.saturating_add(room));
        let mut reply = Reply::new(output, self.settings.version).at_most(most);
        if length == Length::Parts {
            reply = reply.in_parts();
        }
        self.note_uses(command, args, transaction);
        match command.keeps_record() {
            true => transaction.keep_record(),
            false => transaction.settle(),
        }
        let lookups = Lookups::counted();
        let result = match command.action {
            Action::Data(run) => run(transaction, args, &mut reply),
            Action::Session(run) => run(self, args, &mut reply),
        };
        let is_too_long = !command.writes() && reply.position() - start > room;
        if command.writes() {
            lookups.forget_since();
        }
        match result {
            Ok(()) if !is_too_long => Ok(reply.into_tail()),
            Ok(()) | Err(Failure::Refused(_)) if is_too_long => {
                self.take_back(&mut reply, start);
                if self.paging.has_taken_back() {
                    // It is executed again.
                    lookups.forget_since();
                } else {
                    self.shared.tally.of(command.counted_as(args)).failed();
                }
                Ok(None)
            }
            Err(Failure::NoRoom { bytes }) if self.may_wait_for(bytes) && !command.writes() => {
                reply.rewind(start);
                self.paging.wait_for_room();
                lookups.forget_since();
                Ok(None)
            }
            Err(failure @ (Failure::Refused(_) | Failure::NoRoom { .. })) => {
                if let Failure::NoRoom { .. } = failure {
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
            Err(other @ Failure::Store(_)) => Err(other),
            Ok(()) => unreachable!("it is either too long or not"),
        }
    }

    /// Notes when the keys of a command were used, unless it only looks at them, or the client has
    /// said that its reads do not count.
    fn note_uses(&self, command: &Command, args: Args<'_>, transaction: &Transaction<'_>) {
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
        transaction: &mut Transaction<'_>,
        held: &Held<'_>,
    ) -> Result<(), Failure> {
        let waits = transaction.store.waits_for_disk();
        if transaction.commit(held)? == Outcome::Committed {
            self.wants_sync |= waits;
        }
        Ok(())
    }

    /// Notes a command that took long, or a batch by its first command.
    #[inline]
    pub(super) fn note_slow(&self, command: &Command, args: Args<'_>, took: Duration) {
        if self.shared.latencies.may_note(took) {
            let event = if command.is_fast() {
                "fast-command"
            } else {
                "command"
            };
            let at_s = || self.shared.store.now_ms() / 1000;
            self.shared.latencies.note(event, at_s, took);
        }
        // A negative threshold means never.
        let slow_us = self.shared.config.slow_us.load(Ordering::Relaxed);
        if u64::try_from(slow_us).is_ok_and(|slow_us| took >= Duration::from_micros(slow_us)) {
            self.note_in_slowlog(command, args, took);
        }
    }

    #[cold]
    fn note_in_slowlog(&self, command: &Command, args: Args<'_>, took: Duration) {
        let slow = Slow {
            id: 0,
            at_s: self.shared.store.now_ms() / 1000,
            took_us: took.as_micros() as u64,
            args: Vec::new(),
            peer: self.client.peer.to_string(),
            name: self.client.name.lock().clone(),
        };
        let args: Vec<&[u8]> = watching::words(command, args).collect();
        let most = self.shared.config.slow_entries.load(Ordering::Relaxed);
        self.shared.slow.note(slow, args.into_iter(), most);
    }
}

/// Begins a transaction of a client's commands.
fn begin(store: &Store, database: u8, is_blind: bool, client: u64) -> Transaction<'_> {
    let mut transaction = match is_blind {
        true => Transaction::blind(store, database),
        false => Transaction::new(store, database),
    };
    transaction.client = client;
    transaction
}

/// What became of reading ahead.
enum Ahead {
    /// Everything is known that was asked for.
    Known,
    /// It is waited for, with the memory that it takes.
    Waits(Box<Awaited>),
    /// Clients have no memory left for it.
    NoRoom,
}

/// Has a transaction know the records that its commands will ask for; or what it waits for.
fn read_ahead(
    transaction: &mut Transaction<'_>,
    records: Vec<InnerKey>,
    read: Option<ReadResult>,
    needs_locks: bool,
    context: &mut Context<'_>,
) -> Result<Ahead, Failure> {
    if records.is_empty() {
        return Ok(Ahead::Known);
    }
    let gathered = transaction.store.gather(transaction.database, &records);
    let Some(space) = gathered.space else {
        let none = records.iter().map(|_| None).collect();
        transaction.has_read(records, none);
        return Ok(Ahead::Known);
    };
    // What was read of a database that was swapped since is of another (S24).
    let read = read.filter(|read| read.number == transaction.database);
    match read.map(|read| read.values) {
        // What it has read before it had the locks is in memory now, but may have changed.
        Some(result) if needs_locks => {
            result?;
            transaction.prefetch(records)?;
        }
        Some(result) => transaction.has_read(records, result?),
        None => {
            // What is in memory is known at once. Values take memory of clients once they have come
            // from the device.
            let mut reading = space.multi_get_async(&gathered.names);
            match Pin::new(&mut reading).poll(context) {
                Poll::Ready(values) => transaction.has_read(records, values?),
                Poll::Pending => {
                    let Some(memory) = transaction.store.room_to_read(records.len()) else {
                        return Ok(Ahead::NoRoom);
                    };
                    return Ok(Ahead::Waits(Box::new(Awaited {
                        reading,
                        memory,
                        number: transaction.database,
                    })));
                }
            }
        }
    }
    Ok(Ahead::Known)
}
