//! Merge operators and compaction filters that a program implements.
//!
//! The library may call them from any of its threads. They must not call functions of the library,
//! except `alluvium_buffer_append`, and no exception or `longjmp` may leave them.

use crate::boundary::bytes;
use crate::options::missing;
use alluvium::{BadOperand, CompactionFilter, FilterCandidate, FilterVerdict, MergeOperator};
use alluvium_handles::Result;
use std::ffi::c_void;
use std::fmt;

/// Bytes that a callback returns. It lives until the callback returns.
pub struct AlluviumBuffer {
    bytes: Vec<u8>,
}

/// Appends bytes to a buffer. Does nothing if a pointer is `NULL`.
///
/// # Safety
/// B1; the buffer is one of the running callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_buffer_append(
    buffer: Option<&mut AlluviumBuffer>,
    data: *const u8,
    length: usize,
) {
    // SAFETY: B1.
    if let (Some(buffer), Ok(data)) = (buffer, unsafe { bytes(data, length) }) {
        buffer.bytes.extend_from_slice(data);
    }
}

/// A merge operator: an associative function of two values.
#[repr(C)]
pub struct AlluviumMergeOperator {
    /// Passed to each function.
    pub context: *mut c_void,
    /// Appends `older` merged with `newer` to `result`.
    pub merge: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            older: *const u8,
            older_length: usize,
            newer: *const u8,
            newer_length: usize,
            result: *mut AlluviumBuffer,
        ),
    >,
    /// Returns 0 if the operator accepts these bytes as an operand and as a value. Otherwise the
    /// write of the operand fails, or the read of a value that has operands. `NULL` accepts all.
    pub check: Option<unsafe extern "C" fn(context: *mut c_void, bytes: *const u8, length: usize) -> i32>,
    /// Frees the context, once the last store with the operator is closed and freed. `NULL` does
    /// nothing.
    pub free: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// Not 0 if the result is the same in whichever order operands are merged. Transactions that
    /// merge into a key without reading it do not conflict then.
    pub is_commutative: i32,
}

/// Keeps the value.
pub const ALLUVIUM_FILTER_KEEP: i32 = 0;
/// Removes the key.
pub const ALLUVIUM_FILTER_REMOVE: i32 = 1;
/// Replaces the value by the bytes in the buffer.
pub const ALLUVIUM_FILTER_REPLACE: i32 = 2;

/// A compaction filter, which decides about the values that a compaction writes again.
#[repr(C)]
pub struct AlluviumCompactionFilter {
    /// Passed to each function.
    pub context: *mut c_void,
    /// Returns ALLUVIUM_FILTER_KEEP, ALLUVIUM_FILTER_REMOVE, or ALLUVIUM_FILTER_REPLACE after
    /// appending the new value to `replacement`. Times are in milliseconds since 1970; a value that
    /// never expires has 0.
    pub decide: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            key: *const u8,
            key_length: usize,
            value: *const u8,
            value_length: usize,
            expires_ms: u64,
            now_ms: u64,
            replacement: *mut AlluviumBuffer,
        ) -> i32,
    >,
    /// Frees the context, once the last store with the filter is closed and freed. `NULL` does
    /// nothing.
    pub free: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

/// A context of the caller, which is freed once.
struct CallbackContext {
    context: *mut c_void,
    free: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

// SAFETY: the caller promises that its functions can be called from any thread, also at the same
// time, and only they use the context.
unsafe impl Send for CallbackContext {}
// SAFETY: see above.
unsafe impl Sync for CallbackContext {}

impl Drop for CallbackContext {
    fn drop(&mut self) {
        if let Some(free) = self.free {
            // SAFETY: the context is the caller's, and is not used after this.
            unsafe { free(self.context) };
        }
    }
}

type MergeFunction =
    unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize, *mut AlluviumBuffer);
