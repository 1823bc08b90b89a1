//! Batches of writes, and ingests.

use crate::boundary::{ResultPlace, bytes, call, free, given, optional_bytes, optional_text, owned};
use crate::error::AlluviumError;
use crate::keyspace::{AlluviumKeyspace, time};
use alluvium::{Durability, WriteBatch};
use alluvium_handles::{HandleError, IngestHandle, Result, page};
use parking_lot::Mutex;
use std::ffi::c_char;
use std::ptr;

/// Writes that take effect together.
pub struct AlluviumBatch {
    batch: Mutex<WriteBatch>,
}

impl AlluviumBatch {
    pub(crate) fn with<T>(&self, body: impl FnOnce(&mut WriteBatch) -> Result<T>) -> Result<T> {
        body(&mut self.batch.lock())
    }
}

/// Calls `body` with each record of a page.
fn each_record(mut rest: &[u8], mut body: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
    let whole = rest.len();
    while !rest.is_empty() {
        let Some((key, value, behind)) = page::next_record(rest) else {
            let at = whole - rest.len();
            let text = format!(
                "the page of {whole} bytes has no whole record at byte {at}: write records as alluvium_page_put does"
            );
            return Err(HandleError::argument(text));
        };
        body(key, value)?;
        rest = behind;
    }
    Ok(())
}

/// Creates an empty batch. `durability` is "memory", "process" or "disk", or `NULL` for that of the
/// store.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_batch_create(
    durability: *const c_char,
    batch: *mut *mut AlluviumBatch,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (place, durability) = unsafe {
            (
                ResultPlace::new(batch, ptr::null_mut())?,
                optional_text(durability)?,
            )
        };
        let batch = match durability {
            None => WriteBatch::new(),
            Some(text) => WriteBatch::new().durability(text.parse::<Durability>()?),
        };
        place.set(owned(AlluviumBatch {
            batch: Mutex::new(batch),
        }));
        Ok(())
    })
}

/// Adds a put: see `alluvium_put`.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_batch_put(
    batch: Option<&AlluviumBatch>,
    keyspace: Option<&AlluviumKeyspace>,
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
    expires_ms: u64,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (key, value) = unsafe { (bytes(key, key_length)?, bytes(value, value_length)?) };
        let keyspace = given(keyspace)?.inner()?;
        given(batch)?.with(|batch| {
            match expires_ms {
                0 => batch.put(keyspace, key, value)?,
                ms => batch.put_until(keyspace, key, value, time(ms)?)?,
            };
            Ok(())
        })
    })
}

/// Adds a put for each record of a page, whose layout is that of `alluvium_iterator_page`. After
/// an error, the batch has some of them.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_batch_put_page(
    batch: Option<&AlluviumBatch>,
    keyspace: Option<&AlluviumKeyspace>,
    records: *const u8,
    length: usize,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let records = unsafe { bytes(records, length) }?;
        let keyspace = given(keyspace)?.inner()?;
        given(batch)?.with(|batch| {
            each_record(records, |key, value| {
                batch.put(keyspace, key, value)?;
                Ok(())
            })
        })
    })
}

/// Adds a delete: see `alluvium_delete`.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_batch_delete(
    batch: Option<&AlluviumBatch>,
    keyspace: Option<&AlluviumKeyspace>,
    key: *const u8,
    key_length: usize,
    at_ms: u64,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let key = unsafe { bytes(key, key_length) }?;
        let keyspace = given(keyspace)?.inner()?;
        given(batch)?.with(|batch| {
            match at_ms {
                0 => batch.delete(keyspace, key)?,
                ms => batch.delete_at(keyspace, key, time(ms)?)?,
            };
            Ok(())
        })
    })
}

/// Adds a range delete: see `alluvium_delete_range`.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_batch_delete_range(
    batch: Option<&AlluviumBatch>,
    keyspace: Option<&AlluviumKeyspace>,
    start: *const u8,
    start_length: usize,
    end: *const u8,
    end_length: usize,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (start, end) = unsafe { (bytes(start, start_length)?, optional_bytes(end, end_length)?) };
        let keyspace = given(keyspace)?.inner()?;
        given(batch)?.with(|batch| {
            batch.delete_range(keyspace, start, end)?;
            Ok(())
        })
    })
}

/// Adds a merge: see `alluvium_merge`.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_batch_merge(
    batch: Option<&AlluviumBatch>,
    keyspace: Option<&AlluviumKeyspace>,
    key: *const u8,
    key_length: usize,
    operand: *const u8,
    operand_length: usize,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (key, operand) = unsafe { (bytes(key, key_length)?, bytes(operand, operand_length)?) };
        let keyspace = given(keyspace)?.inner()?;
        given(batch)?.with(|batch| {
            batch.merge(keyspace, key, operand)?;
            Ok(())
        })
    })
}

/// Returns the number of writes in a batch, or 0 for `NULL`.
#[unsafe(no_mangle)]
pub extern "C" fn alluvium_batch_count(batch: Option<&AlluviumBatch>) -> usize {
    batch.map_or(0, |batch| batch.batch.lock().len())
}

/// Removes all writes from a batch.
#[unsafe(no_mangle)]
pub extern "C" fn alluvium_batch_clear(batch: Option<&AlluviumBatch>) {
    if let Some(batch) = batch {
        batch.batch.lock().clear();
    }
}

/// Frees a batch. `NULL` is allowed.
///
/// # Safety
/// B1; the batch is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_batch_free(batch: *mut AlluviumBatch) {
    // SAFETY: B1.
    unsafe { free(batch) };
}

/// A load of records in the order of their keys, which does not use the log.
pub struct AlluviumIngest {
    handle: IngestHandle,
}

/// Begins to load records in the order of their keys. They become visible together.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_ingest_begin(
    keyspace: Option<&AlluviumKeyspace>,
    ingest: *mut *mut AlluviumIngest,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let place = unsafe { ResultPlace::new(ingest, ptr::null_mut()) }?;
        let handle = given(keyspace)?.handle.ingest()?;
        place.set(owned(AlluviumIngest { handle }));
        Ok(())
    })
}

/// Adds the records of a page, whose layout is that of `alluvium_iterator_page`. Each key must be
/// greater than the one before it. A record that is refused, and those after it, are left out; the
/// ingest can continue with other records.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_ingest_put_page(
    ingest: Option<&AlluviumIngest>,
    records: *const u8,
    length: usize,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let records = unsafe { bytes(records, length) }?;
        let ingest = given(ingest)?;
        each_record(records, |key, value| ingest.handle.put(key, value))
    })
}

/// Makes all records of an ingest visible, and writes their number to `count`.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_ingest_finish(
    ingest: Option<&AlluviumIngest>,
    count: *mut u64,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let place = unsafe { ResultPlace::new(count, 0) }?;
        place.set(given(ingest)?.handle.finish()?);
        Ok(())
    })
}

/// Frees an ingest. One that was not finished writes nothing. `NULL` is allowed.
///
/// # Safety
/// B1; the ingest is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_ingest_free(ingest: *mut AlluviumIngest) {
    // SAFETY: B1.
    unsafe { free(ingest) };
}
