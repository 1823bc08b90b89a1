//! The writes of a set. Until something reads them, they are stored as a list in write order, and
//! as a map by key from then on.
//!
//! Most write-only transactions never read their own writes. The list encodes puts and deletes like
//! a commit record, so the commit uses it without conversion. Measured: a transaction of 100 puts
//! takes 1.14 times the instructions of a batch with the list, and took 1.69 times with a map.

use super::map::WriteMap;
use super::write::KeyWrite;
use crate::engine::CommitRecord;
use crate::locking::ranges::InlineKey;
use crate::schema::format;
use alluvium_base::MessageKind;
use std::sync::{Arc, OnceLock};

/// The writes of a set.
#[derive(Clone, Debug)]
pub(super) struct WriteBuffer {
    /// Length of the keyspace prefix of tree keys, in bytes.
    prefix: usize,
    /// Puts and deletes in write order. No write is appended after the map has been built. The next
    /// change of the map frees the list.
    listed: CommitRecord<'static>,
    by_key: OnceLock<WriteMap>,
}

impl WriteBuffer {
    /// Returns an empty buffer for a keyspace whose tree keys have a prefix of `prefix` bytes.
    pub(super) fn new(prefix: usize) -> WriteBuffer {
        WriteBuffer {
            prefix,
            listed: CommitRecord::default(),
            by_key: OnceLock::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_key
            .get()
            .map_or(self.listed.count == 0, WriteMap::is_empty)
    }

    /// Returns a buffer with the same writes, which shares memory with this one.
    pub(super) fn view(&self) -> WriteBuffer {
        WriteBuffer {
            prefix: self.prefix,
            listed: CommitRecord::default(),
            by_key: OnceLock::from(self.by_key().clone()),
        }
    }

    /// Returns the writes in write order, or `None` if the map has been built.
    pub(super) fn listed(&self) -> Option<&CommitRecord<'static>> {
        self.by_key.get().is_none().then_some(&self.listed)
    }

    /// Appends a put to the list, or a delete if `value` is `None`. Returns the memory of the write
    /// in bytes. If the map has been built, appends nothing and returns `None`.
    pub(super) fn list(
        &mut self,
        prefix: &[u8],
        key: &[u8],
        value: Option<&[u8]>,
        expires_ms: u64,
    ) -> Option<usize> {
        if self.by_key.get().is_some() {
            return None;
        }
        debug_assert_eq!(prefix.len(), self.prefix, "all keys are of one keyspace");
        let kind = if value.is_some() {
            MessageKind::Put
        } else {
            MessageKind::Delete
        };
        let value = value.unwrap_or_default();
        self.listed.add(prefix, key, kind, expires_ms, value);
        Some(KeyWrite::PER_WRITE + key.len() + value.len())
    }

    /// Returns the map of each key's latest write, building it if necessary.
    pub(super) fn by_key(&self) -> &WriteMap {
        self.by_key.get_or_init(|| {
            let mut by_key = WriteMap::default();
            self.visit(|key, value, expires_ms| {
                let write = Arc::new(KeyWrite::of(value, expires_ms));
                by_key.insert(InlineKey::from_slice(key), write);
            });
            by_key
        })
    }

    /// Returns the map of each key's latest write for changing it. If this converts the list to the
    /// map, sets `memory` to the memory of the writes in bytes, which decreases if the list
    /// contained overwritten writes.
    pub(super) fn by_key_mut(&mut self, memory: &mut usize) -> &mut WriteMap {
        self.by_key();
        let by_key = self.by_key.get_mut().expect("it was made just now");
        if self.listed.count > 0 {
            self.listed = CommitRecord::default();
            *memory = by_key.iter().map(|(key, write)| write.taken(key)).sum();
        }
        by_key
    }

    /// Calls `visit` with each written key, possibly more than once.
    pub(super) fn visit_keys(&self, mut visit: impl FnMut(&[u8])) {
        match self.by_key.get() {
            Some(by_key) => by_key.iter().for_each(|(key, _)| visit(key)),
            None => self.visit(|key, _, _| visit(key)),
        }
    }

    /// Calls `visit` with each written key, and with whether the key's value in the store is only
    /// merged into. May call it more than once for a key.
    pub(super) fn visit_writes(&self, mut visit: impl FnMut(&[u8], bool)) {
        match self.by_key.get() {
            Some(by_key) => by_key
                .iter()
                .for_each(|(key, write)| visit(key, write.only_merges())),
            None => self.visit(|key, _, _| visit(key, false)),
        }
    }

    /// Calls `visit` for each write in the list, in write order, with the key, the value (`None`
    /// for a delete) and the expiry time.
    fn visit(&self, mut visit: impl FnMut(&[u8], Option<&[u8]>, u64)) {
        for write in self.listed.writes() {
            let format::LogWrite::One {
                key,
                kind,
                expires_ms,
                operand,
            } = write.expect("it was encoded here")
            else {
                unreachable!("only puts and deletes are listed");
            };
            visit(
                &key[self.prefix..],
                (kind == MessageKind::Put).then_some(operand),
                expires_ms,
            );
        }
    }
}
