//! The commands SORT and SORT_RO. They sort the elements of a list, a set or a sorted set, either
//! by their own values or by the values of other keys.

use super::lists;
use crate::error::{CommandError, CommandResult};
use crate::protocol::resp::{Args, ReplyWriter, number};
use crate::redis::args::{OptionParser, check_room, integer, is, name};
use crate::redis::string_store::AT_ONCE;
use crate::store::model::format::{self, InnerKey};
use crate::store::model::{CollectionHeader, CollectionKind, RecordBytes, TypedValue};
use crate::store::{CommandTransaction, StagingWriter, WalkDirection, WorkingMemory};
use std::cmp::Ordering;
use std::ops::{ControlFlow, Range};

/// Memory overhead of an element in bytes: its entries in the lists of elements and sort keys, an
/// allocation, and its framing in the reply.
const PER_ELEMENT: usize = 160;

/// Whether a command may store its result in a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SortAccess {
    Stores,
    OnlyReads,
}

/// A pattern from a BY or GET option.
#[derive(Clone, Copy)]
enum SortPattern<'a> {
    /// The pattern `#`, which stands for the element itself.
    Element,
    /// The value of a key or of a hash field. Inserting the element between the two parts of the
    /// pattern yields the key's name.
    Key {
        before: &'a [u8],
        behind: &'a [u8],
        field: Option<&'a [u8]>,
    },
    /// A pattern without a placeholder, which yields no value.
    Nothing,
}

impl<'a> SortPattern<'a> {
    fn read(text: &'a [u8]) -> SortPattern<'a> {
        if text == b"#" {
            return SortPattern::Element;
        }
        let Some(star) = text.iter().position(|&byte| byte == b'*') else {
            return SortPattern::Nothing;
        };
        let (before, behind) = (&text[..star], &text[star + 1..]);
        let arrow = behind.windows(2).position(|two| two == b"->");
        match arrow.filter(|&arrow| arrow + 2 < behind.len()) {
            Some(arrow) => SortPattern::Key {
                before,
                behind: &behind[..arrow],
                field: Some(&behind[arrow + 2..]),
            },
            None => SortPattern::Key {
                before,
                behind,
                field: None,
            },
        }
    }
}

/// The parsed arguments of the command.
struct SortRequest<'a> {
    /// The pattern that determines the sort key, or `None` to sort elements by their own values.
    by: Option<SortPattern<'a>>,
    /// Whether to return the elements unsorted.
    is_unsorted: bool,
    is_text: bool,
    is_backward: bool,
    /// Number of elements to skip, and maximum number to return. A negative maximum means no limit.
    limit: (i64, i64),
    gets: Vec<SortPattern<'a>>,
    stored: Option<&'a [u8]>,
}

