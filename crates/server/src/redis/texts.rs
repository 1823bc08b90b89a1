//! Strings of keys as commands see and change them, wherever they are kept.

use super::strings;
use crate::error::Failure;
use crate::model::{Entry, Text};
use crate::store::{Store, Transaction, Working};

/// Strings that commands read and write. Keys may hold something else, too.
pub(crate) trait Texts {
    /// Where memory for a change comes from.
    type From;
    /// Memory that is taken for a change.
    type Memory;

    /// Returns the time of all that is done, in milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Returns how many values are read at once, at most.
    fn at_once(&self) -> usize;

    /// Returns what a key holds.
    fn entry(&mut self, key: &[u8]) -> Result<Option<Entry<'_>>, Failure>;

    /// Returns the string that a key holds.
    fn text(&mut self, key: &[u8]) -> Result<Option<Text<'_>>, Failure>;

    /// Reads what several keys hold at once, unless that was done.
    fn fetch_records<'a>(&mut self, keys: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<(), Failure>;

    /// Reads what keys hold at once, in place of all that was read before.
    fn fetch_these<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]>) -> Result<(), Failure>;

    /// The key holds this string and nothing else.
    fn set_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) -> Result<(), Failure>;

    /// The same for a key that holds a string or nothing.
    fn overwrite_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) -> Result<(), Failure>;

    /// Deletes a key. Returns whether it was there.
    fn remove(&mut self, key: &[u8]) -> Result<bool, Failure>;

    /// The key is gone at `expires_ms`, or never if that is 0. Returns whether it is there.
    fn expire(&mut self, key: &[u8], expires_ms: u64) -> Result<bool, Failure>;

    /// Returns where memory comes from.
    fn memory(&self) -> Self::From;

    /// Takes memory for a string that becomes so long.
    fn room_to_grow(from: Self::From, bytes: usize) -> Result<Self::Memory, Failure>;
}

impl<'s> Texts for Transaction<'s> {
    type From = &'s Store;
    type Memory = Working<'s>;

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn at_once(&self) -> usize {
        strings::AT_ONCE.min(self.store.sizes.most())
    }

    fn entry(&mut self, key: &[u8]) -> Result<Option<Entry<'_>>, Failure> {
        self.entry(key)
    }

    fn text(&mut self, key: &[u8]) -> Result<Option<Text<'_>>, Failure> {
        self.text(key)
    }

    fn fetch_records<'a>(&mut self, keys: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<(), Failure> {
        self.fetch_records(keys)
    }

    fn fetch_these<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]>) -> Result<(), Failure> {
        self.fetch_these(keys)
    }

    fn set_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) -> Result<(), Failure> {
        self.set_text(key, parts, expires_ms)
    }

    fn overwrite_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) -> Result<(), Failure> {
        self.overwrite_text(key, parts, expires_ms);
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, Failure> {
        self.remove(key)
    }

    fn expire(&mut self, key: &[u8], expires_ms: u64) -> Result<bool, Failure> {
        self.expire(key, expires_ms)
    }

    fn memory(&self) -> &'s Store {
        self.store
    }

    fn room_to_grow(from: &'s Store, bytes: usize) -> Result<Working<'s>, Failure> {
        strings::room_to_grow(from, bytes)
    }
}
