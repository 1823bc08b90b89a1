//! Keyspaces, and reads and writes of single keys.

use crate::boundary::{ResultPlace, bytes, call, free, given, optional_bytes, optional_text, owned, text};
use crate::error::AlluviumError;
use crate::store::AlluviumStore;
use crate::value::AlluviumValue;
use alluvium::{Keyspace, KeyspaceOptions, Value};
use alluvium_handles::{HandleError, KeyspaceHandle, Result};
use std::ffi::c_char;
use std::ptr;
use std::time::{Duration, SystemTime};

/// A keyspace: an ordered map from keys to values, or a hashed one. All functions can be called
/// from any thread, also at the same time.
pub struct AlluviumKeyspace {
    pub(crate) handle: KeyspaceHandle,
}

impl AlluviumKeyspace {
    pub(crate) fn inner(&self) -> Result<&Keyspace> {
        self.handle.inner()
    }
}

/// Converts milliseconds since 1970.
pub(crate) fn time(ms: u64) -> Result<SystemTime> {
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms));
    time.ok_or_else(|| HandleError::argument(format!("{ms} ms since 1970 is out of range")))
}

/// Passes the value of a key to the caller, or `NULL` if the key is absent.
pub(crate) fn found(value: Option<Value>) -> *mut AlluviumValue {
    value.map_or(ptr::null_mut(), |value| owned(AlluviumValue::record(value)))
}

/// Returns the keyspace with this name, and creates it if it does not exist. `options_text` is
/// `NULL`, or has the syntax of the command line, such as "--structure levels,k=4 --compression
/// zstd"; then an existing keyspace must have the same options.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_keyspace_open(
    store: Option<&AlluviumStore>,
    name: *const c_char,
    options_text: *const c_char,
    keyspace: *mut *mut AlluviumKeyspace,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (place, name, options) = unsafe {
            (
                ResultPlace::new(keyspace, ptr::null_mut())?,
                text(name)?,
                optional_text(options_text)?,
            )
        };
        let options = options.map(str::parse::<KeyspaceOptions>).transpose()?;
        let handle = given(store)?.handle.keyspace(name, options.as_ref())?;
        place.set(owned(AlluviumKeyspace { handle }));
        Ok(())
    })
}

/// Returns the existing keyspace with this name.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_keyspace_existing(
    store: Option<&AlluviumStore>,
    name: *const c_char,
    keyspace: *mut *mut AlluviumKeyspace,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (place, name) = unsafe { (ResultPlace::new(keyspace, ptr::null_mut())?, text(name)?) };
        let handle = given(store)?.handle.existing_keyspace(name)?;
        place.set(owned(AlluviumKeyspace { handle }));
        Ok(())
    })
}

/// Frees the handle of a keyspace; the keyspace remains. `NULL` is allowed.
///
/// # Safety
/// B1; the handle is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_keyspace_free(keyspace: *mut AlluviumKeyspace) {
    // SAFETY: B1.
    unsafe { free(keyspace) };
}

/// Drops a keyspace and everything in it.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_keyspace_drop(
    store: Option<&AlluviumStore>,
    name: *const c_char,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let name = unsafe { text(name) }?;
        Ok(given(store)?.db()?.drop_keyspace(name)?)
    })
}

/// Renames a keyspace. Its handles stay valid.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_keyspace_rename(
    store: Option<&AlluviumStore>,
    from: *const c_char,
    to: *const c_char,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (from, to) = unsafe { (text(from)?, text(to)?) };
        Ok(given(store)?.db()?.rename_keyspace(from, to)?)
    })
}

/// Estimates the number of keys of a keyspace.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_approximate_count(
    keyspace: Option<&AlluviumKeyspace>,
    count: *mut u64,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let place = unsafe { ResultPlace::new(count, 0) }?;
        place.set(given(keyspace)?.inner()?.approximate_len()?);
        Ok(())
    })
}

/// Returns the value of a key, or `NULL` if the key is absent.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_get(
    keyspace: Option<&AlluviumKeyspace>,
    key: *const u8,
    key_length: usize,
    value: *mut *mut AlluviumValue,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (place, key) = unsafe { (ResultPlace::new(value, ptr::null_mut())?, bytes(key, key_length)?) };
        place.set(found(given(keyspace)?.inner()?.get(key)?));
        Ok(())
    })
}

/// The length of a value whose key is absent.
pub const ALLUVIUM_ABSENT: usize = usize::MAX;

/// Copies the value of a key into a buffer, as much as fits, and writes the length of the value to
/// `length`, or ALLUVIUM_ABSENT.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_get_into(
    keyspace: Option<&AlluviumKeyspace>,
    key: *const u8,
    key_length: usize,
    buffer: *mut u8,
    size: usize,
    length: *mut usize,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (place, key) = unsafe {
            (
                ResultPlace::new(length, ALLUVIUM_ABSENT)?,
                bytes(key, key_length)?,
            )
        };
        let Some(value) = given(keyspace)?.inner()?.get(key)? else {
            return Ok(());
        };
        let copied = if buffer.is_null() {
            0
        } else {
            value.len().min(size)
        };
        if copied > 0 {
            // SAFETY: B1: there are `size` bytes, and the value is the library's.
            unsafe { ptr::copy_nonoverlapping(value.as_ptr(), buffer, copied) };
        }
        place.set(value.len());
        Ok(())
    })
}