impl<'a> SortRequest<'a> {
    fn read(args: Args<'a>, what_for: SortAccess) -> Result<SortRequest<'a>, CommandError> {
        let mut wish = SortRequest {
            by: None,
            is_unsorted: false,
            is_text: false,
            is_backward: false,
            limit: (0, -1),
            gets: Vec::new(),
            stored: None,
        };
        let mut options = OptionParser::new(args, 2);
        while let Some(word) = options.next() {
            let left = options.left();
            if is(word, "ASC") {
                wish.is_backward = false;
            } else if is(word, "DESC") {
                wish.is_backward = true;
            } else if is(word, "ALPHA") {
                wish.is_text = true;
            } else if is(word, "LIMIT") && left >= 2 {
                wish.limit = (integer(options.value()?)?, integer(options.value()?)?);
            } else if is(word, "STORE") && left >= 1 && what_for == SortAccess::Stores {
                wish.stored = Some(options.value()?);
            } else if is(word, "BY") && left >= 1 {
                let text = options.value()?;
                wish.is_unsorted |= !text.contains(&b'*');
                wish.by = Some(SortPattern::read(text));
            } else if is(word, "GET") && left >= 1 {
                wish.gets.push(SortPattern::read(options.value()?));
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(wish)
    }

    /// Returns the range of indexes to return out of `count` elements.
    fn window(&self, count: u64) -> Range<u64> {
        let start = u64::try_from(self.limit.0).unwrap_or(0).min(count);
        let end = match u64::try_from(self.limit.1) {
            Ok(most) => start.saturating_add(most).min(count),
            Err(_) => count,
        };
        start..end
    }
}

/// Returns the key in which a command stores its result, if any.
pub(crate) fn stored_key<'a>(args: Args<'a>) -> Option<&'a [u8]> {
    SortRequest::read(args, SortAccess::Stores).ok()?.stored
}

/// Returns whether a command has a pattern and therefore reads keys that are not among its
/// arguments.
pub(crate) fn reads_other_keys(args: Args<'_>) -> bool {
    let is_key = |pattern: &SortPattern<'_>| matches!(pattern, SortPattern::Key { .. });
    SortRequest::read(args, SortAccess::Stores)
        .is_ok_and(|wish| wish.by.as_ref().is_some_and(is_key) || wish.gets.iter().any(is_key))
}

/// The value by which an element is sorted.
enum SortKey {
    Number(f64),
    Text(Option<Vec<u8>>),
    /// The element's own text.
    Itself,
}

impl SortKey {
    fn number(text: Option<&[u8]>) -> Result<SortKey, CommandError> {
        const ERROR: CommandError =
            CommandError::say("ERR One or more scores can't be converted into double");
        let number = text.map_or(Some(0.0), number::bound);
        Ok(SortKey::Number(number.ok_or(ERROR)?))
    }
}

/// Compares two elements by their sort keys. Equal numeric sort keys are ordered by the elements'
/// own bytes.
fn compare((one, one_weight): &(Vec<u8>, SortKey), (other, other_weight): &(Vec<u8>, SortKey)) -> Ordering {
    match (one_weight, other_weight) {
        (SortKey::Number(one_number), SortKey::Number(other_number)) => one_number
            .partial_cmp(other_number)
            .unwrap_or(Ordering::Equal)
            .then_with(|| one.cmp(other)),
        (SortKey::Text(one), SortKey::Text(other)) => one.cmp(other),
        _ => one.cmp(other),
    }
}

/// Returns the pattern's value for each element.
fn look_up(
    transaction: &CommandTransaction<'_>,
    pattern: &SortPattern<'_>,
    elements: &[&[u8]],
) -> Result<Vec<Option<Vec<u8>>>, CommandError> {
    let (before, behind, field) = match *pattern {
        SortPattern::Element => return Ok(elements.iter().map(|&element| Some(element.to_vec())).collect()),
        SortPattern::Nothing => return Ok(vec![None; elements.len()]),
        SortPattern::Key {
            before,
            behind,
            field,
        } => (before, behind, field),
    };
    let database = transaction.database;
    let key = |element: &&[u8]| format::record_key(database, &[before, element, behind].concat());
    let keys: Vec<InnerKey> = elements.iter().map(key).collect();
    let mut found = Vec::with_capacity(keys.len());
    let mut fields = Vec::new();
    for (index, record) in transaction.multi_get(&keys)?.into_iter().enumerate() {
        let entry = match &record {
            Some(record) => TypedValue::read(RecordBytes::Borrowed(record), transaction.now_ms)?,
            None => None,
        };
        found.push(match (entry, field) {
            (Some(TypedValue::Text(text)), None) => Some(text.to_vec()),
            (Some(TypedValue::Collection(hash)), Some(field)) if hash.kind == CollectionKind::Hash => {
                fields.push((index, format::member_key(database, hash.number, field)));
                None
            }
            _ => None,
        });
    }
    let keys: Vec<InnerKey> = fields.iter().map(|(_, key)| key.clone()).collect();
    for ((index, _), value) in fields.into_iter().zip(transaction.multi_get(&keys)?) {
        found[index] = value;
    }
    for value in found.iter().flatten() {
        transaction.store.sizes.note(value.len());
    }
    Ok(found)
}

/// The elements to sort, and their memory charge.
struct CollectedElements<'s> {
    elements: Vec<Vec<u8>>,
    working: WorkingMemory<'s>,
}

impl CollectedElements<'_> {
    fn push(&mut self, element: &[u8]) -> CommandResult {
        self.working.add(2 * element.len() + PER_ELEMENT)?;
        self.elements.push(element.to_vec());
        Ok(())
    }
}

