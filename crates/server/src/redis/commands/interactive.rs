//! The commands BEGIN, COMMIT and ABORT. They control interactive transactions, which execute and
//! answer each command immediately.

use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::args::{OptionParser, integer, is};
use crate::redis::batch::ReplyDelivery;
use crate::redis::catalog::AccessRequest;
use crate::redis::paging::no_room;
use crate::redis::session::RedisSession;
use crate::redis::table::{CommandHandler, CommandSpec};
use crate::redis::write_access_log::WriteAccessLog;
use crate::store::{
    CommitOutcome, InteractiveTransaction, JointOutcome, LookupCounts, ReadTracking, explained,
};
use alluvium::{Isolation, TransactionOptions};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Default and maximum transaction timeout in milliseconds.
const TIMEOUT_MS: u64 = 60_000;
const MOST_TIMEOUT_MS: u64 = 600_000;

/// Whether COMMIT writes the other changes of a transaction in which a command has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureTolerance {
    /// COMMIT fails after every error reply.
    Strict,
    /// COMMIT fails only after a command that was refused before its execution, as EXEC does.
    Lenient,
}

/// Parses the options of BEGIN.
fn options(args: Args<'_>) -> Result<(TransactionOptions, FailureTolerance), CommandError> {
    let mut chosen = TransactionOptions::new().timeout(Duration::from_millis(TIMEOUT_MS));
    let mut tolerance = FailureTolerance::Strict;
    let (mut has_isolation, mut has_concurrency, mut has_timeout) = (false, false, false);
    let mut has_tolerance = false;
    let mut options = OptionParser::new(args, 1);
    while let Some(word) = options.next() {
        let has = if is(word, "SERIALIZABLE") {
            &mut has_isolation
        } else if is(word, "SNAPSHOT") {
            chosen = chosen.isolation(Isolation::Snapshot);
            &mut has_isolation
        } else if is(word, "OPTIMISTIC") {
            &mut has_concurrency
        } else if is(word, "LOCKING") {
            return Err(CommandError::say(
                "ERR BEGIN LOCKING is not supported, because a client that waits for a lock would block \
                 others; use OPTIMISTIC, and retry the transaction after a conflict",
            ));
        } else if is(word, "TIMEOUT") {
            chosen = chosen.timeout(timeout(options.value()?)?);
            &mut has_timeout
        } else if is(word, "LENIENT") {
            tolerance = FailureTolerance::Lenient;
            &mut has_tolerance
        } else {
            return Err(CommandError::SYNTAX);
        };
        if std::mem::replace(has, true) {
            return Err(CommandError::SYNTAX);
        }
    }
    Ok((chosen, tolerance))
}

fn timeout(text: &[u8]) -> Result<Duration, CommandError> {
    let milliseconds = u64::try_from(integer(text)?).unwrap_or(0);
    match milliseconds {
        1..=MOST_TIMEOUT_MS => Ok(Duration::from_millis(milliseconds)),
        _ => Err(CommandError::say("ERR TIMEOUT must be 1 to 600000 milliseconds")),
    }
}

/// A transaction started with BEGIN.
pub(crate) struct SessionTransaction {
    interactive: InteractiveTransaction,
    /// The transaction's write commands, with the permissions that they needed.
    asked: WriteAccessLog,
    tolerance: FailureTolerance,
    /// Whether a command was rejected, in which case COMMIT fails.
    has_refusal: bool,
    /// Whether a command has replied with an error, in which case COMMIT fails unless the
    /// transaction is lenient.
    has_error: bool,
}

impl SessionTransaction {
    fn of(interactive: InteractiveTransaction, tolerance: FailureTolerance) -> SessionTransaction {
        SessionTransaction {
            interactive,
            asked: WriteAccessLog::default(),
            tolerance,
            has_refusal: false,
            has_error: false,
        }
    }

    /// Makes COMMIT fail because a command of the transaction was rejected.
    pub(crate) fn fail(&mut self) {
        self.has_refusal = true;
        self.interactive.fail_joint();
    }

    /// Notes that a command has replied with an error.
    fn note_error(&mut self) {
        self.has_error = true;
        if self.tolerance == FailureTolerance::Strict {
            self.interactive.fail_joint();
        }
    }

    /// Returns the error of COMMIT that the commands of the transaction have caused, or `None` if
    /// the transaction can be committed.
    fn obstacle(&self) -> Option<CommandError> {
        if self.has_refusal {
            return Some(CommandError::say(
                "ABORTED a command of the transaction was refused, so nothing is written",
            ));
        }
        (self.has_error && self.tolerance == FailureTolerance::Strict).then(|| {
            CommandError::say(
                "ABORTED a command of the transaction has failed, so nothing is written; after BEGIN LENIENT, \
                 COMMIT writes the changes of the other commands",
            )
        })
    }
}

