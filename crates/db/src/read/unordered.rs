//! Iteration over all keys of a keyspace in unspecified order.

use crate::engine::{EngineCounter, StructureScan};
use crate::error::Result;
use crate::read::pin::SnapshotPin;
use crate::read::value::Value;
use crate::schema::format;
use crate::shared::OpenKeyspace;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use std::fmt;
use std::sync::Arc;

/// An iterator that returns each key of a keyspace once, with its value, as of the latest commit
/// that was visible when it was created. Hashed keyspaces are read in hash order, all others in key
/// order.
pub struct UnorderedScan {
    keyspace: OpenKeyspace,
    pinned: Arc<SnapshotPin>,
    scan: Option<StructureScan>,
    /// Tree key to start after, or `None` to start at the beginning.
    after: Option<Vec<u8>>,
    leaves_out_long_values: bool,
    is_over: bool,
}

impl fmt::Debug for UnorderedScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnorderedScan")
            .field("keyspace", &self.keyspace.definition.name())
            .finish_non_exhaustive()
    }
}

impl UnorderedScan {
    pub(crate) fn new(keyspace: &OpenKeyspace, pinned: Option<Arc<SnapshotPin>>) -> UnorderedScan {
        let pinned = pinned.unwrap_or_else(|| Arc::new(SnapshotPin::now(&keyspace.shared)));
        keyspace.shared.engine.counters.add([(EngineCounter::Scans, 1)]);
        UnorderedScan {
            keyspace: keyspace.clone(),
            pinned,
            scan: None,
            after: None,
            leaves_out_long_values: false,
            is_over: false,
        }
    }

    /// Makes the iterator start after `key`, the last key that an earlier iterator returned. Keys
    /// written since the earlier iterator was created may be missed.
    #[must_use]
    pub fn after(mut self, key: impl AsRef<[u8]>) -> UnorderedScan {
        let prefix = &self.keyspace.definition.prefix;
        self.after = Some(format::tree_key(prefix, key.as_ref()).to_vec());
        self.scan = None;
        self
    }

    /// Makes the iterator replace values longer than 1 KiB by empty ones, without reading values
    /// stored outside leaves. For scans that need only keys and short values.
    #[must_use]
    pub fn without_long_values(mut self) -> UnorderedScan {
        self.leaves_out_long_values = true;
        self.scan = None;
        self
    }

    fn step(&mut self) -> Result<Option<(Vec<u8>, Value)>> {
        let engine = &self.keyspace.shared.engine;
        let definition = &self.keyspace.definition;
        engine.is_open().and_then(|()| definition.alive())?;
        let scan = match &mut self.scan {
            Some(scan) => scan,
            none => {
                let (at, now_ms) = (self.pinned.sequence(), self.pinned.now_ms());
                let range = KeyRange::new(&definition.prefix, Some(&definition.end));
                let place = definition.dictionary();
                let mut scan = engine.scan_by_clock(place, range, MergeDirection::Forward, at, now_ms);
                if let Some(after) = &self.after {
                    scan.seek(after);
                }
                if self.leaves_out_long_values {
                    scan.leave_out_long_values();
                }
                none.insert(scan)
            }
        };
        loop {
            let Some((key, value)) = scan.next().map_err(|error| engine.catalog.named(error))? else {
                return Ok(None);
            };
            if self.after.take().is_some_and(|after| *after == *key) {
                continue;
            }
            engine.counters.add([(EngineCounter::Scanned, 1)]);
            let key = key[definition.prefix.len()..].to_vec();
            return Ok(Some((key, Value::new(value.to_vec().into()))));
        }
    }
}

impl Iterator for UnorderedScan {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.step().transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}
