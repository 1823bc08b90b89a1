//! What the owner of a store hands to its dictionaries.

use crate::horizon::Horizon;
use crate::rules::Schema;
use alluvium_device::{Error as DeviceError, Operation};
use alluvium_storage::store::Store;
use alluvium_storage::{Error, Result};
use std::sync::Arc;

/// What the owner of a store hands to its dictionaries.
#[derive(Clone, Debug)]
pub struct Home {
    /// The store.
    pub store: Arc<Store>,
    /// How the records of each keyspace are kept.
    pub schema: Arc<dyn Schema>,
    /// What may be forgotten.
    pub horizon: Arc<Horizon>,
}

/// Passes the result of something that writes on, and shows a failed write to the store, which
/// takes no changes from then on. A failed read has changed nothing: whatever needed it is due
/// again.
///
/// # Errors
/// That of `result`.
pub fn judge<T>(store: &Store, result: Result<T>) -> Result<T> {
    match result {
        Err(Error::Device(DeviceError::Io {
            operation: Operation::Read,
            ..
        })) => result,
        result => store.judge(result),
    }
}
