//! Prefetches the elements that a batch's commands name.

use super::table::CommandSpec;
use crate::error::CommandError;
use crate::protocol::resp::Args;
use crate::store::CommandTransaction;
use crate::store::model::format::{self, InnerKey};
use crate::store::model::{CollectionHeader, CollectionKind};

/// Which arguments of a command are elements of its key: the index of the first element, and the
/// distance between elements.
struct ElementArguments {
    kind: CollectionKind,
    first: usize,
    step: usize,
}

impl ElementArguments {
    /// Returns which arguments of a command are elements, or `None` if the command looks up no
    /// elements.
    fn of(command: &CommandSpec, args: Args<'_>) -> Option<ElementArguments> {
        // A distance so large that only the first element is within the arguments.
        let alone = args.len();
        let (kind, first, step) = match command.name {
            "hset" | "hmset" => (CollectionKind::Hash, 2, 2),
            "hget" | "hexists" | "hstrlen" | "hsetnx" | "hincrby" | "hincrbyfloat" => {
                (CollectionKind::Hash, 2, alone)
            }
            "hmget" | "hdel" => (CollectionKind::Hash, 2, 1),
            "sadd" | "srem" | "sismember" | "smismember" => (CollectionKind::Set, 2, 1),
            "zscore" | "zmscore" | "zrem" => (CollectionKind::SortedSet, 2, 1),
            "zincrby" => (CollectionKind::SortedSet, 3, alone),
            // The arguments end with pairs of scores and members. Options may precede them.
            "zadd" => (CollectionKind::SortedSet, 3 + args.len() % 2, 2),
            _ => return None,
        };
        Some(ElementArguments { kind, first, step })
    }
}

/// Predicts which stored elements remain in a list after some commands of a batch.
struct PredictedListEnds {
    number: u64,
    /// Position of the first stored element that remains, and number of those that remain.
    head: i64,
    count: u64,
    /// Number of elements that the batch's earlier commands have added on the left and on the
    /// right.
    added: (u64, u64),
}

impl PredictedListEnds {
    fn of(list: &CollectionHeader) -> PredictedListEnds {
        PredictedListEnds {
            number: list.number,
            head: list.head,
            count: list.count,
            added: (0, 0),
        }
    }

    /// Predicts a command's effect on the list. If the command pops a stored element, returns its
    /// position.
    fn pass(&mut self, command: &CommandSpec, args: Args<'_>) -> Option<i64> {
        let more = (args.len() as u64).saturating_sub(2);
        match command.name {
            "lpush" | "lpushx" => self.added.0 += more,
            "rpush" | "rpushx" => self.added.1 += more,
            "lpop" if more == 0 => return self.take_left(),
            "rpop" if more == 0 => return self.take_right(),
            "llen" | "lindex" | "lset" | "lrange" | "lpos" => {}
            // Other commands are not predicted, so assume that no stored elements remain.
            _ => (self.count, self.added) = (0, (0, 0)),
        }
        None
    }

    fn take_left(&mut self) -> Option<i64> {
        let taken = self.head;
        if self.added.0 > 0 {
            self.added.0 -= 1;
        } else if self.count > 0 {
            self.count -= 1;
            self.head = self.head.wrapping_add(1);
            return Some(taken);
        } else {
            self.added.1 = self.added.1.saturating_sub(1);
        }
        None
    }

    fn take_right(&mut self) -> Option<i64> {
        if self.added.1 > 0 {
            self.added.1 -= 1;
        } else if self.count > 0 {
            self.count -= 1;
            return Some(self.head.wrapping_add_unsigned(self.count));
        } else {
            self.added.0 = self.added.0.saturating_sub(1);
        }
        None
    }
}

/// Prefetches up to `most` elements that the commands name.
pub(super) fn read_ahead<'a>(
    commands: impl Iterator<Item = &'a (&'static CommandSpec, Args<'a>)>,
    transaction: &mut CommandTransaction<'_>,
    most: usize,
) -> Result<(), CommandError> {
    let elements = named(commands, transaction, most);
    transaction.prefetch_elements(elements)
}

/// Returns the keys of up to `most` elements that the commands name. Returns an empty list if there
/// are too few to justify a batched read.
fn named<'a>(
    commands: impl Iterator<Item = &'a (&'static CommandSpec, Args<'a>)>,
    transaction: &CommandTransaction<'_>,
    most: usize,
) -> Vec<InnerKey> {
    let database = transaction.database;
    let (mut places, mut from) = (Vec::new(), 0);
    let (mut last, mut ends) = (None, None);
    for (command, args) in commands {
        let named = ElementArguments::of(command, *args);
        if named.is_none() && command.group != "list" {
            continue;
        }
        let Some(key) = args.get(1) else { continue };
        if last.is_none_or(|(name, _)| name != key) {
            let collection = transaction.known_collection(key, &mut from);
            last = Some((key, collection));
            let list = collection.filter(|collection| collection.kind == CollectionKind::List);
            ends = list.as_ref().map(PredictedListEnds::of);
        }
        if let Some(ends) = &mut ends {
            if places.len() == most {
                return places;
            }
            let position = ends.pass(command, *args);
            let place = |position| format::position_key(database, ends.number, position);
            places.extend(position.map(place));
            continue;
        }
        let (Some(named), Some((_, Some(collection)))) = (named, last) else {
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
                CollectionKind::SortedSet => format::sorted_member_key(database, number, name),
                _ => format::member_key(database, number, name),
            });
        }
    }
    if places.len() < 2 {
        places.clear();
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::resp::{ParsedRequests, RequestLimits, RequestParser};
    use crate::redis::names;

    /// Returns the predicted positions of the elements that the commands pop. The list has three
    /// stored elements, the first at position 10.
    fn taken(lines: &str) -> Vec<Option<i64>> {
        let list = CollectionHeader {
            kind: CollectionKind::List,
            expires_ms: 0,
            number: 1,
            count: 3,
            head: 10,
            is_counted: false,
            is_new: false,
        };
        let mut ends = PredictedListEnds::of(&list);
        let (mut buffer, mut requests) = (lines.replace(", ", "\n").into_bytes(), ParsedRequests::default());
        buffer.push(b'\n');
        let limits = RequestLimits {
            arguments: 9,
            ..RequestLimits::STRANGER
        };
        let parsed = RequestParser::default().parse(&mut buffer, &mut requests, &limits, 99);
        parsed.unwrap();
        let args = (0..requests.len()).map(|index| requests.get(index, &buffer));
        args.map(|args| ends.pass(names::find(args.at(0)).unwrap(), args))
            .collect()
    }

    #[test]
    fn what_is_popped_is_what_was_there_before_unless_it_was_pushed_just_now() {
        let pops = |lines| taken(lines).into_iter().flatten().collect::<Vec<_>>();
        assert_eq!(pops("lpop l, rpop l, lpop l, lpop l, rpop l"), [10, 12, 11]);
        assert_eq!(
            taken("lpush l a b, lpop l, rpop l, lpop l, lpop l"),
            [None, None, Some(12), None, Some(10)]
        );
        assert_eq!(
            pops("rpush l a b, lpop l, lpop l, lpop l, lpop l, rpop l, rpop l"),
            [10, 11, 12]
        );
        assert_eq!(
            pops("rpush l a, rpop l, rpop l, lindex l 0, llen l, rpop l"),
            [12, 11]
        );
        assert_eq!(pops("rpop l, ltrim l 1 2, rpop l, lpop l"), [12]);
        assert_eq!(pops("lpop l, lpop l 1, lpop l"), [10]);
    }
}