pub(crate) fn begin(
    session: &mut RedisSession,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    if session.interactive.is_some() {
        return Err(CommandError::say(
            "ERR BEGIN calls can not be nested; send COMMIT or ABORT first",
        ));
    }
    if args.len() > 1 && is(args.at(1), "JOIN") {
        session.interactive = Some(Box::new(join(session, args)?));
        reply.ok();
        return Ok(());
    }
    let (options, tolerance) = options(args)?;
    let options = options.max_write_bytes(session.shared.config.limits.transaction);
    let dependence = match options.isolation {
        Isolation::Serializable => ReadTracking::Tracked,
        Isolation::Snapshot => ReadTracking::None,
    };
    let begun = InteractiveTransaction::begin(&session.shared.store, &options, dependence);
    session.interactive = Some(Box::new(SessionTransaction::of(begun, tolerance)));
    reply.ok();
    Ok(())
}

/// Joins a transaction that another part of the process has begun.
fn join(session: &RedisSession, args: Args<'_>) -> Result<SessionTransaction, CommandError> {
    let tolerance = match args.len() {
        3 => FailureTolerance::Strict,
        4 if is(args.at(3), "LENIENT") => FailureTolerance::Lenient,
        _ => return Err(CommandError::SYNTAX),
    };
    let name = std::str::from_utf8(args.at(2)).unwrap_or_default();
    let joined = InteractiveTransaction::join(&session.shared.store, name)?;
    let interactive = joined.ok_or_else(|| {
        CommandError::say(
            "ABORTED there is no open transaction of this name; BEGIN JOIN takes the value of \
             ALLUVIUM_TRANSACTION in a command of `alluvium tx`",
        )
    })?;
    Ok(SessionTransaction::of(interactive, tolerance))
}

pub(crate) fn commit(
    session: &mut RedisSession,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let Some(begun) = session.interactive.take() else {
        return Err(CommandError::say("ERR COMMIT without BEGIN"));
    };
    match begun.interactive.outcome() {
        None => {}
        Some(JointOutcome::Committed) if !begun.has_refusal => {
            reply.ok();
            return Ok(());
        }
        Some(_) => {
            return Err(CommandError::say(
                "ABORTED the joint transaction has ended before COMMIT; the exit code of `alluvium tx` tells \
                 whether it was committed",
            ));
        }
    }
    if let Some(denied) = session.first_denied(&begun.asked) {
        begun.interactive.refuse();
        return Err(CommandError::Refused(Cow::Owned(denied)));
    }
    if let Some(obstacle) = begun.obstacle() {
        begun.interactive.refuse();
        return Err(obstacle);
    }
    let store = Arc::clone(&session.shared.store);
    let waits = store.waits_for_disk();
    if begun.interactive.commit(&store)? == CommitOutcome::Committed {
        session.wants_sync |= waits;
    }
    reply.ok();
    Ok(())
}

pub(crate) fn abort(
    session: &mut RedisSession,
    _args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let Some(begun) = &session.interactive else {
        return Err(CommandError::say("ERR ABORT without BEGIN"));
    };
    if !begun.interactive.is_own() {
        return Err(CommandError::say(
            "ERR ABORT after BEGIN JOIN is not possible: the command of `alluvium tx` decides by its exit \
             code; COMMIT leaves the transaction",
        ));
    }
    session.interactive = None;
    reply.ok();
    Ok(())
}

/// Returns whether a command is allowed between BEGIN and COMMIT, that is, whether all its reads
/// and writes go through the transaction.
fn runs_within(command: &CommandSpec) -> bool {
    match command.group {
        "string" | "bitmap" | "hash" | "list" | "set" | "sorted-set" | "pubsub" => true,
        "scripting" => matches!(command.action, CommandHandler::Script(_)),
        "server" => command.name == "dbsize",
        "ordered" => matches!(command.name, "range" | "revrange"),
        "generic" => matches!(
            command.name,
            "del"
                | "unlink"
                | "exists"
                | "touch"
                | "type"
                | "rename"
                | "renamenx"
                | "expire"
                | "pexpire"
                | "expireat"
                | "pexpireat"
                | "expiretime"
                | "pexpiretime"
                | "ttl"
                | "pttl"
                | "persist"
                | "copy"
                | "keys"
                | "scan"
                | "randomkey"
                | "sort"
                | "sort_ro"
        ),
        _ => false,
    }
}

impl RedisSession {
    /// Returns the memory used by the transaction in bytes.
    pub(crate) fn within_held(&self) -> usize {
        self.interactive
            .as_ref()
            .map_or(0, |begun| begun.interactive.held() + begun.asked.held())
    }

