//! Iterators.

use crate::boundary::{ResultPlace, bytes, call, free, given, optional_bytes, owned};
use crate::error::AlluviumError;
use crate::keyspace::AlluviumKeyspace;
use crate::snapshot::AlluviumSnapshot;
use crate::transaction::AlluviumTransaction;
use alluvium_handles::{HandleError, Result, WalkDirection, WalkHandle, WalkRange};
use std::ops::Bound;
use std::ptr;

/// `start` is a prefix, with which all keys of the range begin. `end` is `NULL`.
pub const ALLUVIUM_RANGE_PREFIX: u32 = 1;
/// The range begins after `start`, not with it.
pub const ALLUVIUM_RANGE_AFTER_START: u32 = 2;
/// The range ends with `end`, not before it.
pub const ALLUVIUM_RANGE_THROUGH_END: u32 = 4;
/// Values are empty, and long ones are not read.
pub const ALLUVIUM_RANGE_KEYS_ONLY: u32 = 8;
/// The records have no order. Hashed keyspaces need this; there must be no bounds.
pub const ALLUVIUM_RANGE_UNORDERED: u32 = 16;

const RANGE_FLAGS: u32 = 31;

/// A range of keys. Set it to zero for a whole keyspace.
#[repr(C)]
pub struct AlluviumRange {
    /// The first key of the range, or `NULL` for the first of the keyspace.
    pub start: *const u8,
    /// Its length.
    pub start_length: usize,
    /// The range ends before this key, or at the end of the keyspace for `NULL`.
    pub end: *const u8,
    /// Its length.
    pub end_length: usize,
    /// The sum of any of the ALLUVIUM_RANGE constants.
    pub flags: u32,
}

/// Calls `body` with a range of the caller.
///
/// # Safety
/// B1.
pub(crate) unsafe fn with_range<T>(
    range: Option<&AlluviumRange>,
    body: impl FnOnce(&WalkRange<'_>) -> Result<T>,
) -> Result<T> {
    let Some(range) = range else {
        return body(&WalkRange::default());
    };
    // SAFETY: B1.
    let (start, end) = unsafe {
        (
            optional_bytes(range.start, range.start_length)?,
            optional_bytes(range.end, range.end_length)?,
        )
    };
    let has = |flag: u32| range.flags & flag != 0;
    if range.flags & !RANGE_FLAGS != 0 {
        let text = format!("{} is no sum of ALLUVIUM_RANGE flags: correct it", range.flags);
        return Err(HandleError::argument(text));
    }
    let prefix_end;
    let (start, end) = if has(ALLUVIUM_RANGE_PREFIX) {
        if end.is_some() || has(ALLUVIUM_RANGE_AFTER_START) || has(ALLUVIUM_RANGE_THROUGH_END) {
            return Err(HandleError::argument(
                "a prefix has no end and no flags of bounds: leave them out",
            ));
        }
        let prefix = start.unwrap_or_default();
        prefix_end = WalkRange::end_of_prefix(prefix);
        let end = prefix_end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        (Bound::Included(prefix), end)
    } else {
        let start = match start {
            None => Bound::Unbounded,
            Some(key) if has(ALLUVIUM_RANGE_AFTER_START) => Bound::Excluded(key),
            Some(key) => Bound::Included(key),
        };
        let end = match end {
            None => Bound::Unbounded,
            Some(key) if has(ALLUVIUM_RANGE_THROUGH_END) => Bound::Included(key),
            Some(key) => Bound::Excluded(key),
        };
        (start, end)
    };
    body(&WalkRange {
        start,
        end,
        omits_values: has(ALLUVIUM_RANGE_KEYS_ONLY),
        is_unordered: has(ALLUVIUM_RANGE_UNORDERED),
    })
}

/// An iterator over the records of a range, as of the moment in which it was created.
pub struct AlluviumIterator {
    pub(crate) handle: WalkHandle,
}

/// Creates an iterator over a range of a keyspace. `snapshot` is `NULL`, or the moment to read. A
/// `range` of `NULL` is the whole keyspace.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_iterator_create(
    keyspace: Option<&AlluviumKeyspace>,
    snapshot: Option<&AlluviumSnapshot>,
    range: Option<&AlluviumRange>,
    iterator: *mut *mut AlluviumIterator,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let place = unsafe { ResultPlace::new(iterator, ptr::null_mut()) }?;
        let keyspace = &given(keyspace)?.handle;
        let snapshot = snapshot.map(|snapshot| &snapshot.handle);
        // SAFETY: B1.
        let handle = unsafe { with_range(range, |range| keyspace.walk(snapshot, range)) }?;
        place.set(owned(AlluviumIterator { handle }));
        Ok(())
    })
}