/// Reads a collection's elements in a range of indexes, in collection order.
fn gather<'s>(
    transaction: &CommandTransaction<'s>,
    collection: &CollectionHeader,
    indexes: Range<u64>,
    direction: WalkDirection,
) -> Result<CollectedElements<'s>, CommandError> {
    let mut gathered = CollectedElements {
        elements: Vec::new(),
        working: WorkingMemory::new(transaction.store),
    };
    if collection.kind == CollectionKind::List {
        let indexes = match direction {
            WalkDirection::Forward => indexes,
            WalkDirection::Backward => collection.count - indexes.end..collection.count - indexes.start,
        };
        lists::visit(transaction, collection, indexes, direction, |_, element| {
            gathered.push(&element)?;
            Ok(ControlFlow::Continue(()))
        })?;
        return Ok(gathered);
    }
    let (database, number) = (transaction.database, collection.number);
    let (start, end) = match collection.kind {
        CollectionKind::SortedSet => format::scores(database, number),
        _ => {
            let start = format::elements(database, number);
            (start.clone(), format::behind(&start))
        }
    };
    let mut scan = transaction.scan(start, end, direction);
    for _ in 0..indexes.start {
        scan.next()?;
    }
    for _ in indexes {
        let Some((key, _)) = scan.next()? else { break };
        gathered.push(match collection.kind {
            CollectionKind::SortedSet => format::scored_member_of(&key).1,
            _ => format::member_of(&key).1,
        })?;
    }
    Ok(gathered)
}

fn order(
    transaction: &CommandTransaction<'_>,
    wish: &SortRequest<'_>,
    gathered: &mut CollectedElements<'_>,
) -> CommandResult {
    let elements = std::mem::take(&mut gathered.elements);
    let mut weighed = Vec::with_capacity(elements.len());
    match &wish.by {
        Some(pattern) => {
            let mut elements = elements.into_iter().peekable();
            while elements.peek().is_some() {
                let some: Vec<Vec<u8>> = elements.by_ref().take(at_once(transaction)).collect();
                let names: Vec<&[u8]> = some.iter().map(Vec::as_slice).collect();
                let values = look_up(transaction, pattern, &names)?;
                for (element, value) in some.into_iter().zip(values) {
                    let weight = if wish.is_text {
                        gathered.working.add(value.as_ref().map_or(0, Vec::len))?;
                        SortKey::Text(value)
                    } else {
                        SortKey::number(value.as_deref())?
                    };
                    weighed.push((element, weight));
                }
            }
        }
        None => {
            for element in elements {
                let weight = if wish.is_text {
                    SortKey::Itself
                } else {
                    SortKey::number(Some(&element))?
                };
                weighed.push((element, weight));
            }
        }
    }
    match wish.is_backward {
        true => weighed.sort_by(|one, other| compare(other, one)),
        false => weighed.sort_by(compare),
    }
    gathered.elements = weighed.into_iter().map(|(element, _)| element).collect();
    Ok(())
}

/// Returns the maximum number of values to look up at a time.
fn at_once(transaction: &CommandTransaction<'_>) -> usize {
    AT_ONCE.min(transaction.store.sizes.most())
}

