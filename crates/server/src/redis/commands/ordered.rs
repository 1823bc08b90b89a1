//! Extensions to Redis: commands on ranges of ordered keys, and on snapshots.

use super::scan_commands::read;
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::args::{OptionParser, check_room, integer, is};
use crate::redis::subcommands::unknown_subcommand;
use crate::store::model::format::{self, InnerKey};
use crate::store::model::{RecordBytes, TypedValue};
use crate::store::{CommandTransaction, WalkDirection};
use std::borrow::Cow;

/// Maximum number of keys that RANGE returns unless the client sets a limit.
const USUAL: i64 = 1000;

/// One end of a range of keys, in the syntax of ZRANGEBYLEX: `-`, `+`, `[key` or `(key`.
enum KeyRangeEnd<'a> {
    Lowest,
    Highest,
    At(&'a [u8]),
    Beside(&'a [u8]),
}

fn end(text: &[u8]) -> Result<KeyRangeEnd<'_>, CommandError> {
    match text.split_first() {
        Some((b'-', [])) => Ok(KeyRangeEnd::Lowest),
        Some((b'+', [])) => Ok(KeyRangeEnd::Highest),
        Some((b'[', key)) => Ok(KeyRangeEnd::At(key)),
        Some((b'(', key)) => Ok(KeyRangeEnd::Beside(key)),
        _ => Err(CommandError::say("ERR start or end is not -, +, [key or (key")),
    }
}

fn behind(database: u8, key: &[u8]) -> InnerKey {
    let mut inner = format::record_key(database, key);
    inner.push(0);
    inner
}

/// Returns the record keys between two ends.
fn bounds(database: u8, low: &[u8], high: &[u8]) -> Result<(InnerKey, InnerKey), CommandError> {
    let (first, last) = format::records(database);
    let low = match end(low)? {
        KeyRangeEnd::Lowest => first.clone(),
        KeyRangeEnd::Highest => last.clone(),
        KeyRangeEnd::At(key) => format::record_key(database, key),
        KeyRangeEnd::Beside(key) => behind(database, key),
    };
    let high = match end(high)? {
        KeyRangeEnd::Lowest => first,
        KeyRangeEnd::Highest => last,
        KeyRangeEnd::At(key) => behind(database, key),
        KeyRangeEnd::Beside(key) => format::record_key(database, key),
    };
    Ok((low, high))
}

/// Returns an error if the store's keys are not ordered.
fn require_order(transaction: &CommandTransaction<'_>, command: &str) -> CommandResult {
    match transaction.store.records.are_hashed() {
        false => Ok(()),
        true => Err(CommandError::Refused(Cow::Owned(format!(
            "ERR {command} needs keys in order, but this store keeps them hashed (--hashed); use SCAN or \
             KEYS, or a store that is served without --hashed"
        )))),
    }
}

fn walk(
    transaction: &CommandTransaction<'_>,
    args: Args<'_>,
    (low, high): (&[u8], &[u8]),
    direction: WalkDirection,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let (mut most, mut with_values) = (USUAL, true);
    let mut options = OptionParser::new(args, 3);
    while let Some(word) = options.next() {
        if is(word, "LIMIT") {
            most = integer(options.value()?)?;
        } else if is(word, "KEYSONLY") {
            with_values = false;
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    let (start, end) = bounds(transaction.database, low, high)?;
    let mut body = Vec::new();
    let mut pairs = ReplyWriter::new(&mut body, reply.version()).at_most(reply.most());
    let mut count = 0;
    let mut scan = match with_values {
        true => transaction.scan(start, end, direction),
        false => transaction.scan_keys(start, end, direction),
    };
    // As with ZRANGE, a negative limit means no limit.
    while most < 0 || (count as i64) < most {
        let Some((key, value)) = scan.next()? else {
            break;
        };
        let Some(entry) = read(&value, transaction.now_ms)? else {
            continue;
        };
        count += 1;
        pairs.bulk(format::user_key(&key));
        match entry {
            TypedValue::Text(text) if with_values => pairs.bulk(&text),
            TypedValue::Collection(_) if with_values => pairs.null(),
            _ => {}
        }
        check_room(&pairs)?;
    }
    reply.array(if with_values { 2 * count } else { count });
    reply.raw(&body);
    Ok(())
}

pub(crate) fn range(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    require_order(transaction, "RANGE")?;
    walk(
        transaction,
        args,
        (args.at(1), args.at(2)),
        WalkDirection::Forward,
        reply,
    )
}

pub(crate) fn rev_range(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    require_order(transaction, "REVRANGE")?;
    walk(
        transaction,
        args,
        (args.at(2), args.at(1)),
        WalkDirection::Backward,
        reply,
    )
}

/// Deletes a range of keys with a single range deletion. If the database may contain collections,
/// deletes the keys one by one instead, because each collection's elements must be deleted, too.
pub(crate) fn del_range(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    require_order(transaction, "DELRANGE")?;
    let (start, end) = bounds(transaction.database, args.at(1), args.at(2))?;
    if transaction.store.marks.has_any(transaction.database) {
        let mut keys = Vec::new();
        let mut scan = transaction.scan_keys(start.clone(), end.clone(), WalkDirection::Forward);
        while let Some((key, value)) = scan.lend()? {
            if let Some(TypedValue::Collection(_)) = read(value, transaction.now_ms)? {
                keys.push(format::user_key(key).to_vec());
            }
        }
        drop(scan);
        for key in keys {
            transaction.remove(&key)?;
        }
    }
    transaction.empty_range(start, end)?;
    reply.ok();
    Ok(())
}

fn text(bytes: &[u8]) -> Result<&str, CommandError> {
    std::str::from_utf8(bytes).map_err(|_| CommandError::say("ERR the name of a snapshot must be UTF-8"))
}

fn refused(error: alluvium::Error) -> CommandError {
    match error {
        alluvium::Error::NoSuchSnapshot { .. } | alluvium::Error::SnapshotExists { .. } => {
            CommandError::Refused(Cow::Owned(format!("ERR {error}")))
        }
        other => CommandError::Store(other),
    }
}

pub(crate) fn snapshot(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let verb = args.at(1).to_ascii_uppercase();
    let (store, db) = (transaction.store, &transaction.store.db);
    match (&verb[..], args.len()) {
        (b"CREATE", 3) => {
            db.create_snapshot(text(args.at(2))?).map_err(refused)?;
            reply.ok();
        }
        (b"DROP", 3) => {
            db.remove_snapshot(text(args.at(2))?).map_err(refused)?;
            reply.ok();
        }
        (b"LIST", 2) => {
            let names = db.snapshots();
            reply.array(names.len());
            names.iter().for_each(|(name, _)| reply.bulk(name.as_bytes()));
        }
        (b"GET", 4) => {
            let snapshot = db.open_snapshot(text(args.at(2))?).map_err(refused)?;
            let record = store.record_at(&snapshot, transaction.client_database(), args.at(3))?;
            match record.map(|record| TypedValue::read(RecordBytes::Owned(record), transaction.now_ms)) {
                None => reply.null(),
                Some(entry) => match entry? {
                    None => reply.null(),
                    Some(TypedValue::Text(text)) => reply.bulk(&text),
                    Some(TypedValue::Collection(_)) => return Err(CommandError::WRONG_TYPE),
                },
            }
        }
        _ => return Err(unknown_subcommand("snapshot", args)),
    }
    Ok(())
}
