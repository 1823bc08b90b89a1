//! Stores.

use crate::batch::AlluviumBatch;
use crate::boundary::{ResultPlace, call, free, given, optional_text, owned, text};
use crate::error::AlluviumError;
use crate::options::{AlluviumOptions, parse};
use crate::value::AlluviumValue;
use alluvium_handles::{
    ClosePolicy, Result, StoreHandle, check_json, keyspaces_json, repair_json, stats_json,
};
use std::ffi::c_char;
use std::path::Path;
use std::ptr;

/// An open store. All functions can be called from any thread, also at the same time.
pub struct AlluviumStore {
    pub(crate) handle: StoreHandle,
}

impl AlluviumStore {
    pub(crate) fn db(&self) -> Result<&alluvium::Db> {
        self.handle.db()
    }
}

/// Returns the version of the library. It lives as long as the library.
#[unsafe(no_mangle)]
pub extern "C" fn alluvium_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Opens the store in a directory, and creates one if there is none. A `path` of `NULL` opens an
/// empty store in memory. `options_text` has the syntax of the command line, such as "--memory 64M
/// --durability disk"; `NULL` is the same as an empty text.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_open(
    path: *const c_char,
    options_text: *const c_char,
    store: *mut *mut AlluviumStore,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (place, path, text) = unsafe {
            (
                ResultPlace::new(store, ptr::null_mut())?,
                optional_text(path)?,
                optional_text(options_text)?,
            )
        };
        let handle = StoreHandle::open(path.map(Path::new), &parse(text)?)?;
        place.set(owned(AlluviumStore { handle }));
        Ok(())
    })
}

/// Opens a store like `alluvium_open`, with options that have merge operators and compaction
/// filters.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_open_with(
    path: *const c_char,
    options: Option<&AlluviumOptions>,
    store: *mut *mut AlluviumStore,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (place, path) = unsafe { (ResultPlace::new(store, ptr::null_mut())?, optional_text(path)?) };
        let handle = StoreHandle::open(path.map(Path::new), &given(options)?.get())?;
        place.set(owned(AlluviumStore { handle }));
        Ok(())
    })
}

/// Closes the store. While iterators, snapshots, transactions or ingests of it live, it fails with
/// ALLUVIUM_IN_USE and their names, unless `force` is not 0. Handles that live on after a forced
/// close answer with ALLUVIUM_CLOSED. They and the store must be freed in any case.
#[unsafe(no_mangle)]
pub extern "C" fn alluvium_close(store: Option<&AlluviumStore>, force: i32) -> *mut AlluviumError {
    call(|| {
        let policy = match force {
            0 => ClosePolicy::WhenUnused,
            _ => ClosePolicy::Force,
        };
        given(store)?.handle.close(policy)
    })
}

/// Frees the handle of a store. A store that was not closed is closed when its last handle is
/// freed, whether that is a keyspace, an iterator, a snapshot or a transaction; then the caller
/// learns of no error. `NULL` is allowed.
///
/// # Safety
/// B1; the handle is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_store_free(store: *mut AlluviumStore) {
    // SAFETY: B1.
    unsafe { free(store) };
}

/// Writes a batch: all of it takes effect, or nothing. The batch can be changed and written again.
#[unsafe(no_mangle)]
pub extern "C" fn alluvium_write(
    store: Option<&AlluviumStore>,
    batch: Option<&AlluviumBatch>,
) -> *mut AlluviumError {
    call(|| {
        let (store, batch) = (given(store)?, given(batch)?);
        batch.with(|batch| store.handle.write(batch))
    })
}

/// Makes everything that was written survive a power failure.
#[unsafe(no_mangle)]
pub extern "C" fn alluvium_sync(store: Option<&AlluviumStore>) -> *mut AlluviumError {
    call(|| Ok(given(store)?.db()?.sync()?))
}

/// Writes everything that is in memory to its place on the disk, so that the log is short.
#[unsafe(no_mangle)]
pub extern "C" fn alluvium_checkpoint(store: Option<&AlluviumStore>) -> *mut AlluviumError {
    call(|| Ok(given(store)?.db()?.checkpoint()?))
}

/// Rewrites the store to free the space of deleted and replaced records.
#[unsafe(no_mangle)]
pub extern "C" fn alluvium_compact(store: Option<&AlluviumStore>) -> *mut AlluviumError {
    call(|| Ok(given(store)?.db()?.compact()?))
}

/// Reads the whole store. Returns a JSON object: "whole" is true if there is no damage; "findings"
/// lists the damage.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_check(
    store: Option<&AlluviumStore>,
    report: *mut *mut AlluviumValue,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let place = unsafe { ResultPlace::new(report, ptr::null_mut()) }?;
        let found = given(store)?.db()?.check_report(|_| ())?;
        place.set(owned(AlluviumValue::report(check_json(&found))));
        Ok(())
    })
}

/// Returns the statistics of the store: a JSON object of numbers.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_stats(
    store: Option<&AlluviumStore>,
    report: *mut *mut AlluviumValue,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let place = unsafe { ResultPlace::new(report, ptr::null_mut()) }?;
        let stats = given(store)?.db()?.stats();
        place.set(owned(AlluviumValue::report(stats_json(&stats))));
        Ok(())
    })
}

/// Returns the keyspaces of the store: a JSON array of objects with "name", "structure",
/// "compression", "value_threshold", "merge_operator" and "compaction_filter".
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_keyspaces(
    store: Option<&AlluviumStore>,
    report: *mut *mut AlluviumValue,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let place = unsafe { ResultPlace::new(report, ptr::null_mut()) }?;
        let found = keyspaces_json(given(store)?.db()?);
        place.set(owned(AlluviumValue::report(found)));
        Ok(())
    })
}

/// Copies the store into an empty directory, while it is used. The copy is a store that can be
/// opened.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_backup(
    store: Option<&AlluviumStore>,
    path: *const c_char,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let path = unsafe { text(path) }?;
        given(store)?.db()?.checkpoint_to(path)?;
        Ok(())
    })
}

/// Creates a store in an empty directory from a backup, and checks it. `options` is `NULL`, or has
/// the merge operators and compaction filters of the store.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_restore(
    from: *const c_char,
    to: *const c_char,
    options: Option<&AlluviumOptions>,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (from, to) = unsafe { (text(from)?, text(to)?) };
        let options = options.map(AlluviumOptions::get).unwrap_or_default();
        Ok(options.restore(from, to, |_| ())?)
    })
}

/// Repairs a damaged store that is not open, as far as possible. Returns a JSON object: "whole" is
/// true if nothing was lost; "done", "lost" and "left" list what was repaired, what is lost, and
/// what is still damaged.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_repair(
    path: *const c_char,
    options: Option<&AlluviumOptions>,
    report: *mut *mut AlluviumValue,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (place, path) = unsafe { (ResultPlace::new(report, ptr::null_mut())?, text(path)?) };
        let options = options.map(AlluviumOptions::get).unwrap_or_default();
        place.set(owned(AlluviumValue::report(repair_json(&options.repair(path)?))));
        Ok(())
    })
}
