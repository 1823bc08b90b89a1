//! What crosses the boundary: panics, pointers, lengths and texts.

use crate::error::AlluviumError;
use alluvium_handles::{HandleError, Result};
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// Runs the body of a function. Returns its error, or `NULL` (B2).
pub(crate) fn call(body: impl FnOnce() -> Result<()>) -> *mut AlluviumError {
    let ended = catch_unwind(AssertUnwindSafe(body));
    let error = match ended {
        Ok(Ok(())) => return ptr::null_mut(),
        Ok(Err(error)) => error,
        Err(payload) => HandleError::panicked(&*payload),
    };
    owned(AlluviumError::new(&error))
}

/// Passes a handle to the caller (B3).
pub(crate) fn owned<T>(handle: T) -> *mut T {
    Box::into_raw(Box::new(handle))
}

/// Frees a handle, unless it is `NULL`. A panic of its end is dropped.
///
/// # Safety
/// The handle is one that [`owned`] has returned, and is not used afterwards.
pub(crate) unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: the promise of this function.
        let handle = unsafe { Box::from_raw(handle) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(handle)));
    }
}

/// Returns a handle, unless it is `NULL`.
pub(crate) fn given<T>(handle: Option<&T>) -> Result<&T> {
    handle.ok_or_else(|| HandleError::argument("a handle is NULL: pass one that the library has returned"))
}

/// Returns the bytes at a pointer. `NULL` stands for no bytes if the length is zero.
///
/// # Safety
/// There are `length` bytes at a pointer that is not `NULL`, for as long as the result lives.
pub(crate) unsafe fn bytes<'a>(data: *const u8, length: usize) -> Result<&'a [u8]> {
    match (data.is_null(), length) {
        (true, 0) => Ok(&[]),
        (true, _) => Err(HandleError::argument(format!(
            "the pointer to {length} bytes is NULL: pass the bytes, or the length zero"
        ))),
        (false, _) if isize::try_from(length).is_err() => Err(HandleError::argument(format!(
            "a length of {length} bytes is impossible: pass the length of the bytes"
        ))),
        // SAFETY: the promise of this function.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(data, length) }),
    }
}

/// Returns the bytes at a pointer, or `None` for `NULL`.
///
/// # Safety
/// That of [`bytes`].
pub(crate) unsafe fn optional_bytes<'a>(data: *const u8, length: usize) -> Result<Option<&'a [u8]>> {
    match data.is_null() {
        true => Ok(None),
        // SAFETY: the promise of this function.
        false => unsafe { bytes(data, length) }.map(Some),
    }
}

/// Returns the text at a pointer, or `None` for `NULL`.
///
/// # Safety
/// A text that is not `NULL` ends with a zero byte, and lives as long as the result.
pub(crate) unsafe fn optional_text<'a>(text: *const c_char) -> Result<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the promise of this function.
    let text = unsafe { CStr::from_ptr(text) };
    let text = text.to_str().map_err(|_| {
        HandleError::argument(format!(
            "\"{}\" is not UTF-8 text",
            text.to_bytes().escape_ascii()
        ))
    });
    text.map(Some)
}

/// Returns the text at a pointer.
///
/// # Safety
/// That of [`optional_text`].
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<&'a str> {
    // SAFETY: the promise of this function.
    let text = unsafe { optional_text(text) }?;
    text.ok_or_else(|| HandleError::argument("a text is NULL: pass a text that ends with a zero byte"))
}

/// A place for a result of the caller.
pub(crate) struct ResultPlace<T>(*mut T);

impl<T> ResultPlace<T> {
    /// Takes a place, and writes `empty` to it, so that it has a value after an error.
    ///
    /// # Safety
    /// A value can be written to a pointer that is not `NULL` until the result is dropped.
    pub(crate) unsafe fn new(place: *mut T, empty: T) -> Result<ResultPlace<T>> {
        if place.is_null() {
            return Err(HandleError::argument(
                "the pointer to the result is NULL: pass a pointer to a variable",
            ));
        }
        // SAFETY: the promise of this function.
        unsafe { place.write(empty) };
        Ok(ResultPlace(place))
    }

    pub(crate) fn set(self, value: T) {
        // SAFETY: the promise of `new`.
        unsafe { self.0.write(value) };
    }
}