type CheckFunction = unsafe extern "C" fn(*mut c_void, *const u8, usize) -> i32;
type DecideFunction = unsafe extern "C" fn(
    *mut c_void,
    *const u8,
    usize,
    *const u8,
    usize,
    u64,
    u64,
    *mut AlluviumBuffer,
) -> i32;

/// A merge operator before it has a name.
pub(crate) struct OperatorCallback {
    context: CallbackContext,
    merge: Option<MergeFunction>,
    check: Option<CheckFunction>,
}

impl OperatorCallback {
    pub(crate) fn new(operator: &AlluviumMergeOperator) -> OperatorCallback {
        OperatorCallback {
            context: CallbackContext {
                context: operator.context,
                free: operator.free,
            },
            merge: operator.merge,
            check: operator.check,
        }
    }

    pub(crate) fn named(self, name: &str) -> Result<NamedOperator> {
        Ok(NamedOperator {
            name: name.to_owned(),
            merge: self.merge.ok_or_else(|| missing("merge"))?,
            check: self.check,
            context: self.context,
        })
    }
}

/// A merge operator of the caller.
pub(crate) struct NamedOperator {
    name: String,
    context: CallbackContext,
    merge: MergeFunction,
    check: Option<CheckFunction>,
}

impl fmt::Debug for NamedOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedOperator")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl MergeOperator for NamedOperator {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self, operand: &[u8]) -> std::result::Result<(), BadOperand> {
        let Some(check) = self.check else { return Ok(()) };
        // SAFETY: the function is the caller's, and the bytes live until it returns.
        match unsafe { check(self.context.context, operand.as_ptr(), operand.len()) } {
            0 => Ok(()),
            refusal => Err(BadOperand {
                operator: self.name.clone(),
                why: format!(
                    "its function `check` returned {refusal} for {} bytes",
                    operand.len()
                ),
            }),
        }
    }

    fn fold(&self, older: &mut Vec<u8>, newer: &[u8]) {
        let mut result = AlluviumBuffer { bytes: Vec::new() };
        // SAFETY: the function is the caller's, and what it gets lives until it returns.
        unsafe {
            (self.merge)(
                self.context.context,
                older.as_ptr(),
                older.len(),
                newer.as_ptr(),
                newer.len(),
                &raw mut result,
            );
        }
        *older = result.bytes;
    }
}

/// A compaction filter of the caller, whose function may be missing.
pub(crate) struct FilterCallback {
    context: CallbackContext,
    decide: Option<DecideFunction>,
}

impl FilterCallback {
    pub(crate) fn new(filter: &AlluviumCompactionFilter) -> FilterCallback {
        FilterCallback {
            context: CallbackContext {
                context: filter.context,
                free: filter.free,
            },
            decide: filter.decide,
        }
    }

    pub(crate) fn checked(self) -> Result<CheckedFilter> {
        Ok(CheckedFilter {
            decide: self.decide.ok_or_else(|| missing("decide"))?,
            context: self.context,
        })
    }
}

/// A compaction filter of the caller.
pub(crate) struct CheckedFilter {
    context: CallbackContext,
    decide: DecideFunction,
}

impl fmt::Debug for CheckedFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedFilter").finish_non_exhaustive()
    }
}

impl CompactionFilter for CheckedFilter {
    fn decide(&self, candidate: &FilterCandidate<'_>) -> FilterVerdict {
        let mut replacement = AlluviumBuffer { bytes: Vec::new() };
        let (key, value) = (candidate.key, candidate.value);
        // SAFETY: the function is the caller's, and what it gets lives until it returns.
        let verdict = unsafe {
            (self.decide)(
                self.context.context,
                key.as_ptr(),
                key.len(),
                value.as_ptr(),
                value.len(),
                candidate.expires_ms,
                candidate.now_ms,
                &raw mut replacement,
            )
        };
        match verdict {
            ALLUVIUM_FILTER_REMOVE => FilterVerdict::Remove,
            ALLUVIUM_FILTER_REPLACE => FilterVerdict::Replace(replacement.bytes),
            _ => FilterVerdict::Keep,
        }
    }
}
