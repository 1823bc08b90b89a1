//! Snapshots.

use crate::boundary::{ResultPlace, bytes, call, free, given, optional_text, owned, text};
use crate::error::AlluviumError;
use crate::keyspace::{AlluviumKeyspace, found};
use crate::store::AlluviumStore;
use crate::value::AlluviumValue;
use alluvium_handles::SnapshotHandle;
use std::ffi::c_char;
use std::ptr;

/// The store as of one moment.
pub struct AlluviumSnapshot {
    pub(crate) handle: SnapshotHandle,
}

/// Returns a snapshot of everything that was committed. With a `name`, the store keeps it until it
/// is removed, also when the store is closed.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_snapshot_create(
    store: Option<&AlluviumStore>,
    name: *const c_char,
    snapshot: *mut *mut AlluviumSnapshot,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (place, name) = unsafe { (ResultPlace::new(snapshot, ptr::null_mut())?, optional_text(name)?) };
        let store = &given(store)?.handle;
        let handle = match name {
            None => store.snapshot()?,
            Some(name) => store.create_snapshot(name)?,
        };
        place.set(owned(AlluviumSnapshot { handle }));
        Ok(())
    })
}

/// Opens a named snapshot.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_snapshot_open(
    store: Option<&AlluviumStore>,
    name: *const c_char,
    snapshot: *mut *mut AlluviumSnapshot,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (place, name) = unsafe { (ResultPlace::new(snapshot, ptr::null_mut())?, text(name)?) };
        let handle = given(store)?.handle.open_snapshot(name)?;
        place.set(owned(AlluviumSnapshot { handle }));
        Ok(())
    })
}

/// Removes a named snapshot. Handles to it stay valid.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_snapshot_remove(
    store: Option<&AlluviumStore>,
    name: *const c_char,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let name = unsafe { text(name) }?;
        Ok(given(store)?.db()?.remove_snapshot(name)?)
    })
}

/// Returns the value of a key as of a snapshot, or `NULL` if the key was absent.
///
/// # Safety
/// B1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_snapshot_get(
    snapshot: Option<&AlluviumSnapshot>,
    keyspace: Option<&AlluviumKeyspace>,
    key: *const u8,
    key_length: usize,
    value: *mut *mut AlluviumValue,
) -> *mut AlluviumError {
    call(|| {
        // SAFETY: B1.
        let (place, key) = unsafe { (ResultPlace::new(value, ptr::null_mut())?, bytes(key, key_length)?) };
        let snapshot = &given(snapshot)?.handle;
        place.set(found(snapshot.get(&given(keyspace)?.handle, key)?));
        Ok(())
    })
}

/// Frees the handle of a snapshot. `NULL` is allowed.
///
/// # Safety
/// B1; the handle is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alluvium_snapshot_free(snapshot: *mut AlluviumSnapshot) {
    // SAFETY: B1.
    unsafe { free(snapshot) };
}
