//! The commands LINSERT and LREM. They move the elements on one side of the changed position or, if
//! these are too large, rewrite the list under a new collection number.

use super::{CommandResult, place, stretch, visit};
use crate::error::CommandError;
use crate::store::model::{CollectionHeader, format};
use crate::store::{CommandTransaction, StagingWriter, WalkDirection};
use std::ops::{ControlFlow, Range};

/// Maximum total size in bytes of elements to move in place.
const MOVED: usize = 1 << 20;

/// Memory overhead of an element, in bytes, besides its content.
const ELEMENT_BYTES: usize = 64;

/// Returns the elements in a range of indexes, or `None` if they are too large to be moved in
/// place.
fn few(
    transaction: &CommandTransaction<'_>,
    list: &CollectionHeader,
    indexes: Range<u64>,
) -> Result<Option<Vec<Vec<u8>>>, CommandError> {
    if (indexes.end - indexes.start) > (MOVED / ELEMENT_BYTES) as u64 {
        return Ok(None);
    }
    let (mut found, mut bytes) = (Vec::new(), 0);
    visit(
        transaction,
        list,
        indexes,
        WalkDirection::Forward,
        |_, element| {
            bytes += element.len() + ELEMENT_BYTES;
            found.push(element);
            Ok(if bytes > MOVED {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        },
    )?;
    Ok((bytes <= MOVED).then_some(found))
}

/// Stores elements at consecutive positions, beginning with `position`.
fn put_all(
    transaction: &mut CommandTransaction<'_>,
    list: &CollectionHeader,
    position: i64,
    elements: Vec<Vec<u8>>,
) {
    let mut position = position;
    for element in elements {
        let place = place(transaction, list, position);
        transaction.put(place, element, 0);
        position = position.wrapping_add(1);
    }
}

/// A copy of a list being written under a new collection number.
struct ListRewrite<'s> {
    staging: StagingWriter<'s>,
    new: CollectionHeader,
    database: u8,
}

impl<'s> ListRewrite<'s> {
    fn new(
        transaction: &mut CommandTransaction<'s>,
        list: &CollectionHeader,
    ) -> Result<ListRewrite<'s>, CommandError> {
        let new = transaction.new_collection(list.kind)?;
        Ok(ListRewrite {
            staging: StagingWriter::new(transaction, transaction.database, new.number),
            new,
            database: transaction.database,
        })
    }

    fn push(&mut self, element: Vec<u8>) -> CommandResult {
        let place = format::position_key(self.database, self.new.number, self.new.tail());
        self.new.count += 1;
        self.staging.put(place, element)
    }

    /// Completes the copy and replaces the list stored under the key with it.
    fn finish(
        self,
        transaction: &mut CommandTransaction<'s>,
        key: &[u8],
        list: &CollectionHeader,
    ) -> CommandResult {
        self.staging.finish(transaction)?;
        transaction.replace(key, list, self.new);
        Ok(())
    }
}

/// Inserts an element before the element at an index. Returns the list's new length.
pub(super) fn insert(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
    mut list: CollectionHeader,
    at: u64,
    element: &[u8],
) -> Result<u64, CommandError> {
    let (before, behind) = (0..at, at..list.count);
    let is_nearer_to_start = at < list.count / 2;
    let side = if is_nearer_to_start { before } else { behind };
    let Some(mut moved) = few(transaction, &list, side)? else {
        let mut copy = ListRewrite::new(transaction, &list)?;
        visit(
            transaction,
            &list,
            0..list.count,
            WalkDirection::Forward,
            |index, other| {
                if index == at {
                    copy.push(element.to_vec())?;
                }
                copy.push(other)?;
                Ok(ControlFlow::Continue(()))
            },
        )?;
        if at == list.count {
            copy.push(element.to_vec())?;
        }
        let count = copy.new.count;
        copy.finish(transaction, key, &list)?;
        return Ok(count);
    };
    let position = if is_nearer_to_start {
        moved.push(element.to_vec());
        list.head = list.head.wrapping_sub(1);
        list.head
    } else {
        moved.insert(0, element.to_vec());
        list.head.wrapping_add_unsigned(at)
    };
    put_all(transaction, &list, position, moved);
    list.count += 1;
    transaction.save(key, &list);
    Ok(list.count)
}

/// The elements to remove: `count` elements equal to a value, the first of them at index `first`.
struct ListMatches {
    count: u64,
    first: u64,
}

/// Finds the elements equal to a value. A positive `count` limits the matches from the beginning of
/// the list, a negative one those from the end, and 0 means no limit. Returns `None` if no element
/// matches.
fn matches(
    transaction: &CommandTransaction<'_>,
    list: &CollectionHeader,
    element: &[u8],
    count: i64,
) -> Result<Option<ListMatches>, CommandError> {
    let most = if count == 0 {
        u64::MAX
    } else {
        count.unsigned_abs()
    };
    let direction = if count < 0 {
        WalkDirection::Backward
    } else {
        WalkDirection::Forward
    };
    let (mut taken, mut last, mut first) = (0, 0, None);
    visit(transaction, list, 0..list.count, direction, |step, other| {
        if other == element {
            taken += 1;
            last = step;
            first.get_or_insert(step);
        }
        Ok(if taken < most {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        })
    })?;
    let Some(first) = first else {
        return Ok(None);
    };
    // A backward search finds the match with the lowest index last.
    let first = match direction {
        WalkDirection::Forward => first,
        WalkDirection::Backward => list.count - 1 - last,
    };
    Ok(Some(ListMatches { count: taken, first }))
}

/// Removes elements equal to a value and returns their number. `count` has the same meaning as in
/// `matches`.
pub(super) fn remove(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
    mut list: CollectionHeader,
    element: &[u8],
    count: i64,
) -> Result<u64, CommandError> {
    let Some(ListMatches { count: gone, first }) = matches(transaction, &list, element, count)? else {
        return Ok(0);
    };
    if let Some(mut rest) = few(transaction, &list, first..list.count)? {
        let mut left = gone;
        rest.retain(|other| {
            let goes = left > 0 && other == element;
            left -= u64::from(goes);
            !goes
        });
        let old = stretch(transaction, &list, first..list.count, WalkDirection::Forward);
        transaction.delete_range(old.start, old.end);
        list.count = first + rest.len() as u64;
        let position = list.head.wrapping_add_unsigned(first);
        put_all(transaction, &list, position, rest);
        transaction.save(key, &list);
        return Ok(gone);
    }
    let mut copy = ListRewrite::new(transaction, &list)?;
    let mut left = gone;
    visit(
        transaction,
        &list,
        0..list.count,
        WalkDirection::Forward,
        |index, other| {
            if index >= first && left > 0 && other == element {
                left -= 1;
            } else {
                copy.push(other)?;
            }
            Ok(ControlFlow::Continue(()))
        },
    )?;
    if copy.new.count == 0 {
        list.count = 0;
        transaction.save(key, &list);
        return Ok(gone);
    }
    copy.finish(transaction, key, &list)?;
    Ok(gone)
}