/// For each element in order, calls `each` with the value of every GET pattern or, without GET
/// patterns, with the element.
fn results(
    transaction: &CommandTransaction<'_>,
    gets: &[SortPattern<'_>],
    elements: &[Vec<u8>],
    mut each: impl FnMut(Option<&[u8]>) -> CommandResult,
) -> CommandResult {
    if gets.is_empty() {
        return elements.iter().try_for_each(|element| each(Some(element)));
    }
    let mut rest = elements;
    while !rest.is_empty() {
        let rows = (at_once(transaction) / gets.len()).clamp(1, rest.len());
        let (some, others) = rest.split_at(rows);
        rest = others;
        if let [element] = some {
            // Look up one value at a time, because the element may have many patterns with long
            // values.
            for pattern in gets {
                let mut values = look_up(transaction, pattern, &[element])?;
                each(values.pop().flatten().as_deref())?;
            }
            continue;
        }
        let names: Vec<&[u8]> = some.iter().map(Vec::as_slice).collect();
        let mut columns = Vec::with_capacity(gets.len());
        for pattern in gets {
            columns.push(look_up(transaction, pattern, &names)?);
        }
        for row in 0..some.len() {
            columns
                .iter()
                .try_for_each(|column| each(column[row].as_deref()))?;
        }
    }
    Ok(())
}

/// Stores the values of the GET patterns as a list and returns their number.
fn store(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
    gets: &[SortPattern<'_>],
    elements: &[Vec<u8>],
) -> Result<u64, CommandError> {
    let mut list = transaction.new_collection(CollectionKind::List)?;
    let database = transaction.database;
    let mut staging = StagingWriter::new(transaction, database, list.number);
    results(transaction, gets, elements, |value| {
        let place = format::position_key(database, list.number, list.tail());
        list.count += 1;
        staging.put(place, value.unwrap_or_default().to_vec())
    })?;
    staging.finish(transaction)?;
    transaction.remove(key)?;
    if list.count > 0 {
        transaction.save(key, &list);
    }
    Ok(list.count)
}

fn run(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
    what_for: SortAccess,
) -> CommandResult {
    let mut wish = SortRequest::read(args, what_for)?;
    let stored = wish.stored.map(name).transpose()?;
    let collection = match transaction.entry(args.at(1))? {
        None => None,
        Some(TypedValue::Collection(collection)) if collection.kind != CollectionKind::Hash => {
            Some(collection)
        }
        Some(_) => return Err(CommandError::WRONG_TYPE),
    };
    if let Some(collection) = &collection
        && (wish.is_unsorted && stored.is_some() && collection.kind == CollectionKind::Set)
    {
        // A set has no order in which to store its elements, so sort them as text by their own
        // values.
        (wish.is_unsorted, wish.is_text, wish.by) = (false, true, None);
    }
    let elements = match &collection {
        None => Vec::new(),
        Some(collection) => {
            let window = wish.window(collection.count);
            if wish.is_unsorted {
                let direction = match wish.is_backward && collection.kind != CollectionKind::Set {
                    true => WalkDirection::Backward,
                    false => WalkDirection::Forward,
                };
                let gathered = gather(transaction, collection, window, direction)?;
                return finish(transaction, &wish, stored, &gathered.elements, reply);
            }
            let whole = 0..collection.count;
            let mut gathered = gather(transaction, collection, whole, WalkDirection::Forward)?;
            order(transaction, &wish, &mut gathered)?;
            let found = gathered.elements.len() as u64;
            let (start, end) = (window.start.min(found), window.end.min(found));
            let wanted = &gathered.elements[start as usize..end as usize];
            return finish(transaction, &wish, stored, wanted, reply);
        }
    };
    finish(transaction, &wish, stored, &elements, reply)
}

/// Writes the result as the reply or, with a STORE option, to a key.
fn finish(
    transaction: &mut CommandTransaction<'_>,
    wish: &SortRequest<'_>,
    stored: Option<&[u8]>,
    elements: &[Vec<u8>],
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    if let Some(key) = stored {
        let count = store(transaction, key, &wish.gets, elements)?;
        reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
        return Ok(());
    }
    reply.array(elements.len().saturating_mul(wish.gets.len().max(1)));
    results(transaction, &wish.gets, elements, |value| {
        reply.bulk_or_null(value);
        check_room(reply)
    })
}

pub(crate) fn sort(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    run(transaction, args, reply, SortAccess::Stores)
}

pub(crate) fn sort_ro(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    run(transaction, args, reply, SortAccess::OnlyReads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_keys_and_fields() {
        let parts = |text: &'static str| match SortPattern::read(text.as_bytes()) {
            SortPattern::Key {
                before,
                behind,
                field,
            } => [before, behind, field.unwrap_or(b"none")].map(|part| std::str::from_utf8(part).unwrap()),
            SortPattern::Element => ["element"; 3],
            SortPattern::Nothing => ["nothing"; 3],
        };
        assert_eq!(parts("w_*"), ["w_", "", "none"]);
        assert_eq!(parts("w_*_x->f"), ["w_", "_x", "f"]);
        assert_eq!(parts("w_*->"), ["w_", "->", "none"]);
        assert_eq!(parts("a->*"), ["a->", "", "none"]);
        assert_eq!(parts("*->a->b"), ["", "", "a->b"]);
        assert_eq!(parts("#"), ["element"; 3]);
        assert_eq!(parts("fixed"), ["nothing"; 3]);
    }

    #[test]
    fn a_window_lies_within_what_there_is() {
        let window = |limit| {
            let mut wish = SortRequest::read(Args::new(b"", &[]), SortAccess::Stores).unwrap();
            wish.limit = limit;
            wish.window(10)
        };
        assert_eq!(window((0, -1)), 0..10);
        assert_eq!(window((-5, 3)), 0..3);
        assert_eq!(window((8, 5)), 8..10);
        assert_eq!(window((20, 5)), 10..10);
        assert_eq!(window((i64::MAX, i64::MAX)), 10..10);
        assert_eq!(window((3, 0)), 3..3);
    }
}
