//! Context that a store passes to its dictionaries.

use crate::horizon::GcHorizon;
use crate::rules::KeyspaceSchema;
use alluvium_device::{DeviceOperation, Error as DeviceError};
use alluvium_storage::store::Store;
use alluvium_storage::{Error, Result};
use std::sync::Arc;

/// Context that a store passes to its dictionaries.
#[derive(Clone, Debug)]
pub struct StructureContext {
    pub store: Arc<Store>,
    pub schema: Arc<dyn KeyspaceSchema>,
    /// Readers and time that determine which versions may be dropped.
    pub horizon: Arc<GcHorizon>,
}

/// Passes on the result of an operation that writes. A failed write is reported to the store, which
/// accepts no changes afterwards. A failed read has changed nothing, and the operation can be
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