    /// Makes the current transaction's EXEC or COMMIT fail because a command was rejected.
    pub(crate) fn fail_transaction(&mut self) {
        self.multi.fail();
        if let Some(begun) = &mut self.interactive {
            begun.fail();
        }
    }

    /// If the reply of a command between BEGIN and COMMIT is an error, notes that the command has
    /// failed. The reply begins at `start`.
    pub(in crate::redis) fn note_reply_within(&mut self, output: &[u8], start: usize) {
        if let Some(begun) = &mut self.interactive
            && output.get(start) == Some(&b'-')
        {
            begun.note_error();
        }
    }

    /// Ends the transaction if its EXEC or COMMIT was rejected, as Redis does. Returns the error
    /// reply to send instead of `why`, or `None` to send `why`.
    pub(in crate::redis) fn refused_end(&mut self, command: &CommandSpec, why: &str) -> Option<String> {
        match command.name {
            "exec" => {
                super::connection::forget(self);
                Some(format!(
                    "EXECABORT Transaction discarded because of: {}",
                    why.strip_prefix("ERR ").unwrap_or(why)
                ))
            }
            "commit" => {
                self.interactive.take()?.interactive.refuse();
                let is_denied = why.starts_with("NOPERM");
                (!is_denied).then(|| format!("ABORTED COMMIT was refused and nothing is written: {why}"))
            }
            _ => None,
        }
    }

    /// Executes a command between BEGIN and COMMIT. If the command fails, it has changed nothing,
    /// and COMMIT will fail. In a lenient transaction, COMMIT will fail only if the command is
    /// rejected before its execution.
    pub(in crate::redis) fn run_within(
        &mut self,
        command: &'static CommandSpec,
        args: Args<'_>,
        output: &mut Vec<u8>,
    ) {
        let (start, before) = (output.len(), self.settings.reply_mode);
        let counted_as = command.counted_as(args);
        self.client.set_last_command(counted_as);
        self.show(command, args);
        let began = Instant::now();
        if let Err(failure) = self.try_within(command, args, output) {
            output.truncate(start);
            self.fail_transaction();
            let text = failure.to_string();
            self.shared.count_error(&text);
            self.shared.tally.of(counted_as).failed();
            ReplyWriter::new(output, self.settings.version).error(&text);
        }
        let took = began.elapsed();
        LookupCounts::publish_counts(&self.shared.store);
        self.shared.tally.of(counted_as).called(1, took);
        self.note_slow(command, args, took);
        self.note_reply_within(output, start);
        self.settings.reply_mode.apply(before, output, start);
    }

    fn try_within(&mut self, command: &CommandSpec, args: Args<'_>, output: &mut Vec<u8>) -> CommandResult {
        if !runs_within(command) {
            return Err(CommandError::Refused(Cow::Owned(format!(
                "ERR '{}' cannot run between BEGIN and COMMIT, because it would bypass the transaction; use \
                 MULTI instead",
                command.name
            ))));
        }
        if (command.writes() || command.group == "pubsub") && !self.has_room_in_queue(args) {
            let counters = &self.shared.counters;
            counters.memory_refusals.fetch_add(1, Ordering::Relaxed);
            let text = no_room("the transaction", &self.shared.budget);
            return Err(CommandError::Refused(Cow::Owned(text)));
        }
        // Take the transaction out of the session, so that a panic in the command drops it.
        let mut begun = self.interactive.take().expect("BEGIN has begun it");
        let refusals = self.paging.refusals;
        let done = self.apply_within(command, args, &mut begun.interactive, output);
        if self.paging.refusals != refusals {
            begun.fail();
        }
        if command.writes() && done.is_ok() {
            begun
                .asked
                .note(&self.identity.user, &AccessRequest::of(command, args));
        }
        self.interactive = Some(begun);
        done
    }

    fn apply_within(
        &mut self,
        command: &CommandSpec,
        args: Args<'_>,
        interactive: &mut InteractiveTransaction,
        output: &mut Vec<u8>,
    ) -> CommandResult {
        let store = Arc::clone(&self.shared.store);
        interactive.note_reads(command.keys(args).count());
        let database = self.settings.database;
        interactive.run(&store, database, |part| {
            part.client = self.client.id;
            let refuses = std::mem::replace(&mut self.paging.refuses, true);
            let applied = self.apply(command, args, part, output, ReplyDelivery::Whole);
            self.paging.refuses = refuses;
            if let Some(text) = self.ended_script.take() {
                return Err(CommandError::Refused(Cow::Owned(text)));
            }
            let tail = applied.map_err(|failure| match failure {
                CommandError::Store(error) => explained(error),
                other => other,
            })?;
            assert!(tail.is_none(), "a reply that is needed whole has no parts");
            Ok(())
        })
    }
}
