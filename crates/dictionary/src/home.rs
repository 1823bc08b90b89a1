//! Context that a store passes to its dictionaries.

use crate::horizon::Horizon;
use crate::rules::Schema;
use alluvium_device::{Error as DeviceError, Operation};
use alluvium_storage::store::Store;
use alluvium_storage::{Error, Result};
use std::sync::Arc;

/// Context that a store passes to its dictionaries.
#[derive(Clone, Debug)]
pub struct Home {
    /// The store.
    pub store: Arc<Store>,
    /// Rules of each keyspace.
    pub schema: Arc<dyn Schema>,
    /// Readers and time that determine which versions may be dropped.
    pub horizon: Arc<Horizon>,
}

/// Passes on the result of an operation that writes. A failed write is reported to the store, which
/// accepts no changes afterwards. A failed read has changed nothing, and the operation can be
/// retried.
///
/// # Errors
/// The error in `result`.
pub fn judge<T>(store: &Store, result: Result<T>) -> Result<T> {
    match result {
        Err(Error::Device(DeviceError::Io {
            operation: Operation::Read,
            ..
        })) => result,
        result => store.judge(result),
    }
}