/// Writes 1 to `found` if the key has a value, or else 0.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_contains(
    keyspace: Option<&AlluviumKeyspace>,
    key: *const u8,
    key_length: usize,
    found: *mut i32,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (place, key) = unsafe { (ResultPlace::new(found, 0)?, bytes(key, key_length)?) };
        place.set(i32::from(given(keyspace)?.inner()?.contains(key)?));
        Ok(())
    })
}

/// Reads many keys at once, which is faster than one after the other. Writes a value or `NULL` for
/// each of `count` keys. After an error, all values are `NULL`.
///
/// # Safety
/// B1; the arrays have `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_multi_get(
    keyspace: Option<&AlluviumKeyspace>,
    count: usize,
    keys: *const *const u8,
    key_lengths: *const usize,
    values: *mut *mut AlluviumValue,
) -> *mut AlluviumError {
    call(|| {
        if count == 0 {
            return Ok(());
        }
        if keys.is_null() || key_lengths.is_null() || values.is_null() {
            return Err(HandleError::argument(
                "an array is NULL: pass arrays of `count` elements",
            ));
        }
        let mut slices = Vec::with_capacity(count);
        for index in 0..count {
            // SAFETY: the promise of this function.
            unsafe {
                values.add(index).write(ptr::null_mut());
                slices.push(bytes(*keys.add(index), *key_lengths.add(index))?);
            }
        }
        let read = given(keyspace)?.inner()?.multi_get(slices)?;
        for (index, value) in read.into_iter().enumerate() {
            // SAFETY: the promise of this function.
            unsafe { values.add(index).write(found(value)) };
        }
        Ok(())
    })
}

/// Sets the value of a key. It expires `expires_ms` milliseconds after the beginning of 1970, or
/// never if that is 0.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_put(
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
        match expires_ms {
            0 => Ok(keyspace.put(key, value)?),
            ms => Ok(keyspace.put_until(key, value, time(ms)?)?),
        }
    })
}

/// Deletes a key, `at_ms` milliseconds after the beginning of 1970, or now if that is 0. An absent
/// key is no error.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_delete(
    keyspace: Option<&AlluviumKeyspace>,
    key: *const u8,
    key_length: usize,
    at_ms: u64,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let key = unsafe { bytes(key, key_length) }?;
        let keyspace = given(keyspace)?.inner()?;
        match at_ms {
            0 => Ok(keyspace.delete(key)?),
            ms => Ok(keyspace.delete_at(key, time(ms)?)?),
        }
    })
}

/// Deletes a key and returns the value that it had, or `NULL` if it was absent.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_take(
    keyspace: Option<&AlluviumKeyspace>,
    key: *const u8,
    key_length: usize,
    value: *mut *mut AlluviumValue,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (place, key) = unsafe { (ResultPlace::new(value, ptr::null_mut())?, bytes(key, key_length)?) };
        place.set(found(given(keyspace)?.inner()?.take(key)?));
        Ok(())
    })
}

/// Deletes all keys from `start` to before `end`. An `end` of `NULL` stands for the end of the
/// keyspace. A hashed keyspace can only be deleted as a whole, from the empty key to `NULL`.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_delete_range(
    keyspace: Option<&AlluviumKeyspace>,
    start: *const u8,
    start_length: usize,
    end: *const u8,
    end_length: usize,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (start, end) = unsafe { (bytes(start, start_length)?, optional_bytes(end, end_length)?) };
        Ok(given(keyspace)?.inner()?.delete_range(start, end)?)
    })
}

/// Merges an operand into the value of a key, with the merge operator of the keyspace.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_merge(
    keyspace: Option<&AlluviumKeyspace>,
    key: *const u8,
    key_length: usize,
    operand: *const u8,
    operand_length: usize,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (key, operand) = unsafe { (bytes(key, key_length)?, bytes(operand, operand_length)?) };
        Ok(given(keyspace)?.inner()?.merge(key, operand)?)
    })
}

/// Sets a key to `new_value` if its value is `expected`, and writes 1 to `is_set`, or else 0.
/// `NULL` stands for an absent key.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_compare_and_set(
    keyspace: Option<&AlluviumKeyspace>,
    key: *const u8,
    key_length: usize,
    expected: *const u8,
    expected_length: usize,
    new_value: *const u8,
    new_length: usize,
    is_set: *mut i32,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (place, key) = unsafe { (ResultPlace::new(is_set, 0)?, bytes(key, key_length)?) };
        // SAFETY: B1.
        let (expected, new) = unsafe {
            (
                optional_bytes(expected, expected_length)?,
                optional_bytes(new_value, new_length)?,
            )
        };
        let keyspace = given(keyspace)?.inner()?;
        place.set(i32::from(keyspace.compare_and_set(key, expected, new)?));
        Ok(())
    })
}
