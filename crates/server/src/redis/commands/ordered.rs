//! Extensions to Redis: ranges of keys in order, and snapshots.

use super::walks::read;
use crate::error::Failure;
use crate::protocol::resp::{Args, Reply};
use crate::redis::args::{Options, check_room, integer, is};
use crate::redis::subcommands::unknown_subcommand;
use crate::store::model::format::{self, InnerKey};
use crate::store::model::{Entry, Found};
use crate::store::{Direction, Transaction};
use std::borrow::Cow;

type Done = Result<(), Failure>;

/// Default limit of RANGE in keys.
const USUAL: i64 = 1000;

/// One end of a range, in the syntax of ZRANGEBYLEX: `-`, `+`, `[key` or `(key`.
enum End<'a> {
    Lowest,
    Highest,
    At(&'a [u8]),
    Beside(&'a [u8]),
}

fn end(text: &[u8]) -> Result<End<'_>, Failure> {
    match text.split_first() {
        Some((b'-', [])) => Ok(End::Lowest),
        Some((b'+', [])) => Ok(End::Highest),
        Some((b'[', key)) => Ok(End::At(key)),
        Some((b'(', key)) => Ok(End::Beside(key)),
        _ => Err(Failure::say("ERR start or end is not -, +, [key or (key")),
    }
}

fn behind(database: u8, key: &[u8]) -> InnerKey {
    let mut inner = format::record_key(database, key);
    inner.push(0);
    inner
}

/// Returns the record keys between two ends.
fn bounds(database: u8, low: &[u8], high: &[u8]) -> Result<(InnerKey, InnerKey), Failure> {
    let (first, last) = format::records(database);
    let low = match end(low)? {
        End::Lowest => first.clone(),
        End::Highest => last.clone(),
        End::At(key) => format::record_key(database, key),
        End::Beside(key) => behind(database, key),
    };
    let high = match end(high)? {
        End::Lowest => first,
        End::Highest => last,
        End::At(key) => behind(database, key),
        End::Beside(key) => format::record_key(database, key),
    };
    Ok((low, high))
}

/// Fails if keys are unordered.
fn require_order(transaction: &Transaction<'_>, command: &str) -> Done {
    match transaction.store.records.are_hashed() {
        false => Ok(()),
        true => Err(Failure::Refused(Cow::Owned(format!(
            "ERR {command} needs keys in order, and this store keeps them hashed (--hashed): use SCAN or KEYS, or a store \
             that is served without --hashed"
        )))),
    }
}

fn walk(
    transaction: &Transaction<'_>,
    args: Args<'_>,
    (low, high): (&[u8], &[u8]),
    direction: Direction,
    reply: &mut Reply<'_>,
) -> Done {
    let (mut most, mut with_values) = (USUAL, true);
    let mut options = Options::new(args, 3);
    while let Some(word) = options.next() {
        if is(word, "LIMIT") {
            most = integer(options.value()?)?;
        } else if is(word, "KEYSONLY") {
            with_values = false;
        } else {
            return Err(Failure::SYNTAX);
        }
    }
    let (start, end) = bounds(transaction.database, low, high)?;
    let mut body = Vec::new();
    let mut pairs = Reply::new(&mut body, reply.version()).at_most(reply.most());
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
            Entry::Text(text) if with_values => pairs.bulk(&text),
            Entry::Collection(_) if with_values => pairs.null(),
            _ => {}
        }
        check_room(&pairs)?;
    }
    reply.array(if with_values { 2 * count } else { count });
    reply.raw(&body);
    Ok(())
}

pub(crate) fn range(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    require_order(transaction, "RANGE")?;
    walk(
        transaction,
        args,
        (args.at(1), args.at(2)),
        Direction::Forward,
        reply,
    )
}

pub(crate) fn rev_range(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    require_order(transaction, "REVRANGE")?;
    walk(
        transaction,
        args,
        (args.at(2), args.at(1)),
        Direction::Backward,
        reply,
    )
}

/// Deletes a range with one range deletion, unless the database may have collections, whose
/// elements must be found individually.
pub(crate) fn del_range(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    require_order(transaction, "DELRANGE")?;
    let (start, end) = bounds(transaction.database, args.at(1), args.at(2))?;
    if transaction.store.marks.has_any(transaction.database) {
        let mut keys = Vec::new();
        let mut scan = transaction.scan_keys(start.clone(), end.clone(), Direction::Forward);
        while let Some((key, value)) = scan.lend()? {
            if let Some(Entry::Collection(_)) = read(value, transaction.now_ms)? {
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

fn text(bytes: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(bytes).map_err(|_| Failure::say("ERR the name of a snapshot must be UTF-8"))
}

fn refused(error: alluvium::Error) -> Failure {
    match error {
        alluvium::Error::NoSuchSnapshot { .. } | alluvium::Error::SnapshotExists { .. } => {
            Failure::Refused(Cow::Owned(format!("ERR {error}")))
        }
        other => Failure::Store(other),
    }
}

pub(crate) fn snapshot(transaction: &mut Transaction<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
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
            match record.map(|record| Entry::read(Found::Owned(record), transaction.now_ms)) {
                None => reply.null(),
                Some(entry) => match entry? {
                    None => reply.null(),
                    Some(Entry::Text(text)) => reply.bulk(&text),
                    Some(Entry::Collection(_)) => return Err(Failure::WRONG_TYPE),
                },
            }
        }
        _ => return Err(unknown_subcommand("snapshot", args)),
    }
    Ok(())
}
