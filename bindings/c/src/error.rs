//! Errors.

use crate::boundary::free;
use alluvium_handles::{HandleError, HandleErrorKind};
use std::ffi::{CString, c_char};

/// An error. Functions that can fail return one, or `NULL` if they have succeeded.
pub struct AlluviumError {
    kind: u32,
    text: CString,
}

impl AlluviumError {
    pub(crate) fn new(error: &HandleError) -> AlluviumError {
        let text = error.to_string().replace('\0', "\\x00");
        AlluviumError {
            kind: error.kind().number(),
            text: CString::new(text).unwrap_or_default(),
        }
    }
}

/// The store is open in another process or through another handle.
pub const ALLUVIUM_LOCKED: u32 = 1;
/// The directory contains no store, or it contains other files.
pub const ALLUVIUM_NOT_A_STORE: u32 = 2;
/// A store, keyspace, snapshot or file with this name already exists.
pub const ALLUVIUM_ALREADY_EXISTS: u32 = 3;
/// The path, keyspace or snapshot does not exist.
pub const ALLUVIUM_NOT_FOUND: u32 = 4;
/// A newer version of Alluvium wrote the store or one of its keyspaces.
pub const ALLUVIUM_NEWER_VERSION: u32 = 5;
/// An earlier version wrote the store, in a format that is no longer supported.
pub const ALLUVIUM_OLDER_VERSION: u32 = 6;
/// Stored data is damaged.
pub const ALLUVIUM_CORRUPT: u32 = 7;
/// The disk is full, or the size limit is reached. Reads and deletes still work.
pub const ALLUVIUM_FULL: u32 = 8;
/// The process or the machine is out of file descriptors, memory or another resource.
pub const ALLUVIUM_EXHAUSTED: u32 = 9;
/// The store was opened for reading only, or its file system is mounted read-only.
pub const ALLUVIUM_READ_ONLY: u32 = 10;
/// The operating system denies access to the files.
pub const ALLUVIUM_PERMISSION_DENIED: u32 = 11;
/// The device or the operating system reported an error.
pub const ALLUVIUM_IO: u32 = 12;
/// The store rejects writes after an earlier failure: close it and open it again.
pub const ALLUVIUM_POISONED: u32 = 13;
/// The store was closed.
pub const ALLUVIUM_CLOSED: u32 = 14;
/// The keyspace was dropped.
pub const ALLUVIUM_DROPPED: u32 = 15;
/// An argument or an option is out of bounds or incompatible with the store.
pub const ALLUVIUM_INVALID_ARGUMENT: u32 = 16;
/// A stored value cannot be combined with the operands that were merged into it.
pub const ALLUVIUM_BAD_VALUE: u32 = 17;
/// The log no longer has the commits, or the transaction has no such savepoint.
pub const ALLUVIUM_GONE: u32 = 18;
/// Another commit changed data that the transaction depends on: run it again.
pub const ALLUVIUM_CONFLICT: u32 = 19;
/// The transaction was aborted to resolve a deadlock: run it again.
pub const ALLUVIUM_DEADLOCK: u32 = 20;
/// Waiting for a lock took too long, or the transaction exceeded its age limit.
pub const ALLUVIUM_TIMED_OUT: u32 = 21;
/// The transaction was committed, rolled back or aborted earlier.
pub const ALLUVIUM_ENDED: u32 = 22;
/// A limit on the size of a transaction is reached.
pub const ALLUVIUM_LIMIT_REACHED: u32 = 23;
/// The store cannot be closed, because iterators, snapshots, transactions or ingests live.
pub const ALLUVIUM_IN_USE: u32 = 24;
/// The library has a defect, which has ended the call.
pub const ALLUVIUM_PANICKED: u32 = 25;

/// Returns the kind of an error, one of the constants above. The kind of `NULL` is 0. Kinds that
/// later versions add have numbers that are not listed here.
#[unsafe(no_mangle)]
pub extern "C" fn alluvium_error_kind(error: Option<&AlluviumError>) -> u32 {
    error.map_or(0, |error| error.kind)
}

/// Returns the name of a kind, such as "not_found". It lives as long as the library.
#[unsafe(no_mangle)]
pub extern "C" fn alluvium_error_kind_name(kind: u32) -> *const c_char {
    let name = match HandleErrorKind::numbered(kind) {
        Some(kind) => c_name(kind),
        None if kind == 0 => c"ok",
        None => c"other",
    };
    name.as_ptr()
}

/// Returns what was wrong, where, and what to do. The text lives as long as the error.
#[unsafe(no_mangle)]
pub extern "C" fn alluvium_error_text(error: Option<&AlluviumError>) -> *const c_char {
    error.map_or(c"", |error| &error.text).as_ptr()
}

/// Frees an error. `NULL` is allowed.
///
/// # Safety
/// B1; the error is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_error_free(error: *mut AlluviumError) {
    // SAFETY: B1.
    unsafe { free(error) };
}

fn c_name(kind: HandleErrorKind) -> &'static std::ffi::CStr {
    const NAMES: [&std::ffi::CStr; 25] = [
        c"locked",
        c"not_a_store",
        c"already_exists",
        c"not_found",
        c"newer_version",
        c"older_version",
        c"corrupt",
        c"full",
        c"exhausted",
        c"read_only",
        c"permission_denied",
        c"io",
        c"poisoned",
        c"closed",
        c"dropped",
        c"invalid_argument",
        c"bad_value",
        c"gone",
        c"conflict",
        c"deadlock",
        c"timed_out",
        c"ended",
        c"limit_reached",
        c"in_use",
        c"panicked",
    ];
    let index = kind.number() as usize;
    index
        .checked_sub(1)
        .and_then(|index| NAMES.get(index))
        .copied()
        .unwrap_or(c"other")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_numbers_and_names_of_the_handles() {
        let constants = [
            ALLUVIUM_LOCKED,
            ALLUVIUM_NOT_A_STORE,
            ALLUVIUM_ALREADY_EXISTS,
            ALLUVIUM_NOT_FOUND,
            ALLUVIUM_NEWER_VERSION,
            ALLUVIUM_OLDER_VERSION,
            ALLUVIUM_CORRUPT,
            ALLUVIUM_FULL,
            ALLUVIUM_EXHAUSTED,
            ALLUVIUM_READ_ONLY,
            ALLUVIUM_PERMISSION_DENIED,
            ALLUVIUM_IO,
            ALLUVIUM_POISONED,
            ALLUVIUM_CLOSED,
            ALLUVIUM_DROPPED,
            ALLUVIUM_INVALID_ARGUMENT,
            ALLUVIUM_BAD_VALUE,
            ALLUVIUM_GONE,
            ALLUVIUM_CONFLICT,
            ALLUVIUM_DEADLOCK,
            ALLUVIUM_TIMED_OUT,
            ALLUVIUM_ENDED,
            ALLUVIUM_LIMIT_REACHED,
            ALLUVIUM_IN_USE,
            ALLUVIUM_PANICKED,
        ];
        assert_eq!(HandleErrorKind::all().count(), constants.len());
        for (kind, constant) in HandleErrorKind::all().zip(constants) {
            assert_eq!(kind.number(), constant);
            assert_eq!(c_name(kind).to_str(), Ok(kind.name()));
        }
    }

    #[test]
    fn a_text_with_zero_bytes_is_whole() {
        let error = HandleError::argument("the key \"a\0b\" is wrong");
        let error = AlluviumError::new(&error);
        assert_eq!(error.text.to_str(), Ok("the key \"a\\x00b\" is wrong"));
    }
}
