//! The combined effect of a set's writes on one key, detached from the set.

use super::write::KeyWrite;
use super::{WriteSet, bad_base};
use crate::error::Result;
use crate::keyspace::Keyspace;
use crate::locking::fault::{IsolationFault, is_planted};
use crate::read::value::Value;
use std::sync::Arc;

/// What a set's writes do to one key. It remains valid while the set changes. The default is that
/// of a set that does not affect the key.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyState {
    /// Whether a deleted range of the set covers the key, and no later write of the set affects it.
    is_deleted: bool,
    written: Option<Arc<KeyWrite>>,
}

impl KeyState {
    /// Returns whether the key's value depends on its value in the store.
    pub(crate) fn asks_store(&self) -> bool {
        match &self.written {
            Some(write) => write.asks_store(),
            None => !self.is_deleted || is_planted(IsolationFault::DeletedRangesAreRead),
        }
    }

    /// Returns the key's value after the writes, for a reader at time `now_ms`. Calls `read` for
    /// the value in the store only if the result depends on it.
    pub(crate) fn over(
        &self,
        (keyspace, now_ms): (&Keyspace, u64),
        key: &[u8],
        read: impl FnOnce() -> Result<Option<Value>>,
    ) -> Result<Option<Value>> {
        let Some(write) = &self.written else {
            return if self.asks_store() { read() } else { Ok(None) };
        };
        let base = match write.asks_store() && !is_planted(IsolationFault::MergesHideTheStore) {
            true => read()?,
            false => None,
        };
        let value = write.over(base, now_ms, keyspace.operator());
        value.map_err(|bad| bad_base(keyspace, key, bad))
    }

    /// Returns whether the set affects the key.
    pub(crate) fn is_touched(&self) -> bool {
        self.is_deleted || self.written.is_some()
    }

    /// Returns whether the set's writes to the key have not changed between two calls of
    /// [`WriteSet::state`] that returned `self` and `later`.
    pub(crate) fn is_same(&self, later: &KeyState) -> bool {
        let is_same = match (&self.written, &later.written) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        is_same && self.is_deleted == later.is_deleted
    }
}

impl WriteSet {
    /// Returns the effect of the set's writes on a key.
    pub(crate) fn state(&self, key: &[u8]) -> KeyState {
        let written = self.writes.by_key().get(key).cloned();
        KeyState {
            is_deleted: written.is_none() && self.hides(key),
            written,
        }
    }
}
