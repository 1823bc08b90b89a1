//! The state of a lookup: the wanted key and the values found.

use super::TableRecord;
use crate::blocks::{BlockSpace, Result};
use alluvium_filters::fingerprint::WideFingerprint;

/// The records of a key, the newest first.
pub(crate) struct KeyLookup<'k> {
    pub(crate) key: &'k [u8],
    pub(crate) fingerprint: WideFingerprint,
    /// Whether all records of the key are wanted, or only the newest.
    all: bool,
    /// The values found; `None` for a record that deletes the key.
    pub(crate) found: Vec<Option<Vec<u8>>>,
}

impl<'k> KeyLookup<'k> {
    pub(crate) fn new(key: &'k [u8], fingerprint: WideFingerprint, all: bool) -> KeyLookup<'k> {
        KeyLookup {
            key,
            fingerprint,
            all,
            found: Vec::new(),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        !self.all && !self.found.is_empty()
    }

    /// Searches records in memory, of which the last is the newest.
    ///
    /// # Errors
    /// When a record stored outside its run cannot be read.
    pub(crate) fn search_buffer(&mut self, buffer: &[TableRecord], space: &dyn BlockSpace) -> Result<()> {
        for entry in buffer.iter().rev() {
            if self.is_done() {
                break;
            }
            if entry.fingerprint == self.fingerprint {
                self.found.extend(entry.value_of(self.key, space)?);
            }
        }
        Ok(())
    }
}
