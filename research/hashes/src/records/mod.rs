//! Records of a hash table: a fingerprint, a key, and a value or a delete marker.
//!
//! *Scope*: how a record is compared and encoded, and that a long body is stored outside its run.
//!
//! *Must not depend on*: runs, logs, levels.

mod format;
mod key_lookup;

pub(crate) use format::{RecordSource, SliceSource, decode, entry_bytes};
pub(crate) use key_lookup::KeyLookup;

use crate::blocks::{BlockExtent, BlockSpace, Error, Result};
use alluvium_filters::fingerprint::WideFingerprint;

/// A record as stored in runs and logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableRecord {
    pub(crate) fingerprint: WideFingerprint,
    pub(crate) tombstone: bool,
    /// The previous run that contains the prefix; the run's own index if there is none.
    pub(crate) previous: u8,
    pub(crate) body: RecordBody,
}

/// The key and value of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordBody {
    /// Stored inline: the key's length, the key, the value.
    Here(Vec<u8>),
    /// Stored in a separate extent with the same contents.
    Outside(BlockExtent),
}

/// The maximum length of a key or a value.
pub(crate) const MAX_BYTES: usize = 1 << 30;

impl TableRecord {
    /// Creates a record.
    ///
    /// # Errors
    /// When the key or the value is longer than a record supports.
    pub(crate) fn new(fingerprint: WideFingerprint, key: &[u8], value: Option<&[u8]>) -> Result<TableRecord> {
        let longest = key.len().max(value.map_or(0, <[u8]>::len));
        if longest > MAX_BYTES {
            return Err(Error::shape(
                format!("a key or value of {longest} bytes"),
                format!("at most {MAX_BYTES}"),
            ));
        }
        let body = RecordBody::Here(format::join(key, value.unwrap_or_default()));
        Ok(TableRecord {
            fingerprint,
            tombstone: value.is_none(),
            previous: 0,
            body,
        })
    }

    /// Returns the bytes of key and value, from either location.
    pub(crate) fn load<'e>(&'e self, space: &dyn BlockSpace, buffer: &'e mut Vec<u8>) -> Result<&'e [u8]> {
        match &self.body {
            RecordBody::Here(bytes) => Ok(bytes),
            RecordBody::Outside(extent) => {
                if extent.bytes > 2 * MAX_BYTES as u64 + 16 {
                    return Err(Error::damaged(
                        extent.at,
                        "length of a record",
                        "at most 2 GiB",
                        extent.bytes,
                    ));
                }
                buffer.resize(extent.bytes as usize, 0);
                space.read(extent.at, buffer)?;
                Ok(buffer)
            }
        }
    }

    /// If the record belongs to `key`, returns its value, or `None` for a delete.
    pub(crate) fn value_of(&self, key: &[u8], space: &dyn BlockSpace) -> Result<Option<Option<Vec<u8>>>> {
        let mut buffer = Vec::new();
        let (found, value) = format::split(self.load(space, &mut buffer)?)?;
        Ok((found == key).then(|| (!self.tombstone).then(|| value.to_vec())))
    }

    /// Returns the key and the value; the value is `None` for a delete.
    pub(crate) fn load_pair(&self, space: &dyn BlockSpace) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
        let mut buffer = Vec::new();
        let (key, value) = format::split(self.load(space, &mut buffer)?)?;
        Ok((key.to_vec(), (!self.tombstone).then(|| value.to_vec())))
    }

    /// Moves a body of more than `most` bytes to a separate extent.
    pub(crate) fn write_out_of_line(&mut self, most: usize, space: &dyn BlockSpace) -> Result<()> {
        if let RecordBody::Here(bytes) = &self.body
            && bytes.len() > most
        {
            let extent = space.allocate(bytes.len() as u64)?;
            space.write(extent.at, bytes)?;
            self.body = RecordBody::Outside(extent);
        }
        Ok(())
    }
}
