//! Values that a caller holds until it frees them.

use crate::boundary::free;
use alluvium::Value;

/// The value of a key, or a report as JSON. It stays the same until it is freed, also when the key
/// is overwritten or the store is closed. A long value is not copied: it keeps a page of the cache.
pub struct AlluviumValue {
    content: ValueContent,
}

enum ValueContent {
    Record(Value),
    Report(String),
}

impl AlluviumValue {
    pub(crate) fn record(value: Value) -> AlluviumValue {
        AlluviumValue {
            content: ValueContent::Record(value),
        }
    }

    pub(crate) fn report(text: String) -> AlluviumValue {
        AlluviumValue {
            content: ValueContent::Report(text),
        }
    }
}

/// Returns the bytes of a value, and writes their number to `length`. They live as long as the
/// value. No zero byte follows them.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_value_data(value: Option<&AlluviumValue>, length: *mut usize) -> *const u8 {
    let bytes: &[u8] = match value.map(|value| &value.content) {
        None => &[],
        Some(ValueContent::Record(value)) => value,
        Some(ValueContent::Report(text)) => text.as_bytes(),
    };
    if !length.is_null() {
        // SAFETY: B1.
        unsafe { length.write(bytes.len()) };
    }
    bytes.as_ptr()
}

/// Frees a value. `NULL` is allowed.
///
/// # Safety
/// B1; the value and its bytes are not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_value_free(value: *mut AlluviumValue) {
    // SAFETY: B1.
    unsafe { free(value) };
}
