//! Options of a store, with the operators and filters that a program registers.

use crate::boundary::{ResultPlace, call, free, given, optional_text, owned, text};
use crate::callbacks::{AlluviumCompactionFilter, AlluviumMergeOperator, FilterCallback, OperatorCallback};
use crate::error::AlluviumError;
use alluvium::Options;
use alluvium_handles::{HandleError, Result};
use parking_lot::Mutex;
use std::ffi::c_char;
use std::ptr;
use std::sync::Arc;

/// Options for opening a store.
pub struct AlluviumOptions {
    options: Mutex<Options>,
}

impl AlluviumOptions {
    pub(crate) fn get(&self) -> Options {
        self.options.lock().clone()
    }

    fn change(&self, change: impl FnOnce(Options) -> Options) {
        let mut options = self.options.lock();
        *options = change(std::mem::take(&mut options));
    }
}

/// Parses options from a text in the syntax of the command line.
pub(crate) fn parse(text: Option<&str>) -> Result<Options> {
    Ok(text.unwrap_or_default().parse::<Options>()?)
}

/// Creates options from a text in the syntax of the command line, such as "--memory 64M
/// --durability disk". `NULL` is the same as an empty text: every option has a default.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_options_create(
    options_text: *const c_char,
    options: *mut *mut AlluviumOptions,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (place, text) = unsafe {
            (
                ResultPlace::new(options, ptr::null_mut())?,
                optional_text(options_text)?,
            )
        };
        let options = parse(text)?;
        place.set(owned(AlluviumOptions {
            options: Mutex::new(options),
        }));
        Ok(())
    })
}

/// Registers a merge operator, to which keyspaces refer by its name. If a keyspace uses it, the
/// store cannot be opened without it. The library owns the context from now on, also after an
/// error, and frees it with the operator's `free`.
///
/// # Safety
/// B1; the functions of the operator can be called from any thread, also at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_options_merge_operator(
    options: Option<&AlluviumOptions>,
    name: *const c_char,
    merge_operator: Option<&AlluviumMergeOperator>,
) -> *mut AlluviumError {
    call(|| {
        let operator = given(merge_operator)?;
        let is_commutative = operator.is_commutative != 0;
        let operator = OperatorCallback::new(operator);
        // SAFETY: B1.
        let name = unsafe { text(name) }?;
        let options = given(options)?;
        let operator = Arc::new(operator.named(name)?);
        options.change(|options| match is_commutative {
            true => options.register_commutative_merge_operator(operator),
            false => options.register_merge_operator(operator),
        });
        Ok(())
    })
}

/// Registers a compaction filter, to which keyspaces refer by its name. If a keyspace uses it, the
/// store cannot be opened without it. The library owns the context from now on, also after an
/// error, and frees it with the filter's `free`.
///
/// # Safety
/// B1; the functions of the filter can be called from any thread, also at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_options_compaction_filter(
    options: Option<&AlluviumOptions>,
    name: *const c_char,
    filter: Option<&AlluviumCompactionFilter>,
) -> *mut AlluviumError {
    call(|| {
        let filter = FilterCallback::new(given(filter)?);
        // SAFETY: B1.
        let name = unsafe { text(name) }?;
        let options = given(options)?;
        let filter = Arc::new(filter.checked()?);
        options.change(|options| options.register_compaction_filter(name, filter));
        Ok(())
    })
}

/// Frees options. Stores that were opened with them are not affected. `NULL` is allowed.
///
/// # Safety
/// B1; the options are not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_options_free(options: *mut AlluviumOptions) {
    // SAFETY: B1.
    unsafe { free(options) };
}

/// Returns the error for a callback that is missing.
pub(crate) fn missing(what: &str) -> HandleError {
    HandleError::argument(format!("the function `{what}` is NULL: pass one"))
}
