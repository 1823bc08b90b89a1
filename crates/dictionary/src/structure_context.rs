//! What a store shares with each of its dictionaries.

use crate::horizon::GcHorizon;
use crate::rules::KeyspaceSchema;
use alluvium_device::{DeviceOperation, Error as DeviceError};
use alluvium_storage::store::Store;
use alluvium_storage::{Error, Result};
use std::sync::Arc;

/// What a store shares with each of its dictionaries.
#[derive(Clone, Debug)]
pub struct StructureContext {
    pub store: Arc<Store>,
    pub schema: Arc<dyn KeyspaceSchema>,
    /// The positions of readers and the current time, which determine the versions that may be
    /// dropped.
    pub horizon: Arc<GcHorizon>,
}

/// Returns the result of an operation that writes, and reports a failed write to the store, which
/// then accepts no further changes. A failed read has changed nothing, and the operation can be
/// retried.
///
/// # Errors
/// The error in `result`.
pub fn poison_on_error<T>(store: &Store, result: Result<T>) -> Result<T> {
    match result {
        Err(Error::Device(DeviceError::Io {
            operation: DeviceOperation::Read,
            ..
        })) => result,
        result => store.poison_on_error(result),
    }
}