/// Creates an iterator over a range of a keyspace as a transaction sees it. When the transaction
/// ends, the iterator answers with ALLUVIUM_ENDED.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_transaction_iterator(
    transaction: Option<&AlluviumTransaction>,
    keyspace: Option<&AlluviumKeyspace>,
    range: Option<&AlluviumRange>,
    iterator: *mut *mut AlluviumIterator,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let place = unsafe { ResultPlace::new(iterator, ptr::null_mut()) }?;
        let (transaction, keyspace) = (&given(transaction)?.handle, &given(keyspace)?.handle);
        // SAFETY: B1.
        let handle = unsafe { with_range(range, |range| transaction.walk(keyspace, range)) }?;
        place.set(owned(AlluviumIterator { handle }));
        Ok(())
    })
}

/// The next records in the order of the keys.
pub const ALLUVIUM_FORWARD: u32 = 0;
/// The next records from the end of the range, against the order of the keys.
pub const ALLUVIUM_BACKWARD: u32 = 1;

/// Fills a buffer with the next records from one end of the range, and writes the number of bytes
/// to `filled` and the number of records to `count`. Read the records with `alluvium_page_next`. At
/// the end, both are 0. If the buffer is too short for the next record, `count` is 0 and `filled`
/// is the size that it needs; nothing is skipped. An iterator can be used from both ends, and is at
/// its end where they meet.
///
/// A record is the length of its key and the length of its value, both with 4 bytes in
/// little-endian order, and then the key and the value.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_iterator_page(
    iterator: Option<&AlluviumIterator>,
    direction: u32,
    buffer: *mut u8,
    size: usize,
    filled: *mut usize,
    count: *mut usize,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (filled, count) = unsafe { (ResultPlace::new(filled, 0)?, ResultPlace::new(count, 0)?) };
        let direction = match direction {
            ALLUVIUM_FORWARD => WalkDirection::Forward,
            ALLUVIUM_BACKWARD => WalkDirection::Backward,
            other => {
                let text = format!("{other} is no direction: use ALLUVIUM_FORWARD or ALLUVIUM_BACKWARD");
                return Err(HandleError::argument(text));
            }
        };
        let iterator = &given(iterator)?.handle;
        // Checks the pointer and the length.
        // SAFETY: B1.
        unsafe { bytes(buffer.cast_const(), size) }?;
        let page: &mut [u8] = match buffer.is_null() {
            true => &mut [],
            // SAFETY: B1.
            false => unsafe { std::slice::from_raw_parts_mut(buffer, size) },
        };
        let extent = iterator.fill(direction, page)?;
        filled.set(extent.bytes);
        count.set(extent.records);
        Ok(())
    })
}

/// Moves the front of an iterator to the first key that is not less than `key`. Unordered iterators
/// and those of transactions cannot seek.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_iterator_seek(
    iterator: Option<&AlluviumIterator>,
    key: *const u8,
    key_length: usize,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let key = unsafe { bytes(key, key_length) }?;
        given(iterator)?.handle.seek(key)
    })
}

/// Frees an iterator. `NULL` is allowed.
///
/// # Safety
/// B1; the iterator is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_iterator_free(iterator: *mut AlluviumIterator) {
    // SAFETY: B1.
    unsafe { free(iterator) };
}
