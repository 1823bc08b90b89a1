//! Which elements the commands of a batch name, so that they are read together.

use super::table::Command;
use crate::error::Failure;
use crate::model::Kind;
use crate::model::format::{self, InnerKey};
use crate::resp::Args;
use crate::store::Transaction;

/// Where a command names elements of its key: the first argument, and every how many.
struct Named {
    kind: Kind,
    first: usize,
    step: usize,
}

impl Named {
    /// Those of a command with these arguments, if it looks up any.
    fn of(command: &Command, args: Args<'_>) -> Option<Named> {
        // With no further ones.
        let alone = args.len();
        let (kind, first, step) = match command.name {
            "hset" | "hmset" => (Kind::Hash, 2, 2),
            "hget" | "hexists" | "hstrlen" | "hsetnx" | "hincrby" | "hincrbyfloat" => (Kind::Hash, 2, alone),
            "hmget" | "hdel" => (Kind::Hash, 2, 1),
            "sadd" | "srem" | "sismember" | "smismember" => (Kind::Set, 2, 1),
            "zscore" | "zmscore" | "zrem" => (Kind::SortedSet, 2, 1),
            "zincrby" => (Kind::SortedSet, 3, alone),
            // Options stand before the scores and members: they come in pairs up to the end.
            "zadd" => (Kind::SortedSet, 3 + args.len() % 2, 2),
            _ => return None,
        };
        Some(Named { kind, first, step })
    }
}

/// Reads the elements that commands name, up to `most` of them, together.
pub(super) fn read_ahead<'a>(
    commands: impl Iterator<Item = &'a (&'static Command, Args<'a>)>,
    transaction: &mut Transaction<'_>,
    most: usize,
) -> Result<(), Failure> {
    let elements = named(commands, transaction, most);
    transaction.prefetch_elements(elements)
}

/// Returns the places of the elements that commands name, up to `most` of them; none if there are
/// none to be read together.
fn named<'a>(
    commands: impl Iterator<Item = &'a (&'static Command, Args<'a>)>,
    transaction: &Transaction<'_>,
    most: usize,
) -> Vec<InnerKey> {
    let database = transaction.database;
    let (mut places, mut from) = (Vec::new(), 0);
    let mut last = None;
    for (command, args) in commands {
        let Some(named) = Named::of(command, *args) else {
            continue;
        };
        let Some(key) = args.get(1) else { continue };
        if last.is_none_or(|(name, _)| name != key) {
            last = Some((key, transaction.known_collection(key, &mut from)));
        }
        let Some((_, Some(collection))) = last else {
            continue;
        };
        if collection.kind != named.kind {
            continue;
        }
        for index in (named.first..args.len()).step_by(named.step) {
            if places.len() == most {
                return places;
            }
            let (number, name) = (collection.number, args.at(index));
            places.push(match named.kind {
                Kind::SortedSet => format::sorted_member_key(database, number, name),
                _ => format::member_key(database, number, name),
            });
        }
    }
    if places.len() < 2 {
        places.clear();
    }
    places
}
