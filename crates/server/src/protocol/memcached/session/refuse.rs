//! Rejects requests that are invalid, too long, or have waited too long for memory.

use super::super::items::{ItemAccess, StoredItems};
use super::super::request::MemcachedRequest;
use super::super::run;
use super::super::text::TOO_LARGE;
use super::MemcachedSession;
use crate::error::CommandError;
use crate::store::KeyLockRequest;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl MemcachedSession {
    /// Handles a request that has waited too long for memory: rejects it if it reads items,
    /// otherwise executes it.
    pub(super) fn refuse_to_read(&mut self, request: &MemcachedRequest<'_>, output: &mut Vec<u8>) {
        let mut reads = false;
        run::accesses(request, false, |_, access| {
            reads |= access != ItemAccess::Overwrites;
        });
        if !reads {
            self.run_one_by_one(std::slice::from_ref(request), output);
            return;
        }
        let counters = &self.shared.counters;
        counters.memory_refusals.fetch_add(1, Ordering::Relaxed);
        let bytes = self.shared.store.sizes.at_worst(1);
        self.refuse(&CommandError::NoRoom { bytes }, request, output);
    }

    /// Replies to an unparsable request with an error.
    pub(super) fn refuse_unread(&self, error: &[u8], output: &mut Vec<u8>) {
        self.shared.counters.errors.fetch_add(1, Ordering::Relaxed);
        output.extend_from_slice(error);
        output.extend_from_slice(b"\r\n");
    }

    /// Rejects an oversized item, and deletes the item that it was meant to replace.
    pub(super) fn refuse_too_large(&mut self, request: &MemcachedRequest<'_>, output: &mut Vec<u8>) {
        let outdated = match run::outdated(request) {
            Some(key) => self.permit_items(request).and_then(|()| self.delete(&key)),
            None => Ok(()),
        };
        let failure = outdated.err().unwrap_or(CommandError::say(TOO_LARGE));
        self.refuse(&failure, request, output);
    }

    /// Deletes an item without reading it.
    pub(super) fn delete(&mut self, key: &[u8]) -> Result<(), CommandError> {
        let shared = Arc::clone(&self.shared);
        let mut wanted = KeyLockRequest::default();
        StoredItems::lock(&mut wanted, key, ItemAccess::Overwrites);
        let _held = shared.store.locks.lock(wanted);
        let mut items = StoredItems::new(&shared.store, false, true);
        items.delete(key)?;
        self.commit(&mut items)
    }
}
