//! Transactions.

use crate::boundary::{ResultPlace, bytes, call, free, given, optional_bytes, optional_text, owned};
use crate::error::AlluviumError;
use crate::iterator::{AlluviumRange, with_range};
use crate::keyspace::{AlluviumKeyspace, found, time};
use crate::store::AlluviumStore;
use crate::value::AlluviumValue;
use alluvium::{Durability, TransactionOptions};
use alluvium_handles::{HandleError, TransactionHandle, TransactionRead};
use std::ffi::c_char;
use std::ptr;

/// A transaction. All functions can be called from any thread, also at the same time.
pub struct AlluviumTransaction {
    pub(crate) handle: TransactionHandle,
}

/// Begins a transaction. `options_text` is `NULL`, or has the syntax of the command line, such as
/// "--isolation snapshot --locking --lock-timeout 5s".
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_transaction_begin(
    store: Option<&AlluviumStore>,
    options_text: *const c_char,
    transaction: *mut *mut AlluviumTransaction,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (place, text) = unsafe {
            (
                ResultPlace::new(transaction, ptr::null_mut())?,
                optional_text(options_text)?,
            )
        };
        let options: TransactionOptions = text.unwrap_or_default().parse()?;
        let handle = given(store)?.handle.begin(&options)?;
        place.set(owned(AlluviumTransaction { handle }));
        Ok(())
    })
}

/// The transaction depends on the key as its isolation says.
pub const ALLUVIUM_READ_TRACKED: u32 = 0;
/// The transaction does not depend on the key.
pub const ALLUVIUM_READ_UNTRACKED: u32 = 1;
/// The commit conflicts if the key changes, at any isolation; a locking transaction locks it, and
/// others may read it.
pub const ALLUVIUM_READ_SHARED: u32 = 2;
/// Like ALLUVIUM_READ_SHARED, with an exclusive lock.
pub const ALLUVIUM_READ_FOR_UPDATE: u32 = 3;

/// Returns the value of a key as the transaction sees it, or `NULL` if the key is absent.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_transaction_get(
    transaction: Option<&AlluviumTransaction>,
    keyspace: Option<&AlluviumKeyspace>,
    key: *const u8,
    key_length: usize,
    dependence: u32,
    value: *mut *mut AlluviumValue,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (place, key) = unsafe { (ResultPlace::new(value, ptr::null_mut())?, bytes(key, key_length)?) };
        let read = match dependence {
            ALLUVIUM_READ_TRACKED => TransactionRead::Tracked,
            ALLUVIUM_READ_UNTRACKED => TransactionRead::Untracked,
            ALLUVIUM_READ_SHARED => TransactionRead::Shared,
            ALLUVIUM_READ_FOR_UPDATE => TransactionRead::ForUpdate,
            other => {
                let text = format!("{other} is no kind of read: use one of the ALLUVIUM_READ constants");
                return Err(HandleError::argument(text));
            }
        };
        let transaction = &given(transaction)?.handle;
        place.set(found(transaction.get(&given(keyspace)?.handle, key, read)?));
        Ok(())
    })
}

/// Sets the value of a key in the transaction: see `alluvium_put`.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_transaction_put(
    transaction: Option<&AlluviumTransaction>,
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
        given(transaction)?.handle.with(|transaction| match expires_ms {
            0 => Ok(transaction.put(keyspace, key, value)?),
            ms => Ok(transaction.put_until(keyspace, key, value, time(ms)?)?),
        })
    })
}

/// Deletes a key in the transaction: see `alluvium_delete`.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_transaction_delete(
    transaction: Option<&AlluviumTransaction>,
    keyspace: Option<&AlluviumKeyspace>,
    key: *const u8,
    key_length: usize,
    at_ms: u64,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let key = unsafe { bytes(key, key_length) }?;
        let keyspace = given(keyspace)?.inner()?;
        given(transaction)?.handle.with(|transaction| match at_ms {
            0 => Ok(transaction.delete(keyspace, key)?),
            ms => Ok(transaction.delete_at(keyspace, key, time(ms)?)?),
        })
    })
}

/// Deletes a range in the transaction: see `alluvium_delete_range`.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_transaction_delete_range(
    transaction: Option<&AlluviumTransaction>,
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
        given(transaction)?
            .handle
            .with(|transaction| Ok(transaction.delete_range(keyspace, start, end)?))
    })
}

/// Merges an operand in the transaction: see `alluvium_merge`.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_transaction_merge(
    transaction: Option<&AlluviumTransaction>,
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
        given(transaction)?
            .handle
            .with(|transaction| Ok(transaction.merge(keyspace, key, operand)?))
    })
}

/// Makes the commit conflict if another changes any key of a range, at any isolation.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_transaction_depend_on_range(
    transaction: Option<&AlluviumTransaction>,
    keyspace: Option<&AlluviumKeyspace>,
    range: Option<&AlluviumRange>,
) -> *mut AlluviumError {
    call(|| {
        let (transaction, keyspace) = (&given(transaction)?.handle, &given(keyspace)?.handle);
        // SAFETY: B1.
        unsafe { with_range(range, |range| transaction.depend_on_range(keyspace, range)) }
    })
}

/// Marks a place to which `alluvium_transaction_rollback_to` returns, and writes its number to
/// `savepoint`. Nothing needs to be freed.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_transaction_savepoint(
    transaction: Option<&AlluviumTransaction>,
    savepoint: *mut u64,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let place = unsafe { ResultPlace::new(savepoint, 0) }?;
        place.set(given(transaction)?.handle.savepoint()?);
        Ok(())
    })
}

/// Takes back all writes of the transaction after a savepoint, which remains.
#[unsafe(no_mangle)]
pub extern "C" fn alluvium_transaction_rollback_to(
    transaction: Option<&AlluviumTransaction>,
    savepoint: u64,
) -> *mut AlluviumError {
    call(|| given(transaction)?.handle.rollback_to(savepoint))
}

/// Removes a savepoint and those after it. Their writes remain.
#[unsafe(no_mangle)]
pub extern "C" fn alluvium_transaction_release(
    transaction: Option<&AlluviumTransaction>,
    savepoint: u64,
) -> *mut AlluviumError {
    call(|| given(transaction)?.handle.release(savepoint))
}

/// Commits the transaction: all of it takes effect, or nothing and there is an error. It has ended
/// in both cases. `durability` is "memory", "process" or "disk", or `NULL` for that of the
/// transaction.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_transaction_commit(
    transaction: Option<&AlluviumTransaction>,
    durability: *const c_char,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let durability = unsafe { optional_text(durability) }?;
        let durability = durability.map(str::parse::<Durability>).transpose()?;
        given(transaction)?.handle.commit(durability)
    })
}

/// Rolls the transaction back.
#[unsafe(no_mangle)]
pub extern "C" fn alluvium_transaction_rollback(
    transaction: Option<&AlluviumTransaction>,
) -> *mut AlluviumError {
    call(|| given(transaction)?.handle.rollback())
}

/// Frees a transaction. One that is open is rolled back. `NULL` is allowed.
///
/// # Safety
/// B1; the transaction is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_transaction_free(transaction: *mut AlluviumTransaction) {
    // SAFETY: B1.
    unsafe { free(transaction) };
}
